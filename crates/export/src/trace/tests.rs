//! Tests of the lifecycle trace.

use std::iter::{empty, once};

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use subscope_model::ToolStatus;

use super::*;
use crate::sample::{agent, call, chain, child, event, session, tool_pre, tree};

fn written(trace: &Trace) -> String {
    let mut out = Vec::new();
    write_trace(trace, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn kinds(trace: &Trace, id: &str) -> Vec<&'static str> {
    let word = |kind| match kind {
        LifecycleKind::Spawn => "spawn",
        LifecycleKind::Progress => "progress",
        LifecycleKind::Complete => "complete",
        LifecycleKind::Error => "error",
    };
    trace.events.iter().filter(|event| event.id == id).map(|event| word(event.kind)).collect()
}

fn session_events() -> Vec<Event> {
    vec![
        event("agent/lead/start/x", Some(0), "lead", EventKind::SubagentStart, json!({"agent_id": "lead"})),
        tool_pre(Some(500), "root", "t0", "Bash"),
        tool_pre(Some(1_000), "lead", "t1", "Read"),
        tool_pre(Some(1_900), "lead", "t2", "Agent"),
        tool_pre(Some(3_000), "inner", "t3", "Bash"),
        event(
            "p1",
            Some(4_000),
            "root",
            EventKind::SubagentProgress,
            json!({"agent_id": "lead", "message": "Reading src/x.js"}),
        ),
        tool_pre(Some(10_500), "busy", "t4", "Read"),
        event(
            "p2",
            Some(10_600),
            "busy",
            EventKind::SubagentProgress,
            json!({"agent_id": "busy", "tool_calls": 3}),
        ),
    ]
}

#[test]
fn write_session_gives_events_hierarchy_and_stats() {
    let text = written(&trace(&session(), session_events().into_iter()));
    let value: Value = serde_json::from_str(&text).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap());
}

#[test]
fn events_are_in_order_of_time() {
    let trace = trace(&session(), session_events().into_iter());
    let times: Vec<&String> = trace.events.iter().filter_map(|event| event.timestamp.as_ref()).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(times.len() + 1, trace.events.len(), "only the pending agent's spawn has no time");
}

#[test]
fn each_status_gives_its_lifecycle() {
    let trace = trace(&session(), session_events().into_iter());
    assert_eq!(kinds(&trace, "lead"), ["spawn", "progress", "progress", "progress", "complete"]);
    assert_eq!(kinds(&trace, "inner"), ["spawn", "progress", "error"]);
    assert_eq!(kinds(&trace, "halted"), ["spawn", "error"]);
    assert_eq!(kinds(&trace, "gone"), ["spawn", "error"]);
    assert_eq!(kinds(&trace, "busy"), ["spawn", "progress", "progress"]);
    assert_eq!(kinds(&trace, "asked"), ["spawn"]);
    assert_eq!(kinds(&trace, "root"), Vec::<&str>::new());
}

#[test]
fn progress_says_tool_and_detail_or_the_told_message() {
    let trace = trace(&session(), session_events().into_iter());
    let messages: Vec<&str> = trace.events.iter().filter_map(|event| event.message.as_deref()).collect();
    assert_eq!(
        messages,
        [
            "Read src/x.js",
            "Agent src/x.js",
            "Bash src/x.js",
            "Reading src/x.js",
            "Read src/x.js",
            "3 tool calls"
        ]
    );
}

#[test]
fn progress_belongs_to_the_owner_in_the_tree() {
    // The event names the root as actor; the tree has the corrected owner.
    let trace = trace(&session(), once(tool_pre(Some(3_000), "root", "t3", "Bash")));
    assert_eq!(kinds(&trace, "inner"), ["spawn", "progress", "error"]);
}

#[test]
fn progress_without_call_id_has_the_tool_name_only() {
    let nameless = event("x", Some(10_500), "busy", EventKind::ToolPre, json!({"tool_name": "Read"}));
    let trace = trace(&session(), once(nameless));
    assert_eq!(trace.events.iter().find_map(|event| event.message.as_deref()), Some("Read"));
}

