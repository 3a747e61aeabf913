//! Applies messages to the state. Pure: I/O is returned as effects.

mod actions;
mod display;
mod feed;
mod inbox;
mod mouse;
mod navigation;
mod overlay;
mod palette;
mod permission;
mod question;
mod reports;
mod time;

use self::navigation::{Direction, Stride};
pub(crate) use self::reports::compared;
use ratatui::crossterm::event::{KeyEvent, MouseEvent};
use subscope_model::{Inbox, Millis, NeedGroup, SessionId, Update};
use subscope_render::{Ink, chosen_rows, timeline::outline};

use crate::{
    ask::{Answer, Question, Reply},
    keys,
    state::{
        Drawn, Overlay, Panel, SearchScope, StatusNotice, UiState, View, select::order,
        sessions::FIRST_SESSIONS,
    },
};

/// An input of the UI.
#[derive(Debug)]
pub enum UiMessage {
    /// A key was pressed.
    Key(KeyEvent),
    /// A text was pasted.
    Paste(String),
    /// A mouse event.
    Mouse(MouseEvent),
    /// The terminal's window has lost or got the focus.
    Focus(bool),
    /// The terminal was resized to columns, rows.
    Resize(u16, u16),
    /// An update of the feed.
    Feed(Update),
    /// The feed is closed.
    FeedClosed,
    /// A reply of the host.
    Reply(Box<Reply>),
    /// The clocks advanced.
    Tick {
        /// Wall clock, milliseconds since 1970.
        now_ms: Millis,
        /// Monotonic clock in milliseconds.
        awake_ms: Millis,
    },
    /// An effect failed; error message for the user.
    Failed(String),
    /// A frame was drawn.
    Drawn(Box<Drawn>),
}

/// I/O to be done by the main loop.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send a question to the host.
    Ask(Question),
    /// Set the clipboard.
    Copy(String),
    /// Open a text in the editor or pager.
    Open(String),
    /// Ring the terminal bell.
    Bell,
    /// Send a desktop notification.
    Notify(String),
    /// Suspend the process (SIGTSTP).
    Suspend,
    /// Play the recording that is part of the program.
    Demo,
    /// Quit.
    Quit,
}

/// Debounce: a session is loaded once it has been selected this long, so that scrolling through the list loads nothing.
const DEBOUNCE_MS: Millis = 90;

/// Interval of the session query: a hub that has just started is still loading earlier sessions.
const SESSIONS_MS: Millis = 10_000;

/// How long the order of sessions is held after the pointer has moved over it: a click hits the row that it was aimed at.
const HOLD_MS: Millis = 1_500;

/// Display time of a notice.
const NOTICE_MS: Millis = 4_000;

/// Applies one message. Returns the effects to carry out, in order.
pub fn update(state: &mut UiState, message: UiMessage) -> Vec<Effect> {
    let mut effects = Vec::new();
    state.dirty.screen |= is_news(state, &message);
    match message {
        UiMessage::Key(key) => effects = on_key(state, key),
        UiMessage::Paste(text) => overlay::on_paste(state, &text),
        UiMessage::Mouse(event) => effects = mouse::on_mouse(state, event),
        UiMessage::Resize(width, height) => state.size = (width, height),
        UiMessage::Focus(is_focused) => state.is_unfocused = !is_focused,
        UiMessage::Feed(update) => effects = feed::on_update(state, update),
        UiMessage::FeedClosed => {
            state.is_caught_up = true;
            show_notice(state, "nothing more will come", Ink::Stalled);
        }
        UiMessage::Reply(reply) => effects = feed::on_reply(state, *reply),
        UiMessage::Tick { now_ms, awake_ms } => {
            (state.now_ms, state.awake_ms) = (now_ms, awake_ms);
            effects = on_tick(state);
        }
        UiMessage::Failed(words) => show_notice(state, words, Ink::Failed),
        UiMessage::Drawn(drawn) => on_drawn(state, *drawn),
    }
    effects
}

