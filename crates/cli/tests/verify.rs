//! `subscope verify`: nothing differs in any recording without a known reason, and a difference in any total of any harness is
//! found.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use common::{env, json, run, told};
use serde_json::{Value, json};
use subscope_harness::{Harness, harnesses};
use subscope_testkit::{env::TestEnv, fixtures};

/// Verifies a folder. Returns the exit code and the report.
fn verify(env: &TestEnv, folder: &Path) -> (i32, Value) {
    let ran = run(env, "-q verify --json", &[folder]);
    let code = told(&ran).0;
    (code, if ran.stdout.is_empty() { Value::Null } else { json(&ran.stdout) })
}

/// The folders of all recordings: one scenario each.
fn recordings() -> Vec<PathBuf> {
    let folders = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
        folders.sort();
        folders
    };
    let of = [
        "claude-code",
        "cline",
        "codex",
        "copilot",
        "gemini",
        "kilo",
        "kimi",
        "omp",
        "opencode",
        "qwen",
        "stopped",
        "unseen",
    ];
    let versions = of.iter().flat_map(|of| folders(&fixtures::root().join(of)));
    let mut all: Vec<PathBuf> = versions.flat_map(|version| folders(&version)).collect();
    all.push(fixtures::root().join("wild"));
    all.push(fixtures::root().join("copies"));
    all
}

#[test]
fn recordings_differ_in_nothing_and_have_every_total() {
    let env = env();
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    for folder in recordings() {
        let (code, report) = verify(&env, &folder);
        assert_eq!((code, &report["differences"]), (0, &json!([])), "{}", folder.display());
        for place in report["places"].as_array().unwrap().iter().filter(|place| place["equal"] != 0) {
            let word = |name: &str| place[name].as_str().unwrap().to_owned();
            seen.insert((word("harness"), word("place")));
        }
    }
    // Of what could not be run there are no recordings.
    let is_run = |harness: &&dyn Harness| !harness.gaps().iter().any(|gap| gap.starts_with("not run here"));
    for harness in harnesses().filter(is_run) {
        for total in harness.self_report().map_or(&[][..], |report| report.totals) {
            let name = (harness.name().to_owned(), total.name.to_owned());
            assert!(seen.contains(&name), "no recording has {name:?}");
        }
    }
}

#[test]
fn files_that_give_no_session_are_counted() {
    let env = env();
    let folder = env.work().join("backup");
    let session = fixtures::root().join("wild/codex-0.98-finished.jsonl");
    fs::create_dir_all(folder.join("notes")).unwrap();
    fs::copy(&session, folder.join("rollout.jsonl")).unwrap();
    assert_eq!(verify(&env, &folder).1["files_left_out"], 0);
    for (name, content) in [("package.json", "{}"), ("notes/cut.jsonl", "{\"type\":"), ("read.me", "{}")] {
        fs::write(folder.join(name), content).unwrap();
    }
    let (code, report) = verify(&env, &folder);
    assert_eq!((code, &report["sessions"], &report["files_left_out"]), (0, &json!(1), &json!(2)));
    let ran = run(&env, "-q verify", &[&folder]);
    let text = &ran.stdout;
    assert!(
        text.contains("left out: 2 files without a session\n") && text.ends_with("nothing differs\n"),
        "{text}"
    );
}

/// A total of a recording: its place, and where a number of it is in a line.
struct Total {
    recording: &'static str,
    place: &'static str,
    /// The line's field that tells it from others, and its value.
    mark: (&'static str, &'static str),
    number: &'static str,
}

const fn total(
    recording: &'static str,
    place: &'static str,
    mark: (&'static str, &'static str),
    number: &'static str,
) -> Total {
    Total { recording, place, mark, number }
}

