//! Live feeds: no duplicates, no gaps, and no blocking by a stuck reader.

#![allow(clippy::unwrap_used)]

mod common;

use std::{collections::BTreeMap, time::Duration};

use common::{LIMIT, Told, call, event, start, start_with};
use serde_json::Value;
use subscope_server::Timeouts;
use subscope_store::MemoryStore;
use tungstenite::{Message, client::IntoClientRequest};

fn seqs(told: &[Told]) -> Vec<u64> {
    let events = told.iter().filter(|it| it.event == "event");
    events.map(|it| it.data["seq"].as_u64().unwrap()).filter(|seq| *seq > 0).collect()
}

fn is_call(told: &Told, id: &str) -> bool {
    told.event == "event" && told.data["kind"] == "tool.pre" && told.data["data"]["tool_use_id"] == id
}

/// Whether a message contains an agent row with this number of calls.
fn has_calls(told: &Told, calls: u64) -> bool {
    let rows = told.data["agents"].as_array();
    rows.is_some_and(|rows| rows.iter().any(|row| row["tool_calls"] == calls))
}

#[test]
fn snapshot_and_changes_are_the_tree() {
    let server = start();
    server.post("/hooks/claude", call("s", "t0"));
    let mut feed = server.live("");
    for number in 1..10 {
        server.post("/hooks/claude", call("s", &format!("t{number}")));
    }
    let mut told = feed.until(|it| is_call(it, "t9"));
    // Rows are sent later than events.
    if !told.iter().any(|it| has_calls(it, 10)) {
        told.extend(feed.until(|it| has_calls(it, 10)));
    }
    let mut rows: BTreeMap<String, Value> = BTreeMap::new();
    for it in &told {
        match it.event.as_str() {
            "snapshot" => rows = by_id(&it.data["agents"]),
            "change" => rows.extend(by_id(&it.data["agents"])),
            _ => {}
        }
        assert_eq!(it.id, it.data["seq"].as_u64().filter(|_| it.event == "event").or(it.id));
    }
    let tree = server.get("/api/v1/sessions/s/tree").json();
    assert_eq!(rows, by_id(&tree["agents"]));
    assert_eq!(told.iter().find(|it| it.event == "snapshot").unwrap().data["schema"], "subscope.tree/1");
    assert_eq!(told.iter().find(|it| it.event == "change").unwrap().data["schema"], "subscope.change/1");
}

fn by_id(rows: &Value) -> BTreeMap<String, Value> {
    rows.as_array().unwrap().iter().map(|row| (row["id"].as_str().unwrap().to_owned(), row.clone())).collect()
}

#[test]
fn reader_that_returns_misses_nothing_and_gets_nothing_twice() {
    let server = start();
    let mut all = Vec::new();
    let mut last = String::new();
    for round in 0..8 {
        let mut feed = server.live(&last);
        for number in 0..5 {
            server.post("/hooks/claude", call("s", &format!("t{round}-{number}")));
        }
        // Disconnect in the middle of the feed.
        let told = feed.until(|it| is_call(it, &format!("t{round}-2")));
        assert!(told.iter().all(|it| it.event != "reset"), "{told:?}");
        let place = told.iter().filter_map(|it| it.id).next_back().unwrap();
        last = format!("last-event-id: {place}\r\n");
        all.extend(seqs(&told));
    }
    let told = server.live(&last).until(|it| is_call(it, "t7-4"));
    all.extend(seqs(&told));
    assert_eq!(all, (1..=*all.last().unwrap()).collect::<Vec<_>>());
}

#[test]
fn place_outside_the_log_resets() {
    let server = start();
    server.post("/hooks/claude", call("s", "t"));
    let told = server.live("last-event-id: 123456789\r\n").until(|it| it.event == "snapshot");
    assert_eq!(told[0].event, "reset");
    assert_eq!(server.get_with("/api/v1/live", "last-event-id: abc\r\n").status, 400);
}

#[test]
fn stuck_reader_delays_nobody_and_is_told_what_it_missed() {
    // Not disconnected even on a loaded machine.
    let timeouts = Timeouts { write: Duration::from_secs(600), ..Timeouts::default() };
    let server = start_with(MemoryStore::new(), timeouts, Duration::from_secs(10));
    let mut stuck = server.live("");
    let mut healthy = server.live("");
    // More than the socket buffers hold, then more events than the queue holds; each burst fits into the queue.
    let long = "x".repeat(60_000);
    let prompts = (0..200).map(|number| {
        format!(
            r#"{{"session_id":"s","hook_event_name":"UserPromptSubmit","prompt_id":"p{number}","prompt":"{long} {number}"}}"#
        )
    });
    let bursts: Vec<Vec<String>> = (0..6)
        .map(|burst| (0..700).map(|number| call("s", &format!("t{burst}-{number}"))).collect())
        .collect();
    for burst in [prompts.collect()].iter().chain(&bursts) {
        let lines = "content-type: application/x-ndjson\r\n";
        assert_eq!(server.post_with("/api/v1/ingest/claude.hook", lines, burst.join("\n")).status, 200);
        let last: Value = serde_json::from_str(burst.last().unwrap()).unwrap();
        match last["tool_use_id"].as_str() {
            Some(id) => healthy.until(|it| is_call(it, id)),
            None => healthy.until(|it| it.event == "event" && it.data["run"] == 200),
        };
    }
    // After it reads again, missed events are counted and its rows are complete.
    let told = stuck.until(|it| it.event == "missed");
    let missed = told.last().unwrap();
    assert!(missed.data["count"].as_u64().unwrap() > 0);
    let after = seqs(&told).last().copied().unwrap();
    assert_eq!(missed.data["after"], after);
    if !told.iter().any(|it| has_calls(it, 4200)) {
        stuck.until(|it| has_calls(it, 4200));
    }
}

