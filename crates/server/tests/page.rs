//! The web page, and routes that only it uses.

#![allow(clippy::unwrap_used)]

mod common;

use common::{HttpResponse, Running, call, event, start};
use serde_json::Value;

fn names(page: &HttpResponse) -> Vec<String> {
    let words = page.body.split('"').filter_map(|word| word.strip_prefix('.'));
    words.filter(|word| word.starts_with("/assets/")).map(str::to_owned).collect()
}

fn wait_for_shutdown(server: &Running, session: &str, call: &str) {
    let body = format!(
        r#"{{"session_id":"{session}","hook_event_name":"PostToolUse","tool_name":"Read","tool_use_id":"{call}","tool_input":{{"file_path":"/x"}},"tool_response":"ok"}}"#
    );
    assert_eq!(server.post("/hooks/claude", body).status, 200);
}

#[test]
fn page_is_served_at_the_address_of_every_view() {
    let server = start();
    let page = server.get("/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    // It names its files from the folder of the address: a proxy may put a path before it.
    let below = |up: &str| page.body.replace("\"./assets/", &format!("\"{up}assets/"));
    for (view, up) in [
        ("/search?q=x", "./"),
        ("/s/59d3", "../"),
        ("/s/59d3/a/root?view=feed&t=5", "../../../"),
        ("/s/a%2Fb", "../"),
        ("/stats?days=7", "./"),
        ("/compare?a=1&b=2", "./"),
        ("/iterations", "./"),
    ] {
        let answer = server.get(view);
        assert_eq!(answer.body, below(up), "{view}");
        assert_eq!(answer.header("etag") == page.header("etag"), up == "./", "{view}");
    }
    // A browser that asks for anything else gets the page too, which says so.
    let unknown = server.get_with("/nonsense/url", "accept: text/html,application/xhtml+xml;q=0.9\r\n");
    assert_eq!((unknown.status, unknown.body), (404, below("../")));
    let assets = names(&page);
    assert!(assets.len() >= 3, "{page:?}");
    for path in &assets {
        let asset = server.get(path);
        assert_eq!(asset.status, 200, "{path}");
        assert_eq!(asset.header("x-content-type-options"), Some("nosniff"));
        let is_forever = asset.header("cache-control").unwrap().contains("immutable");
        assert_eq!(is_forever, !path.ends_with(".svg"), "{path}");
    }
    for none in [
        "/assets/none.js",
        "/assets/..%2findex.html",
        "/assets/%2e%2e/index.html",
        "/s",
        "/index.html",
        "/demo",
    ] {
        assert_eq!(server.get(none).status, 404, "{none}");
    }
}

#[test]
fn page_may_run_its_own_script_and_nothing_else() {
    let server = start();
    let page = server.get("/");
    let policy = page.header("content-security-policy").unwrap();
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.split("; ").any(|found| found == rule), "{rule} in {policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    // The document needs no other sources.
    assert!(!page.body.contains("style=") && !page.body.contains("onload"), "{page:?}");
    for script in page.body.split("<script").skip(1) {
        assert!(script.contains("src=\"./assets/"), "{script}");
    }
}

#[test]
fn what_is_known_is_not_sent_again() {
    let server = start();
    let page = server.get("/");
    let tag = page.header("etag").unwrap();
    let again = server.get_with("/", &format!("if-none-match: {tag}\r\n"));
    assert_eq!((again.status, again.body.as_str(), again.header("etag")), (304, "", Some(tag)));
    assert_eq!(server.get_with("/", "if-none-match: \"other\"\r\n").status, 200);
}

#[test]
fn page_lets_itself_in_and_nobody_else() {
    let server = start();
    let address = server.address;
    let own = format!("origin: http://{address}\r\nsec-fetch-site: same-origin\r\n");
    assert_eq!(server.get_with("/api/v1/sessions", &own).status, 200);
    assert_eq!(server.get_with("/", "sec-fetch-site: none\r\n").status, 200);
    let port = address.port();
    for path in ["/", "/s/x", "/search", "/demo", "/assets/icon.svg", "/api/v1/sessions/x/export?as=csv"] {
        for foreign in ["sec-fetch-site: cross-site\r\n", "sec-fetch-site: same-site\r\n", "origin: null\r\n"]
        {
            assert_eq!(server.get_with(path, foreign).status, 403, "{path} {foreign}");
        }
        let rebound =
            format!("GET {path} HTTP/1.1\r\nhost: evil.example:{port}\r\nconnection: close\r\n\r\n");
        assert_eq!(server.raw(rebound).status, 403, "{path}");
    }
}

#[test]
fn timeline_tells_what_changed_since() {
    let server = start();
    server.post("/subagent-events", event("r1", "subagent_start", r#","sessionId":"s""#));
    server.post("/subagent-events", event("r1", "subagent_end", r#","sessionId":"s""#));
    let whole = server.get("/api/v1/sessions/s/timeline").json();
    assert_eq!(whole["schema"], "subscope.timeline/1");
    let lanes = |answer: &Value| -> Vec<String> {
        let lanes = answer["lanes"].as_array().unwrap().iter();
        lanes.map(|lane| lane["agent_id"].as_str().unwrap().to_owned()).collect()
    };
    assert!(lanes(&whole).contains(&"r1".to_owned()), "{whole}");
    let rev = whole["rev"].as_u64().unwrap();
    server.post("/subagent-events", event("r2", "subagent_start", r#","sessionId":"s""#));
    let more = server.get(&format!("/api/v1/sessions/s/timeline?since={rev}")).json();
    let told = lanes(&more);
    assert!(told.contains(&"r2".to_owned()) && !told.contains(&"r1".to_owned()), "{more}");
    assert!(more["rev"].as_u64().unwrap() > rev);
    assert_eq!(server.get("/api/v1/sessions/none/timeline").status, 404);
}

#[test]
fn sessions_and_agents_are_compared() {
    let server = start();
    for (session, agents) in [("s", ["r1", "r2"]), ("t", ["u1", "u2"])] {
        for agent in agents {
            let extra = format!(r#","sessionId":"{session}""#);
            server.post("/subagent-events", event(agent, "subagent_start", &extra));
        }
    }
    let ids = |diff: &Value| -> Vec<String> {
        let id = |side: &Value| side["id"].as_str().unwrap_or("-").to_owned();
        let pairs = diff["agents"].as_array().unwrap().iter();
        pairs.map(|pair| format!("{} {}", id(&pair["a"]), id(&pair["b"]))).collect()
    };
    let whole = server.get("/api/v1/compare?a=s&b=t").json();
    assert_eq!(whole["schema"], "subscope.diff/1");
    assert_eq!(ids(&whole), ["root root", "r1 u1", "r2 u2"]);
    assert!(whole["agents"][1]["a"]["started_at_ms"].is_i64(), "{whole}");
    let one = server.get("/api/v1/compare?a=s&b=s&agent_a=r1&agent_b=r2").json();
    assert_eq!((ids(&one), &one["a"]["agent_id"]), (vec!["r1 r2".to_owned()], &Value::from("r1")));
    for none in ["a=s&b=none", "a=s&b=t&agent_b=r1"] {
        assert_eq!(server.get(&format!("/api/v1/compare?{none}")).status, 404, "{none}");
    }
    assert_eq!(server.get("/api/v1/compare?a=s").status, 400);
}

#[test]
fn iterations_of_known_projects_are_listed() {
    let server = start();
    let project = server.folder.path().join("shop");
    let record = project.join(".subscope/iterations/s_t_fix");
    std::fs::create_dir_all(&record).unwrap();
    let meta = r#"{"schema":"subscope.iteration/1","run":"r","iteration":1,"of":null,"name":"fix","command":["sh"],
        "cwd":"/","session_id":"s","status":"completed","exit_code":0,"started_at_ms":1000,"ended_at_ms":3000,"pid":1}"#;
    std::fs::write(record.join("meta.json"), meta).unwrap();
    let listed = || server.get("/api/v1/iterations").json();
    assert_eq!(listed()["iterations"], Value::from(Vec::<Value>::new()), "no session names the folder yet");
    let hook = format!(
        r#"{{"session_id":"s","hook_event_name":"UserPromptSubmit","prompt":"x","cwd":"{}"}}"#,
        project.display()
    );
    assert_eq!(server.post("/hooks/claude", hook).status, 200);
    let rows = listed();
    let row = &rows["iterations"][0];
    assert_eq!(
        (&row["name"], &row["duration_ms"], &row["agents"]),
        (&"fix".into(), &2000.into(), &Value::Null)
    );
}

#[test]
fn statistics_are_of_the_time_and_project_asked_for() {
    let server = start();
    server.post("/hooks/claude", call("s", "t1"));
    let calls =
        |query: &str| server.get(&format!("/api/v1/stats?{query}")).json()["total"]["tool_calls"].clone();
    assert_eq!(calls(""), 1);
    assert_eq!(calls("harness=claude-code"), 1);
    assert_eq!(calls("harness=other"), 0);
    assert_eq!(calls("until=0"), 0);
    assert_eq!(calls("project=/nowhere"), 0);
    assert_eq!(server.get("/api/v1/stats?since=yesterday").status, 400);
}

#[test]
fn feed_is_paged_from_its_end_and_filtered() {
    let server = start();
    for number in 0..5 {
        server.post("/hooks/claude", call("s", &format!("t{number}")));
        wait_for_shutdown(&server, "s", &format!("t{number}"));
    }
    let mut seen = Vec::new();
    let mut before = String::new();
    loop {
        let page = server.get(&format!("/api/v1/sessions/s/feed?limit=3{before}")).json();
        let events = page["events"].as_array().unwrap();
        assert!(events.len() <= 3);
        seen.splice(0..0, events.iter().map(|event| event["id"].as_str().unwrap().to_owned()));
        let Some(at) = page["before"].as_u64() else { break };
        before = format!("&before={at}");
    }
    let all = server.get("/api/v1/sessions/s/feed").json();
    let ids: Vec<&str> =
        all["events"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(seen, ids);
    assert!(ids.len() >= 10, "{all}");
    let ends = server.get("/api/v1/sessions/s/feed?kind=tool.post").json();
    let kinds = |page: &Value| -> Vec<Value> {
        page["events"].as_array().unwrap().iter().map(|event| event["kind"].clone()).collect()
    };
    let wanted: Vec<Value> = kinds(&all).into_iter().filter(|kind| kind == "tool.post").collect();
    assert_eq!(kinds(&ends), wanted);
    let nobody = server.get("/api/v1/sessions/s/feed?agent=none").json();
    assert_eq!(nobody["events"].as_array().unwrap().len(), 0);
    let root = server.get("/api/v1/sessions/s/feed?agent=root").json();
    assert!(root["events"].as_array().unwrap().iter().all(|event| event["actor_id"] == "agent:root"));
    assert_eq!(server.get("/api/v1/sessions/none/feed").status, 404);
    let of_call = |query: &str| {
        let page = server.get(&format!("/api/v1/sessions/s/feed?{query}")).json();
        assert_eq!(page["before"], Value::Null);
        let events = page["events"].as_array().unwrap().clone();
        events
            .into_iter()
            .map(|event| (event["data"]["tool_use_id"].clone(), event["kind"].clone()))
            .collect()
    };
    let [begin, end] = ["tool.pre", "tool.post"].map(|kind| (Value::from("t3"), Value::from(kind)));
    let both: Vec<(Value, Value)> = of_call("call=t3");
    assert_eq!(both, [begin.clone(), end]);
    assert_eq!(of_call("call=t3&kind=tool.pre&agent=root&limit=1"), [begin]);
    assert!(of_call("call=t").is_empty());
}

#[test]
fn exports_are_files() {
    let server = start();
    server.post("/hooks/claude", call("s-1/../x", "t"));
    let of = |form: &str| server.get(&format!("/api/v1/sessions/s-1%2F..%2Fx/export?as={form}"));
    let table = of("csv");
    assert_eq!(table.header("content-disposition"), Some("attachment; filename=\"subscope-s1x.csv\""));
    assert!(table.body.starts_with("session,agent,") && table.body.contains(",root,"), "{table:?}");
    assert!(of("trace").json()["stats"].is_object());
    let page = of("html");
    assert!(
        page.body.starts_with("<!doctype html>") && page.body.contains("subscope.tree/1"),
        "{}",
        page.head
    );
    // Exported pages must not run in the origin of this server.
    assert_eq!(page.header("content-type"), Some("application/octet-stream"));
    let timeline = of("perfetto");
    assert_eq!(timeline.header("content-disposition"), Some("attachment; filename=\"subscope-s1x.pftrace\""));
    assert!(timeline.body.contains("Read"), "{timeline:?}");
    // No reader: spans are not made of rows.
    assert_eq!(of("otlp").status, 404);
    assert_eq!(of("exe").status, 400);
    assert_eq!(server.get("/api/v1/sessions/none/export?as=csv").status, 404);
}

#[test]
fn recent_is_what_was_heard_of_whatever_its_own_time() {
    let server = start();
    let old = r#"{"type":"user","uuid":"u1","sessionId":"old","timestamp":"2020-01-01T00:00:00Z","message":{"role":"user","content":"hello"},"version":"2.1.330","cwd":"/x"}"#;
    let lines = "content-type: application/x-ndjson\r\n";
    assert_eq!(server.post_with("/api/v1/ingest/claude.transcript", lines, old).status, 200);
    let recent = server.get("/api/v1/sessions?recent=true").json();
    let rows = recent["sessions"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{recent}");
    assert!(rows[0]["kept_at_ms"].as_i64().unwrap() > rows[0]["last_event_at_ms"].as_i64().unwrap());
}

#[test]
fn moments_of_before_need_somebody_who_reads_again() {
    let server = start();
    server.post("/hooks/claude", call("s", "t"));
    assert_eq!(server.get("/api/v1/sessions/s/tree").status, 200);
    assert_eq!(server.get("/api/v1/sessions/s/tree?at=5").status, 404);
}
