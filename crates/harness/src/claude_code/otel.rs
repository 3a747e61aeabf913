//! `claude.otel`: OpenTelemetry records of Claude Code: log events, spans and metrics.
//!
//! Every record of a subagent has `agent_id`, and those from depth 2 on also `parent_agent_id`; without either a record
//! is the root's. `gen_ai.conversation.id` is the agent's id on spans of subagents and never read. A subagent has no
//! span: its first ones hang below the span of its spawn call's execution, which may have ended before. Observed:
//! 2.1.330, fixture `2.1.330/j-otel-nested`.
//!
//! Metrics name no agent: they are the checksum of the session, and are added to no agent.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::{json, value::RawValue};
use subscope_decode::{
    Emitter, Hint, digest,
    lenient::Str,
    otlp::{
        Attributes, LogEvent, OtelSource, Point, Record, RecordDecoder, Scope, Span, SpanTable, made_json,
    },
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallBegin, CallEnd, Checksum, Claim, EndEvidence, EventKind, Fact, Millis,
    Outcome, Parent, PromptKind, Response, Spawn, SpawnInput, SpawnMode, ToolClass, Usage,
};

use super::{OTEL, tools};

/// How its records are known.
pub(crate) static RECORDS: OtelSource = OtelSource {
    dialect: OTEL,
    has_scope: |name| name == "com.anthropic.claude_code" || name.starts_with("com.anthropic.claude_code."),
    has_service: |name| name == "claude-code",
    session: |record| record.attributes()?.text("session.id"),
};

/// Placeholder of a text whose recording is turned off.
const REDACTED: &str = "<REDACTED>";
/// Beginning of a notice of the harness.
const NOTICE: &str = "<task-notification>";

/// A subagent's record below a span that was not reported yet.
struct Below {
    agent: String,
    time: Option<Millis>,
}

/// The span of a tool call.
struct ToolSpan {
    call: String,
    tool: String,
    agent: Option<String>,
}

/// How long a call waited for a decision.
struct Blocked {
    span: Span,
}

/// Decodes the records of one source.
pub(super) struct Records {
    /// The session of the source, where its sender or path names it.
    session: Option<String>,
    version: String,
    /// The call of each execution.
    executions: SpanTable<String, Below>,
    tools: SpanTable<ToolSpan, Blocked>,
    /// Subagents whose identity was emitted, with whether that had a type.
    agents: HashMap<String, bool>,
    /// The points of each session's sums.
    sums: HashMap<String, BTreeMap<u64, (SumKind, f64)>>,
}

/// What a point adds to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SumKind {
    Input,
    Output,
    CacheRead,
    CacheWrite,
    Cost,
}

