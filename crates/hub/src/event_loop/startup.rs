//! Derives and evicts sessions in portions while existing files are read at start-up: thousands of sessions may have
//! changed recently, and all of them together would not fit into memory.

use std::time::Instant;

use subscope_model::{Millis, SessionId};

use super::{EventLoop, session_slot::InputState};

/// Most sessions, and approximate bytes, derived together. Each portion is compared with all stored sessions
/// ([`super::duplicates`]), so fewer portions cost less.
const PORTION_SESSIONS: usize = 16;
const PORTION_BYTES: u64 = 2_000_000;

/// Approximate rows (agents and calls) of idle sessions kept in memory while other files are read, and the number of
/// sessions kept regardless of their size: about as many as a user works with.
const MAX_IDLE_ROWS: usize = 1_000;
const MIN_SESSIONS_IN_MEMORY: usize = 8;

/// How far the hub has come since it started.
#[derive(Default)]
pub(super) struct Startup {
    /// Time up to which the last hub published all events; `None` if it is unknown.
    pub(super) last_stop_ms: Option<Millis>,
    /// Sessions whose initial content is read completely, not derived yet.
    loaded: Vec<SessionId>,
    /// Bytes of their files.
    bytes: u64,
    /// Whether existing files and the inbox are read: from then on silence counts.
    pub(super) is_read: bool,
    /// Whether the driver has read the initial content of its files.
    pub(super) is_caught_up: bool,
    /// Whether the initial content was published completely ([`subscope_model::Update::CaughtUp`]).
    pub(super) is_done: bool,
    /// Whether the background index is still reading older sessions.
    pub(super) is_indexing: bool,
    /// Whether the driver's input has ended: only queries are handled.
    pub(super) has_ended: bool,
    /// Progress of the inbox replay.
    pub(super) replay: ReplayProgress,
    /// Whether replayed input is not derived yet.
    pub(super) has_underived_replay: bool,
}

/// Progress of the inbox replay at start-up ([`super::startup_replay`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ReplayProgress {
    /// The store has not listed the sessions to replay; it is asked again at a time if that failed.
    #[default]
    Unlisted,
    RetryAt(Instant),
    UnderWay,
    Done,
}

impl Startup {
    /// Start after a hub that published all events up to a time, if that is known.
    pub(super) fn after(last_stop_ms: Option<Millis>) -> Self {
        Self { last_stop_ms, ..Self::default() }
    }

    /// Whether the inbox replay is not finished.
    pub(super) fn is_replaying(&self) -> bool {
        self.replay != ReplayProgress::Done
    }

    /// Whether the next portion can be replayed at once: the store is not failing.
    pub(super) fn is_hurried(&self) -> bool {
        matches!(self.replay, ReplayProgress::Unlisted | ReplayProgress::UnderWay)
    }
}

impl EventLoop {
    /// Takes sessions whose initial content is read, and derives them once a portion is complete.
    pub(super) fn derive_loaded(&mut self, loaded: Vec<SessionId>) {
        for session in loaded {
            if self.sessions.loaded(&session).is_some_and(|it| it.input == InputState::FirstRead) {
                self.startup.bytes += self.driver.reloadable_bytes(&session).unwrap_or_default();
                self.startup.loaded.push(session);
            }
        }
        if self.startup.loaded.len() < PORTION_SESSIONS && self.startup.bytes < PORTION_BYTES {
            return;
        }
        self.startup.bytes = 0;
        let loaded = std::mem::take(&mut self.startup.loaded);
        for session in &loaded {
            self.sessions.loaded_mut(session).map(|loaded| loaded.input.end_first_read());
        }
        self.mark_dirty(loaded);
        self.derive_dirty(false);
        self.evict_surplus();
    }

    /// Saves and evicts idle sessions if there are many: reloading one of them costs less than holding all. Running
    /// sessions follow when they become idle ([`super::eviction`]).
    fn evict_surplus(&mut self) {
        let has_room =
            self.idle_size() <= MAX_IDLE_ROWS || self.sessions.with_rows().count() <= MIN_SESSIONS_IN_MEMORY;
        if has_room || self.save_unsaved().is_err() {
            return;
        }
        for session in self.sessions.end_scan() {
            self.evict(&session);
        }
    }
}
