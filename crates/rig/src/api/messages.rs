//! Anthropic's Messages API: an answer as its server-sent events.

use serde_json::{Value, json};

use super::Piece;
use crate::answer::ModelAnswer;

/// Characters of a text or of arguments per event.
const PIECE: usize = 48;

/// Returns the events of an answer in order; where it is to be cut, those up to the middle of its first block.
pub(super) fn pieces(answer: &ModelAnswer, is_cut: bool) -> Vec<Piece> {
    let mut pieces =
        vec![event("message_start", json!({"message": answer.beginning()})), event("ping", json!({}))];
    for (index, block) in answer.blocks.iter().enumerate() {
        let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        let delta = |delta: Value| event("content_block_delta", json!({"index": index, "delta": delta}));
        let begin =
            |block: Value| event("content_block_start", json!({"index": index, "content_block": block}));
        let mut completes = None;
        match block["type"].as_str() {
            Some("thinking") => {
                pieces.push(begin(json!({"type": "thinking", "thinking": "", "signature": ""})));
                let all = text("thinking");
                pieces
                    .extend(cut(&all).map(|part| delta(json!({"type": "thinking_delta", "thinking": part}))));
                pieces.push(delta(json!({"type": "signature_delta", "signature": text("signature")})));
            }
            Some("text") => {
                pieces.push(begin(json!({"type": "text", "text": ""})));
                let all = text("text");
                pieces.extend(cut(&all).map(|part| delta(json!({"type": "text_delta", "text": part}))));
            }
            // A call.
            _ => {
                let mut empty = block.clone();
                empty["input"] = json!({});
                pieces.push(begin(empty));
                let all = block["input"].to_string();
                let parts = std::iter::once("".to_owned()).chain(cut(&all));
                pieces.extend(
                    parts.map(|part| delta(json!({"type": "input_json_delta", "partial_json": part}))),
                );
                completes = Some(text("id"));
            }
        }
        if is_cut {
            return pieces;
        }
        pieces.push(Piece { completes, ..event("content_block_stop", json!({"index": index})) });
    }
    let tokens = answer.usage.iter().filter(|(name, _)| name.ends_with("_tokens"));
    let tokens: Value = tokens.map(|(name, value)| (name.clone(), value.clone())).collect();
    let delta = json!({"stop_reason": answer.stop_reason, "stop_sequence": null});
    pieces.push(event("message_delta", json!({"delta": delta, "usage": tokens})));
    pieces.push(event("message_stop", json!({})));
    pieces
}

fn event(kind: &str, mut fields: Value) -> Piece {
    fields["type"] = kind.into();
    Piece { bytes: format!("event: {kind}\ndata: {fields}\n\n"), completes: None }
}

/// A text in pieces; an empty one is one piece.
fn cut(text: &str) -> impl Iterator<Item = String> {
    let letters: Vec<char> = text.chars().collect();
    let parts: Vec<String> = letters.chunks(PIECE).map(|part| part.iter().collect()).collect();
    if parts.is_empty() { vec![String::new()] } else { parts }.into_iter()
}
