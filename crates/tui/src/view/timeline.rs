//! Timeline view: one lane per agent on a time axis.

use std::collections::HashMap;

use ratatui::{layout::Rect, style::Style as Look};
use subscope_model::{AgentId, Millis, ToolCall, ToolStatus};
use subscope_render::{
    Ink, TreeRow,
    rows::drawn_levels,
    style::StyledLine,
    text,
    timeline::{Lane, Outline, Span, SpanKind},
    tree::{call_mark, tool_words},
};

use super::{paint::Canvas, sessions::first_in_sight};
use crate::state::{Panel, UiState};

/// Candidate intervals of the time axis's ticks, from a tenth of a second to a week.
#[rustfmt::skip]
const STEPS_MS: [Millis; 22] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000,
    60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000,
    3_600_000, 7_200_000, 14_400_000, 21_600_000, 43_200_000, 86_400_000, 604_800_000,
];

/// Columns that a tick's label needs.
const MARK: f64 = 11.0;

/// The visible time range.
#[derive(Clone, Copy)]
struct Axis {
    from_ms: Millis,
    /// Milliseconds per column.
    step: f64,
    columns: u16,
}

impl Axis {
    fn of(state: &UiState, timeline: &Outline, columns: u16) -> Self {
        let all = (timeline.end_ms - timeline.start_ms).max(1) as f64;
        let shown = all / f64::from(2u32.saturating_pow(state.timeline_view.zoom));
        // `as` saturates; sessions of some years are far below the range.
        let end = timeline.end_ms - shown as Millis;
        let from_ms = state.timeline_view.from_ms.unwrap_or(end).min(end).max(timeline.start_ms);
        Self { from_ms, step: shown / f64::from(columns.max(1)), columns }
    }

    /// The column of a time; may be out of view.
    fn column(&self, at: Millis) -> f64 {
        (at - self.from_ms) as f64 / self.step
    }
}

pub(super) fn draw(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    let (Some(tree), Some(timeline)) = (state.tree(), state.timeline_view.outline.as_ref()) else {
        canvas.add_panel(area, Panel::Main, 0);
        let words = StyledLine::painted(Ink::Done, "nothing in this session has a time");
        return canvas.line(area.x + 1, area.y, area.width, words);
    };
    let has_legend = area.height >= 7;
    let path = format!("critical path {}", timeline.path.sentence());
    // It takes no lane's place, unless there are many.
    let has_room = area.height >= 16 || usize::from(area.height) >= state.rows.len() + 3;
    let has_path = has_legend && has_room && !timeline.path.shares.is_empty();
    let below = u16::from(has_legend) + u16::from(has_path);
    let list = Rect { y: area.y + 1, height: area.height - 1 - below, ..area };
    let height = usize::from(list.height);
    canvas.add_panel(area, Panel::Main, height);
    let name = (area.width / 3).clamp(14, 46);
    let lanes_x = area.x + name + 1;
    let axis = Axis::of(state, timeline, area.width.saturating_sub(name + 3));
    canvas.drawn.axis = Some((axis.from_ms, axis.step));
    ruler(state, &axis, Rect { x: lanes_x, y: area.y, width: axis.columns, height: 1 }, canvas);
    canvas.line(area.x + 1, area.y, name, span_of_all(timeline, canvas));

    let selected = state.selected_row();
    let first = first_in_sight(state.drawn.first_row, selected, height, state.rows.len());
    canvas.drawn.first_row = first;
    let steps = path_of(timeline);
    for ((at, row), y) in state.rows.iter().enumerate().skip(first).zip(list.y..list.bottom()) {
        let Some(agent) = tree.agents.get(row.agent) else { continue };
        canvas.line(list.x + 1, y, name - 1, label(state, row, name - 1, canvas));
        if let Some(lane) = timeline.lane(tree, row.agent) {
            let critical = steps.get(&agent.id).map(Vec::as_slice).unwrap_or_default();
            match row.call.and_then(|call| agent.tools.get(call)) {
                Some(call) => draw_lane(&lane_of_call(&lane, call), critical, &axis, lanes_x, y, canvas),
                None => draw_lane(&lane, critical, &axis, lanes_x, y, canvas),
            }
        }
        let place = Rect { y, height: 1, ..list };
        if Some(at) == selected {
            // A background would hide the bars: the lane is underlined.
            canvas.select(Rect { width: name + 1, ..place }, state.panel == Panel::Main);
            canvas.underline(Rect { x: lanes_x, width: axis.columns, ..place });
        }
        canvas.add_mouse_target(place, super::tree::target_of(tree, row));
    }
    let below = state.rows.len().saturating_sub(first + height);
    super::tree::draw_scroll_arrows(canvas, Rect { height: list.height + 1, ..area }, first, below);
    if has_path {
        let words = canvas.style.one_line(&path, usize::from(area.width - 2));
        let line = StyledLine::painted(Ink::Done, &words);
        canvas.line(area.x + 1, area.bottom() - 2, area.width - 1, line);
    }
    if has_legend {
        legend(state, Rect { y: area.bottom() - 1, height: 1, ..area }, canvas);
    }
}

