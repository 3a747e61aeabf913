//! `otel.genai`: spans of any program that follows a convention for agents, our own export included.
//!
//! A span of another program is one statement ([`Fact::Span`]): what it is part of follows from all spans of its trace,
//! which a session keeps ([`super::Trace`]). [`conventions`] reads what it says.
//!
//! A span of our own export names its agent, and what it says is final: an agent is an `invoke_agent` span, one for each
//! time that it is at work. Its parent is the nearest `invoke_agent` above it, and the `execute_tool` between is the call
//! that started it. A span may be reported before those above it ([`SpanTable`]): until then the root owns it, with basis
//! `unknown`.
//!
//! Prompts and answers are those of `gen_ai.input.messages` and `gen_ai.output.messages`. A request repeats the whole
//! conversation: the prompt of an agent is the user's last message in its own span, else in the first response below it.

use std::{collections::HashMap, sync::Arc};

use serde::{Deserialize, de};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallBegin, CallEnd, Claim, EndEvidence, Fact, Flag, MicroUsd, Outcome,
    Parent, PromptKind, Response, Spawn, SpawnBatch, ToolClass, Usage, stable_hash,
};

use super::{
    OtelLines, OtelSource, Service,
    conventions::{self, Registry},
    lines::RecordDecoder,
    made_json,
    record::{Attributes, Record, Scope, Span},
    spans::SpanTable,
};
use crate::{Dialect, DialectSpec, Emitter, Hint, LinesDecoder, ToolArguments, digest::digest};

/// Spans of any program that follows the GenAI conventions.
pub const OTEL_GENAI: Dialect = Dialect::new(&DialectSpec {
    session_of: |lines| super::session_of_lines(&GENAI_SPANS, lines),
    line_session: |line| super::session_of_line(&GENAI_SPANS, line),
    ..DialectSpec::new("otel.genai", |hint| {
        let lines = OtelLines::new(GenAi::new(hint), (hint.otel_sources)(), hint.session.clone());
        Box::new(LinesDecoder::new(hint.source, lines))
    })
});

/// Source of the spans of the GenAI conventions that this program exports, recognized by their scope.
pub static GENAI_SPANS: OtelSource =
    OtelSource { dialect: OTEL_GENAI, has_scope: |name| name == OWN_SCOPE, has_service: |_| false, session };

/// Beginning of the line id of a span, which no other source has.
pub const SPAN_LINE: &str = "span/";

/// Scope of our own export.
const OWN_SCOPE: &str = "subscope";
/// Type of agents without one in our own export.
const UNKNOWN_TYPE: &str = "unknown";
/// Longer texts of spans that wait for those above them are dropped.
const MAX_WAITING_TEXT: usize = 1_024;

fn session(record: &Record) -> Option<&str> {
    let Record::Span(Span { attributes, .. }) = record else { return None };
    attributes.text("gen_ai.conversation.id").or_else(|| attributes.text("session.id"))
}

/// Whether a program other than subscope reports a span, so that its session and agents are those of its trace.
pub(crate) fn is_foreign(scope: &Scope) -> bool {
    scope.name != OWN_SCOPE
}

/// Most prompts that are kept until the span of their agent comes: it follows in the same request or a later one.
const MAX_PROMPTS: usize = 1_000;

/// What a span is, for those below it.
#[derive(Clone, Debug)]
enum SpanNode {
    /// The root at work.
    Root,
    /// An agent at work.
    Agent(String),
    /// A tool call, and the span above it.
    Call(CallSpan, Option<u64>),
    /// Anything else, with the span above it.
    Other(Option<u64>),
}

/// A tool call, as its begin names it.
#[derive(Clone, Debug)]
struct CallSpan {
    /// `None` for a call of our own export that has none.
    id: Option<String>,
    name: String,
    digest: u64,
}

impl CallSpan {
    fn of(span: &Span) -> Self {
        let hex = span.hex_id();
        let id = span.attributes.text("gen_ai.tool.call.id").map(str::to_owned);
        let name = span.attributes.text("gen_ai.tool.name").unwrap_or(&span.name);
        let input = span.attributes.text("gen_ai.tool.call.arguments").unwrap_or(&hex);
        let digest = digest(name, input);
        Self { name: name.to_owned(), digest, id }
    }
}

