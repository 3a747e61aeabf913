//! The agent tree of a session: the JSON of `subscope tree --json`, and the rows that every frontend draws.
//!
//! Rows are derived from facts; nothing here is ever fed back into them.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use serde::{Deserialize, Serialize};

use crate::{
    Actor, AgentId, Attention, Basis, EndEvidence, MicroUsd, Millis, Payload, Problem, SessionId,
    SessionNeed, Text, ToolUseId, Usage,
};

/// Schema version of [`Tree`]. Changes within it are additive only.
pub const TREE_SCHEMA: &str = "subscope.tree/1";

/// A session with all its agents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tree {
    /// Always [`TREE_SCHEMA`].
    pub schema: Text,
    /// The session.
    pub session: Session,
    /// All agents in pre-order, the root first, siblings by start; orphans after the root's children.
    pub agents: Vec<Agent>,
    /// Statistics over the whole session.
    pub summary: Summary,
    /// Problems, ordered by location.
    pub problems: Vec<Problem>,
}

impl Tree {
    /// Returns the rows of a session on a machine that is no longer heard, and was last at a time: nothing counts as at
    /// work, although nothing has ended either.
    #[must_use]
    pub fn unheard(mut self, last_heard_ms: Millis) -> Self {
        self.session.last_heard_ms = Some(last_heard_ms);
        for agent in self.agents.iter_mut().filter(|agent| agent.status.is_live()) {
            agent.liveness = None;
            agent.flags.retain(|flag| !matches!(flag, Flag::Stalled | Flag::Stopping | Flag::Unheard));
            agent.flags.push(Flag::Unheard);
        }
        (self.summary.running, self.summary.pending) = (0, 0);
        (self.summary.attention, self.summary.need) = (Attention::Ended, None);
        self
    }

    /// Returns the rows alone.
    #[must_use]
    pub fn without_problems(mut self) -> Self {
        self.problems.clear();
        self
    }

    /// Sets the revision of all rows.
    pub fn stamp(&mut self, rev: u64) {
        self.session.rev = Some(rev);
        for agent in &mut self.agents {
            agent.rev = Some(rev);
        }
    }

    /// Returns the highest revision of its rows; 0 if they are not stored.
    pub fn rev(&self) -> u64 {
        self.agents.iter().filter_map(|agent| agent.rev).chain(self.session.rev).max().unwrap_or(0)
    }

    /// Sets the revision of rows that are new, differ from `known` or moved; others keep theirs.
    pub fn stamp_news(&mut self, known: &Self, rev: u64) {
        let rows: HashMap<&AgentId, (usize, &Agent)> =
            known.agents.iter().enumerate().map(|(place, row)| (&row.id, (place, row))).collect();
        // Unchanged rows keep their order.
        let mut last = 0;
        for agent in &mut self.agents {
            let before = rows.get(&agent.id).copied();
            agent.rev = before.and_then(|(_, row)| row.rev);
            match before {
                Some((place, row)) if place >= last && *row == *agent => last = place,
                Some(_) | None => agent.rev = Some(rev),
            }
        }
        self.session.rev = known.session.rev;
        // A change carries the session's row with its statistics.
        if self.session != known.session || self.summary != known.summary {
            self.session.rev = Some(rev);
        }
    }
}

/// A conversation of a harness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Session {
    /// The harness's own id.
    pub id: SessionId,
    /// The harness, by its name; `None` for events published by unknown programs.
    pub harness: Option<Text>,
    /// The harness's version, if any source has it.
    pub harness_version: Option<Text>,
    /// The working directory of the root.
    pub cwd: Option<Text>,
    /// The folder of its project, if `cwd` is in a linked work tree (`git worktree`): that of the main work tree. Without
    /// it, the project is `cwd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<Text>,
    /// The first prompt, one line, as a title.
    pub title: Option<Text>,
    /// Time of the first event.
    pub started_at_ms: Option<Millis>,
    /// Time of the last event.
    pub ended_at_ms: Option<Millis>,
    /// Number of runs: prompts of the user that started one.
    pub runs: u32,
    /// Start of the latest run; `None` if it is the first, or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_started_at_ms: Option<Millis>,
    /// The other machine that it runs on, by its name in the settings (`[[remote]]`); `None` for this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Text>,
    /// Time at which that machine was last heard, by the clock of this one; `None` while it is connected. What ran then
    /// may have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heard_ms: Option<Millis>,
    /// Revision, increased with each stored change: of two versions of this row the higher one is current. `None` if it
    /// is not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rev: Option<u64>,
}

