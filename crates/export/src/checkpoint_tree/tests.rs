//! Tests of the tree of a checkpoint.

use subscope_model::CHECKPOINT_VERSION;

use super::*;
use crate::{
    execution,
    sample::{START, chain, inline, session},
};

fn exported(tree: &Tree) -> Checkpoint {
    Checkpoint { version: CHECKPOINT_VERSION.into(), subagent_traces: execution(tree, &inline) }
}

fn trace(id: &str, parent: Option<&str>, start: i64) -> ExecutionTrace {
    ExecutionTrace {
        subagent_id: id.into(),
        subagent_type: String::new(),
        parent_tool_call_id: String::new(),
        prompt: String::new(),
        start_time: Some(start),
        end_time: Some(start + 10),
        success: true,
        result: None,
        error: None,
        tool_executions: Vec::new(),
        usage: None,
        parent_subagent_id: parent.map(str::to_owned),
        depth: None,
        model: None,
        cost_micro_usd: None,
    }
}

fn shown(traces: Vec<ExecutionTrace>) -> Tree {
    checkpoint_tree(&Checkpoint { version: CHECKPOINT_VERSION.into(), subagent_traces: traces }, None)
}

/// Id, depth, parent, orphan of every subagent.
fn rows(tree: &Tree) -> Vec<(&str, u32, Option<&str>, bool)> {
    let row = |agent: &'_ Agent| agent.has(Flag::Orphan);
    tree.agents[1..]
        .iter()
        .map(|agent| (&*agent.id.0, agent.depth, agent.parent_id.as_deref(), row(agent)))
        .collect()
}

#[test]
fn import_shows_what_was_exported() {
    let metadata = CheckpointMetadata {
        session_id: "s9".into(),
        checkpoint_id: "c1".into(),
        timestamp: START,
        step: 3,
        agent_id: "root".into(),
    };
    let tree = checkpoint_tree(&exported(&session()), Some(&metadata));
    assert_eq!(&*tree.session.id, "s9");
    assert_eq!((tree.session.started_at_ms, tree.session.ended_at_ms), (Some(START), Some(START + 12_000)));
    assert_eq!(
        rows(&tree),
        [
            ("lead", 1, Some("root"), false),
            ("inner", 2, Some("lead"), false),
            ("halted", 1, Some("root"), false)
        ]
    );
    let [root, lead, inner, halted] = &tree.agents[..] else { panic!("four agents") };
    assert_eq!((root.status, root.depth), (AgentStatus::Lost, 0));
    assert_eq!(
        (lead.status, inner.status, halted.status),
        (AgentStatus::Completed, AgentStatus::Failed, AgentStatus::Failed)
    );
    assert_eq!((lead.result.as_deref(), inner.error.as_deref()), (Some("Done."), Some("overloaded")));
    assert_eq!((lead.tool_calls, lead.tool_errors, lead.tools[0].name.as_ref()), (2, 1, "Read"));
    assert_eq!(lead.usage, Some(Usage::new(4_301, 20, 0, 0)));
    assert_eq!((lead.subtree.agents, lead.subtree.tool_calls, lead.subtree.wall_ms), (2, 3, Some(9_000)));
    assert_eq!((lead.subtree.agent_ms, lead.subtree.cost_floor), (Some(12_000), true));
    let summary = &tree.summary;
    assert_eq!((summary.agents, summary.completed, summary.failed, summary.max_depth), (3, 1, 2, 2));
    assert_eq!((summary.tool_calls, summary.tool_errors), (3, 2));
    assert_eq!((summary.wall_ms, summary.agent_ms), (Some(12_000), Some(16_000)));
    assert_eq!(summary.by_type, [("Explore".to_owned(), 2), ("general-purpose".to_owned(), 1)].into());
    assert!(tree.problems.is_empty());
}

#[test]
fn import_and_export_again_gives_the_same_traces() {
    let first = exported(&session());
    let mut again = exported(&checkpoint_tree(&first, None));
    // A trace cannot express a call's times or the status `stopped`.
    for (trace, before) in again.subagent_traces.iter_mut().zip(&first.subagent_traces) {
        for (tool, before) in trace.tool_executions.iter_mut().zip(&before.tool_executions) {
            assert_eq!(tool.duration.take(), None);
            tool.duration = before.duration;
        }
    }
    assert_eq!(again, first);
}

