//! Runs: a prompt of the user starts one, and nothing else does.
//!
//! The identity of a prompt is the harness's id where both tellings have one, else the n-th equal text. A stream alone
//! has no prompts: there it is one run for each result that answers a prompt, plus an open tail.

use std::collections::{BTreeMap, BTreeSet};

use subscope_model::{Millis, SourceKind};

use crate::facts::{Facts, PromptFact};

/// How many runs there are, and when they began as far as that is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    /// How many.
    pub(crate) count: u32,
    starts: Vec<Millis>,
}

impl Runs {
    /// The run of a moment, from 1; 0 before the first. Without a time it is the only run, or not known.
    pub(crate) fn at(&self, time: Option<Millis>) -> u32 {
        match time {
            Some(time) if !self.starts.is_empty() => {
                u32::try_from(self.starts.partition_point(|start| *start <= time)).unwrap_or(u32::MAX)
            }
            _ => self.count.min(1),
        }
    }
}

/// Concludes the runs.
pub(crate) fn runs(facts: &Facts) -> Runs {
    let by_kind = |kind: SourceKind| distinct(facts.prompts.iter().filter(|prompt| prompt.kind == kind));
    let prompts = [SourceKind::Transcript, SourceKind::Posted, SourceKind::Hook].map(by_kind);
    let told = prompts.iter().map(Vec::len).max().unwrap_or(0);
    let mut starts: Vec<Millis> = prompts
        .iter()
        .max_by_key(|list| list.len())
        .into_iter()
        .flatten()
        .filter_map(|prompt| prompt.time)
        .collect();
    starts.sort_unstable();
    // A stream is asked only where no source told a prompt: it cannot tell an answer to a notification from one to a
    // prompt on every version.
    let count = if told > 0 { u32::try_from(told).unwrap_or(u32::MAX) } else { streamed(facts) };
    Runs { count, starts }
}

/// Keeps each prompt once. The same line, or the same id, is the same prompt; so are texts at the same place of order.
fn distinct<'f>(prompts: impl Iterator<Item = &'f PromptFact>) -> Vec<&'f PromptFact> {
    let mut sorted: Vec<&PromptFact> = prompts.collect();
    sorted.sort_by_key(|prompt| prompt.order);
    let mut ids = BTreeSet::new();
    let mut lines = BTreeSet::new();
    let mut places = BTreeMap::new();
    sorted.retain(|prompt| {
        let is_new_id = prompt.id.as_ref().is_none_or(|id| ids.insert(id.clone()));
        let is_new_line = prompt.line_id.as_ref().is_none_or(|line| lines.insert(line.clone()));
        let has_no_name = prompt.id.is_none() && prompt.line_id.is_none();
        let is_new_place =
            !has_no_name || places.insert((prompt.hash, prompt.order.offset, prompt.time), ()).is_none();
        is_new_id && is_new_line && is_new_place
    });
    sorted
}

/// Counts the runs of streams: results that answer a prompt, and for each stream an open tail behind its last one.
fn streamed(facts: &Facts) -> u32 {
    let results: Vec<_> = facts.turns.iter().filter(|turn| turn.kind == SourceKind::Stream).collect();
    let mut seen = BTreeSet::new();
    let counted = results
        .iter()
        .filter(|turn| turn.counts_run)
        .filter(|turn| match &turn.line_id {
            Some(line) => seen.insert(line.clone()),
            None => true,
        })
        .count();
    let open = facts.streams.values().filter(|stream| match (stream.last_result, stream.last_activity) {
        (Some(result), Some(activity)) => activity > result,
        (Some(_), None) => false,
        (None, _) => true,
    });
    u32::try_from(counted + open.count()).unwrap_or(u32::MAX)
}
