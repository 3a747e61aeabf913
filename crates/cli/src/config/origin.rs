//! Which layer a value comes from.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where a value was set, weakest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// NoHub set it.
    BuiltIn,
    /// A file of settings, and the line.
    File {
        /// Whose file it is.
        owner: Owner,
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

/// Whose file of settings it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The user's, for all projects.
    User,
    /// The project's.
    Project,
}

impl Owner {
    /// The word for people and JSON.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

impl Origin {
    /// The layer's word in JSON.
    pub(crate) fn layer(&self) -> &'static str {
        match self {
            Self::BuiltIn => "default",
            Self::File { owner, .. } => owner.as_str(),
            Self::Variable(_) => "environment",
            Self::Flag(_) => "flag",
        }
    }

    /// Returns the place within the layer: `file:line`, a variable, an option; `None` for what nobody set.
    pub(crate) fn place(&self) -> Option<String> {
        match self {
            Self::BuiltIn => None,
            Self::File { path, line, .. } => Some(format!("{}:{line}", path.display())),
            Self::Variable(name) => Some(name.clone()),
            Self::Flag(name) => Some((*name).to_owned()),
        }
    }

    /// Returns the path as it is meant at this origin: in a file, relative paths start at the file's folder.
    pub(crate) fn resolve(&self, path: &str) -> PathBuf {
        match self {
            Self::File { path: file, .. } => file.parent().unwrap_or(Path::new("")).join(path),
            Self::BuiltIn | Self::Variable(_) | Self::Flag(_) => PathBuf::from(path),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place() {
            Some(place) => write!(f, "{} ({place})", self.layer()),
            None => f.write_str(self.layer()),
        }
    }
}

/// A value and where it was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sourced<T> {
    /// The value.
    pub(crate) value: T,
    /// Where it was set.
    pub(crate) origin: Origin,
}

impl<T> Sourced<T> {
    /// Returns a value that was set there.
    pub(crate) fn new(value: T, origin: &Origin) -> Self {
        Self { value, origin: origin.clone() }
    }

    /// Returns a value that an option gives, where it is given.
    pub(crate) fn flag(name: &'static str, value: Option<T>) -> Option<Self> {
        value.map(|value| Self { value, origin: Origin::Flag(name) })
    }

    /// Returns a value that nobody set.
    pub(crate) fn built_in(value: T) -> Self {
        Self { value, origin: Origin::BuiltIn }
    }
}
