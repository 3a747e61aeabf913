//! Keys of the modal overlays: help, search prompt, confirmations, search results.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use subscope_model::AgentId;

use super::{Effect, actions, ask_for, display, navigation, reports};
use crate::{
    ask::Question,
    keys::{self, Action},
    state::{
        Overlay, Panel, SearchScope, UiState, View,
        reports::Place,
        search::{SearchResults, query_of},
    },
    theme::Palette,
};

/// Most bytes of a typed search text.
const MAX_SEARCH_TEXT: usize = 200;

pub(super) fn on_key(state: &mut UiState, key: KeyEvent) -> Vec<Effect> {
    if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
        return vec![Effect::Quit];
    }
    match state.overlay.take() {
        None => Vec::new(),
        Some(Overlay::Help(from)) => on_help(state, from, key),
        Some(Overlay::Search { text, scope }) => on_search(state, text, scope, key),
        Some(Overlay::Theme { before }) => on_theme(state, before, key),
        Some(Overlay::Stop { session, agent, title }) => {
            if matches!(key.code, KeyCode::Char('y' | 'Y') | KeyCode::Enter) {
                return ask_for(state, Question::Stop(session, agent));
            }
            // Any other key keeps the confirmation open.
            if !matches!(key.code, KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc) {
                state.overlay = Some(Overlay::Stop { session, agent, title });
            }
            Vec::new()
        }
        Some(Overlay::Permission(prompt)) => super::permission::on_key(state, prompt, key),
        Some(Overlay::Hits(results)) => on_hits(state, results, key),
        Some(Overlay::Palette(palette)) => super::palette::on_key(state, *palette, key),
    }
}

/// Selects hits and filters; Enter opens the hit, the space bar toggles the filter.
fn on_hits(state: &mut UiState, mut results: Box<SearchResults>, key: KeyEvent) -> Vec<Effect> {
    let last = results.found.hits.len().saturating_sub(1);
    let facets = results.facets();
    let mut effects = Vec::new();
    match keys::action(key) {
        Some(Action::Up) => results.at = results.at.saturating_sub(1),
        Some(Action::Down) => results.at = (results.at + 1).min(last),
        Some(Action::First) => results.at = 0,
        Some(Action::Last) => results.at = last,
        Some(Action::Left) => results.facet = results.facet.saturating_sub(1),
        Some(Action::Right) => results.facet = (results.facet + 1).min(facets.len().saturating_sub(1)),
        Some(Action::Pause) => {
            if let Some((facet, _)) = facets.get(results.facet) {
                effects = ask_for(state, Question::Search(results.toggled(facet)));
            }
        }
        Some(Action::Search) => {
            let text = results.query.terms.join(" ");
            state.overlay = Some(Overlay::Search { text, scope: SearchScope::History });
            return Vec::new();
        }
        Some(Action::Enter) => {
            if let Some(hit) = results.found.hits.get(results.at) {
                let agent = Some(AgentId::from(&*hit.agent_id));
                reports::go_to(state, Place { session: hit.session_id.clone(), agent });
            }
            return Vec::new();
        }
        Some(Action::Back | Action::Quit) => return Vec::new(),
        _ => {}
    }
    state.overlay = Some(Overlay::Hits(results));
    effects
}

/// Enter keeps the palette, its own key tries the next one, any other key goes back.
fn on_theme(state: &mut UiState, before: Palette, key: KeyEvent) -> Vec<Effect> {
    match keys::action(key) {
        Some(Action::Enter) => return display::keep_palette(state),
        Some(Action::Theme) => {
            state.settings.palette = state.settings.palette.next();
            state.overlay = Some(Overlay::Theme { before });
        }
        _ => state.settings.palette = before,
    }
    Vec::new()
}

