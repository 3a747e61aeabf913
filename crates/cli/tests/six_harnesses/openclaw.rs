//! A home of OpenClaw: its sessions by what was asked, its agents, what failed, and what it set aside. The lines have the form of
//! those that people published (2026-03 to 2026-05).

use serde_json::{Value, json};
use subscope_testkit::env::TestEnv;

use crate::{
    common::{env, json as parsed},
    home::write,
};

const SESSIONS: &str = "home/.openclaw/agents/main/sessions";
const PARENT: &str = "08237d46-0000-4000-8000-000000000001";
const JOB: &str = "08237d46-0000-4000-8000-000000000002";
const RESET: &str = "08237d46-0000-4000-8000-000000000003";
const SENT: &str = "08237d46-0000-4000-8000-000000000004";
const DONE: &str = "6f3e96b4-0000-4000-8000-00000000000a";
const LATE: &str = "6f3e96b4-0000-4000-8000-00000000000b";

/// Builds the lines of a session, a second apart.
struct Lines {
    text: String,
    second: u32,
}

impl Lines {
    fn of(session: &str) -> Self {
        let mut lines = Self { text: String::new(), second: 0 };
        lines.add(json!({"type": "session", "version": 3, "id": session, "cwd": "/shop"}));
        lines.add(json!({"type": "custom", "customType": "model-snapshot", "data": {}}));
        lines
    }

    fn add(&mut self, mut line: Value) {
        self.second += 1;
        line["timestamp"] = json!(format!("2026-04-02T05:18:{:02}.000Z", self.second));
        self.text += &format!("{line}\n");
    }

    fn message(&mut self, message: Value) {
        self.add(json!({"type": "message", "id": format!("{:08x}", self.second), "message": message}));
    }

    fn user(&mut self, text: &str) {
        self.message(json!({"role": "user", "content": [{"type": "text", "text": text}]}));
    }

    fn answer(&mut self, content: Value, reason: &str) {
        let usage = json!({"input": 90, "output": 10, "totalTokens": 100});
        self.message(json!({
            "role": "assistant", "content": content, "provider": "kimi", "model": "k2p5", "usage": usage, "stopReason": reason,
        }));
    }

    fn call(&mut self, tool: &str, arguments: &Value, details: &Value) {
        let id = format!("call_{}", self.second);
        self.answer(json!([{"type": "toolCall", "id": id, "name": tool, "arguments": arguments}]), "toolUse");
        self.message(json!({
            "role": "toolResult", "toolCallId": id, "toolName": tool, "content": [], "details": details, "isError": false,
        }));
    }

    /// Adds what OpenClaw itself sends to a chat.
    fn sends(&mut self, text: &str) {
        self.message(json!({
            "role": "assistant", "content": [{"type": "text", "text": text}], "provider": "openclaw",
            "model": "delivery-mirror", "usage": {"input": 0, "output": 0, "totalTokens": 0}, "stopReason": "stop",
        }));
    }

    fn says(&mut self, text: &str) {
        self.answer(json!([{"type": "text", "text": text}]), "stop");
    }
}

fn announced(agent: &str, status: &str, stats: &str) -> String {
    format!(
        "[Thu 2026-04-02 07:18 GMT+2] OpenClaw runtime context (internal):\n\n[Internal task completion event]\n\
         session_key: agent:main:subagent:{agent}\ntask: count\nstatus: {status}\n\n\
         <<<BEGIN_UNTRUSTED_CHILD_RESULT>>>\nfour\n<<<END_UNTRUSTED_CHILD_RESULT>>>\n{stats}"
    )
}

