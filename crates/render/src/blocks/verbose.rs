//! Verbose blocks: a header that starts with `####`, then the whole payload in a fence.
//!
//! Agent text is inside a fence that it cannot close, so it cannot fake a header.

use serde_json::Value;
use subscope_model::{AgentStatus, Event, EventKind};

use super::{RenderContext, budget_words, payload};
use crate::safe;

/// Most columns of a name.
const NAME_WIDTH: usize = 100;

/// Printed in place of encrypted reasoning.
pub(super) const ENCRYPTED: &str = "[Reasoning content is encrypted]";

/// Renders an event with a blank line after it; `None` if it prints nothing.
pub(super) fn block(event: &Event, context: &RenderContext<'_>) -> Option<String> {
    let charset = context.style().charset();
    let fenced = |text: &str| payload::fence(&safe::lines(text.trim(), charset), "");
    let tool = || context.style().one_line(context.tool(event), NAME_WIDTH);
    let (header, body) = match event.kind {
        EventKind::ToolPre => {
            let timeout = event.data.get("timeout_seconds").filter(|seconds| seconds.is_number());
            let timeout = timeout.map_or_else(String::new, |seconds| format!(" (timeout: {seconds}s)"));
            let input = event.data.get("input");
            let raw = context.tool(event);
            let arguments = if context.is_code(raw) {
                payload::code(raw, input, charset)
            } else {
                payload::arguments(input, charset)
            };
            (by(event, context, &format!("[tool call]{timeout}")), format!("{}\n{arguments}", tool()))
        }
        EventKind::ToolPost | EventKind::ToolFailure => {
            let what = if context.is_code(context.tool(event)) {
                "Code execution output:".to_owned()
            } else {
                format!("Tool \"{}\" result:", tool())
            };
            let has_failed = event.kind == EventKind::ToolFailure;
            let what = if has_failed { what + " (failed)" } else { what };
            let field = if has_failed && event.data.get("error").is_some() { "error" } else { "result" };
            (by(event, context, &what), payload::result(event.data.get(field), context.options.full, charset))
        }
        EventKind::PermissionDenied => {
            (by(event, context, &format!("Tool \"{}\" denied", tool())), String::new())
        }
        EventKind::PermissionRequest => {
            let words = format!("{}: {}", payload::request_words(event), tool());
            (by(event, context, &words), String::new())
        }
        EventKind::Reasoning => {
            let is_encrypted = event.data.get("encrypted").and_then(Value::as_bool) == Some(true);
            let text = event.text("text").unwrap_or_default();
            let body = if is_encrypted { ENCRYPTED.to_owned() } else { fenced(text) };
            if text.trim().is_empty() && !is_encrypted {
                return None;
            }
            (by(event, context, "thought trace"), body)
        }
        EventKind::AgentMessage => {
            let text = event.text("text").filter(|text| !text.trim().is_empty())?;
            (by(event, context, "message"), fenced(text))
        }
        EventKind::UserPrompt => ("#### prompt".to_owned(), fenced(event.text("text")?)),
        EventKind::SubagentStart => {
            (about(event, context, "started", &context.start_facts(event)), String::new())
        }
        EventKind::SubagentStop => {
            let status = event.text("status").unwrap_or("ended");
            let status = context.style().one_line(status, 20);
            let error = event.text("error").filter(|error| !error.trim().is_empty());
            let body =
                error.filter(|_| status != AgentStatus::Completed.as_str()).map_or_else(String::new, fenced);
            (about(event, context, &status, &context.stop_facts(event)), body)
        }
        EventKind::Stall => {
            (about(event, context, &format!("stalled: {}", context.stall_facts(event)), ""), String::new())
        }
        EventKind::Budget => (format!("#### {}", budget_words(event)), String::new()),
        EventKind::Problem => {
            let at = context.style().one_line(event.text("at").unwrap_or_default(), NAME_WIDTH);
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

/// Header of an agent's action; the root has no name.
fn by(event: &Event, context: &RenderContext<'_>, what: &str) -> String {
    match context.actor(event, NAME_WIDTH) {
        name if name.is_empty() => format!("#### {what}"),
        name => format!("#### {name} {what}"),
    }
}

/// Header of a change of an agent's state.
fn about(event: &Event, context: &RenderContext<'_>, what: &str, facts: &str) -> String {
    let name = context.subject(event, NAME_WIDTH);
    if facts.is_empty() { format!("#### {name} {what}") } else { format!("#### {name} {what} ({facts})") }
}
