//! Forms of TARGETs, and `tree` of one or several.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};

use common::{agents, env, json, run, run_with_stdin};
use serde_json::Value;
use subscope_testkit::{
    env::TestEnv,
    fixtures::{self, recording, recordings},
    lines::{jsonl, transcript},
};

fn tree_of(env: &TestEnv, targets: &[&Path]) -> String {
    let ran = run(env, "tree --json", targets);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    ran.stdout
}

#[test]
fn sources_of_one_session_in_any_order_print_the_same() {
    let env = env();
    for (version, scenario) in [
        ("2.1.330", "c-nested"),
        ("2.1.330", "g-resume"),
        ("2.0.76", "b-parallel"),
        ("1.0.128", "b-parallel"),
    ] {
        let recording = recording(version, scenario);
        let mut sources: Vec<PathBuf> =
            [recording.mains(), recording.streams(), vec![recording.hooks()]].concat();
        let first = tree_of(&env, &sources.iter().map(PathBuf::as_path).collect::<Vec<_>>());
        for _ in 1..sources.len() {
            sources.rotate_left(1);
            let turned = tree_of(&env, &sources.iter().map(PathBuf::as_path).collect::<Vec<_>>());
            assert!(turned == first, "{version} {scenario} {sources:?}");
        }
        sources.reverse();
        assert!(
            tree_of(&env, &sources.iter().map(PathBuf::as_path).collect::<Vec<_>>()) == first,
            "{version} {scenario}"
        );
        let truth = recording.truth();
        let tree = json(&first);
        for agent in truth.agents.iter().filter(|agent| !agent.optional) {
            let row = tree["agents"].as_array().unwrap().iter().find(|row| row["id"] == *agent.id).unwrap();
            assert!(
                agent.status.iter().any(|word| row["status"] == **word),
                "{version} {scenario} {}",
                agent.id
            );
            assert_eq!(
                row["usage"]["total_tokens"], agent.usage.total_tokens,
                "{version} {scenario} {}",
                agent.id
            );
        }
    }
}

