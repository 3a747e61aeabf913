//! Lines that `claude -p --output-format stream-json` prints, as 2.1.330 does.

use serde_json::{Value, json};

use super::{CWD, Dialect, Line, SESSION, assistant_message, call_block, result_block, text_block};
use subscope_model::iso8601;

use crate::clock::START;

/// `system/init`.
pub fn init() -> Line {
    system("init")
        .set("cwd", CWD)
        .set("model", "claude-opus-5-5")
        .set("tools", json!(["Task", "Bash", "Read"]))
        .set("claude_code_version", "2.1.330")
}

/// A `system` line of any subtype.
pub fn system(subtype: &str) -> Line {
    Line::new(Dialect::Stream, json!({"type": "system", "subtype": subtype, "session_id": SESSION}))
}

/// A prompt: of the user, or, with [`Line::under`], of the subagent's caller.
pub fn user(text: &str) -> Line {
    talk("user", json!({"role": "user", "content": [text_block(text)]}))
}

/// Text of the model.
pub fn assistant(text: &str) -> Line {
    talk("assistant", assistant_message(&text_block(text), None))
}

/// A tool call of the model.
pub fn tool_use(name: &str, id: &str) -> Line {
    talk("assistant", assistant_message(&call_block(name, id), None))
}

/// The result of a tool call.
pub fn tool_result(id: &str, content: &str) -> Line {
    talk("user", json!({"role": "user", "content": [result_block(id, content)]}))
}

/// The start of an agent of the first level in the foreground.
pub fn task_started(agent: &str, call: &str) -> Line {
    task("task_started", agent)
        .set("tool_use_id", call)
        .set("description", "Look into it")
        .set("subagent_type", "general-purpose")
        .set("is_backgrounded", false)
        .set("spawn_depth", 1)
        .set("task_type", "local_agent")
        .set("prompt", "Look into it.")
}

/// What an agent does.
pub fn task_progress(agent: &str, description: &str, tool: &str) -> Line {
    task("task_progress", agent)
        .set("description", description)
        .set("usage", json!({"total_tokens": 100, "tool_uses": 1, "duration_ms": 10}))
        .set("last_tool_name", tool)
}

/// The ending of an agent in the harness's first words: `completed`, `failed`, `killed`.
pub fn task_updated(agent: &str, status: &str) -> Line {
    task("task_updated", agent).set("patch", json!({"status": status, "end_time": START}))
}

/// The ending of an agent in the harness's second words: `completed`, `failed`, `stopped`.
pub fn task_notification(agent: &str, call: &str, status: &str) -> Line {
    task("task_notification", agent)
        .set("tool_use_id", call)
        .set("status", status)
        .set("summary", "The agent has ended")
}

/// `result`, the end of a turn without an error.
pub fn result(text: &str) -> Line {
    let fields = json!({
        "type": "result", "subtype": "success", "is_error": false, "result": text, "session_id": SESSION,
        "stop_reason": "end_turn", "terminal_reason": "completed",
    });
    Line::new(Dialect::Stream, fields)
}

impl Line {
    /// Sets the spawn call whose agent the line is of.
    pub fn under(self, call: &str) -> Self {
        self.set("parent_tool_use_id", call)
    }
}

fn talk(kind: &str, message: Value) -> Line {
    let fields = json!({
        "type": kind, "message": message, "parent_tool_use_id": null, "session_id": SESSION, "timestamp": iso8601(START),
    });
    Line::new(Dialect::Stream, fields)
}

fn task(subtype: &str, agent: &str) -> Line {
    system(subtype).set("task_id", agent).set("run_id", format!("0m-{agent}"))
}
