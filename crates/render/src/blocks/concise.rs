//! Blocks of one line an event: time, mark, name, what happened.

use serde_json::Value;
use subscope_model::{AgentStatus, Event, EventKind};

use super::{Scene, payload, verbose::ENCRYPTED};
use crate::{
    safe,
    style::{Ink, Line},
    text,
};

/// Columns of `HH:MM:SS`.
const CLOCK_WIDTH: usize = 8;

/// Columns that the facts of a start or an end stand behind, where names are shorter.
const NAME_COLUMN: usize = 42;

/// Lines of a thought.
const THOUGHT_LINES: usize = 2;

/// Lines of a message. Longer than a thought's: it was meant for others.
const MESSAGE_LINES: usize = 6;

/// Returns an event's lines; `None` where it prints nothing.
pub(super) fn block(event: &Event, scene: &Scene<'_>) -> Option<String> {
    let style = scene.style();
    let glyphs = style.glyphs();
    let words = |text: &str| style.one_line(text, style.width);
    let tool = || words(scene.tool(event));
    let mut line = Line::default();
    match event.kind {
        EventKind::ToolPre => {
            line = by(event, scene);
            let told = event.text("detail").map(str::to_owned);
            let detail = told.or_else(|| payload::detail(event.data.get("input"))).unwrap_or_default();
            line.push(&words(&format!("{} {} {detail}", glyphs.call, scene.tool(event))));
        }
        EventKind::ToolPost => {
            line = by(event, scene);
            line.push(&format!("{} {} ", glyphs.result, tool()));
            line.paint(Ink::Done, &format!("ok{}", span(event, scene)));
            // A subagent's report is shown here and nowhere else.
            if scene.call.as_ref().is_some_and(|call| call.is_spawn) {
                let told = event.data.get("report").or_else(|| event.data.get("result"));
                let report = words(&payload::whole(told));
                let [open, close] = glyphs.quotes;
                if !report.is_empty() {
                    line.push(&format!(" {open}{report}{close}"));
                }
            }
        }
        EventKind::ToolFailure => {
            line = by(event, scene);
            line.push(&format!("{} {} ", glyphs.result, tool()));
            let error =
                event.data.get("error").filter(|error| !error.is_null()).or_else(|| event.data.get("result"));
            let error = words(&payload::first_line(error));
            line.paint(Ink::Failed, &format!("{}{} {error}", glyphs.failed, span(event, scene)));
        }
        EventKind::PermissionRequest => {
            line = by(event, scene);
            line.paint(Ink::Waiting, &format!("? waits for permission: {}", tool()));
        }
        EventKind::PermissionDenied => {
            line = by(event, scene);
            line.push(&format!("{} {} ", glyphs.result, tool()));
            line.paint(Ink::Stalled, &format!("{} denied", glyphs.denied));
        }
        EventKind::Reasoning => {
            let is_encrypted = event.data.get("encrypted").and_then(Value::as_bool) == Some(true);
            let thought = if is_encrypted { ENCRYPTED } else { event.text("text").unwrap_or_default() };
            return says(event, scene, &format!("thinks {}", glyphs.says), thought, THOUGHT_LINES);
        }
        EventKind::AgentMessage => {
            return says(event, scene, glyphs.says, event.text("text").unwrap_or_default(), MESSAGE_LINES);
        }
        EventKind::UserPrompt => {
            return says(event, scene, &format!("user {}", glyphs.says), event.text("text")?, MESSAGE_LINES);
        }
        EventKind::SubagentStart => {
            let facts = scene.start_facts(event);
            return Some(turn(event, scene, (Ink::Running, glyphs.start), &facts, ""));
        }
        EventKind::SubagentStop => {
            let status = event.text("status").and_then(status_of);
            let ink = status.map_or(Ink::Done, Ink::of_status);
            let mark = status.map_or(glyphs.other, |status| glyphs.icon(status));
            let error = match status {
                Some(AgentStatus::Completed) => String::new(),
                _ => words(&payload::first_line(event.data.get("error"))),
            };
            return Some(turn(event, scene, (ink, mark), &scene.stop_facts(event), &error));
        }
        EventKind::Stall => {
            begin(&mut line, event, scene);
            line.push("  ");
            line.push(&scene.subject(event, name_width(scene)));
            line.paint(Ink::Stalled, &format!(" ! stalled: {}", scene.stall_facts(event)));
        }
        EventKind::Problem => {
            begin(&mut line, event, scene);
            let at = event.text("at").unwrap_or_default();
            let what = event.text("what").unwrap_or_default();
            line.paint(Ink::Stalled, &format!("! problem at {}", words(&format!("{at}: {what}"))));
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
    let mut out = String::new();
    line.write(&mut out, style);
    Some(out)
}

/// Names take at most two fifths of a line, so that what happened has room.
fn name_width(scene: &Scene<'_>) -> usize {
    (scene.style().width / 5 * 2).max(12)
}

/// Appends the time, blank where no source tells it.
fn begin(line: &mut Line, event: &Event, scene: &Scene<'_>) {
    let clock = event.at_ms.map_or_else(String::new, |at| text::clock(at, scene.options.offset_minutes));
    line.push(&text::pad(&clock, CLOCK_WIDTH));
    line.push(" ");
}

/// Begins the line of what an agent did; the root has no name.
fn by(event: &Event, scene: &Scene<'_>) -> Line {
    let mut line = Line::default();
    begin(&mut line, event, scene);
    line.push("  ");
    let name = scene.actor(event, name_width(scene));
    if !name.is_empty() {
        line.push(&name);
        line.push(if name == "~" { "" } else { " " });
    }
    line
}

fn span(event: &Event, scene: &Scene<'_>) -> String {
    scene.span_ms(event).map_or_else(String::new, |span| format!(" {}", text::duration(Some(span))))
}

/// Returns the line of a start or an end: the mark, the name, then facts in a column of their own.
fn turn(event: &Event, scene: &Scene<'_>, (ink, mark): (Ink, &str), facts: &str, error: &str) -> String {
    let style = scene.style();
    let mut line = Line::default();
    begin(&mut line, event, scene);
    line.paint(ink, mark);
    line.push(" ");
    let room = style.width.saturating_sub(line.width() + text::width(facts) + 2).max(12);
    let name = scene.subject(event, room);
    let tail = if error.is_empty() { 0 } else { text::width(error) + 2 };
    let column = if facts.is_empty() { 0 } else { NAME_COLUMN.min(room.saturating_sub(tail)) };
    line.push(&text::pad(&name, column));
    if !facts.is_empty() {
        line.push(&format!("  {facts}"));
    }
    if !error.is_empty() {
        line.paint(ink, &format!("  {error}"));
    }
    let mut out = String::new();
    line.write(&mut out, style);
    out
}

/// Returns somebody's words, the first on the line of the name, the others below it; `...` for those left out.
fn says(event: &Event, scene: &Scene<'_>, mark: &str, words: &str, most: usize) -> Option<String> {
    let style = scene.style();
    let words = safe::lines(words.trim(), style.charset());
    let mut lines = words.lines().filter(|line| !line.trim().is_empty());
    let mut line = by(event, scene);
    line.push(&format!("{mark} "));
    line.push(lines.next()?);
    let mut out = String::new();
    line.write(&mut out, style);
    let indent = " ".repeat(CLOCK_WIDTH + 5);
    let shown = if scene.options.full { usize::MAX } else { most - 1 };
    for (at, words) in lines.enumerate() {
        let mut line = Line::default();
        line.push(&indent);
        line.push(if at < shown { words } else { "..." });
        line.write(&mut out, style);
        if at >= shown {
            break;
        }
    }
    Some(out)
}

fn status_of(word: &str) -> Option<AgentStatus> {
    use AgentStatus::{Completed, Failed, Lost, Pending, Running, Stopped};
    [Pending, Running, Completed, Failed, Stopped, Lost].into_iter().find(|status| status.as_str() == word)
}
