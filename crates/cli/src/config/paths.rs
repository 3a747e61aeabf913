//! Locates settings files.

use std::path::{Path, PathBuf};

use subscope_program::CliError;

use super::Layer;
use crate::environment::Environment;

/// Environment variable with the path of the user's file.
pub(crate) const CONFIG_VARIABLE: &str = "SUBSCOPE_CONFIG";
/// Path of the organization's file.
pub(crate) const SYSTEM_FILE: &str = "/etc/subscope/config.toml";
/// Path of a project's file, below its directory.
const PROJECT_FILE: &str = ".subscope/config.toml";

/// A path at which a settings file is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigPath {
    /// [`Layer::System`], [`Layer::User`] or [`Layer::Project`].
    pub(crate) layer: Layer,
    /// The file.
    pub(crate) path: PathBuf,
    /// Option or variable that chose the path; such a file must exist.
    pub(crate) chosen_by: Option<&'static str>,
}

/// All paths, weakest layer first.
#[derive(Debug, Default)]
pub(crate) struct ConfigPaths {
    pub(crate) all: Vec<ConfigPath>,
}

impl ConfigPaths {
    /// Locates the files. The user's: `--config`, else `SUBSCOPE_CONFIG`, else in `XDG_CONFIG_HOME`, else in
    /// `~/.config` (also on macOS). The project's: in the working directory, or the nearest directory above that has
    /// one.
    pub(crate) fn find(flag: Option<&Path>, environment: &Environment) -> Self {
        let source = |path, chosen_by| ConfigPath { layer: Layer::User, path, chosen_by };
        let chosen = flag.map(|path| source(path.to_owned(), Some("--config")));
        let chosen = chosen
            .or_else(|| environment.path(CONFIG_VARIABLE).map(|path| source(path, Some(CONFIG_VARIABLE))))
            .or_else(|| Some(source(environment.config_folder()?.join("config.toml"), None)));
        // The working directory is empty if it was removed.
        let above = environment.working_folder().ancestors().filter(|folder| folder.is_absolute());
        let project = above.map(|folder| folder.join(PROJECT_FILE)).find(|path| path.exists());
        let project = project.map(|path| ConfigPath { layer: Layer::Project, path, chosen_by: None });
        let system = ConfigPath { layer: Layer::System, path: SYSTEM_FILE.into(), chosen_by: None };
        // Most machines have no file of an organization.
        let system = Some(system).filter(ConfigPath::exists);
        Self { all: system.into_iter().chain(chosen).chain(project).collect() }
    }

    /// Returns the path of the user's file, which need not exist; `None` if not even `HOME` is set.
    pub(crate) fn user_file(&self) -> Option<&Path> {
        self.all.iter().find(|source| source.layer == Layer::User).map(|source| source.path.as_path())
    }

    /// Returns the user's file if an option or variable chose it.
    pub(crate) fn chosen(&self) -> Option<&Path> {
        let chosen = self.all.iter().find(|source| source.chosen_by.is_some());
        chosen.map(|source| source.path.as_path())
    }

    /// Whether the project has a settings file.
    pub(crate) fn has_project(&self) -> bool {
        self.all.iter().any(|source| source.layer == Layer::Project)
    }

    /// Returns the paths that exist, weakest layer first.
    pub(super) fn existing(&self) -> impl Iterator<Item = &ConfigPath> {
        self.all.iter().filter(|source| source.exists())
    }

    /// Returns an error for each chosen file that does not exist.
    pub(super) fn missing(&self) -> Vec<CliError> {
        let missing = self.all.iter().filter(|source| !source.exists());
        let errors = missing.filter_map(|source| {
            let chosen_by = source.chosen_by?;
            let message = format!("the settings file {} does not exist", source.path.display());
            Some(CliError::failed(message).hint(format!("{chosen_by} names it")))
        });
        errors.collect()
    }
}

impl ConfigPath {
    pub(crate) fn exists(&self) -> bool {
        self.path.exists()
    }
}
