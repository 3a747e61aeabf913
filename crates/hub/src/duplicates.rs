//! Key ownership: of the sessions that contain the same response, the one that began first counts it, then the smaller
//! id.
//!
//! Harnesses copy the front of a conversation into a new session. So a session that shares keys with another begins
//! with one of the other's keys, or contains its first key: it is enough to compare first keys with keys, and a session
//! without duplicates costs nothing more.

use std::{collections::BTreeSet, sync::Arc};

use hashbrown::HashMap;
use subscope_model::{Millis, SessionId, SessionKeys};
use subscope_session::{KeysCursor, OwnedElsewhere, SessionRouter};

/// Index of sessions by their first keys; each list is sorted.
#[derive(Default)]
pub(crate) struct FirstKeyIndex(HashMap<u64, Vec<SessionId>>);

impl FirstKeyIndex {
    /// Builds the index from the first keys in a store.
    pub(crate) fn of(all: Vec<(SessionId, Vec<u64>)>) -> Self {
        let mut first_keys = Self::default();
        for (session, own) in all {
            first_keys.add(&session, &own);
        }
        first_keys
    }

    /// Adds a session's first keys and returns those that are new for it.
    pub(crate) fn add(&mut self, session: &SessionId, first_keys: &[u64]) -> Vec<u64> {
        let mut is_new = |first_key: &u64| {
            let list = self.0.entry(*first_key).or_default();
            list.binary_search(session).map_err(|place| list.insert(place, session.clone())).is_err()
        };
        first_keys.iter().copied().filter(|first_key| is_new(first_key)).collect()
    }

    /// Whether some session begins with a key.
    pub(crate) fn has(&self, key: u64) -> bool {
        self.0.contains_key(&key)
    }

    /// Returns the sessions that begin with one of these keys, possibly with repeats.
    pub(crate) fn beginning_with(
        &self,
        keys: impl IntoIterator<Item = u64>,
    ) -> impl Iterator<Item = &SessionId> {
        keys.into_iter().filter_map(|key| self.0.get(&key)).flatten()
    }
}

/// Owner of each key: of the sessions that contain it, the one that began first. The cost grows with the number of
/// keys, not with the number of sessions per key.
#[derive(Default)]
pub(crate) struct Owners(HashMap<u64, Arc<KeyOwner>>);

/// When a session began, and its id: the smaller one owns a key.
type KeyOwner = (Millis, SessionId);

impl Owners {
    /// Records keys of a session. Keys recorded before need not be repeated, unless the session now begins earlier.
    /// Returns the sessions that lost keys.
    pub(crate) fn insert(&mut self, keys: &SessionKeys) -> BTreeSet<SessionId> {
        let (began, session) = keys.precedence();
        let new = Arc::new((began, session.clone()));
        let mut lost = BTreeSet::new();
        for key in &keys.keys {
            let owner = self.0.entry(*key).or_insert_with(|| Arc::clone(&new));
            if new < *owner && owner.1 != new.1 {
                lost.insert(owner.1.clone());
            }
            // Its own beginning may be known better now.
            if new < *owner || owner.1 == new.1 {
                *owner = Arc::clone(&new);
            }
        }
        lost
    }

    /// Owner of a key.
    pub(crate) fn owner_of(&self, key: u64) -> Option<&SessionId> {
        self.0.get(&key).map(|owner| &owner.1)
    }

    /// Keys of a session that another session owns.
    pub(crate) fn owned_elsewhere(&self, keys: &SessionKeys) -> OwnedElsewhere {
        let is_other = |key: &u64| self.owner_of(*key).is_some_and(|owner| *owner != keys.session);
        Arc::new(keys.keys.iter().copied().filter(is_other).collect())
    }
}

/// Tells the router, for each of its sessions, which keys an earlier session owns.
pub(crate) fn mark_duplicates(router: &mut SessionRouter) {
    let sessions: Vec<SessionId> = router.sessions().cloned().collect();
    if sessions.len() < 2 {
        return;
    }
    let all: Vec<SessionKeys> =
        sessions.iter().filter_map(|session| router.holdings(session, &mut KeysCursor::default())).collect();
    let mut owners = Owners::default();
    for keys in &all {
        owners.insert(keys);
    }
    for keys in &all {
        router.set_owned_elsewhere(&keys.session, owners.owned_elsewhere(keys));
    }
}
