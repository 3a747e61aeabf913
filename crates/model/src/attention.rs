//! How urgently a session needs a person: the order of session lists in every frontend.

use serde::{Deserialize, Serialize};

use crate::{Agent, Flag, Millis, NeedGroup, SessionId, SessionNeed, SessionRow};

/// How urgently a session needs a person, the most urgent first.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Attention {
    /// An agent waits for a person: a permission, an answer, a decision about a plan. Not if that is only inferred.
    Waiting,
    /// An agent is stalled or fails repeatedly, or has failed or is lost while its parent still needs it.
    Trouble,
    /// At work.
    Live,
    /// Nothing is at work: all agents have ended, or the root waits for the user's next prompt.
    #[default]
    Ended,
}

impl Attention {
    /// Returns the class of a session with these agents and their need.
    pub fn of(agents: &[Agent], need: Option<&SessionNeed>) -> Self {
        if !agents.iter().any(|agent| agent.is_at_work() && !agent.has(Flag::Warmup)) {
            return Self::Ended;
        }
        match need.map(|need| need.group) {
            Some(NeedGroup::Waits) => Self::Waiting,
            Some(NeedGroup::Trouble) => Self::Trouble,
            Some(NeedGroup::Perhaps) | None => Self::Live,
        }
    }
}

impl SessionRow {
    /// Returns the sort key of lists of what is at work: by [`Attention`], then by start, the oldest first; ended
    /// sessions by their last event, the newest first. It changes only with the class, so that rows keep their places.
    pub fn attention_place(&self) -> (Attention, Millis, SessionId) {
        let time = match self.attention {
            Attention::Waiting | Attention::Trouble | Attention::Live => self.started_at_ms.unwrap_or(0),
            Attention::Ended => -self.last_event_at_ms.unwrap_or(0),
        };
        (self.attention, time, self.id.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AgentId, AgentStatus, Liveness, LivenessKind};

    fn agent(id: &str, status: AgentStatus, parent: Option<&str>) -> Agent {
        let parent_id = parent.map(AgentId::from);
        Agent { parent_id, ..Agent::unknown(AgentId::from(id), u32::from(parent.is_some()), status) }
    }

    fn class(agents: &[Agent], run_started_at_ms: Option<Millis>) -> Attention {
        Attention::of(agents, SessionNeed::of(agents, run_started_at_ms).as_ref())
    }

    #[test]
    fn class_is_that_of_the_agent_that_needs_a_person_most() {
        let mut agents = vec![
            agent("root", AgentStatus::Running, None),
            agent("a", AgentStatus::Completed, Some("root")),
            agent("b", AgentStatus::Running, Some("root")),
            agent("c", AgentStatus::Failed, Some("a")),
        ];
        assert_eq!(class(&agents, None), Attention::Live, "the parent of the failed agent has ended");
        agents[3].parent_id = Some("root".into());
        assert_eq!(class(&agents, None), Attention::Trouble);
        agents[3].ended_at_ms = Some(5);
        assert_eq!(class(&agents, Some(6)), Attention::Live, "the person has gone on since");
        assert_eq!(class(&agents, Some(5)), Attention::Trouble);
        agents[3].flags = vec![Flag::Copied];
        assert_eq!(class(&agents, None), Attention::Live);
        agents[2].flags = vec![Flag::Stalled];
        assert_eq!(class(&agents, None), Attention::Trouble);
        let wait =
            |kind| Liveness { kind, name: None, count: None, limit: None, since_ms: None, inferred: false };
        agents[2].liveness = Some(wait(LivenessKind::Permission));
        assert_eq!(class(&agents, None), Attention::Waiting);
        agents[2].flags = Vec::new();
        for kind in [LivenessKind::Permission, LivenessKind::Question, LivenessKind::Plan] {
            agents[2].liveness = Some(wait(kind));
            assert_eq!(class(&agents, None), Attention::Waiting, "{kind:?}");
            agents[2].liveness = Some(Liveness { inferred: true, ..wait(kind) });
            assert_eq!(class(&agents, None), Attention::Live, "a guess is no fact: {kind:?}");
        }
        agents[2].liveness = Some(wait(LivenessKind::Model));
        agents[1].status = AgentStatus::Lost;
        assert_eq!(class(&agents, None), Attention::Live, "the root goes on without it");
        agents[0].liveness = Some(wait(LivenessKind::Children));
        assert_eq!(class(&agents, None), Attention::Trouble, "the root waits for a lost agent");
        agents[1].background = true;
        assert_eq!(class(&agents, None), Attention::Live, "nobody waits for it");
        agents.truncate(2);
        agents[0].liveness = Some(wait(LivenessKind::Idle));
        assert_eq!(class(&agents, None), Attention::Ended, "the root waits for the next prompt");
        assert_eq!(class(&[], None), Attention::Ended);
    }
}
