//! Agents stopped by the user: our own record outranks the harness's report, and an order that was never delivered has
//! no effect.

#![allow(clippy::unwrap_used)]

use subscope_model::{AgentId, EventKind, Flag, StopOrder, StopStep, ToolUseId, Tree};
use subscope_session::SessionRouter;
use subscope_testkit::{
    clock::START,
    fixtures::{Recording, bytes, stopped_recordings},
    lines::{Line, SESSION, hook, launch_result, spawn_input, task_notification, transcript},
    sessions::{self, Part, Telling, events, options, parts_of, read, sketch, tree, tree_at},
};

/// A stop order, with its time after the start.
fn order(step: StopStep, after_ms: i64, agent: &str, call: Option<&str>, is_refused: bool) -> String {
    let order = StopOrder {
        schema: StopOrder::SCHEMA.into(),
        step,
        at_ms: START + after_ms,
        session_id: SESSION.into(),
        agent_id: agent.into(),
        tool_use_id: call.map(|call| ToolUseId(call.into())),
        is_refused,
    };
    serde_json::to_string(&order).unwrap() + "\n"
}

fn asked(after_ms: i64, agent: &str) -> String {
    order(StopStep::Asked, after_ms, agent, None, false)
}

fn orders(lines: &[String]) -> Part {
    Part::new("stop-orders.jsonl", lines.concat())
}

/// The main thread: it starts one background agent at 100 ms, then `more`.
fn main(more: impl IntoIterator<Item = Line>) -> Part {
    let start =
        transcript::tool_use("Agent", "spawn-1").input(spawn_input("Explore", "Look", "Look.")).after_ms(100);
    let launched =
        transcript::tool_result("spawn-1", "Launched.").harness_result(launch_result("a1")).after_ms(150);
    Part::of("main.jsonl", [transcript::user("Go."), start, launched].into_iter().chain(more))
}

/// The agent: it calls a tool at 200 ms, then `more`.
fn agent(more: impl IntoIterator<Item = Line>) -> Part {
    let own = |line: Line| line.agent("a1");
    let call = transcript::tool_use("Read", "read-1").after_ms(200);
    let read = transcript::tool_result("read-1", "text").after_ms(210);
    Part::of("agent-a1.jsonl", [call, read].into_iter().chain(more).map(own)).by_agent("a1")
}

fn ended(after_ms: i64) -> Line {
    transcript::user(&task_notification("a1", "spawn-1", "completed")).after_ms(after_ms)
}

/// The agent's row as text: status, flags and calls.
fn row(tree: &Tree) -> String {
    sketch(tree).lines().nth(1).unwrap().trim().to_owned()
}

/// The same from the sources in every order, repeated, and read by one router each, while the agent may be at work.
fn soon(parts: &[Part]) -> String {
    let at = |router: &SessionRouter| row(&tree_at(router, START + 5_000));
    let expected = at(&read(parts, options(false)));
    for turn in 0..parts.len() {
        let mut turned = parts.to_vec();
        turned.rotate_left(turn);
        assert_eq!(at(&read(&turned, options(false))), expected, "turned by {turn}");
        let mut joined = read(&[], options(false));
        for part in &turned {
            joined.join(read(std::slice::from_ref(part), options(false)));
        }
        assert_eq!(at(&joined), expected, "joined, turned by {turn}");
        turned.extend(parts.iter().filter(|part| part.spec.label == "stop-orders.jsonl").cloned());
        assert_eq!(at(&read(&turned, options(false))), expected, "with orders repeated");
    }
    expected
}

#[test]
fn agent_is_stopping_from_the_order_until_it_has_ended() {
    let wanted = orders(&[asked(300, "a1")]);
    assert_eq!(soon(&[main([]), agent([]), wanted.clone()]), "a1 Explore running [stopping]: Read ok");
    // It ends by itself: the order has no effect, the harness's report counts.
    let done = transcript::assistant("Done.").stop("end_turn").after_ms(400);
    assert_eq!(soon(&[main([ended(410)]), agent([done]), wanted.clone()]), "a1 Explore completed: Read ok");
    // An order for an unknown agent adds none.
    let stranger = orders(&[asked(300, "a2")]);
    assert_eq!(sketch(&tree(&[main([]), agent([]), stranger])).lines().count(), 2);
}

