//! The clock of a program that publishes: when an event happened, and how long its delivery may take.
//!
//! `client` is embedded by other programs and links no hub, so that it cannot use the hub's clock. Nothing else here reads one.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Returns nanoseconds since 1970. Steps when somebody sets the clock.
#[expect(
    clippy::disallowed_methods,
    reason = "an event is stamped where it happens, and no hub is linked here"
)]
pub(crate) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A moment at which patience ends, however many steps wait for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// Returns the moment that long from now.
    #[expect(
        clippy::disallowed_methods,
        reason = "sockets take a limit for each read; the limit here is on all of them"
    )]
    pub(crate) fn after(limit: Duration) -> Self {
        Self(Instant::now() + limit)
    }

    /// Returns what is left until then; `None` when it is over.
    #[expect(clippy::disallowed_methods, reason = "as above")]
    pub(crate) fn left(self) -> Option<Duration> {
        // What is less than the finest limit of a socket would mean none at all.
        self.0.checked_duration_since(Instant::now()).filter(|left| *left >= Duration::from_millis(1))
    }
}
