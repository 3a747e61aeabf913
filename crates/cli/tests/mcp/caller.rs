//! An agent that is called as a tool is a child of its caller, in the caller's session.

use std::fs;

use serde_json::{Value, json};
use subscope_hub::clock;
use subscope_testkit::env::TestEnv;

use crate::{
    client::{Mcp, quoted},
    common::{env, json as parse, serving::Serving},
    listener::Listener,
};

const SESSION: &str = "5e55d3ce-0000-4000-8000-000000000001";

/// The server as a process of the harness starts it: one that notes its session.
async fn started_by_harness(env: &TestEnv, address: &str) -> Mcp {
    let now = clock::now_ms();
    let note = format!("{{\"pid\":'$$',\"sessionId\":\"{SESSION}\",\"startedAt\":{now}}}");
    let script = format!(
        "mkdir -p $HOME/.claude/sessions; echo '{note}' >$HOME/.claude/sessions/$$.json\n{} mcp agent --name worker -- cat; true",
        quoted(env!("CARGO_BIN_EXE_subscope")),
    );
    let mut command = env.command_of("bash");
    command.args(["-c", &script]).env("CPE_SUBAGENT_LOGGING_ADDRESS", address);
    Mcp::start_as(command.into()).await
}

fn row(tree: &Value, id: &str) -> Value {
    let rows = tree["agents"].as_array().unwrap();
    rows.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("no {id} in {tree}")).clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_called_by_a_subagent_joins_its_session_below_it() {
    let env = env();
    let serving = Serving::start(&env, "");
    for payload in [
        json!({"session_id": SESSION, "hook_event_name": "SubagentStart", "agent_id": "a1", "agent_type": "Explore"}),
        json!({"session_id": SESSION, "hook_event_name": "PreToolUse", "agent_id": "a1", "agent_type": "Explore",
            "prompt_id": "p", "tool_name": "mcp__shop__worker", "tool_use_id": "toolu_1",
            "tool_input": {"prompt": "Look.", "runId": "run-9"}}),
    ] {
        serving.post("/hooks/claude", "", payload.to_string().as_bytes());
    }
    let mcp = started_by_harness(&env, &format!("http://{}", serving.address)).await;
    assert_eq!(mcp.text("worker", json!({"prompt": "Look.", "runId": "run-9"})).await, "Look.");
    mcp.close().await;
    let tree = serving.tree(SESSION).unwrap();
    let worker = row(&tree, "run-9");
    assert_eq!(
        (&worker["parent_id"], &worker["spawned_by"], &worker["depth"]),
        (&"a1".into(), &"toolu_1".into(), &2.into()),
        "{worker}"
    );
    assert_eq!((&worker["status"], &worker["result"]), (&"completed".into(), &"Look.".into()));
    assert_eq!(serving.json("/api/v1/sessions")["sessions"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_is_known_by_the_call_that_names_the_run_whatever_is_read_first() {
    let env = env();
    let at = |second: u32| format!("2026-11-21T20:45:{second:02}.000Z");
    let spawn = json!({"type": "assistant", "sessionId": SESSION, "uuid": "u1", "timestamp": at(1), "message": {"id": "m1",
        "role": "assistant", "content": [{"type": "tool_use", "id": "toolu_0", "name": "Agent", "input": {
        "subagent_type": "Explore", "description": "Look", "prompt": "Look around."}}]}});
    let call = json!({"type": "assistant", "sessionId": SESSION, "uuid": "u2", "timestamp": at(3), "isSidechain": true,
        "agentId": "a1", "message": {"id": "m2", "role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1",
        "name": "mcp__shop__worker", "input": {"prompt": "Look.", "runId": "run-9"}}]}});
    let event = |kind: &str, second: u32| json!({"subagentName": "worker", "subagentRunId": "run-9", "timestamp": at(second), "type": kind, "sessionId": SESSION});
    let main = env.write(&format!("work/{SESSION}.jsonl"), format!("{spawn}\n"));
    let own = env.write(&format!("work/{SESSION}/subagents/agent-a1.jsonl"), format!("{call}\n"));
    let meta = json!({"agentType": "Explore", "description": "Look", "toolUseId": "toolu_0"});
    env.write(&format!("work/{SESSION}/subagents/agent-a1.meta.json"), meta.to_string());
    let events = env.write(
        "work/events.jsonl",
        format!("{}\n{}\n", event("subagent_start", 4), event("subagent_end", 5)),
    );
    let (main, events) = (main.to_str().unwrap(), events.to_str().unwrap());
    assert!(fs::exists(own).unwrap());
    for paths in [[main, events], [events, main]] {
        let tree = parse(&env.run(&[&["tree", "--json"][..], &paths].concat()).success());
        let worker = row(&tree, "run-9");
        assert_eq!(
            (&worker["parent_id"], &worker["spawned_by"]),
            (&"a1".into(), &"toolu_1".into()),
            "{tree}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn start_names_the_call_and_the_end_the_answer() {
    let env = env();
    let listener = Listener::start();
    let mcp = Mcp::agent(&env, Some(&listener.address), &[], "cat").await;
    let meta = json!({"claudecode/toolUseId": "toolu_7"});
    mcp.call_with("worker", json!({"prompt": "Say it.", "runId": "r"}), meta).await;
    let events = listener.events();
    assert_eq!(
        (&events[0]["type"], &events[0]["parentToolCallId"]),
        (&"subagent_start".into(), &"toolu_7".into())
    );
    assert_eq!((&events[1]["type"], &events[1]["result"]), (&"subagent_end".into(), &"Say it.".into()));
    assert!(events[1].get("payload").is_none(), "it went well");
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prompt_that_would_be_an_option_of_the_command_is_refused() {
    let env = env();
    let mcp = Mcp::start(&env, &[], &["agent", "--name", "worker", "--", "echo", "{prompt}"]).await;
    let error = mcp.error("worker", json!({"prompt": "--dangerously-skip-permissions", "runId": "r"})).await;
    assert!(error.contains("prompt begins with \"-\""), "{error}");
    assert_eq!(mcp.text("worker", json!({"prompt": "say it", "runId": "r"})).await, "say it");
    mcp.close().await;
}
