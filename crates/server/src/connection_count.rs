//! Count of connections and live feeds, by which an idle background hub decides to exit.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// Open and total numbers of connections and live feeds. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ConnectionCount(Arc<Totals>);

#[derive(Debug, Default)]
struct Totals {
    now: AtomicUsize,
    ever: AtomicU64,
}

/// Counts one connection or feed until it is dropped.
pub(crate) struct ConnectionGuard(Arc<Totals>);

impl ConnectionCount {
    /// Number of open connections and feeds.
    pub fn now(&self) -> usize {
        self.0.now.load(Ordering::Acquire)
    }

    /// Number of connections and feeds since the server started, open ones included.
    pub fn ever(&self) -> u64 {
        self.0.ever.load(Ordering::Acquire)
    }

    pub(crate) fn add(&self) -> ConnectionGuard {
        self.0.now.fetch_add(1, Ordering::AcqRel);
        self.0.ever.fetch_add(1, Ordering::AcqRel);
        ConnectionGuard(Arc::clone(&self.0))
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::AcqRel);
    }
}
