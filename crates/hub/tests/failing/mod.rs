//! A store that fails on demand: its commits, or its reads.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use subscope_hub::{
    AgentLabel, Commit, History, Ledger, ListQuery, ReceivedInput, SessionQueries, Store, StoreError,
};
use subscope_model::{
    AgentId, AgentName, Event, Looks, Millis, SessionId, SessionKeys, SessionRow, Stats, StatsQuery, Text,
    Tree, Zone,
};
use subscope_store::{DayCost, KeySet, OpenReader, RemotePosition, StoredFacts};

/// A store that fails on demand.
pub(crate) struct Failing<S> {
    inner: S,
    pub(crate) fails_commits: Arc<AtomicBool>,
    /// Whether all reads fail, except [`Ledger::has_received`].
    pub(crate) fails_reads: Arc<AtomicBool>,
    /// Whether reading fails what a session is loaded from: its files, its input and its facts.
    pub(crate) fails_loads: Arc<AtomicBool>,
    /// While it is locked, connections for reading beside this one hang when they are opened.
    pub(crate) held_readers: Arc<Mutex<()>>,
    /// Number of attempted commits.
    pub(crate) commits: Arc<AtomicUsize>,
}

impl<S> Failing<S> {
    /// Wraps a store; nothing fails yet.
    pub(crate) fn new(inner: S) -> Self {
        Self {
            inner,
            fails_commits: Arc::default(),
            fails_reads: Arc::default(),
            fails_loads: Arc::default(),
            held_readers: Arc::default(),
            commits: Arc::default(),
        }
    }

    fn read<T>(&self, read: impl FnOnce(&S) -> Result<T, StoreError>) -> Result<T, StoreError> {
        match self.fails_reads.load(Ordering::SeqCst) {
            true => Err(StoreError::Storage("the disk is gone".into())),
            false => read(&self.inner),
        }
    }

    fn load<T>(&self, read: impl FnOnce(&S) -> Result<T, StoreError>) -> Result<T, StoreError> {
        match self.fails_loads.load(Ordering::SeqCst) {
            true => Err(StoreError::Storage("the disk is gone".into())),
            false => self.read(read),
        }
    }
}

impl<S: Store> Ledger for Failing<S> {
    fn commit(&mut self, commit: &Commit) -> Result<Vec<Event>, StoreError> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        if self.fails_commits.load(Ordering::SeqCst) {
            Err(StoreError::Full)
        } else {
            self.inner.commit(commit)
        }
    }

    fn dismiss(&mut self, session: &SessionId, facts: &[Text], at_ms: Millis) -> Result<(), StoreError> {
        match self.fails_commits.load(Ordering::SeqCst) {
            true => Err(StoreError::Full),
            false => self.inner.dismiss(session, facts, at_ms),
        }
    }

    fn mark_seen(&mut self, until_ms: Millis) -> Result<(), StoreError> {
        match self.fails_commits.load(Ordering::SeqCst) {
            true => Err(StoreError::Full),
            false => self.inner.mark_seen(until_ms),
        }
    }

    fn reserve_revs(&mut self, count: u64) -> Result<u64, StoreError> {
        self.inner.reserve_revs(count)
    }

    fn has_received(&self, source: &str, key: &str) -> Result<bool, StoreError> {
        self.inner.has_received(source, key)
    }

    fn read_received(
        &self,
        session: &SessionId,
        after: u64,
        bytes: u64,
        each: &mut dyn FnMut(ReceivedInput),
    ) -> Result<Option<u64>, StoreError> {
        self.load(|store| store.read_received(session, after, bytes, each))
    }

    fn received_bytes(&self, session: &SessionId) -> Result<u64, StoreError> {
        self.read(|store| store.received_bytes(session))
    }

    fn sessions_with_unprocessed_input(&self) -> Result<Vec<SessionId>, StoreError> {
        self.read(|store| store.sessions_with_unprocessed_input())
    }
}

impl<S: Store> SessionQueries for Failing<S> {
    fn list(&self, query: &ListQuery) -> Result<Vec<SessionRow>, StoreError> {
        self.read(|store| store.list(query))
    }

