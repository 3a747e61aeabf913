//! `cargo xtask atif`: checks ATIF documents with both validators, and reads documents of other programs' form.
//!
//! Exports the main file of every recording of every harness with the real program, checks each document with PyPI's
//! `atif` and with the trajectory package of `harbor`, and has the program read each again: the second export must be the
//! first. Then reads the documents of `oracle/trajectories.py`, one of each version, after the validators have accepted them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{
    pypi,
    step::{announce, cargo, output, program, root, run, skip, succeeds, target_folder},
};

const ATIF: &str = "1.8.0";
const HARBOR: &str = "0.25.0";

/// Checks the documents. Skips with a message without Python or PyPI.
pub(crate) fn check() -> Result<()> {
    if !succeeds(program("python3").arg("--version")) {
        skip("atif", "there is no python3 here");
        return Ok(());
    }
    let target = target_folder()?;
    let folder = target.join(format!("atif/atif-{ATIF}"));
    let commands = match pypi::install(Path::new("python3"), &folder, &[&format!("atif=={ATIF}")])? {
        Ok(commands) => commands,
        Err(reason) => {
            skip("atif", &format!("pip cannot install atif: {reason}"));
            return Ok(());
        }
    };
    let harbor = target.join(format!("atif/harbor-{HARBOR}"));
    if let Err(reason) = pypi::install_alone(&commands, &harbor, "harbor", HARBOR)? {
        skip("atif", &format!("pip cannot install harbor: {reason}"));
        return Ok(());
    }
    run("build for atif", cargo().args(["build", "--package", "subscope"]))?;
    let work = target.join("atif/work");
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    let mut python = program(commands.join("python"));
    python.arg(root().join("xtask/oracle/trajectories.py")).arg(target.join("debug/subscope")).arg(&work);
    python.args(recordings()?).env("PYTHONPATH", harbor);
    announce("atif");
    let said = output(&mut python)?;
    print!("{said}");
    if said.lines().any(|line| line.starts_with("WRONG")) {
        bail!("documents are not what they should be");
    }
    Ok(())
}

/// Returns the main files of all recordings.
pub(crate) fn recordings() -> Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![root().join("fixtures")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_read = name.ends_with(".jsonl") || name.ends_with(".db");
            // Next to a recording there are the files of its agents, which are read with it, and logs of other
            // programs.
            let is_part = ["subagents", "storage"].contains(&name.as_str());
            if path.is_dir() && !is_part {
                folders.push(path);
            } else if is_read && !["api-", "otel", "stop-orders"].iter().any(|start| name.starts_with(start))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    if found.len() < 200 {
        bail!("only {} recordings below fixtures", found.len());
    }
    Ok(found)
}
