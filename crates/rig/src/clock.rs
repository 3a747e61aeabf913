//! Clock of this crate; no other module reads a clock.

use std::time::Instant;

/// Returns the monotonic clock.
///
/// The hub's clock is not used, because it would link the store and the hub.
#[expect(clippy::disallowed_methods, reason = "what plays a script measures the machine's time")]
pub fn tick() -> Instant {
    Instant::now()
}
