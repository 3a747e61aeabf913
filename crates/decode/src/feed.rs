//! Our own `subscope.event/1`: what `export --as feed` and `watch --json` write, read again.
//!
//! Actors come with the basis they had; a correction or rename in the feed is already in the events before it, so
//! both are read over.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallBegin, CallEnd, Claim, Clock, EndEvidence, Event, EventKind, Fact,
    Outcome, Parent, PromptKind, Response, Sink, SourceKind, Spawn, SpawnMode, ToolClass, Usage,
};

use crate::{
    Emitter, Hint,
    lenient::{Flag, LineText, Num, Str, Strs},
    lines::{LineDecoder, LineError},
};

/// Decodes one feed.
#[derive(Debug)]
pub(crate) struct FeedLines {
    tool_class: fn(&str) -> ToolClass,
}

impl FeedLines {
    /// A decoder for the feed that `hint` describes.
    pub(crate) fn new(hint: &Hint) -> Self {
        Self { tool_class: hint.tool_class }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    schema: Str<'a>,
    id: Str<'a>,
    at_ms: Option<i64>,
    session_id: Str<'a>,
    actor_id: Str<'a>,
    basis: Basis,
    kind: Str<'a>,
    data: Option<Data<'a>>,
}

/// The fields of all kinds' data together.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Data<'a> {
    tool_use_id: Str<'a>,
    tool_name: Str<'a>,
    input: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    detail: Str<'a>,
    writes: Strs<'a>,
    timeout_seconds: Num,
    duration_ms: Option<i64>,
    interrupted: Flag,
    agent_id: Str<'a>,
    agent_type: Str<'a>,
    name: Str<'a>,
    description: Str<'a>,
    prompt: Option<&'a RawValue>,
    parent_id: Str<'a>,
    spawned_by: Str<'a>,
    trigger: Str<'a>,
    background: Flag,
    status: Str<'a>,
    text: Option<&'a RawValue>,
    encrypted: Flag,
    message_id: Str<'a>,
    request_id: Str<'a>,
    message: Str<'a>,
    prompt_id: Str<'a>,
    model: Str<'a>,
    version: Str<'a>,
    cwd: Str<'a>,
    tool_calls: Num,
    total_tokens: Num,
    usage: Option<Usage>,
    cache_write_1h_tokens: Num,
    price_permille: Num,
    extra_pico_usd: Num,
    is_unpriced: Flag,
}

impl LineDecoder for FeedLines {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let mut line: Line<'_> = serde_json::from_str(text.text)?;
        let data = line.data.take().unwrap_or_default();
        if !line.schema.is(Event::SCHEMA) {
            return Err(LineError::Foreign(format!("not {}, kept as text", Event::SCHEMA).into()));
        }
        let kind =
            line.kind.get().and_then(EventKind::parse).ok_or("an event of unknown kind, kept as text")?;
        let claim = match line.actor_id.get().and_then(|actor| actor.strip_prefix("subagent:")) {
            Some(agent) => Claim::Agent(agent, line.basis),
            None => Claim::Root(line.basis),
        };
        let mut emitter = Emitter::new(SourceKind::Posted, Clock::Stream, claim, text, sink);
        emitter.head.time = line.at_ms;
        emitter.head.session = line.session_id.filled();
        emitter.head.line_id = line.id.filled();
        // These facts describe the agent in `data`, which may differ from the line's actor; the line counts as activity
        // of its actor.
        if matches!(kind, EventKind::SubagentStart | EventKind::SubagentStop) {
            emitter.emit(Fact::Activity);
        }
        if let Some(fact) = fact(kind, &line, &data, text, self.tool_class) {
            emitter.emit(fact);
        }
        Ok(())
    }
}

fn fact<'a>(
    kind: EventKind,
    line: &'a Line<'_>,
    data: &'a Data<'_>,
    text: LineText<'a>,
    tool_class: fn(&str) -> ToolClass,
) -> Option<Fact<'a>> {
    let raw = |value: Option<&'a RawValue>| value.map(|value| text.raw(value));
    Some(match kind {
        EventKind::SessionStart => Fact::Session {
            version: data.version.filled(),
            cwd: data.cwd.0.clone(),
            model: data.model.filled(),
            tells_starts: true,
        },
        EventKind::UserPrompt => Fact::Prompt {
            prompt_id: data.prompt_id.filled(),
            text: raw(data.text)?,
            what: PromptKind::Asked,
        },
        EventKind::ToolPre => Fact::CallBegin(begin(data, text, tool_class)),
        EventKind::ToolPost => Fact::CallEnd(end(data, Outcome::Ok, raw(data.result))),
        EventKind::ToolFailure if data.interrupted.is_true() => {
            Fact::CallEnd(end(data, Outcome::Interrupted, raw(data.error)))
        }
        EventKind::ToolFailure => Fact::CallEnd(end(data, Outcome::Error, raw(data.error))),
        EventKind::PermissionDenied => Fact::CallEnd(end(data, Outcome::Denied, raw(data.error))),
        EventKind::SubagentStart => Fact::Spawn(spawn(data, text)),
        EventKind::SubagentStop => Fact::AgentEnd(stop(data, text)?),
        EventKind::SubagentProgress => Fact::Progress {
            agent: data.agent_id.filled(),
            message: data.message.0.clone(),
            tool_calls: data.tool_calls.0,
            total_tokens: data.total_tokens.0,
        },
        EventKind::AgentMessage => {
            Fact::Message { message_id: data.message_id.filled(), text: raw(data.text)? }
        }
        EventKind::Reasoning => {
            let words = raw(data.text).filter(|_| !data.encrypted.is_true());
            Fact::Thought { message_id: data.message_id.filled(), text: words }
        }
        EventKind::Usage => Fact::Response(response(line, data)?),
        EventKind::RunEnd => Fact::TurnEnd {
            status: status(data.status.get())?,
            evidence: EndEvidence::Notification,
            counts_run: false,
            text: raw(data.text),
        },
        EventKind::Heartbeat => Fact::Heartbeat,
        EventKind::SessionEnd => Fact::SessionEnd { reason: None },
        EventKind::RunStart
        | EventKind::PermissionRequest
        | EventKind::Stall
        | EventKind::Retry
        | EventKind::Notification
        | EventKind::CompactPre
        | EventKind::CompactPost
        | EventKind::TodoCreated
        | EventKind::TodoCompleted
        | EventKind::UnknownHook => Fact::Activity,
        EventKind::Attribution | EventKind::AgentRenamed | EventKind::Budget | EventKind::Problem => {
            return None;
        }
    })
}

