//! Extensions of an ATIF document (Agent Trajectory Interchange Format, version 1.8): `extra.subscope` of its
//! trajectories, steps and calls, with which an import gives the session that was exported.
//!
//! Fields without a value are omitted.

use serde::{Deserialize, Serialize};

use crate::{AgentStatus, Basis, Flag, MicroUsd, Millis, Text, ToolStatus, Usage};

/// Schema of every [`AtifTrajectory`], [`AtifStep`] and [`AtifCall`].
pub const ATIF_EXTRA_SCHEMA: &str = "subscope.atif/1";

/// `extra.subscope` of a trajectory: its agent, and in the root trajectory the session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct AtifTrajectory {
    /// Always [`ATIF_EXTRA_SCHEMA`].
    pub schema: Text,
    /// The session; only in the root trajectory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<AtifSession>,
    /// `trajectory_id` of the agent that started this one; omitted for the root and if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<Text>,
    /// The tool call that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<Text>,
    /// 0 for the root, 1 for its subagents and for agents of unknown parent.
    pub depth: u32,
    /// The harness's agent type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<Text>,
    /// Name given by its parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Text>,
    /// Short description of its task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Text>,
    /// Whether its parent continues without waiting for it.
    #[serde(skip_serializing_if = "is_false")]
    pub background: bool,
    /// Status.
    pub status: AgentStatus,
    /// Evidence of its end, for people; omitted for the root, and for agents that have not ended or were lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Text>,
    /// Flags, in a fixed order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<Flag>,
    /// Its intervals of activity in order: start and end, epoch milliseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<[Millis; 2]>,
    /// When its end was reported, epoch milliseconds; omitted where `intervals` have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<Millis>,
    /// The call that began each interval; null if unknown. Omitted unless an agent was resumed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<Option<Text>>,
    /// Its final report; omitted for the root, whose last message it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Text>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
    /// Its tokens, if only their total is known; else they are those of its steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The cost of `usage`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<MicroUsd>,
}

/// A session in the root trajectory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct AtifSession {
    /// The harness, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub harness: Option<Text>,
    /// The harness's version, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub harness_version: Option<Text>,
    /// The working directory of the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<Text>,
    /// Time of the first event, epoch milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<Millis>,
    /// Time of the last event, epoch milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<Millis>,
    /// The session's own total minus the sum of its agents; omitted without such a total.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unattributed_usage: Option<Usage>,
    /// The session's own total.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_usage: Option<Usage>,
    /// The session's own cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_cost_micro_usd: Option<MicroUsd>,
}

/// `extra.subscope` of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct AtifStep {
    /// Always [`ATIF_EXTRA_SCHEMA`].
    pub schema: Text,
    /// The harness's id of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<Text>,
    /// How the last turn of the run ended that this prompt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_status: Option<AgentStatus>,
    /// When it ended, epoch milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_ended_at_ms: Option<Millis>,
    /// The API's id of the response; omitted for a step that is no response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<Text>,
    /// Time of its first line, epoch milliseconds, if it is not the step's `timestamp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<Millis>,
    /// Why the response ended, by OpenTelemetry's terms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<Text>,
    /// Characters of each text of `message`, which are joined by an empty line; omitted for a single text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<usize>,
    /// Whether the token counts of `metrics` are lower bounds.
    #[serde(skip_serializing_if = "is_false")]
    pub is_floor: bool,
    /// Whether the step is a placeholder for an agent without known steps.
    #[serde(skip_serializing_if = "is_false")]
    pub is_placeholder: bool,
}

/// `extra.subscope` of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AtifCall {
    /// Always [`ATIF_EXTRA_SCHEMA`].
    pub schema: Text,
    /// Status.
    pub status: ToolStatus,
    /// Evidence for its agent.
    pub basis: Basis,
    /// Start time, epoch milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<Millis>,
    /// End time, epoch milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<Millis>,
    /// Short description of its target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Text>,
    /// The files that it writes.
    #[serde(default, skip_serializing_if = "<[Text]>::is_empty")]
    pub writes: Box<[Text]>,
    /// Whether the harness gave it no id: `tool_call_id` is of this document.
    #[serde(default, skip_serializing_if = "is_false")]
    pub has_no_id: bool,
    /// Whether its arguments are not known.
    #[serde(default, skip_serializing_if = "is_false")]
    pub has_no_arguments: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(flag: &bool) -> bool {
    !flag
}
