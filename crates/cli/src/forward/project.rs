//! Names of projects, and folders whose sessions stay on this machine.

use std::{
    cell::RefCell,
    collections::HashMap,
    path::{Path, PathBuf},
};

use subscope_collect::{repository as repository_of, small_file};
use subscope_model::{SessionRow, Text};

use super::home;
use crate::{
    config::{ProjectFrom, TeamSettings},
    environment::Environment,
};

/// Most folders whose answers are kept.
const MAX_FOLDERS: usize = 10_000;

/// Names projects by their working directories.
#[derive(Clone, Debug)]
pub(crate) struct ProjectNames {
    from: ProjectFrom,
    known: RefCell<HashMap<String, Option<Text>>>,
}

impl ProjectNames {
    pub(crate) fn new(settings: &TeamSettings) -> Self {
        Self { from: settings.project_from, known: RefCell::default() }
    }

    /// Returns the name of the project of a folder; `None` if nothing names it.
    pub(crate) fn name(&self, folder: Option<&str>) -> Option<Text> {
        let path = folder.filter(|path| !path.is_empty())?;
        if let Some(known) = self.known.borrow().get(path) {
            return known.clone();
        }
        let folder = || Path::new(path).file_name().map(|name| Text::from(name.to_string_lossy().as_ref()));
        let name = match self.from {
            ProjectFrom::Cwd => Some(path.into()),
            ProjectFrom::Folder => folder(),
            ProjectFrom::GitRemote => repository(Path::new(path)).map(Text::from).or_else(folder),
        };
        let mut known = self.known.borrow_mut();
        if known.len() >= MAX_FOLDERS {
            known.clear();
        }
        known.insert(path.to_owned(), name.clone());
        name
    }
}

/// Returns the name of the repository that the remote `origin` of a folder's work tree names.
fn repository(folder: &Path) -> Option<String> {
    let git = repository_of(folder)?.git;
    let config = small_file(&git.join("config"))?;
    let mut is_origin = false;
    for line in config.lines().map(str::trim) {
        if line.starts_with('[') {
            is_origin = line.replace(' ', "") == "[remote\"origin\"]";
        } else if is_origin
            && let Some((key, url)) = line.split_once('=')
            && key.trim() == "url"
        {
            let url = url.trim().trim_end_matches('/');
            let name = url.rsplit(['/', ':']).next()?.trim_end_matches(".git");
            return (!name.is_empty()).then(|| name.to_owned());
        }
    }
    None
}

/// Folders whose sessions never leave this machine.
#[derive(Clone, Debug)]
pub(crate) struct Exclusions {
    patterns: Vec<FolderPattern>,
    known: RefCell<HashMap<PathBuf, bool>>,
}

#[derive(Clone, Debug)]
enum FolderPattern {
    /// The folder and all below it.
    Tree(PathBuf),
    /// All below the folder, but not itself.
    Below(PathBuf),
}

impl Exclusions {
    pub(crate) fn new(settings: &TeamSettings, environment: &Environment) -> Self {
        let home = home(environment);
        let patterns = settings.exclude.iter().map(|pattern| {
            let path = match (pattern.strip_prefix("~/"), &home) {
                (Some(rest), Some(home)) => home.join(rest),
                _ => PathBuf::from(pattern),
            };
            let ends_in_star = path.file_name().is_some_and(|name| name == "*" || name == "**");
            match (ends_in_star, path.parent()) {
                (true, Some(parent)) => FolderPattern::Below(parent.to_owned()),
                _ => FolderPattern::Tree(path),
            }
        });
        Self { patterns: patterns.collect(), known: RefCell::default() }
    }

    /// Whether a session stays here: that of a folder or of a work tree of a project there. A session without a working
    /// directory stays if any directory is excluded: it might belong to it.
    pub(crate) fn contains(&self, row: &SessionRow) -> bool {
        self.has_folder(row.cwd.as_deref())
            || row.project.is_some() && self.has_folder(row.project.as_deref())
    }

    fn has_folder(&self, cwd: Option<&str>) -> bool {
        let Some(cwd) = cwd.filter(|cwd| !cwd.is_empty()) else { return !self.patterns.is_empty() };
        let cwd = Path::new(cwd);
        let is_matched = self.patterns.iter().any(|pattern| match pattern {
            FolderPattern::Tree(folder) => cwd.starts_with(folder),
            FolderPattern::Below(folder) => cwd.starts_with(folder) && cwd != folder,
        });
        is_matched || self.project_refuses(cwd)
    }

