//! Rows of session lists, and statistics over sessions.

use std::{cmp::Reverse, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    Agent, AgentId, AgentStatus, Attention, Flag, MicroUsd, Millis, Problem, SessionId, SessionNeed, Text,
    ToolStatus, Tree, Usage, Zone, tree::agent_title, zone::is_unnamed,
};

/// Schema version of session lists.
pub const SESSIONS_SCHEMA: &str = "subscope.sessions/1";

/// Schema version of [`Stats`].
pub const STATS_SCHEMA: &str = "subscope.stats/1";

/// Most characters of a prompt in a title.
const TITLE_CHARS: usize = 120;

/// Whether a session is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SessionStatus {
    /// The root or one of its subagents is at work.
    Live,
    /// All have ended, or the root waits for the user's next prompt.
    Ended,
}

/// One row of a session list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SessionRow {
    /// The harness's own id.
    pub id: SessionId,
    /// The harness.
    pub harness: Option<Text>,
    /// The working directory of the root.
    pub cwd: Option<Text>,
    /// The first prompt, one line; of a session without one, what its main agent is called, else its first subagent.
    pub title: Option<Text>,
    /// Whether it is at work.
    pub status: SessionStatus,
    /// How urgently it needs a person.
    #[serde(default)]
    pub attention: Attention,
    /// What it needs of a person; `None` if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need: Option<SessionNeed>,
    /// Time of the first event.
    pub started_at_ms: Option<Millis>,
    /// Time of the last event.
    pub last_event_at_ms: Option<Millis>,
    /// Number of runs: prompts of the user that started one.
    pub runs: u32,
    /// Number of subagents.
    pub agents: u32,
    /// Number of subagents that have not ended.
    pub running: u32,
    /// Number of failed subagents.
    pub failed: u32,
    /// Number of tool calls, including the root's.
    pub tool_calls: u32,
    /// Number of them that failed; `None` in rows stored by older versions, as the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_errors: Option<u32>,
    /// Number of them that were denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_denied: Option<u32>,
    /// All tokens; `None` if unknown.
    pub usage: Option<Usage>,
    /// Their cost; `None` if no price is known.
    pub cost_micro_usd: Option<MicroUsd>,
    /// Whether the cost is a lower bound.
    #[serde(default)]
    pub cost_floor: bool,
    /// Whether the harness started it for its own purpose (a check, a title): it is billed, and no session of the user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_own: bool,
    /// Status of the root; `None` in rows stored by older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<AgentStatus>,
    /// Time at which the store last saved a change of it (by the store's clock, not by event times); `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_at_ms: Option<Millis>,
    /// What is wrong with what is stored of it, if anything: the row may then be older than the session, or lack figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Text>,
    /// The machine that it ran on: in a team's store, and of the sessions of another machine (`[[remote]]`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Text>,
    /// Time at which that other machine was last heard, while it is not connected: what ran then may have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heard_ms: Option<Millis>,
    /// Its user; only in a team's store, as the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Text>,
    /// The user's team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<Text>,
    /// Its project: in a team's store its name; else the folder of the project, if `cwd` is in a linked work tree, as
    /// [`crate::Session::project`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<Text>,
}

/// Returns what the main agent of a session is called, if the program names it.
fn main_agent(tree: &Tree) -> Option<Text> {
    let root = tree.agents.iter().find(|agent| agent.id.is_root())?;
    let known = agent_title(root.agent_type.as_deref(), root.name.as_deref(), root.description.as_deref());
    known.map(Text::from)
}

/// Returns what the first subagent of a session is, and what it was asked: one line.
fn first_agent(tree: &Tree) -> Option<Text> {
    let first = tree.agents.iter().find(|agent| !agent.id.is_root() && !agent.has(Flag::Warmup))?;
    let asked = first.prompt.as_deref().filter(|_| first.description.is_none());
    let asked = asked.and_then(|prompt| prompt.lines().map(str::trim).find(|line| !line.is_empty()));
    let asked = asked.map(|line| format!(": {}", line.chars().take(TITLE_CHARS).collect::<String>()));
    Some(format!("{}{}", first.title(), asked.unwrap_or_default()).into())
}

