//! Joining observations into facts.
//!
//! One function for each word of [`Fact`]; none of them concludes anything. To add a word: an arm in
//! [`Absorber::take`] and its function.

mod agents;

use hashbrown::HashMap;
use subscope_model::{
    AgentStatus, Basis, CallBegin, CallEnd, Claim, EndEvidence, Fact, Millis, Observation, Outcome, Payload,
    Problem, PromptKind, Raw, Response, SourceKind, Text, ToolClass,
};

use crate::{
    facts::{
        Begin, CallEndFact, CallNo, CallPayloads, EndFact, Facts, HookStep, HookWhat, Order, PromptFact,
        ROOT, Ref, ResponseFacts, Retry, Tail, Tellings, Tokens, TurnFact, better, better_text, response_key,
    },
    hash_text,
};

/// What a call's payloads are kept as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Numbers and short texts only: enough for trees.
    Rows,
    /// Also where arguments and results stand, or, where a source cannot be read again, the texts themselves.
    Payloads,
}

/// Joins observations of one session into its facts.
#[derive(Debug)]
pub(crate) struct Absorber {
    keep: Keep,
    cutoff: Option<Millis>,
    /// The latest time that each source told so far.
    clocks: HashMap<u32, Millis>,
}

/// Ranks of tellings of the same value; the smallest stays.
mod rank {
    /// An agent's own conversation or the harness's record of it.
    pub(super) const OWN: u8 = 0;
    /// The harness's telling of its start or end.
    pub(super) const TOLD: u8 = 1;
    /// What its caller asked for.
    pub(super) const ASKED: u8 = 2;
    /// A hook.
    pub(super) const HOOK: u8 = 3;
}

impl Absorber {
    pub(crate) fn new(keep: Keep, cutoff: Option<Millis>) -> Self {
        Self { keep, cutoff, clocks: HashMap::new() }
    }

    /// Takes over what another knows of its sources, whose numbers grow by `sources`.
    pub(crate) fn join(&mut self, other: &Self, sources: u32) {
        self.clocks.extend(other.clocks.iter().map(|(source, time)| (source + sources, *time)));
    }

