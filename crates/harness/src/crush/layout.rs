//! Crush's files: each project has a database in its folder of data, and one list names all projects.
//!
//! ```text
//! PROJECT/.crush/crush.db                  sessions and messages, with those of agents
//! ~/.local/share/crush/projects.json       each project, and its folder of data
//! ```

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::ROWS;
use crate::{
    Home, Place, Role, SessionFiles, Variables,
    harness::{folder_in, user_home},
};

/// The variable that moves the folder of the list.
const HOME_VARIABLE: &str = "CRUSH_GLOBAL_DATA";
/// The variable that moves the folder of all programs' data.
const DATA_VARIABLE: &str = "XDG_DATA_HOME";
/// The folder of data below the user's home otherwise.
const DATA_FOLDER: &str = ".local/share";
/// Its own folder in that.
const FOLDER: &str = "crush";
/// The list of projects.
const PROJECTS: &str = "projects.json";
/// The database of a project.
pub(super) const DATABASE: &str = "crush.db";
/// The folder of data in a project, unless its settings name another.
const IN_PROJECT: &str = ".crush";
/// Most bytes that are read of the list: some thousands of projects.
const MAX_LIST_BYTES: u64 = 1 << 20;

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProjectList {
    projects: Vec<Project>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Project {
    data_dir: PathBuf,
}

pub(super) fn home(variables: Variables<'_>) -> Home {
    if let Some(folder) = folder_in(variables, HOME_VARIABLE) {
        return Home { folder, variable: HOME_VARIABLE, is_chosen: true };
    }
    // All programs use the other variable: that it is set does not mean that this one has a folder.
    let data = folder_in(variables, DATA_VARIABLE).unwrap_or_else(|| user_home(variables).join(DATA_FOLDER));
    Home { folder: data.join(FOLDER), variable: HOME_VARIABLE, is_chosen: false }
}

/// Returns the folders of data of the projects in a list, the last used first: those that have a database.
pub(super) fn folders(home: &Path) -> Vec<PathBuf> {
    let mut text = Vec::new();
    let Ok(file) = File::open(home.join(PROJECTS)) else { return Vec::new() };
    if file.take(MAX_LIST_BYTES).read_to_end(&mut text).is_err() {
        return Vec::new();
    }
    let list: ProjectList = serde_json::from_slice(&text).unwrap_or_default();
    let named = list.projects.into_iter().map(|project| project.data_dir);
    named.filter(|folder| folder.is_absolute() && folder.join(DATABASE).is_file()).collect()
}

/// Whether a path is the database of a project.
pub(super) fn is_database(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == DATABASE)
}

/// Returns the session that a path inside a database names.
pub(super) fn session_of(path: &Path) -> Option<&str> {
    path.file_name()?.to_str().filter(|_| path.parent().is_some_and(is_database))
}

/// Returns the project whose database has this path.
pub(super) fn project_of(database: &str) -> Option<&str> {
    let folder = database.strip_suffix(DATABASE)?.strip_suffix(['/', '\\'])?;
    let project = folder.strip_suffix(IN_PROJECT)?.strip_suffix(['/', '\\'])?;
    (!project.is_empty()).then_some(project)
}

pub(super) fn place(session: &str) -> Place {
    Place {
        role: Role::Main,
        dialect: Some(ROWS),
        session: Some(session.to_owned()),
        agent: None,
        workflow: None,
    }
}

pub(super) fn files(main: &Path, session: &str) -> SessionFiles {
    SessionFiles {
        session: session.to_owned(),
        main: main.to_owned(),
        place: place(session),
        folders: Vec::new(),
        shared: Vec::new(),
    }
}