impl SessionRow {
    /// What a word of [`Self::matches`] begins with that asks for a harness by name.
    pub const HARNESS: &str = "harness:";

    /// What a word of [`Self::matches`] begins with that asks for the sessions of another machine by its name.
    pub const MACHINE: &str = "machine:";

    /// A word of [`Self::matches`] that asks for the sessions that a harness started by itself, too.
    pub const WITH_OWN: &str = "own:";

    /// A word of [`Self::matches`] that asks for the sessions in which an agent failed.
    pub const FAILED: &str = "failed:";

    /// A word of [`Self::matches`] that asks for the sessions in which a call was denied.
    pub const DENIED: &str = "denied:";

    /// Whether words of a search ask for the sessions that a harness started by itself, too.
    pub fn asks_for_own(words: &str) -> bool {
        words.split_whitespace().any(|word| word == Self::WITH_OWN)
    }

    /// Returns the row of a tree.
    pub fn of(tree: &Tree) -> Self {
        let (session, summary) = (&tree.session, &tree.summary);
        let need = SessionNeed::of(&tree.agents, session.run_started_at_ms);
        let need = need.filter(|_| session.last_heard_ms.is_none());
        let attention = Attention::of(&tree.agents, need.as_ref());
        Self {
            id: session.id.clone(),
            harness: session.harness.clone(),
            cwd: session.cwd.clone(),
            title: session.title.clone().or_else(|| main_agent(tree)).or_else(|| first_agent(tree)),
            status: if attention == Attention::Ended { SessionStatus::Ended } else { SessionStatus::Live },
            attention,
            need,
            started_at_ms: session.started_at_ms,
            last_event_at_ms: session.ended_at_ms,
            runs: session.runs,
            agents: summary.agents,
            running: summary.running,
            failed: summary.failed,
            tool_calls: summary.tool_calls,
            tool_errors: Some(summary.tool_errors),
            tools_denied: Some(summary.tools_denied),
            usage: summary.usage,
            cost_micro_usd: summary.cost_micro_usd,
            cost_floor: summary.cost_floor,
            is_own: tree.agents.iter().any(|agent| agent.id.is_root() && agent.has(Flag::Warmup)),
            root: tree.agents.iter().find(|agent| agent.id.is_root()).map(|root| root.status),
            kept_at_ms: None,
            problem: None,
            machine: session.machine.clone(),
            last_heard_ms: session.last_heard_ms,
            user: None,
            team: None,
            project: session.project.clone(),
        }
    }

    /// Returns its project: the folder of the main work tree or its working directory; in a team's store its name.
    pub fn project(&self) -> Option<&Text> {
        self.project.as_ref().or(self.cwd.as_ref())
    }

    /// Returns the row of a session of which only the id is known.
    pub fn empty(id: SessionId) -> Self {
        Self {
            id,
            harness: None,
            cwd: None,
            title: None,
            status: SessionStatus::Ended,
            attention: Attention::Ended,
            need: None,
            started_at_ms: None,
            last_event_at_ms: None,
            runs: 0,
            agents: 0,
            running: 0,
            failed: 0,
            tool_calls: 0,
            tool_errors: None,
            tools_denied: None,
            usage: None,
            cost_micro_usd: None,
            cost_floor: false,
            is_own: false,
            root: None,
            kept_at_ms: None,
            problem: None,
            machine: None,
            last_heard_ms: None,
            user: None,
            team: None,
            project: None,
        }
    }

