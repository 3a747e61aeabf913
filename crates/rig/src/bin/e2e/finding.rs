//! Findings of a scenario: figures and errors.

use std::fmt::{Debug, Display};

use subscope_testkit::losses::Losses;

/// Findings so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    notes: Vec<String>,
    faults: Vec<String>,
    /// Sessions that were followed over the live feed.
    pub(crate) followed: usize,
    /// Rows of these that were compared with the same row before.
    pub(crate) compared: u64,
}

impl Findings {
    /// A figure or fact for the scenario's line.
    pub(crate) fn note(&mut self, what: impl Display) {
        self.notes.push(what.to_string());
    }

    /// Something that is wrong.
    pub(crate) fn fault(&mut self, what: impl Display) {
        self.faults.push(what.to_string());
    }

    /// What is wrong so far.
    pub(crate) fn faults(&self) -> &[String] {
        &self.faults
    }

    /// Appends all findings of another.
    pub(crate) fn add(&mut self, others: Self) {
        self.notes.extend(others.notes);
        self.faults.extend(others.faults);
        self.followed += others.followed;
        self.compared += others.compared;
    }

    /// Adds losses of rows in the live feed as errors.
    pub(crate) fn losses(&mut self, of: impl Display, losses: &Losses) {
        self.followed += losses.followed();
        self.compared += losses.compared;
        for lost in &losses.found {
            self.fault(format!("{of}: a row lost what it had said: {lost}"));
        }
    }

    /// Whether nothing is wrong.
    pub(crate) fn is_right(&self) -> bool {
        self.faults.is_empty()
    }

    /// Something that is wrong if two things differ.
    pub(crate) fn same<T: PartialEq + Debug>(&mut self, what: impl Display, found: T, wanted: T) {
        if found != wanted {
            self.fault(format!("{what}: {found:?}, and not {wanted:?}"));
        }
    }

    /// Prints the line of a scenario, and below it what is wrong; returns how much that is.
    pub(crate) fn print(&self, name: &str) -> usize {
        let word = if self.is_right() { "ok" } else { "FAILED" };
        println!("{name}: {word} · {}", self.notes.join(" · "));
        for fault in &self.faults {
            println!("  {fault}");
        }
        self.faults.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_differs() {
        let mut findings = Findings::default();
        findings.note("a note");
        findings.same("figures", 1, 1);
        assert_eq!(findings.print("x"), 0);
        findings.same("figures", 1, 2);
        assert_eq!((findings.print("x"), findings.faults), (1, vec!["figures: 1, and not 2".to_owned()]));
    }
}
