//! Feed and rows are consistent: on prefixes of every recording, from each of its sources and from all of them, they
//! agree on actors, runs, endings and durations, however the sources are delivered.

#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::PathBuf,
};

use subscope_export::{AtifSource, Mask, atif_lines, write_atif};
use subscope_model::{
    Agent, AgentStatus, Basis, Event, EventKind, Flag, Payload, PriceTable, SessionId, ToolCall, Tree,
};
use subscope_session::{EventScope, FactDetail, Limits, Now, RouterOptions, SessionRouter};
use subscope_testkit::{
    fixtures::{Recording, bytes, odd_recordings, recordings, stopped_recordings},
    others::other_recordings,
    random::Random,
    sessions::{LATER, Part, Telling, now, options, parts_of, read},
};

/// Prefixes of each choice of sources.
const PREFIXES: usize = 20;

/// Prefixes of choices above this size that are also delivered in pieces: those take nearly all of the time.
const LARGE_PREFIXES: usize = 4;
const LARGE_BYTES: usize = 150_000;

/// Pieces in which a prefix is delivered.
const PIECES: usize = 12;

/// One choice of a recording's sources.
struct Choice {
    name: String,
    parts: Vec<Part>,
    /// Whether it is of a harness other than Claude Code.
    is_other: bool,
}

/// Each source of each recording, and all of them together.
fn choices() -> Vec<Choice> {
    let all: Vec<Recording> = [recordings(), stopped_recordings(), odd_recordings()].concat();
    let mut choices = Vec::new();
    for recording in all {
        let mut tellings = vec![Telling::Transcript, Telling::Stream];
        tellings.extend(recording.hooks().is_file().then_some(Telling::Hooks));
        for telling in &tellings {
            let (name, parts) =
                (format!("{} {telling:?}", recording.name()), parts_of(&recording, &[*telling]));
            choices.extend((!parts.is_empty()).then_some(Choice { name, parts, is_other: false }));
        }
        choices.push(Choice {
            name: format!("{} merged", recording.name()),
            parts: parts_of(&recording, &tellings),
            is_other: false,
        });
        choices.extend(trajectories(&recording));
        choices.extend(otel(&recording, &tellings));
    }
    for recording in other_recordings() {
        let all = recording.choices().into_iter();
        choices.extend(all.map(|(name, parts)| Choice { name, parts, is_other: true }));
    }
    for choice in &mut choices {
        group_by_session(&mut choice.parts);
    }
    choices
}

/// A recording's OpenTelemetry records: log events alone, spans alone, each and all of them with each of the other
/// sources.
fn otel(recording: &Recording, tellings: &[Telling]) -> Vec<Choice> {
    let part = |file: &PathBuf| Part::new(&file.file_name().unwrap().to_string_lossy(), bytes(file));
    let all: Vec<Part> = recording.otel().iter().map(part).collect();
    let mut choices = Vec::new();
    for word in ["otel-logs", "otel-traces", "otel"] {
        let own: Vec<Part> = all.iter().filter(|part| part.spec.label.contains(word)).cloned().collect();
        if own.is_empty() {
            continue;
        }
        let mut add = |with: &str, others: Vec<Part>| {
            let name = format!("{} {word}{with}", recording.name());
            // In both orders, which must give the same result.
            for (order, parts) in
                [("", [own.clone(), others.clone()]), (", last", [others.clone(), own.clone()])]
            {
                let parts = parts.concat();
                choices.push(Choice { name: format!("{name}{order}"), parts, is_other: false });
                if others.is_empty() {
                    break;
                }
            }
        };
        add("", Vec::new());
        for telling in tellings {
            add(&format!(" and {telling:?}"), parts_of(recording, &[*telling]));
        }
        add(" merged", parts_of(recording, tellings));
    }
    choices
}

