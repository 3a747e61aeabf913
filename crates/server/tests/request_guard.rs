//! Access control: each test tries a request that must fail, and one that must succeed.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    io::{Read, Write},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::Command,
    time::Duration,
};

use common::{
    IDENTITY, Running, call, event, exchange, start, start_agent, start_at, start_patient, start_with,
};
use subscope_server::{ListenError, PublicNames, Server, ServerOptions, Timeouts, Token};
use subscope_store::MemoryStore;

/// Asserts that nothing was ingested.
fn is_untouched(server: &Running) {
    let sessions = server.get("/api/v1/sessions").json();
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 0, "{sessions}");
}

/// Routes that change something at a person's wish: they need a header that no page of another site can send.
const PROTECTED: [&str; 3] = ["/api/v1/agents/a1/stop", "/api/v1/seen", "/api/v1/sessions/s/dismiss"];

#[test]
fn rebound_name_reads_and_writes_nothing() {
    let server = start();
    let port = server.address.port();
    for host in [format!("evil.example:{port}"), "127.0.0.1".to_owned(), format!("[::1]:{port}")] {
        for path in
            ["/api/v1/sessions", "/healthz", "/metrics", "/openapi.json", "/api/v1/live", "/ws", "/none"]
        {
            let answer =
                server.raw(format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"));
            assert_eq!(answer.status, 403, "{host} {path} {answer:?}");
        }
        let body = call("s", "t");
        let answer = server.raw(format!(
            "POST /hooks/claude HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ));
        assert_eq!(answer.status, 403, "{host} {answer:?}");
    }
    assert_eq!(server.raw("GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n").status, 400);
    let address = server.address;
    let absolute =
        format!("GET http://evil.example/healthz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    assert_eq!(server.raw(absolute).status, 403);
    let twice = format!(
        "GET /healthz HTTP/1.1\r\nhost: {address}\r\nhost: evil.example\r\nconnection: close\r\n\r\n"
    );
    assert_eq!(server.raw(twice).status, 400);
    is_untouched(&server);
    let local = format!("GET /healthz HTTP/1.1\r\nhost: localhost:{port}\r\nconnection: close\r\n\r\n");
    assert_eq!(server.raw(local).status, 200);
}

#[test]
fn page_of_another_origin_posts_and_listens_to_nothing() {
    let server = start();
    let json = "content-type: application/json\r\n";
    for foreign in [
        "origin: http://evil.example\r\n",
        "origin: null\r\n",
        "origin: http://localhost:3000\r\n",
        "sec-fetch-site: cross-site\r\n",
        "sec-fetch-site: same-site\r\n",
    ] {
        for path in ["/hooks/claude", "/subagent-events", "/api/v1/ingest/claude.hook"] {
            let answer = server.post_with(path, &format!("{json}{foreign}"), call("s", "t"));
            assert_eq!(answer.status, 403, "{foreign} {answer:?}");
        }
        let order = format!("{json}{foreign}x-subscope: 1\r\n");
        for path in PROTECTED {
            assert_eq!(server.post_with(path, &order, "{}").status, 403, "{foreign} {path}");
        }
        let upgrade = format!(
            "{foreign}upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        );
        for path in ["/ws", "/api/v1/live", "/api/v1/sessions"] {
            assert_eq!(server.get_with(path, &upgrade).status, 403, "{foreign} {path}");
        }
        let address = server.address;
        let preflight = format!(
            "OPTIONS /hooks/claude HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{foreign}access-control-request-method: POST\r\n\r\n"
        );
        let answer = server.raw(preflight);
        assert_eq!(answer.status, 403);
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    is_untouched(&server);
    let own = format!("{json}origin: http://{}\r\nsec-fetch-site: same-origin\r\n", server.address);
    let answer = server.post_with("/hooks/claude", &own, call("s", "t"));
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("access-control-allow-origin"), None);
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
}

#[test]
fn bodies_that_a_form_can_send_are_refused() {
    let server = start();
    for given in [
        "",
        "content-type: text/plain\r\n",
        "content-type: text/plain;application/json\r\n",
        "content-type: application/x-www-form-urlencoded\r\n",
        "content-type: multipart/form-data; boundary=x\r\n",
        "content-type: application/json\r\ncontent-encoding: gzip\r\n",
    ] {
        for (path, body) in [
            ("/hooks/claude", call("s", "t")),
            ("/subagent-events", event("r", "subagent_start", "")),
            ("/api/v1/ingest/claude.hook", call("s", "t")),
        ] {
            assert_eq!(server.post_with(path, given, body).status, 415, "{given} {path}");
        }
        let order = format!("x-subscope: 1\r\n{given}");
        for path in PROTECTED {
            assert_eq!(server.post_with(path, &order, "{}").status, 415, "{given} {path}");
        }
    }
    let lines = "content-type: application/x-ndjson\r\n";
    assert_eq!(server.post_with("/hooks/claude", lines, call("s", "t")).status, 415);
    is_untouched(&server);
    assert_eq!(server.post_with("/api/v1/ingest/claude.hook", lines, call("s", "t")).status, 200);
}

#[test]
fn order_to_stop_needs_the_header_that_no_page_can_send_and_a_way_of_its_own() {
    let server = start();
    start_agent(&server, "s", "a1");
    let json = "content-type: application/json\r\n";
    for header in ["", "x-subscope: 0\r\n", "x-subscope:\r\n", "x-subscope-delivery: 1\r\n"] {
        let answer = server.post_with("/api/v1/agents/a1/stop", &format!("{json}{header}"), "{}");
        assert_eq!(answer.status, 403, "{header} {answer:?}");
    }
    assert_eq!(server.get_with("/api/v1/agents/a1/stop", "x-subscope: 1\r\n").status, 405);
    // Ingesting the hub's own stop order format does not order a stop.
    let order = r#"{"schema":"subscope.stop/1","step":"asked","at_ms":9000000000000,"session_id":"s","agent_id":"a1"}"#;
    let lines = "content-type: application/x-ndjson\r\n";
    assert_eq!(server.post_with("/api/v1/ingest/stop-orders", lines, order).status, 404);
    for path in ["/api/v1/ingest/feed", "/api/v1/ingest/claude.hook", "/api/v1/ingest/subagent-events"] {
        server.post_with(path, lines, order);
    }
    assert_eq!(
        server.get("/api/v1/agents/a1?session=s").json()["agent"]["flags"],
        serde_json::json!(["orphan"])
    );
    let answer = server.post_with("/api/v1/agents/a1/stop", &format!("{json}x-subscope: 1\r\n"), "{}");
    assert_eq!(answer.status, 202, "{answer:?}");
}

#[test]
fn bodies_over_the_cap_are_refused_announced_or_not() {
    let server = start();
    let address = server.address;
    let mib = |count: usize| vec![b' '; count << 20];
    for (path, cap) in [("/subagent-events", 4), ("/hooks/claude", 16), ("/api/v1/ingest/claude.stream", 256)]
    {
        let announced = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            (cap << 20) + 1
        );
        assert_eq!(server.raw(announced).status, 413, "{path}");
    }
    let mut chunked = format!(
        "POST /subagent-events HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for _ in 0..5 {
        chunked.extend_from_slice(format!("{:x}\r\n", 1 << 20).as_bytes());
        chunked.extend_from_slice(&mib(1));
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    // The response can be lost if the connection is closed while the body is still being sent.
    assert!(matches!(server.raw(chunked).status, 413 | 0));
    let huge_head = format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\nx: {}\r\n\r\n", "x".repeat(1 << 20));
    assert!(matches!(server.raw(huge_head).status, 431 | 0));
    is_untouched(&server);
    let mut body = event("r", "subagent_start", "").into_bytes();
    body.resize(4 << 20, b' ');
    assert_eq!(server.post("/subagent-events", body).status, 200);
}

#[test]
fn folder_and_socket_are_their_owners_alone() {
    let server = start();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&server.socket), 0o600);
    assert_eq!(mode(server.socket.parent().unwrap()), 0o700);
    let request = "GET /healthz HTTP/1.1\r\nhost: whatever\r\nconnection: close\r\n\r\n";
    assert_eq!(exchange(server.connect_socket(), request.as_bytes()).status, 200);
    let socket = server.socket.clone();
    drop(server);
    assert!(!socket.exists(), "it is removed at the end");
}

fn bind(listen: &str, socket: &std::path::Path) -> Result<(), ListenError> {
    bind_as(PublicNames::default(), listen, socket)
}

fn bind_as(public: PublicNames, listen: &str, socket: &std::path::Path) -> Result<(), ListenError> {
    let server = start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let options = ServerOptions {
        listen: listen.parse().unwrap(),
        socket: socket.to_owned(),
        heartbeat: Duration::from_secs(10),
        timeouts: Timeouts::default(),
        token: None,
        public,
        identity: IDENTITY,
        session_reader: None,
        indexer: None,
        setup: None,
        sending: None,
        jumper: None,
        takes_answers: false,
        demo: None,
        forwarding: None,
        remotes: None,
    };
    runtime.block_on(Server::bind(options, server.handle.clone())).map(drop)
}

#[test]
fn public_name_needs_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let names = PublicNames::new(None, &["box.example".to_owned()], &[]).unwrap();
    let refused = bind_as(names, "127.0.0.1:0", &folder.path().join("a.sock"));
    assert!(matches!(refused, Err(ListenError::PublicNeedsToken)), "{refused:?}");
    let frames = PublicNames::new(None, &[], &["vscode-webview:".to_owned()]).unwrap();
    bind_as(frames, "127.0.0.1:0", &folder.path().join("b.sock")).unwrap();
}

#[test]
fn other_addresses_and_taken_sockets_are_refused() {
    let server = start();
    let folder = tempfile::tempdir().unwrap();
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let refused = bind(listen, &folder.path().join("a.sock"));
        assert!(matches!(refused, Err(ListenError::NeedsToken(_))), "{listen} {refused:?}");
    }
    assert!(matches!(bind("127.0.0.1:0", &server.socket), Err(ListenError::Taken { .. })));
    let file = folder.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    assert!(matches!(bind("127.0.0.1:0", &file), Err(ListenError::Socket { .. })));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    // The stale socket of a killed hub is replaced.
    let stale = folder.path().join("stale.sock");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    assert!(stale.exists());
    bind("127.0.0.1:0", &stale).unwrap();
}

/// Runs as another user, if this one may change its user.
#[cfg(target_os = "linux")]
#[test]
fn programs_of_other_users_are_turned_away() {
    let server = start();
    // Even if file permissions allow it.
    for path in [server.folder.path(), server.socket.parent().unwrap(), &server.socket] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let get = |url: &str, more: &[&str], uid: Option<u32>| {
        let mut curl = Command::new("curl");
        curl.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20"]).args(more).arg(url);
        if let Some(uid) = uid {
            curl.uid(uid).gid(uid);
        }
        curl.output().ok().map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let url = format!("http://{}/healthz", server.address);
    let socket = server.socket.to_string_lossy().into_owned();
    let by_socket = ["--unix-socket", socket.as_str()];
    let Some(own) = get(&url, &[], None) else { return };
    assert_eq!((own.as_str(), get(&url, &by_socket, None).as_deref()), ("200", Some("200")));
    // Only root can change its user; otherwise only the table parser is tested.
    let Some(other) = get(&url, &[], Some(65_534)) else { return };
    assert_eq!((other.as_str(), get(&url, &by_socket, Some(65_534)).as_deref()), ("403", Some("403")));
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("subscope_connections_refused_total 2"), "{metrics}");
}

/// Starts a server that requires a token; returns both.
fn start_for_token(listen: &str) -> (Running, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let token = Token::of_file(&path).unwrap();
    let word = std::fs::read_to_string(&path).unwrap().trim().to_owned();
    let timeouts = Timeouts::default();
    let server =
        start_at(listen.parse().unwrap(), Some(token), MemoryStore::new(), timeouts, Duration::from_secs(10));
    (server, word)
}

#[test]
fn where_a_token_is_needed_nothing_else_lets_in() {
    // On the loopback a token replaces the user check of systems that have none.
    for listen in ["127.0.0.1:0", "0.0.0.0:0"] {
        let (server, token) = start_for_token(listen);
        let port = server.address.port();
        let host = format!("127.0.0.1:{port}");
        let send = |request: String| {
            let stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
            exchange(stream, request.as_bytes())
        };
        let get = |path: &str, headers: &str| {
            send(format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n"))
        };
        let post = |headers: &str| {
            let body = call("s", "t");
            let length = body.len();
            send(format!(
                "POST /hooks/claude HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
            ))
        };
        let wrong = "0".repeat(token.len());
        for headers in [
            String::new(),
            format!("authorization: Bearer {wrong}\r\n"),
            format!("authorization: Basic {token}\r\n"),
            format!("authorization: Bearer {token}x\r\n"),
            format!("authorization: Bearer\r\nx-token: {token}\r\n"),
            format!("cookie: token={token}\r\n"),
        ] {
            for path in
                ["/api/v1/sessions", "/healthz", "/metrics", "/openapi.json", "/api/v1/live", "/ws", "/x"]
            {
                let answer = get(&format!("{path}?token={token}"), &headers);
                assert_eq!(
                    (answer.status, answer.header("www-authenticate")),
                    (401, Some("Bearer")),
                    "{path}"
                );
                assert!(!format!("{answer:?}").contains(&token));
            }
            assert_eq!(post(&headers).status, 401, "{headers}");
        }
        let own = format!("authorization: Bearer {token}\r\n");
        let sessions = get("/api/v1/sessions", &own);
        assert_eq!((get("/api/v1/setup", "").status, get("/api/v1/setup", &own).status), (401, 404));
        assert_eq!((get("/api/v1/sending", "").status, get("/api/v1/sending", &own).status), (401, 404));
        assert_eq!((sessions.status, sessions.json()["sessions"].as_array().unwrap().len()), (200, 0));
        // Foreign pages are refused even with the token.
        for foreign in
            ["origin: http://evil.example\r\n", "origin: null\r\n", "sec-fetch-site: cross-site\r\n"]
        {
            assert_eq!(post(&format!("{own}{foreign}")).status, 403, "{foreign}");
        }
        assert_eq!(post(&format!("{own}origin: http://{host}\r\n")).status, 200);
        // A browser gets the page, which contains no data, and a cookie for a single-use code.
        for page in ["/", "/search?q=x", "/s/some/a/root", "/stats", "/compare", "/iterations"] {
            assert_eq!(get(page, "").status, 200, "{page}");
        }
        let json = |path: &str, headers: &str, body: &str| {
            let length = body.len();
            send(format!(
                "POST {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
            ))
        };
        assert_eq!(json("/api/v1/codes", "x-subscope: 1\r\n", "{}").status, 401);
        let page = json("/api/v1/codes", &format!("x-subscope: 1\r\n{own}"), "{}").json();
        let code = page["url"].as_str().unwrap().split_once("/#code=").unwrap().1.to_owned();
        let sign_in =
            |code: &str, headers: &str| json("/api/v1/sign-in", headers, &format!(r#"{{"code":"{code}"}}"#));
        assert_eq!(sign_in(&token, "").status, 403);
        assert_eq!(sign_in(&code, "origin: http://evil.example\r\n").status, 403);
        let let_in = sign_in(&code, "");
        assert_eq!(let_in.status, 204);
        let cookie = let_in.header("set-cookie").unwrap();
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
        assert_eq!(sign_in(&code, "").status, 403);
        let shown = format!("cookie: {}\r\n", cookie.split_once(';').unwrap().0);
        assert_eq!(get("/api/v1/sessions", &shown).status, 200);
        assert_eq!(post(&format!("{shown}origin: http://evil.example\r\n")).status, 403);
        // The Unix socket identifies the user on all systems.
        let request = "GET /healthz HTTP/1.1\r\nhost: hub\r\nconnection: close\r\n\r\n";
        assert_eq!(exchange(server.connect_socket(), request.as_bytes()).status, 200);
    }
}

#[test]
fn paths_in_payloads_are_names_and_never_opened() {
    let server = start();
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let secret = folder.path().join("secret.jsonl");
    std::fs::write(&secret, call("stolen", "t").replace("PreToolUse", "PostToolUse")).unwrap();
    let link = folder.path().join("link.jsonl");
    std::os::unix::fs::symlink(&secret, &link).unwrap();
    // Opening the pipe would block this test for ever.
    for path in [pipe.as_path(), &secret, &link, "/dev/zero".as_ref(), "/etc/passwd".as_ref(), folder.path()]
    {
        let path = path.display();
        let body = format!(
            r#"{{"session_id":"s","transcript_path":"{path}","agent_transcript_path":"{path}","cwd":"{path}","hook_event_name":"SubagentStop","agent_id":"a1","prompt_id":"p"}}"#
        );
        assert_eq!(server.post("/hooks/claude", body).status, 200, "{path}");
    }
    let sessions = server.get("/api/v1/sessions").json();
    let ids: Vec<_> = sessions["sessions"].as_array().unwrap().iter().map(|row| row["id"].clone()).collect();
    assert_eq!(ids, ["s"]);
}

#[test]
fn memory_for_bodies_is_one_and_bounded() {
    let server = start_patient();
    let address = server.address;
    // Incomplete bodies of 200 MiB: two fit into the memory budget, a third does not.
    let head = format!(
        "POST /api/v1/ingest/claude.hook HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/x-ndjson\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        200 << 20
    );
    let piece = vec![b' '; 1 << 20];
    let mut held = Vec::new();
    let mut refused = None;
    for _ in 0..3 {
        let mut stream = server.connect();
        stream.write_all(head.as_bytes()).unwrap();
        // All but the last bytes.
        if (0..199).try_for_each(|_| stream.write_all(&piece)).is_err() {
            refused = Some(stream);
            break;
        }
        held.push(stream);
    }
    // It may have been refused before its last bytes were sent.
    let mut refused = refused.or_else(|| held.pop()).unwrap();
    let mut answer = Vec::new();
    let _ = refused.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert_eq!(held.len(), 2);
    let resident = |field: &str| -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default().to_owned();
        line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    assert!(resident("VmHWM:") < 900 << 10, "{} KiB", resident("VmHWM:"));
    // A sender of OpenTelemetry receives Retry-After, and requests that fit are accepted.
    let mut more = server.connect();
    more.write_all(head.replace(&(200 << 20).to_string(), &(100 << 20).to_string()).as_bytes()).unwrap();
    (0..99).for_each(|_| more.write_all(&piece).unwrap());
    let mut tries = 0;
    let busy = loop {
        let answer = server.post_with("/v1/logs", "content-type: application/json\r\n", vec![b' '; 40 << 20]);
        tries += 1;
        if answer.status != 400 || tries > 300 {
            break answer;
        }
    };
    assert_eq!((busy.status, busy.header("retry-after")), (429, Some("1")), "{busy:?}");
    assert_eq!(server.post_with("/v1/logs", "content-type: application/json\r\n", "{}").status, 200);
    drop(more);
    // The budget is released, and requests succeed again.
    drop(held);
    let mut tries = 0;
    while server.post("/api/v1/ingest/claude.hook", vec![b' '; 200 << 20]).status != 200 {
        tries += 1;
        assert!(tries < 300);
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn peers_that_send_or_read_too_slowly_are_given_up() {
    let span = Duration::from_millis;
    let timeouts = Timeouts { head: span(300), body_idle: span(300), body: span(900), write: span(500) };
    let server = start_with(MemoryStore::new(), timeouts, Duration::from_secs(10));
    let address = server.address;
    // A head that never ends.
    let mut slow = server.connect();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost: ").unwrap();
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).unwrap();
    assert!(!String::from_utf8_lossy(&rest).contains("200"), "{rest:?}");
    let head = format!(
        "POST /hooks/claude HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: 100\r\nconnection: close\r\n\r\n"
    );
    // No request at all, and no second request on a kept-alive connection.
    let mut silent = server.connect();
    assert_eq!(silent.read_to_end(&mut Vec::new()).unwrap(), 0);
    let mut idle = server.connect();
    write!(idle, "GET /healthz HTTP/1.1\r\nhost: {address}\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    idle.read_to_end(&mut answer).unwrap();
    assert_eq!(String::from_utf8_lossy(&answer).matches("HTTP/1.1").count(), 1, "{answer:?}");
    // A body that stops, and one that drips.
    assert_eq!(exchange(server.connect(), head.as_bytes()).status, 408);
    let mut dripping = server.connect();
    dripping.write_all(head.as_bytes()).unwrap();
    for _ in 0..8 {
        std::thread::sleep(span(150));
        let _ = dripping.write_all(b" ");
    }
    assert!(matches!(exchange(dripping, b"").status, 408 | 0));
    // A live feed whose client does not read is disconnected, without blocking others.
    let mut stuck = server.connect();
    write!(stuck, "GET /api/v1/live HTTP/1.1\r\nhost: {address}\r\n\r\n").unwrap();
    let readers = || {
        let metrics = server.get("/metrics").body;
        let line = metrics.lines().find(|line| line.starts_with("subscope_readers ")).unwrap().to_owned();
        line.rsplit(' ').next().unwrap().parse::<u32>().unwrap()
    };
    let wait_for = |count: u32, each: &dyn Fn(usize)| {
        for number in 0.. {
            if readers() == count {
                return;
            }
            assert!(number < 5_000);
            each(number);
        }
    };
    wait_for(1, &|_| std::thread::sleep(span(5)));
    let long = "x".repeat(200_000);
    wait_for(0, &|number| {
        let body = format!(
            r#"{{"session_id":"s","hook_event_name":"UserPromptSubmit","prompt_id":"p{number}","prompt":"{long}{number}"}}"#
        );
        assert_eq!(server.post("/hooks/claude", body).status, 200);
        std::thread::sleep(span(20));
    });
}

#[test]
fn ids_are_names_and_never_places() {
    let server = start();
    let before: Vec<_> = listing(server.folder.path());
    for id in ["..%2f..%2f..%2fetc%2fpasswd", "%2e%2e", "..", "%00", "a%2fb", "%ff"] {
        for path in [
            format!("/api/v1/sessions/{id}/tree"),
            format!("/api/v1/sessions/{id}/events"),
            format!("/api/v1/agents/{id}"),
        ] {
            let status = server.get(&path).status;
            assert!(matches!(status, 400 | 404), "{path} {status}");
        }
        let order = "content-type: application/json\r\nx-subscope: 1\r\n";
        let status = server.post_with(&format!("/api/v1/agents/{id}/stop"), order, "{}").status;
        assert!(matches!(status, 400 | 404), "{id} {status}");
    }
    let lines = "content-type: application/x-ndjson\r\n";
    let target = "/api/v1/ingest/claude.hook?source=..%2f..%2f..%2ftmp%2fevil";
    let answer = server.post_with(target, lines, call("../../evil", "t"));
    assert_eq!(answer.status, 200);
    assert_eq!(server.get("/api/v1/sessions/..%2f..%2fevil/tree").json()["session"]["id"], "../../evil");
    assert_eq!(server.post_with("/api/v1/ingest/..%2fx", lines, call("s", "t")).status, 404);
    assert_eq!(listing(server.folder.path()), before);
}

fn listing(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = entries.collect();
    let below: Vec<_> = all.iter().filter(|path| path.is_dir()).flat_map(|path| listing(path)).collect();
    all.extend(below);
    all.sort();
    all
}

#[test]
fn refusals_repeat_nothing_that_was_sent() {
    let server = start();
    let secret = "sk-ant-api03-very-secret";
    let event = event("r", "tool_call", "").replace("\"type\"", &format!("\"{secret}\""));
    for (path, body) in [
        ("/subagent-events", format!("{{{secret}")),
        ("/subagent-events", event),
        ("/hooks/claude", secret.to_owned()),
        (&*format!("/{secret}"), "{}".to_owned()),
        (&*format!("/api/v1/ingest/{secret}"), "{}".to_owned()),
    ] {
        let answer = server.post(path, body);
        assert!((400..500).contains(&answer.status), "{answer:?}");
        assert!(!format!("{answer:?}").contains(secret), "{answer:?}");
    }
    let order = "content-type: application/json\r\nx-subscope: 1\r\n";
    for (path, body) in [
        (format!("/api/v1/agents/{secret}/stop?session={secret}"), "{}"),
        ("/api/v1/agents/a/stop".to_owned(), secret),
    ] {
        let answer = server.post_with(&path, order, body);
        assert!((400..500).contains(&answer.status), "{answer:?}");
        assert!(!format!("{answer:?}").contains(secret), "{answer:?}");
    }
}

#[test]
fn only_a_program_that_means_it_ends_the_hub() {
    let server = start();
    let json = "content-type: application/json\r\n";
    let means = "x-subscope: 1\r\n";
    for (headers, status) in [
        (json.to_owned(), 403),
        (format!("{json}x-subscope: yes\r\n"), 403),
        (format!("content-type: text/plain\r\n{means}"), 415),
        (means.to_owned(), 415),
        (format!("{json}{means}origin: http://evil.example\r\n"), 403),
        (format!("{json}{means}sec-fetch-site: cross-site\r\n"), 403),
    ] {
        assert_eq!(server.post_with("/api/v1/drain", &headers, "{}").status, status, "{headers}");
    }
    assert_eq!(server.get("/api/v1/drain").status, 405);
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.post_with("/api/v1/drain", &format!("{json}{means}"), "{}").status, 200);
    let began = subscope_hub::clock::tick();
    while server.socket.exists() {
        assert!(began.elapsed() < common::LIMIT, "it does not leave");
        std::thread::sleep(Duration::from_millis(5));
    }
}
