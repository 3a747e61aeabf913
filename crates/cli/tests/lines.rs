//! Real files in which lines of several sessions stand, or those of one session in several files: every command has the
//! same rows and sums, and projects, walls and exclusions follow the line.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use common::{env, json, json_lines, run, told};
use serde_json::{Value, json};
use subscope_testkit::{env::TestEnv, fixtures};

/// Puts an input of `fixtures/wild` into the folder of a harness. Returns what its sessions are.
fn adopt(env: &TestEnv, name: &str, home: &str) -> Value {
    let folder = fixtures::root().join("wild").join(name);
    for file in fixtures::files_below(&folder) {
        let relative = file.strip_prefix(&folder).unwrap().display().to_string();
        env.write(&format!("home/{home}/{relative}"), fixtures::bytes(&file));
    }
    let expected = folder.join("expected.json");
    if expected.exists() { json(&fixtures::text(&expected)) } else { Value::Null }
}

fn answer(env: &TestEnv, words: &str) -> Value {
    let ran = run(env, words, &[]);
    assert_eq!(told(&ran), (0, ""), "{words}");
    json(&ran.stdout)
}

/// What a tree says, in the form of `expected.json`.
fn of_tree(tree: &Value) -> Value {
    let (session, summary) = (&tree["session"], &tree["summary"]);
    json!({
        "id": session["id"], "title": session["title"], "cwd": session["cwd"], "runs": session["runs"],
        "agents": summary["agents"], "tool_calls": summary["tool_calls"], "output_tokens": summary["usage"]["output_tokens"],
    })
}

/// The same of a row of `ls`.
fn of_row(row: &Value) -> Value {
    json!({
        "id": row["id"], "title": row["title"], "cwd": row["cwd"], "runs": row["runs"], "agents": row["agents"],
        "tool_calls": row["tool_calls"], "output_tokens": row["usage"]["output_tokens"],
    })
}

#[test]
fn a_session_is_the_same_for_every_command_in_any_order() {
    for name in ["two-sessions-one-file", "two-files-one-session", "lines-of-another", "two-projects"] {
        for is_listed_first in [false, true] {
            let env = env();
            let expected = adopt(&env, name, ".claude");
            let expected = expected.as_array().unwrap();
            let trees = || {
                for expected in expected {
                    let tree = answer(&env, &format!("tree --json {}", expected["id"].as_str().unwrap()));
                    assert_eq!(&of_tree(&tree), expected, "{name}");
                }
            };
            if !is_listed_first {
                trees();
            }
            let listed = answer(&env, "ls --json");
            let mut rows: Vec<Value> = listed["sessions"].as_array().unwrap().iter().map(of_row).collect();
            rows.sort_by_key(|row| row["id"].to_string());
            assert_eq!(&rows, expected, "{name}");
            trees();
            let sum: u64 = expected.iter().map(|row| row["output_tokens"].as_u64().unwrap()).sum();
            let total = &answer(&env, "stats --json")["total"];
            let figures = (total["sessions"].as_u64(), total["usage"]["output_tokens"].as_u64());
            assert_eq!(figures, (Some(expected.len() as u64), Some(sum)), "{name}");
        }
    }
}

#[test]
fn the_transcript_of_a_session_is_that_session_whatever_else_it_has() {
    let env = env();
    let expected = adopt(&env, "two-sessions-one-file", ".claude");
    let id = expected[1]["id"].as_str().unwrap();
    let path = env.home().join(format!(".claude/projects/-w-app/{id}.jsonl"));
    let ran = run(&env, "tree --json", &[&path]);
    assert_eq!(told(&ran), (0, ""));
    assert_eq!(of_tree(&json(&ran.stdout)), expected[1]);
    // A file of that name has no line of that session.
    let env = common::env();
    adopt(&env, "two-files-one-session", ".claude");
    let ran = run(&env, "tree eeee0002", &[]);
    assert!(ran.code == Some(1) && ran.stderr.contains("has lines of eeee0001"), "{}", ran.stderr);
}

