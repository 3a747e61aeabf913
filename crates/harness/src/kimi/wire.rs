//! Kimi Code's lines of one agent, `agents/<agent>/wire.jsonl`. Observed: protocol 1.5 of 2.1.0; 1.4 in public examples.
//!
//! Flow: line → [`Line`] → observations. The lines of an agent hold the lives of those that it starts.
//!
//! Pitfalls: lines of two generations say everything twice: those with `kind: "event"` come late and are skipped. Tokens
//! stand three times: `usage.record` counts, also where its scope is the session: it is of a request outside a turn. Its model is the user's alias: the real name is in the request before it.
//! `subagent.completed.usage` sums up the agent's whole life. A session that continues after a kill closes no call.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError, digest,
    lenient::{Flag, LineText, Num, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, Claim, Clock, EndEvidence, EventKind, Fact, Parent, PromptKind, RawJson,
    Response, Sink, SourceKind, Spawn, SpawnBatch, ToolClass, Usage,
};

use super::{
    layout::MAIN,
    tools::{self, Ended},
};
use crate::common::{EMPTY_TEXT, parts::elements};

/// Decodes the lines of one agent.
#[derive(Debug)]
pub(super) struct Wire {
    hint: Hint,
    /// The agent that the lines name.
    own: String,
    /// The working folder that was last emitted.
    cwd: String,
    /// The step that runs: the id of its response, whose tokens were not read yet.
    step: String,
    /// The model of the last request.
    model: String,
    /// The id of the last prompt, and whether a person gave it.
    prompt: (String, bool),
    /// Open calls.
    calls: HashMap<String, OpenCall>,
    /// Agents whose start was read.
    started: HashSet<String>,
}

/// A call whose end was not read.
#[derive(Debug, Default)]
struct OpenCall {
    class: ToolClass,
    /// The agent that it resumes.
    resumed: Option<String>,
    /// Whether the person did not approve it.
    is_denied: bool,
}

/// One line. Fields of all types together.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Line<'a> {
    #[serde(rename = "type")]
    line_type: Str<'a>,
    kind: Str<'a>,
    agent_id: Str<'a>,
    time: Num,
    /// Of a profile or a configuration.
    profile_name: Str<'a>,
    environment_disclosure: Place<'a>,
    cwd: Str<'a>,
    /// Of a prompt.
    input: Option<&'a RawValue>,
    origin: Origin<'a>,
    prompt_id: Str<'a>,
    message: Option<&'a RawValue>,
    event: Option<&'a RawValue>,
    /// Of a request, or of its tokens.
    model: Str<'a>,
    usage: Option<Tokens>,
    usage_scope: Str<'a>,
    /// Of the person's answer to the question whether a call is allowed.
    tool_call_id: Str<'a>,
    result: Approval<'a>,
    /// Of the first line.
    #[serde(rename = "app_version")]
    app_version: Str<'a>,
    /// Of a failed request.
    failed_attempt: Num,
    max_attempts: Num,
    delay_ms: Option<f64>,
    error_message: Str<'a>,
    /// Of the end of a turn.
    reason: Str<'a>,
    error: Option<&'a RawValue>,
    /// Of an agent that was started here.
    subagent_id: Str<'a>,
    subagent_name: Str<'a>,
    parent_tool_call_id: Str<'a>,
    parent_agent_id: Str<'a>,
    caller_agent_id: Str<'a>,
    description: Str<'a>,
    swarm_index: Num,
    run_in_background: Flag,
    result_summary: Option<&'a RawValue>,
    info: Option<Task<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Place<'a> {
    cwd: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Approval<'a> {
    decision: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Origin<'a> {
    kind: Str<'a>,
    name: Str<'a>,
}

/// Tokens of one response.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Tokens {
    input_other: Num,
    output: Num,
    input_cache_read: Num,
    input_cache_creation: Num,
}

impl Tokens {
    fn usage(self) -> Usage {
        let kinds = [self.input_other, self.output, self.input_cache_read, self.input_cache_creation];
        Usage::of_parts(kinds.map(|kind| kind.0), None)
    }
}

