//! Detail panel: status of the selected agent, and below it its events, newest last.

mod body;

use ratatui::layout::Rect;
use subscope_model::{Agent, AgentStatus, SessionId, Tree, Usage};
use subscope_render::{Detail, Ink, activity, short_model, style::StyledLine, text};

pub(super) use self::body::event_symbol;
use super::{
    paint::{Canvas, push_parts},
    prose::{self, TextKind},
};
use crate::state::{Panel, UiState};

pub(super) fn draw(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    canvas.add_panel(area, Panel::Detail, 0);
    let (Some(tree), Some(agent)) = (state.tree(), state.agent()) else { return };
    let title = Rect { height: 1, ..area };
    let left = title_of(state, agent, title.width, canvas);
    let right =
        status_summary(state, agent, usize::from(area.width).saturating_sub(left.width() + 8), canvas);
    canvas.titled_rule(title, left, right);
    let inner =
        Rect { x: area.x + 1, y: area.y + 1, width: area.width.saturating_sub(2), height: area.height - 1 };
    let facts = fact_lines(state, tree, agent, inner.width, canvas);
    // At most half of the height, since the events matter more, unless a person has to read a call.
    let most = if agent.waits_for_person() { inner.height } else { inner.height / 2 };
    let shown = facts.len().min(usize::from(most).max(1));
    let is_cut = facts.len() > shown;
    for ((at, mut line), y) in facts.into_iter().take(shown).enumerate().zip(inner.y..inner.bottom()) {
        if is_cut && at + 1 == shown {
            line = line.fit(usize::from(inner.width).saturating_sub(4), "");
            line.paint(Ink::Done, &format!(" {}", canvas.glyphs().ellipsis));
        }
        canvas.line(inner.x, y, inner.width, line);
    }
    let shown = u16::try_from(shown).unwrap_or(0);
    let body = Rect { y: inner.y + shown, height: inner.height.saturating_sub(shown), ..inner };
    body::draw(state, agent, body, canvas);
}

fn title_of(state: &UiState, agent: &Agent, width: u16, canvas: &Canvas<'_>) -> StyledLine {
    let room = (usize::from(width) * 3 / 5).max(16);
    let ink = if state.panel == Panel::Detail { Ink::Strong } else { Ink::Done };
    StyledLine::painted(Ink::of(agent), canvas.glyphs().agent(agent))
        .with(None, " ")
        .with(Some(ink), &canvas.style.one_line(&agent.title(), room))
}

/// Status, model and start time, as far as there is room, for the right end of the title.
fn status_summary(state: &UiState, agent: &Agent, room: usize, canvas: &Canvas<'_>) -> StyledLine {
    let mut line = StyledLine::default();
    let mut parts = vec![(Some(Ink::of(agent)), agent.status.as_str().to_owned())];
    if let Some(model) = &agent.model {
        parts.push((Some(Ink::Done), canvas.style.one_line(short_model(model), 14)));
    }
    if let Some(start) = agent.started_at_ms {
        parts.push((Some(Ink::Done), format!("since {}", state.clock(start))));
    }
    let columns =
        |parts: &[(Option<Ink>, String)]| parts.iter().map(|(_, part)| text::width(part) + 3).sum::<usize>();
    while columns(&parts) > room && parts.len() > 1 {
        parts.pop();
    }
    push_parts(&mut line, parts, canvas.glyphs().dot, usize::MAX);
    line
}

/// Activity, flags, totals, children, evidence and task, as the level of detail allows.
fn fact_lines(
    state: &UiState,
    tree: &Tree,
    agent: &Agent,
    width: u16,
    canvas: &Canvas<'_>,
) -> Vec<StyledLine> {
    let style = canvas.style_of(width);
    let glyphs = style.glyphs();
    let mut lines = Vec::new();
    if let Some((ink, words)) = activity(agent, Some(state.moment_ms()), &style) {
        let mark = if agent.waits_for_person() { glyphs.waiting } else { glyphs.current };
        lines.push(StyledLine::painted(ink, &format!("{mark} {words}")));
    }
    lines.extend(asked_lines(state, &tree.session.id, agent, width, MAX_ASKED_LINES, canvas));
    if !agent.flags.is_empty() {
        let words: Vec<&str> = agent.flags.iter().map(|flag| flag.words()).collect();
        let words = words.join(&canvas.in_charset(" · "));
        lines.push(StyledLine::painted(Ink::Stalled, &format!("{} {words}", glyphs.trouble)));
    }
    if state.settings.detail == Detail::Off || state.settings.detail == Detail::Minimal {
        return lines;
    }
    let mut line = StyledLine::default();
    push_parts(&mut line, usage_parts(agent, canvas), glyphs.dot, usize::from(width));
    lines.push(line);
    // The tree shows the children already.
    if !state.shows_tree() {
        lines.extend(children(tree, agent, usize::from(width), canvas));
    }
    if let Some(evidence) = agent.evidence.as_deref().filter(|_| agent.status != AgentStatus::Completed) {
        let words = style.one_line(&format!("known from: {evidence}"), usize::from(width));
        lines.push(StyledLine::painted(Ink::Done, &words));
    }
    if state.settings.detail == Detail::Moderate
        && let Some(prompt) = &agent.prompt
    {
        lines.extend(task(prompt, 2, width, canvas));
    }
    lines
}

