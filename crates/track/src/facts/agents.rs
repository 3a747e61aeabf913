//! Facts about agents: what describes them, how they were started, and how they ended by each source.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use subscope_model::{AgentStatus, EndEvidence, MicroUsd, Millis, SpawnMode, StopStep, Text};

use super::{ActivitySpan, Best, CallIndex, FactOrder, keep_least, stored::list};

/// Kind of an agent's last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum LastLine {
    /// The response's turn ended.
    EndTurn,
    /// The API failed.
    ApiError,
    /// The request was interrupted.
    Interrupted,
    /// Text without a call and without a reason for the end.
    TextOnly,
    /// Anything else: the agent is still at work.
    Open,
}

/// Key under which an agent was first recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AgentKey {
    /// The root agent.
    #[default]
    Root,
    /// The harness's id.
    Id(Text),
    /// The call that started it.
    Call(CallIndex),
    /// The first line of its chain.
    Chain,
}

/// End of an agent as reported by one source.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AgentEndFact {
    pub(crate) evidence: EndEvidence,
    pub(crate) status: AgentStatus,
    pub(crate) order: FactOrder,
    pub(crate) call: Option<Text>,
    pub(crate) run_id: Option<Text>,
    pub(crate) time: Option<Millis>,
    pub(crate) report: Option<Text>,
    pub(crate) error: Option<Text>,
    /// Agent type in a stop hook's payload; empty for ghosts (see `identities::is_ghost`).
    pub(crate) stop_type: Option<Text>,
}

impl AgentEndFact {
    /// Returns an end of which nothing else is known.
    pub(crate) fn new(evidence: EndEvidence, status: AgentStatus, order: FactOrder) -> Self {
        let (call, run_id, time, report, error, stop_type) = (None, None, None, None, None, None);
        Self { evidence, status, order, call, run_id, time, report, error, stop_type }
    }
}

/// A user's order to stop an agent, or its delivery to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StopFact {
    pub(crate) step: StopStep,
    pub(crate) order: FactOrder,
    pub(crate) time: Option<Millis>,
    /// The tool call that was refused to deliver the order.
    pub(crate) call: Option<CallIndex>,
}

/// A tool call that started or resumed an agent: it opens an interval of activity.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Trigger {
    pub(crate) call: Text,
    pub(crate) order: FactOrder,
    pub(crate) time: Option<Millis>,
}

/// The latest reported API retry of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RetryFact {
    pub(crate) order: FactOrder,
    pub(crate) time: Option<Millis>,
    pub(crate) attempt: u32,
    pub(crate) limit: u32,
    pub(crate) error: Text,
}

/// Parent of an agent as named by a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ParentClaim {
    Root,
    Agent(Text),
}

/// What started an agent together with others, for example a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum BatchClaim {
    Call(CallIndex),
    Run(Text),
}

/// Facts about an agent recorded under one [`AgentKey`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct AgentFacts {
    pub(crate) key: AgentKey,
    /// Whether a source proves that the agent exists, not only mentions it.
    pub(crate) is_proven: bool,
    /// Time of the latest reported start.
    pub(crate) last_started: Option<Millis>,
    pub(crate) agent_type: Option<Best<Text>>,
    pub(crate) description: Option<Best<Text>>,
    pub(crate) name: Option<Best<Text>>,
    pub(crate) model: Option<Best<Text>>,
    pub(crate) prompt: Option<Best<Text>>,
    /// Whether a source reports that all of its data is a copy from another session.
    pub(crate) is_copy: bool,
    pub(crate) parent: Option<ParentClaim>,
    /// Calls reported to have started it, with whether that is certain.
    #[serde(with = "list")]
    pub(crate) origins: SmallVec<[(CallIndex, bool); 1]>,
    pub(crate) triggers: Vec<Trigger>,
    /// Spawn modes, each with the call it was reported for: a call that resumes the agent does not change how it was
    /// started.
    pub(crate) modes: Vec<(Option<CallIndex>, FactOrder, SpawnMode)>,
    pub(crate) detached: bool,
    /// Whether it waits for messages after each turn, until it is shut down.
    pub(crate) is_teammate: bool,
    /// Whether its id was made up by its source.
    pub(crate) has_stand_in_id: bool,
    /// Whether its parent handed the conversation over to it.
    pub(crate) is_handed_over: bool,
    /// Whether its source infers its parent, or the agent itself.
    pub(crate) is_inferred: bool,
    /// When a hub last received an event that the agent published.
    pub(crate) heard: Option<Millis>,
    /// Whether the harness itself started it as a warm-up.
    pub(crate) is_warmup: bool,
    pub(crate) batch: Option<BatchClaim>,
    pub(crate) span: ActivitySpan,
    /// First and last time at which a hook that reports its end or its prompt came: of some agents nothing else has a
    /// time.
    pub(crate) hook_times: Option<(Millis, Millis)>,
    /// Times of prompts that others sent to the agent, and of published starts and ends: bounds of its intervals.
    pub(crate) moments: Vec<Millis>,
    /// Times of its turns and tasks by its own lines: one after an end begins another turn.
    pub(crate) task_times: Vec<Millis>,
    /// The last line in transcripts (0) and in streams (1), and the last OpenTelemetry records: of the end of a turn
    /// (2), of text (3), of anything else (4).
    pub(crate) last_lines: [Option<(FactOrder, LastLine)>; 5],
    pub(crate) last_text: Option<(FactOrder, u64, String)>,
    pub(crate) retry: Option<RetryFact>,
    /// Tokens by kind ([`Usage::kinds`](subscope_model::Usage::kinds)) and cost as a whole; counted where no response of
    /// the agent is known.
    pub(crate) totals: Option<([u64; 4], Option<MicroUsd>, bool)>,
    /// Order of the latest observation attributed to the agent.
    pub(crate) last_seen: Option<FactOrder>,
    /// Order of the agent's latest own action. Heartbeats, progress and retry notices are not actions.
    pub(crate) last_acted: Option<FactOrder>,
}

impl AgentFacts {
    pub(super) fn new(key: AgentKey) -> Self {
        Self { key, ..Self::default() }
    }

    /// Adds what started the agent together with others; a call is better than a run.
    pub(crate) fn add_batch(&mut self, batch: Option<BatchClaim>) {
        if matches!((&self.batch, &batch), (None, _) | (Some(BatchClaim::Run(_)), Some(BatchClaim::Call(_))))
        {
            self.batch = batch;
        }
    }

    /// Adds a call that is reported to have started the agent.
    pub(crate) fn add_origin(&mut self, call: CallIndex, is_certain: bool) {
        match self.origins.iter_mut().find(|(known, _)| *known == call) {
            Some((_, certain)) => *certain |= is_certain,
            None => self.origins.push((call, is_certain)),
        }
    }

    /// Adds a call that started or resumed the agent; of several reports the earliest counts.
    pub(crate) fn add_trigger(&mut self, trigger: Trigger) {
        match self.triggers.iter_mut().find(|known| known.call == trigger.call) {
            Some(known) => {
                known.order = known.order.min(trigger.order);
                keep_least(&mut known.time, trigger.time);
            }
            None => self.triggers.push(trigger),
        }
    }
}
