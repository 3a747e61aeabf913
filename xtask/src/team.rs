//! `cargo xtask team`: the tests of the team store on the real ClickHouse engine, and a simulation of many developers.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{
    pypi,
    step::{cargo, output, program, run, skip, target_folder},
};

/// The engine as a library for Python, and what its HTTP server needs.
const ENGINE: (&str, &str) = ("chdb-core", "26.9.0");
const WITH: [&str; 2] = ["lz4==4.4.5", "clickhouse-cityhash==1.0.2.6"];

/// Environment variable with the Python that runs the engine.
pub(crate) const PYTHON: &str = "SUBSCOPE_CHDB_PYTHON";

/// Returns a Python with the engine, installed below the target directory; `None` if PyPI is unavailable.
pub(crate) fn engine() -> Result<Option<PathBuf>> {
    let (package, version) = ENGINE;
    let folder = target_folder()?.join("pypi").join(format!("{package}-{version}"));
    let mark = folder.join("with-lz4");
    let commands = match pypi::install(Path::new("python3"), &folder, package, version)? {
        Ok(commands) => commands,
        Err(reason) => {
            skip("ClickHouse's engine", &format!("PyPI gives no {package} {version}: {reason}"));
            return Ok(None);
        }
    };
    if !mark.exists() {
        let quietly = ["install", "--quiet", "--disable-pip-version-check", "--retries", "1"];
        if let Err(error) = output(program(commands.join("pip")).args(quietly).args(WITH)) {
            skip("ClickHouse's engine", &format!("PyPI gives no {}: {error:#}", WITH.join(", ")));
            return Ok(None);
        }
        std::fs::write(&mark, "").with_context(|| format!("cannot write {}", mark.display()))?;
    }
    Ok(Some(commands.join("python")))
}

/// Runs the tests of the team store.
pub(crate) fn test() -> Result<()> {
    let python = needed()?;
    let tests = ["test", "-p", "subscope-team", "-p", "subscope", "--test", "conformance", "--test", "team"];
    run("team", cargo().args(tests).env(PYTHON, python))
}

/// Simulates developers over days: their snapshots through real servers, with faults, then the latencies of queries.
pub(crate) fn simulate(arguments: &[&str]) -> Result<()> {
    let python = needed()?;
    let bench = ["bench", "-p", "subscope", "--bench", "team", "--"];
    run("team simulation", cargo().args(bench).args(arguments).env(PYTHON, python))
}

fn needed() -> Result<PathBuf> {
    match engine()? {
        Some(python) => Ok(python),
        None => bail!("the engine of ClickHouse cannot be installed"),
    }
}