    /// Takes one observation; drops it where it is later than the cutoff. Returns whether it was taken.
    pub(crate) fn take(&mut self, facts: &mut Facts, seen: &Observation<'_>) -> bool {
        let clock = self.clocks.entry(seen.place.source.0).or_insert(Millis::MIN);
        if let Some(time) = seen.time {
            *clock = (*clock).max(time);
        }
        let order = Order { time: seen.time.unwrap_or(*clock), kind: seen.kind, offset: seen.place.offset };
        if self.cutoff.is_some_and(|cutoff| order.time > cutoff) {
            return false;
        }
        // A source without any time cannot say what stood at the cutoff: what the harness notes of an agent may still
        // describe it, and nothing else of it counts.
        let is_undated = self.cutoff.is_some() && order.time == Millis::MIN;
        if is_undated && !matches!(seen.fact, Fact::Session { .. } | Fact::Spawn(_)) {
            return false;
        }
        if let Fact::Stop { step, call, is_refused } = &seen.fact {
            // What a person wants is no sign of the agent's life.
            agents::stop(facts, seen, order, *step, *call, *is_refused);
            return true;
        }
        facts.kinds |= 1 << seen.kind as u8;
        if let Some(time) = seen.time {
            facts.span.add(seen.clock, time);
        }
        let actor = actor(facts, &seen.claim);
        if is_own_activity(&seen.fact) {
            hear(facts, actor, seen, order);
            if actor.is_none() {
                facts.silent = facts.silent.max(seen.time);
            }
        }
        if seen.kind == SourceKind::Stream {
            follow_stream(facts, actor, seen);
        }
        match &seen.fact {
            Fact::Session { version, cwd, model, tells_starts } => {
                if let Some(version) = version {
                    better(
                        &mut facts.version,
                        0,
                        latest_first(order),
                        std::cmp::Reverse(Text::from(*version)),
                    );
                }
                // Who posts events says where it is itself, and not always where the session's root began.
                let rank = u8::from(seen.kind == SourceKind::Posted);
                better_text(&mut facts.cwd, rank, order, cwd.as_deref());
                better_text(&mut facts.root_model, 0, order, *model);
                if *tells_starts {
                    facts.tells_starts |= 1 << seen.kind as u8;
                }
            }
            Fact::Activity | Fact::Heartbeat | Fact::Note { .. } | Fact::Stop { .. } => {}
            Fact::Warmup => {
                if let Some(agent) = actor.and_then(|actor| facts.agents.get_mut(actor as usize)) {
                    agent.is_warmup = true;
                }
            }
            Fact::Prompt { prompt_id, text, what } => {
                prompt(facts, actor, seen, order, *prompt_id, *text, *what)
            }
            Fact::Message { text, .. } => message(facts, actor, order, *text),
            Fact::Thought { .. } => {}
            Fact::Response(response) => self.response(facts, actor, seen, order, response),
            Fact::CallBegin(call) => self.call_begin(facts, actor, seen, order, call),
            Fact::CallEnd(call) => self.call_end(facts, actor, seen, order, call),
            Fact::Spawn(told) => agents::spawn(facts, actor, seen, order, told, is_undated),
            Fact::AgentEnd(end) => agents::agent_end(facts, actor, seen, order, end),
            Fact::TurnEnd { status, counts_run, .. } => {
                facts.turns.push(TurnFact {
                    kind: seen.kind,
                    status: *status,
                    order,
                    counts_run: *counts_run,
                    line_id: seen.line_id.map(Text::from),
                });
                if seen.kind == SourceKind::Hook {
                    step(facts, seen, HookWhat::TurnEnd { status: *status });
                }
            }
            Fact::Progress { agent, .. } => {
                if let Some(known) = agent.and_then(|id| facts.by_id.get(id).copied()) {
                    hear(facts, Some(known), seen, order);
                }
            }
            Fact::Retry { agent, attempt, limit, error, .. } => {
                let who = agent.map(|id| facts.agent_by_id(id)).or(actor);
                if *attempt > 0 {
                    hear(facts, who, seen, order);
                }
                if let Some(agent) = who.and_then(|who| facts.agents.get_mut(who as usize)) {
                    let told = Retry {
                        order,
                        time: seen.time,
                        attempt: *attempt,
                        limit: *limit,
                        error: error.as_ref().into(),
                    };
                    if agent.retry.as_ref().is_none_or(|known| known.order <= told.order) {
                        agent.retry = Some(told);
                    }
                }
            }
            Fact::Permission { name, digest, .. } => {
                let named = actor;
                let name = facts.word(name);
                step(facts, seen, HookWhat::Permission { named, name, digest: *digest, time: seen.time });
            }
            Fact::SessionStart { source } => {
                // A compaction begins the session's context anew, and no process of the harness.
                if source.as_deref() != Some("compact") {
                    step(facts, seen, HookWhat::SessionStart { time: seen.time });
                }
            }
            Fact::AwaitsPrompt => step(facts, seen, HookWhat::AwaitsPrompt),
            Fact::SessionEnd { .. } => step(facts, seen, HookWhat::SessionEnd),
            Fact::Checksum(sum) => {
                if !facts.checksums.contains(sum) {
                    facts.checksums.push(*sum);
                }
            }
            Fact::WireHasIdentity => facts.has_identity = true,
        }
        true
    }

    /// Keeps a problem; the same one only once.
    pub(crate) fn problem(facts: &mut Facts, problem: Problem) {
        if !facts.problems.contains(&problem) {
            facts.problems.push(problem);
        }
    }

    fn response(
        &self,
        facts: &mut Facts,
        actor: Option<Ref>,
        seen: &Observation<'_>,
        order: Order,
        told: &Response<'_>,
    ) {
        set_tail(facts, actor, seen.kind, order, tail_of(told));
        let model = told.model.map(|model| facts.word(model));
        let key = response_key(told.message_id);
        let number = match facts.response_by_id.get(&key) {
            Some(number) => *number,
            None => {
                let number = facts.responses.len() as u32;
                facts.response_by_id.insert(key, number);
                facts.responses.push(ResponseFacts {
                    key,
                    owners: Default::default(),
                    model: None,
                    usage: None,
                    is_final: false,
                    only_streamed: true,
                    synthetic: false,
                    times: None,
                    content: None,
                });
                number
            }
        };
        let Some(response) = facts.responses.get_mut(number as usize) else { return };
        claim(&mut response.owners, actor, &seen.claim);
        response.synthetic |= told.synthetic;
        response.only_streamed &= seen.kind == SourceKind::Stream;
        if let Some(model) = model
            && response.model.as_ref().is_none_or(|(known, name)| (order.time, &model) < (*known, name))
        {
            response.model = Some((order.time, model));
        }
        if let Some(time) = seen.time.filter(|_| seen.kind != SourceKind::Hook) {
            response.times =
                Some(response.times.map_or((time, time), |(from, to)| (from.min(time), to.max(time))));
        }
        join_usage(response, told);
    }

