//! Joins the facts of two trackers of one session, so that its files can be read in parallel.
//!
//! Uses the same joins as single observations: the result equals that of one tracker that read all sources.

use subscope_model::{Payload, SourceId, ToolClass};

use crate::facts::{
    ActivitySpan, AgentFacts, AgentKey, AgentRef, BatchClaim, Best, CallFacts, CallIndex, CallPayloads,
    Facts, HookStep, HookStepKind, ParentClaim, PromptFact, ROOT, ResponseFacts, RootLineFact,
    SpawnCallFacts, StopFact, TurnFact, join_owners, keep_least, push_new, widest,
};

/// Maps indices of the joined facts to those of the receiving facts.
struct IndexMap {
    agents: Vec<AgentRef>,
    calls: Vec<CallIndex>,
    /// Offset of source numbers.
    sources: u32,
}

impl IndexMap {
    fn agent(&self, name: AgentRef) -> AgentRef {
        self.agents[name as usize]
    }

    fn call(&self, call: CallIndex) -> CallIndex {
        self.calls[call as usize]
    }
}

impl Facts {
    /// Joins the facts of other sources of the same session. Adds `sources` to their source numbers.
    pub(crate) fn join(&mut self, mut other: Self, sources: u32) {
        let calls = std::mem::take(&mut other.calls);
        let agents = std::mem::take(&mut other.agents);
        let mut map = IndexMap {
            agents: Vec::with_capacity(agents.len()),
            calls: Vec::with_capacity(calls.len()),
            sources,
        };
        for call in &calls {
            let number = match &call.id {
                Some(id) => self.call_index(id),
                None => {
                    self.calls.push(CallFacts::default());
                    (self.calls.len() - 1) as CallIndex
                }
            };
            map.calls.push(number);
        }
        for agent in &agents {
            let name = match &agent.key {
                AgentKey::Root => ROOT,
                AgentKey::Id(id) => self.agent_by_id(id),
                AgentKey::Call(call) => self.agent_by_call(map.call(*call)),
                AgentKey::Chain => {
                    self.agents.push(AgentFacts { key: AgentKey::Chain, ..AgentFacts::default() });
                    (self.agents.len() - 1) as AgentRef
                }
            };
            map.agents.push(name);
        }
        for (name, agent) in (0..).zip(agents) {
            join_agent(self.agent_mut(map.agent(name)), agent, &map);
        }
        for (number, call) in (0..).zip(calls) {
            join_call(self.call_mut(map.call(number)), call, &map);
        }
        self.join_responses(std::mem::take(&mut other.responses), &map);
        self.has_unnamed_answers |= other.has_unnamed_answers;
        self.answers.extend(std::mem::take(&mut other.answers));
        self.join_remaining(other, &map);
    }

    fn join_responses(&mut self, responses: Vec<ResponseFacts>, map: &IndexMap) {
        for mut other in responses.into_iter().filter(|response| !response.is_merged) {
            let key = other.key;
            other.owners.iter_mut().for_each(|(owner, _)| *owner = map.agent(*owner));
            match self.response_by_id.get(&key) {
                Some(number) => join_response(&mut self.responses[*number as usize], other),
                None => {
                    self.response_by_id.insert(key, self.responses.len() as u32);
                    self.responses.push(other);
                }
            }
        }
    }

