//! Summary view: totals of the selected session.

use ratatui::layout::Rect;
use subscope_render::{
    breakdown::breakdown, changed_files::file_lines, style::StyledLine, summary::summary_lines,
    table::stats_lines,
};

use super::paint::Canvas;
use crate::state::{Panel, UiState};

/// Most changed files that are listed.
const MOST_FILES: usize = 50;

pub(super) fn draw(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    let Some(tree) = state.tree() else { return };
    let inner = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
    let style = canvas.style_of(inner.width);
    let mut lines = summary_lines(tree, &style);
    lines.push(StyledLine::default());
    lines.extend(stats_lines(&breakdown(tree), &style));
    let files = file_lines(tree, MOST_FILES, &style);
    if !files.is_empty() {
        lines.push(StyledLine::default());
        lines.extend(files);
    }
    let height = usize::from(inner.height);
    let most = lines.len().saturating_sub(height);
    let down = state.reading.summary_down.min(most);
    canvas.drawn.most_down = most;
    canvas.add_panel(area, Panel::Main, height);
    canvas.lines(inner, lines.into_iter().skip(down));
    super::tree::draw_scroll_arrows(canvas, area, down, most - down);
}