    fn call_begin(
        &self,
        facts: &mut Facts,
        actor: Option<Ref>,
        seen: &Observation<'_>,
        order: Order,
        told: &CallBegin<'_>,
    ) {
        let number = match told.id {
            Some(id) => facts.call(id),
            None => {
                let number = facts.calls.len() as CallNo;
                facts.calls.push(crate::facts::CallFacts::new(None));
                facts.nameless.entry(told.digest).or_default().push(number);
                number
            }
        };
        let name = facts.word(told.name);
        let detail = told.detail.as_deref().map(|detail| facts.word(detail));
        let writes = told.writes.as_deref().map(|file| facts.word(file));
        let Some(call) = facts.calls.get_mut(number as usize) else { return };
        call.name.get_or_insert(name);
        if told.class != ToolClass::Other {
            call.class = told.class;
        }
        claim(&mut call.owners, actor, &seen.claim);
        if !told.hindsight {
            call.seen |= 1 << seen.kind as u8;
            let begin = Begin { is_timeless: seen.time.is_none(), kind: seen.kind, order };
            call.begin = Some(call.begin.map_or(begin, |known| known.min(begin)));
        }
        if call.digest.is_none_or(|(kind, _)| seen.kind < kind) {
            call.digest = Some((seen.kind, told.digest));
        }
        if let Some(detail) = detail
            && call.detail.as_ref().is_none_or(|(kind, _)| seen.kind < *kind)
        {
            call.detail = Some((seen.kind, detail));
        }
        if call.writes.is_none() {
            call.writes = writes;
        }
        if self.keep == Keep::Payloads
            && let Some(input) = told.input
        {
            let payloads = call.payloads.get_or_insert_with(Default::default);
            keep_payload(&mut payloads.input, actor, seen, input);
        }
        if let Some(input) = &told.spawn {
            let facts = call.spawn.get_or_insert_with(Default::default);
            better_text(&mut facts.agent_type, rank::ASKED, order, input.agent_type.as_deref());
            better_text(&mut facts.description, rank::ASKED, order, input.description.as_deref());
            better_text(&mut facts.name, rank::ASKED, order, input.name.as_deref());
            better_text(&mut facts.model, rank::ASKED, order, input.model.as_deref());
            better_text(&mut facts.prompt, rank::ASKED, order, input.prompt.map(|raw| raw.text()).as_deref());
            if let Some(mode) = input.mode {
                better(&mut facts.mode, rank::ASKED, order, mode);
            }
        }
        if seen.kind == SourceKind::Hook && !told.hindsight {
            step(facts, seen, HookWhat::Pre { call: number, named: actor });
        }
    }

    fn call_end(
        &self,
        facts: &mut Facts,
        actor: Option<Ref>,
        seen: &Observation<'_>,
        order: Order,
        told: &CallEnd<'_>,
    ) {
        let Some(number) = self.ended_call(facts, told) else { return };
        let launched = told.spawn.as_ref().is_some_and(|spawn| spawn.finished == Some(false));
        if let Some(call) = facts.calls.get_mut(number as usize) {
            call.left_running |= told.left_running;
            let end = CallEndFact::new(seen.kind, told.outcome, actor, seen.time, told.refused);
            if !call.ends.contains(&end) {
                call.ends.push(end);
            }
            if self.keep == Keep::Payloads
                && let Some(result) = told.result
            {
                let payloads = call.payloads.get_or_insert_with(|| Box::new(CallPayloads::default()));
                keep_payload(&mut payloads.result, actor, seen, result);
            }
        }
        if let Some(run) = told.batch_run {
            facts.batch_runs.insert(run.into(), number);
        }
        agents::spawn_result(facts, number, order, told);
        self.wake_or_stop(facts, number, seen, order, told);
        if seen.kind == SourceKind::Hook && told.outcome != Outcome::Over {
            step(facts, seen, HookWhat::Post { call: number, named: actor, launched });
        }
    }

    /// Finds the call that an end belongs to. One without id is the only open one with the same name and arguments.
    fn ended_call(&self, facts: &mut Facts, told: &CallEnd<'_>) -> Option<CallNo> {
        if let Some(id) = told.id {
            return Some(facts.call(id));
        }
        let open = facts.nameless.get_mut(&told.digest)?;
        if open.len() == 1 { open.pop() } else { None }
    }

