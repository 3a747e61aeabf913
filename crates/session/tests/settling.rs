//! Live files of several agents grow in no fixed order: start and end events must be complete, and a missing file must
//! not delay them for long.

#![allow(clippy::unwrap_used)]

use serde_json::json;
use subscope_model::{Agent, Event, EventKind, PriceTable};
use subscope_session::{Now, SessionRouter};
use subscope_testkit::{
    clock::START,
    fixtures::recording,
    lines::hook,
    sessions::{Part, Telling, now, only_session, options, parts_of, tree},
};

/// A second after the last line.
const LATER: i64 = 1_795_293_573_752;

/// The recording's main transcript with the meta files, and the subagents' transcripts.
fn halves() -> (Vec<Part>, Vec<Part>) {
    let parts = parts_of(&recording("2.1.330", "b-parallel-bg"), &[Telling::Transcript]);
    parts.into_iter().partition(|part| part.spec.agent.is_none() || part.spec.label.ends_with(".meta.json"))
}

/// Pushes parts and returns the new events at a time while the sources grow.
fn advance(router: &mut SessionRouter, parts: &[Part], at: i64) -> Vec<Event> {
    for part in parts {
        let source = router.open(part.spec.clone());
        router.push(source, &part.bytes);
    }
    let prices = PriceTable::default();
    let session = only_session(router);
    router.update(&session, &Now { is_growing: true, ..now(at, &prices) }).unwrap().events
}

#[test]
fn ends_that_come_before_the_agents_own_lines_wait_for_them() {
    let (early, late) = halves();
    let mut router = SessionRouter::new(options(true));
    let first = advance(&mut router, &early, LATER);
    let ends = |events: &[Event]| {
        events.iter().filter(|event| event.kind == EventKind::SubagentStop).cloned().collect::<Vec<_>>()
    };
    assert!(ends(&first).is_empty(), "{:?}", ends(&first));
    let session = only_session(&router);
    assert!(router.next_event_at(&session).is_some_and(|due| due > LATER && due <= LATER + 1_000));

    let second = advance(&mut router, &late, LATER + 10);
    let due = router.next_event_at(&session).unwrap_or(LATER + 10);
    let third = advance(&mut router, &[], due);
    let all: Vec<Event> = first.into_iter().chain(second).chain(third).collect();
    let whole = tree(&[early, late].concat());
    let ends = ends(&all);
    assert_eq!(ends.len(), whole.agents.len() - 1);
    for end in &ends {
        let row = whole.agents.iter().find(|row| *row.id == *end.actor_id.0).unwrap();
        assert_eq!(end.data["total_tokens"], row.usage.unwrap().total_tokens, "{}", row.id);
        assert_eq!(end.data["tool_calls"], row.tool_calls, "{}", row.id);
    }
    assert_eq!(router.next_event_at(&session), None);
}

#[test]
fn an_end_whose_agent_writes_nothing_is_told_when_it_has_waited() {
    let (early, _) = halves();
    let mut router = SessionRouter::new(options(true));
    advance(&mut router, &early, LATER);
    let due = router.next_event_at(&only_session(&router)).unwrap();
    let told = advance(&mut router, &[], due);
    assert_eq!(told.iter().filter(|event| event.kind == EventKind::SubagentStop).count(), 3);
}

#[test]
fn a_start_has_the_time_of_the_agents_first_line() {
    let (early, late) = halves();
    let (metas, main): (Vec<Part>, Vec<Part>) =
        early.into_iter().partition(|part| part.spec.label.ends_with(".meta.json"));
    let mut router = SessionRouter::new(options(true));
    // The main transcript's first lines name the session; its calls are not yet written.
    let first_lines = |part: &Part| Part { bytes: part.lines()[..3].concat(), spec: part.spec.clone() };
    let begun: Vec<Part> = main.iter().map(first_lines).chain(metas).collect();
    let mut all = advance(&mut router, &begun, LATER);
    assert!(all.iter().all(|event| event.kind != EventKind::SubagentStart), "{all:?}");
    all.extend(advance(&mut router, &late, LATER));
    all.extend(advance(&mut router, &main, LATER));
    let starts: Vec<&Event> = all.iter().filter(|event| event.kind == EventKind::SubagentStart).collect();
    assert_eq!(starts.len(), 3);
    assert!(starts.iter().all(|event| event.at_ms.is_some()), "{starts:?}");
}

/// Returns the agents of the starts among events.
fn starts(events: &[Event]) -> Vec<&str> {
    let starts = events.iter().filter(|event| event.kind == EventKind::SubagentStart);
    starts.filter_map(|event| event.text("agent_id")).collect()
}

#[test]
fn a_start_that_only_a_hook_tells_is_published_at_once() {
    let spawn = |id: &str, kind: &str| {
        let input = json!({ "subagent_type": kind, "description": format!("{kind} it"), "prompt": kind });
        hook("PreToolUse").tool("Agent", id).set("tool_input", input)
    };
    let start = |id: &str, kind: &str| hook("SubagentStart").agent(id).agent_type(kind);
    for calls in [
        vec![],
        vec![("t1", "Plan")],
        vec![("t1", "Plan"), ("t2", "Plan")],
        vec![("t1", "Plan"), ("t2", "Explore")],
    ] {
        let mut router = SessionRouter::new(options(true));
        router.receive_at(Some(START + 100));
        let begun = [hook("SessionStart")].into_iter().chain(calls.iter().map(|(id, kind)| spawn(id, kind)));
        let before = Part::of("before", begun);
        advance(&mut router, &[before], START + 100);
        let mut all = Vec::new();
        for (number, (id, kind)) in [("a2", "Plan"), ("a1", "Explore")].into_iter().enumerate() {
            let at = START + 200 + number as i64;
            router.receive_at(Some(at));
            all.extend(advance(&mut router, &[Part::of(id, [start(id, kind)])], at));
        }
        assert_eq!(starts(&all), ["a2", "a1"], "{calls:?}");
        let described: Vec<_> = all.iter().filter_map(|event| event.text("description")).collect();
        let expected =
            if calls.len() == 2 && calls[0].1 != calls[1].1 { vec!["Plan it", "Explore it"] } else { vec![] };
        if calls.len() != 1 {
            assert_eq!(described, expected, "{calls:?}: only types tell which call started which agent");
        }
        assert_eq!(starts(&advance(&mut router, &[], START + 9_000)), Vec::<&str>::new());
    }
}

#[test]
fn agents_whose_files_are_gone_still_have_their_endings() {
    let (early, late) = halves();
    let (left, whole) = (tree(&early), tree(&[early.clone(), late].concat()));
    assert_eq!(left.agents.len(), whole.agents.len());
    for row in &whole.agents {
        let found = left.agents.iter().find(|found| found.id == row.id).unwrap();
        let told =
            |row: &Agent| (row.status, row.result.clone(), row.parent_id.clone(), row.agent_type.clone());
        assert_eq!(told(found), told(row), "{}", row.id);
    }
}
