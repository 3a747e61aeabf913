//! `*.messages.json`: the conversation of a session, or of one agent. One object, which is rewritten as a whole: that of the
//! root after each message, that of an agent when it ends.
//!
//! Pitfalls: no message says whether it ends the turn: the last text does, and the object about the session. An error is
//! a message that no model gave. Tokens of the input hold those of the cache. The prompt of a person is in a wrapper;
//! the program puts results of teammates into the same.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError,
    lenient::{Flag, LineText, Num, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, Claim, Clock, EndEvidence, Fact, PromptKind, Response, Sink, SourceKind,
    Spawn, Usage,
};

use super::{
    layout::SEPARATOR,
    tools::{self, OpenCall, SpawnQueue},
};
use crate::common::parts::{elements, string};

/// Decodes one conversation.
#[derive(Debug)]
pub(super) struct Messages(pub(super) Hint);

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Conversation<'a> {
    agent: Str<'a>,
    session_id: Str<'a>,
    origin: Origin<'a>,
    messages: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Origin<'a> {
    subagent: Str<'a>,
    version: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Message<'a> {
    id: Str<'a>,
    role: Str<'a>,
    content: Option<&'a RawValue>,
    ts: Num,
    model_info: MessageModel<'a>,
    metrics: Option<Metrics>,
    metadata: MessageMetadata<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct MessageModel<'a> {
    id: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct MessageMetadata<'a> {
    display_role: Str<'a>,
}

/// Tokens of one response.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metrics {
    pub(super) input_tokens: Num,
    pub(super) output_tokens: Num,
    pub(super) cache_read_tokens: Num,
    pub(super) cache_write_tokens: Num,
}

impl Metrics {
    pub(super) fn usage(self) -> Usage {
        let [read, write] = [self.cache_read_tokens, self.cache_write_tokens].map(|kind| kind.0.unwrap_or(0));
        let fresh = self.input_tokens.0.map(|input| input.saturating_sub(read).saturating_sub(write));
        Usage::of_parts([fresh, self.output_tokens.0, Some(read), Some(write)], None)
    }
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Part<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    text: Option<&'a RawValue>,
    thinking: Option<&'a RawValue>,
    id: Str<'a>,
    name: Str<'a>,
    input: Option<&'a RawValue>,
    tool_use_id: Str<'a>,
    content: Option<&'a RawValue>,
    is_error: Flag,
}

/// What the program puts in front of the prompt of a person, and of what it says in the person's role.
const PROMPT: &str = "<user_input";
/// Beginning of what the program says there.
const DELIVERED: &str = "System-delivered ";

/// Whether a person gave a prompt; `None` where the text is none of the program's prompts.
fn is_of_person(text: &str) -> Option<bool> {
    let (_, text) = text.strip_prefix(PROMPT)?.split_once('>')?;
    Some(!text.starts_with(DELIVERED))
}

/// ConversationCalls of one conversation.
#[derive(Default)]
struct ConversationCalls {
    open: HashMap<String, OpenCall>,
    spawns: SpawnQueue,
}

impl LineDecoder for Messages {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let object: Conversation<'_> = serde_json::from_str(text.text)?;
        let named = object.session_id.filled().map(|id| id.split(SEPARATOR).next().unwrap_or(id));
        let Some(session) = named.or(self.0.session.as_deref()) else {
            return Err(LineError::MissingField { item: "a conversation", field: "sessionId" });
        };
        let by_path = self.0.agent.as_deref().filter(|_| object.agent.filled().is_none());
        let own = object.origin.subagent.filled().or(by_path);
        let claim = own.map_or(Claim::Root(Basis::Wire), |own| Claim::Agent(own, Basis::Wire));
        let mut out = Emitter::new(SourceKind::Transcript, Clock::Transcript, claim, text, sink);
        out.head.session = Some(session);
        let version = object.origin.version.filled();
        out.emit_made(Fact::Session { version, cwd: None, model: None, tells_starts: false });
        if let Some(own) = own {
            let name = object.agent.is("teammate").then(|| own.into());
            out.emit_made(Fact::Spawn(Spawn { agent: Some(own), name, ..Spawn::default() }));
        }
        let mut calls = ConversationCalls::default();
        let all: Vec<Message<'_>> = elements(object.messages);
        for message in &all {
            out.head.time = message.ts.signed();
            match message.role.get().unwrap_or_default() {
                "user" => user(message, own.is_some(), &mut calls, &mut out),
                "assistant" if message.metadata.display_role.is("error") => {
                    error(message, own.is_some(), &mut out)
                }
                "assistant" => answer(message, &mut calls, &mut out),
                _ => out.emit(Fact::Activity),
            }
        }
        Ok(())
    }
}

