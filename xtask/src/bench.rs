//! `cargo xtask bench [NAME]…`: runs benches and records their results, with machine and commit, in BENCHMARKS.md.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::{
    npm,
    step::{announce, cargo, output, target_folder},
    team, truth,
};

const FILE: &str = "BENCHMARKS.md";

/// A bench: its crate, its name, and what it measures.
struct Bench {
    package: &'static str,
    name: &'static str,
    subject: &'static str,
}

const fn bench(package: &'static str, name: &'static str, subject: &'static str) -> Bench {
    Bench { package, name, subject }
}

const BENCHES: [Bench; 8] = [
    bench("subscope", "speed", "Reading one session"),
    bench("subscope", "index", "Indexing the history of a machine"),
    bench("subscope-store", "kept", "Queries of the store"),
    bench("subscope", "serve", "A hub under load"),
    bench("subscope", "run", "The overhead of `run`"),
    bench("subscope-tui", "frames", "Frames of the terminal UI"),
    bench("subscope-client", "publish", "Publishing an event without a listener"),
    bench("subscope-team", "team", "The store of a team"),
];

/// The compared tool from npm; the one from PyPI is pinned with those of `truth`.
const CCUSAGE: (&str, &str) = ("ccusage", "20.0.24");

/// Runs the named benches, or all, and writes their sections of the file. The sections of others stay as they are.
pub(crate) fn run(names: &[&str]) -> Result<()> {
    if let Some(unknown) = names.iter().find(|name| BENCHES.iter().all(|bench| bench.name != **name)) {
        let known: Vec<&str> = BENCHES.iter().map(|bench| bench.name).collect();
        bail!("there is no bench {unknown}: {}", known.join(", "));
    }
    let mut variables = peers()?;
    variables.extend(team::engine()?.map(|python| (team::PYTHON, python)));
    let mut failed = Vec::new();
    for bench in BENCHES.iter().filter(|bench| names.is_empty() || names.contains(&bench.name)) {
        if let Err(error) = record(bench, &[], &variables) {
            failed.push(format!("{}: {error:#}", bench.name));
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("not written: {}", failed.join("; ")) }
}

/// Runs the bench of the team's store and writes its section.
pub(crate) fn run_team(arguments: &[&str], engine: PathBuf) -> Result<()> {
    let named = |bench: &&Bench| bench.name == "team";
    let bench = BENCHES.iter().find(named).context("no bench of the team's store")?;
    record(bench, arguments, &[(team::PYTHON, engine)])
}

/// Runs a bench and writes its section.
fn record(bench: &Bench, arguments: &[&str], variables: &[(&'static str, PathBuf)]) -> Result<()> {
    let Bench { package, name, .. } = bench;
    let mut command = cargo();
    command.args(["bench", "--profile", "dist", "--quiet", "-p", package, "--bench", name, "--"]);
    command.args(arguments).envs(variables.iter().cloned());
    let table = output(command.stderr(Stdio::inherit()))?;
    if table.trim().is_empty() {
        bail!("it printed no figures");
    }
    println!("{table}");
    let commit = output(Command::new("git").args(["rev-parse", "--short", "HEAD"]))?;
    let about = format!("{}. Commit {}.", machine(), commit.trim());
    let text = fs::read_to_string(FILE).unwrap_or_default();
    fs::write(FILE, with_section(&text, bench, &about, &table))
        .with_context(|| format!("cannot write {FILE}"))
}

/// Returns the text of the file with one section replaced or added.
fn with_section(text: &str, of: &Bench, about: &str, table: &str) -> String {
    let mut out = "# Benchmarks\n\n\
        Written by `cargo xtask bench`. Each figure is a median over interleaved rounds of one run, with the least and\n\
        the greatest; an A/A row (the same contender twice) says how much of a ratio is noise. Budgets are those of the\n\
        project's issues. Each section names the machine and the commit of its run: `cargo xtask bench NAME` writes one\n\
        anew. The questions stand in `benches` of `crates/cli`, `crates/store`, `crates/tui`, `crates/client` and\n\
        `crates/team`. Profile: `dist`, that of the archives.\n"
        .to_owned();
    for bench in &BENCHES {
        let head = format!("\n## {}: `{}`\n\n", bench.subject, bench.name);
        if bench.name == of.name {
            out += &format!("{head}{about}\n\n{}\n", table.trim());
        } else if let Some((_, rest)) = text.split_once(&head) {
            let section = rest.split("\n## ").next().unwrap_or_default();
            out += &format!("{head}{}\n", section.trim_end());
        }
    }
    out
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_and_the_others_stay() {
        let [speed, index, ..] = &BENCHES;
        let one = with_section("", index, "Machine. Commit a.", "| old |\n");
        let two = with_section(&one, speed, "Machine. Commit b.", "| first |\n");
        let three = with_section(&two, index, "Machine. Commit c.", "| new |\n");
        let sections: Vec<&str> = three.split("\n## ").skip(1).collect();
        assert_eq!(
            sections,
            [
                "Reading one session: `speed`\n\nMachine. Commit b.\n\n| first |\n",
                "Indexing the history of a machine: `index`\n\nMachine. Commit c.\n\n| new |\n",
            ]
        );
        assert_eq!(with_section(&three, index, "Machine. Commit c.", "| new |\n"), three);
    }
}
