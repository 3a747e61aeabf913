//! The events of Copilot, on disk and on stdout: one envelope for both.
//!
//! Flow: line → [`Line`] → the data of its type → observations. Remembered inside the source: the session, calls whose
//! end says something of agents.
//!
//! Pitfalls: `parentId` is the line before, no hierarchy; `agentId` says whose line it is, and none says the root. Up
//! to 1.0.39 it is the id of the spawn call, and the display name is that of the kind of agent. A message has its output
//! tokens at most: `session.usage_record` has all of them, once for each response, on disk and from 1.0.102 on only.
//! `subagent.completed` counts its descendants, too. A call of `task` may end before its `subagent.completed`, and one in the background ends at once.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError, canonical_digest,
    lenient::{Flag, LineText, Num, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallEnd, Checksum, Claim, Clock, EndEvidence, EventKind, Fact, Parent,
    PromptKind, RawJson, Response, Sink, SourceKind, Spawn, ToolClass, Usage, VendorCost, VendorUnit,
    parse_rfc3339,
};

use super::tools;
use crate::common::{EMPTY_TEXT, emit_failure};

/// Decodes the events of one source.
#[derive(Debug)]
pub(super) struct Events {
    kind: SourceKind,
    /// The session, once it is known.
    pub(super) session: Option<String>,
    /// The root's model that was last emitted.
    model: String,
    /// Calls that may start an agent and have not yet.
    starting: HashSet<String>,
    /// Calls that resume an agent, with the agent.
    writing: HashMap<String, String>,
    /// Whether responses of the source have their own tokens: then the sums of its processes are of the session.
    has_usage_records: bool,
    /// Whether the source has a line of an agent.
    has_agents: bool,
    /// Whether a line has told an error of the session.
    has_failed: bool,
    /// Output tokens of the messages of each agent so far, the root's under no id.
    output_tokens: HashMap<Option<String>, u64>,
}

/// One line.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
pub(super) struct Line<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Str<'a>,
    id: Str<'a>,
    timestamp: Str<'a>,
    pub(super) agent_id: Str<'a>,
    pub(super) session_id: Str<'a>,
    pub(super) ephemeral: Flag,
    pub(super) data: Option<&'a RawValue>,
}

impl<'a> Line<'a> {
    /// Returns the data of the line's type; the default where it has other types than expected.
    pub(super) fn data<T: Default + Deserialize<'a>>(&self) -> T {
        self.data.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }
}

/// `session.start` and `session.resume`.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Opening<'a> {
    session_id: Str<'a>,
    copilot_version: Str<'a>,
    context: Option<Context<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Context<'a> {
    cwd: Str<'a>,
}

/// `user.message` and `assistant.message`.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
pub(super) struct Message<'a> {
    message_id: Str<'a>,
    model: Str<'a>,
    content: Option<&'a RawValue>,
    reasoning_text: Option<&'a RawValue>,
    tool_requests: Option<&'a RawValue>,
    output_tokens: Num,
    pub(super) source: Str<'a>,
}

/// `tool.execution_start`.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct CallStart<'a> {
    tool_call_id: Str<'a>,
    tool_name: Str<'a>,
    arguments: Option<&'a RawValue>,
}

/// `subagent.started`, `subagent.completed` and `subagent.failed`.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Subagent<'a> {
    tool_call_id: Str<'a>,
    agent_type: Str<'a>,
    model: Str<'a>,
    execution_mode: Str<'a>,
    parent_id: Str<'a>,
    cancelled: Flag,
    error: Option<&'a RawValue>,
}

/// `session.error`.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct SessionError<'a> {
    message: Option<&'a RawValue>,
}

/// `session.usage_record`.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct UsageRecord<'a> {
    usage: Tokens<'a>,
}

/// Tokens of a response or of many: the input holds the cached ones, the output the reasoning ones.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Tokens<'a> {
    model: Str<'a>,
    input_tokens: Num,
    output_tokens: Num,
    cache_read_tokens: Num,
    cache_write_tokens: Num,
    total_tokens: Num,
}

impl Tokens<'_> {
    fn usage(&self) -> Usage {
        let number = |field: Num| field.0.unwrap_or(0);
        let (read, write) = (number(self.cache_read_tokens), number(self.cache_write_tokens));
        let fresh = self.input_tokens.0.map(|input| input.saturating_sub(read).saturating_sub(write));
        Usage::of_parts([fresh, self.output_tokens.0, Some(read), Some(write)], self.total_tokens.0)
    }
}

/// `session.shutdown`.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Shutdown<'a> {
    total_premium_request_cost: Option<&'a RawValue>,
    /// The same up to 1.0.60.
    total_premium_requests: Option<&'a RawValue>,
    total_nano_aiu: Option<&'a RawValue>,
    model_metrics: Option<&'a RawValue>,
    agent_metrics: Option<&'a RawValue>,
    /// `routine` or `error`.
    shutdown_type: Str<'a>,
    error_reason: Option<&'a RawValue>,
}

