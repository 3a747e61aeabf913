//! The tree of a session: what `subscope tree --json` prints and every face draws.
//!
//! Rows are derived; nothing here is ever fed back into the facts they rest on.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::{
    Actor, AgentId, Basis, EndEvidence, MicroUsd, Millis, Payload, Problem, SessionId, Text, ToolUseId, Usage,
};

/// The version word of [`Tree`]'s JSON. Changes within it are additive only.
pub const TREE_SCHEMA: &str = "subscope.tree/1";

/// A session with all its agents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tree {
    /// Always [`TREE_SCHEMA`].
    pub schema: Text,
    /// The session.
    pub session: Session,
    /// All agents in pre-order, the root first, siblings by start; orphans after the root's children.
    pub agents: Vec<Agent>,
    /// Figures over the whole session.
    pub summary: Summary,
    /// What could not be understood, by place.
    pub problems: Vec<Problem>,
}

impl Tree {
    /// Gives all rows a rev.
    pub fn stamp(&mut self, rev: u64) {
        self.session.rev = Some(rev);
        for agent in &mut self.agents {
            agent.rev = Some(rev);
        }
    }

    /// Gives a rev to rows that are new or other than they were known; the others keep theirs.
    pub fn stamp_news(&mut self, known: &Self, rev: u64) {
        let rows: HashMap<&AgentId, &Agent> = known.agents.iter().map(|row| (&row.id, row)).collect();
        for agent in &mut self.agents {
            let before = rows.get(&agent.id);
            agent.rev = before.and_then(|row| row.rev);
            if before != Some(&&*agent) {
                agent.rev = Some(rev);
            }
        }
        self.session.rev = known.session.rev;
        if self.session != known.session {
            self.session.rev = Some(rev);
        }
    }
}

/// One conversation of a harness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The harness's own id.
    pub id: SessionId,
    /// The harness by its name; `None` for events posted by unknown programs.
    pub harness: Option<Text>,
    /// The harness's version, as far as any source names it.
    pub harness_version: Option<Text>,
    /// The working directory of the root.
    pub cwd: Option<Text>,
    /// The first prompt, one line, as a title.
    pub title: Option<Text>,
    /// When the first event happened.
    pub started_at_ms: Option<Millis>,
    /// When the last event happened.
    pub ended_at_ms: Option<Millis>,
    /// How many prompts of the user started a run.
    pub runs: u32,
    /// Grows with each change that was kept: of two tellings of this row the one with the higher counts. `None` where nothing
    /// keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rev: Option<u64>,
}

/// How an agent stands or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentStatus {
    /// Asked for, not yet seen at work.
    Pending,
    /// At work, or waiting for something.
    Running,
    /// Ended by itself with success.
    Completed,
    /// Ended by an error.
    Failed,
    /// Somebody stopped it.
    Stopped,
    /// No ending was seen, and there is evidence that none will come.
    Lost,
}

impl AgentStatus {
    /// Whether the agent has not ended.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }

    /// The lower-case word used on every wire and face.
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

/// What a running agent is busy with or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LivenessKind {
    /// The model's answer.
    Model,
    /// A tool call; `name` is the tool's.
    Tool,
    /// A person's permission; `name` is the tool's.
    Permission,
    /// Its own subagents; `count` of them run.
    Children,
    /// The API, again; `count` is the attempt, `name` the error.
    Retry,
    /// A person's next prompt: nothing is at work. Of a root only, also of one whose last turn is over.
    Idle,
}

/// What a running agent is busy with or waits for, and since when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Liveness {
    /// What kind of activity or wait.
    pub kind: LivenessKind,
    /// The tool's name or the error's text, by `kind`.
    pub name: Option<Text>,
    /// How many children run, or which attempt it is, by `kind`.
    pub count: Option<u32>,
    /// How many attempts there will be, for a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Since when, as far as a source with time tells.
    pub since_ms: Option<Millis>,
    /// Whether this is inferred from silence and not told by a source; faces mark it `~`.
    pub inferred: bool,
}

