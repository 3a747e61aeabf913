//! What needs a person: the one rule of all frontends. Sessions are ordered by it ([`crate::Attention`]), the inbox lists it.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{Agent, AgentId, AgentStatus, Flag, Liveness, LivenessKind, Millis, Text, ToolCall, ToolStatus};

/// Most agents listed below a session.
const MAX_AGENTS: usize = 100;

/// What the evidence of an agent begins with that is lost because it was silent: no source reports that.
pub const SILENT_EVIDENCE: &str = "silent for ";

/// How certain it is that a session needs a person, and how urgent; the most urgent first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum NeedGroup {
    /// An agent waits for a person, as a source reports.
    Waits,
    /// An agent is stalled, lost while it is needed, keeps failing, or has failed below one that is at work.
    Trouble,
    /// It is only inferred that an agent waits for a person: shown, and not counted.
    Perhaps,
}

/// Why an agent needs a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NeedReason {
    /// It waits for a permission.
    Permission,
    /// It waits for an answer to its question.
    Question,
    /// It waits for a decision about its plan.
    Plan,
    /// It is silent for too long.
    Stalled,
    /// It is lost, and nobody has gone on without it.
    Lost,
    /// Its calls fail, one after the other.
    Failing,
    /// It has failed below an agent that is at work.
    Failed,
    /// It may wait for a person: a call that takes no time has no result.
    MayWait,
}

/// An agent that needs a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AgentNeed {
    /// The agent.
    pub agent_id: AgentId,
    /// Its display name.
    pub title: Text,
    /// The group of its reason.
    pub group: NeedGroup,
    /// Why it needs a person.
    pub reason: NeedReason,
    /// The same as a predicate of the title: `waits for your permission: Bash`. Untrusted text: sanitize before printing.
    pub words: Text,
    /// Since when: the begin of the wait, the last sign of a silent agent, the first of the failed calls, the end.
    pub since_ms: Option<Millis>,
}

/// What a session needs of a person: one entry of the inbox, with its agents below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SessionNeed {
    /// The most urgent group of its agents.
    pub group: NeedGroup,
    /// The agents of that group as a sentence: `Explore: Map the cart is stalled`, `40 agents are stalled`. Untrusted text.
    pub words: Text,
    /// Number of agents that wait for a person.
    pub waits: u32,
    /// Number of agents in trouble.
    pub trouble: u32,
    /// Number of agents that may wait for a person.
    pub perhaps: u32,
    /// The agents, the most urgent group first, then the one that needs a person for the longest; the first hundred.
    pub agents: Vec<AgentNeed>,
}

impl NeedReason {
    /// Returns its group.
    pub fn group(self) -> NeedGroup {
        match self {
            Self::Permission | Self::Question | Self::Plan => NeedGroup::Waits,
            Self::Stalled | Self::Lost | Self::Failing | Self::Failed => NeedGroup::Trouble,
            Self::MayWait => NeedGroup::Perhaps,
        }
    }

    /// Returns the name of the fact in [`AgentNeed::fact`]: an agent that is lost has been silent since it stalled.
    fn fact(self) -> &'static str {
        match self {
            Self::Permission => "permission",
            Self::Question => "question",
            Self::Plan => "plan",
            Self::Stalled | Self::Lost => "silent",
            Self::Failing => "failing",
            Self::Failed => "failed",
            Self::MayWait => "may wait",
        }
    }

    /// Returns the predicate of several agents with this reason.
    fn of_several(self) -> &'static str {
        match self {
            Self::Permission => "wait for your permission",
            Self::Question => "ask you questions",
            Self::Plan => "wait for your decision about their plans",
            Self::Stalled => "are stalled",
            Self::Lost => "are lost",
            Self::Failing => "keep failing",
            Self::Failed => "have failed",
            Self::MayWait => "may wait for you",
        }
    }
}

impl NeedGroup {
    /// Returns the predicate of several agents with different reasons of this group.
    fn of_several(self) -> &'static str {
        match self {
            Self::Waits => "wait for you",
            Self::Trouble => "are in trouble",
            Self::Perhaps => "may wait for you",
        }
    }
}

