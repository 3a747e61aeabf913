//! Evicts idle sessions from memory: everything that can be loaded again is dropped.
//!
//! An evicted session is served from the store. When its files grow, or a program sends input for it, its driver reads
//! the files again from their beginning, and its input is replayed from the inbox ([`super::inbox_replay`]). A session
//! is never evicted if some of its bytes cannot be separated from another session's or cannot be read again.

use std::time::{Duration, Instant};

use subscope_model::SessionId;
use subscope_store::Commit;

use super::{
    EventLoop,
    session_slot::{InboxInput, LoadedBy, LoadedSession, Task},
};

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

/// When idle sessions are looked for.
#[derive(Default)]
pub(super) struct EvictPace {
    /// Time of the next scan.
    next_scan: Option<Instant>,
    /// Number of commits at the last scan.
    commits: u64,
    /// Number of commits when the store last released its memory.
    released_at: Option<u64>,
}

impl EvictPace {
    /// Time until the next scan.
    pub(super) fn due_in(&self, now: Instant) -> Option<Duration> {
        self.next_scan.map(|scan| scan.saturating_duration_since(now))
    }
}

impl EventLoop {
    /// Evicts idle sessions, at most [`MAX_EVICTIONS_PER_SCAN`] per scan. Releases the store's memory once nothing is
    /// committed any more.
    pub(super) fn evict_idle(&mut self) {
        let now = self.time.tick();
        if self.pace.evict.due_in(now).is_some_and(|wait| !wait.is_zero()) {
            return;
        }
        let due: Vec<SessionId> = self.sessions.all().map(|(session, _)| session).cloned().collect();
        let due = due.into_iter().filter(|session| self.is_due_for_eviction(session, now));
        let due: Vec<SessionId> = due.take(MAX_EVICTIONS_PER_SCAN).collect();
        let evicted = due.iter().filter(|session| self.evict(session)).count();
        self.sessions.expire_evictions(|derived_at| now.duration_since(derived_at) < SNAPSHOT_WINDOW);
        let is_hurried = evicted == MAX_EVICTIONS_PER_SCAN;
        let commits = self.figures.commits;
        let pace = &mut self.pace.evict;
        pace.next_scan =
            Some(now + if is_hurried { BATCH_PAUSE } else { SCAN_INTERVAL.min(self.options.evict_after) });
        let is_quiet = std::mem::replace(&mut pace.commits, commits) == commits && !is_hurried;
        if is_quiet && pace.released_at != Some(commits) {
            self.store.release_memory();
            pace.released_at = Some(commits);
        }
    }

    /// Whether a session is idle for long enough. Large sessions stay longer.
    fn is_due_for_eviction(&self, session: &SessionId, now: Instant) -> bool {
        let Some(loaded) = self.sessions.loaded(session) else { return false };
        if loaded.loaded_by == LoadedBy::Deadline
            && self.sessions.has_rows(session)
            && !loaded.has(Task::Save)
        {
            return true;
        }
        let Some(derived_at) = self.sessions.idle_since(session) else { return false };
        let is_scanned = loaded.loaded_by == LoadedBy::StartupScan;
        let idle_limit =
            |bytes: u64| self.options.evict_after + DELAY_PER_MEGABYTE.mul_f64(bytes as f64 / 1e6);
        self.reloadable_bytes(session).is_some_and(|bytes| {
            let is_running = self.sessions.deadline_of(session).is_some();
            !is_running && (is_scanned || now.duration_since(derived_at) >= idle_limit(bytes))
        })
    }

    /// Bytes to read if the session is evicted and reloaded; `None` if it cannot be reloaded completely.
    fn reloadable_bytes(&self, session: &SessionId) -> Option<u64> {
        let inbox = |bytes: u64| self.store.keeps_received().then_some(bytes);
        let backfilled = self.sessions.loaded(session).map_or(&[][..], |loaded| &loaded.backfilled);
        let files: u64 = backfilled.iter().map(|file| file.identity.bytes).sum();
        let tailed = match self.driver.reloadable_bytes(session) {
            None if self.driver.follows(session) => return None,
            tailed => tailed.map(|tailed| tailed + files).or_else(|| (files > 0).then_some(files)),
        };
        let received = match self.sessions.inbox(session) {
            InboxInput::Stored | InboxInput::Unprocessed => 0,
            InboxInput::Replayed { bytes } => bytes?,
        };
        match (tailed, received) {
            (files, 0) => files,
            (files, bytes) => Some(files.unwrap_or_default() + inbox(bytes)?),
        }
    }

    /// Evicts a session unless work on it is pending, even if agents are running: it is loaded again at its deadline.
    /// Returns whether it was evicted.
    pub(super) fn evict(&mut self, session: &SessionId) -> bool {
        let is_busy = self.sessions.loaded(session).is_none_or(LoadedSession::is_busy);
        if is_busy
            || self.has_unread(session)
            || self.store.has_failed_commit()
            || self.reloadable_bytes(session).is_none()
        {
            return false;
        }
        let facts = self.facts_to_store(session);
        let Some(closed) = self.driver.evict(session, &mut self.router) else { return false };
        if let Some(facts) = facts {
            // A commit that fails is tried again.
            let _ = self.commit(Commit { facts: vec![facts], ..Commit::default() });
        }
        tracing::debug!(%session, "evicted");
        self.partitions.remove(&closed);
        let has_room = self.sessions.recent_count() < MAX_SNAPSHOT_SESSIONS;
        self.sessions.evict(session, has_room);
        true
    }
}
