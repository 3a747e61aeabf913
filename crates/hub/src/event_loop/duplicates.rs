//! Duplicate detection for live sessions: a response that several sessions contain is counted by the session that began
//! first, from its first row on.

use std::collections::BTreeSet;

use hashbrown::HashSet;
use subscope_model::{Millis, SessionId, SessionKeys};
use subscope_session::{KeysCursor, SessionRouter};
use subscope_store::{KeySet, StoredSessionKeys};

use super::{hub_store::HubStore, session_slot::LoadedSession, session_table::SessionTable};
use crate::duplicates::{FirstKeyIndex, Owners};

/// Keys of live and stored sessions, and which session owns each shared key.
#[derive(Default)]
pub(super) struct DuplicateIndex {
    /// First keys of all stored and live sessions; read from the store when the first session is derived.
    first_keys: Option<FirstKeyIndex>,
    /// Owners of the keys of live sessions, and of stored sessions that share keys with them.
    owners: Owners,
    /// Keys that are not saved yet, in order.
    unsaved: Vec<StoredSessionKeys>,
    /// Sessions that lost keys to a session that began earlier; possibly with repeats.
    reassigned: Vec<SessionId>,
}

/// Keys of a session in memory.
pub(super) struct LiveKeys {
    cursor: KeysCursor,
    keys: SessionKeys,
    /// Whether another session owns some of its keys.
    has_duplicates: bool,
}

impl LiveKeys {
    /// Time at which the session began.
    pub(super) fn began_ms(&self) -> Millis {
        self.keys.precedence().0
    }
}

impl DuplicateIndex {
    /// Takes the unsaved keys of these sessions, to be saved with their rows.
    pub(super) fn take_unsaved(&mut self, sessions: &[SessionId]) -> Vec<StoredSessionKeys> {
        let written: HashSet<&SessionId> = sessions.iter().collect();
        let (own, others) = std::mem::take(&mut self.unsaved)
            .into_iter()
            .partition(|entry| written.contains(&entry.keys.session));
        self.unsaved = others;
        own
    }

    /// Records keys that the background index committed.
    pub(super) fn record_committed(&mut self, committed: &[StoredSessionKeys], sessions: &mut SessionTable) {
        let Some(first_keys) = &mut self.first_keys else { return };
        for StoredSessionKeys { keys, .. } in committed {
            first_keys.add(&keys.session, &keys.first_keys);
            let is_shared = |key: &u64| self.owners.owner_of(*key).is_some();
            if sessions.stored_keys_since(&keys.session).is_some() || keys.first_keys.iter().any(is_shared) {
                sessions.set_stored_keys(&keys.session, keys.precedence().0);
                self.reassigned.extend(self.owners.insert(keys));
            }
        }
    }

    /// Forgets the keys of all sessions in memory; they are compared again when they are derived.
    pub(super) fn reset(&mut self, sessions: &mut SessionTable) {
        sessions.all_mut().for_each(|(_, loaded)| loaded.keys = None);
        sessions.take_stored_keys();
        self.reassigned.clear();
        self.owners = Owners::default();
    }

    /// Records the new keys of a live session. Returns the first keys whose other holders are not loaded yet.
    fn update(
        &mut self,
        session: &SessionId,
        sessions: &mut SessionTable,
        router: &SessionRouter,
        store: &HubStore,
    ) -> Vec<u64> {
        let known = keys_of(sessions, session);
        let mut until = known.map(|known| known.cursor).unwrap_or_default();
        let Some(new_keys) = router.holdings(session, &mut until) else { return Vec::new() };
        if self.first_keys.is_none() {
            let kept = store.read("the first keys of sessions", store.first_keys());
            self.first_keys = kept.map(FirstKeyIndex::of);
        }
        let is_first = known.is_none();
        if new_keys.keys.is_empty() && !is_first {
            return Vec::new();
        }
        // If the store cannot be read, the session counts all its keys until it is derived again.
        let Some(first_keys) = &mut self.first_keys else { return Vec::new() };
        // The holders of a key that has an owner are already loaded.
        let is_unknown = |key: &u64| self.owners.owner_of(*key).is_none();
        let unknown = new_keys.keys.iter().copied().filter(is_unknown);
        let related: BTreeSet<SessionId> = first_keys.beginning_with(unknown).cloned().collect();
        let added = first_keys.add(session, &new_keys.first_keys);
        // A session that this hub sees for the first time may share its first keys with any stored session.
        let unresolved = if is_first { new_keys.first_keys.clone() } else { added };
        let unresolved = unresolved.into_iter().filter(is_unknown).collect();
        let stored = sessions.stored_keys_since(session);
        let before = known.map(LiveKeys::began_ms).or(stored);
        let Some(loaded) = sessions.loaded_mut(session) else { return Vec::new() };
        let live = loaded.keys.get_or_insert_with(|| LiveKeys {
            cursor: until,
            keys: SessionKeys { keys: Vec::new(), ..new_keys.clone() },
            has_duplicates: false,
        });
        live.cursor = until;
        live.keys.keys.extend(&new_keys.keys);
        (live.keys.began_ms, live.keys.first_keys) = (new_keys.began_ms, new_keys.first_keys.clone());
        if before.is_some_and(|before| before < live.began_ms()) {
            self.rebuild_owners(sessions, store);
        } else {
            let has_moved = before != Some(live.began_ms());
            self.reassigned.extend(self.owners.insert(if has_moved { &live.keys } else { &new_keys }));
        }
        self.unsaved.push(StoredSessionKeys { keys: new_keys, replaces: is_first });
        self.load_keys(related, sessions, store);
        unresolved
    }

