//! Connections over ACP: the log alone says less than the files that the agent wrote meanwhile and never something else, and
//! together, in any order, they are the truth.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use subscope_harness::{acp::MESSAGES, recognize};
use subscope_testkit::{
    others::{OtherRecording, acp_recordings, differences},
    sessions::{Part, options, read, tree, tree_at},
};

fn log_of(recording: &OtherRecording) -> Vec<Part> {
    OtherRecording::stream(&recording.streams[0])
}

fn tree_of(parts: &[Part]) -> Value {
    serde_json::to_value(tree(parts)).unwrap()
}

/// The truth of a recording for its files, which name the version of the harness, and not of the program that speaks the
/// protocol for it; that of the files counts.
fn truth_for(recording: &OtherRecording, is: &Value) -> Value {
    let mut truth = recording.truth.clone();
    if ["codex", "claude-code"].contains(&recording.harness) {
        truth["session"]["harness_version"] = is["session"]["harness_version"].clone();
    }
    // Rollouts have nicknames of agents, which the protocol does not.
    for agent in truth["agents"].as_array_mut().unwrap().iter_mut().filter(|_| recording.harness == "codex") {
        let row = is["agents"].as_array().unwrap().iter().find(|row| row["id"] == agent["id"]);
        agent["name"] = row.map_or(Value::Null, |row| row["name"].clone());
    }
    truth
}

#[test]
fn a_log_names_session_harness_and_version_and_says_nothing_that_is_wrong() {
    let mut wrong = Vec::new();
    for recording in acp_recordings() {
        let log = log_of(&recording);
        assert_eq!(recognize(&log[0].bytes), Some(MESSAGES), "{}", recording.name());
        let is = tree_of(&log);
        assert!(is["problems"].as_array().unwrap().is_empty(), "{}: {}", recording.name(), is["problems"]);
        for field in ["id", "harness", "harness_version", "runs"] {
            if is["session"][field] != recording.truth["session"][field] {
                wrong.push(format!("{} {field}: {}", recording.name(), is["session"][field]));
            }
        }
        let found = differences(&is, &recording.truth, false).into_iter();
        wrong.extend(found.map(|what| format!("{}: {what}", recording.name())));
        assert_eq!(is["agents"][0]["status"], "completed", "{}", recording.name());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_each_agent_tells_of_its_agents_is_shown() {
    for (name, ids, calls) in [
        ("acp/claude-agent/0.101.0/acp_on", true, 3),
        ("acp/claude-agent/0.101.0/acp_off", true, 5),
        ("acp/codex/2.6.0/acp_on", true, 4),
        ("acp/codex/2.6.0/acp_off", true, 3),
        ("acp/kilo/7.7.7/acp", true, 3),
        ("acp/kimi/2.1.0/acp", true, 3),
        ("acp/omp/18.2.3/acp", true, 2),
    ] {
        let recording = acp_recordings().into_iter().find(|it| it.name() == name).unwrap();
        let is = tree(&log_of(&recording));
        let expected: Vec<&str> = recording.truth["agents"]
            .as_array()
            .unwrap()
            .iter()
            .map(|agent| agent["id"].as_str().unwrap())
            .collect();
        let shown: Vec<&str> = is.agents.iter().map(|row| row.id.as_str()).collect();
        let has_all = expected.iter().all(|id| *id == "root" || shown.contains(id));
        assert_eq!((has_all, is.summary.tool_calls), (ids, calls), "{name}: {shown:?}");
    }
}

#[test]
fn log_and_files_are_the_truth_in_any_order() {
    let mut wrong = Vec::new();
    for recording in acp_recordings() {
        let (disk, log) = (recording.disk(), log_of(&recording));
        let orders = [[disk.clone(), log.clone()].concat(), [log, disk].concat()];
        for (order, parts) in orders.into_iter().enumerate() {
            let is = tree_of(&parts);
            let truth = truth_for(&recording, &is);
            let found = differences(&is, &truth, true).into_iter();
            wrong.extend(found.map(|what| format!("{} order {order}: {what}", recording.name())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_log_that_ends_while_a_prompt_is_open_is_of_a_lost_agent() {
    let recording = acp_recordings().into_iter().find(|it| it.name() == "acp/codex/2.6.0/acp_on").unwrap();
    let mut log = log_of(&recording);
    let lines = log[0].lines();
    let open = lines.iter().rposition(|line| String::from_utf8_lossy(line).contains("call_2_1")).unwrap();
    log[0].bytes = lines[..open].concat();
    let tree = serde_json::to_value(tree_at(&read(&log, options(false)), 1_900_000_000_000)).unwrap();
    let statuses: Vec<&Value> = tree["agents"].as_array().unwrap().iter().map(|row| &row["status"]).collect();
    assert_eq!(statuses, [&json!("lost"), &json!("lost"), &json!("lost")]);
}