impl Records {
    /// A decoder for the source that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self {
            session: hint.session.clone(),
            version: String::new(),
            executions: SpanTable::default(),
            tools: SpanTable::default(),
            agents: HashMap::new(),
            sums: HashMap::new(),
        }
    }

    fn version(&mut self, scope: &Scope, out: &mut Emitter<'_, '_>) {
        if let Some(version) = scope.version.as_deref().filter(|version| *version != self.version) {
            version.clone_into(&mut self.version);
            out.emit_made(Fact::Session {
                version: Some(version),
                cwd: None,
                model: None,
                tells_starts: false,
            });
        }
    }

    /// Emits the identity of a subagent once, and again when its type becomes known.
    fn agent(&mut self, attributes: &Attributes, out: &mut Emitter<'_, '_>) {
        let Some(agent) = attributes.text("agent_id") else { return };
        let agent_type = attributes.text("agent.name").or(attributes.text("agent_type"));
        let built_in = || attributes.text("query_source_safe")?.strip_prefix("agent.builtin.");
        let agent_type = agent_type.or_else(built_in);
        if self.agents.get(agent).is_some_and(|has_type| *has_type || agent_type.is_none()) {
            return;
        }
        self.agents.insert(agent.to_owned(), agent_type.is_some());
        let parent = attributes.text("parent_agent_id").map_or(Parent::Root, Parent::Agent);
        out.emit_made(Fact::Spawn(Spawn {
            agent: Some(agent),
            parent: Some(parent),
            agent_type: agent_type.map(Into::into),
            ..Spawn::default()
        }));
    }

    /// Links a subagent with the call in whose execution it acts: its spawn call, or the one that resumed it.
    fn link(&mut self, agent: &str, time: Option<Millis>, above: Option<u64>, out: &mut Emitter<'_, '_>) {
        let Some(above) = above else { return };
        match self.executions.get(above) {
            Some(call) => emit_link(agent, call, time, out),
            None => self.executions.wait(above, Below { agent: agent.to_owned(), time }),
        }
    }

    fn log(&mut self, log: &LogEvent, out: &mut Emitter<'_, '_>) {
        let attributes = &log.attributes;
        let name = log.name.strip_prefix("claude_code.").unwrap_or(&log.name);
        if !EVENTS.contains(&name) {
            return;
        }
        let agent = attributes.text("agent_id");
        if let Some(agent) = agent {
            self.link(agent, log.time, log.span, out);
        }
        self.agent(attributes, out);
        match name {
            "user_prompt" => prompt(attributes, out),
            "tool_decision" => self.decision(attributes, out),
            "tool_result" => self.result(attributes, out),
            "api_request" if is_of_agent(attributes, "query_source") => {
                request_begins(attributes, out);
                out.emit_made(Fact::Response(Response { accounts_only: true, ..response(attributes) }));
            }
            "assistant_response" => answer(attributes, out),
            "subagent_completed" => {
                let mode = match attributes.flag("is_async") {
                    Some(true) => Some(SpawnMode::Background),
                    Some(false) => Some(SpawnMode::Foreground),
                    None => None,
                };
                out.emit_made(Fact::Spawn(Spawn { agent, mode, ..Spawn::default() }));
                out.emit_made(Fact::AgentEnd(AgentEnd {
                    agent,
                    status: AgentStatus::Completed,
                    evidence: EndEvidence::OtelRecord,
                    time: out.head.time,
                    ..AgentEnd::default()
                }));
            }
            "api_error" => {
                let attempt = attributes.number("attempt").and_then(|attempt| u32::try_from(attempt).ok());
                let error = attributes.text("error").unwrap_or_default();
                let attempt = attempt.unwrap_or(1).max(1);
                let error = error.into();
                out.emit_made(Fact::Retry { agent, attempt, limit: 0, delay_ms: None, error });
            }
            "api_retries_exhausted" | "api_refusal" => failure(attributes, agent, out),
            _ => {}
        }
    }

    fn decision(&mut self, attributes: &Attributes, out: &mut Emitter<'_, '_>) {
        let (Some(id), Some(name)) = (attributes.text("tool_use_id"), attributes.text("tool_name")) else {
            return;
        };
        called(attributes, out);
        out.emit_made(Fact::CallBegin(begin(id, name, attributes, &self.version, out)));
        if attributes.text("decision") == Some("reject") {
            out.emit_made(Fact::CallEnd(rejected(id, Some(name), attributes)));
        }
    }

    fn result(&mut self, attributes: &Attributes, out: &mut Emitter<'_, '_>) {
        let (Some(id), Some(name)) = (attributes.text("tool_use_id"), attributes.text("tool_name")) else {
            return;
        };
        let duration_ms = attributes.number("duration_ms").and_then(|duration| i64::try_from(duration).ok());
        let begun = out.head.time.map(|time| time - duration_ms.unwrap_or(0));
        let call = begin(id, name, attributes, &self.version, out);
        out.emit_of(out.head.claim, begun, Fact::CallBegin(call));
        let outcome = if attributes.flag("success") == Some(false) { Outcome::Error } else { Outcome::Ok };
        let error = attributes.text("error").map(|error| json!(error).to_string());
        out.emit_made(Fact::CallEnd(CallEnd {
            id: Some(id),
            name: Some(name),
            outcome,
            duration_ms,
            result: error.as_deref().filter(|_| outcome == Outcome::Error).map(made_json),
            ..CallEnd::default()
        }));
    }

    fn span(&mut self, span: &Span, out: &mut Emitter<'_, '_>) {
        let attributes = &span.attributes;
        let agent = attributes.text("agent_id");
        match span.name.strip_prefix("claude_code.") {
            Some("llm_request") => {
                if let Some(agent) = agent {
                    self.link(agent, span.start, span.parent, out);
                }
                self.agent(attributes, out);
                self.request(span, out);
            }
            Some("tool") => {
                if let Some(agent) = agent {
                    self.link(agent, span.start, span.parent, out);
                }
                self.agent(attributes, out);
                self.tool(span, out);
            }
            Some("tool.execution") => self.execution(span, out),
            Some("tool.blocked_on_user") => {
                let Some(above) = span.parent else { return };
                match self.tools.get(above) {
                    Some(tool) => blocked(span, tool, out),
                    None => self.tools.wait(above, Blocked { span: span.clone() }),
                }
            }
            Some("interaction") => {
                let text =
                    attributes.text("user_prompt").filter(|text| *text != REDACTED).unwrap_or_default();
                let json = json!(text).to_string();
                let line = interaction_line(span.id);
                let what = if text.starts_with(NOTICE) { PromptKind::Meta } else { PromptKind::Asked };
                let mut out = out.with(Claim::Root(Basis::Wire), span.start, Some(&line));
                out.emit_made(Fact::Prompt { prompt_id: None, text: made_json(&json), what });
            }
            _ => {}
        }
    }

    fn request(&self, span: &Span, out: &mut Emitter<'_, '_>) {
        let attributes = &span.attributes;
        for event in span.events.iter().filter(|event| event.name == "gen_ai.request.attempt") {
            let attempt = event.attributes.number("attempt").and_then(|attempt| u32::try_from(attempt).ok());
            if let Some(attempt) = attempt.filter(|attempt| *attempt > 1) {
                let error = attributes.text("error").unwrap_or_default().into();
                let agent = attributes.text("agent_id");
                let retry = Fact::Retry { agent, attempt: attempt - 1, limit: 0, delay_ms: None, error };
                out.emit_of(out.head.claim, event.time, retry);
            }
        }
        if !is_of_agent(attributes, "query_source_safe") {
            return;
        }
        out.emit_of(out.head.claim, span.start, Fact::Activity);
        let stop_reason = attributes.text("stop_reason");
        let known = response(attributes);
        if known.usage.is_some() {
            out.emit_made(Fact::Response(Response {
                ends_turn: stop_reason == Some("end_turn"),
                has_call: stop_reason == Some("tool_use"),
                ..known
            }));
        }
    }

    fn tool(&mut self, span: &Span, out: &mut Emitter<'_, '_>) {
        let attributes = &span.attributes;
        let id = attributes.text("tool_use_id").or(attributes.text("gen_ai.tool.call.id"));
        let name = attributes.text("tool_name").or(attributes.text("gen_ai.tool.name"));
        let (Some(id), Some(name)) = (id, name) else { return };
        let call = begin(id, name, attributes, &self.version, out);
        out.emit_of(out.head.claim, span.start, Fact::CallBegin(call));
        out.emit_made(Fact::CallEnd(CallEnd {
            id: Some(id),
            name: Some(name),
            outcome: Outcome::Over,
            is_provisional: true,
            ..CallEnd::default()
        }));
        let agent = attributes.text("agent_id").map(str::to_owned);
        let tool = ToolSpan { call: id.to_owned(), tool: name.to_owned(), agent };
        for waiting in self.tools.take_waiting(span.id) {
            blocked(&waiting.span, &tool, out);
        }
        self.tools.add(span.id, tool);
    }

    fn execution(&mut self, span: &Span, out: &mut Emitter<'_, '_>) {
        let attributes = &span.attributes;
        let Some(id) = attributes.text("tool_use_id").or(attributes.text("gen_ai.tool.call.id")) else {
            return;
        };
        self.executions.add(span.id, id.to_owned());
        for Below { agent, time } in self.executions.take_waiting(span.id) {
            emit_link(&agent, id, time, out);
        }
        let outcome = match attributes.flag("success") {
            Some(true) => Outcome::Ok,
            Some(false) => Outcome::Error,
            None if span.is_error => Outcome::Error,
            None => Outcome::Ok,
        };
        let duration_ms = attributes.number("duration_ms").and_then(|duration| i64::try_from(duration).ok());
        // It names no agent: its call does.
        let end = CallEnd { id: Some(id), outcome, duration_ms, ..CallEnd::default() };
        out.emit_of(Claim::Silent, span.end, Fact::CallEnd(end));
    }

    fn points(&mut self, points: &[Point], out: &mut Emitter<'_, '_>) {
        let mut changed: Vec<&str> = Vec::new();
        for point in points {
            let Some(session) = point.attributes.text("session.id") else { continue };
            if self.session.as_deref().is_some_and(|own| own != session) {
                continue;
            }
            let sum = match (point.metric.as_str(), point.attributes.text("type")) {
                ("claude_code.token.usage", Some("input")) => SumKind::Input,
                ("claude_code.token.usage", Some("output")) => SumKind::Output,
                ("claude_code.token.usage", Some("cacheRead")) => SumKind::CacheRead,
                ("claude_code.token.usage", Some("cacheCreation")) => SumKind::CacheWrite,
                ("claude_code.cost.usage", _) => SumKind::Cost,
                _ => continue,
            };
            let known = self.sums.entry(session.to_owned()).or_default();
            let (_, value) = known.entry(point.series()).or_insert((sum, 0.0));
            *value = value.max(point.value);
            if !changed.contains(&session) {
                changed.push(session);
            }
        }
        for session in changed {
            let Some(known) = self.sums.get(session) else { continue };
            let of =
                |kind: SumKind| known.values().filter(move |(sum, _)| *sum == kind).map(|(_, value)| *value);
            // `as` saturates, and a sum of whole numbers is whole.
            let count = |kind: SumKind| of(kind).sum::<f64>() as u64;
            let [input, output, read, write] =
                [SumKind::Input, SumKind::Output, SumKind::CacheRead, SumKind::CacheWrite].map(count);
            let cost = of(SumKind::Cost).sum::<f64>();
            let has_cost = of(SumKind::Cost).next().is_some();
            let sum = Checksum {
                usage: Usage::new(input, output, read, write),
                cost_micro_usd: has_cost.then_some((cost * 1e6).round() as i64),
                part: None,
            };
            let mut out = out.with(Claim::Silent, None, None);
            out.head.session = Some(session);
            out.emit_made(Fact::Checksum(sum));
        }
    }
}

