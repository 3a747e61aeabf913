//! Qwen Code's conversations on disk: of a session, and of each of its agents.
//!
//! Flow: line → [`Line`] → observations. Each line is read by itself; only the last version and folder are remembered.
//!
//! Pitfalls, observed in 0.24.4: an agent's tokens are in a line without content before the line with its calls; output
//! tokens hold the thoughts where the total says so; `ui_telemetry` lines of the session repeat what agents do. The id
//! of an agent is its type and the id of its call.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError, digest,
    lenient::{LineText, Num, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallEnd, Claim, Clock, EndEvidence, EventKind, Fact, Outcome, PromptKind,
    RawJson, Response, Sink, SourceKind, Spawn, SpawnResult, TitleOrigin, ToolClass, Usage, parse_rfc3339,
};

use super::tools::{self, Notice};
use crate::common::parts::{FunctionResponse, Part, elements, string};

/// Decodes one chat.
#[derive(Debug)]
pub(super) struct Chat {
    hint: Hint,
    /// Session of the last line; version and folder are its.
    session: String,
    version: String,
    cwd: String,
    is_announced: bool,
}

/// One line.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Line<'a> {
    uuid: Str<'a>,
    session_id: Str<'a>,
    timestamp: Str<'a>,
    #[serde(rename = "type")]
    kind: Str<'a>,
    subtype: Str<'a>,
    provenance: Str<'a>,
    cwd: Str<'a>,
    version: Str<'a>,
    agent_id: Str<'a>,
    agent_name: Str<'a>,
    model: Str<'a>,
    message: Option<Message<'a>>,
    usage_metadata: Option<Tokens>,
    tool_call_result: Option<CallResult<'a>>,
    system_payload: Option<&'a RawValue>,
}

/// What the program shows of a prompt: the person's words, without what hooks and files added.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Shown<'a> {
    display_text: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Message<'a> {
    parts: Option<&'a RawValue>,
}

/// The tokens of a response: the prompt holds the cached ones.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Tokens {
    prompt_token_count: Num,
    candidates_token_count: Num,
    thoughts_token_count: Num,
    total_token_count: Num,
    cached_content_token_count: Num,
}

impl Tokens {
    fn usage(self) -> Usage {
        let number = |field: Num| field.0.unwrap_or(0);
        let (prompt, cached) = (number(self.prompt_token_count), number(self.cached_content_token_count));
        // Some providers include thoughts in the output, others do not: the total shows which.
        let parts = number(self.candidates_token_count).saturating_add(number(self.thoughts_token_count));
        let by_total = self.total_token_count.0.map(|total| total.saturating_sub(prompt));
        let output = by_total.map_or(parts, |output| output.min(parts));
        let output = self.candidates_token_count.0.or(self.thoughts_token_count.0).map(|_| output);
        let fresh = self.prompt_token_count.0.map(|prompt| prompt.saturating_sub(cached));
        Usage::of_parts([fresh, output, Some(cached), None], self.total_token_count.0)
    }
}

/// The harness's own record of a result.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct CallResult<'a> {
    status: Str<'a>,
    duration_ms: Num,
    result_display: Option<&'a RawValue>,
}

/// Data in a call's result about the agent that it started.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct AgentDisplay<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    subagent_name: Str<'a>,
    execution_mode: Str<'a>,
    status: Str<'a>,
}

/// The conversation was compacted.
const COMPACTED: Fact<'static> =
    Fact::Note { kind: EventKind::CompactPost, data: RawJson { json: "{}", offset: u64::MAX } };

