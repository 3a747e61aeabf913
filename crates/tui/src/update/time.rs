//! Another time than now: halting, stepping, playing.

use subscope_model::{Agent, Millis, Tree};
use subscope_render::Ink;

use super::{Effect, ask, notice, settle_soon};
use crate::{
    ask::Question,
    keys::Action,
    state::{State, time_travel::Travel},
};

/// Travels in time with the selected session.
pub(super) fn travel(state: &mut State, action: Action) {
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
        let Some(begun) = begin(state) else {
            notice(state, "nothing in this session has a time", Ink::Stalled);
            return;
        };
        state.travel = Some(begun);
        if action == Action::Pause {
            return;
        }
    }
    if action == Action::Pause && is_halted_at_now(state) {
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
            travel.moved_ms = state.awake_ms;
        }
        Action::StepBack | Action::StepOn => {
            let log = log.and_then(|session| state.logs.of(&session));
            travel.step(log, action == Action::StepOn);
        }
        Action::JumpBack => travel.seek(travel.at_ms - tenth),
        Action::JumpOn => travel.seek(travel.at_ms + tenth),
        Action::Slower | Action::Faster => travel.change_speed(action == Action::Faster),
        _ => {}
    }
    // What happened before it was followed belongs to what is stepped through.
    settle_soon(state);
}

/// Whether a session at work was halted and nobody has gone back in it: to go on is to be where it is now.
fn is_halted_at_now(state: &State) -> bool {
    let Some(travel) = state.travel().filter(|travel| !travel.is_playing && travel.at_ms >= travel.to_ms)
    else {
        return false;
    };
    let tree = state.trees.get(&travel.session).filter(|_| !state.is_replay);
    tree.is_some_and(|tree| is_at_work(tree) && state.trees.is_fed(&travel.session))
}

fn is_at_work(tree: &Tree) -> bool {
    tree.agents.iter().any(Agent::is_at_work)
}

/// Goes to a part of the session, from 0 to 1.
pub(super) fn seek(state: &mut State, share: f64) {
    if let Some(travel) = &mut state.travel {
        // `as` saturates.
        let past = ((travel.to_ms - travel.from_ms) as f64 * share.clamp(0.0, 1.0)) as Millis;
        travel.seek(travel.from_ms + past);
    }
}

/// Halts the selected session as it stands.
fn begin(state: &State) -> Option<Travel> {
    let tree = state.tree()?;
    let from_ms = tree.session.started_at_ms?;
    let ended = tree.session.ended_at_ms.unwrap_or(from_ms);
    let to_ms = if is_at_work(tree) && state.trees.is_fed(&tree.session.id) {
        state.now_ms.max(ended)
    } else {
        ended
    };
    Some(Travel {
        session: tree.session.id.clone(),
        at_ms: to_ms,
        from_ms,
        to_ms,
        is_playing: false,
        speed: 1.0,
        tree: Some(tree.clone()),
        shown_ms: Some(to_ms),
        asked_ms: None,
        moved_ms: state.awake_ms,
    })
}

/// Lets a playback go on, and asks for the rows of the moment that is looked at.
pub(super) fn go_on(state: &mut State, effects: &mut Vec<Effect>) {
    let awake_ms = state.awake_ms;
    let selected = state.session().cloned();
    let Some(travel) = &mut state.travel else { return };
    if selected.as_ref() != Some(&travel.session) {
        // Who comes back finds it where it was left.
        travel.moved_ms = awake_ms;
        return;
    }
    travel.play(awake_ms);
    if travel.asked_ms.is_none() && travel.shown_ms != Some(travel.at_ms) {
        travel.asked_ms = Some(travel.at_ms);
        let question = Question::At(travel.session.clone(), travel.at_ms);
        ask(state, effects, question);
    }
}
