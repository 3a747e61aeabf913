//! The output of every command and route for every recording is valid by the JSON Schemas of the documentation.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use common::{env, json, json_lines, run, serving::Serving};
use jsonschema::Validator;
use serde_json::Value;
use subscope_testkit::{
    env::TestEnv,
    fixtures::{self, recording},
};

/// The schemas, and how many documents were checked by each.
struct Schemas {
    validators: BTreeMap<String, Validator>,
    seen: BTreeMap<String, usize>,
}

impl Schemas {
    fn read() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/schemas");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let validator = |file: PathBuf| {
            let schema = json(&fs::read_to_string(&file).unwrap());
            assert!(jsonschema::meta::is_valid(&schema), "{}", file.display());
            (
                file.file_stem().unwrap().to_str().unwrap().to_owned(),
                jsonschema::validator_for(&schema).unwrap(),
            )
        };
        Self { validators: files.map(validator).collect(), seen: BTreeMap::new() }
    }

    fn check(&mut self, name: &str, document: &Value, what: &str) {
        *self.seen.entry(name.to_owned()).or_default() += 1;
        if let Some(error) = self.validators[name].iter_errors(document).next() {
            panic!("{what}: {name}: {error} at {}", error.instance_path());
        }
    }

    /// Checks a document by the schema that it names.
    fn check_named(&mut self, document: &Value, what: &str) {
        let name = document["schema"].as_str().unwrap_or_else(|| panic!("{what}: {document}"));
        let name = name.strip_prefix("subscope.").and_then(|name| name.strip_suffix("/1")).unwrap();
        self.check(name, document, what);
    }

    fn has_seen(&self, name: &str, at_least: usize) {
        let seen = self.seen.get(name).copied().unwrap_or(0);
        assert!(seen >= at_least, "{seen} documents of {name}");
    }
}

/// Returns the files that are sessions, of every harness.
fn sources() -> Vec<PathBuf> {
    let mut all = fixtures::files_below(&fixtures::root());
    all.retain(|file| {
        let name = file.file_name().unwrap().to_string_lossy();
        let is_part =
            file.components().any(|part| part.as_os_str() == "subagents" || part.as_os_str() == "storage");
        let is_log = ["api-", "otel", "stop-orders"].iter().any(|start| name.starts_with(start));
        !is_part && !is_log && [".jsonl", ".db"].iter().any(|end| name.ends_with(end))
    });
    assert!(all.len() > 200, "{}", all.len());
    all
}

/// Runs a command on every source; returns what it prints of those that it reads.
fn printed(words: &str) -> Vec<(String, String)> {
    let env = env();
    let ran = sources().into_iter().map(|source| {
        let ran = run(&env, words, &[&source]);
        (ran.code == Some(0)).then(|| (format!("{words} {}", source.display()), ran.stdout))
    });
    let printed: Vec<_> = ran.flatten().collect();
    assert!(printed.len() > 200, "{words}: {}", printed.len());
    printed
}

#[test]
fn trees_are_valid() {
    let mut schemas = Schemas::read();
    printed("tree --json").iter().for_each(|(what, text)| schemas.check("tree", &json(text), what));
}

#[test]
fn events_are_valid() {
    let mut schemas = Schemas::read();
    for (what, text) in printed("export --as feed") {
        json_lines(&text).iter().for_each(|event| schemas.check("event", event, &what));
    }
    schemas.has_seen("event", 10_000);
}

#[test]
fn executions_are_valid() {
    let mut schemas = Schemas::read();
    for (what, text) in printed("export --as execution") {
        json(&text).as_array().unwrap().iter().for_each(|trace| schemas.check("execution", trace, &what));
    }
    schemas.has_seen("execution", 300);
}

#[test]
fn checkpoints_are_valid() {
    let (env, mut schemas) = (env(), Schemas::read());
    for source in sources() {
        let folder = env.path("checkpoint");
        if run(&env, "export --as checkpoint -o", &[&folder, &source]).code == Some(0) {
            let what = source.display().to_string();
            let read = |file: &str| json(&fs::read_to_string(folder.join(file)).unwrap());
            schemas.check("checkpoint", &read("checkpoint.json"), &what);
            schemas.check("checkpoint-metadata", &read("metadata.json"), &what);
        }
    }
    schemas.has_seen("checkpoint", 200);
}