impl Chat {
    /// A decoder for the file that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self {
            hint: hint.clone(),
            session: String::new(),
            version: String::new(),
            cwd: String::new(),
            is_announced: false,
        }
    }

    fn emit_session(&mut self, line: &Line<'_>, out: &mut Emitter<'_, '_>) {
        let is_root = matches!(out.head.claim, Claim::Root(_));
        let version = line.version.filled().filter(|version| *version != self.version);
        let cwd = line.cwd.filled().filter(|cwd| is_root && *cwd != self.cwd);
        if version.is_none() && cwd.is_none() {
            return;
        }
        version.unwrap_or(&self.version.clone()).clone_into(&mut self.version);
        cwd.unwrap_or(&self.cwd.clone()).clone_into(&mut self.cwd);
        let cwd = cwd.map(Cow::Borrowed);
        out.emit_made(Fact::Session { version, cwd, model: None, tells_starts: true });
    }

    /// Emits the agent whose chat it is, once.
    fn announce(&mut self, line: &Line<'_>, out: &mut Emitter<'_, '_>) {
        let Claim::Agent(agent, _) = out.head.claim else { return };
        if std::mem::replace(&mut self.is_announced, true) {
            return;
        }
        let name = line.agent_name.filled();
        let call = tools::call_of(agent, name);
        out.emit_made(Fact::Spawn(Spawn {
            agent: Some(agent),
            call,
            agent_type: name.map(Cow::Borrowed),
            is_origin: call.is_some(),
            ..Spawn::default()
        }));
    }
}

impl LineDecoder for Chat {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let line: Line<'_> = serde_json::from_str(text.text)?;
        let (hint_session, hint_agent) = (self.hint.session.clone(), self.hint.agent.clone());
        let claim = match (line.agent_id.filled(), hint_agent.as_deref()) {
            (Some(agent), _) => Claim::Agent(agent, Basis::Wire),
            (None, Some(agent)) => Claim::Agent(agent, Basis::Link),
            (None, None) => Claim::Root(Basis::Link),
        };
        let mut out = Emitter::new(SourceKind::Transcript, Clock::Transcript, claim, text, sink);
        out.head.time = line.timestamp.get().and_then(parse_rfc3339);
        out.head.session = line.session_id.filled().or(hint_session.as_deref());
        out.head.line_id = line.uuid.filled();
        if let Some(named) = out.head.session.filter(|named| *named != self.session) {
            named.clone_into(&mut self.session);
            self.version.clear();
            self.cwd.clear();
        }
        self.emit_session(&line, &mut out);
        self.announce(&line, &mut out);
        let parts: Vec<Part<'_>> =
            line.message.as_ref().map(|message| elements(message.parts)).unwrap_or_default();
        match line.kind.get() {
            Some("user") => user(&line, &parts, &mut out),
            Some("assistant") => answer(&line, &parts, &mut out),
            Some("tool_result") => {
                for response in parts.iter().filter_map(|part| part.function_response.as_ref()) {
                    call_end(&line, response, &mut out);
                }
            }
            Some("system") if line.subtype.is("chat_compression") => out.emit(COMPACTED),
            // Book-keeping of the harness; new types are skipped like these until they are known.
            _ => {}
        }
        Ok(())
    }
}

/// Beginning of the text that a hook added to a prompt.
const HOOK_CONTEXT: &str = "<qwen:user-prompt-submit-context>";

fn user<'a>(line: &Line<'a>, parts: &[Part<'a>], out: &mut Emitter<'a, '_>) {
    let is_person = line.provenance.get().is_none_or(|provenance| provenance == "real_user");
    let is_asked = is_person && line.subtype.filled().is_none();
    let shown: Shown<'a> =
        line.system_payload.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let shown = shown.display_text.filter(|_| is_asked);
    if let Some(text) = string(shown).filter(|text| !text.is_empty()) {
        out.emit_made(Fact::Title { text: text.into(), origin: TitleOrigin::Prompt });
    }
    let is_context = |text: &str| text.trim_start().starts_with(HOOK_CONTEXT);
    // The context may stand in front of the words, in the same part.
    let has_only_context =
        parts.iter().filter_map(|part| out.raw(part.text)).all(|raw| is_context(&raw.text()));
    if let Some(text) = out.raw(shown).filter(|_| has_only_context) {
        out.emit(Fact::Prompt { prompt_id: None, text, what: PromptKind::Asked });
    }
    for part in parts {
        let Some(text) = out.raw(part.text) else { continue };
        let words = text.text();
        if let Some(notice) = Notice::read(&words) {
            let report = notice.report.map(|report| serde_json::Value::from(report).to_string());
            let report = report.as_deref().map(|json| RawJson { json, offset: u64::MAX });
            let has_failed = notice.status == AgentStatus::Failed;
            out.emit_made(Fact::AgentEnd(AgentEnd {
                agent: Some(notice.agent),
                call: notice.call,
                status: notice.status,
                evidence: EndEvidence::Notification,
                report: report.filter(|_| !has_failed),
                error: report.filter(|_| has_failed),
                ..AgentEnd::default()
            }));
        }
        let what = if is_asked && !is_context(&words) { PromptKind::Asked } else { PromptKind::Meta };
        out.emit_made(Fact::Prompt { prompt_id: None, text, what });
    }
}

