//! Runs of a session: each user prompt starts one, and the root's turns end it.
//!
//! Repeats of a prompt within a kind of source are removed; the kind with the most prompts gives the number. Streams
//! have no prompts: with streams alone, there is one run for each result that answers a prompt, plus one for each
//! stream with activity after its last result. OpenTelemetry records begin runs where nothing else does; elsewhere those
//! of the same prompts add their times.

use std::collections::BTreeSet;

use hashbrown::{HashMap, HashSet};
use subscope_model::{AgentStatus, Millis, SourceKind, SpawnMode, Text, stable_hash};

use crate::facts::{Facts, LastLine, PromptFact};

/// Source and byte offset of a line.
pub(crate) type LinePlace = (u32, u64);

/// A run of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Number, from 1.
    pub number: u32,
    /// Identity of its prompt within the session: its id, else its text and how many prompts before have it. `None` for
    /// runs of streams, which have no prompts.
    pub prompt_key: Option<String>,
    /// Time of its prompt, or of a stream's first line in it.
    pub started_at: Option<Millis>,
    /// End of its last turn before the next run; `None` if no source reports one.
    pub ending: Option<RunEnding>,
}

/// End of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnding {
    /// How its last turn ended.
    pub status: AgentStatus,
    /// When.
    pub time: Option<Millis>,
}

/// The runs, in order, and the lines that begin them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionRuns {
    pub(crate) all: Vec<Run>,
    /// Start times with the number of their run, sorted.
    starts: Vec<(Millis, u32)>,
    /// Of each source, the offsets of lines that begin a run with its number, sorted.
    lines: HashMap<u32, Vec<(u64, u32)>>,
    /// Sources without an order of lines: a span is reported when it ends, so the span of a prompt comes after all of
    /// its run.
    unordered: HashSet<u32>,
    /// Identity of each prompt within the session, by the hash of its text and the line that reports it.
    prompt_keys: HashMap<(LinePlace, u64), String>,
}

impl SessionRuns {
    /// Number of runs.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.all.len()).unwrap_or(u32::MAX)
    }

    /// Returns the run of a line, from 1; 0 before the first. By its place if its source has lines in order that begin
    /// runs, as the clocks of several sources differ; else by its time. Without both: 1 if there is any run, else 0.
    pub(crate) fn at(&self, time: Option<Millis>, place: Option<LinePlace>) -> u32 {
        let by_time = || match time {
            Some(time) if !self.starts.is_empty() => {
                let before = self.starts.partition_point(|(start, _)| *start <= time);
                before.checked_sub(1).and_then(|last| self.starts.get(last)).map_or(0, |(_, run)| *run)
            }
            _ => self.count().min(1),
        };
        let ordered = place.filter(|(source, _)| !self.unordered.contains(source));
        let Some((begins, offset)) =
            ordered.and_then(|(source, offset)| Some((self.lines.get(&source)?, offset)))
        else {
            return by_time();
        };
        let before = begins.partition_point(|(begin, _)| *begin <= offset);
        match (before.checked_sub(1).and_then(|last| begins.get(last)), begins.first()) {
            (Some((_, run)), _) => *run,
            // Before the first: in an earlier run, if there is one.
            (None, Some((_, first))) => by_time().min(first - 1),
            (None, None) => by_time(),
        }
    }

    /// Returns the run that the prompt in this line begins.
    pub(crate) fn begun_in(&self, (source, offset): LinePlace) -> Option<&Run> {
        let begins = self.lines.get(&source)?;
        let found = begins.binary_search_by_key(&offset, |(begin, _)| *begin).ok()?;
        self.all.get(begins[found].1 as usize - 1)
    }

    /// Returns the identity of a prompt within the session, the same for all sources that report it.
    pub(crate) fn prompt_key(&self, line: LinePlace, text: &str) -> Option<&str> {
        self.prompt_keys.get(&(line, stable_hash(text))).map(String::as_str)
    }

    fn add_prompt_key(&mut self, prompt: &Prompt<'_>, key: &str) {
        let keys = prompt.lines.iter().map(|line| ((*line, prompt.first.hash), key.to_owned()));
        self.prompt_keys.extend(keys);
    }

    /// Adds the next run.
    fn push(&mut self, started_at: Option<Millis>, lines: impl IntoIterator<Item = LinePlace>) {
        let number = self.count() + 1;
        self.all.push(Run { number, prompt_key: None, started_at: None, ending: None });
        self.add_report(self.all.len() - 1, started_at, lines);
    }

    /// Adds another source's report of a run's begin; its time counts if none was known.
    fn add_report(&mut self, run: usize, time: Option<Millis>, lines: impl IntoIterator<Item = LinePlace>) {
        let number = u32::try_from(run + 1).unwrap_or(u32::MAX);
        if let Some(known) = self.all.get_mut(run).filter(|known| known.started_at.is_none()) {
            known.started_at = time;
            self.starts.extend(time.map(|time| (time, number)));
        }
        for (source, offset) in lines {
            self.lines.entry(source).or_default().push((offset, number));
        }
    }

    fn sort(&mut self) {
        self.starts.sort_unstable();
        self.lines.values_mut().for_each(|begins| begins.sort_unstable());
    }
}

