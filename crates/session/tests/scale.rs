//! Sessions of unusual size and depth: all numbers are right, and no recursion overflows the stack.

#![allow(clippy::unwrap_used)]

use std::{collections::HashMap, thread};

use serde_json::Value;
use subscope_export::{Shape, execution, trace, write_execution, write_feed, write_trace};
use subscope_model::{PriceTable, Tree};
use subscope_render::{Detail, Style, TreeOptions, render_tree};
use subscope_testkit::{
    corpus::{self, Made, Options},
    sessions::{LATER, Telling, now, only_session, options, parts_of_memory, read, tree_at},
};

/// Stack size at which recursion by agent or depth would overflow.
const SMALL_STACK_BYTES: usize = 512 << 10;

/// Plays a session, reads it, draws it and exports it on a small stack; returns the generated session and the tree.
fn whole_path(session: Options, tellings: &'static [Telling]) -> (Made, Tree) {
    let work = move || {
        let (made, memory) = corpus::in_memory(&session);
        let mut router = read(&parts_of_memory(&memory, tellings), options(true));
        let tree = tree_at(&router, LATER);
        draw(&tree, made.agents.len());
        let session = only_session(&router);
        let prices = PriceTable::default();
        let events = router.whole_feed(&session, &now(LATER, &prices));
        write_out(&tree, &events, &made);
        drop(router);
        (made, tree)
    };
    thread::Builder::new().stack_size(SMALL_STACK_BYTES).spawn(work).unwrap().join().unwrap()
}

fn draw(tree: &Tree, agents: usize) {
    for detail in Detail::ALL {
        let style = Style { color: false, ascii: false, width: 100 };
        let options = TreeOptions {
            detail,
            style,
            now: Some(LATER),
            agent: None,
            offset_minutes: 0,
            flat: false,
            most: None,
        };
        let drawn = render_tree(tree, &options);
        let lines = drawn.lines().count();
        assert!(detail == Detail::Off || lines >= agents, "{lines} lines at {}", detail.as_str());
    }
}

fn write_out(tree: &Tree, events: &[subscope_model::Event], made: &Made) {
    let subagents = made.agents.len() - 1;
    let mut bytes = Vec::new();
    write_trace(&trace(tree, events.iter().cloned()), &mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();

    let spawned = text.matches("\"spawn\"").count();
    assert!(spawned >= subagents, "{spawned} spawns in the trace");
    let mut bytes = Vec::new();
    write_execution(tree, &|_| None, &mut bytes).unwrap();
    let written: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
    assert_eq!((written.len(), execution(tree, &|_| None).len()), (subagents, subagents));
    let mut bytes = Vec::new();
    write_feed(events.iter().cloned(), Shape::Event, &mut bytes).unwrap();
    let kinds: Vec<Value> = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice::<Value>(line).unwrap()["kind"].clone())
        .collect();
    let count = |kind: &str| kinds.iter().filter(|found| **found == kind).count();
    assert_eq!((count("subagent.start"), count("subagent.stop")), (subagents, subagents));
    assert_eq!(count("tool.pre"), made.calls());
}

fn check(made: &Made, tree: &Tree) {
    assert_eq!(tree.agents.len(), made.agents.len());
    let rows: HashMap<&str, usize> =
        tree.agents.iter().enumerate().map(|(at, row)| (row.id.as_str(), at)).collect();
    for agent in &made.agents {
        let row = &tree.agents[rows[agent.id.as_str()]];
        assert_eq!(row.parent_id.as_deref(), agent.parent.as_deref(), "parent of {}", agent.id);
        assert_eq!(row.spawned_by.as_deref(), agent.spawned_by.as_deref(), "call of {}", agent.id);
        assert_eq!(row.depth as usize, agent.depth, "depth of {}", agent.id);
        assert_eq!(row.agent_type.as_deref(), agent.agent_type, "type of {}", agent.id);
        assert_eq!(row.status.as_str(), "completed", "status of {}", agent.id);
        assert_eq!(
            (row.usage, u64::from(row.messages)),
            (Some(agent.usage), agent.responses),
            "{}",
            agent.id
        );
        let calls: Vec<&str> = row.tools.iter().filter_map(|call| call.id.as_deref()).collect();
        let expected: Vec<&str> = agent.calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(calls, expected, "calls of {}", agent.id);
        let errors = agent.calls.iter().filter(|call| call.failed).count();
        assert_eq!(row.tool_errors as usize, errors, "errors of {}", agent.id);
        assert_eq!(
            (row.started_at_ms, row.ended_at_ms),
            (Some(agent.started), Some(agent.ended)),
            "{}",
            agent.id
        );
    }
    check_order(tree, &rows);
    let summary = &tree.summary;
    assert_eq!(summary.agents as usize, made.agents.len() - 1);
    assert_eq!(summary.completed, summary.agents);
    assert_eq!((summary.tool_calls as usize, summary.tool_errors as usize), (made.calls(), made.errors()));
    assert_eq!(summary.usage, Some(made.usage()));
    assert_eq!(summary.max_depth as usize, made.agents.iter().map(|agent| agent.depth).max().unwrap());
    let root = &tree.agents[0].subtree;
    assert_eq!((root.agents as usize, root.tool_calls as usize), (made.agents.len(), made.calls()));
    assert_eq!(root.usage, Some(made.usage()));
}

/// Checks pre-order, siblings by start, and that a subtree's numbers are the sums of its rows.
fn check_order(tree: &Tree, rows: &HashMap<&str, usize>) {
    for (at, row) in tree.agents.iter().enumerate().skip(1) {
        let parent = rows[row.parent_id.as_deref().unwrap()];
        assert!(parent < at, "{} stands before its parent", row.id);
        let end = tree.agents[parent + 1..].iter().position(|other| other.depth <= tree.agents[parent].depth);
        assert!(end.is_none_or(|end| at <= parent + end), "{} stands outside its parent's rows", row.id);
    }
    let starts = |parent: &str| -> Vec<i64> {
        let children = tree.agents.iter().filter(|row| row.parent_id.as_deref() == Some(parent));
        children.filter_map(|row| row.started_at_ms).collect()
    };
    assert!(starts("root").is_sorted());
    for row in tree.agents.iter().step_by(37) {
        let below =
            tree.agents[rows[&*row.id]..].iter().skip(1).take_while(|other| other.depth > row.depth).count();
        assert_eq!(row.subtree.agents as usize, below + 1, "subtree of {}", row.id);
        assert!(starts(&row.id).is_sorted(), "children of {}", row.id);
    }
}

#[test]
fn chain_of_depth_200_is_right_in_every_dialect() {
    for tellings in [&[Telling::Transcript][..], &Telling::ALL[..]] {
        let (made, tree) = whole_path(corpus::chain(200), tellings);
        check(&made, &tree);
        assert_eq!(tree.summary.max_depth, 200);
    }
}

#[test]
fn session_of_3000_agents_is_right() {
    let session = Options { agents: 3000, depth: 40, turns: 0, ..corpus::wide(3000) };
    let (made, tree) = whole_path(session, &[Telling::Transcript]);
    check(&made, &tree);
    assert_eq!(tree.summary.max_depth, 40);
}
