//! Compares recordings of Copilot, Gemini and Qwen with their truth: each source alone says nothing else, all sources
//! together say all of it, in any order, however they are cut into chunks.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its fixtures has failed")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use subscope_harness::{Role, classify, harness_of};
use subscope_model::PriceTable;
use subscope_session::{FactDetail, Limits, Now, RouterOptions, SessionRouter, SourceSpec};

/// Long after every recording.
const LATER: i64 = 1_900_000_000_000;

/// Returns the recordings that have a truth, and the sources of each: of the disk, then streams.
fn recordings() -> Vec<(PathBuf, Vec<PathBuf>, Vec<PathBuf>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut found = Vec::new();
    for harness in ["copilot", "gemini", "qwen"] {
        for version in entries(&root.join(harness)) {
            for recording in entries(&version) {
                let mut all = Vec::new();
                walk(&recording, &mut all);
                all.retain(|path| {
                    path.extension().is_some_and(|ending| ending == "jsonl" || ending == "json")
                });
                let is_stream = |path: &PathBuf| name(path).starts_with("stdout");
                let streams = all.iter().filter(|path| is_stream(path)).cloned().collect();
                let is_other = |path: &PathBuf| is_stream(path) || path.parent() == Some(&recording);
                let disk = all.iter().filter(|path| !is_other(path)).cloned().collect();
                found.push((recording, disk, streams));
            }
        }
    }
    assert!(found.len() >= 10, "fixtures are missing");
    found
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for path in entries(folder) {
        if path.is_dir() { walk(&path, files) } else { files.push(path) }
    }
}

/// Reads sources in this order, in chunks of this size; returns the tree of the only session.
fn read(files: &[PathBuf], chunk: usize) -> Value {
    let mut router =
        SessionRouter::new(RouterOptions { keep: FactDetail::Rows, cutoff: None, events: false });
    for path in files {
        let bytes = fs::read(path).unwrap();
        let mut place = classify(path);
        if let Some(dialect) = place.dialect.filter(|_| place.session.is_none()) {
            let line = bytes.split(|byte| *byte == b'\n').next().unwrap();
            place = harness_of(dialect).unwrap().complete(path, &place, line).unwrap_or(place);
        }
        let group = router.new_group();
        let source = router.open(SourceSpec {
            label: name(path),
            dialect: place.dialect.filter(|_| place.role != Role::Main),
            group,
            session: place.session,
            agent: place.agent,
            ..SourceSpec::default()
        });
        bytes.chunks(chunk).for_each(|bytes| router.push(source, bytes));
        router.flush(source);
    }
    let sessions: Vec<_> = router.sessions().cloned().collect();
    assert_eq!(sessions.len(), 1, "{files:?}");
    let prices = PriceTable::default();
    let limits = Limits::default();
    let now = Now { at: LATER, has_ended: false, is_growing: false, prices: &prices, limits };
    serde_json::to_value(router.tree(&sessions[0], &now).unwrap()).unwrap()
}

fn by_id(list: &Value) -> BTreeMap<String, &Value> {
    let all = list.as_array().unwrap().iter();
    all.map(|item| (item["id"].as_str().unwrap().to_owned(), item)).collect()
}

/// Returns what differs. One source alone may lack agents, calls, tokens and endings.
fn differences(tree: &Value, truth: &Value, is_alone: bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: &str, ours: &Value, truth: &Value| {
        let is_less = is_alone && (ours.is_null() || ours == &Value::from(0));
        if !is_less && ours != truth {
            found.push(format!("{what}: {ours} instead of {truth}"));
        }
    };
    for field in ["id", "harness", "runs"] {
        compare(field, &tree["session"][field], &truth["session"][field]);
    }
    let (ours, theirs) = (by_id(&tree["agents"]), by_id(&truth["agents"]));
    for (id, agent) in &theirs {
        let Some(row) = ours.get(id) else {
            if !is_alone {
                compare(id, &Value::Null, &Value::from(true));
            }
            continue;
        };
        for field in
            ["parent_id", "spawned_by", "depth", "type", "name", "description", "model", "background"]
        {
            compare(&format!("{id} {field}"), &row[field], &agent[field]);
        }
        for kind in ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"] {
            compare(&format!("{id} {kind}"), &row["usage"][kind], &agent["usage"][kind]);
        }
        let accepts = agent["status"].as_array().unwrap();
        let is_less = is_alone && row["status"] == "lost";
        if !is_less && !accepts.contains(&row["status"]) {
            compare(&format!("{id} status"), &row["status"], &agent["status"]);
        }
        let (calls, truths) = (by_id(&row["tools"]), by_id(&agent["tools"]));
        for (call, truth) in &truths {
            let Some(ours) = calls.get(call) else {
                if !is_alone {
                    compare(call, &Value::Null, truth);
                }
                continue;
            };
            compare(call, &ours["name"], &truth["name"]);
            if !truth["status"].as_array().unwrap().contains(&ours["status"]) {
                compare(call, &ours["status"], &truth["status"]);
            }
        }
        for call in calls.keys().filter(|call| !truths.contains_key(*call)) {
            compare(&format!("{id} {call}"), &Value::from("a call"), &Value::Null);
        }
    }
    for (id, row) in ours.iter().filter(|(id, _)| !theirs.contains_key(*id)) {
        // A stream may know an agent by its call alone.
        let is_of_call = is_alone && theirs.values().any(|agent| agent["spawned_by"] == row["spawned_by"]);
        if !is_of_call || row["status"] != "lost" {
            compare(id, &Value::from("an agent"), &Value::Null);
        }
    }
    if !is_alone {
        for kind in ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"] {
            for sum in ["usage", "unattributed_usage"] {
                let ours = tree["summary"][sum].get(kind).cloned().unwrap_or(Value::from(0));
                compare(&format!("{sum} {kind}"), &ours, &truth["summary"][sum][kind]);
            }
        }
    }
    found.extend(tree["problems"].as_array().unwrap().iter().map(Value::to_string));
    found
}

