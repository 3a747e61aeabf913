//! Access control: tokens, roles, tenants, bodies.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use serde_json::Value;
use subscope_testkit::env::{TestEnv, run};

use crate::rig::{Running, SERVER, Team, tool};

/// An answer of a server.
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

fn send(server: &Running, head: &str, body: &[u8]) -> Answer {
    let address = server.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let request = format!("{head}\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    // A server that has refused a body does not read it.
    let _ = stream.write_all(body);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

pub(crate) fn get(server: &Running, path: &str, token: &str) -> Answer {
    send(server, &format!("GET {path} HTTP/1.1\r\nauthorization: Bearer {token}"), b"")
}

pub(crate) fn post(server: &Running, token: &str, body: &[u8]) -> Answer {
    let head = format!(
        "POST /team/v1/sessions HTTP/1.1\r\nauthorization: Bearer {token}\r\ncontent-type: application/x-ndjson\r\n\
         content-length: {}",
        body.len()
    );
    send(server, &head, body)
}

/// Paths that want a token.
const CLOSED: [&str; 17] = [
    "/api/v1/sessions",
    "/api/v1/sessions/x/tree",
    "/api/v1/sessions/x/timeline",
    "/api/v1/sessions/x/events",
    "/api/v1/agents/x",
    "/api/v1/names?prefix=",
    "/api/v1/search?q=x",
    "/api/v1/stats",
    "/api/v1/stats?by=project",
    "/api/v1/stats?by=project&as=csv",
    "/api/v1/people",
    "/api/v1/working",
    "/api/v1/status",
    "/api/v1/live",
    "/api/v1/me",
    "/metrics",
    "/openapi.json",
];

#[test]
fn nothing_is_open_but_health_and_the_files_of_the_page() {
    let Some(team) = Team::start() else { return };
    let reader = team.token("acme", "rea", "reader");
    let server = team.serve();
    assert_eq!(send(&server, "GET /healthz HTTP/1.1", b"").json()["status"], "ok");
    let page = send(&server, "GET / HTTP/1.1", b"");
    assert!(page.status == 200 && page.head.contains("content-security-policy"), "{}", page.head);
    for path in CLOSED {
        for token in ["", "sst_wrong", &reader[..reader.len() - 1]] {
            let answer = get(&server, path, token);
            assert_eq!(answer.status, 401, "{path}");
            assert!(!answer.body.contains("unknown"), "{}", answer.body);
        }
        let query =
            get(&server, &format!("{path}{}token={reader}", if path.contains('?') { "&" } else { "?" }), "");
        assert_eq!(query.status, 401, "{path}: never in a URL");
        let foreign =
            format!("GET {path} HTTP/1.1\r\nauthorization: Bearer {reader}\r\nsec-fetch-site: cross-site");
        assert_eq!(send(&server, &foreign, b"").status, 403, "{path}");
    }
    for path in CLOSED.iter().filter(|path| !path.contains("/x") && !path.contains("live")) {
        let answer = get(&server, path, &reader);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert!(!answer.head.to_lowercase().contains("access-control"), "no CORS");
    }
    assert_eq!(get(&server, "/api/v1/sessions/none/tree", &reader).status, 404);
    let me = get(&server, "/api/v1/me", &reader).json();
    assert_eq!((me["tenant"].as_str(), me["role"].as_str()), (Some("acme"), Some("reader")));
}

#[test]
fn codes_let_one_browser_in() {
    let Some(mut team) = Team::start() else { return };
    let reader = team.token("acme", "rea", "reader");
    let server = team.serve();
    let codes = |headers: &str| {
        send(&server, &format!("POST /api/v1/codes HTTP/1.1\r\ncontent-length: 0{headers}"), b"")
    };
    // Tokens need no engine, and health says that it is away.
    team.clickhouse.kill();
    assert_eq!(send(&server, "GET /healthz HTTP/1.1", b"").status, 503);
    team.clickhouse.restart();
    assert_eq!(codes("\r\nx-subscope: 1").status, 401);
    assert_eq!(codes(&format!("\r\nauthorization: Bearer {reader}")).status, 403);
    let path = codes(&format!("\r\nauthorization: Bearer {reader}\r\nx-subscope: 1")).json();
    let code = path["path"].as_str().unwrap().strip_prefix("/#code=").unwrap().to_owned();
    let sign_in = |code: &str| {
        let body = format!("{{\"code\":\"{code}\"}}");
        let head = format!(
            "POST /api/v1/sign-in HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {}",
            body.len()
        );
        send(&server, &head, body.as_bytes())
    };
    assert_eq!(sign_in("code.1.2.3.4").status, 403);
    let let_in = sign_in(&code);
    assert_eq!(let_in.status, 204, "{}", let_in.body);
    let cookie = let_in.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"));
    let cookie = cookie.split(';').next().unwrap();
    assert_eq!(sign_in(&code).status, 403, "used");
    let asked = format!("GET /api/v1/me HTTP/1.1\r\ncookie: {cookie}");
    assert_eq!(send(&server, &asked, b"").json()["user"], "rea");
    let other = team.serve();
    assert_eq!(send(&other, &asked, b"").json()["user"], "rea", "every server knows it");
    let posted = format!(
        "POST /team/v1/sessions HTTP/1.1\r\ncookie: {cookie}\r\ncontent-type: application/x-ndjson\r\ncontent-length: 0"
    );
    assert_eq!(send(&server, &posted, b"").status, 401, "a cookie sends nothing");
}

#[test]
fn roles_and_tenants_are_those_of_the_token_whatever_the_body_says() {
    let Some(team) = Team::start() else { return };
    let server = team.serve();
    let machine = team.machine("one", "ana");
    let (reader, other) = (team.token("acme", "rea", "reader"), team.token("other", "eve", "admin"));
    let admin = team.token("acme", "root", "admin");
    machine.adopt("c-nested");
    let command = machine.forward_command(&server.url, &["--dry-run"]);
    let line = run(command, b"").success();
    let mut snapshot: Value = serde_json::from_str(line.trim()).unwrap();
    snapshot["tenant"] = "other".into();
    snapshot["user"] = "eve".into();
    snapshot["row"]["user"] = "eve".into();
    let line = format!("{snapshot}\n");
    assert_eq!(post(&server, &reader, line.as_bytes()).status, 403);
    assert_eq!(post(&server, "sst_wrong", line.as_bytes()).status, 401);
    let stored = post(&server, &machine.token(), line.as_bytes());
    assert_eq!((stored.status, stored.json()["accepted"].as_u64()), (200, Some(1)), "{}", stored.body);
    let id = snapshot["row"]["id"].as_str().unwrap();
    let listed = get(&server, "/api/v1/sessions", &reader).json();
    assert_eq!(listed["sessions"][0]["user"], "ana");
    assert_eq!(listed["sessions"][0]["machine"], "one");
    for path in [
        format!("/api/v1/sessions/{id}/tree"),
        format!("/api/v1/sessions/{id}/timeline"),
        format!("/api/v1/sessions/{id}/events"),
        format!("/api/v1/agents/root?session={id}"),
    ] {
        assert_eq!(get(&server, &path, &other).status, 404, "{path}");
    }
    assert_eq!(get(&server, "/api/v1/sessions", &other).json()["sessions"].as_array().unwrap().len(), 0);
    let events = get(&server, &format!("/api/v1/sessions/{id}/events"), &reader);
    assert_eq!((events.status, events.json()["error"].as_str()), (404, Some("on one only")));
    let forget = |token: &str| {
        let body = b"{\"user\":\"ana\"}";
        let head = format!(
            "POST /team/v1/forget HTTP/1.1\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
             content-length: {}",
            body.len()
        );
        send(&server, &head, body)
    };
    assert_eq!(forget(&reader).status, 403);
    assert_eq!(forget(&other).json()["forgotten"], 0, "another tenant's ana");
    assert_eq!(get(&server, "/api/v1/sessions", &reader).json()["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(forget(&admin).json()["forgotten"], 1);
    assert_eq!(get(&server, "/api/v1/sessions", &reader).json()["sessions"].as_array().unwrap().len(), 0);
    assert_eq!(get(&server, &format!("/api/v1/sessions/{id}/tree"), &reader).status, 404);
}

#[test]
fn bodies_that_are_none_or_too_large_are_refused_and_the_rest_is_stored() {
    let Some(team) = Team::start() else { return };
    let server = team.serve();
    let machine = team.machine("one", "ana");
    let token = machine.token();
    machine.adopt("c-nested");
    let command = machine.forward_command(&server.url, &["--dry-run"]);
    let line = run(command, b"").success();
    let mixed = format!("not json\n{}{{\"schema\":\"x\"}}\n", line);
    let answer = post(&server, &token, mixed.as_bytes());
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert_eq!(answer.json()["accepted"], 1);
    assert_eq!(answer.json()["refused"].as_array().unwrap().len(), 2);
    assert!(!answer.body.contains("not json"), "what was sent is not repeated");
    let wrong_day = line.replace(
        &format!("\"day\":\"{}\"", &line[line.find("\"day\":\"").unwrap() + 7..][..10]),
        "\"day\":\"2026-02-31\"",
    );
    assert!(post(&server, &token, wrong_day.as_bytes()).body.contains("its day is none"));
    // A gigabyte, announced and not.
    let head = |more: &str| {
        format!(
            "POST /team/v1/sessions HTTP/1.1\r\nauthorization: Bearer {token}\r\ncontent-type: application/x-ndjson\r\n{more}"
        )
    };
    assert_eq!(send(&server, &head("content-length: 1073741824"), &[b' '; 1 << 16]).status, 413);
    let chunk = [b"100000\r\n".to_vec(), vec![b'{'; 1 << 20], b"\r\n".to_vec()].concat();
    let endless: Vec<u8> = chunk.iter().copied().cycle().take(chunk.len() * 12).collect();
    assert_eq!(send(&server, &head("transfer-encoding: chunked"), &endless).status, 413);
    // A gigabyte of zeros in a megabyte of gzip.
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![b' '; 1 << 20];
    (0..1024).for_each(|_| bomb.write_all(&zeros).unwrap());
    let bomb = bomb.finish().unwrap();
    let gzip = head(&format!("content-encoding: gzip\r\ncontent-length: {}", bomb.len()));
    assert_eq!(send(&server, &gzip, &bomb).status, 413);
    let broken = head("content-encoding: gzip\r\ncontent-length: 4");
    assert_eq!(send(&server, &broken, b"gzip").status, 400);
    let many = line.repeat(501);
    let many = post(&server, &token, &many.into_bytes()[..]);
    assert!(matches!(many.status, 413), "{}", many.status);
    assert_eq!(get(&server, "/healthz", "").status, 200);
    for _ in 0..101 {
        get(&server, "/api/v1/me", "sst_wrong");
    }
    assert_eq!(get(&server, "/api/v1/me", "sst_wrong").status, 429);
    assert_eq!(get(&server, "/api/v1/me", &token).status, 200);
}

#[test]
fn a_server_without_tokens_or_without_clickhouse_does_not_start() {
    let env = TestEnv::new(SERVER);
    let tokens = env.write("tokens", "");
    let tokens = tokens.to_str().unwrap();
    for (clickhouse, more, says) in [
        ("http://127.0.0.1:1", &[][..], "--token-file"),
        ("http://127.0.0.1:1", &["--token-file", tokens], "chmod 600"),
        ("tcp://x", &["--token-file", "t"], "tcp://x"),
    ] {
        let words = ["serve", "--clickhouse", clickhouse, "--listen", "127.0.0.1:0"];
        let ran = env.run(&[&words[..], more].concat());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
        // The tool becomes the server.
        let mut by_tool = env.command_of(tool());
        by_tool.args([&["team"], &words[..], more].concat());
        assert_eq!(run(by_tool, b""), ran);
    }
}

/// A snapshot of a recorded session as a machine prints it, at the level of texts.
fn snapshot_of(machine: &crate::rig::Machine, server: &Running) -> Value {
    machine.adopt("c-nested");
    let command = machine.forward_command(&server.url, &["--dry-run", "--content", "text"]);
    serde_json::from_str(run(command, b"").success().trim()).unwrap()
}

#[test]
fn writers_remove_their_own_sessions_only() {
    let Some(team) = Team::start() else { return };
    let server = team.serve();
    let machine = team.machine("one", "ana");
    let (bob, admin) = (team.token("acme", "bob", "writer"), team.token("acme", "root", "admin"));
    let mut snapshot = snapshot_of(&machine, &server);
    assert_eq!(post(&server, &machine.token(), format!("{snapshot}\n").as_bytes()).status, 200);
    let id = snapshot["row"]["id"].as_str().unwrap().to_owned();
    let mut removal = |by: u64| {
        snapshot["rev"] = (snapshot["rev"].as_u64().unwrap() + by).into();
        snapshot["deleted"] = true.into();
        snapshot["tree"] = Value::Null;
        snapshot["texts"].as_array_mut().unwrap().iter_mut().for_each(|text| text["deleted"] = true.into());
        format!("{snapshot}\n")
    };
    let tree = || get(&server, &format!("/api/v1/sessions/{id}/tree"), &bob).status;
    let refused = post(&server, &bob, removal(5).as_bytes());
    assert_eq!((refused.status, refused.json()["accepted"].as_u64()), (200, Some(0)));
    assert_eq!(refused.json()["refused"][0]["id"].as_str(), Some(&*id));
    assert_eq!(tree(), 200);
    let hits = get(&server, "/api/v1/search?q=the", &bob).json();
    assert!(!hits["hits"].as_array().unwrap().is_empty(), "passages are there too");
    let removed = post(&server, &admin, removal(1).as_bytes());
    assert_eq!((removed.status, removed.json()["accepted"].as_u64()), (200, Some(1)));
    assert_eq!(tree(), 404);
    // A session that does not exist has no owner: any user may remove it.
    assert_eq!(post(&server, &bob, removal(1).as_bytes()).status, 200);
}

#[test]
fn a_rev_that_is_too_late_is_refused_by_line_and_the_rest_is_stored() {
    let Some(team) = Team::start() else { return };
    let server = team.serve();
    let machine = team.machine("one", "ana");
    let snapshot = snapshot_of(&machine, &server);
    let named = |id: &str, rev: u64| {
        let mut one = snapshot.clone();
        (one["row"]["id"], one["tree"]["session"]["id"], one["rev"]) = (id.into(), id.into(), rev.into());
        one
    };
    let day = 24 * 60 * 60 * 1_000_000;
    let now = subscope_hub::clock::now_ms() as u64 * 1_000;
    let body = [
        named("pinned", u64::MAX),
        named("soon", now + day - 60_000_000),
        named("late", now + day + 60_000_000),
        named("now", now),
    ];
    let body: String = body.iter().map(|one| format!("{one}\n")).collect();
    let answer = post(&server, &machine.token(), body.as_bytes());
    assert_eq!((answer.status, answer.json()["accepted"].as_u64()), (200, Some(2)));
    let refused = &answer.json()["refused"];
    for (place, (id, line)) in [("pinned", 1), ("late", 3)].into_iter().enumerate() {
        assert_eq!((refused[place]["id"].as_str(), refused[place]["line"].as_u64()), (Some(id), Some(line)));
        assert!(refused[place]["why"].as_str().unwrap().contains("field rev"), "{refused}");
    }
    let tree = |id: &str| get(&server, &format!("/api/v1/sessions/{id}/tree"), &machine.token()).status;
    assert_eq!(["pinned", "soon", "late", "now"].map(tree), [404, 200, 404, 200]);
}

#[test]
fn sums_are_a_table_that_runs_nothing_in_a_spreadsheet() {
    let Some(team) = Team::start() else { return };
    let server = team.serve();
    let machine = team.machine("one", "ana");
    let token = machine.token();
    let mut snapshot = snapshot_of(&machine, &server);
    snapshot["project"] = "=cmd|'/C calc'!A0,\"x\"".into();
    assert_eq!(post(&server, &token, format!("{snapshot}\n").as_bytes()).status, 200);
    let answer = get(&server, "/api/v1/stats?by=project,user&as=csv", &token);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let head = answer.head.to_lowercase();
    assert!(head.contains("content-type: text/csv"), "{head}");
    assert!(
        head.contains("content-disposition: attachment; filename=\"subscope-project-user.csv\""),
        "{head}"
    );
    let lines: Vec<&str> = answer.body.lines().filter(|line| line.contains(',')).collect();
    assert!(lines[0].starts_with("project,user,sessions,agents,"), "{lines:?}");
    assert!(lines[1].starts_with("\"'=cmd|'/C calc'!A0,\"\"x\"\"\",ana,1,"), "{lines:?}");
    let summary = &snapshot["tree"]["summary"];
    let cost = summary["cost_micro_usd"].as_u64().unwrap();
    let cost = format!(",{}.{:06},{}", cost / 1_000_000, cost % 1_000_000, summary["cost_floor"]);
    assert!(lines[1].ends_with(&cost), "{lines:?}: {cost}");
    assert_eq!(lines.len(), 2);
    for wrong in ["as=csv", "by=project&as=xml", "by=project&as=csv&from=yesterday"] {
        assert_eq!(get(&server, &format!("/api/v1/stats?{wrong}"), &token).status, 400, "{wrong}");
    }
}

#[test]
fn hostile_values_of_every_parameter_find_nothing_and_break_nothing() {
    let Some(team) = Team::start() else { return };
    let server = team.serve();
    let machine = team.machine("one", "ana");
    let token = machine.token();
    let snapshot = snapshot_of(&machine, &server);
    assert_eq!(post(&server, &token, format!("{snapshot}\n").as_bytes()).status, 200);
    let before = get(&server, "/api/v1/sessions", &token).body;
    let hostile = [
        "\\' OR 1=1 --",
        "') UNION ALL SELECT body FROM trees --",
        "{tenant:String} OR 1=1 {p0:String",
        "\u{0}a\tb\nc\\d; DROP TABLE sessions",
        "99999999999999999999",
    ];
    let parameters = [
        (
            "/api/v1/sessions",
            &[
                "q", "limit", "after", "live", "recent", "project", "user", "team", "machine", "session",
                "status", "day",
            ][..],
        ),
        ("/api/v1/names", &["prefix", "limit"]),
        ("/api/v1/search", &["q", "session", "kind", "project", "user", "team", "since", "until", "limit"]),
        (
            "/api/v1/stats",
            &["by", "from", "to", "limit", "since", "until", "project", "user", "team", "machine", "harness"],
        ),
        ("/api/v1/people", &["from", "to", "project", "user", "team", "machine"]),
        ("/api/v1/working", &["project", "user", "team", "machine"]),
        ("/api/v1/status", &["session"]),
        ("/api/v1/agents/root", &["session"]),
        ("/api/v1/agents/nobody", &["session"]),
    ];
    let escape = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let secret = snapshot["tree"]["session"]["title"].as_str().unwrap();
    for text in hostile {
        let text = escape(text);
        for (path, names) in parameters {
            for name in names {
                let needed = match (path, *name) {
                    ("/api/v1/search", "q") | ("/api/v1/names", "prefix") => "",
                    ("/api/v1/search", _) => "&q=zzz",
                    ("/api/v1/names", _) => "&prefix=zzz",
                    _ => "",
                };
                let asked = format!("{path}?{name}={text}{needed}");
                let answer = get(&server, &asked, &token);
                assert!(
                    matches!(answer.status, 200 | 400 | 404),
                    "{asked}: {} {}",
                    answer.status,
                    answer.body
                );
                let is_number = matches!(*name, "limit" | "after" | "since" | "until" | "to" | "from");
                assert!(is_number || !answer.body.contains(secret), "{asked}: {}", answer.body);
            }
        }
        for path in ["tree", "timeline", "events", "feed", "export"] {
            let answer = get(&server, &format!("/api/v1/sessions/{text}/{path}"), &token);
            assert!(matches!(answer.status, 400 | 404), "{text}/{path}: {} {}", answer.status, answer.body);
        }
    }
    assert_eq!(get(&server, "/api/v1/sessions", &token).body, before, "all is still there");
}
