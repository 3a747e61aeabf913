//! Detects suspends and clock jumps, so that only time counts as silence in which the machine was awake and the hub
//! looked.

use std::time::{Duration, Instant};

use subscope_model::Millis;
use subscope_session::AwakeTime;

/// Clock jump from which on all silence is reset.
const JUMP_MS: Millis = 60_000;
/// Shortest sleep that is subtracted from silence. Less is clock granularity.
const MIN_SLEEP_MS: Millis = 1_000;
/// Most sleeps remembered: more than a machine has within any limit of silence.
const MAX_SLEEPS: usize = 256;
/// Gap between two samples (taken every second) after which the time between is unknown: the hub was halted.
const HALT_GAP: Duration = Duration::from_secs(60);

/// Compares the wall clock with a clock that does not advance while the machine is suspended.
#[derive(Debug, Default)]
pub(crate) struct SuspendDetector {
    last: Option<ClockSample>,
    awake: AwakeTime,
}

#[derive(Clone, Copy, Debug)]
struct ClockSample {
    now: Millis,
    awake_ms: Millis,
    tick: Instant,
}

impl SuspendDetector {
    /// Records the clocks. Returns whether the counted time changed.
    pub(crate) fn record(&mut self, now: Millis, awake_ms: Millis, tick: Instant) -> bool {
        let Some(last) = self.last.replace(ClockSample { now, awake_ms, tick }) else { return false };
        let gap = (now - last.now) - (awake_ms - last.awake_ms);
        let was_halted = tick.duration_since(last.tick) > HALT_GAP;
        if gap.abs() > JUMP_MS || was_halted {
            self.awake = AwakeTime { since: Some(now), ..AwakeTime::default() };
        } else if gap.abs() >= MIN_SLEEP_MS {
            let known = self.awake.sleeps.iter().copied();
            let sleeps: Vec<(Millis, i64)> = known.chain([(now, gap)]).collect();
            let excess = sleeps.len().saturating_sub(MAX_SLEEPS);
            self.awake.sleeps = sleeps.get(excess..).unwrap_or_default().into();
        } else {
            return false;
        }
        true
    }

    /// The time that counts as silence.
    pub(crate) fn awake(&self) -> AwakeTime {
        self.awake.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn looks_tell_sleep_from_work() {
        let mut detector = SuspendDetector::default();
        let tick = clock::tick();
        let mut record = |now, awake| (detector.record(now, awake, tick), detector.awake());
        assert_eq!(record(1_000_000, 0), (false, AwakeTime::default()));
        assert!(!record(1_000_900, 1_000).0, "a grain");
        let sleeps = AwakeTime { since: None, sleeps: [(1_031_000, 30_000)].into() };
        assert_eq!(record(1_031_000, 1_100), (true, sleeps.clone()));
        assert_eq!(record(1_032_000, 2_100), (false, sleeps));
        let woke = |since| AwakeTime { since: Some(since), ..AwakeTime::default() };
        assert_eq!(record(9_032_000, 3_100), (true, woke(9_032_000)), "a night");
        assert_eq!(record(5_000_000, 4_100), (true, woke(5_000_000)), "the clock was set back");
    }

    #[test]
    fn hub_that_was_halted_knows_nothing_of_the_time_between() {
        let mut detector = SuspendDetector::default();
        let tick = clock::tick();
        assert!(!detector.record(0, 0, tick));
        assert!(!detector.record(60_000, 60_000, tick + HALT_GAP));
        assert!(detector.record(180_000, 180_000, tick + HALT_GAP * 3));
    }
}
