//! `cargo xtask e2e [SCENARIO…]`: the real Claude Code, installed from npm, against a scripted model, watched by the product.
//!
//! What is played and compared stands in `crates/rig`; this installs, builds, and closes the network off.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::step::{announce, cargo, output, program, root, run, succeeds};

/// The version that is tried; `CLAUDE_VERSION` names another.
const VERSION: &str = "2.1.330";
const PACKAGE: &str = "@anthropic-ai/claude-code";

/// Plays these scenarios, or all. Where npm does not answer, and the program is not there from before, says so and plays none.
pub(crate) fn all(scenarios: &[&str]) -> Result<()> {
    let version = std::env::var("CLAUDE_VERSION").unwrap_or_else(|_| VERSION.to_owned());
    let target = target_folder()?;
    let claude = match install(&target.join("e2e").join(&version), &version)? {
        Ok(claude) => claude,
        Err(reason) => {
            announce(&format!("e2e: skipped: npm gives no Claude Code {version}: {reason}"));
            return Ok(());
        }
    };
    let packages = ["build", "--package", "subscope", "--package", "subscope-rig"];
    run("build for e2e", cargo().args(packages))?;
    let built = target.join("debug");
    let mut e2e = closed_off(&built.join("e2e"));
    e2e.arg("--claude").arg(claude).arg("--subscope").arg(built.join("subscope")).args(scenarios);
    run(&format!("e2e with Claude Code {version}"), &mut e2e)
}

/// Where cargo builds.
pub(crate) fn target_folder() -> Result<PathBuf> {
    let json = output(cargo().args(["metadata", "--no-deps", "--format-version", "1", "--offline"]))?;
    let metadata: Value = serde_json::from_str(&json).context("cannot read what cargo metadata prints")?;
    let folder = metadata["target_directory"].as_str().context("cargo metadata names no target folder")?;
    Ok(root().join(folder))
}

/// Puts Claude Code below a folder and returns the program; the inner error is why npm does not give it.
fn install(folder: &Path, version: &str) -> Result<Result<PathBuf, String>> {
    if let Some(claude) = installed(folder, version) {
        return Ok(Ok(claude));
    }
    let package = format!("{PACKAGE}@{version}");
    // A registry that does not answer is soon given up; one that answers and then fails is an error.
    let patience = ["--fetch-retries=1", "--fetch-timeout=30000"];
    if let Some(reason) = complaint(program("npm").args(["view", &package, "version"]).args(patience)) {
        if reason.contains("E404") {
            bail!("npm knows no {package}");
        }
        return Ok(Err(reason));
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let quietly = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    let mut npm = program("npm");
    npm.arg("install").arg("--prefix").arg(folder).args(quietly).arg(&package);
    run(&format!("npm install {package}"), &mut npm)?;
    match installed(folder, version) {
        Some(claude) => Ok(Ok(claude)),
        None => bail!("npm has put no program below {}", folder.display()),
    }
}

/// Why npm fails, in the first words that it says of it; `None` where it does not.
fn complaint(command: &mut Command) -> Option<String> {
    match command.stdin(Stdio::null()).output() {
        Err(error) => Some(error.to_string()),
        Ok(output) if output.status.success() && !output.stdout.is_empty() => None,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Some(said.lines().find(|line| line.contains("error")).unwrap_or("it says nothing").to_owned())
        }
    }
}

/// The program of this version in a folder: the native one of this platform, or up to 2.1.110 the one that Node runs.
fn installed(folder: &Path, version: &str) -> Option<PathBuf> {
    let modules = folder.join("node_modules");
    let manifest = fs::read_to_string(modules.join(PACKAGE).join("package.json")).ok()?;
    let manifest: Value = serde_json::from_str(&manifest).ok()?;
    if manifest["version"] != version {
        return None;
    }
    let packages = fs::read_dir(modules.join("@anthropic-ai")).ok()?.filter_map(Result::ok);
    let native = packages.map(|package| package.path().join("claude")).find(|claude| claude.is_file());
    native.or_else(|| Some(modules.join(".bin/claude")).filter(|claude| claude.exists()))
}

/// A command that can reach nothing but this machine: in a network namespace of its own, where the system lets us make one.
///
/// In a namespace for processes too, where that is possible: nothing that an agent started outlives the run.
fn closed_off(command: &Path) -> Command {
    const NET: &[&str] = &["--net"];
    const USER: &[&str] = &["--user", "--map-current-user", "--keep-caps"];
    const PROCESSES: &[&str] = &["--pid", "--fork", "--kill-child", "--mount-proc"];
    let inside = |options: &[&[&str]], word: &Path| {
        let mut unshare = program("unshare");
        unshare.args(options.concat()).args(["sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]).arg(word);
        unshare
    };
    for options in [&[NET, PROCESSES][..], &[NET], &[USER, NET, PROCESSES], &[USER, NET]] {
        if succeeds(&mut inside(options, Path::new("true"))) {
            announce("e2e: in a network namespace that has the loopback alone");
            return inside(options, command);
        }
    }
    announce(
        "e2e: no namespace can be made here; a proxy that lets nobody through keeps everything on this machine",
    );
    program(command)
}
