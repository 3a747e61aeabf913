//! Ours and the peers, as whole processes in the home of a history.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use serde_json::Value;

use subscope_testkit::figures::{memory, most_memory, now, processor_time};

use crate::history::History;

/// `subscope index` of one history, with a store of its own.
pub(crate) struct Contender {
    home: PathBuf,
    data: tempfile::TempDir,
}

/// Cost of a cold index.
pub(crate) struct BatchRead {
    pub(crate) facts_ms: f64,
    pub(crate) total_ms: f64,
    pub(crate) megabytes: f64,
}

impl Contender {
    pub(crate) fn new(history: &History) -> Self {
        Self { home: history.home.clone(), data: tempfile::tempdir().expect("a temporary folder") }
    }

    /// Reads everything for the first time.
    pub(crate) fn cold(&self) -> BatchRead {
        empty(self.data.path());
        let mut child = self.command().stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut megabytes: f64 = 0.0;
        while child.try_wait().expect("the program can be waited for").is_none() {
            megabytes = megabytes.max(most_memory(child.id()).unwrap_or(0.0));
            std::thread::sleep(Duration::from_millis(2));
        }
        let output = child.wait_with_output().expect("the program ends");
        let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let figure = |name: &str| told[name].as_f64().expect("a figure");
        BatchRead { facts_ms: figure("facts_ms"), total_ms: figure("total_ms"), megabytes }
    }

    /// Looks for news where there is none; milliseconds.
    pub(crate) fn again(&self) -> f64 {
        time(&mut self.command()).0
    }

    /// Has a hub follow everything while nothing happens: its share of a core in percent, and the memory that it holds then.
    pub(crate) fn idle(&self) -> (f64, f64) {
        let mut hub = self.program(&["serve"]).stdout(Stdio::null()).spawn().expect("the program starts");
        std::thread::sleep(STARTS_WITHIN);
        let before = processor_time(hub.id());
        std::thread::sleep(IDLE_FOR);
        let busy = processor_time(hub.id()).saturating_sub(before);
        let resident = memory(hub.id()).unwrap_or(f64::NAN);
        let _ = hub.kill();
        let _ = hub.wait();
        (busy.as_secs_f64() / IDLE_FOR.as_secs_f64() * 100.0, resident)
    }

    pub(crate) fn store_bytes(&self) -> u64 {
        let entries = fs::read_dir(self.data.path()).expect("the store's folder");
        let sizes = entries.map(|entry| entry.and_then(|it| it.metadata()).expect("a file").len());
        sizes.sum()
    }

    fn command(&self) -> Command {
        self.program(&["index", "--json"])
    }

    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_subscope"));
        command
            .args(arguments)
            .env_clear()
            .env("HOME", &self.home)
            .env("SUBSCOPE_DATA_DIR", self.data.path())
            .env("SUBSCOPE_NO_AUTOSTART", "1")
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

/// How long a hub has for its first listing.
const STARTS_WITHIN: Duration = Duration::from_secs(30);
/// How long it is watched while nothing happens.
const IDLE_FOR: Duration = Duration::from_secs(60);

/// Another tool in the same home.
pub(crate) struct Peer {
    program: PathBuf,
    arguments: &'static [&'static str],
    home: PathBuf,
    /// Its data directory, below the home.
    keeps: Option<&'static str>,
    /// Command that ends its background process.
    ends: Option<&'static [&'static str]>,
}

impl Peer {
    pub(crate) fn ccusage(program: PathBuf, history: &History) -> Self {
        let arguments = &["claude", "daily", "--json", "--offline"];
        Self { program, arguments, home: history.home.clone(), keeps: None, ends: None }
    }

    pub(crate) fn agentsview(program: PathBuf, history: &History) -> Self {
        Self {
            program,
            arguments: &["sync"],
            home: history.home.clone(),
            keeps: Some(".agentsview"),
            ends: Some(&["daemon", "stop"]),
        }
    }

    /// Milliseconds of a run with nothing kept.
    pub(crate) fn cold(&self) -> f64 {
        if let Some(keeps) = self.keeps {
            empty(&self.home.join(keeps));
        }
        self.run()
    }

    /// Milliseconds of a run.
    pub(crate) fn run(&self) -> f64 {
        let (took, output) = time(&mut self.command(self.arguments));
        assert!(output.status.success(), "{} failed", self.program.display());
        if let Some(ends) = self.ends {
            // There may be none to end.
            let _ = self.command(ends).output();
        }
        took
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut command = Command::new(&self.program);
        command.args(arguments).env_clear().env("HOME", &self.home).env("PATH", path).stdin(Stdio::null());
        command
    }
}

fn time(command: &mut Command) -> (f64, Output) {
    let began = now();
    let output = command.output().expect("the program runs");
    (began.elapsed().as_secs_f64() * 1000.0, output)
}

fn empty(folder: &Path) {
    if folder.exists() {
        fs::remove_dir_all(folder).expect("it can be emptied");
    }
    fs::create_dir_all(folder).expect("a folder");
}
