//! `subscope publish`, and the examples in other languages, against the real `serve` and against fake servers.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex, OnceLock},
    thread,
    time::Duration,
};

use common::{
    env,
    serving::{LIMIT, Serving, exchange, posting},
};
use serde_json::{Value, json};
use subscope_collect::spool;
use subscope_hub::clock;
use subscope_testkit::{address::RefusingAddress, env::TestEnv};

const ADDRESS: &str = "CPE_SUBAGENT_LOGGING_ADDRESS";

/// A fake server that answers every request equally, or not at all.
fn answering(answer: Option<&'static str>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut bytes = [0; 4096];
                while stream.read(&mut bytes).is_ok_and(|count| count > 0) {
                    if let Some(answer) = answer {
                        stream.write_all(answer.as_bytes()).unwrap();
                    }
                }
            });
        }
    });
    address
}

/// A fake server that asks every run to stop that calls a tool; and the events that came.
fn stopping() -> (SocketAddr, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, bodies) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let kept = Arc::clone(&bodies);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut stream, mut length, mut line) = (stream, 0, String::new());
            while reader.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let event: Value = serde_json::from_slice(&body).unwrap();
            let answer = json!({"accepted": true, "stop": event["type"] == "tool_call"}).to_string();
            kept.lock().unwrap().push(event);
            let head =
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ";
            write!(stream, "{head}{}\r\n\r\n{answer}", answer.len()).unwrap();
        }
    });
    (address, bodies)
}

