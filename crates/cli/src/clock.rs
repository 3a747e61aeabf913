//! The machine's time zone, and RFC 3339 timestamps.

use jiff::{Timestamp, tz::TimeZone};
use subscope_model::{Millis, Zone};

/// Returns the zone of `TZ`, else of the machine; `None` if it is unknown. A rule in `TZ` is its own name.
pub(crate) fn zone(tz: Option<&str>) -> Option<Zone> {
    let system = TimeZone::try_system().ok().filter(|rules| !rules.is_unknown()).map(Zone::of)?;
    let named = tz.filter(|_| !system.is_named()).and_then(Zone::named);
    Some(named.unwrap_or(system))
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
    fn stamp_is_a_moment_to_the_second() {
        assert_eq!(stamp(1_795_293_690_987), "2026-11-21T20:41:30Z");
        assert_eq!(stamp(Millis::MAX), "");
    }
}
