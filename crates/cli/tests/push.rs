//! `export --as otlp --to URL`: a receiver that takes, delays, refuses, drops, and is asked again.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{collections::BTreeSet, sync::mpsc, time::Duration};

use common::{
    env, json, json_lines,
    receiver::{Answer, Received, Receiver, TAKEN},
    run,
    serving::Serving,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message as _;
use serde_json::Value;
use subscope_testkit::{
    env::TestEnv,
    fixtures::{recording, recordings},
};

fn main_of(scenario: &str) -> std::path::PathBuf {
    recording("2.1.330", scenario).mains()[0].clone()
}

/// The ids of all spans of a session, as a file has them.
fn ids_in_file(env: &TestEnv, scenario: &str) -> Vec<String> {
    let lines = run(env, "export --as otlp", &[&main_of(scenario)]).success();
    let requests = json_lines(&lines);
    let scopes = requests.iter().map(|request| &request["resourceSpans"][0]["scopeSpans"][0]);
    scopes
        .flat_map(|scope| scope["spans"].as_array().unwrap().clone())
        .map(|span| span["spanId"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn push_sends_protobuf_in_gzip_with_headers_to_the_path_of_traces() {
    let env = env();
    let receiver = Receiver::start(Vec::new(), None);
    let words = format!("export --as otlp --to {} --header api-key=a=b --header x-tenant=t", receiver.url);
    let ran = run(&env, &words, &[&main_of("c-nested")]);
    let ids = ids_in_file(&env, "c-nested");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let said = format!("{} spans in 1 requests pushed to {}/v1/traces", ids.len(), receiver.url);
    assert_eq!((ran.stdout.as_str(), ran.stderr.trim()), ("", said.as_str()));
    let all = receiver.all();
    assert_eq!((all.len(), all[0].path.as_str()), (1, "/v1/traces"));
    for header in
        ["content-type: application/x-protobuf", "content-encoding: gzip", "api-key: a=b", "x-tenant: t"]
    {
        assert!(all[0].has(header), "{header}: {:?}", all[0].headers);
    }
    assert_eq!(all[0].span_ids(), ids);
}

#[test]
fn passing_errors_are_tried_again_after_the_time_that_is_asked_for() {
    let env = env();
    let answers = vec![
        Answer::With(429, "retry-after: 0\r\n", b"slow down".to_vec()),
        Answer::With(503, "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n", Vec::new()),
        Answer::Drop,
    ];
    let receiver = Receiver::start(answers, None);
    let ran = run(&env, &format!("export --as otlp --to {}", receiver.url), &[&main_of("c-nested")]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let all = receiver.all();
    assert_eq!(all.len(), 4);
    assert!(all.iter().all(|received| received.request == all[0].request), "each time the same");
}

#[test]
fn a_receiver_that_never_takes_it_ends_the_command_with_its_answer() {
    let env = env();
    let busy = || Answer::With(502, "retry-after: 0\r\n", b"no upstream\nmore".to_vec());
    let receiver = Receiver::start((0..9).map(|_| busy()).collect(), None);
    let ran = run(&env, &format!("export --as otlp --to {}", receiver.url), &[&main_of("c-nested")]);
    let said = format!("{}/v1/traces answered 502: no upstream", receiver.url);
    assert!(ran.code == Some(1) && ran.stderr.contains(&said) && !ran.stderr.contains("more"), "{ran:?}");
    assert_eq!(receiver.all().len(), 5, "once and four times again");
}

#[test]
fn a_refusal_is_not_tried_again() {
    let env = env();
    for (status, body) in [(401, "who are you?"), (400, "bad"), (404, ""), (307, "")] {
        let answer = Answer::With(status, "location: http://127.0.0.1:1/\r\n", body.as_bytes().to_vec());
        let receiver = Receiver::start(vec![answer], None);
        let ran = run(&env, &format!("export --as otlp --to {}", receiver.url), &[&main_of("c-nested")]);
        let said = format!("{}/v1/traces answered {status}", receiver.url);
        assert!(ran.code == Some(1) && ran.stderr.contains(&said) && ran.stderr.contains(body), "{ran:?}");
        assert_eq!(receiver.all().len(), 1, "{status}");
    }
}

#[test]
fn spans_are_pushed_in_halves_to_a_receiver_of_small_requests() {
    let env = env();
    let ids: BTreeSet<String> = ids_in_file(&env, "c-nested").into_iter().collect();
    let too_large = || Answer::With(413, "", b"too large".to_vec());
    // The whole and its first half.
    let receiver = Receiver::start(vec![too_large(), too_large()], None);
    let ran = run(&env, &format!("export --as otlp --to {}", receiver.url), &[&main_of("c-nested")]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let taken: Vec<Received> = receiver.all().into_iter().skip(2).collect();
    assert_eq!(taken.len(), 3, "a half and two quarters");
    let sent: Vec<String> = taken.iter().flat_map(Received::span_ids).collect();
    assert_eq!((sent.len(), sent.into_iter().collect::<BTreeSet<_>>()), (ids.len(), ids.clone()));

    let receiver = Receiver::start((0..9 * ids.len()).map(|_| too_large()).collect(), None);
    let ran = run(&env, &format!("export --as otlp --to {}", receiver.url), &[&main_of("c-nested")]);
    let said = format!("takes no request as large as {} of the spans", ids.len());
    assert!(ran.code == Some(1) && ran.stderr.contains(&said), "{ran:?}");
}

#[test]
fn receivers_on_this_machine_are_reached_without_the_proxy_and_others_name_it() {
    let env = env();
    let proxy = ("HTTP_PROXY", "http://user:secret@127.0.0.1:9");
    let receiver = Receiver::start(Vec::new(), None);
    let push = |url: &str| {
        let mut command = env.command();
        command.args(["export", "--as", "otlp", "--to", url]).arg(main_of("c-nested")).env(proxy.0, proxy.1);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = push(&receiver.url);
    assert!(code == Some(0) && receiver.all().len() == 1, "{said}");
    let (code, said) = push("http://receiver.invalid:4318");
    assert!(
        code == Some(1) && said.contains("through the proxy 127.0.0.1:9") && !said.contains("secret"),
        "{said}"
    );
}

#[test]
fn spans_that_a_receiver_rejects_are_said() {
    let env = env();
    let partial = ExportTracePartialSuccess { rejected_spans: 7, error_message: "too old".to_owned() };
    let answer = ExportTraceServiceResponse { partial_success: Some(partial) };
    let receiver = Receiver::start(vec![Answer::With(200, "", answer.encode_to_vec())], None);
    let ran = run(&env, &format!("export --as otlp --to {}", receiver.url), &[&main_of("c-nested")]);
    assert!(ran.code == Some(0) && ran.stderr.contains("rejected 7 spans: too old"), "{ran:?}");
}

#[test]
fn wrong_options_are_said_before_anything_is_read() {
    let env = env();
    for words in [
        "export last --as otlp --to localhost:4318",
        "export last --as trace --to http://localhost",
        "export last --as trace --content",
        "export --all --as trace",
        "export last --as otlp --header a=b",
        "export last --as otlp --to http://localhost --header ab",
        "export last --as otlp --to http://localhost --header a:b=c",
        "export last --all --as otlp",
        "export last --since -1d --as otlp",
    ] {
        assert_eq!(run(&env, words, &[]).code, Some(2), "{words}");
    }
}

#[test]
fn all_sessions_are_pushed_and_a_killed_push_goes_on() {
    let env = env();
    let scenarios = ["c-nested", "b-parallel", "d-background"];
    scenarios.iter().for_each(|scenario| env.adopt(&recording("2.1.330", scenario)));
    let expected: BTreeSet<String> =
        scenarios.iter().flat_map(|scenario| ids_in_file(&env, scenario)).collect();
    let (news, heard) = mpsc::sync_channel(64);
    let receiver = Receiver::start(vec![TAKEN, Answer::Hang], Some(news));
    let mut command = env.command();
    command.args(["export", "--all", "--as", "otlp", "--to", &receiver.url]);
    let mut child = command.spawn().unwrap();
    for _ in 0..2 {
        heard.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = receiver.all();
    assert_eq!(before.len(), 2, "it was killed in the second request");
    let again = Receiver::start(Vec::new(), None);
    let ran = run(&env, &format!("export --all --as otlp --to {}", again.url), &[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let all = again.all();
    assert_eq!(all.len(), 3, "one request for each session");
    let ids: Vec<String> = all.iter().flat_map(Received::span_ids).collect();
    assert_eq!((ids.len(), ids.iter().cloned().collect()), (expected.len(), expected));
    assert_eq!(before[0].request, all[0].request, "what was pushed before is the same");
    let refused = Receiver::start(vec![TAKEN, Answer::With(400, "", Vec::new())], None);
    let ran = run(&env, &format!("export --all --as otlp --to {}", refused.url), &[]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let since = ran.stderr.split("--since ").nth(1).unwrap().split(": ").next().unwrap().to_owned();
    let rest = Receiver::start(Vec::new(), None);
    let words = format!("export --all --since {since} --as otlp --to {}", rest.url);
    assert_eq!(run(&env, &words, &[]).code, Some(0), "{words}");
    let all: Vec<ExportTraceServiceRequest> = all.into_iter().map(|received| received.request).collect();
    let left: Vec<ExportTraceServiceRequest> =
        rest.all().into_iter().map(|received| received.request).collect();
    assert_eq!(left, all[1..], "the hint names where it goes on");
}

/// Data of an agent that a hub must derive from its spans: identity, parent, calls and usage.
fn agents(tree: &Value) -> Vec<Value> {
    const FIELDS: [&str; 8] =
        ["id", "parent_id", "spawned_by", "depth", "status", "tool_calls", "messages", "usage"];
    let of = |agent: &Value| FIELDS.iter().map(|field| agent[field].clone()).collect();
    tree["agents"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn sessions_pushed_to_a_hub_have_their_trees_there_once() {
    let mut pushed = 0;
    for main in recordings().iter().flat_map(|recording| recording.mains()) {
        // Each has a hub of its own: recordings share ids of the scripted model, which one hub takes for copies.
        let env = env();
        let hub = Serving::start(&env, "");
        let words = format!("export --as otlp --to http://{}", hub.address);
        let tree = json(&run(&env, "tree --json", &[&main]).success());
        for _ in 0..2 {
            run(&env, &words, &[&main]).success();
        }
        let session = tree["session"]["id"].as_str().unwrap();
        let received = hub.tree(session).unwrap_or_else(|| panic!("{session} was not received"));
        assert_eq!(agents(&received), agents(&tree), "{}", main.display());
        assert_eq!(received["problems"], Value::Array(Vec::new()), "{}", main.display());
        pushed += 1;
        hub.end("-TERM");
    }
    assert!(pushed > 40, "{pushed}");
}

#[test]
fn contents_pushed_to_a_hub_are_found_there() {
    let env = env();
    let main = main_of("c-nested");
    let hub = Serving::start(&env, "");
    run(&env, &format!("export --as otlp --content --to http://{}", hub.address), &[&main]).success();
    let tree = json(&run(&env, "tree --json", &[&main]).success());
    let session = tree["session"]["id"].as_str().unwrap();
    for agent in &tree["agents"].as_array().unwrap()[1..] {
        let words = agent["description"].as_str().unwrap().split_whitespace();
        let word = words.max_by_key(|word| word.len()).unwrap();
        let found = run(&env, &format!("search {word} --session {session} --json"), &[]).success();
        let hits = json(&found)["hits"].as_array().unwrap().clone();
        let is_its_call = |hit: &&Value| {
            let excerpt = hit["excerpt"].as_str().unwrap().to_lowercase();
            hit["kind"] == "tool input" && excerpt.contains(&word.to_lowercase())
        };
        let hit = hits.iter().find(is_its_call).unwrap_or_else(|| panic!("{word}: {found}"));
        assert!(hit["path"].as_str().unwrap().starts_with("inbox/"), "{hit}");
        for (field, kind) in [("prompt", "prompt"), ("result", "message")] {
            let text = agent[field].as_str().unwrap_or_else(|| panic!("no {field}: {agent}"));
            let word =
                text.split(|c: char| !c.is_ascii_alphanumeric()).max_by_key(|word| word.len()).unwrap();
            let found = run(&env, &format!("search {word} --session {session} --json"), &[]).success();
            let hits = json(&found)["hits"].as_array().unwrap().clone();
            let own = hits.iter().filter(|hit| hit["kind"] == kind && hit["agent_id"] == agent["id"]);
            assert_eq!(own.count(), 1, "{field} of {}: {word}: {found}", agent["id"]);
        }
    }
    hub.end("-TERM");
}
