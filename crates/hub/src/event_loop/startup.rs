//! Start-up: reads existing files, and replays the inbox.
//!
//! Thousands of sessions may have changed recently, and the inbox may hold any number of them: all together would not
//! fit into memory. So they are derived, saved and evicted in portions, and commands are handled in between. The inbox
//! gives the sessions with acknowledged input that no rows contain, then running sessions.

use std::{collections::BTreeSet, time::Instant};

use subscope_model::{Millis, ReadingProgress, SessionId};
use subscope_store::ListQuery;

use super::{
    EventLoop,
    hub_store::RETRY_AFTER,
    rows::row_count,
    session_slot::{InboxInput, InputState, is_idle},
};

/// Most sessions, and approximate bytes, derived together. Each portion is compared with all stored sessions
/// ([`super::duplicates`]), so fewer portions cost less.
const PORTION_SESSIONS: usize = 16;
const PORTION_BYTES: u64 = 2_000_000;

/// Approximate rows (agents and calls) of idle sessions kept in memory while other files are read, and the number of
/// sessions kept regardless of their size: about as many as a user works with.
const MAX_IDLE_ROWS: usize = 1_000;
const MIN_SESSIONS_IN_MEMORY: usize = 8;

/// Limits for the replay of running sessions: number of sessions, and bytes of input as stored. The newest are
/// replayed, the others when they get more input.
const MAX_RUNNING_SESSIONS: usize = 1_000;
const MAX_RUNNING_BYTES: u64 = 16 << 20;

/// Limits of a portion of the inbox replay: number of sessions, and bytes of their input; a single session may have more.
const REPLAYED_SESSIONS: usize = 64;
const REPLAYED_BYTES: u64 = 4 << 20;

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
    /// How far the background index has read older sessions; `None` once it has.
    pub(super) indexing: Option<ReadingProgress>,
    /// Whether the driver's input has ended: only queries are handled.
    pub(super) has_ended: bool,
    /// Progress of the inbox replay.
    pub(super) replay: ReplayProgress,
    /// Whether replayed input is not derived yet.
    pub(super) has_underived_replay: bool,
}

/// Progress of the inbox replay.
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

    /// Whether the initial content is not published completely.
    pub(super) fn is_underway(&self) -> bool {
        !self.is_done || self.is_replaying()
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
            self.sessions.loaded_mut(session).map(|loaded| loaded.input.end_wait(InputState::FirstRead));
        }
        self.mark_dirty(loaded);
        self.derive_dirty(false);
        self.evict_surplus();
    }

    /// Saves and evicts idle sessions if there are many: reloading one of them costs less than holding all. Running
    /// sessions follow when they become idle ([`super::eviction`]).
    fn evict_surplus(&mut self) {
        let trees = || self.sessions.with_rows().map(|(_, tree)| tree);
        let idle_rows: usize = trees().filter(|tree| is_idle(tree)).map(|tree| row_count(tree)).sum();
        let has_room = idle_rows <= MAX_IDLE_ROWS || trees().count() <= MIN_SESSIONS_IN_MEMORY;
        if has_room || self.save_unsaved().is_err() {
            return;
        }
        for session in self.sessions.end_scan() {
            self.evict(&session);
        }
    }

    /// Starts the inbox replay, and takes the deadlines of stored sessions. A small inbox is replayed at once.
    pub(super) fn start(&mut self) {
        tracing::info!(seq = self.figures.seq, "event loop starts");
        // No other machine is heard yet.
        if let Err(error) = self.lose_remote(None, None) {
            tracing::warn!("sessions of other machines may count as at work: {error}");
        }
        let deadlines = self.store.read("the deadlines of sessions", self.store.deadlines());
        for (session, deadline) in deadlines.unwrap_or_default() {
            self.sessions.set_deadline(&session, Some(deadline));
        }
        if self.list_unprocessed() && self.sessions.unprocessed().count() <= REPLAYED_SESSIONS {
            self.replay_portion();
        }
    }

    /// Reads the list of sessions with unprocessed input, once; again after a pause if the store cannot be read.
    /// Returns whether the list is known.
    fn list_unprocessed(&mut self) -> bool {
        let now = self.time.tick();
        match self.startup.replay {
            ReplayProgress::UnderWay | ReplayProgress::Done => return true,
            ReplayProgress::RetryAt(at) if now < at => return false,
            ReplayProgress::RetryAt(_) | ReplayProgress::Unlisted => {}
        }
        let sessions = self.store.sessions_with_unprocessed_input();
        let Some(sessions) = self.store.read("the sessions with unprocessed input", sessions) else {
            self.startup.replay = ReplayProgress::RetryAt(now + RETRY_AFTER);
            return false;
        };
        tracing::info!(sessions = sessions.len(), "inbox replay begins");
        for session in &sessions {
            self.sessions.change_inbox(session, |inbox| *inbox = InboxInput::Unprocessed);
        }
        self.startup.replay = ReplayProgress::UnderWay;
        true
    }

    /// Replays, derives, saves and evicts the next portion. The last portion stays in memory, and running sessions are
    /// replayed after it.
    pub(super) fn replay_portion(&mut self) {
        if !self.startup.is_replaying() || self.store.has_failed_commit() || !self.list_unprocessed() {
            return;
        }
        let portion = self.next_portion();
        let is_last = self.sessions.unprocessed().count() <= portion.len();
        let mut replayed = BTreeSet::new();
        for session in portion {
            // Input of another session may have replayed it.
            if self.sessions.inbox(&session) == InboxInput::Unprocessed {
                self.ensure_replayed(&session);
                replayed.insert(session);
            }
        }
        self.pending.has_underived |= !replayed.is_empty();
        self.startup.has_underived_replay |= self.pending.has_underived;
        self.mark_dirty(replayed.iter().cloned());
        if is_last {
            self.startup.replay = ReplayProgress::Done;
            self.replay_running(&replayed);
            return;
        }
        self.derive_dirty(false);
        let sessions: Vec<SessionId> = replayed.into_iter().collect();
        if self.save_trees(&sessions).is_ok() {
            for session in &sessions {
                self.evict(session);
            }
        }
    }

    /// Returns the sessions of the next portion.
    fn next_portion(&self) -> Vec<SessionId> {
        let mut room = REPLAYED_BYTES;
        let mut fits = |session: &&SessionId| {
            let has_room = room > 0;
            room = room.saturating_sub(self.store.inbox_bytes(session).unwrap_or(REPLAYED_BYTES));
            has_room
        };
        self.sessions
            .unprocessed()
            .take(REPLAYED_SESSIONS)
            .take_while(|session| fits(session))
            .cloned()
            .collect()
    }

    /// Replays the input of running sessions that are not in the last portion: their next hook may be answered with a
    /// stop order.
    fn replay_running(&mut self, replayed: &BTreeSet<SessionId>) {
        let rows = self.store.list(&ListQuery::live(MAX_RUNNING_SESSIONS));
        let rows = self.store.read("the list of running sessions", rows).unwrap_or_default();
        let mut room = MAX_RUNNING_BYTES;
        for session in rows.into_iter().map(|row| row.id).filter(|session| !replayed.contains(session)) {
            let bytes = self.store.inbox_bytes(&session).unwrap_or(REPLAYED_BYTES);
            if bytes == 0 || bytes > room {
                continue;
            }
            room -= bytes;
            if self.ensure_replayed(&session) {
                self.sessions.loaded_mut(&session).into_iter().for_each(|it| it.input.await_silence());
            }
        }
    }
}
