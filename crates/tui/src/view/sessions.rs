//! The session list.

use ratatui::layout::Rect;
use subscope_model::{Flag, SessionRow, SessionStatus};
use subscope_render::{Ink, style::StyledLine, table::ago, text};

use super::paint::Canvas;
use crate::state::{MouseTarget, Panel, UiState, trees::waits_for_permission};

/// From this width on, usage columns are shown.
const WIDE: u16 = 56;

/// Most columns of the session's directory.
const PLACE: usize = 10;

pub(super) fn draw(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    let has_focus = state.panel == Panel::Sessions;
    let count = state.sessions.rows.len();
    let more = if state.sessions.has_more() { "+" } else { "" };
    let ink = if has_focus { Ink::Strong } else { Ink::Done };
    let title = StyledLine::painted(ink, &format!("Sessions {count}{more}"));
    let right = if area.width >= WIDE { "agents   tokens      cost   ago" } else { "" };
    canvas.titled_rule(Rect { height: 1, ..area }, title, StyledLine::painted(Ink::Done, right));
    let list = Rect { y: area.y + 1, height: area.height - 1, ..area };
    let height = usize::from(list.height);
    let selected = state.sessions.selected_index();
    let first = first_in_sight(state.drawn.first_session, selected, height, count);
    canvas.drawn.first_session = first;
    canvas.add_panel(area, Panel::Sessions, height);
    if count == 0 {
        let words = if state.is_caught_up { "none yet" } else { "reading…" };
        let line = StyledLine::painted(Ink::Done, &canvas.in_charset(words));
        canvas.line(list.x + 2, list.y, list.width - 2, line);
    }
    let in_sight = || state.sessions.rows.iter().skip(first).take(height);
    let widest = in_sight().map(|row| text::width(place_of(row))).max().unwrap_or(0).min(PLACE);
    for (row, y) in in_sight().zip(list.y..list.bottom()) {
        let line = line(state, row, list.width, widest, canvas);
        let place = Rect { y, height: 1, ..list };
        canvas.line(list.x, y, list.width, line);
        if state.session() == Some(&row.id) {
            canvas.select(place, has_focus);
        }
        canvas.add_mouse_target(place, MouseTarget::Session(row.id.clone()));
    }
}

/// Returns the index of the first visible item: unchanged, unless the selected item would be out of view.
pub(super) fn first_in_sight(before: usize, selected: Option<usize>, height: usize, count: usize) -> usize {
    let most = count.saturating_sub(height);
    let first = before.min(most);
    match selected {
        Some(at) if at < first => at,
        Some(at) if at >= first + height => (at + 1).saturating_sub(height),
        _ => first,
    }
}

/// The last component of the session's working directory.
fn place_of(row: &SessionRow) -> &str {
    row.cwd.as_deref().map(text::base_name).unwrap_or_default()
}

fn line(state: &UiState, row: &SessionRow, width: u16, widest: usize, canvas: &Canvas<'_>) -> StyledLine {
    let style = canvas.style;
    let glyphs = style.glyphs();
    let (icon, ink) = icon(state, row, canvas);
    let is_live = row.status == SessionStatus::Live;
    let over = (!is_live).then_some(Ink::Done);
    let mut line = StyledLine::default().with(None, " ").with(Some(ink), icon).with(None, " ");
    let age = row.last_event_at_ms.map_or_else(|| glyphs.unknown.to_owned(), |at| ago(state.now_ms - at));
    let mut right = StyledLine::default();
    if width >= WIDE {
        let agents = if is_live && row.running > 0 {
            format!("{}/{}", row.running, row.agents)
        } else {
            row.agents.to_string()
        };
        let cells = [agents, style.usage(row.usage), style.cost(row.cost_micro_usd, false), age];
        right.cells(0, [6, 9, 10, 6].map(Some), cells.map(|words| (over, words)));
    } else {
        if row.failed > 0 {
            right.paint(Ink::Failed, &format!("{}{}", glyphs.failed, row.failed));
            right.push(" ");
        }
        if !is_live {
            right.paint(Ink::Done, &age);
        } else if row.running > 0 {
            right.paint(ink, &row.running.to_string());
        }
    }
    let room = usize::from(width).saturating_sub(line.width() + right.width() + 2);
    let widest = widest.min(room);
    let place = style.one_line(place_of(row), widest);
    line.add(over, &text::pad(&place, widest));
    let title = row.title.as_deref().unwrap_or(&row.id);
    let title = style.one_line(title, room.saturating_sub(widest + 1));
    line.push(" ");
    line.add(over, &title);
    line.end_at(usize::from(width).saturating_sub(right.width() + 1), None, "");
    line.append(right);
    line
}

/// Icon of a live session by its worst agent (waiting, stalled, running); a dot for ended ones.
fn icon(state: &UiState, row: &SessionRow, canvas: &Canvas<'_>) -> (&'static str, Ink) {
    let glyphs = canvas.glyphs();
    if row.status == SessionStatus::Ended {
        return (glyphs.dot, Ink::Done);
    }
    let agents = state.trees.get(&row.id).map(|tree| tree.agents.as_slice()).unwrap_or_default();
    if agents.iter().any(waits_for_permission) {
        ("?", Ink::Waiting)
    } else if agents.iter().any(|agent| agent.status.is_live() && agent.has(Flag::Stalled)) {
        ("!", Ink::Stalled)
    } else {
        (glyphs.running, Ink::Running)
    }
}