/// The part of an agent's lane that is one call.
fn lane_of_call(lane: &Lane, call: &ToolCall) -> Lane {
    let is_own = |span: &&Span| {
        span.status.is_some() && span.call_id == call.id && Some(span.from_ms) == call.started_at_ms
    };
    let spans = lane.spans.iter().find(is_own).cloned().into_iter().collect();
    Lane { agent_id: lane.agent_id.clone(), depth: lane.depth, spans }
}

fn span_of_all(timeline: &Outline, canvas: &Canvas<'_>) -> StyledLine {
    let all = text::duration(Some(timeline.end_ms - timeline.start_ms));
    let path: i64 = timeline.critical_path.iter().map(|step| step.to_ms - step.from_ms).sum();
    let path = format!(" {} path {}", canvas.glyphs().dot, text::duration(Some(path)));
    StyledLine::default().with(None, &all).with(Some(Ink::Done), &path)
}

/// An agent's name, indented as in the tree, with its duration.
fn label(state: &UiState, row: &TreeRow, width: u16, canvas: &Canvas<'_>) -> StyledLine {
    let mut line = StyledLine::default();
    let Some(agent) = state.tree().and_then(|tree| tree.agents.get(row.agent)) else { return line };
    let (style, width) = (canvas.style, usize::from(width));
    let glyphs = style.glyphs();
    let now = state.moment_ms();
    line.push(&row.lead(drawn_levels(width), glyphs));
    if let Some(call) = row.call.and_then(|call| agent.tools.get(call)) {
        let (mark, ink) = call_mark(agent, call.status, &style);
        line.paint(ink, mark);
        line.push(" ");
        let room = width.saturating_sub(line.width() + 1);
        line.add(Some(ink), &style.one_line(&tool_words(call, &style), room));
        return line;
    }
    let ink = Ink::of(agent);
    line.paint(ink, glyphs.agent(agent));
    line.push(" ");
    let live = agent.started_at_ms.filter(|_| agent.status.is_live()).map(|start| now - start);
    let span = text::duration(live.or(agent.wall_ms));
    let room = width.saturating_sub(line.width() + text::width(&span) + 1);
    let words = if agent.id.is_root() { "main".to_owned() } else { agent.title() };
    let over = (ink == Ink::Done).then_some(ink);
    line.add(over, &style.one_line(&words, room));
    line.end_at(width, Some(Ink::Done), &span);
    line
}

