//! Reports what a trace says as observations.

use std::collections::{HashMap, HashSet};

use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallBegin, CallEnd, Claim, Clock, EndEvidence, Fact, Millis, Observation,
    Outcome, Parent, PromptKind, Response, SourceKind, SpanStatus, Spawn, ToolClass, TraceSpan,
};

use super::{
    CallIds, Trace,
    structure::{AgentPlace, Role, SpanIndex, Structure, Worker},
};
use crate::otlp::{SPAN_LINE, made_json};

/// Receives observations.
type Observe<'s> = dyn FnMut(&Observation<'_>) + 's;

impl Trace {
    /// Passes on what the trace reports: the same for the same spans, in whatever order they came.
    ///
    /// `call_ids` are those of all traces of the session.
    pub fn observe(&self, call_ids: &CallIds<'_>, sink: &mut Observe<'_>) {
        let structure = Structure::of(&self.spans);
        let mut reporter = Reporter::new(&structure, call_ids, sink);
        reporter.report_frame();
        for agent in &structure.agents {
            reporter.report_agent(agent);
        }
        for number in 0..structure.spans.len() {
            match structure.roles[number] {
                Role::Call => reporter.report_call(number),
                Role::Response => reporter.report_response(number),
                Role::Agent | Role::HandOff | Role::Link => {}
            }
        }
    }
}

/// Reports one trace.
struct Reporter<'r, 's> {
    structure: &'r Structure<'r>,
    /// Ids of all agents but the root.
    ids: HashMap<Worker, String>,
    /// Ids of calls.
    calls: HashMap<SpanIndex, String>,
    /// Agents of which a response is known, or of one that they started.
    with_responses: HashSet<Worker>,
    sink: &'r mut Observe<'s>,
}

/// Returns the program's id of each call, or that of its span where another call has the same.
fn ids_of_calls(structure: &Structure<'_>, call_ids: &CallIds<'_>) -> HashMap<SpanIndex, String> {
    let numbers = || (0..structure.spans.len()).filter(|number| structure.roles[*number] == Role::Call);
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for number in numbers() {
        structure.spans[number].own_id.iter().for_each(|id| *uses.entry(id).or_default() += 1);
    }
    let id = |number: SpanIndex| {
        let span = structure.spans[number];
        let own = span.own_id.as_deref().filter(|id| uses.get(id) == Some(&1) && call_ids.is_owner(span));
        (number, own.map_or_else(|| span.hex_id(), str::to_owned))
    };
    numbers().map(id).collect()
}

impl<'r, 's> Reporter<'r, 's> {
    fn new(structure: &'r Structure<'r>, call_ids: &CallIds<'_>, sink: &'r mut Observe<'s>) -> Self {
        let id = |agent: &AgentPlace| match agent.worker {
            // One that the program gives the agent would be known only at its end.
            Worker::Agent(number) | Worker::InCall(number) => Some(structure.spans[number].hex_id()),
            Worker::Pending(span) => Some(format!("{span:016x}")),
            Worker::Unknown | Worker::Nobody => None,
        };
        let others = structure.agents.iter().filter(|agent| Some(agent.worker) != structure.root);
        let ids = others.filter_map(|agent| Some((agent.worker, id(agent)?))).collect();
        let parents: HashMap<Worker, Worker> =
            structure.agents.iter().filter_map(|agent| Some((agent.worker, agent.parent?))).collect();
        let mut with_responses = HashSet::new();
        for agent in structure.agents.iter().filter(|agent| agent.has_response) {
            let mut next = Some(agent.worker);
            while let Some(worker) = next.filter(|worker| with_responses.insert(*worker)) {
                next = parents.get(&worker).copied();
            }
        }
        Self { structure, ids, calls: ids_of_calls(structure, call_ids), with_responses, sink }
    }

    /// Passes on one statement of a span.
    fn observe(&mut self, span: &TraceSpan, claim: Claim<'_>, time: Option<Millis>, fact: Fact<'_>) {
        let line = format!("{SPAN_LINE}{}", span.hex_id());
        (self.sink)(&Observation {
            place: span.place,
            kind: SourceKind::Otel,
            time,
            clock: Clock::Otel,
            session: None,
            line_id: Some(&line),
            claim,
            fact,
        });
    }

