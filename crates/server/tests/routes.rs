//! Requests and responses of the routes.

#![allow(clippy::unwrap_used)]

mod common;

use std::{collections::BTreeSet, io::Write};

use common::{by_agent, call, event, exchange, start, start_agent};
use serde_json::Value;

const LINES: &str = "content-type: application/x-ndjson\r\n";

#[test]
fn posted_events_become_a_tree_by_their_chain() {
    let server = start();
    for (run, kind, more) in [
        ("a", "subagent_start", r#","payload":"Do it.""#),
        ("b", "subagent_start", r#","parentRunId":"a""#),
        ("c", "subagent_start", r#","parentRunId":"b""#),
        ("c", "tool_call", r#","toolName":"grep","toolCallId":"t1","payload":{"q":"x"}"#),
        ("c", "tool_result", r#","toolName":"grep","toolCallId":"t1","payload":"y","isError":true"#),
        ("a", "subagent_end", ""),
    ] {
        let answer = server.post("/subagent-events", event(run, kind, more));
        assert_eq!((answer.status, answer.json()["accepted"].clone()), (200, true.into()), "{answer:?}");
    }
    let sessions = server.get("/api/v1/sessions").json();
    assert_eq!(sessions["schema"], "subscope.sessions/1");
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1, "{sessions}");
    assert_eq!(sessions["sessions"][0]["id"], "events:a");
    let tree = server.get("/api/v1/sessions/events:a/tree").json();
    let rows: Vec<_> = tree["agents"].as_array().unwrap().iter().collect();
    let parents: Vec<_> = rows.iter().map(|row| (row["id"].as_str(), row["parent_id"].as_str())).collect();
    let expected =
        [(Some("root"), None), (Some("a"), Some("root")), (Some("b"), Some("a")), (Some("c"), Some("b"))];
    assert_eq!(parents, expected);
    assert_eq!((&rows[3]["tool_errors"], &rows[1]["status"]), (&1.into(), &"completed".into()));
    let agent = server.get("/api/v1/agents/c").json();
    assert_eq!((&agent["agent"], &agent["session"]), (rows[3], &tree["session"]));
    let other = event("z", "subagent_start", r#","sessionId":"mine","parentRunId":"a""#);
    assert_eq!(server.post("/subagent-events", other).status, 200);
    assert_eq!(server.get("/api/v1/sessions/mine/tree").status, 200);
}

#[test]
fn posted_events_are_refused_with_the_field_that_is_missing() {
    let server = start();
    let whole: Value = serde_json::from_str(&event("r", "tool_call", "")).unwrap();
    for field in ["subagentName", "subagentRunId", "timestamp", "type"] {
        for wrong in [None, Some(Value::Null), Some(Value::from(vec![1])), Some(Value::from(" "))] {
            let mut body = whole.clone();
            match wrong {
                None => drop(body.as_object_mut().unwrap().remove(field)),
                Some(wrong) => body[field] = wrong,
            }
            let answer = server.post("/subagent-events", body.to_string());
            assert_eq!((answer.status, answer.json()["field"].clone()), (400, field.into()), "{answer:?}");
        }
    }
    for body in ["", "not json", "[]", "null", "{\"a\":1}{\"b\":2}"] {
        assert_eq!(server.post("/subagent-events", body).status, 400, "{body}");
    }
    let get = server.get("/subagent-events");
    assert_eq!((get.status, get.header("allow")), (405, Some("POST")));
    let odd = server.post("/subagent-events", event("r", "daydream", ""));
    assert_eq!(odd.status, 200);
    assert!(odd.json()["problems"][0]["what"].as_str().unwrap().contains("daydream"), "{odd:?}");
    let tree = server.get("/api/v1/sessions/events:r/tree").json();
    assert_eq!(tree["problems"].as_array().unwrap().len(), 1);
    // The other spellings, a time in milliseconds, and line ends between the tokens.
    let other = "{\n\"subagentName\":\"n\",\r\n\"subagentRunID\":\"r2\",\"timestamp\":1795293906647,\"type\":\"subagent_start\"\n}";
    assert_eq!(server.post("/subagent-events", other).status, 200);
    assert_eq!(server.get("/api/v1/agents/r2").status, 200);
}

#[test]
fn repeats_change_nothing() {
    let server = start();
    let told = event("r", "tool_call", r#","toolName":"x","toolCallId":"t""#);
    let with_id = event("r", "thought_trace", r#","payload":"hm","eventId":"e1""#);
    for body in [&told, &with_id, &event("r", "subagent_start", "")] {
        assert_eq!(server.post("/subagent-events", body).json()["repeat"], false);
        let tree = server.get("/api/v1/sessions/events:r/tree").body;
        assert_eq!(server.post("/subagent-events", body).json()["repeat"], true);
        assert_eq!(server.get("/api/v1/sessions/events:r/tree").body, tree);
    }
    let delivery =
        "content-type: application/json\r\nx-subscope-delivery: d1\r\nx-subscope-received-ms: 1000\r\n";
    for _ in 0..2 {
        let answer = server.post_with("/hooks/claude", delivery, call("s", "t"));
        assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    }
    let tree = server.get("/api/v1/sessions/s/tree").json();
    assert_eq!(tree["summary"]["tool_calls"], 1);
    assert_eq!(tree["agents"][0]["tools"][0]["started_at_ms"], 1000, "the time of receipt that was named");
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("subscope_ingest_repeats_total 4\n"), "{metrics}");
}

#[test]
fn ingest_tells_counts_and_problems() {
    let server = start();
    let body = format!("{}\n\nnot json\n{}", call("s1", "t1"), call("s2", "t2"));
    let told = server.post_with("/api/v1/ingest/claude.hook?source=a", LINES, body).json();
    assert_eq!((&told["lines"], &told["problem_count"]), (&3.into(), &1.into()), "{told}");
    assert_eq!(told["problems"][0]["at"], "ingest/claude.hook/a:3");
    assert_eq!(told["sessions"], serde_json::json!(["s1", "s2"]));
    // Long enough to be stored in parts; a repeated delivery stores none again.
    let long: String = (0..3000)
        .map(|number| format!("{}{}\n", call("long", &format!("c{number}")), " ".repeat(2000)))
        .collect();
    for repeat in [false, true] {
        let headers = format!("{LINES}x-subscope-delivery: long\r\n");
        let told = server.post_with("/api/v1/ingest/claude.hook?source=b", &headers, &long).json();
        let lines = if repeat { 0 } else { 3000 };
        assert_eq!((&told["repeat"], &told["lines"]), (&repeat.into(), &lines.into()), "{told}");
    }
    assert_eq!(server.get("/api/v1/sessions/long/tree").json()["summary"]["tool_calls"], 3000);
    for dialect in ["nonsense", "claude.meta", "claude"] {
        assert_eq!(server.post_with(&format!("/api/v1/ingest/{dialect}"), LINES, "{}").status, 404);
    }
    assert_eq!(server.get("/api/v1/ingest/claude.hook").status, 405);
}

#[test]
fn sessions_come_in_pages_without_gap_or_repeat() {
    let server = start();
    for number in 0..25 {
        let received =
            format!("content-type: application/json\r\nx-subscope-received-ms: {}\r\n", 1000 + number / 3);
        server.post_with("/hooks/claude", &received, call(&format!("s{number:02}"), "t"));
    }
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let page = server.get(&format!("/api/v1/sessions?limit=4{after}")).json();
        let rows = page["sessions"].as_array().unwrap();
        assert!((1..=4).contains(&rows.len()));
        seen.extend(rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen.len(), 25);
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 25);
    assert_eq!(seen[0], "s24");
    let named = server.get("/api/v1/sessions?limit=4&q=S07%20claude").json();
    assert_eq!(named["sessions"][0]["id"], "s07", "far behind the first page: {named}");
    assert_eq!((named["sessions"].as_array().unwrap().len(), &named["next"]), (1, &Value::Null));
    assert_eq!(server.get("/api/v1/sessions?after=nonsense").status, 400);
    let conflict = server.get("/api/v1/agents/root");
    assert_eq!(conflict.status, 409);
    assert_eq!(server.get("/api/v1/agents/root?session=s03").json()["session"]["id"], "s03");
    assert_eq!(server.get("/api/v1/agents/none").status, 404);
}

#[test]
fn events_come_in_pages_of_one_session() {
    let server = start();
    for number in 0..10 {
        server.post("/hooks/claude", call("s", &format!("t{number}")));
        server.post("/hooks/claude", call("other", &format!("t{number}")));
    }
    let mut seqs: Vec<u64> = Vec::new();
    let mut after = 0;
    loop {
        let page = server.get(&format!("/api/v1/sessions/s/events?after={after}&limit=3")).json();
        assert_eq!(page["schema"], "subscope.events/1");
        for event in page["events"].as_array().unwrap() {
            assert_eq!(event["session_id"], "s");
            seqs.push(event["seq"].as_u64().unwrap());
        }
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert!(seqs.len() >= 10 && seqs.is_sorted_by(|one, other| one < other), "{seqs:?}");
    assert_eq!(server.get("/api/v1/sessions/s/events?after=999999").status, 410);
    assert_eq!(server.get("/api/v1/sessions/none/events").status, 404);
    assert_eq!(server.get("/api/v1/sessions/s/events?after=x").status, 400);
}

#[test]
fn many_posters_at_once_lose_nothing() {
    let server = start();
    let (posters, each) = (20, 50);
    std::thread::scope(|scope| {
        for poster in 0..posters {
            let server = &server;
            scope.spawn(move || {
                let mut stream = server.connect();
                for number in 0..each {
                    let body = call("s", &format!("t{poster}-{number}"));
                    let mut request = server.posting(
                        "/hooks/claude",
                        "content-type: application/json\r\n",
                        body.as_bytes(),
                    );
                    let close = String::from_utf8(request.clone()).unwrap();
                    // Keep-alive except for the last request.
                    if number + 1 < each {
                        request = close.replace("connection: close\r\n", "").into_bytes();
                        stream.write_all(&request).unwrap();
                        let mut answer = [0; 4096];
                        let count = std::io::Read::read(&mut stream, &mut answer).unwrap();
                        assert!(answer[..count].starts_with(b"HTTP/1.1 200"));
                    }
                }
                let body = call("s", &format!("t{poster}-{}", each - 1));
                let last =
                    server.posting("/hooks/claude", "content-type: application/json\r\n", body.as_bytes());
                assert_eq!(exchange(stream, &last).status, 200);
            });
        }
    });
    let tree = server.get("/api/v1/sessions/s/tree").json();
    assert_eq!(tree["summary"]["tool_calls"], posters * each);
}

#[test]
fn server_describes_itself() {
    let server = start();
    assert_eq!(server.get("/healthz").json()["status"], "ok");
    let document = server.get("/openapi.json").json();
    for path in document["paths"].as_object().unwrap().keys() {
        let path = path.replace("{id}", "x").replace("{dialect}", "claude.stream");
        let address = server.address;
        let answer =
            server.raw(format!("PUT {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"));
        assert_eq!(answer.status, 405, "{path} is a route, and takes no PUT");
    }
    assert_eq!(server.get("/none").status, 404);
}

#[test]
fn delivery_that_came_by_another_way_counts_once() {
    let server = start();
    let named = "content-type: application/json\r\nx-subscope-delivery: 7-1\r\n";
    assert_eq!(server.post_with("/hooks/claude", named, call("s", "t")).status, 200);
    let (sender, answer) = std::sync::mpsc::sync_channel(1);
    let dialect = subscope_hub::hook_dialect("/hooks/claude").unwrap();
    let spooled = subscope_hub::hook_ingest(dialect, "7-1", Some(1_000), call("s", "t").into_bytes());
    server.handle.ingest(spooled, Box::new(move |taken| sender.send(taken).unwrap())).unwrap();
    assert!(answer.recv_timeout(common::LIMIT).unwrap().unwrap().is_repeat);
}

#[test]
fn order_to_stop_is_the_answer_to_the_agents_next_call_alone() {
    let server = start();
    let headers = "content-type: application/json\r\nx-subscope: 1\r\n";
    let order = |path: &str| server.post_with(path, headers, "{}");
    start_agent(&server, "s", "a1");
    start_agent(&server, "s", "a2");
    start_agent(&server, "other", "b1");
    let told = order("/api/v1/agents/a1/stop");
    assert_eq!(told.status, 202, "{told:?}");
    let expected = serde_json::json!({
        "schema": "subscope.stop-asked/1", "session_id": "s", "agent_id": "a1", "title": "Explore",
        "repeat": false, "reached": true, "told_by": "hook",
    });
    assert_eq!(told.json(), expected);
    assert_eq!(order("/api/v1/agents/a1/stop?session=s").json()["repeat"], true);
    let flags = |agent: &str| server.get(&format!("/api/v1/agents/{agent}")).json()["agent"]["flags"].clone();
    let expected = (serde_json::json!(["stopping", "orphan"]), serde_json::json!(["orphan"]));
    assert_eq!((flags("a1"), flags("a2")), expected);
    let ask = |agent: &str, call: &str| {
        let answer = server.post("/hooks/claude", by_agent("s", agent, "PreToolUse", call));
        assert_eq!(answer.status, 200);
        answer
    };
    assert_eq!(ask("a2", "t1").body, "");
    let answer = ask("a1", "t2");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.json()["continue"], false);
    server.post("/hooks/claude", by_agent("s", "a1", "PostToolUse", "t2"));
    let agent = server.get("/api/v1/agents/a1").json()["agent"].clone();
    assert_eq!((&agent["status"], &agent["evidence"]), (&"stopped".into(), &"hook answer".into()));
    // An ended agent, the root, an ambiguous id, an unknown id; and an agent that no order can reach.
    let mut plain: Value = serde_json::from_str(&event("r1", "subagent_start", "")).unwrap();
    plain["timestamp"] = subscope_hub::clock::now_ms().into();
    assert_eq!(server.post("/subagent-events", plain.to_string()).status, 200);
    let lines = [
        r#"{"type":"assistant","session_id":"told","uuid":"1","message":{"id":"m1","content":[{"type":"tool_use","id":"c1","name":"Task","input":{}}]}}"#,
        r#"{"type":"assistant","session_id":"told","uuid":"2","parent_tool_use_id":"c1","message":{"id":"m2","content":[]}}"#,
    ];
    let lines = lines.map(|line| format!("{line}\n")).concat();
    let kind = "content-type: application/x-ndjson\r\n";
    assert_eq!(server.post_with("/api/v1/ingest/claude.stream?source=t", kind, lines).status, 200);
    for (path, status, word) in [
        ("/api/v1/agents/a1/stop", 409, "ended already: stopped"),
        ("/api/v1/agents/root/stop", 409, "main agent"),
        ("/api/v1/agents/root/stop?session=s", 409, "main agent"),
        ("/api/v1/agents/none/stop", 404, "no such agent"),
        ("/api/v1/agents/a2/stop?session=other", 404, "no such agent"),
        ("/api/v1/agents/c1/stop", 409, "it cannot be reached: no hook of its session has named it"),
    ] {
        let answer = order(path);
        assert_eq!(answer.status, status, "{path} {answer:?}");
        assert!(answer.json()["error"].as_str().unwrap().contains(word), "{path} {answer:?}");
    }
    let published = order("/api/v1/agents/r1/stop").json();
    assert_eq!((&published["told_by"], &published["reached"]), (&"publisher".into(), &true.into()));
    let answer = server.post("/subagent-events", event("r1", "tool_call", ""));
    assert_eq!(answer.json()["stop"], true, "{answer:?}");
    start_agent(&server, "other", "a2");
    let several = order("/api/v1/agents/a2/stop");
    assert_eq!(several.status, 409, "{several:?}");
    assert!(several.body.contains("2 agents at work"), "{several:?}");
    assert_eq!(order("/api/v1/agents/a2/stop?session=oth").json()["session_id"], "other");
    assert_eq!(server.post_with("/api/v1/agents/a2/stop", headers, "[]").status, 400);
}
