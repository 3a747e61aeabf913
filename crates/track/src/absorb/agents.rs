//! What is told of agents: that a call starts one, what the call's result says of it, how one ended, and who was to stop.

use subscope_model::{
    AgentEnd, Batch, CallEnd, Claim, EndEvidence, Millis, Observation, Outcome, Parent, Raw, SourceKind,
    Spawn, StopStep, Text, ToolClass,
};

use super::{rank, step};
use crate::facts::{
    BatchClaim, CallEndFact, CallNo, EndFact, Facts, HookWhat, Key, Order, ParentClaim, Ref, SpawnCallFacts,
    StopFact, Trigger, better, better_text,
};

pub(super) fn trigger(facts: &mut Facts, agent: Ref, call: &str, time: Option<Millis>, order: Order) {
    let Some(agent) = facts.agents.get_mut(agent as usize) else { return };
    match agent.triggers.iter_mut().find(|known| &*known.call == call) {
        Some(known) => {
            known.order = known.order.min(order);
            known.time = [known.time, time].into_iter().flatten().min();
        }
        None => agent.triggers.push(Trigger { call: call.into(), order, time }),
    }
}

pub(super) fn spawn(
    facts: &mut Facts,
    actor: Option<Ref>,
    seen: &Observation<'_>,
    order: Order,
    told: &Spawn<'_>,
    is_undated: bool,
) {
    let call = told.call.map(|call| facts.call(call));
    let who = match (told.agent, call) {
        (Some(id), _) => Some(facts.agent_by_id(id)),
        (None, Some(call)) if told.is_origin => Some(facts.agent_by_call(call)),
        (None, _) => actor,
    };
    let Some(who) = who else { return };
    let rank = match seen.kind {
        SourceKind::Transcript => rank::OWN,
        SourceKind::Stream | SourceKind::Posted => rank::TOLD,
        SourceKind::Hook => rank::HOOK,
    };
    if let (Some(run_id), Some(call)) = (told.run_id, told.call) {
        facts.run_ids.insert(run_id.into(), call.into());
    }
    if told.starts
        && let Some(call) = told.call
    {
        trigger(facts, who, call, seen.time, order);
    }
    let batch = told.batch.map(|batch| match batch {
        Batch::Call(call) => BatchClaim::Call(facts.call(call)),
        Batch::Run(run) => BatchClaim::Run(run.into()),
    });
    let Some(agent) = facts.agents.get_mut(who as usize) else { return };
    agent.proven |= !is_undated && !told.is_note;
    agent.batch = agent.batch.take().or(batch);
    agent.hook_started |= seen.kind == SourceKind::Hook && told.starts;
    agent.started = agent.started.max(seen.time.filter(|_| told.starts));
    agent.detached |= told.detached;
    if let Some(call) = call {
        match agent.origins.iter_mut().find(|(known, _)| *known == call) {
            Some((_, certain)) => *certain |= told.is_origin,
            None => agent.origins.push((call, told.is_origin)),
        }
    }
    match told.parent {
        Some(Parent::Agent(parent)) => agent.parent = Some(ParentClaim::Agent(parent.into())),
        Some(Parent::Root) if agent.parent.is_none() => agent.parent = Some(ParentClaim::Root),
        Some(Parent::Root) | None => {}
    }
    better_text(&mut agent.agent_type, rank, order, told.agent_type.as_deref());
    better_text(&mut agent.description, rank, order, told.description.as_deref());
    better_text(&mut agent.name, rank, order, told.name.as_deref());
    better_text(&mut agent.model, rank, order, told.model.as_deref());
    if let Some(mode) = told.mode {
        agent.modes.push((call, order, mode));
    }
    // What woke an agent is not its task: the first start's prompt has the smallest order and stays.
    if let Some(prompt) = told.prompt {
        better_text(&mut agent.prompt, rank::TOLD, order, Some(&prompt.text()));
    }
    if seen.kind == SourceKind::Hook
        && told.starts
        && let Some(id) = told.agent
    {
        let agent = facts.word(id);
        step(facts, seen, HookWhat::Start { agent });
    }
}

