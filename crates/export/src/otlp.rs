//! OpenTelemetry traces of a session: spans by the GenAI semantic conventions (v0.1.0, and names of 1.41 that backends
//! still read).
//!
//! Flow: [`units`] makes the tree of units, one for each `invoke_agent` span; each unit has its calls (`execute_tool`)
//! and responses (`chat`) below it. One trace for each run of the root.
//!
//! Ids depend on identities only: a session that is exported again, or has grown since, has the same ids for the same
//! spans. OTLP has no update, and backends keep the first span of an id, so only what has ended is exported.
//!
//! Pitfall: tokens are on chat spans only, because backends sum every span that has them.

mod content;
mod lines;
mod units;

use std::collections::{HashMap, HashSet};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse},
    common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue, any_value::Value},
    resource::v1::Resource,
    trace::v1::{ResourceSpans, ScopeSpans, Span, Status, span::SpanKind, status::StatusCode},
};
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use subscope_model::{
    Agent, AgentStatus, Flag, Millis, PriceTable, ResponseDetail, SessionDetail, ToolCall, ToolStatus, Tree,
};

pub use content::Contents;
use content::{Messages, masked};
use units::{Figures, Unit, Units};

use crate::{execution::agent_type, redact::Mask};

/// Most bytes of a request in protobuf: what receivers take by default (gRPC, 4 MiB).
pub const MAX_REQUEST_BYTES: usize = 4 << 20;

/// Most bytes of a request that becomes a line, in protobuf; as JSON it has about twice as many. Several are in memory at
/// once, and a span there is several times larger.
pub const MAX_LINE_BYTES: usize = 512 << 10;

/// Tag and length of a span in a request, and longer lengths of what it is in.
const SPAN_OVERHEAD_BYTES: usize = 16;

/// Attributes of most spans at most.
const MAX_ATTRIBUTES: usize = 24;

/// A session to be exported as spans.
pub struct SpanSource<'s> {
    /// Its rows.
    pub tree: &'s Tree,
    /// Its runs and responses.
    pub detail: &'s SessionDetail,
    /// Returns OpenTelemetry's name of the provider of a model.
    pub provider: &'s (dyn Fn(Option<&str>) -> Option<&'static str> + Sync),
    /// Prompts, answers, arguments and results; `None` to leave them out.
    pub contents: Option<Contents<'s>>,
    /// Whether secrets in texts are masked.
    pub mask: Mask,
}

/// Returns a request in protobuf.
pub fn encode_otlp(request: &ExportTraceServiceRequest) -> Vec<u8> {
    request.encode_to_vec()
}

/// Returns the spans of a request in protobuf in two requests, each with the number of its spans; `None` if it has only one
/// span.
pub fn halve_otlp(request: &[u8]) -> Option<[(Vec<u8>, usize); 2]> {
    let mut first = ExportTraceServiceRequest::decode(request).ok()?;
    let mut second = first.clone();
    let count = span_ids(&first).len();
    let keep = |request: &mut ExportTraceServiceRequest, is_kept: &dyn Fn(usize) -> bool| {
        let mut number = 0;
        for scope in request.resource_spans.iter_mut().flat_map(|resource| &mut resource.scope_spans) {
            scope.spans.retain(|_| {
                number += 1;
                is_kept(number - 1)
            });
        }
    };
    keep(&mut first, &|number| number < count / 2);
    keep(&mut second, &|number| number >= count / 2);
    (count > 1).then(|| [(encode_otlp(&first), count / 2), (encode_otlp(&second), count - count / 2)])
}

/// Returns how many spans a receiver rejected, and why, from its answer in protobuf (OTLP, "Partial Success"); `None` if
/// it took all, or its answer is none of OTLP.
pub fn rejected_spans(answer: &[u8]) -> Option<(i64, String)> {
    let partial = ExportTraceServiceResponse::decode(answer).ok()?.partial_success?;
    let is_all = partial.rejected_spans == 0 && partial.error_message.is_empty();
    (!is_all).then_some((partial.rejected_spans, partial.error_message))
}

