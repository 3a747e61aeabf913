//! The questions of an agent: choosing an answer to each.

use ratatui::crossterm::event::{KeyCode, KeyEvent};
use subscope_model::PermissionDecision;

use super::{
    Effect,
    overlay::edit,
    permission::{MAX_TEXT, decide},
};
use crate::{
    keys::{self, Action},
    state::{Overlay, PermissionPrompt, UiState},
};

/// Handles a key of open questions. The last answer sends all of them.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a foreign enum of all keys, of which few have a meaning here"
)]
pub(super) fn on_key(state: &mut UiState, mut prompt: Box<PermissionPrompt>, key: KeyEvent) -> Vec<Effect> {
    let questions = &prompt.request.questions;
    let form = &mut prompt.form;
    let Some(asked) = questions.get(form.question()) else { return Vec::new() };
    if let Some(mut words) = form.words.take() {
        match key.code {
            KeyCode::Esc => {}
            KeyCode::Enter if !words.trim().is_empty() => form.give(words.trim().into()),
            _ => {
                edit(&mut words, key, MAX_TEXT);
                form.words = Some(words);
            }
        }
    } else {
        match key.code {
            KeyCode::Enter => form.choose(asked),
            KeyCode::Char(' ') => form.toggle(asked),
            KeyCode::Backspace => form.back(),
            KeyCode::Char('n') => prompt.reason = Some(String::new()),
            _ => match keys::action(key) {
                Some(Action::Down) => form.step(asked, 1),
                Some(Action::Up) => form.step(asked, -1),
                Some(Action::First) => form.cursor = 0,
                Some(Action::Last) => form.cursor = asked.options.len(),
                Some(Action::Back | Action::Quit) => return Vec::new(),
                // Nothing else is meant for a question.
                _ => {}
            },
        }
    }
    if let Some(answers) = prompt.form.all(prompt.request.questions.len()) {
        let decision = PermissionDecision::answer(answers.to_vec());
        return decide(state, &prompt, decision);
    }
    state.overlay = Some(Overlay::Permission(prompt));
    Vec::new()
}
