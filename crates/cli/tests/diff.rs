//! `diff`: two sessions side by side, by the real program on recordings.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use common::{agents, env, json, run};
use serde_json::Value;
use subscope_testkit::fixtures::{self, recording};

/// The main transcript of a recording.
fn main_of(version: &str, name: &str) -> std::path::PathBuf {
    recording(version, name).mains().remove(0)
}

fn diff(words: &str, a: (&str, &str), b: (&str, &str)) -> String {
    let (a, b) = (main_of(a.0, a.1), main_of(b.0, b.1));
    run(&env(), &format!("diff {words}"), &[&a, &b]).success()
}

#[test]
fn each_side_is_what_tree_says_of_it_and_each_agent_stands_there_once() {
    let versions = ("2.1.330", "2.1.50");
    let (a, b) = ((versions.0, "b-parallel"), (versions.1, "b-parallel"));
    let told = json(&diff("--json", a, b));
    assert_eq!(told["schema"], "subscope.diff/1");
    for (side, (version, name)) in [("a", a), ("b", b)] {
        let tree = json(&run(&env(), "tree --json", &[&main_of(version, name)]).success());
        assert_eq!(told[side]["summary"], tree["summary"]);
        assert_eq!(told[side]["session"], tree["session"]);
        assert_eq!(told[side]["status"], tree["agents"][0]["status"]);
        let pairs = told["agents"].as_array().unwrap().iter();
        let mut found: Vec<(String, String)> = pairs
            .filter(|pair| !pair[side].is_null())
            .map(|pair| {
                let row = &pair[side];
                (row["id"].as_str().unwrap().to_owned(), row["status"].as_str().unwrap().to_owned())
            })
            .collect();
        let mut expected = agents(&tree);
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
        let calls = |tools: &Value| -> u64 {
            tools.as_array().unwrap().iter().map(|tool| tool[side]["calls"].as_u64().unwrap()).sum()
        };
        assert_eq!(calls(&told["tools"]), tree["summary"]["tool_calls"].as_u64().unwrap());
    }
    // The same scenario: all agents have equal prompts and parents.
    let likeness = |word: &str| {
        told["agents"].as_array().unwrap().iter().filter(|pair| pair["likeness"] == word).count()
    };
    assert_eq!(likeness("root"), 1);
    assert_eq!(likeness("task"), 3, "{told}");
}

#[test]
fn session_beside_itself_has_no_difference() {
    let one = ("2.1.330", "k-big");
    let told = json(&diff("--json", one, one));
    let pairs = told["agents"].as_array().unwrap();
    assert!(pairs.len() == 9 && pairs.iter().all(|pair| pair["a"] == pair["b"]), "{told}");
    let text = diff("--width 100", one, one);
    assert!(!text.contains('~') && !text.contains('+'), "{text}");
}

#[test]
fn table_names_endings_and_differences() {
    insta::assert_snapshot!(diff(
        "--width 100 --color never",
        ("2.1.330", "b-parallel"),
        ("2.1.330", "e-taskstop")
    ));
}

#[test]
fn stdin_is_one_side_at_most_and_what_is_not_there_is_told() {
    let env = env();
    let stream = fixtures::bytes(&recording("2.1.330", "b-parallel").streams()[0]);
    let file = env.write("work/stream.jsonl", &stream);
    let told = env.run_with_stdin(&["diff", "-", file.to_str().unwrap(), "--json"], &stream);
    assert_eq!(json(&told.success())["agents"].as_array().unwrap().len(), 4);
    assert_eq!(env.run(&["diff", "-", "-"]).code, Some(2));
    assert_eq!(env.run(&["diff", "-"]).code, Some(2));
    let ran = env.run(&["diff", file.to_str().unwrap(), "nothing.jsonl"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("nothing.jsonl"), "{}", ran.stderr);
}
