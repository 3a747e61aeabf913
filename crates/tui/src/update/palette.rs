//! Keys of the command palette.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Effect, act, ask, ask_for, reports};
use crate::{
    ask::Question,
    state::{
        Overlay, UiState,
        palette::{CommandPalette, PaletteEntry},
        reports::Place,
        search::query_of,
    },
};

/// Most bytes of the typed text.
const MAX_TEXT: usize = 200;

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a foreign enum of all keys, of which few have a meaning here"
)]
pub(super) fn on_key(state: &mut UiState, mut palette: CommandPalette, key: KeyEvent) -> Vec<Effect> {
    let entries = palette.entries(state);
    let last = entries.len().saturating_sub(1);
    palette.at = palette.at.min(last);
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Esc => return Vec::new(),
        KeyCode::Enter => {
            let entry = entries.into_iter().nth(palette.at);
            return entry.map(|entry| run(state, &palette, entry)).unwrap_or_default();
        }
        KeyCode::Up => palette.at = palette.at.saturating_sub(1),
        KeyCode::Down => palette.at = (palette.at + 1).min(last),
        // Completes the text to the selected entry.
        KeyCode::Tab => {
            if let Some(entry) = entries.get(palette.at) {
                palette.text = entry
                    .completion(&palette.text)
                    .chars()
                    .filter(|it| !it.is_control())
                    .take(MAX_TEXT)
                    .collect();
                palette.at = 0;
            }
        }
        KeyCode::Backspace if palette.text.is_empty() => return Vec::new(),
        KeyCode::Backspace => {
            palette.text.pop();
            palette.at = 0;
        }
        KeyCode::Char('u') if is_control => (palette.text, palette.at) = (String::new(), 0),
        KeyCode::Char(character)
            if palette.text.len() < MAX_TEXT && (key.modifiers - KeyModifiers::SHIFT).is_empty() =>
        {
            palette.text.push(character);
            palette.at = 0;
        }
        _ => {}
    }
    state.overlay = Some(Overlay::Palette(Box::new(palette)));
    Vec::new()
}

fn run(state: &mut UiState, palette: &CommandPalette, entry: PaletteEntry) -> Vec<Effect> {
    match entry {
        PaletteEntry::Command(action) => return act(state, action),
        PaletteEntry::Session(row) => reports::go_to(state, Place { session: row.id.clone(), agent: None }),
        PaletteEntry::Agent(place, _) => reports::go_to(state, place),
        PaletteEntry::Text => return ask_for(state, Question::Search(query_of(&palette.text))),
    }
    Vec::new()
}

/// Asks for the sessions and agents that match the typed text, one question at a time.
pub(super) fn on_tick(state: &mut UiState, effects: &mut Vec<Effect>) {
    let is_pending = state.pending_questions.iter().any(|asked| matches!(asked, Question::Find(_)));
    let Some(Overlay::Palette(palette)) = &mut state.overlay else { return };
    if is_pending || palette.asked == palette.text {
        return;
    }
    palette.asked.clone_from(&palette.text);
    let words = palette.text.trim().to_owned();
    if !words.is_empty() {
        ask(state, effects, Question::Find(words));
    }
}
