//! That a person asked a subagent to stop, and that it was told: one line of our own dialect, `subscope.stop/1`.
//!
//! Such orders are facts about a session like what its harness tells: they are kept with what was handed over, so that a
//! rebuild concludes the same from them.

use serde::{Deserialize, Serialize};

use crate::{AgentId, Millis, SessionId, Text, ToolUseId};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopOrder {
    /// Always [`StopOrder::SCHEMA`].
    pub schema: Text,
    /// How far the order is.
    pub step: StopStep,
    /// When.
    pub at_ms: Millis,
    /// The agent's session.
    pub session_id: SessionId,
    /// The agent, by the id that it was known by.
    pub agent_id: AgentId,
    /// The call that the agent was about to make, or had made, when it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<ToolUseId>,
    /// Whether that call was refused with it. Where it was not, it runs before the agent ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_refused: bool,
}

impl StopOrder {
    /// The version word.
    pub const SCHEMA: &'static str = "subscope.stop/1";
}

/// How far an order to stop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StopStep {
    /// A person asked for it.
    Asked,
    /// The agent was told, by an answer that it waited for.
    Given,
}

impl StopStep {
    /// The lower-case word used on every wire.
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
