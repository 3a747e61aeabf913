//! Texts of a session for exports, which read them where they are written: a session may be larger than memory.

use std::borrow::Cow;

use crate::{AgentId, Event, EventKind, Millis, Payload, RawJson, Text};

/// A prompt of a person, or a message or thought of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionText {
    /// [`EventKind::UserPrompt`], [`EventKind::AgentMessage`] or [`EventKind::Reasoning`].
    pub kind: EventKind,
    /// Time of its line; `None` if unknown.
    pub at_ms: Option<Millis>,
    /// The run it belongs to (1-based); 0 before the first.
    pub run: u32,
    /// The agent that said it; the root of a prompt.
    pub agent: AgentId,
    /// The API's id of the response that it is a part of.
    pub message_id: Option<Text>,
    /// The harness's id of the prompt.
    pub prompt_id: Option<Text>,
    /// The JSON of its text: a string, or blocks of texts.
    pub payload: Payload,
}

impl SessionText {
    /// Returns the text of an event; `None` of one of another kind, or without a text.
    pub fn of_event(event: &Event) -> Option<Self> {
        let kinds = [EventKind::UserPrompt, EventKind::AgentMessage, EventKind::Reasoning];
        let text = event.data.get("text").filter(|text| text.is_string() && kinds.contains(&event.kind))?;
        Some(Self {
            kind: event.kind,
            at_ms: event.at_ms,
            run: event.run,
            agent: event.actor_id.0.clone(),
            message_id: event.text("message_id").map(Text::from),
            prompt_id: event.text("prompt_id").map(Text::from),
            payload: Payload::Inline(text.to_string().into()),
        })
    }

    /// Returns the text; `None` if its source cannot be read any more. `resolve` returns the JSON text of a payload.
    pub fn read(&self, resolve: &dyn Fn(&Payload) -> Option<String>) -> Option<String> {
        let json = match &self.payload {
            Payload::Inline(json) => Cow::Borrowed(&**json),
            Payload::At { .. } => Cow::Owned(resolve(&self.payload)?),
        };
        Some(RawJson { json: &json, offset: 0 }.text().into_owned())
    }
}