/// Status of an agent.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum AgentStatus {
    /// Spawn requested, not yet seen at work.
    #[default]
    Pending,
    /// At work, or waiting for something.
    Running,
    /// Ended by itself with success.
    Completed,
    /// Ended with an error.
    Failed,
    /// Stopped on request.
    Stopped,
    /// No end was seen, and there is evidence that none will come.
    Lost,
}

impl AgentStatus {
    /// Whether the agent has not ended.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }

    /// Returns the lower-case word used in every serialization and frontend.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Lost => "lost",
        }
    }
}

/// Activity of a running agent, or what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LivenessKind {
    /// The model's answer.
    Model,
    /// A tool call; `name` is the tool's.
    Tool,
    /// The user's permission; `name` is the tool's.
    Permission,
    /// The user's answer to a question; `name` is the tool's.
    Question,
    /// The user's decision about a plan; `name` is the tool's.
    Plan,
    /// Its own subagents; `count` are at work. 0: those whose reports it needs are lost.
    Children,
    /// A retry of an API request; `count` is the attempt, `name` the error.
    Retry,
    /// The user's next prompt: nothing is at work; for a root, also after its last turn. A teammate waits for messages.
    Idle,
}

impl LivenessKind {
    /// Whether it is a wait for a person who was asked something.
    pub fn asks_person(self) -> bool {
        match self {
            Self::Permission | Self::Question | Self::Plan => true,
            Self::Model | Self::Tool | Self::Children | Self::Retry | Self::Idle => false,
        }
    }
}

/// Activity of a running agent, or what it waits for, and since when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Liveness {
    /// Kind of activity or wait.
    pub kind: LivenessKind,
    /// The tool's name or the error's text, by `kind`.
    pub name: Option<Text>,
    /// Number of running children, or of the attempt, by `kind`.
    pub count: Option<u32>,
    /// Maximum number of attempts, for a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Start time, if a source has it.
    pub since_ms: Option<Millis>,
    /// Whether it is inferred from silence and not reported by a source; frontends mark it `~`.
    pub inferred: bool,
}

/// A flag in addition to the status.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Flag {
    /// Asked to stop, and has not stopped yet.
    Stopping,
    /// Silent for longer than its limit.
    Stalled,
    /// Repeated the same call at least three times in a row.
    Looping,
    /// Had at least three tool errors in a row.
    Failing,
    /// Another agent writes the same file in an overlapping time.
    Colliding,
    /// Its parent is unknown.
    Orphan,
    /// A warm-up of the harness, not requested by user or agent.
    Warmup,
    /// All of its data is a copy from another session.
    Copied,
    /// Another agent handed the conversation over to it, and does not wait for it: its parent.
    Handoff,
    /// No source reports its parent, or the agent itself: both follow from what is around it. Frontends mark it `~`.
    Inferred,
    /// Was at work when its machine was last heard: whether it still is, is not known.
    Unheard,
}