/// A recording's sessions as trajectories: exported to ATIF and read again.
fn trajectories(recording: &Recording) -> Vec<Choice> {
    let parts = parts_of(recording, &[Telling::Transcript]);
    let options = RouterOptions { keep: FactDetail::Payloads, events: EventScope::Texts, ..options(true) };
    let mut router = read(&parts, options);
    let prices = PriceTable::default();
    let now = now(LATER, &prices);
    let sessions: Vec<SessionId> = router.sessions().cloned().collect();
    let exported = |session: &SessionId| {
        let (tree, texts) = (router.tree(session, &now).unwrap(), router.texts(session, &now));
        let detail = router.detail(session, &now).unwrap();
        let resolve = |payload: &Payload| match payload {
            Payload::Inline(text) => Some(text.to_string()),
            Payload::At { source, offset, len } => {
                let bytes = &parts[source.0 as usize].bytes[*offset as usize..][..*len as usize];
                Some(String::from_utf8(bytes.to_vec()).unwrap())
            }
        };
        let source = AtifSource {
            tree: &tree,
            detail: Some(&detail),
            texts: &texts,
            resolve: &resolve,
            mask: Mask::Nothing,
        };
        let mut document = Vec::new();
        write_atif(&source, &mut document).unwrap();
        let (lines, problems) = atif_lines(&document, "trajectory.json").unwrap();
        assert_eq!(problems, [], "{}", recording.name());
        let parts = vec![Part::new("trajectory.jsonl", lines)];
        Choice { name: format!("{} trajectory", recording.name()), parts, is_other: false }
    };
    sessions.iter().map(exported).collect()
}

/// Files of one session are one group, as where a folder is read.
fn group_by_session(parts: &mut [Part]) {
    let mut sessions: Vec<String> = parts.iter().filter_map(|part| part.spec.session.clone()).collect();
    sessions.sort();
    sessions.dedup();
    for part in parts {
        let place = sessions.iter().position(|session| Some(session) == part.spec.session.as_ref());
        part.spec.group = place.map_or(0, |place| place as u32 + 1);
    }
}

/// Cuts every source of a choice at the same share of its bytes, at a line's end or inside a line.
fn cut(parts: &[Part], number: usize, random: &mut Random) -> Vec<Part> {
    // The last prefix is all there is.
    let share = if number + 1 == PREFIXES { 1_000 } else { random.between(1, 1_000) as usize };
    let is_in_line = number % 2 == 1;
    let ends = ends(parts, share, 1_000);
    let cut_part = |(part, until): (&Part, usize)| {
        let mut bytes = part.bytes.get(..until).unwrap_or_default().to_vec();
        if part.spec.label.ends_with(".meta.json") {
            // A file that is one object is there or not.
            bytes = if until * 2 >= part.bytes.len() { part.bytes.clone() } else { Vec::new() };
        } else if !is_in_line {
            let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            bytes.truncate(end);
        }
        Part { bytes, ..part.clone() }
    };
    let cut: Vec<Part> = parts.iter().zip(ends).map(cut_part).collect();
    cut.into_iter().filter(|part| !part.bytes.is_empty()).collect()
}

fn is_printed(part: &Part) -> bool {
    ["stream", "stdout"].iter().any(|name| part.spec.label.starts_with(name))
}

/// Where each source ends at a share of all: files grow side by side, and processes print one after the other.
fn ends(parts: &[Part], share: usize, of: usize) -> Vec<usize> {
    let printed: usize = parts.iter().filter(|part| is_printed(part)).map(|part| part.bytes.len()).sum();
    let mut left = printed * share / of;
    let end = |part: &Part| {
        let len = part.bytes.len();
        let end = if is_printed(part) { left.min(len) } else { len * share / of };
        left -= if is_printed(part) { end } else { 0 };
        end
    };
    parts.iter().map(end).collect()
}

/// Contradictions.
#[derive(Default)]
struct Wrong(BTreeMap<String, (usize, String)>);

impl Wrong {
    /// Records a contradiction: how often each kind occurs, and the first of it.
    fn add(&mut self, kind: &str, what: impl FnOnce() -> String) {
        self.0.entry(kind.to_owned()).or_insert_with(|| (0, what())).0 += 1;
    }

    fn check(&mut self, holds: bool, kind: &str, what: impl FnOnce() -> String) {
        if !holds {
            self.add(kind, what);
        }
    }
}

/// Runs a check on all choices, on two threads; panics with the contradictions.
fn check_all(check: impl Fn(&Choice, &mut Random, &mut Wrong) + Sync) {
    let choices = choices();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let all = std::sync::Mutex::new(Wrong::default());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(choice) = choices.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    let seed = choice
                        .name
                        .bytes()
                        .fold(7, |seed: u64, byte| seed * 31 % 1_000_003 + u64::from(byte));
                    let mut wrong = Wrong::default();
                    check(choice, &mut Random::new(seed), &mut wrong);
                    let mut all = all.lock().unwrap();
                    for (kind, (count, what)) in wrong.0 {
                        all.0.entry(kind).or_insert((0, what)).0 += count;
                    }
                }
            });
        }
    });
    let wrong = all.into_inner().unwrap().0;
    let lines: Vec<String> =
        wrong.iter().map(|(kind, (count, what))| format!("{kind}: {count} times, first {what}")).collect();
    assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
}

