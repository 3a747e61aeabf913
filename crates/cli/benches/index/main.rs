//! Cost of `index` over a machine's history, compared with other tools on the same files: `ccusage`, which keeps
//! nothing, and `agentsview`, which keeps all of it. Contenders take turns. `CCUSAGE` and `AGENTSVIEW` are the paths of
//! the peers (`cargo xtask bench` installs them); without it its rows are left out, and a line says so.
#![expect(clippy::expect_used, reason = "a bench that cannot be set up has nothing to go on with")]

mod contender;
mod foreign;
mod history;

use std::{io::Write, path::PathBuf};

use subscope_testkit::figures::{self, Row};

use crate::{
    contender::{Contender, Peer},
    history::History,
};

/// Rounds of all contenders in turns.
const ROUNDS: usize = 5;
/// Rounds of what takes half a minute: the slowest peer, the bigger history.
const SLOW_ROUNDS: usize = 3;
/// How many times the history is in the bigger one.
const BIGGER: usize = 10;

fn main() {
    // `cargo test --benches` and nextest ask for a list; there is nothing to list.
    if std::env::args().any(|argument| argument == "--list" || argument == "--test") {
        return;
    }
    let mut out = std::io::stdout().lock();
    let mut say = |text: String| {
        let _ = writeln!(out, "{text}");
        let _ = out.flush();
    };
    say(figures::HEAD.to_owned());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let history = History::make(&folder.path().join("one"), 1);
    let peer = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let ccusage = peer("CCUSAGE").map(|program| Peer::ccusage(program, &history));
    let agentsview = peer("AGENTSVIEW").map(|program| Peer::agentsview(program, &history));
    // `cargo bench … --bench index -- others` answers one question.
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_asked = |name: &str| asked.is_empty() || asked.iter().any(|word| word == name);
    if is_asked("beside") {
        beside(&history, ccusage.as_ref(), agentsview.as_ref()).iter().for_each(|row| say(row.markdown()));
    }
    if is_asked("bigger") {
        let ten = History::make(&folder.path().join("ten"), BIGGER);
        bigger(&history, &ten).iter().for_each(|row| say(row.markdown()));
    }
    if is_asked("others") {
        with_others(&history).iter().for_each(|row| say(row.markdown()));
    }
    for (name, peer) in [("CCUSAGE", &ccusage), ("AGENTSVIEW", &agentsview)] {
        if peer.is_none() {
            say(format!("\n`{name}` names no program: nothing was compared with it."));
        }
    }
}

/// The same history with thousands of sessions of other harnesses: cost of a byte of all of it, relative to a byte of
/// the history alone.
fn with_others(history: &History) -> Vec<Row> {
    let alone = Contender::new(history);
    let before = (0..SLOW_ROUNDS).map(|_| alone.cold().total_ms).fold(f64::MAX, f64::min);
    let (sessions, bytes) = foreign::add(&history.home);
    foreign::age(&history.home);
    let _ = std::process::Command::new("sync").status();
    let all = Contender::new(history);
    let (mut ratio, mut again, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..SLOW_ROUNDS {
        let cold = all.cold();
        let expected = before * (history.bytes + bytes) as f64 / history.bytes as f64;
        ratio.push(cold.total_ms / expected);
        memory.push(cold.megabytes);
        again.push(all.again());
    }
    let (busy, resident) = all.idle();
    let question = format!(
        "`index` of {} sessions beside {sessions} of five other harnesses, {} MB",
        history.sessions,
        (history.bytes + bytes) / 1_000_000
    );
    let row = |figure: &str, values: Vec<f64>, unit, budget: Option<f64>| Row {
        question: question.clone(),
        figure: figure.to_owned(),
        values,
        unit,
        budget,
        is_floor: false,
    };
    vec![
        row("time of a byte, in terms of the history alone", ratio, "×", Some(1.2)),
        row("nothing new", again, "ms", None),
        row("most memory", memory, "MB", None),
        row("an idle hub, share of a core", vec![busy], "%", Some(0.1)),
        row("an idle hub, memory", vec![resident], "MB", Some(50.0)),
    ]
}

/// Ours and the peers on the same history, in turns.
fn beside(history: &History, ccusage: Option<&Peer>, agentsview: Option<&Peer>) -> Vec<Row> {
    let ours = Contender::new(history);
    let question = format!(
        "`index` of {} sessions, {} files, {} MB",
        history.sessions,
        history.files,
        history.bytes / 1_000_000
    );
    let row = |figure: &str, values: Vec<f64>, unit, budget: Option<f64>| Row {
        question: question.clone(),
        figure: figure.to_owned(),
        values,
        unit,
        budget,
        is_floor: false,
    };
    let (mut facts, mut all, mut nothing_new, mut of_ccusage, mut all_of_ccusage) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    ours.cold();
    for _ in 0..ROUNDS {
        let cold = ours.cold();
        nothing_new.push(ours.again());
        if let Some(peer) = ccusage {
            let peer = peer.run();
            of_ccusage.push(cold.facts_ms / peer);
            all_of_ccusage.push(cold.total_ms / peer);
        }
        facts.push(cold.facts_ms);
        all.push(cold.total_ms);
    }
    let share = ours.store_bytes() as f64 / history.bytes as f64;
    let mut rows = vec![
        row("sessions, trees, calls and totals kept", facts, " ms", None),
        row("all of it, with full text", all.clone(), " ms", None),
        row("nothing new, whole process", nothing_new.clone(), " ms", None),
        row("store ÷ input", vec![share], " ×", Some(0.4)),
    ];
    if ccusage.is_some() {
        rows.push(row("facts ÷ `ccusage claude daily`", of_ccusage, " ×", Some(1.5)));
        rows.push(row("all ÷ `ccusage claude daily`", all_of_ccusage, " ×", Some(3.0)));
    }
    if let Some(peer) = agentsview {
        let pairs: Vec<(f64, f64)> = (0..SLOW_ROUNDS).map(|_| (peer.cold(), peer.run())).collect();
        let (all, again) = (median(all), median(nothing_new));
        let slower = pairs.iter().map(|(cold, _)| cold / all).collect();
        rows.push(Row { is_floor: true, ..row("`agentsview sync` ÷ all", slower, " ×", Some(10.0)) });
        let warm = pairs.iter().map(|(_, warm)| again / warm).collect();
        rows.push(row("nothing new ÷ `agentsview sync` with nothing new", warm, " ×", Some(0.5)));
    }
    rows
}

/// The same with a history ten times as large.
fn bigger(one: &History, ten: &History) -> Vec<Row> {
    let (small, big) = (Contender::new(one), Contender::new(ten));
    let (mut facts, mut all, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..SLOW_ROUNDS {
        let (first, many, second) = (small.cold(), big.cold(), small.cold());
        facts.push(2.0 * many.facts_ms / (first.facts_ms + second.facts_ms));
        all.push(2.0 * many.total_ms / (first.total_ms + second.total_ms));
        memory.push(many.megabytes);
    }
    let question = format!("`index` of {BIGGER} times as much, {} MB", ten.bytes / 1_000_000);
    let row = |figure: &str, values, unit, budget| Row {
        question: question.clone(),
        figure: figure.to_owned(),
        values,
        unit,
        budget: Some(budget),
        is_floor: false,
    };
    vec![
        row("facts, time ÷ time", facts, " ×", 12.0),
        row("all, time ÷ time", all, " ×", 12.0),
        row("most memory", memory, " MB", 300.0),
    ]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
