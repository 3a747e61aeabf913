//! What stops a TARGET from being read at all.

use std::{io, path::PathBuf};

use subscope_harness::roots;

/// Why a TARGET cannot be read. A single unreadable file below a TARGET is not an error: it is reported, and the others
/// are read.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// Nothing is at the path.
    #[error("{} does not exist", path.display())]
    Missing {
        /// The TARGET as given.
        path: PathBuf,
    },
    /// The path is a pipe, socket or device.
    #[error("{} is neither a file nor a folder", path.display())]
    NotRegular {
        /// The TARGET as given.
        path: PathBuf,
    },
    /// The folder holds nothing that could be read.
    #[error("{} holds no transcripts", path.display())]
    Empty {
        /// The TARGET as given.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot read {}", path.display())]
    Io {
        /// The TARGET as given.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl CollectError {
    /// Returns what the user can do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Missing { .. } => Some("give a transcript, a session's folder, or - for stdin".to_owned()),
            Self::NotRegular { .. } => Some("pipe it in and give - as the target".to_owned()),
            Self::Empty { .. } => {
                let roots = roots(&|name| (name == "HOME").then(|| "~".into()));
                let roots: Vec<String> = roots.iter().map(|root| root.folder.display().to_string()).collect();
                let roots = roots.join(", ");
                Some(format!("transcripts are <session>.jsonl files, below {roots} by default"))
            }
            Self::Io { .. } => None,
        }
    }
}
