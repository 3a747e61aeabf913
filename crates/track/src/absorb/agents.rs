//! Records facts about agents: spawns, results of spawn calls, ends and stop orders.

use subscope_model::{
    AgentEnd, CallEnd, Claim, EndEvidence, Outcome, Parent, RawJson, SourceKind, Spawn, SpawnBatch,
    SpawnMode, StopStep, Text, ToolClass,
};

use super::{Recording, rank};
use crate::facts::{
    AgentEndFact, AgentKey, AgentRef, BatchClaim, CallEndFact, CallIndex, HookStepKind, ParentClaim, ROOT,
    StopFact, Trigger, push_new, update_best, update_best_text,
};

impl Recording<'_, '_> {
    pub(super) fn record_trigger(&mut self, agent: AgentRef, call: &str) {
        let trigger = Trigger { call: call.into(), order: self.order, time: self.observation.time };
        self.facts.agent_mut(agent).add_trigger(trigger);
    }

    pub(super) fn record_spawn(&mut self, fact: &Spawn<'_>) {
        let (kind, time, order) = (self.observation.kind, self.observation.time, self.order);
        let call = fact.call.map(|call| self.facts.call_index(call));
        let agent_ref = match (fact.agent, call) {
            (Some(id), _) => Some(self.facts.agent_by_id(id)),
            (None, Some(call)) if fact.is_origin => Some(self.facts.agent_by_call(call)),
            (None, _) => self.actor,
        };
        let Some(agent_ref) = agent_ref.filter(|known| *known != ROOT || fact.agent.is_none()) else {
            return;
        };
        let rank = match kind {
            SourceKind::Transcript => rank::OWN,
            SourceKind::Stream | SourceKind::Posted | SourceKind::Otel => rank::REPORTED,
            SourceKind::Hook => rank::HOOK,
        };
        if let (Some(run_id), Some(call)) = (fact.run_id, fact.call) {
            self.facts.run_ids.insert(run_id.into(), call.into());
        }
        if let Some(call) = fact.call.filter(|_| fact.starts) {
            self.record_trigger(agent_ref, call);
        }
        let batch = fact.batch.map(|batch| match batch {
            SpawnBatch::Call(call) => BatchClaim::Call(self.facts.call_index(call)),
            SpawnBatch::Run(run) => BatchClaim::Run(run.into()),
        });
        let agent = self.facts.agent_mut(agent_ref);
        agent.is_proven |= !self.is_undated && !fact.is_note;
        agent.add_batch(batch);
        agent.last_started = agent.last_started.max(time.filter(|_| fact.starts));
        agent.moments.extend(time.filter(|_| fact.starts && kind == SourceKind::Posted));
        agent.detached |= fact.detached;
        agent.has_stand_in_id |= fact.has_stand_in_id;
        agent.is_handed_over |= fact.is_handed_over;
        agent.is_inferred |= fact.is_inferred;
        agent.is_copy |= fact.is_copy;
        agent.is_teammate |= fact.is_teammate;
        if let Some(call) = call {
            agent.add_origin(call, fact.is_origin);
        }
        match fact.parent {
            Some(Parent::Agent(parent)) => agent.parent = Some(ParentClaim::Agent(parent.into())),
            Some(Parent::Root) if agent.parent.is_none() => agent.parent = Some(ParentClaim::Root),
            Some(Parent::Root) | None => {}
        }
        update_best_text(&mut agent.agent_type, rank, order, fact.agent_type.as_deref());
        update_best_text(&mut agent.description, rank, order, fact.description.as_deref());
        update_best_text(&mut agent.name, rank, order, fact.name.as_deref());
        update_best_text(&mut agent.model, rank, order, fact.model.as_deref());
        agent.modes.extend(fact.mode.map(|mode| (call, order, mode)));
        // The prompt of the first start is the agent's task: it has the smallest order and wins over prompts of
        // resumes.
        if let Some(prompt) = fact.prompt {
            update_best_text(&mut agent.prompt, rank::REPORTED, order, Some(&prompt.text()));
        }
        if let Some(id) = fact.agent.filter(|_| kind == SourceKind::Hook && fact.starts) {
            self.record_hook_time(agent_ref);
            let agent = self.facts.intern(id);
            self.push_hook_step(HookStepKind::Start { agent });
        }
    }