fn fill(env: &TestEnv) {
    let spawn = json!({"task": "\nCount the words\nof all files", "agentId": "main"});
    let accepted = |agent: &str| json!({"status": "accepted", "childSessionKey": format!("agent:main:subagent:{agent}")});
    let mut parent = Lines::of(PARENT);
    parent.user(
        "Sender (untrusted metadata):\n```json\n{\"name\": \"Ann\"}\n```\n\n[Thu 2026-04-02 07:17 GMT+2] count the words",
    );
    parent.call("sessions_spawn", &spawn, &accepted(DONE));
    parent.call("sessions_spawn", &spawn, &accepted(LATE));
    parent.call("sessions_spawn", &spawn, &json!({"status": "forbidden", "error": "not allowed"}));
    parent.call("exec", &json!({"command": "wc nothing"}), &json!({"status": "completed", "exitCode": 1}));
    parent.call("read", &json!({"path": "nothing"}), &json!({"status": "error", "error": "ENOENT"}));
    parent.add(json!({"type": "custom_message", "customType": "openclaw.sessions_yield", "content": "Turn yielded."}));
    parent.user(&announced(DONE, "completed successfully", ""));
    parent.user(&announced(LATE, "timed out", "\nStats: runtime 4s • tokens 9.1k (in 9.1k / out 0)\n"));
    parent.says("There are four.");

    let mut job = Lines::of(JOB);
    job.user("[cron:1e5d75bc-4013 daily plan] Write it.\nCurrent time: Thursday\n\nReturn your summary as plain text.");
    job.add(json!({"type": "custom", "customType": "openclaw:prompt-error", "data": {"error": "request timed out"}}));
    // That it is sent does not make a success of it.
    job.sends("The job failed.");

    let mut reset = Lines::of(RESET);
    reset.user("[Thu 2026-04-02 07:17 GMT+2] an older question");
    reset.says("An answer.");

    let mut sent = Lines::of(SENT);
    sent.sends("Time to stretch.");

    let name = |session: &str, ending: &str| env.path(SESSIONS).join(format!("{session}.jsonl{ending}"));
    write(&name(PARENT, ""), parent.text.as_bytes());
    write(&name(JOB, ""), job.text.as_bytes());
    // The file of a session that is begun anew has its name, and is of another session.
    write(&name(SENT, ".reset.2026-04-05T13-22-54.723Z"), reset.text.as_bytes());
    // A copy of a session is not another one.
    write(&name(PARENT, ".deleted.2026-04-06T00-12-01.949Z"), parent.text.as_bytes());
    write(&name(SENT, ""), sent.text.as_bytes());
}

fn rows(env: &TestEnv) -> Vec<Value> {
    let page = parsed(&env.run(&["ls", "--json", "--all"]).success());
    let rows = page["sessions"].as_array().unwrap().iter();
    let of = |row: &Value| {
        json!([
            row["id"],
            row["harness"],
            row["root"],
            row["title"],
            row["agents"],
            row["tool_calls"],
            row["usage"]["total_tokens"]
        ])
    };
    let mut rows: Vec<Value> = rows.map(of).collect();
    rows.sort_by_key(Value::to_string);
    rows
}

#[test]
fn sessions_say_what_was_asked_and_agents_how_they_ended() {
    let env = env();
    fill(&env);
    let expected = [
        json!([PARENT, "openclaw", "completed", "count the words", 2, 5, 600]),
        json!([JOB, "openclaw", "failed", "daily plan", 0, 0, null]),
        json!([RESET, "openclaw", "completed", "an older question", 0, 0, 100]),
        json!([SENT, "openclaw", "completed", null, 0, 0, null]),
    ];
    assert_eq!(rows(&env), expected);
    let tree = || parsed(&env.run(&["-q", "tree", PARENT, "--json"]).success());
    let agents = |tree: &Value| -> Vec<Value> {
        let of = |row: &Value| json!([row["id"], row["status"], row["description"], row["tool_errors"]]);
        tree["agents"].as_array().unwrap().iter().map(of).collect()
    };
    let before = tree();
    let expected = [
        json!(["root", "completed", null, 3]),
        json!([DONE, "completed", "Count the words", 0]),
        json!([LATE, "stopped", "Count the words", 0]),
    ];
    assert_eq!(agents(&before), expected, "{before:#}");
    // From the result of the call to the announcement, or as long as that says.
    let walls: Vec<&Value> = before["agents"].as_array().unwrap().iter().map(|row| &row["wall_ms"]).collect();
    assert_eq!(walls[1..], [10_000, 4_000]);
    env.run(&["index"]).success();
    assert_eq!(agents(&tree()), agents(&before));
    assert_eq!(rows(&env).len(), 4);
    let found = env.run(&["search", "older question"]).success();
    assert!(found.contains(RESET.split('-').next().unwrap()), "{found}");
}
