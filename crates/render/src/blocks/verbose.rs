//! Blocks with whole payloads: a header that starts with `####`, then a fence.
//!
//! Everything an agent wrote stands inside a fence that it cannot close, so no text can pass for a header.

use serde_json::Value;
use subscope_model::{AgentStatus, Event, EventKind};

use super::{Scene, payload};
use crate::safe;

/// Names are cut here: a header is one line.
const NAME_WIDTH: usize = 100;

/// What is printed of a thought that only its maker can read.
pub(super) const ENCRYPTED: &str = "[Reasoning content is encrypted]";

/// Returns an event's block with the blank line that follows it; `None` where it prints nothing.
pub(super) fn block(event: &Event, scene: &Scene<'_>) -> Option<String> {
    let charset = scene.style().charset();
    let fenced = |text: &str| payload::fence(&safe::lines(text.trim(), charset), "");
    let tool = || scene.style().one_line(scene.tool(event), NAME_WIDTH);
    let (header, body) = match event.kind {
        EventKind::ToolPre => {
            let timeout = event.data.get("timeout_seconds").filter(|seconds| seconds.is_number());
            let timeout = timeout.map_or_else(String::new, |seconds| format!(" (timeout: {seconds}s)"));
            let input = event.data.get("input");
            let raw = scene.tool(event);
            let arguments = if scene.is_code(raw) {
                payload::code(raw, input, charset)
            } else {
                payload::arguments(input, charset)
            };
            (by(event, scene, &format!("[tool call]{timeout}")), format!("{}\n{arguments}", tool()))
        }
        EventKind::ToolPost | EventKind::ToolFailure => {
            let what = if scene.is_code(scene.tool(event)) {
                "Code execution output:".to_owned()
            } else {
                format!("Tool \"{}\" result:", tool())
            };
            let (what, field) = match event.kind {
                EventKind::ToolFailure if event.data.get("error").is_some() => (what + " (failed)", "error"),
                EventKind::ToolFailure => (what + " (failed)", "result"),
                _ => (what, "result"),
            };
            (by(event, scene, &what), payload::result(event.data.get(field), scene.options.full, charset))
        }
        EventKind::PermissionDenied => {
            (by(event, scene, &format!("Tool \"{}\" denied", tool())), String::new())
        }
        EventKind::PermissionRequest => {
            (by(event, scene, &format!("waits for permission: {}", tool())), String::new())
        }
        EventKind::Reasoning => {
            let is_encrypted = event.data.get("encrypted").and_then(Value::as_bool) == Some(true);
            let text = event.text("text").unwrap_or_default();
            let body = if is_encrypted { ENCRYPTED.to_owned() } else { fenced(text) };
            if text.trim().is_empty() && !is_encrypted {
                return None;
            }
            (by(event, scene, "thought trace"), body)
        }
        EventKind::AgentMessage => {
            let text = event.text("text").filter(|text| !text.trim().is_empty())?;
            (by(event, scene, "message"), fenced(text))
        }
        EventKind::UserPrompt => ("#### prompt".to_owned(), fenced(event.text("text")?)),
        EventKind::SubagentStart => {
            (about(event, scene, "started", &scene.start_facts(event)), String::new())
        }
        EventKind::SubagentStop => {
            let status = event.text("status").unwrap_or("ended");
            let status = scene.style().one_line(status, 20);
            let error = event.text("error").filter(|error| !error.trim().is_empty());
            let body =
                error.filter(|_| status != AgentStatus::Completed.as_str()).map_or_else(String::new, fenced);
            (about(event, scene, &status, &scene.stop_facts(event)), body)
        }
        EventKind::Stall => {
            (about(event, scene, &format!("stalled: {}", scene.stall_facts(event)), ""), String::new())
        }
        EventKind::Problem => {
            let at = scene.style().one_line(event.text("at").unwrap_or_default(), NAME_WIDTH);
            (format!("#### problem at {at}"), fenced(event.text("what").unwrap_or_default()))
        }
        EventKind::SessionStart
        | EventKind::SessionEnd
        | EventKind::RunStart
        | EventKind::RunEnd
        | EventKind::SubagentProgress
        | EventKind::Usage
        | EventKind::Heartbeat
        | EventKind::Retry
        | EventKind::Notification
        | EventKind::CompactPre
        | EventKind::CompactPost
        | EventKind::TodoCreated
        | EventKind::TodoCompleted
        | EventKind::UnknownHook
        | EventKind::Attribution
        | EventKind::AgentRenamed => return None,
    };
    Some(if body.is_empty() { format!("{header}\n\n") } else { format!("{header}\n{body}\n\n") })
}

/// Returns the header of what an agent did; the root has no name.
fn by(event: &Event, scene: &Scene<'_>, what: &str) -> String {
    match scene.actor(event, NAME_WIDTH) {
        name if name.is_empty() => format!("#### {what}"),
        name => format!("#### {name} {what}"),
    }
}

/// Returns the header of what became of an agent.
fn about(event: &Event, scene: &Scene<'_>, what: &str, facts: &str) -> String {
    let name = scene.subject(event, NAME_WIDTH);
    if facts.is_empty() { format!("#### {name} {what}") } else { format!("#### {name} {what} ({facts})") }
}
