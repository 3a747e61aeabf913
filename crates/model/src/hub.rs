//! Requests and responses of the hub's HTTP API.

use serde::{Deserialize, Serialize};

use crate::{
    Agent, AgentId, Flag, LivenessKind, MicroUsd, Millis, Problem, RemoteMachine, Session, SessionId,
    SessionOrder, SessionRow, Text, Tree, tree::agent_title,
};

/// Protocol version of hub and clients. Increased by incompatible changes; added fields and routes do not increase it.
pub const PROTOCOL: u32 = 1;

/// Oldest protocol version that is still supported.
pub const OLDEST_PROTOCOL: u32 = 1;

/// How a hub runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HubMode {
    /// Started by `subscope serve`; runs until stopped.
    #[default]
    Foreground,
    /// Started by a command; exits when idle.
    Background,
    /// Runs inside another command, as long as that.
    Command,
}

/// How far a hub has read the sessions that were there when it started, or in folders that a client names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ReadingProgress {
    /// Number of sessions whose rows are stored.
    pub read: u64,
    /// Number of sessions that are new or have grown, those read included; 0 until it is known.
    pub total: u64,
}

/// Health of a hub: `GET /healthz`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Health {
    /// Always `ok`: an unhealthy hub does not answer.
    pub status: Text,
    /// Last sequence number of the change log.
    pub seq: u64,
    /// Number of sessions read or ingested since the start.
    pub sessions: u64,
    /// Whether the initial scan of files is running: answers may be incomplete.
    pub is_reading: bool,
    /// How far that is; `None` if everything is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reading: Option<ReadingProgress>,
    /// Program version, `major.minor.patch`; empty from hubs that do not report it.
    pub version: Text,
    /// Newest supported protocol version; 0 from hubs that do not report it.
    pub protocol: u32,
    /// Oldest supported protocol version.
    pub oldest_protocol: u32,
    /// Process id.
    pub pid: u32,
    /// How it runs.
    pub mode: HubMode,
    /// URL of its HTTP server.
    pub url: Text,
    /// Forwarding of spans; `None` without `serve --otlp-to`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarding: Option<Forwarding>,
    /// Other machines whose sessions this hub shows (`[[remote]]`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remotes: Vec<RemoteMachine>,
    /// Newest problems of input from which no session could be read, since the start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

/// State of forwarding spans to a receiver of OpenTelemetry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Forwarding {
    /// Address of the receiver.
    pub to: Text,
    /// Number of spans that it accepted since the start.
    pub spans: u64,
    /// Number of spans that it refused since the start: they are not sent again.
    pub refused: u64,
    /// Number of requests that wait for it.
    pub waiting: u64,
    /// Size of these requests.
    pub waiting_bytes: u64,
    /// Why the last attempt failed; `None` if it did not.
    pub error: Option<Text>,
}

/// A page of sessions: `ls --json`, `GET /api/v1/sessions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SessionPage {
    /// Always [`crate::SESSIONS_SCHEMA`].
    pub schema: Text,
    /// In the order that was asked for: the newest first, if none was.
    pub sessions: Vec<SessionRow>,
    /// Cursor of the next page; `None` on the last one.
    pub next: Option<Text>,
}

impl SessionPage {
    /// Returns the first `limit` rows as a page. Pass at least one row more than `limit` to detect a next page.
    pub fn of(mut sessions: Vec<SessionRow>, limit: usize, order: SessionOrder) -> Self {
        let has_more = sessions.len() > limit;
        sessions.truncate(limit);
        let cursor = |row: &SessionRow| Text::from(format!("{}~{}", order.figure(row), row.id));
        let next = sessions.last().filter(|_| has_more).map(cursor);
        Self { schema: crate::SESSIONS_SCHEMA.into(), sessions, next }
    }
}

/// Schema version of [`Ordered`]'s JSON.
pub const ORDERED_SCHEMA: &str = "subscope.stop-asked/1";

/// Response to a stop request for a subagent: `POST /api/v1/agents/{id}/stop`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Ordered {
    /// Always [`ORDERED_SCHEMA`].
    pub schema: Text,
    /// The session.
    pub session_id: SessionId,
    /// The agent.
    pub agent_id: AgentId,
    /// Display name of the agent.
    pub title: Text,
    /// Whether a stop was requested before.
    pub repeat: bool,
    /// Whether delivery is certain; it is not while no hook of the session has named an agent.
    pub reached: bool,
    /// How the request reaches the agent.
    pub told_by: StopChannel,
}

/// How a request to stop reaches an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopChannel {
    /// By the answer to the hook of its current tool call, or of its next one.
    Hook,
    /// By the program that publishes it: in the answer to its next event, or as a message to the agent that it passes messages to.
    Publisher,
}

/// Schema version of [`IdMatches`]' JSON.
pub const NAMES_SCHEMA: &str = "subscope.names/1";

