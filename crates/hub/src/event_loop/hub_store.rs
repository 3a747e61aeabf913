//! The hub's store: a read that fails is counted, logged and reported as a problem; a commit that fails is kept and
//! retried.

use std::{
    cell::RefCell,
    ops::{Deref, DerefMut, Range},
    time::{Duration, Instant},
};

use subscope_model::Problem;
use subscope_store::{Store, StoreError};

use super::derive::{FailedCommit, describe};

/// Time during which the same failure is not reported again.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// Store that counts and reports failed reads, and keeps a failed commit.
pub(super) struct HubStore {
    inner: Box<dyn Store>,
    failures: RefCell<ReadFailures>,
    /// A commit that failed and is retried.
    pub(super) failed_commit: Option<FailedCommit>,
    /// Reserved revisions that are not used yet.
    pub(super) revs: Range<u64>,
}

#[derive(Default)]
struct ReadFailures {
    count: u64,
    unreported: Option<String>,
    reported: Option<(String, Instant)>,
}

impl HubStore {
    pub(super) fn new(inner: Box<dyn Store>) -> Self {
        Self { inner, failures: RefCell::default(), failed_commit: None, revs: 0..0 }
    }

    /// Returns the result of a read; on failure records the error and returns `None`. `what` names what was read.
    pub(super) fn read<T>(&self, what: &str, outcome: Result<T, StoreError>) -> Option<T> {
        outcome.map_err(|error| self.note(what, &error)).ok()
    }

    fn note(&self, what: &str, error: &StoreError) {
        let text = format!("cannot read {what}: {}", describe(error));
        tracing::warn!("{text}");
        let mut failures = self.failures.borrow_mut();
        failures.count += 1;
        failures.unreported.get_or_insert(text);
    }

    /// Number of reads that failed.
    pub(super) fn failed_reads(&self) -> u64 {
        self.failures.borrow().count
    }

    /// Takes the first failure since the last call, unless the same one was reported a short time ago.
    pub(super) fn take_problem(&self, now: Instant) -> Option<Problem> {
        let mut failures = self.failures.borrow_mut();
        let what = failures.unreported.take()?;
        let is_recent =
            |(text, at): &(String, Instant)| *text == what && now.duration_since(*at) < REPORT_EVERY;
        if failures.reported.as_ref().is_some_and(is_recent) {
            return None;
        }
        failures.reported = Some((what.clone(), now));
        Some(Problem { at: "store".to_owned(), what })
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
