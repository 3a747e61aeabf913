//! Keys while something lies over everything: it takes all of them.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use subscope_model::AgentId;

use super::{Effect, acts, ask, moves};
use crate::{
    ask::Question,
    keys::{self, Action},
    state::{Overlay, Panel, Reach, State, View},
};

/// The longest text that is looked for.
const MOST_TEXT: usize = 200;

pub(super) fn on_key(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
        return vec![Effect::Quit];
    }
    match state.overlay.take() {
        None => Vec::new(),
        Some(Overlay::Help(from)) => on_help(state, from, key),
        Some(Overlay::Search { text, reach }) => on_search(state, text, reach, key),
        Some(Overlay::Stop { session, agent, title }) => {
            let mut effects = Vec::new();
            match key.code {
                KeyCode::Char('y' | 'Y') | KeyCode::Enter => {
                    ask(state, &mut effects, Question::Stop(session, agent));
                }
                KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc => {}
                // A key that means nothing here answers nothing.
                _ => state.overlay = Some(Overlay::Stop { session, agent, title }),
            }
            effects
        }
        Some(Overlay::Hits { words, hits, at }) => {
            let last = hits.len().saturating_sub(1);
            let at = match keys::action(key) {
                Some(Action::Up) => at.saturating_sub(1),
                Some(Action::Down) => (at + 1).min(last),
                Some(Action::First) => 0,
                Some(Action::Last) => last,
                Some(Action::Enter) => {
                    if let Some(hit) = hits.get(at) {
                        moves::choose_session(state, hit.session_id.clone());
                        moves::choose_agent(state, AgentId::from(&*hit.agent_id));
                        state.view = View::Agents;
                        state.panel = Panel::Main;
                    }
                    return Vec::new();
                }
                Some(Action::Back | Action::Quit) => return Vec::new(),
                _ => at,
            };
            state.overlay = Some(Overlay::Hits { words, hits, at });
            Vec::new()
        }
    }
}

fn on_help(state: &mut State, from: usize, key: KeyEvent) -> Vec<Effect> {
    let page = state.drawn.page.max(2);
    let from = match keys::action(key) {
        Some(Action::Down) => from + 1,
        Some(Action::Up) => from.saturating_sub(1),
        Some(Action::PageDown) => from + page / 2,
        Some(Action::PageUp) => from.saturating_sub(page / 2),
        // Any other key closes it, as people expect of a sheet of paper.
        _ => return Vec::new(),
    };
    state.overlay = Some(Overlay::Help(from.min(keys::KEYS.len())));
    Vec::new()
}

fn on_search(state: &mut State, mut text: String, mut reach: Reach, key: KeyEvent) -> Vec<Effect> {
    match key.code {
        KeyCode::Esc => {
            state.search.text.clear();
            state.reading.text.clear();
            state.dirty.rows = true;
            return Vec::new();
        }
        KeyCode::Enter => return look(state, text, reach),
        KeyCode::Tab | KeyCode::BackTab => {
            reach = if reach == Reach::Here { Reach::History } else { Reach::Here };
        }
        KeyCode::Backspace => drop(text.pop()),
        KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => text.clear(),
        KeyCode::Char(character)
            if text.len() < MOST_TEXT && (key.modifiers - KeyModifiers::SHIFT).is_empty() =>
        {
            text.push(character);
        }
        _ => {}
    }
    if reach == Reach::Here {
        set_text(state, &text);
    }
    state.overlay = Some(Overlay::Search { text, reach });
    Vec::new()
}

/// Takes a pasted text where one is asked for; elsewhere it would be keys that nobody has pressed.
pub(super) fn on_paste(state: &mut State, pasted: &str) {
    let Some(Overlay::Search { text, reach }) = &mut state.overlay else { return };
    let line = pasted.lines().next().unwrap_or_default();
    text.extend(line.chars().filter(|character| !character.is_control()).take(MOST_TEXT));
    let (text, reach) = (text.clone(), *reach);
    if reach == Reach::Here {
        set_text(state, &text);
    }
}

/// What is looked for is seen while it is typed.
fn set_text(state: &mut State, text: &str) {
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

fn look(state: &mut State, text: String, reach: Reach) -> Vec<Effect> {
    let mut effects = Vec::new();
    if text.trim().is_empty() {
        set_text(state, "");
        return effects;
    }
    if reach == Reach::History {
        ask(state, &mut effects, Question::Search(text));
        return effects;
    }
    set_text(state, &text);
    if state.panel == Panel::Sessions {
        to_session(state);
    } else if state.view != View::Feed {
        super::refresh(state);
        acts::to_hit(state, true);
    }
    effects
}

/// Selects the next session that has the text, in a circle.
fn to_session(state: &mut State) {
    let text = state.search.text.clone();
    let has = |row: &subscope_model::SessionRow| {
        let is_in = |value: &str| value.to_lowercase().contains(&text);
        [&row.title, &row.cwd].into_iter().flatten().any(|value| is_in(value)) || is_in(&row.id)
    };
    let rows = &state.sessions.rows;
    let after = state.sessions.place().map_or(0, |place| place + 1).min(rows.len());
    let found = rows[after..].iter().chain(&rows[..after]).find(|row| has(row)).map(|row| row.id.clone());
    state.search.text.clear();
    match found {
        Some(id) => moves::choose_session(state, id),
        None => super::notice(
            state,
            format!("no session in the list has \"{text}\""),
            subscope_render::Ink::Stalled,
        ),
    }
}
