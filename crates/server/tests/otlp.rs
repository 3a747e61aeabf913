//! OpenTelemetry over HTTP: encodings, refusals, repeats, sessions.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::Write as _;

use common::{
    HttpResponse, Running,
    otlp::{SCOPE, bodies, call, calls, event, gzip, logs, metric, sessions, without_nulls},
    start,
};
use opentelemetry_proto::tonic::collector::{
    logs::v1::ExportLogsServiceRequest, metrics::v1::ExportMetricsServiceRequest,
    trace::v1::ExportTraceServiceRequest,
};
use prost::Message as _;
use serde_json::{Value, json};
use subscope_testkit::fixtures::recording;

const JSON: &str = "content-type: application/json\r\n";
const PROTOBUF: &str = "content-type: application/x-protobuf\r\n";

#[test]
fn recorded_bodies_become_the_tree_of_their_session_in_any_encoding() {
    let truth = recording("2.1.330", "j-otel-nested").truth();
    let session = "78ab64e8-70c9-40a8-8a29-2204cf979037";
    for (way, is_gzip) in [("plain", false), ("gzip", true), ("chunked", false)] {
        let server = start();
        for (path, body) in bodies("j-otel-nested") {
            let body = body.to_string().into_bytes();
            let body = if is_gzip { gzip(&body) } else { body };
            let answer = if way == "chunked" {
                let address = server.address;
                let mut request = format!(
                    "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{JSON}transfer-encoding: chunked\r\n\r\n"
                )
                .into_bytes();
                for chunk in body.chunks(1_000) {
                    request.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
                    request.extend(chunk);
                    request.extend(b"\r\n");
                }
                request.extend(b"0\r\n\r\n");
                server.raw(request)
            } else {
                let coding = if is_gzip { "content-encoding: gzip\r\n" } else { "" };
                server.post_with(&path, &format!("{JSON}{coding}"), body)
            };
            assert_eq!((answer.status, answer.body.as_str()), (200, "{}"), "{way} {answer:?}");
            assert_eq!(answer.header("content-type"), Some("application/json"));
        }
        assert_eq!(sessions(&server), [session]);
        let tree = server.get(&format!("/api/v1/sessions/{session}/tree")).json();
        let rows = tree["agents"].as_array().unwrap();
        assert_eq!(rows.len(), truth.agents.len());
        for agent in &truth.agents {
            let row = rows.iter().find(|row| row["id"] == agent.id.as_str()).unwrap();
            let spawned_by = agent.spawned_by.as_deref().map_or(Value::Null, Value::from);
            assert_eq!(
                (row["depth"].as_u64(), &row["spawned_by"]),
                (Some(u64::from(agent.depth)), &spawned_by)
            );
        }
        assert_eq!(tree["summary"]["tool_calls"], 13);
        assert_eq!(tree["summary"]["usage"]["total_tokens"], 137_566);
        assert_eq!(tree["summary"]["unattributed_usage"]["total_tokens"], 0);
        assert_eq!(tree["problems"], json!([]));
        assert_eq!(metric(&server, "otlp_requests_total"), 27);
    }
}

/// Returns a request in protobuf, as opentelemetry-proto writes it.
fn encoded(path: &str, mut body: Value) -> Vec<u8> {
    without_nulls(&mut body);
    let wrong = |error: serde_json::Error| -> Vec<u8> { panic!("{path}: {error}") };
    match path {
        "/v1/traces" => serde_json::from_value(body)
            .map_or_else(wrong, |request: ExportTraceServiceRequest| request.encode_to_vec()),
        "/v1/logs" => serde_json::from_value(body)
            .map_or_else(wrong, |request: ExportLogsServiceRequest| request.encode_to_vec()),
        _ => serde_json::from_value(body)
            .map_or_else(wrong, |request: ExportMetricsServiceRequest| request.encode_to_vec()),
    }
}

#[test]
fn recorded_bodies_in_protobuf_give_the_tree_that_they_give_in_json() {
    let (json, protobuf) = (start(), start());
    for (path, body) in bodies("j-otel-nested") {
        assert_eq!(json.post_with(&path, JSON, body.to_string()).status, 200);
        let answer = protobuf.post_with(&path, PROTOBUF, encoded(&path, body));
        assert_eq!((answer.status, answer.body.as_str()), (200, ""), "{path}");
        assert_eq!(answer.header("content-type"), Some("application/x-protobuf"));
    }
    let path = "/api/v1/sessions/78ab64e8-70c9-40a8-8a29-2204cf979037/tree";
    let [expected, found] = [&json, &protobuf].map(|server| {
        let mut tree = server.get(path).json();
        // How often rows were derived.
        let rows = tree["agents"].as_array_mut().unwrap();
        rows.iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove("rev")));
        tree["session"].as_object_mut().unwrap().remove("rev");
        tree
    });
    assert_eq!(expected["summary"]["tool_calls"], 13);
    for part in ["session", "agents", "summary", "problems"] {
        assert_eq!(found[part], expected[part], "{part}");
    }
    for count in ["otlp_records_total", "otlp_records_foreign_total", "otlp_records_broken_total"] {
        assert_eq!(metric(&protobuf, count), metric(&json, count), "{count}");
    }
}

