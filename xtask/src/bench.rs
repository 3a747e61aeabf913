//! `cargo xtask bench`: runs the benches and records their results, with machine and commit, in BENCHMARKS.md.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::{
    npm,
    step::{announce, cargo, output, target_folder},
    truth,
};

const FILE: &str = "BENCHMARKS.md";

/// The benches with their crates: reading one session, indexing a machine's history, store queries, hub load, overhead
/// of `run`, a frame of the terminal UI, publishing an event without a listener.
const BENCHES: [(&str, &str); 7] = [
    ("subscope", "speed"),
    ("subscope", "index"),
    ("subscope-store", "kept"),
    ("subscope", "serve"),
    ("subscope", "run"),
    ("subscope-tui", "frames"),
    ("subscope-client", "publish"),
];

/// The compared tool from npm; the one from PyPI is pinned with those of `truth`.
const CCUSAGE: (&str, &str) = ("ccusage", "20.0.24");

/// Runs the benches and writes the file.
pub(crate) fn run() -> Result<()> {
    let peers = peers()?;
    let (mut tables, mut failed) = (Vec::new(), Vec::new());
    for (package, name) in BENCHES {
        let mut bench = cargo();
        bench
            .args(["bench", "--profile", "dist", "--quiet", "-p", package, "--bench", name])
            .envs(peers.clone());
        match output(bench.stderr(Stdio::inherit())) {
            Ok(table) => {
                println!("{table}");
                tables.push(table);
            }
            Err(error) => failed.push(format!("{name}: {error:#}")),
        }
    }
    if !failed.is_empty() {
        bail!("{FILE} is not written: {}", failed.join("; "));
    }
    let table = tables.join("\n");
    let commit = output(Command::new("git").args(["rev-parse", "--short", "HEAD"]))?;
    let text = format!(
        "# Benchmarks\n\n\
         Written by `cargo xtask bench`. Each figure is a median over interleaved rounds of one run, with the least and\n\
         the greatest; an A/A row (the same contender twice) says how much of a ratio is noise. Budgets are those of the\n\
         project's issues. The questions stand in `benches` of `crates/cli`,\n\
         `crates/store`, `crates/tui` and `crates/client`.\n\n\
         Machine: {}. Commit: {}. Profile: `dist`, that of the archives.\n\n{table}",
        machine(),
        commit.trim(),
    );
    fs::write(FILE, &text).with_context(|| format!("cannot write {FILE}"))?;
    println!("wrote {FILE}");
    Ok(())
}

/// Installs the compared tools; returns their paths by the names of the variables that the benches read.
fn peers() -> Result<Vec<(&'static str, PathBuf)>> {
    let (package, version) = CCUSAGE;
    let mut peers = Vec::new();
    match npm::install(&target_folder()?.join("peers").join(package), package, version)? {
        Ok(modules) => peers.push(("CCUSAGE", modules.join(".bin").join(package))),
        Err(reason) => announce(&format!("bench: without {package}: {reason}")),
    }
    match truth::agentsview() {
        Ok(program) => peers.push(("AGENTSVIEW", program)),
        Err(reason) => announce(&format!("bench: without agentsview: {reason:#}")),
    }
    Ok(peers)
}

/// Returns processor, number of cores and memory, as far as known.
fn machine() -> String {
    let field = |file: &str, name: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory: u64 = field("/proc/meminfo", "MemTotal")
        .split_whitespace()
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(0);
    format!("{} cores of {}, {} GB", cores, field("/proc/cpuinfo", "model name"), memory / 1_000_000)
}
