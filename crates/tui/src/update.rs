//! Messages to state: the one place in which anything changes. Pure: what has to be done outside comes back as effects.

mod acts;
mod feed;
mod mouse;
mod moves;
mod overlay;
mod shows;
mod time;

use ratatui::crossterm::event::{KeyEvent, MouseEvent};
use subscope_model::{Millis, Update};
use subscope_render::{Ink, chosen_rows, timeline};

use crate::{
    ask::{Question, Reply},
    keys,
    state::{Drawn, Notice, Panel, State, View, select::order, sessions::FIRST_SESSIONS},
};

/// What comes from outside.
#[derive(Debug)]
pub enum Message {
    /// A key was pressed.
    Key(KeyEvent),
    /// A text was pasted.
    Paste(String),
    /// The mouse did something.
    Mouse(MouseEvent),
    /// The terminal has another size.
    Resize(u16, u16),
    /// The feed told something.
    Feed(Update),
    /// The feed ends.
    FeedEnds,
    /// A question was answered.
    Reply(Reply),
    /// Time has passed.
    Tick {
        /// The time it is.
        now_ms: Millis,
        /// A clock that never steps.
        awake_ms: Millis,
    },
    /// Something that was to be done outside was not; in words for the person.
    Failed(String),
    /// A frame was drawn.
    Drawn(Box<Drawn>),
}

/// What is to be done outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Ask.
    Ask(Question),
    /// Put a text where the terminal keeps what was copied.
    Copy(String),
    /// Show a text in an editor.
    Open(String),
    /// Ring.
    Bell,
    /// Tell a person that looks elsewhere.
    Notify(String),
    /// Go to sleep.
    Suspend,
    /// End.
    Quit,
}

/// How long the selection has to rest on a session before it is asked about: who goes through a list means none of it.
const SETTLE_MS: Millis = 90;

/// How often the list of what is kept is asked for: a hub that has just begun still reads sessions of before.
const SESSIONS_MS: Millis = 10_000;

/// For how long a line for the person stands.
const NOTICE_MS: Millis = 4_000;

/// Takes one message. Returns what is to be done outside, in order.
pub fn update(state: &mut State, message: Message) -> Vec<Effect> {
    let mut effects = Vec::new();
    match message {
        Message::Key(key) => effects = on_key(state, key),
        Message::Paste(text) => overlay::on_paste(state, &text),
        Message::Mouse(event) => effects = mouse::on_mouse(state, event),
        Message::Resize(width, height) => state.size = (width, height),
        Message::Feed(update) => effects = feed::on_update(state, update),
        Message::FeedEnds => {
            state.is_caught_up = true;
            notice(state, "nothing more will come", Ink::Stalled);
        }
        Message::Reply(reply) => effects = feed::on_reply(state, reply),
        Message::Tick { now_ms, awake_ms } => {
            (state.now_ms, state.awake_ms) = (now_ms, awake_ms);
            effects = on_tick(state);
        }
        Message::Failed(words) => notice(state, words, Ink::Failed),
        Message::Drawn(drawn) => on_drawn(state, *drawn),
    }
    effects
}

fn on_key(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    if state.overlay.is_some() {
        return overlay::on_key(state, key);
    }
    let Some(action) = keys::action(key) else { return Vec::new() };
    state.notice = None;
    use keys::Action as A;
    match action {
        A::Up | A::Down | A::PageUp | A::PageDown | A::First | A::Last | A::Left | A::Right => {
            moves::along(state, action)
        }
        A::NextPanel | A::PreviousPanel | A::Enter | A::Back => moves::between(state, action),
        A::Agents | A::Timeline | A::Feed | A::Summary => shows::view(state, action),
        A::Detail | A::Tree | A::Theme => return shows::setting(state, action),
        A::Fold | A::Sort | A::Filter | A::Scope | A::ZoomIn | A::ZoomOut => shows::change(state, action),
        A::Search | A::NextHit | A::PreviousHit | A::Follow | A::Spawn | A::Alert => {
            acts::find(state, action)
        }
        A::Stop | A::Open | A::Copy | A::Page | A::Help => return acts::act(state, action),
        A::Pause | A::StepBack | A::StepOn | A::JumpBack | A::JumpOn | A::Slower | A::Faster | A::Now => {
            time::travel(state, action)
        }
        A::Suspend => return vec![Effect::Suspend],
        A::Quit => return vec![Effect::Quit],
    }
    Vec::new()
}

