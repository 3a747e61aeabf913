//! The fake server, queried by a client that only writes and reads bytes.

#![allow(clippy::unwrap_used)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    sync::mpsc::sync_channel,
    thread,
};

use serde_json::{Value, json};
use subscope_rig::{Outcome, Scenario, StandIn};

/// One actor that is asked "Hello", with these steps (TOML).
fn stand_in(steps: &str) -> StandIn {
    scripted(&format!("[[actor]]\nid = 'main'\nmatch = 'Hello'\n{steps}"))
}

fn scripted(actors: &str) -> StandIn {
    let file = tempfile::NamedTempFile::new().unwrap();
    let script = format!("name = 'test'\nabout = ''\nprompt = 'Hello'\nends_with = ''\n{actors}");
    std::fs::write(file.path(), script).unwrap();
    StandIn::start(Scenario::load(file.path(), Path::new("/repo")).unwrap()).unwrap()
}

/// A request of the main thread that streams: what a person said, and the model's messages so far.
fn conversation(prompt: &str, answers: usize) -> Value {
    let mut messages = vec![json!({"role": "user", "content": prompt})];
    for _ in 0..answers {
        messages.push(json!({"role": "assistant", "content": [{"type": "text", "text": "…"}]}));
        messages
            .push(json!({"role": "user", "content": [{"type": "tool_result", "content": "agentId: a7"}]}));
    }
    json!({"model": "claude-x", "stream": true, "messages": messages})
}

fn send(stand_in: &StandIn, request: &str, headers: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(stand_in.url().strip_prefix("http://").unwrap()).unwrap();
    let length = body.len();
    let head = format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n");
    stream.write_all(format!("{head}{headers}\r\n{body}").as_bytes()).unwrap();
    stream
}

/// The head of the answer, and its body as sent; after a cut connection, the part received before it.
fn read(mut stream: TcpStream) -> (String, String) {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn ask(stand_in: &StandIn, headers: &str, body: &Value) -> (String, String) {
    read(send(stand_in, "POST /v1/messages?beta=true", headers, &body.to_string()))
}

/// The events of a stream.
fn events(body: &str) -> Vec<Value> {
    body.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

/// The pieces of a field, in one.
fn joined(events: &[Value], field: &str) -> String {
    events.iter().filter_map(|event| event["delta"][field].as_str()).collect()
}

const TWO_CALLS: &str = "[[actor.step]]\nthinking = 'Two of them.'\ntext = 'I read both files, one after the other, and then say which.'
tools = [{ name = 'Read', input = { file_path = '{{REPO}}/a' } }, { name = 'Bash', input = { command = 'ls' } }]
usage = { input_tokens = 7, cache_read_input_tokens = 40 }\n";

#[test]
fn streams_a_message_from_start_to_stop() {
    let stand_in = stand_in(TWO_CALLS);
    let (head, body) = ask(&stand_in, "", &conversation("Hello", 0));
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("content-type: text/event-stream"), "{head}");
    let events = events(&body);
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], kinds[1], kinds[kinds.len() - 1]), ("message_start", "ping", "message_stop"));
    assert_eq!(kinds.iter().filter(|kind| **kind == "content_block_stop").count(), 4);
    assert_eq!(joined(&events, "thinking"), "Two of them.");
    assert_eq!(joined(&events, "text"), "I read both files, one after the other, and then say which.");
    assert_eq!(joined(&events, "partial_json"), r#"{"file_path":"/repo/a"}{"command":"ls"}"#);
    let begin = &events[0]["message"];
    assert_eq!((&begin["usage"]["output_tokens"], &begin["usage"]["input_tokens"]), (&json!(1), &json!(7)));
    let end = &events[events.len() - 2];
    assert_eq!((&end["type"], &end["delta"]["stop_reason"]), (&json!("message_delta"), &json!("tool_use")));

    let log = stand_in.log();
    assert_eq!(
        (log.len(), log[0].outcome, log[0].message.as_str()),
        (1, Outcome::Answered, begin["id"].as_str().unwrap())
    );
    let calls: Vec<_> =
        log[0].calls.iter().map(|call| (call.name.as_str(), call.told_at.is_some())).collect();
    assert_eq!(calls, [("Read", true), ("Bash", true)]);
    assert_eq!((log[0].spent.input, log[0].spent.cache_read), (7, 40));
    assert_eq!(end["usage"]["output_tokens"], log[0].spent.output);
}

