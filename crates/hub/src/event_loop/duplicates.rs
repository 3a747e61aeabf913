//! What live sessions hold that others hold as well: it counts with the one that began first, from the first row on.

use std::collections::BTreeSet;

use hashbrown::{HashMap, HashSet};
use subscope_fold::{Fold, KeysCursor};
use subscope_model::{SessionId, SessionKeys};
use subscope_store::{KeySet, StoredSessionKeys};

use super::{EventLoop, hub_store::HubStore};
use crate::duplicates::{FirstKeyIndex, Owners};

/// What is known of who holds what.
#[derive(Default)]
pub(super) struct DuplicateIndex {
    /// Of all that is kept and all that is live; read from what is kept when the first session is concluded.
    first_keys: Option<FirstKeyIndex>,
    /// Of what is live, and of what is kept and shares something with it.
    owners: Owners,
    /// What is not kept yet, in order.
    told: Vec<StoredSessionKeys>,
    /// Sessions of this hub's fold.
    live: HashMap<SessionId, Live>,
    /// Kept sessions whose keys have owners.
    kept: HashSet<SessionId>,
    /// Sessions that lost something to one that began before them.
    reassigned: BTreeSet<SessionId>,
}

struct Live {
    told: KeysCursor,
    holdings: SessionKeys,
    /// Whether some of it is another's.
    has_copies: bool,
}

impl DuplicateIndex {
    /// Takes what is to be kept with the rows of these sessions.
    pub(super) fn told_of(&mut self, sessions: &[SessionId]) -> Vec<StoredSessionKeys> {
        let written: HashSet<&SessionId> = sessions.iter().collect();
        let (own, others) =
            std::mem::take(&mut self.told).into_iter().partition(|held| written.contains(&held.keys.session));
        self.told = others;
        own
    }

    /// Learns what was kept beside the hub.
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

    /// A live session is known by what is kept of it from now on.
    pub(super) fn evict(&mut self, session: &SessionId) {
        if self.live.remove(session).is_some() {
            self.kept.insert(session.clone());
        }
    }

    /// Forgets a live session, which is read anew, and whose keys were its.
    pub(super) fn reload(&mut self, session: &SessionId, store: &HubStore) {
        if self.live.remove(session).is_some() {
            self.sort_out(store);
        }
    }

    /// Forgets live sessions: they are read anew.
    pub(super) fn reset(&mut self) {
        self.live.clear();
        self.kept.clear();
        self.reassigned.clear();
        self.owners = Owners::default();
    }

    /// Takes what is new of a live session. Returns the heads that others may hold of whom nothing is known.
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
        // Where they cannot be read, the session counts all that it holds until it is derived again.
        let Some(heads) = &mut self.first_keys else { return Vec::new() };
        // Whoever has a key that is owned was learnt with its owner.
        let is_unknown = |key: &u64| self.owners.of(*key).is_none();
        let unknown = fresh.keys.iter().copied().filter(is_unknown);
        let kin: BTreeSet<SessionId> = heads.beginning_with(unknown).cloned().collect();
        let new = heads.add(session, &fresh.first_keys);
        // Who was here before this hub began has kin that only a look at everything finds.
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

    /// Says anew whose everything is: a session began later than was known.
    fn sort_out(&mut self, store: &HubStore) {
        self.owners = Owners::default();
        for live in self.live.values() {
            self.reassigned.extend(self.owners.hold(&live.holdings));
        }
        // Whoever had copies may have none now.
        self.reassigned
            .extend(self.live.iter().filter(|(_, live)| live.has_copies).map(|(id, _)| id.clone()));
        let kept = std::mem::take(&mut self.kept);
        self.learn(kept, store);
    }

    /// Learns what kept sessions hold. What is live is known better.
    fn learn(&mut self, sessions: impl IntoIterator<Item = SessionId>, store: &HubStore) {
        for session in sessions {
            if self.live.contains_key(&session) || !self.kept.insert(session.clone()) {
                continue;
            }
            match store.read("the keys of a session", store.session_keys(&session)) {
                Some(held) => self.reassigned.extend(held.iter().flat_map(|held| self.owners.hold(held))),
                // It is asked again when the session comes up again.
                None => {
                    self.kept.remove(&session);
                }
            }
        }
    }

    /// Learns who holds these heads, and who begins with them.
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
    /// Says to sessions that are to be concluded what is held elsewhere. Returns them with those that have to be concluded as
    /// well, because these hold what they counted.
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
        // What was let go of has to be made anew from its files.
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
