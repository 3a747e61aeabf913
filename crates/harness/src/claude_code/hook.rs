//! Payloads of Claude Code's hooks, one per line, all versions.
//!
//! Flow: line → [`Payload`] → observations. Hooks have no time of their own: the order of the lines is used instead.
//! What a payload lacks (`tool_use_id`, `agent_id`, `prompt_id` came with later versions) is left unset here and
//! derived by the tracker: where the wire has identity, absence of `agent_id` is the root (`Fact::WireHasIdentity`).
//!
//! To add a hook event: its name in `hook_events` and an arm in `Hooks::decode_line`.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError, canonical_digest,
    lenient::{Flag, LineText, Num, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallBegin, CallEnd, Claim, Clock, EndEvidence, EventKind, Fact, Outcome,
    RawJson, Sink, SourceKind, Spawn, SpawnMode,
};

use super::{
    hook_events,
    notice::prompt_kind,
    teammate,
    tools::{self, HarnessResult},
    transcript::emit_notice,
};
use crate::common::hook_repeats::{HookEvent, Repeats};

/// Decodes one log or stream of hook payloads.
#[derive(Debug, Default)]
pub(super) struct Hooks {
    hint: Hint,
    /// The session that was last reported to have identity on its wire.
    identified: String,
    /// The folder that was last emitted.
    cwd: String,
    /// The session whose conversation is being compacted.
    compacting: Option<String>,
    repeats: Repeats,
}

impl Hooks {
    /// A decoder for the log that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { hint: hint.clone(), ..Self::default() }
    }
}

/// One payload. Fields of all events together.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Payload<'a> {
    hook_event_name: Str<'a>,
    session_id: Str<'a>,
    cwd: Str<'a>,
    prompt_id: Str<'a>,
    agent_id: Str<'a>,
    agent_type: Str<'a>,
    tool_name: Str<'a>,
    tool_use_id: Str<'a>,
    tool_input: Option<&'a RawValue>,
    tool_response: Option<&'a RawValue>,
    tool_calls: Option<Vec<BatchCall<'a>>>,
    error: Option<&'a RawValue>,
    is_interrupt: Flag,
    duration_ms: Num,
    prompt: Option<&'a RawValue>,
    last_assistant_message: Option<&'a RawValue>,
    source: Str<'a>,
    reason: Str<'a>,
    notification_type: Str<'a>,
    teammate_name: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct BatchCall<'a> {
    tool_name: Str<'a>,
    tool_use_id: Str<'a>,
    tool_input: Option<&'a RawValue>,
    tool_response: Option<&'a RawValue>,
}

/// What a blocked call's answer starts with.
/// Observed: Claude Code 2.1.330: `PreToolUse:NAME hook error: …`.
const HOOK_BLOCK: &str = "PreToolUse:";

