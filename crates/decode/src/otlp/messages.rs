//! Prompts and answers in spans: in attributes of several conventions, and in events of spans.

use serde::Deserialize;
use serde_json::Value;
use subscope_model::Text;

use super::record::{Attributes, Span};

/// Messages of a request as JSON, in attributes of spans and of their events.
const INPUTS: &[&str] = &["gen_ai.input.messages", "ai.prompt.messages", "ai.prompt"];
const OUTPUTS: &[&str] = &["gen_ai.output.messages"];
/// Events with an answer.
const CHOICE: &str = "gen_ai.choice";
/// Events with what the user said.
const USER: &str = "gen_ai.user.message";
/// Most messages of a request that are written as an attribute each.
const MAX_LISTED: usize = 10_000;

/// A message. Its texts are `parts`, or its content: a text or a list.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ChatMessage {
    role: String,
    parts: Vec<MessagePart>,
    content: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MessagePart {
    r#type: String,
    content: Value,
    text: Value,
}

impl ChatMessage {
    /// Returns its texts, and whether each is a thought.
    fn texts(&self) -> Vec<(bool, &str)> {
        let part = |part: &'_ MessagePart| (part.r#type == "reasoning", ());
        let mut texts: Vec<(bool, &str)> = Vec::new();
        for one in &self.parts {
            if matches!(one.r#type.as_str(), "text" | "reasoning" | "") {
                let words = one.content.as_str().or(one.text.as_str());
                texts.extend(words.map(|words| (part(one).0, words)));
            }
        }
        texts.extend(content_texts(&self.content).into_iter().map(|words| (false, words)));
        texts
    }
}

/// Returns the texts of a content: a text, or a list of blocks.
fn content_texts(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) => vec![text],
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block.as_str().or_else(|| block.get("text")?.as_str())).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

/// Returns the last text of the user in the request of a span.
pub(super) fn prompt(span: &Span) -> Option<Text> {
    let attributes =
        || std::iter::once(&span.attributes).chain(span.events.iter().map(|event| &event.attributes));
    let by_json = || {
        let all = attributes().flat_map(|one| INPUTS.iter().filter_map(|name| one.text(name)));
        all.filter_map(user_text).next()
    };
    let by_list = || {
        let listed = Listed { attributes: &span.attributes, prefix: "llm.input_messages" };
        listed
            .last_of("user")
            .or_else(|| Listed { attributes: &span.attributes, prefix: "gen_ai.prompt" }.last_of("user"))
    };
    let by_event = || {
        let said = span.events.iter().rev().find(|event| event.name == USER)?;
        event_words(said.attributes.text("content")?)
    };
    by_json().or_else(by_list).or_else(by_event).filter(|text| !text.is_empty()).map(Text::from)
}

/// Returns the last text of the user in messages, or the prompt of an object that has one.
fn user_text(json: &str) -> Option<String> {
    let mut read: Value = serde_json::from_str(json).ok()?;
    let messages = match read.as_object_mut() {
        Some(fields) => fields.remove("prompt").or_else(|| fields.remove("messages"))?,
        None => read,
    };
    if let Some(prompt) = messages.as_str() {
        return Some(prompt.to_owned());
    }
    let all: Vec<ChatMessage> = serde_json::from_value(messages).ok()?;
    let last = all.iter().rev().find(|message| message.role == "user")?;
    last.texts().first().map(|(_, words)| (*words).to_owned())
}

/// Returns the answers of a response in order, and whether each is a thought.
pub(super) fn answers(span: &Span) -> Vec<(bool, Text)> {
    let attributes =
        || std::iter::once(&span.attributes).chain(span.events.iter().map(|event| &event.attributes));
    let all = attributes().flat_map(|one| OUTPUTS.iter().filter_map(|name| one.text(name)));
    for json in all {
        let Ok(messages) = serde_json::from_str::<Vec<ChatMessage>>(json) else { continue };
        let own = messages.iter().filter(|message| message.role == "assistant");
        let texts = own.flat_map(ChatMessage::texts).map(|(is_thought, words)| (is_thought, words.into()));
        return texts.collect();
    }
    let by_event = || {
        let choice = span.events.iter().find(|event| event.name == CHOICE)?;
        event_words(choice.attributes.text("message").or(choice.attributes.text("content"))?)
    };
    let by_list = || {
        let listed = Listed { attributes: &span.attributes, prefix: "llm.output_messages" };
        listed.last_of("assistant").or_else(|| {
            Listed { attributes: &span.attributes, prefix: "gen_ai.completion" }.last_of("assistant")
        })
    };
    let said = span.attributes.text("ai.response.text").map(str::to_owned);
    let said = said.or_else(by_list).or_else(by_event).filter(|words| !words.is_empty());
    said.into_iter().map(|words| (false, Text::from(words))).collect()
}

/// Returns the content of the first event of a name.
pub(super) fn event_text<'s>(span: &'s Span, name: &str) -> Option<&'s str> {
    span.events.iter().find(|event| event.name == name)?.attributes.text("content")
}

/// Returns the words of an event: blocks in JSON, or a text.
fn event_words(text: &str) -> Option<String> {
    let Ok(content) = serde_json::from_str::<Value>(text) else { return Some(text.to_owned()) };
    let texts = content_texts(&content);
    if content.is_array() { (!texts.is_empty()).then(|| texts.join("\n")) } else { Some(text.to_owned()) }
}

/// Messages that are written as an attribute for each field.
struct Listed<'a> {
    attributes: &'a Attributes,
    prefix: &'static str,
}

impl Listed<'_> {
    /// Returns the text of the last message of a role.
    fn last_of(&self, role: &str) -> Option<String> {
        let mut last: Option<(usize, bool)> = None;
        for (name, value) in &self.attributes.0 {
            let Some(rest) = name.strip_prefix(self.prefix).and_then(|rest| rest.strip_prefix('.')) else {
                continue;
            };
            let Some((number, field)) = rest.split_once('.') else { continue };
            let is_role = matches!(field, "message.role" | "role");
            if is_role
                && super::conventions::only_text(value) == Some(role)
                && let Ok(number) = number.parse::<usize>()
                && number < MAX_LISTED
                && last.is_none_or(|(known, _)| known < number)
            {
                last = Some((number, field == "message.role"));
            }
        }
        let (number, is_nested) = last?;
        let at = format!("{}.{number}{}", self.prefix, if is_nested { ".message" } else { "" });
        let plain = self.attributes.text(&format!("{at}.content"));
        let listed = || self.attributes.text(&format!("{at}.contents.0.message_content.text"));
        plain.or_else(listed).map(str::to_owned)
    }
}