/// A mark beside the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flag {
    /// A person asked it to stop, and it has not yet.
    Stopping,
    /// Silent for longer than its limit.
    Stalled,
    /// The same call at least three times in a row.
    Looping,
    /// At least three tool errors in a row.
    Failing,
    /// Another agent writes the same file in an overlapping span.
    Colliding,
    /// No source says who started it.
    Orphan,
    /// The harness's own warm-up, not asked for by anybody.
    Warmup,
    /// All that is known of it is a copy of another session's.
    Copied,
}

impl Flag {
    /// The lower-case word used on every wire and face.
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
        }
    }
}

/// The root of a session, or a subagent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// `root`, or the harness's id of the subagent.
    pub id: AgentId,
    /// The id as actor of events.
    pub actor_id: Actor,
    /// Who started it; `None` for the root and where no source tells.
    pub parent_id: Option<AgentId>,
    /// The tool call that started it.
    pub spawned_by: Option<ToolUseId>,
    /// 0 for the root, 1 for its subagents and for orphans.
    pub depth: u32,
    /// The harness's type of agent (`Explore`).
    #[serde(rename = "type")]
    pub agent_type: Option<Text>,
    /// The name given to it by who started it.
    pub name: Option<Text>,
    /// What it was asked to do, in a few words.
    pub description: Option<Text>,
    /// The model of its latest response.
    pub model: Option<Text>,
    /// Whether its starter goes on without waiting for it.
    pub background: bool,
    /// How it stands or ended.
    pub status: AgentStatus,
    /// What `status` rests on, for people (`task notification`, `silent for 15m`).
    pub evidence: Option<Text>,
    /// What it does or waits for; `None` unless it runs.
    pub liveness: Option<Liveness>,
    /// Marks beside the status, in a fixed order.
    pub flags: Vec<Flag>,
    /// Its first own line.
    pub started_at_ms: Option<Millis>,
    /// Its last own line, else the time of its ending; `None` while it runs.
    pub ended_at_ms: Option<Millis>,
    /// When it was last heard of.
    pub last_event_at_ms: Option<Millis>,
    /// Its stretches of activity in order; the end of one that goes on is when it was last heard of.
    pub intervals: Vec<[Millis; 2]>,
    /// The union of its intervals.
    pub wall_ms: Option<i64>,
    /// Calls it made, whatever became of them.
    pub tool_calls: u32,
    /// Calls that ended in an error, interrupted ones included.
    pub tool_errors: u32,
    /// Calls that were denied; not counted as errors.
    pub tools_denied: u32,
    /// Calls without an ending.
    pub open_tools: u32,
    /// Its calls by start.
    pub tools: Vec<ToolCall>,
    /// Distinct API responses.
    pub messages: u32,
    /// Its own tokens; `None` where no response of it was seen.
    pub usage: Option<Usage>,
    /// Its own cost; `None` where a model's price is unknown or usage is.
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
    /// Figures of the agent and everything below it.
    pub subtree: Subtree,
    /// As [`Session::rev`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rev: Option<u64>,
}

impl Agent {
    /// Whether the agent works or waits for something: a root that waits for a person's next prompt does not.
    pub fn is_at_work(&self) -> bool {
        let is_idle = self.liveness.as_ref().is_some_and(|live| live.kind == LivenessKind::Idle);
        self.status.is_live() && !is_idle
    }

    /// Returns an agent of which nothing is known but its id, its depth and how it stands.
    pub fn unknown(id: AgentId, depth: u32, status: AgentStatus) -> Self {
        Self {
            actor_id: Actor(id.clone()),
            id,
            parent_id: None,
            spawned_by: None,
            depth,
            agent_type: None,
            name: None,
            description: None,
            model: None,
            background: false,
            status,
            evidence: None,
            liveness: None,
            flags: Vec::new(),
            started_at_ms: None,
            ended_at_ms: None,
            last_event_at_ms: None,
            intervals: Vec::new(),
            wall_ms: None,
            tool_calls: 0,
            tool_errors: 0,
            tools_denied: 0,
            open_tools: 0,
            tools: Vec::new(),
            messages: 0,
            usage: None,
            cost_micro_usd: None,
            cost_floor: false,
            prompt: None,
            result: None,
            error: None,
            subtree: Subtree::default(),
            rev: None,
        }
    }

    /// Whether all that is known of it is a copy of another session's: it is shown, and counted nowhere.
    pub fn is_copy(&self) -> bool {
        self.flags.contains(&Flag::Copied)
    }