/// Asks for what is shown and not known, once the selection rests, and lets time go on.
fn on_tick(state: &mut State) -> Vec<Effect> {
    let mut effects = Vec::new();
    if state.notice.as_ref().is_some_and(|notice| notice.until_ms <= state.awake_ms) {
        state.notice = None;
    }
    let is_old = state.awake_ms - state.sessions.asked_ms >= SESSIONS_MS;
    if !state.is_replay && (state.sessions.asked == 0 || is_old) {
        state.sessions.asked = state.sessions.asked.max(FIRST_SESSIONS);
        state.sessions.asked_ms = state.awake_ms;
        let question = Question::Sessions(state.sessions.asked);
        ask(state, &mut effects, question);
    }
    if state.dirty.settles_at.is_some_and(|due| due <= state.awake_ms) {
        state.dirty.settles_at = None;
        settle(state, &mut effects);
    }
    time::go_on(state, &mut effects);
    effects
}

/// Asks for the selected session's rows and for what happened in it, as far as that is not known.
fn settle(state: &mut State, effects: &mut Vec<Effect>) {
    let Some(session) = state.session().cloned() else { return };
    if state.trees.get(&session).is_none() {
        ask(state, effects, Question::Tree(session.clone()));
    }
    if state.log().is_none_or(|log| !log.is_whole) {
        ask(state, effects, Question::Events(session));
    }
    let is_near_end = state.sessions.place().is_some_and(|place| place + 40 > state.sessions.rows.len());
    if is_near_end && state.sessions.has_more() {
        state.sessions.asked *= 4;
        let more = Question::Sessions(state.sessions.asked);
        ask(state, effects, more);
    }
}

/// Asks something that is not being asked already.
pub(crate) fn ask(state: &mut State, effects: &mut Vec<Effect>, question: Question) {
    if !state.asked.contains(&question) {
        state.asked.push(question.clone());
        effects.push(Effect::Ask(question));
    }
}

/// Has the selected session asked about soon.
pub(crate) fn settle_soon(state: &mut State) {
    state.dirty.rows = true;
    state.dirty.settles_at = Some(state.awake_ms + SETTLE_MS);
}

/// Shows a line to the person for a while.
pub(crate) fn notice(state: &mut State, text: impl Into<String>, ink: Ink) {
    state.notice = Some(Notice { text: text.into(), ink, until_ms: state.awake_ms + NOTICE_MS });
}

fn on_drawn(state: &mut State, drawn: Drawn) {
    let reading = &mut state.reading;
    reading.up = reading.up.min(drawn.detail.most);
    reading.feed_up = reading.feed_up.min(drawn.feed.most);
    reading.summary_down = reading.summary_down.min(drawn.summary.most);
    state.drawn = drawn;
}

/// Makes anew what messages have made stale. To be called before a frame, after all messages that are there.
pub fn refresh(state: &mut State) {
    if state.dirty.sessions {
        let before = state.sessions.selected.clone();
        state.sessions.gather(&state.trees);
        state.dirty.sessions = false;
        if state.sessions.selected != before {
            state.dirty.rows = true;
            state.dirty.settles_at = Some(state.awake_ms);
        }
    }
    if state.dirty.rows {
        state.dirty.rows = false;
        refresh_rows(state);
    }
    if state.view == View::Timeline {
        let now = state.moment_ms();
        state.waterfall.timeline = state.tree().and_then(|tree| timeline(tree, Some(now)));
    } else {
        state.waterfall.timeline = None;
    }
    if state.panel == Panel::Detail && matches!(state.view, View::Feed | View::Summary) {
        state.panel = Panel::Main;
    }
}

fn refresh_rows(state: &mut State) {
    let Some(tree) = state.tree() else {
        state.rows.clear();
        return;
    };
    let session = &tree.session.id;
    let filter = state.filter;
    let is_folded =
        |agent: &subscope_model::Agent| state.folded.contains(&(session.clone(), agent.id.clone()));
    let rows = chosen_rows(tree, &order(tree, state.sort), &|agent| filter.has(agent), &is_folded);
    let text = state.search.text.clone();
    let hits = acts::hits(tree, &rows, &text);
    state.rows = rows;
    state.search.hits = hits;
    // A selection that is folded or filtered away goes to what is above it.
    if state.row_at().is_none() {
        let above = state.tree().and_then(|tree| visible_above(state, tree));
        if let (Some(session), Some(agent)) = (state.session().cloned(), above) {
            state.chosen.insert(session, agent);
        }
    }
}

/// The nearest agent above the selected one that has a row.
fn visible_above(state: &State, tree: &subscope_model::Tree) -> Option<subscope_model::AgentId> {
    let is_visible =
        |id: &subscope_model::AgentId| state.rows.iter().any(|row| tree.agents[row.agent].id == *id);
    let mut at = state.agent();
    while let Some(agent) = at {
        if is_visible(&agent.id) {
            return Some(agent.id.clone());
        }
        at = tree
            .agents
            .iter()
            .find(|above| Some(&above.id) == agent.parent_id.as_ref() && above.id != agent.id);
    }
    state.rows.first().map(|row| tree.agents[row.agent].id.clone())
}

#[cfg(test)]
mod tests;