/// Ids with a prefix, or subagents by words: `GET /api/v1/names`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct IdMatches {
    /// Always [`NAMES_SCHEMA`].
    pub schema: Text,
    /// Sessions, the newest first.
    pub sessions: Vec<SessionId>,
    /// Subagents, those of the newest sessions first.
    pub agents: Vec<AgentName>,
}

impl IdMatches {
    /// Returns the ids of sessions and of subagents.
    pub fn of(sessions: Vec<SessionId>, agents: Vec<(SessionId, AgentId)>) -> Self {
        let name = |(session_id, agent_id)| AgentName { session_id, agent_id, title: None };
        Self { schema: NAMES_SCHEMA.into(), sessions, agents: agents.into_iter().map(name).collect() }
    }

    /// Returns subagents that were found by their names.
    pub fn of_agents(agents: Vec<AgentName>) -> Self {
        Self { schema: NAMES_SCHEMA.into(), sessions: Vec::new(), agents }
    }
}

/// An agent's id with its session's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AgentName {
    /// The session.
    pub session_id: SessionId,
    /// The agent.
    pub agent_id: AgentId,
    /// Type and description; only of an agent that was found by them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Text>,
}

impl AgentName {
    /// Returns an agent, if its id, type and description have each of these words, which are separated by spaces. Case is
    /// ignored.
    pub fn found(
        words: &str,
        session_id: SessionId,
        agent_id: AgentId,
        agent_type: Option<&str>,
        description: Option<&str>,
    ) -> Option<Self> {
        let fields = [&*agent_id, agent_type.unwrap_or_default(), description.unwrap_or_default()];
        let text = fields.join("\n").to_lowercase();
        let has_all = words.split_whitespace().all(|word| text.contains(&word.to_lowercase()));
        let title = agent_title(agent_type, None, description).map(Text::from);
        has_all.then_some(Self { session_id, agent_id, title })
    }

    /// Returns the subagents of a tree that [`Self::found`] finds.
    pub fn found_in(tree: &Tree, words: &str) -> Vec<Self> {
        let of = |agent: &Agent| {
            let (kind, description) = (agent.agent_type.as_deref(), agent.description.as_deref());
            Self::found(words, tree.session.id.clone(), agent.id.clone(), kind, description)
        };
        tree.agents.iter().filter(|agent| !agent.id.is_root()).filter_map(of).collect()
    }
}

/// Schema version of [`OneAgent`]'s JSON.
pub const AGENT_SCHEMA: &str = "subscope.agent/1";

/// An agent with its session: `GET /api/v1/agents/{id}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct OneAgent {
    /// Always [`AGENT_SCHEMA`].
    pub schema: Text,
    /// The session, as in its tree.
    pub session: Session,
    /// The agent, as in the tree.
    pub agent: Agent,
}

/// Schema version of [`Hits`]' JSON.
pub const HITS_SCHEMA: &str = "subscope.hits/1";

/// What to search for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct SearchQuery {
    /// Words that all occur in a passage. One of several words is a phrase; one that ends in `*` is a prefix.
    pub terms: Vec<String>,
    /// Only in this session.
    pub session: Option<SessionId>,
    /// Only passages of this kind, see [`SearchHit::kind`].
    pub kind: Option<Text>,
    /// Only arguments and results of this tool.
    pub tool: Option<Text>,
    /// Only in sessions whose root's working directory is this one or lies below it.
    pub project: Option<Text>,
    /// Only passages from this time on.
    pub since: Option<Millis>,
    /// Only passages before this time.
    pub until: Option<Millis>,
    /// Only results of failed and denied calls.
    pub only_failed: bool,
    /// Maximum number of hits.
    pub limit: usize,
}

/// Number of hits with one value, for a filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FacetCount {
    /// The value.
    pub name: Text,
    /// Number of hits that have it.
    pub hits: u64,
}

/// Numbers of hits by what they can be filtered by, the most hits first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Facets {
    /// By kind of passage.
    pub kinds: Vec<FacetCount>,
    /// By tool; passages that belong to no call are left out.
    pub tools: Vec<FacetCount>,
    /// By working directory of the root.
    pub projects: Vec<FacetCount>,
    /// Results of failed and denied calls.
    pub failed: u64,
}

/// Search results: `search --json`, `GET /api/v1/search`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Hits {
    /// Always [`HITS_SCHEMA`].
    pub schema: Text,
    /// The newest first.
    pub hits: Vec<SearchHit>,
    /// Number of all passages that match, also those beyond the limit.
    #[serde(default)]
    pub total: u64,
    /// Whether `total` and `facets` stopped counting: there are more.
    #[serde(default)]
    pub total_floor: bool,
    /// What the hits can be filtered by.
    #[serde(default)]
    pub facets: Facets,
    /// Whether the full text is still being read, so that there may be more.
    #[serde(default)]
    pub is_indexing: bool,
    /// Other machines of the user of which not all texts are here: there may be more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsearched: Vec<Text>,
}

