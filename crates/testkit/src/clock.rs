//! Fake clock: moves only when a test advances it.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use subscope_model::Millis;

/// Start of generated time: 2026-11-01T08:00:00Z.
pub const START: Millis = 1_793_520_000_000;

/// A clock that is advanced explicitly. Clones share the time.
#[derive(Clone, Debug)]
pub struct FakeClock(Arc<AtomicI64>);

impl FakeClock {
    /// A clock that shows `now`.
    pub fn at(now: Millis) -> Self {
        Self(Arc::new(AtomicI64::new(now)))
    }

    /// The time it shows.
    pub fn now(&self) -> Millis {
        self.0.load(Ordering::SeqCst)
    }

    /// Moves it by `millis` (also backwards) and returns the new time.
    pub fn advance(&self, millis: Millis) -> Millis {
        self.0.fetch_add(millis, Ordering::SeqCst) + millis
    }

    /// Sets it, as after a jump of the machine's clock.
    pub fn set(&self, now: Millis) {
        self.0.store(now, Ordering::SeqCst);
    }
}

impl Default for FakeClock {
    fn default() -> Self {
        Self::at(START)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_moves_only_when_told_and_is_shared() {
        let clock = FakeClock::default();
        let other = clock.clone();
        assert_eq!(clock.advance(1500), START + 1500);
        assert_eq!(other.now(), START + 1500);
        other.set(7);
        assert_eq!(clock.now(), 7);
    }
}
