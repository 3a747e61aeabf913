//! Feed view: one line per event, newest last. A tool call is one line, at its start, which also shows its status and
//! duration.

use std::cmp::Reverse;

use ratatui::layout::Rect;
use subscope_model::{Agent, EventKind, Millis, SessionId, ToolCall, ToolStatus};
use subscope_render::{Ink, Style, style::StyledLine, text, tree::call_mark};

use super::{detail::event_symbol, paint::Canvas};
use crate::{
    log_entry::LogEntry,
    state::{EventFilter, FeedScope, MouseTarget, Panel, UiState, logs::EventLog},
};

/// Columns of the session's directory, shown in the scope of all sessions.
const PLACE: usize = 10;

/// An event with its session.
type FeedRow<'a> = (&'a SessionId, &'a LogEntry);

pub(super) fn draw(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    let inner = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
    let height = usize::from(inner.height);
    let needed = height.saturating_add(state.reading.feed_up);
    let rows = newest(state, needed.saturating_add(1));
    let is_all = rows.len() <= needed;
    let most = if is_all { rows.len().saturating_sub(height) } else { usize::MAX };
    let up = state.reading.feed_up.min(rows.len().saturating_sub(height));
    canvas.drawn.most_feed_up = most;
    canvas.add_panel(area, Panel::Main, height);
    if rows.is_empty() {
        let is_searched = !state.reading.text.is_empty();
        let words =
            if is_searched { "nothing that happened has this text" } else { "nothing has happened yet" };
        canvas.line(inner.x, inner.y, inner.width, StyledLine::painted(Ink::Done, words));
        return;
    }
    let mut shown: Vec<FeedRow<'_>> = rows.into_iter().skip(up).take(height).collect();
    shown.reverse();
    let selected = state.agent_id();
    for ((session, entry), y) in shown.into_iter().zip(inner.y..inner.bottom()) {
        canvas.line(inner.x, y, inner.width, line(state, session, entry, inner.width, canvas));
        let place = Rect { y, height: 1, ..area };
        if state.reading.scope != FeedScope::Agent
            && Some(session) == state.session()
            && Some(&entry.agent) == selected.as_ref()
        {
            canvas.select(Rect { width: 1, ..place }, false);
        }
        canvas.add_mouse_target(place, MouseTarget::Event(session.clone(), entry.agent.clone()));
    }
    super::tree::draw_scroll_arrows(canvas, area, usize::from(most > up), up);
}

/// Returns the newest events that pass the filters, newest first, at most `count`.
fn newest(state: &UiState, count: usize) -> Vec<FeedRow<'_>> {
    let agent = state.agent_id();
    let reading = &state.reading;
    let is_shown = |session: &'_ SessionId, log: &EventLog, entry: &LogEntry| {
        let travel = state.travel.as_ref().filter(|travel| travel.session == *session);
        let until = travel.map_or(Millis::MAX, |travel| travel.at_ms);
        entry.at_ms.is_none_or(|at| at <= until)
            && (reading.scope != FeedScope::Agent || Some(&entry.agent) == agent.as_ref())
            && reading.kinds.has(entry.kind)
            && (reading.kinds == EventFilter::Troubles || !log.is_end_of_begun(entry))
            && (reading.text.is_empty() || entry.has(&reading.text))
    };
    let logs = state
        .logs
        .sessions()
        .filter(|(session, _)| reading.scope == FeedScope::Everything || state.session() == Some(*session));
    let mut rows: Vec<FeedRow<'_>> = Vec::new();
    for (session, log) in logs {
        let own = log.entries().iter().rev().filter(|entry| is_shown(session, log, entry)).take(count);
        rows.extend(own.map(|entry| (session, entry)));
    }
    if reading.scope == FeedScope::Everything {
        rows.sort_by_key(|(session, entry)| (Reverse(entry.at_ms), *session));
        rows.truncate(count);
    }
    rows
}

