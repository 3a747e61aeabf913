//! `cargo xtask e2e [SCENARIO…]`: the real Claude Code, installed from npm, against a scripted model, watched by the
//! product.
//!
//! `crates/rig` has what is played and compared; this installs, builds, and closes the network off.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{
    npm,
    step::{announce, cargo, program, run, skip, succeeds, target_folder},
    web,
};

/// Default version of Claude Code; `CLAUDE_VERSION` overrides it.
const VERSION: &str = "2.1.330";
const PACKAGE: &str = "@anthropic-ai/claude-code";

/// Runs these scenarios, or all. Skips with a message if the program is not installed and npm is unavailable.
pub(crate) fn all(scenarios: &[&str]) -> Result<()> {
    let version = std::env::var("CLAUDE_VERSION").unwrap_or_else(|_| VERSION.to_owned());
    let target = target_folder()?;
    let claude = match npm::install(&target.join("e2e").join(&version), PACKAGE, &version)? {
        Ok(modules) => claude_below(&modules)?,
        Err(reason) => {
            skip("e2e", &format!("npm gives no Claude Code {version}: {reason}"));
            return Ok(());
        }
    };
    let packages = ["build", "--package", "subscope", "--package", "subscope-rig"];
    run("build for e2e", cargo().args(packages))?;
    let built = target.join("debug");
    let mut e2e = without_network(&built.join("e2e"));
    e2e.arg("--claude").arg(claude).arg("--subscope").arg(built.join("subscope")).args(scenarios);
    if let Some((browser, script)) = web::attention_watch()? {
        e2e.arg("--browser").arg(browser).arg("--page-watch").arg(script);
    }
    run(&format!("e2e with Claude Code {version}"), &mut e2e)
}

/// Returns the program installed by npm: this platform's native one, or up to 2.1.110 the one for Node.
pub(crate) fn claude_below(modules: &Path) -> Result<PathBuf> {
    let packages = fs::read_dir(modules.join("@anthropic-ai")).context("a package without its folder")?;
    let mut packages = packages.filter_map(Result::ok);
    let native = packages.find_map(|package| Some(package.path().join("claude")).filter(|it| it.is_file()));
    let program = native.or_else(|| Some(modules.join(".bin/claude")).filter(|it| it.exists()));
    program.with_context(|| format!("npm has put no program below {}", modules.display()))
}

/// Returns the command without access to the network: in its own network namespace, if the system allows it.
///
/// If possible also in its own process namespace, so that no process of an agent outlives the run.
pub(crate) fn without_network(command: &Path) -> Command {
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
