//! Permission requests: asking for them while somebody looks, and answering one.

use ratatui::crossterm::event::{KeyCode, KeyEvent};
use subscope_model::{
    Millis, PermissionAnswered, PermissionBehavior, PermissionDecision, PermissionRequests,
};
use subscope_render::Ink;

use super::{Effect, ask, ask_for, overlay::edit, show_notice};
use crate::{
    ask::Question,
    keys::{self, Action},
    state::{Overlay, PermissionPrompt, UiState},
};

/// Interval of requests while answers are taken. The hub counts a frontend as looking for ten seconds.
const PACE_MS: Millis = 1_000;
/// The same while they are not: the hub reads its settings when it starts.
const OFF_MS: Millis = 60_000;
/// The same while it is not known.
const UNKNOWN_MS: Millis = 5_000;
/// Most bytes of a reason, and of an answer.
pub(super) const MAX_TEXT: usize = 2_000;

/// Asks for the permission requests, unless the terminal is not looked at.
pub(super) fn on_tick(state: &mut UiState, effects: &mut Vec<Effect>) {
    if state.is_replay || state.is_unfocused {
        return;
    }
    let pace = match &state.permissions {
        Some(all) if all.enabled => PACE_MS,
        Some(_) => OFF_MS,
        None => UNKNOWN_MS,
    };
    if state.permissions_queried_ms.is_none_or(|at| state.awake_ms - at >= pace) {
        state.permissions_queried_ms = Some(state.awake_ms);
        ask(state, effects, Question::Permissions);
    }
}

/// Takes the requests that wait now. An open one that is not among them was answered elsewhere.
pub(super) fn on_requests(state: &mut UiState, requests: PermissionRequests) {
    if let Some(Overlay::Permission(prompt)) = &state.overlay
        && requests.requests.iter().all(|request| request.id != prompt.request.id)
    {
        state.overlay = None;
        show_notice(state, "it was answered in its terminal, or its time is over", Ink::Stalled);
    }
    state.permissions = Some(requests);
}

/// Opens the request of the selected agent, else of the selected session, else the oldest.
pub(super) fn open(state: &mut UiState) {
    let all = state.permissions.as_ref();
    let requests = all.map(|all| all.requests.as_slice()).unwrap_or_default();
    let (session, agent) = (state.session(), state.agent_id());
    let of_session = || requests.iter().filter(|request| Some(&request.session_id) == session);
    let found = of_session().find(|request| Some(&request.agent_id) == agent.as_ref());
    let found = found.or_else(|| of_session().next()).or_else(|| requests.first());
    match found.cloned() {
        Some(request) => state.overlay = Some(Overlay::Permission(Box::new(PermissionPrompt::of(request)))),
        None => {
            let words = match all.map(|all| all.enabled) {
                Some(true) => "no request waits here: what needs you is answered in its terminal",
                Some(false) => "answers are off here: `subscope help answer` says how to switch them on",
                None => "no hub has said whether it takes answers",
            };
            show_notice(state, words, Ink::Stalled);
        }
    }
}

/// Handles a key of the open request: it is read, allowed, or denied with a reason.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a foreign enum of all keys, of which few have a meaning here"
)]
pub(super) fn on_key(state: &mut UiState, mut prompt: Box<PermissionPrompt>, key: KeyEvent) -> Vec<Effect> {
    if let Some(reason) = prompt.reason.take() {
        return on_reason(state, prompt, reason, key);
    }
    if !prompt.request.questions.is_empty() {
        return super::question::on_key(state, prompt, key);
    }
    let page = state.drawn.page.max(2);
    match key.code {
        KeyCode::Char('y') if prompt.is_read => return decide(state, &prompt, PermissionDecision::ALLOW),
        KeyCode::Char('n') => prompt.reason = Some(String::new()),
        _ => match keys::action(key) {
            Some(Action::Down) => prompt.from += 1,
            Some(Action::Up) => prompt.from = prompt.from.saturating_sub(1),
            Some(Action::PageDown | Action::Pause) => prompt.from += page - 1,
            Some(Action::PageUp) => prompt.from = prompt.from.saturating_sub(page - 1),
            Some(Action::First) => prompt.from = 0,
            Some(Action::Last) => prompt.from = usize::MAX,
            Some(Action::Back | Action::Quit) => return Vec::new(),
            // Nothing else is meant for a request.
            _ => {}
        },
    }
    state.overlay = Some(Overlay::Permission(prompt));
    Vec::new()
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a foreign enum of all keys, of which few have a meaning here"
)]
fn on_reason(
    state: &mut UiState,
    mut prompt: Box<PermissionPrompt>,
    mut reason: String,
    key: KeyEvent,
) -> Vec<Effect> {
    match key.code {
        KeyCode::Enter => {
            let reason = Some(reason.trim()).filter(|reason| !reason.is_empty());
            return decide(state, &prompt, PermissionDecision::deny(reason.map(Into::into)));
        }
        KeyCode::Esc => {
            state.overlay = Some(Overlay::Permission(prompt));
            return Vec::new();
        }
        _ => edit(&mut reason, key, MAX_TEXT),
    }
    prompt.reason = Some(reason);
    state.overlay = Some(Overlay::Permission(prompt));
    Vec::new()
}

/// Sends a decision.
pub(super) fn decide(
    state: &mut UiState,
    prompt: &PermissionPrompt,
    decision: PermissionDecision,
) -> Vec<Effect> {
    ask_for(state, Question::Permit(prompt.request.id.clone(), decision))
}

/// Adds pasted words to those that are typed.
pub(super) fn on_paste(prompt: &mut PermissionPrompt, pasted: impl Iterator<Item = char>) {
    let Some(typed) = prompt.reason.as_mut().or(prompt.form.words.as_mut()) else { return };
    for character in pasted {
        if typed.len() < MAX_TEXT {
            typed.push(character);
        }
    }
}

/// Says what was decided.
pub(super) fn on_answered(state: &mut UiState, answered: &PermissionAnswered) {
    if let Some(all) = &mut state.permissions {
        all.requests.retain(|request| request.id != answered.id);
    }
    let ink = if answered.behavior == PermissionBehavior::Allow { Ink::Done } else { Ink::Failed };
    show_notice(state, format!("{}: {}", answered.participle(), answered.tool), ink);
}