/// What one agent used.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct AgentMetrics<'a> {
    model_metrics: Option<&'a RawValue>,
}

/// What was used of one model.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ModelMetrics<'a> {
    usage: Tokens<'a>,
}

/// `system.notification`.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Notification<'a> {
    kind: NotificationKind<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct NotificationKind<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    agent_id: Str<'a>,
}

/// The conversation was compacted.
const COMPACTED: Fact<'static> =
    Fact::Note { kind: EventKind::CompactPost, data: RawJson { json: "{}", offset: u64::MAX } };

impl Events {
    /// A decoder for the source that `hint` describes.
    pub(super) fn new(hint: &Hint, kind: SourceKind) -> Self {
        Self {
            kind,
            session: hint.session.clone(),
            model: String::new(),
            starting: HashSet::new(),
            writing: HashMap::new(),
            has_usage_records: false,
            has_agents: false,
            has_failed: false,
            output_tokens: HashMap::new(),
        }
    }

    /// Emits everything in one line.
    pub(super) fn emit(&mut self, line: &Line<'_>, text: LineText<'_>, sink: &mut Sink<'_>) {
        let kind = line.kind.get().unwrap_or_default();
        if kind == "session.start" && self.session.is_none() {
            self.session = line.data::<Opening<'_>>().session_id.filled().map(str::to_owned);
        }
        let session = self.session.clone();
        let agent = line.agent_id.filled();
        self.has_agents |= agent.is_some();
        let claim = agent.map_or(Claim::Root(Basis::Wire), |agent| Claim::Agent(agent, Basis::Wire));
        let clock = match self.kind {
            SourceKind::Transcript => Clock::Transcript,
            SourceKind::Stream | SourceKind::Posted | SourceKind::Otel | SourceKind::Hook => Clock::Stream,
        };
        let mut out = Emitter::new(self.kind, clock, claim, text, sink);
        out.head.time = line.timestamp.get().and_then(parse_rfc3339);
        out.head.session = session.as_deref();
        out.head.line_id = line.id.filled();
        if line.ephemeral.is_true() {
            // A transient line: its content is repeated in permanent lines, but it shows that an agent is at work.
            let is_work = ["assistant.", "tool.", "model."].iter().any(|family| kind.starts_with(family));
            return if is_work {
                out.emit(Fact::Activity)
            };
        }
        match kind {
            "session.start" | "session.resume" => opening(&line.data(), &mut out),
            "user.message" => prompt(&line.data(), &mut out),
            "assistant.message" => self.message(&line.data(), agent, &mut out),
            "session.usage_record" => self.usage(&line.data(), &mut out),
            "tool.execution_start" => self.call_start(&line.data(), &mut out),
            "tool.execution_complete" => self.call_end(&line.data(), &mut out),
            "subagent.started" => self.started(agent, &line.data(), &mut out),
            "subagent.completed" => ended(agent, AgentStatus::Completed, &line.data(), &mut out),
            "subagent.failed" => ended(agent, AgentStatus::Failed, &line.data(), &mut out),
            "system.notification" => idle(&line.data(), &mut out),
            "abort" if agent.is_none() => {
                let (status, evidence) = (AgentStatus::Stopped, EndEvidence::Notification);
                out.emit(Fact::TurnEnd { status, evidence, counts_run: true, text: None });
            }
            "session.compaction_complete" => out.emit(COMPACTED),
            "session.shutdown" => {
                let shutdown: Shutdown<'_> = line.data();
                self.shutdown(&shutdown, &mut out);
                if shutdown.shutdown_type.is("error") {
                    let (status, evidence) = (AgentStatus::Failed, EndEvidence::Notification);
                    // A session may have told its error before.
                    let word = || out.line.quoted(shutdown.shutdown_type.get()?).filter(|_| !self.has_failed);
                    let text =
                        out.raw(shutdown.error_reason).filter(|text| text.json.len() > 2).or_else(word);
                    out.emit_made(Fact::TurnEnd { status, evidence, counts_run: true, text });
                }
            }
            "session.error" => {
                self.has_failed = true;
                let error: SessionError<'_> = line.data();
                emit_failure(out.raw(error.message), &mut out);
            }
            "assistant.turn_start" | "assistant.turn_end" => out.emit(Fact::Activity),
            // Book-keeping of the harness; new types are skipped like these until they are known.
            _ => {}
        }
    }

