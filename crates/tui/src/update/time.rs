//! Time travel: pause, step, jump, play.

use subscope_model::{Agent, Millis, Tree};
use subscope_render::Ink;

use super::{Effect, ask, navigation::Direction, schedule_load, show_notice};
use crate::{
    ask::Question,
    state::{UiState, time_travel::TimeTravel},
};

/// Returns to now; a replay goes to its end.
pub(super) fn return_to_now(state: &mut UiState) {
    if state.is_replay {
        if let Some(travel) = &mut state.travel {
            travel.seek(travel.to_ms);
        }
    } else {
        state.travel = None;
    }
    state.dirty.rows = true;
}

/// Pauses or resumes time.
pub(super) fn pause(state: &mut UiState) {
    if state.travel().is_none() {
        enter_past(state);
    } else if is_paused_at_end(state) {
        state.travel = None;
        state.dirty.rows = true;
    } else if let Some(travel) = &mut state.travel {
        if !travel.is_playing && travel.at_ms >= travel.to_ms {
            travel.seek(travel.from_ms);
        }
        travel.is_playing = !travel.is_playing;
        travel.advanced_ms = state.awake_ms;
        schedule_load(state);
    }
}

/// Steps to the next or previous event.
pub(super) fn step(state: &mut UiState, direction: Direction) {
    if !enter_past(state) {
        return;
    }
    let session = state.session().cloned();
    let Some(travel) = &mut state.travel else { return };
    let log = session.and_then(|session| state.logs.get(&session));
    travel.step(log, direction == Direction::Right);
    // Stepping needs the events before the subscription, too.
    schedule_load(state);
}

/// Jumps by a tenth of the session.
pub(super) fn jump(state: &mut UiState, direction: Direction) {
    if !enter_past(state) {
        return;
    }
    let Some(travel) = &mut state.travel else { return };
    let tenth = ((travel.to_ms - travel.from_ms) / 10).max(1);
    travel.seek(travel.at_ms + if direction == Direction::Right { tenth } else { -tenth });
    schedule_load(state);
}

/// Halves or doubles the playback speed.
pub(super) fn change_speed(state: &mut UiState, direction: Direction) {
    if !enter_past(state) {
        return;
    }
    let Some(travel) = &mut state.travel else { return };
    travel.change_speed(direction == Direction::Right);
    schedule_load(state);
}

/// Starts time travel in the selected session, unless it is under way. Returns false if the session has no times.
fn enter_past(state: &mut UiState) -> bool {
    if state.travel().is_some() {
        return true;
    }
    let begun = start_time_travel(state);
    if begun.is_none() {
        show_notice(state, "nothing in this session has a time", Ink::Stalled);
        return false;
    }
    state.travel = begun;
    true
}

/// Whether a live session is paused at the end: resuming returns to now.
fn is_paused_at_end(state: &UiState) -> bool {
    let Some(travel) = state.travel().filter(|travel| !travel.is_playing && travel.at_ms >= travel.to_ms)
    else {
        return false;
    };
    let tree = state.trees.get(&travel.session).filter(|_| !state.is_replay);
    tree.is_some_and(|tree| is_live_tree(tree) && state.trees.is_subscribed(&travel.session))
}

fn is_live_tree(tree: &Tree) -> bool {
    tree.agents.iter().any(Agent::is_at_work)
}

/// Seeks to a fraction of the session, from 0 to 1.
pub(super) fn seek(state: &mut UiState, share: f64) {
    if let Some(travel) = &mut state.travel {
        // `as` saturates.
        let past = ((travel.to_ms - travel.from_ms) as f64 * share.clamp(0.0, 1.0)) as Millis;
        travel.seek(travel.from_ms + past);
    }
}

/// Starts time travel: pauses the selected session at its current end. `None` if it has no start time.
fn start_time_travel(state: &UiState) -> Option<TimeTravel> {
    let tree = state.tree()?;
    let from_ms = tree.session.started_at_ms?;
    let ended = tree.session.ended_at_ms.unwrap_or(from_ms);
    let to_ms = if is_live_tree(tree) && state.trees.is_subscribed(&tree.session.id) {
        state.now_ms.max(ended)
    } else {
        ended
    };
    Some(TimeTravel {
        session: tree.session.id.clone(),
        at_ms: to_ms,
        from_ms,
        to_ms,
        is_playing: false,
        speed: 1.0,
        tree: Some(tree.clone()),
        shown_ms: Some(to_ms),
        requested_ms: None,
        advanced_ms: state.awake_ms,
    })
}

/// Advances playback and queries the tree at the displayed time, one query at a time.
pub(super) fn advance(state: &mut UiState, effects: &mut Vec<Effect>) {
    let awake_ms = state.awake_ms;
    let selected = state.session().cloned();
    let Some(travel) = &mut state.travel else { return };
    if selected.as_ref() != Some(&travel.session) {
        // Another session is selected: playback waits.
        travel.advanced_ms = awake_ms;
        return;
    }
    travel.advance(awake_ms);
    if travel.requested_ms.is_none() && travel.shown_ms != Some(travel.at_ms) {
        travel.requested_ms = Some(travel.at_ms);
        let question = Question::At(travel.session.clone(), travel.at_ms);
        ask(state, effects, question);
    }
}
