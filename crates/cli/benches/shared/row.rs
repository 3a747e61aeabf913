//! A figure as a row of a table, and the clock that it is read from.

use std::time::Instant;

/// One figure with its spread.
pub(crate) struct Row {
    pub(crate) question: String,
    pub(crate) figure: String,
    pub(crate) values: Vec<f64>,
    pub(crate) unit: &'static str,
    pub(crate) budget: Option<f64>,
    /// Whether the budget is the least that is asked for, and not the most.
    pub(crate) is_floor: bool,
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
            Some(budget) if self.is_floor && median < budget => format!(" (**below** the asked {budget})"),
            Some(budget) if self.is_floor => format!(" (asked: {budget})"),
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

/// A percentile of sorted figures.
pub(crate) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted.get(sorted.len() * percent / 100).or(sorted.last()).copied().unwrap_or_default()
}

/// The one reading of the clock for all sections.
#[expect(clippy::disallowed_methods, reason = "a bench measures the machine's time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