    fn join_remaining(&mut self, other: Self, map: &IndexMap) {
        for (key, note) in other.response_notes {
            self.response_notes.entry(key).or_insert_with(|| note.clone()).join(&note);
        }
        if self.has_unnamed_answers {
            let answers: Vec<_> =
                self.answers.iter().map(|(request, message)| (*request, *message)).collect();
            answers.into_iter().for_each(|(request, message)| self.name_answer(request, message));
        }
        join_best(&mut self.version, other.version);
        join_best(&mut self.cwd, other.cwd);
        self.work_trees.extend(other.work_trees);
        join_best(&mut self.root_model, other.root_model);
        join_best(&mut self.title, other.title);
        join_best(&mut self.asked_title, other.asked_title);
        join_best(&mut self.given_title, other.given_title);
        self.start_reporting_kinds |= other.start_reporting_kinds;
        self.unattributed.join(&other.unattributed);
        self.has_local_command |= other.has_local_command;
        self.has_uncounted |= other.has_uncounted;
        self.is_published |= other.is_published;
        self.has_transcript |= other.has_transcript;
        self.longest_behind_text = self.longest_behind_text.max(other.longest_behind_text);
        self.span.join(&other.span);
        for (line, agent) in other.chains {
            self.chains.entry(line).or_insert(map.agent(agent));
        }
        let places = other.call_by_place.into_iter();
        self.call_by_place
            .extend(places.map(|((source, offset), call)| ((source + map.sources, offset), map.call(call))));
        for (key, calls) in other.open_calls {
            self.open_calls.entry(key).or_default().extend(calls.into_iter().map(|call| map.call(call)));
        }
        for (id, ends) in other.ends {
            self.ends.entry(id).or_default().extend(ends);
        }
        for (id, stops) in other.stops {
            let known = self.stops.entry(id).or_default();
            for stop in stops {
                push_new(known, StopFact { call: stop.call.map(|call| map.call(call)), ..stop });
            }
        }
        self.run_ids.extend(other.run_ids);
        let sources = map.sources;
        let prompts = other.prompts.into_iter();
        self.prompts.extend(prompts.map(|it| PromptFact { source: it.source + sources, ..it }));
        let turns = other.turns.into_iter();
        self.turns.extend(turns.map(|it| TurnFact { source: it.source + sources, ..it }));
        let lines = other.root_lines.into_iter();
        self.root_lines.extend(lines.map(|it| RootLineFact { source: it.source + sources, ..it }));
        self.streams.extend(other.streams.into_iter().map(|(source, stream)| (source + map.sources, stream)));
        for (run, call) in other.started_runs {
            self.add_started_run(run, map.call(call));
        }
        self.process_end = self.process_end.max(other.process_end);
        self.process_gone = self.process_gone.max(other.process_gone);
        self.process_activity = self.process_activity.max(other.process_activity);
        for (of, amount) in other.vendor_costs {
            self.add_vendor_cost(of, amount);
        }
        other.checksums.into_iter().for_each(|sum| push_new(&mut self.checksums, sum));
        self.hooks.extend(other.hooks.into_iter().map(|step| map_step(step, map)));
        self.has_identity |= other.has_identity;
        self.reports_questions |= other.reports_questions;
        other.problems.into_iter().for_each(|problem| push_new(&mut self.problems, problem));
    }
}

fn map_step(step: HookStep, map: &IndexMap) -> HookStep {
    let map_agent = |named: Option<AgentRef>| named.map(|named| map.agent(named));
    let kind = match step.kind {
        HookStepKind::Pre { call, named, digest } => {
            HookStepKind::Pre { call: map.call(call), named: map_agent(named), digest }
        }
        HookStepKind::Post { call, named, launched } => {
            HookStepKind::Post { call: map.call(call), named: map_agent(named), launched }
        }
        HookStepKind::Permission { named, name: tool, class, digest, time } => {
            HookStepKind::Permission { named: map_agent(named), name: tool, class, digest, time }
        }
        HookStepKind::PermissionReply { named, digest } => {
            HookStepKind::PermissionReply { named: map_agent(named), digest }
        }
        same @ (HookStepKind::Prompt { .. }
        | HookStepKind::Start { .. }
        | HookStepKind::Stop { .. }
        | HookStepKind::TurnEnd { .. }
        | HookStepKind::SessionStart { .. }
        | HookStepKind::AwaitsPrompt { .. }
        | HookStepKind::SessionEnd) => same,
    };
    HookStep { source: step.source + map.sources, kind, ..step }
}

fn join_best<T: Ord>(slot: &mut Option<Best<T>>, other: Option<Best<T>>) {
    if let Some(other) = other
        && slot.as_ref().is_none_or(|best| (other.rank, &other.value) < (best.rank, &best.value))
    {
        *slot = Some(other);
    }
}

