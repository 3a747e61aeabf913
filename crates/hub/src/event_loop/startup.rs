//! Derives and evicts sessions in portions while existing files are read at start-up: thousands of sessions may have
//! changed recently, and all of them together would not fit into memory.

use std::collections::BTreeSet;

use subscope_model::SessionId;

use super::EventLoop;

/// Most sessions, and approximate bytes, derived together. Each portion is compared with all stored sessions
/// ([`super::duplicates`]), so fewer portions cost less.
const SESSIONS: usize = 16;
const BYTES: u64 = 2_000_000;

/// Approximate rows (agents and calls) of idle sessions kept in memory while other files are read, and the number of
/// sessions kept regardless of their size: about as many as a user works with.
const ROWS: usize = 1_000;
const AT_HAND: usize = 8;

/// Sessions loaded by the start-up scan.
#[derive(Default)]
pub(super) struct Startup {
    /// Loaded completely, not derived yet.
    whole: Vec<SessionId>,
    /// Bytes of their files.
    bytes: u64,
    /// Derived, to be evicted as soon as they are idle. A session that changes is removed.
    evict_after_startup: BTreeSet<SessionId>,
}

impl Startup {
    /// True if the session was loaded only by the start-up scan and may be evicted at once.
    pub(super) fn evicts_after_startup(&self, session: &SessionId) -> bool {
        self.evict_after_startup.contains(session)
    }

    /// Removes a session that changed or was evicted.
    pub(super) fn goes_on(&mut self, session: &SessionId) {
        self.evict_after_startup.remove(session);
    }
}

impl EventLoop {
    /// Takes sessions whose initial content is read, and derives them once a portion is complete.
    pub(super) fn derive_loaded(&mut self, whole: Vec<SessionId>) {
        for session in whole.into_iter().filter(|session| self.loading.contains(session)) {
            self.begin.bytes += self.driver.reloadable_bytes(&session).unwrap_or_default();
            self.begin.whole.push(session);
        }
        if self.begin.whole.len() < SESSIONS && self.begin.bytes < BYTES {
            return;
        }
        self.begin.bytes = 0;
        for session in std::mem::take(&mut self.begin.whole) {
            self.loading.remove(&session);
            self.dirty.insert(session);
        }
        self.derive_dirty(false);
        self.make_room();
    }

    /// Saves and evicts idle sessions if there are many: reloading one of them costs less than holding all. Running
    /// sessions follow when they become idle ([`super::eviction`]).
    fn make_room(&mut self) {
        let is_room = self.rows.settled_size() <= ROWS || self.rows.sessions().count() <= AT_HAND;
        if is_room || self.write(&self.rows.unwritten()).is_err() {
            return;
        }
        self.begin.evict_after_startup.extend(self.rows.sessions().cloned());
        let settled: Vec<_> =
            self.rows.settled().map(|(session, concluded)| (session.clone(), concluded)).collect();
        for (session, concluded) in settled {
            self.evict(&session, concluded);
        }
    }
}