fn line(
    state: &UiState,
    session: &SessionId,
    entry: &LogEntry,
    width: u16,
    canvas: &Canvas<'_>,
) -> StyledLine {
    let style = canvas.style_of(width);
    let tree = state.trees.get(session);
    let clock = entry.at_ms.map(|at| state.clock(at)).unwrap_or_default();
    let mut line = StyledLine::painted(Ink::Done, &text::pad(&clock, 9));
    if state.reading.scope == FeedScope::Everything {
        let place = tree.map(|tree| {
            let session = &tree.session;
            text::place_name(session.cwd.as_deref(), session.project.as_deref())
        });
        let place = place.unwrap_or_else(|| session.as_str().into());
        line.paint(Ink::Done, &text::pad(&style.one_line(&place, PLACE), PLACE + 1));
    }
    let agents = state.travel().and_then(|travel| travel.tree.as_ref()).or(tree);
    let agent = agents.and_then(|tree| tree.agents.iter().find(|agent| agent.id == entry.agent));
    if state.reading.scope != FeedScope::Agent {
        let room = (usize::from(width) / 3).clamp(10, 34);
        let title = agent.map_or_else(|| entry.agent.to_string(), subscope_model::Agent::title);
        let title = if entry.agent.is_root() { "main".to_owned() } else { title };
        let guess = if entry.is_guess { "~" } else { "" };
        let words = text::pad(&style.one_line(&format!("{guess}{title}"), room), room + 1);
        line.add(agent.filter(|agent| !agent.status.is_live()).map(|_| Ink::Done), &words);
    }
    let call = agent.zip(entry.call.as_deref().filter(|_| entry.kind == EventKind::ToolPre));
    if let Some((agent, call)) = call.and_then(|(agent, id)| Some((agent, call_of(agent, id)?))) {
        push_call(&mut line, state, session, entry, (agent, call), &style);
        return line;
    }
    let (icon, ink) = event_symbol(entry.kind, &entry.words, canvas);
    line.paint(ink, icon);
    line.push(" ");
    let room = usize::from(width).saturating_sub(line.width());
    let tone = match ink {
        Ink::Failed | Ink::Stalled | Ink::Waiting => Some(ink),
        Ink::Running | Ink::Done | Ink::Strong => (entry.kind == EventKind::Reasoning).then_some(Ink::Done),
    };
    line.add(tone, &style.one_line(&entry.words, room));
    line
}

fn call_of<'a>(agent: &'a Agent, id: &str) -> Option<&'a ToolCall> {
    agent.tools.iter().rev().find(|call| call.id.as_ref().is_some_and(|known| known.as_str() == id))
}

/// Appends a call's status, detail, error and duration.
fn push_call(
    line: &mut StyledLine,
    state: &UiState,
    session: &SessionId,
    entry: &LogEntry,
    (agent, call): (&Agent, &ToolCall),
    style: &Style,
) {
    let (mark, ink) = call_mark(agent, call.status, style);
    let is_open = call.status == ToolStatus::Open && agent.status.is_live();
    let until = call.ended_at_ms.or(is_open.then(|| state.moment_ms()));
    let span =
        entry.at_ms.or(call.started_at_ms).zip(until).map(|(from, to)| text::duration(Some(to - from)));
    let span = span.map(|span| format!("  {span}")).unwrap_or_default();
    line.paint(ink, mark);
    line.push(" ");
    let room = style.width.saturating_sub(line.width() + text::width(&span));
    let has_failed = matches!(call.status, ToolStatus::Error | ToolStatus::Denied);
    line.add(has_failed.then_some(ink), &style.one_line(&entry.words, room));
    let end = call.id.as_ref().filter(|_| call.status == ToolStatus::Error);
    let end = end.and_then(|id| state.logs.get(session)?.end_of(id.as_str()));
    if let Some((_, error)) = end.and_then(|end| end.words.split_once(' ')) {
        let room = style.width.saturating_sub(line.width() + text::width(&span) + 2);
        if room > 8 {
            line.paint(ink, &format!("  {}", style.one_line(error, room)));
        }
    }
    line.paint(Ink::Done, &span);
}

impl EventFilter {
    /// Whether an event kind passes the filter.
    fn has(self, kind: EventKind) -> bool {
        use EventKind as Kind;
        match self {
            Self::All => true,
            Self::Tools => matches!(
                kind,
                Kind::ToolPre
                    | Kind::ToolPost
                    | Kind::ToolFailure
                    | Kind::PermissionRequest
                    | Kind::PermissionDenied
            ),
            Self::Words => matches!(kind, Kind::AgentMessage | Kind::UserPrompt | Kind::Reasoning),
            Self::States => matches!(
                kind,
                Kind::SubagentStart
                    | Kind::SubagentStop
                    | Kind::Stall
                    | Kind::RunStart
                    | Kind::RunEnd
                    | Kind::SessionStart
                    | Kind::SessionEnd
                    | Kind::PermissionRequest
                    | Kind::Retry
            ),
            Self::Troubles => matches!(
                kind,
                Kind::ToolFailure | Kind::PermissionDenied | Kind::Stall | Kind::Retry | Kind::Problem
            ),
        }
    }
}
