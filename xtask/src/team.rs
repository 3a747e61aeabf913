//! `cargo xtask team`: the tests of the team store on the real ClickHouse engine, and a simulation of many developers.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::{
    bench, pypi,
    step::{cargo, run, skip, target_folder},
};

/// The engine as a library for Python, and what its HTTP server needs.
const ENGINE: &[&str] = &["chdb-core==26.9.0", "lz4==4.4.5", "clickhouse-cityhash==1.0.2.6"];

/// Environment variable with the Python that runs the engine.
pub(crate) const PYTHON: &str = "SUBSCOPE_CHDB_PYTHON";

/// Returns a Python with the engine, installed below the target directory; `None` if PyPI is unavailable.
pub(crate) fn engine() -> Result<Option<PathBuf>> {
    let folder = target_folder()?.join("pypi").join(ENGINE[0].replace("==", "-"));
    match pypi::install(Path::new("python3"), &folder, ENGINE)? {
        Ok(commands) => Ok(Some(commands.join("python"))),
        Err(reason) => {
            skip("ClickHouse's engine", &format!("PyPI gives no {}: {reason}", ENGINE.join(", ")));
            Ok(None)
        }
    }
}

/// Runs the tests of the team store.
pub(crate) fn test() -> Result<()> {
    let python = needed()?;
    let tests = ["test", "-p", "subscope-team", "-p", "subscope", "--test", "conformance", "--test", "team"];
    run("team", cargo().args(tests).env(PYTHON, python))
}

/// Simulates developers over days: their snapshots through real servers, with faults, then the latencies of queries.
pub(crate) fn simulate(arguments: &[&str]) -> Result<()> {
    bench::run_team(arguments, needed()?)
}

fn needed() -> Result<PathBuf> {
    match engine()? {
        Some(python) => Ok(python),
        None => bail!("the engine of ClickHouse cannot be installed"),
    }
}
