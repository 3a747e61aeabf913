//! The only module that reads the system clock.

use std::{
    sync::OnceLock,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use subscope_model::Millis;

/// The clock of a hub.
pub trait Clock: Send + Sync {
    /// Returns a monotonic instant.
    fn tick(&self) -> Instant;

    /// Returns the time in milliseconds since 1970.
    fn now_ms(&self) -> Millis;

    /// Returns monotonic milliseconds that do not advance while the machine is suspended.
    fn awake_ms(&self) -> Millis;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn tick(&self) -> Instant {
        tick()
    }

    fn now_ms(&self) -> Millis {
        now_ms()
    }

    fn awake_ms(&self) -> Millis {
        awake_ms()
    }
}

/// Returns the time now in milliseconds since 1970. Jumps when the system clock is set.
#[expect(clippy::disallowed_methods, reason = "this is the clock module that the ban points to")]
pub fn now_ms() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

/// Returns the time now in nanoseconds since 1970. Jumps when the system clock is set.
#[expect(clippy::disallowed_methods, reason = "this is the clock module that the ban points to")]
pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns monotonic milliseconds that do not advance while the machine is suspended.
pub fn awake_ms() -> Millis {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    Millis::try_from(BEGAN.get_or_init(tick).elapsed().as_millis()).unwrap_or(Millis::MAX)
}

/// Returns a monotonic instant for measuring durations.
#[expect(clippy::disallowed_methods, reason = "this is the clock module that the ban points to")]
pub fn tick() -> Instant {
    Instant::now()
}