    /// Emits a message of the model. Its response is counted where its tokens are.
    fn message<'a>(&mut self, message: &Message<'a>, agent: Option<&str>, out: &mut Emitter<'a, '_>) {
        let is_root = agent.is_none();
        let has_call = message.tool_requests.is_some_and(|raw| !is_empty_list(raw.get()));
        let text = out.raw(message.content).filter(|raw| raw.json.len() > 2);
        if let Some(model) = message.model.filled().filter(|model| is_root && *model != self.model) {
            model.clone_into(&mut self.model);
            let model = Some(model);
            out.emit_made(Fact::Session { version: None, cwd: None, model, tells_starts: true });
        }
        let message_id = message.message_id.filled();
        out.emit_made(Fact::Response(Response {
            message_id: message_id.unwrap_or_default(),
            // An agent ends by the harness's word alone.
            has_stop_reason: true,
            ends_turn: is_root && !has_call,
            has_call,
            has_text: text.is_some(),
            synthetic: true,
            ..Response::default()
        }));
        // Up to 1.0.39 a message names no model, and tokens are counted by model.
        // Observed: Copilot 1.0.59 and 1.0.60, public sessions.
        if let Some(tokens) = message.output_tokens.0.filter(|_| message.model.filled().is_some()) {
            let sum = self.output_tokens.entry(agent.map(str::to_owned)).or_default();
            *sum = sum.saturating_add(tokens);
            let usage = Usage { floor: true, ..Usage::new(0, *sum, 0, 0) };
            out.emit_made(Fact::Totals { usage, cost_micro_usd: None });
        }
        if let Some(thought) = out.raw(message.reasoning_text) {
            out.emit_made(Fact::Thought { message_id, text: Some(thought) });
        }
        if let Some(text) = text {
            out.emit_made(Fact::Message { message_id, text });
        }
    }

    /// Emits the tokens of a response. The API's id of it is not unique: programs that serve models number them.
    fn usage(&mut self, record: &UsageRecord<'_>, out: &mut Emitter<'_, '_>) {
        self.has_usage_records = true;
        let Some(message_id) = out.head.line_id else { return };
        out.emit_made(Fact::Response(Response {
            message_id,
            model: record.usage.model.filled(),
            usage: Some(record.usage.usage()),
            has_stop_reason: true,
            accounts_only: true,
            is_unpriced: true,
            ..Response::default()
        }));
    }

    fn call_start<'a>(&mut self, call: &CallStart<'a>, out: &mut Emitter<'a, '_>) {
        let name = call.tool_name.get().unwrap_or_default();
        let id = call.tool_call_id.filled();
        // Hooks have no ids of calls, and their arguments in another order.
        let digest = canonical_digest(name, call.arguments.map_or("", RawValue::get));
        let begin = tools::begin(id, name, call.arguments, out.line, digest);
        if let Some(id) = id.filter(|_| begin.class == ToolClass::Spawn) {
            self.starting.insert(id.to_owned());
        }
        let written = tools::written_agent(call.arguments).filter(|_| name == tools::WRITE_TOOL);
        if let (Some(id), Some(agent)) = (id, written) {
            self.writing.insert(id.to_owned(), agent);
        }
        out.emit_made(Fact::CallBegin(begin));
    }

    fn call_end<'a>(&mut self, ending: &tools::Ending<'a>, out: &mut Emitter<'a, '_>) {
        let id = ending.tool_call_id.filled();
        let is_ok = ending.success.is_true();
        let resumed = id.and_then(|id| self.writing.remove(id)).filter(|_| is_ok);
        let started_none = id.is_some_and(|id| self.starting.remove(id));
        out.emit_made(Fact::CallEnd(CallEnd {
            id,
            outcome: ending.outcome(),
            result: out.raw(ending.text()),
            refused: started_none && !is_ok,
            resumed: resumed.as_deref(),
            ..CallEnd::default()
        }));
    }

    fn started(&mut self, agent: Option<&str>, started: &Subagent<'_>, out: &mut Emitter<'_, '_>) {
        let call = started.tool_call_id.filled();
        if let Some(call) = call {
            self.starting.remove(call);
        }
        out.emit_made(Fact::Spawn(Spawn {
            agent,
            call,
            // None of an agent of the root, and of all up to 1.0.39: then the call's owner is the parent.
            parent: started.parent_id.filled().map(Parent::Agent),
            agent_type: started.agent_type.0.clone().filter(|kind| !kind.is_empty()),
            model: started.model.0.clone().filter(|model| !model.is_empty()),
            mode: started.execution_mode.get().and_then(tools::mode),
            starts: true,
            is_origin: true,
            ..Spawn::default()
        }));
    }

    /// Emits the session's own sums. Up to 1.0.39 each process sums up its own responses.
    fn shutdown(&mut self, shutdown: &Shutdown<'_>, out: &mut Emitter<'_, '_>) {
        let models = models_of(shutdown.model_metrics);
        if !self.has_usage_records && !self.has_agents && shutdown.agent_metrics.is_none() {
            // Nobody but the root has used them.
            let line_id = out.head.line_id.unwrap_or_default();
            for (model, metrics) in models.iter().flatten() {
                out.emit_made(Fact::Response(Response {
                    message_id: &format!("{line_id}:{model}"),
                    model: Some(model),
                    usage: Some(metrics.usage.usage()),
                    has_stop_reason: true,
                    accounts_only: true,
                    is_unpriced: true,
                    ..Response::default()
                }));
            }
        }
        let is_of_session = self.has_usage_records || shutdown.agent_metrics.is_some();
        let part = out.head.time.filter(|_| !is_of_session);
        if let Some(usage) = models.as_ref().map(sum_of_models) {
            out.emit(Fact::Checksum(Checksum { usage, cost_micro_usd: None, part }));
        }
        let in_units = [
            (
                VendorUnit::PremiumRequests,
                1e6,
                shutdown.total_premium_request_cost.or(shutdown.total_premium_requests),
            ),
            (VendorUnit::AiUnits, 1e-3, shutdown.total_nano_aiu),
        ];
        for (unit, factor, stated) in in_units {
            let stated: Option<f64> = stated.and_then(|raw| serde_json::from_str(raw.get()).ok());
            let micro = stated.map(|amount| amount * factor);
            if let Some(micro) = micro.filter(|micro| *micro >= 0.0 && *micro < 1e18) {
                let cost = VendorCost { unit, amount_micro: micro.round() as u64 };
                out.emit(Fact::VendorCost { cost, part });
            }
        }
        let agents: Option<BTreeMap<String, AgentMetrics<'_>>> =
            shutdown.agent_metrics.and_then(|raw| serde_json::from_str(raw.get()).ok());
        for (agent, metrics) in agents.iter().flatten() {
            let Some(usage) = models_of(metrics.model_metrics).as_ref().map(sum_of_models) else { continue };
            let claim =
                if agent == MAIN { Claim::Root(Basis::Wire) } else { Claim::Agent(agent, Basis::Wire) };
            out.emit_of(claim, out.head.time, Fact::Totals { usage, cost_micro_usd: None });
        }
    }
}