/// The tree and the whole feed of sources that are read at once.
fn read_at_once(parts: &[Part]) -> Vec<(Tree, Vec<Event>)> {
    let prices = PriceTable::default();
    let mut router = read(parts, options(true));
    let sessions: Vec<SessionId> = router.sessions().cloned().collect();
    let now = now(LATER, &prices);
    let one = |session: &SessionId| {
        let tree = router.tree(session, &now).unwrap();
        (tree, router.whole_feed(session, &now))
    };
    sessions.iter().map(one).collect()
}

#[test]
fn feed_and_rows_agree_on_every_prefix() {
    check_all(|choice, random, wrong| {
        for number in 0..PREFIXES {
            let parts = cut(&choice.parts, number, random);
            for (tree, events) in read_at_once(&parts) {
                let name = format!("{}, prefix {number}", choice.name);
                compare(&name, &parts, &tree, &events, wrong);
            }
        }
    });
}

/// Compares a tree with the feed of the same moment.
fn compare(name: &str, parts: &[Part], tree: &Tree, events: &[Event], wrong: &mut Wrong) {
    let mut ids = BTreeSet::new();
    for event in events {
        wrong.check(ids.insert(&event.id), "an id twice", || format!("{name}: {event:?}"));
    }
    compare_calls(name, tree, events, wrong);
    compare_runs(name, tree, events, wrong);
    for row in tree.agents.iter().filter(|row| !row.id.is_root()) {
        compare_lifecycle(name, row, events, wrong);
    }
    for (kind, hook) in [(EventKind::SessionStart, "SessionStart"), (EventKind::SessionEnd, "SessionEnd")] {
        let count = events.iter().filter(|event| event.kind == kind).count();
        let line = format!("\"hook_event_name\":\"{hook}\"");
        let lines = parts.iter().map(|part| String::from_utf8_lossy(&part.bytes).matches(&line).count());
        let opened = lines.sum::<usize>().max(1);
        wrong.check(count <= opened, "a session's start or end repeated", || {
            format!("{name}: {count} {kind:?}")
        });
    }
}

fn is_call_event(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::ToolPre | EventKind::ToolPost | EventKind::ToolFailure | EventKind::PermissionDenied
    )
}

fn compare_calls(name: &str, tree: &Tree, events: &[Event], wrong: &mut Wrong) {
    let rows = || tree.agents.iter().flat_map(|row| row.tools.iter().map(move |call| (row, call)));
    let by_id: HashMap<&str, (&Agent, &ToolCall)> =
        rows().filter_map(|(row, call)| Some((call.id.as_ref()?.as_str(), (row, call)))).collect();
    let mut begun: BTreeMap<&str, usize> = BTreeMap::new();
    let mut nameless: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for event in events.iter().filter(|event| is_call_event(event)) {
        let what = || format!("{name}: {:?} {}", event.kind, event.data);
        let Some(id) = event.text("tool_use_id") else {
            if event.kind == EventKind::ToolPre {
                *nameless.entry((&event.actor_id.0, event.basis.as_str())).or_default() += 1;
            }
            continue;
        };
        let Some((row, call)) = by_id.get(id) else {
            // The end of a call that no source names.
            wrong.check(event.kind != EventKind::ToolPre, "a call that no row has", what);
            continue;
        };
        if event.kind == EventKind::ToolPre {
            *begun.entry(id).or_default() += 1;
        }
        wrong.check(event.actor_id.0 == row.id, "a call's actor", || format!("{}, row {}", what(), row.id));
        wrong.check(event.basis == call.basis, "a call's basis", || {
            format!("{}, row {:?}", what(), call.basis)
        });
        let measured = call.started_at_ms.zip(call.ended_at_ms).filter(|(begin, end)| begin <= end);
        if matches!(event.kind, EventKind::ToolPost | EventKind::ToolFailure) {
            let is_known = event.data["duration_ms"].is_number();
            wrong.check(measured.is_none() || is_known, "a call's duration", what);
        }
    }
    for (row, call) in rows() {
        let what = || format!("{name}: {call:?} of {}", row.id);
        match &call.id {
            // Only a batch of calls that are over reports a call without a begin.
            Some(id) => {
                let count = begun.get(id.as_str()).copied().unwrap_or_default();
                wrong.check(count == 1 || call.started_at_ms.is_none(), "a call's begin", what);
            }
            None => *nameless.entry((&row.id.0, call.basis.as_str())).or_default() -= 1,
        }
    }
    // Where a transcript begins in the middle of its first line, calls that a process has numbered by itself do not count
    // in rows, and their events are there.
    let is_renumbered = |event: &Event| &*event.source == "codex.exec";
    nameless.retain(|_, count| *count != 0 && !(*count > 0 && events.iter().any(is_renumbered)));
    wrong.check(nameless.is_empty(), "calls without ids", || format!("{name}: {nameless:?}"));
}

