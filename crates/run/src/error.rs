//! Why a run could not be.

use std::{ffi::OsString, io, path::PathBuf};

use subscope_server::ServeError;

/// Why a run could not be.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The command cannot be started.
    #[error("cannot start {program:?}")]
    Start {
        /// What was to be started.
        program: OsString,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Nobody can listen for events.
    #[error("cannot listen for events of subagents")]
    Listen(#[source] ServeError),
    /// A record cannot be written.
    #[error("cannot write {path}", path = path.display())]
    Record {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The system gives no thread, signal or pipe.
    #[error("the system does not let it run")]
    System(#[source] io::Error),
}