#[test]
fn same_body_twice_is_one_and_is_kept_byte_for_byte() {
    let server = start();
    let body = logs("claude-code", SCOPE, &[call("s", "t1")]).to_string();
    for _ in 0..3 {
        assert_eq!(server.post_with("/v1/logs", JSON, &body).status, 200);
    }
    assert_eq!((metric(&server, "ingests_total"), metric(&server, "ingest_repeats_total")), (1, 2));
    assert_eq!(metric(&server, "ingest_bytes_total"), body.len() as u64 + 1);
    assert_eq!(calls(&server, "s"), 1);
}

#[test]
fn body_of_several_sessions_and_programs_is_divided_and_foreign_records_are_kept_nowhere() {
    let server = start();
    let mut body = logs("claude-code", SCOPE, &[call("s1", "t1"), call("s2", "t2"), call("s1", "t3")]);
    let other = logs("nginx", "ngx", &[event("s3", "request", &[])]);
    body["resourceLogs"].as_array_mut().unwrap().push(other["resourceLogs"][0].clone());
    let nameless = logs("claude-code", SCOPE, &[json!({ "attributes": [] })]);
    body["resourceLogs"].as_array_mut().unwrap().push(nameless["resourceLogs"][0].clone());
    let answer = server.post_with("/v1/logs", JSON, body.to_string());
    assert_eq!((answer.status, answer.body.as_str()), (200, "{}"));
    assert_eq!(sessions(&server), ["s1", "s2"]);
    assert_eq!((calls(&server, "s1"), calls(&server, "s2")), (2, 1));
    assert_eq!(metric(&server, "otlp_records_total"), 3);
    assert_eq!(metric(&server, "otlp_records_foreign_total"), 2);
    let only_foreign = server.post_with("/v1/logs", JSON, other.to_string());
    assert_eq!((only_foreign.status, only_foreign.body.as_str()), (200, "{}"));
    assert_eq!((metric(&server, "ingests_total"), metric(&server, "otlp_records_foreign_total")), (2, 3));
}

#[test]
fn one_bad_record_is_a_problem_and_the_others_are_kept() {
    let server = start();
    let wrong = [
        json!({ "timeUnixNano": true, "attributes": [] }),
        json!({ "spanId": "xyz" }),
        json!({ "attributes": { "a": 1 } }),
        json!(7),
        Value::Null,
    ];
    let records: Vec<Value> = [call("s", "t1")].into_iter().chain(wrong).chain([call("s", "t2")]).collect();
    let answer = server.post_with("/v1/logs", JSON, logs("claude-code", SCOPE, &records).to_string());
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["partialSuccess"]["rejectedLogRecords"], "5");
    assert_eq!(calls(&server, "s"), 2);
    let tree = server.get("/api/v1/sessions/s/tree").json();
    assert_eq!(tree["problems"].as_array().unwrap().len(), 5, "{}", tree["problems"]);
    assert_eq!(metric(&server, "otlp_records_broken_total"), 5);
}

#[test]
fn null_counts_as_absent_and_numbers_may_be_texts() {
    let server = start();
    let span = json!({
        "traceId": "1b644c24eb5f76a0d11975a315f49d7c", "spanId": "2290f097559ba599", "parentSpanId": null,
        "name": "claude_code.tool", "kind": 1, "startTimeUnixNano": 1_795_293_870_083_000_000_u64,
        "endTimeUnixNano": "1795293870591218571", "events": [null], "links": null, "status": null, "futureField": {"x": [1]},
        "attributes": [
            { "key": "session.id", "value": { "stringValue": "s" } },
            { "key": "tool_use_id", "value": { "stringValue": "t1" } },
            { "key": "tool_name", "value": { "stringValue": "Bash" } },
            { "key": "duration_ms", "value": { "intValue": "508" } },
            { "key": "odd", "value": null }, null,
            { "key": "list", "value": { "arrayValue": { "values": [null, { "stringValue": null }, {}] } } },
            { "key": "none", "value": { "kvlistValue": { "values": null } } },
        ],
    });
    let scoped = |scope: Value| {
        json!({ "resourceSpans": [
        { "resource": null, "scopeSpans": [{ "scope": scope, "spans": [span.clone()] }], "schemaUrl": null },
        { "resource": { "attributes": null }, "scopeSpans": null },
    ], "unknown": 1 })
    };
    let body = scoped(json!({ "name": "com.anthropic.claude_code.tracing", "version": null }));
    let answer = server.post_with("/v1/traces", JSON, body.to_string());
    assert_eq!((answer.status, answer.body.as_str()), (200, "{}"), "{answer:?}");
    assert_eq!(calls(&server, "s"), 1);
    for empty in ["{}", r#"{"resourceSpans":null}"#, r#"{"resourceSpans":[]}"#] {
        assert_eq!(server.post_with("/v1/traces", JSON, empty).status, 200, "{empty}");
    }
    assert_eq!(server.post_with("/v1/metrics", PROTOBUF, "").status, 200, "an empty message");
}

