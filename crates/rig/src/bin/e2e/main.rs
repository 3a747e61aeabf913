//! `e2e`: the real Claude Code against the fake model server, observed by the real subscope. `cargo xtask e2e` installs
//! Claude Code, builds subscope and runs this.
//!
//! Each scenario runs in its own home directory without network. subscope's rows are compared with those from the
//! transcripts alone, and with the log of the fake server. [`drift`] plays other harnesses, [`frameworks`] programs
//! of agent frameworks.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to the person who runs it")]

mod answered;
mod blocks;
mod drift;
mod finding;
mod frameworks;
mod heard;
mod idle;
mod inside;
mod iterated;
mod otel;
mod person;
mod ran;
mod served;
mod several;
mod stopped;
mod terminal;
mod truth;
mod world;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use subscope_rig::tick;

use crate::{finding::Findings, world::Programs};

const USAGE: &str = "usage: e2e --claude PATH --subscope PATH [--browser PATH --page-watch SCRIPT] [--minutes N] [--log FILE] \
    [SCENARIO…]\n   or: e2e --harness NAME --program PATH --subscope PATH [--live]\n   \
    or: e2e --framework NAME --program PATH --subscope PATH --keep FOLDER";

/// The scenarios in the order in which they are played.
const SCENARIOS: [&str; 17] = [
    "single",
    "parallel",
    "background",
    "nested",
    "errors",
    "cut",
    "taskstop",
    "refused",
    "slow",
    ITERATIONS,
    INSIDE,
    STOP,
    OTEL,
    INTERACTIVE,
    PERSON,
    ANSWER,
    SEVERAL,
];
/// Plays the script `single` again and again.
const ITERATIONS: &str = "iterations";
/// Plays the script of this name, whose main thread runs commands under observation.
const INSIDE: &str = "inside";
/// Plays the script of this name, whose agents a person stops.
const STOP: &str = "stop";
/// Plays the script `nested`, observed by OpenTelemetry alone.
const OTEL: &str = "otel";
/// The one that a person plays at a terminal.
const INTERACTIVE: &str = "interactive";
/// The one that a person plays with agents at a terminal.
const PERSON: &str = "person";

/// Those in which a person waits nearly all the time.
const WAITING: [&str; 2] = [INTERACTIVE, PERSON];

/// The one in which persons answer elsewhere than at the terminal that asks.
const ANSWER: &str = "answer";
/// The one that six persons play at once; `--minutes` says for how long.
const SEVERAL: &str = "several";

/// How long all of it may take; far more than it needs.
const TOTAL: Duration = Duration::from_secs(1200);

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("e2e: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: impl Iterator<Item = String>) -> Result<()> {
    let (mut claude, mut subscope, mut names) = (None, None, Vec::new());
    let (mut harness, mut is_live) = (None, false);
    let (mut framework, mut keep) = (None, None);
    let (mut browser, mut script, mut options) = (None, None, several::Options::default());
    while let Some(word) = arguments.next() {
        match word.as_str() {
            "--live" => is_live = true,
            "--harness" => harness = arguments.next(),
            "--framework" => framework = arguments.next(),
            "--keep" => keep = arguments.next().map(PathBuf::from),
            "--claude" | "--program" => claude = arguments.next().map(PathBuf::from),
            "--subscope" => subscope = arguments.next().map(PathBuf::from),
            "--browser" => browser = arguments.next().map(PathBuf::from),
            "--page-watch" => script = arguments.next().map(PathBuf::from),
            "--log" => options.log = arguments.next().map(PathBuf::from),
            "--minutes" => {
                let minutes: u64 = arguments.next().context(USAGE)?.parse().context("--minutes")?;
                options.time = Duration::from_secs(60 * minutes);
            }
            option if option.starts_with('-') => bail!("{USAGE}"),
            name => names.push(name.to_owned()),
        }
    }
    let (Some(claude), Some(subscope)) = (claude, subscope) else { bail!("{USAGE}") };
    let programs = Programs { harness: claude, subscope };
    if let Some((framework, keep)) = framework.zip(keep) {
        return frameworks::play(&framework, &programs, &keep);
    }
    if let Some(harness) = harness {
        return drift::all(&harness, &programs, is_live);
    }
    options.page = script.zip(browser).map(|(script, browser)| several::PageWatch { script, browser });
    if names.is_empty() {
        names = SCENARIOS.map(str::to_owned).to_vec();
    }
    let began = tick();
    let (mut failed, mut followed, mut compared) = (Vec::new(), 0, 0);
    let mut played = 0;
    // Persons who mostly wait play at the same time.
    for group in names.chunk_by(|one, other| [one, other].iter().all(|name| WAITING.contains(&name.as_str())))
    {
        if began.elapsed() > TOTAL + options.time {
            let minutes = TOTAL.as_secs() / 60;
            bail!("{played} scenarios took more than {minutes} minutes: {} is not played", group.join(", "));
        }
        for (name, findings) in group.iter().zip(play_at_once(&programs, group, played, &options)) {
            let findings = findings.with_context(|| format!("scenario {name}"))?;
            if findings.print(name) > 0 {
                failed.push(name.as_str());
            }
            followed += findings.followed;
            compared += findings.compared;
        }
        played += group.len();
    }
    let (count, seconds) = (names.len(), began.elapsed().as_secs());
    if !failed.is_empty() {
        bail!("{} of {count} scenarios failed: {}", failed.len(), failed.join(", "));
    }
    println!("live feed: {followed} sessions, {compared} changes of rows; none lost what it had said");
    println!("e2e: {count} scenarios passed in {seconds} s");
    Ok(())
}

/// Plays scenarios at the same time; the first of them is the `first` of all. Returns their findings in their order.
fn play_at_once(
    programs: &Programs,
    names: &[String],
    first: usize,
    options: &several::Options,
) -> Vec<Result<Findings>> {
    thread::scope(|scope| {
        let players = names
            .iter()
            .zip(first..)
            .map(|(name, at)| scope.spawn(move || play(programs, name, at, options)));
        let players: Vec<_> = players.collect();
        let findings = players.into_iter().map(|player| match player.join() {
            Ok(findings) => findings,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        findings.collect()
    })
}

/// Plays one scenario in every mode.
fn play(programs: &Programs, name: &str, at: usize, options: &several::Options) -> Result<Findings> {
    let mut findings = Findings::default();
    match name {
        ITERATIONS => iterated::play(programs, &script("single"), &mut findings)?,
        INSIDE => inside::play(programs, &script(name), &mut findings)?,
        OTEL => otel::play(programs, &script("nested"), &mut findings)?,
        STOP => stopped::play(programs, &script(name), &mut findings)?,
        INTERACTIVE => idle::play(programs, &script(name), &mut findings)?,
        PERSON => person::play(programs, &script(name), &mut findings)?,
        ANSWER => answered::play(programs, &script(name), &mut findings)?,
        SEVERAL => several::play(programs, &script(name), options, &mut findings)?,
        _ => {
            served::play(programs, &script(name), at, &mut findings)?;
            ran::play(programs, &script(name), &mut findings)?;
        }
    }
    Ok(findings)
}

/// Location of a script: its name, or a path.
fn script(name: &str) -> PathBuf {
    let path = Path::new(name);
    if path.is_file() {
        return path.to_owned();
    }
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(name).with_extension("toml")
}
