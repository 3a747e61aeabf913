//! Rounds of contenders one after the other, and the figures over them.

use std::time::Duration;

use subscope_testkit::figures::{Row, now};

/// How long something takes.
pub(crate) fn time(work: &mut dyn FnMut()) -> Duration {
    let began = now();
    work();
    began.elapsed()
}

/// Runs ours, the peer and ours again in every round, and gives ratio, A/A ratio and speed.
pub(crate) fn compare(
    question: &str,
    bytes: usize,
    rounds: usize,
    ours: &mut dyn FnMut(),
    peer: &mut dyn FnMut(),
    peer_name: &str,
    budget: f64,
) -> Vec<Row> {
    time(ours);
    time(peer);
    let (mut ratios, mut same, mut speeds) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let first = time(ours).as_secs_f64();
        let other = time(peer).as_secs_f64();
        let second = time(ours).as_secs_f64();
        ratios.push((first + second) / 2.0 / other);
        same.push(first / second);
        speeds.push(bytes as f64 / 1e6 / first);
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
        row(format!("time ÷ {peer_name}"), ratios, " ×", Some(budget)),
        row("A/A: the same twice".to_owned(), same, " ×", None),
        row("speed".to_owned(), speeds, " MB/s", None),
    ]
}