/// Where a span is.
enum SpanPlace {
    /// Below the root, or below nothing.
    BelowRoot,
    /// Below this agent.
    Below(String),
    /// Below this span, which was not reported yet.
    Waits(u64),
}

/// Decodes the spans of one source.
struct GenAi {
    tool_class: fn(&str) -> ToolClass,
    harness_of_service: fn(&str) -> Option<Service>,
    spans: SpanTable<SpanNode, (Scope, Box<Span>)>,
    /// Prompts in responses, by the span of their agent.
    prompts: HashMap<u64, String>,
}

impl GenAi {
    fn new(hint: &Hint) -> Self {
        Self {
            tool_class: hint.tool_class,
            harness_of_service: hint.harness_of_service,
            spans: SpanTable::default(),
            prompts: HashMap::new(),
        }
    }

    /// Reports a span of another program. One without a trace is of that of its session.
    fn trace_span(&self, scope: &Scope, span: &Span, out: &mut Emitter<'_, '_>) {
        let registry = Registry { tool_class: self.tool_class, harness_of_service: self.harness_of_service };
        let mut read = conventions::trace_span(registry, scope, span);
        if read.trace == 0 {
            read.trace = read.session.as_deref().map_or(0, |session| u128::from(stable_hash(session)));
        }
        if read.trace == 0 || read.id == 0 {
            return;
        }
        read.place = out.head.place;
        out.head.time = span.end;
        let line = format!("{SPAN_LINE}{}", span.hex_id());
        out.emit_as(Some(&line), Fact::Span(Arc::new(read)));
    }

    /// Keeps the prompt in a response for the span of its agent.
    fn keep_prompt(&mut self, span: &Span) {
        let messages = || span.attributes.text("gen_ai.input.messages");
        if let Some(agent) = span.parent.filter(|agent| !self.prompts.contains_key(agent))
            && matches!(Operation::of(span), Operation::Response)
            && let Some(prompt) = messages().and_then(user_text)
        {
            if self.prompts.len() >= MAX_PROMPTS {
                self.prompts.clear();
            }
            self.prompts.insert(agent, prompt);
        }
    }

    /// Returns the prompt of an agent's span as JSON.
    fn prompt(&self, span: &Span) -> Option<String> {
        let own = span.attributes.text("gen_ai.input.messages").and_then(user_text);
        let prompt = own.or_else(|| self.prompts.get(&span.id).cloned())?;
        Some(serde_json::Value::from(prompt).to_string())
    }

    fn node(span: &Span) -> SpanNode {
        match Operation::of(span) {
            Operation::Agent => match agent_id(span) {
                Some(id) => SpanNode::Agent(id),
                None => SpanNode::Root,
            },
            Operation::Tool => SpanNode::Call(CallSpan::of(span), span.parent),
            Operation::Response | Operation::Other => SpanNode::Other(span.parent),
        }
    }

    /// Returns the nearest agent above a span, and the nearest call on the way to it.
    fn place(&self, parent: Option<u64>) -> (SpanPlace, Option<&CallSpan>) {
        let (mut next, mut call) = (parent, None);
        // Spans that contradict each other may be above themselves.
        for _ in 0..1_000 {
            let Some(span) = next else { return (SpanPlace::BelowRoot, call) };
            match self.spans.get(span) {
                Some(SpanNode::Root) => return (SpanPlace::BelowRoot, call),
                Some(SpanNode::Agent(id)) => return (SpanPlace::Below(id.clone()), call),
                Some(SpanNode::Call(found, above)) => {
                    call = call.or(Some(found).filter(|found| found.id.is_some()));
                    next = *above;
                }
                Some(SpanNode::Other(above)) => next = *above,
                None => return (SpanPlace::Waits(span), call),
            }
        }
        (SpanPlace::BelowRoot, call)
    }

