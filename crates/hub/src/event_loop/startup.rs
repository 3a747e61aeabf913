//! What stands there when the hub begins, in portions: thousands of sessions may just have been written, and what is read of
//! them all at once would be held all at once.

use std::collections::BTreeSet;

use subscope_model::SessionId;

use super::EventLoop;

/// How many sessions are concluded together at most, and of how many bytes about. Each portion is compared with all that is
/// kept ([`super::duplicates`]), so that fewer of them cost less.
const SESSIONS: usize = 16;
const BYTES: u64 = 2_000_000;

/// How many rows (agents and calls, about) of settled sessions are held while others are still read, and of how many sessions
/// whatever they are: about as many as somebody has at hand.
const ROWS: usize = 1_000;
const AT_HAND: usize = 8;

/// Sessions that stood there.
#[derive(Default)]
pub(super) struct Startup {
    /// Read as far as they stood there, and not concluded.
    whole: Vec<SessionId>,
    /// How long their files are.
    bytes: u64,
    /// Concluded, and too many to be held. One that goes on is none of them.
    evict_after_startup: BTreeSet<SessionId>,
}

impl Startup {
    /// Whether a session is one of too many, and nothing has come of it since it was read.
    pub(super) fn evicts_after_startup(&self, session: &SessionId) -> bool {
        self.evict_after_startup.contains(session)
    }

    /// Something came of a session, or it was let go.
    pub(super) fn goes_on(&mut self, session: &SessionId) {
        self.evict_after_startup.remove(session);
    }
}

impl EventLoop {
    /// Takes sessions that are read as far as they stood there, and concludes them where there are many.
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

    /// Lets go of what is settled, if that is much: that one of them goes on costs less than to hold them all. What is about to
    /// settle follows ([`super::eviction`]).
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
