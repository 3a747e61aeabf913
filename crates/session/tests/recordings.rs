//! Compares every recording with its truth: from the transcript alone, and from all three sources in every order.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its fixtures has failed")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use subscope_model::{PriceTable, Tree};
use subscope_session::{EventScope, FactDetail, Limits, Now, RouterOptions, SessionRouter, SourceSpec};

/// Long after every recording.
const LATER: i64 = 1_900_000_000_000;

fn recordings() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/claude-code");
    let mut all = Vec::new();
    for version in fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()) {
        all.extend(fs::read_dir(version).unwrap().map(|entry| entry.unwrap().path()));
    }
    all.sort();
    assert!(all.len() >= 47, "fixtures are missing");
    all
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
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

fn is_interactive(recording: &Path) -> bool {
    recording.file_name().unwrap().to_string_lossy().starts_with("interactive-")
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
    // An interactive session prints no stream.
    assert_eq!(files.is_empty(), part == Part::Stream && is_interactive(recording), "{recording:?} {part:?}");
    files
}

fn read(recording: &Path, parts: &[Part]) -> Tree {
    let mut router = SessionRouter::new(RouterOptions {
        keep: FactDetail::Rows,
        cutoff: None,
        events: EventScope::Nothing,
    });
    for part in parts {
        for path in files(recording, *part) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let agent = name.strip_prefix("agent-").map(|rest| rest.split('.').next().unwrap().to_owned());
            // A meta file copied by `/clear` has no transcript: its folder names its session.
            let below = path.parent().filter(|folder| folder.ends_with("subagents")).and_then(Path::parent);
            let spec = SourceSpec {
                session: below.map(|folder| folder.file_name().unwrap().to_string_lossy().into_owned()),
                label: name,
                agent: agent.filter(|_| *part == Part::Transcript),
                ..SourceSpec::default()
            };
            let source = router.open(spec);
            for chunk in fs::read(&path).unwrap().chunks(1 << 16) {
                router.push(source, chunk);
            }
            router.flush(source);
        }
    }
    let sessions: Vec<_> = router.sessions().cloned().collect();
    assert_eq!(sessions.len(), 1, "{recording:?} {parts:?}: {sessions:?}");
    let prices = PriceTable::default();
    let now =
        Now { at: LATER, has_ended: false, is_growing: false, prices: &prices, limits: Limits::default() };
    router.tree(&sessions[0], &now).unwrap()
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
        for field in [
            "actor_id",
            "spawned_by",
            "parent_id",
            "depth",
            "type",
            "description",
            "model",
            "tool_calls",
            "tool_errors",
            "tools_denied",
            "open_tools",
        ] {
            if optional && ["parent_id", "type"].contains(&field) {
                continue;
            }
            differ(field, &found[field], &expected[field]);
        }
        for kind in [
            "input_tokens",
            "output_tokens",
            "cache_read_tokens",
            "cache_write_tokens",
            "total_tokens",
            "floor",
        ] {
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
        wrong.push(format!(
            "{what}: runs {} instead of {}",
            json["session"]["runs"], truth["session"]["runs"]
        ));
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
        let tree = read(&recording, &[Part::Transcript]);
        let name =
            recording.iter().rev().take(2).map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ");
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
        let name =
            recording.iter().rev().take(2).map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let first = read(&recording, &orders[0]);
        compare(&format!("merged {name}"), &first, &truth, &mut wrong);
        for order in &orders[1..] {
            let tree = read(&recording, order);
            if tree != first {
                let (one, other) = (
                    serde_json::to_string_pretty(&first).unwrap(),
                    serde_json::to_string_pretty(&tree).unwrap(),
                );
                let line = one.lines().zip(other.lines()).find(|(one, other)| one != other);
                wrong.push(format!("{name}: {order:?} differs: {line:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Compares a tree of one source with the truth: it may lack facts, but not contradict it.
fn compare_part(what: &str, tree: &Tree, truth: &Value, part: Part, wrong: &mut Vec<String>) {
    let agents = truth["agents"].as_array().unwrap();
    let owner_of = |tool: &str| {
        let has = |agent: &&Value| agent["tools"].as_array().unwrap().iter().any(|own| own["id"] == tool);
        agents.iter().find(has)
    };
    for row in &tree.agents {
        let by_id = agents.iter().find(|expected| expected["id"] == *row.id.0);
        let by_call = row.spawned_by.as_ref().and_then(|call| {
            agents.iter().find(|expected| expected["spawned_by"].as_str() == Some(call.as_str()))
        });
        // The hooks of 1.0.x name neither agent nor call: find the agent by its prompt.
        let by_words = || {
            let words = row.description.as_deref().filter(|_| row.id.starts_with("agent-"))?;
            agents.iter().find(|expected| expected["description"] == words)
        };
        let Some(expected) = by_id.or(by_call).or_else(by_words) else {
            wrong.push(format!("{what}: {} invented", row.id));
            continue;
        };
        let found = serde_json::to_value(row).unwrap();
        let optional = expected["optional"] == true;
        for field in ["spawned_by", "parent_id", "type", "description", "model"] {
            // Some versions name an agent's model in its own file only; a stream may have the requested alias.
            if optional || found[field].is_null() || (field == "model" && row.messages == 0) {
                continue;
            }
            if found[field] != expected[field] {
                wrong.push(format!(
                    "{what}: {} {field}: {} instead of {}",
                    row.id, found[field], expected[field]
                ));
            }
        }
        if row.parent_id.is_some() && found["depth"] != expected["depth"] {
            wrong.push(format!(
                "{what}: {} depth: {} instead of {}",
                row.id, found["depth"], expected["depth"]
            ));
        }
        // Hooks of a killed process end with the session and report no end of any agent.
        let may_be_lost = part == Part::Hooks && row.evidence.as_deref() == Some("the session ended");
        if !expected["status"].as_array().unwrap().contains(&found["status"]) && !may_be_lost {
            wrong.push(format!(
                "{what}: {} status: {} ({:?}) instead of {}",
                row.id, found["status"], row.evidence, expected["status"]
            ));
        }
        for tool in &row.tools {
            let Some(id) = &tool.id else { continue };
            let Some(owner) = owner_of(id) else {
                wrong.push(format!("{what}: call {id} invented"));
                continue;
            };
            if !tool.basis.is_guess() && owner["id"] != expected["id"] {
                wrong.push(format!(
                    "{what}: call {id} {:?} of {} instead of {}",
                    tool.basis, row.id, owner["id"]
                ));
            }
            let own = owner["tools"].as_array().unwrap().iter().find(|own| own["id"] == **id).unwrap();
            let status = serde_json::to_value(tool.status).unwrap();
            if !own["status"].as_array().unwrap().contains(&status) && status != "open" {
                wrong.push(format!("{what}: call {id} {status} instead of {}", own["status"]));
            }
            // The result of a call that was interrupted is in the transcript only.
            let was_cut = expected["status"] == serde_json::json!(["stopped"]);
            if status == "open"
                && part == Part::Stream
                && own["status"] != serde_json::json!(["open"])
                && !was_cut
            {
                wrong.push(format!("{what}: call {id} {} left open", tool.name));
            }
        }
        if let Some(usage) = row.usage {
            if part == Part::Stream && !row.id.is_root() && !usage.floor {
                wrong.push(format!("{what}: {} usage of a stream is no floor", row.id));
            }
            for (kind, is) in [("input_tokens", usage.input_tokens), ("output_tokens", usage.output_tokens)] {
                // What transcripts have of output tokens may be a lower bound itself (placeholders), which others exceed.
                let is_bound = kind == "output_tokens" && expected["usage"]["floor"] == true;
                if is > expected["usage"][kind].as_u64().unwrap() && !is_bound {
                    wrong.push(format!(
                        "{what}: {} {kind}: {is} is more than {}",
                        row.id, expected["usage"][kind]
                    ));
                }
            }
        }
    }
    for expected in agents {
        let is_there = tree.agents.iter().any(|row| {
            expected["id"] == *row.id.0
                || (row.id.starts_with("agent-")
                    && row.description.is_some()
                    && expected["description"].as_str() == row.description.as_deref())
                || (expected["spawned_by"].is_string()
                    && row.spawned_by.as_ref().is_some_and(|call| expected["spawned_by"] == **call))
        });
        if !is_there && expected["optional"] != true {
            wrong.push(format!("{what}: {} ({}) not told", expected["id"], expected["description"]));
        }
    }
    if u64::from(tree.session.runs) != truth["session"]["runs"].as_u64().unwrap() {
        wrong.push(format!("{what}: runs {} instead of {}", tree.session.runs, truth["session"]["runs"]));
    }
}

fn check_part(part: Part) {
    let mut wrong = Vec::new();
    for recording in recordings() {
        if files(&recording, part).is_empty() {
            continue;
        }
        let truth: Value = serde_json::from_slice(&fs::read(recording.join("truth.json")).unwrap()).unwrap();
        let name =
            recording.iter().rev().take(2).map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let tree = read(&recording, &[part]);
        compare_part(&name, &tree, &truth, part, &mut wrong);
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn stream_alone_says_nothing_else() {
    check_part(Part::Stream);
}

#[test]
fn hooks_alone_say_nothing_else() {
    check_part(Part::Hooks);
}