    /// Whether the settings of the project have `team.forward = false`.
    fn project_refuses(&self, cwd: &Path) -> bool {
        if let Some(known) = self.known.borrow().get(cwd) {
            return *known;
        }
        let file =
            cwd.ancestors().map(|folder| folder.join(".subscope/config.toml")).find(|file| file.exists());
        let refuses = file.is_some_and(|file| {
            // Settings that cannot be read may forbid forwarding: the session stays.
            let Some(text) = small_file(&file) else { return true };
            let Ok(table) = text.parse::<toml::Table>() else { return true };
            let forward = table.get("team").and_then(|team| team.get("forward"));
            forward.is_some_and(|forward| forward.as_bool() != Some(true))
        });
        let mut known = self.known.borrow_mut();
        if known.len() >= MAX_FOLDERS {
            known.clear();
        }
        known.insert(cwd.to_owned(), refuses);
        refuses
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn settings(exclude: &[&str], from: ProjectFrom) -> TeamSettings {
        TeamSettings {
            exclude: exclude.iter().map(|one| (*one).to_owned()).collect(),
            project_from: from,
            ..TeamSettings::default()
        }
    }

    #[test]
    fn excluded_folders_and_refusing_projects_stay() {
        let home = tempfile::tempdir().unwrap();
        let environment = Environment::of(home.path(), &[("HOME", home.path().to_str().unwrap())]);
        let excluded = settings(&["~/private/*", "/secret"], ProjectFrom::Folder);
        let exclusions = Exclusions::new(&excluded, &environment);
        let at = |path: &str| exclusions.has_folder(Some(home.path().join(path).to_str().unwrap()));
        assert!(at("private/a") && at("private/a/b") && !at("private") && !at("privately/a") && !at("work"));
        assert!(exclusions.has_folder(Some("/secret")) && exclusions.has_folder(Some("/secret/x")));
        assert!(!exclusions.has_folder(Some("/secrets")) && exclusions.has_folder(None));
        let work_tree = |project: &str| SessionRow {
            cwd: Some("/home/user/fix".into()),
            project: Some(project.into()),
            ..SessionRow::empty("s".into())
        };
        assert!(
            exclusions.contains(&work_tree("/secret")) && !exclusions.contains(&work_tree("/home/user/shop"))
        );
        let none = Exclusions::new(&settings(&[], ProjectFrom::Folder), &environment);
        assert!(!none.has_folder(None) && !none.has_folder(Some("/secret")));
        for (project, text, stays) in [
            ("no", "[team]\nforward = false\n", true),
            ("yes", "[team]\nforward = true\n", false),
            ("other", "color = \"never\"\n", false),
            ("broken", "[team\nforward", true),
        ] {
            let folder = home.path().join(project);
            fs::create_dir_all(folder.join(".subscope")).unwrap();
            fs::create_dir_all(folder.join("below")).unwrap();
            fs::write(folder.join(".subscope/config.toml"), text).unwrap();
            assert_eq!(none.has_folder(folder.join("below").to_str()), stays, "{project}");
        }
    }

    #[test]
    fn projects_are_named_by_repository_folder_or_path() {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work/deep");
        fs::create_dir_all(&work).unwrap();
        let git = folder.path().join("work/.git");
        fs::create_dir(&git).unwrap();
        let name = |from| ProjectNames::new(&settings(&[], from)).name(work.to_str());
        assert_eq!(name(ProjectFrom::GitRemote).as_deref(), Some("deep"), "no remote");
        for (url, repository) in [
            ("git@example.com:team/shop.git", "shop"),
            ("https://example.com/team/shop.git/", "shop"),
            ("ssh://git@example.com:2222/team/my-shop", "my-shop"),
        ] {
            let config = format!(
                "[core]\n\turl = wrong\n[remote \"origin\"]\n\turl = {url}\n[remote \"x\"]\n\turl = y\n"
            );
            fs::write(git.join("config"), config).unwrap();
            assert_eq!(name(ProjectFrom::GitRemote).as_deref(), Some(repository), "{url}");
        }
        assert_eq!(name(ProjectFrom::Folder).as_deref(), Some("deep"));
        assert_eq!(name(ProjectFrom::Cwd).as_deref(), work.to_str());
        assert_eq!(ProjectNames::new(&settings(&[], ProjectFrom::Cwd)).name(None), None);
        let linked = folder.path().join("linked");
        fs::create_dir_all(git.join("worktrees/linked")).unwrap();
        fs::create_dir(&linked).unwrap();
        fs::write(git.join("worktrees/linked/commondir"), "../..\n").unwrap();
        fs::write(git.join("worktrees/linked/gitdir"), format!("{}\n", linked.join(".git").display()))
            .unwrap();
        fs::write(linked.join(".git"), format!("gitdir: {}\n", git.join("worktrees/linked").display()))
            .unwrap();
        let name = ProjectNames::new(&settings(&[], ProjectFrom::GitRemote)).name(linked.to_str());
        assert_eq!(name.as_deref(), Some("my-shop"));
    }
}