impl Flag {
    /// Returns the lower-case word used in every serialization and frontend.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stopping => "stopping",
            Self::Stalled => "stalled",
            Self::Looping => "looping",
            Self::Failing => "failing",
            Self::Colliding => "colliding",
            Self::Orphan => "orphan",
            Self::Warmup => "warmup",
            Self::Copied => "copied",
            Self::Handoff => "handoff",
            Self::Inferred => "inferred",
            Self::Unheard => "unheard",
        }
    }

    /// Returns the words for people: a guess has its `~`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Inferred => "~inferred",
            Self::Stopping
            | Self::Stalled
            | Self::Looping
            | Self::Failing
            | Self::Colliding
            | Self::Orphan
            | Self::Warmup
            | Self::Copied
            | Self::Handoff
            | Self::Unheard => self.as_str(),
        }
    }
}

/// The root of a session, or a subagent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Agent {
    /// `root`, or the harness's id of the subagent.
    pub id: AgentId,
    /// The id as actor of events.
    pub actor_id: Actor,
    /// The agent that started it; `None` for the root and if unknown.
    pub parent_id: Option<AgentId>,
    /// The tool call that started it.
    pub spawned_by: Option<ToolUseId>,
    /// 0 for the root, 1 for its subagents and for orphans.
    pub depth: u32,
    /// The harness's agent type (`Explore`).
    #[serde(rename = "type")]
    pub agent_type: Option<Text>,
    /// Name given by its parent.
    pub name: Option<Text>,
    /// Short description of its task.
    pub description: Option<Text>,
    /// The model of its latest response.
    pub model: Option<Text>,
    /// Whether its parent continues without waiting for it.
    pub background: bool,
    /// Status.
    pub status: AgentStatus,
    /// Evidence for `status`, for people (`task notification`, `silent for 15m`).
    pub evidence: Option<Text>,
    /// Current activity; `None` unless it runs.
    pub liveness: Option<Liveness>,
    /// Flags, in a fixed order.
    pub flags: Vec<Flag>,
    /// Time of its first own line.
    pub started_at_ms: Option<Millis>,
    /// Time of its last own line, else of its end; `None` while it runs.
    pub ended_at_ms: Option<Millis>,
    /// Time of its last event.
    pub last_event_at_ms: Option<Millis>,
    /// Its intervals of activity in order; an open one ends at the last event.
    pub intervals: Vec<[Millis; 2]>,
    /// Length of the union of its intervals.
    pub wall_ms: Option<i64>,
    /// Number of calls, regardless of their outcome.
    pub tool_calls: u32,
    /// Number of calls that failed or were interrupted.
    pub tool_errors: u32,
    /// Number of denied calls; not counted as errors.
    pub tools_denied: u32,
    /// Number of calls that have not ended.
    pub open_tools: u32,
    /// Its calls, ordered by start.
    pub tools: Vec<ToolCall>,
    /// Number of distinct API responses.
    pub messages: u32,
    /// Its own tokens; `None` if no response was seen.
    pub usage: Option<Usage>,
    /// Its own cost; `None` if usage or a model's price is unknown.
    pub cost_micro_usd: Option<MicroUsd>,
    /// Whether its own cost is a lower bound.
    #[serde(default)]
    pub cost_floor: bool,
    /// The task it was given.
    pub prompt: Option<Text>,
    /// Its final report.
    pub result: Option<Text>,
    /// Why it failed.
    pub error: Option<Text>,
    /// Totals of the agent and its descendants.
    pub subtree: Subtree,
    /// Revision, as the session's `rev`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rev: Option<u64>,
}

/// Returns the title of an agent: `Type: name: description`, whichever is known; `None` if none is. Without a type, the
/// name stands in its place.
pub(crate) fn agent_title(
    kind: Option<&str>,
    name: Option<&str>,
    description: Option<&str>,
) -> Option<String> {
    match (kind.or(name), agent_words(kind, name, description)) {
        (Some(kind), Some(words)) => Some(format!("{kind}: {words}")),
        (Some(only), None) => Some(only.to_owned()),
        (None, words) => words.map(Cow::into_owned),
    }
}

