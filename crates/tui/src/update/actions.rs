//! Search, jumps, and actions on the selection: stop, open, copy.

use subscope_model::{Agent, JumpOutcome, Jumped, SessionRow, SessionStatus, ToolCall, Tree};
use subscope_render::{Detail, Ink, Style, TreeOptions, TreeRow, render_tree};

use super::{Effect, ask_for, navigation, schedule_load, show_notice};
use crate::{
    ask::Question,
    state::{Overlay, Panel, UiState, View},
};

/// Width of text for the editor, in columns.
const TEXT_WIDTH: usize = 100;

/// Turns follow mode (select the agent that acts) on or off. In an ended session no agent acts: selects the first live
/// session.
pub(super) fn toggle_following(state: &mut UiState) {
    let is_live = |row: &&SessionRow| row.status == SessionStatus::Live;
    let first_live = || state.sessions.rows.iter().find(is_live).map(|row| row.id.clone());
    let is_over = !state.is_following && state.sessions.row().as_ref().is_some_and(|row| !is_live(row));
    match first_live() {
        None if is_over => {
            return show_notice(state, "no agent is at work, so there is none to follow", Ink::Stalled);
        }
        Some(live) if is_over => navigation::select_session(state, live),
        Some(_) | None => {}
    }
    state.is_following = !state.is_following;
    state.reading.up = 0;
    state.reading.feed_up = 0;
    let words = if state.is_following { "following the latest activity" } else { "following nothing" };
    show_notice(state, words, Ink::Done);
}

/// Returns the indices of the rows that contain a text, which must be lower case. An agent contains the text of its
/// calls, unless they have rows.
pub(super) fn hits(tree: &Tree, rows: &[TreeRow], text: &str) -> Vec<usize> {
    if text.is_empty() {
        return Vec::new();
    }
    let is_hit = |row: &TreeRow| {
        let Some(agent) = tree.agents.get(row.agent) else { return false };
        match row.call {
            Some(call) => agent.tools.get(call).is_some_and(|call| call_has(call, text)),
            None => {
                let calls = if row.has_calls { &[][..] } else { &agent.tools };
                has(agent, text) || calls.iter().any(|call| call_has(call, text))
            }
        }
    };
    rows.iter().enumerate().filter(|(_, row)| is_hit(row)).map(|(at, _)| at).collect()
}

fn call_has(call: &ToolCall, text: &str) -> bool {
    [Some(&call.name), call.detail.as_ref()]
        .into_iter()
        .flatten()
        .any(|words| words.to_lowercase().contains(text))
}

fn has(agent: &Agent, text: &str) -> bool {
    let texts =
        [&agent.agent_type, &agent.name, &agent.description, &agent.prompt, &agent.result, &agent.error];
    let is_in = |value: &str| value.to_lowercase().contains(text);
    texts.into_iter().flatten().any(|value| is_in(value)) || is_in(&agent.id)
}

/// Selects the next or previous search hit, wrapping around.
pub(super) fn select_hit(state: &mut UiState, is_on: bool) {
    let count = state.search.hits.len();
    if count == 0 {
        let words =
            if state.search.text.is_empty() { "there is no search text" } else { "it is not found here" };
        show_notice(state, words, Ink::Stalled);
        return;
    }
    let here = state.selected_row();
    let next = if is_on {
        state.search.hits.iter().position(|hit| Some(*hit) > here).unwrap_or(0)
    } else {
        state.search.hits.iter().rposition(|hit| Some(*hit) < here).unwrap_or(count - 1)
    };
    let hit = state.search.hits[next];
    show_notice(state, format!("{} of {count} with \"{}\"", next + 1, state.search.text), Ink::Done);
    navigation::select_row(state, hit);
}

/// Selects the parent of the selected agent, scrolled to the call that started it.
pub(super) fn select_spawner(state: &mut UiState) {
    let found = state.agent().map(|agent| (agent.parent_id.clone(), agent.spawned_by.clone()));
    let Some((Some(parent), call)) = found else {
        show_notice(state, "the call that started it is not known", Ink::Stalled);
        return;
    };
    navigation::select_agent(state, parent);
    state.reading.call = call.map(|call| call.0);
    state.view = View::Agents;
    state.panel = Panel::Detail;
}

