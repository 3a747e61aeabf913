//! Where files of settings are looked for.

use std::path::{Path, PathBuf};

use super::origin::Owner;
use crate::{
    environment::Environment,
    error::{CliError, Kind},
};

/// The variable that moves the user's file.
pub(crate) const CONFIG_VARIABLE: &str = "SUBSCOPE_CONFIG";
/// The file in a project's folder.
const PROJECT_FILE: &str = ".subscope/config.toml";

/// A place where a file is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Whose file it is.
    pub(crate) owner: Owner,
    /// The file.
    pub(crate) path: PathBuf,
    /// What chose the place, where somebody did: then the file has to be there.
    pub(crate) chosen_by: Option<&'static str>,
}

/// All places, the weaker first.
#[derive(Debug)]
pub(crate) struct Places {
    all: Vec<Place>,
}

impl Places {
    /// Finds the places: the user's file is what `--config`, else `SUBSCOPE_CONFIG` names, else it stands in
    /// `XDG_CONFIG_HOME`, else in `~/.config` (also on macOS); the project's stands in the nearest folder above the
    /// working folder that has one.
    pub(crate) fn find(flag: Option<&Path>, environment: &Environment) -> Self {
        let place = |path, chosen_by| Place { owner: Owner::User, path, chosen_by };
        let chosen = flag.map(|path| place(path.to_owned(), Some("--config")));
        let chosen = chosen
            .or_else(|| environment.path(CONFIG_VARIABLE).map(|path| place(path, Some(CONFIG_VARIABLE))))
            .or_else(|| user_file(environment).map(|path| place(path, None)));
        // Empty where the working folder is gone: then no folder is above it.
        let above = environment.working_folder().ancestors().filter(|folder| folder.is_absolute());
        let project = above.map(|folder| folder.join(PROJECT_FILE)).find(|path| path.exists());
        let project = project.map(|path| Place { owner: Owner::Project, path, chosen_by: None });
        Self { all: chosen.into_iter().chain(project).collect() }
    }

    /// Every place, the weaker first.
    pub(crate) fn all(&self) -> &[Place] {
        &self.all
    }

    /// The user's file, whether it is there or not; `None` where nothing tells.
    pub(crate) fn users(&self) -> Option<&Path> {
        self.all.iter().find(|place| place.owner == Owner::User).map(|place| place.path.as_path())
    }

    /// The user's file, where somebody named it.
    pub(crate) fn chosen(&self) -> Option<&Path> {
        let chosen = self.all.iter().find(|place| place.chosen_by.is_some());
        chosen.map(|place| place.path.as_path())
    }

    /// Whether the working folder belongs to a project that has a file.
    pub(crate) fn has_project(&self) -> bool {
        self.all.iter().any(|place| place.owner == Owner::Project)
    }

    /// Returns the places at which something stands, the weaker first.
    pub(super) fn existing(&self) -> Vec<Place> {
        self.all.iter().filter(|place| place.exists()).cloned().collect()
    }

    /// Returns an error for each place that somebody chose and where nothing stands.
    pub(super) fn missing(&self) -> Vec<CliError> {
        let missing = self.all.iter().filter(|place| !place.exists());
        let errors = missing.filter_map(|place| {
            let chosen_by = place.chosen_by?;
            let message = format!("the settings file {} does not exist", place.path.display());
            Some(CliError::new(Kind::Failed, message).hint(format!("{chosen_by} names it")))
        });
        errors.collect()
    }
}

impl Place {
    /// Whether something stands there.
    pub(crate) fn exists(&self) -> bool {
        self.path.exists()
    }
}

fn user_file(environment: &Environment) -> Option<PathBuf> {
    // XDG Base Directory Specification: a relative folder is to be ignored.
    let xdg = environment.path("XDG_CONFIG_HOME").filter(|folder| folder.is_absolute());
    let folder = xdg.or_else(|| environment.path("HOME").map(|home| home.join(".config")))?;
    Some(folder.join("subscope/config.toml"))
}
