//! Going about: along lists, and from panel to panel.

use subscope_model::AgentId;

use super::settle_soon;
use crate::{
    keys::Action,
    state::{Panel, State, View},
};

/// How far a step or a page goes, and in which direction.
enum Stride {
    By(isize),
    ToFirst,
    ToLast,
}

/// Moves along whatever has the keys.
pub(super) fn along(state: &mut State, action: Action) {
    let page = isize::try_from(state.drawn.page.max(2) - 1).unwrap_or(isize::MAX);
    let stride = match action {
        Action::Up => Stride::By(-1),
        Action::Down => Stride::By(1),
        Action::PageUp => Stride::By(-page),
        Action::PageDown => Stride::By(page),
        Action::First => Stride::ToFirst,
        Action::Last => Stride::ToLast,
        Action::Left => return sideways(state, Side::Left),
        Action::Right => return sideways(state, Side::Right),
        _ => return,
    };
    match (state.panel, state.view) {
        (Panel::Sessions, _) => select_session(state, &stride),
        (Panel::Main, View::Agents | View::Timeline) => select_row(state, &stride),
        (Panel::Detail, _) => {
            state.reading.call = None;
            state.reading.up = scrolled(state.reading.up, &stride, state.drawn.detail.most);
        }
        (Panel::Main, View::Feed) => {
            state.reading.feed_up = scrolled(state.reading.feed_up, &stride, state.drawn.feed.most);
        }
        (Panel::Main, View::Summary) => {
            let reversed = match stride {
                Stride::By(by) => Stride::By(-by),
                Stride::ToFirst => Stride::ToLast,
                Stride::ToLast => Stride::ToFirst,
            };
            state.reading.summary_down =
                scrolled(state.reading.summary_down, &reversed, state.drawn.summary.most);
        }
    }
}

/// Lines up from an end; the first line is as far up as it goes.
fn scrolled(up: usize, stride: &Stride, most: usize) -> usize {
    match stride {
        Stride::By(by) => up.saturating_add_signed(-by).min(most),
        Stride::ToFirst => most,
        Stride::ToLast => 0,
    }
}

fn moved(at: Option<usize>, stride: &Stride, count: usize) -> Option<usize> {
    let last = count.checked_sub(1)?;
    Some(match (stride, at) {
        (Stride::By(by), Some(at)) => at.saturating_add_signed(*by).min(last),
        (Stride::ToFirst, _) | (Stride::By(_), None) => 0,
        (Stride::ToLast, _) => last,
    })
}

fn select_session(state: &mut State, stride: &Stride) {
    let place = moved(state.sessions.place(), stride, state.sessions.rows.len());
    if let Some(row) = place.and_then(|place| state.sessions.rows.get(place)) {
        let id = row.id.clone();
        choose_session(state, id);
    }
}

/// Selects a session.
pub(super) fn choose_session(state: &mut State, id: subscope_model::SessionId) {
    state.sessions.is_chosen = true;
    if state.sessions.selected.as_ref() != Some(&id) {
        state.sessions.selected = Some(id);
        state.reading.up = 0;
        state.reading.call = None;
        state.reading.feed_up = 0;
        state.waterfall.from_ms = None;
        state.waterfall.zoom = 0;
        settle_soon(state);
    }
}

fn select_row(state: &mut State, stride: &Stride) {
    let place = moved(state.row_at(), stride, state.rows.len());
    let agent = place.and_then(|place| state.rows.get(place)).map(|row| row.agent);
    let id = agent.and_then(|at| state.tree()?.agents.get(at)).map(|agent| agent.id.clone());
    if let Some(id) = id {
        choose_agent(state, id);
    }
}

