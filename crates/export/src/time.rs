//! Points in time as text.

use subscope_model::Millis;

/// Returns a time as ISO 8601 in UTC with milliseconds (`2026-11-21T20:45:06.647Z`).
///
/// Every value has a text; years beyond 9999 take as many digits as they need.
pub(crate) fn iso8601(at_ms: Millis) -> String {
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
    use proptest::prelude::*;
    use subscope_model::parse_rfc3339;

    use super::*;

    #[test]
    fn write_time_gives_utc_with_milliseconds() {
        assert_eq!(iso8601(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso8601(1_795_293_906_647), "2026-11-21T20:45:06.647Z");
        assert_eq!(iso8601(1_709_164_800_000), "2024-02-29T00:00:00.000Z");
        assert_eq!(iso8601(-1), "1969-12-31T23:59:59.999Z");
    }

    proptest! {
        #[test]
        fn write_time_comes_back(at_ms in 0..253_402_300_800_000i64) {
            prop_assert_eq!(parse_rfc3339(&iso8601(at_ms)), Some(at_ms));
        }

        #[test]
        fn write_any_number_gives_text(at_ms in any::<i64>()) {
            prop_assert!(iso8601(at_ms).ends_with('Z'));
        }
    }
}
