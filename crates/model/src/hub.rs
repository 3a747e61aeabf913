//! What a hub and whoever asks it tell each other of themselves and of what it knows.

use serde::{Deserialize, Serialize};

use crate::{
    Agent, AgentId, Flag, LivenessKind, MicroUsd, Millis, Session, SessionId, SessionRow, Text, Tree,
};

/// The version of what hub and clients say to each other. A change that an older side would misread raises it; fields and
/// routes that are only added do not.
pub const PROTOCOL: u32 = 1;

/// The oldest version that is still understood.
pub const OLDEST_PROTOCOL: u32 = 1;

/// How a hub runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HubMode {
    /// Somebody started it and ends it.
    #[default]
    Foreground,
    /// A command started it; it leaves when nobody needs it.
    Background,
    /// It lives in a command, and as long.
    Command,
}

/// What a hub says of itself: `GET /healthz`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// Always `ok`: what is not well does not answer.
    pub status: Text,
    /// The last place in the change log.
    pub seq: u64,
    /// Sessions that it read or was told of since it began.
    pub sessions: u64,
    /// Whether something that stands in files is not read yet: answers do not know it.
    pub is_reading: bool,
    /// The program's version, `major.minor.patch`; empty from one that does not tell.
    pub version: Text,
    /// The newest protocol that it speaks; 0 from one that does not tell.
    pub protocol: u32,
    /// The oldest one.
    pub oldest_protocol: u32,
    /// Its process.
    pub pid: u32,
    /// How it runs.
    pub mode: HubMode,
    /// Where it is reached over TCP.
    pub url: Text,
}

/// A page of sessions: `ls --json`, `GET /api/v1/sessions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPage {
    /// Always [`crate::SESSIONS_SCHEMA`].
    pub schema: Text,
    /// The newest first.
    pub sessions: Vec<SessionRow>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<Text>,
}

impl SessionPage {
    /// Returns the first `limit` of these rows as a page. Who asks for one row more than it shows knows whether more follow.
    pub fn of(mut sessions: Vec<SessionRow>, limit: usize) -> Self {
        let has_more = sessions.len() > limit;
        sessions.truncate(limit);
        let cursor =
            |row: &SessionRow| Text::from(format!("{}~{}", row.last_event_at_ms.unwrap_or(0), row.id));
        let next = sessions.last().filter(|_| has_more).map(cursor);
        Self { schema: crate::SESSIONS_SCHEMA.into(), sessions, next }
    }
}

/// The version word of [`Ordered`]'s JSON.
pub const ORDERED_SCHEMA: &str = "subscope.stop-asked/1";

/// What became of an order that a subagent stop: `POST /api/v1/agents/{id}/stop`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ordered {
    /// Always [`ORDERED_SCHEMA`].
    pub schema: Text,
    /// The session.
    pub session_id: SessionId,
    /// The agent.
    pub agent_id: AgentId,
    /// What people call it.
    pub title: Text,
    /// Whether it was ordered before.
    pub repeat: bool,
    /// Whether hooks of its session have named an agent: only then is it certain that it can be told.
    pub reached: bool,
}

/// The version word of [`Names`]' JSON.
pub const NAMES_SCHEMA: &str = "subscope.names/1";

/// What ids begin with some letters: `GET /api/v1/names`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// Always [`NAMES_SCHEMA`].
    pub schema: Text,
    /// Sessions, the newest first.
    pub sessions: Vec<SessionId>,
    /// Subagents, those of the newest sessions first.
    pub agents: Vec<AgentName>,
}

/// An agent's id with its session's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentName {
    /// The session.
    pub session_id: SessionId,
    /// The agent.
    pub agent_id: AgentId,
}

/// The version word of [`OneAgent`]'s JSON.
pub const AGENT_SCHEMA: &str = "subscope.agent/1";

/// An agent with its session: `GET /api/v1/agents/{id}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OneAgent {
    /// Always [`AGENT_SCHEMA`].
    pub schema: Text,
    /// The session, as in its tree.
    pub session: Session,
    /// The agent, as in the tree.
    pub agent: Agent,
}

/// The version word of [`Hits`]' JSON.
pub const HITS_SCHEMA: &str = "subscope.hits/1";

/// What a search found: `search --json`, `GET /api/v1/search`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hits {
    /// Always [`HITS_SCHEMA`].
    pub schema: Text,
    /// The newest first.
    pub hits: Vec<Found>,
}

/// A passage that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Its session.
    pub session_id: SessionId,
    /// Whose it is; empty where its wire does not tell.
    pub agent_id: Text,
    /// What people call that agent: type and description.
    pub agent: String,
    /// What the passage is: `prompt`, `message`, `thought`, `tool input`, `tool result`.
    pub kind: Text,
    /// When, to the second.
    pub at_ms: Option<Millis>,
    /// Some words around the first hit, in one line. The agents' own text: not safe for a terminal.
    pub snippet: String,
    /// The file that it stands in; `inbox/` and a number for what a program handed over.
    pub path: String,
    /// The first byte of its JSON there.
    pub offset: u64,
    /// How many bytes that is.
    pub bytes: u64,
}

/// The version word of [`Status`]' JSON.
pub const STATUS_SCHEMA: &str = "subscope.status/1";

/// How some sessions stand, in a few figures: `status --json`, `GET /api/v1/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Always [`STATUS_SCHEMA`].
    pub schema: Text,
    /// How many sessions were looked at.
    pub sessions: u64,
    /// Subagents at work.
    pub running: u64,
    /// Agents that wait for a permission.
    pub waiting_for_permission: u64,
    /// Since when the first of them waits.
    pub waiting_since_ms: Option<Millis>,
    /// Agents that a person asked to stop and that have not yet.
    pub stopping: u64,
    /// Agents that are stalled.
    pub stalled: u64,
    /// Since when the first of them is silent.
    pub stalled_since_ms: Option<Millis>,
    /// What the sessions cost; `None` where no price is known.
    pub cost_micro_usd: Option<MicroUsd>,
    /// Whether that is a lower bound.
    pub cost_floor: bool,
    /// The moment that this is of.
    pub at_ms: Millis,
}

impl Status {
    /// Returns how these sessions stand at a moment.
    pub fn of(trees: &[Tree], at_ms: Millis) -> Self {
        let agents = || trees.iter().flat_map(|tree| &tree.agents).filter(|agent| agent.is_at_work());
        let asking = || {
            agents().filter_map(|agent| {
                let live = agent.liveness.as_ref().filter(|live| live.kind == LivenessKind::Permission)?;
                Some(live.since_ms.unwrap_or(at_ms))
            })
        };
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
            waiting_for_permission: asking().count() as u64,
            waiting_since_ms: asking().min(),
            stopping: agents().filter(|agent| agent.has(Flag::Stopping)).count() as u64,
            stalled: stalled().count() as u64,
            stalled_since_ms: stalled().min(),
            cost_micro_usd: costs().next().map(|_| costs().sum()),
            cost_floor: trees.iter().any(is_floor),
            at_ms,
        }
    }
}