/// Selects an agent of the selected session.
pub(super) fn choose_agent(state: &mut State, id: AgentId) {
    let Some(session) = state.session().cloned() else { return };
    if state.agent_id().as_ref() != Some(&id) {
        state.reading.up = 0;
        state.reading.call = None;
    }
    state.chosen.insert(session, id);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// In a tree: closes and opens branches, as files are gone through. On a time axis: back and on.
fn sideways(state: &mut State, side: Side) {
    match (state.panel, state.view) {
        (Panel::Main, View::Timeline) => pan(state, side),
        (Panel::Main, View::Agents) => branch(state, side),
        (Panel::Sessions, _) if side == Side::Right => state.panel = Panel::Main,
        (Panel::Detail | Panel::Main, _) if side == Side::Left => between(state, Action::Back),
        _ => {}
    }
}

fn branch(state: &mut State, side: Side) {
    let Some(at) = state.row_at() else { return };
    let (Some(row), Some(key)) = (state.rows.get(at).copied(), key(state)) else { return };
    match side {
        Side::Left if row.has_children => {
            state.folded.insert(key);
        }
        Side::Left => {
            let above = state.rows[..at].iter().rposition(|above| above.depth < row.depth);
            match above {
                Some(above) => select_row(state, &Stride::By(above as isize - at as isize)),
                None => state.panel = Panel::Sessions,
            }
        }
        Side::Right if row.folded > 0 => {
            state.folded.remove(&key);
        }
        Side::Right if row.has_children => select_row(state, &Stride::By(1)),
        Side::Right => state.panel = Panel::Detail,
    }
    state.dirty.rows = true;
}

/// The selected agent with its session, as folds are kept.
pub(super) fn key(state: &State) -> Option<(subscope_model::SessionId, AgentId)> {
    Some((state.session()?.clone(), state.agent_id()?))
}

/// Moves the left edge of the time axis by a fifth of what is in sight.
fn pan(state: &mut State, side: Side) {
    let (Some((from, step)), Some(timeline)) = (state.drawn.axis, state.waterfall.timeline.as_ref()) else {
        return;
    };
    if state.waterfall.zoom == 0 {
        return;
    }
    let columns = f64::from(state.size.0) / 5.0;
    // `as` saturates; an axis of some days is far below the range.
    let by = (step * columns) as i64;
    let to = if side == Side::Left { from - by } else { from + by };
    state.waterfall.from_ms = (to < timeline.end_ms).then_some(to.max(timeline.start_ms));
}

/// Goes from panel to panel, in and out.
pub(super) fn between(state: &mut State, action: Action) {
    // Whoever goes into a session means it.
    state.sessions.is_chosen |= state.session().is_some();
    let panels = panels(state);
    let at = panels.iter().position(|panel| *panel == state.panel).unwrap_or(0);
    state.panel = match action {
        Action::NextPanel => panels[(at + 1) % panels.len()],
        Action::PreviousPanel => panels[(at + panels.len() - 1) % panels.len()],
        Action::Enter => match (state.panel, state.view) {
            (Panel::Sessions, _) => Panel::Main,
            (Panel::Main, View::Agents | View::Timeline) if panels.contains(&Panel::Detail) => Panel::Detail,
            (Panel::Main, View::Timeline) => {
                state.view = View::Agents;
                Panel::Main
            }
            (panel, _) => panel,
        },
        Action::Back => return back(state),
        _ => state.panel,
    };
}

/// Gives up one thing: what was looked for, another time, another view, the panel.
fn back(state: &mut State) {
    if !state.search.text.is_empty() || !state.reading.text.is_empty() {
        state.search.text.clear();
        state.reading.text.clear();
        state.dirty.rows = true;
    } else if state.alerts.shown(state.awake_ms).is_some() {
        state.alerts.dismiss();
    } else if state.travel().is_some() && !state.is_replay {
        super::time::travel(state, Action::Now);
    } else if state.panel == Panel::Detail {
        state.panel = Panel::Main;
    } else if state.panel == Panel::Main && state.view != View::Agents {
        state.view = View::Agents;
    } else if state.panel == Panel::Main && !state.is_replay {
        state.panel = Panel::Sessions;
    }
}

/// The panels that keys can go to, in order.
fn panels(state: &State) -> Vec<Panel> {
    let mut panels = Vec::new();
    if !state.is_replay {
        panels.push(Panel::Sessions);
    }
    panels.push(Panel::Main);
    if matches!(state.view, View::Agents | View::Timeline) {
        panels.push(Panel::Detail);
    }
    panels
}
