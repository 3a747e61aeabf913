//! Payloads of Claude Code's hooks, one a line, all versions.
//!
//! Flow: line → [`Payload`] → observations. Hooks have no time of their own: the order of the lines is used instead.
//! What a payload does not say (`tool_use_id`, `agent_id`, `prompt_id` came with later versions) is left open here and
//! concluded by the tracker: where the wire has identity, absence of `agent_id` is the root (`Fact::WireHasIdentity`).
//!
//! To add a hook event: its name in `hook_events` and an arm in `Self::read`.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Hint, LineDecoder, LineError, canonical_digest,
    lenient::{Flag, LineText, Num, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallEnd, Claim, Clock, Decoded, EndEvidence, EventKind, Fact, Observation,
    Outcome, RawJson, Sink, SourceKind, SourcePosition, Spawn, SpawnMode,
};

use super::{
    hook_events,
    notice::prompt_kind,
    tools::{self, HarnessResult},
    transcript::emit_notice,
};

/// Decodes one log or stream of hook payloads.
#[derive(Debug)]
pub(super) struct Hooks {
    hint: Hint,
    emitted: Emitted,
}

/// What was last emitted, so that it is not repeated.
#[derive(Debug, Default)]
struct Emitted {
    /// The session that was last reported to have identity on its wire.
    identified: String,
    /// The folder.
    cwd: String,
}

impl Hooks {
    /// A decoder for the log that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { hint: hint.clone(), emitted: Emitted::default() }
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

fn emit<'a>(fact: Fact<'a>, out: &mut Observation<'a>, sink: &mut Sink<'_>) {
    out.fact = fact;
    sink(Decoded::Observation(out));
}

impl LineDecoder for Hooks {
    fn decode_line(
        &mut self,
        place: SourcePosition,
        line: LineText<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), LineError> {
        let payload: Payload<'_> = serde_json::from_str(line.text)?;
        let Some(event) = payload.hook_event_name.filled() else {
            return Err(LineError::MissingField { item: "a hook payload", field: "hook_event_name" });
        };
        self.read(place, line, event, &payload, sink);
        Ok(())
    }
}

impl Hooks {
    fn read<'a>(
        &'a mut self,
        place: SourcePosition,
        text: LineText<'a>,
        event: &'a str,
        payload: &'a Payload<'a>,
        sink: &mut Sink<'_>,
    ) {
        let Self { hint, emitted } = self;
        let mut out = Observation {
            place,
            kind: SourceKind::Hook,
            time: None,
            clock: Clock::Receiver,
            session: payload.session_id.filled().or(hint.session.as_deref()),
            line_id: None,
            claim: payload.agent_id.filled().map_or(Claim::Silent, |agent| Claim::Agent(agent, Basis::Wire)),
            fact: Fact::Activity,
        };
        emitted.emit_changes(event, payload, &mut out, sink);
        match event {
            "SessionStart" => emit(Fact::SessionStart { source: payload.source.0.clone() }, &mut out, sink),
            "SessionEnd" => emit(Fact::SessionEnd { reason: payload.reason.0.clone() }, &mut out, sink),
            "UserPromptSubmit" => user_prompt(payload, text, &mut out, sink),
            "PreToolUse" => pre_tool_use(payload, text, &mut out, sink),
            "PostToolUse" => post_tool_use(payload, text, &mut out, sink),
            "PostToolUseFailure" => {
                let content = payload.error.map(|raw| text.raw(raw));
                let outcome =
                    if payload.is_interrupt.is_true() { Outcome::Interrupted } else { Outcome::Error };
                let end = CallEnd {
                    refused: tools::refused(content),
                    ..call_end(
                        payload.tool_use_id.filled(),
                        payload.tool_name.filled(),
                        payload.tool_input,
                        outcome,
                        content,
                    )
                };
                emit(Fact::CallEnd(CallEnd { duration_ms: duration(payload), ..end }), &mut out, sink);
            }
            "PostToolBatch" => post_tool_batch(payload, text, &out, sink),
            "PermissionRequest" => {
                let name = payload.tool_name.get().unwrap_or_default();
                let digest = canonical_digest(name, payload.tool_input.map_or("", RawValue::get));
                let input = payload.tool_input.map(|raw| text.raw(raw));
                emit(Fact::Permission { name, digest, input }, &mut out, sink);
            }
            "PermissionDenied" => {
                let content = payload.error.map(|raw| text.raw(raw));
                let end = call_end(
                    payload.tool_use_id.filled(),
                    payload.tool_name.filled(),
                    payload.tool_input,
                    Outcome::Denied,
                    content,
                );
                emit(Fact::CallEnd(end), &mut out, sink);
            }
            "SubagentStart" => {
                let spawn = Spawn {
                    agent: payload.agent_id.filled(),
                    agent_type: payload.agent_type.0.clone().filter(|kind| !kind.is_empty()),
                    starts: true,
                    ..Spawn::default()
                };
                emit(Fact::Spawn(spawn), &mut out, sink);
            }
            "SubagentStop" => agent_end(payload, AgentStatus::Completed, text, &mut out, sink),
            "Stop" => turn_end(payload, AgentStatus::Completed, text, &mut out, sink),
            "StopFailure" if payload.agent_id.filled().is_some() => {
                agent_end(payload, AgentStatus::Failed, text, &mut out, sink);
            }
            "StopFailure" => turn_end(payload, AgentStatus::Failed, text, &mut out, sink),
            other => {
                // Observed: Claude Code 2.1.330: a minute after a turn has ended, however it ended.
                if other == "Notification" && payload.notification_type.is("idle_prompt") {
                    emit(Fact::AwaitsPrompt, &mut out, sink);
                }
                emit(Fact::Note { kind: note_kind(other), data: text.slice(text.text) }, &mut out, sink);
            }
        }
    }
}

