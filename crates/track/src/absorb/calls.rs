//! Records facts about API responses and tool calls.

use smallvec::SmallVec;
use subscope_model::{
    AgentStatus, Basis, CallBegin, CallEnd, Claim, EndEvidence, Observation, Outcome, Payload, RawJson,
    Response, SourceKind, Text, ToolClass, stable_hash,
};

use super::{FactDetail, Recording, basis_of, rank};
use crate::facts::{
    AgentEndFact, AgentRef, CallBeginFact, CallEndFact, CallFacts, CallIndex, HookStepKind, LastLine,
    ReportedPayloads, ResponseFacts, ResponseNote, ResponseTokens, join_owners, keep_least, push_new,
    response_key, update_best, update_best_text, widest,
};

impl Recording<'_, '_> {
    pub(super) fn record_response(&mut self, fact: &Response<'_>) {
        self.facts.longest_behind_text = self.facts.longest_behind_text.max(fact.ends_if_last);
        if !fact.accounts_only {
            self.set_last_line(classify_line(fact));
            self.record_root_line(classify_line(fact));
        }
        let kind = self.observation.kind;
        let model = fact.model.map(|model| (self.order.time, self.facts.intern(model)));
        let (number, key) = self.response_of(fact);
        if self.keep != FactDetail::Rows {
            let id =
                Some(fact.message_id).filter(|id| !id.is_empty()).or(fact.request_id).unwrap_or_default();
            let id = id.into();
            let (ends_turn, has_call, order, calls) = (fact.ends_turn, fact.has_call, self.order, Vec::new());
            let note = ResponseNote { id, ends_turn, has_call, order, calls };
            self.facts.response_notes.entry(key).or_insert_with(|| note.clone()).join(&note);
            if self.keep == FactDetail::Payloads {
                let place = self.observation.place;
                self.facts.last_response = Some((place.source.0, place.line, key));
            }
        }
        let response = &mut self.facts.responses[number];
        add_claim(&mut response.owners, self.actor, &self.observation.claim);
        response.synthetic |= fact.synthetic;
        response.only_streamed &= kind == SourceKind::Stream;
        keep_least(&mut response.model, model);
        if let Some(time) = self.observation.time.filter(|_| kind != SourceKind::Hook) {
            response.times = widest(response.times, Some((time, time)));
        }
        join_usage(response, fact);
    }

    /// Returns index and key of the response that a line is about, adding it if new. A line that has the ids of both
    /// request and message links them.
    fn response_of(&mut self, fact: &Response<'_>) -> (usize, (u64, u64)) {
        let request = fact.request_id.map(response_key);
        let key = match request {
            Some(request) if fact.message_id.is_empty() => {
                let message = self.facts.answers.get(&request).copied();
                self.facts.has_unnamed_answers |= message.is_none();
                message.unwrap_or(request)
            }
            _ => response_key(fact.message_id),
        };
        let (number, is_new) = self.facts.response_index(key);
        match request.filter(|request| is_new && *request != key) {
            Some(request) if !fact.message_id.is_empty() => {
                self.facts.name_answer(request, key);
                (self.facts.response_index(key).0, key)
            }
            _ => (number, key),
        }
    }

