//! The loop: a terminal that is given back whatever happens, threads that wait for others, and the pace of drawing.
//!
//! Keys are taken and drawn at once; what the feed tells is gathered for a frame. Nothing is drawn that is the same.

mod clipboard;
mod feeder;
mod screen;

use std::{
    io,
    sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError},
    time::Duration,
};

use ratatui::crossterm::event::{self, Event, KeyEventKind};
use subscope_model::{Feed, Millis, SessionId, Tree};

pub use self::screen::restore;
use self::{
    feeder::{Fed, feeder},
    screen::{Screen, Signals},
};
use crate::{
    ask::{Question, Reply},
    settings::{Clocks, Settings},
    state::{State, time_travel::Travel},
    update::{Effect, Message, refresh, update},
    view::view,
};

/// How often what the feed told is drawn at most: more is not seen, and costs.
const FRAME_MS: Millis = 33;

/// How often durations are counted on.
const SECOND_MS: Millis = 1_000;

/// How long a wait for a key lasts at most: the grain at which the feed is looked at.
const WAIT: Duration = Duration::from_millis(FRAME_MS as u64);

/// Updates that are taken before a frame at most, so that a flood leaves room for keys.
const MOST_UPDATES: usize = 2_000;

/// Questions to the host and its answers.
#[derive(Debug)]
pub struct Answers {
    /// Where questions go.
    pub questions: SyncSender<Question>,
    /// Where answers come from.
    pub replies: Receiver<Reply>,
}

/// What the UI is linked to.
pub struct Links {
    /// What tells of sessions at work; `None` where only one is played back.
    pub feed: Option<Box<dyn Feed>>,
    /// Who answers.
    pub answers: Answers,
    /// Its clocks.
    pub clocks: Clocks,
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Links")
    }
}

/// A session that is played back.
#[derive(Clone, Debug)]
pub struct Playback {
    /// Its rows at its end.
    pub tree: Tree,
    /// How many times as fast as it was.
    pub speed: f64,
    /// Whether it begins halted, to be gone through step by step.
    pub is_halted: bool,
}

/// How the UI ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The person wanted it.
    Quit,
    /// A signal did; its number.
    Signal(i32),
}

/// Why the UI could not go on.
#[derive(Debug, thiserror::Error)]
#[error("the terminal cannot be used")]
pub struct RunError(#[from] io::Error);

/// Runs the UI until somebody ends it. The terminal is given back as it was, also on a panic and on a signal that ends
/// programs.
///
/// # Errors
/// Where the terminal does not do what terminals do.
pub fn run(settings: Settings, links: Links, playback: Option<Playback>) -> Result<Ends, RunError> {
    let Links { feed, answers, clocks } = links;
    let fed = feed.map(|feed| feeder(feed, clocks)).transpose()?;
    let signals = Signals::listen()?;
    let mut screen = Screen::enter()?;
    let size = screen.size()?;
    let mut state = State::new(settings, size, (clocks.now_ms)(), (clocks.awake_ms)());
    if let Some(playback) = playback {
        play(&mut state, playback);
    }
    let mut runner = Runner { screen: &mut screen, state, fed, answers, clocks, backlog: Vec::new() };
    let ends = runner.run(&signals);
    drop(screen);
    Ok(ends?)
}

/// Makes a session the one that is looked at, from its begin.
fn play(state: &mut State, playback: Playback) {
    let Playback { tree, speed, is_halted } = playback;
    let session: SessionId = tree.session.id.clone();
    let from_ms = tree.session.started_at_ms.unwrap_or(0);
    let to_ms = tree.session.ended_at_ms.unwrap_or(from_ms).max(from_ms);
    state.is_replay = true;
    state.is_caught_up = true;
    state.sessions.selected = Some(session.clone());
    state.travel = Some(Travel {
        session,
        at_ms: from_ms,
        from_ms,
        to_ms,
        is_playing: !is_halted,
        speed,
        tree: None,
        shown_ms: None,
        asked_ms: None,
        moved_ms: state.awake_ms,
    });
    state.trees.answer(tree);
}

/// What the loop works with.
struct Runner<'a> {
    screen: &'a mut Screen,
    state: State,
    fed: Option<Receiver<Fed>>,
    answers: Answers,
    clocks: Clocks,
    /// Questions that found the queue full.
    backlog: Vec<Question>,
}