impl Emitted {
    /// Emits the folder when it differs from the last one, and that the wire has identity, once for each session.
    fn emit_changes<'a>(
        &mut self,
        event: &str,
        payload: &'a Payload<'_>,
        out: &mut Observation<'a>,
        sink: &mut Sink<'_>,
    ) {
        let silent = payload.agent_id.filled().is_none();
        if let Some(cwd) = payload.cwd.filled().filter(|cwd| silent && *cwd != self.cwd) {
            cwd.clone_into(&mut self.cwd);
            emit(
                Fact::Session {
                    version: None,
                    cwd: Some(Cow::Borrowed(cwd)),
                    model: None,
                    tells_starts: false,
                },
                out,
                sink,
            );
        }
        let session = out.session.unwrap_or_default();
        let is_tool = matches!(event, "PreToolUse" | "PostToolUse" | "PostToolUseFailure" | "PostToolBatch");
        let identified = is_tool && (!silent || payload.prompt_id.filled().is_some());
        if identified && self.identified != session {
            session.clone_into(&mut self.identified);
            emit(Fact::WireHasIdentity, out, sink);
        }
    }
}

fn note_kind(event: &str) -> EventKind {
    match event {
        "PreCompact" => EventKind::CompactPre,
        "PostCompact" => EventKind::CompactPost,
        "TaskCreated" => EventKind::TodoCreated,
        "TaskCompleted" => EventKind::TodoCompleted,
        known if hook_events::EVENTS.contains(&known) => EventKind::Notification,
        _ => EventKind::UnknownHook,
    }
}

fn user_prompt<'a>(
    payload: &'a Payload<'_>,
    text: LineText<'a>,
    out: &mut Observation<'a>,
    sink: &mut Sink<'_>,
) {
    let Some(raw) = payload.prompt.map(|raw| text.raw(raw)) else { return emit(Fact::Activity, out, sink) };
    let words = raw.text();
    let what = prompt_kind(&words, None);
    emit_notice(Some(&words), out, sink);
    out.claim = Claim::Root(Basis::Wire);
    emit(Fact::Prompt { prompt_id: payload.prompt_id.filled(), text: raw, what }, out, sink);
}

fn digest(name: Option<&str>, input: Option<&RawValue>) -> u64 {
    canonical_digest(name.unwrap_or_default(), input.map_or("", RawValue::get))
}

/// Payloads name no version, but those up to 2.1.110 have no `prompt_id`.
fn default_mode(payload: &Payload<'_>) -> Option<SpawnMode> {
    payload.prompt_id.filled().is_none().then_some(SpawnMode::Foreground)
}

fn duration(payload: &Payload<'_>) -> Option<i64> {
    payload.duration_ms.0.and_then(|millis| i64::try_from(millis).ok())
}