    /// How people know it: `Type: description`, whichever there is, else its id.
    pub fn title(&self) -> String {
        let kind = self.agent_type.as_deref().or(self.name.as_deref());
        match (kind, self.description.as_deref()) {
            (Some(kind), Some(description)) => format!("{kind}: {description}"),
            (Some(only), None) | (None, Some(only)) => only.to_owned(),
            (None, None) if self.id.is_root() => "main".to_owned(),
            (None, None) => self.id.to_string(),
        }
    }

    /// Whether it is to be told to stop when it asks whether it may go on: somebody asked for it, or it was told and goes on
    /// all the same.
    pub fn is_to_stop(&self) -> bool {
        let was_told = self.evidence.as_deref() == Some(EndEvidence::HookAnswer.as_str());
        self.has(Flag::Stopping) || (self.status == AgentStatus::Stopped && was_told)
    }

    /// Whether the row has the given mark.
    pub fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }
}

/// How a tool call stands or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolStatus {
    /// Ended without error.
    Ok,
    /// Ended in an error, or was interrupted.
    Error,
    /// Not ended.
    Open,
    /// Refused by a person, a rule or a hook.
    Denied,
}

impl ToolStatus {
    /// The lower-case word used on every wire and face.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Open => "open",
            Self::Denied => "denied",
        }
    }
}

/// One call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The harness's id; `None` where the wire has none.
    pub id: Option<ToolUseId>,
    /// The tool, as the harness names it.
    pub name: Text,
    /// How it stands or ended.
    pub status: ToolStatus,
    /// How its owner is known.
    pub basis: Basis,
    /// When it began.
    pub started_at_ms: Option<Millis>,
    /// When it ended.
    pub ended_at_ms: Option<Millis>,
    /// What it works on, short: a file's base name, a pattern, the first 40 characters of a command.
    pub detail: Option<Text>,
    /// Its arguments as raw JSON, or where they stand.
    #[serde(skip)]
    pub input: Option<Box<Payload>>,
    /// Its result as raw JSON, or where it stands.
    #[serde(skip)]
    pub result: Option<Box<Payload>>,
}

/// Figures of an agent and everything below it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subtree {
    /// Agents, the agent itself included.
    pub agents: u32,
    /// Tool calls.
    pub tool_calls: u32,
    /// Tokens; `None` where none of them is known.
    pub usage: Option<Usage>,
    /// Cost as far as it is known; `None` where none of it is.
    pub cost_micro_usd: Option<MicroUsd>,
    /// Whether the cost is a lower bound.
    #[serde(default)]
    pub cost_floor: bool,
    /// The union of all their intervals.
    pub wall_ms: Option<i64>,
    /// The sum of their intervals.
    pub agent_ms: Option<i64>,
}

/// Figures over the whole session. Subagents only, where agents are counted: the root is not one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Subagents.
    pub agents: u32,
    /// Subagents asked for but not yet seen at work.
    pub pending: u32,
    /// Subagents at work.
    pub running: u32,
    /// Subagents that ended with success.
    pub completed: u32,
    /// Subagents that ended by an error.
    pub failed: u32,
    /// Subagents that somebody stopped.
    pub stopped: u32,
    /// Subagents without an ending.
    pub lost: u32,
    /// The greatest depth; 0 without subagents.
    pub max_depth: u32,
    /// Tool calls of all agents, the root's included.
    pub tool_calls: u32,
    /// Tool errors of all agents.
    pub tool_errors: u32,
    /// Denied calls of all agents.
    pub tools_denied: u32,
    /// The session's own check-sum where a source has it and it covers the agents' sum, else that sum.
    pub usage: Option<Usage>,
    /// Check-sum minus the agents' sum; `None` without a check-sum.
    pub unattributed_usage: Option<Usage>,
    /// The session's own cost where a source has it, else the agents' sum.
    pub cost_micro_usd: Option<MicroUsd>,
    /// Whether the cost is a lower bound.
    #[serde(default)]
    pub cost_floor: bool,
    /// The union of all intervals, the root's included.
    pub wall_ms: Option<i64>,
    /// The sum of the subagents' intervals.
    pub agent_ms: Option<i64>,
    /// Subagents by type; `unknown` for those without one.
    pub by_type: BTreeMap<String, u32>,
}
