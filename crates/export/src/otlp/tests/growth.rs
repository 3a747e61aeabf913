//! Live sessions: spans exported from a growing source do not change later, for every kind of source.

use std::fs;

use subscope_session::Now;
use subscope_testkit::lines::{Line, events, jsonl};

use super::*;

/// A session of published events only: an agent that asks another, which fails.
fn published() -> Part {
    let lines: [Line; 9] = [
        events::start("lead", "r1"),
        events::event("tool_call", "lead", "r1").set("toolName", "Read").set("toolCallId", "c1"),
        events::event("tool_result", "lead", "r1").set("toolName", "Read").set("toolCallId", "c1"),
        events::start("inner", "r2").parent_run("r1"),
        events::event("tool_call", "inner", "r2").set("toolName", "Bash").set("toolCallId", "c2"),
        events::event("tool_result", "inner", "r2").set("toolName", "Bash").set("toolCallId", "c2"),
        events::end("inner", "r2"),
        events::event("thought_trace", "lead", "r1").set("payload", "enough"),
        events::end("lead", "r1"),
    ];
    let lines =
        (0..).zip(lines).map(|(second, line)| line.set("timestamp", 1_790_000_000_000_i64 + second * 1_000));
    Part::new("events.jsonl", jsonl(lines))
}

/// Sources that come alone, without a transcript.
fn alone() -> Vec<(String, Part)> {
    let mut all = vec![("published".to_owned(), published())];
    for scenario in ["c-nested", "b-parallel", "i-sendmessage-resume", "j-otel-nested"] {
        let recording = recording("2.1.330", scenario);
        for telling in [Telling::Stream, Telling::Hooks] {
            let mut parts = parts_of(&recording, &[telling]);
            if parts.len() == 1 {
                all.push((format!("{scenario} {telling:?}"), parts.remove(0)));
            }
        }
        for file in recording.otel() {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            if !name.contains("metrics") {
                all.push((format!("{scenario} {name}"), Part::new(&name, fs::read(&file).unwrap())));
            }
        }
    }
    all
}

/// Reads a source that still grows, at the time of its last event: agents and calls without an end are running.
fn read_growing(part: &Part) -> Option<Read> {
    let options = RouterOptions { keep: FactDetail::Responses, cutoff: None, events: EventScope::Nothing };
    let router = read(std::slice::from_ref(part), options);
    let session = router.sessions().next()?.clone();
    let prices = PriceTable::default();
    let at = |at| Now { is_growing: true, ..now(at, &prices) };
    let tree = router.tree(&session, &at(0))?;
    let last = tree.agents.iter().filter_map(|agent| agent.last_event_at_ms).max().unwrap_or(0);
    let (tree, detail) = (router.tree(&session, &at(last))?, router.detail(&session, &at(last))?);
    Some(Read { tree, detail, events: Vec::new() })
}

#[test]
fn what_a_growing_source_without_a_transcript_exports_keeps_its_ids() {
    let sources = alone();
    assert!(sources.len() > 9, "{}", sources.len());
    for (what, part) in sources {
        let lines = part.lines();
        let whole = read_growing(&part).unwrap_or_else(|| panic!("{what}"));
        let named = |read: &Read| -> BTreeMap<Vec<u8>, [String; 3]> {
            let words = |span: Span| {
                (
                    span.span_id,
                    [format!("{:?}", span.trace_id), format!("{:?}", span.parent_span_id), span.name],
                )
            };
            spans(read).into_iter().map(words).collect()
        };
        let all = named(&whole);
        assert!(all.len() > 3, "{what}: {} spans", all.len());
        let mut early = 0;
        for count in 1..lines.len() {
            let some = Part { bytes: lines[..count].concat(), ..part.clone() };
            let Some(read) = read_growing(&some) else { continue };
            for (id, words) in named(&read) {
                assert_eq!(all.get(&id), Some(&words), "{what}, {count} of {} lines", lines.len());
                early += 1;
            }
            let running = read.tree.agents.iter().filter(|agent| agent.is_at_work());
            let ids: BTreeSet<String> = running.map(|agent| agent.id.to_string()).collect();
            let left_out = spans(&read).iter().all(|span| {
                !ids.contains(agent_of(span)) || agent_of(span) == subscope_model::AgentId::ROOT || {
                    let agent =
                        read.tree.agents.iter().find(|agent| agent.id.as_str() == agent_of(span)).unwrap();
                    agent.intervals.len() > 1
                }
            });
            assert!(left_out, "{what}, {count} lines");
        }
        // The span of a prompt comes last of all.
        assert!(early > 0 || what.contains("traces"), "{what}: nothing had ended before the end");
    }
}