fn compare_runs(name: &str, tree: &Tree, events: &[Event], wrong: &mut Wrong) {
    let runs = |kind: EventKind| -> Vec<u32> {
        events.iter().filter(|event| event.kind == kind).map(|event| event.run).collect()
    };
    let all: Vec<u32> = (1..=tree.session.runs).collect();
    let (starts, mut ends) = (runs(EventKind::RunStart), runs(EventKind::RunEnd));
    let root = &tree.agents[0];
    wrong.check(starts == all, "starts of runs", || format!("{name}: {starts:?} of {all:?}"));
    ends.sort_unstable();
    let is_over = tree.agents.iter().all(|row| !row.status.is_live());
    let ended: Vec<u32> = all.iter().copied().filter(|run| *run < tree.session.runs || is_over).collect();
    wrong.check(ends == ended, "ends of runs", || format!("{name}: {ends:?} of {ended:?}"));
    let prompts = runs(EventKind::UserPrompt);
    let distinct: BTreeSet<u32> = prompts.iter().copied().collect();
    wrong.check(!distinct.contains(&0), "a prompt before its run", || format!("{name}: {prompts:?}"));
    let last = events.iter().rfind(|event| event.kind == EventKind::RunEnd && event.run == tree.session.runs);
    if let Some(last) = last.filter(|_| is_over) {
        let status = root.status.as_str();
        wrong.check(last.text("status") == Some(status), "the last run's status", || {
            format!("{name}: {} and {status}", last.data)
        });
    }
    for event in events {
        wrong.check(event.run <= tree.session.runs, "a run that no row counts", || {
            format!("{name}: {event:?}")
        });
        wrong.check(
            tree.agents.iter().any(|row| row.id == event.actor_id.0),
            "an actor without a row",
            || format!("{name}: {event:?}"),
        );
    }
    // A run's start precedes everything in it.
    let mut current = 0;
    for event in events.iter().filter(|event| event.kind != EventKind::Problem) {
        if event.kind == EventKind::RunStart {
            current = event.run;
        }
        // Between the hook of a prompt and its line, other hooks may come.
        let is_between = event.kind == EventKind::Heartbeat && event.source.ends_with(".hook");
        // OpenCode and its forks print a call when it has ended, and a step's first line after the begin of its calls.
        let is_late_line =
            ["opencode/", "kilo/"].iter().any(|family| name.starts_with(family)) && name.contains(" Stream");
        let is_early =
            event.run > current && event.kind != EventKind::SessionStart && !is_between && !is_late_line;
        wrong.check(!is_early, "an event before its run", || {
            let first =
                events.iter().take(8).map(|event| (event.kind, event.at_ms, event.run, &event.source));
            format!("{name}: {:?} in run {current}, {:?}", event.id, first.collect::<Vec<_>>())
        });
    }
}

fn compare_lifecycle(name: &str, row: &Agent, events: &[Event], wrong: &mut Wrong) {
    let own = |kind: EventKind| -> Vec<&Event> {
        events.iter().filter(|event| event.kind == kind && event.actor_id.0 == row.id).collect()
    };
    let (starts, stops) = (own(EventKind::SubagentStart), own(EventKind::SubagentStop));
    let what = || {
        let stops: Vec<_> = stops.iter().map(|stop| &stop.data).collect();
        format!(
            "{name}: {} {:?} {:?}, {} starts, stops {stops:?}",
            row.id,
            row.status,
            row.intervals,
            starts.len()
        )
    };
    if row.has(Flag::Copied) || row.status == AgentStatus::Pending {
        return wrong.check(
            starts.is_empty() && stops.is_empty(),
            "events of an agent not at work here",
            what,
        );
    }
    let intervals = row.intervals.len().max(1);
    wrong.check(starts.len() == intervals, "an agent's starts", what);
    let open = usize::from(row.status.is_live());
    wrong.check(stops.len() + open == intervals, "an agent's stops", what);
    let Some(last) = stops.last().filter(|_| open == 0) else { return };
    wrong.check(last.text("status") == Some(row.status.as_str()), "an agent's ending", what);
    let durations: Vec<Option<i64>> = stops.iter().map(|stop| stop.data["duration_ms"].as_i64()).collect();
    let spans: Vec<Option<i64>> = row.intervals.iter().map(|[from, to]| Some(to - from)).collect();
    wrong.check(spans.is_empty() || durations == spans, "an agent's durations", what);
    let position = |id| events.iter().position(|event| event.id == id);
    let (first, end) = (position(starts[0].id.clone()), position(last.id.clone()));
    wrong.check(first < end, "an agent's order", what);
    let is_own = |event: &&Event| event.actor_id.0 == row.id && event.kind != EventKind::Problem;
    let place = events.iter().position(|event| is_own(&event));
    wrong.check(place == first, "an agent's event before its start", || {
        format!("{}, {:?}", what(), events[place.unwrap_or(0)])
    });
}

