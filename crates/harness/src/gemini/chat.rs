//! Gemini's conversations on disk: of a session, and of each of its agents.
//!
//! Flow: line → header, `$set` or [`Record`] → observations. A record is written again under its id when its calls have
//! ended; all versions are joined. State: the records and calls that were read, so that a copy of the history adds
//! nothing.
//!
//! Pitfalls, all observed in 0.61.0: `$set.messages` is the whole history, without tokens and calls, or empty after a
//! failure, and never takes anything back; one id names two records there, of a person and of the model. A call appears
//! in no record before all calls of its message have ended: until then only the prompt links an agent to its call. The
//! call of a tool that an agent does not have appears only in its `functionResponse`. The chat of an agent reports a
//! successful end (`$set.summary`), but no other end. Up to 0.39 a chat is one object, and an agent's call names no agent.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError, digest,
    lenient::{LineText, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallEnd, Claim, Clock, EndEvidence, Fact, Outcome, Parent, PromptKind,
    RawJson, Response, Sink, SourceKind, Spawn, SpawnResult, TitleOrigin, ToolClass, Usage, parse_rfc3339,
};

use super::{
    layout::OWN_AGENTS,
    record::{Record, Thought, ToolCall},
    tools::{self, AgentDisplay},
};
use crate::common::{
    emit_failure,
    parts::{Part, elements, string},
};

/// Decodes one chat.
#[derive(Debug)]
pub(super) struct Chat {
    hint: Hint,
    session: Option<String>,
    /// The agent whose chat it is.
    agent: Option<String>,
    /// Its type, where the chat shows it.
    kind: Option<&'static str>,
    is_announced: bool,
    cwd: String,
    /// Records that were read, by type and id: whether one had tokens, and whether one had calls.
    known: HashMap<(bool, String), [bool; 2]>,
    /// Calls whose end was read.
    ended: HashSet<String>,
    /// The longest time in milliseconds from a text until the end of a call that followed it.
    longest_behind_text: i64,
    /// Whether a prompt or the calls of a message wait for an answer of the model.
    is_turn_open: bool,
}

/// One line. Fields of all line types together: they do not collide.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Line<'a> {
    session_id: Str<'a>,
    project_hash: Str<'a>,
    kind: Str<'a>,
    start_time: Str<'a>,
    directories: Option<&'a RawValue>,
    messages: Option<&'a RawValue>,
    summary: Option<&'a RawValue>,
    last_updated: Str<'a>,
    #[serde(rename = "$set")]
    set: Option<&'a RawValue>,
}

/// What a `$set` line changes.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Changes<'a> {
    messages: Option<&'a RawValue>,
    summary: Option<&'a RawValue>,
    last_updated: Str<'a>,
}

/// Beginning of a text that the program itself puts at the start of a conversation.
const CONTEXT: &str = "<session_context>";
/// Beginning of the text before the files that a prompt names; the person's words are another part.
const REFERENCED: &str = "--- Content from referenced files";
/// Beginning of the task of the agent that explores a codebase, and its type. Up to 0.2x its chat has the session's id, in a
/// file of its own. Observed: public chats of December 2025.
const INVESTIGATES: &str = "Your task is to do a deep investigation of the codebase";
const INVESTIGATOR: &str = "codebase_investigator";
/// Message of the program to an agent that stopped without finishing its task.
const REMINDERS: &[&str] = &["You have stopped calling tools", "You have exceeded the"];
/// Beginning of the error of a request to the model. Other errors may be of a command of the program.
const API_ERROR: &str = "[API Error: ";
/// What the program says when a person has stopped it.
const CANCELLED: &[&str] = &["Request cancelled.", "User cancelled the request."];
/// The line of the context before the folders that the session works in.
const FOLDERS: &str = "Workspace Directories:**";

