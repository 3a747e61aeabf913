//! Replays the inbox when the hub starts: sessions with acknowledged input that no rows contain, then running sessions.
//!
//! The inbox may hold any number of sessions. The hub replays them in portions and handles commands in between; it
//! derives, saves and evicts each portion before the next, so that neither memory nor the longest wait grows with their
//! number.

use std::collections::{BTreeMap, BTreeSet};

use subscope_model::{SessionId, Text};
use subscope_store::ListQuery;

use super::{EventLoop, derive::RETRY_AFTER, session_slot::InboxInput, startup::ReplayProgress};

/// Limits for the replay of running sessions: number of sessions, and bytes of input as stored. The newest are
/// replayed, the others when they get more input.
const MAX_RUNNING_SESSIONS: usize = 1_000;
const MAX_RUNNING_BYTES: u64 = 16 << 20;

/// Limits of a portion: number of sessions, and bytes of their input; a single session may have more.
const PORTION_SESSIONS: usize = 64;
const PORTION_BYTES: u64 = 4 << 20;

impl EventLoop {
    /// Starts the replay, and takes the deadlines of stored sessions. A small inbox is replayed at once.
    pub(super) fn start_replay(&mut self) {
        self.take_deadlines();
        if self.list_unprocessed() && self.sessions.unprocessed().count() <= PORTION_SESSIONS {
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
            self.sessions.change_inbox(session, InboxInput::expect_replay);
        }
        self.startup.replay = ReplayProgress::UnderWay;
        true
    }

    /// Bytes of a session in the inbox; if the store cannot be read, as many as fill a portion.
    fn received_bytes(&self, session: &SessionId) -> u64 {
        self.store
            .read("the size of a session's input", self.store.received_bytes(session))
            .unwrap_or(PORTION_BYTES)
    }

    /// Replays, derives, saves and evicts the next portion. The last portion stays in memory, and running sessions are
    /// replayed after it.
    pub(super) fn replay_portion(&mut self) {
        if !self.startup.is_replaying() || self.has_failed_commit() || !self.list_unprocessed() {
            return;
        }
        let portion = self.next_portion();
        let is_last = self.sessions.unprocessed().count() <= portion.len();
        let mut replayed: BTreeMap<SessionId, BTreeSet<Text>> = BTreeMap::new();
        for session in portion {
            // Input of another session may have replayed it.
            if self.sessions.inbox(&session) == InboxInput::Unprocessed {
                let dialects = self.replay_inbox(&session);
                replayed.insert(session, dialects);
            }
        }
        self.pending.has_underived |= !replayed.is_empty();
        self.startup.has_underived_replay |= self.pending.has_underived;
        for (session, dialects) in &replayed {
            self.add_new_dialects(session, dialects);
            self.mark_dirty([session.clone()]);
        }
        if is_last {
            self.startup.replay = ReplayProgress::Done;
            self.replay_running(&replayed);
            return;
        }
        self.derive_dirty(false);
        let sessions: Vec<SessionId> = replayed.into_keys().collect();
        if self.save_trees(&sessions).is_ok() {
            for session in &sessions {
                self.evict(session);
            }
        }
    }

    /// Returns the sessions of the next portion.
    fn next_portion(&self) -> Vec<SessionId> {
        let mut room = PORTION_BYTES;
        let mut fits = |session: &&SessionId| {
            let has_room = room > 0;
            room = room.saturating_sub(self.received_bytes(session));
            has_room
        };
        self.sessions
            .unprocessed()
            .take(PORTION_SESSIONS)
            .take_while(|session| fits(session))
            .cloned()
            .collect()
    }

    /// Replays the input of running sessions that are not in the last portion: their next hook may be answered with a
    /// stop order.
    fn replay_running(&mut self, replayed: &BTreeMap<SessionId, BTreeSet<Text>>) {
        let rows = self.store.list(&ListQuery::live(MAX_RUNNING_SESSIONS));
        let rows = self.store.read("the list of running sessions", rows).unwrap_or_default();
        let mut room = MAX_RUNNING_BYTES;
        for session in rows.into_iter().map(|row| row.id).filter(|session| !replayed.contains_key(session)) {
            let bytes = self.received_bytes(&session);
            if bytes == 0 || bytes > room {
                continue;
            }
            room -= bytes;
            if self.ensure_replayed(&session) {
                self.sessions.loaded_mut(&session).into_iter().for_each(|it| it.input.await_silence());
            }
        }
    }

    /// Takes the deadlines of sessions that are not in memory from the store.
    fn take_deadlines(&mut self) {
        let stored = self.store.read("the deadlines of sessions", self.store.deadlines()).unwrap_or_default();
        for (session, deadline) in stored {
            self.sessions.set_deadline(&session, Some(deadline));
        }
    }
}