const CLAUDE: &str = "claude-code/2.1.330/b-parallel";
const CLINE: &str = "cline/3.0.65/two_parallel";
const CODEX: &str = "codex/0.169.0/v1_two_parallel";
const COPILOT: &str = "copilot/1.0.102/two_parallel";
const GEMINI: &str = "gemini/0.61.0/two_parallel";
const KIMI: &str = "kimi/2.1.0/nested";
const OMP: &str = "omp/18.2.3/two_parallel";
const QWEN: &str = "qwen/0.24.4/two_background";

/// A number of each total that is in a line.
const TOTALS: [Total; 21] = [
    total(KIMI, "subagent.completed.usage", ("/type", "subagent.completed"), "/usage/output"),
    total(
        OMP,
        "task details.results.usage",
        ("/message/toolName", "task"),
        "/message/details/results/0/usage/output",
    ),
    total(CLAUDE, "result.modelUsage", ("/type", "result"), "/modelUsage/claude-opus-5-5/outputTokens"),
    total(CLAUDE, "result.subagent_stats", ("/type", "result"), "/subagent_stats/spawned"),
    total(
        CLAUDE,
        "cost-state.modelUsage",
        ("/type", "cost-state"),
        "/modelUsage/claude-opus-5-5/cacheReadInputTokens",
    ),
    total(CLAUDE, "cost-state.modelUsage", ("/type", "cost-state"), "/modelUsage/claude-opus-5-5/costUSD"),
    total(CLAUDE, "toolUseResult.totalToolUseCount", ("/type", "user"), "/toolUseResult/totalToolUseCount"),
    total(CLAUDE, "toolUseResult.usage", ("/type", "user"), "/toolUseResult/usage/input_tokens"),
    total(
        CLAUDE,
        "tool_use_result.totalToolUseCount",
        ("/type", "user"),
        "/tool_use_result/totalToolUseCount",
    ),
    total(CLAUDE, "tool_use_result.usage", ("/type", "user"), "/tool_use_result/usage/input_tokens"),
    total(
        CODEX,
        "token_count.total_token_usage",
        ("/payload/type", "token_count"),
        "/payload/info/total_token_usage/output_tokens",
    ),
    total(
        CODEX,
        "token_usage_record.thread_token_usage",
        ("/type", "token_usage_record"),
        "/payload/thread_token_usage/input_tokens",
    ),
    total(CODEX, "turn.completed.usage", ("/type", "turn.completed"), "/usage/output_tokens"),
    total(
        "codex/0.169.0/appserver_v2_two_parallel",
        "thread/tokenUsage/updated",
        ("/msg/method", "thread/tokenUsage/updated"),
        "/msg/params/tokenUsage/total/outputTokens",
    ),
    total(
        COPILOT,
        "session.shutdown.modelMetrics",
        ("/type", "session.shutdown"),
        "/data/modelMetrics/gpt-5/usage/outputTokens",
    ),
    total(
        COPILOT,
        "session.shutdown.agentMetrics",
        ("/type", "session.shutdown"),
        "/data/agentMetrics/main/modelMetrics/gpt-5/usage/inputTokens",
    ),
    total(COPILOT, "subagent.completed", ("/type", "subagent.completed"), "/data/totalToolCalls"),
    total(GEMINI, "result.stats", ("/type", "result"), "/stats/total_tokens"),
    total(GEMINI, "result.stats", ("/type", "result"), "/stats/tool_calls"),
    total(QWEN, "result.usage", ("/type", "result"), "/usage/output_tokens"),
    total(QWEN, "task_notification.usage", ("/subtype", "task_notification"), "/data/usage/tool_uses"),
];

/// Copies a recording into the environment, each line changed by `change`: `None` drops it.
fn copy(env: &TestEnv, recording: &str, change: &dyn Fn(&str) -> Option<String>) -> PathBuf {
    let from = fixtures::root().join(recording);
    for file in fixtures::files_below(&from) {
        let relative = file.strip_prefix(&from).unwrap().display().to_string();
        let content = if file.extension().is_some_and(|ending| ending == "jsonl") {
            let text = fixtures::text(&file);
            let lines: Vec<String> = text.lines().filter_map(change).collect();
            (lines.join("\n") + "\n").into_bytes()
        } else {
            fixtures::bytes(&file)
        };
        env.write(&format!("copy/{relative}"), content);
    }
    env.path("copy")
}

