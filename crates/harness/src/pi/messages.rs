//! Messages of a session: prompts, answers of the model with their tokens and calls, results of calls. Files and streams
//! hold the same objects.
//!
//! Pitfalls: a request that failed and is repeated leaves a message, too. Only some end a turn: a result that an agent
//! hands back does, its answer then calls a tool. Names of agents stand in arguments, results and messages; an agent's
//! own lines have an id of their own.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter,
    lenient::{Flag, Num, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallEnd, Claim, EndEvidence, Fact, Outcome, Parent, PromptKind, RawJson,
    Response, Spawn, SpawnBatch, SpawnMode, SpawnResult, TitleOrigin,
};

use super::{
    OPENCLAW,
    envelopes::{self, ChatEnvelope},
    tools::{
        self, HUB, Job, OPENCLAW_SHELL, OPENCLAW_SPAWN, Receipt, ReportedAgent, ResultDetails, SPAWN, Tokens,
        YIELD,
    },
};
use crate::common::{
    EMPTY_TEXT,
    parts::{elements, string},
};

/// What the program puts in front of an agent's task.
const TASK_WORDS: &str = "Complete assignment thoroughly:\n\n";

/// The messages of one file or stream.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// The agent whose they are; `None` for the root.
    pub(super) own: Option<String>,
    /// Whether they are OpenClaw's.
    is_openclaw: bool,
    /// Whether a person's prompt began the turn.
    is_asked: bool,
    /// Whether a turn is at work, and whether one ever was.
    is_at_work: bool,
    has_worked: bool,
    /// Open calls that start agents: their names.
    calls: HashMap<String, Vec<String>>,
    /// Names of the agents that calls were to start, each with how often.
    names: HashMap<String, u32>,
    /// Agents of OpenClaw: when they were started.
    accepted: HashMap<String, Option<i64>>,
    /// Agents whose start was emitted, and those whose end was.
    started: HashSet<String>,
    ended: HashSet<String>,
}

/// A message.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
pub(super) struct Message<'a> {
    pub(super) role: Str<'a>,
    pub(super) content: Option<&'a RawValue>,
    pub(super) attribution: Str<'a>,
    timestamp: Num,
    completed_at: Num,
    pub(super) provider: Str<'a>,
    model: Str<'a>,
    usage: Option<Tokens>,
    stop_reason: Str<'a>,
    error_message: Option<&'a RawValue>,
    retry_recovery: Recovery<'a>,
    response_id: Str<'a>,
    tool_call_id: Str<'a>,
    tool_name: Str<'a>,
    is_error: Flag,
    details: Option<&'a RawValue>,
    /// Of a command that the person ran.
    command: Option<&'a RawValue>,
    pub(super) custom_type: Str<'a>,
}

/// What became of a request that failed.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Recovery<'a> {
    status: Str<'a>,
    attempt: Num,
}

/// Why OpenClaw got no answer.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct PromptError<'a> {
    error: Option<&'a RawValue>,
}

/// A part of a message.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Part<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    text: Option<&'a RawValue>,
    thinking: Option<&'a RawValue>,
    id: Str<'a>,
    name: Str<'a>,
    arguments: Option<&'a RawValue>,
}

pub(super) fn parse<'a, T: Default + Deserialize<'a>>(raw: Option<&'a RawValue>) -> T {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

impl Message<'_> {
    /// Its time: when an answer was complete.
    pub(super) fn time(&self) -> Option<i64> {
        self.completed_at.signed().or(self.timestamp.signed())
    }

    /// The id that its line has in files and streams.
    pub(super) fn line_id(&self) -> Option<String> {
        let at = self.timestamp.0?;
        let call = self.tool_call_id.get().unwrap_or_default();
        Some(format!("{}/{at}/{call}", self.role.get().unwrap_or_default()))
    }
}

