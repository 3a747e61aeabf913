//! Timelines of handmade trees, and properties for each recording.

use subscope_model::AgentStatus;
use subscope_testkit::{
    fixtures::{self, Recording},
    sessions::{self, Telling, parts_of},
};

use super::*;
use crate::sample;

const START: Millis = sample::START;

/// An agent active between two times, in seconds.
fn agent(id: &str, parent: Option<&str>, depth: u32, from: i64, to: i64) -> Agent {
    Agent {
        parent_id: parent.map(AgentId::from),
        intervals: vec![[START + from * 1000, START + to * 1000]],
        ..sample::agent(id, depth)
    }
}

fn tree(agents: Vec<Agent>) -> Tree {
    Tree { agents, ..sample::tree_of_depths(&[]) }
}

fn of(recording: &Recording) -> Tree {
    sessions::tree(&parts_of(recording, &[Telling::Transcript]))
}

/// The critical path as `agent from-to`, in seconds.
fn path(tree: &Tree) -> Vec<String> {
    let seconds = |at: Millis| (at - START) / 1000;
    let steps = timeline(tree, None).unwrap().critical_path;
    steps
        .iter()
        .map(|step| format!("{} {}-{}", step.agent_id, seconds(step.from_ms), seconds(step.to_ms)))
        .collect()
}

/// A lane as `kind from-to`, in milliseconds.
fn lane(agent: Agent, now: Option<Millis>) -> Vec<String> {
    let spans = timeline(&tree(vec![agent]), now).unwrap().lanes.remove(0).spans;
    spans
        .iter()
        .map(|span| format!("{:?} {}-{}", span.kind, span.from_ms - START, span.to_ms - START))
        .collect()
}

#[test]
fn path_goes_through_whoever_ended_last() {
    let tree = tree(vec![
        agent("root", None, 0, 0, 20),
        agent("a", Some("root"), 1, 2, 9),
        agent("b", Some("root"), 1, 3, 15),
        agent("c", Some("b"), 2, 5, 12),
        agent("d", Some("root"), 1, 0, 1),
    ]);
    let steps = ["d 0-1", "root 1-3", "b 3-5", "c 5-12", "b 12-15", "root 15-20"];
    assert_eq!(path(&tree), steps);
}

#[test]
fn path_leaves_out_the_time_between_two_prompts() {
    let mut root = agent("root", None, 0, 0, 4);
    root.intervals.push([START + 60_000, START + 70_000]);
    let tree = tree(vec![root, agent("a", Some("root"), 1, 1, 3), agent("b", Some("root"), 1, 62, 80)]);
    assert_eq!(path(&tree), ["root 0-1", "a 1-3", "root 3-4", "root 60-62", "b 62-80"]);
}

#[test]
fn path_takes_the_right_interval_of_an_agent_that_was_woken() {
    let mut woken = agent("a", Some("root"), 1, 1, 3);
    woken.intervals.push([START + 6_000, START + 8_000]);
    let child = agent("b", Some("a"), 2, 2, 3);
    let tree = tree(vec![agent("root", None, 0, 0, 10), woken, child]);
    assert_eq!(path(&tree), ["root 0-1", "a 1-2", "b 2-3", "root 3-6", "a 6-8", "root 8-10"]);
}

#[test]
fn path_survives_parents_that_make_a_circle() {
    let tree = tree(vec![agent("root", Some("a"), 0, 0, 5), agent("a", Some("a"), 1, 1, 2)]);
    assert_eq!(path(&tree), ["root 0-5"]);
}

#[test]
fn path_is_a_sentence_of_its_longest_shares() {
    let calls = vec![
        sample::call("Bash", "npm ci", ToolStatus::Ok, 15_000, Some(2_000)),
        sample::call("Read", "x", ToolStatus::Ok, 16_000, Some(1_500)),
    ];
    let named = |id: &str, parent, depth, from, to| Agent {
        description: Some(format!("Look at {id}").into()),
        ..agent(id, Some(parent), depth, from, to)
    };
    let tree = tree(vec![
        Agent { tools: calls, ..agent("root", None, 0, 0, 20) },
        named("a", "root", 1, 0, 1),
        named("b", "root", 1, 3, 15),
        named("c", "b", 2, 5, 12),
    ]);
    let path = timeline(&tree, None).unwrap().path;
    assert_eq!(
        path.sentence(),
        "20s: 7s Look at c, 5s Look at b, 4s main: model, 2s main: Bash, 1s the rest"
    );
    assert_eq!(path.shares[0].agent_id, AgentId::from("c"));
    assert_eq!(PathShares::default().sentence(), "");
}