fn is_untouched(server: &Running, answer: &HttpResponse, status: u16, what: &str) {
    assert_eq!(answer.status, status, "{what}: {answer:?}");
    assert_eq!(sessions(server), [""; 0], "{what}");
    assert_eq!(metric(server, "ingests_total"), 0, "{what}");
}

#[test]
fn what_is_no_request_is_refused_and_nothing_of_it_is_kept() {
    let server = start();
    let body = logs("claude-code", SCOPE, &[call("s", "t1")]).to_string();
    for bad in [
        "",
        "garbage",
        "[]",
        "7",
        "null\u{0}",
        "{\"resourceLogs\":5}",
        "{\"resourceLogs\":{}}",
        &body[..body.len() / 2],
        &body[..body.len() - 1],
    ] {
        is_untouched(&server, &server.post_with("/v1/logs", JSON, bad), 400, bad);
    }
    for bad in [&b"garbage"[..], &[0x0a, 0xff, 0xff], &[0x0a, 5, 1], b"{}"] {
        is_untouched(&server, &server.post_with("/v1/logs", PROTOBUF, bad), 400, &format!("{bad:?}"));
    }
    let coded = format!("{JSON}content-encoding: gzip\r\n");
    let whole = gzip(body.as_bytes());
    for bad in [body.as_bytes(), &whole[..whole.len() / 2], b""] {
        let answer = server.post_with("/v1/logs", &coded, bad);
        is_untouched(&server, &answer, 400, "not gzip");
    }
    for given in [
        "",
        "content-type: text/plain\r\n",
        "content-type: application/x-www-form-urlencoded\r\n",
        "content-type: application/x-ndjson\r\n",
        "content-type: application/json\r\ncontent-type: application/json\r\n",
        "content-type: application/json\r\ncontent-encoding: br\r\n",
        "content-type: application/json\r\ncontent-encoding: gzip\r\ncontent-encoding: gzip\r\n",
    ] {
        is_untouched(&server, &server.post_with("/v1/logs", given, &body), 415, given);
    }
    let foreign = server.post_with("/v1/logs", &format!("{JSON}origin: http://evil.example\r\n"), &body);
    is_untouched(&server, &foreign, 403, "another origin");
    for path in ["/v1/logs", "/v1/traces", "/v1/metrics"] {
        assert_eq!(server.get(path).status, 405);
    }
    assert_eq!(server.post_with("/v1/profiles", JSON, &body).status, 404);
    // The connection breaks off.
    let posting = server.posting("/v1/logs", JSON, body.as_bytes());
    let mut stream = server.connect();
    stream.write_all(&posting[..posting.len() - 10]).unwrap();
    drop(stream);
    is_untouched(&server, &server.post_with("/v1/logs", JSON, "no"), 400, "half a body before");
    assert_eq!(server.post_with("/v1/logs", JSON, &body).status, 200);
    assert_eq!(calls(&server, "s"), 1);
}

#[test]
fn bomb_is_cut_while_it_inflates() {
    let server = start();
    let zeros = vec![b' '; 65 << 20];
    let bomb = gzip(&zeros);
    assert!(bomb.len() < 1 << 20);
    let coded = format!("{JSON}content-encoding: gzip\r\n");
    is_untouched(&server, &server.post_with("/v1/logs", &coded, &bomb), 413, "bomb");
    // As many bytes, of which the first are no request.
    let fits = gzip(&zeros[..64 << 20]);
    is_untouched(&server, &server.post_with("/v1/logs", &coded, &fits), 400, "64 MiB of nothing");
    let address = server.address;
    let declared = server.raw(format!(
        "POST /v1/logs HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{JSON}content-length: {}\r\n\r\n",
        (64 << 20) + 1
    ));
    is_untouched(&server, &declared, 413, "declared");
}

#[test]
fn large_body_is_kept_in_parts_that_lose_nothing() {
    let server = start();
    let filler = "x".repeat(2_000);
    let records: Vec<Value> = (0..6_000)
        .map(|number| {
            let session = if number % 3 == 0 { "s1" } else { "s2" };
            let id = format!("t{number}");
            let more = [("tool_use_id", id.as_str()), ("tool_name", "Bash"), ("filler", &filler)];
            event(session, "tool_decision", &more)
        })
        .collect();
    let body = logs("claude-code", SCOPE, &records).to_string();
    assert!(body.len() > 12 << 20);
    let answer = server.post_with("/v1/logs", JSON, &body);
    assert_eq!((answer.status, answer.body.as_str()), (200, "{}"));
    assert_eq!((calls(&server, "s1"), calls(&server, "s2")), (2_000, 4_000));
    assert!(metric(&server, "ingests_total") > 2);
    assert_eq!(server.post_with("/v1/logs", JSON, &body).status, 200);
    assert_eq!((calls(&server, "s1"), calls(&server, "s2")), (2_000, 4_000));
}
