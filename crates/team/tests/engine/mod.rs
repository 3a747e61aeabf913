//! The real ClickHouse engine in a process of its own, for tests and the bench of this crate.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use subscope_testkit::skip;

/// Environment variable with a Python that has `chdb-core`, `lz4` and `clickhouse-cityhash`; `cargo xtask ci` and
/// `cargo xtask team` set it.
const PYTHON: &str = "SUBSCOPE_CHDB_PYTHON";

/// A running engine; dropping it kills it as `kill -9` does.
pub(crate) struct ClickHouse {
    python: PathBuf,
    folder: tempfile::TempDir,
    pub(crate) child: Child,
    pub(crate) url: String,
}

impl ClickHouse {
    /// Starts an engine with an empty folder; `None`, and a record that the test is skipped, if there is none.
    pub(crate) fn start() -> Option<Self> {
        let Some(python) = std::env::var_os(PYTHON).map(PathBuf::from) else {
            skip::not_here("no ClickHouse engine: `cargo xtask team --test` installs one");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let (child, url) = spawn(&python, folder.path(), 0);
        Some(Self { python, folder, child, url })
    }

    /// Kills the engine; what it has acknowledged stays in its folder.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again at the same address after [`Self::kill`].
    pub(crate) fn restart(&mut self) {
        let port = self.url.rsplit(':').next().unwrap().parse().unwrap();
        (self.child, self.url) = spawn(&self.python, self.folder.path(), port);
    }
}

impl Drop for ClickHouse {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(python: &Path, folder: &Path, port: u16) -> (Child, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/clickhouse.py");
    let mut child = Command::new(python)
        .arg(script)
        .arg(folder)
        .arg(port.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().to_owned())
}