/// Log events that are decoded; others are skipped.
const EVENTS: &[&str] = &[
    "user_prompt",
    "tool_decision",
    "tool_result",
    "api_request",
    "assistant_response",
    "subagent_completed",
    "api_error",
    "api_retries_exhausted",
    "api_refusal",
];

/// What the query sources of requests begin with that are an agent's own: others are the program's (titles,
/// suggestions), and in no conversation.
const AGENT_SOURCES: &[&str] = &["sdk", "repl_main_thread", "agent"];

fn is_of_agent(attributes: &Attributes, source: &str) -> bool {
    let is_own = |source: &str| AGENT_SOURCES.iter().any(|own| source.starts_with(own));
    attributes.text("agent_id").is_some() || attributes.text(source).is_none_or(is_own)
}

fn interaction_line(span: u64) -> String {
    format!("interaction/{span:016x}")
}

fn emit_link(agent: &str, call: &str, time: Option<Millis>, out: &mut Emitter<'_, '_>) {
    let spawn = Spawn { agent: Some(agent), call: Some(call), starts: true, ..Spawn::default() };
    out.emit_of(Claim::Agent(agent, Basis::Wire), time, Fact::Spawn(spawn));
}

fn prompt(attributes: &Attributes, out: &mut Emitter<'_, '_>) {
    let text = attributes.text("prompt").filter(|text| *text != REDACTED).unwrap_or_default();
    let json = json!(text).to_string();
    let what = if text.starts_with(NOTICE) { PromptKind::Meta } else { PromptKind::Asked };
    let prompt_id = attributes.text("prompt.id");
    out.emit_made(Fact::Prompt { prompt_id, text: made_json(&json), what });
}