    pub(super) fn record_spawn_result(&mut self, number: CallIndex, fact: &CallEnd<'_>) {
        let order = self.order;
        // Streams up to 2.0.28 have nothing but the result's text. Later ones wrap what is missing elsewhere in words of
        // the harness.
        let is_wrapped = order.kind == SourceKind::Stream
            && self.facts.start_reporting_kinds & (1 << order.kind as u8) != 0;
        let call = self.facts.call_mut(number);
        let error = match fact.outcome {
            Outcome::Error | Outcome::Interrupted => fact.result.filter(|_| call.class == ToolClass::Spawn),
            Outcome::Ok | Outcome::Denied | Outcome::Over => None,
        };
        if fact.spawn.is_none() && error.is_none() && call.spawn.is_none() {
            return;
        }
        let is_plain = !is_wrapped
            && call.class == ToolClass::Spawn
            && fact.outcome == Outcome::Ok
            && fact.spawn.is_none();
        let plain = fact.result.filter(|_| is_plain).and_then(|raw| raw.only_text());
        let known = call.spawn.get_or_insert_with(Default::default);
        if fact.outcome != Outcome::Over {
            known.result_order = Some(known.result_order.map_or(order, |at| at.min(order)));
        }
        update_best_text(&mut known.report, rank::HOOK, order, plain.as_deref());
        update_best_text(&mut known.error, order.kind as u8, order, error.map(|raw| raw.text()).as_deref());
        let Some(spawn) = &fact.spawn else { return };
        known.proves_agent |= spawn.proves_agent;
        known.totals = known.totals.max(spawn.totals);
        known.is_forked |= spawn.is_forked;
        known.is_teammate |= spawn.is_teammate;
        let prompt = spawn.prompt.map(|raw| raw.text());
        update_best_text(&mut known.agent, rank::REPORTED, order, spawn.agent);
        update_best_text(&mut known.agent_type, rank::REPORTED, order, spawn.agent_type.as_deref());
        update_best_text(&mut known.description, rank::REPORTED, order, spawn.description.as_deref());
        update_best_text(&mut known.resolved_model, rank::REPORTED, order, spawn.model.as_deref());
        update_best_text(&mut known.prompt, rank::ASKED + 1, order, prompt.as_deref());
        if let Some(finished) = spawn.finished {
            update_best(&mut known.finished, 0, order, finished);
        }
        if spawn.finished == Some(false) {
            update_best(&mut known.mode, rank::OWN, order, SpawnMode::Background);
        } else {
            let report = spawn.report.and_then(|raw| raw.last_text());
            update_best_text(&mut known.report, rank::REPORTED, order, report.as_deref());
        }
    }

    pub(super) fn record_agent_end(&mut self, fact: &AgentEnd<'_>) {
        let text = |raw: Option<RawJson<'_>>| {
            raw.map(|raw| Text::from(raw.text().as_ref())).filter(|text| !text.is_empty())
        };
        let id: Option<Text> = match (fact.agent, self.actor) {
            (Some(id), _) => Some(id.into()),
            (None, Some(actor)) => match &self.facts.agent(actor).key {
                AgentKey::Id(id) => Some(id.clone()),
                AgentKey::Root | AgentKey::Call(_) | AgentKey::Chain => None,
            },
            (None, None) => None,
        };
        if let (Some(totals), Some(call)) = (fact.totals, fact.call)
            && let Some(number) = self.facts.call_by_id.get(call).copied()
            && let Some(spawn) = &mut self.facts.call_mut(number).spawn
        {
            spawn.totals = spawn.totals.max(Some(totals));
        }
        let is_root = |id: &Text| self.facts.by_id.get(id) == Some(&ROOT);
        let Some(id) = id.filter(|id| !is_root(id)) else { return };
        let is_notice =
            matches!(fact.evidence.strength(), EndEvidence::Notification | EndEvidence::IdleNotice);
        let line_time = self.observation.time.filter(|_| is_notice);
        self.facts.ends.entry(id.clone()).or_default().push(AgentEndFact {
            evidence: fact.evidence,
            status: fact.status,
            order: self.order,
            call: fact.call.map(Text::from),
            run_id: fact.run_id.map(Text::from),
            time: fact.time.or(line_time),
            report: text(fact.report),
            error: text(fact.error),
            stop_type: fact.agent_type.as_deref().map(Text::from),
        });
        if self.observation.kind == SourceKind::Posted {
            let agent = self.facts.agent_by_id(&id);
            self.facts.agent_mut(agent).moments.extend(fact.time.or(self.observation.time));
        }
        if self.observation.kind == SourceKind::Hook && fact.evidence == EndEvidence::StopHook {
            let agent = self.facts.agent_by_id(&id);
            self.record_hook_time(agent);
            self.push_hook_step(HookStepKind::Stop { agent: id });
        }
    }

    /// Records a stop order under the agent id that it names. Does not add facts of the agent.
    pub(super) fn record_stop(&mut self, step: StopStep, call: Option<&str>, is_refused: bool) {
        let Claim::Agent(agent, _) = self.observation.claim else { return };
        let (kind, time) = (self.observation.kind, self.observation.time);
        let call = call.map(|id| self.facts.call_index(id)).filter(|_| is_refused);
        if let Some(call) = call {
            // The refusal is certain only if the harness received our answer: any other report of the call's end wins.
            push_new(&mut self.facts.call_mut(call).ends, CallEndFact::new(kind, Outcome::Over, None, time));
        }
        let known = self.facts.stops.entry(agent.into()).or_default();
        push_new(known, StopFact { step, order: self.order, time, call });
    }
}
