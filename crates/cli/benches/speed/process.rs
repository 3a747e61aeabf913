//! Whole processes: time, and the most memory that one held.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use subscope_testkit::figures::{Row, most_memory, now};

use crate::rounds::time;

fn start(arguments: &[String]) -> Child {
    let (program, rest) = arguments.split_first().expect("a program");
    Command::new(program)
        .args(rest)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts")
}

fn run(arguments: &[String]) -> f64 {
    let took = time(&mut || {
        let status = start(arguments).wait().expect("the program ends");
        assert!(status.success(), "{arguments:?} failed");
    });
    took.as_secs_f64() * 1000.0
}

/// Times one command against another, interleaved.
pub(crate) fn compare_processes(
    question: &str,
    rounds: usize,
    ours: &[&str],
    peer: &[&str],
    peer_name: &str,
    budget_ms: f64,
) -> Vec<Row> {
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let (ours, peer) = (own(ours), own(peer));
    let (mut times, mut ratios, mut same) = (Vec::new(), Vec::new(), Vec::new());
    run(&ours);
    for _ in 0..rounds {
        let first = run(&ours);
        let other = run(&peer);
        let second = run(&ours);
        times.push(first);
        ratios.push(first / other);
        same.push(first / second);
    }
    let row = |figure: String, values, unit, budget| Row {
        question: question.to_owned(),
        figure,
        values,
        unit,
        budget,
        is_floor: false,
    };
    vec![
        row("wall".to_owned(), times, " ms", Some(budget_ms)),
        row(format!("time ÷ {peer_name}"), ratios, " ×", None),
        row("A/A: the same twice".to_owned(), same, " ×", None),
    ]
}

/// Measures time and peak memory of a command, and the time of reading the same files with `cat`.
pub(crate) fn time_and_memory(
    question: &str,
    arguments: &[String],
    rounds: usize,
    main: &Path,
    budget_ms: f64,
    budget_megabytes: f64,
) -> Vec<Row> {
    let folder = main.parent().expect("a file stands in a folder").display().to_string();
    let cat =
        ["sh", "-c", "find \"$0\" -name '*.jsonl' -exec cat {} + > /dev/null", &folder].map(str::to_owned);
    let cat = [vec!["/usr/bin/env".to_owned(), "PATH=/usr/bin:/bin".to_owned()], cat.to_vec()].concat();
    let (mut times, mut same, mut ratios, mut peaks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    run(arguments);
    for _ in 0..rounds {
        let first = run(arguments);
        let read = run(&cat);
        times.push(first);
        ratios.push(first / read);
        same.push(first / run(arguments));
        peaks.push(peak_megabytes(arguments));
    }
    let row = |figure: &str, values, unit, budget| Row {
        question: question.to_owned(),
        figure: figure.to_owned(),
        values,
        unit,
        budget,
        is_floor: false,
    };
    vec![
        row("wall", times, " ms", Some(budget_ms)),
        row("time ÷ reading the files with `cat`", ratios, " ×", None),
        row("A/A: the same twice", same, " ×", None),
        row("most memory (VmHWM)", peaks, " MB", Some(budget_megabytes)),
    ]
}

/// Times a command against another, interleaved, and looks at the most memory it held. `budgets` are those of the ratio and
/// of the megabytes.
pub(crate) fn ratio_and_memory(
    question: &str,
    ours: &[String],
    peer: &[String],
    peer_name: &str,
    rounds: usize,
    budgets: Option<(f64, f64)>,
) -> Vec<Row> {
    let (mut times, mut ratios, mut peaks) = (Vec::new(), Vec::new(), Vec::new());
    run(ours);
    for _ in 0..rounds {
        let (time, other) = (run(ours), run(peer));
        times.push(time);
        ratios.push(time / other);
        peaks.push(peak_megabytes(ours));
    }
    let row = |figure: String, values, unit, budget| Row {
        question: question.to_owned(),
        figure,
        values,
        unit,
        budget,
        is_floor: false,
    };
    vec![
        row("wall".to_owned(), times, " ms", None),
        row(format!("time ÷ {peer_name}"), ratios, " ×", budgets.map(|(ratio, _)| ratio)),
        row("most memory (VmHWM)".to_owned(), peaks, " MB", budgets.map(|(_, megabytes)| megabytes)),
    ]
}

/// Returns the most memory a process held, as last seen before it ended.
fn peak_megabytes(arguments: &[String]) -> f64 {
    let mut child = start(arguments);
    let mut peak: f64 = 0.0;
    let began = now();
    while child.try_wait().expect("the program can be waited for").is_none() {
        peak = peak.max(most_memory(child.id()).unwrap_or(0.0));
        std::thread::sleep(Duration::from_micros(500));
        assert!(began.elapsed() < Duration::from_secs(60), "the program hangs");
    }
    peak
}
