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
const SCAN_INTERVAL: Duration = Duration::from_secs(5);

/// Most sessions evicted per scan, and the pause before the next scan after so many.
const MAX_EVICTIONS_PER_SCAN: usize = 20;
const BATCH_PAUSE: Duration = Duration::from_millis(20);

/// Extra idle time before eviction, per megabyte that a reload would read.
const DELAY_PER_MEGABYTE: Duration = Duration::from_secs(10);

/// How long a session stays in the snapshots for new subscribers after it was last derived: as long as a starting hub
/// tails its files.
const SNAPSHOT_WINDOW: Duration = Duration::from_secs(15 * 60);

/// Most evicted sessions in these snapshots: each is read from the store and sent to every new subscriber.
const MAX_SNAPSHOT_SESSIONS: usize = 1_000;

/// Sessions evicted from memory; they are served from the store until their input changes.
#[derive(Default)]
pub(super) struct Evictor {
    /// Time of the next scan.
    next_scan: Option<Instant>,
    /// Recently evicted sessions, with the time of their last derivation.
    recent: BTreeMap<SessionId, Instant>,
    /// Number of commits at the last scan.
    commits: u64,
    /// Number of commits when the store last released its memory.
    released_at: Option<u64>,
}

impl Evictor {
    /// Time until the next scan.
    pub(super) fn due_in(&self, now: Instant) -> Option<Duration> {
        self.next_scan.map(|scan| scan.saturating_duration_since(now))
    }

    /// Whether a session was evicted recently.
    pub(super) fn has_recent(&self, session: &SessionId) -> bool {
        self.recent.contains_key(session)
    }

    /// Recently evicted sessions, which new subscribers still get.
    pub(super) fn recent_sessions(&self) -> impl Iterator<Item = &SessionId> {
        self.recent.keys()
    }

    /// Records that a session is live again.
    pub(super) fn remove(&mut self, session: &SessionId) {
        self.recent.remove(session);
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
        let is_due = |(session, derived_at): &(&SessionId, Instant)| {
            let idle_limit =
                |bytes: u64| self.options.evict_after + DELAY_PER_MEGABYTE.mul_f64(bytes as f64 / 1e6);
            let is_idle = |bytes| now.duration_since(*derived_at) >= idle_limit(bytes);
            self.reloadable_bytes(session)
                .is_some_and(|bytes| self.startup.evicts_after_startup(session) || is_idle(bytes))
        };
        let due = self.rows.idle_sessions().filter(is_due).take(MAX_EVICTIONS_PER_SCAN);
        let due: Vec<_> = due.map(|(session, derived_at)| (session.clone(), derived_at)).collect();
        let evicted =
            due.into_iter().filter(|(session, derived_at)| self.evict(session, *derived_at)).count();
        self.evictor.recent.retain(|_, derived_at| now.duration_since(*derived_at) < SNAPSHOT_WINDOW);
        let is_hurried = evicted == MAX_EVICTIONS_PER_SCAN;
        self.evictor.next_scan =
            Some(now + if is_hurried { BATCH_PAUSE } else { SCAN_INTERVAL.min(self.options.evict_after) });
        let commits = self.figures.commits;
        let is_quiet = std::mem::replace(&mut self.evictor.commits, commits) == commits && !is_hurried;
        if is_quiet && self.evictor.released_at != Some(commits) {
            self.store.release_memory();
            self.evictor.released_at = Some(commits);
        }
    }

    /// Bytes to read if the session is evicted and reloaded; `None` if it cannot be reloaded completely.
    fn reloadable_bytes(&self, session: &SessionId) -> Option<u64> {
        let inbox = |bytes: u64| self.store.keeps_received().then_some(bytes);
        match (self.driver.reloadable_bytes(session), self.inbox_replay.reloadable_bytes(session)?) {
            (Some(files), 0) => Some(files),
            (Some(files), bytes) => Some(files + inbox(bytes)?),
            (None, 0) => None,
            (None, bytes) => inbox(bytes).filter(|_| !self.driver.follows(session)),
        }
    }

    /// Evicts a session that was just derived and saved, even if agents are running: its rows stay as they are until it
    /// gets input.
    pub(super) fn evict_now(&mut self, session: &SessionId) {
        self.deadlines.remove(session);
        self.next_derivations.remove(session);
        self.evict(session, clock::tick());
    }

    /// Evicts a session unless work on it is pending. Returns whether it was evicted.
    pub(super) fn evict(&mut self, session: &SessionId, derived_at: Instant) -> bool {
        let is_pending = self.dirty.contains(session)
            || self.loading.contains(session)
            || self.reloading.contains(session)
            || self.deadlines.contains_key(session)
            || self.stop_orders.contains_key(session)
            || self.broadcast.has_pending(session)
            || self.feed.next_due(session).is_some();
        let backfilled = self.backfilled.get(session).into_iter().flatten().copied();
        let others: Vec<SourceId> = self.inbox_replay.sources(session).chain(backfilled).collect();
        if is_pending
            || self.reloadable_bytes(session).is_none()
            || !self.driver.evict(session, &others, &mut self.fold)
        {
            return false;
        }
        tracing::debug!(%session, "evicted");
        self.inbox_replay.evict(session);
        self.backfilled.remove(session);
        self.feed.evict(session);
        self.rows.evict(session);
        self.broadcast.evict(session);
        self.published.evict(session);
        self.duplicates.evict(session);
        self.startup.remove(session);
        if self.evictor.recent.len() < MAX_SNAPSHOT_SESSIONS {
            self.evictor.recent.insert(session.clone(), derived_at);
        }
        true
    }
}
