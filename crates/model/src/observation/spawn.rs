//! Starts of agents: what a source says about an agent's description and origin, and the arguments and the result of the
//! call that starts it.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use crate::{Millis, RawJson};

/// Whether the caller of a spawn waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SpawnMode {
    /// Its caller waits for it.
    Foreground,
    /// Its caller continues.
    Background,
}

/// Parent of an agent, if the input names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent<'a> {
    /// The root.
    Root,
    /// The subagent with this id.
    Agent(&'a str),
}

/// Description and origin of an agent. Every field may be unknown.
#[derive(Clone, Debug, Default)]
pub struct Spawn<'a> {
    /// The agent's id, if the claim does not name it.
    pub agent: Option<&'a str>,
    /// The call that started or resumed it.
    pub call: Option<&'a str>,
    /// Alias of `call` on later lines.
    pub run_id: Option<&'a str>,
    /// Its parent.
    pub parent: Option<Parent<'a>>,
    /// The harness's agent type.
    pub agent_type: Option<Cow<'a, str>>,
    /// Short description of its task.
    pub description: Option<Cow<'a, str>>,
    /// Its name.
    pub name: Option<Cow<'a, str>>,
    /// The task.
    pub prompt: Option<RawJson<'a>>,
    /// The model.
    pub model: Option<Cow<'a, str>>,
    /// Whether its caller waits.
    pub mode: Option<SpawnMode>,
    /// Whether the agent starts working now; otherwise this only describes it.
    pub starts: bool,
    /// Whether `call` is certainly its spawn call, even if other calls name the agent too.
    pub is_origin: bool,
    /// Whether no call of its own started it, as with a workflow's agents.
    pub detached: bool,
    /// Whether this does not prove that the agent exists: metadata may be copied from another session.
    pub is_note: bool,
    /// The batch of agents that were started together with it.
    pub batch: Option<SpawnBatch<'a>>,
    /// Whether the agent's id is one that its source made up, as it has none: the id that another source has for the
    /// agent of the same call replaces it.
    pub has_stand_in_id: bool,
    /// Whether all of its data is a copy from another session.
    pub is_copy: bool,
    /// Whether it is a teammate: after a turn it is idle and waits for messages, until it is shut down.
    pub is_teammate: bool,
    /// Whether its parent handed the conversation over to it.
    pub is_handed_over: bool,
    /// Whether the source does not report its parent, or the agent itself: they follow from what is around it.
    pub is_inferred: bool,
    /// Whether the program that sends these lines can stop this agent and no other.
    pub can_stop: bool,
}

/// Start of several agents at once, as by a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnBatch<'a> {
    /// By this call.
    Call(&'a str),
    /// By the call whose result, or whose arguments, name this run.
    Run(&'a str),
}

/// Arguments of a spawn call.
#[derive(Clone, Debug, Default)]
pub struct SpawnInput<'a> {
    /// The harness's agent type.
    pub agent_type: Option<Cow<'a, str>>,
    /// Short description of its task.
    pub description: Option<Cow<'a, str>>,
    /// Its name.
    pub name: Option<Cow<'a, str>>,
    /// The task.
    pub prompt: Option<RawJson<'a>>,
    /// The requested model.
    pub model: Option<Cow<'a, str>>,
    /// Whether the caller waits; `None` if it depends on an unknown default of the harness.
    pub mode: Option<SpawnMode>,
}

/// Sums over an agent in the result of its spawn call.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpawnTotals {
    /// Number of its calls.
    pub tool_calls: u32,
    /// Tokens of its last request, as in [`Usage::kinds`](crate::Usage::kinds); those of earlier ones are not in the result.
    pub last_request: Option<[u64; 4]>,
    /// How long it has worked, where the call that started it did not wait for it.
    pub duration_ms: Option<Millis>,
}

/// Result of a spawn call.
#[derive(Clone, Debug, Default)]
pub struct SpawnResult<'a> {
    /// The agent's id.
    pub agent: Option<&'a str>,
    /// Whether the agent has ended (`true`), or was launched and is still at work (`false`); `None` if unknown.
    pub finished: Option<bool>,
    /// The harness's agent type.
    pub agent_type: Option<Cow<'a, str>>,
    /// Short description of its task.
    pub description: Option<Cow<'a, str>>,
    /// The model.
    pub model: Option<Cow<'a, str>>,
    /// The task.
    pub prompt: Option<RawJson<'a>>,
    /// Its report.
    pub report: Option<RawJson<'a>>,
    /// Its sums: what is known of an agent whose own lines are nowhere.
    pub totals: Option<SpawnTotals>,
    /// Whether the result proves that an agent ran.
    pub proves_agent: bool,
    /// Whether the call of another tool started an agent (a skill that runs as an agent).
    pub is_forked: bool,
    /// Whether the agent is a teammate.
    pub is_teammate: bool,
}
