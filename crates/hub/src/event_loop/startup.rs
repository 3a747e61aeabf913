//! Derives and evicts sessions in portions while existing files are read at start-up: thousands of sessions may have
//! changed recently, and all of them together would not fit into memory.

use std::collections::BTreeSet;

use subscope_model::SessionId;

use super::EventLoop;

/// Most sessions, and approximate bytes, derived together. Each portion is compared with all stored sessions
/// ([`super::duplicates`]), so fewer portions cost less.
const PORTION_SESSIONS: usize = 16;
const PORTION_BYTES: u64 = 2_000_000;

/// Approximate rows (agents and calls) of idle sessions kept in memory while other files are read, and the number of
/// sessions kept regardless of their size: about as many as a user works with.
const MAX_IDLE_ROWS: usize = 1_000;
const MIN_SESSIONS_IN_MEMORY: usize = 8;

/// Sessions loaded by the start-up scan.
#[derive(Default)]
pub(super) struct Startup {
    /// Loaded completely, not derived yet.
    loaded: Vec<SessionId>,
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
    pub(super) fn remove(&mut self, session: &SessionId) {
        self.evict_after_startup.remove(session);
    }
}

impl EventLoop {
    /// Takes sessions whose initial content is read, and derives them once a portion is complete.
    pub(super) fn derive_loaded(&mut self, loaded: Vec<SessionId>) {
        for session in loaded.into_iter().filter(|session| self.loading.contains(session)) {
            self.startup.bytes += self.driver.reloadable_bytes(&session).unwrap_or_default();
            self.startup.loaded.push(session);
        }
        if self.startup.loaded.len() < PORTION_SESSIONS && self.startup.bytes < PORTION_BYTES {
            return;
        }
        self.startup.bytes = 0;
        for session in std::mem::take(&mut self.startup.loaded) {
            self.loading.remove(&session);
            self.dirty.insert(session);
        }
        self.derive_dirty(false);
        self.evict_surplus();
    }

    /// Saves and evicts idle sessions if there are many: reloading one of them costs less than holding all. Running
    /// sessions follow when they become idle ([`super::eviction`]).
    fn evict_surplus(&mut self) {
        let has_room =
            self.rows.idle_size() <= MAX_IDLE_ROWS || self.rows.sessions().count() <= MIN_SESSIONS_IN_MEMORY;
        if has_room || self.save_trees(&self.rows.unsaved()).is_err() {
            return;
        }
        self.startup.evict_after_startup.extend(self.rows.sessions().cloned());
        let idle: Vec<_> =
            self.rows.idle_sessions().map(|(session, derived_at)| (session.clone(), derived_at)).collect();
        for (session, derived_at) in idle {
            self.evict(&session, derived_at);
        }
    }
}
