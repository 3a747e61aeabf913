//! OpenTelemetry over gRPC: what tonic's clients send and are answered, what is refused, and HTTP/1.1 on the same port.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    io::{Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    time::Duration,
};

use axum::body::Bytes;
use common::{
    Running,
    otlp::{SCOPE, bodies, call, calls, logs, metric, sessions, without_nulls},
    parse, start, start_at, start_with,
};
use http_body_util::{BodyExt as _, Full};
use hyper::{HeaderMap, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::{
    logs::v1::{ExportLogsServiceRequest, logs_service_client::LogsServiceClient},
    metrics::v1::{ExportMetricsServiceRequest, metrics_service_client::MetricsServiceClient},
    trace::v1::{ExportTraceServiceRequest, trace_service_client::TraceServiceClient},
};
use prost::Message as _;
use serde::de::DeserializeOwned;
use serde_json::Value;
use subscope_server::{Timeouts, Token};
use subscope_store::MemoryStore;
use tonic::{Code, codec::CompressionEncoding, transport::Channel};

const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const LOGS: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
const SESSION: &str = "78ab64e8-70c9-40a8-8a29-2204cf979037";

fn in_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

async fn channel(server: &Running) -> Channel {
    Channel::from_shared(format!("http://{}", server.address)).unwrap().connect().await.unwrap()
}

fn message<T: DeserializeOwned>(mut body: Value) -> T {
    without_nulls(&mut body);
    serde_json::from_value(body).unwrap()
}

/// Exports a body of a recording; returns whether all of it was kept.
async fn export(channel: Channel, path: &str, body: Value, is_gzip: bool) -> bool {
    macro_rules! sent {
        ($client:ident, $body:expr) => {{
            let mut client = $client::new(channel);
            if is_gzip {
                client = client.send_compressed(CompressionEncoding::Gzip);
            }
            client.export($body).await.unwrap().into_inner().partial_success.is_none()
        }};
    }
    match path {
        "/v1/traces" => sent!(TraceServiceClient, message::<ExportTraceServiceRequest>(body)),
        "/v1/logs" => sent!(LogsServiceClient, message::<ExportLogsServiceRequest>(body)),
        _ => sent!(MetricsServiceClient, message::<ExportMetricsServiceRequest>(body)),
    }
}

/// The tree without how often its rows were derived.
fn tree(server: &Running) -> Value {
    let mut tree = server.get(&format!("/api/v1/sessions/{SESSION}/tree")).json();
    let rows = tree["agents"].as_array_mut().unwrap();
    rows.iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove("rev")));
    tree["session"].as_object_mut().unwrap().remove("rev");
    for computed in ["feed", "as_of", "now"] {
        tree.as_object_mut().unwrap().remove(computed);
    }
    tree
}

#[test]
fn recorded_session_over_grpc_is_the_tree_that_it_is_over_http() {
    let over_http = start();
    for (path, body) in bodies("j-otel-nested") {
        let answer = over_http.post(&path, body.to_string());
        assert_eq!(answer.status, 200);
    }
    let expected = tree(&over_http);
    assert_eq!(expected["summary"]["tool_calls"], 13);
    for is_gzip in [false, true] {
        let server = start();
        in_runtime(async {
            let channel = channel(&server).await;
            for (path, body) in bodies("j-otel-nested") {
                assert!(export(channel.clone(), &path, body, is_gzip).await, "{path}");
            }
        });
        let found = tree(&server);
        for part in ["session", "agents", "summary", "problems"] {
            assert_eq!(found[part], expected[part], "{part}, gzip {is_gzip}");
        }
        for count in ["otlp_requests_total", "otlp_records_total", "otlp_records_foreign_total"] {
            assert_eq!(metric(&server, count), metric(&over_http, count), "{count}");
        }
    }
}

#[test]
fn exports_that_share_a_connection_are_all_kept() {
    let server = start();
    in_runtime(async {
        let channel = channel(&server).await;
        let all: Vec<_> = (0..100)
            .map(|number| {
                let body = logs("claude-code", SCOPE, &[call("s", &format!("t{number}"))]);
                tokio::spawn(export(channel.clone(), "/v1/logs", body, number % 2 == 0))
            })
            .collect();
        for one in all {
            assert!(one.await.unwrap());
        }
    });
    assert_eq!(calls(&server, "s"), 100);
    // More arrived than one connection may have open; the metrics come over another.
    assert_eq!(metric(&server, "otlp_requests_total"), 100);
}

