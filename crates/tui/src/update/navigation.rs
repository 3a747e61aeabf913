//! Navigation along lists and between panels.

use subscope_model::AgentId;

use super::schedule_load;
use crate::state::{CallKey, Panel, UiState, View};

/// A relative or absolute movement along a list.
pub(super) enum Stride {
    By(isize),
    ToFirst,
    ToLast,
}

/// Moves along the focused list.
pub(super) fn move_selection(state: &mut UiState, stride: &Stride) {
    match (state.panel, state.view) {
        (_, View::Stats | View::Compare | View::Iterations) => {
            let cursor = stride_index(Some(state.reports.cursor), stride, state.drawn.lines);
            state.reports.cursor = cursor.unwrap_or(0);
        }
        (Panel::Sessions, _) | (Panel::Main, View::Mission) => move_session_selection(state, stride),
        (Panel::Main, View::Agents | View::Timeline) => move_row_selection(state, stride),
        (Panel::Detail, _) => {
            state.reading.call = None;
            state.reading.up = stride_offset(state.reading.up, stride, state.drawn.most_up);
        }
        (Panel::Main, View::Feed) => {
            state.reading.feed_up = stride_offset(state.reading.feed_up, stride, state.drawn.most_feed_up);
        }
        (Panel::Main, View::Summary) => {
            let reversed = match stride {
                Stride::By(by) => Stride::By(-by),
                Stride::ToFirst => Stride::ToLast,
                Stride::ToLast => Stride::ToFirst,
            };
            state.reading.summary_down =
                stride_offset(state.reading.summary_down, &reversed, state.drawn.most_down);
        }
    }
}

/// Applies a stride to a scroll offset counted from the end; the first line has the largest offset.
fn stride_offset(up: usize, stride: &Stride, most: usize) -> usize {
    match stride {
        Stride::By(by) => up.saturating_add_signed(-by).min(most),
        Stride::ToFirst => most,
        Stride::ToLast => 0,
    }
}

fn stride_index(at: Option<usize>, stride: &Stride, count: usize) -> Option<usize> {
    let last = count.checked_sub(1)?;
    Some(match (stride, at) {
        (Stride::By(by), Some(at)) => at.saturating_add_signed(*by).min(last),
        (Stride::ToFirst, _) | (Stride::By(_), None) => 0,
        (Stride::ToLast, _) => last,
    })
}

fn move_session_selection(state: &mut UiState, stride: &Stride) {
    let place = stride_index(state.sessions.selected_index(), stride, state.sessions.rows.len());
    if let Some(row) = place.and_then(|place| state.sessions.rows.get(place)) {
        let id = row.id.clone();
        select_session(state, id);
    }
}

/// Selects a session on behalf of the user.
pub(super) fn select_session(state: &mut UiState, id: subscope_model::SessionId) {
    state.sessions.is_user_choice = true;
    if state.sessions.machine.is_some() && state.sessions.rows.iter().all(|row| row.id != id) {
        // It is of another machine than those that are displayed.
        state.sessions.machine = None;
        state.dirty.sessions = true;
    }
    if state.sessions.selected.as_ref() != Some(&id) {
        state.sessions.selected = Some(id);
        state.selected_call = None;
        state.reading.up = 0;
        state.reading.call = None;
        state.reading.feed_up = 0;
        state.timeline_view.from_ms = None;
        state.timeline_view.zoom = 0;
        schedule_load(state);
    }
}

fn move_row_selection(state: &mut UiState, stride: &Stride) {
    let place = stride_index(state.selected_row(), stride, state.rows.len());
    if let Some(place) = place {
        select_row(state, place);
    }
}

/// Selects the agent or the call of a row.
pub(super) fn select_row(state: &mut UiState, at: usize) {
    let Some(row) = state.rows.get(at).copied() else { return };
    let Some(agent) = state.tree().and_then(|tree| tree.agents.get(row.agent)) else { return };
    let (id, call) = (agent.id.clone(), row.call.map(|call| CallKey::of(agent, call)));
    match call {
        Some(call) => select_call(state, id, call),
        None => select_agent(state, id),
    }
}

/// Selects a call, and brings it into view in the detail panel.
pub(super) fn select_call(state: &mut UiState, agent: AgentId, call: CallKey) {
    select_agent(state, agent);
    state.reading.call = match &call {
        CallKey::Id(id) => Some(id.0.clone()),
        CallKey::Index(_) => None,
    };
    state.selected_call = Some(call);
}

/// Selects an agent of the selected session.
pub(super) fn select_agent(state: &mut UiState, id: AgentId) {
    let Some(session) = state.session().cloned() else { return };
    if state.agent_id().as_ref() != Some(&id) || state.selected_call.take().is_some() {
        state.reading.up = 0;
        state.reading.call = None;
    }
    state.selected_agents.insert(session, id);
}

/// A direction in space, in an order, or in time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Left,
    Right,
}

