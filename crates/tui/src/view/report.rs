//! A report: lines with a cursor, some of which lead to a session or an agent.

use ratatui::layout::Rect;
use subscope_render::style::StyledLine;

use super::{paint::Canvas, sessions::first_in_sight, tree::draw_scroll_arrows};
use crate::state::{MouseTarget, Panel, UiState, reports::Place};

/// The lines of a report.
#[derive(Default)]
pub(super) struct ReportLines {
    lines: Vec<StyledLine>,
    links: Vec<(usize, Place)>,
}

impl ReportLines {
    pub(super) fn push(&mut self, line: StyledLine) {
        self.lines.push(line);
    }

    /// Adds a line that leads somewhere.
    pub(super) fn push_link(&mut self, line: StyledLine, place: Option<Place>) {
        self.links.extend(place.map(|place| (self.lines.len(), place)));
        self.lines.push(line);
    }

    pub(super) fn extend(&mut self, lines: impl IntoIterator<Item = StyledLine>) {
        self.lines.extend(lines);
    }

    /// Draws the lines around the cursor.
    pub(super) fn draw(self, state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
        let height = usize::from(area.height);
        let count = self.lines.len();
        let cursor = state.reports.cursor.min(count.saturating_sub(1));
        let first = first_in_sight(state.drawn.first_line, Some(cursor), height, count);
        canvas.add_panel(area, Panel::Main, height);
        for ((at, line), y) in self.lines.into_iter().enumerate().skip(first).zip(area.y..area.bottom()) {
            let row = Rect { y, height: 1, ..area };
            canvas.line(area.x + 1, y, area.width.saturating_sub(2), line);
            if at == cursor {
                canvas.select(row, true);
            }
            if let Some((_, place)) = self.links.iter().find(|(line, _)| *line == at) {
                canvas.add_mouse_target(row, MouseTarget::Place(place.clone()));
            }
        }
        canvas.drawn.first_line = first;
        canvas.drawn.lines = count;
        canvas.drawn.links = self.links;
        draw_scroll_arrows(canvas, area, first, count.saturating_sub(first + height));
    }
}
