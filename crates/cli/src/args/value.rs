//! Value types and parsers of options and settings: durations, times, names.

use std::{ffi::OsString, str::FromStr, time::Duration};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use subscope_client::push::{PushError, Receiver};
use subscope_decode::Dialect;
use subscope_harness::{self as harness, dialects};
use subscope_model::{Millis, SessionOrder, Zone, parse_rfc3339};
use subscope_render::Detail;
use subscope_server::{PublicNameError, PublicNames};

/// Longest accepted duration. Longer ones are mistakes, and sums with them would overflow.
const MAX_DURATION: Duration = Duration::from_secs(366 * 24 * 3600);

/// Allowed heartbeat intervals (requirement 2.1).
const HEARTBEAT_RANGE: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60);
/// Shortest stall limit. Also the shortest idle timeout of a hub: one that exits before the command that started it has
/// connected would be restarted endlessly.
const MIN_LIMIT: Duration = Duration::from_secs(1);

const DAY_MS: Millis = 86_400_000;

/// An invalid value of an option or setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ValueError {
    #[error("{0:?} is not a duration: write it as 500ms, 10s, 3m, 1h or 2d")]
    Span(String),
    #[error("{0:?} is longer than 366d")]
    LongSpan(String),
    #[error("{} is less than 1s", format_duration(*.0))]
    ShortLimit(Duration),
    #[error("{} is not between 1s and 60s", format_duration(*.0))]
    Heartbeat(Duration),
    #[error("{0:?} is not a limit: write it as \"claude-opus stall=5m stall_subagents=20m stall_open=1h\"")]
    Limit(String),
    #[error("{0:?} is not a number of days")]
    Days(String),
    #[error("0 days would keep nothing; leave the option out to keep everything")]
    NoDays,
    #[error("{0} is out of range")]
    OutOfRange(String),
    #[error(
        "{0:?} is not a time: write 2026-11-21, 2026-11-21T20:45:06Z, milliseconds since 1970, today, yesterday, or a \
         time ago such as -5m"
    )]
    Time(String),
    #[error("{0:?} is not a speed: write a number from 0.01 to 10000")]
    Speed(String),
    #[error("{0:?} is not a header: write NAME=VALUE, with letters, digits and - in the name")]
    Header(String),
    #[error("the name of a tool has 1 to 64 characters: letters, digits, _, - and .")]
    ToolName,
    #[error("an id must not be blank")]
    BlankId,
    #[error("not a time: write RFC 3339 or milliseconds since 1970")]
    Timestamp,
}

/// Parses a duration: an integer and one of `ms`, `s`, `m`, `h`, `d`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, ValueError> {
    let wrong = || ValueError::Span(text.to_owned());
    let digits = text.find(|character: char| !character.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    let span = Duration::from_millis(number.saturating_mul(unit_ms));
    if span > MAX_DURATION { Err(ValueError::LongSpan(text.to_owned())) } else { Ok(span) }
}

/// Parses a heartbeat interval: 1 s to 60 s.
pub(crate) fn parse_heartbeat(text: &str) -> Result<Duration, ValueError> {
    let span = parse_duration(text)?;
    if HEARTBEAT_RANGE.contains(&span) { Ok(span) } else { Err(ValueError::Heartbeat(span)) }
}

/// Parses a stall limit or idle timeout: at least 1 s.
pub(crate) fn parse_limit(text: &str) -> Result<Duration, ValueError> {
    let span = parse_duration(text)?;
    if span >= MIN_LIMIT { Ok(span) } else { Err(ValueError::ShortLimit(span)) }
}

/// Checks the address of a receiver of spans.
pub(crate) fn parse_receiver(text: &str) -> Result<String, PushError> {
    Receiver::new(text, Vec::new()).map(|_| text.to_owned())
}

/// Checks the address of the page as browsers behind a port forward or a proxy see it.
pub(crate) fn parse_public_url(text: &str) -> Result<String, PublicNameError> {
    PublicNames::new(Some(text), &[], &[]).map(|_| text.to_owned())
}