impl Chat {
    /// A decoder for the file that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self {
            session: hint.session.clone(),
            agent: hint.agent.clone(),
            kind: None,
            hint: hint.clone(),
            is_announced: false,
            cwd: String::new(),
            known: HashMap::new(),
            ended: HashSet::new(),
            longest_behind_text: 0,
            is_turn_open: false,
        }
    }

    /// Reads a header: it names the session, or the agent whose chat it is.
    fn header(&mut self, line: &Line<'_>) {
        let named = line.session_id.filled().map(str::to_owned);
        if line.kind.is("subagent") {
            // A copy of a chat has another name.
            self.agent = named.or_else(|| self.agent.take());
            return;
        }
        self.session = self.session.take().or(named);
        let first = elements::<Record<'_>>(line.messages).into_iter().next();
        let task = first.and_then(|first| string(first.content));
        if self.agent.is_none() && task.is_some_and(|task| task.starts_with(INVESTIGATES)) {
            let began = line.start_time.get().unwrap_or_default();
            (self.agent, self.kind) = (Some(format!("{INVESTIGATOR}-{began}")), Some(INVESTIGATOR));
        }
    }

    fn read(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let line: Line<'_> = serde_json::from_str(text.text)?;
        let is_header = line.session_id.filled().is_some() && line.project_hash.filled().is_some();
        if is_header {
            self.header(&line);
        }
        let (session, agent) = (self.session.clone(), self.agent.clone());
        let claim = match agent.as_deref() {
            Some(agent) => Claim::Agent(agent, Basis::Link),
            None => Claim::Root(Basis::Link),
        };
        let mut out = Emitter::new(SourceKind::Transcript, Clock::Transcript, claim, text, sink);
        out.head.session = session.as_deref();
        if is_header {
            out.head.time = line.start_time.get().and_then(parse_rfc3339);
            let folders: Vec<Str<'_>> = elements(line.directories);
            let first = folders.first().and_then(|folder| folder.filled()).map(str::to_owned);
            Self::announce(&mut self.is_announced, agent.as_deref(), self.kind, &mut out);
            emit_folder(&mut self.cwd, first.filter(|_| agent.is_none()), &mut out);
            for record in elements::<Record<'_>>(line.messages) {
                self.record(&record, &mut out);
            }
            summary(line.summary, &line.last_updated, &mut out);
        } else if let Some(set) = line.set {
            let changes: Changes<'_> = serde_json::from_str(set.get()).unwrap_or_default();
            for record in elements::<Record<'_>>(changes.messages) {
                self.copied(&record, &mut out);
            }
            summary(changes.summary, &changes.last_updated, &mut out);
        } else {
            let record: Record<'_> = serde_json::from_str(text.text).unwrap_or_default();
            Self::announce(&mut self.is_announced, agent.as_deref(), self.kind, &mut out);
            self.record(&record, &mut out);
        }
        Ok(())
    }

    /// Emits once that the session has the agent whose chat it is. No agent starts agents.
    fn announce(is_announced: &mut bool, agent: Option<&str>, kind: Option<&str>, out: &mut Emitter<'_, '_>) {
        if let Some(agent) = agent
            && !std::mem::replace(is_announced, true)
        {
            out.emit_made(Fact::Spawn(Spawn {
                agent: Some(agent),
                parent: Some(Parent::Root),
                agent_type: kind.map(Into::into),
                // Its call is in no record.
                detached: kind.is_some(),
                ..Spawn::default()
            }));
            if out.head.session.is_some_and(|session| session.starts_with(OWN_AGENTS)) {
                out.emit(Fact::Warmup);
                out.emit_of(Claim::Root(Basis::Link), None, Fact::Warmup);
            }
            // An agent that failed at its first response has used nothing.
            out.emit(Fact::Totals { usage: Usage::default(), cost_micro_usd: None });
        }
    }

    /// Reads a record of a copy of the history, which adds nothing to a fuller one that was read.
    fn copied<'a>(&mut self, record: &Record<'a>, out: &mut Emitter<'a, '_>) {
        let known = record.id.get().and_then(|id| self.known.get(&key(record, id)));
        let adds = |known: &[bool; 2]| record.fullness().iter().zip(known).any(|(own, known)| own > known);
        if known.is_none_or(adds) {
            self.record(record, out);
        }
    }

    fn record<'a>(&mut self, record: &Record<'a>, out: &mut Emitter<'a, '_>) {
        if let Some(id) = record.id.filled() {
            let known = self.known.entry(key(record, id)).or_default();
            known.iter_mut().zip(record.fullness()).for_each(|(known, own)| *known |= own);
        }
        out.head.time = record.timestamp.get().and_then(parse_rfc3339);
        match record.kind.get() {
            Some("user") => self.user(record, out),
            Some("gemini") => self.answer(record, out),
            Some("error") => self.error(record, out),
            Some("info") if words(record).is_some_and(|words| CANCELLED.contains(&words.trim())) => {
                stopped(out);
            }
            Some(_) => out.emit(Fact::Activity),
            None => {}
        }
        out.head.time = None;
    }

    fn user<'a>(&mut self, record: &Record<'a>, out: &mut Emitter<'a, '_>) {
        let is_root = matches!(out.head.claim, Claim::Root(_));
        let parts: Vec<Part<'a>> = elements(record.content);
        let whole = record.content.filter(|raw| raw.get().starts_with('"'));
        for text in parts.iter().filter_map(|part| part.text).chain(whole) {
            let Some(raw) = out.raw(Some(text)) else { continue };
            let words = raw.text();
            if words.starts_with(CONTEXT) {
                emit_folder(&mut self.cwd, folder_in(&words).filter(|_| is_root), out);
                continue;
            }
            let is_reminder = !is_root && REMINDERS.iter().any(|reminder| words.starts_with(reminder));
            let is_added = is_reminder || words.trim_start().starts_with(REFERENCED);
            let what = if is_added { PromptKind::Meta } else { PromptKind::Asked };
            self.is_turn_open |= what == PromptKind::Asked;
            // Streams and hooks do not have its id: it only identifies records of this chat.
            out.emit_as(record.id.filled(), Fact::Prompt { prompt_id: None, text: raw, what });
        }
        for part in &parts {
            let Some(response) = &part.function_response else { continue };
            let id = response.id.filled().unwrap_or_default();
            if id.is_empty() || !self.ended.insert(id.to_owned()) {
                continue;
            }
            // A call that no record of the model has: the tool is not available to the agent.
            let name = response.name.get().unwrap_or_default();
            let is_spawn = tools::class(name) == ToolClass::Spawn;
            let error = string(response.response.error);
            let outcome = match &error {
                Some(error) => tools::outcome(Some("error"), Some(error)),
                None => Outcome::Ok,
            };
            out.emit_made(Fact::CallBegin(tools::begin(Some(id), name, None, out.line, digest(name, ""))));
            out.emit_made(Fact::CallEnd(CallEnd {
                id: Some(id),
                outcome,
                result: out.raw(response.response.error.or(response.response.output)),
                refused: is_spawn && error.is_some(),
                // A record of the model with the call has more data.
                is_provisional: true,
                ..CallEnd::default()
            }));
        }
    }

    /// Reads what the program reports as an error: the turn has failed with it, if it is of the turn.
    fn error(&self, record: &Record<'_>, out: &mut Emitter<'_, '_>) {
        let text = words(record).unwrap_or_default();
        if self.is_turn_open || text.starts_with(API_ERROR) {
            let json = json_string(&text);
            emit_failure(Some(RawJson { json: &json, offset: u64::MAX }), out);
        } else {
            out.emit(Fact::Activity);
        }
    }

    fn answer<'a>(&mut self, record: &Record<'a>, out: &mut Emitter<'a, '_>) {
        // Where no record of the harness ends an agent, its text does.
        let tells_end = matches!(out.head.claim, Claim::Root(_)) || self.kind.is_some();
        let message_id = record.id.filled();
        if let (Some(tokens), Some(id)) = (record.tokens, message_id) {
            out.emit_made(Fact::Response(Response {
                message_id: id,
                model: record.model.filled(),
                usage: Some(tokens.usage()),
                has_stop_reason: true,
                accounts_only: true,
                is_unpriced: true,
                ..Response::default()
            }));
        }
        let calls: Vec<ToolCall<'a>> = elements(record.tool_calls);
        let parts: Vec<Part<'a>> = elements(record.content);
        let has_call = !calls.is_empty() || parts.iter().any(|part| part.function_call.is_some());
        let has_text = match record.content.map(RawValue::get) {
            Some(json) if json.starts_with('"') => json.len() > 2,
            _ => parts.iter().any(|part| part.text.is_some()),
        };
        self.is_turn_open = has_call || !has_text;
        if has_text && let Some(written) = out.head.time {
            let ends = calls.iter().filter_map(|call| call.timestamp.get().and_then(parse_rfc3339));
            let longest = ends.map(|end| end - written).max();
            self.longest_behind_text = self.longest_behind_text.max(longest.unwrap_or_default());
        }
        // A text may be the last one, or the begin of a message whose calls are still open. Only the harness's own
        // message ends an agent. A record without tokens gets no response id: it may come again with them.
        out.emit_made(Fact::Response(Response {
            message_id: message_id.filter(|_| record.tokens.is_some()).unwrap_or_default(),
            model: record.model.filled(),
            has_text,
            has_call: has_call || !tells_end,
            ends_if_last: tells_end.then_some(self.longest_behind_text),
            synthetic: record.tokens.is_none(),
            ..Response::default()
        }));
        for thought in elements::<Thought<'a>>(record.thoughts) {
            if let Some(text) = out.raw(thought.description) {
                out.emit_as(message_id, Fact::Thought { message_id, text: Some(text) });
            }
        }
        if let Some(text) = out.raw(record.content).filter(|_| has_text) {
            out.emit_as(message_id, Fact::Message { message_id, text });
        }
        for (number, call) in calls.iter().enumerate() {
            // Its place names a call without an id: the record is written again with its id.
            let made = match message_id {
                Some(record) => format!("{record}:{number}"),
                None => {
                    let file = self.agent.as_deref().unwrap_or_default();
                    let offset = out.raw(record.tool_calls).map_or(0, |calls| calls.offset);
                    format!("{file}@{offset}:{number}")
                }
            };
            self.call(call, &made, out);
        }
        for call in parts.iter().filter_map(|part| part.function_call.as_ref()) {
            let name = call.name.get().unwrap_or_default();
            let is_known = call.id.filled().is_none_or(|id| self.ended.contains(id));
            if !is_known {
                let digest = digest(name, call.args.map_or("", RawValue::get));
                out.emit_made(Fact::CallBegin(tools::begin(
                    call.id.filled(),
                    name,
                    call.args,
                    out.line,
                    digest,
                )));
            }
        }
    }

    /// Emits a call with its end, and with that of the agent that it started. `made` is its id where it has none.
    fn call<'a>(&mut self, call: &ToolCall<'a>, made: &str, out: &mut Emitter<'a, '_>) {
        let own_id = call.id.filled();
        let id = Some(own_id.unwrap_or(made));
        let name = call.name.get().unwrap_or_default();
        let response = call.response().map(|response| response.response).unwrap_or_default();
        let text = string(response.output.or(response.error)).or(string(call.result_display));
        let display: AgentDisplay<'a> = match call.result_display {
            Some(raw) if raw.get().starts_with('{') => serde_json::from_str(raw.get()).unwrap_or_default(),
            Some(_) | None => AgentDisplay::default(),
        };
        let agent = call.agent_id.filled();
        let status = display.status().or_else(|| text.as_deref().and_then(tools::reason_in_text));
        let digest = digest(name, call.args.map_or("", RawValue::get));
        let mut begin = tools::begin(id, name, call.args, out.line, digest);
        if begin.class != ToolClass::Spawn && status.is_some() && call.agent_id.filled().is_none() {
            // Up to 0.34 a kind of agent is a tool of its own.
            begin = tools::begin_of_kind(begin, call.args, out.line);
        }
        let is_spawn = begin.class == ToolClass::Spawn;
        begin.has_local_id |= own_id.is_none();
        out.emit_made(Fact::CallBegin(begin));
        let Some(word) = call.status.filled() else { return };
        if let Some(id) = id {
            self.ended.insert(id.to_owned());
        }
        let ended_at = call.timestamp.get().and_then(parse_rfc3339).or(out.head.time);
        let outcome = tools::outcome(Some(word), text.as_deref());
        let has_agent = agent.is_some() || status.is_some();
        let report = out.raw(display.result);
        let spawn = (is_spawn && has_agent).then(|| SpawnResult {
            agent,
            agent_type: display.agent_name.0.clone(),
            report,
            proves_agent: true,
            ..SpawnResult::default()
        });
        let end = CallEnd {
            id,
            outcome,
            result: out.raw(response.output.or(response.error).or(call.result_display)),
            refused: is_spawn && !has_agent && outcome != Outcome::Ok,
            spawn,
            ..CallEnd::default()
        };
        out.emit_of(out.head.claim, ended_at, Fact::CallEnd(end));
        if let Some(status) = status.filter(|_| is_spawn) {
            let error = text.as_deref().filter(|_| status == AgentStatus::Failed).map(json_string);
            let error = error.as_deref().map(|json| RawJson { json, offset: u64::MAX });
            let evidence = EndEvidence::Notification;
            let end = AgentEnd { agent: agent.or(id), status, evidence, error, ..AgentEnd::default() };
            out.emit_of(out.head.claim, ended_at, Fact::AgentEnd(end));
        }
    }
}

