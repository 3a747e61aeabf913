//! Stop requests for subagents and their delivery: lines of our own dialect, `subscope.stop/1`.
//!
//! They are facts about a session like the harness's own records: stored with the ingested input, so that a rebuild
//! derives the same rows.

use serde::{Deserialize, Serialize};

use crate::{AgentId, Millis, SessionId, Text, ToolUseId};

/// A stop request, or its delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StopOrder {
    /// Always [`StopOrder::SCHEMA`].
    pub schema: Text,
    /// Whether it is the request or the delivery.
    pub step: StopStep,
    /// Time.
    pub at_ms: Millis,
    /// The agent's session.
    pub session_id: SessionId,
    /// The agent, by the id known at that time.
    pub agent_id: AgentId,
    /// The call that the agent was about to make, or had made, at the delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<ToolUseId>,
    /// Whether that call was denied with it. If not, it runs before the agent ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_refused: bool,
}

impl StopOrder {
    /// Schema version.
    pub const SCHEMA: &'static str = "subscope.stop/1";
}

/// Step of a stop request.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum StopStep {
    /// The user requested the stop.
    Asked,
    /// The stop was delivered to the agent, in the answer to a hook.
    Given,
}

impl StopStep {
    /// Returns the lower-case word used in every serialization.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Given => "given",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_reads_as_it_was_written() {
        for step in [StopStep::Asked, StopStep::Given] {
            let is_given = step == StopStep::Given;
            let order = StopOrder {
                schema: StopOrder::SCHEMA.into(),
                step,
                at_ms: 7,
                session_id: "s".into(),
                agent_id: "a1".into(),
                tool_use_id: is_given.then(|| ToolUseId("t".into())),
                is_refused: is_given,
            };
            let line = serde_json::to_string(&order).unwrap();
            assert!(line.contains(&format!("\"step\":\"{}\"", step.as_str())), "{line}");
            assert_eq!(line.contains("is_refused"), is_given, "{line}");
            assert_eq!(serde_json::from_str::<StopOrder>(&line).unwrap(), order);
        }
    }
}
