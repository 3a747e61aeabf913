//! The other tools: how they are installed and run, and why some are not run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};

use super::{recordings::Recording, score::Answer};
use crate::{
    npm, pypi,
    step::{output, program, root},
};

/// A tool with machine-readable output about sessions.
#[derive(Debug)]
pub(super) struct Rival {
    /// Its name, which is that of its command.
    pub(super) name: &'static str,
    /// The scored version; pinned, so that the table is reproducible.
    pub(super) version: &'static str,
    /// The harnesses whose sessions it reads.
    pub(super) reads: &'static [&'static str],
    source: Source,
}

/// Where a tool comes from.
#[derive(Debug)]
enum Source {
    /// PyPI, as a package of its name; with the lowest minor version of Python 3 that it supports.
    Python(u32),
    /// npm: the package, and the folder of its command below `node_modules`.
    Npm(&'static str, &'static str),
}

const CLAUDE_CODE: &[&str] = &["claude-code"];
const EVERY: &[&str] = &["claude-code", "codex", "copilot", "gemini", "opencode", "qwen"];
/// Those whose recordings say how many tokens the whole session used, which is all that some tools report.
const WITH_SUMS: &[&str] = &["codex", "copilot", "gemini", "opencode", "qwen"];

/// The scored tools; `oracle/rivals.py` has a function for each.
pub(super) const RIVALS: &[Rival] = &[
    Rival {
        name: "agents-tree",
        version: "1.2.0",
        reads: &["claude-code", "codex"],
        source: Source::Python(8),
    },
    Rival { name: "agentsview", version: "0.46.1", reads: EVERY, source: Source::Python(8) },
    Rival { name: "claude-code-log", version: "1.7.0", reads: CLAUDE_CODE, source: Source::Python(10) },
    Rival { name: "tracon", version: "0.3.0", reads: CLAUDE_CODE, source: Source::Python(12) },
    Rival { name: "ccusage", version: "20.0.24", reads: WITH_SUMS, source: Source::Npm("ccusage", ".bin") },
    Rival {
        name: "tokscale",
        version: "4.17.0",
        // Of Copilot CLI it reads a file of spans that is written on request.
        reads: &["codex", "gemini", "opencode", "qwen"],
        source: Source::Npm("@tokscale/cli-linux-x64-gnu", "@tokscale/cli-linux-x64-gnu/bin"),
    },
];

/// Tools that are not scored, with the reasons.
pub(super) const NOT_RUN: &[(&str, &str)] = &[
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
    let given = match rival.source {
        Source::Python(minor) => {
            let python =
                python(minor).with_context(|| format!("it needs Python 3.{minor} and there is none here"))?;
            pypi::install(&python, &folder, &[&format!("{}=={}", rival.name, rival.version)])?
        }
        Source::Npm(package, commands) => {
            npm::install(&folder, package, rival.version)?.map(|modules| modules.join(commands))
        }
    };
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
pub(super) fn ask(rival: &Rival, commands: &Path, recording: &Recording) -> Result<Answer> {
    let script = root().join("xtask/oracle/rivals.py");
    let words = [rival.name, recording.harness];
    let json = output(program("python3").arg(script).args(words).arg(&recording.folder).arg(commands))?;
    serde_json::from_str(&json).context("cannot read its answer")
}
