//! ATIF with the real program: every recording of every harness goes out and comes in again, foreign trajectories of
//! all versions are imported, and other input is refused.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use common::{env, json, run, run_with_stdin, told};
use serde_json::{Value, json};
use subscope_harness::Role;
use subscope_testkit::{env::TestEnv, fixtures};

/// Main files of each recording of each harness: transcripts and streams, rollouts, chats, databases.
fn targets() -> Vec<PathBuf> {
    let claude =
        [fixtures::recordings(), fixtures::odd_recordings(), fixtures::stopped_recordings()].concat();
    let mut all: Vec<PathBuf> =
        claude.iter().flat_map(|recording| [recording.mains(), recording.streams()].concat()).collect();
    for harness in ["cline", "codex", "copilot", "gemini", "kilo", "kimi", "omp", "opencode", "qwen"] {
        let mut found = Vec::new();
        let mut folders = vec![fixtures::root().join(harness)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let is_of_agent = |part: &str| part == "subagents" || part.starts_with("agent-");
                let is_subagent = path.iter().any(|part| part.to_str().is_some_and(is_of_agent))
                    || subscope_harness::classify(&path).role == Role::Agent;
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                let is_kept =
                    [".jsonl", ".messages.json", ".db", ".log"].iter().any(|ending| name.ends_with(ending));
                if path.is_dir() {
                    folders.push(path);
                } else if is_kept && !is_subagent && !name.starts_with("api-") && !name.starts_with("otel") {
                    found.push(path);
                }
            }
        }
        assert!(found.len() >= 5, "{harness}: {found:?}");
        found.sort();
        all.extend(found);
    }
    all
}

fn export(env: &TestEnv, target: &Path, options: &str) -> String {
    run(env, &format!("export --as atif {options}"), &[target]).success()
}

