//! Payloads of Qwen Code's hooks, one per line. Those of an agent name it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError, canonical_digest,
    lenient::{Flag, LineText, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallEnd, Claim, Clock, EndEvidence, EventKind, Fact, Outcome, PromptKind,
    RawJson, Sink, SourceKind, Spawn, SpawnResult, parse_rfc3339,
};

use super::tools::{self, Notice};
use crate::common::hook_repeats::{HookEvent, Repeats};

/// Decodes one log or stream of payloads.
#[derive(Debug)]
pub(super) struct Hooks {
    hint: Hint,
    /// The session that was last reported to have identity on its wire.
    identified: String,
    repeats: Repeats,
}

impl Hooks {
    /// A decoder for the log that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { hint: hint.clone(), identified: String::new(), repeats: Repeats::default() }
    }
}

/// One payload. Fields of all events together.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Payload<'a> {
    pub(super) hook_event_name: Str<'a>,
    pub(super) session_id: Str<'a>,
    pub(super) transcript_path: Str<'a>,
    pub(super) timestamp: Str<'a>,
    cwd: Str<'a>,
    agent_id: Str<'a>,
    agent_type: Str<'a>,
    model: Str<'a>,
    tool_name: Str<'a>,
    tool_call_id: Str<'a>,
    tool_use_id: Str<'a>,
    tool_input: Option<&'a RawValue>,
    tool_response: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    is_interrupt: Flag,
    prompt: Option<&'a RawValue>,
    last_assistant_message: Option<&'a RawValue>,
    notification_type: Str<'a>,
    source: Str<'a>,
    reason: Str<'a>,
}

/// The response of the tool that starts agents.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Launched<'a> {
    #[serde(rename = "returnDisplay")]
    display: Option<Display<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Display<'a> {
    status: Str<'a>,
}