fn agent_words<'a>(
    kind: Option<&str>,
    name: Option<&'a str>,
    description: Option<&'a str>,
) -> Option<Cow<'a, str>> {
    match (name.filter(|_| kind.is_some()), description) {
        (Some(name), Some(description)) => Some(format!("{name}: {description}").into()),
        (only, None) | (None, only) => only.map(Cow::from),
    }
}

impl Agent {
    /// Whether the agent is at work: running on a machine that is heard, and not a root that waits for the user's next
    /// prompt.
    pub fn is_at_work(&self) -> bool {
        let is_idle = self.liveness.as_ref().is_some_and(|live| live.kind == LivenessKind::Idle);
        self.status.is_live() && !is_idle && !self.has(Flag::Unheard)
    }

    /// Returns what the agent waits for from a person: a permission, an answer, a decision about a plan. A wait that is
    /// only inferred is none: see [`Agent::may_wait_for_person`].
    pub fn person_wait(&self) -> Option<&Liveness> {
        self.asking().filter(|live| !live.inferred)
    }

    /// Whether the agent waits for a person, as a source reports.
    pub fn waits_for_person(&self) -> bool {
        self.person_wait().is_some()
    }

    /// Whether it is inferred that the agent waits for a person: no source reports it.
    pub fn may_wait_for_person(&self) -> bool {
        self.asking().is_some_and(|live| live.inferred)
    }

    fn asking(&self) -> Option<&Liveness> {
        self.liveness.as_ref().filter(|live| self.status.is_live() && live.kind.asks_person())
    }

    /// Whether the agent waits for subagents that are all lost.
    pub fn waits_for_lost(&self) -> bool {
        let lost = |live: &Liveness| live.kind == LivenessKind::Children && live.count == Some(0);
        self.status.is_live() && self.liveness.as_ref().is_some_and(lost)
    }

    /// Returns an agent of which only id, depth and status are known.
    pub fn unknown(id: AgentId, depth: u32, status: AgentStatus) -> Self {
        Self { actor_id: Actor(id.clone()), id, depth, status, ..Self::default() }
    }

    /// Whether all of its data is a copy from another session: it is shown, but not counted.
    pub fn is_copy(&self) -> bool {
        self.flags.contains(&Flag::Copied)
    }

    /// Whether it is one of the agents that are counted: a subagent of the user's, not one of the harness's own, and no copy.
    pub fn is_counted(&self) -> bool {
        !self.id.is_root() && !self.has(Flag::Warmup) && !self.is_copy()
    }

    /// Returns what it is called and does: `name: description`, or what is known of it. Without a type, the name stands in
    /// its place.
    pub fn words(&self) -> Option<Cow<'_, str>> {
        agent_words(self.agent_type.as_deref(), self.name.as_deref(), self.description.as_deref())
    }

    /// Returns its display name: `Type: name: description`, whichever is known, else its id.
    pub fn title(&self) -> String {
        let known =
            agent_title(self.agent_type.as_deref(), self.name.as_deref(), self.description.as_deref());
        known.unwrap_or_else(|| if self.id.is_root() { "main".to_owned() } else { self.id.to_string() })
    }

    /// Whether the answer to its next hook must stop it: a stop was requested, or was delivered and the agent still
    /// runs.
    pub fn is_to_stop(&self) -> bool {
        let was_told = self.evidence.as_deref() == Some(EndEvidence::HookAnswer.as_str());
        self.has(Flag::Stopping) || (self.status == AgentStatus::Stopped && was_told)
    }

    /// Whether the row has a flag.
    pub fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }
}

/// Status of a tool call.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ToolStatus {
    /// Ended without error.
    Ok,
    /// Ended in an error, or was interrupted.
    Error,
    /// Not ended.
    Open,
    /// Denied by the user, a rule or a hook.
    Denied,
}

