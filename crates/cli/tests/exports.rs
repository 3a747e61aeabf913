//! Exports of real recordings: valid, complete, and the same again after a round trip.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{collections::BTreeMap, fs, path::Path, thread, time::Duration};

use common::{agents, env, json, json_lines, run, serving::Serving};
use serde_json::Value;
use subscope_hub::clock;
use subscope_testkit::{
    corpus,
    env::TestEnv,
    figures::most_memory,
    fixtures::{Recording, recording, text},
    lines::{self, events},
    secrets::{left_in, secrets},
    truth::TruthAgent,
};

const SCENARIOS: [(&str, &str); 5] = [
    ("2.1.330", "c-nested"),
    ("2.1.330", "e-tool-failures"),
    ("2.1.330", "e-taskstop"),
    ("2.0.76", "b-parallel"),
    ("1.0.128", "b-parallel"),
];

fn recorded() -> impl Iterator<Item = Recording> {
    SCENARIOS.into_iter().map(|(version, scenario)| recording(version, scenario))
}

fn subagents(recording: &Recording) -> Vec<TruthAgent> {
    recording.truth().agents.into_iter().filter(|agent| agent.id != "root").collect()
}

#[test]
fn execution_has_one_trace_for_each_subagent_with_its_calls() {
    let env = env();
    for recording in recorded() {
        let what = recording.name();
        let traces = json(&run(&env, "export --as execution", &[&recording.mains()[0]]).success());
        let traces = traces.as_array().unwrap();
        let expected = subagents(&recording);
        assert_eq!(traces.len(), expected.len(), "{what}");
        for agent in expected {
            let trace = traces
                .iter()
                .find(|trace| trace["subagentId"] == *agent.id)
                .unwrap_or_else(|| panic!("{what} {}", agent.id));
            assert_eq!(
                trace["success"],
                agent.status.contains(&"completed".to_owned()),
                "{what} {}",
                agent.id
            );
            assert!(trace["startTime"].is_i64() && trace["endTime"].is_i64(), "{what} {}", agent.id);
            if agent.optional {
                continue;
            }
            assert_eq!(
                trace["parentToolCallId"].as_str(),
                agent.spawned_by.as_deref(),
                "{what} {}",
                agent.id
            );
            assert!(!trace["prompt"].as_str().unwrap().is_empty(), "{what} {}", agent.id);
            assert_eq!(trace["usage"]["totalTokens"], agent.usage.total_tokens, "{what} {}", agent.id);
            check_calls(&what, trace, &agent);
        }
    }
}

fn check_calls(what: &str, trace: &Value, agent: &TruthAgent) {
    let none = Vec::new();
    let calls = trace["toolExecutions"].as_array().unwrap_or(&none);
    assert_eq!(calls.len(), agent.tools.len(), "{what} {}", agent.id);
    for tool in &agent.tools {
        let call = calls
            .iter()
            .find(|call| call["toolCallId"] == *tool.id)
            .unwrap_or_else(|| panic!("{what} {}", tool.id));
        assert_eq!(call["toolName"], tool.name, "{what} {}", tool.id);
        assert!(call["arguments"].is_object(), "{what} {}: {}", tool.id, call["arguments"]);
        if tool.status == ["ok"] || tool.status == ["error"] {
            assert!(!call["result"].is_null(), "{what} {}: no result", tool.id);
            assert_eq!(call["isError"] == true, tool.status == ["error"], "{what} {}", tool.id);
        }
    }
}

#[test]
fn trace_tells_the_lifecycle_and_the_hierarchy_of_all() {
    let env = env();
    for recording in recorded() {
        let what = recording.name();
        let text = run(&env, "export --as trace", &[&recording.mains()[0]]).success();
        json(&text);
        for agent in subagents(&recording) {
            assert!(text.contains(&format!("\"{}\"", agent.id)), "{what} {}", agent.id);
        }
        let spawns = text.matches("\"type\":\"spawn\"").count() + text.matches("\"type\": \"spawn\"").count();
        assert_eq!(spawns, subagents(&recording).len(), "{what}");
    }
}