#[test]
fn words_and_what_leaves_the_machine_follow_the_line() {
    let env = env();
    adopt(&env, "two-projects", ".claude");
    let hits = answer(&env, "search --json zebraquux");
    let hits: Vec<_> =
        hits["hits"].as_array().unwrap().iter().map(|hit| (&hit["session_id"], &hit["project"])).collect();
    assert_eq!(hits, [(&json!("dddd0001-0000-4000-8000-000000000001"), &json!("/home/user/secret"))]);
    env.write("config/subscope/config.toml", "[team]\nexclude = [\"/home/user/secret\"]\n");
    let sent = run(&env, "forward --dry-run --content text", &[]);
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    let ids: Vec<Value> = json_lines(&sent.stdout).iter().map(|line| line["row"]["id"].clone()).collect();
    assert_eq!(ids, [json!("dddd0002-0000-4000-8000-000000000002")]);
    assert!(sent.stdout.contains("first task of B") && !sent.stdout.contains("zebraquux"), "{}", sent.stdout);
}

#[test]
fn children_without_the_rollout_of_their_root_stay_children() {
    let env = env();
    adopt(&env, "codex-orphans", ".codex");
    let listed = answer(&env, "ls --json");
    let rows = listed["sessions"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["agents"]), (1, &json!(2)), "a fresh store lists them");
    let day = env.home().join(".codex/sessions/2026/04/15");
    let children = ["a", "b"].map(|end| format!("00000000-0000-7000-8000-00000000000{end}"));
    let paths = ["01", "02"].iter().zip(&children);
    let paths = paths.map(|(second, id)| day.join(format!("rollout-2026-04-15T10-00-{second}-{id}.jsonl")));
    let by_path: Vec<Value> = paths.map(|path| json(&run(&env, "tree --json", &[&path]).stdout)).collect();
    let by_id = answer(&env, "tree --json 00000000-0000-7000-8000-000000000001");
    for tree in by_path.iter().chain([&by_id]) {
        let agents = common::agents(tree);
        assert_eq!(agents[0], ("root".to_owned(), "lost".to_owned()));
        let mut below: Vec<&str> = agents[1..].iter().map(|(id, _)| id.as_str()).collect();
        below.sort_unstable();
        assert_eq!(below, children);
        assert!(agents[1..].iter().all(|(_, status)| status == "completed"), "{agents:?}");
    }
}

#[test]
fn an_array_of_lines_is_read_as_the_lines() {
    let env = env();
    let wild = fixtures::root().join("wild");
    let array = answer(&env, &format!("tree --json {}", wild.join("action-execution-output.json").display()));
    assert_eq!(of_tree(&array)["id"], "99999999-0000-4000-8000-000000000009");
    assert_eq!(
        (&array["summary"]["usage"]["total_tokens"], &array["agents"][0]["status"]),
        (&json!(3), &json!("completed"))
    );
    for folder in ["claude-code/2.1.330/a-single", "claude-code/2.0.76/b-parallel"] {
        for name in ["hooks.jsonl", "stdout.jsonl"] {
            let lines = fixtures::root().join(folder).join(name);
            if !lines.exists() {
                continue;
            }
            let values: Vec<Value> = json_lines(&fixtures::text(&lines));
            for (file, text) in [
                ("pretty.json", serde_json::to_string_pretty(&values).unwrap()),
                ("flat.json", serde_json::to_string(&values).unwrap()),
            ] {
                env.write(file, text);
                let tree = answer(&env, &format!("tree --json {}", env.path(file).display()));
                let expected = answer(&env, &format!("tree --json {}", lines.display()));
                assert_eq!(tree["summary"], expected["summary"], "{folder} {name} {file}");
            }
        }
    }
}

#[test]
fn one_of_several_runs_in_a_file_is_named_by_its_session() {
    let env = env();
    let file = fixtures::root().join("wild/two-runs-one-stream.jsonl").display().to_string();
    let ids = ["aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002"];
    for id in ids {
        assert_eq!(of_tree(&answer(&env, &format!("tree --json {file}/{id}")))["id"], id);
    }
    let both = run(&env, &format!("tree --json {file}/{} {file}/{}", ids[0], ids[1]), &[]);
    assert_eq!(json_lines(&both.stdout).len(), 2);
    for (target, hint) in [
        (file.clone(), format!("hint: name one: {file}/{}", ids[0])),
        (format!("{file}/aaaa"), "hint: give more of the id".to_owned()),
        (format!("{file}/none"), format!("hint: its transcript has lines of {}", ids.join(", "))),
    ] {
        let (code, stderr) = {
            let ran = run(&env, &format!("tree {target}"), &[]);
            (told(&ran).0, ran.stderr.clone())
        };
        assert!(code != 0 && stderr.contains(&hint), "{target}: {stderr}");
    }
}
