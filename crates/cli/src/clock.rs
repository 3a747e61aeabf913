//! Local UTC offset and RFC 3339 timestamps.

use jiff::{Timestamp, tz::TimeZone};
use subscope_model::Millis;

/// Returns the local UTC offset in minutes (positive is east) at a time: from `TZ`, else the system; 0 if unknown.
pub(crate) fn offset_minutes(at_ms: Millis) -> i32 {
    let Ok(at) = Timestamp::from_millisecond(at_ms) else { return 0 };
    TimeZone::system().to_offset(at).seconds() / 60
}

/// Formats a time as RFC 3339 in UTC with second precision; empty if it is out of range.
pub(crate) fn stamp(at_ms: Millis) -> String {
    let second = Timestamp::from_second(at_ms.div_euclid(1000));
    second.map(|at| at.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_is_one_of_this_earth() {
        assert!(offset_minutes(1_700_000_000_000).abs() <= 26 * 60);
        assert_eq!(offset_minutes(Millis::MAX), 0);
    }

    #[test]
    fn stamp_is_a_moment_to_the_second() {
        assert_eq!(stamp(1_795_293_690_987), "2026-11-21T20:41:30Z");
        assert_eq!(stamp(Millis::MAX), "");
    }
}