#[test]
fn our_part_of_trajectories_is_valid() {
    let mut schemas = Schemas::read();
    for (what, text) in printed("export --as atif") {
        let document = json(&text);
        let none = Vec::new();
        let list = |value: &Value, key: &str| value[key].as_array().unwrap_or(&none).clone();
        for one in [vec![document.clone()], list(&document, "subagent_trajectories")].concat() {
            schemas.check("atif", &one["extra"]["subscope"], &what);
            for step in list(&one, "steps") {
                schemas.check("atif-step", &step["extra"]["subscope"], &what);
                let calls = list(&step, "tool_calls");
                calls.iter().for_each(|call| schemas.check("atif-call", &call["extra"]["subscope"], &what));
            }
        }
    }
    schemas.has_seen("atif-call", 1000);
}

#[test]
fn comparisons_are_valid() {
    let mut schemas = Schemas::read();
    let env = env();
    let all = sources();
    for pair in all.windows(2) {
        let ran = run(&env, "diff --json", &[&pair[0], &pair[1]]);
        if ran.code == Some(0) {
            schemas.check("diff", &json(&ran.stdout), &format!("{pair:?}"));
        }
    }
    schemas.has_seen("diff", 100);
}

/// An environment with sessions of all kinds of recordings.
fn filled() -> TestEnv {
    let env = env();
    for recording in fixtures::recordings().into_iter().chain(fixtures::odd_recordings()) {
        env.adopt(&recording);
    }
    env
}

#[test]
fn answers_about_what_is_stored_are_valid() {
    let (env, mut schemas) = (filled(), Schemas::read());
    let answer = |words: &str| json(&run(&env, words, &[]).stdout);
    let words = [
        "index --json",
        "stats --json",
        "status --json",
        "search the --json",
        "ls --json -n 1000",
        "ls --iterations --json",
        "config --json",
        "config path --json",
        "doctor --json",
        "hooks status --json",
    ];
    words.into_iter().for_each(|words| schemas.check_named(&answer(words), words));
    let sessions = answer("ls --json -n 1000")["sessions"].clone();
    for session in sessions.as_array().unwrap() {
        let id = session["id"].as_str().unwrap();
        let tree = answer(&format!("tree --json {id}"));
        schemas.check("tree", &tree, id);
        let last = tree["agents"].as_array().unwrap().last().unwrap()["id"].as_str().unwrap().to_owned();
        schemas.check_named(&answer(&format!("show --json {id}/{last}")), id);
    }
    schemas.has_seen("agent-row", 30);
    for level in ["figures", "titles", "text"] {
        let words = format!("forward --dry-run --machine m --content {level}");
        let sent = run(&env, &words, &[]).success();
        json_lines(&sent).iter().for_each(|line| schemas.check_named(line, &words));
    }
    schemas.has_seen("team", 90);
    let feed = env.write("feed.jsonl", run(&env, "export last --as feed", &[]).stdout);
    schemas.check_named(&json(&run(&env, "import --json", &[&feed]).success()), "import");
}

#[test]
fn answers_of_the_hub_are_valid() {
    let (env, mut schemas) = (filled(), Schemas::read());
    let serving = Serving::start(&env, "");
    serving.has_read();
    for path in ["sessions", "stats", "status", "setup", "iterations", "search?q=the", "names?prefix=a"] {
        schemas.check_named(&serving.json(&format!("/api/v1/{path}")), path);
    }
    let sessions = serving.json("/api/v1/sessions?limit=1000")["sessions"].clone();
    let ids: Vec<&str> = sessions.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    for id in &ids {
        for part in ["tree", "events", "feed"] {
            schemas.check_named(&serving.json(&format!("/api/v1/sessions/{id}/{part}")), id);
        }
        schemas.check_named(&serving.json(&format!("/api/v1/agents/root?session={id}")), id);
        let (status, timeline) = serving.get(&format!("/api/v1/sessions/{id}/timeline"));
        if status == 200 {
            schemas.check_named(&json(&timeline), id);
        }
    }
    let compared = serving.json(&format!("/api/v1/compare?a={}&b={}", ids[0], ids[1]));
    schemas.check_named(&compared, "diff");
    let hooks = fs::read(recording("2.1.330", "c-nested").hooks()).unwrap();
    let report = serving.post("/api/v1/ingest/claude.hook", "", &hooks);
    schemas.check_named(&json(&report), "ingest");
    schemas.has_seen("timeline", 20);
}