/// Parses a header of a request, as `NAME=VALUE`.
pub(crate) fn parse_header(text: &str) -> Result<(String, String), ValueError> {
    let (name, value) = text.split_once('=').ok_or_else(|| ValueError::Header(text.to_owned()))?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_valid = !name.is_empty() && name.bytes().all(is_token) && !value.chars().any(char::is_control);
    if !is_valid {
        return Err(ValueError::Header(name.to_owned()));
    }
    Ok((name.to_owned(), value.trim().to_owned()))
}

/// Parses a number of days, at least 1.
pub(crate) fn parse_days(text: &str) -> Result<u32, ValueError> {
    match text.trim().parse() {
        Ok(0) => Err(ValueError::NoDays),
        Ok(days) => Ok(days),
        Err(_) => Err(ValueError::Days(text.to_owned())),
    }
}

/// Formats a duration as [`parse_duration`] reads it, in the largest unit that divides it.
pub(crate) fn format_duration(span: Duration) -> String {
    let ms = span.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms")];
    let fitting = units.into_iter().find(|(unit, _)| ms >= *unit && ms.is_multiple_of(*unit));
    fitting.map_or_else(|| "0s".to_owned(), |(unit, name)| format!("{}{name}", ms / unit))
}

/// A point in time, absolute or relative, as `--at` and `--since` take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Milliseconds since 1970.
    At(Millis),
    /// This long before now.
    Ago(Duration),
    /// The beginning of a day, counted from 1970-01-01.
    Day(i64),
    /// The beginning of the day this many days before today.
    DaysAgo(i64),
}

impl Moment {
    /// Returns the time in milliseconds since 1970. Days are those of the zone.
    pub(crate) fn resolve(self, now_ms: Millis, zone: &Zone) -> Millis {
        match self {
            Self::Day(day) => zone.start_of(day),
            Self::DaysAgo(days) => zone.start_of(zone.day_of(now_ms) - days),
            Self::At(at_ms) => at_ms,
            Self::Ago(span) => {
                now_ms.saturating_sub(Millis::try_from(span.as_millis()).unwrap_or(Millis::MAX))
            }
        }
    }
}

impl FromStr for Moment {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if let Some(span) = text.strip_prefix('-') {
            return parse_duration(span).map(Self::Ago);
        }
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().map(Self::At).map_err(|_| ValueError::OutOfRange(text.to_owned()));
        }
        let day = || {
            let midnight = parse_rfc3339(&format!("{text}T00:00:00Z"))?;
            // A day that its month does not have is read as one of the next.
            Some(midnight.div_euclid(DAY_MS)).filter(|day| Zone::date(*day) == text)
        };
        match text {
            "today" => Ok(Self::DaysAgo(0)),
            "yesterday" => Ok(Self::DaysAgo(1)),
            _ => parse_rfc3339(text)
                .map(Self::At)
                .or_else(|| day().map(Self::Day))
                .ok_or_else(|| ValueError::Time(text.to_owned())),
        }
    }
}

/// Returns the value parser of `--detail`.
pub(crate) fn detail() -> impl TypedValueParser<Value = Detail> {
    PossibleValuesParser::new(Detail::ALL.map(Detail::as_str)).try_map(|word| Detail::from_str(&word))
}

/// Parses the order of a session list.
pub(crate) fn session_order() -> impl TypedValueParser<Value = SessionOrder> {
    PossibleValuesParser::new(SessionOrder::ALL.map(SessionOrder::name))
        .map(|name| SessionOrder::named(&name).unwrap_or_default())
}

/// Returns the value parser of `--dialect`.
pub(crate) fn dialect() -> impl TypedValueParser<Value = Dialect> {
    PossibleValuesParser::new(dialect_names())
        .try_map(|name| harness::dialect(&name).ok_or("an unknown dialect"))
}