fn on_help(state: &mut UiState, from: usize, key: KeyEvent) -> Vec<Effect> {
    let page = state.drawn.page.max(2);
    let from = match keys::action(key) {
        Some(Action::Down) => from + 1,
        Some(Action::Up) => from.saturating_sub(1),
        Some(Action::PageDown) => from + page / 2,
        Some(Action::PageUp) => from.saturating_sub(page / 2),
        // Any other key closes the help.
        _ => return Vec::new(),
    };
    state.overlay = Some(Overlay::Help(from.min(keys::KEYS.len())));
    Vec::new()
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a foreign enum of all keys, of which few have a meaning here"
)]
fn on_search(state: &mut UiState, mut text: String, mut scope: SearchScope, key: KeyEvent) -> Vec<Effect> {
    match key.code {
        KeyCode::Esc => {
            state.search.text.clear();
            state.reading.text.clear();
            state.dirty.rows = true;
            return Vec::new();
        }
        KeyCode::Enter => return submit_search(state, text, scope),
        KeyCode::Tab | KeyCode::BackTab => {
            scope = if scope == SearchScope::Here { SearchScope::History } else { SearchScope::Here };
        }
        _ => edit(&mut text, key, MAX_SEARCH_TEXT),
    }
    if scope == SearchScope::Here {
        set_search_text(state, &text);
    }
    state.overlay = Some(Overlay::Search { text, scope });
    Vec::new()
}

/// Edits a line that is typed at its end, of at most as many bytes.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a foreign enum of all keys, of which few have a meaning here"
)]
pub(super) fn edit(text: &mut String, key: KeyEvent, most: usize) {
    match key.code {
        KeyCode::Backspace => drop(text.pop()),
        KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => text.clear(),
        KeyCode::Char(character) if text.len() < most && (key.modifiers - KeyModifiers::SHIFT).is_empty() => {
            text.push(character);
        }
        _ => {}
    }
}

/// Inserts the first pasted line into what is typed: the search prompt, the command palette, a reason, an answer. Pasted text is
/// ignored elsewhere, since it is no key input.
pub(super) fn on_paste(state: &mut UiState, pasted: &str) {
    let line = pasted.lines().next().unwrap_or_default();
    let line = line.chars().filter(|character| !character.is_control()).take(MAX_SEARCH_TEXT);
    if let Some(Overlay::Palette(palette)) = &mut state.overlay {
        return palette.text.extend(line);
    }
    if let Some(Overlay::Permission(prompt)) = &mut state.overlay {
        return super::permission::on_paste(prompt, line);
    }
    let Some(Overlay::Search { text, scope }) = &mut state.overlay else { return };
    text.extend(line);
    let (text, scope) = (text.clone(), *scope);
    if scope == SearchScope::Here {
        set_search_text(state, &text);
    }
}

/// Applies the search text as it is typed: to the feed's filter or the tree search.
fn set_search_text(state: &mut UiState, text: &str) {
    let lower = text.to_lowercase();
    match (state.panel, state.view) {
        (Panel::Main | Panel::Detail, View::Feed) => {
            state.reading.text = lower;
            state.reading.feed_up = 0;
        }
        _ => state.search.text = lower,
    }
    state.dirty.rows = true;
}

fn submit_search(state: &mut UiState, text: String, scope: SearchScope) -> Vec<Effect> {
    if text.trim().is_empty() {
        set_search_text(state, "");
        return Vec::new();
    }
    if scope == SearchScope::History {
        return ask_for(state, Question::Search(query_of(&text)));
    }
    set_search_text(state, &text);
    if state.panel == Panel::Sessions {
        select_matching_session(state);
    } else if state.view != View::Feed {
        super::refresh(state);
        actions::select_hit(state, true);
    }
    Vec::new()
}

/// Selects the next session whose title, directory or id contains the search text, wrapping around.
fn select_matching_session(state: &mut UiState) {
    let text = state.search.text.clone();
    let has = |row: &subscope_model::SessionRow| {
        let is_in = |value: &str| value.to_lowercase().contains(&text);
        [&row.title, &row.cwd].into_iter().flatten().any(|value| is_in(value)) || is_in(&row.id)
    };
    let rows = &state.sessions.rows;
    let after = state.sessions.selected_index().map_or(0, |place| place + 1).min(rows.len());
    let found = rows[after..].iter().chain(&rows[..after]).find(|row| has(row)).map(|row| row.id.clone());
    state.search.text.clear();
    match found {
        Some(id) => navigation::select_session(state, id),
        None => super::show_notice(
            state,
            format!("no session in the list has \"{text}\""),
            subscope_render::Ink::Stalled,
        ),
    }
}