impl Messages {
    /// Those of an agent, or of the root.
    pub(super) fn of(own: Option<String>) -> Self {
        Self { own, ..Self::default() }
    }

    /// Those of a session of OpenClaw.
    pub(super) fn of_openclaw() -> Self {
        Self { is_openclaw: true, ..Self::default() }
    }

    /// Emits a message.
    pub(super) fn emit<'a>(&mut self, message: &Message<'a>, out: &mut Emitter<'a, '_>) {
        match message.role.get().unwrap_or_default() {
            "user" if self.is_openclaw => self.enveloped(message.content, out),
            "user" => {
                let is_asked = self.own.is_some() || !message.attribution.is("agent");
                self.prompt(message.content, is_asked, out);
            }
            "assistant" => self.answer(message, out),
            "toolResult" => self.result(message, out),
            "bashExecution" => match out.raw(message.command) {
                Some(text) => {
                    out.emit_made(Fact::Prompt { prompt_id: None, text, what: PromptKind::Local });
                }
                None => out.emit(Fact::Activity),
            },
            "custom" => self.notice(message, out),
            _ => out.emit(Fact::Activity),
        }
    }

    fn turn_start(&mut self, out: &mut Emitter<'_, '_>) {
        self.has_worked = true;
        if !std::mem::replace(&mut self.is_at_work, true) {
            out.emit_made(Fact::TurnStart);
        }
    }

    /// Emits what begins a turn, or is said while one runs.
    fn prompt<'a>(&mut self, content: Option<&'a RawValue>, is_asked: bool, out: &mut Emitter<'a, '_>) {
        self.is_asked |= is_asked;
        self.turn_start(out);
        let what = if is_asked { PromptKind::Asked } else { PromptKind::Meta };
        let mut has_text = false;
        let plain = content.filter(|raw| raw.get().starts_with('"'));
        let parts: Vec<Part<'a>> = elements(content);
        for text in plain.into_iter().chain(parts.iter().filter_map(|part| part.text)) {
            has_text = true;
            let text = out.line.raw(text);
            let words = text.text();
            let task = words.strip_prefix(TASK_WORDS).filter(|_| self.own.is_some());
            let task = task.map(|task| serde_json::Value::from(task).to_string());
            let text = task.as_deref().map_or(text, made);
            out.emit_made(Fact::Prompt { prompt_id: None, text, what });
        }
        if !has_text {
            out.emit(Fact::Prompt { prompt_id: None, text: EMPTY_TEXT, what });
        }
    }

    /// Emits what a person wrote to OpenClaw, or what it says in its own words.
    fn enveloped<'a>(&mut self, content: Option<&'a RawValue>, out: &mut Emitter<'a, '_>) {
        let parts: Vec<Part<'a>> = elements(content);
        let text =
            content.filter(|raw| raw.get().starts_with('"')).or(parts.iter().find_map(|part| part.text));
        let words = string(text).unwrap_or_default();
        let envelope = ChatEnvelope::open(&words);
        if envelope.is_notice {
            self.announced(&words, out);
            return self.unasked(content, out);
        }
        self.prompt(content, true, out);
        if !envelope.text.is_empty() {
            let text = envelope.text.to_owned().into();
            out.emit_made(Fact::Title { text, origin: TitleOrigin::Prompt });
        }
        if let Some(job) = envelope.job {
            out.emit_made(Fact::Title { text: job.to_owned().into(), origin: TitleOrigin::Harness });
        }
    }

    /// Emits the ends of agents that OpenClaw announces.
    fn announced(&mut self, words: &str, out: &mut Emitter<'_, '_>) {
        for end in envelopes::announced(words) {
            let agent = agent_of(end.key);
            if !self.ended.insert(agent.to_owned()) {
                continue;
            }
            // It may be announced later: the agent that it started was busy.
            let began = self.accepted.get(agent).copied().flatten();
            let by_runtime =
                began.zip(end.runtime_ms).and_then(|(began, runtime)| began.checked_add(runtime));
            let at = match (by_runtime, out.head.time) {
                (Some(at), Some(now)) => Some(at.min(now)),
                (at, now) => at.or(now),
            };
            out.emit_of(Claim::Agent(agent, Basis::Link), at, Fact::Activity);
            let json = |text: &str| serde_json::Value::from(text).to_string();
            let (report, error) = (json(end.report), end.error.map(json));
            out.emit_made(Fact::AgentEnd(AgentEnd {
                agent: Some(agent),
                status: end.status,
                evidence: EndEvidence::Notification,
                report: (!end.report.is_empty()).then_some(made(&report)),
                error: error.as_deref().map(made),
                ..AgentEnd::default()
            }));
        }
    }

    /// Emits that OpenClaw could not get an answer, or was to give up, which ends what is at work.
    pub(super) fn refused<'a>(&mut self, said: &PromptError<'a>, out: &mut Emitter<'a, '_>) {
        if self.is_at_work {
            let error = out.raw(said.error);
            let is_stop = string(said.error).is_some_and(|word| word == "aborted");
            let status = if is_stop { AgentStatus::Stopped } else { AgentStatus::Failed };
            self.end(status, EndEvidence::Notification, (None, error.filter(|_| !is_stop)), out);
        }
    }

    /// Emits what the program or another agent says.
    pub(super) fn notice<'a>(&mut self, message: &Message<'a>, out: &mut Emitter<'a, '_>) {
        let details: ResultDetails<'a> = parse(message.details);
        match message.custom_type.get().unwrap_or_default() {
            "async-result" => {
                let notice = string(message.content).unwrap_or_default();
                self.jobs(details.jobs, &notice, EndEvidence::SpawnResult, out);
                self.unasked(message.content, out);
            }
            // The agent waits for what it started, or for a person.
            "openclaw.sessions_yield" => {
                self.end(AgentStatus::Completed, EndEvidence::Notification, (None, None), out);
            }
            "irc:incoming" => {
                // What wakes an agent that has ended is its next task.
                let is_task = self.own.is_some() && !self.is_at_work;
                match details.message.filter(|_| is_task) {
                    Some(task) => self.prompt(Some(task), true, out),
                    None => self.unasked(message.content, out),
                }
            }
            _ => self.unasked(message.content, out),
        }
    }

    fn unasked<'a>(&mut self, content: Option<&'a RawValue>, out: &mut Emitter<'a, '_>) {
        self.is_asked &= self.is_at_work;
        self.prompt(content, false, out);
    }

    fn answer<'a>(&mut self, message: &Message<'a>, out: &mut Emitter<'a, '_>) {
        let reason = message.stop_reason.get().unwrap_or_default();
        let parts: Vec<Part<'a>> = elements(message.content);
        let has_call = parts.iter().any(|part| part.kind.is("toolCall"));
        if self.is_openclaw && message.provider.is(OPENCLAW.name) {
            // What it has sent to a chat stands here as an answer, too. No model gave it, and no turn begins.
            for part in &parts {
                if let Some(text) = said(part, out) {
                    out.emit_made(Fact::Message { message_id: None, text });
                }
            }
            // It says nothing about how a turn ended. Where there was none, it is all that the session did.
            if !self.has_worked {
                self.end(AgentStatus::Completed, EndEvidence::Notification, (None, None), out);
            }
            return self.alive(out);
        }
        if !["error", "aborted"].contains(&reason) {
            self.turn_start(out);
        }
        self.tokens(message, has_call, out);
        for part in &parts {
            let text = said(part, out);
            match part.kind.get().unwrap_or_default() {
                "toolCall" => self.call(part, out),
                "thinking" => {
                    out.emit_made(Fact::Thought { message_id: None, text: out.raw(part.thinking) });
                }
                _ => {
                    if let Some(text) = text {
                        out.emit_made(Fact::Message { message_id: None, text });
                    }
                }
            }
        }
        let error = out.raw(message.error_message);
        match reason {
            "error" if message.retry_recovery.status.is("superseded") => out.emit_made(Fact::Retry {
                agent: self.own.as_deref(),
                attempt: number(message.retry_recovery.attempt).unwrap_or(1),
                limit: 0,
                delay_ms: None,
                error: string(message.error_message).map(Cow::Owned).unwrap_or_default(),
            }),
            "error" => self.end(AgentStatus::Failed, EndEvidence::Notification, (None, error), out),
            "aborted" => self.end(AgentStatus::Stopped, EndEvidence::Notification, (None, None), out),
            "stop" | "length" if !has_call => {
                self.end(AgentStatus::Completed, EndEvidence::Notification, (None, None), out);
            }
            _ => {}
        }
    }

    /// Emits the tokens of an answer. A request that failed has used none, and says so.
    fn tokens<'a>(&self, message: &Message<'a>, has_call: bool, out: &mut Emitter<'a, '_>) {
        let at = message.timestamp.0.or(out.head.time.and_then(|time| u64::try_from(time).ok()));
        let at = at.map_or_else(|| out.line.place.offset.to_string(), |at| at.to_string());
        // A copy in another session has the same id. Some programs that serve models number their answers.
        let message_id = match message.response_id.filled() {
            Some(id) => format!("{id}/{at}"),
            None => format!(
                "{at}/{}/{}",
                out.head.session.unwrap_or_default(),
                self.own.as_deref().unwrap_or_default()
            ),
        };
        let tokens = message.usage;
        out.emit_made(Fact::Response(Response {
            message_id: &message_id,
            model: message.model.filled(),
            usage: tokens.map(Tokens::usage),
            cost_pico_usd: tokens.and_then(|tokens| tokens.cost(1e12)),
            is_unpriced: tokens.is_some_and(Tokens::is_unpriced),
            has_stop_reason: true,
            has_call,
            ..Response::default()
        }));
    }

    fn call<'a>(&mut self, part: &Part<'a>, out: &mut Emitter<'a, '_>) {
        let id = part.id.filled();
        let (begin, names) = tools::begin(id, part.name.get().unwrap_or_default(), part.arguments, out.line);
        let is_spawn = begin.name == SPAWN;
        out.emit_made(Fact::CallBegin(begin));
        let Some(id) = id.filter(|_| is_spawn) else { return };
        let mut agents = Vec::new();
        let is_single = names.len() == 1;
        for name in names {
            let uses = self.names.entry(name.clone()).or_default();
            *uses += 1;
            // A second agent of a name gets a number.
            let name = if *uses > 1 { format!("{name}-{uses}") } else { name };
            let agent = match &self.own {
                Some(own) => format!("{own}.{name}"),
                None => name,
            };
            // Whether there is such an agent, its own lines or the result say.
            out.emit_made(Fact::Spawn(Spawn {
                agent: Some(&agent),
                is_note: true,
                ..started_by(Some(id), is_single)
            }));
            agents.push(agent);
        }
        self.calls.insert(id.to_owned(), agents);
    }

    fn result<'a>(&mut self, message: &Message<'a>, out: &mut Emitter<'a, '_>) {
        let id = message.tool_call_id.filled();
        let tool = message.tool_name.get().unwrap_or_default();
        let details: ResultDetails<'a> = parse(message.details);
        let parts: Vec<Part<'a>> = elements(message.content);
        let text = parts.first().and_then(|part| string(part.text)).unwrap_or_default();
        let is_error = message.is_error.is_true();
        let receipts: Vec<Receipt<'a>> = elements(details.receipts.filter(|_| tool == HUB));
        let woken = receipts.iter().find(|receipt| receipt.has_woken());
        let outcome = match is_error || !self.is_openclaw {
            true => tools::outcome(is_error, &text),
            false => details.outcome(tool),
        };
        let is_spawn = self.is_openclaw && tool == OPENCLAW_SPAWN;
        let child = details.child.filled().filter(|_| is_spawn && details.status.is("accepted"));
        out.emit_made(Fact::CallEnd(CallEnd {
            id,
            name: message.tool_name.filled(),
            outcome,
            result: out.raw(message.content),
            spawn: child.map(|key| SpawnResult {
                agent: Some(agent_of(key)),
                finished: Some(false),
                proves_agent: true,
                ..SpawnResult::default()
            }),
            refused: is_spawn && child.is_none() && outcome != Outcome::Ok,
            resumed: woken.and_then(|receipt| receipt.to.filled()),
            left_running: self.is_openclaw && tool == OPENCLAW_SHELL && details.status.is("running"),
            ..CallEnd::default()
        }));
        if let Some(key) = child {
            out.emit_made(Fact::Spawn(Spawn {
                agent: Some(agent_of(key)),
                parent: Some(Parent::Root),
                starts: true,
                ..started_by(id, true)
            }));
            out.emit_of(Claim::Agent(agent_of(key), Basis::Link), out.head.time, Fact::Activity);
            self.accepted.insert(agent_of(key).to_owned(), out.head.time);
        }
        match tool {
            SPAWN => {
                self.agents(id, &details, out);
                id.map(|id| self.calls.remove(id));
            }
            YIELD if !is_error => {
                let error = details.error.filter(|error| error.get() != "null");
                let status = match error {
                    None if details.status.is("success") => AgentStatus::Completed,
                    None | Some(_) => AgentStatus::Failed,
                };
                let said = (out.raw(details.data), out.raw(error));
                self.end(status, EndEvidence::Notification, said, out);
            }
            HUB => self.jobs(details.jobs, &text, EndEvidence::StopCall, out),
            _ => {}
        }
    }

    /// Emits what the result of a call, or its progress, says of the agents that it started.
    pub(super) fn agents<'a>(
        &mut self,
        call: Option<&str>,
        details: &ResultDetails<'a>,
        out: &mut Emitter<'a, '_>,
    ) {
        let mode = if details.background.is_some() { SpawnMode::Background } else { SpawnMode::Foreground };
        let results: Vec<ReportedAgent<'a>> = elements(details.results);
        for report in elements(details.progress).into_iter().chain(results) {
            self.agent(call, &report, mode, out);
        }
    }

    fn agent<'a>(
        &mut self,
        call: Option<&str>,
        report: &ReportedAgent<'a>,
        mode: SpawnMode,
        out: &mut Emitter<'a, '_>,
    ) {
        let Some(id) = report.id.filled() else { return };
        let parent = self.own.as_deref().map_or(Parent::Root, Parent::Agent);
        let is_single = call.and_then(|call| self.calls.get(call)).is_some_and(|names| names.len() == 1);
        let is_new = self.started.insert(id.to_owned());
        let is_background = mode == SpawnMode::Background;
        if is_new || is_background {
            out.emit_made(Fact::Spawn(Spawn {
                agent: Some(id),
                parent: Some(parent),
                agent_type: report.agent_type.0.clone().filter(|kind| !kind.is_empty()),
                name: Some(Cow::Borrowed(name_of(id, self.own.as_deref()))),
                mode: is_background.then_some(mode),
                starts: is_new,
                ..started_by(call, is_single)
            }));
        }
        if let Some(tokens) = report.usage {
            // For where the agent's own lines are not read.
            let cost_micro_usd = tokens.cost(1e6).and_then(|cost| i64::try_from(cost).ok());
            let totals = Fact::Totals { usage: tokens.usage(), cost_micro_usd };
            out.emit_of(Claim::Agent(id, Basis::Link), out.head.time, totals);
        }
        let has_ended = report.ended();
        if let Some(status) = has_ended.filter(|_| self.ended.insert(id.to_owned())) {
            let (report, error) = (out.raw(report.output), out.raw(report.error));
            out.emit_made(Fact::AgentEnd(AgentEnd {
                agent: Some(id),
                status,
                evidence: EndEvidence::SpawnResult,
                report: report.filter(|_| status == AgentStatus::Completed),
                error,
                ..AgentEnd::default()
            }));
        }
    }

    /// Emits the ends of agents in the background.
    fn jobs<'a>(
        &self,
        jobs: Option<&'a RawValue>,
        notice: &str,
        evidence: EndEvidence,
        out: &mut Emitter<'a, '_>,
    ) {
        for job in elements::<Job<'a>>(jobs) {
            let Some((agent, status)) = job.agent().zip(job.ended(notice)) else { continue };
            // Only of those that were stopped the tool that lists jobs may be the reason.
            let is_stop = status == AgentStatus::Stopped && evidence == EndEvidence::StopCall;
            let evidence = if is_stop { evidence } else { EndEvidence::SpawnResult };
            out.emit_made(Fact::AgentEnd(AgentEnd {
                agent: Some(agent),
                status,
                evidence,
                ..AgentEnd::default()
            }));
        }
    }

    /// Emits the end of a turn.
    pub(super) fn end(
        &mut self,
        status: AgentStatus,
        evidence: EndEvidence,
        (report, error): (Option<RawJson<'_>>, Option<RawJson<'_>>),
        out: &mut Emitter<'_, '_>,
    ) {
        self.is_at_work = false;
        if self.own.is_some() {
            return out.emit_made(Fact::AgentEnd(AgentEnd {
                status,
                evidence,
                report,
                error,
                ..AgentEnd::default()
            }));
        }
        let counts_run = std::mem::take(&mut self.is_asked);
        if let Some(text) = error {
            out.emit_made(Fact::Message { message_id: None, text });
        }
        out.emit_made(Fact::TurnEnd { status, evidence, counts_run, text: error });
    }

    /// Emits that what is at work is so still: what stands in front of the first prompt is of no turn.
    pub(super) fn alive(&self, out: &mut Emitter<'_, '_>) {
        if self.is_at_work {
            out.emit_made(Fact::Activity);
        }
    }

    /// Emits that the process was ended by a signal, which stops what is at work.
    pub(super) fn signal(&mut self, out: &mut Emitter<'_, '_>) {
        if self.is_at_work {
            self.end(AgentStatus::Stopped, EndEvidence::LastLine, (None, None), out);
        }
    }
}

