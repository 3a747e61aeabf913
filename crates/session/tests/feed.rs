//! Every agent that the feed names has a row: feed and tree are derived from the same identities.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use serde_json::Value;
use subscope_model::{Event, EventKind, Payload, PriceTable, SessionId, Tree, replace_lone_surrogates};
use subscope_session::{EventScope, Limits, Now, RouterOptions, SessionRouter, SourceOrigin};
use subscope_testkit::{
    fixtures::{Recording, odd_recordings, recordings, stopped_recordings},
    sessions::{LATER, Part, Telling, now, options, parts_of, read},
};

/// Sources of more bytes are cut at fewer places.
const BIG_BYTES: usize = 200_000;

/// The agents that an event names.
fn named(event: &Event) -> Vec<String> {
    let fields: &[&str] = if event.kind == EventKind::AgentRenamed {
        &["to"]
    } else if event.kind == EventKind::SubagentProgress {
        // The harness's own id of a task, which may be a workflow: its actor is checked.
        &[]
    } else {
        &["agent_id", "started_agent_id", "parent_id", "actor_id"]
    };
    let data = fields.iter().filter_map(|field| event.data.get(*field).and_then(Value::as_str));
    // A correction names its actor as `agent:<id>`.
    let data = data.map(|id| id.strip_prefix("agent:").unwrap_or(id).to_owned());
    data.chain([event.actor_id.0.to_string()]).collect()
}

/// Panics if the events name an agent that has no row.
fn check(what: &str, tree: &Tree, events: &[Event]) {
    let rows: BTreeSet<&str> = tree.agents.iter().map(|row| row.id.as_str()).collect();
    for event in events {
        for agent in named(event) {
            assert!(
                rows.contains(agent.as_str()),
                "{what}: {:?} names {agent}, which has no row",
                event.kind
            );
        }
    }
}

/// The sources of a recording; some have no log of hooks.
fn sources(recording: &Recording) -> Vec<Part> {
    let tellings: &[Telling] =
        if recording.hooks().is_file() { &Telling::ALL } else { &[Telling::Transcript, Telling::Stream] };
    parts_of(recording, tellings)
}

fn all_recordings() -> Vec<Recording> {
    [recordings(), stopped_recordings(), odd_recordings()].concat()
}

/// Each source of a recording alone, and all of them together.
fn choices(recording: &Recording) -> Vec<Vec<Part>> {
    let parts = sources(recording);
    let alone = parts.iter().map(|part| vec![part.clone()]);
    let mut choices: Vec<Vec<Part>> = alone.collect();
    choices.push(parts);
    choices
}

/// The feed of complete sources, with the tree at the same time.
fn check_whole(what: &str, parts: &[Part]) {
    let mut router = read(parts, options(true));
    let prices = PriceTable::default();
    let sessions: Vec<SessionId> = router.sessions().cloned().collect();
    for session in sessions {
        let now = now(LATER, &prices);
        let tree = router.tree(&session, &now).unwrap();
        check(what, &tree, &router.whole_feed(&session, &now));
    }
}

#[test]
fn every_agent_that_a_cut_recordings_feed_names_has_a_row() {
    for recording in all_recordings() {
        for parts in choices(&recording) {
            let Some(first) = parts.first().map(Part::lines) else { continue };
            let is_big = parts.iter().map(|part| part.bytes.len()).sum::<usize>() > BIG_BYTES;
            let step = first.len().div_ceil(if is_big { 4 } else { 24 }).max(1);
            for cut in (1..=first.len()).step_by(step) {
                let mut cut_parts = parts.clone();
                cut_parts[0].bytes = first[..cut].concat();
                let label = &parts[0].spec.label;
                check_whole(&format!("{}, {label} up to line {cut}", recording.name()), &cut_parts);
            }
        }
    }
}

#[test]
fn every_agent_that_a_growing_recordings_feed_names_has_a_row() {
    let prices = PriceTable::default();
    for recording in all_recordings() {
        for part in sources(&recording) {
            let mut router = SessionRouter::new(options(true));
            let source = router.open(part.spec.clone());
            let lines = part.lines();
            let step = if part.bytes.len() > BIG_BYTES { lines.len() / 8 } else { 1 };
            for (number, lines) in lines.chunks(step.max(1)).enumerate() {
                router.push(source, &lines.concat());
                let what = format!("{}, {} in step {}", recording.name(), part.spec.label, number + 1);
                // At the epoch nothing counts as silent.
                let now = Now { is_growing: true, limits: Limits::endless(), ..now(0, &prices) };
                for session in router.take_changed() {
                    let update = router.update(&session, &now).unwrap();
                    check(&what, &update.tree, &update.events);
                }
            }
        }
    }
}

