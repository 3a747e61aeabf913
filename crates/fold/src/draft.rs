//! Events before their actor is known: what an observation becomes in the feed.
//!
//! A draft owns what it needs; actor, basis and run are filled in by [`crate::Events`] from what is known when the event
//! is shown. Starts and ends of agents and runs are no pending_events: they come from rows (`lifecycle`), so that each comes once
//! whatever the sources repeat.

use serde_json::{Value, json};
use subscope_decode::Dialect;
use subscope_model::{
    Basis, CallBegin, CallEnd, Claim, EventKind, Fact, Millis, Observation, Outcome, PromptKind, Raw,
    SourceKind, StopStep,
};

/// An owned claim.
#[derive(Clone, Debug)]
pub(crate) enum OwnedClaim {
    Root(Basis),
    Agent(String, Basis),
    SpawnedBy(String),
    Chain(String),
    Silent,
}

impl OwnedClaim {
    pub(crate) fn borrow(&self) -> Claim<'_> {
        match self {
            Self::Root(basis) => Claim::Root(*basis),
            Self::Agent(id, basis) => Claim::Agent(id, *basis),
            Self::SpawnedBy(call) => Claim::SpawnedBy(call),
            Self::Chain(line) => Claim::Chain { line, parent: None },
            Self::Silent => Claim::Silent,
        }
    }
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub(crate) struct PendingEvent {
    pub(crate) kind: EventKind,
    pub(crate) source_kind: SourceKind,
    pub(crate) dialect: Dialect,
    pub(crate) time: Option<Millis>,
    pub(crate) offset: u64,
    /// What makes two tellings the same event, within a session.
    pub(crate) key: String,
    pub(crate) claim: OwnedClaim,
    /// The tool call whose owner did it.
    pub(crate) call: Option<String>,
    /// Words that count once for an agent within a stretch of its activity, whoever tells them.
    pub(crate) words: Option<String>,
    pub(crate) data: Value,
}

/// Returns what an observation becomes in the feed; nothing for what only rows show.
pub(crate) fn draft(seen: &Observation<'_>, dialect: Dialect) -> Option<PendingEvent> {
    let mut made = PendingEvent {
        kind: EventKind::Problem,
        source_kind: seen.kind,
        dialect,
        time: seen.time,
        offset: seen.place.offset,
        key: String::new(),
        claim: own(&seen.claim),
        call: None,
        words: None,
        data: Value::Null,
    };
    let place = || format!("at/{}/{}", dialect.as_str(), seen.place.offset);
    let line = |what: &str, raw: Option<&str>| match seen.line_id {
        Some(id) => format!("{what}/{id}/{:x}", hash(raw.unwrap_or_default())),
        None => format!("{what}/{}/{:x}", place(), hash(raw.unwrap_or_default())),
    };
    match &seen.fact {
        Fact::Prompt { prompt_id, text, what: PromptKind::Asked } if matches!(seen.claim, Claim::Root(_)) => {
            made.kind = EventKind::UserPrompt;
            made.key = prompt_id.map_or_else(|| line("prompt", Some(text.json)), |id| format!("prompt/{id}"));
            made.data = json!({ "text": text.text(), "prompt_id": prompt_id });
        }
        Fact::Message { message_id, text } => {
            made.kind = EventKind::AgentMessage;
            made.key = line("line", Some(text.json));
            let words = text.text().into_owned();
            if words.trim().is_empty() {
                return None;
            }
            made.data = json!({ "scope": Value::Null, "text": words, "message_id": message_id });
            made.words = Some(words);
        }
        Fact::Thought { message_id, text } => {
            made.kind = EventKind::Reasoning;
            made.key = line("thought", text.map(|raw| raw.json));
            let words = text.map(|raw| raw.text().into_owned()).filter(|words| !words.is_empty());
            made.data = json!({ "text": words, "encrypted": words.is_none(), "message_id": message_id });
        }
        Fact::Response(response) if response.has_stop_reason && !response.synthetic => {
            made.kind = EventKind::Usage;
            made.key = format!("usage/{}", response.message_id);
            made.data = json!({
                "message_id": response.message_id,
                "model": response.model,
                "usage": response.usage?,
                "cache_write_1h_tokens": response.cache_write_1h,
            });
        }
        Fact::CallBegin(call) if !call.hindsight => begin(&mut made, call, &place()),
        Fact::CallEnd(call) if call.outcome != Outcome::Over => end(&mut made, call, &place()),
        Fact::Progress { agent, message, tool_calls, total_tokens } => {
            made.kind = EventKind::SubagentProgress;
            made.key = line("progress", None);
            made.claim = OwnedClaim::Agent((*agent)?.to_owned(), Basis::Wire);
            made.data = json!({
                "agent_id": agent, "message": message, "tool_calls": tool_calls, "total_tokens": total_tokens,
            });
        }
        Fact::Retry { agent, attempt, limit, delay_ms, error } if *attempt > 0 => {
            made.kind = EventKind::Retry;
            // The main thread's stand in transcripts and streams with ids of their own; the delay is drawn by lot.
            made.key = match (&seen.claim, delay_ms) {
                (Claim::Root(_), Some(delay)) => format!("retry/root/{attempt}/{delay}"),
                _ => line("retry", None),
            };
            if let Some(agent) = agent {
                made.claim = OwnedClaim::Agent((*agent).to_owned(), Basis::Wire);
            }
            made.data = json!({ "attempt": attempt, "limit": limit, "delay_ms": delay_ms, "error": error });
        }
        Fact::Heartbeat => {
            made.kind = EventKind::Heartbeat;
            made.key = line("heartbeat", None);
            made.data = json!({});
        }
        Fact::Permission { name, input, .. } => {
            made.kind = EventKind::PermissionRequest;
            made.key = place();
            made.data = json!({ "tool_name": name, "input": input.map(value) });
        }
        Fact::SessionStart { source } => {
            made.kind = EventKind::SessionStart;
            made.key = place();
            made.data = json!({ "reason": source });
        }
        Fact::SessionEnd { reason } => {
            made.kind = EventKind::SessionEnd;
            made.key = place();
            made.data = json!({ "reason": reason });
        }
        Fact::AgentEnd(told) if seen.kind == SourceKind::Hook => {
            made.kind = EventKind::AgentMessage;
            made.key = place();
            let words = told.report?.text().into_owned();
            made.claim = OwnedClaim::Agent(told.agent?.to_owned(), Basis::Wire);
            made.data = json!({ "scope": Value::Null, "text": words, "message_id": Value::Null });
            made.words = Some(words);
        }
        Fact::TurnEnd { text: Some(text), .. } if seen.kind == SourceKind::Hook => {
            made.kind = EventKind::AgentMessage;
            made.key = place();
            let words = text.text().into_owned();
            made.data = json!({ "scope": Value::Null, "text": words, "message_id": Value::Null });
            made.words = Some(words);
        }
        Fact::Stop { step, call, .. } => {
            made.kind = EventKind::Notification;
            let Claim::Agent(agent, _) = seen.claim else { return None };
            made.key = format!("stop/{}/{agent}/{}", step.as_str(), seen.time.unwrap_or(0));
            let message = match step {
                StopStep::Asked => "asked to stop",
                StopStep::Given => "told to stop",
            };
            made.data = json!({ "agent_id": agent, "message": message, "tool_use_id": call });
        }
        Fact::Note { kind, data } => {
            made.kind = *kind;
            made.key = line("note", None);
            made.data = value(*data);
        }
        Fact::Session { .. }
        | Fact::Activity
        | Fact::Prompt { .. }
        | Fact::Response(_)
        | Fact::CallBegin(_)
        | Fact::CallEnd(_)
        | Fact::Spawn(_)
        | Fact::AgentEnd(_)
        | Fact::TurnEnd { .. }
        | Fact::Retry { .. }
        | Fact::Checksum(_)
        | Fact::AwaitsPrompt
        | Fact::Warmup
        | Fact::WireHasIdentity => return None,
    }
    Some(made)
}