/// A text that stands in no line as it is.
fn made(json: &str) -> RawJson<'_> {
    RawJson { json, offset: u64::MAX }
}

/// Returns the text of a part of an answer.
fn said<'a>(part: &Part<'a>, out: &Emitter<'a, '_>) -> Option<RawJson<'a>> {
    out.raw(part.text).filter(|text| text.json.len() > 2)
}

/// Returns the id of an agent of OpenClaw: the end of the key of its session.
fn agent_of(key: &str) -> &str {
    key.rsplit(':').next().unwrap_or(key)
}

/// Returns what started an agent: a call of its own, or one for several.
fn started_by(call: Option<&str>, is_single: bool) -> Spawn<'_> {
    match call {
        Some(_) if is_single => Spawn { call, is_origin: true, ..Spawn::default() },
        _ => Spawn { detached: true, batch: call.map(SpawnBatch::Call), ..Spawn::default() },
    }
}

/// Returns the name of an agent: its id without that of its parent.
pub(super) fn name_of<'i>(id: &'i str, parent: Option<&str>) -> &'i str {
    let below = parent.and_then(|parent| id.strip_prefix(parent)?.strip_prefix('.'));
    below.filter(|name| !name.is_empty()).unwrap_or(id)
}

pub(super) fn number(field: Num) -> Option<u32> {
    field.0.and_then(|number| u32::try_from(number).ok())
}
