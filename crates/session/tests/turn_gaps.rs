//! What a harness reports after the end of a turn that the turn left running: it moves neither the end of the turn nor that
//! of its agent, and only another turn revives them.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use subscope_model::{Agent, AgentStatus, ToolStatus, Tree};
use subscope_testkit::sessions::{Part, tree};

/// When all sources here begin, 2026-11-21T20:30:00Z, in milliseconds.
const DAY: i64 = 1_795_293_000_000;

/// A line of a rollout at a second.
fn line(second: i64, kind: &str, payload: &Value) -> String {
    let time = format!("2026-11-21T20:30:{second:02}.000Z");
    json!({"timestamp": time, "type": kind, "payload": payload}).to_string()
}

fn event(second: i64, payload: &Value) -> String {
    line(second, "event_msg", payload)
}

/// A rollout whose only turn began a command and ended as given, at second 2; what is given follows.
fn rollout(thread: &str, end: &Value, later: &[String]) -> Part {
    let mut meta = json!({"id": thread, "session_id": "r", "cli_version": "0.169.0", "cwd": "/w"});
    if thread != "r" {
        meta["parent_thread_id"] = json!("r");
        meta["source"] = json!({"subagent": {"thread_spawn": {"parent_thread_id": "r", "depth": 1}}});
    }
    // Ids of calls are unique.
    let call = if later.is_empty() { "other" } else { "late" };
    let lines = [
        line(0, "session_meta", &meta),
        event(0, &json!({"type": "task_started", "turn_id": "t1"})),
        event(
            0,
            &json!({"type": "item_completed", "item": {"type": "UserMessage", "id": "u1", "content": [{"type": "text", "text": "count"}]}}),
        ),
        line(
            1,
            "response_item",
            &json!({"type": "function_call", "name": "exec_command", "call_id": call, "arguments": "{\"cmd\":\"sleep 9\"}"}),
        ),
        event(2, end),
    ];
    Part::new(
        &format!("rollout-{thread}.jsonl"),
        (lines.iter().chain(later).cloned().collect::<Vec<_>>().join("\n") + "\n").into_bytes(),
    )
}

/// What may come after the end of a turn, at second 9.
fn late_lines() -> BTreeMap<&'static str, String> {
    let command = json!({"type": "CommandExecution", "id": "late", "status": "failed", "aggregated_output": "x", "exit_code": 1});
    let message =
        json!({"type": "AgentMessage", "id": "m9", "content": [{"type": "Text", "text": "half a sen"}]});
    let tokens = json!({"input_tokens": 5, "output_tokens": 1, "total_tokens": 6});
    let item = |item: Value| {
        let at = DAY + 9_000;
        event(9, &json!({"type": "item_completed", "item": item, "completed_at_ms": at}))
    };
    [
        ("item", item(command)),
        ("message", item(message)),
        ("tokens", event(9, &json!({"type": "token_count", "info": {"total_token_usage": tokens, "last_token_usage": tokens}}))),
        ("settings", event(9, &json!({"type": "thread_settings_applied"}))),
        ("unknown", event(9, &json!({"type": "something_new"}))),
        ("output", line(9, "response_item", &json!({"type": "function_call_output", "call_id": "late", "output": "aborted by user"}))),
        ("note", line(9, "response_item", &json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<turn_aborted>\n"}]}))),
        ("said", line(9, "response_item", &json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "half"}]}))),
    ]
    .into()
}

/// When, how and why an agent ended.
fn ending(tree: &Tree, agent: usize) -> (AgentStatus, Option<&str>, Option<i64>) {
    let Agent { status, evidence, ended_at_ms, .. } = &tree.agents[agent];
    (*status, evidence.as_deref(), ended_at_ms.map(|at| (at - DAY) / 1_000))
}