    fn span(&mut self, scope: &Scope, span: &Span, out: &mut Emitter<'_, '_>) {
        let operation = Operation::of(span);
        if matches!(operation, Operation::Other) {
            return;
        }
        let (place, call) = self.place(span.parent);
        let call = call.cloned();
        if let SpanPlace::Waits(above) = place {
            let mut waiting = span.clone();
            waiting.attributes.drop_long_texts(MAX_WAITING_TEXT);
            self.spans.wait(above, (scope.clone(), Box::new(waiting)));
        }
        let basis = span.attributes.text("subscope.basis").and_then(parse_word);
        let own = own_agent(span);
        let claim = match (&own, &place) {
            (Some(id), _) => claim(id, basis.unwrap_or(Basis::Wire)),
            (None, SpanPlace::Below(id)) => Claim::Agent(id, Basis::Wire),
            (None, SpanPlace::BelowRoot) => Claim::Root(Basis::Wire),
            (None, SpanPlace::Waits(_)) => Claim::Silent,
        };
        let line = format!("{SPAN_LINE}{}", span.hex_id());
        let mut out = out.with(claim, span.end, Some(&line));
        match operation {
            Operation::Agent => self.agent(scope, span, &place, call.as_ref(), &mut out),
            Operation::Tool => self.call(span, &mut out),
            Operation::Response => {
                let service = (self.harness_of_service)(&scope.service);
                response(span, service.is_some_and(|known| known.is_unpriced), &mut out);
                answer(span, &mut out);
            }
            Operation::Other => {}
        }
    }

    fn agent(
        &self,
        scope: &Scope,
        span: &Span,
        place: &SpanPlace,
        call: Option<&CallSpan>,
        out: &mut Emitter<'_, '_>,
    ) {
        let attributes = &span.attributes;
        let status = status(span);
        let model = attributes.text("gen_ai.request.model");
        let version = scope.version.as_deref();
        if let Some(Service { harness: name, .. }) = (self.harness_of_service)(&scope.service) {
            out.emit_made(Fact::Harness { name });
        }
        let Some(id) = agent_id(span) else {
            let root = Claim::Root(Basis::Wire);
            let session = Fact::Session { version, cwd: None, model, tells_starts: false };
            out.emit_of(root, span.start, session);
            let text = self.prompt(span).unwrap_or_else(|| "\"\"".to_owned());
            let name = attributes.text("gen_ai.agent.name");
            // The root of a harness has its name.
            if let Some(name) = name.filter(|name| *name != UNKNOWN_TYPE && *name != scope.service) {
                let kind = Spawn { agent_type: Some(name.into()), ..Spawn::default() };
                out.emit_of(root, span.start, Fact::Spawn(kind));
            }
            let prompt_id = Some(span.hex_id());
            let prompt = Fact::Prompt {
                prompt_id: prompt_id.as_deref(),
                text: made_json(&text),
                what: PromptKind::Asked,
            };
            out.emit_of(root, span.start, prompt);
            if let Some(status) = status.filter(|status| *status != AgentStatus::Lost) {
                let evidence = EndEvidence::OtelRecord;
                out.emit_of(root, span.end, Fact::TurnEnd { status, evidence, counts_run: true, text: None });
            }
            out.emit_of(root, span.start, Fact::Activity);
            out.emit_of(root, span.end, Fact::Activity);
            return;
        };
        let this = Claim::Agent(&id, Basis::Wire);
        let session = Fact::Session { version, cwd: None, model: None, tells_starts: false };
        out.emit_of(this, span.start, session);
        let has_flag = |flag: &str| attributes.texts("subscope.flags").any(|known| known == flag);
        if has_flag("warmup") {
            out.emit_of(this, span.start, Fact::Warmup);
        }
        let is_orphan = has_flag("orphan") || has_flag("warmup");
        let spawned_by = attributes.text("subscope.spawned_by");
        let parent = match place {
            SpanPlace::Below(parent) if *parent != id => Some(Parent::Agent(parent)),
            SpanPlace::BelowRoot if !is_orphan => Some(Parent::Root),
            SpanPlace::Below(_) | SpanPlace::BelowRoot | SpanPlace::Waits(_) => None,
        };
        let prompt = self.prompt(span);
        let agent_type = attributes.text("gen_ai.agent.name").filter(|name| *name != UNKNOWN_TYPE);
        out.emit_of(
            this,
            span.start,
            Fact::Spawn(Spawn {
                agent: Some(&id),
                call: call.filter(|_| !is_orphan).and_then(|call| call.id.as_deref()),
                parent,
                agent_type: agent_type.map(Into::into),
                description: attributes.text("gen_ai.agent.description").map(Into::into),
                prompt: prompt.as_deref().map(made_json),
                model: model.map(Into::into),
                starts: true,
                batch: spawned_by.map(SpawnBatch::Call),
                is_handed_over: has_flag(Flag::Handoff.as_str()),
                is_inferred: has_flag(Flag::Inferred.as_str()),
                ..Spawn::default()
            }),
        );
        out.emit_of(this, span.start, Fact::Activity);
        out.emit_of(this, span.end, Fact::Activity);
        if let Some(status) = status.filter(|status| *status != AgentStatus::Lost) {
            // Our own export has the status that all evidence gave.
            let evidence = EndEvidence::Notification;
            out.emit_of(
                this,
                span.end,
                Fact::AgentEnd(AgentEnd {
                    agent: Some(&id),
                    status,
                    evidence,
                    time: span.end,
                    ..AgentEnd::default()
                }),
            );
        }
    }