impl AgentNeed {
    /// Returns what identifies the need: a new wait, another silence or a later failure of the agent is another one.
    pub fn fact(&self) -> Text {
        let since = self.since_ms.map_or_else(String::new, |since| format!(" {since}"));
        format!("{} {}{since}", self.agent_id, self.reason.fact()).into()
    }
}

impl SessionNeed {
    /// Returns what the agents of a session need, whose latest run started at a time ([`crate::Session::run_started_at_ms`]);
    /// `None` if nothing.
    pub fn of(agents: &[Agent], run_started_at_ms: Option<Millis>) -> Option<Self> {
        let by_id: HashMap<&AgentId, &Agent> = agents.iter().map(|agent| (&agent.id, agent)).collect();
        let needs = agents.iter().filter(|agent| !agent.has(Flag::Warmup) && !agent.is_copy());
        let mut needs: Vec<AgentNeed> = needs
            .filter_map(|agent| {
                let parent = agent.parent_id.as_ref().and_then(|id| by_id.get(id).copied());
                agent.need(parent, run_started_at_ms)
            })
            .collect();
        // The order of the tree decides between equal ones.
        needs.sort_by_key(|need| (need.group, need.since_ms.unwrap_or(Millis::MAX)));
        let group = needs.first()?.group;
        let count = |group| needs.iter().filter(|need| need.group == group).count() as u32;
        let (waits, trouble, perhaps) =
            (count(NeedGroup::Waits), count(NeedGroup::Trouble), count(NeedGroup::Perhaps));
        let words = words_of(&needs, group);
        needs.truncate(MAX_AGENTS);
        Some(Self { group, words, waits, trouble, perhaps, agents: needs })
    }

    /// Returns what identifies the need of each agent. Agents that are not listed are one fact, their number.
    pub fn facts(&self) -> Vec<Text> {
        let count = u64::from(self.waits) + u64::from(self.trouble) + u64::from(self.perhaps);
        let more = count.saturating_sub(self.agents.len() as u64);
        let more = (more > 0).then(|| format!("{more} more").into());
        self.agents.iter().map(AgentNeed::fact).chain(more).collect()
    }

    /// Since when the most urgent group has needed a person.
    pub fn since_ms(&self) -> Option<Millis> {
        self.agents.first()?.since_ms
    }
}

/// Returns the sentence about the agents of a group.
fn words_of(needs: &[AgentNeed], group: NeedGroup) -> Text {
    let own: Vec<&AgentNeed> = needs.iter().filter(|need| need.group == group).collect();
    match own.as_slice() {
        [] => Text::default(),
        [one] => format!("{} {}", one.title, one.words).into(),
        [first, ..] => {
            let is_same = own.iter().all(|need| need.reason == first.reason);
            let what = if is_same { first.reason.of_several() } else { group.of_several() };
            format!("{} agents {what}", own.len()).into()
        }
    }
}

impl Agent {
    /// Returns why the agent needs a person, below a parent in a session whose latest run started at a time; `None` if it
    /// does not.
    fn need(&self, parent: Option<&Self>, run_started_at_ms: Option<Millis>) -> Option<AgentNeed> {
        let (reason, words, since_ms) = if let Some(wait) = self.person_wait() {
            let (reason, words) = wait_words(wait);
            (reason, words, wait.since_ms)
        } else if self.is_at_work() && self.has(Flag::Stalled) {
            (NeedReason::Stalled, "is stalled".to_owned(), self.last_event_at_ms)
        } else if self.is_at_work() && self.has(Flag::Failing) {
            let (words, since_ms) = self.failing_words();
            (NeedReason::Failing, words, since_ms)
        } else if self.may_wait_for_person() {
            let live = self.liveness.as_ref()?;
            (
                NeedReason::MayWait,
                format!("may wait for you{}", with_name(": no result of ", live)),
                live.since_ms,
            )
        } else if self.is_needed_and_lost(parent, run_started_at_ms) {
            let is_awaited = parent.is_some_and(|parent| self.is_lost_below(parent));
            let words = if is_awaited { "is lost, and waited for" } else { "is lost" };
            (NeedReason::Lost, words.to_owned(), self.last_event_at_ms)
        } else if parent.is_some_and(|parent| self.has_failed_below(parent, run_started_at_ms)) {
            (NeedReason::Failed, "has failed".to_owned(), self.ended_at_ms)
        } else {
            return None;
        };
        let (agent_id, title) = (self.id.clone(), self.title().into());
        Some(AgentNeed { agent_id, title, group: reason.group(), reason, words: words.into(), since_ms })
    }