/// The places at which a report says that something differs.
fn places(report: &Value) -> BTreeSet<&str> {
    report["differences"].as_array().unwrap().iter().map(|found| found["what"].as_str().unwrap()).collect()
}

#[test]
fn a_changed_number_is_found_in_every_total() {
    let mut tried: BTreeSet<&str> = BTreeSet::new();
    for Total { recording, place, mark: (field, word), number } in TOTALS {
        let env = env();
        let change = |line: &str| {
            let mut value = json(line);
            let is_it = value.pointer(field).and_then(Value::as_str) == Some(word);
            let Some(known) = value.pointer_mut(number).filter(|_| is_it) else {
                return Some(line.to_owned());
            };
            *known = known
                .as_u64()
                .map_or_else(|| json!(known.as_f64().unwrap() + 0.01), |count| json!(count + 7));
            Some(value.to_string())
        };
        let (code, report) = verify(&env, &copy(&env, recording, &change));
        assert_eq!((code, places(&report)), (1, BTreeSet::from([place])), "{place} {number}");
        tried.insert(place);
    }
    let known = harnesses().filter_map(|harness| harness.self_report()).flat_map(|report| report.totals);
    let untried: BTreeSet<&str> =
        known.map(|total| total.name).filter(|name| !tried.contains(name)).collect();
    let others = BTreeSet::from(["history_item.json", "metadata.usage", "session (database)"]);
    assert_eq!(untried, others, "they are in no line: see the next tests");
}

#[test]
fn a_changed_number_of_an_object_is_found() {
    let env = env();
    let copied = copy(&env, CLINE, &|line| Some(line.to_owned()));
    assert_eq!(verify(&env, &copied).0, 0);
    let is_object = |path: &&PathBuf| {
        path.extension().is_some_and(|it| it == "json") && !path.to_str().unwrap().contains("messages")
    };
    let files = fixtures::files_below(&copied.join("dot_cline"));
    let file = files.iter().find(is_object).unwrap();
    let mut object = json(&fixtures::text(file));
    object["metadata"]["usage"]["outputTokens"] = json!(28);
    fs::write(file, object.to_string()).unwrap();
    let (code, report) = verify(&env, &copied);
    assert_eq!((code, places(&report)), (1, BTreeSet::from(["metadata.usage"])), "{report}");
}

#[test]
fn a_changed_number_of_a_document_about_a_task_is_found() {
    let extension = "wild/task-folders/rooveterinaryinc.roo-cline";
    let env = env();
    let from = fixtures::root().join(extension);
    for file in fixtures::files_below(&from) {
        let below = file.strip_prefix(&from).unwrap().display();
        env.write(&format!("copy/rooveterinaryinc.roo-cline/{below}"), fixtures::bytes(&file));
    }
    let copied = env.path("copy");
    let (code, report) = verify(&env, &copied);
    assert_eq!((code, &report["differences"], &report["files_left_out"]), (0, &json!([]), &json!(0)));
    let place = report["places"].as_array().unwrap().iter().find(|it| it["place"] == "history_item.json");
    assert_eq!(place.unwrap()["equal"], 16, "{report}");
    let abouts =
        fixtures::files_below(&copied).into_iter().filter(|file| file.ends_with("history_item.json"));
    for file in abouts {
        let known = fixtures::text(&file);
        for (field, figure) in [("tokensOut", "output tokens"), ("totalCost", "cost")] {
            let mut about = json(&known);
            let known = &mut about[field];
            *known =
                known.as_u64().map_or_else(|| json!(known.as_f64().unwrap() + 1.0), |count| json!(count + 1));
            fs::write(&file, about.to_string()).unwrap();
            let (code, report) = verify(&env, &copied);
            assert_eq!((code, places(&report)), (1, BTreeSet::from(["history_item.json"])), "{report}");
            assert_eq!(report["differences"][0]["figure"], figure, "{report}");
        }
        fs::write(&file, known).unwrap();
    }
}

