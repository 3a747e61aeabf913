//! What spans report, by the conventions of those who write them: one table for each question, in order of precedence.
//!
//! Conventions: GenAI (`gen_ai.*`), `OpenInference` (`openinference.*`, `llm.*`), `OpenLLMetry` (`traceloop.*`), the
//! AI SDK before it followed GenAI (`ai.*`), and those of graphs of nodes (`langsmith.*`, `lc_agent_name`). A span may
//! follow several at once. Observed: fixtures `frameworks/*`.

use subscope_model::{SpanKind, SpanStatus, Text, ToolClass, TraceSpan, Usage, safe_id};

use super::{
    Service, messages,
    record::{Attributes, Scope, Span, Value},
};
use crate::{ToolArguments, digest::digest};

use SpanKind::{Agent, Call, HandOff, Link, Response, Workflow};

/// Kinds of spans: the first attribute with a known word decides.
const KINDS: &[(&str, &[(&str, SpanKind)])] = &[
    (
        OPERATION,
        &[
            ("invoke_agent", Agent),
            ("invoke_workflow", Workflow),
            ("execute_tool", Call),
            ("chat", Response),
            ("text_completion", Response),
            ("generate_content", Response),
            ("handoff", HandOff),
            // Frames and steps of agents, whatever else the span says.
            ("create_agent", Link),
            ("unknown", Link),
            ("chain", Link),
            ("agent_step", Link),
            ("execute_task", Link),
            ("execute_event_loop_cycle", Link),
            ("model_chunk", Link),
        ],
    ),
    ("openinference.span.kind", &[("AGENT", Agent), ("TOOL", Call), ("LLM", Response)]),
    ("traceloop.span.kind", &[("agent", Agent), ("tool", Call)]),
    (
        "ai.operationId",
        &[
            ("ai.generateText", Agent),
            ("ai.streamText", Agent),
            ("ai.generateObject", Agent),
            ("ai.streamObject", Agent),
            ("ai.generateText.doGenerate", Response),
            ("ai.streamText.doStream", Response),
            ("ai.generateObject.doGenerate", Response),
            ("ai.streamObject.doStream", Response),
            ("ai.toolCall", Call),
        ],
    ),
    ("langsmith.span.kind", &[("llm", Response), ("tool", Call)]),
];

const OPERATION: &str = "gen_ai.operation.name";

/// Scopes whose spans are nodes of a graph: an agent is the node that is named as the agent at work in it.
const GRAPH_SCOPES: &[&str] =
    &["openinference.instrumentation.langchain", "langsmith", "opentelemetry.instrumentation.langchain"];

/// Attributes that name a session: that of all turns before that of one agent's messages.
const SESSIONS: &[&str] = &[
    "session.id",
    "thread_id",
    "langsmith.metadata.thread_id",
    "gen_ai.conversation.id",
    "langfuse.session.id",
    "ai.telemetry.metadata.sessionId",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.thread_id",
];

/// Attributes that name an agent.
const AGENT_NAMES: &[&str] = &[
    "gen_ai.agent.name",
    "agent.name",
    "graph.node.name",
    NODE,
    "gen_ai.workflow.name",
    "ai.telemetry.functionId",
    "traceloop.entity.name",
];

/// Attributes that name the agent at work in a graph.
const WORKERS: &[&str] =
    &["langsmith.metadata.lc_agent_name", "traceloop.association.properties.lc_agent_name"];

const NODE: &str = "graph.node.id";
const NODE_ABOVE: &str = "graph.node.parent_id";

