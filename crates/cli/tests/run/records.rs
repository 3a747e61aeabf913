//! OpenTelemetry records that the command's programs send to the run.

use serde_json::{Value, json as value};
use subscope_testkit::frameworks::{FrameworkRecording, framework_recordings};

use super::*;
use crate::{common::serving::posting, posting::Posting};

fn recorded(name: &str) -> FrameworkRecording {
    framework_recordings().into_iter().find(|recording| recording.name == name).unwrap()
}

fn send(to: &Posting, requests: &[String]) {
    for request in requests {
        let post = posting(&to.address, "/v1/traces", "", request.as_bytes());
        assert_eq!(to.request(&post), (200, "{}".to_owned()));
    }
}

/// The row of each agent, but for times of the machine.
fn rows(tree: &Value) -> Vec<Value> {
    let names =
        ["id", "parent_id", "spawned_by", "type", "status", "tool_calls", "usage", "prompt", "result"];
    let row = |row: &Value| names.iter().map(|name| row[*name].clone()).collect();
    tree["agents"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn spans_of_the_command_are_shown_recorded_and_kept_as_they_are_from_a_file() {
    let recording = recorded("pydantic-ai.native");
    let env = env();
    let file = env.write("work/spans.jsonl", recording.requests.join("\n"));
    let expected = json(&env.run(&["tree", file.to_str().unwrap(), "--json"]).success());
    assert_eq!(rows(&expected).len(), 4);
    let posting = Posting::start(&env, "--iterations 1 --detail moderate", None);
    send(&posting, &recording.requests);
    let errors = posting.end();
    for words in ["✓ alpha", "✓ gamma", "✗ lookup", "Agent Tree (3)"] {
        assert!(errors.contains(words), "{words} in\n{errors}");
    }
    let sessions = json(&env.run(&["ls", "--json"]).success());
    let id = &expected["session"]["id"];
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1, "{sessions}");
    assert_eq!(&sessions["sessions"][0]["id"], id);
    let record = json(&env.run(&["ls", "--iterations", "--json"]).success())["iterations"][0].clone();
    assert_eq!(&record["session_id"], id);
    for target in ["last", record["folder"].as_str().unwrap()] {
        let found = json(&env.run(&["tree", target, "--json"]).success());
        assert_eq!(rows(&found), rows(&expected), "{target}");
    }
}

#[test]
fn agents_whose_spans_never_came_have_ended_with_the_command() {
    let recording = recorded("pydantic-ai.native");
    let env = env();
    let posting = Posting::start(&env, "", None);
    // The spans of the main agent, of `alpha` and of `gamma` come last.
    send(&posting, &recording.requests[..recording.requests.len() / 2]);
    posting.end();
    let tree = json(&env.run(&["tree", "last", "--json"]).success());
    let agents = tree["agents"].as_array().unwrap();
    assert_eq!((&agents[0]["status"], &agents[0]["evidence"]), (&"failed".into(), &"exit code 5".into()));
    assert!(agents.iter().any(|row| row["status"] == "lost"), "{agents:#?}");
    assert!(agents.iter().all(|row| row["status"] != "running"), "{agents:#?}");
    let sessions = json(&env.run(&["ls", "--json"]).success());
    assert_eq!(sessions["sessions"][0]["status"], "ended");
}

#[test]
fn records_of_a_run_that_keeps_nothing_are_shown_alone() {
    let env = env();
    let posting = Posting::start(&env, "--no-store", None);
    send(&posting, &recorded("strands.native").requests);
    assert!(posting.end().contains("✓ alpha"));
    assert!(!env.path("data/subscope").exists(), "--no-store keeps nothing");
}

/// What a command of a run finds in its environment.
fn variables(env: &TestEnv, command: &str, given: &[(&str, &str)]) -> Value {
    let script = "printf '%s|%s|%s' \"$OTEL_EXPORTER_OTLP_ENDPOINT\" \"$OTEL_BSP_SCHEDULE_DELAY\" \
        \"$CPE_SUBAGENT_LOGGING_ADDRESS\"";
    let path = env.write(&format!("bin/{command}"), format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let mut run = env.command();
    run.args(["run", "--no-store", "--"]).arg(path);
    run.env_remove("OTEL_EXPORTER_OTLP_ENDPOINT").env_remove("OTEL_BSP_SCHEDULE_DELAY");
    run.envs(given.iter().copied());
    let printed = subscope_testkit::env::run(run, b"").stdout;
    let [endpoint, delay, events] = printed.split('|').collect::<Vec<_>>()[..] else { panic!("{printed}") };
    value!({ "endpoint": endpoint, "is_own": !endpoint.is_empty() && endpoint == events, "delay": delay })
}

#[test]
fn variables_point_programs_at_the_run_unless_they_point_elsewhere_already() {
    let env = env();
    let found = variables(&env, "agents.py", &[]);
    assert_eq!((&found["is_own"], &found["delay"]), (&true.into(), &"500".into()), "{found}");
    let slow = variables(&env, "agents.py", &[("OTEL_BSP_SCHEDULE_DELAY", "9000")]);
    assert_eq!((&slow["is_own"], &slow["delay"]), (&true.into(), &"9000".into()), "{slow}");
    let elsewhere = "http://collector.example:4318";
    let kept = variables(&env, "agents.py", &[("OTEL_EXPORTER_OTLP_ENDPOINT", elsewhere)]);
    assert_eq!((&kept["endpoint"], &kept["delay"]), (&elsewhere.into(), &"".into()));
    let traces = variables(&env, "agents.py", &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", elsewhere)]);
    assert_eq!(traces["endpoint"], "");
    // A harness is observed in another way, and may send its records where its user wants them.
    assert_eq!(variables(&env, "codex", &[])["endpoint"], "");
    // The outer run takes the records of an inner one.
    let outer = Posting::start(&env, "--no-store", None);
    let url = format!("http://{}", outer.address);
    let inner = variables(&env, "agents.py", &[("CPE_SUBAGENT_LOGGING_ADDRESS", url.as_str())]);
    assert_eq!((&inner["endpoint"], &inner["is_own"]), (&url.as_str().into(), &false.into()));
    outer.end();
}