#[test]
fn lines_after_the_end_of_a_turn_do_not_move_it() {
    let stopped = json!({"type": "turn_aborted", "turn_id": "t1", "reason": "interrupted"});
    let done = json!({"type": "task_complete", "turn_id": "t1", "last_agent_message": "done"});
    let ends = [
        (stopped, AgentStatus::Stopped, ["result", "turn interrupted"]),
        (done, AgentStatus::Completed, ["result", "task notification"]),
    ];
    for (end, status, evidence) in &ends {
        for agent in [0, 1] {
            let trees = |later: &[String]| {
                let root = rollout("r", end, if agent == 0 { later } else { &[] });
                tree(&[root, rollout("c", end, if agent == 1 { later } else { &[] })])
            };
            for (name, late) in late_lines() {
                let what = format!("{name} after {end} of {agent}");
                let found = trees(std::slice::from_ref(&late));
                assert_eq!(ending(&found, agent), (*status, Some(evidence[agent]), Some(2)), "{what}");
                assert_eq!(found.session.runs, 1, "{what}");
                let call = &found.agents[agent].tools[0];
                match name {
                    "item" => {
                        assert_eq!(
                            (call.status, call.ended_at_ms),
                            (ToolStatus::Error, Some(DAY + 9_000)),
                            "{what}"
                        );
                    }
                    "tokens" => {
                        let usage = found.agents[agent]
                            .usage
                            .unwrap_or_else(|| panic!("{what}: {:?}", found.agents[agent]));
                        assert_eq!(usage.total_tokens, 6, "{what}");
                    }
                    _ => {}
                }
                // Another turn revives it, and what comes then counts.
                let again = event(12, &json!({"type": "task_started", "turn_id": "t2"}));
                let moved = event(14, &json!({"type": "token_count", "info": null}));
                let found = trees(&[late, again, moved]);
                assert_ne!(found.agents[agent].status, *status, "{what}: another turn");
                let last = found.agents[agent].last_event_at_ms.map(|at| (at - DAY) / 1_000);
                assert_eq!(last, Some(14), "{what}: another turn");
            }
        }
    }
}

/// A message of `codex app-server` at a second.
fn message(second: i64, method: &str, mut params: Value, thread: &str) -> String {
    params["threadId"] = json!(thread);
    json!({"method": method, "params": params, "emittedAtMs": DAY + second * 1_000}).to_string()
}

#[test]
fn messages_after_the_end_of_a_turn_do_not_move_it() {
    let thread = |id: &str, parent: Value| {
        let thread = json!({"id": id, "sessionId": "r", "parentThreadId": parent, "cliVersion": "0.169.0"});
        json!({"method": "thread/started", "params": {"thread": thread}, "emittedAtMs": DAY}).to_string()
    };
    let command = |status: &str| json!({"item": {"type": "commandExecution", "id": "late", "command": "sleep 9", "status": status}});
    let turn = |status: &str| json!({"turn": {"id": "t1", "status": status}});
    let late = [
        ("item/completed", command("failed")),
        ("item/completed", json!({"item": {"type": "agentMessage", "id": "m", "text": "half"}})),
        ("item/commandExecution/outputDelta", json!({"delta": "x"})),
        ("thread/tokenUsage/updated", json!({"tokenUsage": {"total": {"inputTokens": 5, "totalTokens": 5}}})),
    ];
    for (how, status, evidence) in [
        ("interrupted", AgentStatus::Stopped, ["result", "turn interrupted"]),
        ("completed", AgentStatus::Completed, ["result", "task notification"]),
    ] {
        for (agent, id) in ["r", "c"].into_iter().enumerate() {
            let lines = |later: &[String]| {
                let mut lines = vec![thread("r", Value::Null), thread("c", json!("r"))];
                for id in ["r", "c"] {
                    lines.push(message(0, "turn/started", turn("inProgress"), id));
                    lines.push(message(1, "item/started", command("inProgress"), id));
                    lines.push(message(2, "turn/completed", turn(how), id));
                }
                lines.extend_from_slice(later);
                tree(&[Part::new("server.jsonl", (lines.join("\n") + "\n").into_bytes())])
            };
            for (method, params) in &late {
                let what = format!("{method} after {how} of {id}");
                let late = message(9, method, params.clone(), id);
                let found = lines(std::slice::from_ref(&late));
                assert_eq!(ending(&found, agent), (status, Some(evidence[agent]), Some(2)), "{what}");
                let again = message(12, "turn/started", turn("inProgress"), id);
                let found = lines(&[late, again]);
                assert_ne!(found.agents[agent].status, status, "{what}: another turn");
            }
        }
    }
}

