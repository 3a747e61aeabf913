//! Clock of the publisher: event timestamps and delivery deadlines.
//!
//! `client` is embedded in other programs and does not link the hub's clock. No other module of it reads a clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Returns the wall clock in nanoseconds since 1970; not monotonic.
#[expect(
    clippy::disallowed_methods,
    reason = "an event is stamped where it happens, and no hub is linked here"
)]
pub(crate) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A deadline shared by several blocking steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// Returns the deadline `limit` from now.
    #[expect(
        clippy::disallowed_methods,
        reason = "sockets take a limit for each read; the limit here is on all of them"
    )]
    pub(crate) fn after(limit: Duration) -> Self {
        Self(Instant::now() + limit)
    }

    /// Returns the remaining time; `None` once less than 1 ms is left.
    #[expect(clippy::disallowed_methods, reason = "as above")]
    pub(crate) fn left(self) -> Option<Duration> {
        // A socket timeout below its resolution would be rounded to 0: no timeout.
        self.0.checked_duration_since(Instant::now()).filter(|left| *left >= Duration::from_millis(1))
    }
}
