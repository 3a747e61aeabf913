//! Points in time: integer milliseconds since the Unix epoch.

/// Milliseconds since the Unix epoch, UTC.
pub type Millis = i64;

/// Parses an RFC 3339 timestamp (`2026-11-21T20:45:06.647Z`, an offset instead of `Z`, any number of fraction digits)
/// to milliseconds since the epoch, truncating finer digits. Returns `None` for anything else, and for years outside
/// 1970–9999.
pub fn parse_rfc3339(text: &str) -> Option<Millis> {
    let bytes = text.as_bytes();
    if bytes.len() < 20 || bytes[4] != b'-' || bytes[7] != b'-' || bytes[13] != b':' || bytes[16] != b':' {
        return None;
    }
    if !matches!(bytes[10], b'T' | b't' | b' ') {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<i64> {
        bytes[from..to]
            .iter()
            .try_fold(0i64, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut at = 19;
    let mut millis = 0;
    if bytes.get(at) == Some(&b'.') {
        at += 1;
        let mut scale = 100;
        let start = at;
        while let Some(digit) = bytes.get(at).filter(|byte| byte.is_ascii_digit()) {
            millis += i64::from(digit - b'0') * scale;
            scale /= 10;
            at += 1;
        }
        if at == start {
            return None;
        }
    }
    let offset_minutes = match bytes.get(at)? {
        b'Z' | b'z' if at + 1 == bytes.len() => 0,
        sign @ (b'+' | b'-') if at + 6 == bytes.len() && bytes[at + 3] == b':' => {
            let minutes = number(at + 1, at + 3)? * 60 + number(at + 4, at + 6)?;
            if *sign == b'+' { minutes } else { -minutes }
        }
        _ => return None,
    };
    let days = days_since_epoch(year, month, day);
    Some((((days * 24 + hour) * 60 + minute - offset_minutes) * 60 + second) * 1000 + millis)
}

/// Begin of the year 10000, the first that RFC 3339 cannot write.
const END_OF_TIME: f64 = 253_402_300_800_000.0;

/// Parses the time of a published event from its JSON: an RFC 3339 text, or milliseconds since the epoch, of which a
/// fraction is cut. Returns `None` for anything else, and for years outside 1970–9999.
pub fn parse_event_time(json: &str) -> Option<Millis> {
    match json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(text) => parse_rfc3339(text),
        None => {
            let millis: f64 = json.parse().ok()?;
            (0.0..END_OF_TIME).contains(&millis).then_some(millis as Millis)
        }
    }
}

/// Returns days from 1970-01-01 in the proleptic Gregorian calendar.
/// Source of the rule: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `days_from_civil`.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Formats a time as ISO 8601 in UTC with milliseconds (`2026-11-21T20:45:06.647Z`).
///
/// Never fails; years beyond 9999 take as many digits as they need.
pub fn iso8601(at_ms: Millis) -> String {
    let (days, rest) = (at_ms.div_euclid(86_400_000), at_ms.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", rest % 1000)
}

/// Returns year, month and day of a day counted from 1970-01-01.
/// Source of the rule: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_timestamp_gives_epoch_millis() {
        assert_eq!(parse_rfc3339("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(parse_rfc3339("2026-11-21T20:45:06.647Z"), Some(1_795_293_906_647));
        assert_eq!(parse_rfc3339("2026-11-21T20:45:06.6479999Z"), Some(1_795_293_906_647));
        assert_eq!(parse_rfc3339("2026-11-21T22:45:06.647+02:00"), Some(1_795_293_906_647));
        assert_eq!(parse_rfc3339("2024-02-29T00:00:00Z"), Some(1_709_164_800_000));
    }

    #[test]
    fn read_other_text_gives_none() {
        for text in
            ["", "now", "2026-11-21", "2026-13-01T00:00:00Z", "2026-11-21T20:45:06", "2026-11-21T20:45:06.Z"]
        {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }

    #[test]
    fn time_of_an_event_is_text_or_a_number_of_milliseconds() {
        for (json, time) in [
            (r#""2026-11-21T20:45:06.647Z""#, Some(1_795_293_906_647)),
            ("1795293906647", Some(1_795_293_906_647)),
            ("1795293906647.9", Some(1_795_293_906_647)),
            ("0", Some(0)),
            (r#""yesterday""#, None),
            (r#""""#, None),
            ("-5", None),
            ("1e300", None),
            ("true", None),
            ("null", None),
            ("{}", None),
        ] {
            assert_eq!(parse_event_time(json), time, "{json}");
        }
    }

    #[test]
    fn write_time_gives_utc_with_milliseconds() {
        for day in 0..60_000 {
            let time = day * 86_400_000 + 12_345_678;
            assert_eq!(parse_rfc3339(&iso8601(time)), Some(time));
        }
        assert_eq!(iso8601(951_782_400_007), "2000-02-29T00:00:00.007Z");
        assert_eq!(iso8601(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso8601(1_795_293_906_647), "2026-11-21T20:45:06.647Z");
        assert_eq!(iso8601(1_709_164_800_000), "2024-02-29T00:00:00.000Z");
        assert_eq!(iso8601(-1), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn write_time_comes_back_and_any_number_has_a_text() {
        for at_ms in (0..253_402_300_800_000i64).step_by(3_155_692_597_470 / 97) {
            assert_eq!(parse_rfc3339(&iso8601(at_ms)), Some(at_ms));
        }
        for at_ms in [Millis::MIN, Millis::MAX, -1_000_000_000_000_000] {
            assert!(iso8601(at_ms).ends_with('Z'), "{at_ms}");
        }
    }
}