    /// Whether title, directory, id or harness have each of these words, which are separated by spaces. Case is ignored.
    /// A word `harness:NAME` asks for the sessions of that harness, `machine:NAME` for those of that other machine, [`Self::FAILED`] and [`Self::DENIED`] for those with
    /// such an agent or call; [`Self::WITH_OWN`] matches all.
    pub fn matches(&self, words: &str) -> bool {
        let fields = [self.title.as_deref(), self.cwd.as_deref(), Some(&*self.id), self.harness.as_deref()];
        let text = fields.map(|field| field.unwrap_or_default().to_lowercase()).join("\n");
        words.split_whitespace().all(|word| match word {
            Self::WITH_OWN => true,
            Self::FAILED => self.failed > 0 || self.root == Some(AgentStatus::Failed),
            Self::DENIED => self.tools_denied > Some(0),
            _ => match (word.strip_prefix(Self::HARNESS), word.strip_prefix(Self::MACHINE)) {
                (Some(name), _) => self.harness.as_deref() == Some(name),
                (None, Some(name)) => self.machine.as_deref() == Some(name),
                (None, None) => text.contains(&word.to_lowercase()),
            },
        })
    }

    /// Whether it ran in a folder or below it, or in a work tree of a project there.
    pub fn is_of_project(&self, folder: &str) -> bool {
        [&self.cwd, &self.project].into_iter().flatten().any(|place| Path::new(&**place).starts_with(folder))
    }

    /// Returns the time from its first event to its last in milliseconds; `None` if unknown.
    pub fn duration_ms(&self) -> Option<Millis> {
        Some(self.last_event_at_ms? - self.started_at_ms?)
    }

    /// Returns the sort key of lists in the default order, as [`SessionOrder::place`].
    pub fn place(&self) -> (Reverse<i64>, SessionId) {
        SessionOrder::Newest.place(self)
    }
}

/// The order of a session list: the greatest figure first, then by id. Sessions without the figure come last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SessionOrder {
    /// By the last event.
    #[default]
    Newest,
    /// By cost.
    Cost,
    /// By number of tokens.
    Tokens,
    /// By the time from the first event to the last.
    Duration,
    /// By number of subagents.
    Agents,
    /// By number of tool calls.
    Calls,
    /// By number of failed tool calls.
    Errors,
    /// By number of denied tool calls.
    Denied,
}

impl SessionOrder {
    /// All orders.
    pub const ALL: [Self; 8] = [
        Self::Newest,
        Self::Cost,
        Self::Tokens,
        Self::Duration,
        Self::Agents,
        Self::Calls,
        Self::Errors,
        Self::Denied,
    ];

    /// Returns its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::Cost => "cost",
            Self::Tokens => "tokens",
            Self::Duration => "duration",
            Self::Agents => "agents",
            Self::Calls => "calls",
            Self::Errors => "errors",
            Self::Denied => "denied",
        }
    }

    /// Returns the order of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.name() == name)
    }

    /// Returns the figure by which a row is ordered; -1 if it is unknown, and 0 for the time of the last event.
    pub fn figure(self, row: &SessionRow) -> i64 {
        let tokens = |usage: Usage| i64::try_from(usage.total_tokens).unwrap_or(i64::MAX);
        match self {
            Self::Newest => return row.last_event_at_ms.unwrap_or(0),
            Self::Cost => row.cost_micro_usd,
            Self::Tokens => row.usage.map(tokens),
            Self::Duration => row.duration_ms(),
            Self::Agents => Some(row.agents.into()),
            Self::Calls => Some(row.tool_calls.into()),
            Self::Errors => row.tool_errors.map(i64::from),
            Self::Denied => row.tools_denied.map(i64::from),
        }
        .unwrap_or(-1)
    }

    /// Returns the sort key of a row.
    pub fn place(self, row: &SessionRow) -> (Reverse<i64>, SessionId) {
        (Reverse(self.figure(row)), row.id.clone())
    }
}

