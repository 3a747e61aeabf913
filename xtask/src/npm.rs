//! Installs npm packages, each version in its own directory.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::step::{announce, output, program, root, run, skip, succeeds};

/// Installs a package below a directory and returns its modules directory; the inner error is that npm is unavailable.
pub(crate) fn install(folder: &Path, package: &str, version: &str) -> Result<Result<PathBuf, String>> {
    let modules = folder.join("node_modules");
    if is_installed(&modules, package, version) {
        return Ok(Ok(modules));
    }
    let named = format!("{package}@{version}");
    // An unreachable registry is given up quickly; a later failure is an error.
    let patience = ["--fetch-retries=1", "--fetch-timeout=30000"];
    if let Some(reason) = run_npm(program("npm").args(["view", &named, "version"]).args(patience)) {
        if reason.contains("E404") {
            bail!("npm knows no {named}");
        }
        return Ok(Err(reason));
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    announce(&format!("npm install {named}"));
    let quietly = ["--ignore-scripts", "--no-audit", "--no-fund"];
    let mut npm = program("npm");
    npm.arg("install").arg("--prefix").arg(folder).args(quietly).arg(&named);
    // npm gives the cause as a warning (a full disk), and nothing but the name of its log as the error.
    output(&mut npm).with_context(|| format!("npm cannot install {named}"))?;
    if !is_installed(&modules, package, version) {
        bail!("npm has put no {named} below {}", folder.display());
    }
    Ok(Ok(modules))
}

/// Whether the packages of a folder's lock file are installed.
pub(crate) fn is_locked_installed(folder: &Path) -> bool {
    succeeds(program("npm").current_dir(folder).args(["ls", "--all"]))
}

/// Installs the packages of a folder's lock file, unless done before. Returns whether they are installed; if not, the step
/// is skipped, since npm does not answer. `known` is a package that npm is asked for first.
pub(crate) fn install_locked(folder: &Path, known: &str, step: &str) -> Result<bool> {
    let npm = || {
        let mut npm = program("npm");
        npm.current_dir(folder);
        npm
    };
    let patience = ["--fetch-retries=1", "--fetch-timeout=30000"];
    if is_locked_installed(folder) {
        return Ok(true);
    }
    if !succeeds(npm().args(["view", known, "version"]).args(patience)) {
        let name = folder.strip_prefix(root()).unwrap_or(folder).display().to_string();
        skip(step, &format!("npm does not answer, and {name}/node_modules is not complete"));
        return Ok(false);
    }
    let quietly = ["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"];
    run(&format!("{step}: npm ci"), npm().args(quietly).args(patience))?;
    Ok(true)
}

/// Runs npm; returns the first line of its error, `None` on success.
fn run_npm(command: &mut Command) -> Option<String> {
    match command.stdin(Stdio::null()).output() {
        Err(error) => Some(error.to_string()),
        Ok(output) if output.status.success() && !output.stdout.is_empty() => None,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Some(said.lines().find(|line| line.contains("error")).unwrap_or("it says nothing").to_owned())
        }
    }
}

fn is_installed(modules: &Path, package: &str, version: &str) -> bool {
    let manifest = fs::read_to_string(modules.join(package).join("package.json")).ok();
    let manifest = manifest.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    manifest.is_some_and(|manifest| manifest["version"] == version)
}