/// Events of sources that are delivered in pieces: their order of publication.
fn deliver(
    parts: &[Part],
    leads: bool,
    random: &mut Random,
) -> (SessionRouter, BTreeMap<SessionId, Vec<Event>>) {
    let prices = PriceTable::default();
    let mut router = SessionRouter::new(options(true));
    let sources: Vec<_> = parts.iter().map(|part| router.open(part.spec.clone())).collect();
    let mut sent = vec![0; parts.len()];
    let mut published: BTreeMap<SessionId, Vec<Event>> = BTreeMap::new();
    // The stream is up to a quarter ahead of the files, or behind them.
    let lead = if leads { random.below(7) as usize } else { 3 };
    for piece in 1..=PIECES {
        let printed = if piece == PIECES { PIECES } else { (piece + lead).clamp(3, PIECES + 3) - 3 };
        let until = ends(parts, piece, PIECES).into_iter().zip(ends(parts, printed, PIECES));
        for ((number, part), (until, printed)) in parts.iter().enumerate().zip(until) {
            let len = part.bytes.len();
            let until = if is_printed(part) { printed } else { until };
            let until = if part.spec.label.ends_with(".meta.json") { len } else { until };
            let middle = (sent[number] as u64 + random.below((until - sent[number]) as u64 + 1)) as usize;
            router.push(sources[number], &part.bytes[sent[number]..middle]);
            router.push(sources[number], &part.bytes[middle..until]);
            if until == len && sent[number] < len {
                router.flush(sources[number]);
            }
            sent[number] = until;
        }
        // Later than any delay, and long before the recording: no agent counts as silent.
        let at = 10_000 * piece as i64;
        let now = Now { is_growing: true, limits: Limits::endless(), ..now(at, &prices) };
        for session in router.sessions().cloned().collect::<Vec<_>>() {
            let update = router.update(&session, &now).unwrap();
            published.entry(session).or_default().extend(update.events);
        }
    }
    let now = now(LATER, &prices);
    for session in router.sessions().cloned().collect::<Vec<_>>() {
        let update = router.update(&session, &now).unwrap();
        published.entry(session).or_default().extend(update.events);
    }
    (router, published)
}

/// Whether an event corrects earlier ones: a reader of complete sources needs no corrections.
fn is_correction(event: &Event) -> bool {
    matches!(event.kind, EventKind::Attribution | EventKind::AgentRenamed | EventKind::Stall)
}

#[test]
fn events_are_the_same_read_at_once_in_pieces_and_again() {
    let prices = PriceTable::default();
    check_all(|choice, random, wrong| {
        let bytes: usize = choice.parts.iter().map(|part| part.bytes.len()).sum();
        // Those of other harnesses are many, and each is delivered from each of its sources.
        let is_large = bytes > LARGE_BYTES || choice.is_other;
        let count = if is_large { LARGE_PREFIXES } else { PREFIXES };
        for number in PREFIXES - count..PREFIXES {
            let parts = cut(&choice.parts, number, random);
            let (mut router, published) = deliver(&parts, choice.is_other, random);
            for (tree, whole) in read_at_once(&parts) {
                let session = &tree.session.id;
                let name = format!("{}, prefix {number}", choice.name);
                let live = published.get(session).map(Vec::as_slice).unwrap_or_default();
                compare_deliveries(&name, &whole, live, wrong);
                compare_source_order(&name, &parts, &whole, live, wrong);
                // Read again, as after its eviction.
                let tailed: Vec<_> = (0..parts.len() as u32).map(subscope_model::SourceId).collect();
                let Some(_) = router.evict(session, &tailed) else { continue };
                for part in &parts {
                    let source = router.open(part.spec.clone());
                    router.push(source, &part.bytes);
                    router.flush(source);
                }
                let again = router.update(session, &now(LATER, &prices)).unwrap().events;
                let repeated: Vec<&Event> = again.iter().filter(|event| !is_correction(event)).collect();
                wrong.check(repeated.is_empty(), "published again", || format!("{name}: {:?}", repeated[0]));
            }
        }
    });
}

