//! Requests of OpenTelemetry, and what a server has of them.

use std::io::Write as _;

use serde_json::{Value, json};
use subscope_testkit::fixtures::{recording, text};

use super::Running;

/// Bodies of a recording: path and body.
pub(crate) fn bodies(scenario: &str) -> Vec<(String, Value)> {
    let files = recording("2.1.330", scenario).otel();
    let lines: Vec<Value> = files
        .iter()
        .flat_map(|file| {
            text(file).lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<_>>()
        })
        .collect();
    let path = |line: &Value| line["path"].as_str().unwrap().strip_prefix("/otel").unwrap().to_owned();
    lines.into_iter().map(|line| (path(&line), line["body"].clone())).collect()
}

/// A log event of Claude Code.
pub(crate) fn event(session: &str, name: &str, more: &[(&str, &str)]) -> Value {
    let pairs = [("session.id", session), ("event.name", name)].into_iter().chain(more.iter().copied());
    let attributes: Vec<Value> =
        pairs.map(|(key, text)| json!({ "key": key, "value": { "stringValue": text } })).collect();
    json!({ "timeUnixNano": "1795293870000000000", "attributes": attributes })
}

pub(crate) fn logs(service: &str, scope: &str, records: &[Value]) -> Value {
    let resource = json!({ "attributes": [{ "key": "service.name", "value": { "stringValue": service } }] });
    json!({ "resourceLogs": [{ "resource": resource, "scopeLogs": [{ "scope": { "name": scope }, "logRecords": records }] }] })
}

pub(crate) const SCOPE: &str = "com.anthropic.claude_code.events";

pub(crate) fn call(session: &str, id: &str) -> Value {
    event(session, "tool_decision", &[("tool_use_id", id), ("tool_name", "Bash"), ("decision", "accept")])
}

pub(crate) fn sessions(server: &Running) -> Vec<String> {
    let all = server.get("/api/v1/sessions").json();
    let mut ids: Vec<String> = all["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["id"].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    ids
}

pub(crate) fn metric(server: &Running, name: &str) -> u64 {
    let text = server.get("/metrics").body;
    let line = text.lines().find(|line| line.starts_with(&format!("subscope_{name} "))).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

pub(crate) fn calls(server: &Running, session: &str) -> u64 {
    server.get(&format!("/api/v1/sessions/{session}/tree")).json()["summary"]["tool_calls"].as_u64().unwrap()
}

/// A value without fields that are null: opentelemetry-proto reads none.
pub(crate) fn without_nulls(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(without_nulls),
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
