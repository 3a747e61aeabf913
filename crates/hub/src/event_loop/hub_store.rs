//! The hub's store: a read that fails is counted, logged and reported as a problem; a commit that fails is kept and
//! retried.

use std::ops::{Deref, DerefMut, Range};

use subscope_store::{Store, StoreError};

use super::{FullTextLocation, derive::FailedCommit};
use crate::{handle::Waker, read_pool::ReadPool, read_view::ReadFailures};

/// Store that records failed reads, and keeps a failed commit.
pub(super) struct HubStore {
    inner: Box<dyn Store>,
    pub(super) failures: ReadFailures,
    /// Threads that answer questions, each with a connection of its own.
    pub(super) readers: ReadPool,
    /// A commit that failed and is retried.
    pub(super) failed_commit: Option<FailedCommit>,
    /// Reserved revisions that are not used yet.
    pub(super) revs: Range<u64>,
    /// Whether the store has reserved some: they are greater than those of all stored rows.
    pub(super) has_reserved_revs: bool,
}

impl HubStore {
    pub(super) fn new(inner: Box<dyn Store>, texts: Option<FullTextLocation>, waker: Waker) -> Self {
        let failures = ReadFailures::default();
        Self {
            readers: ReadPool::new(inner.reader(), texts, failures.clone(), waker),
            inner,
            failures,
            failed_commit: None,
            revs: 0..0,
            has_reserved_revs: false,
        }
    }

    /// Returns the result of a read; on failure records the error and returns `None`. `what` names what was read.
    pub(super) fn read<T>(&self, what: &str, outcome: Result<T, StoreError>) -> Option<T> {
        self.failures.read(what, outcome)
    }
}

impl Deref for HubStore {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.inner
    }
}

impl DerefMut for HubStore {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.inner
    }
}
