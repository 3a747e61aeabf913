//! Columns next to the tree: content, width, and which of them fit.

use subscope_model::{Agent, Millis};

use super::TreeOptions;
use crate::{
    style::{Ink, Style, StyledLine},
    text,
};

/// Columns from left to right, by their headings.
const ORDER: [&str; 5] = [TIME, "model", "tools", "tokens", "cost"];

/// Columns by priority for room.
const IMPORTANCE: [&str; 5] = [TIME, "cost", "tokens", "tools", "model"];

/// The column of durations.
const TIME: &str = "time";

/// Least width left for the tree by a further column: a type and a few words of the task.
pub(super) const LEAST_LEFT: usize = 44;

/// Least width left for the tree by the time column.
const LEAST_WIDTH: usize = 30;

/// Most columns of a model name.
const MODEL_WIDTH: usize = 14;

/// Blanks between columns.
const GAP: usize = 2;

/// The cells of one agent.
pub(super) struct Cells([String; 5]);

impl Cells {
    pub(super) fn of(agent: &Agent, options: &TreeOptions) -> Self {
        let style = &options.style;
        let glyphs = style.glyphs();
        let guess = if agent.tools.iter().any(|call| call.basis.is_guess()) { "~" } else { "" };
        let errors = match agent.tool_errors {
            0 => String::new(),
            errors => format!("{}{errors} ", glyphs.failed),
        };
        let model = agent.model.as_deref().map(|model| style.one_line(short_model(model), MODEL_WIDTH));
        Self([
            text::duration(elapsed(agent, options.now)),
            model.unwrap_or_else(|| glyphs.unknown.to_owned()),
            format!("{errors}{guess}{}", agent.tool_calls),
            style.usage(agent.usage),
            style.cost(agent.cost_micro_usd, agent.cost_floor),
        ])
    }
}

/// Returns the agent's working time; a running one's extends to `now`.
pub(super) fn elapsed(agent: &Agent, now: Option<Millis>) -> Option<i64> {
    let Some(now) = now.filter(|_| agent.is_at_work()) else { return agent.wall_ms };
    match (agent.wall_ms, agent.intervals.last()) {
        (Some(wall), Some([_, last])) => Some(wall.saturating_add(now.saturating_sub(*last).max(0))),
        _ => agent.started_at_ms.map(|start| now.saturating_sub(start)).or(agent.wall_ms),
    }
}

/// Shortens a model name: removes what all names of its vendor begin with, and the release date.
pub fn short_model(model: &str) -> &str {
    let short = subscope_harness::short_model(model);
    match short.rsplit_once(['-', '@']) {
        Some((name, date)) if date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => short,
    }
}

/// Visible columns, their widths, and the width left for the tree.
pub(super) struct Layout {
    /// Width of guides, icon and text.
    pub(super) left: usize,
    /// Width of each column with the gap before it; `None` if hidden.
    widths: [Option<usize>; 5],
}

impl Layout {
    /// Lays out the columns of these cells.
    pub(super) fn of(cells: impl Iterator<Item = Cells>, style: &Style) -> Self {
        let mut widest = ORDER.map(str::len);
        for Cells(cells) in cells {
            for (widest, cell) in widest.iter_mut().zip(&cells) {
                *widest = text::width(cell).max(*widest);
            }
        }
        let mut widths = [None; 5];
        let mut left = style.width;
        for column in IMPORTANCE {
            let Some(at) = ORDER.iter().position(|known| *known == column) else { continue };
            let width = GAP + widest[at];
            let least = if column == TIME { LEAST_WIDTH } else { LEAST_LEFT };
            if left < least + width {
                break;
            }
            left -= width;
            widths[at] = Some(width);
        }
        Self { left, widths }
    }

    /// Columns of tree and columns together.
    pub(super) fn width(&self) -> usize {
        self.left + self.widths.iter().flatten().sum::<usize>()
    }

    /// Appends the headings.
    pub(super) fn header(&self, line: &mut StyledLine) {
        line.cells(self.left, self.widths, ORDER.map(|name| (None, name)));
    }

    /// Appends the cells of a row.
    pub(super) fn write(&self, line: &mut StyledLine, cells: &Cells, ink: Option<Ink>) {
        line.cells(self.left, self.widths, cells.0.iter().map(|cell| (ink, cell)));
    }

    /// Appends a duration in the time column, if visible.
    pub(super) fn write_time(&self, line: &mut StyledLine, ink: Option<Ink>, span: &str) {
        line.cells(self.left, [self.widths[0]], [(ink, span)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorten_model_drops_vendor_and_date() {
        let cases = [
            ("claude-haiku-4-5-20251001", "haiku-4-5"),
            ("claude-opus-4@20250514", "opus-4"),
            ("claude-opus-4-1", "opus-4-1"),
            ("gpt-5", "gpt-5"),
            ("claude-", ""),
        ];
        for (model, short) in cases {
            assert_eq!(short_model(model), short);
        }
    }
}
