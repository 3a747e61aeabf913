//! Recordings of the harnesses other than Claude Code, read by the real program and compared with their `truth.json`:
//! all sources merged in every order give the truth, and each source alone says less but nothing else.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
};

use common::{env, json, run};
use serde_json::Value;
use subscope_testkit::fixtures;

/// What the sources of a harness are called in a recording.
struct Sources {
    harness: &'static str,
    /// The harness's own files: the first that is there counts.
    on_disk: &'static [&'static str],
    /// What the names of printed, sent and posted sources begin with.
    streams: &'static [&'static str],
    /// How many recordings there are at least.
    least: usize,
}

const HARNESSES: &[Sources] = &[Sources {
    harness: "opencode",
    on_disk: &["opencode.db", "storage"],
    streams: &["stdout", "event", "global_event"],
    least: 7,
}];

struct Recording {
    folder: PathBuf,
    truth: Value,
    on_disk: Vec<PathBuf>,
    streams: Vec<Vec<PathBuf>>,
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

fn recordings(sources: &Sources) -> Vec<Recording> {
    let scenarios = entries(&fixtures::root().join(sources.harness)).into_iter().flat_map(|at| entries(&at));
    let all: Vec<Recording> = scenarios
        .filter(|folder| folder.join("truth.json").is_file())
        .map(|folder| {
            let files = entries(&folder);
            let begins = |file: &PathBuf, prefix: &str| {
                file.file_name().unwrap().to_str().unwrap().split('.').next() == Some(prefix)
            };
            let stream = |prefix: &&str| {
                files.iter().filter(|file| begins(file, prefix)).cloned().collect::<Vec<PathBuf>>()
            };
            let on_disk = sources.on_disk.iter().map(|name| folder.join(name));
            Recording {
                truth: json(&fs::read_to_string(folder.join("truth.json")).unwrap()),
                on_disk: on_disk.filter(|path| path.exists()).take(1).collect(),
                streams: sources.streams.iter().map(stream).filter(|files| !files.is_empty()).collect(),
                folder,
            }
        })
        .collect();
    assert!(all.len() >= sources.least, "{} recordings of {}", all.len(), sources.harness);
    all
}

fn tree(targets: &[PathBuf]) -> Value {
    let paths: Vec<&Path> = targets.iter().map(PathBuf::as_path).collect();
    let ran = run(&env(), "tree --json", &paths);
    assert_eq!(ran.code, Some(0), "{targets:?}: {}", ran.stderr);
    assert_eq!(ran.stderr, "", "{targets:?}");
    json(&ran.stdout)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn accepts(words: &Value, word: &Value) -> bool {
    list(words).contains(word)
}

/// Calls whose recording accepts both: a command that exits with another code than 0 is an error here.
fn exit_errors(agent: &Value) -> u64 {
    let tolerated =
        |tool: &&Value| accepts(&tool["status"], &"ok".into()) && accepts(&tool["status"], &"error".into());
    list(&agent["tools"]).iter().filter(tolerated).count() as u64
}

/// What differs between a tree and the truth; `is_whole` is false where the tree may say less.
fn differences(tree: &Value, truth: &Value, is_whole: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for field in ["id", "harness", "harness_version"] {
        let (is, should) = (&tree["session"][field], &truth["session"][field]);
        if is != should && (is_whole || !is.is_null()) {
            wrong.push(format!("session {field}: {is} instead of {should}"));
        }
    }
    let (runs, expected) =
        (tree["session"]["runs"].as_u64().unwrap(), truth["session"]["runs"].as_u64().unwrap());
    if runs > expected || is_whole && runs != expected {
        wrong.push(format!("{runs} runs instead of {expected}"));
    }
    for row in list(&tree["agents"]) {
        let id = &row["id"];
        let Some(expected) = list(&truth["agents"]).iter().find(|agent| agent["id"] == *id) else {
            wrong.push(format!("{id} is no agent of the session"));
            continue;
        };
        compare_agent(row, expected, is_whole, &mut wrong);
    }
    if is_whole {
        for agent in list(&truth["agents"]) {
            if !list(&tree["agents"]).iter().any(|row| row["id"] == agent["id"]) {
                wrong.push(format!("{} is missing", agent["id"]));
            }
        }
        for field in ["agents", "max_depth", "tool_calls"] {
            let (is, should) = (&tree["summary"][field], &truth["summary"][field]);
            if is != should {
                wrong.push(format!("summary {field}: {is} instead of {should}"));
            }
        }
        for (kind, should) in truth["summary"]["usage"].as_object().unwrap() {
            if tree["summary"]["usage"][kind] != *should {
                wrong.push(format!("sum of {kind}: {} instead of {should}", tree["summary"]["usage"][kind]));
            }
        }
    }
    wrong
}

fn compare_agent(row: &Value, expected: &Value, is_whole: bool, wrong: &mut Vec<String>) {
    let id = &row["id"];
    for field in ["parent_id", "spawned_by", "depth", "type", "name", "description", "model", "background"] {
        let (is, should) = (&row[field], &expected[field]);
        if is != should && (is_whole || !is.is_null()) {
            wrong.push(format!("{id} {field}: {is} instead of {should}"));
        }
    }
    let is_unsure = !is_whole && ["lost", "stopped"].contains(&row["status"].as_str().unwrap());
    if !is_unsure && !accepts(&expected["status"], &row["status"]) {
        wrong.push(format!("{id} status: {} instead of {}", row["status"], expected["status"]));
    }
    for tool in list(&row["tools"]) {
        match list(&expected["tools"]).iter().find(|known| known["id"] == tool["id"]) {
            Some(known) if known["name"] == tool["name"] && accepts(&known["status"], &tool["status"]) => {}
            Some(known) => wrong.push(format!("{id} call {tool} instead of {known}")),
            None => wrong.push(format!("{id} has no call {tool}")),
        }
    }
    if !is_whole {
        return;
    }
    for field in ["tool_calls", "tools_denied", "open_tools"] {
        if row[field] != expected[field] {
            wrong.push(format!("{id} {field}: {} instead of {}", row[field], expected[field]));
        }
    }
    let (errors, least) = (row["tool_errors"].as_u64().unwrap(), expected["tool_errors"].as_u64().unwrap());
    if errors < least || errors > least + exit_errors(expected) {
        wrong.push(format!("{id} tool_errors: {errors} instead of {least}"));
    }
    for kind in ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"] {
        if row["usage"][kind] != expected["usage"][kind] {
            wrong.push(format!("{id} {kind}: {} instead of {}", row["usage"][kind], expected["usage"][kind]));
        }
    }
    if let Some(cost) = expected["cost_micro_usd"].as_u64()
        && row["cost_micro_usd"].as_u64() != Some(cost)
    {
        wrong.push(format!("{id} costs {} instead of {cost}", row["cost_micro_usd"]));
    }
}

fn assert_right(recording: &Recording, targets: &[PathBuf], is_whole: bool) {
    let wrong = differences(&tree(targets), &recording.truth, is_whole);
    assert!(wrong.is_empty(), "{} {targets:?}:\n{}", recording.folder.display(), wrong.join("\n"));
}

/// All orders of a few things.
fn orders<T: Clone>(all: &[T]) -> Vec<Vec<T>> {
    if all.len() < 2 {
        return vec![all.to_vec()];
    }
    let with_first = |first: usize| {
        let mut rest = all.to_vec();
        let chosen = rest.remove(first);
        orders(&rest).into_iter().map(move |rest| [vec![chosen.clone()], rest].concat())
    };
    (0..all.len()).flat_map(with_first).collect()
}

#[test]
fn files_of_each_harness_give_the_truth() {
    for recording in HARNESSES.iter().flat_map(recordings) {
        assert_right(&recording, &recording.on_disk, true);
    }
}

#[test]
fn streams_alone_say_less_and_nothing_else() {
    for recording in HARNESSES.iter().flat_map(recordings) {
        for stream in &recording.streams {
            assert_right(&recording, stream, false);
        }
    }
}

#[test]
fn all_sources_give_the_truth_in_every_order() {
    for recording in HARNESSES.iter().flat_map(recordings) {
        let sources: Vec<Vec<PathBuf>> =
            [recording.on_disk.clone()].into_iter().chain(recording.streams.clone()).collect();
        for order in orders(&sources) {
            assert_right(&recording, &order.concat(), true);
        }
    }
}
