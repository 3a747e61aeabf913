//! Joins observations into facts.
//!
//! One function for each variant of [`Fact`]; none derives anything. To add a variant, add an arm to
//! [`Absorber::record`] and its function.

mod agents;

use hashbrown::HashMap;
use subscope_model::{
    AgentStatus, Basis, CallBegin, CallEnd, Claim, EndEvidence, Fact, Millis, Observation, Outcome, Payload,
    Problem, PromptKind, RawJson, Response, SourceKind, Text, ToolClass,
};

use crate::{
    facts::{
        AgentEndFact, AgentRef, CallBeginFact, CallEndFact, CallIndex, CallPayloads, FactOrder, Facts,
        HookStep, HookStepKind, LastLine, PromptFact, ROOT, ReportedPayloads, ResponseFacts, ResponseTokens,
        RetryFact, TurnFact, response_key, update_best, update_best_text,
    },
    hash_text,
};

/// How much of call payloads a tracker records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactDetail {
    /// No payloads: enough for trees.
    Rows,
    /// Location of arguments and results in their source, or their text if they have no offset.
    Payloads,
}

/// Joins observations of one session into its [`Facts`].
#[derive(Debug)]
pub(crate) struct Absorber {
    keep: FactDetail,
    cutoff: Option<Millis>,
    /// Latest time seen in each source.
    clocks: HashMap<u32, Millis>,
}

/// Ranks of reports of the same value; the smallest wins.
mod rank {
    /// The agent's own transcript or the harness's record of the agent.
    pub(super) const OWN: u8 = 0;
    /// The harness's or publisher's report of its start or end.
    pub(super) const REPORTED: u8 = 1;
    /// The arguments of its spawn call.
    pub(super) const ASKED: u8 = 2;
    /// A hook payload.
    pub(super) const HOOK: u8 = 3;
}

impl Absorber {
    pub(crate) fn new(keep: FactDetail, cutoff: Option<Millis>) -> Self {
        Self { keep, cutoff, clocks: HashMap::new() }
    }

    /// Joins the clocks of another absorber. Adds `sources` to its source numbers.
    pub(crate) fn join(&mut self, other: &Self, sources: u32) {
        self.clocks.extend(other.clocks.iter().map(|(source, time)| (source + sources, *time)));
    }

