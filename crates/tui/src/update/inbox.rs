//! The inbox: dismissing an entry, marking what ended as read, and what the host keeps of both.

use subscope_model::Millis;
use subscope_render::Ink;

use super::{Effect, ask, ask_for, show_notice};
use crate::{ask::Question, state::UiState};

/// Interval at which the host is asked what the user has seen: another face may have changed it.
const LOOKS_MS: Millis = 10_000;

/// Interval at which the host is asked how far it has read existing sessions, while it reads them.
const READING_MS: Millis = 1_000;

/// Asks from time to time what the user has seen, and how far the host has read.
pub(super) fn on_tick(state: &mut UiState, effects: &mut Vec<Effect>) {
    if state.is_replay {
        return;
    }
    let is_due = |at: Option<Millis>, pace| at.is_none_or(|at| state.awake_ms - at >= pace);
    let is_reading = state.host_reading.is_some() || !state.is_caught_up;
    let reading_ms = if is_reading { READING_MS } else { LOOKS_MS };
    let (asks_looks, asks_reading) =
        (is_due(state.looks_queried_ms, LOOKS_MS), is_due(state.host_reading_queried_ms, reading_ms));
    if asks_looks {
        state.looks_queried_ms = Some(state.awake_ms);
        ask(state, effects, Question::Looks);
    }
    if asks_reading {
        state.host_reading_queried_ms = Some(state.awake_ms);
        ask(state, effects, Question::Reading);
    }
}

/// Has more of the list queried if it may lack sessions that ended since the user looked.
pub(super) fn extend_history(state: &mut UiState) {
    let last = state.sessions.history.last().filter(|_| state.sessions.has_more);
    if last.is_some_and(|last| state.looks.may_lack_news(last)) {
        state.sessions.limit = state.sessions.limit.saturating_mul(4);
    }
}

/// Says so if nobody keeps what the user has seen.
fn is_kept(state: &mut UiState) -> bool {
    let is_kept = state.looks.seen_until_ms.is_some();
    if !is_kept {
        show_notice(state, "nobody keeps here what you have seen", Ink::Stalled);
    }
    is_kept
}

/// Dismisses what the selected session needs, or that it has ended, until there is a new fact.
pub(super) fn dismiss(state: &mut UiState) -> Vec<Effect> {
    let Some(session) = state.session().cloned() else { return Vec::new() };
    let ended = || state.inbox.ended.iter().find(|row| row.id == session);
    let facts = match state.inbox.entry(&session) {
        Some(entry) => entry.facts.clone(),
        None => ended().and_then(|row| row.end_fact()).into_iter().collect(),
    };
    if facts.is_empty() {
        show_notice(state, "this session needs nobody", Ink::Done);
        return Vec::new();
    }
    if !is_kept(state) {
        return Vec::new();
    }
    show_notice(state, "dismissed until something new happens", Ink::Done);
    // Another one is shown at once if something is new.
    state.looks.dismissed.insert(session.clone(), facts.clone());
    state.dirty.sessions = true;
    ask_for(state, Question::Dismiss(session, facts))
}

/// Marks everything that ended as read.
pub(super) fn mark_read(state: &mut UiState) -> Vec<Effect> {
    if !is_kept(state) {
        return Vec::new();
    }
    let now_ms = state.now_ms;
    show_notice(state, "all that ended is read", Ink::Done);
    state.looks.seen_until_ms = Some(now_ms);
    state.dirty.sessions = true;
    ask_for(state, Question::MarkSeen(now_ms))
}
