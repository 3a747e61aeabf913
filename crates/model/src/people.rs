//! Users of a team with their machines, and sessions at work.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Agent, ContentLevel, Millis, SessionRow, Text, Usage};

/// Schema version of [`People`].
pub const PEOPLE_SCHEMA: &str = "subscope.people/1";
/// Schema version of [`WorkingSessions`].
pub const WORKING_SCHEMA: &str = "subscope.working/1";

/// Users with their machines, the latest event first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct People {
    /// Always `subscope.people/1`.
    pub schema: Text,
    /// One for each machine of a user.
    pub rows: Vec<PersonMachine>,
    /// Whether there are more rows than an answer has.
    pub has_more: bool,
}

/// A user on a machine. Sums are over the days that were asked for; the rest is over all sessions that are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PersonMachine {
    /// The user.
    pub user: Text,
    /// The user's team, as of the latest session; empty without one.
    pub team: Text,
    /// The machine.
    pub machine: Text,
    /// Level of content of the session that was sent last; `None` if an earlier version of the server stored it.
    pub level: Option<ContentLevel>,
    /// Harnesses of the sessions, by name.
    pub harnesses: Vec<Text>,
    /// Time of the last event of all sessions.
    pub last_event_at_ms: Option<Millis>,
    /// Time at which the machine last saved a session that it sent.
    pub last_saved_at_ms: Option<Millis>,
    /// Number of sessions at work that the machine has saved in the last hour.
    pub working: u64,
    /// Number of sessions.
    pub sessions: u64,
    /// Number of subagents: the main agent of a session is counted as the session.
    pub agents: u64,
    /// Number of calls.
    pub tool_calls: u64,
    /// Number of failed calls.
    pub tool_errors: u64,
    /// Tokens.
    pub usage: Usage,
    /// Their cost, as far as prices are known.
    pub cost_micro_usd: i64,
    /// Whether the cost is a lower bound.
    pub cost_floor: bool,
}

/// Sessions at work, the newest event first.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WorkingSessions {
    /// Always `subscope.working/1`.
    pub schema: Text,
    /// The sessions.
    pub sessions: Vec<WorkingSession>,
    /// Whether there are more than an answer has.
    pub has_more: bool,
}

/// A session at work, as its machine sent it last.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WorkingSession {
    /// Its row in lists.
    #[serde(flatten)]
    pub row: SessionRow,
    /// Its agents at work without prompts, results and calls that have ended: those that wait for a person first, then
    /// those that are stalled, then those that began something last. At most four.
    pub working: Vec<Agent>,
}