fn compare_deliveries(name: &str, whole: &[Event], live: &[Event], wrong: &mut Wrong) {
    let ids = |events: &[Event]| -> BTreeMap<String, Event> {
        events.iter().map(|event| (event.id.to_string(), event.clone())).collect()
    };
    let (whole_ids, live_ids) = (ids(whole), ids(live));
    wrong.check(live_ids.len() == live.len(), "an id twice, live", || name.to_owned());
    // An agent whose own id becomes known after its start was published under its call's id; `agent.renamed` says so.
    let renames = live.iter().filter(|event| event.kind == EventKind::AgentRenamed);
    let renamed: BTreeSet<&str> =
        renames.flat_map(|event| [event.text("from"), event.text("to")]).flatten().collect();
    let is_renamed = |event: &Event| {
        matches!(event.kind, EventKind::SubagentStart | EventKind::SubagentStop)
            && renamed.contains(event.actor_id.0.as_str())
    };
    // A run that seemed to have ended continued, and was lost.
    let is_lost_later = |event: &Event| {
        let is_lost = |lost: &&Event| lost.kind == event.kind && lost.text("status") == Some("lost");
        let mut ends = whole.iter().filter(is_lost);
        ends.any(|lost| {
            let is_run = event.kind == EventKind::RunEnd && lost.run == event.run;
            is_run || (event.kind == EventKind::SubagentStop && lost.actor_id == event.actor_id)
        })
    };
    // The next run began, and only then a source reported how the one before had ended.
    let is_ended_later = |event: &Event| {
        let is_end = |end: &&Event| end.kind == EventKind::RunEnd && end.run == event.run;
        event.kind == EventKind::RunEnd
            && event.text("status") == Some("lost")
            && whole.iter().filter(is_end).any(|end| end.text("status") != Some("lost"))
    };
    // Where the second process of another harness prints before its prompt is in a file, a run that is not yet there.
    let is_ahead = |name: &str| name.contains(" merged") && name.matches('/').count() > 1;
    // A result says only at its end that it answers no prompt, and hooks of 2.1.110 name no prompt as transcripts do. A
    // hook that reports the start after a transcript's line has more data than the start published from rows: both
    // stay. Calls that a process has numbered by itself count until a transcript comes.
    let is_unknowable = |event: &Event| {
        (event.kind == EventKind::RunStart && (name.contains(" Stream") || is_ahead(name)))
            || (event.kind == EventKind::UserPrompt && name.starts_with("2.1.110/"))
            || (is_call_event(event) && &*event.source == "codex.exec" && name.contains(" merged"))
            || (event.kind == EventKind::SessionStart && &*event.source == "subscope")
    };
    // Calls of hooks without ids that were published before a transcript had them: each instead of one with an id.
    let has_id = |event: &&Event| event.text("tool_use_id").is_some();
    let nameless =
        live.iter().filter(|it| is_call_event(it) && !has_id(it) && !whole_ids.contains_key(&*it.id));
    let mut nameless: Vec<&Event> = nameless.collect();
    let mut is_named_later = |event: &Event| {
        let same = |it: &&Event| it.kind == event.kind && it.text("tool_name") == event.text("tool_name");
        let found = nameless.iter().position(same).filter(|_| event.text("tool_use_id").is_some());
        found.map(|place| nameless.swap_remove(place)).is_some()
    };
    let mut named_later: BTreeSet<&str> = BTreeSet::new();
    for (id, event) in whole_ids.iter().filter(|(id, _)| !live_ids.contains_key(*id)) {
        if is_call_event(event) && is_named_later(event) {
            named_later.insert(id);
        }
    }
    let unpaired: BTreeSet<&str> = nameless.iter().map(|event| &*event.id).collect();
    for (id, event) in &whole_ids {
        let is_live = live_ids.contains_key(id) || is_correction(event) || is_renamed(event);
        let is_live = is_live || named_later.contains(id.as_str());
        wrong.check(is_live, &format!("{:?} not live", event.kind), || format!("{name}: {event:?}"));
    }
    for (id, event) in &live_ids {
        let is_whole = whole_ids.contains_key(id) || is_correction(event);
        let is_paired = is_call_event(event) && !has_id(&event) && !unpaired.contains(id.as_str());
        let is_whole = is_whole
            || is_paired
            || is_renamed(event)
            || is_lost_later(event)
            || is_ended_later(event)
            || is_unknowable(event);
        wrong.check(is_whole, &format!("{:?} only live", event.kind), || format!("{name}: {event:?}"));
    }
}

