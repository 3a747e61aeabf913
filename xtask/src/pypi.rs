//! Installs PyPI packages, each version in its own virtual environment.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::step::{output, program};

/// Installs packages, each as `NAME==VERSION`, below a directory, unless done before, and returns the directory of their
/// commands, including `python`. The inner error is that PyPI is unavailable.
pub(crate) fn install(
    python: &Path,
    folder: &Path,
    requirements: &[&str],
) -> Result<Result<PathBuf, String>> {
    let commands = folder.join("bin");
    let (mark, wanted) = (folder.join("installed"), requirements.join("\n"));
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(Ok(commands));
    }
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    output(program(python).args(["-m", "venv"]).arg(folder)).context("cannot make a virtual environment")?;
    let quietly = ["install", "--quiet", "--disable-pip-version-check", "--retries", "1"];
    let mut pip = program(commands.join("pip"));
    pip.args(quietly).args(requirements);
    if let Err(error) = output(&mut pip) {
        return Ok(Err(format!("{error:#}")));
    }
    fs::write(&mark, wanted).with_context(|| format!("cannot write {}", mark.display()))?;
    Ok(Ok(commands))
}

/// Installs a package without its dependencies and Python requirement, to use a part of it that needs neither;
/// `commands` are those of an environment. Returns as [`install`].
pub(crate) fn install_alone(
    commands: &Path,
    folder: &Path,
    package: &str,
    version: &str,
) -> Result<Result<(), String>> {
    let mark = folder.join("installed");
    if mark.exists() {
        return Ok(Ok(()));
    }
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let mut pip = program(commands.join("pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", "--retries", "1", "--no-deps"]);
    pip.arg("--ignore-requires-python").arg("--target").arg(folder).arg(format!("{package}=={version}"));
    if let Err(error) = output(&mut pip) {
        return Ok(Err(format!("{error:#}")));
    }
    fs::write(&mark, "").with_context(|| format!("cannot write {}", mark.display()))?;
    Ok(Ok(()))
}
