//! `serve` as users run it: the real program over loopback, with files, posts and hooks.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::Path,
    thread,
    time::Duration,
};

use common::{
    env,
    serving::{LIMIT, Serving, Sources, exchange, posting},
};
use serde_json::Value;
use subscope_client::{Address, Client, LiveFeed};
use subscope_hub::clock;
use subscope_model::{Feed, FeedItem, Update};
use subscope_testkit::{fixtures::recording, losses::Losses, random::Random};

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
    // The end of the run is logged a moment after the last hook, which is nothing that a reader waits for.
    let began = clock::tick();
    let mut page = loop {
        let page = serving.json(&format!("/api/v1/sessions/{}/events?limit=10000", sources.session));
        if page["events"].as_array().unwrap().iter().any(|event| event["kind"] == "run.end") {
            break page;
        }
        assert!(began.elapsed() < LIMIT, "the run does not end");
    };
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
fn search_finds_what_was_written_a_moment_ago_or_says_that_it_is_still_reading() {
    let env = env();
    let serving = Serving::start(&env, "");
    serving.has_read();
    let folder = env.home().join(".claude/projects/-p");
    fs::create_dir_all(&folder).unwrap();
    for (number, word) in ["turquoise", "counterclockwise", "marmalade"].into_iter().enumerate() {
        let line = format!(
            "{{\"type\":\"user\",\"uuid\":\"u{number}\",\"sessionId\":\"s{number}\",\"message\":{{\"role\":\"user\",\"content\":\"{word}\"}}}}\n"
        );
        fs::write(folder.join(format!("s{number}.jsonl")), line).unwrap();
        let began = clock::tick();
        loop {
            let found = serving.json(&format!("/api/v1/search?q={word}"));
            if found["hits"].as_array().is_some_and(|hits| hits.len() == 1) {
                break;
            }
            assert_eq!(found["is_indexing"], true, "{word}: {found}");
            assert!(began.elapsed() < LIMIT, "{word} is not found");
        }
    }
    serving.end("-INT");
}

#[test]
fn hub_says_how_many_of_the_stored_sessions_it_has_read() {
    const SESSIONS: u64 = 120;
    let env = env();
    let folder = env.home().join(".claude/projects/-p");
    fs::create_dir_all(&folder).unwrap();
    for number in 0..SESSIONS {
        let line = format!(
            "{{\"type\":\"user\",\"uuid\":\"u{number}\",\"sessionId\":\"s{number}\",\"timestamp\":\"2026-01-02T03:04:05Z\",\
             \"message\":{{\"role\":\"user\",\"content\":\"Count.\"}}}}\n"
        );
        fs::write(folder.join(format!("s{number}.jsonl")), line).unwrap();
    }
    let serving = Serving::start(&env, "");
    let (began, mut seen) = (clock::tick(), Vec::new());
    loop {
        let health = serving.json("/healthz");
        assert_eq!(health["is_reading"], health.get("reading").is_some(), "{health}");
        if health["is_reading"] == false {
            break;
        }
        let figures = |name: &str| health["reading"][name].as_u64().unwrap();
        seen.push((figures("read"), figures("total")));
        assert!(began.elapsed() < LIMIT, "it reads and reads: {seen:?}");
    }
    // Before and after the index has figures, the hub reads what is live.
    seen.retain(|progress| *progress != (0, 0));
    assert!(!seen.is_empty() && seen.is_sorted(), "{seen:?}");
    assert!(seen.iter().all(|(read, total)| read <= total && *total == SESSIONS), "{seen:?}");
    assert_eq!(serving.json("/healthz")["sessions"].as_u64(), Some(SESSIONS));
    serving.end("-INT");
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
    // Another process continues where this one stopped.
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
    // An id that this log never gave belongs to another log: the reader gets `reset` and starts over.
    let told = serving.live("last-event-id: 18000000000000000000\r\n", 1).join().unwrap();
    assert!(told[0].contains("event: reset"), "{told:?}");
}