/// Statistics of one group: an agent type, a tool, a model, a day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StatsRow {
    /// Name of the group.
    pub name: Text,
    /// Number of sessions in which it occurs.
    pub sessions: u64,
    /// Number of subagents: the main agent of a session is counted as the session. 0 for tools.
    pub agents: u64,
    /// Number of tool calls.
    pub tool_calls: u64,
    /// Number of failed tool calls.
    pub tool_errors: u64,
    /// Number of denied tool calls.
    pub tools_denied: u64,
    /// Active time of the agents, or of the tool's calls.
    pub busy_ms: u64,
    /// Tokens; 0 for tools.
    pub usage: Usage,
    /// Their cost, as far as prices are known.
    pub cost_micro_usd: u64,
    /// Whether the cost is a lower bound: an agent with tokens has no known cost, or one that is a lower bound.
    #[serde(default)]
    pub cost_floor: bool,
}

impl StatsRow {
    /// Adds an agent's own figures, without its subagents.
    pub fn add_agent(&mut self, agent: &Agent) {
        // What the harness's own agents use is billed, too.
        self.agents += u64::from(agent.is_counted());
        self.tool_calls += u64::from(agent.tool_calls);
        self.tool_errors += u64::from(agent.tool_errors);
        self.tools_denied += u64::from(agent.tools_denied);
        self.busy_ms += agent.wall_ms.and_then(|wall| u64::try_from(wall).ok()).unwrap_or(0);
        self.usage += agent.usage.unwrap_or_default();
        self.cost_micro_usd += agent.cost_micro_usd.and_then(|cost| u64::try_from(cost).ok()).unwrap_or(0);
        let has_tokens = agent.usage.is_some_and(|usage| usage.total_tokens > 0);
        self.cost_floor |= agent.cost_floor || (has_tokens && agent.cost_micro_usd.is_none());
    }
}

/// Which sessions and days statistics cover; everything by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct StatsQuery {
    /// From the day of this time on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Millis>,
    /// Up to the day of this time, that day included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
    /// Only sessions whose root's working directory is this one or lies below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<Text>,
    /// Only sessions of this harness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub harness: Option<Text>,
    /// The zone whose days are counted; without it, that of the process that answers.
    #[serde(skip_serializing_if = "is_unnamed")]
    #[schemars(with = "Option<String>")]
    pub time_zone: Option<Zone>,
}

/// What the rows of statistics are grouped by.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum StatsGroup {
    /// Type of agent, `main` for roots.
    Type,
    /// Model.
    Model,
    /// Working directory of the root.
    Project,
    /// Harness.
    Harness,
}

/// Statistics of one group on one day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DayGroup {
    /// The day (`2026-11-22`).
    pub day: Text,
    /// What the group is: a type of agent, a model, a project or a harness.
    pub by: StatsGroup,
    /// Its figures on that day.
    pub row: StatsRow,
}

/// A tool call that took long. Calls that start an agent are left out: their time is the agent's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SlowCall {
    /// Its session.
    pub session_id: SessionId,
    /// Title of the session.
    pub session_title: Option<Text>,
    /// Its agent.
    pub agent_id: AgentId,
    /// Display name of the agent.
    pub agent: String,
    /// The tool.
    pub tool: Text,
    /// Short description of its target, as in the tree.
    pub detail: Option<Text>,
    /// How it ended.
    pub status: ToolStatus,
    /// Start time.
    pub started_at_ms: Millis,
    /// From start to end.
    pub duration_ms: i64,
}

/// A session, or an agent of one, in a list of those with the greatest figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TopRow {
    /// The session.
    pub session_id: SessionId,
    /// Title of the session.
    pub session_title: Option<Text>,
    /// The agent; `None` for a whole session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// Start of the agent; `None` for a session, and if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<Millis>,
    /// Figures: of a session those of the days that are covered, of an agent all of its own. The name is the agent's display
    /// name, or the session's title.
    pub row: StatsRow,
}

impl TopRow {
    /// Number of [`Self::measures`].
    pub const MEASURES: usize = 5;

    /// What the lists are ordered by: cost, tokens, active time, failed calls, denied calls.
    pub fn measures(&self) -> [u64; Self::MEASURES] {
        let row = &self.row;
        [row.cost_micro_usd, row.usage.total_tokens, row.busy_ms, row.tool_errors, row.tools_denied]
    }
}