/// Handles left and right: on the timeline pans, in the tree folds, unfolds, goes to the parent or child, as file
/// managers do.
pub(super) fn move_sideways(state: &mut UiState, direction: Direction) {
    match (state.panel, state.view) {
        (Panel::Main, view) if view.is_report() => {}
        (Panel::Main, View::Timeline) => pan(state, direction),
        (Panel::Main, View::Agents) => move_in_tree(state, direction),
        (Panel::Sessions, _) if direction == Direction::Right => open_session(state),
        (Panel::Detail | Panel::Main, _) if direction == Direction::Left => leave_innermost(state),
        _ => {}
    }
}

fn move_in_tree(state: &mut UiState, direction: Direction) {
    let Some(at) = state.selected_row() else { return };
    let (Some(row), Some(key)) = (state.rows.get(at).copied(), selected_key(state)) else {
        return;
    };
    match direction {
        Direction::Left if row.has_calls => {
            state.unfolded.remove(&key);
        }
        Direction::Left if row.has_children => {
            state.folded.insert(key);
        }
        Direction::Left => {
            let above = state.rows[..at].iter().rposition(|above| above.depth < row.depth);
            match above {
                Some(above) => move_row_selection(state, &Stride::By(above as isize - at as isize)),
                None => state.panel = Panel::Sessions,
            }
        }
        Direction::Right if row.folded > 0 => {
            state.folded.remove(&key);
        }
        Direction::Right if row.has_children => move_row_selection(state, &Stride::By(1)),
        Direction::Right => state.panel = Panel::Detail,
    }
    state.dirty.rows = true;
}

/// The selected agent with its session, the key of `folded`.
pub(super) fn selected_key(state: &UiState) -> Option<(subscope_model::SessionId, AgentId)> {
    Some((state.session()?.clone(), state.agent_id()?))
}

/// Pans the time axis by a fifth of the screen's width.
fn pan(state: &mut UiState, direction: Direction) {
    let (Some((from, step)), Some(timeline)) = (state.drawn.axis, state.timeline_view.outline.as_ref())
    else {
        return;
    };
    if state.timeline_view.zoom == 0 {
        return;
    }
    let columns = f64::from(state.size.0) / 5.0;
    // `as` saturates; an axis of some days is far below the range.
    let by = (step * columns) as i64;
    let to = if direction == Direction::Left { from - by } else { from + by };
    state.timeline_view.from_ms = (to < timeline.end_ms).then_some(to.max(timeline.start_ms));
}

/// Moves the focus to the next or previous panel, cyclic.
pub(super) fn move_focus(state: &mut UiState, direction: Direction) {
    let panels = panels(state);
    let at = panels.iter().position(|panel| *panel == state.panel).unwrap_or(0);
    let by = if direction == Direction::Right { 1 } else { panels.len() - 1 };
    state.panel = panels[(at + by) % panels.len()];
}

/// Opens the selected item.
pub(super) fn enter(state: &mut UiState) {
    state.panel = match (state.panel, state.view) {
        (_, view) if view.is_report() => return super::reports::follow_link(state),
        (Panel::Sessions, _) => return open_session(state),
        (Panel::Main, View::Agents | View::Timeline) if panels(state).contains(&Panel::Detail) => {
            Panel::Detail
        }
        (Panel::Main, View::Timeline) => {
            state.view = View::Agents;
            Panel::Main
        }
        (panel, _) => panel,
    };
}

/// Focuses the selected session; from mission control at the agent that waits for a person, if one does.
pub(super) fn open_session(state: &mut UiState) {
    state.panel = Panel::Main;
    if state.view == View::Mission {
        state.view = View::Agents;
        let mut agents = state.tree().into_iter().flat_map(|tree| &tree.agents);
        let waiting = agents.find(|agent| agent.waits_for_person()).map(|agent| agent.id.clone());
        if let Some(agent) = waiting {
            select_agent(state, agent);
        }
    }
}

/// Keeps the selected session selected: an action on it is a choice.
pub(super) fn choose_session(state: &mut UiState) {
    state.sessions.is_user_choice |= state.session().is_some();
}

/// Leaves one thing: search, alert, time travel, detail panel, view, main panel; in this order.
pub(super) fn leave_innermost(state: &mut UiState) {
    if !state.search.text.is_empty() || !state.reading.text.is_empty() {
        state.search.text.clear();
        state.reading.text.clear();
        state.dirty.rows = true;
    } else if state.alerts.shown(state.awake_ms).is_some() {
        state.alerts.dismiss();
    } else if state.travel().is_some() && !state.is_replay {
        super::time::return_to_now(state);
    } else if state.view == View::Mission {
        (state.view, state.panel) = (View::Agents, Panel::Main);
    } else if state.panel == Panel::Detail {
        state.panel = Panel::Main;
    } else if state.panel == Panel::Main && state.view != View::Agents {
        state.view = View::Agents;
    } else if state.panel == Panel::Main && !state.is_replay {
        state.panel = Panel::Sessions;
    }
}

/// Focusable panels in order.
fn panels(state: &UiState) -> Vec<Panel> {
    let mut panels = Vec::new();
    if !state.is_replay {
        panels.push(Panel::Sessions);
    }
    if state.view == View::Mission {
        return panels;
    }
    if state.view.is_report() {
        return vec![Panel::Main];
    }
    panels.push(Panel::Main);
    if matches!(state.view, View::Agents | View::Timeline) {
        panels.push(Panel::Detail);
    }
    panels
}
