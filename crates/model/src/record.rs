//! Export formats: lifecycle trace, execution traces, checkpoints.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{MicroUsd, Millis};

/// The lifecycle of all subagents of a session (requirement 1.6).
///
/// Has no `Serialize`: its JSON is nested as deep as the agents are, and serde's recursion would overflow the
/// stack on a long chain. `subscope_export::write_trace` writes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Lifecycle events in order of time.
    pub events: Vec<Lifecycle>,
    /// The subagents in pre-order.
    pub hierarchy: Vec<TraceNode>,
    /// Statistics over all of them.
    pub stats: TraceStats,
}

/// Type of a lifecycle event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LifecycleKind {
    /// It was started.
    Spawn,
    /// It reported progress, or called a tool.
    Progress,
    /// It ended without an error.
    Complete,
    /// It failed, was stopped or was lost.
    Error,
}

/// A lifecycle event of a subagent (requirement 1.2). Optional fields without a value are omitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// The subagent's id.
    pub id: String,
    /// The type of event.
    #[serde(rename = "type")]
    pub kind: LifecycleKind,
    /// Time of the event, ISO 8601 in UTC; `None` if unknown.
    pub timestamp: Option<String>,
    /// The harness's agent type.
    pub agent_type: String,
    /// Short description of its task.
    pub description: String,
    /// The subagent that started it; `None` if that is the root or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// Spawn: the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Spawn: the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Progress: current activity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Complete: `success`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<String>,
    /// Complete and error: active time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// Complete: the final report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Error: the error message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Error: the HTTP status that the error names (`529`), else the status word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
}

/// A subagent with its level in the hierarchy: its descendants are the following nodes of greater levels.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceNode {
    /// 0 below the root or below an unknown parent; at most one more than that of the previous node.
    pub level: u32,
    /// The subagent.
    pub state: TraceState,
}

/// A subagent's state in a [`Trace`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TraceState {
    /// The subagent's id.
    pub id: String,
    /// The harness's agent type.
    pub agent_type: String,
    /// Short description of its task.
    pub description: String,
    /// The tree's status word.
    pub status: String,
    /// The subagent that started it; `None` if that is the root or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// Subagents that it started, ordered by start.
    pub child_ids: Vec<String>,
    /// Start time, ISO 8601 in UTC; `None` if unknown.
    pub spawned_at: Option<String>,
    /// End time, ISO 8601 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// Active time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// The task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

/// Statistics of a [`Trace`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TraceStats {
    /// Number of subagents.
    pub total_subagents: u32,
    /// Number of subagents by type.
    pub by_type: BTreeMap<String, u32>,
    /// Sum of their active times.
    pub total_duration_ms: i64,
    /// Length of the union of all intervals.
    pub wall_ms: i64,
    /// Number of failed subagents.
    pub failure_count: u32,
    /// Greatest depth.
    pub max_depth: u32,
}

/// An ended subagent. Empty lists and unknown values are omitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionTrace {
    /// The subagent's id.
    pub subagent_id: String,
    /// The harness's agent type.
    pub subagent_type: String,
    /// The call that started it; empty if unknown.
    pub parent_tool_call_id: String,
    /// The task.
    pub prompt: String,
    /// Start time, epoch milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Millis>,
    /// End time, epoch milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Millis>,
    /// Whether it ended without an error.
    pub success: bool,
    /// The report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The error message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its calls in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_executions: Vec<ToolExecution>,
    /// Its tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ExecutionUsage>,
    /// The subagent that started it, unless that is the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_subagent_id: Option<String>,
    /// 1 below the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// The model of its latest response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its own cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<MicroUsd>,
}

impl ExecutionTrace {
    /// Schema of traces as lines: each is a trace with this `schema` and the `sessionId`.
    pub const LINE_SCHEMA: &'static str = "subscope.execution/1";
}

/// A tool call of an ended subagent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolExecution {
    /// The tool.
    pub tool_name: String,
    /// The harness's id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Its arguments.
    pub arguments: Value,
    /// Its result; null if it has none.
    pub result: Value,
    /// Whether it ended in an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Milliseconds from start to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<i64>,
}

/// Tokens of an ended subagent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionUsage {
    /// All input, cached or not.
    pub input_tokens: u64,
    /// Generated tokens.
    pub output_tokens: u64,
    /// The sum.
    pub total_tokens: u64,
}

/// Version of checkpoints: the one written, and the only one accepted.
pub const CHECKPOINT_VERSION: &str = "1.0.0";

/// The traces of a session at one time: `checkpoint.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// Always [`CHECKPOINT_VERSION`].
    pub version: String,
    /// One trace for each ended subagent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subagent_traces: Vec<ExecutionTrace>,
}

/// Metadata of a checkpoint: `metadata.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointMetadata {
    /// The session.
    pub session_id: String,
    /// The checkpoint's own id.
    pub checkpoint_id: String,
    /// Time of the checkpoint, epoch milliseconds.
    pub timestamp: Millis,
    /// Number of steps (ended subagents) in it.
    pub step: u64,
    /// The agent whose state it is: always `root`.
    pub agent_id: String,
}