/// The parts of a row that a document has: everything but what is derived from the present.
fn facts(tree: &Value) -> BTreeMap<String, Value> {
    let keys = [
        "parent_id",
        "spawned_by",
        "depth",
        "type",
        "name",
        "description",
        "model",
        "background",
        "status",
        "flags",
        "started_at_ms",
        "ended_at_ms",
        "intervals",
        "wall_ms",
        "tool_calls",
        "tool_errors",
        "tools_denied",
        "open_tools",
        "tools",
        "messages",
        "usage",
        "cost_micro_usd",
        "prompt",
        "error",
    ];
    let row = |row: &Value| {
        let fields = keys.iter().map(|key| ((*key).to_owned(), row[*key].clone()));
        (row["id"].as_str().unwrap().to_owned(), Value::Object(fields.collect()))
    };
    tree["agents"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn every_recording_comes_back_from_its_document() {
    let env = env();
    let mut count = 0;
    for target in targets() {
        let what = target.display().to_string();
        let ran = run(&env, "export --as atif", &[&target]);
        if ran.code != Some(0) {
            // A file of a workflow, or of several sessions, is no TARGET of its own.
            assert!(ran.stdout.is_empty(), "{what}");
            continue;
        }
        let document = env.write("work/trajectory.json", &ran.stdout);
        let before = json(&run(&env, "tree --json", &[&target]).success());
        let read = run(&env, "tree --json", &[&document]);
        assert_eq!(told(&read), (0, ""), "{what}");
        let after = json(&read.stdout);
        let order = |tree: &Value| {
            let agents = tree["agents"].as_array().unwrap().iter();
            agents.map(|agent| agent["id"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(order(&after), order(&before), "{what}");
        for (id, row) in facts(&before) {
            assert_eq!(facts(&after)[&id], row, "{what}: {id}");
        }
        let mut sums = before["summary"].clone();
        if before["agents"][0]["last_event_at_ms"].is_null() && sums["usage"].is_object() {
            // A document has no field for a root that only its agents' files name.
            sums["usage"]["floor"] = after["summary"]["usage"]["floor"].clone();
        }
        for key in ["usage", "unattributed_usage", "cost_micro_usd", "agents", "tool_calls"] {
            assert_eq!(after["summary"][key], sums[key], "{what}: {key}");
        }
        for key in ["id", "harness", "harness_version", "cwd", "started_at_ms", "ended_at_ms", "runs"] {
            assert_eq!(after["session"][key], before["session"][key], "{what}: {key}");
        }
        assert_eq!(export(&env, &document, ""), ran.stdout, "{what}: exported again");
        // A step is a line, and a document means the same when it is indented.
        let indented = serde_json::to_string_pretty(&json(&ran.stdout)).unwrap();
        let indented = env.write("work/indented.json", &indented);
        let read = run(&env, "tree --json", &[&indented]);
        assert_eq!((told(&read), json(&read.stdout)), ((0, ""), after), "{what}: indented");
        assert!(ran.stdout.lines().all(|line| !line.starts_with(' ')), "{what}");
        count += 1;
    }
    assert!(count > 140, "{count} documents");
}

#[test]
fn imported_twice_it_is_there_once_and_goes_out_as_it_came_in() {
    let env = env();
    for (version, scenario) in
        [("2.1.330", "k-big"), ("2.1.330", "i-sendmessage-resume"), ("1.0.128", "b-parallel")]
    {
        let main = fixtures::recording(version, scenario).mains().remove(0);
        let text = export(&env, &main, "");
        let document = env.write("work/trajectory.json", &text);
        let taken = json(&run(&env, "import --json", &[&document]).success());
        assert_eq!((&taken["dialect"], &taken["repeat"]), (&json!("trajectories"), &json!(false)));
        let again = json(&run(&env, "import --json", &[&document]).success());
        assert_eq!((&again["repeat"], &again["sessions"]), (&json!(true), &taken["sessions"]));
        let id = taken["sessions"][0]["id"].as_str().unwrap();
        assert_eq!(run(&env, &format!("export {id} --as atif"), &[]).success(), text, "{scenario}");
        let row = json(&run(&env, "ls --json", &[]).success());
        let listed = row["sessions"].as_array().unwrap().iter().filter(|row| row["id"] == id).count();
        assert_eq!(listed, 1, "{scenario}");
    }
}

/// A foreign document of a version: a root with two parallel subagents, one with a subagent of its own.
fn foreign(version: &str) -> Value {
    let step = |id: u32, source: &str, message: &str| {
        json!({"step_id": id, "source": source, "message": message,
        "timestamp": format!("2026-01-02T03:04:0{id}Z")})
    };
    let with = |mut step: Value, more: Value| {
        step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        step
    };
    let call = |id: &str| json!({"tool_call_id": id, "function_name": "delegate", "arguments": {"n": 1}});
    let result = |call: &str, agent: &str| {
        json!({"source_call_id": call, "content": "ok",
        "subagent_trajectory_ref": [{"trajectory_id": agent}]})
    };
    let child = |id: &str, steps: Vec<Value>| {
        json!({"schema_version": version, "trajectory_id": id,
        "agent": {"name": format!("{id}-type"), "version": "1"}, "steps": steps})
    };
    json!({
        "schema_version": version, "session_id": format!("foreign-{version}"),
        "agent": {"name": "terminus-2", "version": "1.0", "model_name": "m1"},
        "steps": [
            step(1, "user", "Fix it."),
            with(step(2, "agent", "I ask two."), json!({
                "tool_calls": [call("c1"), call("c2")],
                "observation": {"results": [result("c1", "a"), result("c2", "b")]},
                "metrics": {"prompt_tokens": 10, "completion_tokens": 3, "cached_tokens": 4, "cost_usd": 0.002}})),
            with(step(3, "agent", "Done."), json!({"metrics": {"prompt_tokens": 20, "completion_tokens": 5}})),
        ],
        "subagent_trajectories": [
            child("a", vec![step(1, "user", "Look."), with(step(2, "agent", "I ask one."), json!({
                "tool_calls": [call("c1")], "observation": {"results": [result("c1", "inner")]}})), step(3, "agent", "Found.")]),
            child("b", vec![step(1, "user", "Write."), with(step(2, "agent", "Writing."), json!({
                "tool_calls": [call("c1")]}))]),
            child("inner", vec![step(1, "agent", "Deep.")]),
        ],
    })
}

#[test]
fn foreign_trajectories_of_every_version_are_read_by_their_refs() {
    let env = env();
    for minor in 0..=8 {
        let document = env.write("work/foreign.json", foreign(&format!("ATIF-v1.{minor}")).to_string());
        let ran = run(&env, "tree --json", &[&document]);
        assert_eq!(told(&ran), (0, ""), "1.{minor}");
        let tree = json(&ran.stdout);
        let rows: Vec<_> = tree["agents"].as_array().unwrap().iter().collect();
        let field = |key: &str| rows.iter().map(|row| row[key].clone()).collect::<Vec<_>>();
        assert_eq!(field("id"), ["root", "a", "inner", "b"].map(Value::from));
        assert_eq!(field("parent_id"), [json!(null), json!("root"), json!("a"), json!("root")]);
        assert_eq!(field("spawned_by"), [json!(null), json!("c1"), json!("a/c1"), json!("c2")]);
        assert_eq!(field("status"), ["completed", "completed", "completed", "lost"].map(Value::from));
        assert_eq!(rows[2]["type"], "inner-type");
        assert_eq!(tree["session"]["harness"], "terminus-2");
        let usage = &rows[0]["usage"];
        let counts =
            ["input_tokens", "output_tokens", "cache_read_tokens"].map(|key| usage[key].as_u64().unwrap());
        assert_eq!(counts, [26, 8, 4]);
        let statuses: Vec<_> = rows.iter().flat_map(|row| row["tools"].as_array().unwrap()).collect();
        let statuses: Vec<_> = statuses.iter().map(|call| call["status"].as_str().unwrap()).collect();
        assert_eq!(statuses, ["ok", "ok", "ok", "open"]);
    }
}

#[test]
fn other_versions_are_refused_by_name_and_damaged_documents_by_place() {
    let env = env();
    for version in ["ATIF-v1.9", "ATIF-v2.0", "ATIF-v1.08", "ATIF-v1.", "ATIF-v1.8-beta"] {
        let document = env.write("work/foreign.json", foreign(version).to_string());
        for words in ["tree", "import", "export --as csv"] {
            let ran = run(&env, words, &[&document]);
            let is_named = ran.stderr.contains(&format!("{version} is not read"));
            assert_eq!((ran.code, is_named), (Some(3), true), "{words}: {}", ran.stderr);
        }
    }
    let text = serde_json::to_string_pretty(&foreign("ATIF-v1.7")).unwrap();
    let cut = env.write("work/cut.json", &text[..text.len() / 2]);
    let ran = run(&env, "tree", &[&cut]);
    assert!(ran.code == Some(3) && ran.stderr.contains("not JSON at line"), "{:?} {}", ran.code, ran.stderr);
}

#[test]
fn document_on_stdin_is_read_as_its_file() {
    let env = env();
    let text = foreign("ATIF-v1.7").to_string();
    let document = env.write("work/foreign.json", &text);
    let of_file = json(&run(&env, "tree --json", &[&document]).success());
    let of_stdin = json(&run_with_stdin(&env, "tree - --json", &[], text.as_bytes()).success());
    assert_eq!(of_stdin["agents"], of_file["agents"]);
    let taken = json(&run_with_stdin(&env, "import - --json", &[], text.as_bytes()).success());
    assert_eq!(taken["sessions"][0]["agents"], 3);
}

/// Content that a session cannot represent is reported with its JSON pointer.
#[test]
fn what_is_not_kept_is_a_problem_with_its_pointer() {
    let env = env();
    let mut document = foreign("ATIF-v1.8");
    document["steps"][1]["reasoning_effort"] = json!("high");
    document["steps"][2]["metrics"]["logprobs"] = json!([0.5]);
    document["steps"][2]["timestamp"] = json!("yesterday");
    document["steps"][0]["message"] = json!([{"type": "text", "text": "Fix it."},
        {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}]);
    document["subagent_trajectories"][1]["steps"][1]["observation"] = json!({"results": [{"source_call_id": "c1", "subagent_trajectory_ref": [{"trajectory_path": "b.json"}]}]});
    document["subagent_trajectories"][0]["notes"] = json!("Made by hand.");
    document["subagent_trajectories"][2] = json!(7);
    let path = env.write("work/foreign.json", document.to_string());
    let tree = json(&run(&env, "tree --json", &[&path]).stdout);
    assert_eq!(tree["agents"][0]["prompt"], "Fix it.");
    let ran = run(&env, "tree --strict", &[&path]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    for (pointer, word) in [
        ("/steps/1/reasoning_effort", "not kept"),
        ("/steps/2/metrics/logprobs", "not kept"),
        ("/steps/2/timestamp", "no time"),
        ("/steps/0/message/1/source", "images and audio"),
        ("/subagent_trajectories/1/steps/1/observation/results/0/subagent_trajectory_ref/0", "a ref to no"),
        ("/subagent_trajectories/0/notes", "notes"),
        ("/subagent_trajectories/2", "no trajectory"),
    ] {
        let at = format!("{}#{pointer}", path.display());
        let line = ran.stderr.lines().find(|line| line.contains(&format!("{at}:")));
        assert!(line.is_some_and(|line| line.contains(word)), "{pointer}: {}", ran.stderr);
    }
}

#[test]
fn copied_context_counts_nowhere() {
    let env = env();
    let mut document = foreign("ATIF-v1.5");
    document["steps"][1]["is_copied_context"] = json!(true);
    let path = env.write("work/foreign.json", document.to_string());
    let tree = json(&run(&env, "tree --json", &[&path]).success());
    let root = &tree["agents"][0];
    let counts = [&root["tool_calls"], &root["messages"], &root["usage"]["total_tokens"]];
    assert_eq!(counts, [&json!(0), &json!(1), &json!(25)]);
    assert_eq!(tree["agents"][1]["parent_id"], "root", "a copied ref still names the parent");
}

#[test]
fn agents_and_calls_of_equal_ids_and_circles_are_told_apart() {
    let env = env();
    let mut document = foreign("ATIF-v1.7");
    document["subagent_trajectories"][1]["trajectory_id"] = json!("a");
    document["subagent_trajectories"][2]["trajectory_id"] = json!("root");
    // The second agent called `a` calls the first one, which calls an agent that does not exist.
    document["subagent_trajectories"][1]["steps"][1]["observation"] =
        json!({"results": [{"source_call_id": "c1", "subagent_trajectory_ref": [{"trajectory_id": "a"}]}]});
    let path = env.write("work/foreign.json", document.to_string());
    let ran = run(&env, "tree --json", &[&path]);
    let tree = json(&ran.stdout);
    let ids: Vec<_> = tree["agents"].as_array().unwrap().iter().map(|row| row["id"].clone()).collect();
    assert!(["root", "a", "a#2", "root#2"].iter().all(|id| ids.contains(&json!(id))), "{ids:?}");
    let calls = tree["agents"].as_array().unwrap().iter().flat_map(|row| row["tools"].as_array().unwrap());
    let names: std::collections::BTreeSet<_> =
        calls.map(|call| call["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
}

#[test]
fn secrets_are_masked_and_a_masked_document_is_read() {
    let env = env();
    let recording = fixtures::recording("2.1.330", "a-single");
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let text = fixtures::text(&recording.mains()[0]);
    let main = env.write("work/one.jsonl", text.replace("discount", &format!("discount {secret}")));
    assert!(export(&env, &main, "").contains(secret));
    let masked = export(&env, &main, "--redact");
    assert!(!masked.contains(secret));
    let document = env.write("work/masked.json", &masked);
    assert_eq!(export(&env, &document, "--redact"), masked);
}