/// A prompt without its repeats.
struct Prompt<'f> {
    first: &'f PromptFact,
    /// The first id that a line of it has.
    id: Option<&'f Text>,
    /// Lines that report it.
    lines: Vec<LinePlace>,
    /// Number of prompts with the same text before it.
    repeats: usize,
}

impl Prompt<'_> {
    fn key(&self) -> String {
        match self.id {
            Some(id) => format!("prompt/{id}"),
            None => format!("prompt/{:x}/{}", self.first.hash, self.repeats),
        }
    }

    /// Whether two sources report the same prompt.
    fn is_same(&self, other: &Self) -> bool {
        match (self.id, other.id) {
            (Some(id), Some(other)) => id == other,
            _ => (self.first.hash, self.repeats) == (other.first.hash, other.repeats),
        }
    }
}

/// Derives the runs.
pub(crate) fn derive_runs(facts: &Facts) -> SessionRuns {
    let by_kind = |kind: SourceKind| distinct(facts.prompts.iter().filter(|prompt| prompt.kind == kind));
    let mut kinds = Vec::from([SourceKind::Hook, SourceKind::Posted, SourceKind::Transcript].map(by_kind));
    // Of several kinds with the same number of prompts, the last one.
    kinds.sort_by_key(Vec::len);
    let prompts = kinds.pop().unwrap_or_default();
    let mut runs = SessionRuns::default();
    for prompt in &prompts {
        runs.push(prompt.first.time, prompt.lines.iter().copied());
        if let Some(run) = runs.all.last_mut() {
            run.prompt_key = Some(prompt.key());
        }
    }
    let mut keys: Vec<(&Prompt<'_>, String)> = prompts.iter().map(|prompt| (prompt, prompt.key())).collect();
    // Prompts of streams make no runs: some versions do not distinguish the answer to a notification from that to a prompt.
    // Nor do those of records: see [`asked_in_records`].
    let (streamed_prompts, records) = (by_kind(SourceKind::Stream), by_kind(SourceKind::Otel));
    runs.unordered.extend(records.iter().flat_map(|prompt| &prompt.lines).map(|(source, _)| *source));
    let more = if prompts.is_empty() { &[][..] } else { records.as_slice() };
    for other in kinds.iter().chain([&streamed_prompts]).flatten().chain(more) {
        let same = prompts.iter().position(|prompt| prompt.is_same(other));
        if let Some(run) = same {
            runs.add_report(run, other.first.time, other.lines.iter().copied());
        }
        keys.push((other, same.map_or(other, |same| &prompts[same]).key()));
    }
    // Records come in any order: a record of a prompt only identifies it; its position has no meaning.
    let recorded_prompts = by_kind(SourceKind::Otel);
    for other in &recorded_prompts {
        keys.extend(prompts.iter().find(|prompt| prompt.is_same(other)).map(|same| (other, same.key())));
    }
    // Streams count only if no other source has prompts.
    let streamed = stream_runs(facts);
    if prompts.is_empty() {
        let unordered = std::mem::take(&mut runs.unordered);
        let has_streamed = !streamed.all.is_empty();
        runs = SessionRuns { unordered, ..streamed };
        for (number, prompt) in asked_in_records(facts, &records).into_iter().enumerate() {
            if number >= runs.all.len() {
                if has_streamed {
                    break;
                }
                runs.push(None, []);
            }
            runs.add_report(number, prompt.first.time, prompt.lines.iter().copied());
            runs.add_prompt_key(prompt, &prompt.key());
            if let Some(run) = runs.all.get_mut(number) {
                run.prompt_key = Some(prompt.key());
            }
        }
    } else if runs.starts.is_empty() && runs.all.len() == streamed.all.len() {
        // Without times, only this relates lines of a stream to prompts of a hook log.
        for (number, run) in streamed.all.iter().enumerate() {
            let lines = streamed.lines.iter().flat_map(|(source, begins)| {
                let begins = begins.iter().filter(move |(_, of)| *of as usize == number + 1);
                begins.map(|(offset, _)| (*source, *offset))
            });
            runs.add_report(number, run.started_at, lines);
        }
    }
    keys.iter().for_each(|(prompt, key)| runs.add_prompt_key(prompt, key));
    runs.sort();
    add_endings(facts, &mut runs);
    runs
}

/// Removes repeated prompts: those with the same id or line id, and, for those with neither, the same text, time and
/// offset.
fn distinct<'f>(prompts: impl Iterator<Item = &'f PromptFact>) -> Vec<Prompt<'f>> {
    let mut sorted: Vec<&PromptFact> = prompts.collect();
    sorted.sort_by_key(|prompt| prompt.order);
    let mut found: Vec<Prompt<'f>> = Vec::new();
    let (mut ids, mut lines, mut places) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut repeats: HashMap<u64, usize> = HashMap::new();
    for prompt in sorted {
        let place = (prompt.hash, prompt.order.offset, prompt.time);
        let has_no_name = prompt.id.is_none() && prompt.line_id.is_none();
        let known = prompt.id.as_ref().and_then(|id| ids.get(id));
        let known = known.or_else(|| prompt.line_id.as_ref().and_then(|line| lines.get(line)));
        let known: Option<usize> = known.or_else(|| places.get(&place).filter(|_| has_no_name)).copied();
        let number = known.unwrap_or(found.len());
        prompt.id.as_ref().map(|id| ids.insert(id, number));
        prompt.line_id.as_ref().map(|line| lines.insert(line, number));
        places.insert(place, number);
        let line = (prompt.source, prompt.order.offset);
        match found.get_mut(number) {
            Some(same) => {
                same.lines.push(line);
                same.id = same.id.or(prompt.id.as_ref());
            }
            None => {
                let before = repeats.entry(prompt.hash).or_default();
                found.push(Prompt {
                    first: prompt,
                    id: prompt.id.as_ref(),
                    lines: vec![line],
                    repeats: *before,
                });
                *before += 1;
            }
        }
    }
    found
}