/// How many agents were at work at the same time, by spans of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Concurrency {
    /// Length of a span.
    pub span_ms: Millis,
    /// Spans in which an agent was at work, in order of time.
    pub spans: Vec<ConcurrencySpan>,
}

/// A span of time, with the greatest numbers at work in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ConcurrencySpan {
    /// Its start.
    pub at_ms: Millis,
    /// The greatest number of agents, roots included, that were at work at the same moment of it.
    pub agents: u32,
    /// The greatest number of sessions with an agent at work at the same moment of it.
    pub sessions: u32,
}

/// Statistics over all stored sessions, or over those that a query selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Stats {
    /// Always [`STATS_SCHEMA`].
    pub schema: Text,
    /// The zone whose days are counted: `Europe/Berlin`, `UTC`; `local` if it has no name. Empty from a team's server,
    /// where each session counts on the days of its own machine.
    #[serde(default)]
    pub time_zone: Text,
    /// Totals.
    pub total: StatsRow,
    /// By type of agent, `main` for roots; most tokens first.
    pub by_type: Vec<StatsRow>,
    /// By tool; most calls first.
    pub by_tool: Vec<StatsRow>,
    /// By model; most tokens first.
    pub by_model: Vec<StatsRow>,
    /// By day of `time_zone` (`2026-11-22`), newest first.
    pub by_day: Vec<StatsRow>,
    /// By working directory of the root; most tokens first.
    #[serde(default)]
    pub by_project: Vec<StatsRow>,
    /// By harness; most tokens first.
    #[serde(default)]
    pub by_harness: Vec<StatsRow>,
    /// By day and group, for charts: days in order of time, then groups, then names.
    #[serde(default)]
    pub days: Vec<DayGroup>,
    /// The slowest calls, the slowest first; at most 20, and at most 5 of a session.
    #[serde(default)]
    pub slowest: Vec<SlowCall>,
    /// The sessions with the greatest cost, tokens, active time and numbers of failed and denied calls, 10 by each; the dearest first.
    #[serde(default)]
    pub top_sessions: Vec<TopRow>,
    /// The subagents likewise, at most 5 of a session by each; an agent counts on the day on which it started.
    #[serde(default)]
    pub top_agents: Vec<TopRow>,
    /// How many agents were at work at the same time.
    #[serde(default)]
    pub concurrency: Concurrency,
    /// Names of the fields that this store cannot answer: they are empty for that reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<Text>,
    /// What is wrong with stored rows, if anything, and which sessions the figures lack for that reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_of_its_folder_and_of_those_above_and_not_of_one_that_begins_alike() {
        let row = |cwd: Option<&str>, project: Option<&str>| SessionRow {
            cwd: cwd.map(Text::from),
            project: project.map(Text::from),
            ..SessionRow::empty("s".into())
        };
        assert!(
            row(Some("/a/b"), None).is_of_project("/a/b") && row(Some("/a/b/c"), None).is_of_project("/a/b")
        );
        assert!(row(Some("/tree"), Some("/a/b")).is_of_project("/a"));
        assert!(!row(Some("/a/bc"), None).is_of_project("/a/b") && !row(None, None).is_of_project("/a"));
    }

    #[test]
    fn an_unknown_figure_comes_behind_zero() {
        let row = |id: &str, denied: Option<u32>| SessionRow {
            tools_denied: denied,
            ..SessionRow::empty(id.into())
        };
        let mut rows = [row("a", None), row("b", Some(0)), row("c", Some(2))];
        rows.sort_by_key(|row| SessionOrder::Denied.place(row));
        assert_eq!(rows.map(|row| row.id.to_string()), ["c", "b", "a"]);
        assert!(!row("a", None).matches(SessionRow::DENIED) && row("c", Some(2)).matches(SessionRow::DENIED));
    }
}
