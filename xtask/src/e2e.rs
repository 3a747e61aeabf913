//! `cargo xtask e2e [SCENARIO…]`: the real Claude Code, installed from npm, against a scripted model, watched by the product.
//!
//! What is played and compared stands in `crates/rig`; this installs, builds, and closes the network off.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
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
fn target_folder() -> Result<PathBuf> {
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
    if let Err(error) = output(program("npm").args(["view", &package, "version"]).args(patience)) {
        return Ok(Err(format!("{error:#}")));
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
fn closed_off(command: &Path) -> Command {
    let as_root = ["--net"].as_slice();
    let as_user = ["--user", "--map-current-user", "--keep-caps", "--net"].as_slice();
    let inside = |options: &[&str], words: &[&str]| {
        let mut unshare = program("unshare");
        unshare.args(options).args(["sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]).args(words);
        unshare
    };
    for options in [as_root, as_user] {
        if succeeds(&mut inside(options, &["true"])) {
            announce("e2e: in a network namespace that has the loopback alone");
            let mut unshare = inside(options, &[]);
            unshare.arg(OsString::from(command));
            return unshare;
        }
    }
    announce(
        "e2e: no network namespace can be made here: settings and a proxy that lets nobody through keep it on this machine",
    );
    program(command)
}
