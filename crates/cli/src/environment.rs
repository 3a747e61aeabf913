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

    /// Returns the folder for data, in which the hub's socket and the spool stand: what `--store` names, else
    /// `SUBSCOPE_DATA_DIR`, else `subscope` in `XDG_DATA_HOME`, else in `~/.local/share` (also on macOS). It need not
    /// exist. `None` where nothing tells, not even `HOME`.
    pub(crate) fn data_folder(&self, store: Option<&Path>) -> Option<PathBuf> {
        let named = store.map(Path::to_owned).or_else(|| self.path("SUBSCOPE_DATA_DIR"));
        named.or_else(|| self.base_folder("XDG_DATA_HOME", ".local/share"))
    }

    /// Returns the folder for what subscope has to remember on this machine: `subscope` in `XDG_STATE_HOME`, else in
    /// `~/.local/state`. It need not exist. `None` where nothing tells.
    pub(crate) fn state_folder(&self) -> Option<PathBuf> {
        self.base_folder("XDG_STATE_HOME", ".local/state")
    }

    /// XDG Base Directory Specification: a relative folder is to be ignored.
    fn base_folder(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let named = self.path(variable).filter(|folder| folder.is_absolute());
        let folder = named.or_else(|| self.path("HOME").map(|home| home.join(below_home)))?;
        Some(folder.join("subscope"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_folder_is_what_the_nearest_names() {
        let everything = [("SUBSCOPE_DATA_DIR", "/d"), ("XDG_DATA_HOME", "/x"), ("HOME", "/h")];
        let folder = |skipped: usize| {
            Environment::of(Path::new("/"), &everything[skipped..])
                .data_folder(None)
                .map(|path| path.display().to_string())
        };
        assert_eq!(folder(0).as_deref(), Some("/d"));
        assert_eq!(folder(1).as_deref(), Some("/x/subscope"));
        assert_eq!(folder(2).as_deref(), Some("/h/.local/share/subscope"));
        assert_eq!(folder(3), None);
        let environment = Environment::of(Path::new("/"), &everything);
        assert_eq!(environment.data_folder(Some(Path::new("/s"))), Some(PathBuf::from("/s")));
        let relative = Environment::of(Path::new("/"), &[("XDG_STATE_HOME", "x"), ("HOME", "/h")]);
        assert_eq!(relative.state_folder(), Some(PathBuf::from("/h/.local/state/subscope")));
    }
}