/// Dialects of lines that subscope makes itself: nobody has a file of one.
const INTERNAL_DIALECTS: [&str; 4] = ["stop-orders", "process-ends", "executions", "trajectories"];

/// Returns the names of all dialects; the help leaves out those that are only ever internal.
pub(crate) fn dialect_names() -> impl Iterator<Item = PossibleValue> {
    let names = dialects().map(Dialect::as_str);
    names.map(|name| PossibleValue::new(name).hide(INTERNAL_DIALECTS.contains(&name)))
}

/// Parses the speed factor of a replay: 0.01 to 10000.
pub(crate) fn parse_speed(text: &str) -> Result<f64, ValueError> {
    let number = text.strip_suffix(['x', '×']).unwrap_or(text).parse::<f64>().ok();
    let speed = number.filter(|number| (0.01..=10_000.0).contains(number));
    speed.ok_or_else(|| ValueError::Speed(text.to_owned()))
}

/// A word that an option takes, with its help and value.
pub(crate) type Choice<T> = (&'static str, &'static str, T);

/// Returns the value parser of an option that takes one of these words.
pub(crate) fn choice<T, const N: usize>(choices: [Choice<T>; N]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let words = choices.map(|(word, help, _)| PossibleValue::new(word).help(help));
    PossibleValuesParser::new(words).try_map(move |word| {
        let choice = choices.iter().find(|(known, ..)| *known == word);
        choice.map(|(.., value)| *value).ok_or("an unknown word")
    })
}

/// A TARGET argument: a path, a session's id or a unique prefix of it, `last`, or `-` for stdin.
pub(crate) type TargetArg = OsString;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_span_of_each_unit_and_show_it_again() {
        for (text, ms) in
            [("500ms", 500), ("10s", 10_000), ("3m", 180_000), ("1h", 3_600_000), ("2d", 172_800_000)]
        {
            let span = parse_duration(text).unwrap();
            assert_eq!((span, format_duration(span).as_str()), (Duration::from_millis(ms), text));
        }
        assert_eq!(format_duration(Duration::ZERO), "0s");
        assert_eq!(format_duration(Duration::from_millis(90_000)), "90s");
    }

    #[test]
    fn refuse_other_spans() {
        for text in ["", "10", "s", "-5s", "1.5h", "5 m", "1w", "٣s", "367d", "99999999999999999999s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn read_moment_in_each_form() {
        assert_eq!("1970-01-01T00:00:01Z".parse(), Ok(Moment::At(1000)));
        assert_eq!("1795293906647".parse(), Ok(Moment::At(1_795_293_906_647)));
        assert_eq!("-5m".parse(), Ok(Moment::Ago(Duration::from_secs(300))));
        let zone = Zone::named("America/New_York").unwrap();
        let at = |text: &str, now: &str| {
            let resolved = text.parse::<Moment>().unwrap().resolve(parse_rfc3339(now).unwrap(), &zone);
            subscope_model::iso8601(resolved)
        };
        for (text, now, expected) in [
            ("-5m", "2026-11-02T04:59:00Z", "2026-11-02T04:54:00.000Z"),
            ("today", "2026-11-02T04:59:00Z", "2026-11-01T04:00:00.000Z"),
            ("yesterday", "2026-11-02T05:00:00Z", "2026-11-01T04:00:00.000Z"),
            ("2026-11-02", "2026-11-20T00:00:00Z", "2026-11-02T05:00:00.000Z"),
        ] {
            assert_eq!(at(text, now), expected, "{text} at {now}");
        }
        for text in
            ["", "5m", "-5", "tomorrow", "2026-11", "2026-02-30", "2026-11-021", "99999999999999999999"]
        {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
    }

    #[test]
    fn read_speed_above_nothing() {
        assert_eq!(parse_speed("2.5x"), Ok(2.5));
        for text in ["0", "-1", "NaN", "inf", "fast", ""] {
            assert!(parse_speed(text).is_err(), "{text}");
        }
    }
}
