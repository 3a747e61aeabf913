//! Joining the facts of two folds of one session: how files are read on several cores.
//!
//! The same joins that single tellings go through: the result is what one fold of all sources would have.

use subscope_model::{Payload, SourceId, ToolClass};

use crate::facts::{
    AgentFacts, BatchClaim, Best, CallFacts, CallNo, CallPayloads, Facts, HookStep, HookWhat, Key,
    ParentClaim, ROOT, Ref, ResponseFacts, Span, SpawnCallFacts, StopFact,
};

/// Where names of the one fold's facts stand in the other's.
struct Moved {
    refs: Vec<Ref>,
    calls: Vec<CallNo>,
    /// What is added to numbers of sources.
    sources: u32,
}

impl Moved {
    fn name(&self, name: Ref) -> Ref {
        self.refs.get(name as usize).copied().unwrap_or(ROOT)
    }

    fn call(&self, call: CallNo) -> CallNo {
        self.calls.get(call as usize).copied().unwrap_or(call)
    }

    fn stop(&self, stop: StopFact) -> StopFact {
        StopFact { call: stop.call.map(|call| self.call(call)), ..stop }
    }
}

impl Facts {
    /// Joins what another fold of the same session was told; its sources' numbers grow by `sources`.
    pub(crate) fn join(&mut self, mut other: Self, sources: u32) {
        let calls = std::mem::take(&mut other.calls);
        let agents = std::mem::take(&mut other.agents);
        let mut moved =
            Moved { refs: Vec::with_capacity(agents.len()), calls: Vec::with_capacity(calls.len()), sources };
        for call in &calls {
            let number = match &call.id {
                Some(id) => self.call(id),
                None => {
                    self.calls.push(CallFacts::new(None));
                    (self.calls.len() - 1) as CallNo
                }
            };
            moved.calls.push(number);
        }
        for agent in &agents {
            let name = match &agent.key {
                Key::Root => ROOT,
                Key::Id(id) => self.agent_by_id(id),
                Key::Call(call) => self.agent_by_call(moved.call(*call)),
                Key::Chain => {
                    self.agents.push(AgentFacts::new(Key::Chain));
                    (self.agents.len() - 1) as Ref
                }
            };
            moved.refs.push(name);
        }
        for (name, agent) in agents.into_iter().enumerate() {
            if let Some(known) = self.agents.get_mut(moved.name(name as Ref) as usize) {
                join_agent(known, agent, &moved);
            }
        }
        for (number, call) in calls.into_iter().enumerate() {
            if let Some(known) = self.calls.get_mut(moved.call(number as CallNo) as usize) {
                join_call(known, call, &moved);
            }
        }
        self.join_responses(std::mem::take(&mut other.responses), &moved);
        self.join_rest(other, &moved);
    }

    fn join_responses(&mut self, responses: Vec<ResponseFacts>, moved: &Moved) {
        for mut told in responses {
            let key = told.key;
            told.owners.iter_mut().for_each(|(owner, _)| *owner = moved.name(*owner));
            match self.response_by_id.get(&key) {
                Some(number) => {
                    if let Some(known) = self.responses.get_mut(*number as usize) {
                        join_response(known, told);
                    }
                }
                None => {
                    self.response_by_id.insert(key, self.responses.len() as u32);
                    self.responses.push(told);
                }
            }
        }
    }