    /// Who works, as a claim. Below nothing at all is the root.
    fn claim<'i>(ids: &'i HashMap<Worker, String>, root: Option<Worker>, worker: Worker) -> Claim<'i> {
        match worker {
            Worker::Nobody => Claim::Root(Basis::Wire),
            Worker::Unknown => Claim::Silent,
            known if Some(known) == root => Claim::Root(Basis::Wire),
            Worker::Pending(_) | Worker::InCall(_) => {
                ids.get(&worker).map_or(Claim::Silent, |id| Claim::Agent(id, Basis::Link))
            }
            Worker::Agent(_) => ids.get(&worker).map_or(Claim::Silent, |id| Claim::Agent(id, Basis::Wire)),
        }
    }

    /// Reports the harness, and the root of a trace without agents: what is above all responses and calls.
    fn report_frame(&mut self) {
        let structure = self.structure;
        let known = structure.spans.iter().find_map(|span| Some((*span, span.harness?)));
        if let Some((span, name)) = known {
            self.observe(span, Claim::Silent, span.start, Fact::Harness { name });
        }
        if !structure.agents.is_empty() {
            return;
        }
        let tops = (0..structure.spans.len()).filter(|number| structure.workers[*number] == Worker::Nobody);
        let Some(top) = tops.map(|number| structure.spans[number]).max_by_key(|span| span.end) else {
            return;
        };
        let prompt = structure.spans.iter().find_map(|span| span.prompt.as_deref());
        self.report_root(top, prompt);
    }

    /// Reports a turn of the root.
    fn report_root(&mut self, span: &TraceSpan, prompt: Option<&str>) {
        let root = Claim::Root(Basis::Wire);
        let (version, model) = (span.version.as_deref(), span.model.as_deref());
        self.observe(
            span,
            root,
            span.start,
            Fact::Session { version, cwd: None, model, tells_starts: false },
        );
        let (text, prompt_id) = (json(prompt.unwrap_or_default()), span.hex_id());
        let prompt =
            Fact::Prompt { prompt_id: Some(&prompt_id), text: made_json(&text), what: PromptKind::Asked };
        self.observe(span, root, span.start, prompt);
        let (status, evidence) = (agent_status(span.status), EndEvidence::OtelRecord);
        self.observe(span, root, span.end, Fact::TurnEnd { status, evidence, counts_run: true, text: None });
        self.observe(span, root, span.start, Fact::Activity);
        self.observe(span, root, span.end, Fact::Activity);
    }

    fn report_agent(&mut self, agent: &AgentPlace) {
        let Some(span) = self.span_of(agent.worker) else { return };
        let is_reported = !matches!(agent.worker, Worker::Pending(_));
        if Some(agent.worker) == self.structure.root {
            let kind = Spawn { agent_type: agent.name.as_deref().map(Into::into), ..Spawn::default() };
            self.observe(span, Claim::Root(Basis::Wire), span.start, Fact::Spawn(kind));
            if is_reported {
                self.report_root(span, agent.prompt.as_deref());
                self.report_total(agent.worker, span);
            }
            return;
        }
        let Some(id) = self.ids.get(&agent.worker).cloned() else { return };
        let this = Claim::Agent(&id, Basis::Wire);
        let version = span.version.as_deref();
        self.observe(
            span,
            this,
            span.start,
            Fact::Session { version, cwd: None, model: None, tells_starts: false },
        );
        self.report_spawn(agent, span, &id);
        self.observe(span, this, span.start, Fact::Activity);
        let end = if is_reported { span.end } else { self.structure.ended };
        if let Some(end) = end {
            if is_reported {
                self.observe(span, this, Some(end), Fact::Activity);
            }
            // Nothing follows the span of everything: one below that was not reported is lost.
            let (status, evidence) = match is_reported {
                true => (agent_status(span.status), EndEvidence::OtelRecord),
                false => (AgentStatus::Lost, EndEvidence::Lost),
            };
            let error = span.error.as_deref().filter(|_| is_reported).map(json);
            let error = error.as_deref().map(made_json);
            let end = AgentEnd {
                agent: Some(&id),
                status,
                evidence,
                time: Some(end),
                error,
                ..AgentEnd::default()
            };
            self.observe(span, this, end.time, Fact::AgentEnd(end));
        }
        if is_reported {
            self.report_total(agent.worker, span);
        }
    }

    fn report_spawn(&mut self, agent: &AgentPlace, span: &TraceSpan, id: &str) {
        let parent_id = agent.parent.and_then(|parent| self.ids.get(&parent).cloned());
        let is_root = |parent: Worker| parent == Worker::Nobody || Some(parent) == self.structure.root;
        let parent = match (&parent_id, agent.parent) {
            (Some(parent), _) => Some(Parent::Agent(parent)),
            (None, Some(parent)) if is_root(parent) => Some(Parent::Root),
            (None, _) => None,
        };
        let call = agent.call.and_then(|call| Some((call, self.calls.get(&call)?.clone())));
        let prompt = agent.prompt.as_deref().map(json);
        let of_span = matches!(agent.worker, Worker::Agent(_));
        let spawn = Spawn {
            agent: Some(id),
            call: call.as_ref().map(|(_, id)| id.as_str()),
            parent,
            agent_type: agent.name.as_deref().map(Into::into),
            description: span.description.as_deref().map(Into::into),
            prompt: prompt.as_deref().map(made_json),
            model: span.model.as_deref().filter(|_| of_span).map(Into::into),
            starts: true,
            has_stand_in_id: true,
            is_handed_over: agent.link.is_handed_over(),
            is_inferred: agent.link.is_inferred(),
            ..Spawn::default()
        };
        self.observe(span, Claim::Agent(id, Basis::Wire), span.start, Fact::Spawn(spawn));
        if let Some((number, call)) = call {
            // The tool may have any name.
            let (root, worker) = (self.structure.root, self.structure.workers[number]);
            let by = self.structure.spans[number];
            let begin = CallBegin {
                id: Some(&call),
                name: by.name.as_deref().unwrap_or_default(),
                class: ToolClass::Spawn,
                digest: by.digest,
                hindsight: true,
                has_local_id: true,
                ..CallBegin::default()
            };
            let ids = std::mem::take(&mut self.ids);
            self.observe(by, Self::claim(&ids, root, worker), by.start, Fact::CallBegin(begin));
            self.ids = ids;
        }
    }

    /// Reports the sum of an agent, if no response of it is known.
    fn report_total(&mut self, worker: Worker, span: &TraceSpan) {
        let usage = span
            .usage
            .filter(|_| matches!(worker, Worker::Agent(_)) && !self.with_responses.contains(&worker));
        if let Some(usage) = usage {
            let (ids, root) = (std::mem::take(&mut self.ids), self.structure.root);
            let totals = Fact::Totals { usage, cost_micro_usd: None };
            self.observe(span, Self::claim(&ids, root, worker), span.end, totals);
            self.ids = ids;
        }
    }

    fn report_call(&mut self, number: SpanIndex) {
        let span = self.structure.spans[number];
        let Some(id) = self.calls.get(&number).cloned() else { return };
        let (ids, root) = (std::mem::take(&mut self.ids), self.structure.root);
        let claim = Self::claim(&ids, root, self.structure.workers[number]);
        let name = span.name.as_deref().unwrap_or_default();
        let begin = CallBegin {
            id: Some(&id),
            name,
            class: span.class,
            input: span.input.as_deref().map(made_json),
            digest: span.digest,
            detail: span.detail.as_deref().map(Into::into),
            has_local_id: true,
            ..CallBegin::default()
        };
        self.observe(span, claim, span.start, Fact::CallBegin(begin));
        let outcome = match span.status {
            SpanStatus::Ok => Outcome::Ok,
            SpanStatus::Error => Outcome::Error,
            SpanStatus::Canceled => Outcome::Interrupted,
            SpanStatus::Denied => Outcome::Denied,
        };
        let end = CallEnd {
            id: Some(&id),
            name: Some(name),
            digest: span.digest,
            outcome,
            result: span.result.as_deref().map(made_json),
            duration_ms: span.end.zip(span.start).map(|(end, start)| end - start),
            ..CallEnd::default()
        };
        self.observe(span, claim, span.end, Fact::CallEnd(end));
        self.ids = ids;
    }

    fn report_response(&mut self, number: SpanIndex) {
        let (span, worker) = (self.structure.spans[number], self.structure.workers[number]);
        let (ids, root) = (std::mem::take(&mut self.ids), self.structure.root);
        let claim = Self::claim(&ids, root, worker);
        self.observe(span, claim, span.start, Fact::Activity);
        let hex = span.hex_id();
        // The program's id may be that of the request alone, as its own files know it.
        let response = Response {
            request_id: Some(span.own_id.as_deref().unwrap_or(&hex)),
            model: span.model.as_deref(),
            usage: span.usage,
            is_unpriced: span.is_unpriced,
            has_stop_reason: true,
            ends_turn: span.ends_turn,
            has_call: span.has_call,
            // How an agent ended is said by its own span, which comes after it. Some models say of each response that it
            // is the last.
            accounts_only: worker != Worker::Nobody,
            ..Response::default()
        };
        self.observe(span, claim, span.end, Fact::Response(response));
        for (is_thought, words) in &span.answers {
            let text = json(words);
            let text = made_json(&text);
            let fact = match is_thought {
                true => Fact::Thought { message_id: None, text: Some(text) },
                false => Fact::Message { message_id: None, text },
            };
            self.observe(span, claim, span.end, fact);
        }
        self.ids = ids;
    }

    /// Returns the span that says most about an agent: its own, that of its call, or the first below it.
    fn span_of(&self, worker: Worker) -> Option<&'r TraceSpan> {
        let structure = self.structure;
        match worker {
            Worker::Agent(number) | Worker::InCall(number) => Some(structure.spans[number]),
            Worker::Pending(_) => {
                let first = structure.workers.iter().position(|known| *known == worker)?;
                Some(structure.spans[first])
            }
            Worker::Unknown | Worker::Nobody => None,
        }
    }
}

fn agent_status(status: SpanStatus) -> AgentStatus {
    match status {
        SpanStatus::Ok => AgentStatus::Completed,
        SpanStatus::Error | SpanStatus::Denied => AgentStatus::Failed,
        SpanStatus::Canceled => AgentStatus::Stopped,
    }
}

/// Returns a text as a JSON string.
fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