    /// Records one observation. Returns `false` if it was dropped because of the cutoff.
    pub(crate) fn record(&mut self, facts: &mut Facts, observation: &Observation<'_>) -> bool {
        let clock = self.clocks.entry(observation.place.source.0).or_insert(Millis::MIN);
        if let Some(time) = observation.time {
            *clock = (*clock).max(time);
        }
        let order = FactOrder {
            time: observation.time.unwrap_or(*clock),
            kind: observation.kind,
            offset: observation.place.offset,
        };
        if self.cutoff.is_some_and(|cutoff| order.time > cutoff) {
            return false;
        }
        // With a cutoff, a source without times may still describe the session and its agents, but nothing else of it
        // is recorded: it cannot be placed before or after the cutoff.
        let is_undated = self.cutoff.is_some() && order.time == Millis::MIN;
        if is_undated && !matches!(observation.fact, Fact::Session { .. } | Fact::Spawn(_)) {
            return false;
        }
        if let Fact::Stop { step, call, is_refused } = &observation.fact {
            // A stop order is no activity of the agent.
            agents::record_stop(facts, observation, order, *step, *call, *is_refused);
            return true;
        }
        if let Some(time) = observation.time {
            facts.span.add(observation.clock, time);
        }
        let actor = resolve_actor(facts, &observation.claim);
        if is_own_activity(&observation.fact) {
            record_activity(facts, actor, observation, order);
            if actor.is_none() {
                facts.last_unattributed = facts.last_unattributed.max(observation.time);
            }
        }
        if observation.kind == SourceKind::Stream {
            record_stream_position(facts, actor, observation);
        }
        match &observation.fact {
            Fact::Session { version, cwd, model, tells_starts } => {
                if let Some(version) = version {
                    update_best(
                        &mut facts.version,
                        0,
                        latest_first(order),
                        std::cmp::Reverse(Text::from(*version)),
                    );
                }
                // A publisher reports its own folder, which need not be the one where the root started.
                let rank = u8::from(observation.kind == SourceKind::Posted);
                update_best_text(&mut facts.cwd, rank, order, cwd.as_deref());
                update_best_text(&mut facts.root_model, 0, order, *model);
                if *tells_starts {
                    facts.start_reporting_kinds |= 1 << observation.kind as u8;
                }
            }
            Fact::Activity | Fact::Heartbeat | Fact::Note { .. } | Fact::Stop { .. } => {}
            Fact::Warmup => {
                if let Some(agent) = actor.and_then(|actor| facts.agents.get_mut(actor as usize)) {
                    agent.is_warmup = true;
                }
            }
            Fact::Prompt { prompt_id, text, what } => {
                record_prompt(facts, actor, observation, order, *prompt_id, *text, *what)
            }
            Fact::Message { text, .. } => record_message(facts, actor, order, *text),
            Fact::Thought { .. } => {}
            Fact::Response(response) => self.record_response(facts, actor, observation, order, response),
            Fact::CallBegin(call) => self.record_call_begin(facts, actor, observation, order, call),
            Fact::CallEnd(call) => self.record_call_end(facts, actor, observation, order, call),
            Fact::Spawn(spawn) => agents::record_spawn(facts, actor, observation, order, spawn, is_undated),
            Fact::AgentEnd(end) => agents::record_agent_end(facts, actor, observation, order, end),
            Fact::TurnEnd { status, counts_run, .. } => {
                facts.turns.push(TurnFact {
                    kind: observation.kind,
                    status: *status,
                    order,
                    counts_run: *counts_run,
                    line_id: observation.line_id.map(Text::from),
                });
                if observation.kind == SourceKind::Hook {
                    push_hook_step(facts, observation, HookStepKind::TurnEnd { status: *status });
                }
            }
            Fact::Progress { agent, .. } => {
                if let Some(known) = agent.and_then(|id| facts.by_id.get(id).copied()) {
                    record_activity(facts, Some(known), observation, order);
                }
            }
            Fact::Retry { agent, attempt, limit, error, .. } => {
                let who = agent.map(|id| facts.agent_by_id(id)).or(actor);
                if *attempt > 0 {
                    record_activity(facts, who, observation, order);
                }
                if let Some(agent) = who.and_then(|who| facts.agents.get_mut(who as usize)) {
                    let retry = RetryFact {
                        order,
                        time: observation.time,
                        attempt: *attempt,
                        limit: *limit,
                        error: error.as_ref().into(),
                    };
                    if agent.retry.as_ref().is_none_or(|known| known.order <= retry.order) {
                        agent.retry = Some(retry);
                    }
                }
            }
            Fact::Permission { name, digest, .. } => {
                let named = actor;
                let name = facts.intern(name);
                push_hook_step(
                    facts,
                    observation,
                    HookStepKind::Permission { named, name, digest: *digest, time: observation.time },
                );
            }
            Fact::SessionStart { source } => {
                // A compaction restarts the context, not a process of the harness.
                if source.as_deref() != Some("compact") {
                    push_hook_step(facts, observation, HookStepKind::SessionStart { time: observation.time });
                }
            }
            Fact::AwaitsPrompt => push_hook_step(facts, observation, HookStepKind::AwaitsPrompt),
            Fact::SessionEnd { .. } => push_hook_step(facts, observation, HookStepKind::SessionEnd),
            Fact::Checksum(sum) => {
                if !facts.checksums.contains(sum) {
                    facts.checksums.push(*sum);
                }
            }
            Fact::WireHasIdentity => facts.has_identity = true,
        }
        true
    }

    /// Records a problem, once.
    pub(crate) fn record_problem(facts: &mut Facts, problem: Problem) {
        if !facts.problems.contains(&problem) {
            facts.problems.push(problem);
        }
    }

