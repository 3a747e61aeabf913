//! Derives what the rows of agents are built from: their order, calls, silence, status and activity.

use std::cell::LazyCell;

use subscope_model::{AgentId, AgentStatus, Millis, Outcome, Text, ToolClass, ToolStatus};

use crate::{
    facts::{FactOrder, HookStepKind, best_value},
    figures::AgentFigures,
    identities::AgentIndex,
    intervals::intervals,
    limits::AgentLimits,
    liveness::{ActivityContext, AgentActivity, idle_activity},
    noted::NotedWait,
    status::{Derivation, DerivedState, Silence},
};

/// Difference between a publisher's clock and ours above which silence counts from when its event was received.
const MAX_SKEW_MS: Millis = 60_000;

/// Derived data of one agent, before its row is built.
pub(crate) struct RowDraft {
    pub(crate) state: DerivedState,
    pub(crate) calls: Vec<u32>,
    pub(crate) statuses: Vec<ToolStatus>,
    pub(crate) intervals: Vec<[Millis; 2]>,
    pub(crate) last: Option<Millis>,
    /// Its silence limits.
    pub(crate) limits: AgentLimits,
    pub(crate) children: Vec<AgentIndex>,
}

impl Derivation<'_> {
    /// Returns all agents in pre-order: siblings by start, orphans after the root's descendants.
    pub(crate) fn pre_order(&self) -> Vec<AgentIndex> {
        let started = |number: AgentIndex| self.start_key(number);
        let mut children: Vec<Vec<AgentIndex>> = vec![Vec::new(); self.identities.all.len()];
        let mut orphans = Vec::new();
        for number in 1..self.identities.all.len() {
            match self.owners.parent_of(number) {
                Some(parent) => children[parent].push(number),
                None => orphans.push(number),
            }
        }
        for list in &mut children {
            list.sort_by_cached_key(|number| started(*number));
        }
        orphans.sort_by_cached_key(|number| started(*number));
        let mut order = Vec::with_capacity(self.identities.all.len());
        let mut waiting: Vec<AgentIndex> = orphans.into_iter().rev().collect();
        waiting.push(0);
        while let Some(number) = waiting.pop() {
            order.push(number);
            waiting.extend(children[number].iter().rev());
        }
        order
    }

    /// Returns the sort key of siblings: start, else time of the spawn call, then id.
    fn start_key(&self, number: AgentIndex) -> (bool, Millis, Option<FactOrder>, AgentId) {
        let identity = self.identity(number);
        let first = self.span(identity).get().map(|(from, _)| from);
        let asked = self.spawn_call(identity).and_then(|call| call.order().1);
        let trigger = self.triggers(identity).map(|trigger| trigger.order).min();
        let last_seen = self.facts_of(identity).filter_map(|agent| agent.last_seen).min();
        let order = asked.or(trigger).or(last_seen);
        let time = first.or(order.map(|order| order.time).filter(|time| *time > Millis::MIN));
        (time.is_none(), time.unwrap_or(0), order, identity.id.clone())
    }

    /// Derives calls, intervals, silence and status of every agent.
    pub(crate) fn draft_rows(
        &self,
        mut calls: Vec<Vec<u32>>,
        order: &[AgentIndex],
        own: &[AgentFigures],
    ) -> Vec<RowDraft> {
        let count = self.identities.all.len();
        let questions = self.open_questions();
        let asks = self.process_note().filter(|note| note.activity.wait().is_some());
        let asked_at = asks.map(|note| note.seen_at);
        let mut silences = vec![Silence::default(); count];
        let mut drafts: Vec<RowDraft> = (0..count)
            .map(|number| {
                let calls = std::mem::take(&mut calls[number]);
                let statuses: Vec<ToolStatus> = calls.iter().map(|call| self.call_status(*call)).collect();
                let intervals = intervals(self, number, &calls);
                let last = self.last_activity(number, &calls);
                let is_in_call = statuses.contains(&ToolStatus::Open);
                let has_open = is_in_call || questions.iter().any(|(asked, _)| *asked == number);
                let limits = self.limits_of(number, own);
                let (lost_after_ms, text_final_after_ms) = (limits.lost_after_ms(has_open), limits.stall_ms);
                // A process that asks the user is running, whichever of its agents asks.
                let asked_at = asked_at.filter(|_| has_open || number == 0);
                let heard = last.max(asked_at);
                silences[number] = Silence { last: heard, lost_after_ms, text_final_after_ms, is_in_call };
                let state = DerivedState::new(AgentStatus::Running, None);
                RowDraft { state, calls, statuses, intervals, last, limits, children: Vec::new() }
            })
            .collect();
        // Orphans come last in pre-order, so in reverse all of them are seen before any agent that may have started
        // them.
        let mut unlinked = None;
        for number in order.iter().rev().copied() {
            if number != 0 && self.is_unlinked(number) {
                unlinked = unlinked.max(silences[number].last);
            } else if self.has_unlinked_spawn(&drafts[number].calls) {
                silences[number].last = silences[number].last.max(unlinked);
            }
            if let Some(parent) = self.owners.parent_of(number) {
                let below = silences[number];
                let above = &mut silences[parent];
                above.last = above.last.max(below.last);
                above.lost_after_ms = above.lost_after_ms.max(below.lost_after_ms);
            }
        }
        for number in order.iter().copied() {
            if number != 0 {
                drafts[number].state = self.subagent_state(number, silences[number]);
            }
            if let Some(parent) = self.owners.parent_of(number) {
                drafts[parent].children.push(number);
            }
        }
        drafts[0].state = self.root_state(silences[0], &drafts);
        drafts
    }

    /// Returns the silence limits of an agent.
    fn limits_of(&self, number: AgentIndex, own: &[AgentFigures]) -> AgentLimits {
        let limits = &self.now.limits;
        if limits.rules.is_empty() {
            return limits.of(None, None);
        }
        let model = self.model_of(number, &own[number]);
        limits.of(self.harness, model.as_deref())
    }

    /// Derives what each agent does; `None` for agents that are not running, except a root idle between prompts.
    pub(crate) fn derive_activities(
        &self,
        drafts: &[RowDraft],
        noted: Option<&NotedWait>,
    ) -> Vec<Option<AgentActivity>> {
        let is_active = |number: &AgentIndex| {
            let state = &drafts[*number].state;
            state.status.is_live() && state.idle_since.is_none()
        };
        let is_root_alone = !(1..drafts.len()).any(|number| is_active(&number));
        // A hook may report an end before the agent's last line is written.
        let last_report = |draft: &RowDraft| draft.last.max(draft.state.reported_at);
        let latest = drafts.iter().filter_map(last_report).max();
        let all_unlinked = || (1..drafts.len()).filter(|number| self.is_unlinked(*number));
        let last_unlinked = all_unlinked().filter_map(|number| last_report(&drafts[number])).max();
        let unlinked = (all_unlinked().any(|number| is_active(&number)), last_unlinked);
        let questions = self.open_questions();
        let responded = LazyCell::new(|| self.last_responses(drafts.len()));
        let one = |(number, draft): (AgentIndex, &RowDraft)| {
            let status = draft.state.status;
            if status != AgentStatus::Running {
                let is_between_prompts = number == 0 && !status.is_live() && status != AgentStatus::Lost;
                let is_open = (self.hooks.is_open && !self.now.has_ended) || self.process_note().is_some();
                return (is_between_prompts && is_open).then(|| idle_activity(draft.last));
            }
            // A lost agent has returned nothing: its caller still waits.
            let is_lost = |child: AgentIndex| drafts[child].state.status == AgentStatus::Lost;
            let (children, ended): (Vec<AgentIndex>, Vec<AgentIndex>) =
                draft.children.iter().partition(|child| is_active(child) || is_lost(**child));
            let children: Vec<(AgentIndex, bool)> =
                children.into_iter().map(|child| (child, is_lost(child))).collect();
            let returned_at = ended.iter().filter_map(|child| last_report(&drafts[*child])).max();
            let turn = if is_root_alone { latest } else { draft.last.max(returned_at) };
            let question =
                questions.iter().rev().find(|(asked, _)| *asked == number).map(|(_, asked)| *asked);
            let (calls, last) = (draft.calls.as_slice(), draft.last);
            let DerivedState { left_since, idle_since, .. } = draft.state;
            let responded = if children.is_empty() { None } else { responded[number] };
            let children = &children;
            Some(self.derive_activity(&ActivityContext {
                number,
                calls,
                last,
                turn,
                responded,
                children,
                unlinked,
                question,
                noted,
                left_since,
                idle_since,
            }))
        };
        drafts.iter().enumerate().map(one).collect()
    }

    /// Returns the time of each agent's last response.
    fn last_responses(&self, agents: usize) -> Vec<Option<Millis>> {
        let mut last = vec![None; agents];
        for (response, owner) in self.facts.responses.iter().zip(self.owners.of_responses()) {
            if let Some(owner) = owner {
                last[owner] = last[owner].max(response.times.map(|(_, until)| until));
            }
        }
        last
    }

    /// Whether neither parent nor spawn call of an agent is known.
    fn is_unlinked(&self, number: AgentIndex) -> bool {
        self.owners.parent_of(number).is_none() && self.identity(number).origin.is_none()
    }

    /// Whether an agent has an open spawn call that is linked to no agent.
    fn has_unlinked_spawn(&self, calls: &[u32]) -> bool {
        calls.iter().any(|call| {
            self.facts.call(*call).class == ToolClass::Spawn
                && self.is_open(*call)
                && self.identities.started_by(*call).is_none()
        })
    }

    /// Returns the time of an agent's last activity: its own lines, its calls, and the calls that started or resumed
    /// it.
    fn last_activity(&self, number: AgentIndex, calls: &[u32]) -> Option<Millis> {
        let identity = self.identity(number);
        let started = self.facts_of(identity).filter_map(|agent| agent.last_started);
        let own = self.span(identity).latest().into_iter().chain(started);
        let resumed = self.triggers(identity).filter_map(|trigger| trigger.time);
        let asked = self.spawn_call(identity).and_then(|call| call.begun_at());
        let called = calls.iter().flat_map(|call| {
            let ended = self.call_end(*call).and_then(|(_, time)| time);
            [self.facts.call(*call).begun_at(), ended]
        });
        let last = own.chain(resumed).chain(asked).chain(called.flatten()).max();
        if number != 0 {
            let heard = self.facts_of(identity).filter_map(|agent| agent.heard).max();
            let is_skewed = |heard: &Millis| {
                *heard <= self.now.at && last.is_some_and(|last| (heard - last).abs() > MAX_SKEW_MS)
            };
            return heard.filter(is_skewed).or(last);
        }
        // Lines that name no agent are the root's if the source names subagents or there are none.
        let is_alone = self.identities.all.len() == 1;
        let unnamed = self.facts.unattributed.latest().filter(|_| self.facts.has_identity || is_alone);
        last.max(unnamed).or(self.facts.span.latest().filter(|_| is_alone))
    }

    fn call_status(&self, number: u32) -> ToolStatus {
        match self.call_end(number).map(|(outcome, _)| outcome) {
            Some(Outcome::Ok) => ToolStatus::Ok,
            Some(Outcome::Denied) => ToolStatus::Denied,
            Some(Outcome::Over) if self.was_asked(number) || self.was_stopped(number) => ToolStatus::Denied,
            Some(Outcome::Error | Outcome::Interrupted | Outcome::Over) => ToolStatus::Error,
            None => ToolStatus::Open,
        }
    }

    /// Whether the user was asked to allow the call. If so and it has ended without a result, it was denied.
    fn was_asked(&self, number: u32) -> bool {
        let own = self.facts.call(number).digest.map(|(_, digest)| digest);
        let mut kinds = self.facts.hooks.iter().map(|step| &step.kind);
        kinds.any(|kind| matches!(kind, HookStepKind::Permission { digest, .. } if Some(*digest) == own))
    }

    /// Whether the call was refused to deliver a stop order.
    fn was_stopped(&self, number: u32) -> bool {
        self.facts.stops.values().flatten().any(|stop| stop.call == Some(number))
    }

    pub(crate) fn model_of(&self, number: AgentIndex, figures: &AgentFigures) -> Option<Text> {
        let identity = self.identity(number);
        let asked = self.spawn_call(identity).and_then(|call| call.spawn.as_deref());
        let reported = || self.facts_of(identity).find_map(|agent| best_value(&agent.model));
        let root = || if number == 0 { best_value(&self.facts.root_model) } else { None };
        let answered = figures.model.as_ref().map(|(_, model)| model.clone());
        answered
            .or_else(root)
            .or_else(|| asked.and_then(|asked| best_value(&asked.resolved_model)))
            .or_else(reported)
            .or_else(|| asked.and_then(|asked| best_value(&asked.model)))
    }
}