    fn wake_or_stop(
        &self,
        facts: &mut Facts,
        number: CallNo,
        seen: &Observation<'_>,
        order: Order,
        told: &CallEnd<'_>,
    ) {
        let id = facts.calls.get(number as usize).and_then(|call| call.id.clone());
        if let (Some(agent), Some(call)) = (told.resumed, &id) {
            let woken = facts.agent_by_id(agent);
            agents::trigger(facts, woken, call, seen.time, order);
        }
        if let Some(agent) = told.stopped {
            let end = EndFact {
                evidence: EndEvidence::StopCall,
                status: AgentStatus::Stopped,
                order,
                call: None,
                run_id: None,
                time: seen.time,
                report: None,
                error: None,
                stop_type: None,
            };
            facts.ends.entry_ref(agent).or_default().push(end);
        }
    }
}

/// An order by which the latest telling is the smallest.
fn latest_first(order: Order) -> Order {
    Order { time: order.time.saturating_neg(), kind: order.kind, offset: u64::MAX - order.offset }
}

/// Whether an observation is the actor's own doing, and not something said about somebody.
fn is_own_activity(fact: &Fact<'_>) -> bool {
    match fact {
        Fact::Activity
        | Fact::Prompt { .. }
        | Fact::Message { .. }
        | Fact::Thought { .. }
        | Fact::Response(_)
        | Fact::CallBegin(_)
        | Fact::CallEnd(_)
        | Fact::Heartbeat => true,
        Fact::Session { .. }
        | Fact::Spawn(_)
        | Fact::AgentEnd(_)
        | Fact::TurnEnd { .. }
        | Fact::Progress { .. }
        | Fact::Retry { .. }
        | Fact::Permission { .. }
        | Fact::SessionStart { .. }
        | Fact::SessionEnd { .. }
        | Fact::AwaitsPrompt
        | Fact::Warmup
        | Fact::Checksum(_)
        | Fact::Note { .. }
        | Fact::Stop { .. }
        | Fact::WireHasIdentity => false,
    }
}

fn actor(facts: &mut Facts, claim: &Claim<'_>) -> Option<Ref> {
    match claim {
        Claim::Root(_) => Some(ROOT),
        Claim::Agent(id, _) => Some(facts.agent_by_id(id)),
        Claim::SpawnedBy(call) => {
            let call = facts.call(call);
            Some(facts.agent_by_call(call))
        }
        Claim::Chain { line, parent } => Some(facts.agent_by_chain(line, *parent)),
        Claim::Silent => None,
    }
}

fn basis(claim: &Claim<'_>) -> Basis {
    match claim {
        Claim::Root(basis) | Claim::Agent(_, basis) => *basis,
        Claim::SpawnedBy(_) | Claim::Chain { .. } => Basis::Link,
        Claim::Silent => Basis::Unknown,
    }
}

fn claim(owners: &mut smallvec::SmallVec<[(Ref, Basis); 1]>, actor: Option<Ref>, claim: &Claim<'_>) {
    let Some(actor) = actor else { return };
    let basis = basis(claim);
    match owners.iter_mut().find(|(owner, _)| *owner == actor) {
        Some((_, known)) => *known = (*known).max(basis),
        None => owners.push((actor, basis)),
    }
}

fn hear(facts: &mut Facts, actor: Option<Ref>, seen: &Observation<'_>, order: Order) {
    let Some(agent) = actor.and_then(|actor| facts.agents.get_mut(actor as usize)) else { return };
    agent.proven = true;
    agent.has_transcript |= seen.kind == SourceKind::Transcript;
    agent.heard = agent.heard.max(Some(order));
    let is_own = match seen.fact {
        Fact::Activity | Fact::Heartbeat | Fact::Progress { .. } | Fact::Retry { .. } => false,
        Fact::Prompt { what, .. } => what != PromptKind::Local,
        _ => true,
    };
    if is_own {
        agent.acted = agent.acted.max(Some(order));
    }
    if let Some(time) = seen.time {
        agent.span.add(seen.clock, time);
    }
}

fn set_tail(facts: &mut Facts, actor: Option<Ref>, kind: SourceKind, order: Order, tail: Tail) {
    let Some(agent) = actor.and_then(|actor| facts.agents.get_mut(actor as usize)) else { return };
    let slot = match kind {
        SourceKind::Transcript => &mut agent.tails[0],
        SourceKind::Stream => &mut agent.tails[1],
        SourceKind::Posted | SourceKind::Hook => return,
    };
    if slot.is_none_or(|(known, was)| (known, was) <= (order, tail)) {
        *slot = Some((order, tail));
    }
}

