//! Display options: view, detail, order, filter, zoom.

use subscope_render::{Detail, Ink};

use super::{Effect, ask_for, navigation, show_notice};
use crate::{
    ask::Question,
    settings::{Setting, TreePanel},
    state::{Overlay, Panel, UiState, View},
};

/// Largest zoom level: a factor of 4,096, for a day in a thousand columns down to some 20 ms a column.
const MAX_ZOOM: u32 = 12;

/// Switches the view.
pub(super) fn view(state: &mut UiState, view: View) {
    // The key of the open view returns to the agents.
    state.view = if state.view == view { View::Agents } else { view };
    if state.panel == Panel::Sessions {
        state.panel = Panel::Main;
    }
}

/// Opens mission control, or returns from it to the agents.
pub(super) fn toggle_mission(state: &mut UiState) {
    if state.is_replay {
        return show_notice(state, "a playback has one session only", Ink::Done);
    }
    if state.view == View::Mission {
        return view(state, View::Agents);
    }
    (state.view, state.panel) = (View::Mission, Panel::Sessions);
}

/// Switches to the next level of detail, and saves it.
pub(super) fn next_detail(state: &mut UiState) -> Vec<Effect> {
    let all = Detail::ALL;
    let at = all.iter().position(|level| *level == state.settings.detail).unwrap_or(0);
    state.settings.detail = all[(at + 1) % all.len()];
    show_notice(state, format!("detail: {}", state.settings.detail.as_str()), Ink::Done);
    ask_for(state, Question::Keep(Setting::Detail, state.settings.detail.as_str()))
}

/// Shows or hides the tree panel, and saves that.
pub(super) fn toggle_tree(state: &mut UiState) -> Vec<Effect> {
    state.settings.tree = if state.shows_tree() { TreePanel::Hidden } else { TreePanel::Auto };
    if !state.shows_tree() && state.settings.tree == TreePanel::Auto {
        state.settings.tree = TreePanel::Shown;
    }
    ask_for(state, Question::Keep(Setting::Tree, state.settings.tree.as_str()))
}

/// Shows the next palette and asks whether to keep it.
pub(super) fn try_next_palette(state: &mut UiState) {
    state.overlay = Some(Overlay::Theme { before: state.settings.palette });
    state.settings.palette = state.settings.palette.next();
}

/// Saves the palette in effect.
pub(super) fn keep_palette(state: &mut UiState) -> Vec<Effect> {
    show_notice(state, format!("colours: {}", state.settings.palette.as_str()), Ink::Done);
    ask_for(state, Question::Keep(Setting::Theme, state.settings.palette.as_str()))
}

/// Folds or unfolds the selected branch.
pub(super) fn toggle_fold(state: &mut UiState) {
    if let Some(key) = navigation::selected_key(state)
        && !state.folded.remove(&key)
    {
        state.folded.insert(key);
    }
    state.dirty.rows = true;
}

/// Switches the order of siblings.
pub(super) fn next_sort(state: &mut UiState) {
    state.sort = state.sort.next();
    show_notice(state, format!("siblings {}", state.sort.as_str()), Ink::Done);
    state.dirty.rows = true;
}

/// Switches the filter of event kinds in the feed, of agents elsewhere.
pub(super) fn next_filter(state: &mut UiState) {
    if state.view == View::Feed {
        state.reading.kinds = state.reading.kinds.next();
        state.reading.feed_up = 0;
    } else {
        state.filter = state.filter.next();
        show_notice(state, state.filter.as_str(), Ink::Done);
    }
    state.dirty.rows = true;
}

/// Switches the feed's scope; opens the feed first if another view is open.
pub(super) fn next_scope(state: &mut UiState) {
    state.reading.scope = state.reading.scope.next();
    state.reading.feed_up = 0;
    if state.view != View::Feed {
        state.view = View::Feed;
        state.panel = Panel::Main;
    }
    state.dirty.rows = true;
}

/// Zooms the timeline; opens it first if another view is open.
pub(super) fn zoom(state: &mut UiState, zoom: u32) {
    state.dirty.rows = true;
    if state.view != View::Timeline {
        state.view = View::Timeline;
        return;
    }
    state.timeline_view.zoom = zoom.min(MAX_ZOOM);
    if zoom == 0 {
        state.timeline_view.from_ms = None;
    }
}
