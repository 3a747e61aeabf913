//! Errors of a run.

use std::{ffi::OsString, io, path::PathBuf};

use subscope_server::ListenError;

/// Error of running a command.
#[derive(Debug, thiserror::Error)]
pub enum CommandRunError {
    /// The command cannot be started.
    #[error("cannot start {program:?}")]
    Start {
        /// The program.
        program: OsString,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The listener for events cannot be started.
    #[error("cannot listen for events of subagents")]
    Listen(#[source] ListenError),
    /// A record cannot be written.
    #[error("cannot write {path}", path = path.display())]
    Record {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A thread, signal or pipe is not available.
    #[error("the system does not let it run")]
    System(#[source] io::Error),
}