fn join_agent(known: &mut AgentFacts, other: AgentFacts, map: &IndexMap) {
    known.is_proven |= other.is_proven;
    known.last_started = known.last_started.max(other.last_started);
    known.detached |= other.detached;
    known.has_stand_in_id |= other.has_stand_in_id;
    known.is_handed_over |= other.is_handed_over;
    known.is_inferred |= other.is_inferred;
    known.heard = known.heard.max(other.heard);
    known.hook_times = widest(known.hook_times, other.hook_times);
    known.is_warmup |= other.is_warmup;
    join_best(&mut known.agent_type, other.agent_type);
    join_best(&mut known.description, other.description);
    join_best(&mut known.name, other.name);
    join_best(&mut known.model, other.model);
    join_best(&mut known.prompt, other.prompt);
    known.modes.extend(
        other.modes.into_iter().map(|(call, order, mode)| (call.map(|call| map.call(call)), order, mode)),
    );
    known.add_batch(other.batch.map(|batch| match batch {
        BatchClaim::Call(call) => BatchClaim::Call(map.call(call)),
        run @ BatchClaim::Run(_) => run,
    }));
    if let (None | Some(ParentClaim::Root), Some(parent)) = (&known.parent, other.parent) {
        known.parent = Some(parent);
    }
    for (call, certain) in other.origins {
        known.add_origin(map.call(call), certain);
    }
    other.triggers.into_iter().for_each(|trigger| known.add_trigger(trigger));
    known.span.join(&other.span);
    known.is_copy |= other.is_copy;
    known.is_teammate |= other.is_teammate;
    known.moments.extend(other.moments);
    known.task_times.extend(other.task_times);
    for (own, tail) in known.last_lines.iter_mut().zip(other.last_lines) {
        *own = (*own).max(tail);
    }
    if let Some(text) = other.last_text
        && known.last_text.as_ref().is_none_or(|own| (own.0, own.1, &own.2) < (text.0, text.1, &text.2))
    {
        known.last_text = Some(text);
    }
    if let Some(retry) = other.retry
        && known.retry.as_ref().is_none_or(|own| own.order <= retry.order)
    {
        known.retry = Some(retry);
    }
    known.totals = known.totals.max(other.totals);
    known.last_seen = known.last_seen.max(other.last_seen);
    known.last_acted = known.last_acted.max(other.last_acted);
}

fn join_call(known: &mut CallFacts, other: CallFacts, map: &IndexMap) {
    let is_named_better = match (other.digest, known.digest) {
        (None, None) => {
            known.name.is_none() || other.name.as_ref().is_some_and(|name| Some(name) < known.name.as_ref())
        }
        (Some(other), own) => own.is_none_or(|own| other < own),
        (None, Some(_)) => known.name.is_none(),
    };
    if is_named_better {
        known.name = other.name.or(known.name.take());
    }
    if other.class != ToolClass::Other {
        known.class = other.class;
    }
    known.has_local_id |= other.has_local_id;
    known.has_arguments |= other.has_arguments;
    known.is_renumbered |= other.is_renumbered;
    known.seen |= other.seen;
    keep_least(&mut known.begin, other.begin);
    join_owners(&mut known.owners, other.owners.into_iter().map(|(owner, basis)| (map.agent(owner), basis)));
    keep_least(&mut known.digest, other.digest);
    keep_least(&mut known.detail, other.detail);
    if known.writes.is_empty() {
        known.writes = other.writes;
    }
    known.left_running |= other.left_running;
    known.duration_ms = known.duration_ms.max(other.duration_ms);
    for end in other.ends {
        push_new(&mut known.ends, end.reported_by(end.reporter().map(|by| map.agent(by))));
    }
    if let Some(other) = other.payloads {
        let own = known.payloads.get_or_insert_with(Default::default);
        let CallPayloads { input, result } = *other;
        for (slot, other) in [(&mut own.input, input), (&mut own.result, result)] {
            for (kind, by, payload) in other.into_entries() {
                slot.add(kind, by.map(|by| map.agent(by)), || map_payload(payload, map));
            }
        }
    }
    if let Some(other) = other.spawn {
        match &mut known.spawn {
            Some(own) => join_spawn(own, *other),
            slot @ None => *slot = Some(other),
        }
    }
}

fn map_payload(payload: Payload, map: &IndexMap) -> Payload {
    match payload {
        Payload::At { source, offset, len } => {
            Payload::At { source: SourceId(source.0 + map.sources), offset, len }
        }
        inline @ Payload::Inline(_) => inline,
    }
}