impl Runner<'_> {
    fn run(&mut self, signals: &Signals) -> io::Result<Ends> {
        let (mut drawn_ms, mut second) = (Millis::MIN / 2, Millis::MIN);
        let mut is_due = true;
        loop {
            let awake_ms = (self.clocks.awake_ms)();
            let tick = Message::Tick { now_ms: (self.clocks.now_ms)(), awake_ms };
            if let Some(ends) = self.take(tick)? {
                return Ok(ends);
            }
            is_due |= self.take_others()?;
            let playing = self.state.travel().is_some_and(|travel| travel.is_playing);
            let this_second = self.state.now_ms.div_euclid(SECOND_MS);
            is_due |= this_second != second || playing;
            if is_due && awake_ms - drawn_ms >= FRAME_MS {
                self.draw()?;
                (drawn_ms, second, is_due) = ((self.clocks.awake_ms)(), this_second, false);
            }
            if let Some(number) = signals.pending() {
                return Ok(Ends::Signal(number));
            }
            // A key does not wait for the next frame.
            if event::poll(WAIT)? {
                while event::poll(Duration::ZERO)? {
                    let read = event::read()?;
                    if let Some(ends) = self.take_event(read)? {
                        return Ok(ends);
                    }
                }
                self.draw()?;
                (drawn_ms, is_due) = ((self.clocks.awake_ms)(), false);
            }
        }
    }

    fn take_event(&mut self, event: Event) -> io::Result<Option<Ends>> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.take(Message::Key(key)),
            Event::Mouse(mouse) => self.take(Message::Mouse(mouse)),
            Event::Resize(width, height) => self.take(Message::Resize(width, height)),
            Event::Paste(text) => self.take(Message::Paste(text)),
            Event::Key(_) | Event::FocusGained | Event::FocusLost => Ok(None),
        }
    }

    /// Takes what the feed told and what was answered. Returns whether there was anything.
    fn take_others(&mut self) -> io::Result<bool> {
        let mut has_news = false;
        let mut messages = Vec::new();
        if let Some(fed) = &self.fed {
            while messages.len() < MOST_UPDATES {
                match fed.try_recv() {
                    Ok(Fed::Update(update)) => messages.push(Message::Feed(update)),
                    Err(TryRecvError::Empty) => break,
                    Ok(Fed::Ends) | Err(TryRecvError::Disconnected) => {
                        messages.push(Message::FeedEnds);
                        self.fed = None;
                        break;
                    }
                }
            }
        }
        while let Ok(reply) = self.answers.replies.try_recv() {
            messages.push(Message::Reply(reply));
        }
        for message in messages {
            has_news = true;
            self.take(message)?;
        }
        while let Some(question) = self.backlog.pop() {
            if !self.ask(question) {
                break;
            }
        }
        Ok(has_news)
    }

    fn take(&mut self, message: Message) -> io::Result<Option<Ends>> {
        for effect in update(&mut self.state, message) {
            match effect {
                Effect::Quit => return Ok(Some(Ends::Quit)),
                Effect::Ask(question) => drop(self.ask(question)),
                Effect::Copy(text) => self.screen.write(&clipboard::sequence(&text))?,
                Effect::Bell => self.screen.write("\u{7}")?,
                Effect::Notify(words) => self.screen.write(&screen::notification(&words))?,
                Effect::Suspend => self.screen.suspend()?,
                Effect::Open(text) => {
                    let editor = self.state.settings.editor.clone();
                    let failed = self.screen.open(&text, editor.as_deref())?;
                    if let Some(words) = failed {
                        update(&mut self.state, Message::Failed(words));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Hands a question over. Returns whether there was room.
    fn ask(&mut self, question: Question) -> bool {
        match self.answers.questions.try_send(question) {
            Ok(()) => true,
            Err(TrySendError::Full(question)) => {
                self.backlog.push(question);
                false
            }
            // Nobody answers any more: the host ends.
            Err(TrySendError::Disconnected(_)) => true,
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        // While another program had the terminal, nobody told of another size.
        let (width, height) = self.screen.size()?;
        if (width, height) != self.state.size {
            update(&mut self.state, Message::Resize(width, height));
        }
        refresh(&mut self.state);
        let state = &self.state;
        let mut drawn = None;
        self.screen.draw(|area, buffer| drawn = Some(view(state, area, buffer)))?;
        if let Some(drawn) = drawn {
            update(&mut self.state, Message::Drawn(Box::new(drawn)));
        }
        Ok(())
    }
}
