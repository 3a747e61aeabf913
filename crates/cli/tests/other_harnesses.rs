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

const HARNESSES: &[Sources] = &[
    Sources { harness: "codex", on_disk: &["sessions"], streams: &["stdout", "hooks", "rpc"], least: 8 },
    Sources { harness: "copilot", on_disk: &["dot_copilot"], streams: &["stdout", "hooks"], least: 6 },
    Sources { harness: "gemini", on_disk: &["dot_gemini_tmp"], streams: &["stdout", "hooks"], least: 4 },
    Sources {
        harness: "opencode",
        on_disk: &["opencode.db", "storage"],
        streams: &["stdout", "event", "global_event"],
        least: 7,
    },
    Sources { harness: "qwen", on_disk: &["dot_qwen"], streams: &["stdout", "hooks"], least: 2 },
];

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
    let versions = entries(&fixtures::root().join(sources.harness)).into_iter().filter(|path| path.is_dir());
    let scenarios = versions.flat_map(|at| entries(&at));
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

/// How many calls of an agent have a status by the truth: at least and at most, where a recording accepts several words
/// (a command that exits with another code than 0 is an error here, and a success for some harnesses).
fn bounds(agent: &Value, status: &str) -> (u64, u64) {
    let tools = list(&agent["tools"]);
    let accepting = || tools.iter().filter(|tool| accepts(&tool["status"], &status.into()));
    let certain = accepting().filter(|tool| list(&tool["status"]).len() == 1).count();
    (certain as u64, accepting().count() as u64)
}

/// What differs between a tree and the truth; `is_whole` is false where the tree may say less.
fn differences(tree: &Value, truth: &Value, is_whole: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for field in ["id", "harness", "harness_version"] {
        let (is, should) = (&tree["session"][field], &truth["session"][field]);
        // Gemini CLI writes its version nowhere.
        let may_be_silent =
            !is_whole || field == "harness_version" && truth["session"]["harness"] == "gemini";
        if is != should && !(may_be_silent && is.is_null()) {
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
        // What Gemini CLI prints names agents by their calls alone.
        if !is_whole && *id == row["spawned_by"] {
            continue;
        }
        let Some(expected) = list(&truth["agents"]).iter().find(|agent| agent["id"] == *id) else {
            wrong.push(format!("{id} is no agent of the session"));
            continue;
        };
        compare_agent(row, expected, &truth["session"]["harness"], is_whole, &mut wrong);
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

/// Whether a source that says less may say so of a call: its end may stand nowhere, and Codex's hooks report a failed
/// command like a good one.
fn may_be(status: &Value, harness: &Value, is_whole: bool) -> bool {
    !is_whole && (status == "open" || status == "ok" && harness == "codex")
}

fn compare_agent(row: &Value, expected: &Value, harness: &Value, is_whole: bool, wrong: &mut Vec<String>) {
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
            Some(known)
                if known["name"] == tool["name"]
                    && (accepts(&known["status"], &tool["status"])
                        || may_be(&tool["status"], harness, is_whole)) => {}
            Some(known) => wrong.push(format!("{id} call {tool} instead of {known}")),
            // A source that numbers its calls by itself says how many there are.
            None if !is_whole && tool["id"].is_null() => {}
            None => wrong.push(format!("{id} has no call {tool}")),
        }
    }
    if !is_whole {
        return;
    }
    if row["tool_calls"] != expected["tool_calls"] {
        wrong.push(format!("{id} makes {} calls instead of {}", row["tool_calls"], expected["tool_calls"]));
    }
    for (field, status) in [("tool_errors", "error"), ("tools_denied", "denied"), ("open_tools", "open")] {
        let (least, most) = bounds(expected, status);
        if !(least..=most).contains(&row[field].as_u64().unwrap()) {
            wrong.push(format!("{id} {field}: {} instead of {least} to {most}", row[field]));
        }
    }
    for kind in ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"] {
        if row["usage"][kind] != expected["usage"][kind] {
            wrong.push(format!("{id} {kind}: {} instead of {}", row["usage"][kind], expected["usage"][kind]));
        }
    }
    // Where a recording names no cost, the price list may know one.
    let cost = expected["cost_micro_usd"].as_u64();
    let is_listed = cost.is_none() && (harness == "codex" || harness == "qwen");
    if !is_listed && row["cost_micro_usd"].as_u64() != cost {
        wrong.push(format!("{id} costs {} instead of {cost:?}", row["cost_micro_usd"]));
    }
}

