//! Fail fast: an event that cannot be published aborts its run, and no other.

use serde_json::{Value, json};

use crate::{
    agent::{print, stream},
    client::Mcp,
    common::{env, serving::Serving},
    listener::Listener,
};

#[tokio::test(flavor = "multi_thread")]
async fn command_is_never_started_where_its_start_cannot_be_told() {
    let env = env();
    let mcp = Mcp::agent(&env, Some("http://127.0.0.1:1"), &[], "touch ran").await;
    let error = mcp.error("worker", json!({"prompt": "p", "runId": "r1"})).await;
    assert!(
        error.contains("subagent_start of run r1 (worker)") && error.contains("cannot connect"),
        "{error}"
    );
    mcp.close().await;
    let listener = Listener::answering(|_| 503);
    let mcp = Mcp::agent(&env, Some(&listener.address), &[], "touch ran").await;
    let error = mcp.error("worker", json!({"prompt": "p", "runId": "r1"})).await;
    assert!(error.contains("subagent_start") && error.contains("503"), "{error}");
    mcp.close().await;
    assert!(!env.work().join("ran").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn run_is_aborted_by_an_event_that_is_refused_and_siblings_go_on() {
    let env = env();
    let is_bad = |event: &Value| event["subagentRunId"] == "bad" && event["type"] == "tool_call";
    let listener = Listener::answering(move |event| if is_bad(event) { 500 } else { 200 });
    let script = format!(
        "{}; echo $$ > pid.$SUBSCOPE_PARENT_RUN_ID; [ $SUBSCOPE_PARENT_RUN_ID = good ] || sleep 1000",
        print(&stream("Bash", &json!({}), "Done."))
    );
    let mcp = Mcp::agent(&env, Some(&listener.address), &[], &script).await;
    let call = |run: &str| json!({"prompt": "p", "runId": run});
    let (error, answer) = tokio::join!(mcp.error("worker", call("bad")), mcp.text("worker", call("good")));
    assert!(error.starts_with("the agent's run was aborted: tool_call Bash (toolu_1) of run bad"), "{error}");
    assert!(error.contains("500"), "{error}");
    assert_eq!(answer, "Done.");
    // Earlier events stay, no later one arrived, and the end was posted once more.
    assert_eq!(listener.of("bad"), ["subagent_start", "thought_trace", "subagent_end"]);
    assert_eq!(listener.of("good").last().unwrap(), "subagent_end");
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ending_that_cannot_be_told_costs_no_answer() {
    let env = env();
    let listener = Listener::answering(|event| if event["type"] == "subagent_end" { 500 } else { 200 });
    let mcp = Mcp::agent(&env, Some(&listener.address), &[], "echo fine").await;
    assert_eq!(mcp.text("worker", json!({"prompt": "p", "runId": "r"})).await, "fine");
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spooled_events_reach_the_next_hub() {
    let env = env();
    let options = ["--on-publish-failure", "spool"];
    let script = print(&stream("Bash", &json!({}), "Done."));
    let mcp = Mcp::agent(&env, Some("http://127.0.0.1:1"), &options, &script).await;
    assert_eq!(mcp.text("worker", json!({"prompt": "p", "runId": "r"})).await, "Done.");
    mcp.close().await;
    let serving = Serving::start(&env, "");
    let agent = loop {
        let tree = serving.tree("events:r");
        let found =
            tree.and_then(|tree| tree["agents"].as_array()?.iter().find(|row| row["id"] == "r").cloned());
        match found.filter(|row| row["status"] == "completed") {
            Some(row) => break row,
            None => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
        }
    };
    assert_eq!((&agent["tool_calls"], &agent["name"]), (&json!(1), &json!("worker")));
    serving.end("-TERM");
}