fn user<'a>(message: &Message<'a>, is_agent: bool, calls: &mut ConversationCalls, out: &mut Emitter<'a, '_>) {
    let plain = message.content.filter(|raw| raw.get().starts_with('"'));
    let parts: Vec<Part<'a>> = elements(message.content);
    let mut is_first = true;
    for part in parts.iter().filter(|part| part.kind.is("tool_result")) {
        is_first = false;
        let id = part.tool_use_id.filled();
        let open = id.and_then(|id| calls.open.remove(id)).unwrap_or_default();
        let ended = tools::end(id, &open, part.content, part.is_error.is_true());
        out.emit_made(Fact::CallEnd(ended.fact(out.raw(part.content), None)));
    }
    for raw in plain.into_iter().chain(parts.iter().filter_map(|part| part.text)) {
        let words = string(Some(raw)).unwrap_or_default();
        let is_asked = is_of_person(&words).unwrap_or(is_agent);
        if std::mem::take(&mut is_first) {
            out.emit(Fact::TurnStart);
        }
        let what = if is_asked { PromptKind::Asked } else { PromptKind::Meta };
        // With what is around it: its text is found again by its place.
        out.emit_made(Fact::Prompt { prompt_id: message.id.filled(), text: out.line.raw(raw), what });
    }
    if is_first && parts.is_empty() {
        out.emit(Fact::Activity);
    }
}

fn answer<'a>(message: &Message<'a>, calls: &mut ConversationCalls, out: &mut Emitter<'a, '_>) {
    let parts: Vec<Part<'a>> = elements(message.content);
    let has_call = parts.iter().any(|part| part.kind.is("tool_use"));
    let is_said =
        |part: &&Part<'a>| part.kind.is("text") && part.text.is_some_and(|text| text.get().len() > 2);
    let message_id = message.id.filled();
    out.emit_made(Fact::Response(Response {
        message_id: message_id.unwrap_or_default(),
        model: message.model_info.id.filled(),
        usage: message.metrics.map(Metrics::usage),
        has_call,
        has_text: parts.iter().any(|part| is_said(&part)),
        ..Response::default()
    }));
    for part in &parts {
        match part.kind.get().unwrap_or_default() {
            "tool_use" => {
                let (id, name) = (part.id.filled(), part.name.get().unwrap_or_default());
                let ConversationCalls { open, spawns } = calls;
                let (begin, call) =
                    tools::begin(id, name, part.input, out.line, &mut |mate| spawns.has_worked(mate, id));
                out.emit_made(Fact::CallBegin(begin));
                open.extend(id.map(|id| (id.to_owned(), call)));
            }
            "thinking" => out.emit_made(Fact::Thought { message_id, text: out.raw(part.thinking) }),
            _ => {
                if let Some(text) = out.raw(part.text).filter(|_| is_said(&part)) {
                    out.emit_made(Fact::Message { message_id, text });
                }
            }
        }
    }
}

/// Emits that a turn failed.
fn error<'a>(message: &Message<'a>, is_agent: bool, out: &mut Emitter<'a, '_>) {
    let parts: Vec<Part<'a>> = elements(message.content);
    let error = parts.iter().find_map(|part| out.raw(part.text));
    let (status, evidence) = (AgentStatus::Failed, EndEvidence::Notification);
    if is_agent {
        return out.emit_made(Fact::AgentEnd(AgentEnd { status, evidence, error, ..AgentEnd::default() }));
    }
    if let Some(text) = error {
        out.emit_made(Fact::Message { message_id: message.id.filled(), text });
    }
    out.emit_made(Fact::TurnEnd { status, evidence, counts_run: true, text: error });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_of_a_person_are_told_from_those_of_the_program() {
        let cases = [
            ("<user_input mode=\"act\">count</user_input>", Some(true)),
            ("<user_input>count", Some(true)),
            (
                "<user_input mode=\"act\">System-delivered teammate async run updates:\n- x</user_input>",
                Some(false),
            ),
            ("count", None),
            ("<user_input", None),
        ];
        for (text, expected) in cases {
            assert_eq!(is_of_person(text), expected, "{text}");
        }
    }
}
