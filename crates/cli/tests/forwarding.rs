//! `serve --otlp-to URL`: each agent that has ended arrives once, whatever happens to the receiver or the hub.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::Duration,
};

use common::{
    env, json, json_lines,
    receiver::{Answer, Received, Receiver, TAKEN},
    run,
    serving::{LIMIT, Serving},
};
use opentelemetry_proto::tonic::{common::v1::any_value::Value, trace::v1::Span};
use subscope_hub::clock;
use subscope_testkit::{
    address::RefusingAddress,
    env::TestEnv,
    fixtures::{self, recording},
};

/// Starts a hub that forwards to an address.
fn forwarding(env: &TestEnv, url: &str) -> Serving {
    Serving::start(env, &format!("--otlp-to {url}"))
}

/// The ids of all spans of a recorded session, as `export` writes them.
fn exported(env: &TestEnv, scenario: &str) -> BTreeSet<String> {
    let main = recording("2.1.330", scenario).mains()[0].clone();
    let requests = json_lines(&run(env, "export --as otlp", &[&main]).success());
    let scopes = requests.iter().map(|request| &request["resourceSpans"][0]["scopeSpans"][0]);
    let spans = scopes.flat_map(|scope| scope["spans"].as_array().unwrap().clone());
    spans.map(|span| span["spanId"].as_str().unwrap().to_owned()).collect()
}

/// Posts a recorded session to a hub.
fn ingest(serving: &Serving, scenario: &str) {
    for file in recording("2.1.330", scenario).conversation() {
        if file.extension().is_some_and(|extension| extension == "jsonl") {
            let source = file.file_name().unwrap().to_string_lossy().into_owned();
            serving.post(
                &format!("/api/v1/ingest/claude.transcript?source={source}"),
                "",
                &fixtures::bytes(&file),
            );
        }
    }
}

/// Waits until a condition holds.
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let began = clock::tick();
    while !holds() {
        assert!(began.elapsed() < LIMIT * 2, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn ids(receiver: &Receiver) -> BTreeSet<String> {
    receiver.all().iter().flat_map(Received::span_ids).collect()
}

fn wait_for_spans(receiver: &Receiver, expected: &BTreeSet<String>) {
    wait_for("all spans arrive", || ids(receiver).is_superset(expected));
    assert_eq!(&ids(receiver), expected);
}

fn metric(serving: &Serving, name: &str) -> u64 {
    let text = serving.get("/metrics").1;
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("subscope_{name} ")));
    line.unwrap_or_else(|| panic!("{name}: {text}")).parse().unwrap()
}

#[test]
fn each_session_arrives_once_and_is_counted() {
    let env = env();
    let receiver = Receiver::start(Vec::new(), None);
    let serving = forwarding(&env, &receiver.url);
    ingest(&serving, "c-nested");
    let mut expected = exported(&env, "c-nested");
    wait_for_spans(&receiver, &expected);
    ingest(&serving, "b-parallel");
    ingest(&serving, "c-nested");
    expected.extend(exported(&env, "b-parallel"));
    wait_for_spans(&receiver, &expected);
    let all: Vec<String> = receiver.all().iter().flat_map(Received::span_ids).collect();
    assert_eq!(all.len(), expected.len(), "each span once");
    wait_for("the queue is empty", || serving.json("/healthz")["forwarding"]["waiting"] == 0);
    let health = serving.json("/healthz")["forwarding"].clone();
    assert_eq!(health["to"], format!("{}/v1/traces", receiver.url));
    assert_eq!((&health["spans"], &health["error"]), (&expected.len().into(), &serde_json::Value::Null));
    assert_eq!(metric(&serving, "forwarded_spans_total"), expected.len() as u64);
    assert_eq!(
        (metric(&serving, "forwarded_spans_refused_total"), metric(&serving, "forwarding_failing")),
        (0, 0)
    );
    serving.end("-TERM");
}