    fn record_response(
        &self,
        facts: &mut Facts,
        actor: Option<AgentRef>,
        observation: &Observation<'_>,
        order: FactOrder,
        fact: &Response<'_>,
    ) {
        set_last_line(facts, actor, observation.kind, order, classify_line(fact));
        let model = fact.model.map(|model| facts.intern(model));
        let key = response_key(fact.message_id);
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
        add_claim(&mut response.owners, actor, &observation.claim);
        response.synthetic |= fact.synthetic;
        response.only_streamed &= observation.kind == SourceKind::Stream;
        if let Some(model) = model
            && response.model.as_ref().is_none_or(|(known, name)| (order.time, &model) < (*known, name))
        {
            response.model = Some((order.time, model));
        }
        if let Some(time) = observation.time.filter(|_| observation.kind != SourceKind::Hook) {
            response.times =
                Some(response.times.map_or((time, time), |(from, to)| (from.min(time), to.max(time))));
        }
        join_usage(response, fact);
    }

    fn record_call_begin(
        &self,
        facts: &mut Facts,
        actor: Option<AgentRef>,
        observation: &Observation<'_>,
        order: FactOrder,
        fact: &CallBegin<'_>,
    ) {
        let number = match fact.id {
            Some(id) => facts.call_index(id),
            None => {
                let number = facts.calls.len() as CallIndex;
                facts.calls.push(crate::facts::CallFacts::new(None));
                facts.open_calls_by_digest.entry(fact.digest).or_default().push(number);
                number
            }
        };
        let name = facts.intern(fact.name);
        let detail = fact.detail.as_deref().map(|detail| facts.intern(detail));
        let writes = fact.writes.as_deref().map(|file| facts.intern(file));
        let Some(call) = facts.calls.get_mut(number as usize) else { return };
        call.name.get_or_insert(name);
        if fact.class != ToolClass::Other {
            call.class = fact.class;
        }
        add_claim(&mut call.owners, actor, &observation.claim);
        if !fact.hindsight {
            call.seen |= 1 << observation.kind as u8;
            let begin =
                CallBeginFact { is_timeless: observation.time.is_none(), kind: observation.kind, order };
            call.begin = Some(call.begin.map_or(begin, |known| known.min(begin)));
        }
        if call.digest.is_none_or(|(kind, _)| observation.kind < kind) {
            call.digest = Some((observation.kind, fact.digest));
        }
        if let Some(detail) = detail
            && call.detail.as_ref().is_none_or(|(kind, _)| observation.kind < *kind)
        {
            call.detail = Some((observation.kind, detail));
        }
        if call.writes.is_none() {
            call.writes = writes;
        }
        if self.keep == FactDetail::Payloads
            && let Some(input) = fact.input
        {
            let payloads = call.payloads.get_or_insert_with(Default::default);
            record_payload(&mut payloads.input, actor, observation, input);
        }
        if let Some(input) = &fact.spawn {
            let spawn = call.spawn.get_or_insert_with(Default::default);
            update_best_text(&mut spawn.agent_type, rank::ASKED, order, input.agent_type.as_deref());
            update_best_text(&mut spawn.description, rank::ASKED, order, input.description.as_deref());
            update_best_text(&mut spawn.name, rank::ASKED, order, input.name.as_deref());
            update_best_text(&mut spawn.model, rank::ASKED, order, input.model.as_deref());
            update_best_text(
                &mut spawn.prompt,
                rank::ASKED,
                order,
                input.prompt.map(|raw| raw.text()).as_deref(),
            );
            if let Some(mode) = input.mode {
                update_best(&mut spawn.mode, rank::ASKED, order, mode);
            }
        }
        if observation.kind == SourceKind::Hook && !fact.hindsight {
            push_hook_step(facts, observation, HookStepKind::Pre { call: number, named: actor });
        }
    }