#[test]
fn agent_that_was_told_is_stopped_whatever_the_harness_says() {
    let call = transcript::tool_use("Bash", "bash-1").after_ms(500);
    let refused = transcript::tool_result("bash-1", "PreToolUse:Bash hook error: Stopped")
        .failed()
        .set("toolDenialKind", "permission-rule")
        .after_ms(520);
    let told = orders(&[asked(300, "a1"), order(StopStep::Given, 510, "a1", Some("bash-1"), true)]);
    let stopped = "a1 Explore stopped: Read ok, Bash denied";
    assert_eq!(soon(&[main([ended(530)]), agent([call.clone(), refused]), told.clone()]), stopped);
    // The refused call has ended, even if no other source reports it.
    assert_eq!(soon(&[main([]), agent([call]), told]), stopped);
}

#[test]
fn call_that_was_let_through_keeps_the_agent_going_until_it_is_over() {
    let call = transcript::tool_use("Bash", "bash-1").after_ms(500);
    let over = transcript::tool_result("bash-1", "built").after_ms(3_000);
    let told = orders(&[asked(300, "a1"), order(StopStep::Given, 510, "a1", Some("bash-1"), false)]);
    assert_eq!(
        soon(&[main([]), agent([call.clone()]), told.clone()]),
        "a1 Explore running [stopping]: Read ok, Bash open"
    );
    assert_eq!(soon(&[main([]), agent([call, over]), told]), "a1 Explore stopped: Read ok, Bash ok");
}

#[test]
fn agent_that_has_its_last_word_after_the_answer_was_not_reached() {
    let call = transcript::tool_use("Bash", "bash-1").after_ms(500);
    let over = transcript::tool_result("bash-1", "built").after_ms(600);
    let done = transcript::assistant("Done.").stop("end_turn").after_ms(700);
    let told = orders(&[asked(300, "a1"), order(StopStep::Given, 510, "a1", Some("bash-1"), true)]);
    assert_eq!(
        soon(&[main([ended(710)]), agent([call, over, done]), told]),
        "a1 Explore completed: Read ok, Bash ok"
    );
}

#[test]
fn order_is_of_the_stretch_in_which_it_was_given() {
    let told = orders(&[asked(300, "a1"), order(StopStep::Given, 510, "a1", Some("bash-1"), true)]);
    let wake = transcript::tool_use("SendMessage", "send-1").after_ms(1_000);
    let woken = transcript::tool_result("send-1", "Resuming.")
        .harness_result(serde_json::json!({"success": true, "resumedAgentId": "a1"}))
        .after_ms(1_010);
    let again = transcript::tool_use("Read", "read-2").after_ms(1_100);
    let parts = [main([ended(530), wake, woken]), agent([again]), told];
    assert_eq!(soon(&parts), "a1 Explore running: Read ok, Read open");
    let anew = orders(&[asked(1_200, "a1")]);
    assert_eq!(
        soon(&[parts.to_vec(), vec![anew]].concat()),
        "a1 Explore running [stopping]: Read ok, Read open"
    );
}

#[test]
fn order_by_the_spawn_calls_id_is_the_agents() {
    let wanted = orders(&[asked(300, "spawn-1")]);
    assert_eq!(soon(&[main([]), agent([]), wanted]), "a1 Explore running [stopping]: Read ok");
}

#[test]
fn hooks_and_orders_alone_say_that_it_was_stopped() {
    let hooks = Part::of(
        "hooks.jsonl",
        [
            hook("SubagentStart").agent("a1").agent_type("Explore"),
            hook("PreToolUse").tool("Bash", "bash-1").agent("a1"),
        ],
    );
    let told = orders(&[asked(300, "a1"), order(StopStep::Given, 510, "a1", Some("bash-1"), true)]);
    assert_eq!(soon(&[hooks, told]), "a1 Explore stopped [orphan]: Bash denied");
}