/// A task in the background.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Task<'a> {
    kind: Str<'a>,
    agent_id: Str<'a>,
    status: Str<'a>,
    ended_at: Num,
}

/// A message of the conversation.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Message<'a> {
    id: Str<'a>,
    content: Option<&'a RawValue>,
    origin: Origin<'a>,
}

/// A part of a message, or of an answer.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Part<'a> {
    text: Option<&'a RawValue>,
    think: Option<&'a RawValue>,
}

/// What happens in a step.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    uuid: Str<'a>,
    step_uuid: Str<'a>,
    tool_call_id: Str<'a>,
    name: Str<'a>,
    args: Option<&'a RawValue>,
    result: CallResult<'a>,
    part: Part<'a>,
    finish_reason: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct CallResult<'a> {
    output: Option<&'a RawValue>,
    is_error: Flag,
    duration_ms: Num,
}

/// The error that ended a turn.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct TurnError<'a> {
    message: Option<&'a RawValue>,
}

fn parse<'a, T: Default + Deserialize<'a>>(raw: Option<&'a RawValue>) -> T {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

impl Wire {
    /// A decoder for the file that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self {
            hint: hint.clone(),
            own: String::new(),
            cwd: String::new(),
            step: String::new(),
            model: String::new(),
            prompt: (String::new(), true),
            calls: HashMap::new(),
            started: HashSet::new(),
        }
    }

    /// Emits the folder and the kind of the agent whose lines these are.
    fn profile<'a>(&mut self, line: &Line<'a>, out: &mut Emitter<'a, '_>) {
        if let Claim::Agent(agent, _) = out.head.claim {
            let agent_type = line.profile_name.0.clone().filter(|name| !name.is_empty());
            return out.emit_made(Fact::Spawn(Spawn { agent: Some(agent), agent_type, ..Spawn::default() }));
        }
        let named = line.environment_disclosure.cwd.filled().or(line.cwd.filled());
        match named.filter(|cwd| *cwd != self.cwd) {
            Some(cwd) => {
                cwd.clone_into(&mut self.cwd);
                let cwd = Some(Cow::Borrowed(cwd));
                out.emit_made(Fact::Session { version: None, cwd, model: None, tells_starts: true });
            }
            None => out.emit(Fact::Activity),
        }
    }

    /// Emits a prompt, which begins a turn: the person's, the task of an agent, or one that the program gave.
    fn prompt<'a>(&mut self, line: &Line<'a>, out: &mut Emitter<'a, '_>) {
        let is_root = matches!(out.head.claim, Claim::Root(_));
        let is_task = line.origin.kind.is("system_trigger") && line.origin.name.is("subagent");
        let is_asked = if is_root { line.origin.kind.is("user") } else { is_task };
        self.prompt = (line.prompt_id.get().unwrap_or_default().to_owned(), is_asked);
        out.emit(Fact::TurnStart);
        let what = if is_asked { PromptKind::Asked } else { PromptKind::Meta };
        texts(line.input, what, out);
    }

    /// Emits a message of the conversation, unless it is the prompt of the turn or what the program adds to it.
    fn message<'a>(&self, line: &Line<'a>, out: &mut Emitter<'a, '_>) {
        let message: Message<'a> = parse(line.message);
        let is_new = message.id.filled().is_some_and(|id| id != self.prompt.0);
        if message.origin.kind.is("user") && is_new {
            // Said while the turn ran.
            texts(message.content, PromptKind::Meta, out);
        } else {
            out.emit(Fact::Activity);
        }
    }

    fn event<'a>(&mut self, event: &Event<'a>, out: &mut Emitter<'a, '_>) {
        let message_id = event.step_uuid.filled();
        match event.kind.get().unwrap_or_default() {
            "step.begin" => {
                self.step = event.uuid.get().unwrap_or_default().to_owned();
                out.emit(Fact::Activity);
            }
            "content.part" => {
                if let Some(text) = out.raw(event.part.text) {
                    out.emit_made(Fact::Message { message_id, text });
                } else if event.part.think.is_some() {
                    out.emit_made(Fact::Thought { message_id, text: out.raw(event.part.think) });
                } else {
                    out.emit(Fact::Activity);
                }
            }
            "tool.call" => {
                let name = event.name.get().unwrap_or_default();
                let digest = digest(name, event.args.map_or("", RawValue::get));
                let id = event.tool_call_id.filled();
                let (begin, resumed) = tools::begin(id, name, event.args, out.line, digest);
                if let Some(id) = id {
                    let call = OpenCall { class: begin.class, resumed, is_denied: false };
                    self.calls.insert(id.to_owned(), call);
                }
                out.emit_made(Fact::CallBegin(begin));
            }
            "tool.result" => {
                let id = event.tool_call_id.filled();
                let call = id.and_then(|id| self.calls.remove(id)).unwrap_or_default();
                let ended = Ended {
                    id,
                    class: call.class,
                    is_error: Some(event.result.is_error.is_true()),
                    is_denied: call.is_denied,
                    output: event.result.output,
                    duration_ms: event.result.duration_ms.signed(),
                    resumed: call.resumed.as_deref(),
                };
                let result = out.raw(event.result.output);
                ended.emit(result, &mut |end, _| out.emit_made(Fact::CallEnd(end)));
            }
            // A request that failed has used nothing.
            "step.end" if event.finish_reason.is("error") => out.emit_made(Fact::Response(Response {
                message_id: event.uuid.get().unwrap_or_default(),
                model: Some(self.model.as_str()).filter(|model| !model.is_empty()),
                usage: Some(Usage::of_parts([Some(0); 4], None)),
                has_stop_reason: true,
                accounts_only: true,
                ..Response::default()
            })),
            "step.end" if event.finish_reason.is("tool_use") || event.finish_reason.is("end_turn") => {
                out.emit_made(Fact::Response(Response {
                    message_id: event.uuid.get().unwrap_or_default(),
                    has_stop_reason: true,
                    has_call: event.finish_reason.is("tool_use"),
                    // Only the line about its end ends a turn.
                    ..Response::default()
                }));
            }
            _ => out.emit(Fact::Activity),
        }
    }

    /// Emits the tokens of a response: the only line that counts them.
    fn tokens<'a>(&mut self, line: &Line<'a>, out: &mut Emitter<'a, '_>) {
        let Some(tokens) = line.usage else { return out.emit(Fact::Activity) };
        let by_place;
        let is_of_turn = !line.usage_scope.is("session");
        let step = if is_of_turn { std::mem::take(&mut self.step) } else { String::new() };
        let message_id = if step.is_empty() {
            let session = self.hint.session.as_deref().unwrap_or_default();
            let by_path = self.hint.agent.as_deref().unwrap_or(MAIN);
            let agent = if self.own.is_empty() { by_path } else { &self.own };
            by_place = format!("{session}/{agent}/{}", out.line.place.offset);
            by_place.as_str()
        } else {
            step.as_str()
        };
        out.emit_made(Fact::Response(Response {
            message_id,
            model: Some(self.model.as_str()).filter(|model| !model.is_empty()),
            usage: Some(tokens.usage()),
            has_stop_reason: true,
            accounts_only: true,
            ..Response::default()
        }));
    }

    /// Emits the start of an agent, or that one continues.
    fn spawned<'a>(&mut self, line: &Line<'a>, out: &mut Emitter<'a, '_>) {
        let Some(agent) = line.subagent_id.filled() else { return out.emit(Fact::Activity) };
        let call = line.parent_tool_call_id.filled();
        let is_resumed =
            call.and_then(|call| self.calls.get(call)).is_some_and(|call| call.resumed.is_some());
        let is_known = !self.started.insert(agent.to_owned());
        let is_by_parent = line.caller_agent_id.filled().is_none_or(|caller| line.parent_agent_id.is(caller));
        let is_first = !is_resumed && !is_known && is_by_parent;
        let is_swarm = line.swarm_index.0.is_some();
        let parent = match line.parent_agent_id.filled() {
            Some(MAIN) => Some(Parent::Root),
            Some(parent) => Some(Parent::Agent(parent)),
            None => None,
        };
        out.emit_made(Fact::Spawn(Spawn {
            agent: Some(agent),
            call: call.filter(|_| !is_swarm),
            parent,
            agent_type: line.subagent_name.0.clone().filter(|name| !name.is_empty()),
            description: line.description.0.clone().filter(|_| is_first),
            mode: line.run_in_background.0.filter(|_| is_first).map(tools::mode),
            starts: true,
            is_origin: is_first && !is_swarm,
            detached: is_swarm,
            batch: call.filter(|_| is_swarm && is_first).map(SpawnBatch::Call),
            ..Spawn::default()
        }));
    }
}