    fn record_call_end(
        &self,
        facts: &mut Facts,
        actor: Option<AgentRef>,
        observation: &Observation<'_>,
        order: FactOrder,
        fact: &CallEnd<'_>,
    ) {
        let Some(number) = self.find_ended_call(facts, fact) else { return };
        let launched = fact.spawn.as_ref().is_some_and(|spawn| spawn.finished == Some(false));
        if let Some(call) = facts.calls.get_mut(number as usize) {
            call.left_running |= fact.left_running;
            let end = CallEndFact::new(observation.kind, fact.outcome, actor, observation.time, fact.refused);
            if !call.ends.contains(&end) {
                call.ends.push(end);
            }
            if self.keep == FactDetail::Payloads
                && let Some(result) = fact.result
            {
                let payloads = call.payloads.get_or_insert_with(|| Box::new(CallPayloads::default()));
                record_payload(&mut payloads.result, actor, observation, result);
            }
        }
        if let Some(run) = fact.batch_run {
            facts.batch_runs.insert(run.into(), number);
        }
        agents::record_spawn_result(facts, number, order, fact);
        self.record_resume_or_stop(facts, number, observation, order, fact);
        if observation.kind == SourceKind::Hook && fact.outcome != Outcome::Over {
            push_hook_step(facts, observation, HookStepKind::Post { call: number, named: actor, launched });
        }
    }

    /// Returns the call that an end belongs to. An end without an id matches a call only if exactly one with the same
    /// digest is open.
    fn find_ended_call(&self, facts: &mut Facts, fact: &CallEnd<'_>) -> Option<CallIndex> {
        if let Some(id) = fact.id {
            return Some(facts.call_index(id));
        }
        let open = facts.open_calls_by_digest.get_mut(&fact.digest)?;
        if open.len() == 1 { open.pop() } else { None }
    }

    fn record_resume_or_stop(
        &self,
        facts: &mut Facts,
        number: CallIndex,
        observation: &Observation<'_>,
        order: FactOrder,
        fact: &CallEnd<'_>,
    ) {
        let id = facts.calls.get(number as usize).and_then(|call| call.id.clone());
        if let (Some(agent), Some(call)) = (fact.resumed, &id) {
            let resumed = facts.agent_by_id(agent);
            agents::record_trigger(facts, resumed, call, observation.time, order);
        }
        if let Some(agent) = fact.stopped {
            let end = AgentEndFact {
                evidence: EndEvidence::StopCall,
                status: AgentStatus::Stopped,
                order,
                call: None,
                run_id: None,
                time: observation.time,
                report: None,
                error: None,
                stop_type: None,
            };
            facts.ends.entry_ref(agent).or_default().push(end);
        }
    }
}

/// Reverses an order, so that the latest report has the smallest rank.
fn latest_first(order: FactOrder) -> FactOrder {
    FactOrder { time: order.time.saturating_neg(), kind: order.kind, offset: u64::MAX - order.offset }
}

/// Whether a fact is an activity of its actor, rather than a statement about an agent.
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

fn resolve_actor(facts: &mut Facts, claim: &Claim<'_>) -> Option<AgentRef> {
    match claim {
        Claim::Root(_) => Some(ROOT),
        Claim::Agent(id, _) => Some(facts.agent_by_id(id)),
        Claim::SpawnedBy(call) => {
            let call = facts.call_index(call);
            Some(facts.agent_by_call(call))
        }
        Claim::Chain { line, parent } => Some(facts.agent_by_chain(line, *parent)),
        Claim::Silent => None,
    }
}

fn basis_of(claim: &Claim<'_>) -> Basis {
    match claim {
        Claim::Root(basis) | Claim::Agent(_, basis) => *basis,
        Claim::SpawnedBy(_) | Claim::Chain { .. } => Basis::Link,
        Claim::Silent => Basis::Unknown,
    }
}

fn add_claim(
    owners: &mut smallvec::SmallVec<[(AgentRef, Basis); 1]>,
    actor: Option<AgentRef>,
    claim: &Claim<'_>,
) {
    let Some(actor) = actor else { return };
    let basis = basis_of(claim);
    match owners.iter_mut().find(|(owner, _)| *owner == actor) {
        Some((_, known)) => *known = (*known).max(basis),
        None => owners.push((actor, basis)),
    }
}

fn record_activity(
    facts: &mut Facts,
    actor: Option<AgentRef>,
    observation: &Observation<'_>,
    order: FactOrder,
) {
    let Some(agent) = actor.and_then(|actor| facts.agents.get_mut(actor as usize)) else { return };
    agent.is_proven = true;
    agent.last_seen = agent.last_seen.max(Some(order));
    let is_foreign = matches!(
        observation.fact,
        Fact::Activity
            | Fact::Heartbeat
            | Fact::Progress { .. }
            | Fact::Retry { .. }
            | Fact::Prompt { what: PromptKind::Local, .. }
    );
    if !is_foreign {
        agent.last_acted = agent.last_acted.max(Some(order));
    }
    if let Some(time) = observation.time {
        agent.span.add(observation.clock, time);
    }
}