/// Emits that a request began.
fn request_begins(attributes: &Attributes, out: &mut Emitter<'_, '_>) {
    let duration = attributes.number("duration_ms").and_then(|duration| Millis::try_from(duration).ok());
    if let (Some(time), Some(duration)) = (out.head.time, duration) {
        out.emit_of(out.head.claim, Some(time - duration), Fact::Activity);
    }
}

/// Returns the response that a record reports: log events and spans have the same attributes.
fn response(attributes: &Attributes) -> Response<'_> {
    let tokens = |name: &str| attributes.number(name);
    let usage = tokens("input_tokens").or(tokens("output_tokens")).map(|_| {
        let kinds = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens"];
        Usage::of_parts(kinds.map(tokens), None)
    });
    Response {
        request_id: attributes.text("request_id").or(attributes.text("gen_ai.response.id")),
        model: attributes.text("model").or(attributes.text("gen_ai.request.model")),
        usage,
        cache_write_1h: tokens("cache_creation_1h_tokens").unwrap_or(0),
        // `as` saturates.
        cost_pico_usd: attributes.decimal("cost_usd").map(|usd| (usd * 1e12).round() as u64),
        has_stop_reason: true,
        ..Response::default()
    }
}

/// Emits that the model called a tool, so its turn continues.
fn called(attributes: &Attributes, out: &mut Emitter<'_, '_>) {
    if let Some(request_id) = attributes.text("request_id") {
        let response = Response { request_id: Some(request_id), has_call: true, ..Response::default() };
        out.emit_made(Fact::Response(response));
    }
}

