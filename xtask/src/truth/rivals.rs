//! The other tools: how they are installed and run, and why some are not run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};

use super::score::Answer;
use crate::{
    pypi,
    step::{output, program, root},
};

/// A tool from PyPI with machine-readable output about the agent tree.
#[derive(Debug)]
pub(super) struct Rival {
    /// The name of its package and of its command.
    pub(super) name: &'static str,
    /// The scored version; pinned, so that the table is reproducible.
    pub(super) version: &'static str,
    /// Lowest minor version of Python 3 that it supports.
    python_minor: u32,
}

/// The scored tools; `oracle/rivals.py` has a function for each.
pub(super) const RIVALS: &[Rival] = &[
    Rival { name: "agents-tree", version: "1.2.0", python_minor: 8 },
    Rival { name: "agentsview", version: "0.46.1", python_minor: 8 },
    Rival { name: "claude-code-log", version: "1.7.0", python_minor: 10 },
    Rival { name: "tracon", version: "0.3.0", python_minor: 12 },
];

/// Tools that are not scored, with the reasons.
pub(super) const NOT_RUN: &[(&str, &str)] = &[
    ("ccusage", "npm; counts tokens by session and day, has no row for a subagent"),
    ("agent-flow", "npm; draws a graph in a browser from live hooks, prints nothing that a program can read"),
    (
        "argus-code",
        "PyPI; a dashboard that lists a session's subagents flat, prints nothing that a program can read",
    ),
    ("superbased-observer", "PyPI; knows of a line only whether it is some subagent's"),
    (
        "agent-top",
        "crates.io; its subagents are child processes of a running program, not those of a transcript",
    ),
    ("claude-devtools", "on no registry"),
    ("agents-observe", "on no registry; needs live hooks and Docker"),
    ("Claude-Code-Agent-Monitor", "on no registry"),
    ("claude-code-hooks-multi-agent-observability", "on no registry; needs live hooks"),
    ("claude-esp, tail-claude", "on no registry: to be built with Go"),
];

/// Installs a tool in its own environment below the target directory; returns the directory of its command.
pub(super) fn install(rival: &Rival) -> Result<PathBuf> {
    let folder = root().join("target/truth").join(format!("{}-{}", rival.name, rival.version));
    let python = python(rival.python_minor)
        .with_context(|| format!("it needs Python 3.{} and there is none here", rival.python_minor))?;
    let given = pypi::install(&python, &folder, rival.name, rival.version)?;
    given.map_err(|reason| anyhow!("cannot be installed: {reason}"))
}

/// Returns a Python 3 of at least this minor version: the one on the path, newer ones by name, or pyenv's.
fn python(minor: u32) -> Option<PathBuf> {
    let mut candidates = vec![PathBuf::from("python3")];
    candidates.extend((minor..20).map(|newer| PathBuf::from(format!("python3.{newer}"))));
    if let Some(home) = std::env::var_os("HOME")
        && let Ok(versions) = fs::read_dir(Path::new(&home).join(".pyenv/versions"))
    {
        candidates.extend(versions.flatten().map(|version| version.path().join("bin/python3")));
    }
    let test = format!("import sys; sys.exit(sys.version_info < (3, {minor}))");
    candidates.into_iter().find(|python| crate::step::succeeds(Command::new(python).args(["-c", &test])))
}

/// Runs a tool on one recording.
pub(super) fn ask(rival: &Rival, commands: &Path, recording: &Path) -> Result<Answer> {
    let script = root().join("xtask/oracle/rivals.py");
    let json = output(program("python3").arg(script).arg(rival.name).arg(recording).arg(commands))?;
    serde_json::from_str(&json).context("cannot read its answer")
}
