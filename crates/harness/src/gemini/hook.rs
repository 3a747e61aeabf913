//! Payloads of Gemini's hooks, one per line.
//!
//! They name no agent, and those of agents have the session and the chat of the root (0.61.0): so the owner of a call
//! is unknown, and only what certainly belongs to the session is read.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError,
    lenient::{LineText, Str},
};
use subscope_model::{
    AgentStatus, Basis, Claim, Clock, EndEvidence, Fact, PromptKind, Sink, SourceKind, parse_rfc3339,
};

use crate::common::hook_repeats::{HookEvent, Repeats};

/// Decodes one log of payloads.
#[derive(Debug)]
pub(super) struct Hooks {
    hint: Hint,
    cwd: String,
    repeats: Repeats,
}

/// One payload. Fields of all events together.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Payload<'a> {
    session_id: Str<'a>,
    hook_event_name: Str<'a>,
    timestamp: Str<'a>,
    cwd: Str<'a>,
    prompt: Option<&'a RawValue>,
    source: Str<'a>,
    reason: Str<'a>,
}

impl Hooks {
    /// A decoder for the log that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { hint: hint.clone(), cwd: String::new(), repeats: Repeats::default() }
    }
}

impl LineDecoder for Hooks {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let payload: Payload<'_> = serde_json::from_str(text.text)?;
        let Some(event) = payload.hook_event_name.filled() else {
            return Err(LineError::MissingField { item: "a hook payload", field: "hook_event_name" });
        };
        let mut out = Emitter::new(SourceKind::Hook, Clock::Receiver, Claim::Root(Basis::Wire), text, sink);
        out.head.time = payload.timestamp.get().and_then(parse_rfc3339);
        out.head.session = payload.session_id.filled().or(self.hint.session.as_deref());
        if let Some(cwd) = payload.cwd.filled().filter(|cwd| *cwd != self.cwd) {
            cwd.clone_into(&mut self.cwd);
            let cwd = Some(Cow::Borrowed(cwd));
            out.emit_made(Fact::Session { version: None, cwd, model: None, tells_starts: false });
        }
        let delivered = HookEvent::of(event, false);
        if self.repeats.is_repeated(out.head.session.unwrap_or_default(), delivered, text.text) {
            return Ok(());
        }
        match event {
            "SessionStart" => out.emit_made(Fact::SessionStart { source: payload.source.0.clone() }),
            "SessionEnd" => out.emit_made(Fact::SessionEnd { reason: payload.reason.0.clone() }),
            "BeforeAgent" => {
                if let Some(text) = out.raw(payload.prompt) {
                    out.emit_made(Fact::Prompt { prompt_id: None, text, what: PromptKind::Asked });
                }
            }
            "AfterAgent" => {
                let (status, evidence) = (AgentStatus::Completed, EndEvidence::StopHook);
                out.emit(Fact::TurnEnd { status, evidence, counts_run: false, text: None });
            }
            _ => out.emit(Fact::Heartbeat),
        }
        Ok(())
    }
}
