//! Recorded spans of agent frameworks (`fixtures/frameworks`), with what their programs did, and how much of that a tree
//! shows.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use subscope_model::{Agent, Flag, Tree};

use crate::{
    fixtures::{root, text},
    random::Random,
};

/// What is compared with the truth.
pub const ASPECTS: [&str; 6] = ["agents", "parents", "calls", "tokens", "endings", "sessions"];

/// Spans of a framework, as its exporter sent them.
#[derive(Clone, Debug)]
pub struct FrameworkRecording {
    /// Framework and instrumentation: `strands.native`.
    pub name: String,
    /// The requests, one a line.
    pub requests: Vec<String>,
    /// What happened.
    pub truth: Value,
}

/// Returns all recordings with a truth, by name.
pub fn framework_recordings() -> Vec<FrameworkRecording> {
    let folder = root().join("frameworks");
    let mut all = Vec::new();
    for file in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
        let file = file.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(name) = name.strip_suffix(".truth.json") else { continue };
        let requests = text(&folder.join(format!("{name}.otlp.jsonl"))).lines().map(str::to_owned).collect();
        let truth = serde_json::from_str(&text(&file)).unwrap_or_default();
        all.push(FrameworkRecording { name: name.to_owned(), requests, truth });
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

/// Returns the requests of a reduced case.
pub fn reduced_case(name: &str) -> Vec<String> {
    text(&root().join("frameworks").join(format!("min-{name}.otlp.jsonl")))
        .lines()
        .map(str::to_owned)
        .collect()
}

/// Returns a request for each span.
pub fn split_by_span(requests: &[String]) -> Vec<String> {
    let list = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let mut all = Vec::new();
    for request in requests {
        let request: Value = serde_json::from_str(request).unwrap_or_default();
        let body = if request["body"].is_object() { &request["body"] } else { &request };
        for resource in list(body, "resourceSpans") {
            for scope in list(&resource, "scopeSpans") {
                for span in list(&scope, "spans") {
                    let scoped = json!({ "scope": scope["scope"], "spans": [span] });
                    let group = json!({ "resource": resource["resource"], "scopeSpans": [scoped] });
                    all.push(json!({ "resourceSpans": [group] }).to_string());
                }
            }
        }
    }
    all
}

/// Returns the OTLP body of a request.
pub fn body_of(request: &str) -> String {
    let parsed: Value = serde_json::from_str(request).unwrap_or_default();
    if parsed["body"].is_object() { parsed["body"].to_string() } else { request.to_owned() }
}

/// Returns the requests in every way in which they may come: as recorded, split, repeated, shuffled.
pub fn deliveries(requests: &[String]) -> Vec<(String, Vec<String>)> {
    let spans = split_by_span(requests);
    let shuffled = |all: &[String], seed: u64| {
        let (mut random, mut all) = (Random::new(seed), all.to_vec());
        for place in (1..all.len()).rev() {
            all.swap(place, random.between(0, place as u64) as usize);
        }
        all
    };
    let mut ways = vec![
        ("as recorded".to_owned(), requests.to_vec()),
        ("repeated".to_owned(), requests.iter().chain(requests).cloned().collect()),
        ("split by span".to_owned(), spans.clone()),
        ("backwards".to_owned(), spans.iter().rev().cloned().collect()),
    ];
    for seed in 1..=3 {
        ways.push((format!("requests shuffled {seed}"), shuffled(requests, seed)));
        ways.push((format!("spans shuffled {seed}"), shuffled(&spans, seed)));
    }
    ways
}

/// Returns what rows of a program say, without what depends on when they were read.
pub fn facts_of_trees(trees: &[Tree]) -> Value {
    let rows = |tree: &Tree| -> Value {
        let row = |row: &Agent| {
            let mut calls: Vec<String> = row
                .tools
                .iter()
                .map(|call| {
                    format!("{:?} {} {} {}", call.id, call.name, call.status.as_str(), call.basis.as_str())
                })
                .collect();
            calls.sort();
            json!([
                row.id,
                row.parent_id,
                row.spawned_by,
                row.agent_type,
                row.status,
                row.usage,
                row.prompt,
                row.result,
                row.intervals,
                row.has(Flag::Handoff),
                row.has(Flag::Inferred),
                calls,
            ])
        };
        let mut all: Vec<Value> = tree.agents.iter().map(row).collect();
        all.sort_by_key(Value::to_string);
        json!([tree.session.id, tree.session.runs, all])
    };
    let mut all: Vec<Value> = trees.iter().map(rows).collect();
    all.sort_by_key(Value::to_string);
    all.into()
}

/// Returns which of [`ASPECTS`] the trees show as they were.
pub fn right_aspects(trees: &[Tree], truth: &Value) -> [bool; ASPECTS.len()] {
    let differences = differences(trees, truth);
    ASPECTS.map(|aspect| differences.iter().all(|(other, _)| *other != aspect))
}

/// Returns what the trees show otherwise than it was: the aspect, and a description.
pub fn differences(trees: &[Tree], truth: &Value) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    let mut same = |aspect: &'static str, what: &str, found: Value, expected: Value| {
        if found != expected {
            all.push((aspect, format!("{what}: {found}, and not {expected}")));
        }
    };
    let empty = Vec::new();
    let expected = truth["agents"].as_array().unwrap_or(&empty);
    let rows: Vec<&Agent> = trees.iter().flat_map(|tree| &tree.agents).collect();
    let root_name = expected
        .iter()
        .find(|agent| agent["parent"].is_null())
        .map_or("", |agent| agent["type"].as_str().unwrap_or_default());
    // The root is known by its place: some programs do not name it.
    let name_of = |row: &Agent| {
        if row.id.is_root() {
            root_name.to_owned()
        } else {
            row.agent_type.as_deref().unwrap_or_default().to_owned()
        }
    };
    let found: BTreeMap<String, &Agent> = rows.iter().map(|row| (name_of(row), *row)).collect();
    same("sessions", "sessions", trees.len().into(), truth["sessions"].clone());
    same("agents", "rows", rows.len().into(), expected.len().into());
    for agent in expected {
        let name = agent["type"].as_str().unwrap_or_default();
        let Some(row) = found.get(name) else {
            for aspect in &ASPECTS[..5] {
                same(aspect, name, Value::Null, json!("a row"));
            }
            continue;
        };
        let of = |what: &str| format!("{what} of {name}");
        same("agents", &of("name"), json!(row.agent_type), agent["type"].clone());
        let parent = row.parent_id.as_ref().and_then(|id| rows.iter().find(|other| other.id == *id));
        same("parents", &of("parent"), json!(parent.map(|parent| name_of(parent))), agent["parent"].clone());
        same("parents", &of("root"), row.id.is_root().into(), agent["parent"].is_null().into());
        let calls = row.tools.iter().map(|call| called(&call.name, call.status.as_str()));
        let listed = agent["calls"].as_array().unwrap_or(&empty).iter();
        let listed = listed.map(|call| {
            let word = |field: &str| call[field].as_str().unwrap_or_default();
            called(word("name"), word("status"))
        });
        same("calls", &of("calls"), sorted(calls), sorted(listed));
        let [input, output, read, write] = row.usage.unwrap_or_default().kinds();
        let usage = json!({"input_with_cache": input + read + write, "cache_read": read, "output": output});
        same("tokens", &of("tokens"), usage, agent["tokens"].clone());
        same("endings", &of("ending"), row.status.as_str().into(), agent["ending"].clone());
    }
    all
}

/// Returns a call with its ending as text; instrumentations write the names of tools differently.
fn called(name: &str, status: &str) -> String {
    format!("{} {status}", name.to_lowercase().replace(' ', "_"))
}

fn sorted(texts: impl Iterator<Item = String>) -> Value {
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts.into()
}
