//! Sessions at rest, and a hub at rest: what can be made again is not held in memory.
//!
//! A session that nothing comes of is shown as it is kept. When its files grow, or a program tells of it, its driver reads them
//! again from their beginning, as those of a session that was at rest when the hub began, and so is what was handed over of it
//! ([`super::inbox_replay`]). Only a session stays whose bytes cannot be told from another's.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use subscope_model::{SessionId, SourceId};

use super::EventLoop;
use crate::clock;

/// How often sessions at rest are looked for.
const LOOK: Duration = Duration::from_secs(5);

/// How many sessions are let go at once, and how long everything else has before the next.
const AT_ONCE: usize = 20;
const BREATH: Duration = Duration::from_millis(20);

/// How much longer than others a session stays by what it costs to read it again.
const STAYS_A_MEGABYTE: Duration = Duration::from_secs(10);

/// How long readers that come are shown a session that has changed: as long as a hub that begins follows its files.
const SHOWN: Duration = Duration::from_secs(15 * 60);

/// How many of them at most: each is read and sent to whoever comes.
const MOST_SHOWN: usize = 1_000;

/// What was let go of.
#[derive(Default)]
pub(super) struct Evictor {
    /// When sessions are looked for again.
    next: Option<Instant>,
    /// Sessions that were let go, with when they were last concluded, until they are no longer shown.
    sessions: BTreeMap<SessionId, Instant>,
    /// How many commits there were at the last look.
    commits: u64,
    /// How many when the store had last given back its memory.
    given_back: Option<u64>,
}

impl Evictor {
    /// How long until sessions are looked for again.
    pub(super) fn due_in(&self, now: Instant) -> Option<Duration> {
        self.next.map(|next| next.saturating_duration_since(now))
    }

    /// Whether a session was let go of late.
    pub(super) fn has(&self, session: &SessionId) -> bool {
        self.sessions.contains_key(session)
    }

    /// Sessions of which nothing is held, and that readers are shown.
    pub(super) fn sessions(&self) -> impl Iterator<Item = &SessionId> {
        self.sessions.keys()
    }

    /// One of them goes on.
    pub(super) fn goes_on(&mut self, session: &SessionId) {
        self.sessions.remove(session);
    }
}

impl EventLoop {
    /// Lets go of what is at rest, now and then.
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

    /// How many bytes are read and folded again when a session goes on; `None` where not all of it is to be had again.
    fn reloadable_bytes(&self, session: &SessionId) -> Option<u64> {
        let handed = |bytes: u64| self.store.keeps_received().then_some(bytes);
        match (self.driver.reloadable_bytes(session), self.inbox_replay.reloadable_bytes(session)?) {
            (Some(files), 0) => Some(files),
            (Some(files), bytes) => Some(files + handed(bytes)?),
            (None, 0) => None,
            (None, bytes) => handed(bytes).filter(|_| !self.driver.follows(session)),
        }
    }

    /// Lets go of a session that was concluded and written just now, though it may be at work: time does not change it until
    /// something comes of it.
    pub(super) fn set_aside(&mut self, session: &SessionId) {
        self.deadlines.remove(session);
        self.paces.remove(session);
        self.evict(session, clock::tick());
    }

    /// Lets go of a session, if nothing of it is awaited. Returns whether it did.
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
