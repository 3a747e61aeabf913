//! A home in which nine harnesses keep their sessions.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use serde_json::{Value, json};
use subscope_testkit::{
    env::TestEnv,
    fixtures::{self, recording},
    others::{OtherRecording, other_recordings},
};

use crate::common::json as parsed;

/// Recordings of eight harnesses, each with what it has on disk and where that goes in the environment.
pub(crate) const OTHERS: &[(&str, &str, &str)] = &[
    ("codex/0.169.0/v1_two_parallel", "sessions", "home/.codex/sessions"),
    ("copilot/1.0.102/two_parallel", "dot_copilot", "home/.copilot"),
    ("cline/3.0.65/nested", "dot_cline", "home/.cline/data"),
    ("gemini/0.61.0/two_parallel", "dot_gemini_tmp", "home/.gemini/tmp"),
    ("kimi/2.1.0/nested", "dot_kimi", "home/.kimi-code"),
    ("omp/18.2.3/nested", "dot_omp", "home/.omp/agent"),
    ("opencode/1.18.33/two_parallel", "opencode.db", "data/opencode/opencode.db"),
    ("qwen/0.24.4/two_background", "dot_qwen", "home/.qwen"),
];

/// A fork of one of them: its recording, database, and where that goes.
pub(crate) const FORK: (&str, &str, &str) = ("kilo/7.7.7/nested", "kilo.db", "data/kilo/kilo.db");

pub(crate) const CLAUDE_CODE: (&str, &str) = ("2.1.330", "c-nested");

pub(crate) fn recorded(name: &str) -> OtherRecording {
    other_recordings().into_iter().find(|recording| recording.name() == name).unwrap()
}

/// A file, and where it goes.
pub(crate) struct Placed {
    pub(crate) to: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

/// All files of the home but the database.
pub(crate) fn files(env: &TestEnv) -> Vec<Placed> {
    let claude = recording(CLAUDE_CODE.0, CLAUDE_CODE.1);
    let mut folders = vec![(claude.projects(), "home/.claude/projects")];
    for (name, on_disk, to) in OTHERS.iter().filter(|(.., to)| !to.ends_with(".db")) {
        folders.push((recorded(name).folder.join(on_disk), to));
    }
    let placed = |(from, to): (PathBuf, &str)| {
        let place = |file: PathBuf| Placed {
            to: env.path(to).join(file.strip_prefix(&from).unwrap()),
            bytes: fixtures::bytes(&file),
        };
        fixtures::files_below(&from).into_iter().map(place).collect::<Vec<Placed>>()
    };
    folders.into_iter().flat_map(placed).collect()
}

pub(crate) fn write(to: &PathBuf, bytes: &[u8]) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::write(to, bytes).unwrap();
}

pub(crate) fn database(env: &TestEnv) -> (PathBuf, PathBuf) {
    let (name, on_disk, to) = OTHERS.iter().find(|(.., to)| to.ends_with(".db")).unwrap();
    (recorded(name).folder.join(on_disk), env.path(to))
}

/// Writes the whole home. Returns its files, and where the database is.
pub(crate) fn fill(env: &TestEnv) -> (Vec<Placed>, PathBuf) {
    let all = files(env);
    all.iter().for_each(|file| write(&file.to, &file.bytes));
    let (from, to) = database(env);
    write(&to, &fixtures::bytes(&from));
    (all, to)
}

pub(crate) fn all_ids() -> Vec<String> {
    let claude = recording(CLAUDE_CODE.0, CLAUDE_CODE.1).truth().session.id;
    let id =
        |(name, ..): &(&str, &str, &str)| recorded(name).truth["session"]["id"].as_str().unwrap().to_owned();
    OTHERS.iter().map(id).chain([claude.to_string()]).collect()
}

/// What the list says of each session.
pub(crate) fn rows(env: &TestEnv) -> BTreeMap<String, Value> {
    let page = parsed(&env.run(&["ls", "--json", "--all"]).success());
    let rows = page["sessions"].as_array().unwrap().iter();
    let told =
        |row: &Value| json!([row["harness"], row["title"], row["agents"], row["tool_calls"], row["usage"]]);
    rows.map(|row| (row["id"].as_str().unwrap().to_owned(), told(row))).collect()
}

/// Asserts that no session has changed.
#[track_caller]
pub(crate) fn assert_same(after: &BTreeMap<String, Value>, before: &BTreeMap<String, Value>, what: &str) {
    let ids: BTreeSet<&String> = after.keys().chain(before.keys()).collect();
    let changed = ids.into_iter().filter(|id| after.get(*id) != before.get(*id));
    let told = |all: &BTreeMap<String, Value>, id| {
        all.get(id).map_or_else(|| "no session".to_owned(), Value::to_string)
    };
    let changed: Vec<String> =
        changed.map(|id| format!("{id}:\n{}\n{}", told(before, id), told(after, id))).collect();
    assert!(changed.is_empty(), "{what}:\n{}", changed.join("\n"));
}

/// Trees of sessions: their titles, sums, and agents with all that rows have of them.
pub(crate) fn trees_of(env: &TestEnv, ids: &[String]) -> Vec<Value> {
    let tree = |id: &String| {
        let tree = parsed(&env.run(&["-q", "tree", id, "--json"]).success());
        json!([tree["session"]["id"], tree["session"]["title"], tree["summary"], tree["agents"]])
    };
    ids.iter().map(tree).collect()
}

/// Asserts that trees are equal, and names the first that is not.
#[track_caller]
pub(crate) fn assert_trees(found: &[Value], expected: &[Value], what: &str) {
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found, expected, "{what}: {}", expected[0]);
    }
}