/// What is wrong with the tree of some sources of a recording.
fn mistakes(recording: &Recording, targets: &[PathBuf], is_whole: bool) -> Vec<String> {
    let of = |path: &PathBuf| path.strip_prefix(&recording.folder).unwrap().display().to_string();
    let names: Vec<String> = targets.iter().map(of).collect();
    let place = format!("{} [{}]", recording.folder.display(), names.join(", "));
    let wrong = differences(&tree(targets), &recording.truth, is_whole);
    wrong.into_iter().map(|what| format!("{place}: {what}")).collect()
}

fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} mistakes:\n{}", wrong.len(), wrong.join("\n"));
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
    let recordings = HARNESSES.iter().flat_map(recordings);
    let wrong: Vec<String> =
        recordings.flat_map(|recording| mistakes(&recording, &recording.on_disk, true)).collect();
    assert_none(&wrong);
}

#[test]
fn streams_alone_say_less_and_nothing_else() {
    let mut wrong = Vec::new();
    for recording in HARNESSES.iter().flat_map(recordings) {
        for stream in &recording.streams {
            wrong.extend(mistakes(&recording, stream, false));
        }
    }
    assert_none(&wrong);
}

#[test]
fn all_sources_give_the_truth_in_every_order() {
    let mut wrong = Vec::new();
    for recording in HARNESSES.iter().flat_map(recordings) {
        let sources: Vec<Vec<PathBuf>> =
            [recording.on_disk.clone()].into_iter().chain(recording.streams.clone()).collect();
        for order in orders(&sources) {
            wrong.extend(mistakes(&recording, &order.concat(), true));
        }
    }
    assert_none(&wrong);
}

#[test]
fn sessions_of_several_harnesses_are_listed_with_their_harness_and_by_it() {
    let env = env();
    for (below_home, recorded) in [
        (".codex/sessions", "codex/0.169.0/v2_two_parallel/sessions"),
        (".copilot/session-state", "copilot/1.0.102/two_parallel/dot_copilot/session-state"),
    ] {
        let from = fixtures::root().join(recorded);
        for file in fixtures::files_below(&from) {
            let below = file.strip_prefix(&from).unwrap().display().to_string();
            env.write(&format!("home/{below_home}/{below}"), fixtures::bytes(&file));
        }
    }
    env.run(&["index"]).success();
    let listed = |words: &[&str]| {
        let text = env.run(&[&["ls", "--json"], words].concat()).success();
        let page: Value = serde_json::from_str(&text).unwrap();
        let mut names: Vec<String> =
            list(&page["sessions"]).iter().map(|row| row["harness"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(listed(&[]), ["codex", "copilot"]);
    assert_eq!(listed(&["--harness", "codex"]), ["codex"]);
    assert!(listed(&["--harness", "cod"]).is_empty(), "a harness is asked for by its whole name");
    let lines = env.run(&["ls"]).success();
    let head = lines.lines().next().unwrap();
    assert!(head.contains("harness session"), "{lines}");
    let one = env.run(&["ls", "--harness", "copilot"]).success();
    assert!(!one.contains("harness session") && one.lines().count() == 2, "{one}");
    let none = env.run(&["ls", "--harness", "codx"]);
    assert!(none.stderr.contains("no sessions yet of codx"), "{}", none.stderr);
}
