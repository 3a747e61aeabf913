//! Running other programs: by name, from the root of the repository, with their output where it is seen.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Returns the root of the repository: the folder above this crate.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Returns cargo, as the one that runs this chore.
pub(crate) fn cargo() -> Command {
    program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Returns a command that will run from the root of the repository.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    command
}

/// Where cargo builds.
pub(crate) fn target_folder() -> Result<PathBuf> {
    let json = output(cargo().args(["metadata", "--no-deps", "--format-version", "1", "--offline"]))?;
    let metadata: Value = serde_json::from_str(&json).context("cannot read what cargo metadata prints")?;
    let folder = metadata["target_directory"].as_str().context("cargo metadata names no target folder")?;
    Ok(root().join(folder))
}

/// Says what begins.
pub(crate) fn announce(name: &str) {
    println!("\n── {name}");
}

/// What was skipped, with its reason.
static SKIPPED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Says that a step, or a part of one, does not run here, and why; [`skipped`] lists it again at the end.
pub(crate) fn skip(name: &str, reason: &str) {
    let line = format!("{name}: skipped: {reason}");
    announce(&line);
    SKIPPED.lock().unwrap_or_else(PoisonError::into_inner).push(line);
}

/// Returns what was skipped so far, in order.
pub(crate) fn skipped() -> Vec<String> {
    SKIPPED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Runs a command to its end; its output is not touched, so that the closing line of a test runner stays to be read.
pub(crate) fn run(name: &str, command: &mut Command) -> Result<()> {
    announce(name);
    let status =
        command.status().with_context(|| format!("{name}: cannot start {:?}", command.get_program()))?;
    if !status.success() {
        bail!("{name} failed: {status}");
    }
    Ok(())
}

/// Tells whether a command can be run and succeeds; prints nothing.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// Returns what a command prints; an error carries the end of what it complained about.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("{name}: {}: {}", output.status, complaint.lines().last().unwrap_or("said nothing"));
    }
    String::from_utf8(output.stdout).with_context(|| format!("{name} printed no UTF-8"))
}
