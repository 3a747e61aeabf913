//! Rounds of contenders one after the other, and the figures over them.

use std::time::{Duration, Instant};

/// One figure with its spread.
pub(crate) struct Row {
    pub(crate) question: String,
    pub(crate) figure: String,
    pub(crate) values: Vec<f64>,
    pub(crate) unit: &'static str,
    pub(crate) budget: Option<f64>,
}

impl Row {
    /// As a row of a Markdown table.
    pub(crate) fn markdown(&self) -> String {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| {
            sorted.get(((sorted.len() - 1) as f64 * share) as usize).copied().unwrap_or(f64::NAN)
        };
        let median = at(0.5);
        let budget = match self.budget {
            Some(budget) if median <= budget => format!(" (budget {budget})"),
            Some(budget) => format!(" (**over** the budget of {budget})"),
            None => String::new(),
        };
        let number = |value: f64| if value < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") };
        let Self { question, figure, unit, .. } = self;
        format!(
            "| {question} | {figure} | {}{unit}{budget} | {} – {}{unit} |",
            number(median),
            number(at(0.0)),
            number(at(1.0))
        )
    }
}

/// The one reading of the clock for all sections.
#[expect(clippy::disallowed_methods, reason = "a bench measures the machine's time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

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
    };
    vec![
        row(format!("time ÷ {peer_name}"), ratios, " ×", Some(budget)),
        row("A/A: the same twice".to_owned(), same, " ×", None),
        row("speed".to_owned(), speeds, " MB/s", None),
    ]
}