fn join_spawn(known: &mut SpawnCallFacts, other: SpawnCallFacts) {
    join_best(&mut known.agent_type, other.agent_type);
    join_best(&mut known.description, other.description);
    join_best(&mut known.name, other.name);
    join_best(&mut known.model, other.model);
    join_best(&mut known.resolved_model, other.resolved_model);
    join_best(&mut known.prompt, other.prompt);
    join_best(&mut known.mode, other.mode);
    join_best(&mut known.agent, other.agent);
    join_best(&mut known.finished, other.finished);
    join_best(&mut known.report, other.report);
    join_best(&mut known.error, other.error);
    known.totals = known.totals.max(other.totals);
    known.proves_agent |= other.proves_agent;
    known.is_forked |= other.is_forked;
    known.is_teammate |= other.is_teammate;
    keep_least(&mut known.result_order, other.result_order);
}

pub(crate) fn join_response(known: &mut ResponseFacts, other: ResponseFacts) {
    join_owners(&mut known.owners, other.owners);
    keep_least(&mut known.model, other.model);
    if let Some(usage) = other.usage
        && known.usage.is_none_or(|own| (other.is_final, usage) > (known.is_final, own))
    {
        known.usage = Some(usage);
    }
    known.cost_pico_usd = known.cost_pico_usd.max(other.cost_pico_usd);
    known.price_permille = known.price_permille.max(other.price_permille);
    known.extra_pico_usd = known.extra_pico_usd.max(other.extra_pico_usd);
    known.is_unpriced |= other.is_unpriced;
    known.is_final |= other.is_final;
    known.only_streamed &= other.only_streamed;
    known.synthetic |= other.synthetic;
    known.times = widest(known.times, other.times);
    if known.is_final {
        known.content = None;
    } else if let Some(lines) = other.content {
        let own = known.content.get_or_insert_with(Default::default);
        lines.into_iter().for_each(|line| push_new(&mut **own, line));
    }
}

impl ActivitySpan {
    /// Widens each clock's span to cover the other's.
    pub(crate) fn join(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own = widest(*own, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use subscope_model::{Claim, Fact, Outcome, SourceKind};

    use crate::test_session::{ROOT, TestSession, agent, call_end, response, spawn_call, spawned, tool_call};

    fn add_root(session: &mut TestSession) {
        session.add(SourceKind::Transcript, 10, ROOT, spawn_call("c1", r#""x""#));
        session.add(SourceKind::Transcript, 11, ROOT, Fact::Response(response("m1", 1)));
        session.add(SourceKind::Transcript, 12, agent("a1"), Fact::Response(response("m2", 1)));
        session.add(SourceKind::Transcript, 50, ROOT, Fact::CallEnd(call_end("c1", Outcome::Ok)));
    }

    fn add_agent(session: &mut TestSession) {
        session.add(SourceKind::Stream, 20, agent("a1"), tool_call("c2", "Bash"));
        session.add(SourceKind::Stream, 20, agent("a1"), spawned("a1", "c1"));
        session.add(SourceKind::Stream, 30, agent("a1"), Fact::Response(response("m1", 2)));
        session.add(SourceKind::Stream, 30, agent("a1"), Fact::Response(response("m2", 2)));
        session.add(
            SourceKind::Stream,
            40,
            Claim::SpawnedBy("c1"),
            Fact::CallEnd(call_end("c2", Outcome::Error)),
        );
    }

    #[test]
    fn joined_trackers_derive_the_tree_of_one_tracker_of_all_sources() {
        let mut whole = TestSession::new();
        add_root(&mut whole);
        add_agent(&mut whole);
        let expected = whole.tree(60);
        assert_eq!(expected.agents.len(), 2);
        assert_eq!(expected.agents[1].tool_errors, 1);
        assert!(!expected.agents[1].usage.unwrap().floor, "the transcript has its response");
        for is_root_first in [true, false] {
            let (mut one, mut other) = (TestSession::new(), TestSession::new());
            add_root(if is_root_first { &mut one } else { &mut other });
            add_agent(if is_root_first { &mut other } else { &mut one });
            assert_ne!(one.tree(60), expected);
            one.tracker.join(other.tracker, 10);
            assert_eq!(one.tree(60), expected, "root first: {is_root_first}");
        }
    }
}
