//! The reports over many sessions: opening them, marking what is compared, going to what a line is about.

use subscope_model::Millis;
use subscope_render::Ink;

use super::{Effect, ask, display, navigation, show_notice};
use crate::{
    ask::Question,
    state::{
        Panel, UiState, View,
        reports::{Place, StatsRange},
    },
};

/// Interval at which open statistics are requested again while something is at work.
const STATS_MS: Millis = 30_000;

/// Opens a report, or returns from it to the agents.
pub(super) fn open(state: &mut UiState, view: View) -> Vec<Effect> {
    if state.is_replay {
        show_notice(state, "a playback has one session only", Ink::Done);
        return Vec::new();
    }
    display::view(state, view);
    if state.view == view {
        (state.panel, state.reports.cursor) = (Panel::Main, 0);
    }
    load(state)
}

/// Requests the data of the open report.
pub(super) fn load(state: &mut UiState) -> Vec<Effect> {
    let mut effects = Vec::new();
    match state.view {
        View::Stats => {
            state.reports.stats_ms = state.awake_ms;
            let question = Question::Stats(state.reports.range.query(state.now_ms, &state.settings.zone));
            ask(state, &mut effects, question);
        }
        View::Iterations => ask(state, &mut effects, Question::Iterations),
        View::Compare => {
            let missing = compared(state).into_iter().map(|place| place.session);
            let missing: Vec<_> = missing.filter(|session| state.trees.get(session).is_none()).collect();
            for session in missing {
                ask(state, &mut effects, Question::Tree(session));
            }
        }
        View::Mission | View::Agents | View::Timeline | View::Feed | View::Summary => {}
    }
    effects
}

/// Asks for open statistics again while something is at work.
pub(super) fn on_tick(state: &mut UiState, effects: &mut Vec<Effect>) {
    let is_due = state.view == View::Stats && state.awake_ms - state.reports.stats_ms >= STATS_MS;
    if is_due && state.trees.counts().live > 0 {
        effects.extend(load(state));
    }
}

/// The sides of the comparison: the marked ones; with one mark also the selected session.
pub(crate) fn compared(state: &UiState) -> Vec<Place> {
    let mut places = state.reports.marked.clone();
    if places.len() == 1 {
        let selected = state.session().map(|session| Place { session: session.clone(), agent: None });
        places.extend(selected.filter(|place| !places.contains(place)));
    }
    places
}

/// Marks the selected session, or in the tree the selected agent, for the comparison.
pub(super) fn toggle_mark(state: &mut UiState) {
    let Some(session) = state.session().cloned() else { return };
    let is_list = state.view == View::Mission || state.panel == Panel::Sessions;
    let agent = state.agent_id().filter(|agent| !is_list && !agent.is_root());
    let what = if agent.is_some() { "agent" } else { "session" };
    let words = match state.reports.toggle_mark(Place { session, agent }) {
        None => format!("this {what} is not compared"),
        Some("A") => format!("A is this {what}: mark another to compare it with"),
        Some(letter) => format!("{letter} is this {what}: 6 compares"),
    };
    show_notice(state, words, Ink::Done);
}

/// Shows the statistics of other days.
pub(super) fn choose_range(state: &mut UiState, range: StatsRange) -> Vec<Effect> {
    (state.reports.range, state.reports.cursor) = (range, 0);
    load(state)
}

/// Opens the session or agent of the line at the cursor.
pub(super) fn follow_link(state: &mut UiState) {
    let cursor = state.reports.cursor;
    let link = state.drawn.links.iter().find(|(line, _)| *line == cursor).map(|(_, place)| place.clone());
    match link {
        Some(place) => go_to(state, place),
        None => show_notice(state, "this line leads nowhere", Ink::Done),
    }
}

/// Shows a session, or one of its agents.
pub(super) fn go_to(state: &mut UiState, place: Place) {
    navigation::select_session(state, place.session);
    if let Some(agent) = place.agent {
        navigation::select_agent(state, agent);
    }
    (state.view, state.panel) = (View::Agents, Panel::Main);
    super::schedule_load(state);
}
