//! Iterations that `subscope run` recorded: the JSON of their `meta.json`, and rows of their list.

use serde::{Deserialize, Serialize};

use crate::Millis;

/// Schema of [`IterationMeta`].
pub const ITERATION_SCHEMA: &str = "subscope.iteration/1";
/// Schema of [`Iterations`].
pub const ITERATIONS_SCHEMA: &str = "subscope.iterations/1";

/// Status of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IterationStatus {
    /// The command runs.
    Running,
    /// The command ended with exit code 0.
    Completed,
    /// The command ended otherwise.
    Failed,
    /// The recording process ended before the command; the record is incomplete.
    Cut,
}

/// Metadata of an iteration: `meta.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct IterationMeta {
    /// Always [`ITERATION_SCHEMA`].
    pub schema: String,
    /// Run id.
    pub run: String,
    /// Number from 1.
    pub iteration: u32,
    /// Number of iterations of the run, if limited.
    pub of: Option<u32>,
    /// Name given by the user, else that of the command.
    pub name: String,
    /// Command line.
    pub command: Vec<String>,
    /// Working folder.
    pub cwd: String,
    /// Session id, once known.
    pub session_id: Option<String>,
    /// Status.
    pub status: IterationStatus,
    /// Exit code after the end; 128 + signal number after a signal.
    pub exit_code: Option<i32>,
    /// Start time.
    pub started_at_ms: Millis,
    /// End time.
    pub ended_at_ms: Option<Millis>,
    /// Recording process.
    pub pid: u32,
}

/// A recorded iteration in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Iteration {
    /// Folder of the record.
    pub folder: String,
    /// Its metadata.
    #[serde(flatten)]
    pub meta: IterationMeta,
    /// Number of subagents; `None` if its trace cannot be read.
    pub agents: Option<u32>,
    /// Number of failed subagents.
    pub failed: Option<u32>,
    /// From start to end; of one that was cut, to the last change of its trace. `None` while it runs.
    pub duration_ms: Option<i64>,
}

/// A list of iterations: `ls --iterations --json`, `GET /api/v1/iterations`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Iterations {
    /// Always [`ITERATIONS_SCHEMA`].
    pub schema: String,
    /// The newest first.
    pub iterations: Vec<Iteration>,
}