/// A found passage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SearchHit {
    /// Its session.
    pub session_id: SessionId,
    /// The agent of the passage; empty if unknown.
    pub agent_id: Text,
    /// Display name of that agent: type and description.
    pub agent: String,
    /// Kind of passage: `prompt`, `message`, `thought`, `tool input`, `tool result`.
    pub kind: Text,
    /// Time, to the second.
    pub at_ms: Option<Millis>,
    /// The tool, for arguments and results.
    #[serde(default)]
    pub tool: Option<Text>,
    /// The file that the call reads or writes, for arguments that name one.
    #[serde(default)]
    pub file: Option<Text>,
    /// Line at which the call reads that file (1-based), for arguments that name one.
    #[serde(default)]
    pub line: Option<u64>,
    /// Whether it is the result of a failed or denied call.
    #[serde(default)]
    pub failed: bool,
    /// Title of the session.
    #[serde(default)]
    pub session_title: Option<Text>,
    /// Working directory of the root.
    #[serde(default)]
    pub project: Option<Text>,
    /// Context of the first matched word, in one line. Untrusted text: sanitize before printing.
    pub snippet: String,
    /// The same context with its line breaks and indentation. Untrusted text.
    #[serde(default)]
    pub excerpt: String,
    /// Path of its file; `inbox/` and a number for ingested input.
    pub path: String,
    /// Byte offset of its JSON in the file.
    pub offset: u64,
    /// Length of its JSON in bytes.
    pub bytes: u64,
}

/// Schema version of [`Status`]' JSON.
pub const STATUS_SCHEMA: &str = "subscope.status/1";

/// Summary of sessions at work: `status --json`, `GET /api/v1/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Status {
    /// Always [`STATUS_SCHEMA`].
    pub schema: Text,
    /// Number of sessions covered.
    pub sessions: u64,
    /// Number of subagents at work.
    pub running: u64,
    /// Number of agents waiting for a permission.
    pub waiting_for_permission: u64,
    /// Earliest start of such a wait.
    pub waiting_since_ms: Option<Millis>,
    /// Number of agents that wait for a person's answer to a question.
    pub waiting_for_answer: u64,
    /// Earliest start of such a wait.
    pub answer_since_ms: Option<Millis>,
    /// Number of agents that wait for a person's decision about a plan.
    pub waiting_for_plan: u64,
    /// Earliest start of such a wait.
    pub plan_since_ms: Option<Millis>,
    /// Number of agents asked to stop that have not stopped yet.
    pub stopping: u64,
    /// Number of stalled agents.
    pub stalled: u64,
    /// Earliest last event of a stalled agent.
    pub stalled_since_ms: Option<Millis>,
    /// Cost of the sessions; `None` if no price is known.
    pub cost_micro_usd: Option<MicroUsd>,
    /// Whether the cost is a lower bound.
    pub cost_floor: bool,
    /// Time of this summary.
    pub at_ms: Millis,
}

impl Status {
    /// Returns the number of agents that wait for a person.
    pub fn waiting(&self) -> u64 {
        self.waiting_for_permission + self.waiting_for_answer + self.waiting_for_plan
    }

    /// Summarizes sessions at a time.
    pub fn of(trees: &[Tree], at_ms: Millis) -> Self {
        let agents = || trees.iter().flat_map(|tree| &tree.agents).filter(|agent| agent.is_at_work());
        let asking = |kind: LivenessKind| {
            let waits = agents().filter_map(Agent::person_wait).filter(|live| live.kind == kind);
            let since: Vec<Millis> = waits.map(|live| live.since_ms.unwrap_or(at_ms)).collect();
            (since.len() as u64, since.into_iter().min())
        };
        let (waiting_for_permission, waiting_since_ms) = asking(LivenessKind::Permission);
        let (waiting_for_answer, answer_since_ms) = asking(LivenessKind::Question);
        let (waiting_for_plan, plan_since_ms) = asking(LivenessKind::Plan);
        let stalled = || {
            let silent = agents().filter(|agent| agent.has(Flag::Stalled));
            silent.map(|agent| agent.last_event_at_ms.unwrap_or(at_ms))
        };
        let costs = || trees.iter().filter_map(|tree| tree.summary.cost_micro_usd);
        let is_floor = |tree: &Tree| tree.summary.cost_floor || tree.summary.cost_micro_usd.is_none();
        Self {
            schema: STATUS_SCHEMA.into(),
            sessions: trees.len() as u64,
            running: agents().filter(|agent| !agent.id.is_root()).count() as u64,
            waiting_for_permission,
            waiting_since_ms,
            waiting_for_answer,
            answer_since_ms,
            waiting_for_plan,
            plan_since_ms,
            stopping: agents().filter(|agent| agent.has(Flag::Stopping)).count() as u64,
            stalled: stalled().count() as u64,
            stalled_since_ms: stalled().min(),
            cost_micro_usd: costs().next().map(|_| costs().sum()),
            cost_floor: trees.iter().any(is_floor),
            at_ms,
        }
    }
}
