//! Test harness: a UI loaded with recorded sessions, without a terminal.

use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex},
};

use ratatui::{
    buffer::Buffer,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    layout::Rect,
};
use subscope_model::{Change, Event, Millis, SessionId, SessionRow, Tree, Update};
use subscope_render::{Detail, Style};
use subscope_testkit::{
    fixtures,
    sessions::{self, Telling, options, parts_of},
};

use crate::{
    ask::{Answer, Question},
    settings::{Alerts, BudgetLimits, Settings, TreePanel},
    state::{UiState, sessions::FIRST_SESSIONS},
    theme::Palette,
    update::{Effect, UiMessage, refresh, update},
    view::view,
};

/// A UI and the effects it has returned.
pub(crate) struct TestUi {
    pub(crate) state: UiState,
    pub(crate) effects: Vec<Effect>,
}

/// Derives a recording of 2.1.330, cut off `after_ms` milliseconds after its start; cached.
pub(crate) fn recorded(scenario: &str, after_ms: Option<Millis>) -> (Tree, Vec<Event>) {
    type RecordingCache = HashMap<(String, Option<Millis>), (Tree, Vec<Event>)>;
    static CACHE: LazyLock<Mutex<RecordingCache>> = LazyLock::new(Mutex::default);
    let mut cache = CACHE.lock().unwrap();
    cache.entry((scenario.to_owned(), after_ms)).or_insert_with(|| read(scenario, after_ms)).clone()
}

fn read(scenario: &str, after_ms: Option<Millis>) -> (Tree, Vec<Event>) {
    let parts = parts_of(&fixtures::recording("2.1.330", scenario), &[Telling::Transcript]);
    let events = sessions::events(&parts);
    let whole = sessions::tree(&parts);
    let Some(at) = whole.session.started_at_ms.zip(after_ms).map(|(start, after)| start + after) else {
        return (whole, events);
    };
    let cut = sessions::read(&parts, subscope_session::RouterOptions { cutoff: Some(at), ..options(false) });
    let events = events.into_iter().filter(|event| event.at_ms.is_none_or(|its| its <= at)).collect();
    (sessions::tree_at(&cut, at), events)
}

pub(crate) fn settings() -> Settings {
    Settings {
        detail: Detail::Moderate,
        tree: TreePanel::Auto,
        alerts: Alerts::Line,
        palette: Palette::Dark,
        style: Style { color: true, ascii: false, width: 80 },
        offset_minutes: 0,
        zone: subscope_model::Zone::default(),
        editor: None,
        budgets: BudgetLimits::default(),
    }
}

impl TestUi {
    /// A UI without sessions.
    pub(crate) fn empty(width: u16, height: u16) -> Self {
        Self { state: UiState::new(settings(), (width, height), 0, 0), effects: Vec::new() }
    }

    /// A UI with a running session (`k-big` after 13 s) and two stored ones.
    pub(crate) fn live(width: u16, height: u16) -> Self {
        let mut ui = Self::empty(width, height);
        let (tree, events) = recorded("k-big", Some(13_000));
        ui.tick(tree.session.started_at_ms.unwrap() + 13_000);
        ui.feed(tree, events);
        ui.send(UiMessage::Feed(Update::CaughtUp));
        ui.reply(Question::Sessions(FIRST_SESSIONS), Answer::Sessions(past_rows(), false));
        ui.frame();
        ui
    }

    /// A UI with a session that has ended.
    pub(crate) fn ended(scenario: &str, width: u16, height: u16) -> Self {
        let mut ui = Self::empty(width, height);
        let (tree, events) = recorded(scenario, None);
        ui.tick(tree.session.ended_at_ms.unwrap() + 5_000);
        ui.feed(tree, events);
        ui.send(UiMessage::Feed(Update::CaughtUp));
        ui.frame();
        ui
    }

