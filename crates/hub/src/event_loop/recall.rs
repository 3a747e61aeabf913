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
const BYTES_AT_WORK: u64 = 16 << 20;

/// Limits of a portion: number of sessions, and bytes of their input; a single session may have more.
const SESSIONS: usize = 64;
const BYTES: u64 = 4 << 20;

/// Progress of the replay.
#[derive(Default)]
pub(super) struct Recall {
    /// Sessions with acknowledged input that no rows contain.
    pub(super) unsettled: BTreeSet<SessionId>,
    /// Whether the replay is not finished.
    is_under_way: bool,
    /// Whether the store has listed the sessions with unprocessed input, and when to ask it again if it has not.
    is_listed: bool,
    retry_at: Option<Instant>,
    /// Replayed running sessions, until the initial scan is done and silence counts.
    at_work: Vec<SessionId>,
    /// Whether replayed input is not derived yet.
    pub(super) is_unconcluded: bool,
}

impl Recall {
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
    pub(super) fn begin_recall(&mut self) {
        self.recall.is_under_way = true;
        if self.list_unprocessed() && self.recall.unsettled.len() <= SESSIONS {
            self.recall_portion();
        }
    }

    /// Reads the list of sessions with unprocessed input, once; again after a pause if the store cannot be read.
    /// Returns whether the list is known.
    fn list_unprocessed(&mut self) -> bool {
        let now = clock::tick();
        if self.recall.is_listed || self.recall.retry_at.is_some_and(|at| now < at) {
            return self.recall.is_listed;
        }
        let sessions = self.store.sessions_with_unprocessed_input();
        let sessions = self.store.read("the sessions with unprocessed input", sessions);
        self.recall.is_listed = sessions.is_some();
        self.recall.retry_at = sessions.is_none().then(|| now + RETRY_AFTER);
        self.recall.unsettled = sessions.into_iter().flatten().collect();
        if self.recall.is_listed {
            tracing::info!(sessions = self.recall.unsettled.len(), "inbox replay begins");
        }
        self.recall.is_listed
    }

    /// Bytes of a session in the inbox; if the store cannot be read, as many as fill a portion.
    fn received_bytes(&self, session: &SessionId) -> u64 {
        self.store.read("the size of a session's input", self.store.received_bytes(session)).unwrap_or(BYTES)
    }

    /// Replays, derives, saves and evicts the next portion.
    pub(super) fn recall_portion(&mut self) {
        if !self.recall.is_under_way || self.failed_commit.is_some() || !self.list_unprocessed() {
            return;
        }
        let portion = self.portion();
        let is_last = self.recall.unsettled.len() <= portion.len();
        let mut told: BTreeMap<SessionId, BTreeSet<Text>> = BTreeMap::new();
        for session in portion {
            // Input of another session may have replayed it.
            if self.recall.unsettled.contains(&session) {
                let dialects = self.fold_again(&session);
                told.insert(session, dialects);
            }
        }
        self.has_unprocessed_acked |= !told.is_empty();
        self.recall.is_unconcluded |= self.has_unprocessed_acked;
        self.backfill(&told);
        self.dirty.extend(told.keys().cloned());
        if is_last {
            self.recall.is_under_way = false;
            self.recall_at_work(&told);
            return;
        }
        self.derive_dirty(false);
        let sessions: Vec<SessionId> = told.into_keys().collect();
        if self.write(&sessions).is_ok() {
            for session in &sessions {
                self.set_aside(session);
            }
        }
    }

    /// Returns the sessions of the next portion.
    fn portion(&self) -> Vec<SessionId> {
        let mut room = BYTES;
        let mut fits = |session: &&SessionId| {
            let has_room = room > 0;
            room = room.saturating_sub(self.received_bytes(session));
            has_room
        };
        self.recall.unsettled.iter().take(SESSIONS).take_while(|session| fits(session)).cloned().collect()
    }

    /// Replays the input of running sessions that are not in the last portion, and discards their events.
    fn recall_at_work(&mut self, told: &BTreeMap<SessionId, BTreeSet<Text>>) {
        let rows = self.store.list(&ListQuery::live(MAX_RUNNING_SESSIONS));
        let rows = self.store.read("the list of running sessions", rows).unwrap_or_default();
        let mut room = BYTES_AT_WORK;
        for session in rows.into_iter().map(|row| row.id).filter(|session| !told.contains_key(session)) {
            let bytes = self.received_bytes(&session);
            if bytes == 0 || bytes > room {
                continue;
            }
            room -= bytes;
            if self.look_up(&session) {
                self.recall.at_work.push(session);
            }
        }
        self.pass_over(&self.recall.at_work.clone());
    }

    /// Takes the replayed running sessions that must be derived because time alone may change them. A session whose
    /// replay has less than its stored rows keeps these rows.
    pub(super) fn replayed_running(&mut self) -> Vec<SessionId> {
        let mut found = std::mem::take(&mut self.recall.at_work);
        self.backfill(&found.iter().map(|session| (session.clone(), BTreeSet::new())).collect());
        let (at, limits) = (self.driver.now(), Limits::endless());
        let now = Now { at, has_ended: false, is_growing: true, prices: &self.options.prices, limits };
        found.retain(|session| {
            let kept = self.store.read("a session's rows", self.store.tree(session)).flatten();
            kept.zip(self.fold.tree(session, &now)).is_some_and(|(kept, folded)| {
                folded.agents.len() >= kept.agents.len()
                    && folded.session.ended_at_ms >= kept.session.ended_at_ms
            })
        });
        found
    }
}