    fn join_rest(&mut self, other: Self, moved: &Moved) {
        join_best(&mut self.version, other.version);
        join_best(&mut self.cwd, other.cwd);
        join_best(&mut self.root_model, other.root_model);
        join_best(&mut self.title, other.title);
        self.tells_starts |= other.tells_starts;
        self.silent = self.silent.max(other.silent);
        self.is_opened |= other.is_opened;
        self.kinds |= other.kinds;
        self.span.join(&other.span);
        for (line, agent) in other.chains {
            self.chains.entry(line).or_insert(moved.name(agent));
        }
        for (digest, calls) in other.nameless {
            self.nameless.entry(digest).or_default().extend(calls.into_iter().map(|call| moved.call(call)));
        }
        for (id, ends) in other.ends {
            self.ends.entry(id).or_default().extend(ends);
        }
        for (id, stops) in other.stops {
            let known = self.stops.entry(id).or_default();
            for stop in stops.into_iter().map(|stop| moved.stop(stop)) {
                if !known.contains(&stop) {
                    known.push(stop);
                }
            }
        }
        self.run_ids.extend(other.run_ids);
        self.prompts.extend(other.prompts);
        self.turns.extend(other.turns);
        self.streams
            .extend(other.streams.into_iter().map(|(source, stream)| (source + moved.sources, stream)));
        self.batch_runs.extend(other.batch_runs.into_iter().map(|(run, call)| (run, moved.call(call))));
        for sum in other.checksums {
            if !self.checksums.contains(&sum) {
                self.checksums.push(sum);
            }
        }
        self.hooks.extend(other.hooks.into_iter().map(|step| move_step(step, moved)));
        self.has_identity |= other.has_identity;
        for problem in other.problems {
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
    }
}

fn move_step(step: HookStep, moved: &Moved) -> HookStep {
    let name = |named: Option<Ref>| named.map(|named| moved.name(named));
    let what = match step.what {
        HookWhat::Pre { call, named } => HookWhat::Pre { call: moved.call(call), named: name(named) },
        HookWhat::Post { call, named, launched } => {
            HookWhat::Post { call: moved.call(call), named: name(named), launched }
        }
        HookWhat::Permission { named, name: tool, digest, time } => {
            HookWhat::Permission { named: name(named), name: tool, digest, time }
        }
        same @ (HookWhat::Prompt { .. }
        | HookWhat::Start { .. }
        | HookWhat::Stop { .. }
        | HookWhat::TurnEnd { .. }
        | HookWhat::SessionStart { .. }
        | HookWhat::AwaitsPrompt
        | HookWhat::SessionEnd) => same,
    };
    HookStep { source: step.source + moved.sources, what, ..step }
}

fn join_best<T: Ord>(slot: &mut Option<Best<T>>, other: Option<Best<T>>) {
    if let Some(other) = other
        && slot.as_ref().is_none_or(|best| (other.rank, &other.value) < (best.rank, &best.value))
    {
        *slot = Some(other);
    }
}

/// Keeps the lesser of two optional values; any value is less than none.
fn least<T: PartialOrd>(slot: &mut Option<T>, other: Option<T>) {
    if let Some(other) = other
        && slot.as_ref().is_none_or(|known| other < *known)
    {
        *slot = Some(other);
    }
}

fn join_owners<A: smallvec::Array<Item = (Ref, subscope_model::Basis)>>(
    owners: &mut smallvec::SmallVec<A>,
    other: impl IntoIterator<Item = (Ref, subscope_model::Basis)>,
) {
    for (owner, basis) in other {
        match owners.iter_mut().find(|(known, _)| *known == owner) {
            Some((_, known)) => *known = (*known).max(basis),
            None => owners.push((owner, basis)),
        }
    }
}

fn join_agent(known: &mut AgentFacts, told: AgentFacts, moved: &Moved) {
    known.proven |= told.proven;
    known.hook_started |= told.hook_started;
    known.started = known.started.max(told.started);
    known.has_transcript |= told.has_transcript;
    known.detached |= told.detached;
    known.is_warmup |= told.is_warmup;
    join_best(&mut known.agent_type, told.agent_type);
    join_best(&mut known.description, told.description);
    join_best(&mut known.name, told.name);
    join_best(&mut known.model, told.model);
    join_best(&mut known.prompt, told.prompt);
    known.modes.extend(
        told.modes.into_iter().map(|(call, order, mode)| (call.map(|call| moved.call(call)), order, mode)),
    );
    if known.batch.is_none() {
        known.batch = told.batch.map(|batch| match batch {
            BatchClaim::Call(call) => BatchClaim::Call(moved.call(call)),
            run @ BatchClaim::Run(_) => run,
        });
    }
    if let (None | Some(ParentClaim::Root), Some(parent)) = (&known.parent, told.parent) {
        known.parent = Some(parent);
    }
    for (call, certain) in told.origins {
        let call = moved.call(call);
        match known.origins.iter_mut().find(|(own, _)| *own == call) {
            Some((_, is_certain)) => *is_certain |= certain,
            None => known.origins.push((call, certain)),
        }
    }
    for trigger in told.triggers {
        match known.triggers.iter_mut().find(|own| own.call == trigger.call) {
            Some(own) => {
                own.order = own.order.min(trigger.order);
                least(&mut own.time, trigger.time);
            }
            None => known.triggers.push(trigger),
        }
    }
    known.span.join(&told.span);
    known.marks.extend(told.marks);
    for (own, tail) in known.tails.iter_mut().zip(told.tails) {
        *own = (*own).max(tail);
    }
    if let Some(words) = told.last_text
        && known.last_text.as_ref().is_none_or(|own| (own.0, own.1) < (words.0, words.1))
    {
        known.last_text = Some(words);
    }
    if let Some(retry) = told.retry
        && known.retry.as_ref().is_none_or(|own| own.order <= retry.order)
    {
        known.retry = Some(retry);
    }
    known.heard = known.heard.max(told.heard);
    known.acted = known.acted.max(told.acted);
}

fn join_call(known: &mut CallFacts, told: CallFacts, moved: &Moved) {
    known.name = known.name.take().or(told.name);
    if told.class != ToolClass::Other {
        known.class = told.class;
    }
    known.seen |= told.seen;
    least(&mut known.begin, told.begin);
    join_owners(&mut known.owners, told.owners.into_iter().map(|(owner, basis)| (moved.name(owner), basis)));
    least(&mut known.digest, told.digest);
    least(&mut known.detail, told.detail);
    known.writes = known.writes.take().or(told.writes);
    known.left_running |= told.left_running;
    for end in told.ends {
        let end = end.told_by(end.by().map(|by| moved.name(by)));
        if !known.ends.contains(&end) {
            known.ends.push(end);
        }
    }
    if let Some(told) = told.payloads {
        let own = known.payloads.get_or_insert_with(Default::default);
        let CallPayloads { input, result } = *told;
        for (slot, other) in [(&mut own.input, input), (&mut own.result, result)] {
            for (kind, by, payload) in other {
                slot.add(kind, by.map(|by| moved.name(by)), || move_payload(payload, moved));
            }
        }
    }
    if let Some(told) = told.spawn {
        match &mut known.spawn {
            Some(own) => join_spawn(own, *told),
            slot @ None => *slot = Some(told),
        }
    }
}

fn move_payload(payload: Payload, moved: &Moved) -> Payload {
    match payload {
        Payload::At { source, offset, len } => {
            Payload::At { source: SourceId(source.0 + moved.sources), offset, len }
        }
        inline @ Payload::Inline(_) => inline,
    }
}

fn join_spawn(known: &mut SpawnCallFacts, told: SpawnCallFacts) {
    join_best(&mut known.agent_type, told.agent_type);
    join_best(&mut known.description, told.description);
    join_best(&mut known.name, told.name);
    join_best(&mut known.model, told.model);
    join_best(&mut known.resolved_model, told.resolved_model);
    join_best(&mut known.prompt, told.prompt);
    join_best(&mut known.mode, told.mode);
    join_best(&mut known.agent, told.agent);
    join_best(&mut known.finished, told.finished);
    join_best(&mut known.report, told.report);
    join_best(&mut known.error, told.error);
    known.proves_agent |= told.proves_agent;
    known.is_forked |= told.is_forked;
    least(&mut known.result_order, told.result_order);
}

fn join_response(known: &mut ResponseFacts, told: ResponseFacts) {
    join_owners(&mut known.owners, told.owners);
    least(&mut known.model, told.model);
    if let Some(usage) = told.usage
        && known.usage.is_none_or(|own| (told.is_final, usage) > (known.is_final, own))
    {
        known.usage = Some(usage);
    }
    known.is_final |= told.is_final;
    known.only_streamed &= told.only_streamed;
    known.synthetic |= told.synthetic;
    known.times = match (known.times, told.times) {
        (Some(own), Some(other)) => Some((own.0.min(other.0), own.1.max(other.1))),
        (own, other) => own.or(other),
    };
    if known.is_final {
        known.content = None;
    } else if let Some(lines) = told.content {
        let own = known.content.get_or_insert_with(Default::default);
        for line in *lines {
            if !own.contains(&line) {
                own.push(line);
            }
        }
    }
}

impl Span {
    /// Each clock's span covers what either has by that clock.
    pub(crate) fn join(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own = match (*own, other) {
                (Some(one), Some(two)) => Some((one.0.min(two.0), one.1.max(two.1))),
                (one, two) => one.or(two),
            };
        }
    }
}