    fn tree(&self, session: &SessionId) -> Result<Option<Tree>, StoreError> {
        self.read(|store| store.tree(session))
    }

    fn sessions_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<SessionId>, StoreError> {
        self.read(|store| store.sessions_with_prefix(prefix, limit))
    }

    fn agents_with_prefix(
        &self,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<(SessionId, AgentId)>, StoreError> {
        self.read(|store| store.agents_with_prefix(prefix, limit))
    }

    fn agents_with_words(&self, words: &str, limit: usize) -> Result<Vec<AgentName>, StoreError> {
        self.read(|store| store.agents_with_words(words, limit))
    }

    fn session_row(&self, session: &SessionId) -> Result<Option<SessionRow>, StoreError> {
        self.read(|store| store.session_row(session))
    }

    fn stats(&self, query: &StatsQuery) -> Result<Stats, StoreError> {
        self.read(|store| store.stats(query))
    }
}

impl<S: Store> History for Failing<S> {
    fn reader(&self) -> OpenReader {
        let (open, fails_reads) = (self.inner.reader(), Arc::clone(&self.fails_reads));
        let held_readers = Arc::clone(&self.held_readers);
        Arc::new(move || {
            // Waits until the test lets it go.
            drop(held_readers.lock());
            match fails_reads.load(Ordering::SeqCst) {
                true => Err(StoreError::Storage("the disk is gone".into())),
                false => open(),
            }
        })
    }

    fn stats_with(&self, query: &StatsQuery, unsaved: &[&Tree]) -> Result<Stats, StoreError> {
        self.read(|store| store.stats_with(query, unsaved))
    }

    fn first_keys(&self) -> Result<Vec<(SessionId, Vec<u64>)>, StoreError> {
        self.read(|store| store.first_keys())
    }

    fn sessions_with_keys(&self, keys: &KeySet) -> Result<Vec<(SessionId, u64)>, StoreError> {
        self.read(|store| store.sessions_with_keys(keys))
    }

    fn session_keys(&self, session: &SessionId) -> Result<Option<SessionKeys>, StoreError> {
        self.load(|store| store.session_keys(session))
    }

    fn agent_label(&self, session: &SessionId, agent: &str) -> Result<Option<AgentLabel>, StoreError> {
        self.read(|store| store.agent_label(session, agent))
    }

    fn files_of(&self, session: &SessionId) -> Result<Vec<PathBuf>, StoreError> {
        self.load(|store| store.files_of(session))
    }

    fn facts_of(&self, session: &SessionId) -> Result<Option<StoredFacts>, StoreError> {
        self.load(|store| store.facts_of(session))
    }

    fn needs_facts(&self, session: &SessionId) -> Result<bool, StoreError> {
        self.load(|store| store.needs_facts(session))
    }

    fn is_forgotten(&self, session: &SessionId) -> Result<bool, StoreError> {
        self.read(|store| store.is_forgotten(session))
    }

    fn remote_position(&self, machine: &str) -> Result<Option<RemotePosition>, StoreError> {
        self.read(|store| store.remote_position(machine))
    }

    fn deadlines(&self) -> Result<Vec<(SessionId, Millis)>, StoreError> {
        self.read(|store| store.deadlines())
    }

    fn received_row(&self, row: u64) -> Result<Option<ReceivedInput>, StoreError> {
        self.read(|store| store.received_row(row))
    }

    fn cost_of_day(&self, day: i64, zone: &Zone, session: Option<&SessionId>) -> Result<DayCost, StoreError> {
        self.read(|store| store.cost_of_day(day, zone, session))
    }

    fn looks(&self) -> Result<Looks, StoreError> {
        self.read(|store| store.looks())
    }

    fn last_seq(&self) -> u64 {
        self.inner.last_seq()
    }

    fn events_after(
        &self,
        seq: u64,
        session: Option<&SessionId>,
        limit: usize,
    ) -> Result<Option<Vec<Event>>, StoreError> {
        self.read(|store| store.events_after(seq, session, limit))
    }

    fn latest_events(
        &self,
        session: &SessionId,
        limit: usize,
    ) -> Result<Vec<(Text, Option<Millis>)>, StoreError> {
        self.read(|store| store.latest_events(session, limit))
    }
}
