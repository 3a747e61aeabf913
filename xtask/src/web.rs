//! `cargo xtask web` checks and builds the page; `cargo xtask page` tests it in a real browser.
//!
//! `web/dist` is committed, so that building the product needs no Node. It is rebuilt and compared here.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Result, bail};

use crate::{
    step::{cargo, output, program, root, run, skip, succeeds, target_folder},
    team,
};

/// Command names of the browser.
const BROWSERS: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

/// Use of the build.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    /// Write it, to be committed.
    Keep,
    /// Compare it with the committed one.
    Compare,
}

/// Checks and builds the page. Skips with a message if packages are not installed and npm is unavailable.
pub(crate) fn build(build: Build) -> Result<()> {
    if !has_packages("web")? {
        return Ok(());
    }
    run("web: types", npm().args(["run", "--silent", "check"]))?;
    run("web: tests", npm().args(["run", "--silent", "test"]))?;
    run("web: build", npm().args(["run", "--silent", "build"]))?;
    let changes = output(program("git").args(["status", "--porcelain", "--", "web/dist"]))?;
    if build == Build::Compare && !changes.is_empty() {
        bail!("web/dist is not what web/ builds: `cargo xtask web`, then commit it\n{changes}");
    }
    Ok(())
}

/// Tests the page in a browser, served by the real program. `which` names test files; all if empty.
pub(crate) fn look(which: &[&str]) -> Result<()> {
    let Some(browser) = browser() else {
        skip("page", &format!("there is no {} here", BROWSERS.join(", ")));
        return Ok(());
    };
    if !has_packages("page")? {
        return Ok(());
    }
    // Release build, since performance is measured.
    let profile = if which.contains(&"speed") { "release" } else { "dev" };
    run(
        "build for page",
        cargo().args(["build", "--package", "subscope", "--package", "subscope-team", "--profile", profile]),
    )?;
    let folder_of_profile = if profile == "dev" { "debug" } else { profile };
    let subscope = target_folder()?.join(folder_of_profile).join("subscope");
    let mut tests = program("npx");
    tests.current_dir(folder()).args(["--no-install", "vitest", "run", "--config", "vitest.e2e.config.ts"]);
    tests.args(which).env("SUBSCOPE", subscope).env("CHROMIUM", browser);
    // Tests of a team's page are skipped without it.
    tests.envs(team::engine()?.map(|python| (team::PYTHON, python)));
    run("page", &mut tests)
}

/// Returns the browser and the script that reports which sessions the page shows as waiting for a person; `None` where
/// there is no browser, or npm does not answer.
pub(crate) fn attention_watch() -> Result<Option<(PathBuf, PathBuf)>> {
    let Some(browser) = browser() else { return Ok(None) };
    Ok(has_packages("e2e")?.then(|| (browser, folder().join("e2e/attention.watch.mjs"))))
}

fn folder() -> PathBuf {
    root().join("web")
}

fn npm() -> Command {
    let mut npm = program("npm");
    npm.current_dir(folder());
    npm
}

/// Installs the packages of the lock file, unless done before. Returns whether they are installed.
pub(crate) fn has_packages(step: &str) -> Result<bool> {
    crate::npm::install_locked(&folder(), "svelte", step)
}

/// Whether the packages of the lock file are installed.
#[cfg(test)]
pub(crate) fn is_installed() -> bool {
    crate::npm::is_locked_installed(&folder())
}

/// Returns the browser: `CHROMIUM`, else the first one found.
fn browser() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("CHROMIUM") {
        return Some(named.into());
    }
    let is_there = |path: &PathBuf| succeeds(Command::new(path).arg("--version").stdin(Stdio::null()));
    let folders = std::env::var_os("PATH").map(|all| std::env::split_paths(&all).collect::<Vec<_>>());
    let found = |name: &&str| {
        let places = folders.iter().flatten().map(|folder| Path::new(folder).join(name));
        places.filter(|path| path.is_file()).find(is_there)
    };
    BROWSERS.iter().find_map(found)
}