fn answer(attributes: &Attributes, out: &mut Emitter<'_, '_>) {
    if !is_of_agent(attributes, "query_source") || attributes.number("response_length") == Some(0) {
        return;
    }
    if let Some(request_id) = attributes.text("request_id") {
        let response = Response { request_id: Some(request_id), has_text: true, ..Response::default() };
        out.emit_made(Fact::Response(response));
    }
    if let Some(text) = attributes.text("response").filter(|text| *text != REDACTED) {
        let json = json!(text).to_string();
        out.emit_made(Fact::Message { message_id: None, text: made_json(&json) });
    }
}

fn failure(attributes: &Attributes, agent: Option<&str>, out: &mut Emitter<'_, '_>) {
    let error = attributes.text("error").map(|error| json!(error).to_string());
    let (status, evidence, text) =
        (AgentStatus::Failed, EndEvidence::LastLine, error.as_deref().map(made_json));
    match agent {
        Some(_) => out.emit_made(Fact::AgentEnd(AgentEnd {
            agent,
            status,
            evidence,
            time: out.head.time,
            error: text,
            ..AgentEnd::default()
        })),
        None => out.emit_made(Fact::TurnEnd { status, evidence, counts_run: true, text }),
    }
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Parameters<'a> {
    subagent_type: Str<'a>,
}

