//! Texts of a session for exports, which read them where they are written: a session may be larger than memory.

use std::borrow::Cow;

use serde_json::Value;

use crate::{AgentId, EventKind, EventRecord, Millis, Payload, RawJson, Text};

/// A prompt of a person, or a message or thought of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionText {
    /// [`EventKind::UserPrompt`], [`EventKind::AgentMessage`] or [`EventKind::Reasoning`].
    pub kind: EventKind,
    /// Time of its line; `None` if unknown.
    pub at_ms: Option<Millis>,
    /// The run it belongs to (1-based); 0 before the first.
    pub run: u32,
    /// The agent that wrote it; for a prompt, the agent that received it.
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
    pub fn of_record(record: &EventRecord) -> Option<Self> {
        let kinds = [EventKind::UserPrompt, EventKind::AgentMessage, EventKind::Reasoning];
        if !kinds.contains(&record.kind) {
            return None;
        }
        let data = record.data.known();
        let missing = record.data.missing().filter(|missing| missing.is_text);
        let known =
            || Some(Payload::Inline(data.get("text").filter(|text| text.is_string())?.to_string().into()));
        let text = |key: &str| data.get(key).and_then(Value::as_str).map(Text::from);
        Some(Self {
            kind: record.kind,
            at_ms: record.at_ms,
            run: record.run,
            agent: record.actor_id.0.clone(),
            message_id: text("message_id"),
            prompt_id: text("prompt_id"),
            payload: missing.map(|missing| missing.payload.clone()).or_else(known)?,
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
