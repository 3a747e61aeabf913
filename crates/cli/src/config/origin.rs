//! Origin of a setting's value: its layer and the place within it.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Origin of a value; the weakest layer first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SettingOrigin {
    /// Built-in default.
    BuiltIn,
    /// A settings file.
    File {
        /// Owner of the file.
        owner: FileOwner,
        /// The file.
        path: Arc<Path>,
        /// The line, from 1.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// An option of the command.
    Flag(&'static str),
}

/// Owner of a settings file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileOwner {
    /// The user: it applies to all projects.
    User,
    /// The project.
    Project,
}

impl FileOwner {
    /// Name for people and JSON.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

impl SettingOrigin {
    /// Name of the layer in JSON.
    pub(crate) fn layer(&self) -> &'static str {
        match self {
            Self::BuiltIn => "default",
            Self::File { owner, .. } => owner.as_str(),
            Self::Variable(_) => "environment",
            Self::Flag(_) => "flag",
        }
    }

    /// Returns the place within the layer: `file:line`, a variable, an option; `None` for a default.
    pub(crate) fn place(&self) -> Option<String> {
        match self {
            Self::BuiltIn => None,
            Self::File { path, line, .. } => Some(format!("{}:{line}", path.display())),
            Self::Variable(name) => Some(name.clone()),
            Self::Flag(name) => Some((*name).to_owned()),
        }
    }

    /// Resolves a path set at this origin: in a file, relative paths start at the file's directory.
    pub(crate) fn resolve(&self, path: &Path) -> PathBuf {
        match self {
            Self::File { path: file, .. } => file.parent().unwrap_or(Path::new("")).join(path),
            Self::BuiltIn | Self::Variable(_) | Self::Flag(_) => path.to_owned(),
        }
    }
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place() {
            Some(place) => write!(f, "{} ({place})", self.layer()),
            None => f.write_str(self.layer()),
        }
    }
}
