//! `serve` as people run it: the real program over loopback, with files, posts and hooks in any order.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use common::env;
use serde_json::Value;
use subscope_hub::clock;
use subscope_testkit::{
    env::TestEnv,
    fixtures::{self, Recording, recording},
};

/// Far more than any wait of these tests takes: a slow machine is no failure.
const LIMIT: Duration = Duration::from_secs(30);

/// A running `serve`.
struct Serving {
    child: Child,
    address: String,
    errors: Option<thread::JoinHandle<String>>,
}

impl Serving {
    fn start(env: &TestEnv, words: &str) -> Self {
        let mut command = env.command();
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(words.split_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let errors = child.stderr.take().unwrap();
        let errors = thread::spawn(move || std::io::read_to_string(errors).unwrap_or_default());
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let address = url.trim().strip_prefix("http://").unwrap_or_else(|| panic!("{url:?}")).to_owned();
        Self { child, address, errors: Some(errors) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    fn get(&self, path: &str) -> (u16, String) {
        exchange(
            self.connect(),
            format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address).as_bytes(),
        )
    }

    fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path);
        assert_eq!(status, 200, "{path} {body}");
        serde_json::from_str(&body).unwrap()
    }

    fn tree(&self, session: &str) -> Option<Value> {
        let (status, body) = self.get(&format!("/api/v1/sessions/{session}/tree"));
        (status == 200).then(|| serde_json::from_str(&body).unwrap())
    }

    fn post(&self, path: &str, headers: &str, body: &[u8]) -> String {
        let (status, answer) = exchange(self.connect(), &posting(&self.address, path, headers, body));
        assert_eq!(status, 200, "{path} {answer}");
        answer
    }

    /// Opens the live feed and reads it on a thread, until the server ends it or as many blocks have come.
    fn live(&self, headers: &str, blocks: usize) -> thread::JoinHandle<Vec<String>> {
        let mut stream = self.connect();
        write!(stream, "GET /api/v1/live HTTP/1.1\r\nhost: {}\r\n{headers}\r\n", self.address).unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        while reader.read_line(&mut line).unwrap() > 2 {
            line.clear();
        }
        thread::spawn(move || {
            let (mut all, mut block) = (Vec::new(), String::new());
            for line in reader.lines().map_while(Result::ok) {
                match line.split_once(": ") {
                    Some(("id" | "event" | "data", _)) => block += &format!("{line}\n"),
                    _ if line.is_empty() && !block.is_empty() => {
                        all.push(std::mem::take(&mut block));
                        if all.len() == blocks {
                            return all;
                        }
                    }
                    _ => {}
                }
            }
            all
        })
    }

