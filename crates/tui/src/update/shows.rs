//! What is shown, and how much of it.

use subscope_render::{Detail, Ink};

use super::{Effect, ask, moves, notice};
use crate::{
    ask::Question,
    keys::Action,
    settings::{Setting, TreePanel},
    state::{Kinds, Panel, Scope, State, View},
};

/// How often the timeline can be doubled: a day in a thousand columns down to a tenth of a second.
const MOST_ZOOM: u32 = 12;

/// Goes to a view.
pub(super) fn view(state: &mut State, action: Action) {
    let view = match action {
        Action::Timeline => View::Timeline,
        Action::Feed => View::Feed,
        Action::Summary => View::Summary,
        _ => View::Agents,
    };
    // The key of a view that is there leads back.
    state.view = if state.view == view { View::Agents } else { view };
    if state.panel == Panel::Sessions {
        state.panel = Panel::Main;
    }
}

/// Changes a setting, and has it kept.
pub(super) fn setting(state: &mut State, action: Action) -> Vec<Effect> {
    let (setting, choice) = match action {
        Action::Detail => {
            let all = Detail::ALL;
            let at = all.iter().position(|level| *level == state.settings.detail).unwrap_or(0);
            state.settings.detail = all[(at + 1) % all.len()];
            notice(state, format!("detail: {}", state.settings.detail.as_str()), Ink::Done);
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
            notice(state, format!("colours: {}", state.settings.palette.as_str()), Ink::Done);
            (Setting::Theme, state.settings.palette.as_str())
        }
    };
    let mut effects = Vec::new();
    ask(state, &mut effects, Question::Keep(setting, choice));
    effects
}

/// Changes what of the view is shown.
pub(super) fn change(state: &mut State, action: Action) {
    match action {
        Action::Fold => {
            if let Some(key) = moves::key(state)
                && !state.folded.remove(&key)
            {
                state.folded.insert(key);
            }
        }
        Action::Sort => {
            state.sort = state.sort.next();
            notice(state, format!("siblings {}", state.sort.as_str()), Ink::Done);
        }
        Action::Filter if state.view == View::Feed => {
            state.reading.kinds = state.reading.kinds.next();
            state.reading.feed_up = 0;
        }
        Action::Filter => {
            state.filter = state.filter.next();
            notice(state, state.filter.as_str(), Ink::Done);
        }
        Action::Scope => {
            state.reading.scope = state.reading.scope.next();
            state.reading.feed_up = 0;
            if state.view != View::Feed {
                state.view = View::Feed;
                state.panel = Panel::Main;
            }
        }
        Action::ZoomIn => zoom(state, state.waterfall.zoom.saturating_add(1)),
        Action::ZoomOut => zoom(state, state.waterfall.zoom.saturating_sub(1)),
        _ => {}
    }
    state.dirty.rows = true;
}

/// Zooms the timeline; what was at its right edge stays there.
fn zoom(state: &mut State, zoom: u32) {
    if state.view != View::Timeline {
        state.view = View::Timeline;
        return;
    }
    state.waterfall.zoom = zoom.min(MOST_ZOOM);
    if zoom == 0 {
        state.waterfall.from_ms = None;
    }
}

impl Scope {
    /// The next choice.
    fn next(self) -> Self {
        match self {
            Self::Session => Self::Agent,
            Self::Agent => Self::Everything,
            Self::Everything => Self::Session,
        }
    }

    /// In a few words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "this session",
            Self::Agent => "the selected agent",
            Self::Everything => "all sessions",
        }
    }
}

impl Kinds {
    /// The next choice.
    fn next(self) -> Self {
        match self {
            Self::All => Self::Tools,
            Self::Tools => Self::Words,
            Self::Words => Self::States,
            Self::States => Self::Troubles,
            Self::Troubles => Self::All,
        }
    }

    /// In a few words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "everything",
            Self::Tools => "tool calls",
            Self::Words => "what was said",
            Self::States => "beginnings, ends and waits",
            Self::Troubles => "what went wrong",
        }
    }
}
