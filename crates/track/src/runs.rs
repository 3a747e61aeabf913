//! Runs of a session: each user prompt starts one.
//!
//! Repeats of a prompt within a kind of source are removed; the kind with the most prompts gives the number. Streams
//! have no prompts: with streams alone, there is one run for each result that answers a prompt, plus one for each
//! stream with activity after its last result.

use std::collections::{BTreeMap, BTreeSet};

use subscope_model::{Millis, SourceKind};

use crate::facts::{Facts, PromptFact};

/// Number of runs and their start times, where known.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionRuns {
    /// Number of runs.
    pub(crate) count: u32,
    starts: Vec<Millis>,
}

impl SessionRuns {
    /// Returns the run at a time, from 1; 0 before the first. Without a time: 1 if there is any run, else 0.
    pub(crate) fn at(&self, time: Option<Millis>) -> u32 {
        match time {
            Some(time) if !self.starts.is_empty() => {
                u32::try_from(self.starts.partition_point(|start| *start <= time)).unwrap_or(u32::MAX)
            }
            _ => self.count.min(1),
        }
    }
}

/// Derives the runs.
pub(crate) fn derive_runs(facts: &Facts) -> SessionRuns {
    let by_kind = |kind: SourceKind| distinct(facts.prompts.iter().filter(|prompt| prompt.kind == kind));
    let prompts = [SourceKind::Transcript, SourceKind::Posted, SourceKind::Hook].map(by_kind);
    let prompted = prompts.iter().map(Vec::len).max().unwrap_or(0);
    let mut starts: Vec<Millis> = prompts
        .iter()
        .max_by_key(|list| list.len())
        .into_iter()
        .flatten()
        .filter_map(|prompt| prompt.time)
        .collect();
    starts.sort_unstable();
    // Streams count only if no other source has prompts: some versions do not distinguish the answer to a notification
    // from that to a prompt.
    let count =
        if prompted > 0 { u32::try_from(prompted).unwrap_or(u32::MAX) } else { count_stream_runs(facts) };
    SessionRuns { count, starts }
}

/// Removes repeated prompts: those with the same id or line id, and, for those with neither, the same text, time and
/// offset.
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

/// Counts the runs of streams: results that answer a prompt, and one for each stream with activity after its last
/// result.
fn count_stream_runs(facts: &Facts) -> u32 {
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

#[cfg(test)]
mod tests {
    use subscope_model::{AgentStatus, Claim, EndEvidence, Fact, PromptKind};

    use super::*;
    use crate::test_session::{ROOT, TestSession, raw, response};

    fn prompt<'a>(id: Option<&'a str>, text: &'a str) -> Fact<'a> {
        Fact::Prompt { prompt_id: id, text: raw(text), what: PromptKind::Asked }
    }

    fn result(counts_run: bool) -> Fact<'static> {
        let (status, evidence) = (AgentStatus::Completed, EndEvidence::LastLine);
        Fact::TurnEnd { status, evidence, counts_run, text: None }
    }

    fn count(session: &TestSession) -> u32 {
        derive_runs(session.facts()).count
    }

    #[test]
    fn prompts_are_counted_once_per_id_and_not_summed_over_kinds() {
        let mut session = TestSession::new();
        for (kind, time, id) in [
            (SourceKind::Transcript, 1, "p1"),
            (SourceKind::Transcript, 2, "p1"),
            (SourceKind::Transcript, 3, "p2"),
            (SourceKind::Hook, 1, "p1"),
        ] {
            session.add(kind, time, ROOT, prompt(Some(id), r#""x""#));
        }
        assert_eq!(count(&session), 2);
    }

    #[test]
    fn equal_prompts_without_an_id_are_two_runs() {
        let mut session = TestSession::new();
        session.add(SourceKind::Hook, None, ROOT, prompt(None, r#""go on""#));
        session.add(SourceKind::Hook, None, ROOT, prompt(None, r#""go on""#));
        assert_eq!(count(&session), 2);
    }

    #[test]
    fn only_prompts_that_ask_the_root_are_runs() {
        let mut session = TestSession::new();
        for what in [PromptKind::Meta, PromptKind::Local, PromptKind::Interrupted] {
            session.add(
                SourceKind::Transcript,
                1,
                ROOT,
                Fact::Prompt { prompt_id: None, text: raw("1"), what },
            );
        }
        session.add(SourceKind::Transcript, 2, Claim::SpawnedBy("c1"), prompt(None, r#""x""#));
        assert_eq!(count(&session), 0);
    }

    #[test]
    fn streams_count_results_and_activity_after_the_last_result() {
        let mut session = TestSession::new();
        session.add(SourceKind::Stream, 1, ROOT, Fact::Response(response("m1", 1)));
        assert_eq!(count(&session), 1, "a stream without a result is a run");
        session.add(SourceKind::Stream, 2, ROOT, result(true));
        assert_eq!(count(&session), 1);
        session.add(SourceKind::Stream, 3, ROOT, result(false));
        assert_eq!(count(&session), 1, "an answer to a notification is none");
        session.add(SourceKind::Stream, 4, ROOT, Fact::Response(response("m2", 1)));
        assert_eq!(count(&session), 2);
        session.add(SourceKind::Transcript, 1, ROOT, prompt(None, r#""x""#));
        assert_eq!(count(&session), 1, "prompts win over streams");
    }

    #[test]
    fn run_at_a_time_is_that_of_the_last_prompt_before_it() {
        let mut session = TestSession::new();
        assert_eq!(derive_runs(session.facts()).at(None), 0);
        session.add(SourceKind::Transcript, 20, ROOT, prompt(None, r#""b""#));
        session.add(SourceKind::Transcript, 10, ROOT, prompt(None, r#""a""#));
        let runs = derive_runs(session.facts());
        assert_eq!([Some(9), Some(10), Some(19), Some(20), None].map(|time| runs.at(time)), [0, 1, 1, 2, 1]);
    }
}
