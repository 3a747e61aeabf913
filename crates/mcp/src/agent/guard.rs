//! Somebody who ends a run's processes where this one is killed before it can.
//!
//! Clients kill servers that they are in a hurry with, and a run is a group of its own, so it would go on for nobody. A shell
//! waits at a pipe whose other end is held here: when the kernel closes that, the shell ends the group.

use std::{
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

use rustix::process::Pid;

/// Waits for the end of its stdin, asks the group to end, and kills it a second later: a nested server ends its own meanwhile.
const SCRIPT: &str =
    r#"while read -r line; do :; done; kill -s TERM -- "-$1"; sleep 1; kill -s KILL -- "-$1""#;

/// A guard; it does nothing once it is dropped.
pub(super) struct Guard(Option<Child>);

impl Guard {
    /// Sets a guard over a group. Where there is no shell there is none.
    pub(super) fn over(group: Pid) -> Self {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "sh", &group.as_raw_nonzero().to_string()]);
        // Not of our group: what kills that must not kill it.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Self(command.spawn().ok())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(mut shell) = self.0.take() else { return };
        // Before its pipe is closed, so that it does not act.
        let _ = shell.kill();
        let _ = shell.wait();
    }
}
