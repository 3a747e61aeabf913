//! Detail panel: status of the selected agent, and below it its events, newest last.

mod body;

use ratatui::layout::Rect;
use subscope_model::{Agent, AgentStatus, Tree, Usage};
use subscope_render::{Detail, Ink, activity, short_model, style::StyledLine, text};

pub(super) use self::body::event_symbol;
use super::{
    add_panel_target,
    paint::{Canvas, push_parts},
    prose::{self, TextKind},
};
use crate::state::{Panel, UiState};

pub(super) fn draw(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    add_panel_target(canvas, area, Panel::Detail);
    let (Some(tree), Some(agent)) = (state.tree(), state.agent()) else { return };
    let title = Rect { height: 1, ..area };
    let (left, right) = (title_of(state, agent, title.width, canvas), status_summary(state, agent, canvas));
    canvas.titled_rule(title, &left, &right);
    let inner =
        Rect { x: area.x + 1, y: area.y + 1, width: area.width.saturating_sub(2), height: area.height - 1 };
    let facts = fact_lines(state, tree, agent, inner.width, canvas);
    // At most half of the height, since the events matter more.
    let shown = facts.len().min(usize::from(inner.height / 2).max(1));
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
    let mut line = StyledLine::default();
    let room = usize::from(width).saturating_sub(30).max(16);
    let has_focus = state.panel == Panel::Detail;
    line.paint(Ink::of(agent), canvas.glyphs().icon(agent.status));
    line.push(" ");
    let words = canvas.style.one_line(&agent.title(), room);
    line.add(Some(if has_focus { Ink::Strong } else { Ink::Done }), &words);
    line
}

/// Status, model and start time, for the right end of the title.
fn status_summary(state: &UiState, agent: &Agent, canvas: &Canvas<'_>) -> StyledLine {
    let mut line = StyledLine::default();
    let mut parts = vec![(Some(Ink::of(agent)), agent.status.as_str().to_owned())];
    if let Some(model) = &agent.model {
        parts.push((Some(Ink::Done), canvas.style.one_line(short_model(model), 14)));
    }
    if let Some(start) = agent.started_at_ms {
        parts.push((Some(Ink::Done), format!("since {}", text::clock(start, state.settings.offset_minutes))));
    }
    push_parts(&mut line, parts, canvas.glyphs().dot, 60);
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
        let mut line = StyledLine::default();
        line.paint(ink, &format!("{} {words}", glyphs.current));
        lines.push(line);
    }
    if !agent.flags.is_empty() {
        let mut line = StyledLine::default();
        let words: Vec<&str> = agent.flags.iter().map(|flag| flag.as_str()).collect();
        line.paint(Ink::Stalled, &format!("! {}", words.join(&canvas.in_charset(" · "))));
        lines.push(line);
    }
    if state.settings.detail == Detail::Off || state.settings.detail == Detail::Minimal {
        return lines;
    }
    let mut line = StyledLine::default();
    push_parts(&mut line, usage_parts(agent, canvas), glyphs.dot, usize::from(width));
    lines.push(line);
    if let Some(line) = children(tree, agent, usize::from(width), canvas) {
        lines.push(line);
    }
    if let Some(evidence) = agent.evidence.as_deref().filter(|_| agent.status != AgentStatus::Completed) {
        let mut line = StyledLine::default();
        line.paint(Ink::Done, &style.one_line(&format!("known from: {evidence}"), usize::from(width)));
        lines.push(line);
    }
    if state.settings.detail == Detail::Moderate
        && let Some(prompt) = &agent.prompt
    {
        lines.extend(task(prompt, 2, width, canvas));
    }
    lines
}

fn task(prompt: &str, most: usize, width: u16, canvas: &Canvas<'_>) -> Vec<StyledLine> {
    let room = usize::from(width).saturating_sub(6);
    let wrapped = prose::lines(prompt, TextKind::Prose, None, room, most, &canvas.style);
    wrapped
        .into_iter()
        .enumerate()
        .map(|(at, line)| with_label(if at == 0 { "Task" } else { "" }, 6, line))
        .collect()
}

/// Prepends a label column to a line.
fn with_label(word: &str, column: usize, line: StyledLine) -> StyledLine {
    let mut out = StyledLine::default();
    out.paint(Ink::Done, &text::pad(word, column));
    line.parts().for_each(|(ink, part)| out.add(ink, part));
    out
}

fn usage_parts(agent: &Agent, canvas: &Canvas<'_>) -> Vec<(Option<Ink>, String)> {
    let style = canvas.style;
    let mut parts = Vec::new();
    let calls = match agent.tool_calls {
        1 => "1 tool call".to_owned(),
        calls => format!("{calls} tool calls"),
    };
    parts.push((None, calls));
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
    if agent.subtree.agents > 1 {
        let tokens =
            agent.subtree.usage.map(|usage| format!(", {}", style.tokens(usage.total_tokens, usage.floor)));
        let cost = agent
            .subtree
            .cost_micro_usd
            .map(|cost| format!(", {}", style.money(cost, agent.subtree.cost_floor)));
        let words = format!(
            "with {} below: {} calls{}{}",
            agent.subtree.agents - 1,
            agent.subtree.tool_calls,
            tokens.unwrap_or_default(),
            cost.unwrap_or_default()
        );
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
        (
            Some(Ink::of(child)),
            format!("{} {}", canvas.glyphs().icon(child.status), canvas.style.one_line(name, 20)),
        )
    });
    let mut line = StyledLine::default();
    line.paint(Ink::Done, &format!("{} started  ", below.len()));
    push_parts(&mut line, parts.collect(), canvas.glyphs().dot, width);
    Some(line)
}
