//! Converts a step of the script to an answer: blocks, ids and tokens, in the form of the Messages API.

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::{
    api::Api,
    choice::everything_read,
    log::{Called, Spent},
    scenario::{Step, Tool},
};

/// Replacement of `{{re:REGEX}}` without a match, so that a wrong script is noticed.
const MISSING: &str = "MISSING";

/// A request to the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'r> {
    pub(crate) api: Api,
    pub(crate) request: &'r Value,
    /// Its conversation, in the form of the Messages API.
    pub(crate) messages: &'r [Value],
    pub(crate) model: &'r str,
    /// Its length.
    pub(crate) bytes: usize,
}

/// A complete answer.
#[derive(Clone, Debug)]
pub(crate) struct ModelAnswer {
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) blocks: Vec<Value>,
    pub(crate) stop_reason: &'static str,
    /// Usage at the end of the message; at its start there is one output token.
    pub(crate) usage: Map<String, Value>,
    pub(crate) calls: Vec<Called>,
}

impl ModelAnswer {
    /// Makes the answer to a request. `name` and `number` determine its ids, which are unique.
    pub(crate) fn of(step: &Step, name: &str, number: usize, asked: &Asked<'_>) -> Self {
        let Asked { api, request, messages, .. } = *asked;
        let read = everything_read(messages);
        let mut blocks = Vec::new();
        if let Some(thinking) = &step.thinking {
            let signature = id("Eq", &[name, thinking]);
            blocks.push(json!({"type": "thinking", "thinking": thinking, "signature": signature}));
        }
        if let Some(text) = &step.text {
            blocks.push(json!({"type": "text", "text": fill(text, &read)}));
        }
        let mut calls = Vec::new();
        for (at, tool) in step.tools.iter().enumerate() {
            let call_id = id(api.call_prefix(), &[name, &number.to_string(), &at.to_string()]);
            let (name, input) = fitted(tool, request, &read);
            let mut block = json!({"type": "tool_use", "id": call_id, "name": name, "input": input});
            if let Some(namespace) = &tool.namespace {
                block["namespace"] = namespace.as_str().into();
            }
            blocks.push(block);
            calls.push(Called { id: call_id, name: name.to_owned(), input, told_at: None });
        }
        Self {
            id: id("msg_01", &[name, &number.to_string()]),
            model: asked.model.to_owned(),
            usage: usage(step, &blocks, asked),
            stop_reason: if calls.is_empty() { "end_turn" } else { "tool_use" },
            blocks,
            calls,
        }
    }

    /// The tokens that it claims.
    pub(crate) fn spent(&self) -> Spent {
        let figure = |name: &str| self.usage.get(name).and_then(Value::as_u64).unwrap_or(0);
        Spent {
            input: figure("input_tokens"),
            output: figure("output_tokens"),
            cache_read: figure("cache_read_input_tokens"),
            cache_write: figure("cache_creation_input_tokens"),
        }
    }

    /// Reasoning tokens among its output tokens, for APIs that count them separately.
    pub(crate) fn reasoning(&self) -> u64 {
        let thinks = self.blocks.iter().any(|block| block["type"] == "thinking");
        if thinks { self.spent().output / 3 } else { 0 }
    }

    /// The message without its content, as in the event that starts it.
    pub(crate) fn beginning(&self) -> Value {
        let mut usage = self.usage.clone();
        usage.insert("output_tokens".into(), 1.into());
        json!({"id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage})
    }

    /// The message in one piece.
    pub(crate) fn whole(&self) -> Value {
        json!({"id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": self.blocks,
            "stop_reason": self.stop_reason, "stop_sequence": null, "usage": self.usage})
    }
}

/// An id in the vendor's format, hashed from the identified content.
pub(crate) fn id(prefix: &str, key: &[&str]) -> String {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    // FNV-1a with 128 bits: it need not be secret, only equal on all machines.
    let bytes = key.iter().flat_map(|part| part.bytes().chain([0]));
    let mut number = bytes.fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    });
    let mut text = prefix.to_owned();
    for _ in 0..22 {
        text.push(char::from(LETTERS[(number % 62) as usize]));
        number /= 62;
    }
    text
}

