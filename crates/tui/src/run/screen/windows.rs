//! The console and the shell of Windows.

use std::{io, os::windows::process::CommandExt as _, path::Path, process::Command};

/// Receiver of signals, of which there are none: in raw mode Ctrl-C is a key, and the end of the console ends the process.
pub(in super::super) struct NoSignals;

impl NoSignals {
    /// Does nothing.
    pub(in super::super) fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    /// Returns nothing.
    pub(in super::super) fn pending(&self) -> Option<i32> {
        None
    }
}

/// Does nothing: no shell continues a process.
pub(super) fn stop() -> io::Result<()> {
    Ok(())
}

/// Returns the command that opens a file in an editor, itself a command with options.
pub(super) fn shell(editor: &str, file: &Path) -> Command {
    let mut command = Command::new("cmd");
    // `cmd` takes what is between the outer quotes as it is.
    command.args(["/D", "/S", "/C"]).raw_arg(format!("\"{editor} \"{}\"\"", file.display()));
    command
}
