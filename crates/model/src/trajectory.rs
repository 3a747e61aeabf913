//! Trajectories as lines of our own dialect, `subscope.trajectory/1`: the content of an ATIF document, one line per step.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::{AgentStatus, Basis, Millis, Text, ToolStatus, Usage};

/// Type of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrajectoryLineKind {
    /// The session: its first line.
    #[default]
    Session,
    /// An agent starts: its first line.
    Start,
    /// A text with the user's role.
    Prompt,
    /// A step of an agent: an API response, or calls and texts that belong to no response.
    Step,
    /// A text of the environment.
    Note,
    /// An agent ends: its last line.
    End,
}

/// A line of a trajectory. Which fields it has depends on `type`; a field without a value is omitted.
#[derive(Debug, Default, Serialize, schemars::JsonSchema)]
pub struct TrajectoryLine<'a> {
    /// Always [`TrajectoryLine::SCHEMA`].
    pub schema: Text,
    /// The session.
    pub session_id: Cow<'a, str>,
    /// What the line is about.
    #[serde(rename = "type")]
    pub kind: TrajectoryLineKind,
    /// The agent: `root` or the id of a subagent. Not in a session's line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<Cow<'a, str>>,
    /// Time of the first event of a session, or of the first line of a step or prompt, epoch milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<Millis>,
    /// Time of the last event of a session, of the last line of a step, or when a prompt's run ended, epoch milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<Millis>,
    /// Session: the harness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub harness: Option<Cow<'a, str>>,
    /// Session: the harness's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Cow<'a, str>>,
    /// Session: the working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<Cow<'a, str>>,
    /// Session: its own total. End: the agent's, if no response is known. Step: the response's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Session and end: the cost of `usage`, in micro-US-dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<i64>,
    /// Start: the agent that started it; `root` for the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<Cow<'a, str>>,
    /// Start: the call that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<Cow<'a, str>>,
    /// Start: whether that call started several agents.
    #[serde(skip_serializing_if = "is_false")]
    pub is_batch: bool,
    /// Start: its agent type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<Cow<'a, str>>,
    /// Start: its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Cow<'a, str>>,
    /// Start: short description of its task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Cow<'a, str>>,
    /// Start: its task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Cow<'a, str>>,
    /// Start: its model. Step: the response's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Cow<'a, str>>,
    /// Start: whether its parent continues without waiting for it.
    #[serde(skip_serializing_if = "is_false")]
    pub background: bool,
    /// Start: whether the harness started it by itself.
    #[serde(skip_serializing_if = "is_false")]
    pub is_warmup: bool,
    /// Start: whether all of it is a copy from another session.
    #[serde(skip_serializing_if = "is_false")]
    pub is_copy: bool,
    /// Start: whether its parent handed the conversation over to it.
    #[serde(skip_serializing_if = "is_false")]
    pub is_handed_over: bool,
    /// Start: whether its parent, or the agent itself, is inferred.
    #[serde(skip_serializing_if = "is_false")]
    pub is_inferred: bool,
    /// Start: its intervals of activity, epoch milliseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<[Millis; 2]>,
    /// Start: the call that began each interval; null if unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<Option<Text>>,
    /// Prompt and note: the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Cow<'a, str>>,
    /// Prompt: the harness's id of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<Cow<'a, str>>,
    /// Prompt: whether it came from neither the user nor the agent's parent.
    #[serde(skip_serializing_if = "is_false")]
    pub is_inserted: bool,
    /// Prompt: how its run ended. End: the agent's status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<AgentStatus>,
    /// End: evidence, by the words of [`crate::EndEvidence`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Cow<'a, str>>,
    /// End: the final report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Cow<'a, str>>,
    /// End: the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Cow<'a, str>>,
    /// Step: the API's id of the response; omitted if it is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<Cow<'a, str>>,
    /// Step: number of responses that its figures sum up, if it is more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub responses: Option<u32>,
    /// Step: cost of the response in picodollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_pico_usd: Option<u64>,
    /// Step: whether its cost is unknown because its user pays no list price, as with a subscription.
    #[serde(skip_serializing_if = "is_false")]
    pub is_unpriced: bool,
    /// Step: why the response ended, by OpenTelemetry's terms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<Cow<'a, str>>,
    /// Step: its texts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<Cow<'a, str>>,
    /// Step: its thoughts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thoughts: Vec<Cow<'a, str>>,
    /// Step: its tool calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<TrajectoryCall<'a>>,
}

impl TrajectoryLine<'_> {
    /// Schema of the lines. Changes within it are additive only.
    pub const SCHEMA: &'static str = "subscope.trajectory/1";
}

/// A tool call of a step.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct TrajectoryCall<'a> {
    /// Its id; omitted if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Cow<'a, str>>,
    /// The tool.
    pub name: Cow<'a, str>,
    /// Its arguments; omitted if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub input: Option<&'a RawValue>,
    /// Its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub result: Option<&'a RawValue>,
    /// Status.
    pub status: ToolStatus,
    /// Whether it was interrupted.
    #[serde(skip_serializing_if = "is_false")]
    pub is_interrupted: bool,
    /// Whether it repeats the call before it; omitted where its arguments show that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_repeat: Option<bool>,
    /// Evidence for its agent.
    pub basis: Basis,
    /// Whether it started an agent.
    #[serde(skip_serializing_if = "is_false")]
    pub is_spawn: bool,
    /// Start time, epoch milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<Millis>,
    /// End time, epoch milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<Millis>,
    /// Short description of its target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Text>,
    /// The files that it writes.
    #[serde(skip_serializing_if = "<[Text]>::is_empty")]
    pub writes: Box<[Text]>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(flag: &bool) -> bool {
    !flag
}
