//! Time travel: a session paused, stepped through or played back at an earlier time.

use subscope_model::{Millis, SessionId, Tree};

use super::logs::EventLog;

/// Playback speeds, as multiples of real time.
pub(crate) const SPEEDS: [f64; 9] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

/// Time travel in one session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TimeTravel {
    pub(crate) session: SessionId,
    /// The displayed time.
    pub(crate) at_ms: Millis,
    /// Start of the session.
    pub(crate) from_ms: Millis,
    /// End of the session, or for a live one the time at which time travel began.
    pub(crate) to_ms: Millis,
    /// Whether playback runs.
    pub(crate) is_playing: bool,
    /// Playback speed as a multiple of real time.
    pub(crate) speed: f64,
    /// Tree at `shown_ms`, which may differ from `at_ms` until the next reply.
    pub(crate) tree: Option<Tree>,
    /// The time of `tree`.
    pub(crate) shown_ms: Option<Millis>,
    /// The time of the pending query.
    pub(crate) requested_ms: Option<Millis>,
    /// When playback last advanced, by the monotonic clock.
    pub(crate) advanced_ms: Millis,
}

impl TimeTravel {
    /// Goes to a time, clamped to the session.
    pub(crate) fn seek(&mut self, at_ms: Millis) {
        self.at_ms = at_ms.clamp(self.from_ms, self.to_ms.max(self.from_ms));
    }

    /// Advances playback to a time of the monotonic clock.
    pub(crate) fn advance(&mut self, awake_ms: Millis) {
        let elapsed = (awake_ms - self.advanced_ms).max(0);
        // `as` saturates; a step below 1 ms accumulates until the next call.
        let step = (elapsed as f64 * self.speed) as Millis;
        if !self.is_playing {
            self.advanced_ms = awake_ms;
        } else if step > 0 {
            self.advanced_ms = awake_ms;
            self.seek(self.at_ms + step);
            self.is_playing = self.at_ms < self.to_ms;
        }
    }

    /// Switches to the next higher or lower speed.
    pub(crate) fn change_speed(&mut self, is_faster: bool) {
        let at = SPEEDS.iter().position(|speed| *speed >= self.speed).unwrap_or(SPEEDS.len() - 1);
        let next = if is_faster { at + 1 } else { at.saturating_sub(1) };
        self.speed = SPEEDS[next.min(SPEEDS.len() - 1)];
    }

    /// Pauses and goes to the time of the next or previous event.
    pub(crate) fn step(&mut self, log: Option<&EventLog>, is_on: bool) {
        let times = || log.into_iter().flat_map(|log| log.entries()).filter_map(|entry| entry.at_ms);
        let next = if is_on {
            times().filter(|at| *at > self.at_ms).min().unwrap_or(self.to_ms)
        } else {
            times().filter(|at| *at < self.at_ms).max().unwrap_or(self.from_ms)
        };
        self.is_playing = false;
        self.seek(next);
    }

    /// Position between start (0) and end (1).
    pub(crate) fn progress(&self) -> f64 {
        let all = (self.to_ms - self.from_ms).max(1);
        (self.at_ms - self.from_ms) as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn travel() -> TimeTravel {
        TimeTravel {
            session: "s".into(),
            at_ms: 1_000,
            from_ms: 1_000,
            to_ms: 9_000,
            is_playing: true,
            speed: 2.0,
            tree: None,
            shown_ms: None,
            requested_ms: None,
            advanced_ms: 0,
        }
    }

    #[test]
    fn time_goes_on_at_its_pace_and_halts_at_the_end() {
        let mut travel = travel();
        travel.advance(500);
        assert_eq!(travel.at_ms, 2_000);
        travel.advance(500);
        assert_eq!(travel.at_ms, 2_000);
        assert!((travel.progress() - 0.125).abs() < 1e-9);
        travel.advance(60_000);
        assert!(travel.at_ms == 9_000 && !travel.is_playing);
        travel.seek(0);
        assert_eq!(travel.at_ms, 1_000);
    }

    #[test]
    fn speed_stays_within_its_range() {
        let mut travel = travel();
        for _ in 0..20 {
            travel.change_speed(true);
        }
        assert!((travel.speed - 64.0).abs() < f64::EPSILON);
        for _ in 0..20 {
            travel.change_speed(false);
        }
        assert!((travel.speed - 0.25).abs() < f64::EPSILON);
    }
}