    pub(super) fn record_call_begin(&mut self, fact: &CallBegin<'_>) {
        let (kind, order) = (self.observation.kind, self.order);
        let number = match fact.id {
            Some(id) => self.facts.call_index(id),
            None => {
                let number = self.facts.calls.len() as CallIndex;
                self.facts.calls.push(CallFacts::default());
                let key = self.open_calls_key(fact.digest);
                self.facts.open_calls.entry(key).or_default().push(number);
                self.record_call_place(number);
                number
            }
        };
        let name = self.facts.intern(fact.name);
        // Most details are unlike all others. The file that a call writes is often its detail.
        let detail: Option<Text> = fact.detail.as_deref().map(Text::from);
        let is_detail = |file: &str| detail.clone().filter(|known| **known == *file);
        let writes = fact.writes.iter().map(|file| is_detail(file).unwrap_or_else(|| file.as_ref().into()));
        let writes: Box<[Text]> = writes.collect();
        let call = self.facts.call_mut(number);
        if fact.class != ToolClass::Other {
            call.class = fact.class;
        }
        call.has_local_id |= fact.has_local_id;
        call.has_arguments |= fact.input.is_some();
        call.is_renumbered |= fact.is_renumbered;
        add_claim(&mut call.owners, self.actor, &self.observation.claim);
        if !fact.hindsight {
            call.seen |= 1 << kind as u8;
            let is_timeless = self.observation.time.is_none();
            keep_least(&mut call.begin, Some(CallBeginFact { is_timeless, kind, order }));
        }
        if call.digest.is_none_or(|(known, _)| kind < known) {
            // A hook may call a tool by another name than the transcript does.
            (call.digest, call.name) = (Some((kind, fact.digest)), Some(name));
        }
        if let Some(detail) = detail
            && call.detail.as_ref().is_none_or(|(known, _)| kind < *known)
        {
            call.detail = Some((kind, detail));
        }
        if call.writes.is_empty() {
            call.writes = writes;
        }
        if let Some(input) = fact.input.filter(|_| self.keep == FactDetail::Payloads) {
            let payloads = call.payloads.get_or_insert_with(Default::default);
            record_payload(&mut payloads.input, self.actor, self.observation, input, self.inlines_payloads);
        }
        let place = self.observation.place;
        if let Some((source, line, key)) = self.facts.last_response
            && (source, line) == (place.source.0, place.line)
            && let Some(id) = self.facts.call(number).id.clone()
            && let Some(note) = self.facts.response_notes.get_mut(&key)
        {
            note.add_call(&id);
        }
        if let Some(run) = &fact.starts_run {
            self.facts.add_started_run(run.as_ref().into(), number);
        }
        if let Some(input) = &fact.spawn {
            let spawn = self.facts.call_mut(number).spawn.get_or_insert_with(Default::default);
            let prompt = input.prompt.map(|raw| raw.text());
            update_best_text(&mut spawn.agent_type, rank::ASKED, order, input.agent_type.as_deref());
            update_best_text(&mut spawn.description, rank::ASKED, order, input.description.as_deref());
            update_best_text(&mut spawn.name, rank::ASKED, order, input.name.as_deref());
            update_best_text(&mut spawn.model, rank::ASKED, order, input.model.as_deref());
            update_best_text(&mut spawn.prompt, rank::ASKED, order, prompt.as_deref());
            if let Some(mode) = input.mode {
                update_best(&mut spawn.mode, rank::ASKED, order, mode);
            }
        }
        if kind == SourceKind::Hook && !fact.hindsight {
            let digest = fact.digest;
            self.push_hook_step(HookStepKind::Pre { call: number, named: self.actor, digest });
        }
    }