impl LineDecoder for Chat {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        self.read(text, sink)
    }
}

/// Decodes a chat that is one object.
#[derive(Debug)]
pub(super) struct Session(pub(super) Chat);

impl LineDecoder for Session {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        // The whole object comes again each time that it is written.
        self.0 = Chat::new(&self.0.hint);
        self.0.read(text, sink)
    }
}

/// Emits a summary: the title of a session, or the result of an agent that did its task.
fn summary<'a>(summary: Option<&'a RawValue>, written: &Str<'_>, out: &mut Emitter<'a, '_>) {
    let Some(text) = string(summary).filter(|text| !text.trim().is_empty()) else { return };
    if matches!(out.head.claim, Claim::Root(_)) {
        out.emit_made(Fact::Title { text: text.into(), origin: TitleOrigin::Harness });
        return;
    }
    out.head.time = written.get().and_then(parse_rfc3339);
    out.emit_made(Fact::AgentEnd(AgentEnd {
        status: AgentStatus::Completed,
        evidence: EndEvidence::LastLine,
        report: out.raw(summary),
        ..AgentEnd::default()
    }));
}

/// Returns the first text of a record.
fn words(record: &Record<'_>) -> Option<String> {
    let first = || elements::<Part<'_>>(record.content).into_iter().find_map(|part| string(part.text));
    string(record.content).or_else(first)
}