impl LineDecoder for Wire {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let line: Line<'_> = serde_json::from_str(text.text)?;
        let Some(kind) = line.line_type.filled() else {
            return Err(LineError::MissingField { item: "a line of an agent", field: "type" });
        };
        let is_root_file = self.hint.agent.is_none();
        if line.kind.is("event") || (kind == "metadata" && !is_root_file) {
            return Ok(());
        }
        if let Some(agent) = line.agent_id.filled().filter(|agent| *agent != self.own) {
            agent.clone_into(&mut self.own);
        }
        let (session, own, by_path) = (self.hint.session.clone(), self.own.clone(), self.hint.agent.clone());
        // The name of a copied file names nobody: an earlier line of it does.
        let claim = match (own.as_str(), by_path.as_deref()) {
            (MAIN, _) => Claim::Root(Basis::Wire),
            ("", Some(agent)) => Claim::Agent(agent, Basis::Link),
            ("", None) => Claim::Root(Basis::Link),
            (agent, _) => Claim::Agent(agent, Basis::Wire),
        };
        let mut out = Emitter::new(SourceKind::Transcript, Clock::Transcript, claim, text, sink);
        out.head.time = line.time.signed();
        out.head.session = session.as_deref();
        match kind {
            "profile.bind" | "config.update" => self.profile(&line, &mut out),
            "metadata" => {
                let version = line.app_version.filled();
                out.emit_made(Fact::Session { version, cwd: None, model: None, tells_starts: true });
            }
            "turn.prompt" => self.prompt(&line, &mut out),
            // Said while the turn runs.
            "turn.steer" => texts(line.input, PromptKind::Meta, &mut out),
            "context.apply_compaction" => out.emit(COMPACTED),
            "permission.record_approval_result" => {
                let call = line.tool_call_id.get().and_then(|id| self.calls.get_mut(id));
                if let Some(call) = call.filter(|_| line.result.decision.filled().is_some()) {
                    call.is_denied = !line.result.decision.is("approved");
                }
                out.emit(Fact::Activity);
            }
            "context.append_message" => self.message(&line, &mut out),
            "context.append_loop_event" => self.event(&parse(line.event), &mut out),
            "llm.request" => {
                if let Some(model) = line.model.filled() {
                    model.clone_into(&mut self.model);
                }
                out.emit(Fact::Activity);
            }
            "usage.record" => self.tokens(&line, &mut out),
            "turn.step.retrying" => retrying(&line, &mut out),
            "turn.ended" => ended(&line, self.prompt.1, &mut out),
            "subagent.spawned" => self.spawned(&line, &mut out),
            "subagent.completed" | "subagent.failed" | "subagent.cancelled" => {
                let status = kind.split_once('.').and_then(|(_, word)| tools::status(word));
                let (report, error) = (out.raw(line.result_summary), out.raw(line.error));
                if let (Some(agent), Some(tokens)) = (line.subagent_id.filled(), line.usage) {
                    // For where the agent's own lines are gone.
                    let totals = Fact::Totals { usage: tokens.usage(), cost_micro_usd: None };
                    out.emit_of(Claim::Agent(agent, Basis::Link), out.head.time, totals);
                }
                agent_ended(line.subagent_id.filled(), status, (report, error), &mut out);
            }
            "task.terminated" => {
                let task = line.info.as_ref().filter(|task| task.kind.is("agent"));
                let status = task.and_then(|task| task.status.get()).and_then(tools::status);
                let time = task.and_then(|task| task.ended_at.signed());
                out.head.time = time.or(out.head.time);
                agent_ended(task.and_then(|task| task.agent_id.filled()), status, (None, None), &mut out);
            }
            // Book-keeping; new types are read like these until they are known.
            _ => out.emit(Fact::Activity),
        }
        Ok(())
    }
}