fn tail_of(told: &Response<'_>) -> Tail {
    if told.api_error {
        Tail::ApiError
    } else if told.ends_turn {
        Tail::EndTurn
    } else if told.has_text && !told.has_call && !told.has_stop_reason {
        Tail::TextOnly
    } else {
        Tail::Open
    }
}

/// Takes the numbers of the line that has the response's end; without one, the greatest.
fn join_usage(response: &mut ResponseFacts, told: &Response<'_>) {
    let is_final = told.has_stop_reason;
    if let Some(usage) = told.usage {
        let tokens = Tokens::new(&usage, told.cache_write_1h);
        if response.usage.is_none_or(|known| (is_final, tokens) > (response.is_final, known)) {
            response.usage = Some(tokens);
        }
    }
    response.is_final |= is_final;
    if response.is_final {
        response.content = None;
    } else {
        let lines = response.content.get_or_insert_with(Default::default);
        if !lines.contains(&told.content) {
            lines.push(told.content);
        }
    }
}

fn keep_payload(slot: &mut Tellings, actor: Option<Ref>, seen: &Observation<'_>, raw: Raw<'_>) {
    slot.add(seen.kind, actor, || match u32::try_from(raw.json.len()) {
        Ok(len) if raw.offset != u64::MAX => {
            Payload::At { source: seen.place.source, offset: raw.offset, len }
        }
        _ => Payload::Inline(raw.json.into()),
    });
}

fn prompt(
    facts: &mut Facts,
    actor: Option<Ref>,
    seen: &Observation<'_>,
    order: Order,
    id: Option<&str>,
    raw: Raw<'_>,
    what: PromptKind,
) {
    let is_root = actor == Some(ROOT);
    if what == PromptKind::Local {
        // Nobody works for it: how the last turn stands stays as it was.
        facts.is_opened |= is_root;
        return;
    }
    let tail = if what == PromptKind::Interrupted { Tail::Interrupted } else { Tail::Open };
    set_tail(facts, actor, seen.kind, order, tail);
    if is_root && what == PromptKind::Asked {
        let text = raw.text();
        better_text(&mut facts.title, 0, order, Some(&text));
        facts.prompts.push(PromptFact {
            kind: seen.kind,
            id: id.map(Text::from),
            hash: hash_text(&text),
            time: seen.time,
            order,
            line_id: seen.line_id.map(Text::from),
        });
    } else if let Some(agent) =
        actor.filter(|_| !is_root).and_then(|actor| facts.agents.get_mut(actor as usize))
    {
        if let Some(time) = seen.time {
            agent.marks.push(time);
        }
        if what == PromptKind::Asked {
            better_text(&mut agent.prompt, rank::OWN, order, Some(&raw.text()));
        }
    }
    if seen.kind == SourceKind::Hook {
        step(facts, seen, HookWhat::Prompt { is_user: what == PromptKind::Asked });
    }
}

fn message(facts: &mut Facts, actor: Option<Ref>, order: Order, raw: Raw<'_>) {
    let Some(agent) = actor.and_then(|actor| facts.agents.get_mut(actor as usize)) else { return };
    match &mut agent.last_text {
        Some((known, offset, text)) if (*known, *offset) <= (order, raw.offset) => {
            (*known, *offset) = (order, raw.offset);
            text.clear();
            text.push_str(raw.json);
        }
        Some(_) => {}
        slot @ None => *slot = Some((order, raw.offset, raw.json.to_owned())),
    }
}

/// Notes how far the root and the results of a stream have come.
fn follow_stream(facts: &mut Facts, actor: Option<Ref>, seen: &Observation<'_>) {
    let stream = facts.streams.entry(seen.place.source.0).or_default();
    if matches!(seen.fact, Fact::TurnEnd { .. }) {
        stream.last_result = stream.last_result.max(Some(seen.place.offset));
    } else if actor == Some(ROOT)
        && matches!(seen.fact, Fact::Response(_) | Fact::CallEnd(_) | Fact::Prompt { .. })
        && seen.line_id.is_none_or(|line| stream.active_lines.insert(line.into()))
    {
        stream.last_activity = stream.last_activity.max(Some(seen.place.offset));
    }
}

fn step(facts: &mut Facts, seen: &Observation<'_>, what: HookWhat) {
    facts.hooks.push(HookStep {
        source: seen.place.source.0,
        offset: seen.place.offset,
        line: seen.place.line,
        what,
    });
}
