//! Payloads of Kimi Code's hooks, one per line.
//!
//! They name no agent, and those of agents look like the root's, `Stop` included (2.1.0): so the owner of a call is
//! unknown, and only what certainly belongs to the session is read.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError,
    lenient::{Flag, LineText, Str},
};
use subscope_model::{Basis, Claim, Clock, Fact, PromptKind, Sink, SourceKind};

use crate::common::{
    hook_repeats::{HookEvent, Repeats},
    parts::elements,
};

/// Decodes one log of payloads.
#[derive(Debug)]
pub(super) struct Hooks {
    hint: Hint,
    /// The session that was last announced.
    announced: String,
    repeats: Repeats,
}

/// One payload. Fields of all events together.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Payload<'a> {
    hook_event_name: Str<'a>,
    session_id: Str<'a>,
    cwd: Str<'a>,
    prompt: Option<&'a RawValue>,
    is_steer: Flag,
    source: Str<'a>,
    reason: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Part<'a> {
    text: Option<&'a RawValue>,
}

impl Hooks {
    /// A decoder for the log that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { hint: hint.clone(), announced: String::new(), repeats: Repeats::default() }
    }
}

impl LineDecoder for Hooks {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let payload: Payload<'_> = serde_json::from_str(text.text)?;
        let Some(event) = payload.hook_event_name.filled() else {
            return Err(LineError::MissingField { item: "a hook payload", field: "hook_event_name" });
        };
        let mut out = Emitter::new(SourceKind::Hook, Clock::Receiver, Claim::Root(Basis::Wire), text, sink);
        out.head.session = payload.session_id.filled().or(self.hint.session.as_deref());
        let session = out.head.session.unwrap_or_default();
        if self.announced != session {
            session.clone_into(&mut self.announced);
            let cwd = payload.cwd.filled().map(Cow::Borrowed);
            out.emit_made(Fact::Session { version: None, cwd, model: None, tells_starts: false });
        }
        let delivered = HookEvent::of(event, false);
        if self.repeats.is_repeated(out.head.session.unwrap_or_default(), delivered, text.text) {
            return Ok(());
        }
        match event {
            "SessionStart" => out.emit_made(Fact::SessionStart { source: payload.source.0.clone() }),
            "SessionEnd" => out.emit_made(Fact::SessionEnd { reason: payload.reason.0.clone() }),
            "UserPromptSubmit" => {
                let is_steer = payload.is_steer.is_true();
                let what = if is_steer { PromptKind::Meta } else { PromptKind::Asked };
                for part in elements::<Part<'_>>(payload.prompt) {
                    let Some(text) = out.raw(part.text) else { continue };
                    out.emit_made(Fact::Prompt { prompt_id: None, text, what });
                }
            }
            _ => out.emit(Fact::Heartbeat),
        }
        Ok(())
    }
}