/// The conversation was compacted.
const COMPACTED: Fact<'static> =
    Fact::Note { kind: EventKind::CompactPost, data: RawJson { json: "{}", offset: u64::MAX } };

/// What the program puts in front of a task.
const CONTEXT: (&str, &str) = ("<git-context>", "</git-context>");

/// Emits the texts of a prompt.
fn texts<'a>(parts: Option<&'a RawValue>, what: PromptKind, out: &mut Emitter<'a, '_>) {
    let mut has_text = false;
    for part in elements::<Part<'a>>(parts) {
        let Some(text) = out.raw(part.text) else { continue };
        has_text = true;
        let words = text.text();
        let task = words.strip_prefix(CONTEXT.0).and_then(|rest| rest.split_once(CONTEXT.1));
        let task = task.map(|(_, task)| serde_json::Value::from(task.trim_start()).to_string());
        let text = task.as_deref().map_or(text, |json| RawJson { json, offset: u64::MAX });
        out.emit_made(Fact::Prompt { prompt_id: None, text, what });
    }
    if !has_text {
        // A person may send images only.
        out.emit(Fact::Prompt { prompt_id: None, text: EMPTY_TEXT, what });
    }
}

fn retrying<'a>(line: &Line<'a>, out: &mut Emitter<'a, '_>) {
    let number = |field: Num| field.0.and_then(|number| u32::try_from(number).ok());
    let (Some(attempt), Some(limit)) = (number(line.failed_attempt), number(line.max_attempts)) else {
        return out.emit(Fact::Activity);
    };
    let agent = match out.head.claim {
        Claim::Agent(agent, _) => Some(agent),
        Claim::Root(_) | Claim::SpawnedBy(_) | Claim::Chain { .. } | Claim::Silent => None,
    };
    let delay = line.delay_ms.filter(|delay| (0.0..1e12).contains(delay));
    out.emit_made(Fact::Retry {
        agent,
        attempt,
        limit,
        // In range by the filter.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        delay_ms: delay.map(|delay| delay as u64),
        error: line.error_message.0.clone().unwrap_or_default(),
    });
}

