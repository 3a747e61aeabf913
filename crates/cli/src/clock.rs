//! The machine's offset from UTC.

use jiff::{Timestamp, tz::TimeZone};
use subscope_model::Millis;

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
    fn offset_is_one_of_this_earth() {
        assert!(offset_minutes(1_700_000_000_000).abs() <= 26 * 60);
        assert_eq!(offset_minutes(Millis::MAX), 0);
    }
}
