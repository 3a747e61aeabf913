//! Evicts idle sessions from memory: everything that can be loaded again is dropped.
//!
//! An evicted session is served from the store. When its files grow, or a program sends input for it, its driver reads
//! the files again from their beginning, and its input is replayed from the inbox ([`super::inbox_replay`]). A session
//! is never evicted if some of its bytes cannot be separated from another session's or cannot be read again.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use subscope_model::{SessionId, SourceId};

use super::EventLoop;
use crate::clock;

/// Interval between scans for idle sessions.
const LOOK: Duration = Duration::from_secs(5);

/// Most sessions evicted per scan, and the pause before the next scan after so many.
const AT_ONCE: usize = 20;
const BREATH: Duration = Duration::from_millis(20);

/// Extra idle time before eviction, per megabyte that a reload would read.
const STAYS_A_MEGABYTE: Duration = Duration::from_secs(10);

/// How long a session stays in the snapshots for new subscribers after it was last derived: as long as a starting hub
/// tails its files.
const SHOWN: Duration = Duration::from_secs(15 * 60);

/// Most evicted sessions in these snapshots: each is read from the store and sent to every new subscriber.
const MOST_SHOWN: usize = 1_000;

/// Sessions evicted from memory; they are served from the store until their input changes.
#[derive(Default)]
pub(super) struct Evictor {
    /// Time of the next scan.
    next: Option<Instant>,
    /// Recently evicted sessions, with the time of their last derivation.
    sessions: BTreeMap<SessionId, Instant>,
    /// Number of commits at the last scan.
    commits: u64,
    /// Number of commits when the store last released its memory.
    given_back: Option<u64>,
}

impl Evictor {
    /// Time until the next scan.
    pub(super) fn due_in(&self, now: Instant) -> Option<Duration> {
        self.next.map(|next| next.saturating_duration_since(now))
    }

    /// Whether a session was evicted recently.
    pub(super) fn has(&self, session: &SessionId) -> bool {
        self.sessions.contains_key(session)
    }

    /// Recently evicted sessions, which new subscribers still get.
    pub(super) fn sessions(&self) -> impl Iterator<Item = &SessionId> {
        self.sessions.keys()
    }

    /// Records that a session is live again.
    pub(super) fn goes_on(&mut self, session: &SessionId) {
        self.sessions.remove(session);
    }
}

impl EventLoop {
    /// Evicts idle sessions, at most [`MAX_EVICTIONS_PER_SCAN`] per scan. Releases the store's memory once nothing is
    /// committed any more.
    pub(super) fn evict_idle(&mut self) {
        let now = clock::tick();
        if self.evictor.due_in(now).is_some_and(|wait| !wait.is_zero()) {
            return;
        }
        let is_due = |(session, concluded): &(&SessionId, Instant)| {
            let stays = |bytes: u64| self.options.evict_after + STAYS_A_MEGABYTE.mul_f64(bytes as f64 / 1e6);
            let is_silent = |bytes| now.duration_since(*concluded) >= stays(bytes);
            self.reloadable_bytes(session)
                .is_some_and(|bytes| self.begin.evicts_after_startup(session) || is_silent(bytes))
        };
        let due = self.rows.settled().filter(is_due).take(AT_ONCE);
        let due: Vec<_> = due.map(|(session, concluded)| (session.clone(), concluded)).collect();
        let released = due.into_iter().filter(|(session, concluded)| self.evict(session, *concluded)).count();
        self.evictor.sessions.retain(|_, concluded| now.duration_since(*concluded) < SHOWN);
        let is_hurried = released == AT_ONCE;
        self.evictor.next = Some(now + if is_hurried { BREATH } else { LOOK.min(self.options.evict_after) });
        let commits = self.figures.commits;
        let is_idle = std::mem::replace(&mut self.evictor.commits, commits) == commits && !is_hurried;
        if is_idle && self.evictor.given_back != Some(commits) {
            self.store.release_memory();
            self.evictor.given_back = Some(commits);
        }
    }

    /// Bytes to read if the session is evicted and reloaded; `None` if it cannot be reloaded completely.
    fn reloadable_bytes(&self, session: &SessionId) -> Option<u64> {
        let handed = |bytes: u64| self.store.keeps_received().then_some(bytes);
        match (self.driver.reloadable_bytes(session), self.inbox_replay.reloadable_bytes(session)?) {
            (Some(files), 0) => Some(files),
            (Some(files), bytes) => Some(files + handed(bytes)?),
            (None, 0) => None,
            (None, bytes) => handed(bytes).filter(|_| !self.driver.follows(session)),
        }
    }

    /// Evicts a session that was just derived and saved, even if agents are running: its rows stay as they are until it
    /// gets input.
    pub(super) fn set_aside(&mut self, session: &SessionId) {
        self.deadlines.remove(session);
        self.paces.remove(session);
        self.evict(session, clock::tick());
    }

    /// Evicts a session unless work on it is pending. Returns whether it was evicted.
    pub(super) fn evict(&mut self, session: &SessionId, concluded: Instant) -> bool {
        let is_awaited = self.dirty.contains(session)
            || self.loading.contains(session)
            || self.reloading.contains(session)
            || self.deadlines.contains_key(session)
            || self.ordered.contains_key(session)
            || self.broadcast.is_waiting(session)
            || self.events.next_due(session).is_some();
        let read = self.backfilled.get(session).into_iter().flatten().copied();
        let others: Vec<SourceId> = self.inbox_replay.sources(session).chain(read).collect();
        if is_awaited
            || self.reloadable_bytes(session).is_none()
            || !self.driver.evict(session, &others, &mut self.fold)
        {
            return false;
        }
        tracing::debug!(%session, "evicted");
        self.inbox_replay.evict(session);
        self.backfilled.remove(session);
        self.events.evict(session);
        self.rows.evict(session);
        self.broadcast.evict(session);
        self.published.evict(session);
        self.duplicates.evict(session);
        self.begin.goes_on(session);
        if self.evictor.sessions.len() < MOST_SHOWN {
            self.evictor.sessions.insert(session.clone(), concluded);
        }
        true
    }
}