#[test]
fn spans_have_the_tokens_of_the_tree_and_are_the_same_again() {
    let env = env();
    for recording in recorded() {
        let what = recording.name();
        let main = &recording.mains()[0];
        let lines = run(&env, "export --as otlp", &[main]).success();
        assert_eq!(lines, run(&env, "export --as otlp", &[main]).success(), "{what}");
        let spans: Vec<Value> = json_lines(&lines)
            .iter()
            .flat_map(|request| {
                request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
            })
            .collect();
        let sum = |key: &str| -> u64 {
            let all = spans.iter().flat_map(|span| span["attributes"].as_array().unwrap());
            let values = all.filter(|attribute| attribute["key"] == key);
            values.map(|it| it["value"]["intValue"].as_str().unwrap().parse::<u64>().unwrap()).sum()
        };
        let tree = json(&run(&env, "tree --json", &[main]).success());
        let total = &tree["summary"]["usage"]["total_tokens"];
        assert_eq!(sum("gen_ai.usage.input_tokens") + sum("gen_ai.usage.output_tokens"), *total, "{what}");
        let invoked = spans.iter().filter(|span| span["name"].as_str().unwrap().starts_with("invoke_agent"));
        assert_eq!(invoked.count(), agents(&tree).len(), "{what}");
    }
}

#[test]
fn feed_tells_each_event_once_in_order_and_is_read_again() {
    let env = env();
    for recording in recorded() {
        let what = recording.name();
        let text = run(&env, "export --as feed", &[&recording.mains()[0]]).success();
        let events = json_lines(&text);
        let mut ids: Vec<&str> = events.iter().map(|event| event["id"].as_str().unwrap()).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "{what}: an event is told twice");
        assert!(events.iter().map(|event| event["seq"].as_u64().unwrap()).is_sorted(), "{what}");
        let truth = recording.truth();
        let of = |kind: &str| events.iter().filter(|event| event["kind"] == kind).count();
        assert_eq!(of("tool.pre"), truth.summary.tool_calls as usize, "{what}");
        assert_eq!(of("user.prompt"), truth.session.runs as usize, "{what}");
        for event in events.iter().filter(|event| event["kind"] == "tool.pre") {
            let (owner, _) = truth.owner(event["data"]["tool_use_id"].as_str().unwrap()).unwrap();
            assert_eq!(event["actor_id"], *owner.actor_id, "{what} {}", event["data"]["tool_use_id"]);
        }
        let feed = env.write("work/feed.jsonl", &text);
        let imported = json(&run(&env, "import --dry-run --json", &[&feed]).success());
        let read = json(&run(&env, "tree --json", &[&recording.mains()[0]]).success());
        let sorted = |tree: &Value| {
            let mut all = agents(tree);
            all.sort();
            all
        };
        assert_eq!(sorted(&imported), sorted(&read), "{what}");
        for row in imported["agents"].as_array().unwrap() {
            let own = read["agents"].as_array().unwrap().iter().find(|own| own["id"] == row["id"]).unwrap();
            assert_eq!(
                (&row["spawned_by"], &row["parent_id"]),
                (&own["spawned_by"], &own["parent_id"]),
                "{what} {}",
                row["id"]
            );
        }
        assert_eq!(imported["summary"]["tool_calls"], read["summary"]["tool_calls"], "{what}");
    }
}

#[test]
fn same_feed_comes_from_every_order_of_sources() {
    let env = env();
    let recording = recording("2.1.330", "c-nested");
    let [main, stream, hooks] =
        [recording.mains().remove(0), recording.streams().remove(0), recording.hooks()];
    let feed = |targets: [&std::path::Path; 3]| {
        let mut ids: Vec<(String, String)> = json_lines(&run(&env, "export --as feed", &targets).success())
            .iter()
            .map(|event| {
                (event["id"].as_str().unwrap().to_owned(), event["actor_id"].as_str().unwrap().to_owned())
            })
            .collect();
        ids.sort();
        ids
    };
    let first = feed([&main, &stream, &hooks]);
    assert_eq!(feed([&hooks, &stream, &main]), first);
    assert_eq!(feed([&stream, &main, &hooks]), first);
}

