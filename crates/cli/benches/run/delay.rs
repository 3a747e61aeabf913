//! How much later a line arrives. Budget: 1 ms for one in a hundred (issue 4).

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use subscope_hub::clock;

use subscope_testkit::figures::{Row, percentile};

use crate::{
    child::{self, STAMP, Script},
    server::Server,
};

const ROUNDS: usize = 3;

/// The delays of lines that come every two milliseconds, less those without us in the same round.
pub(crate) fn of_lines() -> Vec<Row> {
    let home = tempfile::tempdir().expect("a folder");
    let _server = Server::subscope(home.path());
    let (mut medians, mut alone, mut kept, mut bare) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut same, mut greatest) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (without, without_us_again) =
            (delays(child::bare(Script::Stamped)), delays(child::bare(Script::Stamped)));
        let with = delays(child::under_run(Script::Stamped, None));
        let with_hub = delays(child::under_run(Script::Stamped, Some(home.path())));
        let added = |with: &[f64], percent| percentile(with, percent) - percentile(&without, percent);
        medians.push(added(&with_hub, 50));
        alone.push(added(&with, 99));
        kept.push(added(&with_hub, 99));
        bare.push(percentile(&without, 99));
        same.push(added(&without_us_again, 99));
        greatest.push(percentile(&with_hub, 100));
    }
    let row = |figure: &str, values, budget| Row {
        question: "`run`: how much later a line arrives, 500 a second, blocks printed meanwhile".to_owned(),
        figure: figure.to_owned(),
        values,
        unit: " ms",
        budget,
        is_floor: false,
    };
    vec![
        row("99th percentile, a hub keeps", kept, Some(1.0)),
        row("99th percentile, `--no-store`", alone, Some(1.0)),
        row("median, a hub keeps", medians, None),
        row("A/A: 99th percentile, the child without us twice", same, None),
        row("its own 99th percentile", bare, None),
        row("greatest, a hub keeps", greatest, None),
    ]
}

/// The delays of all lines in milliseconds, sorted.
fn delays(mut command: Command) -> Vec<f64> {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
    let delay = |line: String| {
        let now = clock::now_ns();
        let (_, stamp) = line.rsplit_once(STAMP).expect("a stamp");
        let printed: u64 = stamp.trim_end_matches('}').parse().expect("a number");
        now.saturating_sub(printed) as f64 / 1e6
    };
    let mut all: Vec<f64> = lines.map_while(Result::ok).map(delay).collect();
    assert!(child.wait().expect("it ends").success());
    all.sort_by(f64::total_cmp);
    all
}
