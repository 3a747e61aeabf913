//! Concise blocks, one line per event: time, mark, name, summary.

use serde_json::Value;
use subscope_model::{AgentStatus, Event, EventKind};

use super::{RenderContext, budget_words, payload, verbose::ENCRYPTED};
use crate::{
    safe,
    style::{Ink, StyledLine, write_lines},
    text,
};

/// Columns of `HH:MM:SS`.
const CLOCK_WIDTH: usize = 8;

/// Column of the facts of a start or end, unless the name is longer.
const NAME_COLUMN: usize = 42;

/// Most lines of reasoning.
const THOUGHT_LINES: usize = 2;

/// Most lines of a message.
const MESSAGE_LINES: usize = 6;

/// Renders an event; `None` if it prints nothing.
pub(super) fn block(event: &Event, context: &RenderContext<'_>) -> Option<String> {
    let style = context.style();
    let glyphs = style.glyphs();
    let words = |text: &str| style.one_line(text, style.width);
    let tool = || words(context.tool(event));
    let mut line = by(event, context);
    match event.kind {
        EventKind::ToolPre => {
            let known = event.text("detail").map(str::to_owned);
            let detail = known.or_else(|| payload::detail(event.data.get("input"))).unwrap_or_default();
            line.push(&words(&format!("{} {} {detail}", glyphs.call, context.tool(event))));
        }
        EventKind::ToolPost => {
            line.push(&format!("{} {} ", glyphs.result, tool()));
            line.paint(Ink::Done, &format!("ok{}", span(event, context)));
            // A subagent's result is shown only here.
            if context.call.as_ref().is_some_and(|call| call.is_spawn) {
                let known = event.data.get("report").or_else(|| event.data.get("result"));
                let report = words(&payload::full_text(known));
                if !report.is_empty() {
                    line.push(&format!(" {}{report}{}", glyphs.open_quote, glyphs.close_quote));
                }
            }
        }
        EventKind::ToolFailure => {
            line.push(&format!("{} {} ", glyphs.result, tool()));
            let error =
                event.data.get("error").filter(|error| !error.is_null()).or_else(|| event.data.get("result"));
            let error = words(&payload::first_line(error));
            line.paint(Ink::Failed, &format!("{}{} {error}", glyphs.failed, span(event, context)));
        }
        EventKind::PermissionRequest => {
            line.paint(
                Ink::Waiting,
                &format!("{} {}: {}", glyphs.waiting, payload::request_words(event), tool()),
            );
        }
        EventKind::PermissionDenied => {
            line.push(&format!("{} {} ", glyphs.result, tool()));
            line.paint(Ink::Stalled, &format!("{} denied", glyphs.denied));
        }
        EventKind::Reasoning => {
            let is_encrypted = event.data.get("encrypted").and_then(Value::as_bool) == Some(true);
            let thought = if is_encrypted { ENCRYPTED } else { event.text("text").unwrap_or_default() };
            return says(event, context, &format!("thinks {}", glyphs.says), thought, THOUGHT_LINES);
        }
        EventKind::AgentMessage => {
            return says(event, context, glyphs.says, event.text("text").unwrap_or_default(), MESSAGE_LINES);
        }
        EventKind::UserPrompt => {
            let mark = format!("user {}", glyphs.says);
            return says(event, context, &mark, event.text("text")?, MESSAGE_LINES);
        }
        EventKind::SubagentStart => {
            let facts = context.start_facts(event);
            return Some(turn(event, context, (Ink::Running, glyphs.start), &facts, ""));
        }
        EventKind::SubagentStop => {
            let status = event.text("status").and_then(status_of);
            let ink = status.map_or(Ink::Done, Ink::of_status);
            let mark = status.map_or(glyphs.other, |status| glyphs.icon(status));
            let error = match status {
                Some(AgentStatus::Completed) => String::new(),
                _ => words(&payload::first_line(event.data.get("error"))),
            };
            return Some(turn(event, context, (ink, mark), &context.stop_facts(event), &error));
        }
        EventKind::Stall => {
            line = begin(event, context);
            line.push(&format!("  {}", context.subject(event, name_width(context))));
            line.paint(Ink::Stalled, &format!(" {} stalled: {}", glyphs.trouble, context.stall_facts(event)));
        }
        EventKind::Budget => {
            line = begin(event, context);
            line.paint(Ink::Stalled, &format!("{} {}", glyphs.trouble, budget_words(event)));
        }
        EventKind::Problem => {
            line = begin(event, context);
            let at = event.text("at").unwrap_or_default();
            let what = event.text("what").unwrap_or_default();
            line.paint(
                Ink::Stalled,
                &format!("{} problem at {}", glyphs.trouble, words(&format!("{at}: {what}"))),
            );
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
    }
    Some(write_lines(vec![line], style))
}

/// Names take at most two fifths of a line.
fn name_width(context: &RenderContext<'_>) -> usize {
    (context.style().width / 5 * 2).max(12)
}

/// Begins a line with the time; blank if unknown.
fn begin(event: &Event, context: &RenderContext<'_>) -> StyledLine {
    let clock = event.at_ms.map_or_else(String::new, |at| text::clock(at, context.options.offset_minutes));
    StyledLine::default().with(None, &text::pad(&clock, CLOCK_WIDTH + 1))
}

/// Begins a line with time and actor; the root has no name.
fn by(event: &Event, context: &RenderContext<'_>) -> StyledLine {
    let name = context.actor(event, name_width(context));
    let gap = if name.is_empty() || name == "~" { "" } else { " " };
    begin(event, context).with(None, &format!("  {name}{gap}"))
}

fn span(event: &Event, context: &RenderContext<'_>) -> String {
    context.span_ms(event).map_or_else(String::new, |span| format!(" {}", text::duration(Some(span))))
}

/// Renders a start or end: mark, name, and facts in their own column.
fn turn(
    event: &Event,
    context: &RenderContext<'_>,
    (ink, mark): (Ink, &str),
    facts: &str,
    error: &str,
) -> String {
    let style = context.style();
    let mut line = begin(event, context).with(Some(ink), mark).with(None, " ");
    let room = style.width.saturating_sub(line.width() + text::width(facts) + 2).max(12);
    let name = context.subject(event, room);
    let tail = if error.is_empty() { 0 } else { text::width(error) + 2 };
    let column = if facts.is_empty() { 0 } else { NAME_COLUMN.min(room.saturating_sub(tail)) };
    line.push(&text::pad(&name, column));
    if !facts.is_empty() {
        line.push(&format!("  {facts}"));
    }
    if !error.is_empty() {
        line.paint(ink, &format!("  {error}"));
    }
    write_lines(vec![line], style)
}

/// Renders a message: the first line next to the name, others below it, `...` for omitted ones.
fn says(event: &Event, context: &RenderContext<'_>, mark: &str, words: &str, most: usize) -> Option<String> {
    let style = context.style();
    let words = safe::lines(words.trim(), style.charset());
    let mut lines = words.lines().filter(|line| !line.trim().is_empty());
    let mut out = vec![by(event, context).with(None, &format!("{mark} {}", lines.next()?))];
    let indent = " ".repeat(CLOCK_WIDTH + 5);
    let shown = if context.options.full { usize::MAX - 1 } else { most - 1 };
    for (at, words) in lines.take(shown + 1).enumerate() {
        let words = if at < shown { words } else { "..." };
        out.push(StyledLine::default().with(None, &format!("{indent}{words}")));
    }
    Some(write_lines(out, style))
}

fn status_of(word: &str) -> Option<AgentStatus> {
    use AgentStatus::{Completed, Failed, Lost, Pending, Running, Stopped};
    [Pending, Running, Completed, Failed, Stopped, Lost].into_iter().find(|status| status.as_str() == word)
}
