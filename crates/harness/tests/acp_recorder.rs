//! The record that is made of a running connection: each session's lines are complete by themselves.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use subscope_decode::LineSession;
use subscope_harness::{
    acp::{AcpRecorder, MESSAGES, Peer},
    recognize,
};

/// Records messages, which are numbered; returns the lines.
fn record(recorder: &mut AcpRecorder, messages: &[(Peer, String)]) -> Vec<Value> {
    let mut out = Vec::new();
    for (number, (side, message)) in messages.iter().enumerate() {
        recorder.record(*side, number as u64, message.as_bytes(), &mut out);
    }
    let lines = String::from_utf8(out).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn request(side: Peer, id: u64, method: &str, params: Value) -> (Peer, String) {
    (side, json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string())
}

fn answer(side: Peer, id: u64, result: Value) -> (Peer, String) {
    (side, json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
}

fn update(session: &str, update: Value) -> (Peer, String) {
    let params = json!({"sessionId": session, "update": update});
    (Peer::Agent, json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string())
}

fn opening() -> Vec<(Peer, String)> {
    let asked = json!({"protocolVersion": 1, "clientCapabilities": {}});
    let told =
        json!({"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "x", "version": "1"}});
    vec![request(Peer::Client, 0, "initialize", asked), answer(Peer::Agent, 0, told)]
}

fn new_session(id: u64, session: &str) -> Vec<(Peer, String)> {
    let asked = request(Peer::Client, id, "session/new", json!({"cwd": "/w", "mcpServers": []}));
    vec![asked, answer(Peer::Agent, id, json!({"sessionId": session}))]
}

fn child(session: &str, fields: &Value) -> (Peer, String) {
    let mut said = json!({"sessionUpdate": "subagent_update", "sessionId": "c1"});
    said.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    update(session, said)
}

#[test]
fn the_opening_is_in_front_of_each_session_and_answers_belong_to_the_session_of_their_request() {
    let prompt = |id, session| {
        request(Peer::Client, id, "session/prompt", json!({"sessionId": session, "prompt": []}))
    };
    let messages = [
        opening(),
        vec![request(Peer::Client, 1, "authenticate", json!({})), answer(Peer::Agent, 1, json!({}))],
        new_session(2, "s1"),
        new_session(3, "s2"),
        vec![
            prompt(4, "s1"),
            prompt(5, "s2"),
            // The agent counts for itself.
            request(Peer::Agent, 4, "fs/read_text_file", json!({"sessionId": "s2"})),
            answer(Peer::Client, 4, json!({"content": ""})),
            answer(Peer::Agent, 5, json!({"stopReason": "end_turn"})),
            answer(Peer::Agent, 4, json!({"stopReason": "end_turn"})),
        ],
    ]
    .concat();
    let lines = record(&mut AcpRecorder::default(), &messages);
    let of = |session: &str| -> Vec<u64> {
        let own = lines.iter().filter(|line| line["sessionId"] == session);
        own.map(|line| line["recv_ns"].as_u64().unwrap()).collect()
    };
    assert_eq!((of("s1"), of("s2")), (vec![0, 1, 4, 5, 8, 13], vec![0, 1, 6, 7, 9, 10, 11, 12]));
    for line in &lines {
        let (side, message) = &messages[usize::try_from(line["recv_ns"].as_u64().unwrap()).unwrap()];
        let message: Value = serde_json::from_str(message).unwrap();
        assert_eq!((&line["msg"], line["dir"] == "out"), (&message, *side == Peer::Client));
        let text = line.to_string();
        let session = line["sessionId"].as_str().unwrap().to_owned();
        assert_eq!(MESSAGES.line_session(text.as_bytes()), LineSession::Named(session.clone()));
        assert_eq!(MESSAGES.session_of(format!("{text}\n").as_bytes()), Some(session));
    }
    assert_eq!(recognize(format!("{}\n", lines[0]).as_bytes()), Some(MESSAGES));
    let (_, bare) = &messages[0];
    assert_eq!(MESSAGES.line_session(bare.as_bytes()), LineSession::Unknown);
}

#[test]
fn what_is_no_message_is_a_text_of_the_session_whatever_is_in_it() {
    let mut recorder = AcpRecorder::default();
    let before = (Peer::Agent, "listening".to_owned());
    assert!(record(&mut recorder, &[before]).is_empty(), "there is no session");
    record(&mut recorder, &[opening(), new_session(1, "s1")].concat());
    let odd = ["{\"a\":1},\"dir\":\"out\",\"x\":{", "\u{1b}[1m\"", "[", "{\"jsonrpc\"", &"é".repeat(5_000)];
    let lines = record(&mut recorder, &odd.map(|text| (Peer::Agent, text.to_owned())));
    for (line, text) in lines.iter().zip(odd) {
        let text: String = text.chars().take(1_000).collect();
        assert_eq!(
            (&line["dir"], &line["sessionId"], &line["msg"]),
            (&"in".into(), &"s1".into(), &text.into())
        );
    }
    let mut out = Vec::new();
    recorder.record(Peer::Agent, 7, b"\xff\xfe\r\n", &mut out);
    recorder.record(Peer::Agent, 8, b" \r\n", &mut out);
    assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
}

#[test]
fn agents_can_be_stopped_while_they_work_and_that_is_offered() {
    let mut recorder = AcpRecorder::default();
    record(&mut recorder, &[opening(), new_session(1, "s1")].concat());
    let mut stoppable = |fields: Value| {
        record(&mut recorder, &[child("s1", &fields)]);
        let found = recorder.stoppable();
        found.first().cloned()
    };
    assert_eq!(stoppable(json!({"capabilities": {}, "state": {"state": "running"}})), None);
    let first = stoppable(json!({"capabilities": {"cancel": {}}})).unwrap();
    assert_eq!((first.root.as_str(), first.agent.as_str()), ("s1", "c1"));
    assert_eq!(
        first.cancel_line(),
        "{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{\"sessionId\":\"c1\"}}\n"
    );
    assert!(stoppable(json!({"title": "a field that is missing keeps its value"})).is_some());
    assert_eq!(stoppable(json!({"capabilities": {"cancel": null}})), None);
    assert!(stoppable(json!({"capabilities": {"cancel": {}}})).is_some());
    assert_eq!(stoppable(json!({"capabilities": null})), None);
    assert!(stoppable(json!({"capabilities": {"cancel": {}}})).is_some());
    assert_eq!(stoppable(json!({"state": {"state": "idle", "stopReason": "end_turn"}})), None);
    let again = stoppable(json!({"state": {"state": "running"}})).unwrap();
    recorder.note_cancelled(&again);
    assert_eq!(recorder.stoppable(), [], "it is asked once");
    record(&mut recorder, &[child("s1", &json!({"state": {"state": "idle", "stopReason": "cancelled"}}))]);
    record(&mut recorder, &[child("s1", &json!({"state": {"state": "running"}}))]);
    assert_eq!(recorder.stoppable(), [again], "and again if it continues");
}

#[test]
fn agents_of_agents_belong_to_the_root() {
    let mut recorder = AcpRecorder::default();
    record(&mut recorder, &[opening(), new_session(1, "s1")].concat());
    let nested = json!({"sessionUpdate": "subagent_update", "sessionId": "s1:subagent:t2", "capabilities": {"cancel": {}}});
    let lines = record(&mut recorder, &[child("s1", &json!({})), update("c1", nested)]);
    assert!(lines.iter().all(|line| line["sessionId"] == "s1"), "{lines:?}");
    let found = recorder.stoppable();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].root.as_str(), found[0].agent.as_str()), ("s1", "t2"));
    assert!(found[0].cancel_line().contains("\"s1:subagent:t2\""));
}
