//! Spans of OpenTelemetry ingested in a second. Budgets: 10,000 with p99 of 50 ms.

use std::{
    fmt::Write,
    thread,
    time::{Duration, Instant},
};

use subscope_hub::clock;
use subscope_testkit::figures::{Row, now, percentile};

use crate::{client::Connection, server::Server};

/// Senders, each on a connection of its own, with sessions of its own.
const SENDERS: usize = 8;
/// Spans of a request: of a batch processor that exports once a second at this load, or when it is full.
const REQUEST_SPANS: usize = 100;
/// Requests of a sender until its next session begins.
const SESSION_REQUESTS: usize = 20;
/// Spans that all senders send in a second.
const RATE: usize = 10_000;
/// How long they do.
const SECONDS: usize = 20;

/// Spans at a steady rate, then as fast as they are acknowledged.
pub(crate) fn spans() -> Vec<Row> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::subscope(folder.path());
    let requests = RATE * SECONDS / REQUEST_SPANS / SENDERS;
    let interval = Duration::from_secs_f64(SECONDS as f64 / requests as f64);
    let (steady, tails) = round(&server.address, "steady", requests, Some(interval));
    let (fastest, fastest_tails) = round(&server.address, "fast", requests, None);
    let row = |figure: &str, value, unit, budget, is_floor| Row {
        question: format!(
            "OpenTelemetry spans, {SENDERS} senders, {REQUEST_SPANS} a request, acknowledged when kept"
        ),
        figure: figure.to_owned(),
        values: vec![value],
        unit,
        budget,
        is_floor,
    };
    vec![
        row("99th percentile of the answer at 10,000 spans/s", tails, " ms", Some(50.0), false),
        row("in a second, at that rate", steady, "", Some(0.99 * RATE as f64), true),
        row("in a second, as fast as answered", fastest, "", None, false),
        row("99th percentile of the answer then", fastest_tails, " ms", None, false),
    ]
}

/// Returns spans in a second, and the 99th percentile of the answers in milliseconds.
fn round(address: &str, name: &str, requests: usize, interval: Option<Duration>) -> (f64, f64) {
    let began = now();
    let mut all: Vec<f64> = thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                scope.spawn(move || send(address, &format!("{name}-{sender}"), requests, interval, began))
            })
            .collect();
        senders.into_iter().flat_map(|sender| sender.join().expect("a sender")).collect()
    });
    let took = began.elapsed().as_secs_f64();
    all.sort_by(f64::total_cmp);
    ((all.len() * REQUEST_SPANS) as f64 / took, percentile(&all, 99))
}

/// Sends requests, each at its time where there is an interval: a late answer delays no later request's time.
fn send(
    address: &str,
    sender: &str,
    requests: usize,
    interval: Option<Duration>,
    began: Instant,
) -> Vec<f64> {
    let mut connection = Connection::open(address);
    let mut answers = Vec::new();
    for number in 0..requests {
        let body = request(&format!("{sender}-{}", number / SESSION_REQUESTS), number);
        if let Some(interval) = interval {
            let due = interval * u32::try_from(number).unwrap_or(u32::MAX);
            thread::sleep(due.saturating_sub(began.elapsed()));
        }
        answers.push(connection.post("/v1/traces", &body));
    }
    answers
}

/// Returns a request with the responses and calls of an agent.
fn request(session: &str, number: usize) -> String {
    let nanos = clock::now_ns();
    let mut spans = String::new();
    let parent = format!("{:016x}", stable(session, "agent"));
    for place in 0..REQUEST_SPANS {
        let key = format!("{number}/{place}");
        let id = stable(session, &key);
        let (name, own) = match place {
            0 if number.is_multiple_of(SESSION_REQUESTS) => ("invoke_agent", String::new()),
            _ if place % 2 == 0 => (
                "chat",
                attribute("gen_ai.response.id", &key)
                    + r#",{"key":"gen_ai.usage.input_tokens","value":{"intValue":"812"}},{"key":"gen_ai.usage.output_tokens","value":{"intValue":"96"}}"#,
            ),
            _ => (
                "execute_tool",
                attribute("gen_ai.tool.call.id", &key) + "," + &attribute("gen_ai.tool.name", "Read"),
            ),
        };
        let is_agent = name == "invoke_agent";
        let (id, above) =
            if is_agent { (parent.clone(), "") } else { (format!("{id:016x}"), parent.as_str()) };
        let comma = if place == 0 { "" } else { "," };
        let more = if own.is_empty() { String::new() } else { format!(",{own}") };
        let shared =
            attribute("gen_ai.operation.name", name) + "," + &attribute("gen_ai.conversation.id", session);
        let trace = format!("{:032x}", stable(session, "trace"));
        write!(
            spans,
            r#"{comma}{{"traceId":"{trace}","spanId":"{id}","parentSpanId":"{above}","name":"{name}","kind":1,"startTimeUnixNano":"{}","endTimeUnixNano":"{nanos}","attributes":[{shared}{more}],"status":{{}}}}"#,
            nanos - 1_000_000
        )
        .expect("a text in memory");
    }
    format!(
        r#"{{"resourceSpans":[{{"resource":{{"attributes":[{}]}},"scopeSpans":[{{"scope":{{"name":"bench"}},"spans":[{spans}]}}]}}]}}"#,
        attribute("service.name", "bench")
    )
}

fn attribute(key: &str, value: &str) -> String {
    format!(r#"{{"key":"{key}","value":{{"stringValue":"{value}"}}}}"#)
}

fn stable(session: &str, key: &str) -> u64 {
    subscope_model::stable_hash(&format!("{session}/{key}")) | 1
}