/// Whether a message may change the screen. What the clocks change is [`UiState::redraw_ms`]'s.
fn is_news(state: &UiState, message: &UiMessage) -> bool {
    match message {
        UiMessage::Tick { .. } | UiMessage::Drawn(_) | UiMessage::Focus(_) => false,
        // The list is requested every few seconds.
        UiMessage::Reply(reply) => match &reply.1 {
            Ok(Answer::Sessions(rows, has_more)) => {
                (rows, *has_more) != (&state.sessions.history, state.sessions.has_more)
            }
            Ok(Answer::Looks(looks)) => *looks != state.looks,
            Ok(Answer::Reading(progress)) => *progress != state.host_reading,
            Ok(Answer::Permissions(requests)) => Some(requests) != state.permissions.as_ref(),
            _ => true,
        },
        UiMessage::Key(_)
        | UiMessage::Paste(_)
        | UiMessage::Mouse(_)
        | UiMessage::Resize(..)
        | UiMessage::Feed(_)
        | UiMessage::FeedClosed
        | UiMessage::Failed(_) => true,
    }
}

fn on_key(state: &mut UiState, key: KeyEvent) -> Vec<Effect> {
    if state.overlay.is_some() {
        return overlay::on_key(state, key);
    }
    let Some(action) = keys::action(key) else { return Vec::new() };
    act(state, action)
}

/// Performs the action of a key or of a palette command.
fn act(state: &mut UiState, action: keys::Action) -> Vec<Effect> {
    state.notice = None;
    if !matches!(
        action,
        keys::Action::Help | keys::Action::Theme | keys::Action::Mission | keys::Action::Palette
    ) {
        navigation::choose_session(state);
    }
    let page = isize::try_from(state.drawn.page.max(2) - 1).unwrap_or(isize::MAX);
    use keys::Action as A;
    match action {
        A::Up => navigation::move_selection(state, &Stride::By(-1)),
        A::Down => navigation::move_selection(state, &Stride::By(1)),
        A::PageUp => navigation::move_selection(state, &Stride::By(-page)),
        A::PageDown => navigation::move_selection(state, &Stride::By(page)),
        A::First => navigation::move_selection(state, &Stride::ToFirst),
        A::Last => navigation::move_selection(state, &Stride::ToLast),
        A::Left => navigation::move_sideways(state, Direction::Left),
        A::Right => navigation::move_sideways(state, Direction::Right),
        A::NextPanel => navigation::move_focus(state, Direction::Right),
        A::PreviousPanel => navigation::move_focus(state, Direction::Left),
        A::Enter if state.is_blank() => return vec![Effect::Demo],
        A::Enter => navigation::enter(state),
        A::Back => navigation::leave_innermost(state),
        A::Mission => display::toggle_mission(state),
        A::Agents => display::view(state, View::Agents),
        A::Timeline => display::view(state, View::Timeline),
        A::Feed => display::view(state, View::Feed),
        A::Summary => display::view(state, View::Summary),
        A::Stats => return reports::open(state, View::Stats),
        A::Compare => return reports::open(state, View::Compare),
        A::Iterations => return reports::open(state, View::Iterations),
        A::Mark => reports::toggle_mark(state),
        A::Detail => return display::next_detail(state),
        A::Tree => return display::toggle_tree(state),
        A::Theme => display::try_next_palette(state),
        A::Fold => display::toggle_fold(state),
        A::Calls => display::toggle_calls(state),
        A::FoldAll => display::fold_all(state),
        A::UnfoldAll => display::unfold_all(state),
        A::Sort => display::next_sort(state),
        A::Filter if state.view == View::Stats => {
            let range = state.reports.range.next();
            return reports::choose_range(state, range);
        }
        A::Filter => display::next_filter(state),
        A::Machine => display::next_machine(state),
        A::Scope => display::next_scope(state),
        A::ZoomIn => display::zoom(state, state.timeline_view.zoom.saturating_add(1)),
        A::ZoomOut => display::zoom(state, state.timeline_view.zoom.saturating_sub(1)),
        A::Search => {
            state.overlay = Some(Overlay::Search { text: String::new(), scope: SearchScope::Here });
        }
        A::Palette => state.overlay = Some(Overlay::Palette(Box::default())),
        A::NextHit => actions::select_hit(state, true),
        A::PreviousHit => actions::select_hit(state, false),
        A::Follow => actions::toggle_following(state),
        A::Spawn => actions::select_spawner(state),
        A::Alert => actions::select_next_alert(state),
        A::Permit => permission::open(state),
        A::Dismiss => return inbox::dismiss(state),
        A::MarkRead => return inbox::mark_read(state),
        A::Help => state.overlay = Some(Overlay::Help(0)),
        A::Stop => actions::ask_to_stop(state),
        A::Terminal => return actions::go_to_terminal(state),
        A::Open => return actions::agent_text(state).map(Effect::Open).into_iter().collect(),
        A::Copy => return actions::copy(state),
        A::Page => return ask_for(state, Question::Page),
        A::Pause => time::pause(state),
        A::StepBack => time::step(state, Direction::Left),
        A::StepOn => time::step(state, Direction::Right),
        A::JumpBack => time::jump(state, Direction::Left),
        A::JumpOn => time::jump(state, Direction::Right),
        A::Slower => time::change_speed(state, Direction::Left),
        A::Faster => time::change_speed(state, Direction::Right),
        A::Now => time::return_to_now(state),
        A::Suspend => return vec![Effect::Suspend],
        A::Quit => return vec![Effect::Quit],
    }
    Vec::new()
}

