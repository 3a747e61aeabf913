//! Records facts about agents: spawns, results of spawn calls, ends and stop orders.

use subscope_model::{
    AgentEnd, CallEnd, Claim, EndEvidence, Millis, Observation, Outcome, Parent, RawJson, SourceKind, Spawn,
    SpawnBatch, StopStep, Text, ToolClass,
};

use super::{push_hook_step, rank};
use crate::facts::{
    AgentEndFact, AgentKey, AgentRef, BatchClaim, CallEndFact, CallIndex, FactOrder, Facts, HookStepKind,
    ParentClaim, SpawnCallFacts, StopFact, Trigger, update_best, update_best_text,
};

pub(super) fn record_trigger(
    facts: &mut Facts,
    agent: AgentRef,
    call: &str,
    time: Option<Millis>,
    order: FactOrder,
) {
    let Some(agent) = facts.agents.get_mut(agent as usize) else { return };
    match agent.triggers.iter_mut().find(|known| &*known.call == call) {
        Some(known) => {
            known.order = known.order.min(order);
            known.time = [known.time, time].into_iter().flatten().min();
        }
        None => agent.triggers.push(Trigger { call: call.into(), order, time }),
    }
}

pub(super) fn record_spawn(
    facts: &mut Facts,
    actor: Option<AgentRef>,
    observation: &Observation<'_>,
    order: FactOrder,
    fact: &Spawn<'_>,
    is_undated: bool,
) {
    let call = fact.call.map(|call| facts.call_index(call));
    let agent_ref = match (fact.agent, call) {
        (Some(id), _) => Some(facts.agent_by_id(id)),
        (None, Some(call)) if fact.is_origin => Some(facts.agent_by_call(call)),
        (None, _) => actor,
    };
    let Some(agent_ref) = agent_ref else { return };
    let rank = match observation.kind {
        SourceKind::Transcript => rank::OWN,
        SourceKind::Stream | SourceKind::Posted => rank::REPORTED,
        SourceKind::Hook => rank::HOOK,
    };
    if let (Some(run_id), Some(call)) = (fact.run_id, fact.call) {
        facts.run_ids.insert(run_id.into(), call.into());
    }
    if fact.starts
        && let Some(call) = fact.call
    {
        record_trigger(facts, agent_ref, call, observation.time, order);
    }
    let batch = fact.batch.map(|batch| match batch {
        SpawnBatch::Call(call) => BatchClaim::Call(facts.call_index(call)),
        SpawnBatch::Run(run) => BatchClaim::Run(run.into()),
    });
    let Some(agent) = facts.agents.get_mut(agent_ref as usize) else { return };
    agent.is_proven |= !is_undated && !fact.is_note;
    agent.batch = agent.batch.take().or(batch);
    agent.last_started = agent.last_started.max(observation.time.filter(|_| fact.starts));
    agent.detached |= fact.detached;
    if let Some(call) = call {
        match agent.origins.iter_mut().find(|(known, _)| *known == call) {
            Some((_, certain)) => *certain |= fact.is_origin,
            None => agent.origins.push((call, fact.is_origin)),
        }
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
    if let Some(mode) = fact.mode {
        agent.modes.push((call, order, mode));
    }
    // The prompt of the first start is the agent's task: it has the smallest order and wins over prompts of resumes.
    if let Some(prompt) = fact.prompt {
        update_best_text(&mut agent.prompt, rank::REPORTED, order, Some(&prompt.text()));
    }
    if observation.kind == SourceKind::Hook
        && fact.starts
        && let Some(id) = fact.agent
    {
        let agent = facts.intern(id);
        push_hook_step(facts, observation, HookStepKind::Start { agent });
    }
}

pub(super) fn record_spawn_result(
    facts: &mut Facts,
    number: CallIndex,
    order: FactOrder,
    fact: &CallEnd<'_>,
) {
    let Some(call) = facts.calls.get_mut(number as usize) else { return };
    let error = match fact.outcome {
        Outcome::Error | Outcome::Interrupted => fact.result.filter(|_| call.class == ToolClass::Spawn),
        Outcome::Ok | Outcome::Denied | Outcome::Over => None,
    };
    if fact.spawn.is_none() && error.is_none() && call.spawn.is_none() {
        return;
    }
    let spawn_facts: &mut SpawnCallFacts = call.spawn.get_or_insert_with(Default::default);
    if fact.outcome != Outcome::Over {
        spawn_facts.result_order = Some(spawn_facts.result_order.map_or(order, |at| at.min(order)));
    }
    update_best_text(&mut spawn_facts.error, order.kind as u8, order, error.map(|raw| raw.text()).as_deref());
    let Some(spawn) = &fact.spawn else { return };
    spawn_facts.proves_agent |= spawn.proves_agent;
    spawn_facts.is_forked |= spawn.is_forked;
    update_best_text(&mut spawn_facts.agent, rank::REPORTED, order, spawn.agent);
    update_best_text(&mut spawn_facts.agent_type, rank::REPORTED, order, spawn.agent_type.as_deref());
    update_best_text(&mut spawn_facts.description, rank::REPORTED, order, spawn.description.as_deref());
    update_best_text(&mut spawn_facts.resolved_model, rank::REPORTED, order, spawn.model.as_deref());
    update_best_text(
        &mut spawn_facts.prompt,
        rank::ASKED + 1,
        order,
        spawn.prompt.map(|raw| raw.text()).as_deref(),
    );
    if let Some(finished) = spawn.finished {
        update_best(&mut spawn_facts.finished, 0, order, finished);
        if finished {
            update_best_text(
                &mut spawn_facts.report,
                rank::REPORTED,
                order,
                spawn.report.and_then(|raw| raw.last_text()).as_deref(),
            );
        } else {
            update_best(&mut spawn_facts.mode, rank::OWN, order, subscope_model::SpawnMode::Background);
        }
    } else {
        update_best_text(
            &mut spawn_facts.report,
            rank::REPORTED,
            order,
            spawn.report.and_then(|raw| raw.last_text()).as_deref(),
        );
    }
}

pub(super) fn record_agent_end(
    facts: &mut Facts,
    actor: Option<AgentRef>,
    observation: &Observation<'_>,
    order: FactOrder,
    fact: &AgentEnd<'_>,
) {
    let text = |raw: Option<RawJson<'_>>| {
        raw.map(|raw| Text::from(raw.text().as_ref())).filter(|text| !text.is_empty())
    };
    let id: Option<Text> = match (fact.agent, actor) {
        (Some(id), _) => Some(id.into()),
        (None, Some(actor)) => facts.agents.get(actor as usize).and_then(|agent| match &agent.key {
            AgentKey::Id(id) => Some(id.clone()),
            AgentKey::Root | AgentKey::Call(_) | AgentKey::Chain => None,
        }),
        (None, None) => None,
    };
    let Some(id) = id else { return };
    let end = AgentEndFact {
        evidence: fact.evidence,
        status: fact.status,
        order,
        call: fact.call.map(Text::from),
        run_id: fact.run_id.map(Text::from),
        time: fact.time.or(observation.time.filter(|_| fact.evidence == EndEvidence::Notification)),
        report: text(fact.report),
        error: text(fact.error),
        stop_type: fact.agent_type.as_deref().map(Text::from),
    };
    facts.ends.entry(id.clone()).or_default().push(end);
    if observation.kind == SourceKind::Hook && fact.evidence == EndEvidence::StopHook {
        push_hook_step(facts, observation, HookStepKind::Stop { agent: id });
    }
}

/// Records a stop order under the agent id that it names. Does not add facts of the agent.
pub(super) fn record_stop(
    facts: &mut Facts,
    observation: &Observation<'_>,
    order: FactOrder,
    step: StopStep,
    call: Option<&str>,
    is_refused: bool,
) {
    let Claim::Agent(agent, _) = observation.claim else { return };
    let call = call.map(|id| facts.call_index(id));
    if is_refused && let Some(refused) = call.and_then(|call| facts.calls.get_mut(call as usize)) {
        // The refusal is certain only if the harness received our answer: any other report of the call's end wins.
        let end = CallEndFact::new(observation.kind, Outcome::Over, None, observation.time, false);
        if !refused.ends.contains(&end) {
            refused.ends.push(end);
        }
    }
    let fact = StopFact { step, order, time: observation.time, call: call.filter(|_| is_refused) };
    let known = facts.stops.entry_ref(agent).or_default();
    if !known.contains(&fact) {
        known.push(fact);
    }
}
