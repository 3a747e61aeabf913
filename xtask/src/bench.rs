//! `cargo xtask bench`: what the benches print, kept with machine and commit in BENCHMARKS.md.

use std::{fs, process::Command};

use anyhow::{Context, Result};

use crate::step::{cargo, output};

const FILE: &str = "BENCHMARKS.md";

/// The benches, with their packages: what one session costs, what a hub bears, what `run` costs a command, and what an event costs
/// an agent that nobody watches.
const BENCHES: [(&str, &str); 4] =
    [("subscope", "speed"), ("subscope", "serve"), ("subscope", "run"), ("subscope-client", "publish")];

/// Runs the benches and writes the file.
pub(crate) fn run() -> Result<()> {
    let table = |(package, name)| output(cargo().args(["bench", "--quiet", "-p", package, "--bench", name]));
    let table = BENCHES.into_iter().map(table).collect::<Result<Vec<_>>>()?.join("\n");
    let commit = output(Command::new("git").args(["rev-parse", "--short", "HEAD"]))?;
    let text = format!(
        "# Benchmarks\n\n\
         Written by `cargo xtask bench`. Each figure is a median over interleaved rounds of one run, with the least and\n\
         the greatest; an A/A row (the same contender twice) says how much of a ratio is noise. Budgets are those of the\n\
         project's issues. The questions stand in `crates/cli/benches`.\n\n\
         Machine: {}. Commit: {}.\n\n{table}",
        machine(),
        commit.trim(),
    );
    fs::write(FILE, &text).with_context(|| format!("cannot write {FILE}"))?;
    println!("{table}");
    println!("wrote {FILE}");
    Ok(())
}

/// The processor, how many cores of it, and the memory, as far as the system tells.
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