fn set_last_line(
    facts: &mut Facts,
    actor: Option<AgentRef>,
    kind: SourceKind,
    order: FactOrder,
    last_line: LastLine,
) {
    let Some(agent) = actor.and_then(|actor| facts.agents.get_mut(actor as usize)) else { return };
    let slot = match kind {
        SourceKind::Transcript => &mut agent.last_lines[0],
        SourceKind::Stream => &mut agent.last_lines[1],
        SourceKind::Posted | SourceKind::Hook => return,
    };
    if slot.is_none_or(|(known, was)| (known, was) <= (order, last_line)) {
        *slot = Some((order, last_line));
    }
}

fn classify_line(fact: &Response<'_>) -> LastLine {
    if fact.api_error {
        LastLine::ApiError
    } else if fact.ends_turn {
        LastLine::EndTurn
    } else if fact.has_text && !fact.has_call && !fact.has_stop_reason {
        LastLine::TextOnly
    } else {
        LastLine::Open
    }
}

/// Keeps the usage of the line with a stop reason; without one, the greatest.
fn join_usage(response: &mut ResponseFacts, fact: &Response<'_>) {
    let is_final = fact.has_stop_reason;
    if let Some(usage) = fact.usage {
        let tokens = ResponseTokens::new(&usage, fact.cache_write_1h);
        if response.usage.is_none_or(|known| (is_final, tokens) > (response.is_final, known)) {
            response.usage = Some(tokens);
        }
    }
    response.is_final |= is_final;
    if response.is_final {
        response.content = None;
    } else {
        let lines = response.content.get_or_insert_with(Default::default);
        if !lines.contains(&fact.content) {
            lines.push(fact.content);
        }
    }
}

fn record_payload(
    slot: &mut ReportedPayloads,
    actor: Option<AgentRef>,
    observation: &Observation<'_>,
    raw: RawJson<'_>,
) {
    slot.add(observation.kind, actor, || match u32::try_from(raw.json.len()) {
        Ok(len) if raw.offset != u64::MAX => {
            Payload::At { source: observation.place.source, offset: raw.offset, len }
        }
        _ => Payload::Inline(raw.json.into()),
    });
}

fn record_prompt(
    facts: &mut Facts,
    actor: Option<AgentRef>,
    observation: &Observation<'_>,
    order: FactOrder,
    id: Option<&str>,
    raw: RawJson<'_>,
    what: PromptKind,
) {
    let is_root = actor == Some(ROOT);
    if what == PromptKind::Local {
        // No model answers it, so the last turn's status does not change.
        facts.has_local_command |= is_root;
        return;
    }
    let last_line = if what == PromptKind::Interrupted { LastLine::Interrupted } else { LastLine::Open };
    set_last_line(facts, actor, observation.kind, order, last_line);
    if is_root && what == PromptKind::Asked {
        let text = raw.text();
        update_best_text(&mut facts.title, 0, order, Some(&text));
        facts.prompts.push(PromptFact {
            kind: observation.kind,
            id: id.map(Text::from),
            hash: hash_text(&text),
            time: observation.time,
            order,
            line_id: observation.line_id.map(Text::from),
        });
    } else if let Some(agent) =
        actor.filter(|_| !is_root).and_then(|actor| facts.agents.get_mut(actor as usize))
    {
        if let Some(time) = observation.time {
            agent.prompt_times.push(time);
        }
        if what == PromptKind::Asked {
            update_best_text(&mut agent.prompt, rank::OWN, order, Some(&raw.text()));
        }
    }
    if observation.kind == SourceKind::Hook {
        push_hook_step(facts, observation, HookStepKind::Prompt { is_user: what == PromptKind::Asked });
    }
}

