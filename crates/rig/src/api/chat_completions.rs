//! OpenAI's Chat Completions API, as OpenCode, Copilot CLI and Qwen Code speak it.

use serde_json::{Value, json};

use super::{Piece, blocks, result, say, texts};
use crate::answer::ModelAnswer;

pub(super) fn conversation(request: &Value) -> Vec<Value> {
    let mut messages = Vec::new();
    for message in request["messages"].as_array().into_iter().flatten() {
        match message["role"].as_str() {
            Some("tool") => result(&mut messages, &texts(&message["content"])),
            Some(role @ ("user" | "assistant")) => say(&mut messages, role, blocks(&message["content"])),
            _ => {}
        }
    }
    messages
}

pub(super) fn pieces(answer: &ModelAnswer) -> Vec<Piece> {
    let chunk = |choices: Value, usage: Value| {
        let mut chunk = head(answer, "chat.completion.chunk");
        chunk["choices"] = choices;
        if !usage.is_null() {
            chunk["usage"] = usage;
        }
        Piece::data(&chunk)
    };
    let delta = |delta: Value, finish: Value| {
        chunk(json!([{"index": 0, "delta": delta, "finish_reason": finish}]), Value::Null)
    };
    let mut pieces = vec![delta(json!({"role": "assistant"}), Value::Null)];
    let mut calls = 0;
    for block in &answer.blocks {
        match block["type"].as_str() {
            Some("thinking") => {
                pieces.push(delta(json!({"reasoning_content": block["thinking"]}), Value::Null));
            }
            Some("text") => pieces.push(delta(json!({"content": block["text"]}), Value::Null)),
            _ => {
                let mut call = function(block);
                call["index"] = calls.into();
                calls += 1;
                let completes = block["id"].as_str().map(str::to_owned);
                pieces.push(Piece { completes, ..delta(json!({"tool_calls": [call]}), Value::Null) });
            }
        }
    }
    pieces.push(delta(json!({}), finish(answer).into()));
    pieces.push(chunk(json!([]), usage(answer)));
    pieces.push(Piece { bytes: "data: [DONE]\n\n".to_owned(), completes: None });
    pieces
}

pub(super) fn whole(answer: &ModelAnswer) -> Value {
    let of = |kind: &'static str| answer.blocks.iter().filter(move |block| block["type"] == kind);
    let text: String = of("text").filter_map(|block| block["text"].as_str()).collect();
    let mut message = json!({"role": "assistant", "content": text});
    let calls: Vec<Value> = of("tool_use").map(function).collect();
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let mut whole = head(answer, "chat.completion");
    whole["choices"] = json!([{"index": 0, "message": message, "finish_reason": finish(answer)}]);
    whole["usage"] = usage(answer);
    whole
}

fn head(answer: &ModelAnswer, object: &str) -> Value {
    json!({"id": answer.id, "object": object, "created": 0, "model": answer.model})
}

fn function(block: &Value) -> Value {
    json!({"id": block["id"], "type": "function",
        "function": {"name": block["name"], "arguments": block["input"].to_string()}})
}

fn finish(answer: &ModelAnswer) -> &'static str {
    if answer.calls.is_empty() { "stop" } else { "tool_calls" }
}

fn usage(answer: &ModelAnswer) -> Value {
    let spent = answer.spent();
    let read = spent.input + spent.cache_read;
    json!({"prompt_tokens": read, "prompt_tokens_details": {"cached_tokens": spent.cache_read},
        "completion_tokens": spent.output, "completion_tokens_details": {"reasoning_tokens": answer.reasoning()},
        "total_tokens": read + spent.output})
}