#[test]
fn lane_holds_the_model_between_calls() {
    let calls = vec![
        sample::call("Read", "a", ToolStatus::Ok, 1_000, Some(2_000)),
        sample::call("Read", "b", ToolStatus::Error, 1_000, Some(500)),
        sample::call("Bash", "c", ToolStatus::Open, 7_000, None),
    ];
    let spans = lane(Agent { tools: calls, ..agent("root", None, 0, 0, 9) }, None);
    assert_eq!(
        spans,
        ["Model 0-1000", "Tool 1000-1500", "Tool 1000-3000", "Model 3000-7000", "Tool 7000-9000"]
    );
}

#[test]
fn lane_shows_what_a_live_agent_waits_for_until_now() {
    let running = |kind, name: &str| Agent {
        status: AgentStatus::Running,
        liveness: Some(subscope_model::Liveness {
            kind,
            name: Some(name.into()),
            count: None,
            limit: None,
            since_ms: Some(START + 4_000),
            inferred: true,
        }),
        tools: vec![sample::call("Bash", "c", ToolStatus::Open, 3_000, None)],
        ..agent("root", None, 0, 0, 3)
    };
    let now = Some(START + 10_000);
    let asks = lane(running(LivenessKind::Permission, "Bash"), now);
    assert_eq!(asks, ["Model 0-3000", "Tool 3000-4000", "Permission 4000-10000"]);
    let retries = Agent { tools: Vec::new(), ..running(LivenessKind::Retry, "overloaded") };
    assert_eq!(lane(retries, now), ["Model 0-4000", "Retry 4000-10000"]);
    let calls = lane(running(LivenessKind::Tool, "Bash"), now);
    assert_eq!(calls, ["Model 0-3000", "Tool 3000-10000"]);
}

#[test]
fn nothing_is_drawn_where_nothing_has_a_time() {
    assert_eq!(timeline(&sample::tree_of_depths(&[0, 1]), Some(START)), None);
    assert_eq!(timeline(&sample::tree_of_depths(&[]), None), None);
}

#[test]
fn serialized_timeline_comes_back() {
    let drawn = timeline(&sample::session(), Some(sample::NOW)).unwrap();
    let json = serde_json::to_string(&drawn).unwrap();
    assert_eq!(serde_json::from_str::<Timeline>(&json).unwrap(), drawn);
}

#[test]
fn recordings_fill_their_lanes_and_have_one_unbroken_path() {
    for recording in fixtures::recordings() {
        let what = recording.name();
        let tree = of(&recording);
        let drawn = timeline(&tree, None).unwrap_or_else(|| panic!("{what} has no times"));
        assert_eq!(drawn.lanes.len(), tree.agents.len(), "{what}");
        for (lane, agent) in drawn.lanes.iter().zip(&tree.agents) {
            let calls = lane.spans.iter().filter(|span| span.status.is_some()).count();
            let timed = agent.tools.iter().filter(|call| call.started_at_ms.is_some()).count();
            assert_eq!(calls, timed, "{what} {}", agent.id);
            assert!(lane.spans.is_sorted_by_key(|span| span.from_ms), "{what} {}", agent.id);
            let covered: i64 = union(lane.spans.iter().map(|span| [span.from_ms, span.to_ms]));
            let worked: i64 = active_intervals(agent, None).iter().map(|[from, to]| to - from).sum();
            assert!(covered >= worked, "{what} {}: {covered} of {worked} ms", agent.id);
        }
        let path = &drawn.critical_path;
        assert!(path.windows(2).all(|pair| pair[0].to_ms <= pair[1].from_ms), "{what}");
        let length: i64 = path.iter().map(|step| step.to_ms - step.from_ms).sum();
        assert!(length <= drawn.end_ms - drawn.start_ms && length > 0, "{what}: {length}");
        let shares = &drawn.path;
        assert_eq!(shares.total_ms, length, "{what}");
        assert_eq!(
            shares.shares.iter().map(|share| share.ms).sum::<i64>() + shares.rest_ms,
            length,
            "{what}"
        );
        assert_eq!(timeline(&tree, None), Some(drawn), "{what}");
    }
}

#[test]
fn path_of_nested_agents_is_as_recorded() {
    let tree = of(&fixtures::recording("2.1.330", "c-nested"));
    let drawn = timeline(&tree, None).unwrap();
    let name = |id: &AgentId| tree.agents.iter().find(|agent| agent.id == *id).map(Agent::title).unwrap();
    let steps: Vec<String> = drawn
        .critical_path
        .iter()
        .map(|step| {
            format!(
                "{:>6} {:>6} {}",
                step.from_ms - drawn.start_ms,
                step.to_ms - drawn.start_ms,
                name(&step.agent_id)
            )
        })
        .collect();
    insta::assert_snapshot!(steps.join("\n"));
}

/// Total time covered by spans.
fn union(spans: impl Iterator<Item = [Millis; 2]>) -> i64 {
    let (mut end, mut sum) = (Millis::MIN, 0);
    for [from, to] in spans {
        let from = from.max(end);
        sum += (to - from).max(0);
        end = end.max(to);
    }
    sum
}
