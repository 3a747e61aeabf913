//! Writing to stdout and stderr: data to the one, everything else to the other.
//!
//! Rust's runtime ignores SIGPIPE, so a reader that leaves is an error of the next write. It ends the command quietly:
//! see [`CliError::write`].

use std::io::{self, BufWriter, Write};

use serde::Serialize;

use crate::error::CliError;

/// What is gathered before it is written: one page of a pipe. Larger buffers did not make a tree appear sooner.
const BUFFER_BYTES: usize = 64 << 10;

/// Lets `work` write data to stdout, which is locked, buffered and flushed at the end.
pub(crate) fn to_stdout(work: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), CliError> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    work(&mut out).and_then(|()| out.flush()).map_err(|error| CliError::write("stdout", error))
}

/// Writes a text to stdout in one write and flushes it, so that texts of several threads stand one after the other.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    to_stdout(|out| out.write_all(text.as_bytes()))
}

/// Writes a value to stdout as one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    to_stdout(|out| {
        serde_json::to_writer(&mut *out, value)?;
        out.write_all(b"\n")
    })
}

/// Writes a text to stderr in one write. A stderr that cannot be written to leaves nobody to tell.
pub(crate) fn complain(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
