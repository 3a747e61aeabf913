//! State to a screen. Pure: nothing is changed; where things were drawn comes back as [`Drawn`].

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
use crate::state::{Drawn, Panel, Spot, State, View};

/// Below this height every row counts: the panels stand one at a time.
const LOW: u16 = 15;

/// From this width on the selected agent stands beside the tree.
const VERY_WIDE: u16 = 170;

/// Draws everything.
pub fn view(state: &State, area: Rect, buffer: &mut Buffer) -> Drawn {
    let mut canvas = Canvas::new(state, buffer);
    if area.width < 20 || area.height < 6 {
        canvas.text(area.x, area.y, area.width, "larger, please");
        return canvas.into_drawn();
    }
    let places = Places::of(state, area);
    frame::header(state, places.header, &mut canvas);
    if let Some(area) = places.sessions {
        sessions::draw(state, area, &mut canvas);
    }
    if let Some(x) = places.divider {
        canvas.vertical_rule(
            x,
            places.header.bottom(),
            places.footer.y - places.slider.map_or(0, |slider| slider.height),
        );
    }
    if let Some(area) = places.main {
        main_part(state, area, &mut canvas);
    }
    if let Some(area) = places.slider {
        frame::slider(state, area, &mut canvas);
    }
    frame::footer(state, places.footer, &mut canvas);
    overlay::draw(state, area, &mut canvas);
    canvas.into_drawn()
}

/// Where the parts of the screen stand.
struct Places {
    header: Rect,
    sessions: Option<Rect>,
    /// The column of the line between the sessions and the rest.
    divider: Option<u16>,
    main: Option<Rect>,
    slider: Option<Rect>,
    footer: Rect,
}

impl Places {
    fn of(state: &State, area: Rect) -> Self {
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

fn main_part(state: &State, area: Rect, canvas: &mut Canvas<'_>) {
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

/// Draws a picture of the wanted height, as far as there is room, and below it the selected agent.
fn stacked(
    state: &State,
    area: Rect,
    canvas: &mut Canvas<'_>,
    wanted: u16,
    draw: fn(&State, Rect, &mut Canvas<'_>),
) {
    if area.height < LOW - 3 {
        match state.panel {
            Panel::Detail => detail::draw(state, area, canvas),
            Panel::Sessions | Panel::Main => draw(state, area, canvas),
        }
        return;
    }
    // What is in focus gets more of what there is to share.
    let share = if state.panel == Panel::Detail { 40 } else { 58 };
    let most = (u32::from(area.height) * share / 100) as u16;
    let height = wanted.clamp(4, most.max(4));
    draw(state, Rect { height, ..area }, canvas);
    let below = Rect { y: area.y + height, height: area.height - height, ..area };
    detail::draw(state, below, canvas);
}

/// Marks an area as a panel's.
fn mark(canvas: &mut Canvas<'_>, area: Rect, panel: Panel) {
    canvas.spot(area, Spot::Panel(panel));
}

#[cfg(test)]
mod tests;
