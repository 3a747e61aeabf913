//! A hub under load, in a process of its own.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

/// A server and its address. It ends with this.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: String,
}

impl Server {
    /// Starts the real program over a home folder.
    pub(crate) fn subscope(home: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_subscope"));
        command.args(["serve", "--listen", "127.0.0.1:0"]).env_clear().env("HOME", home);
        Self::start(command)
    }

    /// Starts a server that prints its address once it answers.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts");
        let mut url = String::new();
        let stdout = child.stdout.take().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut url).expect("its address");
        Self { child, address: url.trim().trim_start_matches("http://").to_owned() }
    }
}

impl Server {
    /// Sends a signal, by the name that `kill` has for it.
    pub(crate) fn signal(&self, name: &str) {
        let _ = Command::new("kill").arg(name).arg(self.child.id().to_string()).status();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signal("-TERM");
        let _ = self.child.wait();
    }
}
