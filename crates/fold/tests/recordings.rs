//! Every recording against its truth: from the transcript alone, and from all three sources in every order.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use subscope_fold::{Fold, FoldOptions, Keep, Limits, Now, SourceSpec};
use subscope_model::{PriceTable, Tree};

/// Long after every recording.
const LATER: i64 = 1_900_000_000_000;

fn recordings() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/claude-code");
    let mut all = Vec::new();
    for version in fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()) {
        all.extend(fs::read_dir(version).unwrap().map(|entry| entry.unwrap().path()));
    }
    all.sort();
    assert!(all.len() >= 31, "fixtures are missing");
    all
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "jsonl" || ending == "json") {
            files.push(path);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Part {
    Transcript,
    Stream,
    Hooks,
}

fn files(recording: &Path, part: Part) -> Vec<PathBuf> {
    let mut files = Vec::new();
    match part {
        Part::Transcript => walk(&recording.join("projects"), &mut files),
        Part::Stream => {
            for entry in fs::read_dir(recording).unwrap().map(|entry| entry.unwrap().path()) {
                let name = entry.file_name().unwrap().to_string_lossy().into_owned();
                if name.starts_with("stream.") && name.ends_with(".jsonl") {
                    files.push(entry);
                }
            }
            files.sort();
        }
        Part::Hooks => files.push(recording.join("hooks.jsonl")),
    }
    files
}

fn fold(recording: &Path, parts: &[Part]) -> Tree {
    let mut fold = Fold::new(FoldOptions { keep: Keep::Rows, cutoff: None, events: false });
    for part in parts {
        for path in files(recording, *part) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let agent = name.strip_prefix("agent-").map(|rest| rest.split('.').next().unwrap().to_owned());
            let spec = SourceSpec {
                label: name,
                agent: agent.filter(|_| *part == Part::Transcript),
                can_reread: true,
                ..SourceSpec::default()
            };
            let source = fold.open(spec);
            for chunk in fs::read(&path).unwrap().chunks(1 << 16) {
                fold.push(source, chunk);
            }
            fold.flush(source);
        }
    }
    let sessions: Vec<_> = fold.sessions().cloned().collect();
    assert_eq!(sessions.len(), 1, "{recording:?} {parts:?}: {sessions:?}");
    let prices = PriceTable::default();
    let now = Now { at: LATER, has_ended: false, is_growing: false, prices: &prices, limits: Limits::default() };
    fold.tree(&sessions[0], &now).unwrap()
}

fn compare(what: &str, tree: &Tree, truth: &Value, wrong: &mut Vec<String>) {
    let json = serde_json::to_value(tree).unwrap();
    let agents = truth["agents"].as_array().unwrap();
    for expected in agents {
        let id = expected["id"].as_str().unwrap();
        let optional = expected["optional"] == true;
        let found = json["agents"].as_array().unwrap().iter().find(|row| row["id"] == id);
        let Some(found) = found else {
            if !optional {
                wrong.push(format!("{what}: {id} missing"));
            }
            continue;
        };
        let mut differ = |field: &str, is: &Value, should: &Value| {
            if is != should {
                wrong.push(format!("{what}: {id} {field}: {is} instead of {should}"));
            }
        };
        for field in ["actor_id", "spawned_by", "parent_id", "depth", "type", "description", "model", "tool_calls",
            "tool_errors", "tools_denied", "open_tools"]
        {
            if optional && ["parent_id", "type"].contains(&field) {
                continue;
            }
            differ(field, &found[field], &expected[field]);
        }
        for kind in ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "total_tokens", "floor"] {
            differ(kind, &found["usage"][kind], &expected["usage"][kind]);
        }
        let words = expected["status"].as_array().unwrap();
        if !words.contains(&found["status"]) {
            differ("status", &found["status"], &expected["status"]);
        }
        for tool in expected["tools"].as_array().unwrap() {
            let own = found["tools"].as_array().unwrap().iter().find(|own| own["id"] == tool["id"]);
            match own {
                Some(own) => {
                    differ("tool name", &own["name"], &tool["name"]);
                    if !tool["status"].as_array().unwrap().contains(&own["status"]) {
                        differ("tool status", &own["status"], &tool["status"]);
                    }
                }
                None => differ("tool", &Value::Null, &tool["id"]),
            }
        }
    }
    for row in &tree.agents {
        if !agents.iter().any(|expected| expected["id"] == *row.id.0) {
            wrong.push(format!("{what}: {} invented", row.id));
        }
    }
    if json["session"]["runs"] != truth["session"]["runs"] {
        wrong.push(format!("{what}: runs {} instead of {}", json["session"]["runs"], truth["session"]["runs"]));
    }
    for kind in ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"] {
        let is = &json["summary"]["unattributed_usage"][kind];
        let should = &truth["summary"]["unattributed_usage"][kind];
        if !json["summary"]["unattributed_usage"].is_null() && is != should {
            wrong.push(format!("{what}: unattributed {kind} {is} instead of {should}"));
        }
    }
}

#[test]
fn transcript_alone_tells_the_truth() {
    let mut wrong = Vec::new();
    for recording in recordings() {
        let truth: Value = serde_json::from_slice(&fs::read(recording.join("truth.json")).unwrap()).unwrap();
        let tree = fold(&recording, &[Part::Transcript]);
        let name = recording.iter().rev().take(2).map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ");
        compare(&name, &tree, &truth, &mut wrong);
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn all_sources_in_every_order_give_one_tree() {
    use Part::{Hooks, Stream, Transcript};
    let orders = [
        [Transcript, Stream, Hooks],
        [Transcript, Hooks, Stream],
        [Stream, Transcript, Hooks],
        [Stream, Hooks, Transcript],
        [Hooks, Transcript, Stream],
        [Hooks, Stream, Transcript],
    ];
    let mut wrong = Vec::new();
    for recording in recordings() {
        let truth: Value = serde_json::from_slice(&fs::read(recording.join("truth.json")).unwrap()).unwrap();
        let name = recording.iter().rev().take(2).map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let first = fold(&recording, &orders[0]);
        compare(&format!("merged {name}"), &first, &truth, &mut wrong);
        for order in &orders[1..] {
            let tree = fold(&recording, order);
            if tree != first {
                let (one, other) = (serde_json::to_string_pretty(&first).unwrap(), serde_json::to_string_pretty(&tree).unwrap());
                let line = one.lines().zip(other.lines()).find(|(one, other)| one != other);
                wrong.push(format!("{name}: {order:?} differs: {line:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