/// Emits that a person has stopped the turn.
fn stopped(out: &mut Emitter<'_, '_>) {
    let (status, evidence) = (AgentStatus::Stopped, EndEvidence::LastLine);
    if matches!(out.head.claim, Claim::Root(_)) {
        out.emit(Fact::TurnEnd { status, evidence, counts_run: true, text: None });
    } else {
        out.emit(Fact::AgentEnd(AgentEnd { status, evidence, ..AgentEnd::default() }));
    }
}

fn key(record: &Record<'_>, id: &str) -> (bool, String) {
    (record.kind.is("gemini"), id.to_owned())
}

fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn emit_folder(known: &mut String, folder: Option<String>, out: &mut Emitter<'_, '_>) {
    if let Some(folder) = folder.filter(|folder| folder != known) {
        known.clone_from(&folder);
        out.emit_made(Fact::Session {
            version: None,
            cwd: Some(folder.into()),
            model: None,
            tells_starts: false,
        });
    }
}

/// Returns the first folder that the program's context names.
fn folder_in(context: &str) -> Option<String> {
    let (_, rest) = context.split_once(FOLDERS)?;
    let line = rest.trim_start().lines().next()?;
    line.trim().strip_prefix("- ").filter(|folder| !folder.is_empty()).map(str::to_owned)
}