    /// Rebuilds key ownership after a session's start time moved later.
    fn rebuild_owners(&mut self, sessions: &mut SessionTable, store: &HubStore) {
        self.owners = Owners::default();
        for (session, loaded) in sessions.all() {
            let Some(live) = &loaded.keys else { continue };
            self.reassigned.extend(self.owners.insert(&live.keys));
            // Sessions that had duplicates may have none now.
            self.reassigned.extend(live.has_duplicates.then(|| session.clone()));
        }
        let stored = sessions.take_stored_keys();
        self.load_keys(stored, sessions, store);
    }

    /// Loads the keys of stored sessions. Live sessions are skipped: their keys are newer.
    fn load_keys(
        &mut self,
        stored: impl IntoIterator<Item = SessionId>,
        sessions: &mut SessionTable,
        store: &HubStore,
    ) {
        for session in stored {
            if keys_of(sessions, &session).is_some() || sessions.stored_keys_since(&session).is_some() {
                continue;
            }
            // If the store cannot be read, they are read when the session is next involved.
            let keys = store.read("the keys of a session", store.session_keys(&session)).flatten();
            if let Some(keys) = keys {
                sessions.set_stored_keys(&session, keys.precedence().0);
                self.reassigned.extend(self.owners.insert(&keys));
            }
        }
    }

    /// Loads the sessions that contain these first keys, and those that begin with them.
    fn load_holders(&mut self, unresolved: &KeySet, sessions: &mut SessionTable, store: &HubStore) {
        let holders = store
            .read("the sessions that contain keys", store.sessions_with_keys(unresolved))
            .unwrap_or_default();
        let Some(first_keys) = &self.first_keys else { return };
        let keys: BTreeSet<u64> = holders.iter().map(|(_, first_key)| *first_key).collect();
        let mut related: BTreeSet<SessionId> = first_keys.beginning_with(keys).cloned().collect();
        related.extend(holders.into_iter().map(|(holder, _)| holder));
        self.load_keys(related, sessions, store);
    }
}

/// Keys of a session in memory.
fn keys_of<'t>(sessions: &'t SessionTable, session: &SessionId) -> Option<&'t LiveKeys> {
    sessions.loaded(session)?.keys.as_ref()
}

/// Sessions whose keys were compared.
pub(super) struct ComparedSessions {
    /// Sessions to derive: the given ones, and others in memory that lost keys.
    pub(super) loaded: Vec<SessionId>,
    /// Evicted sessions that lost keys: they have to be derived again from their files.
    pub(super) evicted: Vec<SessionId>,
}

impl DuplicateIndex {
    /// Tells the router which keys of these sessions other sessions own.
    pub(super) fn resolve(
        &mut self,
        sessions: &[SessionId],
        table: &mut SessionTable,
        router: &mut SessionRouter,
        store: &HubStore,
    ) -> ComparedSessions {
        let mut unresolved = KeySet::new();
        for session in sessions {
            unresolved.extend(self.update(session, table, router, store));
        }
        if !unresolved.is_empty() {
            self.load_holders(&unresolved, table, store);
        }
        let reassigned: BTreeSet<SessionId> = std::mem::take(&mut self.reassigned).into_iter().collect();
        let (others, evicted): (Vec<SessionId>, Vec<SessionId>) =
            reassigned.into_iter().partition(|session| keys_of(table, session).is_some());
        let own: HashSet<&SessionId> = sessions.iter().collect();
        let others = others.into_iter().filter(|session| !own.contains(session));
        let loaded: Vec<SessionId> = sessions.iter().cloned().chain(others).collect();
        for session in &loaded {
            let Some(LoadedSession { keys: Some(live), .. }) = table.loaded_mut(session) else { continue };
            let owned_elsewhere = self.owners.owned_elsewhere(&live.keys);
            if live.has_duplicates || !owned_elsewhere.is_empty() {
                live.has_duplicates = !owned_elsewhere.is_empty();
                router.set_owned_elsewhere(session, owned_elsewhere);
            }
        }
        ComparedSessions { loaded, evicted }
    }
}
