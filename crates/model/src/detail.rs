//! Runs and API responses of a session: what spans need beyond the rows of a [`crate::Tree`].

use std::collections::BTreeMap;

use crate::{AgentId, AgentStatus, Millis, Text, ToolUseId, Usage};

/// Runs, API responses, and what began each interval. Derived with the tree of the same moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionDetail {
    /// The runs, in order. Empty if no prompt and no turn was seen.
    pub runs: Vec<RunDetail>,
    /// The responses that count in this session, by their first line; those without a time come first.
    pub responses: Vec<ResponseDetail>,
    /// The call that began each interval of an agent, in the order of [`crate::Agent::intervals`]; `None` if unknown. The
    /// root is not in it.
    pub triggers: BTreeMap<AgentId, Vec<Option<ToolUseId>>>,
}

/// A run: from one prompt to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDetail {
    /// Identity of its prompt within the session: equal whatever the number of runs is.
    pub key: String,
    /// Time of its prompt, or of a stream's first line in it.
    pub started_at_ms: Option<Millis>,
    /// How and when its last turn ended; `None` if no source reports it.
    pub ending: Option<(AgentStatus, Option<Millis>)>,
}

/// An API response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseDetail {
    /// The API's id of the message; `None` for the total of an agent of which no single response was reported.
    pub id: Option<Text>,
    /// Its agent.
    pub agent: AgentId,
    /// Its model.
    pub model: Option<Text>,
    /// Its tokens.
    pub usage: Option<Usage>,
    /// Its cost in picodollars; `None` if unknown.
    pub cost_pico_usd: Option<u128>,
    /// Times of its first and last line.
    pub times: Option<[Millis; 2]>,
    /// Why it ended.
    pub finish: Option<FinishReason>,
    /// The calls that its lines have; calls without an id are not in it.
    pub calls: Vec<ToolUseId>,
}

/// Why a response ended, by OpenTelemetry's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended its turn.
    Stop,
    /// The model called a tool.
    ToolCall,
}

impl FinishReason {
    /// Returns OpenTelemetry's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::ToolCall => "tool_call",
        }
    }
}