/// Id of a span, unique in all sessions.
pub type SpanId = [u8; 8];

/// Returns the ids of the spans in a request.
pub fn span_ids(request: &ExportTraceServiceRequest) -> Vec<SpanId> {
    let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
    scopes
        .flat_map(|scope| scope.spans.iter().filter_map(|span| span.span_id.as_slice().try_into().ok()))
        .collect()
}

/// Attributes of a span, in order.
#[derive(Default)]
struct Attributes {
    all: Vec<KeyValue>,
}

impl Attributes {
    fn add(&mut self, key: &str, value: Option<Value>) {
        let value = value.map(|value| AnyValue { value: Some(value) });
        self.all.extend(value.map(|value| KeyValue {
            key: key.to_owned(),
            value: Some(value),
            ..KeyValue::default()
        }));
    }

    fn text(&mut self, key: &str, value: Option<impl Into<String>>) {
        self.add(key, value.map(|value| Value::StringValue(value.into())));
    }

    fn int(&mut self, key: &str, value: Option<impl TryInto<i64>>) {
        self.add(key, value.map(|value| Value::IntValue(value.try_into().unwrap_or(i64::MAX))));
    }

    fn texts<'v>(&mut self, key: &str, values: impl IntoIterator<Item = &'v str>) {
        let value = |text: &str| AnyValue { value: Some(Value::StringValue(text.to_owned())) };
        let values: Vec<AnyValue> = values.into_iter().map(value).collect();
        self.add(key, (!values.is_empty()).then_some(Value::ArrayValue(ArrayValue { values })));
    }
}

/// What a span is of: a unit, one of its responses, or one of its calls by place in the agent's row.
#[derive(Clone, Copy, Debug)]
enum Subject {
    Unit(usize),
    Response(usize, usize),
    Call(usize, usize),
}

/// Makes the spans of a session, one by one: texts are read when their span is made, so that an export may be larger than
/// memory.
pub struct SpanWriter<'s> {
    source: &'s SpanSource<'s>,
    units: Units<'s>,
    /// Responses and ended calls of each unit, the calls by place in their agent's row.
    responses: Vec<Vec<&'s ResponseDetail>>,
    calls: Vec<Vec<usize>>,
    /// Id of the trace of each run.
    traces: Vec<[u8; 16]>,
    /// Id of the `invoke_agent` span of each unit.
    invocations: Vec<SpanId>,
    /// Agents whose token total is a lower bound, although no single response is.
    shared_floors: HashSet<&'s str>,
    messages: Option<Messages<'s>>,
}

impl<'s> SpanWriter<'s> {
    /// Assigns responses and calls to units. Spans are made later.
    pub fn new(source: &'s SpanSource<'s>) -> Self {
        let messages = source.contents.as_ref().map(Messages::new);
        let agents = source.tree.agents.iter().filter(|agent| agent.usage.is_some_and(|usage| usage.floor));
        let mut shared_floors: HashSet<&str> = agents.map(|agent| agent.id.as_str()).collect();
        for response in source.detail.responses.iter().filter(|it| it.usage.is_some_and(|usage| usage.floor))
        {
            shared_floors.remove(response.agent.as_str());
        }
        let units = Units::new(source.tree, source.detail);
        let responses = responses_by_unit(source, &units);
        let calls = calls_by_unit(source.tree, &units);
        let session = &source.tree.session.id;
        // The root's runs are the first units.
        let runs = units.all.iter().take_while(|unit| unit.agent == 0);
        let traces = runs.map(|run| id(session, "trace", &run.key)).collect();
        let invocations = units.all.iter().map(|unit| id(session, "invoke_agent", &unit.key)).collect();
        Self { source, units, responses, calls, traces, invocations, shared_floors, messages }
    }

