//! Time as an input: a clock that only moves when told, and timestamps as harnesses write them.

use std::{
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use subscope_model::Millis;

/// Where made-up time begins: 2026-11-01T08:00:00Z.
pub const START: Millis = 1_793_520_000_000;

/// A clock that stands still until it is moved. Clones share the time.
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

/// Returns a time as harnesses write it: `2026-11-01T08:00:00.000Z`. For years 1970–9999.
pub fn rfc3339(time: Millis) -> String {
    let mut text = String::with_capacity(24);
    push_rfc3339(&mut text, time);
    text
}

/// Appends what [`rfc3339`] returns.
pub(crate) fn push_rfc3339(text: &mut String, time: Millis) {
    let (days, of_day) = (time.div_euclid(86_400_000), time.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, millis) = (of_day / 1000 % 60, of_day % 1000);
    // Writing to a String cannot fail.
    let _ = write!(text, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z");
}

/// Returns year, month and day of a day since 1970-01-01.
/// Source of the rule: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use subscope_model::parse_rfc3339;

    use super::*;

    #[test]
    fn write_time_is_read_back() {
        assert_eq!(rfc3339(START), "2026-11-01T08:00:00.000Z");
        assert_eq!(rfc3339(951_782_400_007), "2000-02-29T00:00:00.007Z");
        for day in 0..60_000 {
            let time = day * 86_400_000 + 12_345_678;
            assert_eq!(parse_rfc3339(&rfc3339(time)), Some(time));
        }
    }

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