fn record_message(facts: &mut Facts, actor: Option<AgentRef>, order: FactOrder, raw: RawJson<'_>) {
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

/// Records the offsets of a stream's latest root activity and result.
fn record_stream_position(facts: &mut Facts, actor: Option<AgentRef>, observation: &Observation<'_>) {
    let stream = facts.streams.entry(observation.place.source.0).or_default();
    if matches!(observation.fact, Fact::TurnEnd { .. }) {
        stream.last_result = stream.last_result.max(Some(observation.place.offset));
    } else if actor == Some(ROOT)
        && matches!(observation.fact, Fact::Response(_) | Fact::CallEnd(_) | Fact::Prompt { .. })
        && observation.line_id.is_none_or(|line| stream.active_lines.insert(line.into()))
    {
        stream.last_activity = stream.last_activity.max(Some(observation.place.offset));
    }
}

fn push_hook_step(facts: &mut Facts, observation: &Observation<'_>, kind: HookStepKind) {
    facts.hooks.push(HookStep {
        source: observation.place.source.0,
        offset: observation.place.offset,
        line: observation.place.line,
        kind,
    });
}

#[cfg(test)]
mod tests {
    use subscope_model::{Clock, SessionId, SourceId, SourcePosition, Spawn};

    use super::*;
    use crate::{
        Tracker,
        test_session::{ROOT, TestSession, agent, begin, call_end, raw, response},
    };

    #[test]
    fn end_without_an_id_ends_a_call_only_if_one_is_open() {
        let mut session = TestSession::new();
        let call = || Fact::CallBegin(CallBegin { id: None, ..begin("x", "Bash", ToolClass::Other) });
        let end = || Fact::CallEnd(CallEnd { id: None, ..call_end("x", Outcome::Ok) });
        let ended = |session: &TestSession| -> Vec<usize> {
            session.facts().calls.iter().map(|call| call.ends.len()).collect()
        };
        session.add(SourceKind::Hook, None, ROOT, call());
        session.add(SourceKind::Hook, None, ROOT, end());
        assert_eq!(ended(&session), [1]);
        session.add(SourceKind::Hook, None, ROOT, call());
        session.add(SourceKind::Hook, None, ROOT, call());
        session.add(SourceKind::Hook, None, ROOT, end());
        assert_eq!(ended(&session), [1, 0, 0], "either call can have ended");
    }

    #[test]
    fn cutoff_drops_later_observations_and_undated_activity() {
        let mut tracker = Tracker::new(SessionId::from("s"), None, FactDetail::Rows, Some(10));
        let mut absorb = |source: u32, time: Option<Millis>, fact: Fact<'_>| {
            tracker.absorb(&Observation {
                place: SourcePosition { source: SourceId(source), ..SourcePosition::default() },
                kind: SourceKind::Transcript,
                time,
                clock: Clock::Transcript,
                session: None,
                line_id: None,
                claim: agent("a1"),
                fact,
            })
        };
        let described = || Fact::Spawn(Spawn { description: Some("d".into()), ..Spawn::default() });
        assert!(!absorb(0, None, Fact::Activity), "without any time");
        assert!(absorb(0, None, described()));
        assert!(absorb(1, Some(10), Fact::Activity));
        assert!(absorb(1, None, Fact::Activity), "it has the time of the line before it");
        assert!(!absorb(1, Some(11), Fact::Activity));
        assert!(!absorb(1, None, Fact::Activity));
    }

    #[test]
    fn notices_and_local_commands_are_no_actions_of_the_agent() {
        let mut session = TestSession::new();
        let text = raw(r#""/help""#);
        session.add(SourceKind::Transcript, 10, ROOT, Fact::Response(response("m1", 1)));
        session.add(SourceKind::Transcript, 20, ROOT, Fact::Heartbeat);
        let local = Fact::Prompt { prompt_id: None, text, what: PromptKind::Local };
        session.add(SourceKind::Transcript, 30, ROOT, local);
        let root = &session.facts().agents[ROOT_REF];
        assert_eq!(root.last_seen.map(|order| order.time), Some(30));
        assert_eq!(root.last_acted.map(|order| order.time), Some(10));
        assert!(session.facts().has_local_command);
        assert!(session.facts().prompts.is_empty());
    }

    const ROOT_REF: usize = super::ROOT as usize;
}
