//! Tests of applying updates, and of the updates' JSON.

use proptest::{collection::vec, prelude::*, sample::subsequence};

use super::*;
use crate::{AgentStatus, Session, Summary, TREE_SCHEMA};

const IDS: [&str; 9] = ["root", "a", "b", "c", "d", "e", "f", "g", "h"];

fn agent(id: &str, tool_calls: u32) -> Agent {
    Agent { tool_calls, ..Agent::unknown(AgentId::from(id), 1, AgentStatus::Running) }
}

fn tree(agents: Vec<Agent>) -> Tree {
    let session = Session {
        id: SessionId::from("s"),
        harness: None,
        harness_version: None,
        cwd: None,
        project: None,
        title: None,
        started_at_ms: None,
        ended_at_ms: None,
        runs: 1,
        run_started_at_ms: None,
        machine: None,
        last_heard_ms: None,
        rev: None,
    };
    let tool_calls = agents.iter().map(|row| row.tool_calls).sum();
    let summary = Summary { tool_calls, ..Summary::default() };
    Tree { schema: TREE_SCHEMA.into(), session, agents, summary, problems: Vec::new() }
}

fn stamped(agents: Vec<Agent>, rev: u64) -> Tree {
    let mut tree = tree(agents);
    tree.stamp(rev);
    tree
}

fn view(tree: Tree) -> LiveView {
    let mut view = LiveView::default();
    view.apply(Update::snapshot(tree));
    view
}

fn calls(view: &LiveView) -> Vec<(&str, u32)> {
    let rows = view.trees().flat_map(|tree| &tree.agents);
    rows.map(|row| (row.id.as_str(), row.tool_calls)).collect()
}

#[test]
fn a_session_whose_agents_are_all_removed_is_gone() {
    let known = stamped(vec![agent("root", 0), agent("a", 2)], 5);
    let mut view = view(known.clone());
    let mut change = Change::of(&known, |_| false, vec!["root".into(), "a".into()]);
    change.agents.clear();
    view.apply(Update::change(change));
    assert_eq!(view.trees().count(), 0);
    view.apply(Update::snapshot(known));
    assert_eq!(calls(&view), [("root", 0), ("a", 2)], "its name comes back");
}

#[test]
fn older_row_never_replaces_a_newer_one_nor_brings_back_a_removed_one() {
    let old = stamped(vec![agent("root", 0), agent("gone", 0), agent("a", 1)], 4);
    let mut view = view(stamped(vec![agent("root", 0), agent("a", 2)], 5));
    view.apply(Update::change(Change::of(&old, |_| true, Vec::new())));
    assert_eq!(calls(&view), [("root", 0), ("a", 2)]);
    assert_eq!(view.get(&"s".into()).unwrap().summary.tool_calls, 2);
    let new = stamped(vec![agent("root", 0), agent("b", 7), agent("a", 3)], 6);
    let change = Change::of(&new, |row| row.id.as_str() == "b", Vec::new());
    for _ in 0..2 {
        view.apply(Update::change(change.clone()));
        assert_eq!(calls(&view), [("root", 0), ("b", 7), ("a", 2)]);
    }
    assert_eq!(view.agent(&"s".into(), &"a".into()).unwrap().tool_calls, 2);
    assert_eq!(view.get(&"s".into()).unwrap().summary.tool_calls, 10);
}

#[test]
fn reset_and_unknown_sessions_leave_nothing() {
    let tree = stamped(vec![agent("root", 0)], 1);
    let mut view = view(tree.clone());
    view.apply(Update::Reset);
    view.apply(Update::change(Change::of(&tree, |_| true, Vec::new())));
    assert_eq!(view.trees().count(), 0);
}

#[test]
fn rows_without_a_place_are_the_last() {
    let mut view = view(stamped(vec![agent("root", 0), agent("a", 1)], 1));
    let new = stamped(vec![agent("b", 2), agent("root", 0)], 2);
    let change = Change { places: Vec::new(), ..Change::of(&new, |_| true, vec!["a".into()]) };
    view.apply(Update::change(change));
    assert_eq!(calls(&view), [("b", 2), ("root", 0)]);
}