#[test]
fn spans_are_those_of_the_tree() {
    let env = env();
    let receiver = Receiver::start(Vec::new(), None);
    let serving = forwarding(&env, &receiver.url);
    ingest(&serving, "k-big");
    wait_for_spans(&receiver, &exported(&env, "k-big"));
    let session =
        recording("2.1.330", "k-big").mains()[0].file_stem().unwrap().to_string_lossy().into_owned();
    let tree = serving.tree(&session).unwrap();
    let all = receiver.all();
    let mut calls: BTreeMap<String, usize> = BTreeMap::new();
    for span in all.iter().flat_map(Received::spans) {
        let text = |key: &str| attribute(span, key);
        if text("gen_ai.operation.name").as_deref() == Some("execute_tool") {
            *calls.entry(text("subscope.agent.id").unwrap()).or_default() += 1;
        }
    }
    for agent in tree["agents"].as_array().unwrap() {
        let id = agent["id"].as_str().unwrap();
        assert_eq!(agent["tools"].as_array().unwrap().len(), calls.get(id).copied().unwrap_or(0), "{id}");
    }
}

#[test]
fn receiver_that_is_down_gets_everything_when_it_is_up() {
    let env = env();
    let address = RefusingAddress::default();
    let serving = forwarding(&env, &address.url());
    ingest(&serving, "c-nested");
    wait_for("spans wait", || metric(&serving, "forwarding_requests_waiting") > 0);
    wait_for("the failure is reported", || metric(&serving, "forwarding_failing") == 1);
    assert!(metric(&serving, "forwarding_bytes_waiting") > 0);
    let error = serving.json("/healthz")["forwarding"]["error"].as_str().unwrap().to_owned();
    assert!(error.contains("cannot be reached"), "{error}");
    let receiver = Receiver::start_at(address, Vec::new(), None);
    wait_for_spans(&receiver, &exported(&env, "c-nested"));
    wait_for("the failure is over", || metric(&serving, "forwarding_failing") == 0);
    assert_eq!(metric(&serving, "forwarding_requests_waiting"), 0);
}

#[test]
fn receiver_that_delays_drops_and_asks_for_time_gets_everything() {
    let env = env();
    let answers = vec![
        Answer::With(429, "retry-after: 1\r\n", b"slow down".to_vec()),
        Answer::With(503, "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n", Vec::new()),
        Answer::Drop,
        Answer::With(401, "", b"who are you?".to_vec()),
        Answer::Slow(Duration::from_millis(500)),
    ];
    let receiver = Receiver::start(answers, None);
    let serving = forwarding(&env, &receiver.url);
    ingest(&serving, "c-nested");
    wait_for("it is accepted", || receiver.all().len() == 5);
    let all = receiver.all();
    assert!(all.iter().all(|received| received.request == all[0].request), "each time the same");
    wait_for("the queue is empty", || metric(&serving, "forwarding_requests_waiting") == 0);
    let expected = exported(&env, "c-nested");
    assert_eq!(
        (ids(&receiver), metric(&serving, "forwarded_spans_total")),
        (expected.clone(), expected.len() as u64)
    );
}

#[test]
fn request_that_is_refused_for_its_content_does_not_stop_the_others() {
    let env = env();
    let receiver = Receiver::start(vec![Answer::With(400, "", b"bad".to_vec())], None);
    let serving = forwarding(&env, &receiver.url);
    ingest(&serving, "c-nested");
    let refused = exported(&env, "c-nested");
    wait_for("it is counted", || metric(&serving, "forwarded_spans_refused_total") == refused.len() as u64);
    ingest(&serving, "b-parallel");
    let expected = exported(&env, "b-parallel");
    wait_for("the next one is accepted", || {
        metric(&serving, "forwarded_spans_total") == expected.len() as u64
    });
}

#[test]
fn request_that_is_too_large_is_forwarded_in_halves() {
    let env = env();
    let too_large = || Answer::With(413, "", b"too large".to_vec());
    let receiver = Receiver::start(vec![too_large(), too_large()], None);
    let serving = forwarding(&env, &receiver.url);
    ingest(&serving, "c-nested");
    let expected = exported(&env, "c-nested");
    wait_for("all is accepted", || metric(&serving, "forwarded_spans_total") == expected.len() as u64);
    let taken: BTreeSet<String> = receiver.all().iter().skip(2).flat_map(Received::span_ids).collect();
    assert_eq!((taken, metric(&serving, "forwarded_spans_refused_total")), (expected, 0));
}