    /// Ends it by a signal; returns what it said on stderr.
    fn end(mut self, signal: &str) -> String {
        let killed = Command::new("kill").arg(signal).arg(self.child.id().to_string()).status().unwrap();
        assert!(killed.success());
        let began = clock::tick();
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(began.elapsed() < LIMIT, "it does not end"),
            }
            thread::sleep(Duration::from_millis(5));
        };
        let errors = self.errors.take().unwrap().join().unwrap();
        assert_eq!(status.code(), Some(0), "{errors}");
        assert!(!errors.contains("panicked"), "{errors}");
        errors
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It has ended already where the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn posting(host: &str, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let kind = if path.contains("/ingest/") { "application/x-ndjson" } else { "application/json" };
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn exchange(mut stream: impl Read + Write, request: &[u8]) -> (u16, String) {
    stream.write_all(request).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// A session's own sources, as pieces to hand over in any order between them.
struct Sources {
    recording: Recording,
    session: String,
}

impl Sources {
    fn nested() -> Self {
        let recording = recording("2.1.330", "c-nested");
        let main = main_file(&recording);
        let session = main.file_stem().unwrap().to_string_lossy().into_owned();
        Self { recording, session }
    }

    fn lines(&self, file: &str) -> Vec<Vec<u8>> {
        let bytes = fixtures::bytes(&main_file(&self.recording).ancestors().nth(3).unwrap().join(file));
        bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    }

    /// What `tree` says of the recording's files.
    fn tree(&self, env: &TestEnv, others: &[&str]) -> Value {
        let folder = main_file(&self.recording).ancestors().nth(3).unwrap().to_owned();
        let mut paths: Vec<PathBuf> = others.iter().map(|file| folder.join(file)).collect();
        paths.push(main_file(&self.recording));
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        serde_json::from_str(&common::run(env, "tree --json", &paths).success()).unwrap()
    }
}

fn main_file(recording: &Recording) -> PathBuf {
    let files = recording.conversation().into_iter();
    let mut main = files.filter(|path| {
        path.extension().is_some_and(|it| it == "jsonl") && !path.to_string_lossy().contains("subagents")
    });
    main.next().unwrap()
}

/// A tree without when each agent was last heard of: that is when it was handed over, where it is handed over now. And
/// without the revs that rows have where they are kept.
fn timeless(mut tree: Value) -> Value {
    tree["session"].as_object_mut().unwrap().remove("rev");
    for row in tree["agents"].as_array_mut().unwrap() {
        row["last_event_at_ms"] = Value::Null;
        row.as_object_mut().unwrap().remove("rev");
    }
    tree
}

/// Waits until the tree is this one.
fn wait_for_tree(serving: &Serving, session: &str, expected: &Value) {
    let began = clock::tick();
    loop {
        let found = serving.tree(session).map(timeless);
        if found.as_ref() == Some(expected) {
            return;
        }
        if began.elapsed() > LIMIT {
            assert_eq!(found.as_ref(), Some(expected));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// In which order a session's sources come.
#[derive(Clone, Copy, Debug)]
enum Order {
    FilesFirst,
    HooksFirst,
    StreamFirst,
    Alternating,
}

#[test]
fn session_by_files_stream_and_hooks_is_one_tree_in_any_order() {
    let sources = Sources::nested();
    let expected = timeless(sources.tree(&env(), &["hooks.jsonl", "stream.jsonl"]));
    for order in [Order::FilesFirst, Order::HooksFirst, Order::StreamFirst, Order::Alternating] {
        let env = env();
        let serving = Serving::start(&env, "");
        let hook = |line: &Vec<u8>| drop(serving.post("/hooks/claude", "", line));
        let stream = |line: &Vec<u8>| drop(serving.post("/api/v1/ingest/claude.stream?source=p", "", line));
        let (hooks, lines) = (sources.lines("hooks.jsonl"), sources.lines("stream.jsonl"));
        match order {
            Order::FilesFirst => {
                env.adopt(&sources.recording);
                thread::sleep(Duration::from_millis(300));
                hooks.iter().for_each(hook);
                lines.iter().for_each(stream);
            }
            Order::HooksFirst => {
                hooks.iter().for_each(hook);
                env.adopt(&sources.recording);
                lines.iter().for_each(stream);
            }
            Order::StreamFirst => {
                lines.iter().for_each(stream);
                hooks.iter().for_each(hook);
                env.adopt(&sources.recording);
            }
            Order::Alternating => {
                for at in 0..hooks.len().max(lines.len()) {
                    hooks.get(at).iter().for_each(|line| hook(line));
                    lines.get(at).iter().for_each(|line| stream(line));
                    if at == 20 {
                        env.adopt(&sources.recording);
                    }
                }
            }
        }
        wait_for_tree(&serving, &sources.session, &expected);
        // Everything again changes nothing.
        stream(&lines.concat());
        lines.iter().for_each(stream);
        wait_for_tree(&serving, &sources.session, &expected);
        println!("{order:?} agrees");
        serving.end("-TERM");
    }
}

#[test]
fn hooks_appear_in_tree_and_feed_and_deliveries_count_once() {
    let sources = Sources::nested();
    let env = env();
    let serving = Serving::start(&env, "");
    let hooks = sources.lines("hooks.jsonl");
    let feed = serving.live("", usize::MAX);
    let socket = env.path("data/subscope/hub.sock");
    for (number, line) in hooks.iter().enumerate() {
        let headers = format!(
            "x-subscope-delivery: d{number}\r\nx-subscope-received-ms: {}\r\n",
            1_795_293_690_000 + number as i64
        );
        // Each twice: by the socket of `subscope hook`, and again as after an answer that got lost.
        let stream = UnixStream::connect(&socket).unwrap();
        let answer = exchange(stream, &posting("hub", "/hooks/claude", &headers, line));
        assert_eq!(answer, (200, String::new()));
        assert_eq!(serving.post("/hooks/claude", &headers, line), "");
    }
    let tree = serving.tree(&sources.session).unwrap();
    let file = env.write("work/hooks.jsonl", hooks.concat());
    let cold: Value = serde_json::from_str(&common::run(&env, "tree --json", &[&file]).success()).unwrap();
    for figure in ["agents", "completed", "tool_calls", "tool_errors", "max_depth", "by_type"] {
        assert_eq!(tree["summary"][figure], cold["summary"][figure], "{figure}");
    }
    let listed = serving.json("/api/v1/sessions");
    assert_eq!(listed["sessions"][0]["id"], sources.session.as_str());
    let mut page = serving.json(&format!("/api/v1/sessions/{}/events?limit=10000", sources.session));
    assert_eq!(page["next"], Value::Null);
    serving.end("-INT");
    let told = feed.join().unwrap();
    let data = |block: &String| -> Value {
        let line = block.lines().find_map(|line| line.strip_prefix("data: "));
        serde_json::from_str(line.unwrap_or("null")).unwrap()
    };
    let events: Vec<Value> = told
        .iter()
        .filter(|block| block.contains("event: event"))
        .map(data)
        .filter(|it| it["seq"] != 0)
        .collect();
    assert_eq!(Value::from(events), page["events"].take(), "the feed has what the log has");
    assert!(!socket.exists());
}

#[test]
fn reader_that_returns_has_no_gap_and_no_repeat() {
    let sources = Sources::nested();
    let env = env();
    let serving = Serving::start(&env, "");
    let mut seqs: Vec<u64> = Vec::new();
    let mut last = String::new();
    for part in sources.lines("hooks.jsonl").chunks(10) {
        let feed = serving.live(&last, 9);
        part.iter().for_each(|line| drop(serving.post("/hooks/claude", "", line)));
        let told = feed.join().unwrap();
        let ids = told.iter().filter(|block| block.contains("event: event"));
        seqs.extend(ids.filter_map(|block| {
            block.lines().find_map(|line| line.strip_prefix("id: ")?.parse::<u64>().ok())
        }));
        let place =
            told.iter().rev().find_map(|block| block.lines().find_map(|line| line.strip_prefix("id: ")));
        if let Some(place) = place {
            last = format!("last-event-id: {place}\r\n");
        }
    }
    let page = serving.json(&format!("/api/v1/sessions/{}/events?limit=10000", sources.session));
    let all: Vec<u64> =
        page["events"].as_array().unwrap().iter().map(|it| it["seq"].as_u64().unwrap()).collect();
    assert!(seqs.len() > 10);
    assert_eq!(seqs, all[..seqs.len()]);
    serving.end("-TERM");
    // Another process goes on where this one stopped.
    let serving = Serving::start(&env, "");
    let stats = serving.json("/api/v1/stats");
    assert_eq!((&stats["schema"], &stats["total"]["sessions"]), (&"subscope.stats/1".into(), &1.into()));
    assert_eq!(serving.json("/api/v1/search?q=nothing")["hits"], Value::Array(Vec::new()));
    serving.post("/hooks/claude", "", &sources.lines("hooks.jsonl")[0]);
    let told = serving.live(&last, 2).join().unwrap();
    assert!(!told.iter().any(|block| block.contains("event: reset")), "{told:?}");
    let more = serving.json(&format!("/api/v1/sessions/{}/events?limit=10000", sources.session));
    let more = more["events"].as_array().unwrap();
    assert!(more.len() > all.len());
    assert!(more.iter().map(|it| it["seq"].as_u64().unwrap()).is_sorted_by(|one, other| one < other));
    // A place that was never given is of another log: the reader is told, and begins anew.
    let told = serving.live("last-event-id: 18000000000000000000\r\n", 1).join().unwrap();
    assert!(told[0].contains("event: reset"), "{told:?}");
}

#[test]
fn twenty_posters_lose_nothing() {
    let env = env();
    let serving = Serving::start(&env, "");
    thread::scope(|scope| {
        for poster in 0..20 {
            let serving = &serving;
            scope.spawn(move || {
                for number in 0..20 {
                    let body = format!(
                        r#"{{"subagentName":"w","subagentRunId":"r{poster}","timestamp":{},"type":"tool_call","toolName":"grep","toolCallId":"{number}-{poster}","sessionId":"s"}}"#,
                        1_795_293_690_000i64 + number
                    );
                    serving.post("/subagent-events", "", body.as_bytes());
                }
            });
        }
    });
    let tree = serving.tree("s").unwrap();
    assert_eq!((&tree["summary"]["agents"], &tree["summary"]["tool_calls"]), (&20.into(), &400.into()));
    serving.end("-TERM");
}

#[test]
fn folder_is_private_and_one_hub_has_it() {
    let env = env();
    fs::create_dir_all(env.home().join(".claude/projects/-empty")).unwrap();
    let serving = Serving::start(&env, "--store store");
    let mode = |path: &str| fs::metadata(env.path(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("work/store"), mode("work/store/hub.sock")), (0o700, 0o600));
    let second = env.run(&["serve", "--listen", "127.0.0.1:0", "--store", "store"]);
    assert_eq!((second.code, second.stdout.as_str()), (Some(1), ""));
    assert!(second.stderr.contains("another process writes the store"), "{}", second.stderr);
    let taken = env.run(&["serve", "--listen", &serving.address]);
    assert_eq!(taken.code, Some(1));
    assert!(taken.stderr.contains("cannot listen on"), "{}", taken.stderr);
    assert_eq!(serving.json("/healthz")["status"], "ok");
    // What it is told stays out of what it says.
    let secret = "sk-ant-api03-secret";
    let body = format!(r#"{{"subagentName":"w","subagentRunId":"r","timestamp":1,"type":"{secret}"}}"#);
    serving.post("/subagent-events", "", body.as_bytes());
    let errors = serving.end("-TERM");
    assert!(!errors.contains(secret), "{errors}");
    assert!(!env.path("work/store/hub.sock").exists());
}

/// How often a server is killed at some moment. A multiple of it was run by hand.
const KILLS: u64 = 12;

#[test]
fn what_was_acknowledged_survives_any_kill() {
    let sources = Sources::nested();
    let lines = sources.lines("hooks.jsonl");
    let env = env();
    let post = |serving: &Serving, number: usize| {
        let headers =
            format!("x-subscope-delivery: d{number}\r\nx-subscope-received-ms: {}\r\n", 1_000 + number);
        let stream = TcpStream::connect(&serving.address);
        let Ok(mut stream) = stream else { return false };
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let request = posting(&serving.address, "/hooks/claude", &headers, &lines[number]);
        let mut answer = String::new();
        stream.write_all(&request).is_ok()
            && stream.read_to_string(&mut answer).is_ok()
            && answer.starts_with("HTTP/1.1 200")
    };
    let mut next = 0;
    for round in 0..KILLS {
        let mut serving = Serving::start(&env, "");
        thread::scope(|scope| {
            let (serving, post, count) = (&serving, &post, lines.len());
            let poster = scope.spawn(move || {
                let mut acknowledged = next;
                // Until the server is gone, or half a round's share is through.
                while acknowledged < lines_of_round(round, count) && post(serving, acknowledged) {
                    acknowledged += 1;
                }
                acknowledged
            });
            thread::sleep(Duration::from_millis(round * 3));
            let pid = serving.child.id().to_string();
            Command::new("kill").args(["-KILL", &pid]).status().unwrap();
            next = poster.join().unwrap();
        });
        serving.child.wait().unwrap();
    }
    let serving = Serving::start(&env, "");
    // Those that were not acknowledged come again, and so do some that were.
    for number in next.saturating_sub(5)..lines.len() {
        assert!(post(&serving, number));
    }
    let folder = main_file(&sources.recording).ancestors().nth(3).unwrap().join("hooks.jsonl");
    let cold: Value = serde_json::from_str(&common::run(&env, "tree --json", &[&folder]).success()).unwrap();
    let tree = serving.tree(&sources.session).unwrap();
    for figure in ["agents", "completed", "tool_calls", "tool_errors", "max_depth", "by_type"] {
        assert_eq!(tree["summary"][figure], cold["summary"][figure], "{figure}");
    }
    let log = serving.json(&format!("/api/v1/sessions/{}/events?limit=10000", sources.session));
    let ids: Vec<&str> =
        log["events"].as_array().unwrap().iter().map(|event| event["id"].as_str().unwrap()).collect();
    let distinct: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "each event is there once");
    let feed = common::run(&env, "export --as feed", &[&folder]).success();
    let wanted = feed.lines().filter(|line| line.contains("\"tool.p")).count();
    let kept = log["events"].as_array().unwrap().iter();
    assert_eq!(kept.filter(|event| event["kind"].as_str().unwrap().starts_with("tool.p")).count(), wanted);
    serving.end("-TERM");
}

/// Up to which line a round may come.
fn lines_of_round(round: u64, all: usize) -> usize {
    (all - 1).min((round as usize + 1) * all / KILLS as usize)
}

#[test]
fn hooks_that_found_no_hub_are_taken_in_once_by_the_next() {
    let sources = Sources::nested();
    let env = env();
    let lines = sources.lines("hooks.jsonl");
    for line in &lines[..10] {
        assert_eq!(env.run_with_stdin(&["hook"], line).code, Some(0));
    }
    let spool = env.run(&["hooks", "status", "--json"]).stdout;
    assert!(spool.contains("\"waiting\":10,"), "{spool}");
    for _ in 0..2 {
        let serving = Serving::start(&env, "");
        let began = clock::tick();
        let calls = || {
            serving.tree(&sources.session).map_or(0, |tree| tree["summary"]["tool_calls"].as_u64().unwrap())
        };
        while calls() == 0 {
            assert!(began.elapsed() < LIMIT);
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(env.run_with_stdin(&["hook"], &lines[10]).code, Some(0));
        let log = serving.json(&format!("/api/v1/sessions/{}/events?limit=10000", sources.session));
        let pre =
            log["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "tool.pre").count();
        let named = lines[..=10]
            .iter()
            .filter(|line| String::from_utf8_lossy(line).contains("\"PreToolUse\""))
            .count();
        assert_eq!(pre, named);
        serving.end("-TERM");
    }
}

#[test]
fn what_only_hooks_know_stays_when_files_are_read_again() {
    let sources = Sources::nested();
    let env = env();
    env.adopt(&sources.recording);
    let serving = Serving::start(&env, "");
    for (number, line) in sources.lines("hooks.jsonl").iter().enumerate() {
        serving.post("/hooks/claude", &format!("x-subscope-received-ms: {}\r\n", 1_000 + number), line);
    }
    // The full text is filled beside.
    let began = clock::tick();
    let found = || serving.json("/api/v1/search?q=%22pricing%22")["hits"].as_array().unwrap().len();
    while found() == 0 {
        assert!(began.elapsed() < LIMIT, "nothing is found");
        thread::sleep(Duration::from_millis(50));
    }
    serving.end("-TERM");
    let shown = || -> Value {
        let root = format!("{}/root", sources.session);
        serde_json::from_str(&env.run(&["show", &root, "--json"]).success()).unwrap()
    };
    assert_eq!(shown()["tools"][0]["basis"], "wire");
    let main = env.home().join(".claude/projects/-home-user-shop").join(format!("{}.jsonl", sources.session));
    fs::OpenOptions::new().append(true).open(main).unwrap().write_all(b"\n").unwrap();
    let index = env.run(&["index", "--json"]).success();
    assert!(index.contains("\"sessions\":1"), "{index}");
    assert_eq!(shown()["tools"][0]["basis"], "wire");
}
