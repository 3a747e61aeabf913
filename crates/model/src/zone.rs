//! Days as a person counts them: by the clocks of a time zone.

use std::fmt;

use jiff::{Timestamp, tz::TimeZone};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::{Millis, Text, time::iso8601};

const DAY_MS: Millis = 86_400_000;

/// A time zone, whose days statistics and budgets count by. A day of clock changes is 23 or 25 hours long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    name: Text,
    rules: TimeZone,
}

impl Default for Zone {
    fn default() -> Self {
        Self { name: Self::UTC.into(), rules: TimeZone::UTC }
    }
}

impl Zone {
    /// Name of the zone that is used where none is known.
    pub const UTC: &str = "UTC";
    /// Name of a zone whose rules have none: it cannot be sent to another process.
    pub const LOCAL: &str = "local";

    /// Returns a zone of the system's database by its name (`Europe/Berlin`), or one by its rule in the form of POSIX
    /// (`CET-1CEST,M3.5.0,M10.5.0/3`); `None` if there is none.
    pub fn named(name: &str) -> Option<Self> {
        if name == Self::UTC {
            return Some(Self::default());
        }
        let rules = TimeZone::get(name).ok().filter(|rules| !rules.is_unknown());
        rules.map(Self::of).or_else(|| {
            let rules = TimeZone::posix(name).ok()?;
            Some(Self { name: name.into(), rules })
        })
    }

    /// Returns the zone of rules, under their name.
    pub fn of(rules: TimeZone) -> Self {
        let name = match rules.iana_name() {
            Some("Etc/UTC") => Self::UTC,
            Some(name) => name,
            None => Self::LOCAL,
        };
        Self { name: name.into(), rules }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether another process knows the zone by its name.
    pub fn is_named(&self) -> bool {
        self.name() != Self::LOCAL
    }

    /// Returns how far its clocks are ahead of UTC at a time, in minutes; negative is west.
    pub fn offset_minutes(&self, at_ms: Millis) -> i32 {
        let at = Timestamp::from_millisecond(at_ms);
        at.map_or(0, |at| self.rules.to_offset(at).seconds() / 60)
    }

    /// Returns the day of a time, counted from 1970-01-01.
    pub fn day_of(&self, at_ms: Millis) -> i64 {
        at_ms.saturating_add(i64::from(self.offset_minutes(at_ms)) * 60_000).div_euclid(DAY_MS)
    }

    /// Returns the first moment of a day that is counted from 1970-01-01.
    pub fn start_of(&self, day: i64) -> Millis {
        let midnight = day.saturating_mul(DAY_MS);
        let date = Timestamp::from_millisecond(midnight).map(|at| at.to_zoned(TimeZone::UTC).date());
        let start = date.and_then(|date| date.to_zoned(self.rules.clone()));
        start.map_or(midnight, |start| start.timestamp().as_millisecond())
    }

    /// Returns what its clocks show at a time, to the minute: `2026-11-22 05:30`.
    pub fn minute(&self, at_ms: Millis) -> String {
        let shown = iso8601(at_ms.saturating_add(i64::from(self.offset_minutes(at_ms)) * 60_000));
        shown.get(..16).unwrap_or_default().replace('T', " ")
    }

    /// Returns the date of a day that is counted from 1970-01-01, as `2026-11-22`.
    pub fn date(day: i64) -> String {
        let midnight = iso8601(day.saturating_mul(DAY_MS));
        midnight.split_once('T').map_or(String::new(), |(date, _)| date.to_owned())
    }
}

/// Whether a zone cannot be written for another process.
pub(crate) fn is_unnamed(zone: &Option<Zone>) -> bool {
    !zone.as_ref().is_some_and(Zone::is_named)
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Serialize for Zone {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.name)
    }
}

impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        let name = String::deserialize(value)?;
        let unknown = || D::Error::custom(format!("{name:?} is no time zone: write Europe/Berlin or UTC"));
        Self::named(&name).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_rfc3339;

    const HOUR_MS: Millis = 3_600_000;

    fn at(time: &str) -> Millis {
        parse_rfc3339(time).unwrap()
    }

    #[test]
    fn day_begins_where_its_clocks_say_midnight() {
        for (zone, day, start, hours) in [
            ("UTC", "2026-03-29", "2026-03-29T00:00:00Z", 24),
            ("Europe/Berlin", "2026-03-28", "2026-03-27T23:00:00Z", 24),
            ("Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00Z", 23),
            ("Europe/Berlin", "2026-10-25", "2026-10-24T22:00:00Z", 25),
            ("America/New_York", "2026-11-01", "2026-11-01T04:00:00Z", 25),
            // The clocks go from 0:00 to 1:00: the day begins at 1:00.
            ("America/Havana", "2026-03-08", "2026-03-08T05:00:00Z", 23),
            ("Asia/Kolkata", "2026-11-22", "2026-11-21T18:30:00Z", 24),
            ("Asia/Kathmandu", "2026-11-22", "2026-11-21T18:15:00Z", 24),
            ("Pacific/Kiritimati", "2026-11-22", "2026-11-21T10:00:00Z", 24),
            ("Pacific/Niue", "2026-11-22", "2026-11-22T11:00:00Z", 24),
            ("CET-1CEST,M3.5.0,M10.5.0/3", "2026-10-25", "2026-10-24T22:00:00Z", 25),
        ] {
            let named = Zone::named(zone).unwrap();
            let number = at(&format!("{day}T00:00:00Z")) / DAY_MS;
            let (from, to) = (named.start_of(number), named.start_of(number + 1));
            assert_eq!((from, to - from), (at(start), hours * HOUR_MS), "{zone} {day}");
            let days = [from - 1, from, to - 1, to].map(|moment| named.day_of(moment) - number);
            assert_eq!(days, [-1, 0, 0, 1], "{zone} {day}");
            assert_eq!(Zone::date(number), day);
            let json = serde_json::to_string(&named).unwrap();
            assert_eq!(serde_json::from_str::<Zone>(&json).unwrap(), named);
        }
    }

    #[test]
    fn minute_is_that_of_its_clocks() {
        let minute = |name: &str| Zone::named(name).unwrap().minute(at("2026-11-21T20:45:06Z"));
        assert_eq!(["UTC", "Asia/Kolkata"].map(minute), ["2026-11-21 20:45", "2026-11-22 02:15"]);
    }

    #[test]
    fn what_names_no_zone_is_none() {
        for name in ["", "Mars/Olympus", "../../etc/passwd", "/etc/passwd", "Etc/Unknown", "Europe", "local"]
        {
            assert_eq!(Zone::named(name), None, "{name}");
        }
        assert_eq!(Zone::default(), Zone::named("UTC").unwrap());
        assert_eq!(Zone::of(TimeZone::get("Etc/UTC").unwrap()).name(), "UTC");
    }

    #[test]
    fn times_of_no_calendar_have_days() {
        let zone = Zone::named("Europe/Berlin").unwrap();
        assert!(zone.day_of(Millis::MAX) > 0 && zone.day_of(Millis::MIN) < 0);
        assert!(zone.start_of(i64::MAX) > 0 && zone.start_of(i64::MIN) < 0);
        assert_eq!(
            [0, -1, 20_779, 11_016].map(Zone::date),
            ["1970-01-01", "1969-12-31", "2026-11-22", "2000-02-29"]
        );
    }
}