const TOOL_NAMES: &[&str] = &["gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name"];
const CALL_IDS: &[&str] = &["gen_ai.tool.call.id", "tool.id", "tool.call_id", "ai.toolCall.id"];
const RESPONSE_IDS: &[&str] = &["gen_ai.response.id", "ai.response.id"];
const ARGUMENTS: &[&str] = &[
    "gen_ai.tool.call.arguments",
    "ai.toolCall.args",
    "input.value",
    "tool.parameters",
    "traceloop.entity.input",
];
const RESULTS: &[&str] = &[
    "gen_ai.tool.call.result",
    "ai.toolCall.result",
    "output.value",
    "traceloop.entity.output",
    "gen_ai.output.messages",
    "gen_ai.completion",
    "final_result",
];
const MODELS: &[&str] =
    &["gen_ai.response.model", "ai.response.model", "gen_ai.request.model", "llm.model_name", "ai.model.id"];

/// Names under which spans name the agent that a call is for, in its arguments.
const ASKED_AGENTS: &[&str] =
    &["coworker", "member_id", "subagent_type", "agent_name", "to_agent", "agent", "recipient"];

const INPUT_TOKENS: &[&str] = &[
    "gen_ai.usage.input_tokens",
    "llm.token_count.prompt",
    "ai.usage.inputTokens",
    "gen_ai.usage.prompt_tokens",
    "ai.usage.promptTokens",
];
const OUTPUT_TOKENS: &[&str] = &[
    "gen_ai.usage.output_tokens",
    "llm.token_count.completion",
    "ai.usage.outputTokens",
    "gen_ai.usage.completion_tokens",
    "ai.usage.completionTokens",
];
const CACHE_READ_TOKENS: &[&str] = &[
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.details.cache_read_tokens",
    "llm.token_count.prompt_details.cache_read",
    "ai.usage.cachedInputTokens",
];
const CACHE_WRITE_TOKENS: &[&str] = &[
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.cache_write_input_tokens",
    "llm.token_count.prompt_details.cache_write",
];

/// Beginnings and ends of the names of spans around that of an agent or a tool.
const NAME_PREFIXES: &[&str] = &["invoke_agent ", "invoke_workflow ", "execute_tool ", "execute_task "];
const NAME_SUFFIXES: &[&str] =
    &["._execute_core", ".workflow", ".agent", ".task", ".tool", ".chat", ".arun", ".run"];

/// Scope whose calls and responses name their agent, and stand in frames of it: the span above is never the agent's.
const FRAMES_SCOPE: &str = "@mastra/otel-exporter";

/// Name that the instrumentation of OpenTelemetry for OpenAI Agents writes on every span that is no agent's.
const NO_WORKER: &str = "OpenAI Agent";

/// Name that Google ADK gives a span around calls that ran side by side: it is no call.
const MERGED_CALLS: &str = "(merged tools)";

/// Whether a span is one of an agent program.
pub(super) fn is_genai(attributes: &Attributes) -> bool {
    KINDS.iter().any(|(name, _)| attributes.text(name).is_some())
}

/// Returns the session that a span of an agent program names.
pub(super) fn session(attributes: &Attributes) -> Option<&str> {
    first(attributes, SESSIONS).filter(|_| is_genai(attributes))
}

/// What the reader of spans knows of their programs.
#[derive(Clone, Copy)]
pub(super) struct Registry {
    pub(super) tool_class: fn(&str) -> ToolClass,
    pub(super) harness_of_service: fn(&str) -> Option<Service>,
}

