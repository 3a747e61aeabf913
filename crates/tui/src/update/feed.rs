//! What the feed tells, and what was answered.

use subscope_model::{Agent, AgentId, Change, Event, EventKind, Tree, Update};
use subscope_render::Ink;

use super::{Effect, moves, notice};
use crate::{
    ask::{Answer, Question, Reply},
    settings::Alerts,
    state::{
        Overlay, State,
        alerts::{self, Alert},
    },
};

pub(super) fn on_update(state: &mut State, update: Update) -> Vec<Effect> {
    match update {
        Update::Snapshot(tree) => {
            let alerts =
                state.trees.get(&tree.session.id).map(|before| news(before, &tree.agents, state.awake_ms));
            is_stale(state, &tree.session.id);
            state.trees.feed(*tree);
            alert(state, alerts.unwrap_or_default())
        }
        Update::Change(change) => {
            let Change { session, agents, .. } = &*change;
            let alerts = state.trees.get(&session.id).map(|before| news(before, agents, state.awake_ms));
            is_stale(state, &session.id);
            state.trees.change(*change);
            alert(state, alerts.unwrap_or_default())
        }
        Update::Event(event) => {
            state.logs.take(&event);
            follow(state, &event);
            Vec::new()
        }
        Update::Missed(count) => {
            state.logs.miss(count);
            super::settle_soon(state);
            Vec::new()
        }
        Update::CaughtUp => {
            state.is_caught_up = true;
            state.dirty.settles_at = Some(state.awake_ms);
            Vec::new()
        }
    }
}

fn is_stale(state: &mut State, session: &subscope_model::SessionId) {
    state.dirty.sessions = true;
    state.dirty.rows |= state.session() == Some(session) || state.session().is_none();
}

fn news(before: &Tree, agents: &[Agent], awake_ms: i64) -> Vec<Alert> {
    let known = |id: &AgentId| before.agents.iter().find(|agent| agent.id == *id);
    agents
        .iter()
        .filter(|agent| {
            known(&agent.id).is_none_or(|known| {
                known.status != agent.status || known.flags != agent.flags || known.liveness != agent.liveness
            })
        })
        .flat_map(|agent| alerts::news(before, known(&agent.id), agent, awake_ms))
        .collect()
}

/// Tells alerts, once what stood there at first is known: what happened before is no news.
fn alert(state: &mut State, alerts: Vec<Alert>) -> Vec<Effect> {
    let Some(newest) = alerts.last().filter(|_| state.is_caught_up) else { return Vec::new() };
    let words = format!("{} {}", newest.title, newest.what);
    let effects = match state.settings.alerts {
        Alerts::Line => Vec::new(),
        Alerts::Bell => vec![Effect::Bell],
        Alerts::Notify => vec![Effect::Notify(words)],
    };
    state.alerts.add(alerts);
    effects
}

/// Goes along with whoever does something in the selected session.
fn follow(state: &mut State, event: &Event) {
    let is_own_step = matches!(
        event.kind,
        EventKind::ToolPre | EventKind::AgentMessage | EventKind::Reasoning | EventKind::SubagentStart
    );
    let is_here = state.session() == Some(&event.session_id) && state.travel().is_none();
    if state.is_following && is_own_step && is_here && state.is_caught_up {
        moves::choose_agent(state, event.actor_id.0.clone());
    }
}

pub(super) fn on_reply(state: &mut State, reply: Reply) -> Vec<Effect> {
    let question = match &reply {
        Ok(answer) => question_of(answer, state),
        Err((question, _)) => Some(question.clone()),
    };
    state.asked.retain(|asked| Some(asked) != question.as_ref());
    match reply {
        Ok(answer) => on_answer(state, answer),
        Err((question, words)) => on_failure(state, &question, words),
    }
    Vec::new()
}

/// The question that an answer is to.
fn question_of(answer: &Answer, state: &State) -> Option<Question> {
    Some(match answer {
        Answer::Tree(session, _) => Question::Tree(session.clone()),
        Answer::Events(session, _) => Question::Events(session.clone()),
        Answer::At(session, at, _) => Question::At(session.clone(), *at),
        Answer::Found(words, _) => Question::Search(words.clone()),
        Answer::Page(_) => Question::Page,
        // Of these only one is asked at a time.
        Answer::Sessions(_) => {
            state.asked.iter().find(|asked| matches!(asked, Question::Sessions(_)))?.clone()
        }
        Answer::Ordered(_) => state.asked.iter().find(|asked| matches!(asked, Question::Stop(..)))?.clone(),
        Answer::Kept(_) => state.asked.iter().find(|asked| matches!(asked, Question::Keep(..)))?.clone(),
    })
}

fn on_answer(state: &mut State, answer: Answer) {
    match answer {
        Answer::Sessions(rows) => {
            state.sessions.history = rows;
            state.dirty.sessions = true;
        }
        Answer::Tree(session, tree) => {
            match tree {
                Some(tree) => state.trees.answer(*tree),
                None => notice(state, "nothing is kept of this session", Ink::Stalled),
            }
            is_stale(state, &session);
        }
        Answer::Events(session, events) => state.logs.fill(&session, &events),
        Answer::At(session, at_ms, tree) => {
            if let Some(travel) = state.travel.as_mut().filter(|travel| travel.session == session) {
                travel.asked_ms = None;
                travel.shown_ms = Some(at_ms);
                travel.tree = tree.map(|tree| *tree);
                state.dirty.rows = true;
            }
        }
        Answer::Found(words, hits) if hits.is_empty() => {
            notice(state, format!("nothing in all history has \"{words}\""), Ink::Stalled);
        }
        Answer::Found(words, hits) => state.overlay = Some(Overlay::Hits { words, hits, at: 0 }),
        Answer::Ordered(told) => {
            let doubt = if told.reached {
                ""
            } else {
                " (no hook of its session has named an agent yet: it may never hear of it)"
            };
            notice(state, format!("{} is asked to stop{doubt}", told.title), Ink::Stalled);
        }
        Answer::Page(url) => notice(state, url, Ink::Done),
        Answer::Kept(place) => {
            // The change itself is seen; only that it could not be kept would be news.
            let _ = place;
        }
    }
}

fn on_failure(state: &mut State, question: &Question, words: String) {
    match question {
        // Who asks for the moment of a playback asks again.
        Question::At(session, at_ms) => {
            if let Some(travel) = state.travel.as_mut().filter(|travel| travel.session == *session) {
                travel.asked_ms = None;
                travel.shown_ms = Some(*at_ms);
                travel.is_playing = false;
            }
        }
        Question::Sessions(_)
        | Question::Tree(_)
        | Question::Events(_)
        | Question::Search(_)
        | Question::Stop(..)
        | Question::Page
        | Question::Keep(..) => {}
    }
    notice(state, words, Ink::Failed);
}