#[test]
fn checkpoint_comes_back_as_the_same_traces() {
    let env = env();
    for recording in recorded() {
        let what = recording.name();
        let folder = env.path(&format!("work/{}", recording.scenario));
        let main = &recording.mains()[0];
        let ran = run(&env, &format!("export --as checkpoint -o {}", folder.display()), &[main]);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""), "{what}");
        let saved = json(&std::fs::read_to_string(folder.join("checkpoint.json")).unwrap());
        let traces = json(&run(&env, "export --as execution", &[main]).success());
        assert_eq!((&saved["version"], &saved["subagentTraces"]), (&"1.0.0".into(), &traces), "{what}");
        let metadata = json(&std::fs::read_to_string(folder.join("metadata.json")).unwrap());
        assert_eq!(metadata["sessionId"], recording.truth().session.id, "{what}");
        let imported = json(&run(&env, "import --dry-run --json", &[&folder]).success());
        let expected = subagents(&recording);
        assert_eq!(imported["summary"]["agents"], expected.len(), "{what}");
        for agent in expected.iter().filter(|agent| !agent.optional) {
            let row =
                imported["agents"].as_array().unwrap().iter().find(|row| row["id"] == *agent.id).unwrap();
            assert_eq!(row["type"].as_str(), agent.agent_type.as_deref(), "{what} {}", agent.id);
            assert_eq!(row["depth"], agent.depth, "{what} {}", agent.id);
            assert_eq!(row["tool_calls"], agent.tool_calls, "{what} {}", agent.id);
        }
        // Other versions are refused.
        let other =
            std::fs::read_to_string(folder.join("checkpoint.json")).unwrap().replacen("1.0.0", "1.0.1", 1);
        std::fs::write(folder.join("checkpoint.json"), other).unwrap();
        assert_eq!(run(&env, "import", &[&folder]).code, Some(3), "{what}");
    }
}

/// Appends a secret to each text of a session, all samples in turn.
fn told_secrets(value: &mut Value, samples: &mut dyn Iterator<Item = String>) {
    const TEXTS: [&str; 8] =
        ["text", "content", "prompt", "command", "description", "thinking", "stdout", "subject"];
    for (key, value) in value.as_object_mut().into_iter().flatten() {
        if let Value::String(text) = value
            && TEXTS.contains(&key.as_str())
        {
            *text = format!("{text}\n{}", samples.next().unwrap());
        } else {
            told_secrets(value, samples);
        }
    }
    value.as_array_mut().into_iter().flatten().for_each(|value| told_secrets(value, samples));
}

#[test]
fn redacted_export_shows_no_secret_in_any_form() {
    let env = env();
    let recording = recording("2.1.330", "c-nested");
    let [samples, ..] = secrets(0);
    // Every other one is in a JSON string, as contents of files are.
    let mut texts = samples.iter().zip(0..).cycle().map(|(sample, number)| match number % 2 {
        0 => sample.text.clone(),
        _ => serde_json::json!({ "content": format!("first\n{}\n", sample.text) }).to_string(),
    });
    for path in recording.conversation() {
        let own = path.strip_prefix(recording.projects()).unwrap();
        let lines: Vec<String> = text(&path)
            .lines()
            .map(|line| {
                let mut line = json(line);
                told_secrets(&mut line, &mut texts);
                line.to_string()
            })
            .collect();
        env.write(&format!("work/projects/{}", own.display()), lines.join("\n"));
    }
    let main = recording.mains().remove(0);
    let main = env.path("work/projects").join(main.strip_prefix(recording.projects()).unwrap());
    for (form, least) in [
        ("feed", 40),
        ("feed --shape uap", 30),
        ("trace", 1),
        ("execution", 20),
        ("csv", 1),
        ("perfetto", 1),
        ("otlp --content", 20),
        ("html", 40),
        ("checkpoint", 20),
    ] {
        let export = |mask: &str| {
            let file = env.path("work/exported");
            let run = run(&env, &format!("export --as {form} {mask} -o {}", file.display()), &[&main]);
            run.success();
            let file = if form == "checkpoint" { file.join("checkpoint.json") } else { file };
            let written = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
            if form == "checkpoint" {
                std::fs::remove_dir_all(env.path("work/exported")).unwrap();
            } else {
                std::fs::remove_file(&file).unwrap();
            }
            written
        };
        let plain = left_in(&samples, &export("--no-redact"));
        let masked = left_in(&samples, &export("--redact"));
        assert!(plain.len() >= least, "{form}: there are only {plain:?}");
        assert!(masked.is_empty(), "{form}: {masked:?}");
    }
}