/// Expires the notice, queries the session list, loads the selected session if due, and advances playback.
fn on_tick(state: &mut UiState) -> Vec<Effect> {
    let mut effects = Vec::new();
    if state.notice.as_ref().is_some_and(|notice| notice.until_ms <= state.awake_ms) {
        state.notice = None;
        state.dirty.screen = true;
    }
    if state.sessions.pointed_ms.is_some_and(|at| state.awake_ms - at >= HOLD_MS) {
        state.sessions.pointed_ms = None;
        (state.dirty.sessions, state.dirty.screen) = (true, true);
    }
    let is_old = state.awake_ms - state.sessions.queried_ms >= SESSIONS_MS;
    if !state.is_replay && (state.sessions.limit == 0 || is_old) {
        state.sessions.limit = state.sessions.limit.max(FIRST_SESSIONS);
        inbox::extend_history(state);
        state.sessions.queried_ms = state.awake_ms;
        let question = Question::Sessions(state.sessions.limit);
        ask(state, &mut effects, question);
    }
    inbox::on_tick(state, &mut effects);
    permission::on_tick(state, &mut effects);
    if state.dirty.load_at.is_some_and(|due| due <= state.awake_ms) {
        state.dirty.load_at = None;
        load_selected(state, &mut effects);
    }
    load_listed(state, &mut effects);
    palette::on_tick(state, &mut effects);
    reports::on_tick(state, &mut effects);
    time::advance(state, &mut effects);
    effects
}

/// Most concurrent queries for trees of mission control, so that other questions need not wait for a screen full of
/// them.
const LISTED_TREES: usize = 4;

/// Loads the trees of shown sessions without a subscription: mission control draws agents' marks from trees.
fn load_listed(state: &mut UiState, effects: &mut Vec<Effect>) {
    let pending = |question: &&Question| matches!(question, Question::Tree(_));
    let room = LISTED_TREES.saturating_sub(state.pending_questions.iter().filter(pending).count());
    if state.view != View::Mission || state.is_replay || room == 0 {
        return;
    }
    let shown = state.sessions.rows.iter().skip(state.drawn.first_mission).take(state.drawn.page);
    let missing = shown.filter(|row| row.agents > 0 && state.trees.is_missing(&row.id));
    let missing: Vec<SessionId> = missing.take(room).map(|row| row.id.clone()).collect();
    for session in missing {
        ask(state, effects, Question::Tree(session));
    }
}

/// Loads the selected session's tree and events if missing, and more of the session list near its end.
fn load_selected(state: &mut UiState, effects: &mut Vec<Effect>) {
    let Some(session) = state.session().cloned() else { return };
    if state.trees.get(&session).is_none() {
        ask(state, effects, Question::Tree(session.clone()));
    }
    if state.log().is_none_or(|log| !log.is_complete) {
        ask(state, effects, Question::Events(session));
    }
    let is_near_end =
        state.sessions.selected_index().is_some_and(|place| place + 40 > state.sessions.rows.len());
    if is_near_end && state.sessions.has_more {
        state.sessions.limit = state.sessions.limit.saturating_mul(4);
        let more = Question::Sessions(state.sessions.limit);
        ask(state, effects, more);
    }
}

/// Asks a question unless the same one is pending.
pub(crate) fn ask(state: &mut UiState, effects: &mut Vec<Effect>, question: Question) {
    if !state.pending_questions.contains(&question) {
        state.pending_questions.push(question.clone());
        effects.push(Effect::Ask(question));
    }
}

