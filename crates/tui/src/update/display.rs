//! Display options: view, detail, order, filter, zoom.

use subscope_model::{Agent, AgentId, SessionId};
use subscope_render::{Detail, Ink};

use super::{Effect, ask_for, navigation, show_notice};
use crate::{
    ask::Question,
    settings::{Setting, TreePanel},
    state::{Overlay, Panel, UiState, View, select::Filter},
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
    show_notice(state, format!("colors: {}", state.settings.palette.as_str()), Ink::Done);
    ask_for(state, Question::Keep(Setting::Theme, state.settings.palette.as_str()))
}

/// Folds or unfolds the selected branch; at a call the calls of its agent.
pub(super) fn toggle_fold(state: &mut UiState) {
    if state.selected_call.is_some() {
        return toggle_calls(state);
    }
    if let Some(key) = navigation::selected_key(state)
        && !state.folded.remove(&key)
    {
        state.folded.insert(key);
    }
    state.dirty.rows = true;
}

/// Shows or hides the rows of the selected agent's calls.
pub(super) fn toggle_calls(state: &mut UiState) {
    let Some(key) = navigation::selected_key(state) else { return };
    if state.agent().is_none_or(|agent| agent.tools.is_empty()) {
        return show_notice(state, "it has made no calls", Ink::Done);
    }
    state.selected_call = None;
    if !state.unfolded.remove(&key) {
        state.folded.remove(&key);
        state.unfolded.insert(key);
    }
    state.dirty.rows = true;
}

/// Hides all calls, and all agents below the children of the root.
pub(super) fn fold_all(state: &mut UiState) {
    let keys =
        keys_of(state, |at, rest| at.depth > 0 && rest.first().is_some_and(|next| next.depth > at.depth));
    let session = state.session().cloned();
    state.unfolded.retain(|(its, _)| Some(its) != session.as_ref());
    state.folded.extend(keys);
    state.selected_call = None;
    state.dirty.rows = true;
}

/// Shows all agents; if all are shown, all of their calls.
pub(super) fn unfold_all(state: &mut UiState) {
    let session = state.session().cloned();
    let before = state.folded.len();
    state.folded.retain(|(its, _)| Some(its) != session.as_ref());
    if state.folded.len() == before {
        let keys = keys_of(state, |agent, _| !agent.tools.is_empty());
        state.unfolded.extend(keys);
    }
    state.dirty.rows = true;
}

/// The keys of some agents of the displayed tree; `has` is given an agent and those after it, in pre-order.
fn keys_of(state: &UiState, has: impl Fn(&Agent, &[Agent]) -> bool) -> Vec<(SessionId, AgentId)> {
    let Some(tree) = state.tree() else { return Vec::new() };
    let chosen = tree.agents.iter().enumerate().filter(|(at, agent)| has(agent, &tree.agents[at + 1..]));
    chosen.map(|(_, agent)| (tree.session.id.clone(), agent.id.clone())).collect()
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
        choose_filter(state, state.filter.next());
    }
    state.dirty.rows = true;
}

/// Shows the sessions of the next other machine; after the last one those of all.
pub(super) fn next_machine(state: &mut UiState) {
    if state.sessions.machines.is_empty() {
        return show_notice(state, "no session of another machine is known", Ink::Done);
    }
    state.sessions.choose_next_machine();
    let words = match &state.sessions.machine {
        Some(machine) => format!("sessions of {machine} only"),
        None => "sessions of all machines".to_owned(),
    };
    show_notice(state, words, Ink::Done);
    state.dirty.sessions = true;
}

/// Shows the agents that pass a filter.
pub(super) fn choose_filter(state: &mut UiState, filter: Filter) {
    state.filter = filter;
    let words = if filter == Filter::All {
        filter.as_str().to_owned()
    } else {
        format!("{} agents only", filter.as_str())
    };
    show_notice(state, words, Ink::Done);
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
