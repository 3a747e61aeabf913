//! The server's own figures.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;

/// Counts since the server began.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Answers by the first digit of their status, 1 to 5.
    answers: [AtomicU64; 5],
    unauthorised: AtomicU64,
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

    pub(crate) fn turned_away(&self) {
        self.unauthorised.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn feed_opened(&self) {
        self.live.fetch_add(1, Ordering::Relaxed);
    }

    /// Answers by class, with its name.
    pub(crate) fn answers(&self) -> [(&'static str, u64); 5] {
        let count = |at: usize| self.answers.get(at).map_or(0, |count| count.load(Ordering::Relaxed));
        [("1xx", count(0)), ("2xx", count(1)), ("3xx", count(2)), ("4xx", count(3)), ("5xx", count(4))]
    }

    /// Connections that were let in, those turned away, and live feeds that were opened.
    pub(crate) fn totals(&self) -> [u64; 3] {
        [&self.connections, &self.unauthorised, &self.live].map(|count| count.load(Ordering::Relaxed))
    }
}
