//! Events that descendants of the command post.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use serde_json::{Value, json as value};

use subscope_testkit::address::RefusingAddress;

use super::*;
use crate::common::serving::{Serving, exchange, posting};

/// A command that writes its address down, waits for a file, and ends.
pub(super) struct Posting {
    pub(super) child: std::process::Child,
    pub(super) address: String,
    pub(super) go: PathBuf,
}

impl Posting {
    pub(super) fn start(env: &TestEnv, options: &str, outer: Option<&str>) -> Self {
        let number = (0..).find(|number| !env.path(&format!("work/address{number}")).exists()).unwrap();
        let (told, go) = (env.path(&format!("work/address{number}")), env.path(&format!("work/go{number}")));
        let script = format!(
            "echo $CPE_SUBAGENT_LOGGING_ADDRESS >{0}.new; mv {0}.new {0}; until [ -e {1} ]; do sleep 0.02; done; exit 5",
            told.display(),
            go.display()
        );
        let mut command = env.command();
        command.arg("run").args(options.split_whitespace()).args(["--", "sh", "-c", &script]);
        if let Some(outer) = outer {
            command.env("CPE_SUBAGENT_LOGGING_ADDRESS", outer);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let began = clock::tick();
        while !told.exists() {
            assert!(began.elapsed() < LIMIT, "it does not begin");
            thread::sleep(Duration::from_millis(5));
        }
        let url = fs::read_to_string(&told).unwrap();
        Self { child, address: url.trim().strip_prefix("http://").unwrap().to_owned(), go }
    }

    pub(super) fn request(&self, bytes: &[u8]) -> (u16, String) {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        exchange(stream, bytes)
    }

    pub(super) fn post(&self, event: &Value) -> (u16, String) {
        self.request(&posting(&self.address, "/subagent-events", "", event.to_string().as_bytes()))
    }

    /// Lets the command end; returns its stderr.
    pub(super) fn end(mut self) -> String {
        fs::write(&self.go, "").unwrap();
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(5), "{errors}");
        errors
    }
}

pub(super) fn event(run: &str, kind: &str, fields: Value) -> Value {
    let mut event = value!({
        "subagentName": format!("name of {run}"), "subagentRunId": run, "timestamp": clock::now_ms(), "type": kind,
    });
    event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    event
}

pub(super) fn tell_one(posting: &Posting) {
    for event in [
        event("r1", "subagent_start", value!({"payload": "look"})),
        event(
            "r1",
            "tool_call",
            value!({"toolName": "web_search", "toolCallId": "c1", "payload": "{\"query\":\"golang tutorials\"}"}),
        ),
        event(
            "r1",
            "tool_result",
            value!({"toolName": "web_search", "toolCallId": "c1", "payload": "three"}),
        ),
        event("r2", "subagent_start", value!({"parentRunId": "r1", "sessionId": "somebody else's"})),
        event("r2", "subagent_end", value!({"payload": "it broke"})),
        event("r1", "subagent_end", value!({})),
    ] {
        assert_eq!(posting.post(&event).0, 200, "{event}");
    }
}

#[test]
fn events_of_descendants_are_shown_and_kept_as_one_session_of_the_run() {
    let env = env();
    let posting = Posting::start(&env, "", None);
    tell_one(&posting);
    let errors = posting.end();
    for words in [
        "▶ name of r1",
        "name of r1 → web_search golang tutorials",
        "← web_search ok",
        "✗ name of r2",
        "✓ name of r1",
    ] {
        assert!(errors.contains(words), "{words} in\n{errors}");
    }
    let rows = json(&env.run(&["ls", "--json"]).success());
    let all = rows["sessions"].as_array().unwrap();
    assert_eq!(all.len(), 1, "{rows}");
    assert!(all[0]["id"].as_str().unwrap().starts_with("run:") && all[0]["agents"] == 2, "{rows}");
    assert_eq!(all[0]["title"], "name of r1: look");
}

