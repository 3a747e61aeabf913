//! How `watch` prints and when it warns: the section `[watch]`.

use std::time::Duration;

use super::{Origin, Shown, Sourced, given::Given, limits::Rule};
use crate::args::value::{parse_duration, show_duration};

/// The section's settings.
pub(super) const KEYS: [&str; 6] = [
    "watch.verbose",
    "watch.heartbeat",
    "watch.stall",
    "watch.stall_subagents",
    "watch.stall_open",
    "watch.limits",
];

/// Time between two signs of life (requirement 2.1).
const HEARTBEAT: Duration = Duration::from_secs(10);
/// What a heartbeat may be set to (requirement 2.1).
const HEARTBEAT_RANGE: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60);
/// Silence that is a stall (requirement 2.2).
const STALL: Duration = Duration::from_secs(180);
/// Silence that is a stall while a subagent is active (requirement 2.2).
const STALL_SUBAGENTS: Duration = Duration::from_secs(600);
/// The same while a tool call or a question for permission is open (requirement 2.2).
const STALL_OPEN: Duration = Duration::from_secs(30 * 60);

/// Reads the time between two signs of life: 1 s to 60 s.
pub(crate) fn parse_heartbeat(text: &str) -> Result<Duration, String> {
    heartbeat(parse_duration(text)?)
}

/// Reads a limit of silence: at least 1 s.
pub(crate) fn parse_limit(text: &str) -> Result<Duration, String> {
    limit(parse_duration(text)?)
}

fn heartbeat(span: Duration) -> Result<Duration, String> {
    let fits = HEARTBEAT_RANGE.contains(&span);
    if fits { Ok(span) } else { Err(format!("{} is not between 1s and 60s", show_duration(span))) }
}

fn limit(span: Duration) -> Result<Duration, String> {
    let fits = span >= Duration::from_secs(1);
    if fits { Ok(span) } else { Err(format!("{} is less than 1s", show_duration(span))) }
}

/// One layer.
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
    pub(crate) limits: Option<Sourced<Vec<Rule>>>,
}

impl RawWatch {
    /// Sets one setting; gives whether it is one of this section's.
    pub(super) fn set(&mut self, key: &str, given: Given<'_>, origin: &Origin) -> Result<bool, String> {
        match key {
            "watch.verbose" => self.verbose = Some(Sourced::new(given.switch()?, origin)),
            "watch.heartbeat" => self.heartbeat = Some(Sourced::new(heartbeat(given.span()?)?, origin)),
            "watch.stall" => self.stall = Some(Sourced::new(limit(given.span()?)?, origin)),
            "watch.stall_subagents" => {
                self.stall_subagents = Some(Sourced::new(limit(given.span()?)?, origin));
            }
            "watch.stall_open" => self.stall_open = Some(Sourced::new(limit(given.span()?)?, origin)),
            "watch.limits" => {
                let rules: Result<Vec<Rule>, String> =
                    given.list()?.iter().map(|text| Rule::parse(text)).collect();
                self.limits = Some(Sourced::new(rules?, origin));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns this layer over a lower one.
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

/// What holds.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Whether payloads are printed whole.
    pub(crate) verbose: Sourced<bool>,
    /// Time between two signs of life.
    pub(crate) heartbeat: Sourced<Duration>,
    /// Silence of a session that is a stall.
    pub(crate) stall: Sourced<Duration>,
    /// The same while a subagent is active.
    pub(crate) stall_subagents: Sourced<Duration>,
    /// The same while a tool call or a question for permission is open.
    pub(crate) stall_open: Sourced<Duration>,
    /// Other limits for some harnesses and models.
    pub(crate) limits: Sourced<Vec<Rule>>,
}

impl Watch {
    /// Returns the settings for people.
    pub(super) fn rows(&self) -> [Shown; 6] {
        let rules: Vec<&str> = self.limits.value.iter().map(Rule::text).collect();
        let span = |key, span: &Sourced<Duration>| Shown::new(key, show_duration(span.value), &span.origin);
        [
            Shown::new("watch.verbose", self.verbose.value, &self.verbose.origin),
            span("watch.heartbeat", &self.heartbeat),
            span("watch.stall", &self.stall),
            span("watch.stall_subagents", &self.stall_subagents),
            span("watch.stall_open", &self.stall_open),
            Shown::new("watch.limits", rules, &self.limits.origin),
        ]
    }
}

impl From<RawWatch> for Watch {
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
