//! Output of benches: figures as table rows, and measurements of processes.

use std::{
    fs,
    time::{Duration, Instant},
};

/// The head of the table.
pub const HEAD: &str = "| question | figure | median | least – greatest |\n|---|---|---|---|";

/// One figure with its spread.
#[derive(Clone, Debug)]
pub struct Row {
    /// The question.
    pub question: String,
    /// Name of the figure.
    pub figure: String,
    /// One a round.
    pub values: Vec<f64>,
    /// Unit, printed after each value.
    pub unit: &'static str,
    /// Budget.
    pub budget: Option<f64>,
    /// Whether the budget is a minimum instead of a maximum.
    pub is_floor: bool,
}

impl Row {
    /// As a row of a Markdown table.
    pub fn markdown(&self) -> String {
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
pub fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted.get(sorted.len() * percent / 100).or(sorted.last()).copied().unwrap_or_default()
}

/// The one reading of the clock for all sections.
#[expect(clippy::disallowed_methods, reason = "a bench measures the machine's time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Returns the peak memory of a process in megabytes; `None` if unknown or if it has ended.
pub fn most_memory(process: u32) -> Option<f64> {
    megabytes(process, "VmHWM:")
}

/// Returns the resident memory of a process in megabytes; `None` as in [`most_memory`].
pub fn memory(process: u32) -> Option<f64> {
    megabytes(process, "VmRSS:")
}

fn megabytes(process: u32, word: &str) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find(|line| line.starts_with(word))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024.0)
}

/// Returns the processor time of all live threads of a process.
pub fn processor_time(process: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let nanoseconds = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    Duration::from_nanos(tasks.filter_map(nanoseconds).sum())
}
