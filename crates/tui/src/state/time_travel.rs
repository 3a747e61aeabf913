//! A session in another time: halted, stepped through, or played back.

use subscope_model::{Millis, SessionId, Tree};

use super::logs::Log;

/// Paces, as multiples of the real one.
pub const SPEEDS: [f64; 9] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

/// A session in another time.
#[derive(Clone, Debug, PartialEq)]
pub struct Travel {
    /// The session.
    pub session: SessionId,
    /// The moment that is looked at.
    pub at_ms: Millis,
    /// When the session began.
    pub from_ms: Millis,
    /// When it ended, or the time that travelling began.
    pub to_ms: Millis,
    /// Whether time goes on.
    pub is_playing: bool,
    /// How fast.
    pub speed: f64,
    /// The rows of the moment, or of one shortly before while they are asked for.
    pub tree: Option<Tree>,
    /// The moment that the rows are of.
    pub shown_ms: Option<Millis>,
    /// The moment that was asked for.
    pub asked_ms: Option<Millis>,
    /// When time was last moved on, by the clock that never steps.
    pub moved_ms: Millis,
}

impl Travel {
    /// Goes to a moment within the session.
    pub fn seek(&mut self, at_ms: Millis) {
        self.at_ms = at_ms.clamp(self.from_ms, self.to_ms.max(self.from_ms));
    }

    /// Lets time go on up to a moment of the clock that never steps. Returns whether anything moved.
    pub fn play(&mut self, awake_ms: Millis) -> bool {
        let past = (awake_ms - self.moved_ms).max(0);
        // `as` saturates; what is too short to count is kept for the next time.
        let step = (past as f64 * self.speed) as Millis;
        if !self.is_playing {
            self.moved_ms = awake_ms;
        }
        if !self.is_playing || step == 0 {
            return false;
        }
        self.moved_ms = awake_ms;
        self.seek(self.at_ms + step);
        self.is_playing = self.at_ms < self.to_ms;
        true
    }

    /// Takes the next pace up or down.
    pub fn change_speed(&mut self, is_faster: bool) {
        let at = SPEEDS.iter().position(|speed| *speed >= self.speed).unwrap_or(SPEEDS.len() - 1);
        let next = if is_faster { at + 1 } else { at.saturating_sub(1) };
        self.speed = SPEEDS[next.min(SPEEDS.len() - 1)];
    }

    /// Goes to the next moment at which something happened, or to the one before.
    pub fn step(&mut self, log: Option<&Log>, is_on: bool) {
        let times = || log.into_iter().flat_map(|log| log.moments()).filter_map(|moment| moment.at_ms);
        let next = if is_on {
            times().filter(|at| *at > self.at_ms).min().unwrap_or(self.to_ms)
        } else {
            times().filter(|at| *at < self.at_ms).max().unwrap_or(self.from_ms)
        };
        self.is_playing = false;
        self.seek(next);
    }

    /// Where it stands between begin and end.
    pub fn share(&self) -> f64 {
        let all = (self.to_ms - self.from_ms).max(1);
        (self.at_ms - self.from_ms) as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn travel() -> Travel {
        Travel {
            session: "s".into(),
            at_ms: 1_000,
            from_ms: 1_000,
            to_ms: 9_000,
            is_playing: true,
            speed: 2.0,
            tree: None,
            shown_ms: None,
            asked_ms: None,
            moved_ms: 0,
        }
    }

    #[test]
    fn time_goes_on_at_its_pace_and_halts_at_the_end() {
        let mut travel = travel();
        assert!(travel.play(500) && travel.at_ms == 2_000);
        assert!(!travel.play(500) && travel.at_ms == 2_000);
        assert!((travel.share() - 0.125).abs() < 1e-9);
        assert!(travel.play(60_000) && travel.at_ms == 9_000 && !travel.is_playing);
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