impl ToolStatus {
    /// Returns the lower-case word used in every serialization and frontend.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Open => "open",
            Self::Denied => "denied",
        }
    }
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ToolCall {
    /// The harness's id; `None` if the source has none.
    pub id: Option<ToolUseId>,
    /// Name of the tool in the harness.
    pub name: Text,
    /// Status.
    pub status: ToolStatus,
    /// Evidence for its agent.
    pub basis: Basis,
    /// Start time.
    pub started_at_ms: Option<Millis>,
    /// End time.
    pub ended_at_ms: Option<Millis>,
    /// Its duration, where a source has that without both times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// Short description of its target: a file's base name, a pattern, the first 40 characters of a command.
    pub detail: Option<Text>,
    /// The files that it writes, as its arguments name them.
    #[serde(default, skip_serializing_if = "<[Text]>::is_empty")]
    pub writes: Box<[Text]>,
    /// Its arguments as raw JSON, or their location.
    #[serde(skip)]
    pub input: Option<Box<Payload>>,
    /// Its result as raw JSON, or its location.
    #[serde(skip)]
    pub result: Option<Box<Payload>>,
}

/// Totals of an agent and its descendants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Subtree {
    /// Number of agents, including the agent itself.
    pub agents: u32,
    /// Number of tool calls.
    pub tool_calls: u32,
    /// Tokens; `None` if all are unknown.
    pub usage: Option<Usage>,
    /// Cost as far as known; `None` if all is unknown.
    pub cost_micro_usd: Option<MicroUsd>,
    /// Whether the cost is a lower bound.
    #[serde(default)]
    pub cost_floor: bool,
    /// Length of the union of all their intervals.
    pub wall_ms: Option<i64>,
    /// Sum of their intervals.
    pub agent_ms: Option<i64>,
}

/// A cost in a unit of a vendor, which has no price in dollars of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct VendorCost {
    /// The unit.
    pub unit: VendorUnit,
    /// Millionths of the unit.
    pub amount_micro: u64,
}

/// A unit in which a vendor bills.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum VendorUnit {
    /// Premium requests of GitHub Copilot.
    PremiumRequests,
    /// AI units (AIU) of GitHub Copilot.
    AiUnits,
}

/// Statistics over the whole session. Counts of agents do not include the root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Summary {
    /// Subagents.
    pub agents: u32,
    /// Subagents requested but not yet seen at work.
    pub pending: u32,
    /// Subagents at work.
    pub running: u32,
    /// Subagents that ended with success.
    pub completed: u32,
    /// Subagents that failed.
    pub failed: u32,
    /// Subagents stopped on request.
    pub stopped: u32,
    /// Lost subagents.
    pub lost: u32,
    /// The greatest depth; 0 without subagents.
    pub max_depth: u32,
    /// Tool calls of all agents, the root's included.
    pub tool_calls: u32,
    /// Tool errors of all agents.
    pub tool_errors: u32,
    /// Denied calls of all agents.
    pub tools_denied: u32,
    /// Permissions that the harness asked a person for; `None` where no source reports them.
    #[serde(default)]
    pub permissions_asked: Option<u32>,
    /// The session's own total if a source has it and it covers the agents' sum, else that sum.
    pub usage: Option<Usage>,
    /// The session's own total minus the agents' sum; `None` without such a total.
    pub unattributed_usage: Option<Usage>,
    /// The session's own cost if a source has it, else the agents' sum.
    pub cost_micro_usd: Option<MicroUsd>,
    /// Whether the cost is a lower bound.
    #[serde(default)]
    pub cost_floor: bool,
    /// What the session has cost in units of the harness's vendor, as the harness says: by unit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vendor_costs: Vec<VendorCost>,
    /// Length of the union of all intervals, including the root's.
    pub wall_ms: Option<i64>,
    /// Sum of the subagents' intervals.
    pub agent_ms: Option<i64>,
    /// Subagents by type; `unknown` for those without one.
    pub by_type: BTreeMap<String, u32>,
    /// How urgently the session needs a person.
    #[serde(default)]
    pub attention: Attention,
    /// What it needs of a person; `None` if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need: Option<SessionNeed>,
}