/// `subscope publish` to an address, with further arguments.
fn publish(env: &TestEnv, address: &str, words: &[&str]) -> Command {
    let mut command = env.command();
    command.arg("publish").args(words).env(ADDRESS, format!("http://{address}"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn with_stdin(mut command: Command, stdin: &str) -> (i32, String) {
    let mut child = command.spawn().unwrap();
    // A command that has ended does not read the remaining input.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    told(child.wait_with_output().unwrap())
}

/// Exit code and stderr; stdout is data, of which there is none.
fn told(output: Output) -> (i32, String) {
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!errors.contains("panicked"), "{errors}");
    (output.status.code().unwrap(), errors)
}

/// A line of an event that happens now; the same each time, so that it can come again.
fn line(run: &str, kind: &str, more: &Value) -> String {
    static NOW: OnceLock<i64> = OnceLock::new();
    let now = NOW.get_or_init(clock::now_ms);
    let mut event = json!({"subagentName": "scout", "subagentRunId": run, "timestamp": now, "type": kind});
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    format!("{event}\n")
}

fn start(run: &str) -> String {
    line(run, "subagent_start", &json!({}))
}

fn call(run: &str, id: &str) -> String {
    line(run, "tool_call", &json!({"toolName": "Read", "toolCallId": id, "payload": {"path": "a.rs"}}))
}

/// The one subagent of a session.
fn agent(serving: &Serving, run: &str) -> Value {
    serving.tree(&format!("events:{run}")).unwrap()["agents"][1].clone()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = clock::tick();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for a command that is to end by itself while its stdin stays open.
fn ends(mut child: Child) -> (i32, String) {
    let stdin = child.stdin.take();
    until("it waits for more", || child.try_wait().unwrap().is_some());
    drop(stdin);
    told(child.wait_with_output().unwrap())
}

#[test]
fn one_event_each_from_options_is_the_life_of_a_subagent() {
    let env = env();
    let serving = Serving::start(&env, "");
    assert_eq!(with_stdin(publish(&env, &serving.address, &[]), &start("lead")), (0, String::new()));
    let say = |words: &[&str]| {
        let mut all = vec!["--name", "scout", "--run-id", "r1"];
        all.extend_from_slice(words);
        let mut command = publish(&env, &serving.address, &all);
        command.env("SUBSCOPE_PARENT_RUN_ID", "lead");
        assert_eq!(told(command.stdin(Stdio::null()).output().unwrap()), (0, String::new()), "{words:?}");
    };
    say(&["--type", "subagent_start", "--payload", "Find the bug.", "--timestamp", "2026-11-21T20:45:06Z"]);
    let read = ["--tool", "Read", "--call-id", "c1"];
    let payload = "{\"path\" : \"a b.rs\"}";
    say(&[&["--type", "tool_call", "--payload", payload, "--timestamp", "1795293907000"][..], &read].concat());
    say(&[&["--type", "tool_result", "--payload", "-x-", "--is-error"][..], &read].concat());
    say(&["--type", "thought_trace", "--payload", "Hm."]);
    say(&["--type", "subagent_end"]);
    let tree = serving.tree("events:lead").unwrap();
    let row = tree["agents"].as_array().unwrap().iter().find(|row| row["id"] == "r1").unwrap().clone();
    assert_eq!(
        (&row["parent_id"], &row["name"], &row["status"]),
        (&"lead".into(), &"scout".into(), &"completed".into())
    );
    assert_eq!((&row["tool_errors"], &row["prompt"]), (&1.into(), &"Find the bug.".into()));
    assert_eq!(row["started_at_ms"], 1_795_293_906_000_i64);
    let events = serving.json("/api/v1/sessions/events:lead/events?after=0");
    let inputs = events["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "tool.pre");
    let inputs: Vec<_> = inputs.map(|event| event["data"]["input"].clone()).collect();
    assert_eq!(inputs.len(), 1, "{events}");
    assert!(inputs[0].to_string().contains("a b.rs"), "{inputs:?}");
}

#[test]
fn stopped_subagent_is_no_failure_and_its_session_is_of_the_folder_of_who_published() {
    let env = env();
    let serving = Serving::start(&env, "");
    for words in [
        &["--type", "subagent_start"][..],
        &["--type", "subagent_end", "--stopped", "--payload", "the call was cancelled"],
    ] {
        let all = [&["--name", "scout", "--run-id", "r1"], words].concat();
        assert_eq!(with_stdin(publish(&env, &serving.address, &all), ""), (0, String::new()));
    }
    let tree = serving.tree("events:r1").unwrap();
    assert_eq!(
        (&tree["agents"][1]["status"], &tree["summary"]["failed"]),
        (&"stopped".into(), &0.into()),
        "{tree}"
    );
    assert_eq!(tree["session"]["cwd"], env.work().to_str().unwrap());
}

#[test]
fn lines_are_published_as_they_come_through_a_pipe_that_stays_open() {
    let env = env();
    let serving = Serving::start(&env, "");
    let mut child = publish(&env, &serving.address, &[]).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(start("r1").as_bytes()).unwrap();
    until("the start does not come", || serving.tree("events:r1").is_some());
    pipe.write_all(format!("\n{}", call("r1", "c1")).as_bytes()).unwrap();
    until("the call does not come", || agent(&serving, "r1")["open_tools"] == 1);
    pipe.write_all(line("r1", "subagent_end", &json!({})).trim_end().as_bytes()).unwrap();
    drop(pipe);
    assert_eq!(told(child.wait_with_output().unwrap()), (0, String::new()));
    assert_eq!(agent(&serving, "r1")["status"], "completed");
    // The same file again is the same events.
    let again = start("r1") + &call("r1", "c1");
    assert_eq!(with_stdin(publish(&env, &serving.address, &[]), &again), (0, String::new()));
    assert_eq!(agent(&serving, "r1")["tool_calls"], 1);
}

#[test]
fn nothing_happens_where_no_address_is_set() {
    let env = env();
    for words in [&[][..], &["--type", "tool_call", "--name", "n", "--run-id", "r"]] {
        let mut command = publish(&env, "", words);
        command.env_remove(ADDRESS);
        // More than a pipe holds: the writer must not be ended by a closed pipe.
        assert_eq!(with_stdin(command, &"no event\n".repeat(100_000)), (0, String::new()));
        let mut empty = publish(&env, "", words);
        assert_eq!(
            with_stdin(std::mem::replace(empty.env(ADDRESS, ""), env.command()), ""),
            (0, String::new())
        );
    }
}

#[test]
fn wrong_usage_names_what_is_missing() {
    let env = env();
    let nobody = RefusingAddress::default();
    let address = nobody.address().to_string();
    let say = |words: &[&str]| with_stdin(publish(&env, &address, words), "");
    for (words, what) in [
        (&["--type", "tool_call", "--name", "n"][..], "--run-id"),
        (&["--type", "tool_call", "--run-id", "r"], "--name"),
        (&["--name", "n", "--run-id", "r"], "--type"),
        (&["--type", "toolcall", "--name", "n", "--run-id", "r"], "subagent_start"),
        (&["--type", "tool_call", "--name", "n", "--run-id", " "], "--run-id"),
        (&["--type", "tool_call", "--name", "n", "--run-id", "r", "--timestamp", "soon"], "RFC 3339"),
        (&["--address", "http://example.com"], "only 127.0.0.1"),
        (&["--address", "https://127.0.0.1"], "http://"),
    ] {
        let (code, errors) = say(words);
        assert_eq!(code, 2, "{words:?} {errors}");
        assert!(errors.contains(what), "{words:?} {errors}");
    }
}

#[test]
fn line_that_is_no_event_aborts_its_run_and_says_which_line() {
    let env = env();
    let serving = Serving::start(&env, "");
    for (field, other) in [
        ("subagentName", None),
        ("timestamp", None),
        ("type", None),
        ("subagentRunId", Some("subagentRunID")),
    ] {
        let number = field.len();
        let run = format!("bad-{number}");
        let mut lacking: Value = serde_json::from_str(&call(&run, "lacking")).unwrap();
        lacking.as_object_mut().unwrap().remove(field);
        let sibling = format!("good-{number}");
        let stdin = [
            start(&sibling),
            start(&run),
            format!("{lacking}\n"),
            call(&run, "behind"),
            call(&sibling, "behind").replace("subagentRunId", other.unwrap_or("subagentRunId")),
        ];
        let (code, errors) = with_stdin(publish(&env, &serving.address, &[]), &stdin.concat());
        assert_eq!(code, 2, "{errors}");
        assert!(errors.starts_with(&format!("subscope: line 3: {field} is missing\n")), "{errors}");
        // Each of these sessions has a call of this id: a program's own ids are no sign of a copy.
        assert_eq!(agent(&serving, &sibling)["tool_calls"], 1, "{field}: {errors}");
        // A line without a run has no owner.
        let behind = u64::from(field == "subagentRunId");
        assert_eq!(agent(&serving, &run)["tool_calls"], behind, "{field}");
    }
    for (stdin, what) in [
        ("junk \u{1b}[2J\n".to_owned(), "line 1: not JSON (column 1)"),
        ("[1]\n".to_owned(), "line 1: not a JSON object"),
        (call("", "c"), "line 1: subagentRunId is missing or blank"),
        (call("x", "c").replace("tool_call", "toolcall"), "line 1: unknown variant `toolcall`"),
        (line("x", "tool_call", &json!({"timestamp": "soon"})), "line 1: timestamp is neither RFC 3339 nor"),
        (format!("{}{}", start("y"), "x".repeat(17 << 20)), "line 2: longer than 16 MiB"),
    ] {
        let (code, errors) = with_stdin(publish(&env, &serving.address, &[]), &stdin);
        assert_eq!(code, 2, "{errors}");
        assert!(errors.contains(what) && !errors.contains('\u{1b}'), "{errors}");
    }
}

#[test]
fn event_that_cannot_be_delivered_ends_the_command_with_event_and_cause() {
    let env = env();
    let no = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 20\r\n\r\n{\"error\":\"no room\"}\n";
    let nobody = RefusingAddress::default();
    for (address, cause) in [
        (nobody.address().to_string(), "cannot connect: "),
        (answering(Some(no)).to_string(), "the answer is 500: no room"),
        (answering(None).to_string(), "no answer within 5 s"),
    ] {
        let event =
            |kind| ["--type", kind, "--name", "scout", "--run-id", "r1", "--tool", "Read", "--call-id", "c1"];
        let (code, errors) = with_stdin(publish(&env, &address, &event("tool_call")), "");
        let named = format!(
            "subscope: tool_call Read (c1) of run r1 (scout) could not be delivered to http://{address}/subagent-events: {cause}"
        );
        assert!(code == 1 && errors.starts_with(&named), "{errors}");
        // The same on a pipe that stays open: every address has failed, so the command does not wait for more input.
        let mut child = publish(&env, &address, &[]).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(call("r1", "c1").as_bytes()).unwrap();
        let (code, errors) = ends(child);
        assert!(code == 1 && errors.starts_with(&named), "{errors}");
        // An ending is not worth an error.
        let (code, errors) = with_stdin(publish(&env, &address, &event("subagent_end")), "");
        assert!(code == 0 && errors.starts_with("warning: subagent_end Read (c1) of run r1"), "{errors}");
        assert!(errors.contains(cause), "{errors}");
    }
}

#[test]
fn server_that_is_killed_ends_the_run_under_way() {
    let env = env();
    let mut serving = Serving::start(&env, "");
    let mut child = publish(&env, &serving.address, &[]).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all((start("r1") + &start("r2")).as_bytes()).unwrap();
    until("the start does not come", || serving.tree("events:r2").is_some());
    serving.child.kill().unwrap();
    serving.child.wait().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(call("r1", "c1").as_bytes()).unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    errors.read_line(&mut first).unwrap();
    assert!(
        first.starts_with("subscope: tool_call Read (c1) of run r1 (scout) could not be delivered"),
        "{first}"
    );
    assert!(first.contains("cannot connect"), "{first}");
    // The sibling is tried on its own, and was the last.
    assert!(child.try_wait().unwrap().is_none());
    pipe.write_all((call("r1", "c2") + &call("r2", "c3")).as_bytes()).unwrap();
    let mut rest = String::new();
    errors.read_to_string(&mut rest).unwrap();
    assert!(rest.starts_with("subscope: tool_call Read (c3) of run r2 (scout)"), "{rest}");
    assert_eq!(ends(child).0, 1);
    drop(pipe);
}

/// The events that wait in the spool.
fn spooled(env: &TestEnv) -> Vec<PathBuf> {
    let folder = spool::folder(&env.path("data/subscope"));
    let mut all: Vec<_> =
        fs::read_dir(folder).map_or(Vec::new(), |it| it.map(|it| it.unwrap().path()).collect());
    all.retain(|path| path.extension().is_some_and(|it| it == "event"));
    all.sort();
    all
}

#[test]
fn spooled_run_goes_on_and_arrives_exactly_once() {
    let env = env();
    let serving = Serving::start(&env, "");
    let lost_answer =
        line("r1", "tool_call", &json!({"toolName": "Read", "toolCallId": "c1", "eventId": "e1"}));
    let head = start("r1") + &lost_answer;
    assert_eq!(with_stdin(publish(&env, &serving.address, &[]), &head), (0, String::new()));
    let address = serving.address.clone();
    serving.end("-TERM");
    // The second is one that the hub took and could not say so: it comes again.
    let result = line("r1", "tool_result", &json!({"toolName": "Read", "toolCallId": "c1", "payload": "x"}));
    let rest = lost_answer + &result + &call("r1", "c2") + &line("r1", "subagent_end", &json!({}));
    let (code, errors) = with_stdin(publish(&env, &address, &["--on-publish-failure", "spool"]), &rest);
    assert_eq!(code, 0, "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(
        errors.starts_with("warning: tool_call Read (c1) of run r1") && errors.contains("spooled"),
        "{errors}"
    );
    let waiting = spooled(&env);
    assert_eq!(waiting.len(), 4);
    // A file that cannot be read is moved aside and reported; the files after it are ingested.
    let broken = waiting[0].with_file_name(format!("{:016x}-00000001-0000000000000001-00000002.event", 1));
    fs::write(&broken, "{}").unwrap();
    let copies: Vec<_> = waiting.iter().map(|path| fs::read(path).unwrap()).collect();
    let events = |serving: &Serving| -> Vec<Value> {
        let page = serving.json("/api/v1/sessions/events:r1/events?after=0");
        page["events"].as_array().unwrap().iter().map(|event| event["kind"].clone()).collect()
    };
    for round in 0..2 {
        let serving = Serving::start(&env, "");
        until("the spool is not taken", || spooled(&env).is_empty());
        // The end is published only when no earlier event can follow.
        until("it does not end", || events(&serving).iter().any(|kind| kind == "subagent.stop"));
        let row = agent(&serving, "r1");
        assert_eq!(
            (&row["status"], &row["tool_calls"], &row["open_tools"]),
            (&"completed".into(), &2.into(), &1.into())
        );
        let kinds = events(&serving);
        let count = |kind: &str| kinds.iter().filter(|it| **it == kind).count();
        assert_eq!((count("tool.pre"), count("tool.post"), count("subagent.stop")), (2, 1, 1), "{kinds:?}");
        let said = serving.end("-TERM");
        assert_eq!(said.contains("subagentName is missing"), round == 0, "{said}");
        // As after a crash between ingest and removal: the same files are in the spool again.
        for (path, body) in waiting.iter().zip(&copies) {
            fs::write(path, body).unwrap();
        }
    }
}

#[test]
fn runs_stay_in_their_session_when_the_next_hub_takes_over() {
    let env = env();
    let serving = Serving::start(&env, "");
    let child = |run: &str, parent: &str| line(run, "subagent_start", &json!({"parentRunId": parent}));
    let begun = start("lead") + &child("child", "lead") + &child("grandchild", "child");
    assert_eq!(with_stdin(publish(&env, &serving.address, &[]), &begun), (0, String::new()));
    let address = serving.address.clone();
    serving.end("-TERM");
    let spool = publish(&env, &address, &["--on-publish-failure", "spool"]);
    assert_eq!(with_stdin(spool, &call("grandchild", "c1")).0, 0);
    // Neither what was spooled nor what is posted now names a parent.
    let serving = Serving::start(&env, "");
    until("the spool is not taken", || spooled(&env).is_empty());
    let late = call("child", "c2") + &child("latest", "grandchild") + &call("stranger", "c3");
    assert_eq!(with_stdin(publish(&env, &serving.address, &[]), &late), (0, String::new()));
    let tree = serving.tree("events:lead").unwrap();
    let rows = tree["agents"].as_array().unwrap().iter();
    let rows: Vec<_> =
        rows.map(|row| (row["id"].clone(), row["depth"].clone(), row["tool_calls"].clone())).collect();
    let row = |id: &str, depth: u64, calls: u64| (id.into(), depth.into(), calls.into());
    let expected = [
        row("root", 0, 0),
        row("lead", 1, 0),
        row("child", 2, 1),
        row("grandchild", 3, 1),
        row("latest", 4, 0),
    ];
    assert_eq!(rows, expected);
    let sessions = serving.json("/api/v1/sessions");
    let mut ids: Vec<_> =
        sessions["sessions"].as_array().unwrap().iter().map(|row| row["id"].clone()).collect();
    ids.sort_by_key(Value::to_string);
    assert_eq!(ids, ["events:lead", "events:stranger"]);
}

fn post(serving: &Serving, event: &str) -> (u16, Value) {
    let request = posting(&serving.address, "/subagent-events", "", event.as_bytes());
    let (status, body) = exchange(serving.connect(), &request);
    (status, serde_json::from_str(&body).unwrap())
}

#[test]
fn silence_counts_from_when_an_event_was_heard_and_a_time_that_is_none_is_refused() {
    let env = env();
    let serving = Serving::start(&env, "");
    let day = 86_400_000;
    for (run, ahead) in [("late", -day), ("early", day)] {
        let at = json!({"timestamp": clock::now_ms() + ahead});
        assert_eq!(post(&serving, &line(run, "subagent_start", &at)).0, 200);
        let call = json!({"timestamp": clock::now_ms() + ahead, "toolName": "t", "toolCallId": "c"});
        assert_eq!(post(&serving, &line(run, "tool_call", &call)).0, 200);
        let row = serving.tree(&format!("events:{run}")).unwrap()["agents"][1].clone();
        assert_eq!((&row["status"], &row["flags"]), (&"running".into(), &json!([])), "{row}");
        let heard = row["last_event_at_ms"].as_i64().unwrap();
        assert!((clock::now_ms() - heard).abs() < day / 2, "{row}");
    }
    for time in [json!("yesterday"), json!(-1), json!(""), json!(true), json!(1e300), Value::Null] {
        let (status, body) = post(&serving, &line("r", "subagent_start", &json!({"timestamp": time})));
        assert_eq!((status, &body["field"]), (400, &"timestamp".into()), "{time}: {body}");
    }
    assert_eq!(serving.tree("events:r"), None);
}

#[test]
fn program_of_which_only_its_runs_are_known_ends_with_the_last_and_waits_for_nothing() {
    let env = env();
    let serving = Serving::start(&env, "--stall 1s --stall-subagents 1s");
    let root = || serving.tree("events:lead").unwrap()["agents"][0].clone();
    let list = || serving.json("/api/v1/sessions")["sessions"][0]["status"].clone();
    post(&serving, &line("lead", "subagent_start", &json!({})));
    post(&serving, &line("child", "subagent_start", &json!({"parentRunId": "lead"})));
    let begun = root();
    assert_eq!((&begun["status"], &begun["liveness"]["kind"]), (&"running".into(), &"children".into()));
    assert_eq!(list(), "live");
    post(&serving, &line("child", "subagent_end", &json!({})));
    assert_eq!(root()["status"], "running");
    post(&serving, &line("lead", "subagent_end", &json!({"payload": "it broke"})));
    let ended = root();
    assert_eq!(
        (&ended["status"], &ended["evidence"], &ended["liveness"]),
        (&"completed".into(), &"its last run ended".into(), &Value::Null)
    );
    assert!(ended["ended_at_ms"].is_i64(), "{ended}");
    assert_eq!(list(), "ended");
    // Another run begins.
    post(&serving, &line("next", "subagent_start", &json!({"parentRunId": "lead"})));
    assert_eq!((root()["status"].clone(), list()), ("running".into(), "live".into()));
}

#[test]
fn result_caller_and_arguments_of_a_published_agent_are_in_rows_and_exports() {
    let env = env();
    let call = |run: &str, kind: &str, more: Value| line(run, kind, &more);
    let lines = call("lead", "subagent_start", json!({}))
        + &call(
            "lead",
            "tool_call",
            json!({"toolName": "delegate", "toolCallId": "c1", "payload": "to the coder"}),
        )
        + &call("other", "tool_call", json!({"toolName": "delegate", "toolCallId": "c1"}))
        + &call(
            "coder",
            "subagent_start",
            json!({"parentRunId": "lead", "parentToolCallID": "c1", "payload": "Fix it."}),
        )
        + &call(
            "helper",
            "subagent_start",
            json!({"parentRunId": "other", "parentToolCallId": "c1", "payload": "Help."}),
        )
        + &call(
            "coder",
            "tool_call",
            json!({"toolName": "Read", "toolCallId": "c1", "payload": "{\"file_path\":\"/src/cart.rs\"}"}),
        )
        + &call(
            "coder",
            "tool_result",
            json!({"toolName": "Read", "toolCallId": "c1", "payload": "fn main() {}"}),
        )
        + &call("coder", "subagent_end", json!({"result": "Fixed."}));
    let file = env.write("work/events.jsonl", lines);
    let file = file.to_str().unwrap();
    let tree: Value = serde_json::from_str(&env.run(&["tree", file, "--json"]).success()).unwrap();
    let row = |id: &str| {
        let rows = tree["agents"].as_array().unwrap();
        rows.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("{tree}")).clone()
    };
    assert_eq!((&row("coder")["spawned_by"], &row("coder")["parent_id"]), (&"c1".into(), &"lead".into()));
    assert_eq!(row("helper")["spawned_by"], "other/c1", "an id names a call of its run only");
    assert_eq!(row("coder")["result"], "Fixed.");
    assert_eq!(row("coder")["tools"][0]["detail"], "cart.rs");
    assert_eq!(row("lead")["tools"][0]["detail"], "to the coder");
    let full = env.run(&["tree", file, "--detail", "full"]).success();
    assert!(full.contains("Read cart.rs") && full.contains("result Fixed."), "{full}");
    let traces: Value =
        serde_json::from_str(&env.run(&["export", file, "--as", "execution"]).success()).unwrap();
    let trace = &traces[0];
    assert_eq!(
        (&trace["subagentType"], &trace["parentToolCallId"], &trace["result"]),
        (&"scout".into(), &"c1".into(), &"Fixed.".into()),
        "{traces}"
    );
    let call = &trace["toolExecutions"][0];
    assert!(call["arguments"].to_string().contains("cart.rs") && call["result"] == "fn main() {}", "{call}");
}

#[test]
fn list_shows_ids_that_name_one_session_and_what_it_is() {
    let env = env();
    let serving = Serving::start(&env, "");
    for run in ["worker-1", "worker-12", "worker-2", "r"] {
        post(&serving, &line(run, "subagent_start", &json!({"payload": format!("Look at {run}.")})));
    }
    // Those that are not listed count, too.
    for words in ["ls", "ls -n 2"] {
        let list = env.run(&[&["ls"][..], &words.split(' ').skip(1).collect::<Vec<_>>()].concat()).success();
        for row in list.lines().skip(1) {
            let id = row.split_whitespace().nth(1).unwrap();
            let tree: Value = serde_json::from_str(&env.run(&["tree", id, "--json"]).success()).unwrap();
            let run = tree["agents"][1]["id"].as_str().unwrap();
            assert!(row.contains(&format!("scout: Look at {run}.")), "{list}");
        }
    }
    let list = env.run(&["ls"]).success();
    for id in ["events:worker-1 ", "events:worker-12 ", "events:worker-2 ", "events:r "] {
        assert!(list.contains(id), "{id} in\n{list}");
    }
}

#[test]
fn stop_is_the_answer_to_the_next_event_and_the_command_prints_it() {
    let env = env();
    let serving = Serving::start(&env, "");
    for run in ["one", "two"] {
        assert_eq!(post(&serving, &line(run, "subagent_start", &json!({}))).0, 200);
    }
    let asked = env.run(&["stop", "one"]).success();
    assert!(asked.contains("its program gets the request: with the answer to the next event"), "{asked}");
    let row = |run: &str| serving.tree(&format!("events:{run}")).unwrap()["agents"][1].clone();
    assert_eq!((&row("one")["status"], &row("one")["flags"]), (&"running".into(), &json!(["stopping"])));
    let call = |run: &str, id: &str| line(run, "tool_call", &json!({"toolName": "t", "toolCallId": id}));
    // As long as it does not end.
    for id in ["c1", "c2"] {
        assert_eq!(post(&serving, &call("one", id)).1["stop"], true);
        assert_eq!(post(&serving, &call("two", id)).1.get("stop"), None);
    }
    let mut command = publish(&env, &serving.address, &[]).spawn().unwrap();
    let lines = call("one", "c3") + &call("two", "c3");
    command.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let ran = command.wait_with_output().unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(said, "{\"stop\":true,\"subagentRunId\":\"one\"}\n");
    let end = line("one", "subagent_end", &json!({"status": "stopped"}));
    assert_eq!(post(&serving, &end).0, 200);
    assert_eq!(
        (row("one")["status"].clone(), row("two")["status"].clone()),
        ("stopped".into(), "running".into())
    );
    let ended = env.run(&["stop", "one"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("ended already: stopped"), "{}", ended.stderr);
}

/// The examples with their interpreters; `None` if one is not installed.
fn example(file: &str) -> Option<Command> {
    let (program, version) = match Path::new(file).extension().unwrap().to_str().unwrap() {
        "py" => ("python3", "--version"),
        "mjs" => ("node", "--version"),
        _ => ("sh", "-c:"),
    };
    let ran = Command::new(program).arg(version).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if program != "sh" && !ran.is_ok_and(|status| status.success()) {
        subscope_testkit::skip::missing_tool(program);
        return None;
    }
    let mut command = Command::new(program);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/examples").join(file));
    Some(command)
}

fn check_example(file: &str) {
    let Some(_) = example(file) else { return };
    let env = env();
    let three = env.write("work/three.txt", "1\n2\n3\n");
    let binary = Path::new(env!("CARGO_BIN_EXE_subscope")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let run = |address: Option<&str>, paths: &[&str]| {
        let mut command = example(file).unwrap();
        command.args(paths).env_remove(ADDRESS).env("PATH", &path).env("HOME", env.home());
        command.env("XDG_DATA_HOME", env.path("data"));
        // A proxy that is set for other things is not asked.
        command
            .env("http_proxy", "http://127.0.0.1:9")
            .env_remove("no_proxy")
            .env_remove("SUBSCOPE_DATA_DIR");
        if let Some(address) = address {
            command.env(ADDRESS, format!("http://{address}"));
        }
        told(command.output().unwrap())
    };
    let three = three.to_str().unwrap();
    assert_eq!(run(None, &[three]), (0, String::new()));
    let serving = Serving::start(&env, "");
    let (code, errors) = run(Some(&serving.address), &[three, "/not/there"]);
    assert_eq!(code, 0, "{errors}");
    let sessions = serving.json("/api/v1/sessions");
    let sessions =
        sessions["sessions"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned());
    let rows: Vec<_> =
        sessions.map(|id| serving.tree(&id.replace('/', "%2F")).unwrap()["agents"][1].clone()).collect();
    let row =
        |status: &str| rows.iter().find(|row| row["status"] == status).unwrap_or_else(|| panic!("{rows:?}"));
    assert_eq!(rows.len(), 2);
    for (status, errors) in [("completed", 0), ("failed", 1)] {
        let row = row(status);
        assert_eq!(
            (&row["name"], &row["tool_calls"], &row["open_tools"]),
            (&"counter".into(), &1.into(), &0.into())
        );
        assert_eq!(row["tool_errors"], errors);
    }
    assert_eq!(row("completed")["prompt"], format!("Count the lines of {three}."));
    assert_eq!(row("completed")["result"], "3 lines");
    let (listener, bodies) = stopping();
    assert_eq!(run(Some(&listener.to_string()), &[three]), (0, String::new()));
    let kinds = bodies.lock().unwrap().iter().map(|event| event["type"].clone()).collect::<Vec<_>>();
    assert_eq!(kinds, ["subagent_start", "tool_call", "subagent_end"]);
    assert_eq!(bodies.lock().unwrap()[2]["status"], "stopped");
    let nobody = RefusingAddress::default();
    let (code, errors) = run(Some(&nobody.address().to_string()), &[three]);
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("subagent_start") && errors.contains("could not be delivered"), "{errors}");
    assert!(errors.contains("refused") || errors.contains("ECONNREFUSED"), "{errors}");
    // As on a system where a hub cannot identify the user of a connection.
    serving.end("-INT");
    let token = env.path("data/subscope/token");
    let serving = Serving::start(&env, &format!("--token-file {}", token.display()));
    let (code, errors) = run(Some(&serving.address), &[three]);
    assert_eq!((code, errors.as_str()), (0, ""), "{file}");
    let listed = common::json(&common::run(&env, "ls --json", &[]).success());
    assert_eq!(listed["sessions"].as_array().unwrap().len(), rows.len() + 1, "{file}");
    let mut stranger = example(file).unwrap();
    stranger.arg(three).env("PATH", &path).env("HOME", "/nowhere").env_remove("XDG_DATA_HOME");
    stranger.env(ADDRESS, format!("http://{}", serving.address)).env_remove("SUBSCOPE_DATA_DIR");
    let (code, errors) = told(stranger.output().unwrap());
    assert!(code != 0 && errors.contains("401"), "{file}: {errors}");
}

#[test]
fn example_in_python_works_as_it_stands() {
    check_example("publish.py");
}

#[test]
fn example_in_javascript_works_as_it_stands() {
    check_example("publish.mjs");
}

#[test]
fn example_in_shell_works_as_it_stands() {
    check_example("publish.sh");
}
