//! Programs from npm, each version below a folder of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::step::{program, run};

/// Puts a package below a folder and returns where its modules stand; the inner error is why npm does not give it.
pub(crate) fn install(folder: &Path, package: &str, version: &str) -> Result<Result<PathBuf, String>> {
    let modules = folder.join("node_modules");
    if is_installed(&modules, package, version) {
        return Ok(Ok(modules));
    }
    let named = format!("{package}@{version}");
    // A registry that does not answer is soon given up; one that answers and then fails is an error.
    let patience = ["--fetch-retries=1", "--fetch-timeout=30000"];
    if let Some(reason) = complaint(program("npm").args(["view", &named, "version"]).args(patience)) {
        if reason.contains("E404") {
            bail!("npm knows no {named}");
        }
        return Ok(Err(reason));
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let quietly = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    let mut npm = program("npm");
    npm.arg("install").arg("--prefix").arg(folder).args(quietly).arg(&named);
    run(&format!("npm install {named}"), &mut npm)?;
    if !is_installed(&modules, package, version) {
        bail!("npm has put no {named} below {}", folder.display());
    }
    Ok(Ok(modules))
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

fn is_installed(modules: &Path, package: &str, version: &str) -> bool {
    let manifest = fs::read_to_string(modules.join(package).join("package.json")).ok();
    let manifest = manifest.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    manifest.is_some_and(|manifest| manifest["version"] == version)
}