/// Claude Code rewrites an agent's meta file when the agent ends.
#[test]
fn live_feed_never_takes_back_what_a_row_said_when_meta_files_are_rewritten() {
    let env = env();
    let recording = recording("2.1.330", "k-big");
    env.adopt(&recording);
    let place = |meta: &Path| {
        let below = meta.strip_prefix(recording.projects()).unwrap();
        env.home().join(".claude/projects").join(below)
    };
    let metas = recording.metas();
    for meta in &metas {
        let text = fs::read_to_string(meta).unwrap();
        assert!(text.contains(",\"finished\":true"));
        fs::write(place(meta), text.replace(",\"finished\":true", "")).unwrap();
    }
    let marks = env.write("home/.claude/projects/-marks/00000000-0000-4000-8000-00000000000a.jsonl", "");
    let serving = Serving::start(&env, "");
    serving.has_read();
    let address = Address::Tcp(serving.address.parse().unwrap());
    let mut feed = LiveFeed::open(Box::new(move || Client::connect(address.clone()))).unwrap();
    let (mut losses, mut touched) = (Losses::default(), BTreeSet::new());
    for (number, meta) in metas.iter().chain(&metas).enumerate() {
        let text = fs::read(meta).unwrap();
        if number % 2 == 0 {
            fs::write(place(meta), text).unwrap();
        } else {
            let beside = env.write("home/new", text);
            fs::rename(beside, place(meta)).unwrap();
        }
        let words = format!("mark {number}");
        let line = serde_json::json!({
            "type": "user", "sessionId": "00000000-0000-4000-8000-00000000000a", "uuid": words, "parentUuid": null,
            "isSidechain": false, "timestamp": "2026-01-01T00:00:00.000Z", "version": "2.1.330", "cwd": "/",
            "promptId": words, "message": { "role": "user", "content": words },
        });
        writeln!(fs::OpenOptions::new().append(true).open(&marks).unwrap(), "{line}").unwrap();
        let began = clock::tick();
        loop {
            assert!(began.elapsed() < LIMIT, "{words} never comes");
            let FeedItem::Update(update) = feed.next(LIMIT) else { continue };
            losses.take(&update);
            match update {
                Update::Event(event) if event.data["text"] == *words => break,
                Update::Change(change) => drop(touched.insert(change.session().id.clone())),
                Update::Event(_)
                | Update::Snapshot(_)
                | Update::Missed(_)
                | Update::Reset
                | Update::CaughtUp => {}
            }
        }
    }
    assert_eq!(losses.found, [""; 0]);
    assert!(touched.len() <= 2, "{touched:?}");
    serving.end("-TERM");
}

