//! What `qwen --output-format stream-json` prints.
//!
//! Its lines have the types of another harness's stream, but fields of tasks are in `data`, and a message's id is that of its
//! line: its tokens cannot be counted once with those of the chat. `result` sums up those of all agents.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError, digest,
    lenient::{Flag, LineText, Num, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallEnd, Checksum, Claim, Clock, EndEvidence, Fact, PromptKind, Response,
    Sink, SourceKind, Spawn, SpawnResult, Usage, parse_rfc3339,
};

use super::tools;
use crate::common::parts::{elements, string};

/// Words of lines that change the state of agents, or of the session.
pub(super) const CHANGES: &[&str] =
    &["\"init\"", "\"result\"", "\"task_started\"", "\"task_notification\"", "\"agent\""];

/// What the harness itself puts into the conversation when an agent in the background has ended.
const NOTICE: &str = "Background agent \"";

/// Beginning of the result of a call with an agent in the background.
const LAUNCHED: &str = "Background agent launched";

/// Decodes one recorded or piped stream.
#[derive(Debug)]
pub(super) struct Stream(Hint);

/// One line. Fields of all line types together: they do not collide.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    subtype: Str<'a>,
    uuid: Str<'a>,
    session_id: Str<'a>,
    timestamp: Str<'a>,
    parent_tool_use_id: Str<'a>,
    cwd: Str<'a>,
    model: Str<'a>,
    qwen_code_version: Str<'a>,
    message: Option<Message<'a>>,
    data: Option<Task<'a>>,
    usage: Option<Tokens>,
    is_error: Flag,
    result: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Message<'a> {
    content: Option<&'a RawValue>,
}

/// A block of a message's content.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Block<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    text: Option<&'a RawValue>,
    thinking: Option<&'a RawValue>,
    id: Str<'a>,
    name: Str<'a>,
    input: Option<&'a RawValue>,
    tool_use_id: Str<'a>,
    is_error: Flag,
    content: Option<&'a RawValue>,
}

/// Data about an agent in `task_started` and `task_notification`.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Task<'a> {
    task_id: Str<'a>,
    tool_use_id: Str<'a>,
    description: Str<'a>,
    subagent_type: Str<'a>,
    status: Str<'a>,
}

/// The sum over all responses; the input holds the cached ones.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Tokens {
    input_tokens: Num,
    output_tokens: Num,
    cache_read_input_tokens: Num,
    total_tokens: Num,
}

impl Stream {
    /// A decoder for the stream that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self(hint.clone())
    }
}

impl LineDecoder for Stream {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let line: Line<'_> = serde_json::from_str(text.text)?;
        let claim = line.parent_tool_use_id.filled().map_or(Claim::Root(Basis::Wire), Claim::SpawnedBy);
        let mut out = Emitter::new(SourceKind::Stream, Clock::Stream, claim, text, sink);
        out.head.time = line.timestamp.get().and_then(parse_rfc3339);
        out.head.session = line.session_id.filled().or(self.0.session.as_deref());
        out.head.line_id = line.uuid.filled();
        let blocks: Vec<Block<'_>> =
            line.message.as_ref().map(|message| elements(message.content)).unwrap_or_default();
        match (line.kind.get(), line.subtype.get()) {
            (Some("system"), Some("init")) => out.emit_made(Fact::Session {
                version: line.qwen_code_version.filled(),
                cwd: line.cwd.0.clone(),
                model: line.model.filled(),
                tells_starts: true,
            }),
            (Some("system"), Some("task_started")) => started(line.data.as_ref(), &mut out),
            (Some("system"), Some("task_notification")) => ended(line.data.as_ref(), &mut out),
            (Some("assistant"), _) => answer(&blocks, &mut out),
            (Some("user"), _) => user(&blocks, &mut out),
            (Some("result"), _) => result(&line, &mut out),
            _ => {}
        }
        Ok(())
    }
}

