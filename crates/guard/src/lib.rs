//! Ends a process group where the process that started it is killed before it can do so itself.
//!
//! A group of its own goes on when its parent is killed, and works for nobody. A shell waits at a pipe whose other end is held
//! here: when the kernel closes that, the shell ends the group. Works on every POSIX system; a parent-death signal (Linux)
//! would reach the first process of the group alone, and needs code between fork and exec.

use std::{
    io::Write,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

/// Is told a group, waits for the end of its stdin, asks the group to end, and kills it a second later: a nested server ends its
/// own meanwhile.
const SCRIPT: &str = r#"read -r group || exit 0; while read -r line; do :; done; kill -s TERM -- "-$group"; sleep 1; kill -s KILL -- "-$group""#;

/// A guard; it does nothing once it is dropped.
#[derive(Debug)]
pub struct Guard(Option<Child>);

impl Guard {
    /// Starts a guard, before there is anything to be guarded. Where there is no shell there is none.
    pub fn start() -> Self {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT]);
        // Not of our group: what kills that must not kill it.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Self(command.spawn().ok())
    }

    /// Sets it over a process group, named by its leader.
    pub fn over(&mut self, leader: &Child) {
        if let Some(pipe) = self.0.as_mut().and_then(|shell| shell.stdin.as_mut()) {
            // A shell that is gone guards nothing, and that is all.
            let _ = pipe.write_all(format!("{}\n", leader.id()).as_bytes());
        }
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
