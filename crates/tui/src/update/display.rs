//! Display options: view, detail, order, filter, zoom.

use subscope_render::{Detail, Ink};

use super::{Effect, ask, navigation, show_notice};
use crate::{
    ask::Question,
    keys::Action,
    settings::{Setting, TreePanel},
    state::{Panel, UiState, View},
};

/// Largest zoom level: a factor of 4,096, for a day in a thousand columns down to some 20 ms a column.
const MAX_ZOOM: u32 = 12;

/// Switches the view.
pub(super) fn view(state: &mut UiState, action: Action) {
    let view = match action {
        Action::Timeline => View::Timeline,
        Action::Feed => View::Feed,
        Action::Summary => View::Summary,
        _ => View::Agents,
    };
    // The key of the open view returns to the agents view.
    state.view = if state.view == view { View::Agents } else { view };
    if state.panel == Panel::Sessions {
        state.panel = Panel::Main;
    }
}

/// Changes and saves a setting.
pub(super) fn setting(state: &mut UiState, action: Action) -> Vec<Effect> {
    let (setting, choice) = match action {
        Action::Detail => {
            let all = Detail::ALL;
            let at = all.iter().position(|level| *level == state.settings.detail).unwrap_or(0);
            state.settings.detail = all[(at + 1) % all.len()];
            show_notice(state, format!("detail: {}", state.settings.detail.as_str()), Ink::Done);
            (Setting::Detail, state.settings.detail.as_str())
        }
        Action::Tree => {
            state.settings.tree = if state.shows_tree() { TreePanel::Hidden } else { TreePanel::Auto };
            if !state.shows_tree() && state.settings.tree == TreePanel::Auto {
                state.settings.tree = TreePanel::Shown;
            }
            (Setting::Tree, state.settings.tree.as_str())
        }
        _ => {
            state.settings.palette = state.settings.palette.next();
            show_notice(state, format!("colours: {}", state.settings.palette.as_str()), Ink::Done);
            (Setting::Theme, state.settings.palette.as_str())
        }
    };
    let mut effects = Vec::new();
    ask(state, &mut effects, Question::Keep(setting, choice));
    effects
}

/// Changes folds, order, filter, scope or zoom.
pub(super) fn change(state: &mut UiState, action: Action) {
    match action {
        Action::Fold => {
            if let Some(key) = navigation::selected_key(state)
                && !state.folded.remove(&key)
            {
                state.folded.insert(key);
            }
        }
        Action::Sort => {
            state.sort = state.sort.next();
            show_notice(state, format!("siblings {}", state.sort.as_str()), Ink::Done);
        }
        Action::Filter if state.view == View::Feed => {
            state.reading.kinds = state.reading.kinds.next();
            state.reading.feed_up = 0;
        }
        Action::Filter => {
            state.filter = state.filter.next();
            show_notice(state, state.filter.as_str(), Ink::Done);
        }
        Action::Scope => {
            state.reading.scope = state.reading.scope.next();
            state.reading.feed_up = 0;
            if state.view != View::Feed {
                state.view = View::Feed;
                state.panel = Panel::Main;
            }
        }
        Action::ZoomIn => zoom(state, state.timeline_view.zoom.saturating_add(1)),
        Action::ZoomOut => zoom(state, state.timeline_view.zoom.saturating_sub(1)),
        _ => {}
    }
    state.dirty.rows = true;
}

/// Zooms the timeline; opens it first if another view is open.
fn zoom(state: &mut UiState, zoom: u32) {
    if state.view != View::Timeline {
        state.view = View::Timeline;
        return;
    }
    state.timeline_view.zoom = zoom.min(MAX_ZOOM);
    if zoom == 0 {
        state.timeline_view.from_ms = None;
    }
}
