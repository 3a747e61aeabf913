//! The UI's main loop: terminal setup and restore, feed thread, frame rate.
//!
//! Keys are handled and drawn at once; feed updates are collected for the next frame. Without changes nothing is
//! redrawn, except for what time changes: see [`UiState::redraw_ms`].

mod clipboard;
mod feed_thread;
mod screen;

use std::{
    io,
    sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError},
    time::Duration,
};

use ratatui::crossterm::event::{self, Event, KeyEventKind};
use subscope_model::{Feed, Millis, SessionId, Tree, Update};

pub use self::screen::restore;
use self::screen::{Screen, SignalListener};
use crate::{
    ask::{Question, Reply},
    settings::{Clocks, Settings},
    state::{UiState, time_travel::TimeTravel},
    update::{Effect, UiMessage, refresh, update},
    view::view,
};

/// Shortest time between two frames caused by feed updates (30 a second).
const FRAME_MS: Millis = 33;

/// Timeout of one wait for a key, and so the poll interval of the feed, while there are messages.
const WAIT: Duration = Duration::from_millis(FRAME_MS as u64);

/// The same once nothing has changed for [`QUIET_MS`]. Keys end a wait at once.
const QUIET_WAIT: Duration = Duration::from_millis(500);

/// Time without changes after which the loop waits longer.
const QUIET_MS: Millis = 5_000;

/// Most feed updates handled between two key polls, so that a burst does not block keys.
const MAX_UPDATES: usize = 2_000;

/// Channels to the host.
#[derive(Debug)]
pub struct Answers {
    /// Questions to the host.
    pub questions: SyncSender<Question>,
    /// Replies of the host.
    pub replies: Receiver<Reply>,
}

/// The UI's connections to its host.
pub struct Links {
    /// Live updates of sessions; `None` for a playback of one session.
    pub feed: Option<Box<dyn Feed>>,
    /// Channels for questions and replies.
    pub answers: Answers,
    /// Clock functions.
    pub clocks: Clocks,
}

/// A recorded session to play back.
#[derive(Clone, Debug)]
pub struct Playback {
    /// The session's final tree.
    pub tree: Tree,
    /// Playback speed as a multiple of real time.
    pub speed: f64,
    /// Whether playback starts paused.
    pub is_halted: bool,
}

/// The reason that the UI ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The user quit.
    Quit,
    /// The user wants to see the recording that is part of the program.
    Demo,
    /// A signal was received; its number.
    Signal(i32),
}

/// Terminal I/O error.
#[derive(Debug, thiserror::Error)]
#[error("the terminal cannot be used")]
pub struct RunError(#[from] io::Error);

/// Runs the UI until the user or a signal ends it. The terminal is restored on every exit, including panics and
/// SIGTERM, SIGHUP, SIGINT, SIGQUIT.
///
/// # Errors
/// Terminal I/O failed, or a thread could not be started.
pub fn run(settings: Settings, links: Links, playback: Option<Playback>) -> Result<Ends, RunError> {
    let Links { feed, answers, clocks } = links;
    let updates = feed.map(feed_thread::spawn).transpose()?;
    let signals = SignalListener::listen()?;
    let mut screen = Screen::enter()?;
    let size = screen.size()?;
    let mut state = UiState::new(settings, size, (clocks.now_ms)(), (clocks.awake_ms)());
    if let Some(playback) = playback {
        start_playback(&mut state, playback);
    }
    let mut main_loop =
        MainLoop { screen: &mut screen, state, updates, answers, clocks, backlog: Vec::new(), titled: None };
    let ends = main_loop.run(&signals);
    drop(screen);
    Ok(ends?)
}

/// Selects a recorded session and seeks to its start.
fn start_playback(state: &mut UiState, playback: Playback) {
    let Playback { tree, speed, is_halted } = playback;
    let session: SessionId = tree.session.id.clone();
    let from_ms = tree.session.started_at_ms.unwrap_or(0);
    let to_ms = tree.session.ended_at_ms.unwrap_or(from_ms).max(from_ms);
    state.is_replay = true;
    state.is_caught_up = true;
    state.sessions.selected = Some(session.clone());
    state.travel = Some(TimeTravel {
        session,
        at_ms: from_ms,
        from_ms,
        to_ms,
        is_playing: !is_halted,
        speed,
        tree: None,
        shown_ms: None,
        requested_ms: None,
        advanced_ms: state.awake_ms,
    });
    state.trees.insert_queried(tree);
}

/// State of the main loop.
struct MainLoop<'a> {
    screen: &'a mut Screen,
    state: UiState,
    updates: Option<Receiver<Update>>,
    answers: Answers,
    clocks: Clocks,
    /// Questions to send again: the queue was full.
    backlog: Vec<Question>,
    /// Number of waiting agents in the window's title.
    titled: Option<u32>,
}