impl LineDecoder for Hooks {
    fn decode_line(&mut self, line: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let payload: Payload<'_> = serde_json::from_str(line.text)?;
        let Some(event) = payload.hook_event_name.filled() else {
            return Err(LineError::MissingField { item: "a hook payload", field: "hook_event_name" });
        };
        let agent = payload.agent_id.filled();
        let claim = agent.map_or(Claim::Silent, |agent| Claim::Agent(agent, Basis::Wire));
        let mut out = Emitter::new(SourceKind::Hook, Clock::Receiver, claim, line, sink);
        out.head.session = payload.session_id.filled().or(self.hint.session.as_deref());
        if let Some(cwd) = payload.cwd.filled().filter(|cwd| agent.is_none() && *cwd != self.cwd) {
            cwd.clone_into(&mut self.cwd);
            let cwd = Some(Cow::Borrowed(cwd));
            out.emit(Fact::Session { version: None, cwd, model: None, tells_starts: false });
        }
        let session = out.head.session.unwrap_or_default();
        let delivered = HookEvent::of(event, payload.prompt_id.filled().is_some());
        if self.repeats.is_repeated(session, delivered, line.text) {
            return Ok(());
        }
        let is_compacting = self.compacting.as_deref() == Some(session);
        match event {
            "PreCompact" => self.compacting = Some(session.to_owned()),
            "PostCompact" | "SessionStart" | "UserPromptSubmit" | "Stop" | "SessionEnd" if is_compacting => {
                self.compacting = None;
            }
            _ => {}
        }
        let is_tool = matches!(event, "PreToolUse" | "PostToolUse" | "PostToolUseFailure" | "PostToolBatch");
        let has_identity = is_tool && (agent.is_some() || payload.prompt_id.filled().is_some());
        if has_identity && self.identified != session {
            session.clone_into(&mut self.identified);
            out.emit(Fact::WireHasIdentity);
            out.emit(Fact::ReportsQuestions);
        }
        match event {
            "SessionStart" => out.emit(Fact::SessionStart { source: payload.source.0.clone() }),
            "SessionEnd" => out.emit(Fact::SessionEnd { reason: payload.reason.0.clone() }),
            "UserPromptSubmit" => user_prompt(&payload, &mut out),
            "PreToolUse" => {
                let name = payload.tool_name.get().unwrap_or_default();
                let (id, input) = (payload.tool_use_id.filled(), payload.tool_input);
                out.emit(Fact::CallBegin(payload.call_begin(id, name, input, line)));
            }
            "PostToolUse" => {
                let result: HarnessResult<'_> = payload
                    .tool_response
                    .and_then(|raw| serde_json::from_str(raw.get()).ok())
                    .unwrap_or_default();
                if result.has_deleted_team() {
                    teammate::emit_team_end(&mut out);
                }
                let end = payload.call_end(Outcome::Ok, out.raw(payload.tool_response));
                let end = CallEnd { duration_ms: payload.duration_ms.signed(), ..end };
                out.emit_made(Fact::CallEnd(result.complete(line, end)));
            }
            "PostToolUseFailure" => {
                let content = out.raw(payload.error);
                let outcome = match payload.is_interrupt.is_true() {
                    true => Outcome::Interrupted,
                    false => tools::outcome(true, None, None, content),
                };
                out.emit(Fact::CallEnd(CallEnd {
                    refused: tools::refused(content),
                    duration_ms: payload.duration_ms.signed(),
                    ..payload.call_end(outcome, content)
                }));
            }
            "PostToolBatch" => post_tool_batch(&payload, &mut out),
            "PermissionRequest" => {
                let name = payload.tool_name.get().unwrap_or_default();
                let digest = digest(Some(name), payload.tool_input);
                let input = out.raw(payload.tool_input);
                out.emit(Fact::Permission { name, class: tools::class(name), digest, input });
            }
            "PermissionDenied" => {
                let content = out.raw(payload.error);
                out.emit(Fact::CallEnd(payload.call_end(Outcome::Denied, content)));
            }
            "SubagentStart" => out.emit(Fact::Spawn(Spawn {
                agent,
                agent_type: payload.agent_type.0.clone().filter(|kind| !kind.is_empty()),
                starts: true,
                ..Spawn::default()
            })),
            // The harness's own summarizer: nothing else reports it.
            // Observed: 2.1.330 and 2.1.332, fixture `interactive-compact`.
            "SubagentStop" if is_compacting && payload.agent_type.filled().is_none() => {}
            "SubagentStop" => agent_end(&payload, AgentStatus::Completed, &mut out),
            "Stop" => turn_end(&payload, AgentStatus::Completed, &mut out),
            "StopFailure" if agent.is_some() => agent_end(&payload, AgentStatus::Failed, &mut out),
            "StopFailure" => turn_end(&payload, AgentStatus::Failed, &mut out),
            other => {
                // Observed: Claude Code 2.1.330: a minute after a turn has ended, however it ended.
                if other == "Notification" && payload.notification_type.is("idle_prompt") {
                    out.emit(Fact::AwaitsPrompt);
                }
                if let Some(name) = payload.teammate_name.filled().filter(|_| other == "TeammateIdle") {
                    let (status, evidence) = (AgentStatus::Completed, EndEvidence::IdleNotice);
                    let agent = teammate::address(name);
                    let end = AgentEnd { agent: Some(&agent), status, evidence, ..AgentEnd::default() };
                    out.emit_made(Fact::AgentEnd(end));
                }
                out.emit(Fact::Note { kind: note_kind(other), data: line.slice(line.text) });
            }
        }
        Ok(())
    }
}

