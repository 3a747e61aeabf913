//! Feed updates and replies of the host.

use subscope_model::{Agent, Event, EventKind, Hits, SessionId, Tree, Update};
use subscope_render::{Ink, blocks::budget_words};

use super::{Effect, actions, navigation, permission, show_notice};
use crate::{
    ask::{Answer, Question, Reply},
    settings::Alerts,
    state::{
        Overlay, UiState,
        alerts::{Alert, BeforeChange},
        search::{SearchResults, is_filtered},
    },
};

pub(super) fn on_update(state: &mut UiState, update: Update) -> Vec<Effect> {
    let mut before = None;
    let mut on_rows = |state: &mut UiState, session: &SessionId, agents: &[Agent]| {
        before = state.trees.get(session).map(|tree| BeforeChange::of(tree, agents));
        mark_stale(state, session);
    };
    match &update {
        Update::Snapshot(tree) => on_rows(state, &tree.session.id, &tree.agents),
        Update::Change(change) => on_rows(state, &change.session().id, &change.agents),
        Update::Event(event) => {
            state.logs.apply(event);
            follow(state, event);
            if event.kind == EventKind::Budget && state.is_caught_up {
                let words = budget_words(event);
                show_notice(state, words.clone(), Ink::Stalled);
                return signal(state, words);
            }
        }
        Update::Missed(count) => {
            state.logs.mark_missed(*count);
            super::schedule_load(state);
        }
        Update::Reset => {
            state.logs.mark_missed(0);
            (state.dirty.sessions, state.dirty.rows) = (true, true);
            super::schedule_load(state);
        }
        Update::CaughtUp => {
            state.is_caught_up = true;
            state.dirty.load_at = Some(state.awake_ms);
            return load_requests(state);
        }
    }
    state.trees.apply(update);
    let alerts = before.map(|before| before.raised_alerts(&state.trees, state.awake_ms));
    add_alerts(state, alerts.unwrap_or_default())
}

/// Loads the events of sessions that have waited for a person since before the subscription: the events have the
/// requests.
fn load_requests(state: &mut UiState) -> Vec<Effect> {
    let waits = |tree: &&Tree| tree.agents.iter().any(Agent::waits_for_person);
    let waiting: Vec<SessionId> =
        state.trees.subscribed().filter(waits).map(|tree| tree.session.id.clone()).collect();
    let mut effects = Vec::new();
    for session in waiting {
        super::ask(state, &mut effects, Question::Events(session));
    }
    effects
}

fn mark_stale(state: &mut UiState, session: &SessionId) {
    state.dirty.sessions = true;
    state.dirty.rows |= state.session() == Some(session) || state.session().is_none();
}

/// Adds and signals alerts, once the feed has caught up: earlier changes are history.
fn add_alerts(state: &mut UiState, alerts: Vec<Alert>) -> Vec<Effect> {
    let Some(newest) = alerts.last().filter(|_| state.is_caught_up) else { return Vec::new() };
    let words = format!("{}, {} {}", newest.session_name, newest.title, newest.what);
    let effects = signal(state, words);
    state.alerts.add(alerts);
    effects
}

/// Returns what signals an alert, as the user chose.
fn signal(state: &UiState, words: String) -> Vec<Effect> {
    match state.settings.alerts {
        Alerts::Line => Vec::new(),
        Alerts::Bell => vec![Effect::Bell],
        Alerts::Notify => vec![Effect::Notify(words)],
    }
}

/// In follow mode, selects the agent that acts in the selected session.
fn follow(state: &mut UiState, event: &Event) {
    let is_own_step = matches!(
        event.kind,
        EventKind::ToolPre | EventKind::AgentMessage | EventKind::Reasoning | EventKind::SubagentStart
    );
    let is_here = state.session() == Some(&event.session_id) && state.travel().is_none();
    if state.is_following && is_own_step && is_here && state.is_caught_up {
        navigation::select_agent(state, event.actor_id.0.clone());
    }
}

pub(super) fn on_reply(state: &mut UiState, (question, result): Reply) -> Vec<Effect> {
    state.pending_questions.retain(|asked| *asked != question);
    match result {
        Ok(answer) => on_answer(state, answer),
        Err(words) => {
            on_failure(state, &question, words);
            Vec::new()
        }
    }
}

