//! Limits how much of the time each kind of work takes.

use std::time::{Duration, Instant};

/// Share of the time that a kind of work may take: after it took some time, it pauses for a multiple of that time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DutyCycle {
    /// Pause, as a multiple of the time that the work took.
    pause: u32,
    until: Option<Instant>,
}

impl DutyCycle {
    /// A kind of work that pauses this many times as long as it takes.
    pub(crate) const fn new(pause: u32) -> Self {
        Self { pause, until: None }
    }

    /// Records that the work took from `began` to `ended`. Returns the end of the pause.
    pub(crate) fn record(&mut self, began: Instant, ended: Instant) -> Instant {
        let until = ended + ended.duration_since(began) * self.pause;
        self.until = Some(until);
        until
    }

    /// Ends the pause.
    pub(crate) fn resume(&mut self) {
        self.until = None;
    }

    /// Remaining pause.
    pub(crate) fn pause_left(&self, now: Instant) -> Duration {
        self.until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_is_a_multiple_of_the_time_that_the_work_took() {
        let (mut cycle, began) = (DutyCycle::new(4), crate::clock::tick());
        assert_eq!(cycle.pause_left(began), Duration::ZERO);
        let ended = began + Duration::from_millis(10);
        assert_eq!(cycle.record(began, ended), ended + Duration::from_millis(40));
        assert_eq!(cycle.pause_left(ended + Duration::from_millis(15)), Duration::from_millis(25));
        cycle.resume();
        assert_eq!(cycle.pause_left(ended), Duration::ZERO);
    }
}
