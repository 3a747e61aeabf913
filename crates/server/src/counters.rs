//! Metrics of the server.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;

/// Counters since the server started.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Responses by the first digit of their status, 1 to 5.
    answers: [AtomicU64; 5],
    refused: AtomicU64,
    connections: AtomicU64,
    live: AtomicU64,
}

impl Counters {
    pub(crate) fn answered(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(count) = self.answers.get(class) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn feed_opened(&self) {
        self.live.fetch_add(1, Ordering::Relaxed);
    }

    /// Responses by status class.
    pub(crate) fn answers(&self) -> [(&'static str, u64); 5] {
        let count = |at: usize| self.answers.get(at).map_or(0, |count| count.load(Ordering::Relaxed));
        [("1xx", count(0)), ("2xx", count(1)), ("3xx", count(2)), ("4xx", count(3)), ("5xx", count(4))]
    }

    /// Accepted connections, refused connections, and opened live feeds.
    pub(crate) fn totals(&self) -> [u64; 3] {
        [&self.connections, &self.refused, &self.live].map(|count| count.load(Ordering::Relaxed))
    }
}
