//! Sessions as a list shows them, and figures over many of them.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use crate::{Agent, MicroUsd, Millis, SessionId, Text, Tree, Usage};

/// The version word of a list of sessions as JSON.
pub const SESSIONS_SCHEMA: &str = "subscope.sessions/1";

/// The version word of [`Stats`]' JSON.
pub const STATS_SCHEMA: &str = "subscope.stats/1";

/// Whether a session is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionStatus {
    /// The root or one of its subagents is at work.
    Live,
    /// All have ended, or the root waits for a person's next prompt.
    Ended,
}

/// One line of a list of sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRow {
    /// The harness's own id.
    pub id: SessionId,
    /// The harness.
    pub harness: Option<Text>,
    /// The working directory of the root.
    pub cwd: Option<Text>,
    /// The first prompt, one line.
    pub title: Option<Text>,
    /// Whether it is at work.
    pub status: SessionStatus,
    /// When the first event happened.
    pub started_at_ms: Option<Millis>,
    /// When the last event happened.
    pub last_event_at_ms: Option<Millis>,
    /// How many prompts of the user started a run.
    pub runs: u32,
    /// How many subagents there are.
    pub agents: u32,
    /// How many of them have not ended.
    pub running: u32,
    /// How many of them failed.
    pub failed: u32,
    /// All tool calls, the root's too.
    pub tool_calls: u32,
    /// All tokens; `None` where no source told any.
    pub usage: Option<Usage>,
    /// What they cost; `None` where no price is known.
    pub cost_micro_usd: Option<MicroUsd>,
    /// When something new of it was last kept, by the clock of whoever keeps it; `None` where that is not known. Times of its
    /// events do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_at_ms: Option<Millis>,
}

impl SessionRow {
    /// Returns a tree's line.
    pub fn of(tree: &Tree) -> Self {
        let (session, summary) = (&tree.session, &tree.summary);
        let is_live = tree.agents.iter().any(Agent::is_at_work);
        Self {
            id: session.id.clone(),
            harness: session.harness.clone(),
            cwd: session.cwd.clone(),
            title: session.title.clone(),
            status: if is_live { SessionStatus::Live } else { SessionStatus::Ended },
            started_at_ms: session.started_at_ms,
            last_event_at_ms: session.ended_at_ms,
            runs: session.runs,
            agents: summary.agents,
            running: summary.running,
            failed: summary.failed,
            tool_calls: summary.tool_calls,
            usage: summary.usage,
            cost_micro_usd: summary.cost_micro_usd,
            kept_at_ms: None,
        }
    }

    /// Returns where it stands in a list: the newest first by the last event, then by id.
    pub fn place(&self) -> (Reverse<Millis>, SessionId) {
        (Reverse(self.last_event_at_ms.unwrap_or(0)), self.id.clone())
    }

    /// Whether it stands behind the row with this last event and id.
    pub fn is_behind(&self, at: Millis, id: &SessionId) -> bool {
        self.place() > (Reverse(at), id.clone())
    }
}

/// Figures of everything that shares one name: a type of agents, a tool, a model, a day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatsRow {
    /// What they share.
    pub name: Text,
    /// In how many sessions it occurs.
    pub sessions: u64,
    /// How many agents, the root too; 0 for tools.
    pub agents: u64,
    /// How many tool calls.
    pub tool_calls: u64,
    /// How many of them failed.
    pub tool_errors: u64,
    /// How many of them were denied.
    pub tools_denied: u64,
    /// Time at work: of agents, or of the tool's calls.
    pub busy_ms: u64,
    /// Tokens; none for tools.
    pub usage: Usage,
    /// What they cost, as far as prices are known.
    pub cost_micro_usd: u64,
}

/// Figures over everything that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Always [`STATS_SCHEMA`].
    pub schema: Text,
    /// Everything.
    pub total: StatsRow,
    /// By type of agent, `main` for roots; most tokens first.
    pub by_type: Vec<StatsRow>,
    /// By tool; most calls first.
    pub by_tool: Vec<StatsRow>,
    /// By model; most tokens first.
    pub by_model: Vec<StatsRow>,
    /// By day (UTC, `2026-11-22`), newest first.
    pub by_day: Vec<StatsRow>,
}
