//! Draws the state. Pure: the layout of the frame is returned as [`Drawn`].

mod detail;
mod feed;
mod frame;
mod overlay;
mod paint;
mod prose;
mod sessions;
mod summary;
mod timeline;
mod tree;

use ratatui::{buffer::Buffer, layout::Rect};

use self::paint::Canvas;
use crate::state::{Drawn, MouseTarget, Panel, UiState, View};

/// Below this terminal height, panels are shown one at a time.
const LOW: u16 = 15;

/// From this terminal width on, tree and detail panel are side by side.
const VERY_WIDE: u16 = 170;

/// Draws a frame and returns its layout.
pub fn view(state: &UiState, area: Rect, buffer: &mut Buffer) -> Drawn {
    let mut canvas = Canvas::new(state, buffer);
    if area.width < 20 || area.height < 6 {
        canvas.text(area.x, area.y, area.width, "larger, please");
        return canvas.into_drawn();
    }
    let layout = ScreenLayout::of(state, area);
    frame::header(state, layout.header, &mut canvas);
    if let Some(area) = layout.sessions {
        sessions::draw(state, area, &mut canvas);
    }
    if let Some(x) = layout.divider {
        canvas.vertical_rule(
            x,
            layout.header.bottom(),
            layout.footer.y - layout.slider.map_or(0, |slider| slider.height),
        );
    }
    if let Some(area) = layout.main {
        main_part(state, area, &mut canvas);
    }
    if let Some(area) = layout.slider {
        frame::slider(state, area, &mut canvas);
    }
    frame::footer(state, layout.footer, &mut canvas);
    overlay::draw(state, area, &mut canvas);
    canvas.into_drawn()
}

/// Areas of the screen.
struct ScreenLayout {
    header: Rect,
    sessions: Option<Rect>,
    /// Column of the line between session list and main panel.
    divider: Option<u16>,
    main: Option<Rect>,
    slider: Option<Rect>,
    footer: Rect,
}

impl ScreenLayout {
    fn of(state: &UiState, area: Rect) -> Self {
        let header = Rect { height: 1, ..area };
        let footer = Rect { y: area.bottom() - 1, height: 1, ..area };
        let slider = state.travel().map(|_| Rect { y: area.bottom() - 2, height: 1, ..area });
        let height = area.height - 2 - u16::from(slider.is_some());
        let body = Rect { y: area.y + 1, height, ..area };
        let (sessions, divider, main) = if state.is_replay {
            (None, None, Some(body))
        } else if state.is_wide() {
            let width = (area.width / 4).clamp(26, 40);
            let sessions = Rect { width, ..body };
            let main = Rect { x: body.x + width + 1, width: body.width - width - 1, ..body };
            (Some(sessions), Some(body.x + width), Some(main))
        } else if state.panel == Panel::Sessions {
            (Some(body), None, None)
        } else {
            (None, None, Some(body))
        };
        Self { header, sessions, divider, main, slider, footer }
    }
}

fn main_part(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    frame::tabs(state, Rect { height: 1, ..area }, canvas);
    let area = Rect { y: area.y + 1, height: area.height - 1, ..area };
    if state.tree().is_none() {
        overlay::nothing_yet(state, area, canvas);
        return;
    }
    match state.view {
        View::Agents if !state.shows_tree() => {
            detail::draw(state, area, canvas);
        }
        View::Agents if area.width >= VERY_WIDE - 41 && state.size.0 >= VERY_WIDE => {
            let width = area.width / 2;
            let left = Rect { width, ..area };
            let right = Rect { x: area.x + width + 1, width: area.width - width - 1, ..area };
            tree::draw(state, left, canvas);
            canvas.vertical_rule(area.x + width, area.y, area.bottom());
            detail::draw(state, right, canvas);
        }
        View::Agents => {
            let wanted = tree::height(state, area.width);
            stacked(state, area, canvas, wanted, tree::draw);
        }
        View::Timeline => {
            let wanted = u16::try_from(state.rows.len()).unwrap_or(u16::MAX).saturating_add(2);
            stacked(state, area, canvas, wanted, timeline::draw);
        }
        View::Feed => feed::draw(state, area, canvas),
        View::Summary => summary::draw(state, area, canvas),
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
        match state.panel {
            Panel::Detail => detail::draw(state, area, canvas),
            Panel::Sessions | Panel::Main => draw(state, area, canvas),
        }
        return;
    }
    // The focused panel gets more of the height.
    let share = if state.panel == Panel::Detail { 40 } else { 58 };
    let most = (u32::from(area.height) * share / 100) as u16;
    let height = wanted.clamp(4, most.max(4));
    draw(state, Rect { height, ..area }, canvas);
    let below = Rect { y: area.y + height, height: area.height - height, ..area };
    detail::draw(state, below, canvas);
}

/// Makes an area clickable as a panel.
fn add_panel_target(canvas: &mut Canvas<'_>, area: Rect, panel: Panel) {
    canvas.add_mouse_target(area, MouseTarget::Panel(panel));
}

#[cfg(test)]
mod tests;