fn begin(made: &mut PendingEvent, call: &CallBegin<'_>, place: &str) {
    made.kind = EventKind::ToolPre;
    made.key = call.id.map_or_else(|| format!("{place}/pre"), |id| format!("tool/{id}/pre"));
    made.call = call.id.map(str::to_owned);
    made.data = json!({
        "tool_use_id": call.id, "tool_name": call.name, "input": call.input.map(value), "detail": call.detail,
        "writes": call.writes,
    });
    if let Some(timeout) = call.timeout_s {
        made.data["timeout_seconds"] = Value::from(timeout);
    }
}

fn end(made: &mut PendingEvent, call: &CallEnd<'_>, place: &str) {
    let (kind, word, field) = match call.outcome {
        Outcome::Ok | Outcome::Over => (EventKind::ToolPost, "end", "result"),
        Outcome::Error | Outcome::Interrupted => (EventKind::ToolFailure, "end", "error"),
        Outcome::Denied => (EventKind::PermissionDenied, "denied", "error"),
    };
    made.kind = kind;
    made.key = call.id.map_or_else(|| format!("{place}/{word}"), |id| format!("tool/{id}/{word}"));
    made.call = call.id.map(str::to_owned);
    made.data = json!({
        "tool_use_id": call.id, "tool_name": call.name, field: call.result.map(value), "duration_ms": call.duration_ms,
    });
    if call.outcome == Outcome::Interrupted {
        made.data["interrupted"] = Value::Bool(true);
    }
}

fn own(claim: &Claim<'_>) -> OwnedClaim {
    match claim {
        Claim::Root(basis) => OwnedClaim::Root(*basis),
        Claim::Agent(id, basis) => OwnedClaim::Agent((*id).to_owned(), *basis),
        Claim::SpawnedBy(call) => OwnedClaim::SpawnedBy((*call).to_owned()),
        Claim::Chain { line, .. } => OwnedClaim::Chain((*line).to_owned()),
        Claim::Silent => OwnedClaim::Silent,
    }
}

/// A raw value as JSON; as text where it is not valid.
fn value(raw: Raw<'_>) -> Value {
    serde_json::from_str(raw.json).unwrap_or_else(|_| Value::from(raw.json))
}

/// A hash that is the same in every process: FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