impl LineDecoder for Events {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let line: Line<'_> = serde_json::from_str(text.text)?;
        self.emit(&line, text, sink);
        Ok(())
    }
}

/// The root's name in the sums of agents.
const MAIN: &str = "main";

/// Returns what was used of each model.
fn models_of(metrics: Option<&RawValue>) -> Option<BTreeMap<String, ModelMetrics<'_>>> {
    serde_json::from_str(metrics?.get()).ok()
}

fn sum_of_models(models: &BTreeMap<String, ModelMetrics<'_>>) -> Usage {
    models.values().fold(Usage::default(), |sum, model| sum + model.usage.usage())
}

fn is_empty_list(json: &str) -> bool {
    matches!(json, "[]" | "null") || serde_json::from_str::<[(); 0]>(json).is_ok()
}

fn prompt<'a>(message: &Message<'a>, out: &mut Emitter<'a, '_>) {
    let text = out.raw(message.content).unwrap_or(EMPTY_TEXT);
    // Hooks do not have its id; its line has one in the other sources.
    out.emit_made(Fact::Prompt { prompt_id: None, text, what: PromptKind::Asked });
}

fn opening(opening: &Opening<'_>, out: &mut Emitter<'_, '_>) {
    let version = opening.copilot_version.filled();
    let cwd = opening.context.as_ref().and_then(|context| context.cwd.0.clone());
    out.emit_made(Fact::Session { version, cwd, model: None, tells_starts: true });
}

fn ended<'a>(agent: Option<&'a str>, status: AgentStatus, end: &Subagent<'a>, out: &mut Emitter<'a, '_>) {
    let status = if end.cancelled.is_true() { AgentStatus::Stopped } else { status };
    let (evidence, error) = (EndEvidence::Notification, out.raw(end.error));
    out.emit(Fact::AgentEnd(AgentEnd { agent, status, evidence, error, ..AgentEnd::default() }));
}

/// Emits that an agent in the background has ended a turn, if the line reports it: later turns may have no other
/// end.
fn idle(notification: &Notification<'_>, out: &mut Emitter<'_, '_>) {
    let kind = &notification.kind;
    match kind.agent_id.filled().filter(|_| kind.kind.is("agent_idle")) {
        Some(agent) => out.emit_made(Fact::AgentEnd(AgentEnd {
            agent: Some(agent),
            status: AgentStatus::Completed,
            evidence: EndEvidence::LastLine,
            ..AgentEnd::default()
        })),
        None => out.emit(Fact::Activity),
    }
}