fn begin<'a>(data: &'a Data<'_>, text: LineText<'a>, tool_class: fn(&str) -> ToolClass) -> CallBegin<'a> {
    let name = data.tool_name.get().unwrap_or_default();
    CallBegin {
        id: data.tool_use_id.filled(),
        name,
        class: tool_class(name),
        input: data.input.map(|raw| text.raw(raw)),
        digest: crate::digest(name, data.input.map_or("", RawValue::get)),
        detail: data.detail.0.clone(),
        writes: data.writes.0.clone(),
        timeout_s: data.timeout_seconds.0,
        ..CallBegin::default()
    }
}

fn end<'a>(data: &'a Data<'_>, outcome: Outcome, result: Option<subscope_model::RawJson<'a>>) -> CallEnd<'a> {
    CallEnd {
        id: data.tool_use_id.filled(),
        name: data.tool_name.filled(),
        outcome,
        result,
        duration_ms: data.duration_ms,
        ..CallEnd::default()
    }
}

fn spawn<'a>(data: &'a Data<'_>, text: LineText<'a>) -> Spawn<'a> {
    let parent = match data.parent_id.filled() {
        Some("root") => Some(Parent::Root),
        Some(agent) => Some(Parent::Agent(agent)),
        None => None,
    };
    // If the spawn call is unknown, the trigger of the agent's first interval is its position (`…#1`), not a call.
    let is_place = |trigger: &&str| data.spawned_by.filled().is_none() && trigger.ends_with("#1");
    let trigger = data.trigger.filled().filter(|trigger| !is_place(trigger)).or(data.spawned_by.filled());
    Spawn {
        agent: data.agent_id.filled(),
        call: trigger,
        parent,
        agent_type: data.agent_type.0.clone(),
        description: data.description.0.clone(),
        name: data.name.0.clone(),
        prompt: data.prompt.map(|raw| text.raw(raw)),
        model: data.model.0.clone(),
        mode: data.background.0.map(|it| if it { SpawnMode::Background } else { SpawnMode::Foreground }),
        starts: true,
        is_origin: trigger.is_some() && trigger == data.spawned_by.filled(),
        detached: trigger.is_none() && parent.is_some(),
        ..Spawn::default()
    }
}

fn status(word: Option<&str>) -> Option<AgentStatus> {
    serde_json::from_value(serde_json::Value::from(word?))
        .ok()
        .filter(|status: &AgentStatus| !status.is_live())
}

fn stop<'a>(data: &'a Data<'_>, text: LineText<'a>) -> Option<AgentEnd<'a>> {
    Some(AgentEnd {
        agent: data.agent_id.filled(),
        call: data.trigger.filled(),
        status: status(data.status.get()).filter(|status| *status != AgentStatus::Lost)?,
        evidence: EndEvidence::Notification,
        report: data.result.map(|raw| text.raw(raw)).filter(|raw| raw.json != "null"),
        error: data.error.map(|raw| text.raw(raw)).filter(|raw| raw.json != "null"),
        ..AgentEnd::default()
    })
}

fn response<'a>(line: &'a Line<'_>, data: &'a Data<'_>) -> Option<Response<'a>> {
    let usage = data.usage?;
    let message_id = data
        .message_id
        .filled()
        .or_else(|| if data.request_id.filled().is_some() { Some("") } else { line.id.filled() })?;
    Some(Response {
        message_id,
        request_id: data.request_id.filled(),
        model: data.model.filled(),
        usage: Some(usage),
        cache_write_1h: data.cache_write_1h_tokens.0.unwrap_or(0),
        price_permille: data.price_permille.0.and_then(|part| part.try_into().ok()).unwrap_or(0),
        extra_pico_usd: data.extra_pico_usd.0.unwrap_or(0),
        is_unpriced: data.is_unpriced.is_true(),
        has_stop_reason: !usage.floor,
        // A floor stays one: its content counts as longer than its tokens.
        content: if usage.floor { (1, u32::MAX) } else { (0, 0) },
        has_call: true,
        ..Response::default()
    })
}