#[test]
fn unreadable_record_is_counted_in_the_answer_and_the_others_are_kept() {
    let server = start();
    let mut request: ExportLogsServiceRequest =
        message(logs("claude-code", SCOPE, &[call("s", "t1"), call("s", "t2")]));
    // 3 bytes are no span id.
    request.resource_logs[0].scope_logs[0].log_records[0].span_id = vec![1, 2, 3];
    let answer =
        in_runtime(async { LogsServiceClient::new(channel(&server).await).export(request).await.unwrap() });
    let partial = answer.into_inner().partial_success.unwrap();
    assert_eq!(partial.rejected_log_records, 1, "{partial:?}");
    assert_eq!((calls(&server, "s"), metric(&server, "otlp_records_broken_total")), (1, 1));
}

/// Answer to a request over HTTP/2: its status, headers and trailers.
struct Answer {
    status: u16,
    fields: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// Sends exact bytes over HTTP/2.
fn send(server: &Running, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Answer {
    let uri = format!("http://{}{path}", server.address);
    send_to(server, &uri, headers, body)
}

fn send_to(server: &Running, uri: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Answer {
    let mut request = Request::post(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    in_runtime(async {
        let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.unwrap();
        drop(tokio::spawn(connection));
        let answer = sender.send_request(request).await.unwrap();
        let (head, body) = answer.into_parts();
        let collected = body.collect().await.unwrap();
        let mut fields = head.headers;
        fields.extend(collected.trailers().cloned().unwrap_or_default());
        Answer { status: head.status.as_u16(), fields, body: collected.to_bytes() }
    })
}

const GRPC: (&str, &str) = ("content-type", "application/grpc");

fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    [&[flag][..], &u32::try_from(message.len()).unwrap().to_be_bytes(), message].concat()
}

fn one_call() -> Vec<u8> {
    message::<ExportLogsServiceRequest>(logs("claude-code", SCOPE, &[call("s", "t1")])).encode_to_vec()
}

#[test]
fn what_is_no_message_gets_its_status_and_nothing_of_it_is_kept() {
    let server = start();
    let good = framed(0, &one_call());
    let gzip: &[(&str, &str)] = &[GRPC, ("grpc-encoding", "gzip")];
    let cut = good[..good.len() - 1].to_vec();
    let twice = good.repeat(2);
    let cases = [
        (&[GRPC][..], Vec::new(), Code::InvalidArgument, "no message"),
        (&[GRPC], vec![0; 4], Code::InvalidArgument, "half a prefix"),
        (&[GRPC], cut, Code::InvalidArgument, "a message that is cut"),
        (&[GRPC], twice, Code::InvalidArgument, "two messages"),
        (&[GRPC], framed(2, &one_call()), Code::InvalidArgument, "an unknown flag"),
        (&[GRPC], framed(0, b"garbage"), Code::InvalidArgument, "no protobuf"),
        (&[GRPC], framed(1, b"garbage"), Code::InvalidArgument, "compressed, and nothing says how"),
        (gzip, framed(1, b"garbage"), Code::InvalidArgument, "no gzip"),
        (&[GRPC, ("grpc-encoding", "br")], good.clone(), Code::Unimplemented, "another compression"),
        (&[("content-type", "application/grpc+json")], good.clone(), Code::Unimplemented, "JSON"),
    ];
    for (headers, body, code, what) in cases {
        let answer = send(&server, LOGS, headers, body);
        let found = (answer.status, answer.field("grpc-status"), answer.body.len());
        assert_eq!(found, (200, (code as i32).to_string().as_str(), 0), "{what}: {:?}", answer.fields);
        assert!(!answer.field("grpc-message").is_empty(), "{what}");
        assert_eq!(metric(&server, "ingests_total"), 0, "{what}");
    }
    for headers in [&[][..], &[("content-type", "text/plain")]] {
        assert_eq!(send(&server, LOGS, headers, good.clone()).status, 415, "a form");
    }
    assert_eq!(metric(&server, "ingests_total"), 0, "no call at all");
    // A client may announce a compression and not use it.
    for headers in [&[GRPC][..], gzip, &[("content-type", "application/grpc+proto")]] {
        let answer = send(&server, LOGS, headers, good.clone());
        assert_eq!((answer.status, answer.field("grpc-status"), &answer.body[..]), (200, "0", &[0; 5][..]));
    }
    assert_eq!(calls(&server, "s"), 1);
}

#[test]
fn message_above_the_limit_is_not_sent_again() {
    let server = start();
    for (flag, headers) in [(0, &[GRPC][..]), (1, &[GRPC, ("grpc-encoding", "gzip")])] {
        let zeros = vec![0; (64 << 20) + 1];
        let body = if flag == 0 { zeros } else { common::otlp::gzip(&zeros) };
        let answer = send(&server, TRACES, headers, framed(flag, &body));
        assert_eq!(answer.field("grpc-status"), (Code::ResourceExhausted as i32).to_string());
    }
    assert_eq!(metric(&server, "ingests_total"), 0);
}

#[test]
fn http2_has_the_routes_of_opentelemetry_alone_and_the_same_guard() {
    let server = start();
    let body = one_call();
    let protobuf = ("content-type", "application/x-protobuf");
    let over_http = send(&server, "/v1/logs", &[protobuf], body.clone());
    assert_eq!((over_http.status, calls(&server, "s")), (200, 1));
    for path in ["/", "/healthz", "/api/v1/sessions", "/hooks/claude-code", "/x.TraceService/Export", "/ws"] {
        assert_eq!(send(&server, path, &[], body.clone()).status, 404, "{path}");
        let call = send(&server, path, &[GRPC], framed(0, &body));
        assert_eq!(call.field("grpc-status"), (Code::Unimplemented as i32).to_string(), "{path}");
    }
    let denied = (Code::PermissionDenied as i32).to_string();
    let origin = send(&server, LOGS, &[GRPC, ("origin", "http://evil.example")], framed(0, &body));
    assert_eq!(origin.field("grpc-status"), denied);
    let port = server.address.port();
    let elsewhere = send_to(&server, &format!("http://evil.example:{port}{LOGS}"), &[GRPC], framed(0, &body));
    assert_eq!(elsewhere.field("grpc-status"), denied);
    let by_name = send_to(&server, &format!("http://localhost:{port}{LOGS}"), &[GRPC], framed(0, &body));
    assert_eq!((by_name.status, by_name.field("grpc-status")), (200, "0"));
    // gRPC needs trailers, which HTTP/1.1 would drop.
    assert_eq!(server.post_with(LOGS, "content-type: application/grpc\r\n", framed(0, &body)).status, 404);
    assert_eq!(sessions(&server), ["s"]);
}

#[test]
fn token_of_the_server_is_needed_over_grpc() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let token = Token::of_file(&path).unwrap();
    let heartbeat = Duration::from_secs(10);
    let server =
        start_at(([127, 0, 0, 1], 0).into(), Some(token), MemoryStore::new(), Timeouts::default(), heartbeat);
    let request = || message::<ExportLogsServiceRequest>(logs("claude-code", SCOPE, &[call("s", "t1")]));
    in_runtime(async {
        let mut client = LogsServiceClient::new(channel(&server).await);
        let refused = client.export(request()).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
        let mut with_token = tonic::Request::new(request());
        let bearer = "Bearer 0123456789abcdef0123456789abcdef".parse().unwrap();
        with_token.metadata_mut().insert("authorization", bearer);
        client.export(with_token).await.unwrap();
    });
}

#[test]
fn first_bytes_may_arrive_in_parts_and_silence_ends_a_connection() {
    let timeouts = Timeouts { head: Duration::from_secs(1), ..Timeouts::default() };
    let server = start_with(MemoryStore::new(), timeouts, Duration::from_secs(10));
    let pause = || std::thread::sleep(Duration::from_millis(30));
    // `P` begins both.
    let request = server.posting("/v1/logs", "content-type: application/json\r\n", b"{}");
    let mut stream = server.connect();
    for part in [&request[..1], &request[1..3], &request[3..]] {
        stream.write_all(part).unwrap();
        pause();
    }
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    assert_eq!(parse(&bytes).status, 200);
    let mut stream = server.connect();
    // An empty frame of settings follows the preface.
    for part in [&b"P"[..], b"RI", b" * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[0, 0, 0, 4, 0, 0, 0, 0, 0]] {
        stream.write_all(part).unwrap();
        pause();
    }
    let mut settings = [0; 9];
    stream.read_exact(&mut settings).unwrap();
    assert_eq!(settings[3], 4, "the server's settings: {settings:?}");
    for start in [&b""[..], b"P", b"PRI"] {
        let mut silent = server.connect();
        silent.write_all(start).unwrap();
        assert_eq!(silent.read_to_end(&mut Vec::new()).unwrap_or(0), 0, "{start:?}");
    }
}
