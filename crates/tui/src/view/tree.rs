//! Tree panel: the selected session's tree as `subscope tree` draws it.

use ratatui::layout::Rect;
use subscope_model::Tree;
use subscope_render::{Detail, TreeOptions, TreeRow, tree::TreeRenderer};

use super::{paint::Canvas, sessions::first_in_sight};
use crate::state::{CallKey, MouseTarget, Panel, UiState};

/// Most calls and text lines shown per agent; the detail panel shows the rest.
const MAX_LINES: usize = 6;

/// Level of detail of the tree: one line per agent if the tree would not fit on the screen otherwise.
fn detail(state: &UiState) -> Detail {
    let agents = state.rows.iter().filter(|row| row.call.is_none()).count();
    let is_crowd = agents * 2 > usize::from(state.size.1);
    let detail = state.settings.detail;
    if detail == Detail::Moderate && is_crowd { Detail::Minimal } else { detail }
}

fn options(state: &UiState, width: u16) -> TreeOptions {
    TreeOptions {
        detail: detail(state),
        style: subscope_render::Style { width: usize::from(width), ..state.settings.style },
        now: Some(state.moment_ms()),
        agent: None,
        offset_minutes: state.settings.offset_minutes,
        flat: false,
        most: Some(MAX_LINES),
    }
}

/// Returns the number of lines of the tree with its head. Counting stops above 200: no screen is higher.
pub(super) fn height(state: &UiState, width: u16) -> u16 {
    const ENOUGH: usize = 200;
    let Some(tree) = state.tree() else { return 0 };
    if detail(state) == Detail::Minimal || state.rows.len() > ENOUGH {
        return u16::try_from(state.rows.len()).unwrap_or(u16::MAX).saturating_add(1);
    }
    let options = options(state, width);
    let renderer = TreeRenderer::new(tree, &state.rows, &options);
    let mut lines = 1;
    for at in 0..state.rows.len() {
        lines += renderer.lines(at).len();
        if lines > ENOUGH {
            break;
        }
    }
    u16::try_from(lines).unwrap_or(u16::MAX)
}

/// Draws the tree over the whole area.
pub(super) fn draw(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    draw_from(state, area, area.width, canvas);
}

/// Draws the tree over as many columns of the area as its rows need, at least `least`. Returns their number.
pub(super) fn draw_from(state: &UiState, area: Rect, least: u16, canvas: &mut Canvas<'_>) -> u16 {
    let Some(tree) = state.tree() else { return area.width };
    let options = options(state, area.width.saturating_sub(2));
    let renderer = TreeRenderer::new(tree, &state.rows, &options);
    let needed = u16::try_from(renderer.width()).unwrap_or(u16::MAX).saturating_add(2);
    let area = Rect { width: needed.max(least).min(area.width), ..area };
    let inner = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
    canvas.add_panel(area, Panel::Main, 0);
    let has_focus = state.panel == Panel::Main;
    canvas.line(inner.x, inner.y, inner.width, renderer.head());
    let list = Rect { y: inner.y + 1, height: inner.height.saturating_sub(1), ..inner };
    let selected = state.selected_row();
    let first = first_row(state, &renderer, selected, usize::from(list.height));
    canvas.drawn.first_row = first;
    let mut y = list.y;
    let mut shown = 0;
    for at in first..state.rows.len() {
        if y >= list.bottom() {
            break;
        }
        let top = y;
        for line in renderer.lines(at) {
            if y >= list.bottom() {
                break;
            }
            canvas.line(list.x, y, list.width, line);
            y += 1;
        }
        shown += 1;
        let place = Rect { x: area.x, y: top, width: area.width, height: y - top };
        if Some(at) == selected {
            canvas.select(Rect { height: 1, ..place }, has_focus);
        }
        canvas.add_mouse_target(place, target_of(tree, &state.rows[at]));
    }
    if has_focus {
        canvas.drawn.page = shown.max(1);
    }
    let left = state.rows.len().saturating_sub(first + shown);
    draw_scroll_arrows(canvas, area, first, left);
    area.width
}

/// What a click on a row selects.
pub(super) fn target_of(tree: &Tree, row: &TreeRow) -> MouseTarget {
    let agent = &tree.agents[row.agent];
    match row.call {
        Some(call) => MouseTarget::Call(agent.id.clone(), CallKey::of(agent, call)),
        None => MouseTarget::Agent(agent.id.clone()),
    }
}

/// Draws arrows at the right edge if there is more above or below.
pub(super) fn draw_scroll_arrows(canvas: &mut Canvas<'_>, area: Rect, above: usize, below: usize) {
    let style = canvas.theme.ink(Some(subscope_render::Ink::Done));
    let [up, down] = if canvas.style.ascii { ["^", "v"] } else { ["↑", "↓"] };
    if above > 0 {
        canvas.symbol(area.right() - 1, area.y + 1, up, style);
    }
    if below > 0 {
        canvas.symbol(area.right() - 1, area.bottom() - 1, down, style);
    }
}

/// Returns the first visible row: unchanged, unless the selected row with its details would be out of view.
fn first_row(state: &UiState, renderer: &TreeRenderer<'_>, selected: Option<usize>, height: usize) -> usize {
    let count = state.rows.len();
    let before = state.drawn.first_row.min(count.saturating_sub(1));
    let Some(selected) = selected else { return before };
    if selected < before {
        return selected;
    }
    // Each row has at least one line, which bounds the number of visible rows.
    let least = first_in_sight(before, Some(selected), height, count.max(height));
    let mut used = renderer.lines(selected).len().min(height);
    let mut first = selected;
    while first > least {
        let lines = renderer.lines(first - 1).len();
        if used + lines > height {
            break;
        }
        used += lines;
        first -= 1;
    }
    // Scroll back while there is empty space below.
    let mut used = 0;
    for at in first..count {
        used += renderer.lines(at).len();
        if used >= height {
            return first;
        }
    }
    while first > 0 {
        used += renderer.lines(first - 1).len();
        if used > height {
            break;
        }
        first -= 1;
    }
    first
}
