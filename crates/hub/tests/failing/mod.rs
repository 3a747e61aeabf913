//! A store that fails on demand: its commits, or its reads.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use subscope_hub::{Commit, History, Ledger, LedgerError, ListQuery, Named, ReceivedInput, Store};
use subscope_model::{AgentId, Event, Millis, SessionId, SessionKeys, SessionRow, Stats, Text, Tree};
use subscope_store::Keys;

/// A store that fails on demand.
pub(crate) struct Failing<S> {
    inner: S,
    pub(crate) fails_commits: Arc<AtomicBool>,
    /// Whether everything that is read fails, except [`Ledger::has_received`].
    pub(crate) fails_reads: Arc<AtomicBool>,
    /// How many commits were tried.
    pub(crate) commits: Arc<AtomicUsize>,
}

impl<S> Failing<S> {
    /// Wraps a store; nothing fails yet.
    pub(crate) fn new(inner: S) -> Self {
        Self { inner, fails_commits: Arc::default(), fails_reads: Arc::default(), commits: Arc::default() }
    }

    fn read<T>(&self, read: impl FnOnce(&S) -> Result<T, LedgerError>) -> Result<T, LedgerError> {
        match self.fails_reads.load(Ordering::SeqCst) {
            true => Err(LedgerError::Storage("the disk is gone".into())),
            false => read(&self.inner),
        }
    }
}

impl<S: Store> Ledger for Failing<S> {
    fn commit(&mut self, commit: &Commit) -> Result<Vec<Event>, LedgerError> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        if self.fails_commits.load(Ordering::SeqCst) {
            Err(LedgerError::Full)
        } else {
            self.inner.commit(commit)
        }
    }

    fn reserve_revs(&mut self, count: u64) -> Result<u64, LedgerError> {
        self.inner.reserve_revs(count)
    }

    fn has_received(&self, source: &str, key: &str) -> Result<bool, LedgerError> {
        self.inner.has_received(source, key)
    }

    fn received_within(
        &self,
        session: &SessionId,
        bytes: u64,
        each: &mut dyn FnMut(ReceivedInput),
    ) -> Result<bool, LedgerError> {
        self.read(|store| store.received_within(session, bytes, each))
    }

    fn received_bytes(&self, session: &SessionId) -> Result<u64, LedgerError> {
        self.read(|store| store.received_bytes(session))
    }

    fn sessions_with_unprocessed_input(&self) -> Result<Vec<SessionId>, LedgerError> {
        self.read(|store| store.sessions_with_unprocessed_input())
    }
}

impl<S: Store> History for Failing<S> {
    fn list(&self, query: &ListQuery) -> Result<Vec<SessionRow>, LedgerError> {
        self.read(|store| store.list(query))
    }

    fn tree(&self, session: &SessionId) -> Result<Option<Tree>, LedgerError> {
        self.read(|store| store.tree(session))
    }

    fn named(&self, prefix: &str, limit: usize) -> Result<Vec<SessionId>, LedgerError> {
        self.read(|store| store.named(prefix, limit))
    }

    fn agents(&self, prefix: &str, limit: usize) -> Result<Vec<(SessionId, AgentId)>, LedgerError> {
        self.read(|store| store.agents(prefix, limit))
    }

    fn first_keys(&self) -> Result<Vec<(SessionId, Vec<u64>)>, LedgerError> {
        self.read(|store| store.first_keys())
    }

    fn holders(&self, keys: &Keys) -> Result<Vec<(SessionId, u64)>, LedgerError> {
        self.read(|store| store.holders(keys))
    }

    fn holdings(&self, session: &SessionId) -> Result<Option<SessionKeys>, LedgerError> {
        self.read(|store| store.holdings(session))
    }

    fn files_of(&self, session: &SessionId) -> Result<Vec<PathBuf>, LedgerError> {
        self.read(|store| store.files_of(session))
    }

    fn received_body(&self, row: u64) -> Result<Option<Vec<u8>>, LedgerError> {
        self.read(|store| store.received_body(row))
    }

    fn who(&self, session: &SessionId, agent: &str) -> Result<Option<Named>, LedgerError> {
        self.read(|store| store.who(session, agent))
    }

    fn stats(&self) -> Result<Stats, LedgerError> {
        self.read(|store| store.stats())
    }

    fn last_seq(&self) -> u64 {
        self.inner.last_seq()
    }

    fn events_after(
        &self,
        seq: u64,
        session: Option<&SessionId>,
        limit: usize,
    ) -> Result<Option<Vec<Event>>, LedgerError> {
        self.read(|store| store.events_after(seq, session, limit))
    }

    fn told_last(
        &self,
        session: &SessionId,
        limit: usize,
    ) -> Result<Vec<(Text, Option<Millis>)>, LedgerError> {
        self.read(|store| store.told_last(session, limit))
    }
}