    /// Returns the spans in requests of at most so many bytes in protobuf each ([`MAX_REQUEST_BYTES`] or
    /// [`MAX_LINE_BYTES`]), none if nothing has ended. Left out are the units of running agents, and those above them.
    pub fn requests(&self, max_bytes: usize) -> impl Iterator<Item = ExportTraceServiceRequest> + '_ {
        self.requests_of(self.subjects(), max_bytes)
    }

    /// Returns the spans whose ids are not known, as [`Self::requests`] does, for a receiver.
    pub fn requests_without<'a>(
        &'a self,
        known: &'a HashSet<SpanId>,
    ) -> impl Iterator<Item = ExportTraceServiceRequest> + 'a {
        let is_new = |subject: &Subject| !known.contains(&self.span_id(*subject));
        self.requests_of(self.subjects().filter(is_new), MAX_REQUEST_BYTES)
    }

    fn requests_of<'a>(
        &'a self,
        subjects: impl Iterator<Item = Subject> + 'a,
        max_bytes: usize,
    ) -> impl Iterator<Item = ExportTraceServiceRequest> + 'a {
        let empty = self.request(Vec::new()).encoded_len();
        let mut spans = subjects.map(|subject| self.span(subject)).peekable();
        std::iter::from_fn(move || {
            let (mut request, mut bytes) = (Vec::new(), empty);
            while let Some(span) = spans.peek() {
                bytes += span.encoded_len() + SPAN_OVERHEAD_BYTES;
                if bytes > max_bytes && !request.is_empty() {
                    break;
                }
                request.extend(spans.next());
            }
            (!request.is_empty()).then(|| self.request(request))
        })
    }

    fn request(&self, spans: Vec<Span>) -> ExportTraceServiceRequest {
        let session = &self.source.tree.session;
        let mut resource = Attributes::default();
        resource.text("service.name", Some(session.harness.as_deref().unwrap_or("unknown_service")));
        resource.text("service.version", session.harness_version.as_deref());
        let scope = InstrumentationScope {
            name: "subscope".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let scope_spans = ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() };
        let resource_spans = ResourceSpans {
            resource: Some(Resource { attributes: resource.all, ..Resource::default() }),
            scope_spans: vec![scope_spans],
            ..ResourceSpans::default()
        };
        ExportTraceServiceRequest { resource_spans: vec![resource_spans] }
    }

    /// Returns what there is a span of: by agent in tree order, each unit before its responses and calls.
    fn subjects(&self) -> impl Iterator<Item = Subject> + '_ {
        let ended = self.units.all.iter().enumerate().filter(|(_, unit)| unit.has_ended);
        ended.flat_map(move |(unit, _)| {
            let responses = (0..self.responses[unit].len()).map(move |place| Subject::Response(unit, place));
            let calls = self.calls[unit].iter().map(move |place| Subject::Call(unit, *place));
            std::iter::once(Subject::Unit(unit)).chain(responses).chain(calls)
        })
    }

    fn span_id(&self, subject: Subject) -> SpanId {
        let agent = |unit: usize| &self.source.tree.agents[self.units.all[unit].agent];
        match subject {
            Subject::Unit(unit) => self.invocations[unit],
            Subject::Response(unit, place) => {
                self.id("chat", self.responses[unit][place].id.as_deref().unwrap_or(&agent(unit).id))
            }
            Subject::Call(unit, place) => {
                let agent = agent(unit);
                let call = &agent.tools[place];
                let key = || format!("{}/{}/{place}", agent.id, call.name);
                self.id("execute_tool", &call.id.as_ref().map_or_else(key, ToString::to_string))
            }
        }
    }

    /// Makes a span: its contents are read, masked and cut.
    fn span(&self, subject: Subject) -> Span {
        let id = self.span_id(subject);
        match subject {
            Subject::Unit(unit) => self.invoke_agent(unit, id),
            Subject::Response(unit, place) => self.chat(unit, place, id),
            Subject::Call(unit, place) => self.execute_tool(unit, place, id),
        }
    }

    /// Returns about how many bytes are read for a span.
    fn bytes_to_read(&self, subject: Subject) -> usize {
        let Some(messages) = &self.messages else { return 0 };
        match subject {
            Subject::Unit(_) => 0,
            Subject::Response(unit, place) => {
                self.responses[unit][place].id.as_deref().map_or(0, |id| messages.len(id))
            }
            Subject::Call(unit, place) => {
                let call = &self.source.tree.agents[self.units.all[unit].agent].tools[place];
                [&call.input, &call.result].into_iter().flatten().map(|payload| payload.bytes()).sum()
            }
        }
    }

    /// Returns a span of a unit's trace with the attributes that all spans have.
    fn begin(&self, unit: &Unit<'_>, kind: &str, id: SpanId, model: Option<&str>) -> (Span, Attributes) {
        let Tree { session, agents, .. } = self.source.tree;
        let agent = &agents[unit.agent];
        let mut attributes = Attributes { all: Vec::with_capacity(MAX_ATTRIBUTES) };
        attributes.text("gen_ai.operation.name", Some(kind));
        attributes.text("gen_ai.provider.name", (self.source.provider)(model.or(agent.model.as_deref())));
        attributes.text("gen_ai.conversation.id", Some(session.id.as_str()));
        attributes.text("session.id", Some(session.id.as_str()));
        attributes.text("gen_ai.agent.name", Some(self.agent_name(agent)));
        attributes.text("subscope.agent.id", Some(agent.id.as_str()));
        attributes.text("gen_ai.agent.id", Some(agent.id.as_str()));
        attributes.int("subscope.depth", Some(agent.depth));
        attributes.int("subscope.run", Some(unit.run + 1));
        let span = Span {
            trace_id: self.traces.get(unit.run).map(|id| id.to_vec()).unwrap_or_default(),
            span_id: id.to_vec(),
            kind: SpanKind::Internal.into(),
            status: Some(Status::default()),
            ..Span::default()
        };
        (span, attributes)
    }

    /// Returns the type of an agent; the harness for the root.
    fn agent_name(&self, agent: &'s Agent) -> &'s str {
        let harness = self.source.tree.session.harness.as_deref();
        harness.filter(|_| agent.id.is_root()).unwrap_or_else(|| agent_type(agent))
    }

    fn id(&self, kind: &str, key: &str) -> SpanId {
        id(&self.source.tree.session.id, kind, key)
    }

    fn invoke_agent(&self, number: usize, id: SpanId) -> Span {
        let unit = &self.units.all[number];
        let agent = &self.source.tree.agents[unit.agent];
        let (span, mut attributes) = self.begin(unit, "invoke_agent", id, None);
        let description = agent.description.as_deref().map(|text| masked(text, self.source.mask));
        attributes.text("gen_ai.agent.description", description);
        attributes.text("gen_ai.request.model", agent.model.as_deref());
        // OpenInference's graph of agents, which Phoenix and Arize AX draw; a node without a parent is the root.
        attributes.text("graph.node.id", Some(agent.id.as_str()));
        attributes.text("graph.node.name", Some(self.agent_name(agent)));
        attributes.text("graph.node.parent_id", agent.parent_id.as_ref().map(|parent| parent.as_str()));
        attributes.text("subscope.status", Some(unit.status.as_str()));
        // Also where the call's own span is not exported, or is of several agents.
        attributes.text("subscope.spawned_by", agent.spawned_by.as_deref());
        if unit.is_last {
            attributes.texts("subscope.flags", agent.flags.iter().copied().map(Flag::as_str));
        }
        let Figures { usage, .. } = unit.subtree;
        attributes.int("subscope.subtree.total_tokens", usage.map(|usage| usage.total_tokens));
        let own = &unit.own;
        let own_cost =
            (own.usage.is_some() && !own.has_unknown_cost).then(|| PriceTable::micro_usd(own.pico_usd));
        attributes.int("subscope.cost_micro_usd", own_cost);
        let subtree = &unit.subtree;
        let is_known = subtree.usage.is_some() && (subtree.pico_usd > 0 || !subtree.has_unknown_cost);
        let cost = is_known.then(|| PriceTable::micro_usd(subtree.pico_usd));
        attributes.int("subscope.subtree.cost_micro_usd", cost);
        let error = match unit.status {
            AgentStatus::Completed | AgentStatus::Pending | AgentStatus::Running => None,
            AgentStatus::Failed => Some(api_error(agent.error.as_deref().unwrap_or_default())),
            AgentStatus::Stopped => Some("cancelled"),
            AgentStatus::Lost => Some(OTHER),
        };
        let parent = match (unit.trigger, unit.parent) {
            (Some(call), _) => Some(self.id("execute_tool", call)),
            (None, Some(above)) => Some(self.invocations[above]),
            (None, None) => None,
        };
        let name = format!("invoke_agent {}", self.agent_name(agent));
        finish(span, name, parent, unit.span, attributes, error)
    }

    fn execute_tool(&self, number: usize, place: usize, id: SpanId) -> Span {
        let unit = &self.units.all[number];
        let agent = &self.source.tree.agents[unit.agent];
        let call = &agent.tools[place];
        let (span, mut attributes) = self.begin(unit, "execute_tool", id, None);
        attributes.text("gen_ai.tool.name", Some(&*call.name));
        attributes.text("gen_ai.tool.call.id", call.id.as_deref());
        attributes.text("gen_ai.tool.type", Some("function"));
        attributes.text("subscope.basis", Some(call.basis.as_str()));
        attributes.text("subscope.status", Some(call.status.as_str()));
        if let Some(contents) = &self.source.contents {
            let read = |payload| contents.payload(payload, self.source.mask);
            attributes.text("gen_ai.tool.call.arguments", read(call.input.as_deref()));
            attributes.text("gen_ai.tool.call.result", read(call.result.as_deref()));
        }
        let start = call.started_at_ms.unwrap_or(unit.span[0]);
        let end = match (call.ended_at_ms, call.status) {
            (Some(end), _) => end,
            (None, ToolStatus::Open) => unit.span[1],
            (None, ToolStatus::Ok | ToolStatus::Error | ToolStatus::Denied) => start,
        };
        let error = match call.status {
            ToolStatus::Ok => None,
            ToolStatus::Denied => Some("denied"),
            ToolStatus::Open if unit.status == AgentStatus::Stopped => Some("cancelled"),
            ToolStatus::Error | ToolStatus::Open => Some(OTHER),
        };
        let parent = Some(self.invocations[number]);
        finish(span, format!("execute_tool {}", call.name), parent, [start, end], attributes, error)
    }

    fn chat(&self, number: usize, place: usize, id: SpanId) -> Span {
        let response = self.responses[number][place];
        let unit = &self.units.all[number];
        let agent = &self.source.tree.agents[unit.agent];
        let model = response.model.as_deref().or(agent.model.as_deref());
        let (span, mut attributes) = self.begin(unit, "chat", id, model);
        attributes.text("gen_ai.request.model", model);
        attributes.text("gen_ai.response.model", model);
        attributes.text("gen_ai.response.id", response.id.as_deref());
        let finished = response.finish.map(|reason| reason.as_str());
        attributes.texts("gen_ai.response.finish_reasons", finished);
        if let Some(usage) = response.usage {
            let [fresh, output, cache_read, cache_write] = usage.kinds();
            let input = fresh.saturating_add(cache_read).saturating_add(cache_write);
            attributes.int("gen_ai.usage.input_tokens", Some(input));
            attributes.int("gen_ai.usage.output_tokens", Some(output));
            attributes.int("gen_ai.usage.cache_read.input_tokens", Some(cache_read));
            attributes.int("gen_ai.usage.cache_write.input_tokens", Some(cache_write));
            attributes.int("gen_ai.usage.cache_creation.input_tokens", Some(cache_write));
            let is_floor = usage.floor || self.shared_floors.contains(agent.id.as_str());
            attributes.add("subscope.usage.floor", is_floor.then_some(Value::BoolValue(true)));
        }
        if let Some(messages) = &self.messages {
            let prompt = match unit.agent {
                _ if place > 0 => None,
                0 => messages.prompts(u32::try_from(unit.run + 1).unwrap_or(u32::MAX)),
                // What resumed it later is the argument of a call.
                _ if self.units.all[number - 1].agent == unit.agent => None,
                _ => agent.prompt.as_deref().map(str::to_owned),
            };
            let prompt = prompt.map(|text| content::prompt(text, self.source.mask));
            attributes.text("gen_ai.input.messages", prompt);
            let output = |id: &str| messages.output(id, finished, self.source.mask);
            attributes.text("gen_ai.output.messages", response.id.as_deref().and_then(output));
        }
        let name = model.map_or_else(|| "chat".to_owned(), |model| format!("chat {model}"));
        let parent = Some(self.invocations[number]);
        let times = response.times.unwrap_or(unit.span);
        finish(Span { kind: SpanKind::Client.into(), ..span }, name, parent, times, attributes, None)
    }
}