impl LineDecoder for Hooks {
    fn decode_line(&mut self, line: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let payload: Payload<'_> = serde_json::from_str(line.text)?;
        let Some(event) = payload.hook_event_name.filled() else {
            return Err(LineError::MissingField { item: "a hook payload", field: "hook_event_name" });
        };
        let agent = payload.agent_id.filled();
        let claim = agent.map_or(Claim::Root(Basis::Wire), |agent| Claim::Agent(agent, Basis::Wire));
        let mut out = Emitter::new(SourceKind::Hook, Clock::Receiver, claim, line, sink);
        out.head.time = payload.timestamp.get().and_then(parse_rfc3339);
        out.head.session = payload.session_id.filled().or(self.hint.session.as_deref());
        let session = out.head.session.unwrap_or_default();
        if self.identified != session {
            session.clone_into(&mut self.identified);
            out.emit(Fact::WireHasIdentity);
            out.emit(Fact::ReportsQuestions);
            let cwd = payload.cwd.filled().map(Cow::Borrowed);
            out.emit_made(Fact::Session { version: None, cwd, model: None, tells_starts: true });
        }
        let delivered = HookEvent::of(event, false);
        if self.repeats.is_repeated(session, delivered, line.text) {
            return Ok(());
        }
        match event {
            "SessionStart" => {
                let model = payload.model.filled();
                out.emit_made(Fact::Session { version: None, cwd: None, model, tells_starts: true });
                out.emit_made(Fact::SessionStart { source: payload.source.0.clone() });
            }
            "SessionEnd" => out.emit_made(Fact::SessionEnd { reason: payload.reason.0.clone() }),
            "UserPromptSubmit" if agent.is_none() => user_prompt(&payload, &mut out),
            "PreToolUse" => {
                let name = payload.tool_name.get().unwrap_or_default();
                let begin = tools::begin(payload.call_id(), name, payload.tool_input, line, payload.digest());
                out.emit_made(Fact::CallBegin(begin));
            }
            "PostToolUse" => {
                let end = payload.call_end(Outcome::Ok, out.raw(payload.tool_response));
                out.emit_made(Fact::CallEnd(CallEnd { spawn: payload.launched(), ..end }));
            }
            "PostToolUseFailure" => {
                let result = out.raw(payload.error);
                let text = result.map(|raw| raw.text());
                let outcome = if payload.is_interrupt.is_true() {
                    Outcome::Interrupted
                } else {
                    tools::outcome(Some("error"), text.as_deref())
                };
                out.emit_made(Fact::CallEnd(payload.call_end(outcome, result)));
            }
            "PermissionRequest" => {
                let name = payload.tool_name.get().unwrap_or_default();
                let input = out.raw(payload.tool_input);
                let (class, digest) = (tools::class(name), payload.digest());
                out.emit_made(Fact::Permission { name, class, digest, input });
            }
            "PermissionDenied" => {
                out.emit_made(Fact::CallEnd(payload.call_end(Outcome::Denied, None)));
            }
            "SubagentStart" => {
                let call = agent.and_then(|agent| tools::call_of(agent, payload.agent_type.filled()));
                out.emit_made(Fact::Spawn(Spawn {
                    agent,
                    call,
                    agent_type: payload.agent_type.0.clone().filter(|kind| !kind.is_empty()),
                    starts: true,
                    is_origin: call.is_some(),
                    ..Spawn::default()
                }));
            }
            "SubagentStop" => out.emit_made(Fact::AgentEnd(AgentEnd {
                agent,
                status: AgentStatus::Completed,
                evidence: EndEvidence::StopHook,
                report: out.raw(payload.last_assistant_message),
                agent_type: payload.agent_type.0.clone(),
                ..AgentEnd::default()
            })),
            "Stop" | "StopFailure" if agent.is_none() => {
                let status = if event == "Stop" { AgentStatus::Completed } else { AgentStatus::Failed };
                let text = out.raw(payload.last_assistant_message);
                let evidence = EndEvidence::StopHook;
                out.emit_made(Fact::TurnEnd { status, evidence, counts_run: false, text });
            }
            other => {
                if other == "Notification" && payload.notification_type.is("idle_prompt") {
                    out.emit(Fact::AwaitsPrompt);
                }
                let kind = match other {
                    "PreCompact" => EventKind::CompactPre,
                    "PostCompact" => EventKind::CompactPost,
                    "Notification" => EventKind::Notification,
                    _ => EventKind::UnknownHook,
                };
                out.emit(Fact::Note { kind, data: line.slice(line.text) });
            }
        }
        Ok(())
    }
}

impl Payload<'_> {
    /// The model's id of a call, as in the chat. In payloads with both ids, `tool_use_id` is the hook's own.
    fn call_id(&self) -> Option<&str> {
        self.tool_call_id.filled().or(self.tool_use_id.filled())
    }

    fn digest(&self) -> u64 {
        let name = self.tool_name.get().unwrap_or_default();
        canonical_digest(name, self.tool_input.map_or("", RawValue::get))
    }

    /// Returns the spawn result of a call that started an agent in the background: the agent is still at work.
    fn launched(&self) -> Option<SpawnResult<'static>> {
        let response: Launched<'_> = serde_json::from_str(self.tool_response?.get()).ok()?;
        let is_launched = response.display.is_some_and(|display| display.status.is("background"));
        is_launched.then(|| SpawnResult { finished: Some(false), ..SpawnResult::default() })
    }

    fn call_end<'a>(&'a self, outcome: Outcome, result: Option<RawJson<'a>>) -> CallEnd<'a> {
        let (id, name, digest) = (self.call_id(), self.tool_name.filled(), self.digest());
        CallEnd { id, name, digest, outcome, result, ..CallEnd::default() }
    }
}

fn user_prompt<'a>(payload: &'a Payload<'_>, out: &mut Emitter<'a, '_>) {
    let Some(text) = out.raw(payload.prompt) else { return out.emit(Fact::Activity) };
    let words = text.text();
    // The harness continues by itself once a background agent has ended.
    if words.is_empty() {
        return out.emit(Fact::Activity);
    }
    let what = if Notice::read(&words).is_some() { PromptKind::Meta } else { PromptKind::Asked };
    out.emit_made(Fact::Prompt { prompt_id: None, text, what });
}