impl MainLoop<'_> {
    fn run(&mut self, signals: &SignalListener) -> io::Result<Ends> {
        let (mut drawn_ms, mut message_ms) = (Millis::MIN / 2, (self.clocks.awake_ms)());
        let (mut span, mut is_due) = (self.span(), true);
        loop {
            let awake_ms = (self.clocks.awake_ms)();
            let tick = UiMessage::Tick { now_ms: (self.clocks.now_ms)(), awake_ms };
            if let Some(ends) = self.handle(tick)? {
                return Ok(ends);
            }
            self.handle_channels()?;
            if self.state.dirty.screen {
                (message_ms, is_due) = (awake_ms, true);
            }
            let playing = self.state.travel().is_some_and(|travel| travel.is_playing);
            is_due |= self.span() != span || playing;
            if is_due && awake_ms - drawn_ms >= FRAME_MS {
                self.draw()?;
                (drawn_ms, span, is_due) = ((self.clocks.awake_ms)(), self.span(), false);
            }
            if let Some(number) = signals.pending() {
                return Ok(Ends::Signal(number));
            }
            // Keys are drawn at once, not with the next frame.
            let is_quiet = !playing && awake_ms - message_ms >= QUIET_MS;
            if event::poll(if is_quiet { QUIET_WAIT } else { WAIT })? {
                message_ms = awake_ms;
                while event::poll(Duration::ZERO)? {
                    let read = event::read()?;
                    if let Some(ends) = self.handle_terminal_event(read)? {
                        return Ok(ends);
                    }
                }
                self.draw()?;
                (drawn_ms, span, is_due) = ((self.clocks.awake_ms)(), self.span(), false);
            }
        }
    }

    /// The length and the number of the span of time in which a frame stays true without a message.
    fn span(&self) -> (Millis, Millis) {
        let length = self.state.redraw_ms();
        (length, self.state.now_ms.div_euclid(length))
    }

    fn handle_terminal_event(&mut self, event: Event) -> io::Result<Option<Ends>> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.handle(UiMessage::Key(key)),
            Event::Mouse(mouse) => self.handle(UiMessage::Mouse(mouse)),
            Event::Resize(width, height) => self.handle(UiMessage::Resize(width, height)),
            Event::Paste(text) => self.handle(UiMessage::Paste(text)),
            Event::FocusGained => self.handle(UiMessage::Focus(true)),
            Event::FocusLost => self.handle(UiMessage::Focus(false)),
            Event::Key(_) => Ok(None),
        }
    }

    /// Handles feed updates and replies, and sends the backlog.
    fn handle_channels(&mut self) -> io::Result<()> {
        let mut messages = Vec::new();
        if let Some(updates) = &self.updates {
            while messages.len() < MAX_UPDATES {
                match updates.try_recv() {
                    Ok(update) => messages.push(UiMessage::Feed(update)),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => {
                        messages.push(UiMessage::FeedClosed);
                        self.updates = None;
                        break;
                    }
                }
            }
        }
        while let Ok(reply) = self.answers.replies.try_recv() {
            messages.push(UiMessage::Reply(Box::new(reply)));
        }
        for message in messages {
            self.handle(message)?;
        }
        while let Some(question) = self.backlog.pop() {
            if !self.ask(question) {
                break;
            }
        }
        Ok(())
    }

    fn handle(&mut self, message: UiMessage) -> io::Result<Option<Ends>> {
        for effect in update(&mut self.state, message) {
            match effect {
                Effect::Quit => return Ok(Some(Ends::Quit)),
                Effect::Demo => return Ok(Some(Ends::Demo)),
                Effect::Ask(question) => drop(self.ask(question)),
                Effect::Copy(text) => self.screen.write(&clipboard::sequence(&text))?,
                Effect::Bell => self.screen.write("\u{7}")?,
                Effect::Notify(words) => self.screen.write(&screen::notification(&words))?,
                Effect::Suspend => {
                    self.screen.suspend()?;
                    self.titled = None;
                }
                Effect::Open(text) => {
                    let editor = self.state.settings.editor.clone();
                    let failed = self.screen.open(&text, editor.as_deref())?;
                    self.titled = None;
                    if let Some(words) = failed {
                        update(&mut self.state, UiMessage::Failed(words));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Sends a question, or queues it in the backlog. Returns `false` if the host's queue is full.
    fn ask(&mut self, question: Question) -> bool {
        match self.answers.questions.try_send(question) {
            Ok(()) => true,
            Err(TrySendError::Full(question)) => {
                self.backlog.push(question);
                false
            }
            // The host is shutting down: drop the question.
            Err(TrySendError::Disconnected(_)) => true,
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        // No resize event arrives while another program has the terminal.
        let (width, height) = self.screen.size()?;
        if (width, height) != self.state.size {
            update(&mut self.state, UiMessage::Resize(width, height));
        }
        refresh(&mut self.state);
        let waiting = self.state.inbox.certain();
        if self.titled.replace(waiting) != Some(waiting) {
            self.screen.write(&screen::title(waiting))?;
        }
        let state = &self.state;
        let mut drawn = None;
        self.screen.draw(|area, buffer| drawn = Some(view(state, area, buffer)))?;
        if let Some(drawn) = drawn {
            update(&mut self.state, UiMessage::Drawn(Box::new(drawn)));
        }
        Ok(())
    }
}