    fn call(&self, span: &Span, out: &mut Emitter<'_, '_>) {
        let attributes = &span.attributes;
        let CallSpan { id, name, digest } = CallSpan::of(span);
        let (id, name) = (id.as_deref(), name.as_str());
        let input = attributes.text("gen_ai.tool.call.arguments");
        out.emit_of(
            out.head.claim,
            span.start,
            Fact::CallBegin(CallBegin {
                id,
                name,
                class: (self.tool_class)(name),
                input: input.map(made_json),
                digest,
                detail: input.and_then(|input| ToolArguments::parse(input).detail()),
                ..CallBegin::default()
            }),
        );
        let outcome = match attributes.text("subscope.status") {
            Some("open") => return,
            Some("denied") => Outcome::Denied,
            Some("error") => Outcome::Error,
            Some(_) => Outcome::Ok,
            None if span.is_error => Outcome::Error,
            None => Outcome::Ok,
        };
        let result = attributes.text("gen_ai.tool.call.result");
        out.emit_made(Fact::CallEnd(CallEnd {
            id,
            name: Some(name),
            digest,
            outcome,
            result: result.map(made_json),
            duration_ms: span.end.zip(span.start).map(|(end, start)| end - start),
            ..CallEnd::default()
        }));
    }
}

fn response(span: &Span, is_unpriced: bool, out: &mut Emitter<'_, '_>) {
    let attributes = &span.attributes;
    let id = attributes.text("gen_ai.response.id");
    let usage = usage(attributes);
    out.emit_of(out.head.claim, span.start, Fact::Activity);
    if id.is_none() {
        // The total of an agent of which no single response is known.
        let cost =
            attributes.number("subscope.cost_micro_usd").and_then(|cost| MicroUsd::try_from(cost).ok());
        if let Some(usage) = usage {
            out.emit_made(Fact::Totals { usage, cost_micro_usd: cost });
        }
        return;
    }
    let finished: Vec<&str> = attributes.texts("gen_ai.response.finish_reasons").collect();
    let has = |reasons: &[&str]| finished.iter().any(|reason| reasons.contains(reason));
    let model = attributes.text("gen_ai.response.model").or(attributes.text("gen_ai.request.model"));
    out.emit_made(Fact::Response(Response {
        message_id: id.unwrap_or_default(),
        model,
        usage,
        is_unpriced,
        has_stop_reason: true,
        ends_turn: has(&["stop", "end_turn"]),
        has_call: has(&["tool_call", "tool_calls", "tool_use"]),
        accounts_only: true,
        ..Response::default()
    }));
}

/// Reports the texts and thoughts of a response.
fn answer(span: &Span, out: &mut Emitter<'_, '_>) {
    let messages = span.attributes.text("gen_ai.output.messages");
    let messages: Vec<ChatMessage> =
        messages.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
    let message_id = span.attributes.text("gen_ai.response.id");
    for part in
        messages.iter().filter(|message| message.role == "assistant").flat_map(|message| &message.parts)
    {
        let Some(words) = part.content.as_ref().filter(|words| words.is_string()) else { continue };
        let json = words.to_string();
        let text = made_json(&json);
        match part.r#type.as_str() {
            "text" => out.emit_made(Fact::Message { message_id, text }),
            "reasoning" => out.emit_made(Fact::Thought { message_id, text: Some(text) }),
            _ => {}
        }
    }
}