impl Payload<'_> {
    fn call_begin<'a>(
        &self,
        id: Option<&'a str>,
        name: &'a str,
        input: Option<&'a RawValue>,
        line: LineText<'a>,
    ) -> CallBegin<'a> {
        // Payloads name no version, but those up to 2.1.110 have no `prompt_id`.
        let mode = self.prompt_id.filled().is_none().then_some(SpawnMode::Foreground);
        tools::begin(id, name, input, line, digest(Some(name), input), mode)
    }

    fn call_end<'a>(&'a self, outcome: Outcome, result: Option<RawJson<'a>>) -> CallEnd<'a> {
        let (id, name) = (self.tool_use_id.filled(), self.tool_name.filled());
        let digest = digest(name, self.tool_input);
        CallEnd { id, name, digest, outcome, result, ..CallEnd::default() }
    }
}

fn note_kind(event: &str) -> EventKind {
    match event {
        "PreCompact" => EventKind::CompactPre,
        "PostCompact" => EventKind::CompactPost,
        "TaskCreated" => EventKind::TodoCreated,
        "TaskCompleted" => EventKind::TodoCompleted,
        known if hook_events::is_known(known) => EventKind::Notification,
        _ => EventKind::UnknownHook,
    }
}

fn user_prompt<'a>(payload: &'a Payload<'_>, out: &mut Emitter<'a, '_>) {
    let Some(text) = out.raw(payload.prompt) else { return out.emit(Fact::Activity) };
    let words = text.text();
    let what = prompt_kind(&words, None);
    emit_notice(Some(&words), out);
    out.head.claim = Claim::Root(Basis::Wire);
    out.emit(Fact::Prompt { prompt_id: payload.prompt_id.filled(), text, what });
}

fn digest(name: Option<&str>, input: Option<&RawValue>) -> u64 {
    canonical_digest(name.unwrap_or_default(), input.map_or("", RawValue::get))
}

/// The batch lists every call of a message when all have ended, including those that no other hook reported.
fn post_tool_batch<'a>(payload: &'a Payload<'_>, out: &mut Emitter<'a, '_>) {
    for call in payload.tool_calls.iter().flatten() {
        let (id, name) = (call.tool_use_id.filled(), call.tool_name.get().unwrap_or_default());
        let begin = payload.call_begin(id, name, call.tool_input, out.line);
        let digest = begin.digest;
        out.emit(Fact::CallBegin(CallBegin { hindsight: true, ..begin }));
        let result = out.raw(call.tool_response);
        let blocked = result.is_some_and(|raw| tools::starts(raw, HOOK_BLOCK));
        let outcome = if blocked { Outcome::Denied } else { Outcome::Over };
        let (name, refused) = (Some(name), tools::refused(result));
        let end = CallEnd { id, name, digest, outcome, result, refused, ..CallEnd::default() };
        out.emit(Fact::CallEnd(end));
    }
}

fn agent_end<'a>(payload: &'a Payload<'_>, status: AgentStatus, out: &mut Emitter<'a, '_>) {
    let words = out.raw(payload.last_assistant_message);
    let failed = status == AgentStatus::Failed;
    let end = AgentEnd {
        agent: payload.agent_id.filled(),
        status,
        evidence: EndEvidence::StopHook,
        report: words.filter(|_| !failed),
        error: if failed { words.or(out.raw(payload.error)) } else { None },
        agent_type: Some(payload.agent_type.0.clone().unwrap_or_default()),
        ..AgentEnd::default()
    };
    out.emit(Fact::AgentEnd(end));
}

fn turn_end<'a>(payload: &'a Payload<'_>, status: AgentStatus, out: &mut Emitter<'a, '_>) {
    let text = out.raw(payload.last_assistant_message);
    out.head.claim = Claim::Root(Basis::Wire);
    out.emit(Fact::TurnEnd { status, evidence: EndEvidence::StopHook, counts_run: false, text });
}