    /// Whether the agent has failed below one that is still at work. What failed before the latest run of the session
    /// started is over: the person has gone on since.
    fn has_failed_below(&self, parent: &Self, run_started_at_ms: Option<Millis>) -> bool {
        let is_needed = parent.is_at_work() && !self.is_before(run_started_at_ms);
        self.status == AgentStatus::Failed && is_needed
    }

    /// Whether the agent is lost below one that waits for its subagents, and not in the background.
    fn is_lost_below(&self, parent: &Self) -> bool {
        let waits = parent.liveness.as_ref().is_some_and(|live| live.kind == LivenessKind::Children);
        let is_needed = waits && parent.status.is_live() && !self.background;
        self.status == AgentStatus::Lost && is_needed
    }

    /// Whether the agent is lost and its work is needed: its parent waits for it; or it is only silent, and is the root or in
    /// the background of one that has not ended. It was stalled before: that it is silent for longer resolves nothing.
    fn is_needed_and_lost(&self, parent: Option<&Self>, run_started_at_ms: Option<Millis>) -> bool {
        let is_silent = self.evidence.as_deref().is_some_and(|why| why.starts_with(SILENT_EVIDENCE));
        let is_lost = self.status == AgentStatus::Lost && is_silent && !self.is_before(run_started_at_ms);
        match parent {
            Some(parent) => {
                let is_missed = is_lost && self.background && parent.status.is_live();
                self.is_lost_below(parent) || is_missed
            }
            None => is_lost && self.id.is_root(),
        }
    }

    fn is_before(&self, run_started_at_ms: Option<Millis>) -> bool {
        self.ended_at_ms.zip(run_started_at_ms).is_some_and(|(ended, since)| ended < since)
    }

    /// Returns how many of its last calls failed in a row, and since when.
    fn failing_words(&self) -> (String, Option<Millis>) {
        let ended = self.tools.iter().rev().filter(|call| call.status != ToolStatus::Open);
        let failed: Vec<&ToolCall> = ended.take_while(|call| call.status == ToolStatus::Error).collect();
        let first = failed.first().map(|call| &call.name);
        let name = first.filter(|name| failed.iter().all(|call| call.name == **name));
        let of = name.map_or_else(String::new, |name| format!(" of {name}"));
        let looping = if self.has(Flag::Looping) { ", looping" } else { "" };
        let words = format!("keeps failing: {} calls{of} in a row{looping}", failed.len());
        (words, failed.last().and_then(|call| call.started_at_ms))
    }
}

/// Returns why an agent waits for its person, and the predicate.
fn wait_words(wait: &Liveness) -> (NeedReason, String) {
    match wait.kind {
        LivenessKind::Question => (NeedReason::Question, "asks you a question".to_owned()),
        LivenessKind::Plan => (NeedReason::Plan, "waits for your decision about its plan".to_owned()),
        LivenessKind::Permission
        | LivenessKind::Model
        | LivenessKind::Tool
        | LivenessKind::Children
        | LivenessKind::Retry
        | LivenessKind::Idle => {
            (NeedReason::Permission, format!("waits for your permission{}", with_name(": ", wait)))
        }
    }
}

/// Returns the name of the tool that an agent waits for, with a text before it; empty without one.
fn with_name(before: &str, live: &Liveness) -> String {
    live.name.as_ref().map_or_else(String::new, |name| format!("{before}{name}"))
}

#[cfg(test)]
mod tests;