/// Adapts a call to the requesting version: up to 2.1.50 `Agent` is named `Task`, and older versions accept fewer
/// arguments.
fn fitted<'t>(tool: &'t Tool, request: &Value, read: &str) -> (&'t str, Value) {
    let offered =
        |name: &str| request["tools"].as_array().into_iter().flatten().find(|it| it["name"] == name);
    let mut input = filled(&tool.input, read);
    if tool.name != "Agent" {
        return (&tool.name, input);
    }
    let (name, known) = match (offered("Agent"), offered("Task")) {
        (Some(known), _) => ("Agent", known),
        (None, Some(known)) => ("Task", known),
        (None, None) => return ("Agent", input),
    };
    if let (Some(arguments), Some(known)) =
        (input.as_object_mut(), known["input_schema"]["properties"].as_object())
    {
        arguments.retain(|name, _| known.contains_key(name));
    }
    (name, input)
}

/// Replaces `{{re:REGEX}}` in a text by the last match over what was read.
fn fill(text: &str, read: &str) -> String {
    let mut parts = text.split("{{re:");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (pattern, rest) = part.split_once("}}").unwrap_or((part, ""));
        let found = Regex::new(pattern).ok().and_then(|pattern| {
            let last = pattern.captures_iter(read).last()?;
            last.get(1).or_else(|| last.get(0)).map(|found| found.as_str().to_owned())
        });
        filled += found.as_deref().unwrap_or(MISSING);
        filled += rest;
    }
    filled
}

/// The same in every text of a value.
fn filled(value: &Value, read: &str) -> Value {
    match value {
        Value::String(text) => fill(text, read).into(),
        Value::Array(values) => values.iter().map(|value| filled(value, read)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), filled(value, read)));
            Value::Object(fields.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Invented but plausible: a quarter token a byte, nine tenths of a continued conversation from the cache.
fn usage(step: &Step, blocks: &[Value], asked: &Asked<'_>) -> Map<String, Value> {
    let total = asked.bytes / 4;
    let cached = if asked.messages.len() > 1 { total * 9 / 10 } else { 0 };
    let share = if asked.api.has_cache_writes() { 20 } else { 1 };
    let fresh = ((total - cached) / share).max(3);
    let written = total.saturating_sub(cached + fresh);
    let output = blocks.iter().map(|block| block.to_string().len()).sum::<usize>() / 4 + 1;
    let invented = json!({"input_tokens": fresh, "cache_creation_input_tokens": written,
        "cache_read_input_tokens": cached, "output_tokens": output, "service_tier": "standard",
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0}});
    let mut usage = invented.as_object().cloned().unwrap_or_default();
    usage.extend(step.usage.clone());
    usage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_in_the_last_match_of_what_was_read() {
        let read = "agentId: a1 …\nagentId: b2 …";
        assert_eq!(fill("stop {{re:agentId: (\\w+)}}, please", read), "stop b2, please");
        assert_eq!(fill("stop {{re:no (such)}}", read), "stop MISSING");
        assert_eq!(filled(&json!({"a": ["{{re:agentId}}", 1]}), read), json!({"a": ["agentId", 1]}));
    }

    #[test]
    fn calls_an_agent_as_the_version_does() {
        let tool = Tool {
            name: "Agent".into(),
            namespace: None,
            input: json!({"prompt": "p", "run_in_background": true}),
        };
        let old = json!({"tools": [{"name": "Task", "input_schema": {"properties": {"prompt": {}}}}]});
        assert_eq!(fitted(&tool, &old, ""), ("Task", json!({"prompt": "p"})));
        let new = json!({"tools": [{"name": "Agent", "input_schema": {"properties": {"prompt": {}, "run_in_background": {}}}}]});
        assert_eq!(fitted(&tool, &new, "").1["run_in_background"], true);
        assert_eq!(
            fitted(&tool, &json!({}), "").0,
            "Agent",
            "a tool that is not offered is called all the same"
        );
    }

    #[test]
    fn makes_ids_of_the_vendors_shape() {
        let made = id("msg_01", &["a", "1"]);
        assert_eq!((made.len(), made.clone()), (28, id("msg_01", &["a", "1"])));
        assert_ne!(made, id("msg_01", &["a1", ""]));
    }
}