#[test]
fn without_any_time_the_order_of_the_events_stands() {
    let mut first = agent("first", 1, AgentStatus::Completed);
    first.tools = vec![call("t1", "Read", ToolStatus::Ok)];
    let mut second = agent("second", 1, AgentStatus::Failed);
    second.tools = vec![call("t2", "Bash", ToolStatus::Ok)];
    let events = [
        event("b", None, "first", EventKind::SubagentStart, json!({"agent_id": "first"})),
        tool_pre(None, "first", "t1", "Read"),
        event("e", None, "first", EventKind::SubagentStop, json!({"agent_id": "first"})),
        event("b2", None, "second", EventKind::SubagentStart, json!({"agent_id": "second"})),
        tool_pre(None, "second", "t2", "Bash"),
        event("e2", None, "second", EventKind::SubagentStop, json!({"agent_id": "second"})),
    ];
    // The tree has them in reverse order.
    let trace = trace(&tree(vec![second, first]), events.into_iter());
    let order: Vec<(&str, LifecycleKind)> =
        trace.events.iter().map(|event| (event.id.as_str(), event.kind)).collect();
    assert_eq!(
        order,
        [
            ("first", LifecycleKind::Spawn),
            ("first", LifecycleKind::Progress),
            ("first", LifecycleKind::Complete),
            ("second", LifecycleKind::Spawn),
            ("second", LifecycleKind::Progress),
            ("second", LifecycleKind::Error),
        ]
    );
    assert!(trace.events.iter().all(|event| event.timestamp.is_none()));
}

#[test]
fn without_events_each_agent_is_spawned_before_it_ends() {
    let trace =
        trace(&tree(vec![agent("a", 1, AgentStatus::Completed), agent("b", 1, AgentStatus::Lost)]), empty());
    assert_eq!((kinds(&trace, "a"), kinds(&trace, "b")), (vec!["spawn", "complete"], vec!["spawn", "error"]));
}

#[test]
fn siblings_are_siblings_and_orphans_stand_at_the_top() {
    let root = agent("root", 0, AgentStatus::Running);
    let one = child("one", &root, AgentStatus::Completed, [0, 5]);
    let below = child("below", &one, AgentStatus::Completed, [1, 4]);
    let two = child("two", &root, AgentStatus::Completed, [2, 3]);
    let mut orphan = agent("orphan", 1, AgentStatus::Completed);
    orphan.parent_id = None;
    let trace = trace(&tree(vec![one, below, two, orphan]), empty());
    let shape: Vec<(u32, &str, Option<&str>)> = trace
        .hierarchy
        .iter()
        .map(|node| (node.level, node.state.id.as_str(), node.state.parent_id.as_deref()))
        .collect();
    assert_eq!(shape, [(0, "one", None), (1, "below", Some("one")), (0, "two", None), (0, "orphan", None)]);
    assert_eq!(trace.hierarchy[0].state.child_ids, ["below"]);
    assert_eq!(trace.stats.max_depth, 2);
}

#[test]
fn part_of_a_tree_begins_at_the_top() {
    let deep = |id: &str, depth| agent(id, depth, AgentStatus::Completed);
    let part = trace(&tree(vec![deep("a", 5), deep("b", 6), deep("c", 5), deep("d", 3)]), empty());
    assert_eq!(part.hierarchy.iter().map(|node| node.level).collect::<Vec<_>>(), [0, 1, 0, 0]);
}

#[test]
fn types_are_counted_and_unions_count_once() {
    let stats = trace(&session(), empty()).stats;
    let by_type: Vec<(&str, u32)> =
        stats.by_type.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    assert_eq!(by_type, [("Explore", 4), ("general-purpose", 1), ("unknown", 1)]);
    assert_eq!((stats.total_subagents, stats.failure_count, stats.max_depth), (6, 1, 2));
    assert_eq!((stats.total_duration_ms, stats.wall_ms), (9_000 + 3_000 + 4_000 + 1_000 + 1_000, 12_000));
}

#[test]
fn no_agents_give_an_empty_trace() {
    assert_eq!(
        written(&trace(&tree(vec![]), empty())),
        "{\"events\":[],\"hierarchy\":[],\"stats\":{\"totalSubagents\":0,\"byType\":{},\"totalDurationMs\":0,\
         \"wallMs\":0,\"failureCount\":0,\"maxDepth\":0}}\n"
    );
}

#[test]
fn chain_of_ten_thousand_is_written_on_a_small_stack() {
    let write = || {
        let trace = trace(&chain(10_000), empty());
        let text = written(&trace);
        // Skipping a value does not recurse in serde_json, so this proves that every bracket is closed in place.
        serde_json::from_str::<IgnoredAny>(&text).unwrap();
        (text.matches("\"children\":[{").count(), trace.stats.max_depth)
    };
    let thread = std::thread::Builder::new().stack_size(256 * 1024).spawn(write).unwrap();
    assert_eq!(thread.join().unwrap(), (9_999, 10_000));
}

#[test]
fn levels_that_jump_still_give_valid_json() {
    let mut trace = trace(&chain(3), empty());
    trace.hierarchy[0].level = 7;
    trace.hierarchy[2].level = u32::MAX;
    let value: Value = serde_json::from_str(&written(&trace)).unwrap();
    assert_eq!(value["hierarchy"][0]["children"][0]["children"][0]["state"]["id"], "c3");
}
