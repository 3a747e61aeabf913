//! Key help, the frame of overlays, and the placeholder of an empty main panel.

use ratatui::layout::Rect;
use subscope_render::{Ink, style::StyledLine, text};

use super::paint::Canvas;
use crate::{
    keys::{GROUPS, KEYS},
    state::{Overlay, UiState},
};

/// Width of a help column.
const GROUP: u16 = 46;

pub(super) fn draw(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    match &state.overlay {
        Some(Overlay::Help(from)) => help(*from, area, canvas),
        Some(Overlay::Permission(prompt)) => super::permission::draw(prompt, area, canvas),
        Some(Overlay::Hits(results)) => super::hits::draw(state, results, area, canvas),
        Some(Overlay::Palette(palette)) => super::palette::draw(state, palette, area, canvas),
        Some(Overlay::Search { .. } | Overlay::Stop { .. } | Overlay::Theme { .. }) | None => {}
    }
}

pub(super) fn centered(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.clamp(3, area.height.max(3)).min(area.height));
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }
}

/// Clears an area and draws a frame with a title.
pub(super) fn sheet(area: Rect, title: &str, canvas: &mut Canvas<'_>) {
    canvas.clear(area);
    let (title, right) = (StyledLine::painted(Ink::Strong, title), StyledLine::painted(Ink::Done, "Esc"));
    let bottom = Rect { y: area.bottom() - 1, height: 1, ..area };
    canvas.titled_rule(Rect { height: 1, ..area }, title, right);
    canvas.titled_rule(bottom, StyledLine::default(), StyledLine::default());
    for x in [area.x, area.right() - 1] {
        canvas.vertical_rule(x, area.y + 1, area.bottom() - 1);
    }
}

fn help(from: usize, area: Rect, canvas: &mut Canvas<'_>) {
    let columns = ((area.width.saturating_sub(4)) / GROUP).clamp(1, 3);
    let lines: Vec<StyledLine> = GROUPS.into_iter().flat_map(|group| group_lines(group, canvas)).collect();
    let per_column = lines.len().div_ceil(usize::from(columns));
    let sheet_area = centered(area, (columns * GROUP + 3).min(area.width), per_column as u16 + 2);
    sheet(sheet_area, "Keys", canvas);
    let height = usize::from(sheet_area.height.saturating_sub(2));
    canvas.drawn.page = height;
    let is_cut = per_column > height;
    let from = from.min(per_column.saturating_sub(height));
    let width = (sheet_area.width - 3) / columns;
    for (column, part) in lines.chunks(per_column).enumerate() {
        for (line, y) in part.iter().skip(from).take(height).zip(sheet_area.y + 1..) {
            canvas.line(sheet_area.x + 2 + column as u16 * width, y, width - 1, line.clone());
        }
    }
    if is_cut {
        super::tree::draw_scroll_arrows(canvas, sheet_area, from, per_column.saturating_sub(from + height));
    }
}

fn group_lines(group: &str, canvas: &Canvas<'_>) -> Vec<StyledLine> {
    let mut lines = vec![StyledLine::painted(Ink::Done, group)];
    for key in KEYS.iter().filter(|key| key.group == group) {
        let label = text::pad(&canvas.in_charset(key.label), 9);
        lines.push(
            StyledLine::default().with(None, "  ").with(Some(Ink::Strong), &label).with(None, key.help),
        );
    }
    lines
}

/// Draws the placeholder of an empty main panel: loading, or how to get started.
pub(super) fn nothing_yet(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    canvas.add_panel(area, crate::state::Panel::Main, 0);
    let is_asked = !state.is_blank();
    let lines: &[(&str, &str)] = if is_asked {
        &[("", "reading…")]
    } else {
        &[
            ("", "Nothing to see yet. What coding agents do on this machine appears here by itself."),
            ("", ""),
            ("Enter", "plays a recorded session here"),
            ("claude", "or another agent: start it in another terminal"),
            ("subscope run -- claude -p \"…\"", "or start it from here"),
            ("subscope replay FILE", "plays a session back"),
            ("subscope doctor", "says what is missing"),
        ]
    };
    let width = usize::from(area.width.saturating_sub(3));
    // Without room on the same line, the description is below its command.
    let is_narrow = width < COMMAND_WIDTH + 24;
    let mut drawn = Vec::new();
    for (command, words) in lines {
        let mut before =
            text::pad(&canvas.in_charset(command), if command.is_empty() { 0 } else { COMMAND_WIDTH });
        if is_narrow && !command.is_empty() {
            drawn.push(StyledLine::painted(Ink::Strong, before.trim_end()));
            before = "  ".to_owned();
        }
        let rest = width.saturating_sub(text::width(&before)).max(1);
        if words.is_empty() {
            drawn.push(StyledLine::default());
        }
        for part in text::wrap(&canvas.in_charset(words), rest) {
            drawn.push(StyledLine::painted(Ink::Strong, &before).with(Some(Ink::Done), &part));
            before = text::pad("", text::width(&before));
        }
    }
    for (line, y) in drawn.into_iter().zip(area.y + 1..area.bottom()) {
        canvas.line(area.x + 2, y, area.width.saturating_sub(3), line);
    }
}

/// Columns of a command before the words about it.
const COMMAND_WIDTH: usize = 32;