/// The end of a call has a duration wherever the call's row has both its begin and its end.
#[test]
fn every_end_of_a_call_has_a_duration_if_its_row_has_begin_and_end() {
    let prices = PriceTable::default();
    let mut measured = 0;
    for recording in all_recordings() {
        for parts in choices(&recording) {
            let mut router = read(&parts, options(true));
            let sessions: Vec<SessionId> = router.sessions().cloned().collect();
            for session in sessions {
                let now = now(LATER, &prices);
                let tree = router.tree(&session, &now).unwrap();
                for event in router.whole_feed(&session, &now) {
                    if !matches!(event.kind, EventKind::ToolPost | EventKind::ToolFailure) {
                        continue;
                    }
                    let Some(id) = event.text("tool_use_id") else { continue };
                    let mut calls = tree.agents.iter().flat_map(|agent| &agent.tools);
                    let Some(call) = calls.find(|call| call.id.as_ref().is_some_and(|it| it.as_str() == id))
                    else {
                        continue;
                    };
                    if call.started_at_ms.is_some() && call.ended_at_ms > call.started_at_ms {
                        let what = format!("{}, {}, {id}", recording.name(), parts[0].spec.label);
                        assert!(event.data["duration_ms"].is_number(), "{what}: {}", event.data);
                        measured += 1;
                    }
                }
            }
        }
    }
    assert!(measured > 500, "{measured}");
}

#[test]
fn each_problem_is_published_wherever_it_sorts_among_those_before_it() {
    let prices = PriceTable::default();
    let mut router = SessionRouter::new(options(true));
    let line = r#"{"type":"user","sessionId":"s","uuid":"u","timestamp":"2026-01-01T00:00:00Z","message":{"role":"user","content":"go"}}"#;
    let mut published = Vec::new();
    for label in ["z.jsonl", "a.jsonl"] {
        let part = Part::new(label, format!("{line}\nnot json\n"));
        let source = router.open(part.spec.clone());
        router.push(source, &part.bytes);
        let now = Now { is_growing: true, limits: Limits::endless(), ..now(0, &prices) };
        let news = router.update(&SessionId::from("s"), &now).unwrap().events;
        let problems = news.iter().filter(|event| event.kind == EventKind::Problem);
        published.extend(problems.map(|event| event.data["at"].as_str().unwrap_or_default().to_owned()));
    }
    assert_eq!(published, ["z.jsonl:2", "a.jsonl:2"]);
}

/// Reads the JSON of a payload in the bytes of its source.
fn payload(parts: &[Part], payload: &Payload) -> Option<String> {
    let Payload::At { source, offset, len } = payload else { panic!("{payload:?} needs no source") };
    let from = usize::try_from(*offset).unwrap();
    let json = parts[source.0 as usize].bytes.get(from..from + *len as usize)?;
    Some(replace_lone_surrogates(std::str::from_utf8(json).unwrap()).into_owned())
}

/// Events whose texts are read where they are written are those that hold their texts.
#[test]
fn records_of_files_and_streams_are_the_events_of_the_feed() {
    let prices = PriceTable::default();
    let mut left_out = 0;
    for recording in all_recordings() {
        for mut parts in choices(&recording) {
            for origin in [SourceOrigin::File, SourceOrigin::Stream] {
                parts.iter_mut().for_each(|part| part.spec.origin = origin);
                let mut whole = read(&parts, options(true));
                let options = RouterOptions { events: EventScope::Records, ..options(true) };
                let mut router = read(&parts, options);
                let sessions: Vec<SessionId> = router.sessions().cloned().collect();
                for session in sessions {
                    let now = now(LATER, &prices);
                    let records = router.records(&session, &now);
                    let places = records.iter().filter_map(|record| record.data.missing());
                    left_out += places.filter(|place| matches!(place.payload, Payload::At { .. })).count();
                    let read = records.iter().map(|record| record.read(&|place| payload(&parts, place)));
                    let read: Vec<Event> = read.collect();
                    assert_eq!(read, whole.whole_feed(&session, &now), "{} {origin:?}", recording.name());
                }
            }
        }
    }
    assert!(left_out > 5_000, "{left_out}");
}
