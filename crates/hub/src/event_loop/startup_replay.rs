//! Replays the inbox when the hub starts: sessions with acknowledged input that no rows contain, then running sessions.
//!
//! The inbox may hold any number of sessions. The hub replays them in portions and handles commands in between; it derives, saves
//! and evicts each portion before the next, so that neither memory nor the longest wait grows with their number.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use subscope_fold::{Limits, Now};
use subscope_model::{SessionId, Text};
use subscope_store::ListQuery;

use super::{EventLoop, derive::RETRY_AFTER};
use crate::clock;

/// Limits for the replay of running sessions: number of sessions, and bytes of input as stored. The newest are
/// replayed, the others when they get more input.
const MAX_RUNNING_SESSIONS: usize = 1_000;
const MAX_RUNNING_BYTES: u64 = 16 << 20;

/// Limits of a portion: number of sessions, and bytes of their input; a single session may have more.
const PORTION_SESSIONS: usize = 64;
const PORTION_BYTES: u64 = 4 << 20;

/// Progress of the replay.
#[derive(Default)]
pub(super) struct StartupReplay {
    /// Sessions with acknowledged input that no rows contain.
    pub(super) unprocessed: BTreeSet<SessionId>,
    /// Whether the replay is not finished.
    is_under_way: bool,
    /// Whether the store has listed the sessions with unprocessed input, and when to ask it again if it has not.
    is_listed: bool,
    retry_at: Option<Instant>,
    /// Replayed running sessions, until the initial scan is done and silence counts.
    running: Vec<SessionId>,
    /// Whether replayed input is not derived yet.
    pub(super) has_underived: bool,
}

impl StartupReplay {
    /// Whether the replay is not finished.
    pub(super) fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// Whether the next portion can be replayed at once: the store is not failing.
    pub(super) fn is_hurried(&self) -> bool {
        self.is_under_way && self.retry_at.is_none()
    }
}

impl EventLoop {
    /// Starts the replay. A small inbox is replayed at once.
    pub(super) fn start_replay(&mut self) {
        self.startup_replay.is_under_way = true;
        if self.list_unprocessed() && self.startup_replay.unprocessed.len() <= PORTION_SESSIONS {
            self.replay_portion();
        }
    }

    /// Reads the list of sessions with unprocessed input, once; again after a pause if the store cannot be read.
    /// Returns whether the list is known.
    fn list_unprocessed(&mut self) -> bool {
        let now = clock::tick();
        if self.startup_replay.is_listed || self.startup_replay.retry_at.is_some_and(|at| now < at) {
            return self.startup_replay.is_listed;
        }
        let sessions = self.store.sessions_with_unprocessed_input();
        let sessions = self.store.read("the sessions with unprocessed input", sessions);
        self.startup_replay.is_listed = sessions.is_some();
        self.startup_replay.retry_at = sessions.is_none().then(|| now + RETRY_AFTER);
        self.startup_replay.unprocessed = sessions.into_iter().flatten().collect();
        if self.startup_replay.is_listed {
            tracing::info!(sessions = self.startup_replay.unprocessed.len(), "inbox replay begins");
        }
        self.startup_replay.is_listed
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
        if !self.startup_replay.is_under_way || self.failed_commit.is_some() || !self.list_unprocessed() {
            return;
        }
        let portion = self.next_portion();
        let is_last = self.startup_replay.unprocessed.len() <= portion.len();
        let mut replayed: BTreeMap<SessionId, BTreeSet<Text>> = BTreeMap::new();
        for session in portion {
            // Input of another session may have replayed it.
            if self.startup_replay.unprocessed.contains(&session) {
                let dialects = self.replay_inbox(&session);
                replayed.insert(session, dialects);
            }
        }
        self.has_unprocessed_acked |= !replayed.is_empty();
        self.startup_replay.has_underived |= self.has_unprocessed_acked;
        self.backfill(&replayed);
        self.dirty.extend(replayed.keys().cloned());
        if is_last {
            self.startup_replay.is_under_way = false;
            self.replay_running(&replayed);
            return;
        }
        self.derive_dirty(false);
        let sessions: Vec<SessionId> = replayed.into_keys().collect();
        if self.save_trees(&sessions).is_ok() {
            for session in &sessions {
                self.evict_now(session);
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
        self.startup_replay
            .unprocessed
            .iter()
            .take(PORTION_SESSIONS)
            .take_while(|session| fits(session))
            .cloned()
            .collect()
    }

    /// Replays the input of running sessions that are not in the last portion, and discards their events.
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
                self.startup_replay.running.push(session);
            }
        }
        self.discard_events(&self.startup_replay.running.clone());
    }

    /// Takes the replayed running sessions that must be derived because time alone may change them. A session whose
    /// replay has less than its stored rows keeps these rows.
    pub(super) fn take_replayed_running(&mut self) -> Vec<SessionId> {
        let mut running = std::mem::take(&mut self.startup_replay.running);
        self.backfill(&running.iter().map(|session| (session.clone(), BTreeSet::new())).collect());
        let (at, limits) = (self.driver.now(), Limits::endless());
        let now = Now { at, has_ended: false, is_growing: true, prices: &self.options.prices, limits };
        running.retain(|session| {
            let stored = self.store.read("a session's rows", self.store.tree(session)).flatten();
            stored.zip(self.fold.tree(session, &now)).is_some_and(|(stored, derived)| {
                derived.agents.len() >= stored.agents.len()
                    && derived.session.ended_at_ms >= stored.session.ended_at_ms
            })
        });
        running
    }
}