    pub(super) fn record_call_end(&mut self, fact: &CallEnd<'_>) {
        let (kind, time) = (self.observation.kind, self.observation.time);
        let Some(number) = self.find_ended_call(fact) else { return };
        let name = fact.name.map(|name| self.facts.intern(name));
        let call = self.facts.call_mut(number);
        // The name in its begin precedes.
        if call.digest.is_none()
            && name.as_ref().is_some_and(|name| call.name.as_ref().is_none_or(|known| name < known))
        {
            call.name = name;
        }
        call.left_running |= fact.left_running;
        call.duration_ms = call.duration_ms.max(fact.duration_ms.filter(|_| time.is_none()));
        let basis = basis_of(&self.observation.claim);
        let mut end = CallEndFact::new(kind, fact.outcome, self.actor.map(|by| (by, basis)), time);
        (end.is_provisional, end.refused, end.is_late) = (fact.is_provisional, fact.refused, fact.is_late);
        push_new(&mut call.ends, end);
        if let Some(result) = fact.result.filter(|_| self.keep == FactDetail::Payloads) {
            let payloads = call.payloads.get_or_insert_with(Default::default);
            record_payload(&mut payloads.result, self.actor, self.observation, result, self.inlines_payloads);
        }
        let id = call.id.clone();
        if let Some(run) = fact.batch_run {
            self.facts.add_started_run(run.into(), number);
        }
        self.record_spawn_result(number, fact);
        if let (Some(agent), Some(call)) = (fact.resumed, &id) {
            let resumed = self.facts.agent_by_id(agent);
            self.record_trigger(resumed, call);
        }
        if let Some(agent) = fact.stopped {
            let end = AgentEndFact::new(EndEvidence::StopCall, AgentStatus::Stopped, self.order);
            let end = AgentEndFact { time, ..end };
            self.facts.ends.entry(agent.into()).or_default().push(end);
        }
        if kind == SourceKind::Hook && fact.outcome != Outcome::Over {
            let launched = fact.spawn.as_ref().is_some_and(|spawn| spawn.finished == Some(false));
            self.push_hook_step(HookStepKind::Post { call: number, named: self.actor, launched });
        }
    }

    /// Returns the call that an end belongs to. An end without an id ends the open call with the same digest, or of the
    /// same tool in the same published run, if exactly one is; if none is, its begin was not seen.
    fn find_ended_call(&mut self, fact: &CallEnd<'_>) -> Option<CallIndex> {
        if let Some(id) = fact.id {
            return Some(self.facts.call_index(id));
        }
        let (key, calls) = (self.open_calls_key(fact.digest), &self.facts.calls);
        let is_named =
            |call: CallIndex| fact.name.is_none() || calls[call as usize].name.as_deref() == fact.name;
        let open = self.facts.open_calls.entry(key).or_default();
        let mut candidates = (0..open.len()).filter(|at| is_named(open[*at]));
        let ended = match (candidates.next(), candidates.next()) {
            (Some(only), None) => open.remove(only),
            (None, _) if fact.name.is_some() && fact.outcome != Outcome::Over => {
                self.facts.calls.push(CallFacts::default());
                (self.facts.calls.len() - 1) as CallIndex
            }
            (None | Some(_), _) => return None,
        };
        self.record_call_place(ended);
        Some(ended)
    }

    /// Returns the key under which calls without ids are open: the digest of the arguments, which ends of published events
    /// do not repeat; those of one published run have one key.
    fn open_calls_key(&self, digest: u64) -> u64 {
        if let (Claim::Agent(run, _), SourceKind::Posted) = (&self.observation.claim, self.observation.kind) {
            stable_hash(run)
        } else {
            digest
        }
    }

    /// Records that this line reports a call without an id.
    fn record_call_place(&mut self, call: CallIndex) {
        let place = self.observation.place;
        self.facts.call_by_place.insert((place.source.0, place.offset), call);
    }
}

fn add_claim(owners: &mut SmallVec<[(AgentRef, Basis); 1]>, actor: Option<AgentRef>, claim: &Claim<'_>) {
    join_owners(owners, actor.map(|actor| (actor, basis_of(claim))));
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
    response.cost_pico_usd = response.cost_pico_usd.max(fact.cost_pico_usd);
    response.price_permille = response.price_permille.max(fact.price_permille);
    response.extra_pico_usd = response.extra_pico_usd.max(fact.extra_pico_usd);
    response.is_unpriced |= fact.is_unpriced;
    response.is_final |= is_final;
    if response.is_final {
        response.content = None;
    } else {
        push_new(&mut **response.content.get_or_insert_with(Default::default), fact.content);
    }
}

fn record_payload(
    slot: &mut ReportedPayloads,
    actor: Option<AgentRef>,
    observation: &Observation<'_>,
    raw: RawJson<'_>,
    is_inline: bool,
) {
    slot.add(observation.kind, actor, || Payload::of(raw, observation.place.source, is_inline));
}
