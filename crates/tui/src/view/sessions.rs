//! The session list.

use std::borrow::Cow;

use ratatui::layout::Rect;
use subscope_model::{SessionRow, SessionStatus};
use subscope_render::{Ink, style::StyledLine, table::ago, text};

use super::paint::Canvas;
use crate::state::{MouseTarget, Panel, UiState, reports::Place};

/// From this width on, a session has one line with columns.
const WIDE: u16 = 56;

/// From this height on, a narrow list has two lines a session.
const HIGH: u16 = 18;

/// Most columns of the session's directory, and the fewest of a longer one.
const PLACE: usize = 14;
const LEAST_PLACE: usize = 4;

pub(super) fn draw(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    let has_focus = state.panel == Panel::Sessions;
    let count = state.sessions.rows.len();
    let more = if state.sessions.has_more { "+" } else { "" };
    let ink = if has_focus { Ink::Strong } else { Ink::Done };
    let of = state.sessions.machine.as_ref().map(|machine| format!(" of {machine}")).unwrap_or_default();
    let title = StyledLine::painted(ink, &canvas.in_charset(&format!("Sessions{of} {count}{more}")));
    let is_wide = area.width >= WIDE;
    let right = if is_wide { "agents   tokens      cost   ago" } else { "" };
    canvas.titled_rule(Rect { height: 1, ..area }, title, StyledLine::painted(Ink::Done, right));
    let list = Rect { y: area.y + 1, height: area.height - 1, ..area };
    let lines_each = if !is_wide && list.height >= HIGH { 2 } else { 1 };
    let height = usize::from(list.height / lines_each);
    let first = first_in_sight(state.drawn.first_session, state.sessions.selected_index(), height, count);
    canvas.drawn.first_session = first;
    canvas.add_panel(area, Panel::Sessions, height);
    if count == 0 {
        let words = if state.is_caught_up { "none yet" } else { "reading…" };
        let line = StyledLine::painted(Ink::Done, &canvas.in_charset(words));
        canvas.line(list.x + 2, list.y, list.width - 2, line);
    }
    let in_sight = || state.sessions.rows.iter().skip(first).take(height);
    let widest = in_sight().map(|row| text::width(&place_of(row))).max().unwrap_or(0).min(PLACE);
    for (row, y) in in_sight().zip((list.y..list.bottom()).step_by(usize::from(lines_each))) {
        let place = Rect { y, height: lines_each, ..list };
        if is_wide {
            canvas.line(list.x, y, list.width, wide_line(state, row, list.width, widest, canvas));
        } else {
            canvas.line(list.x, y, list.width, title_line(state, row, list.width, canvas));
        }
        if lines_each > 1 {
            canvas.line(list.x, y + 1, list.width, facts_line(state, row, list.width, canvas));
        }
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

/// The session's project: the last component of its working directory, after that of its project if it is in a work tree. In a team's list its user and the project's name, of another machine's session that machine.
pub(super) fn place_of(row: &SessionRow) -> Cow<'_, str> {
    let project = text::place_name(row.cwd.as_deref(), row.project.as_deref());
    match row.user.as_deref().or(row.machine.as_deref()) {
        None => project,
        Some(user) if project.is_empty() => user.into(),
        Some(user) => format!("{user}: {project}").into(),
    }
}

/// The color of all text of an ended session that has been read.
pub(super) fn over(state: &UiState, row: &SessionRow) -> Option<Ink> {
    let is_read = !state.inbox.has_ended(&row.id);
    (row.status == SessionStatus::Ended && is_read).then_some(Ink::Done)
}

/// The color of the title of a session: strong until the end of the session has been read.
pub(super) fn title_ink(state: &UiState, row: &SessionRow) -> Option<Ink> {
    let is_unread = state.inbox.has_ended(&row.id);
    if is_unread { Some(Ink::Strong) } else { over(state, row) }
}

/// Time since the last event, in one unit.
pub(super) fn quiet(state: &UiState, row: &SessionRow, canvas: &Canvas<'_>) -> String {
    let unknown = || canvas.glyphs().unknown.to_owned();
    row.last_event_at_ms.map_or_else(unknown, |at| ago(state.now_ms - at))
}

/// The letter of a session that is marked for the comparison, else a blank.
pub(super) fn mark_of(state: &UiState, row: &SessionRow) -> StyledLine {
    let place = Place { session: row.id.clone(), agent: None };
    StyledLine::painted(Ink::Strong, state.reports.letter(&place).unwrap_or(" "))
}

/// Mark and title.
fn title_line(state: &UiState, row: &SessionRow, width: u16, canvas: &Canvas<'_>) -> StyledLine {
    let (icon, ink) = canvas.glyphs().session(row);
    let mut line = mark_of(state, row).with(Some(ink), icon).with(None, " ");
    let title = row.title.as_deref().unwrap_or(&row.id);
    let room = usize::from(width).saturating_sub(line.width() + 1);
    line.add(title_ink(state, row), &canvas.style.one_line(title, room));
    line
}

/// Project, agents, failures, cost and age, below a title.
fn facts_line(state: &UiState, row: &SessionRow, width: u16, canvas: &Canvas<'_>) -> StyledLine {
    let style = canvas.style;
    let age = quiet(state, row, canvas);
    let mut line = StyledLine::default().with(None, "   ");
    let gap = format!(" {} ", style.glyphs().dot);
    // Each part has a gap, but for the first.
    let mut room =
        (usize::from(width) + text::width(&gap)).saturating_sub(line.width() + text::width(&age) + 2);
    // Parts are fitted in this order, and drawn in order of position.
    let cost = row.cost_micro_usd.map(|cost| (Some(Ink::Done), style.money(cost, row.cost_floor)));
    let failed =
        (row.failed > 0).then(|| (Some(Ink::Failed), format!("{}{}", style.glyphs().failed, row.failed)));
    let (ink, number) = match (row.running, row.agents) {
        (0, agents) => (Ink::Done, agents.to_string()),
        (running, agents) => (Ink::Running, format!("{running}/{agents}")),
    };
    let word = if row.agents == 1 { "agent" } else { "agents" };
    let agents = (row.agents > 0).then(|| (Some(ink), format!("{number} {word}")));
    let mut parts: [Option<(Option<Ink>, String)>; 4] = [None, agents, failed, cost];
    for place in [3, 2, 1] {
        let needs = |part: &str| text::width(part) + text::width(&gap);
        let part = parts.get_mut(place).filter(|part| part.is_some());
        let Some((ink, words)) = part.and_then(Option::take) else { continue };
        let shown = if needs(&words) <= room || place != 1 { words } else { number.clone() };
        if needs(&shown) <= room {
            room -= needs(&shown);
            parts[place] = Some((ink, shown));
        }
    }
    let project = style.one_line(&place_of(row), room.saturating_sub(text::width(&gap)).min(PLACE));
    // A narrower name is useless.
    parts[0] = (text::width(&project) >= LEAST_PLACE.min(text::width(&place_of(row))) && !project.is_empty())
        .then_some((Some(Ink::Done), project));
    for (at, (ink, part)) in parts.into_iter().flatten().enumerate() {
        if at > 0 {
            line.paint(Ink::Done, &gap);
        }
        line.add(ink, &part);
    }
    line.end_at(usize::from(width).saturating_sub(1), Some(Ink::Done), &age);
    line
}

/// Mark, project, title, and figures in columns.
fn wide_line(
    state: &UiState,
    row: &SessionRow,
    width: u16,
    widest: usize,
    canvas: &Canvas<'_>,
) -> StyledLine {
    let style = canvas.style;
    let (icon, ink) = style.glyphs().session(row);
    let over = over(state, row);
    let mut line = mark_of(state, row).with(Some(ink), icon).with(None, " ");
    let mut right = StyledLine::default();
    let agents = match row.running {
        0 => row.agents.to_string(),
        running => format!("{running}/{}", row.agents),
    };
    let cost = style.cost(row.cost_micro_usd, row.cost_floor);
    let cells = [agents, style.usage(row.usage), cost, quiet(state, row, canvas)];
    right.cells(0, [6, 9, 10, 6].map(Some), cells.map(|words| (over, words)));
    let room = usize::from(width).saturating_sub(line.width() + right.width() + 2);
    let widest = widest.min(room / 3);
    line.add(over, &text::pad(&style.one_line(&place_of(row), widest), widest));
    line.push(" ");
    let title = row.title.as_deref().unwrap_or(&row.id);
    line.add(title_ink(state, row), &style.one_line(title, room.saturating_sub(widest + 1)));
    line.end_at(usize::from(width).saturating_sub(right.width() + 1), None, "");
    line.append(right);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_is_the_folder_and_in_a_team_the_user_and_the_project() {
        let row = |cwd: Option<&str>, user: Option<&str>, project: Option<&str>| SessionRow {
            cwd: cwd.map(Into::into),
            user: user.map(Into::into),
            project: project.map(Into::into),
            ..SessionRow::empty("s".into())
        };
        for (cwd, user, project, shown) in [
            (Some("/home/user/shop"), None, None, "shop"),
            (None, None, None, ""),
            (Some("/home/user/fix-cart"), None, Some("/home/user/shop"), "shop/fix-cart"),
            (None, Some("ana"), Some("shop"), "ana: shop"),
            (None, Some("ana"), None, "ana"),
            (Some("/x/cart"), Some("ana"), None, "ana: cart"),
        ] {
            assert_eq!(place_of(&row(cwd, user, project)), shown);
        }
    }
}
