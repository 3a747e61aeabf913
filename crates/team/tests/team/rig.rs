//! Machines and servers of a team.

use std::{
    fs,
    io::{BufRead, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use subscope_testkit::{
    env::{Ran, TestEnv, run},
    fixtures::{Recording, recording},
};

use crate::engine::ClickHouse;

/// The server's program.
pub(crate) const SERVER: &str = env!("CARGO_BIN_EXE_subscope-team");

/// Returns the tool, which cargo puts beside the server's program.
pub(crate) fn tool() -> PathBuf {
    let program = Path::new(SERVER).with_file_name("subscope");
    assert!(program.is_file(), "the tool is not built: cargo build --package subscope");
    program
}

/// ClickHouse, a token file, and a place for commands of the administrator.
pub(crate) struct Team {
    pub(crate) clickhouse: ClickHouse,
    pub(crate) env: TestEnv,
}

/// A process with the URL that it prints; dropping it kills it as `kill -9` does.
pub(crate) struct Running {
    child: Child,
    pub(crate) url: String,
}

/// A machine with a user and a store of its own.
pub(crate) struct Machine {
    pub(crate) env: TestEnv,
    pub(crate) name: &'static str,
    pub(crate) token: PathBuf,
}

impl Team {
    /// Starts the engine; `None` if there is none here.
    pub(crate) fn start() -> Option<Self> {
        let clickhouse = ClickHouse::start()?;
        let env = TestEnv::new(tool());
        env.write("tokens", "# tokens\n");
        fs::set_permissions(env.path("tokens"), fs::Permissions::from_mode(0o600)).unwrap();
        let team = Self { clickhouse, env };
        // A server does not start without a token.
        team.token("nobody", "nobody", "reader");
        Some(team)
    }

    /// Stops the engine as a signal does, or lets it go on: what is sent to it meanwhile waits in the servers.
    pub(crate) fn signal_engine(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.clickhouse.child), signal).unwrap();
    }

    /// Runs a statement in the engine and returns its answer.
    pub(crate) fn sql(&self, statement: &str) -> String {
        let address = self.clickhouse.url.rsplit(['@', '/']).next().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!(
            "POST / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            statement.len()
        );
        stream.write_all(format!("{head}{statement}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(" 200 "), "{statement}: {answer}");
        body.trim().to_owned()
    }

    /// Makes a token and adds its line to the file of all servers.
    pub(crate) fn token(&self, tenant: &str, user: &str, role: &str) -> String {
        let mut command = self.env.command_of(SERVER);
        command.args([
            "token",
            "new",
            "--tenant",
            tenant,
            "--user",
            user,
            "--role",
            role,
            "--in-team",
            "web",
        ]);
        let made = run(command, b"").success();
        let (token, line) = made.trim().split_once('\n').unwrap();
        let tokens = fs::read_to_string(self.env.path("tokens")).unwrap();
        fs::write(self.env.path("tokens"), format!("{tokens}{line}\n")).unwrap();
        token.to_owned()
    }

    /// Starts a server and waits until it answers.
    pub(crate) fn serve(&self) -> Running {
        self.serve_at("127.0.0.1:0")
    }

    pub(crate) fn serve_at(&self, listen: &str) -> Running {
        Running::start(self.serve_command(listen))
    }

    pub(crate) fn serve_command(&self, listen: &str) -> Command {
        let mut command = self.env.command_of(SERVER);
        command.args(["serve", "--clickhouse", &self.clickhouse.url, "--listen", listen]);
        command.arg("--token-file").arg(self.env.path("tokens"));
        command
    }

    pub(crate) fn machine(&self, name: &'static str, user: &str) -> Machine {
        Machine::alone(name, &self.token("acme", user, "writer"))
    }
}

impl Machine {
    /// Returns a machine with a token.
    pub(crate) fn alone(name: &'static str, token: &str) -> Self {
        let env = TestEnv::new(tool());
        let path = env.write("team-token", token);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        Self { env, name, token: path }
    }
}

impl Running {
    /// Starts a process that prints no URL.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Self { child, url: String::new() }
    }

    /// Starts it, and waits until it prints its URL.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { child, url: url.trim().to_owned() }
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts a killed server again at its address.
    pub(crate) fn restart(&mut self, team: &Team) {
        let server = team.serve_at(self.url.strip_prefix("http://").unwrap());
        *self = server;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Machine {
    /// Puts a recording where its harness keeps it, and indexes it.
    pub(crate) fn adopt(&self, scenario: &str) {
        self.env.adopt(&recording("2.1.330", scenario));
        self.env.run(&["index"]).success();
    }

    pub(crate) fn adopt_all(&self, recordings: &[Recording]) {
        recordings.iter().for_each(|recording| self.env.adopt(recording));
        self.env.run(&["index"]).success();
    }

    pub(crate) fn forward_command(&self, url: &str, more: &[&str]) -> Command {
        let mut command = self.env.command();
        command.args(["forward", "--to", url, "--machine", self.name]).args(more);
        command.arg("--token-file").arg(&self.token);
        command
    }

    pub(crate) fn forward(&self, url: &str, more: &[&str]) -> Ran {
        run(self.forward_command(url, &[&["--once"], more].concat()), b"")
    }

    /// Sessions of the machine's own store, as `ls --json` lists them.
    pub(crate) fn sessions(&self) -> Vec<Value> {
        let listed = self.env.run(&["ls", "-n", "100000", "--json"]).success();
        serde_json::from_str::<Value>(&listed).unwrap()["sessions"].as_array().unwrap().clone()
    }

    /// Deletes the record of what was sent.
    pub(crate) fn lose_record(&self) {
        for name in ["team.db", "team.db-wal", "team.db-shm"] {
            let _ = fs::remove_file(self.env.path("data/subscope").join(name));
        }
    }

    /// The one main transcript below its home.
    pub(crate) fn main_transcript(&self) -> PathBuf {
        let projects = fs::read_dir(self.env.path("home/.claude/projects")).unwrap();
        let files = projects.flat_map(|project| fs::read_dir(project.unwrap().path()).unwrap());
        let mut files = files.map(|file| file.unwrap().path());
        files.find(|file| file.extension().is_some_and(|it| it == "jsonl")).unwrap()
    }

    pub(crate) fn ask_command(&self, url: &str, arguments: &[&str]) -> Command {
        let mut command = self.env.command();
        command.args(["--team", url, "--token-file"]).arg(&self.token).args(arguments);
        command
    }

    /// Runs a command that asks the server.
    pub(crate) fn ask(&self, url: &str, arguments: &[&str]) -> Ran {
        run(self.ask_command(url, arguments), b"")
    }

    pub(crate) fn ask_json(&self, url: &str, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ask(url, arguments).success()).unwrap()
    }

    /// The machine's token.
    pub(crate) fn token(&self) -> String {
        fs::read_to_string(&self.token).unwrap()
    }
}

/// Waits until something holds; panics with `what` after a minute.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("never: {what}");
}
