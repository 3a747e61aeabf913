//! Runs other programs from the root of the repository.

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

/// Returns the cargo that runs this task.
pub(crate) fn cargo() -> Command {
    program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Returns a command in the root of the repository.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    command
}

/// Returns cargo's target directory.
pub(crate) fn target_folder() -> Result<PathBuf> {
    let json = output(cargo().args(["metadata", "--no-deps", "--format-version", "1", "--offline"]))?;
    let metadata: Value = serde_json::from_str(&json).context("cannot read what cargo metadata prints")?;
    let folder = metadata["target_directory"].as_str().context("cargo metadata names no target folder")?;
    Ok(root().join(folder))
}

/// Prints the name of a starting step.
pub(crate) fn announce(name: &str) {
    println!("\n── {name}");
}

/// Skipped steps with their reasons.
static SKIPPED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Prints and records that a step, or a part of it, is skipped, and why; [`skipped`] returns the list.
pub(crate) fn skip(name: &str, reason: &str) {
    let line = format!("{name}: skipped: {reason}");
    announce(&line);
    SKIPPED.lock().unwrap_or_else(PoisonError::into_inner).push(line);
}

/// Returns the skipped steps so far, in order.
pub(crate) fn skipped() -> Vec<String> {
    SKIPPED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Runs a command with its output passed through.
pub(crate) fn run(name: &str, command: &mut Command) -> Result<()> {
    announce(name);
    let status =
        command.status().with_context(|| format!("{name}: cannot start {:?}", command.get_program()))?;
    if !status.success() {
        bail!("{name} failed: {status}");
    }
    Ok(())
}

/// Whether a command can be run and succeeds; prints nothing.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// Lines of stderr in an error.
const COMPLAINT_LINES: usize = 12;

/// Returns the stdout of a command; an error has the end of its stderr.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = complaint.lines().collect();
        let end = lines[lines.len().saturating_sub(COMPLAINT_LINES)..].join("\n");
        bail!("{name}: {}: {}", output.status, if end.is_empty() { "said nothing" } else { &end });
    }
    String::from_utf8(output.stdout).with_context(|| format!("{name} printed no UTF-8"))
}
