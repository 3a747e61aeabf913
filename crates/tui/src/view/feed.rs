//! Everything that happens, a line an event, with the newest at the end.

use std::cmp::Reverse;

use ratatui::layout::Rect;
use subscope_model::{EventKind, Millis, SessionId};
use subscope_render::{Ink, style::Line, text};

use super::{detail::mark_of, mark, paint::Canvas};
use crate::{
    log_entry::LogEntry,
    state::{Extent, Kinds, Panel, Scope, Spot, State},
};

/// Columns of a session's place, where events of several are shown.
const PLACE: usize = 10;

/// An event with its session.
type Told<'a> = (&'a SessionId, &'a LogEntry);

pub(super) fn draw(state: &State, area: Rect, canvas: &mut Canvas<'_>) {
    mark(canvas, area, Panel::Main);
    let inner = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
    let height = usize::from(inner.height);
    let needed = height.saturating_add(state.reading.feed_up);
    let told = newest(state, needed.saturating_add(1));
    let is_all = told.len() <= needed;
    let most = if is_all { told.len().saturating_sub(height) } else { usize::MAX };
    let up = state.reading.feed_up.min(told.len().saturating_sub(height));
    canvas.drawn.feed = Extent { most, height };
    if state.panel == Panel::Main {
        canvas.drawn.page = height;
    }
    if told.is_empty() {
        let words = if state.reading.text.is_empty() {
            "nothing has happened yet"
        } else {
            "nothing that happened has this text"
        };
        canvas.line(inner.x, inner.y, inner.width, super::paint::painted(Ink::Done, words));
        return;
    }
    let mut shown: Vec<Told<'_>> = told.into_iter().skip(up).take(height).collect();
    shown.reverse();
    let selected = state.agent_id();
    for ((session, moment), y) in shown.into_iter().zip(inner.y..inner.bottom()) {
        canvas.line(inner.x, y, inner.width, line(state, session, moment, inner.width, canvas));
        let place = Rect { y, height: 1, ..area };
        if state.reading.scope != Scope::Agent
            && Some(session) == state.session()
            && Some(&moment.agent) == selected.as_ref()
        {
            canvas.select(Rect { width: 1, ..place }, false);
        }
        canvas.spot(place, Spot::LogEntry(session.clone(), moment.agent.clone()));
    }
    super::tree::more(canvas, area, usize::from(most > up), up);
}

/// The newest events that are to be shown, the newest first.
fn newest(state: &State, count: usize) -> Vec<Told<'_>> {
    let agent = state.agent_id();
    let reading = &state.reading;
    let of = |session: &'_ SessionId, moment: &LogEntry| {
        let until = state
            .travel
            .as_ref()
            .filter(|travel| travel.session == *session)
            .map_or(Millis::MAX, |travel| travel.at_ms);
        moment.at_ms.is_none_or(|at| at <= until)
            && (reading.scope != Scope::Agent || Some(&moment.agent) == agent.as_ref())
            && reading.kinds.has(moment.kind)
            && (reading.text.is_empty() || moment.has(&reading.text))
    };
    let logs = state
        .logs
        .sessions()
        .filter(|(session, _)| reading.scope == Scope::Everything || state.session() == Some(*session));
    let mut told: Vec<Told<'_>> = Vec::new();
    for (session, log) in logs {
        let own = log.moments().iter().rev().filter(|moment| of(session, moment)).take(count);
        told.extend(own.map(|moment| (session, moment)));
    }
    if reading.scope == Scope::Everything {
        told.sort_by_key(|(session, moment)| (Reverse(moment.at_ms), *session));
        told.truncate(count);
    }
    told
}

fn line(state: &State, session: &SessionId, moment: &LogEntry, width: u16, canvas: &Canvas<'_>) -> Line {
    let style = canvas.style_of(width);
    let tree = state.trees.get(session);
    let mut line = Line::default();
    let clock = moment.at_ms.map_or_else(String::new, |at| text::clock(at, state.settings.offset_minutes));
    line.paint(Ink::Done, &text::pad(&clock, 9));
    if state.reading.scope == Scope::Everything {
        let cwd = tree.and_then(|tree| tree.session.cwd.as_deref());
        let place = cwd.and_then(|cwd| cwd.trim_end_matches('/').rsplit('/').next()).unwrap_or(session);
        line.paint(Ink::Done, &text::pad(&style.one_line(place, PLACE), PLACE + 1));
    }
    if state.reading.scope != Scope::Agent {
        let room = (usize::from(width) / 3).clamp(10, 34);
        let agents = state.travel().and_then(|travel| travel.tree.as_ref()).or(tree);
        let agent = agents.and_then(|tree| tree.agents.iter().find(|agent| agent.id == moment.agent));
        let title = agent.map_or_else(|| moment.agent.to_string(), subscope_model::Agent::title);
        let title = if moment.agent.is_root() { "main".to_owned() } else { title };
        let guess = if moment.is_guess { "~" } else { "" };
        let words = text::pad(&style.one_line(&format!("{guess}{title}"), room), room + 1);
        line.add(agent.filter(|agent| !agent.status.is_live()).map(|_| Ink::Done), &words);
    }
    let (icon, ink) = mark_of(moment.kind, &moment.words, canvas);
    line.paint(ink, icon);
    line.push(" ");
    let room = usize::from(width).saturating_sub(line.width());
    let tone = match ink {
        Ink::Failed | Ink::Stalled | Ink::Waiting => Some(ink),
        Ink::Running | Ink::Done | Ink::Strong => (moment.kind == EventKind::Reasoning).then_some(Ink::Done),
    };
    line.add(tone, &style.one_line(&moment.words, room));
    line
}

impl Kinds {
    /// Whether a kind of events is among these.
    fn has(self, kind: EventKind) -> bool {
        match self {
            Self::All => true,
            Self::Tools => matches!(
                kind,
                EventKind::ToolPre
                    | EventKind::ToolPost
                    | EventKind::ToolFailure
                    | EventKind::PermissionRequest
                    | EventKind::PermissionDenied
            ),
            Self::Words => {
                matches!(kind, EventKind::AgentMessage | EventKind::UserPrompt | EventKind::Reasoning)
            }
            Self::States => matches!(
                kind,
                EventKind::SubagentStart
                    | EventKind::SubagentStop
                    | EventKind::Stall
                    | EventKind::RunStart
                    | EventKind::RunEnd
                    | EventKind::SessionStart
                    | EventKind::SessionEnd
                    | EventKind::PermissionRequest
                    | EventKind::Retry
            ),
            Self::Troubles => matches!(
                kind,
                EventKind::ToolFailure
                    | EventKind::PermissionDenied
                    | EventKind::Stall
                    | EventKind::Retry
                    | EventKind::Problem
            ),
        }
    }
}