/// The whole call for which an agent waits for permission, wrapped and indented.
pub(super) fn asked_lines(
    state: &UiState,
    session: &SessionId,
    agent: &Agent,
    width: u16,
    most: usize,
    canvas: &Canvas<'_>,
) -> Vec<StyledLine> {
    let Some(call) = state.asked_call(session, agent) else { return Vec::new() };
    let room = usize::from(width).saturating_sub(ASKED_INDENT);
    let lines = prose::lines(call, TextKind::Code, Some(Ink::Strong), room, most, &canvas.style);
    labeled("", ASKED_INDENT, lines)
}

/// Columns before the lines of a call that waits for permission.
const ASKED_INDENT: usize = 4;

/// Most lines of such a call; `e` opens all of it.
const MAX_ASKED_LINES: usize = 12;

fn task(prompt: &str, most: usize, width: u16, canvas: &Canvas<'_>) -> Vec<StyledLine> {
    let room = usize::from(width).saturating_sub(6);
    labeled("Task", 6, prose::lines(prompt, TextKind::Prose, None, room, most, &canvas.style))
}

/// Prepends a label column to lines; the first one gets the label.
fn labeled(label: &str, column: usize, lines: Vec<StyledLine>) -> Vec<StyledLine> {
    let with_label = |(at, line)| {
        let label = if at == 0 { label } else { "" };
        let mut out = StyledLine::painted(Ink::Done, &text::pad(label, column));
        out.append(line);
        out
    };
    lines.into_iter().enumerate().map(with_label).collect()
}

fn usage_parts(agent: &Agent, canvas: &Canvas<'_>) -> Vec<(Option<Ink>, String)> {
    let style = canvas.style;
    let mut parts = vec![(None, text::plural(agent.tool_calls, "tool call"))];
    if agent.tool_errors > 0 {
        parts.push((Some(Ink::Failed), format!("{} failed", agent.tool_errors)));
    }
    if agent.tools_denied > 0 {
        parts.push((Some(Ink::Stalled), format!("{} denied", agent.tools_denied)));
    }
    if let Some(usage) = agent.usage {
        parts.push((None, spent(usage, canvas)));
    }
    if let Some(cost) = agent.cost_micro_usd {
        parts.push((None, style.money(cost, agent.cost_floor)));
    }
    let below = &agent.subtree;
    if below.agents > 1 {
        let mut words = format!("with {} below: {} calls", below.agents - 1, below.tool_calls);
        words.extend(below.usage.map(|usage| format!(", {}", style.usage(Some(usage)))));
        words.extend(below.cost_micro_usd.map(|cost| format!(", {}", style.money(cost, below.cost_floor))));
        parts.push((Some(Ink::Done), words));
    }
    parts
}

fn spent(usage: Usage, canvas: &Canvas<'_>) -> String {
    let tokens = |count| canvas.style.tokens(count, usage.floor);
    format!(
        "{} tokens: {} in, {} cached, {} out",
        tokens(usage.total_tokens),
        tokens(usage.input_tokens + usage.cache_write_tokens),
        tokens(usage.cache_read_tokens),
        tokens(usage.output_tokens)
    )
}

fn children(tree: &Tree, agent: &Agent, width: usize, canvas: &Canvas<'_>) -> Option<StyledLine> {
    let below: Vec<&Agent> =
        tree.agents.iter().filter(|child| child.parent_id.as_ref() == Some(&agent.id)).collect();
    if below.is_empty() {
        return None;
    }
    let parts = below.iter().map(|child| {
        let name = child.agent_type.as_deref().or(child.description.as_deref()).unwrap_or(&child.id);
        let name = canvas.style.one_line(name, 20);
        (Some(Ink::of(child)), format!("{} {name}", canvas.glyphs().icon(child.status)))
    });
    let mut line = StyledLine::painted(Ink::Done, &format!("{} started  ", below.len()));
    push_parts(&mut line, parts.collect(), canvas.glyphs().dot, width);
    Some(line)
}
