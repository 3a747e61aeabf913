//! Data of the page in addition to rows, from the real program: past states, complete feeds, downloads.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{fs, os::unix::fs::PermissionsExt, thread, time::Duration};

use common::{
    env, json,
    serving::{LIMIT, Serving, Sources},
};
use serde_json::Value;
use subscope_hub::clock;
use subscope_testkit::fixtures::recording;

/// The compared fields of a feed: all but positions, which are local to one log.
fn events(feed: &str) -> Vec<Value> {
    let lines = feed.lines().map(json);
    lines.map(|mut event| (event["seq"] = Value::Null, event).1).collect()
}

#[test]
fn feed_and_moments_of_a_session_are_those_of_its_files() {
    let env = env();
    let nested = recording("2.1.330", "c-nested");
    env.adopt(&nested);
    let session = nested.truth().session.id;
    let serving = Serving::start(&env, "");
    serving.has_read();
    let told = serving.json(&format!("/api/v1/sessions/{session}/feed?limit=50000"));
    let exported = env.run(&["export", &session, "--as", "feed"]).success();
    let mut own: Vec<Value> = told["events"].as_array().unwrap().clone();
    own.iter_mut().for_each(|event| event["seq"] = Value::Null);
    assert_eq!(own, events(&exported));
    let whole = serving.tree(&session).unwrap();
    let [from, to] = ["started_at_ms", "ended_at_ms"].map(|at| whole["session"][at].as_i64().unwrap());
    for share in [1, 2, 3] {
        let at = from + (to - from) * share / 4;
        let then = serving.json(&format!("/api/v1/sessions/{session}/tree?at={at}"));
        let time = subscope_model::iso8601(at);
        let cold = json(&env.run(&["tree", &session, "--json", "--at", &time]).success());
        assert_eq!(then["agents"], cold["agents"], "a quarter {share}");
    }
    serving.end("-TERM");
}

#[test]
fn what_was_only_handed_over_is_told_anew_too() {
    let sources = Sources::nested();
    let env = env();
    let serving = Serving::start(&env, "");
    for line in sources.lines("hooks.jsonl") {
        serving.post("/hooks/claude", "", &line);
    }
    let log = serving.json(&format!("/api/v1/sessions/{}/events?limit=10000", sources.session));
    let feed = serving.json(&format!("/api/v1/sessions/{}/feed?limit=10000", sources.session));
    let calls = |page: &Value| -> Vec<Value> {
        let events = page["events"].as_array().unwrap().iter();
        let mut ids: Vec<Value> =
            events.filter(|event| event["kind"] == "tool.pre").map(|event| event["id"].clone()).collect();
        ids.sort_by_key(ToString::to_string);
        ids
    };
    assert!(calls(&feed).len() > 5);
    assert_eq!(calls(&feed), calls(&log));
    serving.end("-TERM");
}

#[test]
fn page_in_one_file_masks_secrets_unless_told_otherwise() {
    let env = env();
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz012345";
    let line = format!(
        r#"{{"type":"user","uuid":"u1","sessionId":"s1","timestamp":"2026-11-22T10:00:00Z","message":{{"role":"user","content":"the token is {secret} </script>"}},"version":"2.1.330","cwd":"/x"}}"#
    );
    let file = env.write("work/s1.jsonl", format!("{line}\n"));
    let file = file.to_str().unwrap();
    let page = env.run(&["export", file, "--as", "html"]).success();
    assert!(page.starts_with("<!doctype html>") && page.contains("the token is [redacted]"), "{page:.200}");
    assert!(!page.contains(secret));
    assert!(page.contains("\\u003c/script>"), "nothing that is said ends the element that it stands in");
    env.run(&["export", file, "--as", "html", "--no-redact", "-o", "whole.html"]).success();
    assert!(fs::read_to_string(env.path("work/whole.html")).unwrap().contains(secret));
    let table = env.run(&["export", file, "--as", "csv"]).success();
    assert_eq!(table.lines().count(), 2, "{table}");
    assert!(table.lines().nth(1).unwrap().starts_with("s1,root,"), "{table}");
}

#[test]
fn what_the_page_saves_is_masked_where_that_is_asked_for() {
    let env = env();
    let secret = format!("ghp{}", "_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let serving = Serving::start(&env, "");
    let post = |kind: &str, payload: &str| {
        let event = serde_json::json!({
            "type": kind, "subagentName": "coder", "subagentRunId": "r1", "sessionId": "s1",
            "timestamp": clock::now_ms(), "payload": payload,
        });
        serving.post("/subagent-events", "", event.to_string().as_bytes());
    };
    post("subagent_start", &format!("use\n{secret}"));
    post("thought_trace", &format!("it is\n{secret}"));
    post("subagent_end", &format!("used\n{secret}"));
    for (form, query, is_masked) in [
        ("html", "", true),
        ("html", "&redact=false", false),
        ("trace", "", false),
        ("trace", "&redact=true", true),
        ("csv", "", false),
        ("csv", "&redact=true", true),
    ] {
        let (_, file) = serving.get(&format!("/api/v1/sessions/s1/export?as={form}{query}"));
        assert_eq!(file.contains(&secret), !is_masked, "{form} {query}");
        assert_eq!(file.contains("[redacted]"), is_masked, "{form} {query}");
    }
    serving.end("-TERM");
}

#[test]
fn open_shows_the_page_of_the_hub_that_runs() {
    let env = env();
    let opener = env.write("bin/xdg-open", "#!/bin/sh\necho \"$1\" >> \"$OPENED\"\n");
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(&opener, opener.with_file_name("open")).unwrap();
    let opened = env.path("opened");
    let command = |words: &[&str]| {
        let mut command = env.command();
        let path = format!("{}:/usr/bin:/bin", opener.parent().unwrap().display());
        command.args(words).env("PATH", path).env("OPENED", &opened);
        command
    };
    let lines = |count: usize| {
        let began = clock::tick();
        loop {
            let text = fs::read_to_string(&opened).unwrap_or_default();
            if text.lines().count() >= count {
                return text;
            }
            assert!(began.elapsed() < LIMIT, "{text:?}");
            thread::sleep(Duration::from_millis(5));
        }
    };
    let serving = Serving::start_as(command(&["serve", "--listen", "127.0.0.1:0", "--open"]));
    let url = format!("http://{}", serving.address);
    assert_eq!(lines(1).trim(), url);
    let again = command(&["serve", "--open"]).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(String::from_utf8_lossy(&again.stdout).trim(), url);
    assert_eq!(lines(2).lines().nth(1), Some(&*url));
    serving.end("-TERM");
}