/// Draws the ticks of the time axis with clock times.
fn ruler(state: &UiState, axis: &Axis, area: Rect, canvas: &mut Canvas<'_>) {
    let least = axis.step * MARK;
    let step =
        STEPS_MS.into_iter().find(|step| *step as f64 >= least).unwrap_or(STEPS_MS[STEPS_MS.len() - 1]);
    let tick = if canvas.style.ascii { "|" } else { "╷" };
    let offset = i64::from(state.settings.offset_minutes) * 60_000;
    let mut at = (axis.from_ms + offset).div_euclid(step) * step - offset;
    if at < axis.from_ms {
        at += step;
    }
    let rule = canvas.theme.rule();
    while axis.column(at) < f64::from(area.width) {
        let x = area.x + axis.column(at) as u16;
        let mut words = state.clock(at);
        if step < 1_000 {
            words += &format!(".{}", at.rem_euclid(1_000) / 100);
        }
        canvas.symbol(x, area.y, tick, rule);
        if x + 1 + words.len() as u16 <= area.right() {
            canvas.line(x + 1, area.y, words.len() as u16, StyledLine::painted(Ink::Done, &words));
        }
        at += step;
    }
}

/// One column of a lane.
#[derive(Clone, Copy, Default)]
struct Cell {
    kind: Option<SpanKind>,
    is_error: bool,
    is_open: bool,
    /// Fraction of the column covered by tool calls.
    covered: f64,
}

/// Priority of span kinds that share a column.
fn rank(kind: SpanKind) -> u8 {
    match kind {
        SpanKind::Permission => 5,
        SpanKind::Retry => 4,
        SpanKind::Tool => 3,
        SpanKind::Children => 2,
        SpanKind::Model => 1,
    }
}

fn draw_lane(lane: &Lane, critical: &[[Millis; 2]], axis: &Axis, x: u16, y: u16, canvas: &mut Canvas<'_>) {
    let width = f64::from(axis.columns);
    let mut cells = vec![Cell::default(); usize::from(axis.columns)];
    for span in &lane.spans {
        let (from, to) = (axis.column(span.from_ms), axis.column(span.to_ms));
        if to < 0.0 || from >= width {
            continue;
        }
        let (from, to) = (from.max(0.0), to.min(width));
        // A span takes at least one column.
        let last = (to.ceil() as usize).max(from as usize + 1).min(cells.len());
        for (at, cell) in cells.iter_mut().enumerate().take(last).skip(from as usize) {
            if cell.kind.is_none_or(|kind| rank(span.kind) > rank(kind)) {
                cell.kind = Some(span.kind);
            }
            if span.kind == SpanKind::Tool {
                cell.covered += (to.min(at as f64 + 1.0) - from.max(at as f64)).max(0.0);
                cell.is_error |= span.status == Some(ToolStatus::Error);
                cell.is_open |= span.status == Some(ToolStatus::Open);
            }
        }
    }
    let mut path = critical.iter().peekable();
    for (at, cell) in cells.iter().enumerate() {
        let Some(kind) = cell.kind else { continue };
        // `as` saturates.
        let [from, to] = [at, at + 1].map(|column| axis.from_ms + (column as f64 * axis.step) as Millis);
        while path.next_if(|step| step[1] <= from).is_some() {}
        let is_critical = path.peek().is_some_and(|step| step[0] < to);
        let (symbol, look) = cell_symbol(kind, cell, is_critical, canvas);
        canvas.symbol(x + at as u16, y, symbol, look);
    }
    draw_names(lane, critical, axis, x, y, canvas);
}

