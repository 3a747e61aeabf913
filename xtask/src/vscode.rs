//! The extension for VS Code (`clients/vscode`): its tests, and its package, one `.vsix` for both registries.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{
    npm,
    step::{output, program, root, run, skip},
};

/// Environment variable with the folder of the npm package `code-server`, in which the extension is tested.
const CODE_SERVER: &str = "CODE_SERVER";

fn folder() -> PathBuf {
    root().join("clients/vscode")
}

fn npm_run(script: &str) -> Command {
    let mut npm = program("npm");
    npm.current_dir(folder()).args(["run", "--silent", script]);
    npm
}

/// Whether the packages of its lock file are installed.
#[cfg(test)]
pub(crate) fn is_installed() -> bool {
    npm::is_locked_installed(&folder())
}

/// Checks the types of the extension, and tests it with a program; in a VS Code server, too, where there is one.
pub(crate) fn test(binary: &Path) -> Result<()> {
    let name = "clients: VS Code";
    if !npm::install_locked(&folder(), "esbuild", name)? {
        return Ok(());
    }
    if std::env::var_os(CODE_SERVER).is_none() {
        skip("clients: VS Code in its server", &format!("{CODE_SERVER} names no code-server"));
    }
    run(name, npm_run("test").env("SUBSCOPE_BIN", binary))
}

/// Writes the package into a file. `notices` are the licenses of what its page consists of.
pub(crate) fn package(file: &Path, notices: &str, time: u64) -> Result<()> {
    if !npm::install_locked(&folder(), "esbuild", "extension for VS Code")? {
        bail!("the extension for VS Code cannot be packed without the packages of its lock file");
    }
    let licenses = folder().join("THIRD-PARTY-LICENSES.txt");
    fs::write(&licenses, notices).with_context(|| format!("cannot write {}", licenses.display()))?;
    let mut npm = npm_run("package");
    output(npm.args(["--", "--out"]).arg(file).env("SOURCE_DATE_EPOCH", time.to_string()))
        .context("the extension for VS Code cannot be packed")?;
    Ok(())
}