/// Derives the runs of streams: one for each result that answers a prompt, and one for each stream with activity after
/// its last result.
fn stream_runs(facts: &Facts) -> SessionRuns {
    let mut runs = SessionRuns::default();
    let mut results: Vec<_> = facts.turns.iter().filter(|turn| turn.kind == SourceKind::Stream).collect();
    results.sort_by_key(|turn| (turn.source, turn.order.offset));
    let mut seen = BTreeSet::new();
    results.retain(|turn| turn.line_id.as_ref().is_none_or(|line| seen.insert(line)));
    let mut streams: Vec<_> = facts.streams.iter().collect();
    streams.sort_by_key(|(source, stream)| {
        let first = stream.begins.first().and_then(|(_, time)| *time);
        (first.is_none(), first, **source)
    });
    // Two streams of one server repeat each other: the prompt that begins a run has one line id in both.
    let prompts = facts.prompts.iter().filter(|prompt| prompt.kind == SourceKind::Stream);
    let named = prompts.filter_map(|it| Some(((it.source, it.order.offset), it.line_id.as_ref()?)));
    let named: HashMap<LinePlace, &Text> = named.collect();
    let mut begun: HashMap<&Text, usize> = HashMap::new();
    for (source, stream) in streams {
        let mut from = 0;
        // The answer to a notification belongs to the run before.
        let mut add = |begin: u64, until: u64| {
            // The result of a local command has none.
            if let Some((at, time)) = stream.begins.iter().find(|(at, _)| (begin..=until).contains(at)) {
                // Between two runs, agents in the background are still at work for the first.
                let line = (*source, if begin == 0 { 0 } else { *at });
                let prompt = named.get(&(*source, *at));
                match prompt.and_then(|prompt| begun.get(*prompt)) {
                    Some(run) => runs.add_report(*run, *time, [line]),
                    None => {
                        runs.push(*time, [line]);
                        begun.extend(prompt.map(|prompt| (*prompt, runs.all.len() - 1)));
                    }
                }
            }
        };
        for result in results.iter().filter(|turn| turn.source == *source) {
            if result.counts_run {
                add(from, result.order.offset);
            }
            from = result.order.offset + 1;
        }
        let is_open = match (stream.last_result, stream.last_activity) {
            (Some(result), Some(activity)) => activity > result,
            (Some(_), None) => false,
            (None, _) => true,
        };
        if is_open {
            add(from, u64::MAX);
        }
    }
    runs
}