#[test]
fn csv_is_read_by_a_reader_of_csv() {
    let env = env();
    let recording = recording("2.1.330", "c-nested");
    let table = run(&env, "export --as csv", &[&recording.mains()[0]]).success();
    assert!(table.ends_with("\r\n") && !table.contains("\\u000d"), "{table}");
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let records: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().unwrap();
    let tree = json(&run(&env, "tree --json", &[&recording.mains()[0]]).success());
    let rows = tree["agents"].as_array().unwrap();
    assert_eq!(records.len(), rows.len());
    for (record, row) in records.iter().zip(rows) {
        assert_eq!(
            (&record[0], &record[1]),
            (tree["session"]["id"].as_str().unwrap(), row["id"].as_str().unwrap())
        );
        assert_eq!(&record[12], row["tool_calls"].to_string());
        assert_eq!(&record[26], row["result"].as_str().unwrap_or_default());
        assert_eq!(&record[27], row["error"].as_str().unwrap_or_default());
    }
}

/// The spans of an export by id: trace, parent and name.
fn spans(lines: &str) -> BTreeMap<String, [String; 3]> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut all = BTreeMap::new();
    for request in json_lines(lines) {
        for span in request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap() {
            let words = ["traceId", "parentSpanId", "name"].map(|key| text(&span[key]));
            assert!(all.insert(text(&span["spanId"]), words).is_none(), "an id twice: {span}");
        }
    }
    all
}