    pub(crate) fn feed(&mut self, tree: Tree, events: Vec<Event>) {
        let session = tree.session.id.clone();
        self.send(UiMessage::Feed(Update::snapshot(tree)));
        self.reply(Question::Events(session.clone()), Answer::Events(session, events));
    }

    /// Applies changed rows to the selected session.
    pub(crate) fn change(&mut self, work: impl Fn(&mut Tree)) {
        let mut tree = self.state.tree().unwrap().clone();
        work(&mut tree);
        self.send(UiMessage::Feed(Update::change(Change::of(&tree, |_| true, Vec::new()))));
        self.frame();
    }

    pub(crate) fn reply(&mut self, question: Question, answer: Answer) {
        self.send(UiMessage::Reply(Box::new((question, Ok(answer)))));
    }

    pub(crate) fn send(&mut self, message: UiMessage) {
        self.effects.extend(update(&mut self.state, message));
    }

    /// Sets the wall clock and advances the monotonic clock by the difference (0 to 1 h).
    pub(crate) fn tick(&mut self, now_ms: Millis) {
        let awake_ms = self.state.awake_ms + (now_ms - self.state.now_ms).clamp(0, 3_600_000);
        self.send(UiMessage::Tick { now_ms, awake_ms });
    }

    /// Advances both clocks and draws.
    pub(crate) fn pass(&mut self, span_ms: Millis) {
        self.tick(self.state.now_ms + span_ms);
        self.frame();
    }

    /// Presses keys, drawing a frame after each.
    pub(crate) fn press(&mut self, keys: &[KeyCode]) {
        for code in keys {
            self.press_with(*code, KeyModifiers::NONE);
        }
    }

    pub(crate) fn press_with(&mut self, code: KeyCode, modifiers: KeyModifiers) {
        self.send(UiMessage::Key(KeyEvent::new(code, modifiers)));
        self.frame();
    }

    /// Types a text, a key each.
    pub(crate) fn type_text(&mut self, text: &str) {
        for character in text.chars() {
            self.press(&[KeyCode::Char(character)]);
        }
    }

    /// Draws a frame and returns its buffer.
    pub(crate) fn frame(&mut self) -> Buffer {
        refresh(&mut self.state);
        let (width, height) = self.state.size;
        let area = Rect { x: 0, y: 0, width, height };
        let mut buffer = Buffer::empty(area);
        let drawn = view(&self.state, area, &mut buffer);
        update(&mut self.state, UiMessage::Drawn(Box::new(drawn)));
        buffer
    }

    /// Draws a frame and returns it as text, without trailing blanks.
    pub(crate) fn screen(&mut self) -> String {
        let buffer = self.frame();
        let mut out = String::new();
        for y in 0..buffer.area.height {
            let mut line = String::new();
            let mut skip = 0;
            for x in 0..buffer.area.width {
                let symbol = buffer[(x, y)].symbol();
                // Skip the filler cell after a wide character.
                if skip == 0 {
                    line.push_str(symbol);
                    skip = subscope_render::text::width(symbol).max(1);
                }
                skip -= 1;
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    /// The id of the selected session.
    pub(crate) fn session(&self) -> SessionId {
        self.state.session().unwrap().clone()
    }

    /// The id of the selected agent.
    pub(crate) fn agent(&self) -> String {
        self.state.agent_id().unwrap().to_string()
    }

    /// Returns the questions asked since the last call, in order, and drops all other effects.
    pub(crate) fn asked(&mut self) -> Vec<Question> {
        let effects = std::mem::take(&mut self.effects);
        let question = |effect| if let Effect::Ask(question) = effect { Some(question) } else { None };
        effects.into_iter().filter_map(question).collect()
    }
}

/// Rows of two stored sessions.
fn past_rows() -> Vec<SessionRow> {
    ["c-nested", "e-tool-failures"].map(|scenario| SessionRow::of(&recorded(scenario, None).0)).to_vec()
}
