//! Tests of the reading of plain lines.

use super::*;

#[test]
fn line_of_each_dialect_names_session_agent_and_call_its_own_way() {
    let hook = hook("PreToolUse").session("s").tool("Read", "toolu_1").agent("a1").value();
    assert_eq!(
        (&hook["session_id"], &hook["agent_id"], &hook["agent_type"]),
        (&"s".into(), &"a1".into(), &"general-purpose".into())
    );
    assert_eq!((&hook["tool_name"], &hook["tool_use_id"]), (&"Read".into(), &"toolu_1".into()));
    let entry = transcript::tool_use("Read", "toolu_1")
        .session("s")
        .agent("a1")
        .input(json!({"file_path": "/x"}))
        .value();
    assert_eq!(
        (&entry["sessionId"], &entry["agentId"], &entry["isSidechain"]),
        (&"s".into(), &"a1".into(), &true.into())
    );
    assert_eq!(entry["message"]["content"][0]["input"]["file_path"], "/x");
    let line = stream::tool_result("toolu_1", "no").under("toolu_0").agent("a1").failed().value();
    assert_eq!((&line["parent_tool_use_id"], &line["agent_id"]), (&"toolu_0".into(), &"a1".into()));
    assert_eq!(line["message"]["content"][0]["is_error"], true);
    let event = events::event("tool_call", "scout", "run-2")
        .parent_run("run-1")
        .tool("grep", "c1")
        .input(json!({"q": 1}));
    let event = event.usage(Usage::new(1, 2, 3, 4)).uuid("e1").value();
    assert_eq!(
        (&event["parentRunId"], &event["toolCallId"], &event["eventId"]),
        (&"run-1".into(), &"c1".into(), &"e1".into())
    );
    assert_eq!((&event["payload"]["q"], &event["tokenUsage"]["cacheWriteTokens"]), (&1.into(), &4.into()));
}

#[test]
fn ids_follow_from_the_content() {
    let ids = |line: Line| {
        let value = line.value();
        (value["uuid"].as_str().unwrap().to_owned(), value["message"]["id"].as_str().unwrap().to_owned())
    };
    assert_eq!(ids(transcript::assistant("one")), ids(transcript::assistant("one")));
    let (one, two) = (ids(transcript::assistant("one")), ids(transcript::assistant("one").after_ms(1)));
    assert!(one.0 != two.0 && one.1 != two.1);
    assert_eq!(one.0.len(), 36);
    assert_eq!(ids(stream::assistant("x").uuid("u").message_id("m")), ("u".to_owned(), "m".to_owned()));
}

#[test]
fn message_fields_are_set_inside_the_message() {
    let value = transcript::assistant("Done.")
        .stop("end_turn")
        .model("m")
        .usage(Usage::new(1, 2, 3, 4))
        .after_ms(2500)
        .value();
    assert_eq!(
        (&value["message"]["stop_reason"], &value["message"]["model"]),
        (&"end_turn".into(), &"m".into())
    );
    assert_eq!(value["message"]["usage"]["cache_read_input_tokens"], 3);
    assert_eq!(value["timestamp"], "2026-11-01T08:00:02.500Z");
}

#[test]
fn jsonl_ends_each_line_and_without_takes_a_field_away() {
    let text =
        jsonl([stream::init(), hook("Stop").without("prompt_id"), transcript::meta("Explore", "toolu_1")]);
    let values: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(text.ends_with('\n'));
    assert_eq!(values.len(), 3);
    assert!(values[1].get("prompt_id").is_none() && values[1]["last_assistant_message"] == "Done.");
}