/// Returns those prompts of OpenTelemetry records that begin runs. The record of a prompt leaves its text out unless
/// asked for it, and a notice that a background agent has ended is recorded as one, too: what follows such an end is no
/// prompt.
fn asked_in_records<'p, 'f>(facts: &Facts, records: &'p [Prompt<'f>]) -> Vec<&'p Prompt<'f>> {
    let mut noticed: Vec<Millis> = facts
        .ends
        .iter()
        .filter(|(agent, _)| {
            let known = facts.by_id.get(*agent).map(|agent| facts.agent(*agent));
            known.is_some_and(|agent| agent.modes.iter().any(|(.., mode)| *mode == SpawnMode::Background))
        })
        .flat_map(|(_, ends)| ends.iter().filter(|end| end.order.kind == SourceKind::Otel))
        .map(|end| end.order.time)
        .collect();
    noticed.sort_unstable();
    let mut before = None;
    let mut is_notice = |prompt: &Prompt<'_>| {
        let time = prompt.first.time;
        let follows_end = before.zip(time).is_some_and(|(before, time)| {
            let first = noticed.partition_point(|end| *end < before);
            noticed.get(first).is_some_and(|end| *end <= time)
        });
        before = time.or(before);
        follows_end && prompt.first.is_redacted()
    };
    records.iter().filter(|prompt| !is_notice(prompt)).collect()
}

/// Adds the end of each run's last turn.
fn add_endings(facts: &Facts, runs: &mut SessionRuns) {
    /// Order, class of evidence, offset.
    type Rank = (Millis, u8, u64);
    let mut last: Vec<Option<(Rank, RunEnding)>> = vec![None; runs.all.len()];
    let mut add = |(source, order, time): (u32, crate::facts::FactOrder, _), class: u8, status| {
        let run = runs.at(time, Some((source, order.offset)));
        let Some(slot) = (run as usize).checked_sub(1).and_then(|run| last.get_mut(run)) else { return };
        let rank = (order.time, class, order.offset);
        let latest = slot.as_ref().map(|(_, ending)| ending.time);
        let time = time.max(latest.flatten());
        match slot {
            Some((known, ending)) if *known > rank => ending.time = time,
            _ => *slot = Some((rank, RunEnding { status, time })),
        }
    };
    // OpenTelemetry records of turns count where no other source has any.
    let counts_records = facts.turns.iter().all(|turn| turn.kind == SourceKind::Otel)
        && facts.root_lines.iter().all(|line| line.order.kind == SourceKind::Otel);
    for turn in facts.turns.iter().filter(|turn| counts_records || turn.kind != SourceKind::Otel) {
        let class = if turn.kind == SourceKind::Hook { 0 } else { 2 };
        add((turn.source, turn.order, turn.time), class, turn.status);
    }
    for line in facts.root_lines.iter().filter(|line| counts_records || line.order.kind != SourceKind::Otel) {
        let (class, status) = match line.last_line {
            LastLine::EndTurn | LastLine::TextOnly => (1, AgentStatus::Completed),
            LastLine::ApiError => (1, AgentStatus::Failed),
            LastLine::Interrupted => (3, AgentStatus::Stopped),
            LastLine::Open => continue,
        };
        add((line.source, line.order, line.time), class, status);
    }
    for (run, ending) in runs.all.iter_mut().zip(last) {
        run.ending = ending.map(|(_, ending)| ending);
    }
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
        derive_runs(session.facts()).count()
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
        assert_eq!(derive_runs(session.facts()).at(None, None), 0);
        session.add(SourceKind::Transcript, 10, ROOT, prompt(None, r#""a""#));
        session.add(SourceKind::Transcript, 20, ROOT, prompt(None, r#""b""#));
        let runs = derive_runs(session.facts());
        assert_eq!(
            [Some(9), Some(10), Some(19), Some(20), None].map(|time| runs.at(time, None)),
            [0, 1, 1, 2, 1]
        );
    }
}