#[test]
fn a_changed_column_of_a_database_is_found() {
    let env = env();
    let copied = copy(&env, "opencode/1.18.33/two_parallel", &|line| Some(line.to_owned()));
    for (column, figure) in [("tokens_output", "output tokens"), ("cost", "cost")] {
        let database = rusqlite::Connection::open(copied.join("opencode.db")).unwrap();
        let change = |by: i64| {
            database.execute(
                &format!("UPDATE session SET {column} = {column} + {by} WHERE parent_id IS NULL"),
                (),
            )
        };
        change(1).unwrap();
        let (code, report) = verify(&env, &copied);
        assert_eq!((code, &report["differences"][0]["figure"]), (1, &json!(figure)), "{report}");
        change(-1).unwrap();
    }
}

#[test]
fn a_dropped_line_is_found() {
    // Of Codex's responses the next total makes up for one that is lost.
    let dropped = [
        (CLAUDE, "/message/usage", "cost-state.modelUsage"),
        (COPILOT, "/data/usage/apiCallId", "session.shutdown.modelMetrics"),
        (GEMINI, "/tokens/total", "result.stats"),
        (QWEN, "/usageMetadata/totalTokenCount", "result.usage"),
    ];
    for (recording, field, place) in dropped {
        let env = env();
        // All lines of the first response, which may be on several.
        let first = std::cell::RefCell::new(None);
        let change = |line: &str| {
            let value = json(line);
            // A stream's lines are not what rows are derived from.
            let is_it = value.pointer(field).is_some() && value.get("session_id").is_none();
            let id = value.pointer("/message/id").or(value.get("id")).or(value.get("uuid")).cloned();
            let is_first = is_it && *first.borrow_mut().get_or_insert_with(|| id.clone()) == id;
            (!is_first).then(|| line.to_owned())
        };
        let (code, report) = verify(&env, &copy(&env, recording, &change));
        assert!(code == 1 && places(&report).contains(place), "{recording}: {report}");
    }
}

#[test]
fn elements_of_an_array_are_lines_and_counts_that_begin_again_are_added() {
    let env = env();
    let verified = |name: &str, text: &str| {
        let path = env.write(name, text);
        let (code, report) = verify(&env, &path);
        assert_eq!(
            (&report["lines_damaged"], &report["lines_not_understood"]),
            (&json!(0), &json!(0)),
            "{report}"
        );
        (code, report)
    };
    let array = fixtures::text(&fixtures::root().join("wild/action-execution-output.json"));
    let stating = |output: u32| {
        let models = json!({"claude-opus-4-6": {"inputTokens": 1, "outputTokens": output}});
        array.replace("\"num_turns\": 1,", &format!("\"num_turns\": 1, \"modelUsage\": {models},"))
    };
    for (output, expected) in [(2, 0), (9, 1)] {
        let (code, report) = verified(&format!("output-{output}.json"), &stating(output));
        assert_eq!((code, &report["lines"]), (expected, &json!(3)), "{report}");
        assert_eq!(places(&report).contains("result.modelUsage"), expected == 1, "{report}");
    }
    // A review counts by itself; then the thread's own count goes on.
    let review = fixtures::text(&fixtures::root().join("wild/codex-review.jsonl"));
    for (stated, other, expected) in [(2200, 2200, 0), (2200, 2300, 1), (700, 900, 1)] {
        let text = review.replace(&format!("_tokens\":{stated}"), &format!("_tokens\":{other}"));
        let (code, report) = verified(&format!("review-{other}.jsonl"), &text);
        assert_eq!(code, expected, "{stated} {report}");
    }
}

