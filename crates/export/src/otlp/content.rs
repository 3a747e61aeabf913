//! Contents of spans: messages, arguments and results as JSON in strings, masked and cut.

use std::borrow::Cow;

use hashbrown::HashMap;
use serde_json::{Value, json, value::RawValue};
use subscope_model::{EventKind, Payload, SessionText};

use crate::{
    compact::compact,
    pictures::without_pictures,
    redact::{Mask, redact},
};

/// Most bytes of an attribute: collectors and backends drop or cut longer ones.
const MAX_BYTES: usize = 60 << 10;

/// Source of contents.
pub struct Contents<'s> {
    /// The session's prompts, messages and thoughts, in order.
    pub texts: &'s [SessionText],
    /// Returns the JSON text of a payload; `None` if its source cannot be read any more.
    pub resolve: &'s (dyn Fn(&Payload) -> Option<String> + Sync),
}

impl Contents<'_> {
    /// Returns arguments or a result; `None` if they cannot be read any more, or are no JSON.
    pub(super) fn payload(&self, payload: Option<&Payload>, mask: Mask) -> Option<String> {
        write_payload((self.resolve)(payload?)?, mask)
    }
}

/// Returns a prompt as a message of the user (semantic conventions, `gen_ai.input.messages`).
pub(super) fn prompt(text: String, mask: Mask) -> String {
    fit(&[("text", text)], mask, &|parts| json!([{ "role": "user", "parts": parts }]))
}

/// Parts of messages and prompts.
pub(super) struct Messages<'s> {
    contents: &'s Contents<'s>,
    /// Parts with the id of their response, ordered by it: a session has about one for each call, and a map of lists
    /// takes several times as much memory.
    parts: Vec<(&'s str, &'s SessionText)>,
    /// Prompts by run.
    prompts: HashMap<u32, Vec<&'s SessionText>>,
}

impl<'s> Messages<'s> {
    pub(super) fn new(contents: &'s Contents<'s>) -> Self {
        let mut messages = Self { contents, parts: Vec::new(), prompts: HashMap::new() };
        for text in contents.texts {
            match &text.message_id {
                _ if text.kind == EventKind::UserPrompt => {
                    messages.prompts.entry(text.run).or_default().push(text);
                }
                Some(id) => messages.parts.push((id, text)),
                None => {}
            }
        }
        // Stable: parts of one response stay in order.
        messages.parts.sort_by_key(|(id, _)| *id);
        messages
    }

    /// Returns the output of a response (semantic conventions, `gen_ai.output.messages`); `None` if it has no text.
    pub(super) fn output(&self, response: &str, finish: Option<&str>, mask: Mask) -> Option<String> {
        let part = |text: &SessionText| {
            let kind = if text.kind == EventKind::Reasoning { "reasoning" } else { "text" };
            Some((kind, text.read(self.contents.resolve)?))
        };
        let mut own = self.of(response).peekable();
        own.peek()?;
        let parts: Vec<_> = own.filter_map(part).collect();
        Some(fit(&parts, mask, &|parts| match finish {
            Some(finish) => json!([{ "role": "assistant", "parts": parts, "finish_reason": finish }]),
            None => json!([{ "role": "assistant", "parts": parts }]),
        }))
    }

    /// Returns about how long what a response says is, in bytes.
    pub(super) fn len(&self, response: &str) -> usize {
        self.of(response).map(|text| text.payload.bytes()).sum()
    }

    fn of(&self, response: &str) -> impl Iterator<Item = &'s SessionText> {
        let first = self.parts.partition_point(|(id, _)| *id < response);
        let after = self.parts.get(first..).unwrap_or_default();
        after.iter().take_while(move |(id, _)| *id == response).map(|(_, text)| *text)
    }

    /// Returns the prompts of a run, from 1.
    pub(super) fn prompts(&self, run: u32) -> Option<String> {
        let prompts = self.prompts.get(&run)?.iter().filter_map(|text| text.read(self.contents.resolve));
        Some(prompts.collect::<Vec<_>>().join("\n\n"))
    }
}

fn write_payload(json: String, mask: Mask) -> Option<String> {
    serde_json::from_str::<&RawValue>(&json).ok()?;
    let text = without_pictures(&json);
    let text = compact(&text).into_owned();
    let mut masked = String::from_utf8(mask.json(text.into_bytes()).ok()?).ok()?;
    masked.truncate(cut(&masked, MAX_BYTES).len());
    Some(masked)
}

/// Returns a text as the mask says.
pub(super) fn masked(text: &str, mask: Mask) -> Cow<'_, str> {
    match mask {
        Mask::Secrets => redact(text),
        Mask::Nothing => Cow::Borrowed(text),
    }
}

/// Returns a message that fits into an attribute: its texts are cut so that the JSON stays whole.
fn fit(parts: &[(&str, String)], mask: Mask, message: &dyn Fn(Vec<Value>) -> Value) -> String {
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
