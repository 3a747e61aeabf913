//! Draws the state. Pure: the layout of the frame is returned as [`Drawn`].

mod compare;
mod detail;
mod feed;
mod frame;
mod hits;
mod iterations;
mod mission;
mod overlay;
mod paint;
mod palette;
mod permission;
mod prose;
mod question;
mod report;
mod sessions;
mod stats;
mod summary;
mod timeline;
mod tree;

use ratatui::{buffer::Buffer, layout::Rect};
use subscope_render::style::StyledLine;

use self::paint::Canvas;
use crate::state::{Drawn, Panel, UiState, View};

/// Below this terminal height, panels are shown one at a time.
const LOW: u16 = 15;

/// From this terminal width on, tree and detail panel are side by side.
const VERY_WIDE: u16 = 190;

/// Least columns of a detail panel next to the tree.
const LEAST_DETAIL: u16 = 52;

/// Least rows of a detail panel below the tree.
const LEAST_BELOW: u16 = 8;

/// Draws a frame and returns its layout.
pub fn view(state: &UiState, area: Rect, buffer: &mut Buffer) -> Drawn {
    let mut canvas = Canvas::new(state, buffer);
    if area.width < 20 || area.height < 6 {
        canvas.line(area.x, area.y, area.width, StyledLine::default().with(None, "larger, please"));
        return canvas.drawn;
    }
    let header = Rect { height: 1, ..area };
    let footer = Rect { y: area.bottom() - 1, height: 1, ..area };
    let slider = state.travel().map(|_| Rect { y: area.bottom() - 2, height: 1, ..area });
    let height = area.height - 2 - u16::from(slider.is_some());
    let body = Rect { y: area.y + 1, height, ..area };
    frame::header(state, header, &mut canvas);
    if state.view.is_overview() {
        frame::tabs(state, Rect { height: 1, ..body }, &mut canvas);
        let area = Rect { y: body.y + 1, height: body.height - 1, ..body };
        overview(state, area, &mut canvas);
    } else if state.is_wide() && !state.is_replay {
        let width = (area.width / 4).clamp(28, 40);
        sessions::draw(state, Rect { width, ..body }, &mut canvas);
        canvas.vertical_rule(body.x + width, body.y, body.bottom());
        let main = Rect { x: body.x + width + 1, width: body.width - width - 1, ..body };
        main_part(state, main, &mut canvas);
    } else if state.panel == Panel::Sessions && !state.is_replay {
        sessions::draw(state, body, &mut canvas);
    } else {
        main_part(state, body, &mut canvas);
    }
    if let Some(area) = slider {
        frame::slider(state, area, &mut canvas);
    }
    frame::footer(state, footer, &mut canvas);
    overlay::draw(state, area, &mut canvas);
    canvas.drawn
}

fn main_part(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    frame::tabs(state, Rect { height: 1, ..area }, canvas);
    let area = Rect { y: area.y + 1, height: area.height - 1, ..area };
    if state.tree().is_none() {
        overlay::nothing_yet(state, area, canvas);
        return;
    }
    match state.view {
        View::Agents if !state.shows_tree() => detail::draw(state, area, canvas),
        View::Agents if area.width >= VERY_WIDE - 41 && state.size.0 >= VERY_WIDE => {
            // Both panels get what they need: the tree its columns, but never less than half of the screen.
            let most = Rect { width: area.width - LEAST_DETAIL, ..area };
            let width = tree::draw_from(state, most, state.size.0 / 2, canvas);
            let right = Rect { x: area.x + width + 1, width: area.width - width - 1, ..area };
            canvas.vertical_rule(area.x + width, area.y, area.bottom());
            detail::draw(state, right, canvas);
        }
        View::Agents => stacked(state, area, canvas, tree::height(state, area.width), tree::draw),
        View::Timeline => {
            let wanted = u16::try_from(state.rows.len()).unwrap_or(u16::MAX).saturating_add(3);
            stacked(state, area, canvas, wanted, timeline::draw);
        }
        View::Feed => feed::draw(state, area, canvas),
        View::Summary => summary::draw(state, area, canvas),
        // Drawn over the whole width, without a list.
        View::Mission | View::Stats | View::Compare | View::Iterations => {}
    }
}

/// Draws a view over all sessions.
fn overview(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    match state.view {
        View::Mission => mission::draw(state, area, canvas),
        View::Stats => stats::draw(state, area, canvas),
        View::Compare => compare::draw(state, area, canvas),
        View::Iterations => iterations::draw(state, area, canvas),
        View::Agents | View::Timeline | View::Feed | View::Summary => {}
    }
}

/// Draws the main view at its wanted height, as far as there is room, and the detail panel below it.
fn stacked(
    state: &UiState,
    area: Rect,
    canvas: &mut Canvas<'_>,
    wanted: u16,
    draw: fn(&UiState, Rect, &mut Canvas<'_>),
) {
    if area.height < LOW - 3 {
        let draw = if state.panel == Panel::Detail { detail::draw } else { draw };
        return draw(state, area, canvas);
    }
    // The detail panel gets most of the height while it has the focus, else what the main view leaves.
    let most = match state.panel {
        Panel::Detail => area.height * 2 / 5,
        Panel::Main | Panel::Sessions => area.height - LEAST_BELOW.max(area.height / 4).min(area.height / 2),
    };
    let height = wanted.clamp(4, most.max(4));
    draw(state, Rect { height, ..area }, canvas);
    let below = Rect { y: area.y + height, height: area.height - height, ..area };
    detail::draw(state, below, canvas);
}

#[cfg(test)]
mod tests;
