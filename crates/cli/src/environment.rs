//! Environment variables and working directory as a value that tests can replace.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

use crate::config::VARIABLE_PREFIX;

/// Looks up an environment variable.
type Variable = Box<dyn Fn(&str) -> Option<OsString>>;

/// Environment variables and working directory.
pub(crate) struct Environment {
    variable: Variable,
    /// Names of the variables that begin as ours do.
    own_names: Vec<String>,
    working_folder: PathBuf,
}

impl Environment {
    /// Returns the environment of this process.
    pub(crate) fn of_process() -> Self {
        // If the working directory was removed, no project is found: its only use.
        let working_folder = std::env::current_dir().unwrap_or_default();
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let own_names = names.filter(|name| name.starts_with(VARIABLE_PREFIX)).collect();
        Self { variable: Box::new(|name| subscope_platform::variable(name)), own_names, working_folder }
    }

    /// Returns an environment with the given variables.
    #[cfg(test)]
    pub(crate) fn of(working_folder: &Path, variables: &[(&str, &str)]) -> Self {
        let variables: Vec<(String, OsString)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value))).collect();
        let names = variables.iter().map(|(name, _)| name.clone());
        let own_names = names.filter(|name| name.starts_with(VARIABLE_PREFIX)).collect();
        let variable = move |name: &str| {
            variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        };
        Self { variable: Box::new(variable), own_names, working_folder: working_folder.to_owned() }
    }

    /// Returns the names of the variables that begin as ours do.
    pub(crate) fn own_names(&self) -> impl Iterator<Item = &String> {
        self.own_names.iter()
    }

    /// Returns a variable's value; an empty one counts as unset.
    pub(crate) fn get(&self, name: &str) -> Option<OsString> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// Returns a variable's value as text; invalid Unicode is replaced.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(|value| value.to_string_lossy().into_owned())
    }

    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    /// Returns the data directory (database, hub socket, spool): `--store`, else `SUBSCOPE_DATA_DIR`, else `subscope`
    /// in `XDG_DATA_HOME`, else in `~/.local/share` (also on macOS). It need not exist. `None` if not even `HOME` is
    /// set.
    pub(crate) fn data_folder(&self, store: Option<&Path>) -> Option<PathBuf> {
        let named = store.map(Path::to_owned).or_else(|| self.path("SUBSCOPE_DATA_DIR"));
        named.or_else(|| self.base_folder("XDG_DATA_HOME", ".local/share"))
    }

    /// Returns the state directory (log, settings backups): `subscope` in `XDG_STATE_HOME`, else in `~/.local/state`.
    /// It need not exist. `None` if not even `HOME` is set.
    pub(crate) fn state_folder(&self) -> Option<PathBuf> {
        self.base_folder("XDG_STATE_HOME", ".local/state")
    }

    /// Returns the directory of the user's settings: `subscope` in `XDG_CONFIG_HOME`, else in `~/.config` (also on
    /// macOS). `None` if not even `HOME` is set.
    pub(crate) fn config_folder(&self) -> Option<PathBuf> {
        self.base_folder("XDG_CONFIG_HOME", ".config")
    }

    /// XDG Base Directory Specification: a relative path must be ignored.
    fn base_folder(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let named = self.path(variable).filter(|folder| folder.is_absolute());
        let folder = named.or_else(|| self.path("HOME").map(|home| home.join(below_home)))?;
        Some(folder.join("subscope"))
    }

    /// Returns the working directory; empty if it was removed.
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
