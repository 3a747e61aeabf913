//! Duplicate detection for live sessions: a response that several sessions contain is counted by the session that began
//! first, from its first row on.

use std::collections::BTreeSet;

use hashbrown::{HashMap, HashSet};
use subscope_fold::{Fold, KeysCursor};
use subscope_model::{SessionId, SessionKeys};
use subscope_store::{KeySet, StoredSessionKeys};

use super::{EventLoop, hub_store::HubStore};
use crate::duplicates::{FirstKeyIndex, Owners};

/// Keys of live and stored sessions, and which session owns each shared key.
#[derive(Default)]
pub(super) struct DuplicateIndex {
    /// First keys of all stored and live sessions; read from the store when the first session is derived.
    first_keys: Option<FirstKeyIndex>,
    /// Owners of the keys of live sessions, and of stored sessions that share keys with them.
    owners: Owners,
    /// Keys that are not saved yet, in order.
    told: Vec<StoredSessionKeys>,
    /// Sessions that are in the hub's memory.
    live: HashMap<SessionId, Live>,
    /// Stored sessions whose keys are loaded into `owners`.
    kept: HashSet<SessionId>,
    /// Sessions that lost keys to a session that began earlier.
    reassigned: BTreeSet<SessionId>,
}

struct Live {
    told: KeysCursor,
    holdings: SessionKeys,
    /// Whether another session owns some of its keys.
    has_copies: bool,
}

impl DuplicateIndex {
    /// Takes the unsaved keys of these sessions, to be saved with their rows.
    pub(super) fn told_of(&mut self, sessions: &[SessionId]) -> Vec<StoredSessionKeys> {
        let written: HashSet<&SessionId> = sessions.iter().collect();
        let (own, others) =
            std::mem::take(&mut self.told).into_iter().partition(|held| written.contains(&held.keys.session));
        self.told = others;
        own
    }

    /// Records keys that the background index committed.
    pub(super) fn kept(&mut self, held: &[StoredSessionKeys]) {
        let Some(heads) = &mut self.first_keys else { return };
        for StoredSessionKeys { keys: holdings, .. } in held {
            heads.add(&holdings.session, &holdings.first_keys);
            let is_kin = |key: &u64| self.owners.of(*key).is_some();
            if self.kept.contains(&holdings.session) || holdings.first_keys.iter().any(is_kin) {
                self.kept.insert(holdings.session.clone());
                self.reassigned.extend(self.owners.hold(holdings));
            }
        }
    }

    /// Records that a session was evicted: its stored keys are used from now on.
    pub(super) fn evict(&mut self, session: &SessionId) {
        if self.live.remove(session).is_some() {
            self.kept.insert(session.clone());
        }
    }

    /// Forgets a live session that is about to be reloaded, and rebuilds the owners without its keys.
    pub(super) fn reload(&mut self, session: &SessionId, store: &HubStore) {
        if self.live.remove(session).is_some() {
            self.sort_out(store);
        }
    }

    /// Forgets all live sessions; they are compared again when they are derived.
    pub(super) fn reset(&mut self) {
        self.live.clear();
        self.kept.clear();
        self.reassigned.clear();
        self.owners = Owners::default();
    }

    /// Records the new keys of a live session. Returns the first keys whose other holders are not loaded yet.
    fn take(&mut self, session: &SessionId, fold: &Fold, store: &HubStore) -> Vec<u64> {
        let known = self.live.get(session);
        let mut until = known.map(|known| known.told).unwrap_or_default();
        let Some(fresh) = fold.holdings(session, &mut until) else { return Vec::new() };
        if self.first_keys.is_none() {
            let kept = store.read("the first keys of sessions", store.first_keys());
            self.first_keys = kept.map(FirstKeyIndex::of);
        }
        let is_whole = known.is_none();
        if fresh.keys.is_empty() && !is_whole {
            return Vec::new();
        }
        // If the store cannot be read, the session counts all its keys until it is derived again.
        let Some(heads) = &mut self.first_keys else { return Vec::new() };
        // The holders of a key that has an owner are already loaded.
        let is_unknown = |key: &u64| self.owners.of(*key).is_none();
        let unknown = fresh.keys.iter().copied().filter(is_unknown);
        let kin: BTreeSet<SessionId> = heads.beginning_with(unknown).cloned().collect();
        let new = heads.add(session, &fresh.first_keys);
        // A session that this hub sees for the first time may share its first keys with any stored session.
        let wanted = if is_whole { fresh.first_keys.clone() } else { new };
        let wanted = wanted.into_iter().filter(is_unknown).collect();
        let live = self.live.entry(session.clone()).or_insert_with(|| Live {
            told: until,
            holdings: SessionKeys { keys: Vec::new(), ..fresh.clone() },
            has_copies: false,
        });
        live.told = until;
        live.holdings.keys.extend(&fresh.keys);
        (live.holdings.began_ms, live.holdings.first_keys) = (fresh.began_ms, fresh.first_keys.clone());
        let before = self.owners.began(session);
        if before.is_some_and(|before| before < live.holdings.precedence().0) {
            self.sort_out(store);
        } else {
            let has_moved = before != Some(live.holdings.precedence().0);
            self.reassigned.extend(self.owners.hold(if has_moved { &live.holdings } else { &fresh }));
        }
        self.told.push(StoredSessionKeys { keys: fresh, replaces: is_whole });
        self.learn(kin, store);
        wanted
    }