/// Writes the names of tools into their bars, or the first letter where there is no room, so that kinds of calls can be
/// distinguished without color.
fn draw_names(lane: &Lane, critical: &[[Millis; 2]], axis: &Axis, x: u16, y: u16, canvas: &mut Canvas<'_>) {
    let mut free_from = 0;
    for span in lane.spans.iter().filter(|span| span.kind == SpanKind::Tool) {
        // `as` saturates.
        let from = axis.column(span.from_ms).max(0.0).ceil() as u16;
        let to = axis.column(span.to_ms).clamp(0.0, f64::from(axis.columns)).floor() as u16;
        if from < free_from || to < from + LEAST_NAME {
            continue;
        }
        let is_critical = critical.iter().any(|[begin, end]| *begin < span.to_ms && span.from_ms < *end);
        let ink = match span.status {
            Some(ToolStatus::Error) => Ink::Failed,
            Some(ToolStatus::Open) => Ink::Running,
            Some(ToolStatus::Ok | ToolStatus::Denied) | None if is_critical => Ink::Strong,
            Some(ToolStatus::Ok | ToolStatus::Denied) | None => Ink::Done,
        };
        let name = canvas.style.one_line(span.name.as_deref().unwrap_or_default(), usize::from(axis.columns));
        let room = usize::from(to - from);
        let name = if text::width(&name) > room { text::truncate_with(&name, 1, "") } else { name };
        canvas.label(x + from, y, &name, canvas.theme.ink(Some(ink)).reversed());
        free_from = to;
    }
}

/// Least columns of a bar with the name of its tool.
const LEAST_NAME: u16 = 2;

fn cell_symbol(kind: SpanKind, cell: &Cell, is_critical: bool, canvas: &Canvas<'_>) -> (&'static str, Look) {
    let ink = match kind {
        SpanKind::Tool if cell.is_error => Ink::Failed,
        SpanKind::Tool if cell.is_open => Ink::Running,
        SpanKind::Permission => Ink::Waiting,
        SpanKind::Retry => Ink::Stalled,
        SpanKind::Tool | SpanKind::Model | SpanKind::Children if is_critical => Ink::Strong,
        SpanKind::Tool => Ink::Done,
        SpanKind::Model | SpanKind::Children => {
            return (symbol(kind, cell.covered, canvas), canvas.theme.rule());
        }
    };
    (symbol(kind, cell.covered, canvas), canvas.theme.ink(Some(ink)))
}

/// Symbol of a span kind; of a tool call by the fraction of the column that it covers.
fn symbol(kind: SpanKind, covered: f64, canvas: &Canvas<'_>) -> &'static str {
    let [unicode, ascii] = match kind {
        SpanKind::Tool if covered >= 0.6 => ["█", "#"],
        SpanKind::Tool if covered >= 0.25 => ["▌", "#"],
        SpanKind::Tool => ["▏", "|"],
        SpanKind::Model => ["─", "-"],
        SpanKind::Children => ["╌", "="],
        SpanKind::Permission => ["┈", "."],
        SpanKind::Retry => ["▒", "%"],
    };
    if canvas.style.ascii { ascii } else { unicode }
}

fn legend(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    let mut line = StyledLine::default();
    let parts = [
        (Ink::Done, SpanKind::Tool, "tool"),
        (Ink::Failed, SpanKind::Tool, "failed"),
        (Ink::Done, SpanKind::Model, "model"),
        (Ink::Done, SpanKind::Children, "subagents"),
        (Ink::Waiting, SpanKind::Permission, "waits for you"),
        (Ink::Strong, SpanKind::Model, "critical path"),
        (Ink::Stalled, SpanKind::Retry, "retries"),
    ];
    for (ink, kind, words) in parts {
        let symbol = symbol(kind, 1.0, canvas);
        if line.width() + text::width(words) + 6 > usize::from(area.width) {
            break;
        }
        line.paint(ink, &format!(" {symbol}{symbol} "));
        line.paint(Ink::Done, &format!("{words} "));
    }
    if state.timeline_view.zoom > 0 {
        let scale = 2u32.saturating_pow(state.timeline_view.zoom);
        line.paint(Ink::Done, &format!(" {}{scale}", canvas.glyphs().times));
    }
    canvas.line(area.x, area.y, area.width, line);
}

/// The critical path by agent, in chronological order.
fn path_of(timeline: &Outline) -> HashMap<&AgentId, Vec<[Millis; 2]>> {
    let mut path: HashMap<&AgentId, Vec<[Millis; 2]>> = HashMap::new();
    for step in &timeline.critical_path {
        path.entry(&step.agent_id).or_default().push([step.from_ms, step.to_ms]);
    }
    path
}
