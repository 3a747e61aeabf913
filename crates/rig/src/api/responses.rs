//! OpenAI's Responses API, as Codex speaks it (0.169.0).

use serde_json::{Value, json};

use super::{Piece, blocks, result, say, texts};
use crate::answer::ModelAnswer;

/// The input items as messages. A message from one agent to another is a text of its own, and a prompt for the
/// receiver.
pub(super) fn conversation(request: &Value) -> Vec<Value> {
    let mut messages = Vec::new();
    for item in request["input"].as_array().into_iter().flatten() {
        match item["type"].as_str().unwrap_or("message") {
            "message" if item["role"] == "assistant" => {
                say(&mut messages, "assistant", blocks(&item["content"]))
            }
            "message" if item["role"] == "user" => say(&mut messages, "user", blocks(&item["content"])),
            "agent_message" => {
                let said = texts(&item["content"]).into_iter();
                say(&mut messages, "user", said.map(|text| json!({"type": "text", "text": text})).collect());
            }
            "reasoning" | "function_call" | "custom_tool_call" => say(&mut messages, "assistant", json!([])),
            "function_call_output" | "custom_tool_call_output" => {
                result(&mut messages, &texts(&item["output"]))
            }
            _ => {}
        }
    }
    messages
}

pub(super) fn pieces(answer: &ModelAnswer) -> Vec<Piece> {
    let head = json!({"id": answer.id, "object": "response", "created_at": 0, "status": "in_progress", "model": answer.model});
    let mut pieces = vec![event("response.created", json!({"response": head}))];
    for (index, item) in items(answer).into_iter().enumerate() {
        let fields = json!({"output_index": index, "item": item});
        let delta = |kind: &str, delta: &Value| {
            event(
                kind,
                json!({"output_index": index, "item_id": item["id"], "content_index": 0, "delta": delta}),
            )
        };
        let mut begun = fields.clone();
        // A text and arguments follow their item.
        let followed = match item["type"].as_str() {
            Some("message") => {
                begun["item"]["content"] = json!([]);
                Some(delta("response.output_text.delta", &item["content"][0]["text"]))
            }
            Some("function_call") => {
                begun["item"]["arguments"] = "".into();
                Some(delta("response.function_call_arguments.delta", &item["arguments"]))
            }
            _ => None,
        };
        pieces.push(event("response.output_item.added", begun));
        pieces.extend(followed);
        let completes = item["call_id"].as_str().map(str::to_owned);
        pieces.push(Piece { completes, ..event("response.output_item.done", fields) });
    }
    pieces.push(event("response.completed", json!({"response": whole(answer)})));
    pieces
}

pub(super) fn whole(answer: &ModelAnswer) -> Value {
    let spent = answer.spent();
    let read = spent.input + spent.cache_read;
    json!({"id": answer.id, "object": "response", "created_at": 0, "status": "completed", "model": answer.model,
        "output": items(answer), "usage": {
            "input_tokens": read, "input_tokens_details": {"cached_tokens": spent.cache_read},
            "output_tokens": spent.output, "output_tokens_details": {"reasoning_tokens": answer.reasoning()},
            "total_tokens": read + spent.output}})
}

fn items(answer: &ModelAnswer) -> Vec<Value> {
    let items = answer.blocks.iter().enumerate().map(|(at, block)| {
        let id = |prefix: &str| format!("{prefix}_{}_{at}", answer.id);
        match block["type"].as_str() {
            Some("thinking") => json!({"type": "reasoning", "id": id("rs"), "encrypted_content": "bm9uZQ==",
                "summary": [{"type": "summary_text", "text": block["thinking"]}]}),
            Some("text") => {
                json!({"type": "message", "id": id("msg"), "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": block["text"], "annotations": []}]})
            }
            _ => {
                let mut call = json!({"type": "function_call", "id": id("fc"), "call_id": block["id"],
                    "name": block["name"], "arguments": block["input"].to_string(), "status": "completed"});
                if let Some(namespace) = block["namespace"].as_str() {
                    call["namespace"] = namespace.into();
                }
                call
            }
        }
    });
    items.collect()
}

fn event(kind: &str, mut fields: Value) -> Piece {
    fields["type"] = kind.into();
    Piece { bytes: format!("event: {kind}\ndata: {fields}\n\n"), completes: None }
}
