//! What the process was started with, as one value, so that tests can put another in its place.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

/// Reads one environment variable.
pub(crate) type Variable = Box<dyn Fn(&str) -> Option<OsString>>;

/// The environment variables and the working folder.
pub(crate) struct Environment {
    variable: Variable,
    working_folder: PathBuf,
}

impl Environment {
    /// Returns the environment of this process.
    pub(crate) fn of_process() -> Self {
        // Without a working folder (it was removed) there is no project above it, and that is all it is used for.
        let working_folder = std::env::current_dir().unwrap_or_default();
        Self { variable: Box::new(|name| std::env::var_os(name)), working_folder }
    }

    /// Returns an environment of the given variables.
    #[cfg(test)]
    pub(crate) fn of(working_folder: &Path, variables: &[(&str, &str)]) -> Self {
        let variables: Vec<(String, OsString)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value))).collect();
        let variable = move |name: &str| {
            variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        };
        Self { variable: Box::new(variable), working_folder: working_folder.to_owned() }
    }

    /// Returns the variable's value; an empty one counts as none.
    pub(crate) fn get(&self, name: &str) -> Option<OsString> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// Returns the variable's value as text; what is not Unicode is replaced.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(|value| value.to_string_lossy().into_owned())
    }

    /// Returns the variable's value as a path.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    /// The folder in which the command was given; empty where it is gone.
    pub(crate) fn working_folder(&self) -> &Path {
        &self.working_folder
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").field("working_folder", &self.working_folder).finish_non_exhaustive()
    }
}