fn begin<'a>(
    id: &'a str,
    name: &'a str,
    attributes: &'a Attributes,
    version: &str,
    out: &Emitter<'_, '_>,
) -> CallBegin<'a> {
    let input: Option<&RawValue> =
        attributes.text("tool_input").and_then(|input| serde_json::from_str(input).ok());
    let digest = digest(name, input.map_or("", RawValue::get));
    // Its arguments are a text inside the record.
    let line = subscope_decode::lenient::LineText { place: out.line.place, text: "", is_exact: false };
    let mut call = tools::begin(Some(id), name, input, line, digest, tools::default_mode(version));
    let parameters: Parameters<'a> = attributes
        .text("tool_parameters")
        .and_then(|parameters| serde_json::from_str(parameters).ok())
        .unwrap_or_default();
    let agent_type = attributes.text("subagent_type").map(Into::into).or(parameters.subagent_type.0);
    if call.class == ToolClass::Spawn && call.spawn.is_none() && agent_type.is_some() {
        call.spawn = Some(SpawnInput { agent_type, ..SpawnInput::default() });
    }
    call
}

/// Returns the end of a call that was not allowed. With an abort the person stopped the turn, too.
fn rejected<'a>(id: &'a str, name: Option<&'a str>, attributes: &Attributes) -> CallEnd<'a> {
    let is_abort = attributes.text("source") == Some("user_abort");
    let outcome = if is_abort { Outcome::Interrupted } else { Outcome::Denied };
    CallEnd { id: Some(id), name, outcome, ..CallEnd::default() }
}

/// Emits how a call waited for a decision: of a person as a permission wait.
fn blocked(span: &Span, tool: &ToolSpan, out: &mut Emitter<'_, '_>) {
    let attributes = &span.attributes;
    let claim =
        tool.agent.as_deref().map_or(Claim::Root(Basis::Wire), |agent| Claim::Agent(agent, Basis::Wire));
    let (source, decision) = (attributes.text("source"), attributes.text("decision"));
    if decision == Some("reject") {
        out.emit_of(claim, span.end, Fact::CallEnd(rejected(&tool.call, Some(&tool.tool), attributes)));
    }
    if source.is_some_and(|source| source.starts_with("user")) {
        let waited = span.end.zip(span.start).map(|(end, start)| end - start);
        let data = json!({
            "tool_name": tool.tool, "tool_use_id": tool.call, "waited_ms": waited, "decision": decision,
            "source": source,
        })
        .to_string();
        let line = format!("span/{}", span.hex_id());
        let mut out = out.with(claim, span.start, Some(&line));
        out.emit_made(Fact::Note { kind: EventKind::PermissionRequest, data: made_json(&data) });
    }
}

impl RecordDecoder for Records {
    fn source(&self) -> &'static OtelSource {
        &RECORDS
    }

    fn decode(&mut self, scope: &Scope, record: &Record, out: &mut Emitter<'_, '_>) {
        let attributes = record.attributes();
        let claim = attributes.and_then(|attributes| attributes.text("agent_id"));
        let claim = claim.map_or(Claim::Root(Basis::Wire), |agent| Claim::Agent(agent, Basis::Wire));
        match record {
            Record::Log(log) => {
                let uuid = log.attributes.text("message.uuid").map(str::to_owned);
                let is_prompt = log.name.ends_with("user_prompt");
                let line = match (log.span.filter(|_| is_prompt), uuid) {
                    (Some(span), _) => interaction_line(span),
                    (None, Some(uuid)) => uuid,
                    (None, None) => log.identity(),
                };
                let mut out = out.with(claim, log.time, Some(&line));
                self.version(scope, &mut out);
                self.log(log, &mut out);
            }
            Record::Span(span) => {
                let line = format!("span/{}", span.hex_id());
                let mut out = out.with(claim, span.end, Some(&line));
                self.version(scope, &mut out);
                self.span(span, &mut out);
            }
            Record::Points(points) => self.points(points, out),
        }
    }
}
