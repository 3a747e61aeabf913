//! Ends of agents, and the evidence for them.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use crate::{AgentStatus, Millis, RawJson, SpawnTotals};

/// Evidence for an end, strongest first (design, section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EndEvidence {
    /// Our record that a hook's answer stopped it; the harness reports it as completed.
    HookAnswer,
    /// A notification of the harness that the task ended.
    Notification,
    /// A notification of the harness that its turn was interrupted: somebody or something ordered that.
    Interruption,
    /// The end that its program published.
    Published,
    /// The result of the call that stopped it.
    StopCall,
    /// The result of its spawn call.
    SpawnResult,
    /// Its own last line.
    LastLine,
    /// Marked as finished by the harness.
    Finished,
    /// A stop hook.
    StopHook,
    /// A notice that it waits for messages: its turn is over.
    IdleNotice,
    /// An OpenTelemetry record of its end.
    OtelRecord,
    /// No end was seen.
    #[default]
    Lost,
}

impl EndEvidence {
    /// All of them, the strongest first.
    const ALL: [Self; 12] = [
        Self::HookAnswer,
        Self::Notification,
        Self::Interruption,
        Self::Published,
        Self::StopCall,
        Self::SpawnResult,
        Self::LastLine,
        Self::Finished,
        Self::StopHook,
        Self::IdleNotice,
        Self::OtelRecord,
        Self::Lost,
    ];

    /// Returns the evidence of an end that a harness notes of a turn.
    pub fn of_turn(status: AgentStatus) -> Self {
        if status == AgentStatus::Stopped { Self::Interruption } else { Self::Notification }
    }

    /// Returns its place among all, the strongest first: both kinds of notifications are equally strong.
    pub fn strength(self) -> Self {
        if self == Self::Interruption { Self::Notification } else { self }
    }

    /// Returns the evidence of a description.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|evidence| evidence.as_str() == text)
    }

    /// Returns a description for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HookAnswer => "hook answer",
            Self::Notification => "task notification",
            Self::Interruption => "turn interrupted",
            Self::Published => "published end",
            Self::StopCall => "stop call",
            Self::SpawnResult => "spawn result",
            Self::LastLine => "last line",
            Self::Finished => "marked finished",
            Self::StopHook => "stop hook",
            Self::IdleNotice => "idle notice",
            Self::OtelRecord => "OpenTelemetry record",
            Self::Lost => "no ending",
        }
    }
}

/// End of an agent.
#[derive(Clone, Debug, Default)]
pub struct AgentEnd<'a> {
    /// The agent's id; `None`: the agent of the claim; `@NAME`: the teammate of that name; `@`: all teammates.
    pub agent: Option<&'a str>,
    /// The call whose interval of activity ended.
    pub call: Option<&'a str>,
    /// An alias of `call`.
    pub run_id: Option<&'a str>,
    /// Outcome.
    pub status: AgentStatus,
    /// Evidence.
    pub evidence: EndEvidence,
    /// Time, reported by the harness.
    pub time: Option<Millis>,
    /// Its report.
    pub report: Option<RawJson<'a>>,
    /// The error.
    pub error: Option<RawJson<'a>>,
    /// Its sums: what is known of an agent whose own lines are nowhere.
    pub totals: Option<SpawnTotals>,
    /// The agent type in a stop hook; empty for ghosts.
    pub agent_type: Option<Cow<'a, str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_evidence_is_listed_in_order_and_comes_back_from_its_description() {
        assert_eq!(EndEvidence::ALL.len(), EndEvidence::Lost as usize + 1);
        for (place, evidence) in EndEvidence::ALL.into_iter().enumerate() {
            assert_eq!((evidence as usize, EndEvidence::parse(evidence.as_str())), (place, Some(evidence)));
        }
    }
}
