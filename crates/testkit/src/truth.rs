//! Ground truth of a recording: parses `truth.json` (`subscope.truth/1`).
//!
//! It was derived from all sources of a recording by an oracle that shares no code with the product.

use serde::Deserialize;
use subscope_model::Usage;

/// Ground truth of one recording.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// The name and version of this shape: `subscope.truth/1`.
    pub schema: String,
    /// The session as a whole.
    pub session: TruthSession,
    /// The agents, the root first.
    pub agents: Vec<TruthAgent>,
    /// Figures over all agents.
    pub summary: TruthSummary,
}

/// The session of a recording.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TruthSession {
    /// The harness's own id.
    pub id: String,
    /// The harness: `claude-code`.
    pub harness: String,
    /// Its version.
    pub harness_version: String,
    /// How many runs (spans from one prompt of the user to the next) there are.
    pub runs: u32,
}

/// One agent of a recording.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TruthAgent {
    /// `root` or the harness's id.
    pub id: String,
    /// `agent:root` or `subagent:<id>`.
    pub actor_id: String,
    /// The tool call that started it; `None` for the root and where no source names it.
    pub spawned_by: Option<String>,
    /// The id of its parent; `None` for the root and for orphans.
    pub parent_id: Option<String>,
    /// 0 for the root.
    pub depth: u32,
    /// Its type, as `Explore`.
    #[serde(rename = "type")]
    pub agent_type: Option<String>,
    /// The short description of its task.
    pub description: Option<String>,
    /// The model that answered.
    pub model: String,
    /// The status words that are right; any of them is accepted.
    pub status: Vec<String>,
    /// How many tool calls it made.
    pub tool_calls: u32,
    /// How many of them failed.
    pub tool_errors: u32,
    /// How many of them were denied.
    pub tools_denied: u32,
    /// How many of them have no end.
    pub open_tools: u32,
    /// Its own tokens.
    pub usage: Usage,
    /// Its tool calls, in order of begin.
    pub tools: Vec<TruthTool>,
    /// Whether a tree may omit it, as the warm-up agents of 2.0.x.
    #[serde(default)]
    pub optional: bool,
}

/// One tool call of a recording.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TruthTool {
    /// The harness's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The status words that are right; any of them is accepted.
    pub status: Vec<String>,
}

/// Figures over all agents of a recording.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TruthSummary {
    /// How many subagents there are, optional ones included, the root not.
    pub agents: u32,
    /// The greatest depth.
    pub max_depth: u32,
    /// All tool calls.
    pub tool_calls: u32,
    /// All tokens by the session's own check-sum.
    pub usage: Usage,
    /// Part of `usage` that belongs to no agent.
    pub unattributed_usage: Usage,
}

impl Truth {
    /// Reads a truth from its JSON text.
    pub fn parse(json: &str) -> Result<Self, serde_json::Error> {
        let mut truth: Self = serde_json::from_str(json)?;
        // The file leaves the sum out of these two.
        for usage in [&mut truth.summary.usage, &mut truth.summary.unattributed_usage] {
            usage.total_tokens = usage.kinds().iter().sum();
        }
        Ok(truth)
    }

    /// The agent of that id.
    pub fn agent(&self, id: &str) -> Option<&TruthAgent> {
        self.agents.iter().find(|agent| agent.id == id)
    }

    /// The agent that made the tool call of that id, and the call.
    pub fn owner(&self, tool_use_id: &str) -> Option<(&TruthAgent, &TruthTool)> {
        self.agents
            .iter()
            .find_map(|agent| Some((agent, agent.tools.iter().find(|tool| tool.id == tool_use_id)?)))
    }
}