#[test]
fn answers_in_one_piece_whoever_asks_for_no_stream() {
    let stand_in = stand_in(TWO_CALLS);
    let mut request = conversation("Hello", 0);
    request["stream"] = false.into();
    let (_, body) = ask(&stand_in, "", &request);
    let message: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&message["stop_reason"], &message["content"][3]["input"]["command"]),
        (&json!("tool_use"), &json!("ls"))
    );
    assert_eq!(message["usage"]["output_tokens"], stand_in.log()[0].spent.output);
}

#[test]
fn takes_each_agent_by_its_prompt_and_step_and_names_it_by_its_headers() {
    let stand_in = scripted(
        "[[actor]]\nid = 'main'\nmatch = 'Hello'\n[[actor.step]]\ntext = 'first'\n[[actor.step]]\ntext = 'stop {{re:agentId: (\\w+)}}'
[[actor]]\nid = 'child'\nmatch = 'Hello, child'\n[[actor.step]]\ntext = 'yes'",
    );
    let said = |headers: &str, body: &Value| joined(&events(&ask(&stand_in, headers, body).1), "text");
    assert_eq!(said("x-claude-code-session-id: s1\r\n", &conversation("Hello", 0)), "first");
    assert_eq!(said("", &conversation("Hello", 1)), "stop a7");
    let headers = "x-claude-code-agent-id: a7\r\nx-claude-code-parent-agent-id: a3\r\n";
    assert_eq!(said(headers, &conversation("Hello, child!", 0)), "yes");
    assert_eq!(said("", &conversation("Hello", 2)), "Done.", "beyond the last step");
    assert_eq!(said("", &conversation("Who are you?", 0)), "OK", "nobody is meant");
    let log = stand_in.log();
    let asked: Vec<_> = log
        .iter()
        .map(|it| (it.actor.as_deref(), it.step, it.agent.as_deref(), it.parent.as_deref()))
        .collect();
    assert_eq!(
        asked,
        [
            (Some("main"), 0, None, None),
            (Some("main"), 1, None, None),
            (Some("child"), 0, Some("a7"), Some("a3")),
            (Some("main"), 2, None, None),
            (None, 0, None, None),
        ]
    );
    assert_eq!(log[0].session.as_deref(), Some("s1"));
}

#[test]
fn fails_as_often_as_the_script_says_and_then_answers() {
    let stand_in = stand_in(
        "[[actor.step]]\ntext = 'at last'\nerror = { status = 529, type = 'overloaded_error', message = 'Overloaded', times = 2, retry_after = 1 }",
    );
    for _ in 0..2 {
        let (head, body) = ask(&stand_in, "", &conversation("Hello", 0));
        assert!(head.starts_with("HTTP/1.1 529") && head.contains("retry-after: 1"), "{head}");
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["error"]["type"], "overloaded_error");
    }
    assert_eq!(joined(&events(&ask(&stand_in, "", &conversation("Hello", 0)).1), "text"), "at last");
    let outcomes: Vec<_> = stand_in.log().iter().map(|it| it.outcome).collect();
    assert_eq!(outcomes, [Outcome::Refused(529), Outcome::Refused(529), Outcome::Answered]);
}

#[test]
fn cuts_the_connection_in_the_middle_of_an_answer() {
    let stand_in = stand_in("[[actor.step]]\ntext = 'a few words'\ncut = 1");
    let (_, body) = ask(&stand_in, "", &conversation("Hello", 0));
    let cut = events(&body);
    assert_eq!(joined(&cut, "text"), "a few words");
    assert!(
        !body.ends_with("0\r\n\r\n") && cut.iter().all(|event| event["type"] != "message_stop"),
        "{body}"
    );
    assert!(ask(&stand_in, "", &conversation("Hello", 0)).1.contains("message_stop"));
    let outcomes: Vec<_> = stand_in.log().iter().map(|it| it.outcome).collect();
    assert_eq!(outcomes, [Outcome::Cut, Outcome::Answered]);
}

