//! Counters of connections, live feeds and responses: for metrics, and by which an idle background hub decides to exit.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use axum::http::StatusCode;

/// Counters since the server started. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ConnectionCount(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    open: AtomicUsize,
    connections: AtomicU64,
    feeds: AtomicU64,
    refused: AtomicU64,
    /// Responses by the first digit of their status, 1 to 5.
    answers: [AtomicU64; 5],
}

/// Counts one connection or feed as open until it is dropped.
pub(crate) struct ConnectionGuard(Arc<Counters>);

impl ConnectionCount {
    /// Number of open connections and feeds.
    pub fn now(&self) -> usize {
        self.0.open.load(Ordering::Acquire)
    }

    /// Number of connections and feeds since the server started, open ones included.
    pub fn ever(&self) -> u64 {
        let [connections, _, feeds] = self.totals();
        connections + feeds
    }

    pub(crate) fn connected(&self) -> ConnectionGuard {
        self.open(&self.0.connections)
    }

    pub(crate) fn feed_opened(&self) -> ConnectionGuard {
        self.open(&self.0.feeds)
    }

    fn open(&self, total: &AtomicU64) -> ConnectionGuard {
        self.0.open.fetch_add(1, Ordering::AcqRel);
        total.fetch_add(1, Ordering::AcqRel);
        ConnectionGuard(Arc::clone(&self.0))
    }

    pub(crate) fn refused(&self) {
        self.0.refused.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn answered(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(count) = self.0.answers.get(class) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Responses by status class: 1xx to 5xx.
    pub(crate) fn answers(&self) -> [u64; 5] {
        self.0.answers.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Accepted connections, refused connections, and opened live feeds.
    pub(crate) fn totals(&self) -> [u64; 3] {
        [&self.0.connections, &self.0.refused, &self.0.feeds].map(|count| count.load(Ordering::Acquire))
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}