fn on_answer(state: &mut UiState, answer: Answer) -> Vec<Effect> {
    match answer {
        Answer::Sessions(rows, has_more) => {
            state.dirty.sessions |= state.sessions.history != rows;
            (state.sessions.history, state.sessions.has_more) = (rows, has_more);
        }
        Answer::Tree(session, tree) => {
            match tree {
                Some(tree) => state.trees.insert_queried(*tree),
                None if state.session() == Some(&session) => {
                    show_notice(state, "nothing is kept of this session", Ink::Stalled);
                }
                None => {}
            }
            mark_stale(state, &session);
        }
        Answer::Events(session, events) => state.logs.load(&session, &events),
        Answer::NoEvents(session, why) => {
            // Not asked for again.
            state.logs.load(&session, &[]);
            show_notice(state, why, Ink::Stalled);
        }
        Answer::At(session, at_ms, tree) => {
            if let Some(travel) = state.travel.as_mut().filter(|travel| travel.session == session) {
                travel.requested_ms = None;
                travel.shown_ms = Some(at_ms);
                travel.tree = tree.map(|tree| *tree);
                state.dirty.rows = true;
            }
        }
        Answer::Sought(rows, agents) => {
            if let Some(Overlay::Palette(palette)) = &mut state.overlay {
                (palette.found, palette.found_agents) = (rows, agents);
            }
        }
        Answer::Found(query, found) if found.hits.is_empty() && !is_filtered(&query) => {
            let words = query.terms.join(" ");
            let so_far = if found.is_indexing { " yet: the full text is still being read" } else { "" };
            let away = unsearched(&found).map(|words| format!("; {words}")).unwrap_or_default();
            show_notice(state, format!("nothing in all history has \"{words}\"{so_far}{away}"), Ink::Stalled);
        }
        Answer::Found(query, found) => {
            if found.is_indexing {
                show_notice(
                    state,
                    "the full text is still being read: there may be more".to_owned(),
                    Ink::Stalled,
                );
            } else if let Some(words) = unsearched(&found) {
                show_notice(state, words, Ink::Stalled);
            }
            // With other filters the selected one stays where it is.
            let facet = match &state.overlay {
                Some(Overlay::Hits(before)) => before.facets().get(before.facet).cloned(),
                _ => None,
            };
            let mut results = SearchResults { query, found, at: 0, facet: 0 };
            let place = |(facet, _)| results.facets().iter().position(|(its, _)| *its == facet);
            results.facet = facet.and_then(place).unwrap_or(0);
            state.overlay = Some(Overlay::Hits(Box::new(results)));
        }
        Answer::Stats(query, stats) => {
            // Another range may have been chosen meanwhile.
            if query == state.reports.range.query(state.now_ms, &state.settings.zone) {
                state.reports.stats = Some((state.reports.range, stats));
            }
        }
        Answer::Iterations(rows) => state.reports.iterations = Some(rows),
        Answer::Looks(looks) => {
            state.dirty.sessions |= state.looks != looks;
            state.looks = looks;
        }
        Answer::Reading(progress) => state.host_reading = progress,
        Answer::Permissions(requests) => permission::on_requests(state, requests),
        Answer::Permitted(answered) => permission::on_answered(state, &answered),
        Answer::Ordered(ordered) => {
            let doubt = if ordered.reached {
                ""
            } else {
                " (no hook of its session has named an agent yet: the order may never reach it)"
            };
            show_notice(state, format!("{} is asked to stop{doubt}", ordered.title), Ink::Stalled);
        }
        Answer::Page(url) => show_notice(state, url, Ink::Done),
        // The change is visible already; only a failure would be shown.
        Answer::Kept => {}
        Answer::Jumped(jumped) => return actions::show_jump(state, jumped),
    }
    Vec::new()
}

fn on_failure(state: &mut UiState, question: &Question, words: String) {
    // Pause at this time; the next seek asks again.
    if let Question::At(session, at_ms) = question
        && let Some(travel) = state.travel.as_mut().filter(|travel| travel.session == *session)
    {
        travel.requested_ms = None;
        travel.shown_ms = Some(*at_ms);
        travel.is_playing = false;
    }
    // They are asked for again soon.
    if !matches!(question, Question::Looks | Question::Reading | Question::Permissions) {
        show_notice(state, words, Ink::Failed);
    }
}

/// Says of which other machines not all texts were searched.
fn unsearched(found: &Hits) -> Option<String> {
    let names: Vec<&str> = found.unsearched.iter().map(|name| &**name).collect();
    (!names.is_empty()).then(|| format!("not all texts of {} are here", names.join(", ")))
}
