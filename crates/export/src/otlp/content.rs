//! Contents of spans: messages, arguments and results as JSON in strings, masked and cut.

use std::{borrow::Cow, collections::HashMap, io::Write as _};

use serde_json::{Value, json};
use subscope_model::{Event, EventKind, Payload};

use crate::{
    Resolve,
    redact::{Mask, Redacted, redact},
};

/// Most bytes of an attribute: collectors and backends drop or cut longer ones.
const MAX_BYTES: usize = 60 << 10;

/// Source of contents.
pub struct Contents<'s> {
    /// The session's events, in feed order: they have the texts of messages.
    pub events: &'s [Event],
    /// Reads arguments and results.
    pub resolve: &'s Resolve<'s>,
}

/// Parts of messages, by id of their response; prompts by run.
pub(super) struct Messages<'s> {
    parts: HashMap<&'s str, Vec<(&'static str, &'s str)>>,
    prompts: HashMap<u32, Vec<&'s str>>,
}

impl<'s> Messages<'s> {
    pub(super) fn new(events: &'s [Event]) -> Self {
        let mut messages = Self { parts: HashMap::new(), prompts: HashMap::new() };
        for event in events {
            let kinds = [(EventKind::AgentMessage, "text"), (EventKind::Reasoning, "reasoning")];
            let kind = kinds.iter().find(|(kind, _)| *kind == event.kind).map(|(_, word)| *word);
            match (kind, event.text("message_id"), event.text("text")) {
                (Some(kind), Some(id), Some(text)) => {
                    messages.parts.entry(id).or_default().push((kind, text))
                }
                (None, _, Some(text)) if event.kind == EventKind::UserPrompt => {
                    messages.prompts.entry(event.run).or_default().push(text);
                }
                _ => {}
            }
        }
        messages
    }

    /// Returns what a response says (semantic conventions, `gen_ai.output.messages`); `None` if it has no text.
    pub(super) fn output(&self, response: &str, finish: Option<&str>, mask: Mask) -> Option<String> {
        let parts = self.parts.get(response)?;
        let message = |parts: Vec<Value>| match finish {
            Some(finish) => json!([{ "role": "assistant", "parts": parts, "finish_reason": finish }]),
            None => json!([{ "role": "assistant", "parts": parts }]),
        };
        Some(fit(parts, mask, &message))
    }

    /// Returns the prompts of a run, from 1.
    pub(super) fn prompts(&self, run: u32) -> Option<String> {
        Some(self.prompts.get(&run)?.join("\n\n"))
    }
}

/// Returns a prompt as a message of the user (semantic conventions, `gen_ai.input.messages`).
pub(super) fn input(prompt: &str, mask: Mask) -> String {
    fit(&[("text", prompt)], mask, &|parts| json!([{ "role": "user", "parts": parts }]))
}

/// Returns arguments or a result as JSON; `None` if it cannot be read any more.
pub(super) fn payload(payload: Option<&Payload>, resolve: &Resolve<'_>, mask: Mask) -> Option<String> {
    let json = resolve(payload?)?.to_string();
    let masked = match mask {
        Mask::Nothing => json,
        Mask::Secrets => {
            let mut out = Redacted::new(Vec::new());
            out.write_all(json.as_bytes()).ok()?;
            String::from_utf8(out.finish().ok()?).ok()?
        }
    };
    Some(cut(&masked, MAX_BYTES).to_owned())
}

/// Returns a text as the mask says.
pub(super) fn masked(text: &str, mask: Mask) -> Cow<'_, str> {
    match mask {
        Mask::Secrets => redact(text),
        Mask::Nothing => Cow::Borrowed(text),
    }
}

/// Returns a message that fits into an attribute: its texts are cut so that the JSON stays whole.
fn fit(parts: &[(&str, &str)], mask: Mask, message: &dyn Fn(Vec<Value>) -> Value) -> String {
    let masked: Vec<(&str, Cow<'_, str>)> =
        parts.iter().map(|(kind, text)| (*kind, masked(text, mask))).collect();
    let mut most = MAX_BYTES;
    loop {
        let parts = masked.iter().map(|(kind, text)| json!({ "type": kind, "content": cut(text, most) }));
        let text = message(parts.collect()).to_string();
        if text.len() <= MAX_BYTES || most == 0 {
            return cut(&text, MAX_BYTES).to_owned();
        }
        most /= 2;
    }
}

/// Returns the longest start of a text of whole characters and at most this many bytes.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}