/// Returns what a span reports.
pub(super) fn trace_span(registry: Registry, scope: &Scope, span: &Span) -> TraceSpan {
    let attributes = &span.attributes;
    let kind = kind(attributes);
    let is_graph = GRAPH_SCOPES.contains(&scope.name.as_str());
    let metadata = Metadata::of(attributes);
    let service = (registry.harness_of_service)(&scope.service);
    let session = session(attributes).or(metadata.thread_id.as_deref().filter(|_| is_genai(attributes)));
    let mut read = TraceSpan {
        trace: span.trace,
        id: span.id,
        parent: span.parent,
        start: span.start,
        end: span.end,
        kind,
        status: status(span, kind),
        session: session.map(|id| safe_id(id).into()),
        worker: worker(attributes, &metadata).filter(|_| scope.name != FRAMES_SCOPE).map(Text::from),
        is_graph,
        version: scope.version.as_deref().map(Text::from),
        harness: service.map(|service| service.harness),
        is_unpriced: service.is_some_and(|service| service.is_unpriced),
        error: text(attributes, &["error.type"]),
        model: text(attributes, MODELS),
        usage: usage(attributes),
        ..TraceSpan::default()
    };
    if is_graph {
        read.node = text(attributes, &["traceloop.entity.name"]).or_else(|| Some(span.name.as_str().into()));
    }
    match kind {
        Agent | Workflow => read_agent(&mut read, span),
        Call => read_call(&mut read, registry, span),
        Response => read_response(&mut read, span),
        HandOff => {
            read.from_agent = text(attributes, HAND_OFF_FROM);
            read.to_agent = text(attributes, &["gen_ai.handoff.to_agent"]);
        }
        Link => {}
    }
    read
}

const HAND_OFF_FROM: &[&str] = &["gen_ai.handoff.from_agent"];

fn kind(attributes: &Attributes) -> SpanKind {
    if first(attributes, HAND_OFF_FROM).is_some() {
        return HandOff;
    }
    if first(attributes, TOOL_NAMES) == Some(MERGED_CALLS) {
        return Link;
    }
    let known = KINDS.iter().find_map(|(name, words)| {
        let word = attributes.text(name)?;
        words.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind)
    });
    known.unwrap_or_default()
}

/// Returns the agent that a span names as the one at work.
fn worker<'a>(attributes: &'a Attributes, metadata: &'a Metadata) -> Option<&'a str> {
    let of_graph = first(attributes, WORKERS).or(metadata.agent.as_deref());
    of_graph.or_else(|| attributes.text("gen_ai.agent.name")).filter(|name| *name != NO_WORKER)
}

fn read_agent(read: &mut TraceSpan, span: &Span) {
    let attributes = &span.attributes;
    let is_number = |name: &str| name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut names = AGENT_NAMES.iter().filter_map(|name| attributes.text(name));
    read.name = names.find(|name| !is_number(name)).map(Text::from);
    if read.name.is_none() && !span.name.is_empty() {
        read.node = Some(bare_name(&span.name).into());
    }
    read.from_agent = text(attributes, &[NODE_ABOVE]);
    read.description = text(attributes, &["gen_ai.agent.description"]);
    read.prompt = messages::prompt(span).or_else(|| plain(attributes.text("input.value")).map(Text::from));
}

fn read_call(read: &mut TraceSpan, registry: Registry, span: &Span) {
    let attributes = &span.attributes;
    let name = first(attributes, TOOL_NAMES).unwrap_or_else(|| bare_name(&span.name));
    let input = first(attributes, ARGUMENTS).or_else(|| messages::event_text(span, "gen_ai.tool.message"));
    read.class = (registry.tool_class)(name);
    read.name = Some(name.into());
    read.own_id = first(attributes, CALL_IDS).filter(|id| !is_placeholder(id)).map(|id| safe_id(id).into());
    read.digest = digest(name, input.unwrap_or(&span.hex_id()));
    read.detail = input.and_then(|input| Some(ToolArguments::parse(input).detail()?.as_ref().into()));
    read.asked_agent = input.and_then(asked_agent).map(Text::from);
    read.input = input.map(json_text);
    read.result = first(attributes, RESULTS).map(json_text);
}

fn read_response(read: &mut TraceSpan, span: &Span) {
    let attributes = &span.attributes;
    read.own_id = text(attributes, RESPONSE_IDS);
    read.prompt = messages::prompt(span);
    read.answers = messages::answers(span);
    let reasons = finish_reasons(attributes);
    let has = |words: &[&str]| reasons.iter().any(|reason| words.contains(&reason.as_str()));
    read.ends_turn = has(&["stop", "end_turn"]);
    read.has_call = has(&["tool_call", "tool_calls", "tool_use", "tool-calls"]);
}

