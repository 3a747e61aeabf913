//! Time travel: pause, step, jump, play.

use subscope_model::{Agent, Millis, Tree};
use subscope_render::Ink;

use super::{Effect, ask, schedule_load, show_notice};
use crate::{
    ask::Question,
    keys::Action,
    state::{UiState, time_travel::TimeTravel},
};

/// Handles time travel actions on the selected session.
pub(super) fn handle(state: &mut UiState, action: Action) {
    if action == Action::Now {
        if state.is_replay {
            if let Some(travel) = &mut state.travel {
                travel.seek(travel.to_ms);
            }
        } else {
            state.travel = None;
        }
        state.dirty.rows = true;
        return;
    }
    if state.travel().is_none() {
        let Some(begun) = start_time_travel(state) else {
            show_notice(state, "nothing in this session has a time", Ink::Stalled);
            return;
        };
        state.travel = Some(begun);
        if action == Action::Pause {
            return;
        }
    }
    if action == Action::Pause && is_paused_at_end(state) {
        state.travel = None;
        state.dirty.rows = true;
        return;
    }
    let log = state.session().cloned();
    let Some(travel) = &mut state.travel else { return };
    let tenth = ((travel.to_ms - travel.from_ms) / 10).max(1);
    match action {
        Action::Pause => {
            if !travel.is_playing && travel.at_ms >= travel.to_ms {
                travel.seek(travel.from_ms);
            }
            travel.is_playing = !travel.is_playing;
            travel.advanced_ms = state.awake_ms;
        }
        Action::StepBack | Action::StepOn => {
            let log = log.and_then(|session| state.logs.get(&session));
            travel.step(log, action == Action::StepOn);
        }
        Action::JumpBack => travel.seek(travel.at_ms - tenth),
        Action::JumpOn => travel.seek(travel.at_ms + tenth),
        Action::Slower | Action::Faster => travel.change_speed(action == Action::Faster),
        _ => {}
    }
    // Stepping needs the events before the subscription, too.
    schedule_load(state);
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