fn started(task: Option<&Task<'_>>, out: &mut Emitter<'_, '_>) {
    let Some(task) = task else { return };
    out.emit_made(Fact::Spawn(Spawn {
        agent: task.task_id.filled(),
        call: task.tool_use_id.filled(),
        agent_type: task.subagent_type.0.clone(),
        description: task.description.0.clone(),
        starts: true,
        is_origin: true,
        ..Spawn::default()
    }));
}

fn ended(task: Option<&Task<'_>>, out: &mut Emitter<'_, '_>) {
    let Some(task) = task else { return };
    if let Some(status) = task.status.get().and_then(tools::status) {
        out.emit_made(Fact::AgentEnd(AgentEnd {
            agent: task.task_id.filled(),
            call: task.tool_use_id.filled(),
            status,
            evidence: EndEvidence::Notification,
            ..AgentEnd::default()
        }));
    }
}

fn answer<'a>(blocks: &[Block<'a>], out: &mut Emitter<'a, '_>) {
    let has = |kind: &str| blocks.iter().any(|block| block.kind.is(kind));
    let is_root = matches!(out.head.claim, Claim::Root(_));
    let message_id = out.head.line_id;
    out.emit(Fact::Response(Response {
        message_id: message_id.unwrap_or_default(),
        has_call: has("tool_use") || !is_root,
        has_text: has("text"),
        synthetic: true,
        ..Response::default()
    }));
    for block in blocks {
        // Chats have other ids of the same lines.
        if let Some(text) = out.raw(block.text) {
            out.emit_as(None, Fact::Message { message_id, text });
        }
        if let Some(text) = out.raw(block.thinking) {
            out.emit_as(None, Fact::Thought { message_id, text: Some(text) });
        }
        if block.kind.is("tool_use") {
            let name = block.name.get().unwrap_or_default();
            let digest = digest(name, block.input.map_or("", RawValue::get));
            out.emit_made(Fact::CallBegin(tools::begin(
                block.id.filled(),
                name,
                block.input,
                out.line,
                digest,
            )));
        }
    }
}

fn user<'a>(blocks: &[Block<'a>], out: &mut Emitter<'a, '_>) {
    for block in blocks {
        if let Some(text) = out.raw(block.text) {
            let is_notice = text.text().starts_with(NOTICE);
            let what = if is_notice { PromptKind::Meta } else { PromptKind::Asked };
            out.emit(Fact::Prompt { prompt_id: None, text, what });
        }
        if block.kind.is("tool_result") {
            let words = string(block.content);
            let is_launched = words.as_ref().is_some_and(|words| words.starts_with(LAUNCHED));
            let words = words.filter(|_| block.is_error.is_true());
            out.emit_made(Fact::CallEnd(CallEnd {
                id: block.tool_use_id.filled(),
                outcome: tools::outcome(block.is_error.is_true().then_some("error"), words.as_deref()),
                result: out.raw(block.content),
                refused: block.is_error.is_true(),
                spawn: is_launched.then(|| SpawnResult { finished: Some(false), ..SpawnResult::default() }),
                ..CallEnd::default()
            }));
        }
    }
}

fn result<'a>(line: &Line<'a>, out: &mut Emitter<'a, '_>) {
    if let Some(tokens) = line.usage {
        let cached = tokens.cache_read_input_tokens.0.unwrap_or(0);
        let fresh = tokens.input_tokens.0.map(|input| input.saturating_sub(cached));
        let usage =
            Usage::of_parts([fresh, tokens.output_tokens.0, Some(cached), None], tokens.total_tokens.0);
        out.emit(Fact::Checksum(Checksum { usage, ..Checksum::default() }));
    }
    let status = if line.is_error.is_true() { AgentStatus::Failed } else { AgentStatus::Completed };
    let (evidence, text) = (EndEvidence::Notification, out.raw(line.result));
    out.emit(Fact::TurnEnd { status, evidence, counts_run: true, text });
}