/// Returns the first `N` bytes of the hash of an identity within a session.
fn id<const N: usize>(session: &str, kind: &str, key: &str) -> [u8; N] {
    let identity = ["subscope", session, kind, key].join("\0");
    let mut id = [0; N];
    id.copy_from_slice(&Sha256::digest(identity.as_bytes())[..N]);
    // Zero is no id.
    if id.iter().all(|byte| *byte == 0) {
        id[N - 1] = 1;
    }
    id
}

/// Returns the responses of each unit, in order.
fn responses_by_unit<'s>(source: &SpanSource<'s>, units: &Units<'_>) -> Vec<Vec<&'s ResponseDetail>> {
    let mut by_unit = vec![Vec::new(); units.all.len()];
    let agents = source.tree.agents.iter().enumerate();
    let numbers: HashMap<&str, usize> = agents.map(|(number, agent)| (agent.id.as_str(), number)).collect();
    for response in &source.detail.responses {
        if let Some(agent) = numbers.get(response.agent.as_str()) {
            by_unit[units.of_response(*agent, response)].push(response);
        }
    }
    by_unit
}

/// Returns the ended calls of each unit, by place in their agent's row.
fn calls_by_unit(tree: &Tree, units: &Units<'_>) -> Vec<Vec<usize>> {
    let mut by_unit = vec![Vec::new(); units.all.len()];
    for (number, agent) in tree.agents.iter().enumerate() {
        // An open call of an agent at work may still end.
        let is_over = |call: &ToolCall| call.status != ToolStatus::Open || !agent.is_at_work();
        for (place, call) in agent.tools.iter().enumerate().filter(|(_, call)| is_over(call)) {
            by_unit[units.of(number, call.started_at_ms)].push(place);
        }
    }
    by_unit
}

/// `error.type` of an error that has no type of its own (semantic conventions, general attributes).
const OTHER: &str = "_OTHER";

/// Returns the type of an API error that a text names, as `overloaded_error`.
fn api_error(text: &str) -> &str {
    let words = text.split(|character: char| !character.is_ascii_lowercase() && character != '_');
    words.into_iter().find(|word| word.len() > "_error".len() && word.ends_with("_error")).unwrap_or(OTHER)
}

fn finish(
    span: Span,
    name: String,
    parent: Option<SpanId>,
    [start, end]: [Millis; 2],
    mut attributes: Attributes,
    error: Option<&str>,
) -> Span {
    attributes.text("error.type", error);
    let code = if error.is_some() { StatusCode::Error } else { StatusCode::Unset };
    let nanos = |at: Millis| u64::try_from(at).unwrap_or_default().saturating_mul(1_000_000);
    Span {
        name,
        parent_span_id: parent.map(|id| id.to_vec()).unwrap_or_default(),
        start_time_unix_nano: nanos(start),
        end_time_unix_nano: nanos(end.max(start)),
        attributes: attributes.all,
        status: Some(Status { code: code.into(), ..Status::default() }),
        ..span
    }
}

#[cfg(test)]
mod tests;
