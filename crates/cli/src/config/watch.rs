//! Section `[watch]`: output, heartbeats and stall limits.

use std::time::Duration;

use super::{SettingOrigin, SettingRow, Sourced, given::GivenValue, limits::SilenceLimit};
use crate::args::value::{format_duration, parse_duration};

/// Keys of this section.
pub(super) const KEYS: [&str; 6] = [
    "watch.verbose",
    "watch.heartbeat",
    "watch.stall",
    "watch.stall_subagents",
    "watch.stall_open",
    "watch.limits",
];

/// Heartbeat interval (requirement 2.1).
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Allowed heartbeat intervals (requirement 2.1).
const HEARTBEAT_RANGE: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60);
/// Silence after which an agent is stalled (requirement 2.2).
const STALL: Duration = Duration::from_secs(180);
/// The same while a subagent is active (requirement 2.2).
const STALL_SUBAGENTS: Duration = Duration::from_secs(600);
/// The same while a tool call or a question for permission is open (requirement 2.2).
const STALL_OPEN: Duration = Duration::from_secs(30 * 60);

/// Parses a heartbeat interval: 1 s to 60 s.
pub(crate) fn parse_heartbeat(text: &str) -> Result<Duration, String> {
    heartbeat(parse_duration(text)?)
}

/// Parses a stall limit: at least 1 s.
pub(crate) fn parse_limit(text: &str) -> Result<Duration, String> {
    limit(parse_duration(text)?)
}

fn heartbeat(span: Duration) -> Result<Duration, String> {
    let fits = HEARTBEAT_RANGE.contains(&span);
    if fits { Ok(span) } else { Err(format!("{} is not between 1s and 60s", format_duration(span))) }
}

fn limit(span: Duration) -> Result<Duration, String> {
    let fits = span >= Duration::from_secs(1);
    if fits { Ok(span) } else { Err(format!("{} is less than 1s", format_duration(span))) }
}

/// One layer of this section.
#[derive(Debug, Default)]
pub(crate) struct RawWatch {
    /// `verbose`, `--verbose`.
    pub(crate) verbose: Option<Sourced<bool>>,
    /// `heartbeat`, `--heartbeat`.
    pub(crate) heartbeat: Option<Sourced<Duration>>,
    /// `stall`, `--stall`.
    pub(crate) stall: Option<Sourced<Duration>>,
    /// `stall_subagents`, `--stall-subagents`.
    pub(crate) stall_subagents: Option<Sourced<Duration>>,
    /// `stall_open`.
    pub(crate) stall_open: Option<Sourced<Duration>>,
    /// `limits`.
    pub(crate) limits: Option<Sourced<Vec<SilenceLimit>>>,
}

impl RawWatch {
    /// Sets one setting. Returns false if it is not of this section.
    pub(super) fn set(
        &mut self,
        key: &str,
        given: GivenValue<'_>,
        origin: &SettingOrigin,
    ) -> Result<bool, String> {
        match key {
            "watch.verbose" => self.verbose = Some(Sourced::new(given.switch()?, origin)),
            "watch.heartbeat" => self.heartbeat = Some(Sourced::new(heartbeat(given.span()?)?, origin)),
            "watch.stall" => self.stall = Some(Sourced::new(limit(given.span()?)?, origin)),
            "watch.stall_subagents" => {
                self.stall_subagents = Some(Sourced::new(limit(given.span()?)?, origin));
            }
            "watch.stall_open" => self.stall_open = Some(Sourced::new(limit(given.span()?)?, origin)),
            "watch.limits" => {
                let rules: Result<Vec<SilenceLimit>, String> =
                    given.list()?.iter().map(|text| SilenceLimit::parse(text)).collect();
                self.limits = Some(Sourced::new(rules?, origin));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Merges this layer over a lower one.
    pub(super) fn over(self, lower: Self) -> Self {
        Self {
            verbose: self.verbose.or(lower.verbose),
            heartbeat: self.heartbeat.or(lower.heartbeat),
            stall: self.stall.or(lower.stall),
            stall_subagents: self.stall_subagents.or(lower.stall_subagents),
            stall_open: self.stall_open.or(lower.stall_open),
            limits: self.limits.or(lower.limits),
        }
    }
}

/// Effective settings of this section.
#[derive(Debug)]
pub(crate) struct WatchSettings {
    /// Whether payloads are printed in full.
    pub(crate) verbose: Sourced<bool>,
    /// Heartbeat interval.
    pub(crate) heartbeat: Sourced<Duration>,
    /// Silence after which an agent is stalled.
    pub(crate) stall: Sourced<Duration>,
    /// The same while a subagent is active.
    pub(crate) stall_subagents: Sourced<Duration>,
    /// The same while a tool call or a question for permission is open.
    pub(crate) stall_open: Sourced<Duration>,
    /// Different limits for some harnesses and models.
    pub(crate) limits: Sourced<Vec<SilenceLimit>>,
}

impl WatchSettings {
    /// Returns the settings as rows for display.
    pub(super) fn rows(&self) -> [SettingRow; 6] {
        let rules: Vec<&str> = self.limits.value.iter().map(SilenceLimit::text).collect();
        let span =
            |key, span: &Sourced<Duration>| SettingRow::new(key, format_duration(span.value), &span.origin);
        [
            SettingRow::new("watch.verbose", self.verbose.value, &self.verbose.origin),
            span("watch.heartbeat", &self.heartbeat),
            span("watch.stall", &self.stall),
            span("watch.stall_subagents", &self.stall_subagents),
            span("watch.stall_open", &self.stall_open),
            SettingRow::new("watch.limits", rules, &self.limits.origin),
        ]
    }
}

impl From<RawWatch> for WatchSettings {
    fn from(raw: RawWatch) -> Self {
        Self {
            verbose: raw.verbose.unwrap_or(Sourced::built_in(false)),
            heartbeat: raw.heartbeat.unwrap_or(Sourced::built_in(HEARTBEAT)),
            stall: raw.stall.unwrap_or(Sourced::built_in(STALL)),
            stall_subagents: raw.stall_subagents.unwrap_or(Sourced::built_in(STALL_SUBAGENTS)),
            stall_open: raw.stall_open.unwrap_or(Sourced::built_in(STALL_OPEN)),
            limits: raw.limits.unwrap_or(Sourced::built_in(Vec::new())),
        }
    }
}