#[test]
fn harness_folder_that_appears_after_the_start_is_noticed() {
    /// How many tries run at once.
    const LANES: u64 = 4;
    let recording = recording("2.1.330", "c-nested");
    let projects = recording.projects();
    let session = recording.truth().session.id;
    let attempt = |seed: u64| {
        let mut random = Random::new(seed);
        let mut pause = |limit| thread::sleep(Duration::from_millis(random.below(limit)));
        let env = env();
        let serving = Serving::start(&env, "");
        // Some before its first look at the folder, some after it.
        pause(400);
        for file in recording.conversation() {
            // Folder by folder, as the harness makes them.
            let own = Path::new("home/.claude/projects").join(file.strip_prefix(&projects).unwrap());
            let above: Vec<&Path> = own.ancestors().skip(1).filter(|up| !up.as_os_str().is_empty()).collect();
            for folder in above.into_iter().rev().map(|folder| env.path(folder.to_str().unwrap())) {
                if !folder.exists() {
                    fs::create_dir(folder).unwrap();
                    pause(20);
                }
            }
            env.write(own.to_str().unwrap(), fs::read(&file).unwrap());
            pause(20);
        }
        let wanted = recording.truth().agents.len();
        let began = clock::tick();
        let agents = || {
            let tree = serving.tree(&session)?;
            Some(tree["agents"].as_array()?.len())
        };
        while agents() != Some(wanted) {
            assert!(began.elapsed() < LIMIT, "try {seed}: {:?} of {wanted} agents", agents());
            thread::sleep(Duration::from_millis(20));
        }
        serving.end("-TERM");
    };
    thread::scope(|scope| {
        let lanes =
            (0..LANES).map(|lane| scope.spawn(move || (lane..20).step_by(LANES as usize).for_each(attempt)));
        lanes.collect::<Vec<_>>().into_iter().for_each(|lane| lane.join().unwrap());
    });
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
    // An error message does not repeat the input.
    let secret = "sk-ant-api03-secret";
    let body = format!(r#"{{"subagentName":"w","subagentRunId":"r","timestamp":1,"type":"{secret}"}}"#);
    serving.post("/subagent-events", "", body.as_bytes());
    let errors = serving.end("-TERM");
    assert!(!errors.contains(secret), "{errors}");
    assert!(!env.path("work/store/hub.sock").exists());
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
        let is_call = |line: &&Vec<u8>| String::from_utf8_lossy(line).contains("\"PreToolUse\"");
        while calls() < lines[..10].iter().filter(is_call).count() as u64 {
            assert!(began.elapsed() < LIMIT);
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(env.run_with_stdin(&["hook"], &lines[10]).code, Some(0));
        let log = serving.json(&format!("/api/v1/sessions/{}/events?limit=10000", sources.session));
        let pre =
            log["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "tool.pre").count();
        assert_eq!(pre, lines[..=10].iter().filter(is_call).count());
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
    // The full text is indexed concurrently.
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

#[test]
fn other_addresses_need_a_token_and_secrets_stay_out_of_what_is_said() {
    let env = env();
    let refused = env.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""));
    assert!(
        refused.stderr.contains("needs a token") && refused.stderr.contains("--token-file"),
        "{}",
        refused.stderr
    );
    env.write("work/weak", "secret");
    fs::set_permissions(env.path("work/weak"), fs::Permissions::from_mode(0o600)).unwrap();
    let weak = env.run(&["serve", "--listen", "127.0.0.1:0", "--token-file", "weak"]);
    assert!(weak.code == Some(1) && weak.stderr.contains("32 characters"), "{}", weak.stderr);
    let serving = Serving::start(&env, "--token-file token");
    let token = fs::read_to_string(env.path("work/token")).unwrap().trim().to_owned();
    assert_eq!(serving.get("/healthz").0, 401);
    let own = format!("authorization: Bearer {token}\r\n");
    let secret = "sk-ant-api03-very-secret";
    for body in [
        format!(r#"{{"session_id":"s","hook_event_name":"UserPromptSubmit","prompt":"{secret}"}}"#),
        format!("{{{secret}"),
        format!(r#"{{"session_id":"s","hook_event_name":7,"{secret}":"{secret}"}}"#),
    ] {
        for path in ["/hooks/claude", "/subagent-events", "/api/v1/ingest/claude.hook", &format!("/{secret}")]
        {
            let headers = format!("{own}x-api-key: {secret}\r\nx-subscope-delivery: {secret}{path}\r\n");
            let request = posting(&serving.address, path, &headers, body.as_bytes());
            exchange(serving.connect(), &request);
            // The response to the hook does not mention it either.
            let ran = env.run_with_stdin(&["hook"], body.as_bytes());
            assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));
        }
    }
    let errors = serving.end("-TERM");
    assert!(!errors.contains(secret) && !errors.contains(&token), "{errors}");
}

/// A port forward keeps the name that the browser uses, or writes the address of the hub; a proxy puts a path before.
#[test]
fn behind_a_port_forward_the_hub_answers_to_its_public_name_and_asks_for_the_token() {
    let env = env();
    env.write(
        "config/subscope/config.toml",
        "[hub]\nallowed_hosts = [\"localhost:8000\"]\nframe_ancestors = [\"vscode-webview:\"]\n",
    );
    let serving = Serving::start(&env, "--public-url https://box.example/proxy/7337/");
    let own = serving.address.clone();
    let request = |method: &str, path: &str, head: &str| {
        let request = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n{head}\r\n");
        exchange(serving.connect(), request.as_bytes())
    };
    let token = fs::read_to_string(env.path("data/subscope/token")).unwrap().trim().to_owned();
    let signed = format!("authorization: Bearer {token}\r\n");
    for host in ["box.example", "localhost:8000", &own] {
        for origin in ["https://box.example", "http://localhost:8000", &format!("http://{own}")] {
            let head = format!("host: {host}\r\norigin: {origin}\r\n");
            let sessions = |head: &str| request("GET", "/api/v1/sessions", head).0;
            assert_eq!((sessions(&head), sessions(&(head.clone() + &signed))), (401, 200), "{host} {origin}");
        }
        let other = format!("host: {host}\r\norigin: https://evil.example\r\n{signed}");
        assert_eq!(request("GET", "/api/v1/sessions", &other).0, 403);
    }
    for host in ["evil.example", "localhost:8001", "box.example.evil"] {
        assert_eq!(request("GET", "/api/v1/sessions", &format!("host: {host}\r\n{signed}")).0, 403, "{host}");
    }
    let (status, document) = request("GET", "/s/x/a/y", "host: box.example\r\n");
    assert!(status == 200 && document.contains("src=\"../../../assets/"), "{document}");
    assert!(!document.contains("\"/assets/"), "{document}");
    let errors = serving.end("-TERM");
    let code = errors.split("https://box.example/proxy/7337/#code=").nth(1);
    assert!(code.is_some_and(|code| code.len() > 32) && !errors.contains(&token), "{errors}");
}

#[test]
fn folders_are_handed_to_a_hub_that_runs_in_the_foreground() {
    let env = env();
    let recording = recording("2.1.330", "c-nested");
    let serving = Serving::start(&env, "");
    serving.has_read();
    let ran = common::run(&env, "index", &[&recording.projects()]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{}", ran.stdout);
    assert!(ran.stdout.contains("has read them: 1 session more"), "{}", ran.stdout);
    let id = recording.truth().session.id;
    let tree = common::json(&common::run(&env, &format!("tree {id} --json"), &[]).success());
    assert_eq!(tree["summary"]["agents"], 4);
    assert_eq!(common::run(&env, "index --archive", &[&recording.projects()]).code, Some(2));
    // A client that has only the address cannot choose what is read.
    let body = br#"{"roots":["/"]}"#;
    let stream = std::net::TcpStream::connect(&serving.address).unwrap();
    let asked = exchange(stream, &posting(&serving.address, "/api/v1/index", "x-subscope: 1\r\n", body));
    assert_eq!(asked.0, 403);
}