#[test]
fn every_update_comes_back_from_its_json() {
    let tree = stamped(vec![agent("root", 0)], 3);
    let change = Change { seq: 7, ..Change::of(&tree, |_| true, vec!["x".into()]) };
    let row = serde_json::to_string(&tree.agents[0]).unwrap();
    let session = serde_json::to_string(&tree.session).unwrap();
    let summary = serde_json::to_string(&tree.summary).unwrap();
    let expected = [
        (Update::snapshot(tree.clone()), serde_json::to_string(&tree).unwrap()),
        (
            Update::change(change),
            format!(
                r#"{{"schema":"subscope.change/1","seq":7,"sessions":[{session}],"agents":[{row}],"removed":["x"],"places":[0],"summary":{summary}}}"#
            ),
        ),
        (Update::Missed(3), r#"{"schema":"subscope.missed/1","count":3,"after":9}"#.to_owned()),
        (Update::Reset, r#"{"schema":"subscope.reset/1","seq":9}"#.to_owned()),
        (Update::CaughtUp, r#"{"schema":"subscope.caught-up/1","seq":9}"#.to_owned()),
    ];
    for (update, json) in expected {
        assert_eq!(update.data(9), json);
        assert_eq!(Update::parse(update.name(), &json), Some(update));
    }
    assert_eq!(Update::parse("later", "{}"), None);
    assert_eq!(Update::parse("change", "{}"), None);
}

/// What a hub does for a reader after a step.
#[derive(Clone, Copy, Debug)]
enum Sent {
    Nothing,
    Change,
    /// A change again that the reader has already applied.
    Repeat,
    /// The reader's queue was full: its rows are sent anew.
    Snapshot,
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn updates_of_a_growing_session_give_its_tree(
        steps in vec(
            (
                // A session without agents is gone.
                subsequence(IDS.to_vec(), 1..=IDS.len()).prop_shuffle(),
                vec(0..2u32, IDS.len()),
                prop_oneof![Just(Sent::Nothing), Just(Sent::Change), Just(Sent::Repeat), Just(Sent::Snapshot)],
            ),
            1..12,
        )
    ) {
        let mut shown = stamped(vec![agent("root", 0)], 1);
        let mut view = view(shown.clone());
        let (mut sent_rev, mut removed, mut last) = (1, Vec::new(), None);
        let count = steps.len();
        for (at, (ids, calls, sent)) in steps.into_iter().enumerate() {
            let rev = at as u64 + 2;
            let agents = ids.iter().map(|id| {
                let place = IDS.iter().position(|known| known == id).unwrap_or(0);
                agent(id, calls[place])
            });
            let mut next = tree(agents.collect());
            next.stamp_news(&shown, rev);
            let is_gone = |id: &AgentId| next.agents.iter().all(|row| row.id != *id);
            removed.extend(shown.agents.iter().map(|row| row.id.clone()));
            removed.retain(is_gone);
            shown = next;
            let sent = if at + 1 == count && matches!(sent, Sent::Nothing | Sent::Repeat) { Sent::Change } else { sent };
            let update = match sent {
                Sent::Nothing => continue,
                Sent::Repeat => {
                    view.apply(last.clone().unwrap_or(Update::CaughtUp));
                    continue;
                }
                Sent::Change => {
                    let is_new = |row: &Agent| row.rev.is_some_and(|rev| rev > sent_rev);
                    Update::change(Change::of(&shown, is_new, std::mem::take(&mut removed)))
                }
                Sent::Snapshot => Update::snapshot(shown.clone()),
            };
            if matches!(sent, Sent::Snapshot) {
                removed.clear();
            }
            sent_rev = rev;
            last = Some(update.clone());
            view.apply(update);
            prop_assert_eq!(view.get(&shown.session.id), Some(&shown));
        }
    }
}