fn answer<'a>(line: &Line<'a>, parts: &[Part<'a>], out: &mut Emitter<'a, '_>) {
    let is_root = matches!(out.head.claim, Claim::Root(_));
    let message_id = line.uuid.filled();
    if let (Some(tokens), Some(message_id)) = (line.usage_metadata, message_id) {
        out.emit_made(Fact::Response(Response {
            message_id,
            model: line.model.filled(),
            usage: Some(tokens.usage()),
            has_stop_reason: true,
            accounts_only: true,
            ..Response::default()
        }));
    }
    let has_call = parts.iter().any(|part| part.function_call.is_some());
    let has_text = parts.iter().any(|part| part.text.is_some() && !part.thought.is_true());
    out.emit_made(Fact::Response(Response {
        message_id: message_id.unwrap_or_default(),
        // Only the harness's own report ends an agent.
        has_stop_reason: true,
        ends_turn: is_root && has_text && !has_call,
        has_call,
        has_text,
        synthetic: line.usage_metadata.is_none(),
        ..Response::default()
    }));
    for part in parts {
        match out.raw(part.text) {
            Some(text) if part.thought.is_true() => {
                out.emit_made(Fact::Thought { message_id, text: Some(text) });
            }
            Some(text) => out.emit_made(Fact::Message { message_id, text }),
            None => {}
        }
        let Some(call) = &part.function_call else { continue };
        let name = call.name.get().unwrap_or_default();
        let digest = digest(name, call.args.map_or("", RawValue::get));
        out.emit_made(Fact::CallBegin(tools::begin(call.id.filled(), name, call.args, out.line, digest)));
    }
}

fn call_end<'a>(line: &Line<'a>, response: &FunctionResponse<'a>, out: &mut Emitter<'a, '_>) {
    let id = response.id.filled();
    let kept = line.tool_call_result.as_ref();
    let display: AgentDisplay<'a> = kept
        .and_then(|kept| serde_json::from_str(kept.result_display?.get()).ok())
        .filter(|display: &AgentDisplay<'a>| display.kind.is("task_execution"))
        .unwrap_or_default();
    let error = string(response.response.error);
    let outcome = tools::outcome(kept.and_then(|kept| kept.status.get()), error.as_deref());
    let is_spawn = response.name.get().is_some_and(|name| tools::class(name) == ToolClass::Spawn);
    let agent = display.subagent_name.filled().zip(id).map(|(name, id)| format!("{name}-{id}"));
    let status = display.status.get().and_then(tools::status);
    let is_background = display.execution_mode.is("background") || display.status.is("background");
    let result = out.raw(response.response.output.or(response.response.error));
    out.emit_made(Fact::CallEnd(CallEnd {
        id,
        outcome,
        result,
        duration_ms: kept.and_then(|kept| kept.duration_ms.signed()),
        refused: is_spawn && agent.is_none() && outcome != Outcome::Ok,
        spawn: agent.as_deref().filter(|_| is_spawn).map(|agent| SpawnResult {
            agent: Some(agent),
            finished: if is_background { Some(false) } else { status.map(|_| true) },
            agent_type: display.subagent_name.0.clone(),
            report: result.filter(|_| status == Some(AgentStatus::Completed)),
            proves_agent: true,
            ..SpawnResult::default()
        }),
        ..CallEnd::default()
    }));
    if let (Some(agent), Some(status)) = (agent.as_deref(), status) {
        let evidence = EndEvidence::Notification;
        out.emit_made(Fact::AgentEnd(AgentEnd {
            agent: Some(agent),
            status,
            evidence,
            ..AgentEnd::default()
        }));
    }
}