#[test]
fn moment_before_the_answer_knows_nothing_of_it() {
    let call = transcript::tool_use("Bash", "bash-1").after_ms(500);
    let told = orders(&[asked(300, "a1"), order(StopStep::Given, 510, "a1", Some("bash-1"), true)]);
    let parts = [main([ended(530)]), agent([call]), told];
    let at = |after_ms: i64| {
        let cutoff = Some(START + after_ms);
        let router = read(&parts, subscope_session::RouterOptions { cutoff, ..options(false) });
        row(&tree_at(&router, START + after_ms))
    };
    assert_eq!(at(250), "a1 Explore running: Read ok");
    assert_eq!(at(505), "a1 Explore running [stopping]: Read ok, Bash open");
    assert_eq!(at(515), "a1 Explore stopped: Read ok, Bash denied");
}

#[test]
fn feed_tells_order_answer_and_stop() {
    let call = transcript::tool_use("Bash", "bash-1").after_ms(500);
    let told = orders(&[asked(300, "a1"), order(StopStep::Given, 510, "a1", Some("bash-1"), true)]);
    let all = events(&[main([ended(530)]), agent([call]), told]);
    let said: Vec<(EventKind, &str)> = all
        .iter()
        .filter(|event| event.actor_id.0 == AgentId::from("a1"))
        .filter_map(|event| {
            let fields = [(EventKind::Notification, "message"), (EventKind::SubagentStop, "status")];
            let (_, field) = fields.into_iter().find(|(kind, _)| *kind == event.kind)?;
            Some((event.kind, event.text(field)?))
        })
        .collect();
    let notice = EventKind::Notification;
    // In order of time: it ended with its own last line, which the answer followed.
    let expected =
        [(notice, "asked to stop"), (EventKind::SubagentStop, "stopped"), (notice, "told to stop")];
    assert_eq!(said, expected);
}

fn with_orders(recording: &Recording, tellings: &[Telling]) -> Tree {
    let mut parts = parts_of(recording, tellings);
    parts.push(Part::new("stop-orders.jsonl", bytes(&recording.stop_orders())));
    tree(&parts)
}

#[test]
fn stopped_recordings_are_right_with_their_orders_and_say_what_the_harness_said_without() {
    for recording in stopped_recordings() {
        let (what, truth) = (recording.name(), recording.truth());
        let stopped: Vec<&str> = truth
            .agents
            .iter()
            .filter(|agent| agent.status == ["stopped"])
            .map(|agent| agent.id.as_str())
            .collect();
        assert_eq!(stopped.len(), 1, "{what}");
        for tellings in [
            vec![Telling::Transcript],
            vec![Telling::Transcript, Telling::Hooks],
            vec![Telling::Hooks, Telling::Stream, Telling::Transcript],
        ] {
            let what = format!("{what} {tellings:?}");
            let (with, without) =
                (with_orders(&recording, &tellings), sessions::tree(&parts_of(&recording, &tellings)));
            assert_eq!(with.agents.len(), truth.agents.len(), "{what}");
            for expected in &truth.agents {
                let find =
                    |tree: &Tree| tree.agents.iter().find(|row| *row.id == *expected.id).cloned().unwrap();
                let (row, alone) = (find(&with), find(&without));
                assert_eq!(row.status.as_str(), expected.status[0], "{what} {}", expected.id);
                assert!(!row.has(Flag::Stopping), "{what} {}", expected.id);
                assert_eq!(alone.status.as_str(), "completed", "{what} {}", expected.id);
                for row in [&row, &alone] {
                    let counts = (row.tool_calls, row.tool_errors, row.tools_denied, row.open_tools);
                    let should = (
                        expected.tool_calls,
                        expected.tool_errors,
                        expected.tools_denied,
                        expected.open_tools,
                    );
                    assert_eq!(counts, should, "{what} {}", expected.id);
                }
            }
        }
        // Hooks alone report no end of the stopped agent.
        let row = |tree: &Tree| tree.agents.iter().find(|row| *row.id == *stopped[0]).cloned().unwrap();
        assert_eq!(row(&with_orders(&recording, &[Telling::Hooks])).status.as_str(), "stopped", "{what}");
    }
}