#[test]
fn killed_hub_forwards_the_rest_when_it_is_back() {
    let env = env();
    let address = RefusingAddress::default();
    let url = address.url();
    let mut serving = forwarding(&env, &url);
    ingest(&serving, "c-nested");
    wait_for("spans wait", || metric(&serving, "forwarding_requests_waiting") > 0);
    // One that waits in the queue, and one that is not read yet.
    ingest(&serving, "b-parallel");
    serving.child.kill().unwrap();
    serving.child.wait().unwrap();
    drop(serving);
    let expected: BTreeSet<String> =
        ["c-nested", "b-parallel"].into_iter().flat_map(|scenario| exported(&env, scenario)).collect();
    let receiver = Receiver::start_at(address, vec![TAKEN, Answer::Drop], None);
    let serving = forwarding(&env, &url);
    wait_for_spans(&receiver, &expected);
    // A request that is answered, but not removed yet, would be sent again.
    wait_for("the queue is empty", || metric(&serving, "forwarding_requests_waiting") == 0);
    drop(serving);
    // Nothing is sent again by the next one.
    let count = receiver.all().len();
    let serving = forwarding(&env, &url);
    serving.has_read();
    ingest(&serving, "d-background");
    wait_for("only news arrives", || receiver.all().len() > count);
    wait_for("the queue is empty", || metric(&serving, "forwarding_requests_waiting") == 0);
    let news: BTreeSet<String> = receiver.all()[count..].iter().flat_map(Received::span_ids).collect();
    assert!(news.is_disjoint(&expected), "{news:?}");
}

#[test]
fn agents_are_forwarded_while_those_above_them_run() {
    let env = env();
    let receiver = Receiver::start(Vec::new(), None);
    let serving = forwarding(&env, &receiver.url);
    let parallel = recording("2.1.330", "b-parallel");
    let main = parallel.mains()[0].clone();
    let (name, bytes) = (main.file_name().unwrap().to_string_lossy().into_owned(), fixtures::bytes(&main));
    // Its last line ends the turn: without it the root runs, all of whose agents have ended.
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let is_answer = |line: &&[u8]| String::from_utf8_lossy(line).contains("end_turn");
    let end = lines.iter().position(is_answer).unwrap();
    // Now: an agent that was silent for days is lost.
    let last = json_lines(&String::from_utf8_lossy(&bytes)).iter().filter_map(time_of).max().unwrap();
    let later_ms = clock::now_ms() - last;
    let post = |source: &str, bytes: &[u8]| {
        let path = format!("/api/v1/ingest/claude.transcript?source={source}");
        serving.post(&path, "", &shifted(bytes, later_ms))
    };
    post(&name, &lines[..end].concat());
    for file in parallel.agents() {
        post(&file.file_name().unwrap().to_string_lossy(), &fixtures::bytes(&file));
    }
    let agents: BTreeSet<String> = parallel
        .truth()
        .agents
        .iter()
        .filter(|agent| agent.depth > 0)
        .map(|agent| agent.id.to_string())
        .collect();
    wait_for("each agent arrives", || invoked(&receiver).is_superset(&agents));
    assert_eq!(invoked(&receiver), agents, "the root still runs");
    post(&name, &lines[end..].concat());
    wait_for("the root arrives when it ends its turn", || invoked(&receiver).contains("root"));
    let all: Vec<String> = receiver.all().iter().flat_map(Received::span_ids).collect();
    assert_eq!(all.len(), ids(&receiver).len(), "each span once");
}

/// The agents of the `invoke_agent` spans that a receiver got.
fn invoked(receiver: &Receiver) -> BTreeSet<String> {
    let all = receiver.all();
    let spans = all.iter().flat_map(Received::spans);
    spans
        .filter(|span| attribute(span, "gen_ai.operation.name").as_deref() == Some("invoke_agent"))
        .filter_map(|span| attribute(span, "subscope.agent.id"))
        .collect()
}

fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    let value = found.value.as_ref()?.value.as_ref()?;
    if let Value::StringValue(text) = value { Some(text.clone()) } else { None }
}

/// Lines of a transcript with later times.
fn shifted(bytes: &[u8], later_ms: i64) -> Vec<u8> {
    let shift = |line: &str| {
        let mut line = json(line);
        if let Some(time) = time_of(&line) {
            line["timestamp"] = subscope_model::iso8601(time + later_ms).into();
        }
        format!("{line}\n")
    };
    String::from_utf8(bytes.to_vec()).unwrap().lines().map(shift).collect::<String>().into_bytes()
}

fn time_of(line: &serde_json::Value) -> Option<i64> {
    line["timestamp"].as_str().and_then(subscope_model::parse_rfc3339)
}
