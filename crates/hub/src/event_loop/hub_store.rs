//! The hub's store: a read that fails is counted, logged and reported as a problem; a commit that fails is kept and
//! retried.

use std::{
    ops::{Deref, DerefMut, Range},
    time::{Duration, Instant},
};

use subscope_model::SessionId;
use subscope_store::{Commit, Store, StoreError};

use super::FullTextLocation;
use crate::{
    command::IngestError,
    handle::Waker,
    read_pool::ReadPool,
    read_view::{ReadFailures, describe},
};

/// Revisions reserved at once: enough for some minutes. Unused ones of a process that ends are skipped. Revisions begin
/// at the microsecond at which the store was created; even with skipped ones they stay lower than the clock.
const REVS_PER_RESERVATION: u64 = 1 << 16;

/// Pause before a failed commit, or a failed read, is retried.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Store that records failed reads, and keeps a failed commit.
pub(super) struct HubStore {
    inner: Box<dyn Store>,
    pub(super) failures: ReadFailures,
    /// Threads that answer questions, each with a connection of its own.
    pub(super) readers: ReadPool,
    failed_commit: Option<FailedCommit>,
    /// Reserved revisions that are not used yet.
    revs: Range<u64>,
    /// Whether the store has reserved some: they are greater than those of all stored rows.
    has_reserved_revs: bool,
}

/// A commit that failed. It is kept whole and retried before any other input is read or accepted, so nothing in it is
/// lost while the process lives. Its ingests were answered with the error; a repeat of one is answered with the error
/// again until the commit succeeds, then as a repeat.
struct FailedCommit {
    commit: Commit,
    error: IngestError,
    retry_at: Instant,
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

    /// Bytes of a session in the inbox; `None` if they cannot be read.
    pub(super) fn inbox_bytes(&self, session: &SessionId) -> Option<u64> {
        self.read("the size of a session's input", self.received_bytes(session))
    }

    pub(super) fn has_failed_commit(&self) -> bool {
        self.failed_commit.is_some()
    }

    /// Keeps a commit that failed. Returns its error.
    pub(super) fn keep_failed_commit(
        &mut self,
        commit: Commit,
        error: &StoreError,
        now: Instant,
    ) -> IngestError {
        let error = IngestError::from(error);
        tracing::warn!("commit failed: {error}");
        self.failed_commit = Some(FailedCommit { commit, error: error.clone(), retry_at: now + RETRY_AFTER });
        error
    }

    /// Ends the pause before the failed commit is retried.
    pub(super) fn end_retry_pause(&mut self, now: Instant) {
        self.failed_commit.iter_mut().for_each(|failed| failed.retry_at = now);
    }

    /// Takes the failed commit, if there is one, to be retried. Returns its error while its pause has not passed.
    pub(super) fn take_failed_commit(&mut self, now: Instant) -> Result<Option<Commit>, IngestError> {
        match &self.failed_commit {
            Some(failed) if now < failed.retry_at => Err(failed.error.clone()),
            Some(_) | None => Ok(self.failed_commit.take().map(|failed| failed.commit)),
        }
    }

    /// Returns a new row revision. If none can be reserved, rows cannot be saved either; rows shown meanwhile get the
    /// revisions that follow.
    pub(super) fn next_rev(&mut self) -> u64 {
        if self.revs.is_empty() {
            let reserved = self.reserve_revs(REVS_PER_RESERVATION);
            let reserved = self.read("row revisions", reserved);
            self.has_reserved_revs |= reserved.is_some();
            let first = reserved.unwrap_or(self.revs.end);
            self.revs = first..first + REVS_PER_RESERVATION;
        }
        self.revs.next().unwrap_or(self.revs.end)
    }

    /// Returns a revision that is greater than those of all rows so far and not greater than those of later ones; `None`
    /// if this hub has no revisions yet, or none that continue the store's.
    pub(super) fn next_unused_rev(&self) -> Option<u64> {
        self.has_reserved_revs.then_some(self.revs.start)
    }
}

impl From<&StoreError> for IngestError {
    fn from(error: &StoreError) -> Self {
        Self::Store(describe(error))
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