#[test]
fn the_listener_takes_events_and_records_and_answers_nothing_else() {
    let env = env();
    let posting = Posting::start(&env, "--no-store", None);
    let at = posting.address.clone();
    let ask = |line: &str, more: &str| {
        posting
            .request(format!("{line} HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n{more}\r\n").as_bytes())
            .0
    };
    for path in ["/", "/healthz", "/api/v1/sessions", "/api/v1/live", "/metrics", "/openapi.json", "/ws"] {
        assert_eq!(ask(&format!("GET {path}"), ""), 404, "{path}");
    }
    for method in ["GET", "PUT", "DELETE"] {
        assert_eq!(ask(&format!("{method} /subagent-events"), ""), 405, "{method}");
    }
    let json_type = "content-type: application/json\r\ncontent-length: 2\r\n";
    assert_eq!(ask("POST /hooks/claude", json_type), 404);
    assert_eq!(ask("POST /api/v1/drain", json_type), 404);
    let event = event("r1", "subagent_start", value!({}));
    let foreign = posting_to("evil.example", &event);
    assert_eq!(posting.request(&foreign).0, 403);
    let from_page =
        super::posting::posting(&at, "/subagent-events", "origin: http://evil.example\r\n", b"{}");
    assert_eq!(posting.request(&from_page).0, 403);
    assert_eq!(posting.post(&value!({"subagentName": "x"})).0, 400);
    assert!(posting.post(&value!({"subagentName": "x"})).1.contains("subagentRunId"));
    assert_eq!(posting.post(&event).0, 200);
    for path in ["/v1/traces", "/v1/logs", "/v1/metrics"] {
        assert_eq!(posting.request(&super::posting::posting(&at, path, "", b"{}")).0, 200, "{path}");
    }
    posting.end();
}

fn posting_to(host: &str, event: &Value) -> Vec<u8> {
    super::posting::posting(host, "/subagent-events", "", event.to_string().as_bytes())
}

#[test]
fn an_inner_run_passes_events_on_to_the_outer_one() {
    let env = env();
    let outer = Posting::start(&env, "--no-store", None);
    let url = format!("http://{}", outer.address);
    let inner = Posting::start(&env, "", Some(&url));
    assert_ne!(inner.address, outer.address);
    tell_one(&inner);
    assert!(inner.end().contains("✓ name of r1"));
    let told = outer.end();
    assert!(told.contains("✗ name of r2") && told.contains("✓ name of r1"), "{told}");
    let rows = json(&env.run(&["ls", "--json"]).success());
    assert_eq!(rows["sessions"], value!([]), "the outer run keeps them, and it keeps nothing");
}

/// Status and evidence of the root and of `r1` of the only session, and the session's status.
fn ends(env: &TestEnv) -> (Value, Vec<(Value, Value)>) {
    let rows = json(&env.run(&["ls", "--json"]).success());
    let tree = json(&env.run(&["tree", "last", "--json"]).success());
    let agents = tree["agents"].as_array().unwrap().iter();
    let ends = agents.map(|row| (row["status"].clone(), row["evidence"].clone()));
    (rows["sessions"][0]["status"].clone(), ends.collect())
}

#[test]
fn what_a_command_left_open_has_ended_with_its_process() {
    for (script, code, root, evidence) in [
        ("exit 0", 0, "completed", "exit code 0"),
        ("exit 3", 3, "failed", "exit code 3"),
        ("kill -TERM $$", 128 + 15, "stopped", "signal 15"),
    ] {
        let env = env();
        let open = event("r1", "subagent_start", value!({"payload": "look"}));
        let line = env.write("work/events.jsonl", format!("{open}\n"));
        let publish = format!("{} publish < {}; {script}", env!("CARGO_BIN_EXE_subscope"), line.display());
        let ran = run(&env, "", &["sh", "-c", &publish]);
        assert_eq!(ran.code, Some(code), "{}", ran.stderr);
        assert!(ran.stderr.contains("? name of r1"), "{}", ran.stderr);
        let lost = format!("its process ended: {evidence}");
        let expected = vec![(root.into(), evidence.into()), ("lost".into(), lost.into())];
        assert_eq!(ends(&env), ("ended".into(), expected));
    }
}

/// Lines of an agent's life in stderr.
fn starts(errors: &str) -> usize {
    errors.lines().filter(|line| line.contains("▶ name of r1")).count()
}

#[test]
fn blocks_are_printed_once_by_the_outermost_run_and_not_at_all_if_nobody_wants_them() {
    let env = env();
    let subscope = env!("CARGO_BIN_EXE_subscope");
    let events = [event("r1", "subagent_start", value!({})), event("r1", "subagent_end", value!({}))];
    let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
    let publish = format!("{subscope} publish < {}", env.write("work/events.jsonl", lines).display());
    let once = ["sh", "-c", publish.as_str()];
    assert_eq!(starts(&run(&env, "", &once).stderr), 1);
    let nested = [&[subscope, "run", "--"][..], &once].concat();
    assert_eq!(starts(&run(&env, "", &nested).stderr), 1);
    assert_eq!(starts(&run(&env, "", &[&[subscope, "run", "--"][..], &nested].concat()).stderr), 1);
    for options in ["--no-store -q", "--no-store --detail off"] {
        assert_eq!(run(&env, options, &once).stderr, "", "{options}");
    }
    let json = run(&env, "--no-store -q --json", &once).stderr;
    assert_eq!(json.lines().filter(|line| line.contains("subagent.start")).count(), 1, "{json}");
    env.write("config/subscope/config.toml", "subagent_tracing_detail = \"off\"\n");
    let settings = env.path("config/subscope/config.toml");
    let mut quiet = env.command();
    quiet.args(["--config", settings.to_str().unwrap(), "run", "--no-store", "--"]).args(once);
    let ran = subscope_testkit::env::run(quiet, b"");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}