#[test]
fn waits_for_another_and_sees_who_leaves() {
    let stand_in = scripted(
        "[[actor]]\nid = 'main'\nmatch = 'Hello'\n[[actor.step]]\ntext = 'go'\nafter = 'child/0'
[[actor]]\nid = 'child'\nmatch = 'Think'\n[[actor.step]]\ndelay_ms = 3600000",
    );
    let (tell, told) = sync_channel(1);
    thread::scope(|scope| {
        scope.spawn(|| {
            let answer = ask(&stand_in, "", &conversation("Hello", 0)).1;
            tell.send(joined(&events(&answer), "text")).unwrap();
        });
        while stand_in.log().is_empty() {
            thread::yield_now();
        }
        assert!(told.try_recv().is_err(), "it is answered before the child has asked");
        let child = send(&stand_in, "POST /v1/messages", "", &conversation("Think", 0).to_string());
        assert_eq!(told.recv().unwrap(), "go");
        assert_eq!(stand_in.log()[1].outcome, Outcome::Open);
        drop(child);
        while stand_in.log()[1].outcome == Outcome::Open {
            thread::yield_now();
        }
    });
    assert_eq!(stand_in.log()[1].outcome, Outcome::Left);
}

#[test]
fn counts_tokens_and_says_that_it_is_there() {
    let stand_in = stand_in("[[actor.step]]");
    let (_, body) =
        read(send(&stand_in, "POST /v1/messages/count_tokens", "", &conversation("Hello", 0).to_string()));
    assert!(serde_json::from_str::<Value>(&body).unwrap()["input_tokens"].as_u64().unwrap() > 10);
    let mut line = String::new();
    BufReader::new(send(&stand_in, "HEAD /", "", "")).read_line(&mut line).unwrap();
    assert_eq!(line, "HTTP/1.1 200 OK\r\n");
    assert!(stand_in.log().is_empty() && stand_in.others().is_empty());
}

#[test]
fn lets_nobody_through_to_anywhere_and_takes_it_down() {
    let stand_in = stand_in("[[actor.step]]");
    for (request, seen) in [
        ("GET /api/hello", "GET /api/hello"),
        ("CONNECT api.example.com:443", "CONNECT api.example.com:443"),
        ("GET http://example.com/x", "GET http://example.com/x"),
        ("POST http://example.com/v1/messages", "POST http://example.com/v1/messages"),
    ] {
        let (head, _) = read(send(&stand_in, request, "", ""));
        assert!(head.starts_with("HTTP/1.1 404"), "{request}: {head}");
        assert_eq!(stand_in.others().last().map(String::as_str), Some(seen));
    }
    let (head, _) = read(send(&stand_in, "POST /v1/messages", "", "{"));
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    assert!(stand_in.log().is_empty());
}

/// A call of a tool and its result, as one more turn in the request of an API.
fn turn(request: &mut Value, list: &str, items: Value) {
    request[list].as_array_mut().unwrap().extend(items.as_array().unwrap().clone());
}

#[test]
fn speaks_the_responses_api_and_takes_messages_between_agents_as_prompts() {
    let stand_in = scripted(
        "[[actor]]\nid = 'main'\nmatch = 'Hello'\n[[actor.step]]\nthinking = 'Hm.'\ntext = 'One.'\nusage = { input_tokens = 70, cache_read_input_tokens = 30, output_tokens = 9 }
tools = [{ name = 'spawn', namespace = 'team', input = { message = 'Think' } }]\n[[actor.step]]\ntext = 'Done with {{re:agent (\\w+)}}.'
[[actor]]\nid = 'child'\nmatch = 'Think'\n[[actor.step]]\ntext = 'yes'",
    );
    let said =
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]});
    let mut request = json!({"model": "gpt-x", "stream": true, "tools": [{}], "input": [said]});
    let ask = |request: &Value| read(send(&stand_in, "POST /v1/responses", "", &request.to_string())).1;
    let found = events(&ask(&request));
    let kinds: Vec<_> = found.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], kinds.len(), kinds[9]), ("response.created", 10, "response.completed"));
    assert_eq!([&found[4]["delta"], &found[7]["delta"]], ["One.", r#"{"message":"Think"}"#]);
    let call = &found[8]["item"];
    assert_eq!((&call["name"], &call["namespace"]), (&json!("spawn"), &json!("team")));
    assert_eq!(call["arguments"], r#"{"message":"Think"}"#);
    let usage = &found[9]["response"]["usage"];
    assert_eq!(
        (&usage["input_tokens"], &usage["input_tokens_details"]["cached_tokens"]),
        (&json!(100), &json!(30))
    );
    assert_eq!(
        (&usage["output_tokens"], &usage["output_tokens_details"]["reasoning_tokens"]),
        (&json!(9), &json!(3))
    );
    // A request that names the answer has only what came after it.
    let output = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "agent a6"});
    let next = json!({"previous_response_id": found[9]["response"]["id"], "tools": [{}], "input": [output]});
    assert!(ask(&next).contains("Done with a6."));
    // The model's turn is three items, and one answer.
    turn(
        &mut request,
        "input",
        json!([{"type": "reasoning"}, {"type": "message", "role": "assistant", "content": []},
        {"type": "function_call", "call_id": call["call_id"]},
        {"type": "function_call_output", "call_id": call["call_id"], "output": "agent a7"}]),
    );
    assert!(ask(&request).contains("Done with a7."));
    turn(
        &mut request,
        "input",
        json!([{"type": "agent_message", "content": [{"type": "input_text", "text": "Think!"}]}]),
    );
    assert!(ask(&request).contains("yes"));
    let log = stand_in.log();
    let asked: Vec<_> = log.iter().map(|it| (it.actor.as_deref(), it.step)).collect();
    assert_eq!(asked, [(Some("main"), 0), (Some("main"), 1), (Some("main"), 1), (Some("child"), 0)]);
    assert_eq!((log[0].spent.input, log[0].spent.cache_read, log[0].spent.cache_write), (70, 30, 0));
    assert_eq!((log[0].calls[0].name.as_str(), log[0].calls[0].told_at.is_some()), ("spawn", true));
}

