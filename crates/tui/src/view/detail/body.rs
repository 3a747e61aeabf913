//! The selected agent's calls and messages, newest last. Only visible entries are laid out.

use std::collections::{HashMap, HashSet};

use ratatui::layout::Rect;
use subscope_model::{Agent, AgentStatus, EventKind, Millis, ToolCall, ToolStatus};
use subscope_render::{
    Detail, Ink,
    style::StyledLine,
    text,
    tree::{call_mark, tool_words},
};

use super::{
    super::{
        paint::Canvas,
        prose::{self, TextKind},
        tree::draw_scroll_arrows,
    },
    labeled, task,
};
use crate::{
    log_entry::LogEntry,
    state::{Panel, UiState},
};

/// Columns of `HH:MM:SS` and a space.
const CLOCK: usize = 9;

/// Most lines of arguments or output of a call: the whole, but for floods.
const MAX_OUTPUT: usize = 2_000;

/// Most lines of one text at a level of detail.
fn most_lines(detail: Detail) -> usize {
    match detail {
        Detail::Off | Detail::Minimal => 1,
        Detail::Moderate => 5,
        Detail::Full => 60,
    }
}

/// An entry of the body, laid out when visible.
enum DetailEntry<'a> {
    /// The agent's prompt.
    Task(&'a str),
    /// A tool call: its row, start event and end event, as far as known.
    Call(Option<&'a ToolCall>, Option<&'a LogEntry>, Option<&'a LogEntry>),
    /// Any other event.
    Event(&'a LogEntry),
    /// The agent's result or error.
    Ending(Ink, &'a str),
    /// A remark on missing events.
    Note(String),
}

/// Draws the entries, laid out from the end upwards.
pub(super) fn draw(state: &UiState, agent: &Agent, area: Rect, canvas: &mut Canvas<'_>) {
    let entries = entries(state, agent);
    let height = usize::from(area.height);
    let wanted = state.reading.call.as_deref();
    let mut lines: Vec<StyledLine> = Vec::new();
    let mut up = state.reading.up;
    let mut is_all = true;
    for (at, entry) in entries.iter().enumerate().rev() {
        let own = entry_lines(state, agent, entry, area.width, canvas);
        let is_wanted = wanted.is_some_and(|call| is_of_call(entry, call));
        if is_wanted {
            up = (lines.len() + own.len()).saturating_sub(height / 2);
        }
        lines.extend(own.into_iter().rev());
        let has_enough =
            lines.len() >= up.saturating_add(height) && (wanted.is_none() || is_wanted || up > 0);
        if has_enough && at > 0 {
            is_all = false;
            break;
        }
    }
    let most = if is_all { lines.len().saturating_sub(height) } else { usize::MAX };
    let up = up.min(lines.len().saturating_sub(height));
    canvas.drawn.most_up = most;
    if state.panel == Panel::Detail {
        canvas.drawn.page = height;
    }
    let mut shown: Vec<StyledLine> = lines.into_iter().skip(up).take(height).collect();
    shown.reverse();
    canvas.lines(area, shown);
    draw_scroll_arrows(
        canvas,
        Rect { x: area.x, y: area.y.saturating_sub(1), width: area.width + 1, height: area.height + 1 },
        usize::from(most > up),
        up,
    );
}

fn is_of_call(entry: &DetailEntry<'_>, id: &str) -> bool {
    let DetailEntry::Call(call, begin, _) = entry else { return false };
    let of_row = call.and_then(|call| call.id.as_deref()) == Some(id);
    of_row || begin.and_then(|begin| begin.call.as_deref()) == Some(id)
}

/// The agent's entries in chronological order; a tool call is one entry, at its start.
fn entries<'a>(state: &'a UiState, agent: &'a Agent) -> Vec<DetailEntry<'a>> {
    let mut entries = Vec::new();
    let detail = state.settings.detail;
    if let Some(prompt) = agent.prompt.as_deref().filter(|_| detail == Detail::Full) {
        entries.push(DetailEntry::Task(prompt));
    }
    let until = state.travel().map_or(Millis::MAX, |travel| travel.at_ms);
    let log = state.log();
    let own: Vec<&LogEntry> = log
        .into_iter()
        .flat_map(|log| log.entries())
        .filter(|event| event.agent == agent.id && event.at_ms.is_none_or(|at| at <= until))
        .collect();
    let calls: HashMap<&str, &ToolCall> =
        agent.tools.iter().filter_map(|call| Some((call.id.as_ref()?.as_str(), call))).collect();
    let calls_of = || own.iter().filter_map(|event| Some((event.call.as_deref()?, *event)));
    let begun: HashSet<&str> =
        calls_of().filter(|(_, event)| event.kind == EventKind::ToolPre).map(|(id, _)| id).collect();
    let ended: HashMap<&str, &LogEntry> = calls_of().filter(|(_, event)| event.is_end_of_call()).collect();
    if let Some(missed) = log.map(|log| log.missed).filter(|missed| *missed > 0) {
        entries.push(DetailEntry::Note(format!("{missed} earlier events of this session are not kept")));
    }
    if own.is_empty() {
        // Without events, show the calls of the row.
        entries.extend(agent.tools.iter().map(|call| DetailEntry::Call(Some(call), None, None)));
    }
    for event in own {
        match (event.kind, event.call.as_deref()) {
            (EventKind::ToolPre, Some(id)) => {
                let (call, end) = (calls.get(id).copied(), ended.get(id).copied());
                entries.push(DetailEntry::Call(call, Some(event), end));
            }
            (_, Some(id)) if event.is_end_of_call() && begun.contains(id) => {}
            (EventKind::SubagentStart | EventKind::RunStart | EventKind::RunEnd, _) => {}
            _ => entries.push(DetailEntry::Event(event)),
        }
    }
    if let Some(error) = &agent.error {
        entries.push(DetailEntry::Ending(Ink::Failed, error));
    } else if let Some(result) = agent.result.as_deref().filter(|result| !is_said(&entries, result)) {
        entries.push(DetailEntry::Ending(Ink::Strong, result));
    }
    entries
}

/// Whether a text equals one of the last four entries.
fn is_said(entries: &[DetailEntry<'_>], text: &str) -> bool {
    entries.iter().rev().take(4).any(|entry| {
        let DetailEntry::Event(event) = entry else { return false };
        let Some(body) = event.body.as_deref().map(str::trim) else { return false };
        body == text.trim() || (event.cut_bytes > 0 && text.trim().starts_with(body))
    })
}

fn entry_lines(
    state: &UiState,
    agent: &Agent,
    entry: &DetailEntry<'_>,
    width: u16,
    canvas: &Canvas<'_>,
) -> Vec<StyledLine> {
    let most = most_lines(state.settings.detail);
    match entry {
        DetailEntry::Task(prompt) => task(prompt, most, width, canvas),
        DetailEntry::Call(call, begin, end) => call_lines(state, agent, *call, *begin, *end, width, canvas),
        DetailEntry::Event(event) => event_lines(state, event, width, canvas),
        DetailEntry::Note(words) => {
            vec![StyledLine::painted(Ink::Done, &format!("{} {words}", canvas.glyphs().ellipsis))]
        }
        DetailEntry::Ending(ink, text) => {
            let (word, most) = if *ink == Ink::Failed { ("error", most.max(3)) } else { ("result", most) };
            let room = usize::from(width).saturating_sub(8);
            let ink = (*ink == Ink::Failed).then_some(*ink);
            labeled(word, 8, prose::lines(text, TextKind::Prose, ink, room, most, &canvas.style))
        }
    }
}

fn clock(state: &UiState, at_ms: Option<Millis>) -> String {
    text::pad(&at_ms.map(|at| state.clock(at)).unwrap_or_default(), CLOCK)
}

fn call_lines(
    state: &UiState,
    agent: &Agent,
    call: Option<&ToolCall>,
    begin: Option<&LogEntry>,
    end: Option<&LogEntry>,
    width: u16,
    canvas: &Canvas<'_>,
) -> Vec<StyledLine> {
    let style = canvas.style_of(width);
    let glyphs = style.glyphs();
    let status = call.map_or_else(|| status_of(end), |call| call.status);
    let (icon, ink) = call_mark(agent, status, &style);
    let at_ms = begin.and_then(|begin| begin.at_ms).or(call.and_then(|call| call.started_at_ms));
    let until = call.and_then(|call| call.ended_at_ms).or(end.and_then(|end| end.at_ms));
    let until =
        until.or_else(|| (status == ToolStatus::Open && agent.status.is_live()).then(|| state.moment_ms()));
    let span = at_ms.zip(until).map(|(from, to)| text::duration(Some(to - from)));
    let tail = StyledLine::painted(Ink::Done, &span.map(|span| format!("  {span}")).unwrap_or_default());

    let is_guess =
        begin.is_some_and(|begin| begin.is_guess) || call.is_some_and(|call| call.basis.is_guess());
    let guess = if is_guess { "~" } else { "" };
    let words = match (call, begin) {
        // An event has the whole command, a row only its first part.
        (_, Some(begin)) => style.one_line(&begin.words, usize::from(width)),
        (Some(call), None) => tool_words(call, &style),
        (None, None) => String::new(),
    };
    let mut line = StyledLine::painted(Ink::Done, &clock(state, at_ms)).with(Some(ink), icon).with(None, " ");
    let room = usize::from(width).saturating_sub(line.width() + tail.width());
    line.push(&text::truncate_with(&format!("{guess}{words}"), room, glyphs.ellipsis));
    // The error follows the call if there is room.
    if let Some(error) = end.filter(|_| status == ToolStatus::Error) {
        let error = error.words.split_once(' ').map_or("", |(_, error)| error);
        let room = usize::from(width).saturating_sub(line.width() + tail.width() + 2);
        if room > 8 && !error.is_empty() {
            line.paint(Ink::Failed, &format!("  {}", style.one_line(error, room)));
        }
    }
    line.end_at(usize::from(width), None, "");
    let mut line = line.fit(usize::from(width).saturating_sub(tail.width()), "");
    line.append(tail);
    let mut lines = vec![line];
    if state.settings.detail == Detail::Full {
        for (event, word) in [(begin, "in"), (end, "out")] {
            let Some(body) = event.and_then(|event| event.body.as_deref()) else { continue };
            let room = usize::from(width).saturating_sub(CLOCK + 6);
            let wrapped = prose::lines(body, TextKind::Code, None, room, MAX_OUTPUT, &style);
            lines.extend(labeled(word, 4, wrapped).into_iter().map(indented));
            if let Some(cut) = event.map(|event| event.cut_bytes).filter(|cut| *cut > 0) {
                let words = format!("{} {cut} more bytes", glyphs.ellipsis);
                lines.push(indented(StyledLine::painted(Ink::Done, &words)));
            }
        }
    }
    lines
}

/// Indents a line by the columns of the time and an icon.
fn indented(line: StyledLine) -> StyledLine {
    let mut out = StyledLine::default().with(None, &" ".repeat(CLOCK + 2));
    out.append(line);
    out
}

fn status_of(end: Option<&LogEntry>) -> ToolStatus {
    match end.map(|end| end.kind) {
        Some(EventKind::ToolFailure) => ToolStatus::Error,
        Some(EventKind::PermissionDenied) => ToolStatus::Denied,
        Some(_) => ToolStatus::Ok,
        None => ToolStatus::Open,
    }
}

/// Symbol and color of an event.
pub(in crate::view) fn event_symbol(
    kind: EventKind,
    words: &str,
    canvas: &Canvas<'_>,
) -> (&'static str, Ink) {
    let glyphs = canvas.glyphs();
    match kind {
        EventKind::ToolPre => (glyphs.call, Ink::Running),
        EventKind::ToolPost => (glyphs.result, Ink::Done),
        EventKind::ToolFailure => (glyphs.failed, Ink::Failed),
        EventKind::PermissionDenied => (glyphs.denied, Ink::Stalled),
        EventKind::PermissionRequest => (glyphs.waiting, Ink::Waiting),
        EventKind::AgentMessage | EventKind::UserPrompt => (glyphs.says, Ink::Strong),
        EventKind::Reasoning => (glyphs.other, Ink::Done),
        EventKind::SubagentStart => (glyphs.start, Ink::Running),
        EventKind::SubagentStop => {
            let status = words.split(' ').next().unwrap_or_default();
            let known =
                [AgentStatus::Completed, AgentStatus::Failed, AgentStatus::Stopped, AgentStatus::Lost];
            let status = known.into_iter().find(|known| known.as_str() == status);
            status.map_or((glyphs.other, Ink::Done), |status| (glyphs.icon(status), Ink::of_status(status)))
        }
        EventKind::Stall | EventKind::Budget | EventKind::Retry | EventKind::Problem => {
            (glyphs.trouble, Ink::Stalled)
        }
        EventKind::SessionStart
        | EventKind::SessionEnd
        | EventKind::RunStart
        | EventKind::RunEnd
        | EventKind::SubagentProgress
        | EventKind::Usage
        | EventKind::Heartbeat
        | EventKind::Notification
        | EventKind::CompactPre
        | EventKind::CompactPost
        | EventKind::TodoCreated
        | EventKind::TodoCompleted
        | EventKind::UnknownHook
        | EventKind::Attribution
        | EventKind::AgentRenamed => (glyphs.dot, Ink::Done),
    }
}

fn event_lines(state: &UiState, event: &LogEntry, width: u16, canvas: &Canvas<'_>) -> Vec<StyledLine> {
    let (icon, ink) = event_symbol(event.kind, &event.words, canvas);
    let most = most_lines(state.settings.detail);
    let room = usize::from(width).saturating_sub(CLOCK + 2);
    use EventKind as Kind;
    let is_text = matches!(event.kind, Kind::AgentMessage | Kind::UserPrompt | Kind::Reasoning);
    let body = event.body.as_deref().filter(|_| is_text);
    let needs_care =
        matches!(event.kind, Kind::Stall | Kind::Retry | Kind::Problem | Kind::PermissionRequest)
            || (event.kind == Kind::SubagentStop && ink == Ink::Failed);
    let tone = if event.kind == Kind::Reasoning { Some(Ink::Done) } else { needs_care.then_some(ink) };
    let words = body.unwrap_or(&event.words);
    let mut lines = prose::lines(words, TextKind::Prose, tone, room, most, &canvas.style);
    if event.cut_bytes > 0 && state.settings.detail == Detail::Full {
        let words = format!("{} {} more bytes: e opens all of it", canvas.glyphs().ellipsis, event.cut_bytes);
        lines.push(StyledLine::painted(Ink::Done, &words));
    }
    let mut lines = lines.into_iter();
    let mut first = StyledLine::painted(Ink::Done, &clock(state, event.at_ms)).with(Some(ink), icon);
    first.push(if event.is_guess { " ~" } else { " " });
    let Some(line) = lines.next() else { return Vec::new() };
    first.append(line);
    std::iter::once(first).chain(lines.map(indented)).collect()
}
