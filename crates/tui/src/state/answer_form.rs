//! The answers to an agent's questions, while a person chooses them: one question at a time.

use std::collections::BTreeSet;

use subscope_model::{AgentQuestion, Text};

/// The questions of a request that are answered, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerForm {
    /// The answers so far; the question after them is on the screen.
    given: Vec<Text>,
    /// Place of the cursor: an option, or behind the last one "other words".
    pub(crate) cursor: usize,
    /// The chosen options of a question that takes several.
    chosen: BTreeSet<usize>,
    /// Other words, while they are typed.
    pub(crate) words: Option<String>,
}

impl AnswerForm {
    /// Index of the question on the screen.
    pub(crate) fn question(&self) -> usize {
        self.given.len()
    }

    /// Whether an option is chosen.
    pub(crate) fn is_chosen(&self, option: usize) -> bool {
        self.chosen.contains(&option)
    }

    /// Moves the cursor by some rows.
    pub(crate) fn step(&mut self, asked: &AgentQuestion, rows: isize) {
        self.cursor = self.cursor.saturating_add_signed(rows).min(asked.options.len());
    }

    /// Chooses the option at the cursor, or chooses it no longer, where a question takes several.
    pub(crate) fn toggle(&mut self, asked: &AgentQuestion) {
        if asked.multi_select && self.cursor < asked.options.len() && !self.chosen.remove(&self.cursor) {
            self.chosen.insert(self.cursor);
        }
    }

    /// Takes what is chosen as the answer, the option at the cursor if nothing is; on "other words", their typing begins.
    pub(crate) fn choose(&mut self, asked: &AgentQuestion) {
        let label = |&option: &usize| asked.options.get(option).map(|option| &*option.label);
        let chosen: Vec<&str> = self.chosen.iter().filter_map(label).collect();
        match label(&self.cursor) {
            _ if !chosen.is_empty() => self.give(chosen.join(", ").into()),
            Some(only) => self.give(only.into()),
            None => self.words = Some(String::new()),
        }
    }

    /// Takes an answer; the next question follows.
    pub(crate) fn give(&mut self, answer: Text) {
        let given = std::mem::take(&mut self.given);
        *self = Self { given: given.into_iter().chain([answer]).collect(), ..Self::default() };
    }

    /// Returns to the question before.
    pub(crate) fn back(&mut self) {
        let mut given = std::mem::take(&mut self.given);
        given.pop();
        *self = Self { given, ..Self::default() };
    }

    /// The answers, once all of so many questions have one.
    pub(crate) fn all(&self, questions: usize) -> Option<&[Text]> {
        (self.given.len() == questions).then_some(&self.given)
    }
}