/// Returns the tokens of a response: input without what was read from a cache and written to it.
fn usage(attributes: &Attributes) -> Option<Usage> {
    let of = |name: &str| attributes.number(&format!("gen_ai.usage.{name}"));
    let (input, output) = (of("input_tokens"), of("output_tokens"));
    let read = of("cache_read.input_tokens").unwrap_or(0);
    let write = of("cache_write.input_tokens").or(of("cache_creation.input_tokens")).unwrap_or(0);
    (input.is_some() || output.is_some()).then(|| {
        let input = input.unwrap_or(0).saturating_sub(read).saturating_sub(write);
        let floor = attributes.flag("subscope.usage.floor") == Some(true);
        Usage { floor, ..Usage::new(input, output.unwrap_or(0), read, write) }
    })
}

enum Operation {
    Agent,
    Tool,
    Response,
    Other,
}

impl Operation {
    fn of(span: &Span) -> Self {
        match span.attributes.text("gen_ai.operation.name") {
            Some("invoke_agent") => Self::Agent,
            Some("execute_tool") => Self::Tool,
            Some("chat" | "text_completion" | "generate_content") => Self::Response,
            _ => Self::Other,
        }
    }
}

/// Returns the agent that a span of our own export names.
fn own_agent(span: &Span) -> Option<String> {
    span.attributes.text("subscope.agent.id").map(str::to_owned)
}

fn claim(id: &str, basis: Basis) -> Claim<'_> {
    if id == ROOT { Claim::Root(basis) } else { Claim::Agent(id, basis) }
}

/// Name of the root in our own export.
const ROOT: &str = "root";

/// Returns the id of the agent of an `invoke_agent` span; `None` for the root.
fn agent_id(span: &Span) -> Option<String> {
    own_agent(span).filter(|id| id != ROOT)
}

/// Parses a word of one of our own enumerations.
fn parse_word<'w, T: Deserialize<'w>>(word: &'w str) -> Option<T> {
    T::deserialize(de::value::BorrowedStrDeserializer::<de::value::Error>::new(word)).ok()
}

/// Returns how an agent ended.
fn status(span: &Span) -> Option<AgentStatus> {
    parse_word(span.attributes.text("subscope.status")?)
}

/// A message of a conversation (semantic conventions, `gen_ai.input.messages`).
#[derive(Default, Deserialize)]
#[serde(default)]
struct ChatMessage {
    role: String,
    parts: Vec<MessagePart>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MessagePart {
    r#type: String,
    content: Option<serde_json::Value>,
}

/// Returns the last text of the user in the messages of a request.
fn user_text(json: &str) -> Option<String> {
    let messages: Vec<ChatMessage> = serde_json::from_str(json).ok()?;
    let last = messages.iter().rev().find(|message| message.role == "user")?;
    last.parts.iter().find_map(|part| Some(part.content.as_ref()?.as_str()?.to_owned()))
}

impl RecordDecoder for GenAi {
    fn source(&self) -> &'static OtelSource {
        &GENAI_SPANS
    }

    fn is_placed_by_trace(&self, scope: &Scope, record: &Record) -> bool {
        matches!(record, Record::Span(_)) && is_foreign(scope)
    }

    fn prepare(&mut self, scope: &Scope, record: &Record) {
        if let Record::Span(span) = record
            && !is_foreign(scope)
        {
            self.spans.add(span.id, Self::node(span));
            self.keep_prompt(span);
        }
    }

    fn decode(&mut self, scope: &Scope, record: &Record, out: &mut Emitter<'_, '_>) {
        let Record::Span(span) = record else { return };
        if is_foreign(scope) {
            return self.trace_span(scope, span, out);
        }
        self.span(scope, span, out);
        // Decode records that waited for this span, and then for its parents.
        for (scope, waiting) in self.spans.take_waiting(span.id) {
            self.span(&scope, &waiting, out);
        }
    }
}