/// Moves all times of OpenTelemetry records.
fn shift(value: &mut Value, later_ms: i64) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| shift(value, later_ms)),
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                if name.to_lowercase().ends_with("timeunixnano") {
                    let known = value.as_str().map_or_else(|| value.as_i64(), |text| text.parse().ok());
                    *value = (known.unwrap() + later_ms * 1_000_000).to_string().into();
                } else {
                    shift(value, later_ms);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What programs post of a session that has no transcript: path and body, in order.
fn posted(way: &str) -> (String, Vec<(String, String)>) {
    let nested = recording("2.1.330", "j-otel-nested");
    let id = nested.truth().session.id;
    match way {
        "hooks" => {
            let path = "/api/v1/ingest/claude.hook?source=hooks".to_owned();
            (id, text(&nested.hooks()).lines().map(|line| (path.clone(), line.to_owned())).collect())
        }
        "events" => {
            let line = |second: i64, line: lines::Line| {
                let line =
                    line.session("published").set("timestamp", clock::now_ms() - 20_000 + second * 1_000);
                ("/subagent-events".to_owned(), line.line())
            };
            let all = [
                events::start("lead", "r1"),
                events::start("inner", "r2").parent_run("r1"),
                events::event("tool_call", "inner", "r2").set("toolName", "Bash").set("toolCallId", "c2"),
                events::event("tool_result", "inner", "r2").set("toolName", "Bash").set("toolCallId", "c2"),
                events::end("inner", "r2"),
                events::event("tool_call", "lead", "r1").set("toolName", "Read").set("toolCallId", "c1"),
                events::event("tool_result", "lead", "r1").set("toolName", "Read").set("toolCallId", "c1"),
                events::end("lead", "r1"),
            ];
            ("published".to_owned(), (0..).zip(all).map(|(second, one)| line(second, one)).collect())
        }
        file => {
            let file = nested.otel().into_iter().find(|path| path.ends_with(file)).unwrap();
            // Now: an agent that was silent for days is lost.
            let later_ms = clock::now_ms() - 1_795_293_876_885;
            let line = |line: &str| {
                let mut line: Value = serde_json::from_str(line).unwrap();
                shift(&mut line["body"], later_ms);
                (line["path"].as_str().unwrap().replacen("/otel", "", 1), line["body"].to_string())
            };
            (id, text(&file).lines().map(line).collect())
        }
    }
}

#[test]
fn session_without_a_transcript_is_exported_while_it_runs_and_again_under_the_same_ids() {
    for way in ["hooks", "events", "otel-logs.jsonl", "otel-traces.jsonl"] {
        let env = env();
        let serving = Serving::start(&env, "");
        let (session, bodies) = posted(way);
        let (early, late) = bodies.split_at(bodies.len() * 3 / 4);
        let post = |(path, body): &(String, String)| {
            serving.post(path, "", body.as_bytes());
        };
        let export = |format: &str| run(&env, &format!("export {session} --as {format}"), &[]).success();
        early.iter().for_each(post);
        let running = spans(&export("otlp"));
        late.iter().for_each(post);
        let ended = spans(&export("otlp"));
        for (id, words) in &running {
            assert_eq!(ended.get(id), Some(words), "{way}");
        }
        assert!(ended.len() > running.len(), "{way}: {} and {} spans", running.len(), ended.len());
        assert_eq!(spans(&export("otlp")), ended, "{way}: the same again");
        // The other formats agree with its rows.
        let tree = json(&run(&env, &format!("tree --json {session}"), &[]).success());
        let document = env.write("work/trajectory.json", export("atif"));
        let back = json(&run(&env, "tree --json", &[&document]).success());
        assert_eq!(agents(&back).len(), agents(&tree).len(), "{way}");
        for format in ["trace", "execution", "csv", "html", "feed"] {
            assert!(!export(format).is_empty(), "{way} {format}");
        }
        let trace = env.path("work/trace.pftrace");
        run(&env, &format!("export {session} --as perfetto -o"), &[&trace]).success();
        assert!(std::fs::metadata(trace).unwrap().len() > 100, "{way}");
        serving.end("-TERM");
    }
}

/// Returns the most memory that an export took while it was watched, in megabytes.
fn most_memory_of(env: &TestEnv, format: &str, main: &Path) -> f64 {
    let out = env.root().join("out");
    let mut export = env.command();
    let mut export =
        export.args(["export", "--as", format, "-o"]).args([out.as_path(), main]).spawn().unwrap();
    let mut most: f64 = 0.0;
    while export.try_wait().unwrap().is_none() {
        most = most.max(most_memory(export.id()).unwrap_or_default());
        thread::sleep(Duration::from_millis(1));
    }
    assert!(export.wait().unwrap().success(), "{format}");
    assert!(fs::metadata(&out).unwrap().len() > 0, "{format}");
    most
}

#[test]
fn exports_do_not_hold_the_texts_of_a_session() {
    let env = env();
    let folder = env.root().join("long");
    let options = corpus::Options {
        agents: 2,
        main_bytes: 64_000_000,
        result_bytes: 200_000,
        dialects: corpus::Dialects::Transcripts,
        ..corpus::Options::default()
    };
    let made = corpus::on_disk(&options, &folder).unwrap();
    let main = made.main(&folder);
    let texts = fs::metadata(&main).unwrap().len() as f64 / f64::from(1 << 20);
    assert!(texts > 40.0);
    let least = most_memory_of(&env, "csv", &main);
    for format in ["trace", "feed", "html", "atif"] {
        let most = most_memory_of(&env, format, &main);
        // What holds the texts takes at least as much again; each thread has a few results in memory.
        assert!(most < least + texts * 0.6, "{format}: {most} MB, a table {least} MB, texts {texts} MB");
    }
}