#[test]
fn the_command_needs_no_dashes_before_it() {
    let env = env();
    for words in [&["run", "echo", "-n", "told"][..], &["run", "--no-store", "echo", "-n", "told"]] {
        let ran = env.run(words);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "told"), "{words:?} {}", ran.stderr);
    }
    let unknown = env.run(&["run", "--bogus", "echo"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("--bogus"), "{}", unknown.stderr);
}

#[test]
fn stop_reaches_programs_under_run_also_through_an_outer_one() {
    let env = env();
    let _serving = Serving::start(&env, "");
    let outer = Posting::start(&env, "", None);
    let inner = Posting::start(&env, "", Some(&format!("http://{}", outer.address)));
    let call = |run: &str, id: &str| event(run, "tool_call", value!({"toolName": "t", "toolCallId": id}));
    let stop = |posting: &Posting, run: &str, id: &str| {
        let (status, answer) = posting.post(&call(run, id));
        assert_eq!(status, 200, "{answer}");
        json(&answer)["stop"] == true
    };
    for (posting, run) in [(&outer, "o1"), (&outer, "o2"), (&inner, "i1"), (&inner, "i2")] {
        assert_eq!(posting.post(&event(run, "subagent_start", value!({}))).0, 200);
        assert!(!stop(posting, run, "c1"));
    }
    for run in ["o1", "i1"] {
        let asked = env.run(&["stop", run]);
        assert_eq!(asked.code, Some(0), "{}", asked.stderr);
    }
    assert!(stop(&outer, "o1", "c2") && !stop(&outer, "o2", "c2"));
    assert!(stop(&inner, "i1", "c2") && !stop(&inner, "i2", "c2"));
    for (posting, run) in [(&outer, "o1"), (&inner, "i1")] {
        assert_eq!(posting.post(&event(run, "subagent_end", value!({"status": "stopped"}))).0, 200);
    }
    let errors = inner.end() + &outer.end();
    assert!(errors.contains("■ name of o1") && errors.contains("■ name of i1"), "{errors}");
    let shown = json(&env.run(&["show", "i1", "--json"]).success());
    assert_eq!(shown["status"], "stopped");
}