/// Emits the end of a turn: the strongest evidence of how its agent ended.
fn ended<'a>(line: &Line<'a>, counts_run: bool, out: &mut Emitter<'a, '_>) {
    let Some(status) = line.reason.get().and_then(tools::status) else { return out.emit(Fact::Activity) };
    let error: TurnError<'a> = parse(line.error);
    let (error, evidence) = (out.raw(error.message), EndEvidence::Notification);
    match out.head.claim {
        Claim::Root(_) => {
            if let Some(text) = error.filter(|_| status == AgentStatus::Failed) {
                out.emit_made(Fact::Message { message_id: None, text });
            }
            out.emit_made(Fact::TurnEnd { status, evidence, counts_run, text: error });
        }
        Claim::Agent(..) | Claim::SpawnedBy(_) | Claim::Chain { .. } | Claim::Silent => {
            out.emit_made(Fact::AgentEnd(AgentEnd { status, evidence, error, ..AgentEnd::default() }));
        }
    }
}

/// Emits the end of an agent that was started here, with its report and its error.
fn agent_ended<'a>(
    agent: Option<&str>,
    status: Option<AgentStatus>,
    (report, error): (Option<RawJson<'a>>, Option<RawJson<'a>>),
    out: &mut Emitter<'a, '_>,
) {
    let (Some(agent), Some(status)) = (agent, status) else { return out.emit(Fact::Activity) };
    let evidence = EndEvidence::Notification;
    out.emit_made(Fact::AgentEnd(AgentEnd {
        agent: Some(agent),
        status,
        evidence,
        report,
        error,
        ..AgentEnd::default()
    }));
}