#[test]
fn siblings_stand_by_start_and_a_child_may_come_before_its_parent() {
    let tree =
        shown(vec![trace("late", None, 30), trace("kid", Some("first"), 20), trace("first", None, 10)]);
    assert_eq!(
        rows(&tree),
        [
            ("first", 1, Some("root"), false),
            ("kid", 2, Some("first"), false),
            ("late", 1, Some("root"), false)
        ]
    );
}

#[test]
fn unknown_parent_makes_an_orphan_after_the_others() {
    let tree = shown(vec![
        trace("lone", Some("nobody"), 1),
        trace("a", Some("root"), 5),
        trace("kid", Some("lone"), 6),
    ]);
    assert_eq!(
        rows(&tree),
        [("a", 1, Some("root"), false), ("lone", 1, None, true), ("kid", 2, Some("lone"), false)]
    );
    assert_eq!((tree.problems.len(), tree.agents[0].subtree.agents), (1, 4));
}

#[test]
fn circles_are_opened_at_the_first() {
    let tree =
        shown(vec![trace("b", Some("a"), 2), trace("a", Some("b"), 1), trace("self", Some("self"), 3)]);
    assert_eq!(rows(&tree), [("a", 1, None, true), ("b", 2, Some("a"), false), ("self", 1, None, true)]);
    assert_eq!(tree.problems.len(), 2);
}

#[test]
fn equal_ids_and_the_roots_id_get_new_ones() {
    let tree = shown(vec![
        trace("a", None, 1),
        trace("a", None, 2),
        trace("a#2", None, 3),
        trace("root", None, 4),
        trace("kid", Some("a"), 5),
    ]);
    let ids: Vec<&str> = tree.agents.iter().map(|agent| agent.id.as_str()).collect();
    assert_eq!(ids, ["root", "a", "kid", "a#3", "a#2", "root#2"]);
    assert_eq!(tree.problems.len(), 2);
}

#[test]
fn impossible_times_do_no_harm() {
    let mut odd = trace("a", None, i64::MIN);
    odd.end_time = Some(i64::MAX);
    let tree = shown(vec![odd, trace("b", None, i64::MAX - 10)]);
    assert_eq!(tree.agents[1].wall_ms, Some(i64::MAX));
    let mut back = trace("a", None, 100);
    back.end_time = Some(50);
    assert_eq!(shown(vec![back]).agents[1].wall_ms, Some(0));
}

#[test]
fn calls_keep_their_payloads_and_endings() {
    let tool = |is_error, result: Value| ToolExecution {
        tool_name: "Read".into(),
        tool_call_id: None,
        arguments: serde_json::json!({"file_path": "x"}),
        result,
        is_error,
        duration: None,
    };
    let mut one = trace("a", None, 1);
    one.tool_executions = vec![
        tool(None, "text".into()),
        tool(Some(false), Value::Null),
        tool(Some(true), Value::Null),
        tool(None, Value::Null),
    ];
    let tree = shown(vec![one]);
    let statuses: Vec<ToolStatus> = tree.agents[1].tools.iter().map(|call| call.status).collect();
    assert_eq!(statuses, [ToolStatus::Ok, ToolStatus::Ok, ToolStatus::Error, ToolStatus::Open]);
    let first = &tree.agents[1].tools[0];
    assert_eq!(first.input, Some(Box::new(Payload::Inline(r#"{"file_path":"x"}"#.into()))));
    assert_eq!((first.result.as_deref().and_then(inline), first.id.as_ref()), (Some("text".into()), None));
}

#[test]
fn empty_checkpoint_has_a_root_only() {
    let tree = shown(vec![]);
    assert_eq!((tree.agents.len(), &*tree.session.id, tree.summary.agents), (1, "checkpoint", 0));
    assert_eq!((tree.session.started_at_ms, tree.summary.wall_ms), (None, None));
}

#[test]
fn chain_of_ten_thousand_is_built_on_a_small_stack() {
    let build = || {
        let tree = checkpoint_tree(&exported(&chain(10_000)), None);
        (tree.summary.max_depth, tree.agents[1].subtree.agents, tree.agents[1].subtree.wall_ms)
    };
    let thread = std::thread::Builder::new().stack_size(256 * 1024).spawn(build).unwrap();
    assert_eq!(thread.join().unwrap(), (10_000, 10_000, Some(10_009)));
}