/// The events of a source without times keep its order.
fn compare_source_order(name: &str, parts: &[Part], whole: &[Event], live: &[Event], wrong: &mut Wrong) {
    if parts.len() != 1 {
        return;
    }
    let places: HashMap<&str, usize> =
        live.iter().enumerate().map(|(place, event)| (&*event.id, place)).collect();
    let is_line = |event: &&Event| &*event.source != "subscope" && event.at_ms.is_none();
    let mut last = 0;
    for event in whole.iter().filter(is_line) {
        let Some(place) = places.get(&*event.id) else { continue };
        wrong.check(*place >= last, "the order of a source", || format!("{name}: {event:?}"));
        last = *place;
    }
}

/// Hooks whose calls have no ids (1.0.x, 2.0.28) and that come before their transcript: each call is published once, and
/// under its own id if the transcript follows within a second.
#[test]
fn calls_of_hooks_without_ids_are_published_once_although_their_transcript_follows() {
    let prices = PriceTable::default();
    let all: Vec<Recording> = [recordings(), odd_recordings()].concat();
    let mut calls = 0;
    let has_no_ids =
        |it: &&Recording| ["1.0.128", "2.0.28"].contains(&it.version.as_str()) && it.hooks().is_file();
    for recording in all.iter().filter(has_no_ids) {
        for delay in [100, 5_000] {
            let name = format!("{}, {delay} ms", recording.name());
            let (hooks, files) =
                (parts_of(recording, &[Telling::Hooks]), parts_of(recording, &[Telling::Transcript]));
            let mut router = SessionRouter::new(options(true));
            let mut published: BTreeMap<SessionId, Vec<Event>> = BTreeMap::new();
            let mut deliver = |router: &mut SessionRouter, sources: &mut [(_, &Part, usize)], share, at| {
                for (source, part, sent) in sources {
                    let until = ends(std::slice::from_ref(part), share, PIECES)[0];
                    router.push(*source, &part.bytes[*sent..until]);
                    *sent = until;
                }
                let now = Now { is_growing: true, limits: Limits::endless(), ..now(at, &prices) };
                for session in router.sessions().cloned().collect::<Vec<_>>() {
                    let update = router.update(&session, &now).unwrap();
                    published.entry(session).or_default().extend(update.events);
                }
            };
            let mut open = |parts: &'static [Part]| -> Vec<_> {
                parts.iter().map(|part| (router.open(part.spec.clone()), part, 0)).collect()
            };
            let (mut hooks, mut files) = (open(Vec::leak(hooks)), open(Vec::leak(files)));
            for piece in 1..=PIECES {
                let at = 20_000 * piece as i64;
                deliver(&mut router, &mut hooks, piece, at);
                deliver(&mut router, &mut files, piece, at + delay);
            }
            deliver(&mut router, &mut [], PIECES, LATER);
            for (session, live) in published {
                let tree = router.tree(&session, &now(LATER, &prices)).unwrap();
                let rows: usize = tree.agents.iter().map(|row| row.tools.len()).sum();
                for kinds in [
                    &[EventKind::ToolPre][..],
                    &[EventKind::ToolPost, EventKind::ToolFailure, EventKind::PermissionDenied],
                ] {
                    let events: Vec<&Event> = live.iter().filter(|it| kinds.contains(&it.kind)).collect();
                    assert_eq!(events.len(), rows, "{name}: {kinds:?}");
                    let is_named = |event: &&Event| event.text("tool_use_id").is_some();
                    assert!(delay > 1_000 || events.iter().all(is_named), "{name}");
                }
                calls += rows;
            }
        }
    }
    assert!(calls > 20, "{calls}");
}

