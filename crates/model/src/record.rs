//! Records that other programs exchange: lifecycle trace, execution traces, checkpoints.

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
    /// Figures over all of them.
    pub stats: TraceStats,
}

/// What happened to a subagent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LifecycleKind {
    /// It was started.
    Spawn,
    /// It told how far it is, or called a tool.
    Progress,
    /// It ended without an error.
    Complete,
    /// It ended by an error, was stopped or lost.
    Error,
}

/// One step in the life of a subagent (requirement 1.2). Optional fields that have no value are omitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// The subagent's id.
    pub id: String,
    /// What happened.
    #[serde(rename = "type")]
    pub kind: LifecycleKind,
    /// When it happened, ISO 8601 in UTC; `None` where no source tells.
    pub timestamp: Option<String>,
    /// The harness's type of agent.
    pub agent_type: String,
    /// What it was asked to do, in a few words.
    pub description: String,
    /// Who started it, unless that is the root or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// Spawn: the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Spawn: the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Progress: what it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Complete: the status word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<String>,
    /// Complete and error: how long it was active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// Complete: the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Error: what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Error: the status word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
}

/// A subagent and its place in the hierarchy: those below it are the nodes that follow at greater levels.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceNode {
    /// 0 for those below the root or below nobody known; never more than one above that of the node before.
    pub level: u32,
    /// The subagent.
    pub state: TraceState,
}

/// A subagent's state in a [`Trace`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceState {
    /// The subagent's id.
    pub id: String,
    /// The harness's type of agent.
    pub agent_type: String,
    /// What it was asked to do, in a few words.
    pub description: String,
    /// The tree's status word.
    pub status: String,
    /// Who started it, unless that is the root or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// Those that it started, by start.
    pub child_ids: Vec<String>,
    /// When it started, ISO 8601 in UTC; `None` where no source tells.
    pub spawned_at: Option<String>,
    /// When it ended, ISO 8601 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// How long it was active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// The task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

/// Figures of a [`Trace`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceStats {
    /// Subagents.
    pub total_subagents: u32,
    /// Subagents by type.
    pub by_type: BTreeMap<String, u32>,
    /// The sum of their active times.
    pub total_duration_ms: i64,
    /// The union of all intervals.
    pub wall_ms: i64,
    /// Failed ones.
    pub failure_count: u32,
    /// The greatest depth.
    pub max_depth: u32,
}

/// One ended subagent (requirement 5.1). Empty lists and unknown values are omitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionTrace {
    /// The subagent's id.
    pub subagent_id: String,
    /// The harness's type of agent.
    pub subagent_type: String,
    /// The call that started it; empty where no source tells.
    pub parent_tool_call_id: String,
    /// The task.
    pub prompt: String,
    /// When it started, epoch milliseconds.
    pub start_time: Millis,
    /// When it ended, epoch milliseconds.
    pub end_time: Millis,
    /// Whether it ended without an error.
    pub success: bool,
    /// The report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// What went wrong.
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

/// One call of a tool in an [`ExecutionTrace`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolExecution {
    /// The tool.
    pub tool_name: String,
    /// The harness's id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Its arguments.
    pub arguments: Value,
    /// Its result; null where it has none.
    pub result: Value,
    /// Whether it ended in an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Milliseconds from begin to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<i64>,
}

/// Tokens in an [`ExecutionTrace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionUsage {
    /// All input, cached or not.
    pub input_tokens: u64,
    /// Generated tokens.
    pub output_tokens: u64,
    /// The sum.
    pub total_tokens: u64,
}

/// The version of checkpoints that this program writes and the only one it reads.
pub const CHECKPOINT_VERSION: &str = "1.0.0";

/// The traces of a session at one moment (requirement 5.2): `checkpoint.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// Always [`CHECKPOINT_VERSION`].
    pub version: String,
    /// One trace for each ended subagent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subagent_traces: Vec<ExecutionTrace>,
}

/// What a checkpoint is of: `metadata.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointMetadata {
    /// The session.
    pub session_id: String,
    /// The checkpoint's own id.
    pub checkpoint_id: String,
    /// When it was taken, epoch milliseconds.
    pub timestamp: Millis,
    /// How many steps (ended subagents) it holds.
    pub step: u64,
    /// The agent whose state it is; `root`.
    pub agent_id: String,
}
