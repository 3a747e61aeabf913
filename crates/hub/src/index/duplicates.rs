//! After the first pass: key ownership over all stored sessions. Sessions whose duplicates were not completely known
//! when they were derived are derived again. Until then they count as not compared, so an interrupted index continues
//! here.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use hashbrown::HashSet;
use subscope_model::{SessionId, SessionKeys};
use subscope_session::OwnedElsewhere;
use subscope_store::{Commit, DuplicateScan, History, KeySet, SharedHistory, SqliteStore, StoreError};

use crate::duplicates::{FirstKeyIndex, Owners};

/// Duplicates of the stored sessions as they are now.
pub(super) struct DuplicateComparison {
    /// Sessions to compare, and those that share keys with them.
    affected: Vec<SessionId>,
    /// Their shared history.
    shared_history: Vec<SharedHistory>,
    /// Sessions whose rows were derived with outdated ownership, with the keys that other sessions own.
    pub(super) outdated: BTreeMap<SessionId, OwnedElsewhere>,
}

impl DuplicateComparison {
    /// Compares the sessions that are not compared yet; `None` if there are none.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(super) fn compare(store: &SqliteStore) -> Result<Option<Self>, StoreError> {
        // Thousands of queries: without it each would lock the store.
        let _snapshot = store.snapshot()?;
        let uncompared = store.uncompared_sessions()?;
        if uncompared.is_empty() {
            return Ok(None);
        }
        let known = store.shared_history()?;
        let affected = affected_sessions(store, &uncompared, &known)?;
        let (before, mut reader) =
            (with_later(&known, &affected), KeysReader { store, all: BTreeMap::new() });
        let mut owners = Owners::default();
        for session in affected.iter().chain(before.iter().map(|shared_history| &shared_history.earlier)) {
            if let Some(keys) = reader.read(session)? {
                owners.insert(keys);
            }
        }
        let mut shared_history = BTreeSet::new();
        for session in &affected {
            shared_history
                .extend(reader.read(session)?.into_iter().flat_map(|keys| shared_history_of(keys, &owners)));
        }
        let mut outdated = BTreeMap::new();
        for SharedHistory { later, .. } in shared_history.symmetric_difference(&before) {
            if let Some(keys) = reader.read(later)? {
                outdated.entry(later.clone()).or_insert_with(|| owners.owned_elsewhere(keys));
            }
        }
        Ok(Some(Self {
            affected: affected.into_iter().collect(),
            shared_history: shared_history.into_iter().collect(),
            outdated,
        }))
    }

    /// Commit that marks the sessions as compared and replaces their shared history.
    pub(super) fn finish(self) -> Commit {
        Commit {
            duplicate_scan: Some(DuplicateScan { sessions: self.affected, shared: self.shared_history }),
            ..Commit::default()
        }
    }
}

/// Returns the sessions to compare, and all that shared keys with them before or share keys now.
fn affected_sessions(
    store: &SqliteStore,
    uncompared: &[(SessionId, bool)],
    known: &[SharedHistory],
) -> Result<BTreeSet<SessionId>, StoreError> {
    let is_uncompared: HashSet<&SessionId> = uncompared.iter().map(|(session, _)| session).collect();
    let mut affected: BTreeSet<SessionId> = is_uncompared.iter().copied().cloned().collect();
    let shared_history = known.iter().filter(|shared_history| {
        is_uncompared.contains(&shared_history.later) || is_uncompared.contains(&shared_history.earlier)
    });
    affected.extend(
        shared_history.flat_map(|shared_history| [&shared_history.later, &shared_history.earlier]).cloned(),
    );
    let first_keys = FirstKeyIndex::of(store.first_keys()?);
    let (mut unresolved, mut begun_with) = (KeySet::new(), KeySet::new());
    for (session, has_new_first_keys) in uncompared {
        let Some(keys) = store.session_keys(session)? else { continue };
        begun_with.extend(keys.keys.into_iter().filter(|key| first_keys.has(*key)));
        unresolved.extend(keys.first_keys.into_iter().filter(|_| *has_new_first_keys));
    }
    if !unresolved.is_empty() {
        for (holder, first_key) in store.sessions_with_keys(&unresolved)? {
            begun_with.insert(first_key);
            affected.insert(holder);
        }
    }
    affected.extend(first_keys.beginning_with(begun_with).cloned());
    Ok(affected)
}

/// Returns the shared history whose later session is among `sessions`.
fn with_later(shared_history: &[SharedHistory], sessions: &BTreeSet<SessionId>) -> BTreeSet<SharedHistory> {
    shared_history.iter().filter(|shared_history| sessions.contains(&shared_history.later)).cloned().collect()
}

/// Returns the shared history of a session: the earlier sessions that own some of its keys, with the number of keys.
fn shared_history_of(keys: &SessionKeys, owners: &Owners) -> Vec<SharedHistory> {
    let mut shared: BTreeMap<&SessionId, u64> = BTreeMap::new();
    for owner in
        keys.keys.iter().filter_map(|key| owners.owner_of(*key)).filter(|owner| **owner != keys.session)
    {
        *shared.entry(owner).or_default() += 1;
    }
    let shared_history = shared.into_iter();
    shared_history
        .map(|(earlier, shared)| SharedHistory {
            later: keys.session.clone(),
            earlier: earlier.clone(),
            shared,
        })
        .collect()
}

/// Returns, for each session with duplicates, the keys of the sessions that own them, as stored.
pub(super) fn stored_owned_elsewhere(
    store: &SqliteStore,
) -> Result<BTreeMap<SessionId, OwnedElsewhere>, StoreError> {
    let mut by_later: BTreeMap<SessionId, Vec<SessionId>> = BTreeMap::new();
    for SharedHistory { later, earlier, .. } in store.shared_history()? {
        by_later.entry(later).or_default().push(earlier);
    }
    let mut reader = KeysReader { store, all: BTreeMap::new() };
    by_later.into_iter().map(|(later, owners)| Ok((later, reader.union(&owners)?))).collect()
}

/// Returns the keys of the sessions that own some of a session's keys, as stored.
///
/// # Errors
/// If the store cannot be read.
pub fn elsewhere(store: &SqliteStore, session: &SessionId) -> Result<OwnedElsewhere, StoreError> {
    let shared_history =
        store.shared_history()?.into_iter().filter(|shared_history| shared_history.later == *session);
    let owners: Vec<SessionId> = shared_history.map(|shared_history| shared_history.earlier).collect();
    KeysReader { store, all: BTreeMap::new() }.union(&owners)
}

/// Keys of sessions, each read once.
struct KeysReader<'s> {
    store: &'s SqliteStore,
    all: BTreeMap<SessionId, Option<SessionKeys>>,
}

impl KeysReader<'_> {
    fn read(&mut self, session: &SessionId) -> Result<Option<&SessionKeys>, StoreError> {
        if !self.all.contains_key(session) {
            self.all.insert(session.clone(), self.store.session_keys(session)?);
        }
        Ok(self.all.get(session).and_then(Option::as_ref))
    }

    /// Returns the keys of all these sessions together.
    fn union(&mut self, sessions: &[SessionId]) -> Result<OwnedElsewhere, StoreError> {
        let mut keys = HashSet::new();
        for session in sessions {
            keys.extend(self.read(session)?.into_iter().flat_map(|keys| keys.keys.iter().copied()));
        }
        Ok(Arc::new(keys))
    }
}