#[test]
fn status_messages_tell_starts_heartbeats_and_ends() {
    let server = start_with(MemoryStore::new(), Timeouts::default(), Duration::from_secs(1));
    let request = format!("ws://{}/ws", server.address).into_client_request().unwrap();
    let stream = server.connect();
    let (mut socket, _) = tungstenite::client(request, stream).unwrap();
    let now = subscope_hub::clock::now_ms();
    let at = |text: String| text.replace("\"2026-11-21T20:00:00Z\"", &now.to_string());
    let began = subscope_hub::clock::tick();
    let mut until = |kind: &str, session: &str| loop {
        assert!(began.elapsed() < LIMIT, "no {kind}");
        if let Message::Text(text) = socket.read().unwrap() {
            let message: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(message["type"], "claude-status");
            if message["data"]["type"] == kind && message["sessionId"] == session {
                return message["data"].clone();
            }
        }
    };
    server.post("/subagent-events", at(event("a", "subagent_start", "")));
    let started = until("subagent-started", "events:a");
    assert_eq!(started["subagentId"], "a");
    assert!(began.elapsed() < Duration::from_millis(900), "at once, not with the next heartbeat");
    server.post("/subagent-events", at(event("b", "subagent_start", r#","parentRunId":"a""#)));
    until("subagent-started", "events:a");
    let one = until("subagent-heartbeat", "events:a");
    let two = until("subagent-heartbeat", "events:a");
    assert_eq!(two["subagentCount"], 2, "{two}");
    assert_eq!(two["agents"].as_array().unwrap().len(), 2);
    assert!(two["agents"][0]["last_event_age_ms"].as_i64().unwrap() > 0);
    let words = format!("Sub-agent processing... ({}s)", two["elapsedSeconds"]);
    assert_eq!(two["message"], words);
    assert_ne!(one["message"], two["message"]);
    for run in ["b", "a"] {
        server.post("/subagent-events", at(event(run, "subagent_end", "")));
        let ended = until("subagent-ended", "events:a");
        assert_eq!((&ended["subagentId"], &ended["status"]), (&run.into(), &"completed".into()));
    }
}

#[test]
fn silent_agent_is_told_as_stalled_and_heartbeats_come_on_the_feed_too() {
    let server = start_with(MemoryStore::new(), Timeouts::default(), Duration::from_secs(1));
    let request = format!("ws://{}/ws", server.address).into_client_request().unwrap();
    let (mut socket, _) = tungstenite::client(request, server.connect()).unwrap();
    let mut feed = server.live("");
    // Silent for more than ten minutes since its last input (stalled), but not long enough to be lost.
    let at = subscope_hub::clock::now_ms() - 11 * 60_000;
    let began = event("a", "subagent_start", "").replace("\"2026-11-21T20:00:00Z\"", &at.to_string());
    let headers = format!("content-type: application/x-ndjson\r\nx-subscope-received-ms: {at}\r\n");
    let answer = server.post_with("/api/v1/ingest/subagent-events?source=t", &headers, began + "\n");
    assert_eq!(answer.status, 200, "{answer:?}");
    let stall = loop {
        if let Message::Text(text) = socket.read().unwrap() {
            let message: Value = serde_json::from_str(&text).unwrap();
            if message["data"]["type"] == "stall" {
                break message["data"].clone();
            }
        }
    };
    assert_eq!((&stall["subagentId"], &stall["sinceMs"]), (&"a".into(), &at.into()), "{stall}");
    let told = feed.until(|it| it.data["kind"] == "heartbeat");
    let beat = told.last().unwrap();
    assert_eq!((beat.id, beat.event.as_str(), &beat.data["seq"]), (None, "event", &0.into()));
    assert_eq!(beat.data["data"]["subagentCount"], 1);
    let count = told.iter().filter(|it| it.data["kind"] == "stall").count();
    assert_eq!(count, 1, "once for one silence");
    assert!(beat.data["data"]["agents"][0]["last_event_age_ms"].as_i64().unwrap() >= 11 * 60_000);
}

#[test]
fn feeds_are_bounded_and_end_with_the_server() {
    let server = start();
    let mut feeds: Vec<_> = (0..64).map(|_| server.live("")).collect();
    assert_eq!(server.get("/api/v1/live").status, 503);
    assert_eq!(server.get("/healthz").status, 200, "other questions are answered");
    drop(feeds.pop());
    // A disconnect is noticed with the next write.
    server.post("/hooks/claude", call("s", "t"));
    feeds[0].until(|it| is_call(it, "t"));
    let began = subscope_hub::clock::tick();
    drop(server);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    for feed in &mut feeds {
        while feed.next().is_some() {}
    }
}