#[test]
fn owners_of_calls_are_known_from_hooks_of_every_version() {
    let mut bases: BTreeMap<Basis, usize> = BTreeMap::new();
    for recording in recordings() {
        for (_, events) in read_at_once(&parts_of(&recording, &[Telling::Hooks])) {
            for event in events.iter().filter(|event| is_call_event(event)) {
                *bases.entry(event.basis).or_default() += 1;
            }
        }
    }
    assert!(bases[&Basis::Sole] > 20 && bases[&Basis::Stack] > 20, "{bases:?}");
}

#[test]
fn problem_before_the_first_line_with_a_session_is_the_sessions_with_its_line() {
    let lines = "{\"type\":\"system\",\"subtype\":\"init\",\"cwd\":\"/x\"}\nno json\n{\"type\":\"assistant\",\"session_id\":\"s\",\"message\":{\"id\":\"m\",\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}}\n";
    let all = read_at_once(&[Part::new("stream.jsonl", lines)]);
    let (tree, events) = all.iter().find(|(tree, _)| tree.session.id.as_str() == "s").unwrap();
    assert_eq!(tree.problems.len(), 1);
    let problem = events.iter().find(|event| event.kind == EventKind::Problem).unwrap();
    assert_eq!(problem.text("line"), Some("no json"));
}

#[test]
fn result_of_an_old_stream_is_its_agents() {
    let recording = subscope_testkit::fixtures::recording("1.0.128", "b-parallel");
    let (tree, _) = read_at_once(&parts_of(&recording, &[Telling::Stream])).remove(0);
    let result = tree.agents[1].result.as_deref().unwrap_or_default();
    assert!(result.starts_with("No race inside one process"), "{result}");
}

/// Hooks alone: an agent without tools, and the root, have the times at which the hooks came.
#[test]
fn hooks_alone_give_the_times_at_which_they_came() {
    use subscope_testkit::lines::hook;
    let prices = PriceTable::default();
    let mut router = SessionRouter::new(options(true));
    let source = router.open(Part::new("hooks.jsonl", "").spec);
    let hooks = [
        (1_000, hook("UserPromptSubmit")),
        (2_000, hook("PreToolUse").tool("Agent", "t1")),
        (3_000, hook("SubagentStart").agent("a1")),
        (40_000, hook("SubagentStop").agent("a1")),
        (41_000, hook("PostToolUse").tool("Agent", "t1")),
        (52_100, hook("Stop")),
    ];
    for (at, line) in hooks {
        router.receive_at(Some(at));
        router.push(source, format!("{}\n", line.line()).as_bytes());
    }
    let session = router.sessions().next().unwrap().clone();
    let tree = router.tree(&session, &now(LATER, &prices)).unwrap();
    let times: Vec<_> = tree.agents.iter().map(|row| (row.id.as_str(), row.wall_ms)).collect();
    assert_eq!(times, [("root", Some(51_100)), ("a1", Some(37_000))]);
}

/// What the feed of a choice has of the other harnesses: kind, actor and words, with how often.
fn statements(parts: &[Part]) -> BTreeMap<(String, String, String), usize> {
    let mut counts = BTreeMap::new();
    for (_, events) in read_at_once(parts) {
        for event in &events {
            #[expect(clippy::wildcard_enum_match_arm, reason = "no other kind is said by several sources")]
            let words = match event.kind {
                EventKind::UserPrompt | EventKind::AgentMessage | EventKind::Reasoning => event.text("text"),
                EventKind::Usage => event.text("message_id"),
                EventKind::SessionStart | EventKind::SessionEnd => Some(""),
                _ => continue,
            };
            let key = (
                format!("{:?}", event.kind),
                event.actor_id.0.to_string(),
                words.unwrap_or_default().to_owned(),
            );
            *counts.entry(key).or_default() += 1;
        }
    }
    counts
}

/// A stream and hooks that repeat what the files have add no second copy of it.
#[test]
fn merged_sources_say_each_thing_once() {
    let mut wrong = Vec::new();
    for recording in other_recordings() {
        let mut choices = recording.choices();
        let Some((_, merged)) = choices.pop() else { continue };
        let mut most: BTreeMap<(String, String, String), usize> = BTreeMap::new();
        for (_, parts) in &choices {
            for (key, count) in statements(parts) {
                let known = most.entry(key).or_default();
                *known = count.max(*known);
            }
        }
        for (key, count) in statements(&merged) {
            if count != most.get(&key).copied().unwrap_or_default() {
                wrong.push(format!(
                    "{}: {key:?} {count} times instead of {:?}",
                    recording.name(),
                    most.get(&key)
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
