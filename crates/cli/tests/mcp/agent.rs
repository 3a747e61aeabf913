//! One call after the other: arguments, prompts, answers, progress.

use serde_json::{Value, json};
use subscope_testkit::fixtures::recording;

use crate::{
    client::{Mcp, quoted, structure},
    common::env,
    listener::Listener,
};

/// A stream of one call of a tool and a result.
pub(crate) fn stream(tool: &str, input: &Value, result: &str) -> String {
    let lines = [
        json!({"type": "system", "subtype": "init", "session_id": "s"}),
        json!({"type": "assistant", "session_id": "s", "message": {"id": "m1", "role": "assistant", "content": [
            {"type": "thinking", "thinking": "I look."},
            {"type": "tool_use", "id": "toolu_1", "name": tool, "input": input},
        ]}}),
        json!({"type": "user", "session_id": "s", "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "seen"},
        ]}}),
        json!({"type": "result", "subtype": "success", "is_error": false, "session_id": "s", "result": result}),
    ];
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A shell's word for printing a text.
pub(crate) fn print(text: &str) -> String {
    format!("printf %s {}", quoted(text))
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_has_the_agents_name_and_says_what_it_needs() {
    let env = env();
    let mcp = Mcp::agent(&env, None, &["--description", "Finds bugs."], "true").await;
    let tools = mcp.tools().await;
    assert_eq!(tools.len(), 1);
    assert_eq!((&*tools[0].name, tools[0].description.as_deref()), ("worker", Some("Finds bugs.")));
    let schema = Value::Object((*tools[0].input_schema).clone());
    assert_eq!(schema["required"], json!(["prompt", "runId"]));
    assert_eq!(schema["properties"]["prompt"]["type"], "string");
    assert_eq!(schema["properties"]["inputs"]["items"]["type"], "string");
    assert_eq!(schema["properties"]["runId"]["type"], "string");
    let unknown = mcp.service.call_tool(rmcp::model::CallToolRequestParams::new("other")).await.unwrap_err();
    assert!(unknown.to_string().contains("there is no tool"), "{unknown}");
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_without_a_run_id_is_refused_and_nothing_is_run() {
    let env = env();
    let listener = Listener::start();
    let mcp = Mcp::agent(&env, Some(&listener.address), &[], "touch ran").await;
    for (arguments, expected) in [
        (json!({"prompt": "p"}), "runId is missing"),
        (json!({"prompt": "p", "runId": ""}), "runId is blank"),
        (json!({"prompt": "p", "runId": " \n"}), "runId is blank"),
        (json!({"runId": "r"}), "prompt is missing"),
    ] {
        let error = mcp.error("worker", arguments).await;
        assert!(error.starts_with(expected), "{error}");
    }
    assert!(!env.work().join("ran").exists());
    assert_eq!(listener.events(), Vec::<Value>::new());
    assert_eq!(mcp.text("worker", json!({"prompt": "p", "runId": "r"})).await, "");
    assert!(env.work().join("ran").exists());
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prompt_and_inputs_arrive_on_stdin_or_where_they_have_a_place() {
    let env = env();
    let call = json!({"prompt": "say \"hi\" $HOME\n{inputs}", "inputs": ["a b", "c"], "runId": "r"});
    let mcp = Mcp::agent(&env, None, &[], "cat").await;
    assert_eq!(mcp.text("worker", call.clone()).await, "say \"hi\" $HOME\n{inputs}\na b\nc");
    mcp.close().await;
    let words = [
        "agent",
        "--name",
        "worker",
        "--",
        "sh",
        "-c",
        r#"cat; printf '%s|' "$@""#,
        "sh",
        "-p{prompt}",
        "{inputs}",
    ];
    let mcp = Mcp::start(&env, &[], &words).await;
    assert_eq!(mcp.text("worker", call).await, "-psay \"hi\" $HOME\n{inputs}|a b|c|");
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recording_is_published_in_order_and_answered_with_its_result() {
    let env = env();
    let listener = Listener::start();
    let stream = &recording("2.1.330", "c-nested").streams()[0];
    let variables = [
        ("CPE_SUBAGENT_LOGGING_ADDRESS", &*listener.address),
        ("SUBSCOPE_PARENT_RUN_ID", "above"),
        ("SUBSCOPE_DEPTH", "3"),
    ];
    let mcp =
        Mcp::start(&env, &variables, &["agent", "--name", "worker", "--", "cat", stream.to_str().unwrap()])
            .await;
    let answer = mcp.text("worker", json!({"prompt": "Look.", "runId": "run-1"})).await;
    assert_eq!(answer, "The review is in: pricing has a rounding bug, inventory is sound.");
    assert_eq!(
        listener.of("run-1"),
        ["subagent_start", "tool_call Agent", "tool_result Agent", "subagent_end"]
    );
    let events = listener.events();
    let own: Vec<&Value> = events.iter().filter(|event| event["subagentRunId"] == "run-1").collect();
    assert_eq!((&own[0]["payload"], &own[0]["subagentName"]), (&json!("Look."), &json!("worker")));
    for event in &own {
        assert_eq!((&event["parentRunId"], &event["depth"]), (&json!("above"), &json!(4)), "{event}");
    }
    assert_eq!(own[1]["toolCallId"], own[2]["toolCallId"]);
    let input: Value = serde_json::from_str(own[1]["payload"].as_str().unwrap()).unwrap();
    assert_eq!(input["subagent_type"], "lead");
    assert!(own[3].get("payload").is_none(), "{}", own[3]);
    assert!(own[3]["tokenUsage"]["totalTokens"].as_u64().unwrap() > 0);
    // The harness's own subagents are runs below it.
    let names: Vec<(&str, &str, u64)> = events
        .iter()
        .filter(|event| event["type"] == "subagent_start")
        .map(|event| {
            let parent = events.iter().find(|other| other["subagentRunId"] == event["parentRunId"]);
            let parent = parent.map_or("", |parent| parent["subagentName"].as_str().unwrap());
            (event["subagentName"].as_str().unwrap(), parent, event["depth"].as_u64().unwrap())
        })
        .collect();
    let lead = "lead: Lead the release review";
    let pricing = "general-purpose: Review pricing module";
    let mut expected = [
        ("worker", "", 4),
        (lead, "worker", 5),
        (pricing, lead, 6),
        ("general-purpose: Review inventory module", lead, 6),
        ("Explore: Check pricing documents", pricing, 7),
    ];
    let mut sorted = names.clone();
    sorted.sort_unstable();
    expected.sort_unstable();
    assert_eq!(sorted, expected);
    assert_eq!(events.iter().filter(|event| event["type"] == "subagent_end").count(), 5);
    let stamps: Vec<&str> = events.iter().map(|event| event["timestamp"].as_str().unwrap()).collect();
    assert!(stamps.is_sorted(), "{stamps:?}");
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thoughts_calls_and_results_are_published() {
    let env = env();
    let listener = Listener::start();
    let script = print(&stream("Bash", &json!({"command": "ls"}), "Two files."));
    let mcp = Mcp::agent(&env, Some(&listener.address), &[], &script).await;
    assert_eq!(mcp.text("worker", json!({"prompt": "p", "runId": "r"})).await, "Two files.");
    let expected = ["subagent_start", "thought_trace", "tool_call Bash", "tool_result Bash", "subagent_end"];
    assert_eq!(listener.of("r"), expected);
    let events = listener.events();
    assert_eq!(events[1]["payload"], "I look.");
    assert_eq!(events[2]["payload"], r#"{"command":"ls"}"#);
    assert_eq!(events[3]["payload"], "seen");
    assert!(events.iter().all(|event| event["depth"] == 1 && event.get("parentRunId").is_none()));
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn final_answer_is_given_back_as_json_and_may_be_required() {
    let env = env();
    let plain = print(&stream("Bash", &json!({}), "Words."));
    for tool in ["final_answer", "mcp__shop__final_answer"] {
        let script = print(&stream(tool, &json!({"verdict": "bug", "lines": [1, 2]}), "Words."));
        for whether in ["required", "optional"] {
            let mcp = Mcp::agent(&env, None, &["--final-answer", whether], &script).await;
            let result = mcp.call("worker", json!({"prompt": "p", "runId": "r"})).await;
            assert_eq!(structure(&result), json!({"verdict": "bug", "lines": [1, 2]}));
            mcp.close().await;
        }
    }
    let listener = Listener::start();
    let mcp = Mcp::agent(&env, Some(&listener.address), &["--final-answer", "required"], &plain).await;
    let error = mcp.error("worker", json!({"prompt": "p", "runId": "r"})).await;
    assert!(error.contains("without calling final_answer") && error.contains("Words."), "{error}");
    let end = listener.events().pop().unwrap();
    assert_eq!(end["type"], "subagent_end");
    assert!(end["payload"].as_str().unwrap().contains("final_answer"), "{end}");
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_run_side_by_side_and_a_run_id_is_used_once() {
    let env = env();
    let listener = Listener::start();
    // Each waits until all three are there.
    let script = r#"touch "at.$SUBSCOPE_PARENT_RUN_ID"; while [ "$(ls at.* | wc -l)" -lt 3 ]; do sleep 0.02; done; cat"#;
    let mcp = Mcp::agent(&env, Some(&listener.address), &[], script).await;
    let call = |run: &str| json!({"prompt": format!("I am {run}"), "runId": run});
    let (one, two) = (mcp.begin("worker", call("one")).await, mcp.begin("worker", call("two")).await);
    while !env.work().join("at.one").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let error = mcp.error("worker", call("one")).await;
    assert!(error.contains("still running"), "{error}");
    assert_eq!(mcp.text("worker", call("three")).await, "I am three");
    for (handle, run) in [(one, "one"), (two, "two")] {
        let answer = format!("{:?}", handle.await_response().await.unwrap());
        assert!(answer.contains(&format!("I am {run}")), "{answer}");
        assert_eq!(listener.of(run), ["subagent_start", "subagent_end"]);
    }
    // Its events would be taken for those of the first.
    let error = mcp.error("worker", call("one")).await;
    assert!(error.contains("has ended"), "{error}");
    assert_eq!(listener.of("one"), ["subagent_start", "subagent_end"]);
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_told_while_it_runs_and_is_harmless() {
    let env = env();
    let lines = stream("Bash", &json!({"command": "ls \u{1b}[2J"}), "Done.");
    let (first, rest) = lines.split_at(lines.find("{\"type\":\"user\"").unwrap());
    let script = format!("{}; while [ ! -e go ]; do sleep 0.02; done; {}", print(first), print(rest));
    let mcp = Mcp::agent(&env, None, &[], &script).await;
    let running = mcp.begin("worker", json!({"prompt": "p", "runId": "r"})).await;
    while !mcp.progress().iter().any(|(_, message)| message.starts_with("Bash")) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    env.write("work/go", "");
    let answer = format!("{:?}", running.await_response().await.unwrap());
    assert!(answer.contains("Done."), "{answer}");
    let told = mcp.progress();
    assert!(told.iter().any(|(_, message)| message.contains('␛')), "{told:?}");
    assert!(told.is_sorted_by(|one, other| one.0 < other.0), "{told:?}");
    assert!(told.iter().all(|(_, message)| !message.contains('\u{1b}')), "{told:?}");
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dialect_can_be_named_and_other_output_is_the_answer() {
    let env = env();
    let script = "echo '{\"a\": 1}'; echo; echo ' two lines '; echo noise >&2";
    let mcp = Mcp::agent(&env, None, &[], script).await;
    assert_eq!(mcp.text("worker", json!({"prompt": "p", "runId": "r"})).await, "{\"a\": 1}\n\n two lines");
    mcp.close().await;
    // Events of its own, on its stdout: runs below it.
    let listener = Listener::start();
    let event = |kind: &str, more: Value| {
        let mut event = json!({"subagentName": "inner", "subagentRunId": "i1", "timestamp": 1_795_293_906_647_i64, "type": kind});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!("{event}\n")
    };
    let lines = event("subagent_start", json!({"payload": "dig"}))
        + &event("tool_call", json!({"toolName": "dig", "toolCallId": "c1", "payload": "{}"}))
        + &event(
            "tool_result",
            json!({"toolName": "dig", "toolCallId": "c1", "payload": "no", "isError": true}),
        )
        + &event("subagent_end", json!({"payload": "broke"}))
        + "That is all.\n";
    let options = ["--dialect", "subagent-events"];
    let mcp = Mcp::agent(&env, Some(&listener.address), &options, &print(&lines)).await;
    assert_eq!(mcp.text("worker", json!({"prompt": "p", "runId": "r"})).await, "That is all.");
    assert_eq!(listener.of("i1"), ["subagent_start", "tool_call dig", "tool_result dig", "subagent_end"]);
    let inner: Vec<Value> =
        listener.events().into_iter().filter(|event| event["subagentRunId"] == "i1").collect();
    assert!(inner.iter().all(|event| event["parentRunId"] == "r" && event["depth"] == 2), "{inner:?}");
    assert_eq!(inner[2]["isError"], true);
    assert!(inner[3]["payload"].as_str().unwrap().contains("broke"), "{}", inner[3]);
    mcp.close().await;
}

#[test]
fn wrong_usage_is_told_before_anything_is_served() {
    let env = env();
    for (words, expected) in [
        (&["mcp", "agent", "--", "true"][..], "--name"),
        (&["mcp", "agent", "--name", "a b", "--", "true"], "the name of a tool has"),
        (&["mcp", "agent", "--name", "a"], "<CMD>"),
        (&["mcp", "agent", "--name", "a", "--timeout", "5", "--", "true"], "is not a duration"),
    ] {
        let ran = env.run(words);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{words:?}");
        assert!(ran.stderr.contains(expected), "{words:?}: {}", ran.stderr);
    }
    let mut command = env.command();
    command
        .args(["mcp", "agent", "--name", "a", "--", "true"])
        .env("CPE_SUBAGENT_LOGGING_ADDRESS", "http://example.com");
    let ran = subscope_testkit::env::run(command, b"");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("not this machine"), "{}", ran.stderr);
}