#[test]
fn recordings_give_their_truth_from_each_source_and_from_all() {
    let mut wrong = Vec::new();
    for (recording, disk, streams) in recordings() {
        let truth: Value = serde_json::from_slice(&fs::read(recording.join("truth.json")).unwrap()).unwrap();
        let all = [disk.clone(), streams.clone()].concat();
        let reversed: Vec<PathBuf> = all.iter().rev().cloned().collect();
        let cases = [(&disk, true), (&streams, true), (&all, false), (&reversed, false)];
        for (files, is_alone) in cases.into_iter().filter(|(files, _)| !files.is_empty()) {
            for chunk in [usize::MAX, 61] {
                let tree = read(files, chunk.min(1 << 20));
                for difference in differences(&tree, &truth, is_alone) {
                    wrong.push(format!("{}, {} files: {difference}", recording.display(), files.len()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_disk_alone_gives_all_agents_and_calls() {
    for (recording, disk, _) in recordings() {
        let truth: Value = serde_json::from_slice(&fs::read(recording.join("truth.json")).unwrap()).unwrap();
        let tree = read(&disk, 1 << 20);
        let ids = |tree: &Value| by_id(&tree["agents"]).into_keys().collect::<Vec<_>>();
        assert_eq!(ids(&tree), ids(&truth), "{recording:?}");
        assert_eq!(tree["summary"]["tool_calls"], truth["summary"]["tool_calls"], "{recording:?}");
    }
}

/// Returns agents and calls of a tree, with what is certain of them.
fn sketch(tree: &Value) -> Vec<(String, Value, Vec<String>)> {
    let agents = by_id(&tree["agents"]);
    agents
        .into_iter()
        .map(|(id, row)| (id, row["parent_id"].clone(), by_id(&row["tools"]).into_keys().collect()))
        .collect()
}

#[test]
fn a_stream_that_is_cut_adds_nothing_to_the_disk() {
    let folder = std::env::temp_dir().join(format!("subscope-chats-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    // A stream of Copilot names its session late, so its begin alone joins nothing.
    let names_session = |recording: &Path| !recording.components().any(|part| part.as_os_str() == "copilot");
    for (recording, disk, streams) in recordings().into_iter().filter(|(at, ..)| names_session(at)) {
        let whole = sketch(&read(&[disk.clone(), streams.clone()].concat(), 1 << 20));
        let bytes = fs::read(&streams[0]).unwrap();
        let cut = folder.join("stdout.jsonl");
        let ends = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').step_by(7);
        for end in ends {
            fs::write(&cut, &bytes[..=end]).unwrap();
            let mut files = disk.clone();
            files.extend(streams.iter().skip(1).cloned());
            files.push(cut.clone());
            assert_eq!(sketch(&read(&files, 1 << 20)), whole, "{recording:?} {end}");
        }
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// Returns the only tree of one source.
fn tree_of(path: &str, bytes: &str) -> Value {
    let folder = std::env::temp_dir().join(format!("subscope-chats-{}-{}", std::process::id(), bytes.len()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(path);
    fs::write(&path, bytes).unwrap();
    let tree = read(&[path], 1 << 20);
    fs::remove_dir_all(&folder).unwrap();
    tree
}

#[test]
fn a_chat_of_one_object_has_the_agents_of_its_calls() {
    let text = r#"{
  "sessionId": "s1",
  "projectHash": "h",
  "startTime": "2026-04-01T10:00:00.000Z",
  "lastUpdated": "2026-04-01T10:01:00.000Z",
  "messages": [
    {"id": "1", "timestamp": "2026-04-01T10:00:01.000Z", "type": "user", "content": [{"text": "count"}]},
    {"id": "2", "timestamp": "2026-04-01T10:00:02.000Z", "type": "gemini", "content": "", "model": "m",
     "tokens": {"input": 100, "output": 10, "cached": 40, "thoughts": 5, "tool": 3, "total": 118},
     "toolCalls": [{"id": "counter-1", "name": "counter", "args": {"task": "x"}, "status": "success",
       "timestamp": "2026-04-01T10:00:05.000Z",
       "result": [{"functionResponse": {"id": "counter-1", "name": "counter", "response":
         {"output": "Subagent counter Finished\nTermination Reason: GOAL\nResult:\n2"}}}]},
      {"id": "read-1", "name": "read_file", "args": {}, "status": "error", "resultDisplay": "File not found"}]},
    {"id": "3", "timestamp": "2026-04-01T10:00:09.000Z", "type": "gemini", "content": "two", "model": "m",
     "tokens": {"input": 10, "output": 1, "cached": 0, "thoughts": 0, "tool": 0, "total": 11}}
  ]
}"#;
    let tree = tree_of("session-2026-04-01T10-00-s1s1s1s1.json", text);
    assert_eq!(tree["session"]["id"], "s1");
    assert_eq!(tree["session"]["runs"], 1);
    let (root, agent) = (&tree["agents"][0], &tree["agents"][1]);
    assert_eq!(
        (&root["status"], &root["tool_calls"], &root["tool_errors"]),
        (&"completed".into(), &2.into(), &1.into())
    );
    assert_eq!(root["usage"]["input_tokens"], 60 + 3 + 10);
    assert_eq!(root["usage"]["output_tokens"], 15 + 1);
    assert_eq!((&agent["id"], &agent["type"]), (&"counter-1".into(), &"counter".into()));
    assert_eq!((&agent["status"], &agent["spawned_by"]), (&"completed".into(), &"counter-1".into()));
}

#[test]
fn agents_of_a_killed_gemini_are_linked_by_their_prompts_and_the_root_is_not_completed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/gemini/0.61.0/two_parallel");
    let folder = std::env::temp_dir().join(format!("subscope-killed-{}", std::process::id()));
    let head = |from: &Path, to: &str, lines: usize| {
        let bytes = fs::read(from).unwrap();
        let cut: Vec<u8> =
            bytes.split_inclusive(|byte| *byte == b'\n').take(lines).flatten().copied().collect();
        let to = folder.join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(&to, cut).unwrap();
        to
    };
    let mut all = Vec::new();
    walk(&root, &mut all);
    let chats = all.iter().filter(|path| path.to_string_lossy().contains("/chats/"));
    let mut disk = Vec::new();
    for path in chats {
        let at = path.strip_prefix(&root).unwrap().to_str().unwrap();
        let is_root = name(path).starts_with("session-");
        disk.push(head(path, at, if is_root { 9 } else { usize::MAX }));
    }
    let tree = read(&disk, 1 << 20);
    assert_eq!(tree["agents"][0]["status"], "lost");
    assert_eq!(tree["agents"].as_array().unwrap().len(), 3);
    disk.push(head(&root.join("stdout.jsonl"), "stdout.jsonl", 7));
    let tree = read(&disk, 1 << 20);
    assert_eq!(tree["agents"][0]["open_tools"], 2);
    assert_eq!(tree["agents"][0]["status"], "lost");
    for agent in tree["agents"].as_array().unwrap().iter().skip(1) {
        assert_eq!(agent["status"], "completed");
        assert!(agent["spawned_by"].as_str().unwrap().starts_with("invoke_agent__"), "{agent}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn every_cut_of_a_transcript_gives_only_agents_and_calls_of_the_whole() {
    let folder = std::env::temp_dir().join(format!("subscope-cuts-{}", std::process::id()));
    for (recording, disk, _) in recordings() {
        let truth: Value = serde_json::from_slice(&fs::read(recording.join("truth.json")).unwrap()).unwrap();
        let calls: Vec<Value> = by_id(&truth["agents"])
            .values()
            .flat_map(|agent| by_id(&agent["tools"]).into_keys().map(Value::from).collect::<Vec<_>>())
            .collect();
        let agents = by_id(&truth["agents"]);
        let main = disk.iter().position(|path| classify(path).role == Role::Main).unwrap();
        let bytes = fs::read(&disk[main]).unwrap();
        let at = disk[main].strip_prefix(&recording).unwrap();
        let cut = folder.join(at);
        fs::create_dir_all(cut.parent().unwrap()).unwrap();
        let ends: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').collect();
        // At the end of a line, and inside the next one.
        for end in ends.iter().flat_map(|end| [end + 1, (end + 40).min(bytes.len())]) {
            fs::write(&cut, &bytes[..end]).unwrap();
            let mut files = disk.clone();
            files[main].clone_from(&cut);
            let tree = read(&files, 4096);
            for (id, agent) in by_id(&tree["agents"]) {
                let is_known = agents.contains_key(&id) || calls.contains(&Value::from(id.as_str()));
                assert!(is_known, "{recording:?} at {end}: {id}");
                for call in by_id(&agent["tools"]).into_keys() {
                    assert!(calls.contains(&Value::from(call.as_str())), "{recording:?} at {end}: {call}");
                }
            }
        }
    }
    fs::remove_dir_all(&folder).unwrap();
}
