//! Tests of the feed's shapes.

use serde_json::json;

use super::*;
use crate::sample::{START, event, tool_pre};

fn lines(events: &[Event], shape: Shape) -> Vec<Value> {
    let mut out = Vec::new();
    write_feed(events.iter().cloned(), shape, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn start(at: Option<Millis>, id: &str, parent: &str) -> Event {
    let data = json!({"agent_id": id, "agent_type": "Explore", "description": "Look", "prompt": "Look closely.",
                      "parent_id": parent, "spawned_by": format!("toolu_{id}"), "background": false});
    event(&format!("agent/{id}/start/{at:?}"), at, id, EventKind::SubagentStart, data)
}

fn stop(at: Option<Millis>, id: &str, data: Value) -> Event {
    let mut data = data;
    data["agent_id"] = id.into();
    event(&format!("agent/{id}/end/{at:?}"), at, id, EventKind::SubagentStop, data)
}

fn post(at: Option<Millis>, id: &str, call: &str) -> Event {
    let data = json!({"tool_use_id": call, "tool_name": "Read", "result": "1\tconst x", "duration_ms": 15});
    event(&format!("tool/{call}/end"), at, id, EventKind::ToolPost, data)
}

fn types(lines: &[Value]) -> Vec<&str> {
    lines.iter().filter_map(|line| line["type"].as_str()).collect()
}

#[test]
fn event_shape_is_the_event_on_one_line() {
    let events = [tool_pre(Some(1), "root", "t1", "Read"), tool_pre(None, "a1", "t2", "Bash\n")];
    let mut out = Vec::new();
    write_feed(events.clone(), Shape::Event, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let back: Vec<Event> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(back, events);
    assert_eq!(lines(&[], Shape::Event), Vec::<Value>::new());
}

#[test]
fn start_has_type_parent_call_prompt_and_number_timestamp() {
    assert_eq!(
        lines(&[start(Some(0), "a1", "root")], Shape::Uap),
        [json!({"type": "subagent_start", "subagentId": "a1", "subagentType": "Explore",
                "parentToolCallId": "toolu_a1", "prompt": "Look closely.", "timestamp": START})]
    );
}

#[test]
fn nested_start_names_its_parent() {
    let lines = lines(&[start(Some(0), "a1", "root"), start(Some(1), "a2", "a1")], Shape::Uap);
    assert_eq!(lines[1]["parentSubagentId"], "a1");
}

#[test]
fn successful_end_has_result_tools_and_usage_total() {
    let tokens = |output| {
        json!({"message_id": "m1", "input_tokens": 1, "output_tokens": output, "cache_read_tokens": 300,
                                 "cache_write_tokens": 4000, "total_tokens": 0})
    };
    let events = [
        start(Some(0), "a1", "root"),
        tool_pre(Some(100), "a1", "t1", "Read"),
        post(Some(200), "a1", "t1"),
        event("usage/m1", Some(300), "a1", EventKind::Usage, tokens(1)),
        event("usage/m1", Some(300), "a1", EventKind::Usage, tokens(20)),
        stop(
            Some(900),
            "a1",
            json!({"status": "completed", "result": "All good: no errors found", "error": null}),
        ),
    ];
    let lines = lines(&events, Shape::Uap);
    assert_eq!(
        types(&lines),
        [
            "subagent_start",
            "subagent_event",
            "subagent_event",
            "subagent_event",
            "subagent_event",
            "subagent_end"
        ]
    );
    assert_eq!(
        lines[5],
        json!({"type": "subagent_end", "timestamp": START + 900, "subagentId": "a1", "subagentType": "Explore",
               "parentToolCallId": "toolu_a1", "prompt": "Look closely.", "startTime": START, "endTime": START + 900,
               "success": true, "result": "All good: no errors found",
               "toolExecutions": [{"toolName": "Read", "toolCallId": "t1", "arguments": {"file_path": "/shop/src/x.js"},
                                   "result": "1\tconst x", "isError": false, "duration": 15}],
               "usage": {"inputTokens": 4301, "outputTokens": 20, "totalTokens": 4321}})
    );
}

#[test]
fn inner_event_is_the_event_itself() {
    let inner = tool_pre(Some(100), "a1", "t1", "Read");
    let lines = lines(std::slice::from_ref(&inner), Shape::Uap);
    assert_eq!(
        lines,
        [json!({"type": "subagent_event", "subagentId": "a1", "timestamp": START + 100,
                "event": serde_json::to_value(&inner).unwrap()})]
    );
}

#[test]
fn failed_end_has_error_and_tools_so_far() {
    let failure = json!({"tool_use_id": "t2", "tool_name": "Bash", "error": "exit 1"});
    let events = [
        start(Some(0), "a1", "root"),
        tool_pre(Some(1), "a1", "t1", "Read"),
        tool_pre(Some(2), "a1", "t2", "Bash"),
        event("tool/t2/end", Some(7), "a1", EventKind::ToolFailure, failure),
        stop(Some(9), "a1", json!({"status": "failed", "error": "overloaded"})),
    ];
    let end = lines(&events, Shape::Uap).pop().unwrap();
    assert_eq!((&end["success"], &end["error"]), (&json!(false), &json!("overloaded")));
    assert_eq!(end["toolExecutions"][0].get("isError"), None);
    assert_eq!(end["toolExecutions"][1]["isError"], true);
    assert_eq!(
        (&end["toolExecutions"][1]["result"], &end["toolExecutions"][1]["duration"]),
        (&json!("exit 1"), &json!(5))
    );
}

#[test]
fn stopped_and_lost_are_no_success() {
    for status in ["stopped", "lost"] {
        let end = lines(&[stop(Some(9), "a1", json!({"status": status}))], Shape::Uap).pop().unwrap();
        assert_eq!((&end["success"], &end["error"]), (&json!(false), &json!(status)));
    }
}

#[test]
fn end_without_times_or_start_is_still_an_end() {
    let end = lines(&[stop(None, "a1", json!({"agent_type": "Explore", "result": "ok"}))], Shape::Uap)
        .pop()
        .unwrap();
    assert_eq!((&end["type"], &end["subagentType"]), (&json!("subagent_end"), &json!("Explore")));
    assert_eq!((&end["timestamp"], &end["success"]), (&Value::Null, &json!(true)));
}

#[test]
fn repeated_start_and_end_are_no_second_ones_and_a_resume_is() {
    let done = json!({"status": "completed", "result": "ok"});
    let events = [
        start(Some(0), "a1", "root"),
        start(Some(1), "a1", "root"),
        tool_pre(Some(2), "a1", "t1", "Read"),
        stop(Some(3), "a1", done.clone()),
        stop(Some(4), "a1", done.clone()),
        event("agent/a1/start/again", Some(5), "a1", EventKind::SubagentStart, json!({"agent_id": "a1"})),
        stop(Some(6), "a1", done),
    ];
    let lines = lines(&events, Shape::Uap);
    assert_eq!(
        types(&lines),
        [
            "subagent_start",
            "subagent_event",
            "subagent_event",
            "subagent_end",
            "subagent_event",
            "subagent_start",
            "subagent_end"
        ]
    );
    // The trace after a resume has its own times and calls, and the same identity.
    assert_eq!((&lines[6]["startTime"], lines[6].get("toolExecutions")), (&json!(START + 5), None));
    assert_eq!(
        (&lines[5]["subagentType"], &lines[6]["parentToolCallId"]),
        (&json!("Explore"), &json!("toolu_a1"))
    );
}

#[test]
fn root_events_are_not_in_the_shape() {
    let prompt = event("p", Some(0), "root", EventKind::UserPrompt, json!({"text": "Go"}));
    assert_eq!(lines(&[prompt, tool_pre(Some(1), "root", "t1", "Read")], Shape::Uap), Vec::<Value>::new());
}

#[test]
fn progress_and_stall_belong_to_the_agent_that_they_name() {
    let data = json!({"agent_id": "a1", "message": "Reading"});
    let events = [
        event("p", Some(0), "root", EventKind::SubagentProgress, data.clone()),
        event("s", Some(1), "root", EventKind::Stall, data),
    ];
    let lines = lines(&events, Shape::Uap);
    assert_eq!(types(&lines), ["subagent_event", "subagent_event"]);
    assert!(lines.iter().all(|line| line["subagentId"] == "a1"));
}

#[test]
fn renamed_agent_keeps_what_is_known_of_it() {
    let renamed = json!({"from": "toolu_a1", "to": "a1"});
    let events = [
        start(Some(0), "toolu_a1", "root"),
        event("r", Some(1), "root", EventKind::AgentRenamed, renamed),
        stop(Some(2), "a1", json!({"status": "completed"})),
    ];
    let lines = lines(&events, Shape::Uap);
    assert_eq!(types(&lines), ["subagent_start", "subagent_end"]);
    assert_eq!((&lines[1]["prompt"], &lines[1]["startTime"]), (&json!("Look closely."), &json!(START)));
}

#[test]
fn calls_without_ids_are_paired_by_name_from_the_last() {
    let pre = |name: &str| event(name, Some(1), "a1", EventKind::ToolPre, json!({"tool_name": name}));
    let post = event("x", Some(2), "a1", EventKind::ToolPost, json!({"tool_name": "Read", "result": "ok"}));
    let events = [pre("Read"), pre("Bash"), post, stop(Some(3), "a1", json!({"status": "completed"}))];
    let end = lines(&events, Shape::Uap).pop().unwrap();
    assert_eq!(
        (&end["toolExecutions"][0]["result"], &end["toolExecutions"][1]["result"]),
        (&json!("ok"), &Value::Null)
    );
}

#[test]
fn odd_data_does_no_harm() {
    for data in
        [Value::Null, json!([1]), json!("x"), json!({"tool_use_id": 7, "usage": [], "duration_ms": "long"})]
    {
        for kind in [
            EventKind::ToolPre,
            EventKind::ToolPost,
            EventKind::Usage,
            EventKind::SubagentStop,
            EventKind::SubagentStart,
        ] {
            let odd = event("x", None, "a1", kind, data.clone());
            assert_eq!(lines(&[odd], Shape::Uap).len(), 1, "{kind:?} {data}");
        }
    }
}

#[test]
fn writer_that_fails_gives_its_error() {
    let mut full: &mut [u8] = &mut [0; 10];
    let error = write_feed([tool_pre(None, "a1", "t1", "Read")], Shape::Event, &mut full).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WriteZero);
}
