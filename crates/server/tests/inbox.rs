//! The inbox over HTTP: what waits, what is dismissed, what ended.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Running, start};
use serde_json::{Value, json};

const JSON: &str = "content-type: application/json\r\n";

/// Sends the hook of an agent that asks for a permission.
fn asks(server: &Running, session: &str, call: &str) {
    let input = json!({ "command": format!("rm -rf {call}") });
    let base = json!({ "session_id": session, "cwd": "/home/user/shop", "agent_id": "a1", "tool_name": "Bash", "tool_input": input });
    let send = |name: &str, more: Value| {
        let mut body = base.clone();
        body["hook_event_name"] = name.into();
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        assert_eq!(server.post_with("/hooks/claude", JSON, body.to_string()).status, 200);
    };
    send("SubagentStart", json!({ "agent_type": "Explore" }));
    send("PreToolUse", json!({ "tool_use_id": call }));
    send("PermissionRequest", json!({}));
}

fn inbox(server: &Running) -> Value {
    server.get("/api/v1/inbox").json()
}

fn change(server: &Running, path: &str, body: &Value) -> u16 {
    server.post_with(path, &format!("{JSON}x-subscope: 1\r\n"), body.to_string()).status
}

#[test]
fn entry_stays_until_it_is_dismissed_and_comes_back_with_a_new_fact() {
    let server = start();
    asks(&server, "s", "one");
    let first = inbox(&server);
    assert_eq!((&first["waits"], &first["trouble"]), (&json!(1), &json!(0)), "{first}");
    let entry = &first["entries"][0];
    assert_eq!(entry["session"]["need"]["words"], "Explore waits for your permission: Bash");
    // The same need, wherever one asks.
    let tree = server.get("/api/v1/sessions/s/tree").json();
    assert_eq!(tree["summary"]["need"], entry["session"]["need"]);
    let list = server.get("/api/v1/sessions").json();
    assert_eq!(list["sessions"][0]["need"], entry["session"]["need"]);
    let dismissal = json!({ "facts": entry["facts"] });
    assert_eq!(server.post_with("/api/v1/sessions/s/dismiss", JSON, dismissal.to_string()).status, 403);
    assert_eq!(change(&server, "/api/v1/sessions/nobody/dismiss", &dismissal), 404);
    assert_eq!(change(&server, "/api/v1/sessions/s/dismiss", &json!({})), 400);
    let many: Vec<String> = (0..1_000).map(|at| at.to_string()).collect();
    assert_eq!(change(&server, "/api/v1/sessions/s/dismiss", &json!({ "facts": many })), 400);
    assert_eq!(inbox(&server)["waits"], 1);
    assert_eq!(change(&server, "/api/v1/sessions/s/dismiss", &dismissal), 204);
    assert_eq!(inbox(&server)["entries"], json!([]));
    assert_eq!(server.get("/api/v1/looks").json()["dismissed"]["s"], entry["facts"]);
    asks(&server, "t", "other");
    assert_eq!(inbox(&server)["entries"][0]["session"]["id"], "t", "of another session");
}

#[test]
fn look_moves_on_and_needs_the_header() {
    let server = start();
    let before = server.get("/api/v1/looks").json()["seen_until_ms"].as_i64().unwrap();
    let until = json!({ "until_ms": i64::MAX });
    assert_eq!(server.post_with("/api/v1/seen", JSON, until.to_string()).status, 403);
    assert_eq!(change(&server, "/api/v1/seen", &json!({ "until_ms": "now" })), 400);
    assert_eq!(change(&server, "/api/v1/seen", &until), 204);
    let after = inbox(&server)["seen_until_ms"].as_i64().unwrap();
    assert!(after >= before && after < i64::MAX, "the future counts as now");
    assert_eq!(change(&server, "/api/v1/seen", &json!({ "until_ms": 5 })), 204);
    assert_eq!(inbox(&server)["seen_until_ms"], after, "never back");
}