/// Returns why a response ended; some write the list as a JSON text.
fn finish_reasons(attributes: &Attributes) -> Vec<String> {
    let names = ["gen_ai.response.finish_reasons", "llm.finish_reason", "ai.response.finishReason"];
    let words = names.iter().flat_map(|name| attributes.texts(name));
    words
        .flat_map(|word| serde_json::from_str::<Vec<String>>(word).unwrap_or_else(|_| vec![word.to_owned()]))
        .collect()
}

fn status(span: &Span, kind: SpanKind) -> SpanStatus {
    let attributes = &span.attributes;
    let has_exception = || span.events.iter().any(|event| event.name == "exception");
    let is_call = kind == Call;
    match attributes.text("error.type") {
        Some("cancelled" | "canceled") => SpanStatus::Canceled,
        Some("denied" | "permission_denied" | "rejected") if is_call => SpanStatus::Denied,
        Some(_) => SpanStatus::Error,
        None if span.is_error => SpanStatus::Error,
        None if attributes.text("gen_ai.tool.status") == Some("error") => SpanStatus::Error,
        // Some programs report a failure as an exception alone.
        None if has_exception() && first(attributes, RESULTS).is_none() => SpanStatus::Error,
        None => SpanStatus::Ok,
    }
}

/// Returns tokens: input without what was read from a cache and written to it.
fn usage(attributes: &Attributes) -> Option<Usage> {
    let number = |names: &[&str]| names.iter().find_map(|name| attributes.number(name));
    let (input, output) = (number(INPUT_TOKENS), number(OUTPUT_TOKENS));
    let (read, write) = (number(CACHE_READ_TOKENS).unwrap_or(0), number(CACHE_WRITE_TOKENS).unwrap_or(0));
    (input.is_some() || output.is_some()).then(|| {
        let input = input.unwrap_or(0).saturating_sub(read).saturating_sub(write);
        Usage::new(input, output.unwrap_or(0), read, write)
    })
}

/// What spans of graphs say of themselves in JSON.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Metadata {
    #[serde(rename = "lc_agent_name")]
    agent: Option<String>,
    thread_id: Option<String>,
}

impl Metadata {
    fn of(attributes: &Attributes) -> Self {
        attributes.text("metadata").and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
    }
}

/// Returns the agent that arguments name.
fn asked_agent(arguments: &str) -> Option<String> {
    let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(arguments).ok()?;
    let named = ASKED_AGENTS.iter().find_map(|name| fields.get(*name)?.as_str());
    named.filter(|name| !name.is_empty()).map(str::to_owned)
}

/// Whether an id is a word in the place of one.
fn is_placeholder(id: &str) -> bool {
    id.starts_with('<')
        || ["unknown", "none", "null", "undefined", "n/a"].contains(&id.to_ascii_lowercase().as_str())
}

/// Returns the first of these attributes that has a text.
fn first<'a>(attributes: &'a Attributes, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| attributes.text(name))
}

fn text(attributes: &Attributes, names: &[&str]) -> Option<Text> {
    first(attributes, names).map(Text::from)
}

/// Returns a text that is no JSON.
fn plain(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.trim_start().starts_with(['{', '[']))
}

/// Returns a text as JSON: as it is, if it is some.
fn json_text(text: &str) -> Text {
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    if is_json { text.into() } else { serde_json::Value::from(text).to_string().into() }
}

/// Returns the name of a span without what its program puts around the name of the agent or tool.
fn bare_name(name: &str) -> &str {
    let name = NAME_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    NAME_SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

/// Returns the value of an attribute whose text may be in a list.
pub(super) fn only_text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        Value::Bool(_) | Value::Int(_) | Value::Double(_) | Value::List(_) | Value::Map(_) | Value::Other => {
            None
        }
    }
}