fn call_end<'a>(
    id: Option<&'a str>,
    name: Option<&'a str>,
    input: Option<&RawValue>,
    outcome: Outcome,
    result: Option<RawJson<'a>>,
) -> CallEnd<'a> {
    CallEnd {
        id,
        name,
        digest: digest(name, input),
        outcome,
        result,
        duration_ms: None,
        spawn: None,
        refused: false,
        stopped: None,
        resumed: None,
        batch_run: None,
        left_running: false,
    }
}

fn pre_tool_use<'a>(
    payload: &'a Payload<'_>,
    text: LineText<'a>,
    out: &mut Observation<'a>,
    sink: &mut Sink<'_>,
) {
    let name = payload.tool_name.get().unwrap_or_default();
    let same = digest(Some(name), payload.tool_input);
    let mode = default_mode(payload);
    let begin = tools::begin(payload.tool_use_id.filled(), name, payload.tool_input, text, same, mode);
    emit(Fact::CallBegin(begin), out, sink);
}

fn post_tool_use<'a>(
    payload: &'a Payload<'_>,
    text: LineText<'a>,
    out: &mut Observation<'a>,
    sink: &mut Sink<'_>,
) {
    let content = payload.tool_response.map(|raw| text.raw(raw));
    let result: HarnessResult<'_> =
        payload.tool_response.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let end = CallEnd {
        spawn: result.spawn(text),
        stopped: result.stopped(),
        resumed: result.resumed(),
        batch_run: result.workflow_run(),
        left_running: result.left_running(),
        duration_ms: duration(payload),
        ..call_end(
            payload.tool_use_id.filled(),
            payload.tool_name.filled(),
            payload.tool_input,
            Outcome::Ok,
            content,
        )
    };
    let told = Observation { fact: Fact::CallEnd(end), ..out.clone() };
    sink(Decoded::Observation(&told));
}

/// The batch lists every call of a message when all are over: also those that no other hook reported.
fn post_tool_batch(payload: &Payload<'_>, text: LineText<'_>, out: &Observation<'_>, sink: &mut Sink<'_>) {
    for call in payload.tool_calls.iter().flatten() {
        let name = call.tool_name.get().unwrap_or_default();
        let same = digest(Some(name), call.tool_input);
        let mut begin =
            tools::begin(call.tool_use_id.filled(), name, call.tool_input, text, same, default_mode(payload));
        begin.hindsight = true;
        sink(Decoded::Observation(&Observation { fact: Fact::CallBegin(begin), ..out.clone() }));
        let content = call.tool_response.map(|raw| text.raw(raw));
        let blocked = content.is_some_and(|raw| tools::starts(raw, HOOK_BLOCK));
        let outcome = if blocked { Outcome::Denied } else { Outcome::Over };
        let end = CallEnd {
            refused: tools::refused(content),
            ..call_end(call.tool_use_id.filled(), Some(name), call.tool_input, outcome, content)
        };
        sink(Decoded::Observation(&Observation { fact: Fact::CallEnd(end), ..out.clone() }));
    }
}

fn agent_end<'a>(
    payload: &'a Payload<'_>,
    status: AgentStatus,
    text: LineText<'a>,
    out: &mut Observation<'a>,
    sink: &mut Sink<'_>,
) {
    let words = payload.last_assistant_message.map(|raw| text.raw(raw));
    let failed = status == AgentStatus::Failed;
    let end = AgentEnd {
        agent: payload.agent_id.filled(),
        call: None,
        run_id: None,
        status,
        evidence: EndEvidence::StopHook,
        time: None,
        report: words.filter(|_| !failed),
        error: if failed { words.or(payload.error.map(|raw| text.raw(raw))) } else { None },
        agent_type: Some(payload.agent_type.0.clone().unwrap_or_default()),
    };
    emit(Fact::AgentEnd(end), out, sink);
}

fn turn_end<'a>(
    payload: &'a Payload<'_>,
    status: AgentStatus,
    text: LineText<'a>,
    out: &mut Observation<'a>,
    sink: &mut Sink<'_>,
) {
    let fact = Fact::TurnEnd {
        status,
        evidence: EndEvidence::StopHook,
        counts_run: false,
        text: payload.last_assistant_message.map(|raw| text.raw(raw)),
    };
    out.claim = Claim::Root(Basis::Wire);
    emit(fact, out, sink);
}