#[test]
fn speaks_chat_completions_in_a_stream_and_in_one_piece() {
    let stand_in = stand_in(&TWO_CALLS.replace("{{REPO}}", ""));
    let mut request = json!({"model": "m", "stream": true, "tools": [{}], "messages": [{"role": "user", "content": "Hello"}]});
    let ask =
        |request: &Value| read(send(&stand_in, "POST /v1/chat/completions", "", &request.to_string())).1;
    let body = ask(&request);
    assert!(body.trim_end().trim_end_matches("\r\n0").trim_end().contains("data: [DONE]"), "{body}");
    let data = body.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    let chunks: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
    let calls: Vec<_> =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].get(0)).collect();
    assert_eq!(
        (calls.len(), &calls[1]["index"], &calls[1]["function"]["name"]),
        (2, &json!(1), &json!("Bash"))
    );
    assert_eq!(chunks[chunks.len() - 2]["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(chunks[chunks.len() - 1]["usage"]["prompt_tokens"], 47);
    request["stream"] = false.into();
    let whole: Value = serde_json::from_str(&ask(&request)).unwrap();
    assert_eq!(whole["choices"][0]["message"]["tool_calls"].as_array().unwrap().len(), 2);
    request["tools"] = json!([]);
    assert!(ask(&request).contains("OK"), "a request without tools is for a title");
    assert_eq!(stand_in.log()[2].actor, None);
}

#[test]
fn speaks_the_gemini_api_and_refuses_in_its_words() {
    let stand_in = stand_in(
        "[[actor.step]]\nthinking = 'Hm.'\ntools = [{ name = 'shell', input = { command = 'ls' } }]\nusage = { input_tokens = 7, cache_read_input_tokens = 40, output_tokens = 9 }
[[actor.step]]\nerror = { status = 400, type = 'x', message = 'no' }",
    );
    let mut request = json!({"tools": [{}], "contents": [{"role": "user", "parts": [{"text": "Hello"}]}]});
    let ask = |request: &Value| {
        let path = "POST /v1beta/models/gemini-x:streamGenerateContent?alt=sse";
        read(send(&stand_in, path, "", &request.to_string()))
    };
    let found = events(&ask(&request).1);
    assert_eq!(found[0]["candidates"][0]["content"]["parts"][1]["functionCall"]["args"]["command"], "ls");
    let usage = &found[0]["usageMetadata"];
    let figures =
        ["promptTokenCount", "cachedContentTokenCount", "candidatesTokenCount", "thoughtsTokenCount"];
    assert_eq!(figures.map(|figure| usage[figure].as_u64().unwrap()), [47, 40, 6, 3]);
    turn(
        &mut request,
        "contents",
        json!([{"role": "model", "parts": [{"functionCall": {"name": "shell"}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "shell", "response": {"output": "Hello"}}}]}]),
    );
    let (head, body) = ask(&request);
    assert!(head.starts_with("HTTP/1.1 400") && body.contains("\"message\":\"no\""), "{head} {body}");
    let log = stand_in.log();
    assert_eq!((log[0].model.as_str(), log[1].step, log[1].outcome), ("gemini-x", 1, Outcome::Refused(400)));
}
