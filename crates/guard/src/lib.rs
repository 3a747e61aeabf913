//! Kills a process group if the process that started it is killed and cannot do so itself, and reads the pipes of a
//! child.
//!
//! A separate process group would survive its killed parent. A watchdog shell reads from a pipe whose other end is held
//! by this process: when the kernel closes the pipe, the shell kills the group. Works on every POSIX system; a
//! parent-death signal (Linux) would reach only the first process of the group, and needs code between fork and exec.

mod pipe;

use std::{
    io::Write,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

pub use pipe::read_pipe;

/// Reads a process group id, waits for the end of stdin, sends TERM to the group, and KILL a second later, which leaves
/// a nested server time to end its own group.
const SCRIPT: &str = r#"read -r group || exit 0; while read -r line; do :; done; kill -s TERM -- "-$group"; sleep 1; kill -s KILL -- "-$group""#;

/// A watchdog of a process group; disarmed when dropped.
#[derive(Debug)]
pub struct Guard(Option<Child>);

impl Guard {
    /// Starts the watchdog shell, without a group yet. Without a shell it does nothing.
    pub fn start() -> Self {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT]);
        // In its own group: a signal to ours must not kill it.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Self(command.spawn().ok())
    }

    /// Arms the watchdog for the process group of `leader`.
    pub fn over(&mut self, leader: &Child) {
        if let Some(pipe) = self.0.as_mut().and_then(|shell| shell.stdin.as_mut()) {
            // An error means that the shell is gone: nothing is guarded.
            let _ = pipe.write_all(format!("{}\n", leader.id()).as_bytes());
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(mut shell) = self.0.take() else { return };
        // Kill the shell before its pipe is closed, so that it does not act.
        let _ = shell.kill();
        let _ = shell.wait();
    }
}
