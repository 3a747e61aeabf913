//! Hook payloads, as Claude Code 2.1.330 gives them.

use serde_json::json;

use super::{CWD, Dialect, Line, SESSION};

/// A payload of that event. Without [`Line::agent`] it is the root's. Tool events have a `prompt_id`, as from 2.1.197:
/// take it away with [`Line::without`] for older versions.
pub fn hook(event: &str) -> Line {
    let line = Line::new(
        Dialect::Hook,
        json!({
            "session_id": SESSION, "transcript_path": format!("/home/user/.claude/projects/-home-user-shop/{SESSION}.jsonl"),
            "cwd": CWD, "hook_event_name": event,
        }),
    );
    match event {
        "SessionStart" => line.set("source", "startup"),
        "SessionEnd" => line.set("reason", "other"),
        "PreToolUse" | "PermissionRequest" => line.prompt_id("prompt-1").set("tool_input", json!({})),
        "PostToolUse" => line
            .prompt_id("prompt-1")
            .set("tool_input", json!({}))
            .set("tool_response", json!({"stdout": "", "stderr": ""})),
        "PostToolUseFailure" => line
            .prompt_id("prompt-1")
            .set("tool_input", json!({}))
            .set("error", "Error: no")
            .set("is_interrupt", false),
        "UserPromptSubmit" => line.prompt_id("prompt-1").set("prompt", "Look into it."),
        "Stop" | "SubagentStop" | "StopFailure" => {
            line.prompt_id("prompt-1").set("stop_hook_active", false).set("last_assistant_message", "Done.")
        }
        _ => line.prompt_id("prompt-1"),
    }
}