    /// Rebuilds key ownership after a session's start time moved later.
    fn sort_out(&mut self, store: &HubStore) {
        self.owners = Owners::default();
        for live in self.live.values() {
            self.reassigned.extend(self.owners.hold(&live.holdings));
        }
        // Sessions that had duplicates may have none now.
        self.reassigned
            .extend(self.live.iter().filter(|(_, live)| live.has_copies).map(|(id, _)| id.clone()));
        let kept = std::mem::take(&mut self.kept);
        self.learn(kept, store);
    }

    /// Loads the keys of stored sessions. Live sessions are skipped: their keys are newer.
    fn learn(&mut self, sessions: impl IntoIterator<Item = SessionId>, store: &HubStore) {
        for session in sessions {
            if self.live.contains_key(&session) || !self.kept.insert(session.clone()) {
                continue;
            }
            match store.read("the keys of a session", store.session_keys(&session)) {
                Some(held) => self.reassigned.extend(held.iter().flat_map(|held| self.owners.hold(held))),
                // It is read again when the session is next involved.
                None => {
                    self.kept.remove(&session);
                }
            }
        }
    }

    /// Loads the sessions that contain these first keys, and those that begin with them.
    fn learn_holders(&mut self, wanted: &KeySet, store: &HubStore) {
        let holders = store
            .read("the sessions_with_keys of keys", store.sessions_with_keys(wanted))
            .unwrap_or_default();
        let Some(heads) = &self.first_keys else { return };
        let held: BTreeSet<u64> = holders.iter().map(|(_, head)| *head).collect();
        let mut kin: BTreeSet<SessionId> = heads.beginning_with(held).cloned().collect();
        kin.extend(holders.into_iter().map(|(holder, _)| holder));
        self.learn(kin, store);
    }
}

impl EventLoop {
    /// Tells the fold which keys of these sessions other sessions own. Returns the sessions, plus live sessions that
    /// lost keys and must be derived as well.
    pub(super) fn settle_copies(&mut self, sessions: &[SessionId]) -> Vec<SessionId> {
        let Self { duplicates: copies, fold, store, driver, .. } = self;
        let mut wanted = KeySet::new();
        for session in sessions {
            wanted.extend(copies.take(session, fold, store));
        }
        if !wanted.is_empty() {
            copies.learn_holders(&wanted, store);
        }
        let DuplicateIndex { owners, live, reassigned, .. } = copies;
        let reassigned = std::mem::take(reassigned);
        // Evicted sessions have to be derived again from their files.
        let released = reassigned.iter().filter(|session| !live.contains_key(*session));
        let back: Vec<SessionId> = released.filter(|it| driver.reload_evicted(it, fold)).cloned().collect();
        let own: HashSet<&SessionId> = sessions.iter().collect();
        let more = reassigned.iter().filter(|session| live.contains_key(*session) && !own.contains(session));
        let all: Vec<SessionId> = sessions.iter().chain(more).cloned().collect();
        for session in &all {
            let Some(live) = live.get_mut(session) else { continue };
            let elsewhere = owners.elsewhere(&live.holdings);
            if live.has_copies || !elsewhere.is_empty() {
                live.has_copies = !elsewhere.is_empty();
                fold.set_owned_elsewhere(session, elsewhere);
            }
        }
        for session in back {
            self.look_up(&session);
            self.reloading.insert(session.clone());
            self.dirty.insert(session);
        }
        all
    }
}
