//! What Windows says of processes: nothing. A session's process is found by the note that it keeps.

use std::path::PathBuf;

use subscope_model::SessionId;

use crate::HarnessHome;

/// Returns none: which files and arguments a process has is not known.
pub(super) fn processes_of(_: &SessionId, _: &[&HarnessHome]) -> Vec<i32> {
    Vec::new()
}

/// Returns nothing: consoles have no names.
pub(super) fn terminal_of(_: i32) -> Option<PathBuf> {
    None
}

/// Returns nothing: the variables of other processes cannot be read.
pub(super) fn variable(_: i32, _: &str) -> Option<String> {
    None
}