#[test]
fn printed_items_after_the_end_of_a_turn_begin_no_other() {
    let printed = |later: &[Value]| {
        let lines = [
            json!({"type": "thread.started", "thread_id": "r"}),
            json!({"type": "turn.started"}),
            json!({"type": "item.started", "item": {"id": "item_0", "type": "command_execution", "command": "sleep 9"}}),
            json!({"type": "turn.completed", "usage": {"input_tokens": 5, "output_tokens": 1}}),
        ];
        let lines: Vec<String> = lines.iter().chain(later).map(Value::to_string).collect();
        tree(&[Part::new("stdout.jsonl", (lines.join("\n") + "\n").into_bytes())])
    };
    let item = json!({"type": "item.completed", "item": {"id": "item_0", "type": "command_execution", "command": "sleep 9", "status": "failed"}});
    let found = printed(std::slice::from_ref(&item));
    assert_eq!((found.agents[0].status, found.session.runs), (AgentStatus::Completed, 1));
    assert_eq!(found.agents[0].tools[0].status, ToolStatus::Error);
    let found = printed(&[item, json!({"type": "turn.started"})]);
    assert_eq!(found.session.runs, 2);
}

#[test]
fn updates_after_the_end_of_an_agents_turn_do_not_move_it() {
    let recorded = |second: i64, message: &Value| {
        json!({"dir": "in", "recv_ns": (DAY + second * 1_000) * 1_000_000, "msg": message}).to_string()
    };
    let update = |second: i64, session: &str, update: &Value| {
        let params = json!({"sessionId": session, "update": update});
        recorded(second, &json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
    };
    let state = |second: i64, state: Value| {
        update(
            second,
            "r",
            &json!({"sessionUpdate": "subagent_update", "sessionId": "r:subagent:c", "state": state}),
        )
    };
    let stop = json!({"state": "idle", "stopReason": "cancelled"});
    let late = [
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "late", "status": "failed"}),
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "half"}}),
        json!({"sessionUpdate": "config_option_update", "configOptions": []}),
    ];
    for late in &late {
        let found = |later: &[String]| {
            let info = json!({"agentInfo": {"name": "@agentclientprotocol/codex-acp", "version": "2.6.0"}});
            let call = json!({"sessionUpdate": "tool_call", "toolCallId": "late", "title": "sleep 9", "kind": "execute", "status": "in_progress"});
            let mut lines = vec![
                recorded(0, &json!({"jsonrpc": "2.0", "id": 0, "result": info})),
                recorded(0, &json!({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "r"}})),
                state(0, json!({"state": "running"})),
                update(1, "r:subagent:c", &call),
                state(2, stop.clone()),
            ];
            lines.extend_from_slice(later);
            tree(&[Part::new("acp.jsonl", (lines.join("\n") + "\n").into_bytes())])
        };
        let after = update(9, "r:subagent:c", late);
        let ended = found(std::slice::from_ref(&after));
        assert_eq!(ending(&ended, 1), (AgentStatus::Stopped, Some("turn interrupted"), Some(2)), "{late}");
        let again = found(&[after, state(12, json!({"state": "running"}))]);
        assert_ne!(again.agents[1].status, AgentStatus::Stopped, "{late}: another turn");
    }
}