/// Selects the next agent that needs a person; after the last one the agents of alerts, the newest first.
pub(super) fn select_next_alert(state: &mut UiState) {
    let stops = state.alerts.stops(&state.inbox);
    // The first one may be selected already.
    let selected = || state.session().cloned().zip(state.agent_id());
    let before = match &state.alerts.visited {
        Some(visited) => stops.iter().position(|stop| stop.key() == *visited),
        None => stops.first().filter(|first| Some(first.key()) == selected()).map(|_| 0),
    };
    let at = before.map_or(0, |at| (at + 1) % stops.len());
    let Some(stop) = stops.get(at) else {
        show_notice(state, "no agent needs you, and there are no alerts", Ink::Done);
        return;
    };
    navigation::select_session(state, stop.session.clone());
    navigation::select_agent(state, stop.agent.clone());
    state.alerts.dismiss();
    state.alerts.visited = Some(stop.key());
    if state.view.is_overview() || state.panel == Panel::Sessions {
        (state.view, state.panel) = (View::Agents, Panel::Main);
    }
    let count = format!("{} of {}: ", at + 1, stops.len());
    let words = format!("{count}{}, {} {}", stop.session_name, stop.title, stop.what);
    show_notice(state, words, stop.ink);
    schedule_load(state);
}

/// Asks for confirmation to stop the selected agent.
pub(super) fn ask_to_stop(state: &mut UiState) {
    let refusal = match state.agent() {
        _ if state.travel().is_some() => Some("an agent cannot be stopped in the past: L returns to now"),
        None => Some("no agent is selected"),
        Some(agent) if agent.id.is_root() => Some("only subagents can be stopped: select one"),
        Some(agent) if !agent.status.is_live() => Some("it has ended already"),
        Some(_) => None,
    };
    if let Some(words) = refusal {
        show_notice(state, words, Ink::Stalled);
        return;
    }
    if let (Some(session), Some(agent)) = (state.session(), state.agent()) {
        let (session, agent, title) = (session.clone(), agent.id.clone(), agent.title());
        state.overlay = Some(Overlay::Stop { session, agent, title });
    }
}

/// Asks the host to go to the terminal of the selected session.
pub(super) fn go_to_terminal(state: &mut UiState) -> Vec<Effect> {
    let Some(session) = state.session().cloned() else { return Vec::new() };
    ask_for(state, Question::Jump(session))
}

/// Says what came of going to a terminal, and copies the command that leads there.
pub(super) fn show_jump(state: &mut UiState, jumped: Jumped) -> Vec<Effect> {
    let ink = if jumped.outcome == JumpOutcome::Went { Ink::Done } else { Ink::Stalled };
    let Some(command) = jumped.command else {
        show_notice(state, jumped.says.to_string(), ink);
        return Vec::new();
    };
    show_notice(state, format!("{}; copied: {command}", jumped.says), ink);
    vec![Effect::Copy(command.to_string())]
}

/// Copies from the focused panel: the session's id, the agent's id, or in the detail panel its error, result, task or
/// id.
pub(super) fn copy(state: &mut UiState) -> Vec<Effect> {
    let (what, text) = match (state.panel, state.agent()) {
        (Panel::Sessions, _) | (_, None) => match state.session() {
            Some(session) => ("session id", session.to_string()),
            None => return Vec::new(),
        },
        (Panel::Main, Some(agent)) => ("agent id", agent.id.to_string()),
        (Panel::Detail, Some(agent)) => match (&agent.error, &agent.result, &agent.prompt) {
            (Some(text), ..) => ("error", text.to_string()),
            (None, Some(text), _) => ("result", text.to_string()),
            (None, None, Some(text)) => ("task", text.to_string()),
            (None, None, None) => ("agent id", agent.id.to_string()),
        },
    };
    show_notice(state, format!("{what} copied"), Ink::Done);
    vec![Effect::Copy(text)]
}

/// Renders the selected agent's subtree in full detail as sanitized text.
pub(super) fn agent_text(state: &UiState) -> Option<String> {
    let (tree, agent) = (state.tree()?, state.agent_id()?);
    let style = Style { color: false, width: TEXT_WIDTH, ..state.settings.style };
    let offset_minutes = state.settings.offset_minutes;
    let now = Some(state.moment_ms());
    let agent = Some(agent);
    Some(render_tree(
        tree,
        &TreeOptions { detail: Detail::Full, style, now, agent, offset_minutes, flat: false, most: None },
    ))
}
