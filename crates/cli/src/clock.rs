//! The one place of the binary that reads the machine's clock and its offset from UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::{Timestamp, tz::TimeZone};
use subscope_model::Millis;

/// Returns milliseconds since 1970 by the machine's clock.
#[expect(
    clippy::disallowed_methods,
    reason = "the binary's one reading of the clock; everything else is handed it"
)]
pub(crate) fn now_ms() -> Millis {
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH)
        .map_or(0, |since| Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX))
}

/// Returns how many minutes east of UTC the user's clock stands at a moment: by `TZ`, else by the system; 0 where
/// neither tells.
pub(crate) fn offset_minutes(at_ms: Millis) -> i32 {
    let Ok(at) = Timestamp::from_millisecond(at_ms) else { return 0 };
    TimeZone::system().to_offset(at).seconds() / 60
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_clock_gives_this_century() {
        assert!(now_ms() > 1_700_000_000_000);
        assert!(offset_minutes(now_ms()).abs() <= 26 * 60);
        assert_eq!(offset_minutes(Millis::MAX), 0);
    }
}