#[test]
fn recording_that_a_command_prints_is_no_session_of_its_process() {
    let env = env();
    let serving = Serving::start(&env, "");
    let lines = String::from_utf8(stream("a-single")).unwrap();
    let open = lines.find("\"tool_result\"").unwrap();
    let open = &lines[..=open + lines[open..].find('\n').unwrap()];
    let file = env.write("work/open.jsonl", open);
    let ran = run(&env, "", &["cat", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let began = clock::tick();
    let root = loop {
        let rows = serving.json("/api/v1/sessions")["sessions"].clone();
        if let Some(id) = rows[0]["id"].as_str() {
            break serving.tree(id).unwrap()["agents"][0].clone();
        }
        assert!(began.elapsed() < LIMIT, "it is not kept");
        thread::sleep(Duration::from_millis(5));
    };
    assert_eq!((&root["status"], &root["evidence"]), (&"running".into(), &Value::Null), "{root}");
    // The same by a program of the harness's name is its own session.
    let program = harness(&env, &file, "unused");
    run(&env, "", &[program.to_str().unwrap(), "-p", "x", "--output-format", "stream-json", "--verbose"]);
    let ended = json(&env.run(&["tree", "last", "--json"]).success())["agents"][0].clone();
    assert_eq!((&ended["status"], &ended["evidence"]), (&"failed".into(), &"exit code 3".into()), "{ended}");
}

#[test]
fn an_outer_run_that_is_gone_is_told_to_who_posts() {
    let env = env();
    let gone = RefusingAddress::default();
    let inner = Posting::start(&env, "--no-store", Some(&gone.url()));
    let (status, answer) = inner.post(&event("r1", "subagent_start", value!({})));
    assert!(status == 503 && answer.contains("outer run"), "{status} {answer}");
    inner.end();
}

/// How many post at once, and how often each.
const WRITERS: usize = 50;
const BLOCKS: usize = 100;

/// A unique event of one of them.
fn payload(who: usize, number: usize) -> String {
    (0..30).map(|line| format!("{who} {number} {line}\n")).collect()
}

/// Has fifty post at once, each over a connection of its own, and sees to it that each is answered.
fn storm(posting: &Posting) {
    thread::scope(|scope| {
        for who in 0..WRITERS {
            scope.spawn(move || {
                let mut stream = TcpStream::connect(&posting.address).unwrap();
                stream.set_read_timeout(Some(LIMIT)).unwrap();
                (0..BLOCKS).for_each(|number| post_result(&mut stream, &posting.address, who, number));
            });
        }
    });
}

fn post_result(stream: &mut TcpStream, host: &str, who: usize, number: usize) {
    let call = format!("{who}-{number}");
    let fields = value!({"toolName": "t", "toolCallId": call, "payload": payload(who, number)});
    let body = event(&format!("r{who}"), "tool_result", fields).to_string();
    let head = format!(
        "POST /subagent-events HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        let mut piece = [0; 512];
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0);
        answer.extend_from_slice(&piece[..count]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
}

/// Reads a piece at a time, of a size that ends nowhere in particular.
fn read_slowly(mut from: impl Read) -> String {
    let (mut text, mut piece) = (Vec::new(), [0; 1_009]);
    loop {
        match from.read(&mut piece).unwrap() {
            0 => return String::from_utf8(text).unwrap(),
            count => text.extend_from_slice(&piece[..count]),
        }
        thread::yield_now();
    }
}

/// Checks that each block is complete and those of one writer are in order; returns their number.
fn blocks(text: &str) -> usize {
    let mut next = [0; WRITERS];
    let mut seen = 0;
    for block in text.split("#### ").filter(|block| block.contains("result:")) {
        let body: String =
            block.lines().skip(2).take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
        let first: Vec<usize> = body.split_whitespace().take(2).map(|word| word.parse().unwrap()).collect();
        assert_eq!(body, payload(first[0], first[1]));
        assert!(first[1] >= next[first[0]], "{block}");
        next[first[0]] = first[1] + 1;
        seen += 1;
    }
    seen
}

#[test]
fn fifty_who_post_at_once_through_a_slow_reader_never_interleave() {
    let env = env();
    let mut posting = Posting::start(&env, "--no-store --verbose --full", None);
    let errors = posting.child.stderr.take().unwrap();
    let reading = thread::spawn(move || read_slowly(errors));
    storm(&posting);
    fs::write(&posting.go, "").unwrap();
    let text = reading.join().unwrap();
    assert_eq!(posting.child.wait().unwrap().code(), Some(5));
    assert_eq!(blocks(&text), WRITERS * BLOCKS, "{text}");
}

#[test]
fn fifty_who_post_at_once_are_shown_and_kept_each_once() {
    let env = env();
    let serving = Serving::start(&env, "");
    let mut posting = Posting::start(&env, "--verbose --full", None);
    let errors = posting.child.stderr.take().unwrap();
    let reading = thread::spawn(move || std::io::read_to_string(errors).unwrap());
    storm(&posting);
    fs::write(&posting.go, "").unwrap();
    let text = reading.join().unwrap();
    assert_eq!(posting.child.wait().unwrap().code(), Some(5));
    assert_eq!(blocks(&text), WRITERS * BLOCKS, "{text}");
    let session = serving.json("/api/v1/sessions")["sessions"][0]["id"].as_str().unwrap().to_owned();
    let (mut results, mut after, began) = (Vec::new(), String::new(), clock::tick());
    // Stored input is derived a moment later.
    while results.len() < WRITERS * BLOCKS {
        assert!(began.elapsed() < LIMIT, "only {} are there", results.len());
        let page = serving.json(&format!("/api/v1/sessions/{session}/events{after}"));
        let events = page["events"].as_array().unwrap();
        let ended = events.iter().filter(|event| event["kind"] == "tool.post");
        results.extend(ended.map(|event| event["data"]["tool_use_id"].as_str().unwrap().to_owned()));
        if let Some(last) = events.last() {
            after = format!("?after={}", last["seq"]);
        }
    }
    results.sort();
    results.dedup();
    assert_eq!(results.len(), WRITERS * BLOCKS);
}

#[test]
fn fifty_who_post_are_all_answered_while_nobody_reads_what_is_printed() {
    let env = env();
    let mut posting = Posting::start(&env, "--no-store --verbose --full", None);
    // All of it has been answered before the first byte is read.
    storm(&posting);
    let errors = posting.child.stderr.take().unwrap();
    let reading = thread::spawn(move || std::io::read_to_string(errors).unwrap());
    fs::write(&posting.go, "").unwrap();
    let text = reading.join().unwrap();
    assert_eq!(posting.child.wait().unwrap().code(), Some(5));
    assert_eq!(blocks(&text), WRITERS * BLOCKS, "{text}");
}
