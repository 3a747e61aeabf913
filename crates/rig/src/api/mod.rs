//! The model APIs of the fake server.
//!
//! A script and an answer have the form of the Messages API. The others are translated: a request into messages, by
//! which actor and step are chosen, and an answer into the events or the object of that API.

mod chat_completions;
mod gemini;
mod messages;
mod responses;

use serde_json::{Value, json};

use crate::{answer::ModelAnswer, scenario::Failure};

/// A model API, known by the path of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    /// Anthropic's Messages.
    Messages,
    /// OpenAI's Responses.
    Responses,
    /// OpenAI's Chat Completions, which many others offer too.
    ChatCompletions,
    /// Google's Gemini: `generateContent` and `streamGenerateContent`.
    Gemini,
}

/// An event of a stream, with the call that it completes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) bytes: String,
    /// The call that this event completes.
    pub(crate) completes: Option<String>,
}

impl Piece {
    /// An event of a stream without names of events.
    fn data(value: &Value) -> Self {
        Self { bytes: format!("data: {value}\n\n"), completes: None }
    }
}

impl Api {
    /// Returns the API of which this is the path for an answer of the model.
    pub(crate) fn of(path: &str) -> Option<Self> {
        match path {
            "/v1/messages" => Some(Self::Messages),
            _ if path.ends_with("/responses") => Some(Self::Responses),
            _ if path.ends_with("/chat/completions") => Some(Self::ChatCompletions),
            _ if path.ends_with(":generateContent") || path.ends_with(":streamGenerateContent") => {
                Some(Self::Gemini)
            }
            _ => None,
        }
    }

    /// Returns the conversation of a request as messages: texts with their roles, and tool results.
    pub(crate) fn conversation(self, request: &Value) -> Vec<Value> {
        match self {
            Self::Messages => request["messages"].as_array().cloned().unwrap_or_default(),
            Self::Responses => responses::conversation(request),
            Self::ChatCompletions => chat_completions::conversation(request),
            Self::Gemini => gemini::conversation(request),
        }
    }

    /// True if an agent makes the request: one without tools is for a title or a summary. Claude Code's are known by their
    /// words instead.
    pub(crate) fn is_agents(self, request: &Value) -> bool {
        self == Self::Messages || request["tools"].as_array().is_some_and(|tools| !tools.is_empty())
    }

    /// Prefix of call ids.
    pub(crate) fn call_prefix(self) -> &'static str {
        match self {
            Self::Messages => "toolu_01",
            Self::Responses | Self::ChatCompletions | Self::Gemini => "call_",
        }
    }

    /// Whether tokens that are written to the cache are counted of their own.
    pub(crate) fn has_cache_writes(self) -> bool {
        self == Self::Messages
    }

    /// Whether the answer to this request is a stream.
    pub(crate) fn is_streamed(self, path: &str, request: &Value) -> bool {
        match self {
            Self::Gemini => path.contains(":stream"),
            Self::Messages | Self::Responses | Self::ChatCompletions => request["stream"] == true,
        }
    }

    /// Returns the events of an answer in order; where it is to be cut, only the first ones.
    pub(crate) fn pieces(self, answer: &ModelAnswer, is_cut: bool) -> Vec<Piece> {
        let mut pieces = match self {
            Self::Messages => return messages::pieces(answer, is_cut),
            Self::Responses => responses::pieces(answer),
            Self::ChatCompletions => chat_completions::pieces(answer),
            Self::Gemini => gemini::pieces(answer),
        };
        if is_cut {
            pieces.truncate(1);
        }
        pieces
    }

    /// Returns an answer in one piece.
    pub(crate) fn whole(self, answer: &ModelAnswer) -> Value {
        match self {
            Self::Messages => answer.whole(),
            Self::Responses => responses::whole(answer),
            Self::ChatCompletions => chat_completions::whole(answer),
            Self::Gemini => gemini::whole(answer),
        }
    }

    /// Returns the body of an error.
    pub(crate) fn refusal(self, failure: &Failure, request_id: &str) -> Value {
        let Failure { status, kind, message, .. } = failure;
        match self {
            Self::Messages => {
                json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id})
            }
            Self::Responses | Self::ChatCompletions => {
                json!({"error": {"message": message, "type": kind, "code": "invalid_prompt"}})
            }
            Self::Gemini => {
                json!({"error": {"code": status, "message": message, "status": "INVALID_ARGUMENT"}})
            }
        }
    }
}

/// Adds a message of a role; one of the model goes into the one before it, if that is the model's too: an answer of
/// several parts is one answer.
fn say(messages: &mut Vec<Value>, role: &str, content: Value) {
    let is_same = role == "assistant" && messages.last().is_some_and(|last| last["role"] == "assistant");
    if !is_same {
        messages.push(json!({"role": role, "content": content}));
    }
}

/// What a tool answered, as a message. A search for the person's last message must not find it.
fn result(messages: &mut Vec<Value>, texts: &[String]) {
    messages.push(json!({"role": "user", "content": [{"type": "tool_result", "content": texts.join("\n")}]}));
}

/// All texts of a value, in order.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(values) => values.iter().flat_map(texts).collect(),
        Value::Object(fields) => fields.values().flat_map(texts).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// Content of one text, or of parts with one each, as blocks.
fn blocks(content: &Value) -> Value {
    let parts = content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    let alone = content.as_str().into_iter();
    alone.chain(parts).map(|text| json!({"type": "text", "text": text})).collect()
}