/// Returns the effect of asking a question, unless its reply is pending.
fn ask_for(state: &mut UiState, question: Question) -> Vec<Effect> {
    let mut effects = Vec::new();
    ask(state, &mut effects, question);
    effects
}

/// Schedules the loading of the selected session, debounced.
pub(crate) fn schedule_load(state: &mut UiState) {
    state.dirty.rows = true;
    state.dirty.load_at = Some(state.awake_ms + DEBOUNCE_MS);
}

/// Shows a notice in the footer.
pub(crate) fn show_notice(state: &mut UiState, text: impl Into<String>, ink: Ink) {
    state.notice = Some(StatusNotice { text: text.into(), ink, until_ms: state.awake_ms + NOTICE_MS });
}

fn on_drawn(state: &mut UiState, drawn: Drawn) {
    state.dirty.screen = false;
    let reading = &mut state.reading;
    reading.up = reading.up.min(drawn.most_up);
    reading.feed_up = reading.feed_up.min(drawn.most_feed_up);
    reading.summary_down = reading.summary_down.min(drawn.most_down);
    if let Some(Overlay::Permission(prompt)) = &mut state.overlay {
        prompt.from = prompt.from.min(drawn.permission_from);
        prompt.is_read |= drawn.read_permission.as_ref() == Some(&prompt.request.id);
    }
    state.drawn = drawn;
}

/// Rebuilds derived state that messages made stale. Call before each frame, after all pending messages.
pub fn refresh(state: &mut UiState) {
    if state.dirty.sessions {
        let before = state.sessions.selected.clone();
        state.sessions.rebuild(&state.trees);
        state.inbox = Inbox::of(state.sessions.all_rows(), &state.looks, state.now_ms);
        state.dirty.sessions = false;
        if state.sessions.selected != before {
            state.selected_call = None;
            schedule_load(state);
        }
    }
    if state.dirty.rows {
        state.dirty.rows = false;
        refresh_rows(state);
    }
    if state.view == View::Timeline {
        let now = state.moment_ms();
        state.timeline_view.outline = state.tree().and_then(|tree| outline(tree, Some(now)));
    } else {
        state.timeline_view.outline = None;
    }
    if state.panel == Panel::Detail && matches!(state.view, View::Feed | View::Summary) {
        state.panel = Panel::Main;
    }
}

/// Selects the agent that waits for a person, in a session in which the user has selected none and has not scrolled: nothing
/// else matters then. It stays selected when it waits no longer.
fn select_waiting(state: &mut UiState) {
    let row = state.session().and_then(|session| state.sessions.rows.iter().find(|row| row.id == *session));
    let Some((session, need)) = row.and_then(|row| Some((row.id.clone(), row.need.as_ref()?))) else {
        return;
    };
    let waits = need.agents.first().filter(|agent| agent.group == NeedGroup::Waits);
    let Some(agent) = waits.map(|agent| agent.agent_id.clone()).filter(|_| state.reading.up == 0) else {
        return;
    };
    state.selected_agents.entry(session).or_insert(agent);
}

fn refresh_rows(state: &mut UiState) {
    select_waiting(state);
    let Some(tree) = state.tree() else {
        state.rows.clear();
        return;
    };
    let session = &tree.session.id;
    let filter = state.filter;
    let is_folded =
        |agent: &subscope_model::Agent| state.folded.contains(&(session.clone(), agent.id.clone()));
    let is_unfolded =
        |agent: &subscope_model::Agent| state.unfolded.contains(&(session.clone(), agent.id.clone()));
    let rows =
        chosen_rows(tree, &order(tree, state.sort), &|agent| filter.has(agent), &is_folded, &is_unfolded);
    let text = state.search.text.clone();
    let hits = actions::hits(tree, &rows, &text);
    state.rows = rows;
    state.search.hits = hits;
    // If the selected agent is folded or filtered away, select its nearest visible ancestor.
    if state.selected_row().is_none() {
        let above = state.tree().and_then(|tree| visible_above(state, tree));
        if let (Some(session), Some(agent)) = (state.session().cloned(), above) {
            state.selected_agents.insert(session, agent);
            state.selected_call = None;
        }
    }
}

/// The nearest ancestor of the selected agent that has a row, else the first row.
fn visible_above(state: &UiState, tree: &subscope_model::Tree) -> Option<subscope_model::AgentId> {
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