pub(super) fn spawn_result(facts: &mut Facts, number: CallNo, order: Order, told: &CallEnd<'_>) {
    let Some(call) = facts.calls.get_mut(number as usize) else { return };
    let error = match told.outcome {
        Outcome::Error | Outcome::Interrupted => told.result.filter(|_| call.class == ToolClass::Spawn),
        Outcome::Ok | Outcome::Denied | Outcome::Over => None,
    };
    if told.spawn.is_none() && error.is_none() && call.spawn.is_none() {
        return;
    }
    let known: &mut SpawnCallFacts = call.spawn.get_or_insert_with(Default::default);
    if told.outcome != Outcome::Over {
        known.result_order = Some(known.result_order.map_or(order, |at| at.min(order)));
    }
    better_text(&mut known.error, order.kind as u8, order, error.map(|raw| raw.text()).as_deref());
    let Some(spawn) = &told.spawn else { return };
    known.proves_agent |= spawn.proves_agent;
    known.is_forked |= spawn.is_forked;
    better_text(&mut known.agent, rank::TOLD, order, spawn.agent);
    better_text(&mut known.agent_type, rank::TOLD, order, spawn.agent_type.as_deref());
    better_text(&mut known.description, rank::TOLD, order, spawn.description.as_deref());
    better_text(&mut known.resolved_model, rank::TOLD, order, spawn.model.as_deref());
    better_text(&mut known.prompt, rank::ASKED + 1, order, spawn.prompt.map(|raw| raw.text()).as_deref());
    if let Some(finished) = spawn.finished {
        better(&mut known.finished, 0, order, finished);
        if finished {
            better_text(
                &mut known.report,
                rank::TOLD,
                order,
                spawn.report.and_then(|raw| raw.last_text()).as_deref(),
            );
        } else {
            better(&mut known.mode, rank::OWN, order, subscope_model::SpawnMode::Background);
        }
    } else {
        better_text(
            &mut known.report,
            rank::TOLD,
            order,
            spawn.report.and_then(|raw| raw.last_text()).as_deref(),
        );
    }
}

pub(super) fn agent_end(
    facts: &mut Facts,
    actor: Option<Ref>,
    seen: &Observation<'_>,
    order: Order,
    told: &AgentEnd<'_>,
) {
    let text =
        |raw: Option<Raw<'_>>| raw.map(|raw| Text::from(raw.text().as_ref())).filter(|text| !text.is_empty());
    let id: Option<Text> = match (told.agent, actor) {
        (Some(id), _) => Some(id.into()),
        (None, Some(actor)) => facts.agents.get(actor as usize).and_then(|agent| match &agent.key {
            Key::Id(id) => Some(id.clone()),
            _ => None,
        }),
        (None, None) => None,
    };
    let Some(id) = id else { return };
    let end = EndFact {
        evidence: told.evidence,
        status: told.status,
        order,
        call: told.call.map(Text::from),
        run_id: told.run_id.map(Text::from),
        time: told.time.or(seen.time.filter(|_| told.evidence == EndEvidence::Notification)),
        report: text(told.report),
        error: text(told.error),
        stop_type: told.agent_type.as_deref().map(Text::from),
    };
    facts.ends.entry(id.clone()).or_default().push(end);
    if seen.kind == SourceKind::Hook && told.evidence == EndEvidence::StopHook {
        step(facts, seen, HookWhat::Stop { agent: id });
    }
}

/// Keeps an order under the name that it has for its agent. The agent need not be known, and is not made by it.
pub(super) fn stop(
    facts: &mut Facts,
    seen: &Observation<'_>,
    order: Order,
    step: StopStep,
    call: Option<&str>,
    is_refused: bool,
) {
    let Claim::Agent(agent, _) = seen.claim else { return };
    let call = call.map(|id| facts.call(id));
    if is_refused && let Some(told) = call.and_then(|call| facts.calls.get_mut(call as usize)) {
        // That it was refused is certain only if the answer arrived: whatever else is told of its end counts more.
        let end = CallEndFact::new(seen.kind, Outcome::Over, None, seen.time, false);
        if !told.ends.contains(&end) {
            told.ends.push(end);
        }
    }
    let fact = StopFact { step, order, time: seen.time, call: call.filter(|_| is_refused) };
    let known = facts.stops.entry_ref(agent).or_default();
    if !known.contains(&fact) {
        known.push(fact);
    }
}
