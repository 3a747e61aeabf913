//! Google's Gemini API, as Gemini CLI speaks it.

use serde_json::{Value, json};

use super::{Piece, result, say, texts};
use crate::answer::ModelAnswer;

pub(super) fn conversation(request: &Value) -> Vec<Value> {
    let mut messages = Vec::new();
    for content in request["contents"].as_array().into_iter().flatten() {
        let parts = content["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
        if content["role"] == "model" {
            say(&mut messages, "assistant", json!([]));
            continue;
        }
        let answers: Vec<String> =
            parts.iter().flat_map(|part| texts(&part["functionResponse"]["response"])).collect();
        if !answers.is_empty() {
            result(&mut messages, &answers);
        }
        let said: Vec<Value> = parts.iter().filter(|part| part["text"].is_string()).cloned().collect();
        if !said.is_empty() {
            say(&mut messages, "user", said.into());
        }
    }
    messages
}

/// One event with all of it.
pub(super) fn pieces(answer: &ModelAnswer) -> Vec<Piece> {
    let last = answer.calls.last().map(|call| call.id.clone());
    vec![Piece { completes: last, ..Piece::data(&whole(answer)) }]
}

pub(super) fn whole(answer: &ModelAnswer) -> Value {
    let parts = answer.blocks.iter().map(|block| match block["type"].as_str() {
        Some("thinking") => json!({"text": block["thinking"], "thought": true}),
        Some("text") => json!({"text": block["text"]}),
        _ => json!({"functionCall": {"name": block["name"], "args": block["input"]}}),
    });
    let (spent, thoughts) = (answer.spent(), answer.reasoning());
    let read = spent.input + spent.cache_read;
    json!({"candidates": [{"index": 0, "finishReason": "STOP",
            "content": {"role": "model", "parts": parts.collect::<Vec<_>>()}}],
        "modelVersion": answer.model, "responseId": answer.id, "usageMetadata": {
            "promptTokenCount": read, "cachedContentTokenCount": spent.cache_read,
            "candidatesTokenCount": spent.output - thoughts, "thoughtsTokenCount": thoughts,
            "totalTokenCount": read + spent.output}})
}