#[test]
fn session_can_be_named_by_file_folder_id_prefix_and_last() {
    let env = env();
    let recording = recording("2.1.330", "c-nested");
    env.adopt(&recording);
    let id = recording.truth().session.id;
    let project = env.home().join(".claude/projects/-home-user-shop");
    let expected = tree_of(&env, &[&project.join(format!("{id}.jsonl"))]);
    for target in [&id, &id[..8], "last"] {
        let ran = env.run(&["tree", "--json", target]);
        assert!((ran.code, &ran.stdout) == (Some(0), &expected), "{target}: {}", ran.stderr);
    }
    assert!(tree_of(&env, &[&project.join(&id)]) == expected);
    let ran = env.run(&["tree", "zzzz"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("zzzz") && ran.stderr.contains("hint: "), "{}", ran.stderr);
}

#[test]
fn last_is_the_session_that_was_written_last_and_common_prefixes_are_refused() {
    let env = env();
    let (one, two) = ("aaaa1111-0000-4000-8000-000000000001", "aaaa2222-0000-4000-8000-000000000002");
    for (session, folder) in [(two, "-p"), (one, "-q")] {
        let text = jsonl([
            transcript::user("Go.").session(session),
            transcript::assistant("Done.").session(session).stop("end_turn"),
        ]);
        let path = env.write(&format!("home/.claude/projects/{folder}/{session}.jsonl"), text);
        let age = if session == one { 10 } else { 3600 };
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000 - age))
            .unwrap();
    }
    let session =
        |target: &str| json(&env.run(&["tree", "--json", target]).success())["session"]["id"].clone();
    assert_eq!((session("last"), session("aaaa2")), (one.into(), two.into()));
    let ran = env.run(&["tree", "aaaa"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("beginning of 2 sessions"), "{}", ran.stderr);
    // A folder with several sessions does not name one of them.
    let ran = run(&env, "tree", &[&env.home().join(".claude/projects")]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

#[test]
fn claude_config_dir_says_where_sessions_are() {
    let env = env();
    let text = jsonl([transcript::user("Go."), transcript::assistant("Done.").stop("end_turn")]);
    env.write("elsewhere/projects/-p/session-1.jsonl", text);
    let mut command = env.command();
    command.env("CLAUDE_CONFIG_DIR", env.path("elsewhere")).args(["tree", "--json", "last"]);
    let ran = subscope_testkit::env::run(command, b"");
    assert_eq!(json(&ran.success())["session"]["id"], "session-1");
}

#[test]
fn stdin_is_a_source_like_any_other() {
    let env = env();
    let recording = recording("2.1.330", "b-parallel");
    let stream = recording.streams().remove(0);
    let bytes = fixtures::bytes(&stream);
    let piped = json(&run_with_stdin(&env, "tree --json -", &[], &bytes).success());
    let read = json(&tree_of(&env, &[&stream]));
    assert_eq!(piped["agents"], read["agents"]);
    // Together with files it is one more source of their session.
    let main = recording.mains().remove(0);
    let merged = json(&run_with_stdin(&env, "tree --json -", &[&main], &bytes).success());
    let both = json(&tree_of(&env, &[&main, &stream]));
    assert_eq!(merged["agents"], both["agents"]);
    // Agents of a part of a recording are lost only where its pipe has ended.
    let half: Vec<u8> = bytes.split_inclusive(|byte| *byte == b'\n').take(12).flatten().copied().collect();
    let cut = json(&run_with_stdin(&env, "tree --json -", &[], &half).success());
    assert!(agents(&cut).iter().all(|(_, status)| status != "running"), "{:?}", agents(&cut));
}

#[test]
fn agent_option_shows_that_agent_and_what_is_below() {
    let env = env();
    let recording = recording("2.1.330", "c-nested");
    let main = recording.mains().remove(0);
    let truth = recording.truth();
    let parent = truth.agents.iter().find(|agent| {
        truth.agents.iter().any(|child| child.parent_id.as_deref() == Some(&agent.id) && agent.depth > 0)
    });
    let parent = parent.unwrap();
    let below: Vec<&str> = truth
        .agents
        .iter()
        .filter(|agent| agent.parent_id.as_deref() == Some(&parent.id))
        .map(|agent| agent.id.as_str())
        .collect();
    let unique = (1..=parent.id.len())
        .map(|length| &parent.id[..length])
        .find(|prefix| truth.agents.iter().filter(|agent| agent.id.starts_with(*prefix)).count() == 1)
        .unwrap();
    let shown = json(&run(&env, &format!("tree --json --agent {unique}"), &[&main]).success());
    let ids: Vec<String> = agents(&shown).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids[0], parent.id);
    assert!(
        below.iter().all(|id| ids.iter().any(|shown| shown == id)) && !ids.contains(&"root".to_owned()),
        "{ids:?}"
    );
    let drawn = run(&env, &format!("tree --agent {}", parent.id), &[&main]).success();
    assert!(drawn.contains(parent.description.as_deref().unwrap()), "{drawn}");
    assert_eq!(run(&env, "tree --agent a", &[&main]).code, Some(2));
    assert_eq!(run(&env, "tree --agent nobody", &[&main]).code, Some(1));
}

#[test]
fn at_shows_how_it_stood() {
    let env = env();
    // With the harness's note of each agent next to its file, and without.
    for version in ["2.1.330", "2.1.50"] {
        check_moments(&env, version);
    }
}

fn check_moments(env: &TestEnv, version: &str) {
    let recording = recording(version, "b-parallel");
    let main = recording.mains().remove(0);
    let whole = json(&tree_of(env, &[&main]));
    let (start, end) = (
        whole["session"]["started_at_ms"].as_i64().unwrap(),
        whole["session"]["ended_at_ms"].as_i64().unwrap(),
    );
    let at = |time: i64| json(&run(env, &format!("tree --json --at {time}"), &[&main]).success());
    let statuses = |tree: &Value| agents(tree).into_iter().map(|(_, status)| status).collect::<Vec<_>>();
    let middle = whole["agents"][1]["started_at_ms"].as_i64().unwrap() + 1000;
    let half = at(middle);
    assert_eq!(
        statuses(&half).iter().filter(|status| *status == "running").count(),
        agents(&half).len(),
        "{:?}",
        statuses(&half)
    );
    assert!(half["summary"]["tool_calls"].as_u64() < whole["summary"]["tool_calls"].as_u64());
    assert_eq!(at(start)["summary"]["agents"], 0);
    // A root of this version says nothing when it ends: the silence after it does.
    assert_eq!(at(end + 3_600_000)["agents"], whole["agents"]);
    let rfc = run(env, "tree --json --at 2026-01-01T00:00:00Z", &[&main]);
    assert!(rfc.code == Some(0) || rfc.code == Some(1), "{rfc:?}");
}

#[test]
fn flat_and_detail_show_less_and_more_of_the_same() {
    let env = env();
    let recording = recording("2.1.330", "c-nested");
    let main = recording.mains().remove(0);
    let drawn = |words: &str| run(&env, &format!("tree --width 120 {words}"), &[&main]).success();
    let (minimal, moderate, full) =
        (drawn("--detail minimal"), drawn("--detail moderate"), drawn("--detail full"));
    assert_eq!(drawn("--detail off"), "");
    let lines = |text: &str| text.lines().count();
    assert!(
        lines(&minimal) < lines(&moderate) && lines(&moderate) < lines(&full),
        "{} {} {}",
        lines(&minimal),
        lines(&moderate),
        lines(&full)
    );
    let truth = recording.truth();
    for text in [&minimal, &moderate, &full] {
        for agent in truth.agents.iter().skip(1) {
            assert!(text.contains(agent.description.as_deref().unwrap()), "{} in {text}", agent.id);
        }
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    }
    let flat = json(&run(&env, "tree --json --flat", &[&main]).success());
    assert!(
        flat["agents"]
            .as_array()
            .unwrap()
            .iter()
            .skip(1)
            .all(|row| row["depth"] == 1 && row["parent_id"] == "root")
    );
    assert!(!drawn("--flat --detail minimal").contains('│'));
}

#[test]
fn every_recording_is_drawn_at_every_detail_without_a_problem() {
    let env = env();
    for recording in recordings() {
        let main = recording.mains().remove(0);
        let ran = run(&env, "tree --detail full --width 60 --ascii", &[&main]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{}", recording.name());
        assert!(
            ran.stdout.lines().all(|line| line.chars().count() <= 60),
            "{}: {}",
            recording.name(),
            ran.stdout
        );
    }
}