/// A transcript of one prompt and its answer.
fn transcript(session: &str, prompt: &str) -> String {
    let line = |kind: &str, id: u32, message: Value| {
        json!({
            "type": kind, "sessionId": session, "uuid": format!("{session}-{id}"), "version": "2.1.50", "cwd": "/work",
            "timestamp": format!("2026-05-01T10:00:0{id}.000Z"), "message": message,
        })
    };
    let usage = json!({"input_tokens": 5, "output_tokens": 7});
    let answer = json!({
        "id": format!("msg_{session}"), "role": "assistant", "model": "claude-opus-4-5", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Done with the secret plan."}], "usage": usage,
    });
    format!(
        "{}\n{}\n",
        line("user", 1, json!({"role": "user", "content": prompt})),
        line("assistant", 2, answer)
    )
}

#[test]
fn sessions_of_the_home_are_compared_with_each_other() {
    let env = env();
    for session in ["aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002"] {
        let path = format!("home/.claude/projects/-work/{session}.jsonl");
        env.write(&path, transcript(session, "## Rules of this house"));
    }
    let ran = run(&env, "-q verify --json", &[]);
    let report = json(&ran.stdout);
    assert_eq!((ran.code, report["sessions"].as_u64()), (Some(1), Some(2)));
    assert_eq!(places(&report), BTreeSet::from(["its title is a heading that other sessions have too"]));
    let ran = run(&env, "-q verify", &[]);
    let expected = "aaaaaaaa-0000-4000-8000-000000000001 claude-code: its title is a heading";
    assert!(
        ran.stdout.starts_with(expected) && ran.stdout.contains("2 differences in 2 sessions"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_listed_session_whose_files_are_gone_is_counted() {
    let env = env();
    let path = |session: &str| format!("home/.claude/projects/-work/{session}.jsonl");
    let sessions = ["aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002"];
    for session in sessions {
        env.write(&path(session), transcript(session, session));
    }
    let report = json(&run(&env, "-q verify --json", &[]).stdout);
    assert_eq!((&report["sessions"], &report["places"][0]["explained"]), (&json!(2), &json!({})));
    fs::remove_file(env.path(&path(sessions[0]))).unwrap();
    let ran = run(&env, "-q verify --json", &[]);
    let report = json(&ran.stdout);
    assert_eq!((ran.code, &report["sessions"]), (Some(0), &json!(2)), "{report}");
    let places = report["places"].as_array().unwrap();
    let listed = places.iter().find(|place| place["place"] == "ls").unwrap();
    assert_eq!(listed["explained"], json!({"gone": 1}), "{report}");
}

#[test]
fn a_report_has_no_texts_paths_titles_and_ids() {
    let env = env();
    let session = "bbbbbbbb-0000-4000-8000-000000000001";
    for (name, session) in [("secret-one", session), ("secret-two", "bbbbbbbb-0000-4000-8000-000000000002")] {
        env.write(
            &format!("home/.claude/projects/-{name}/{session}.jsonl"),
            transcript(session, "## Secret plan"),
        );
    }
    let file = env.path("report.txt");
    let ran = run(&env, &format!("-q verify --report={}", file.display()), &[]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let report = fs::read_to_string(&file).unwrap();
    for secret in ["ecret", "bbbbbbbb", "/work", "msg_", "projects"] {
        assert!(!report.contains(secret), "{secret}: {report}");
    }
    assert!(
        report.contains("claude-code 2.1.50: 2 sessions") && report.contains("2 differences"),
        "{report}"
    );
    let again = run(&env, &format!("-q verify --report={}", file.display()), &[]);
    assert!(again.stderr.contains("cannot write"), "it is never written over: {}", again.stderr);
    assert_eq!(fs::read_to_string(&file).unwrap(), report);
}

#[test]
fn nothing_to_verify_is_an_error() {
    let env = env();
    env.write("empty/notes.txt", "no session");
    assert_eq!(run(&env, "-q verify", &[&env.path("empty")]).code, Some(3));
    assert_eq!(run(&env, "-q verify", &[]).code, Some(1));
    assert_eq!(run(&env, "-q verify", &[&env.path("missing")]).code, Some(1));
}
