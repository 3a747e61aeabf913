//! Events that a program posts about its own subagents (requirement 4.1), one object per line.
//!
//! An agent of this wire has its run id as id and `subagentName` as name; without `parentRunId` it is a child of the
//! root. A file or stream of such events is one session: the id that an event names, else `events:` and the first
//! run's id.

use std::{borrow::Cow, collections::HashMap};

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallBegin, CallEnd, Claim, Clock, EndEvidence, Fact, Outcome, Parent,
    Response, Sink, SourceKind, Spawn, SpawnBatch, Usage, parse_event_time,
};

use crate::{
    Emitter, Hint, LineSession, ToolArguments,
    lenient::{Flag, LineText, Num, Str},
    lines::{LineDecoder, LineError},
    session_of,
    tool_arguments::first_characters,
};

/// Decodes one stream of posted events.
#[derive(Debug)]
pub struct SubagentEvents {
    /// The session of events that name none.
    session: Option<String>,
    /// The run that named each call first.
    calls: HashMap<String, String>,
}

impl SubagentEvents {
    /// A decoder for the stream that `hint` describes.
    pub fn new(hint: &Hint) -> Self {
        Self { session: hint.session.clone(), calls: HashMap::new() }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Posted<'a> {
    subagent_name: Str<'a>,
    #[serde(alias = "subagentRunID")]
    subagent_run_id: Str<'a>,
    timestamp: Option<&'a RawValue>,
    #[serde(rename = "type")]
    kind: Str<'a>,
    tool_name: Str<'a>,
    #[serde(alias = "toolCallID")]
    tool_call_id: Str<'a>,
    payload: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    #[serde(alias = "parentToolCallID")]
    parent_tool_call_id: Str<'a>,
    execution_timeout_seconds: Num,
    reasoning_type: Str<'a>,
    token_usage: Option<&'a RawValue>,
    parent_run_id: Str<'a>,
    session_id: Str<'a>,
    event_id: Str<'a>,
    is_error: Flag,
    status: Str<'a>,
    cwd: Str<'a>,
}

/// Returns the session of a line. An event without a session belongs to the session named by the first such event of
/// its stream ([`SubagentEvents`]); other lines belong to the session of the line before.
pub(crate) fn line_session(line: &[u8]) -> LineSession {
    let Ok(event) = serde_json::from_slice::<Posted<'_>>(line) else {
        // A field that cannot be read does not hide the session.
        return session_of(line).map_or(LineSession::Same, LineSession::Named);
    };
    match event.session_id.filled() {
        Some(session) => LineSession::Named(session.to_owned()),
        None => LineSession::Unknown,
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TokenUsage {
    input_tokens: Num,
    output_tokens: Num,
    cache_read_tokens: Num,
    cache_write_tokens: Num,
    total_tokens: Num,
}

impl TokenUsage {
    /// Returns the tokens by kind: a lower bound if the total is more than the kinds that are there.
    fn usage(&self) -> Usage {
        let number = |field: Num| field.0.unwrap_or(0);
        let usage = Usage::new(
            number(self.input_tokens),
            number(self.output_tokens),
            number(self.cache_read_tokens),
            number(self.cache_write_tokens),
        );
        // Every kind and the total may be left out (requirement S4). Some programs count the cached ones in the input.
        let has_all = self.input_tokens.0.is_some() && self.output_tokens.0.is_some();
        Usage { floor: !has_all && number(self.total_tokens) > usage.total_tokens, ..usage }
    }
}

/// Value of `status` for an agent that was stopped. Our extension: other readers see a failure with the payload's
/// message.
const STOPPED: &str = "stopped";

impl LineDecoder for SubagentEvents {
    fn decode_line(&mut self, line: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let event: Posted<'_> = serde_json::from_str(line.text)?;
        let missing = |field| LineError::MissingField { item: "an event", field };
        fn named<'e>(field: &'e Str<'_>) -> Option<&'e str> {
            field.get().filter(|text| !text.trim().is_empty())
        }
        let run = named(&event.subagent_run_id).ok_or_else(|| missing("subagentRunId"))?;
        let kind = event.kind.filled().ok_or_else(|| missing("type"))?;
        let name = named(&event.subagent_name).ok_or_else(|| missing("subagentName"))?;
        let stamp = event.timestamp.ok_or_else(|| missing("timestamp"))?;
        let session = match event.session_id.filled() {
            Some(session) => session,
            None => self.session.get_or_insert_with(|| format!("events:{run}")).as_str(),
        };
        let call = event.tool_call_id.filled().map(|id| call_id(&mut self.calls, run, id));
        let claim = Claim::Agent(run, Basis::Wire);
        let mut emitter = Emitter::new(SourceKind::Posted, Clock::Stream, claim, line, sink);
        emitter.head.time = parse_event_time(stamp.get());
        emitter.head.session = Some(session);
        emitter.head.line_id = event.event_id.filled();
        if let Some(cwd) = event.cwd.filled() {
            let cwd = Some(Cow::Borrowed(cwd));
            emitter.emit(Fact::Session { version: None, cwd, model: None, tells_starts: false });
        }
        let payload = emitter.raw(event.payload);
        let (starts, parent) = (kind == "subagent_start", event.parent_run_id.filled());
        // A call of the parent; without a parent, a call of any other agent of the session.
        let caller = event.parent_tool_call_id.filled().map(|id| match parent {
            Some(parent) => call_id(&mut self.calls, parent, id),
            None => Cow::Borrowed(id),
        });
        let batch = caller.as_deref().map_or(SpawnBatch::Run(run), SpawnBatch::Call);
        emitter.emit_made(Fact::Spawn(Spawn {
            agent: Some(run),
            batch: Some(batch),
            parent: (starts || parent.is_some()).then(|| parent.map_or(Parent::Root, Parent::Agent)),
            name: Some(Cow::Borrowed(name)),
            prompt: payload.filter(|_| starts),
            starts,
            detached: true,
            ..Spawn::default()
        }));
        match kind {
            "subagent_start" => emitter.emit(Fact::Activity),
            "subagent_end" => {
                emitter.emit(Fact::Activity);
                // An ending with a payload is a failure with that message (requirement 4.1).
                let error = payload.filter(|raw| !matches!(raw.json, "\"\"" | "null"));
                let status = match (event.status.get(), error) {
                    (Some(STOPPED), _) => AgentStatus::Stopped,
                    (_, Some(_)) => AgentStatus::Failed,
                    (_, None) => AgentStatus::Completed,
                };
                let (evidence, time) = (EndEvidence::Published, emitter.head.time);
                let report = emitter.raw(event.result);
                let agent = Some(run);
                let end = AgentEnd { agent, status, evidence, time, report, error, ..AgentEnd::default() };
                emitter.emit(Fact::AgentEnd(end));
            }
            "tool_call" => {
                let name = event.tool_name.get().unwrap_or_default();
                // Arguments come as an object, or as its text.
                let text = payload.map(|raw| raw.text());
                let detail = text.as_deref().and_then(|text| match text.trim_start().starts_with('{') {
                    true => ToolArguments::parse(text).detail(),
                    false => text.lines().next().map(|line| first_characters(line.into())),
                });
                emitter.emit_made(Fact::CallBegin(CallBegin {
                    id: call.as_deref(),
                    name,
                    input: payload,
                    digest: crate::digest(name, payload.map_or("", |raw| raw.json)),
                    detail,
                    timeout_s: event.execution_timeout_seconds.0,
                    ..CallBegin::default()
                }));
            }
            "tool_result" => emitter.emit(Fact::CallEnd(CallEnd {
                id: call.as_deref(),
                name: event.tool_name.filled(),
                outcome: if event.is_error.is_true() { Outcome::Error } else { Outcome::Ok },
                result: payload,
                ..CallEnd::default()
            })),
            "thought_trace" => {
                let encrypted =
                    matches!(event.reasoning_type.get(), Some("encrypted" | "reasoning.encrypted"));
                emitter.emit(Fact::Thought { message_id: None, text: payload.filter(|_| !encrypted) });
            }
            other => return Err(LineError::UnknownType(other.to_owned())),
        }
        // As of every optional field, a value of another type counts as absent.
        let tokens = event.token_usage.filter(|raw| raw.get().starts_with('{'));
        if let Some(tokens) = tokens.and_then(|raw| serde_json::from_str::<TokenUsage>(raw.get()).ok()) {
            // Ids are the program's own: those of another session mean nothing here.
            let key = match event.event_id.filled() {
                Some(id) => format!("{session}#{run}#{id}"),
                None => format!("{session}#{run}@{}", line.place.offset),
            };
            emitter.emit_made(Fact::Response(Response {
                message_id: &key,
                usage: Some(tokens.usage()),
                has_stop_reason: true,
                has_call: true,
                ..Response::default()
            }));
        }
        if emitter.head.time.is_none() {
            return Err("an event without a valid timestamp: it is kept without a time".into());
        }
        Ok(())
    }
}

/// Programs count their calls from one in each run: on this wire an id names a call of its run only (design, "Keys").
/// The first run that uses an id keeps it unchanged; in others it gets the run as prefix.
fn call_id<'a>(calls: &mut HashMap<String, String>, run: &str, id: &'a str) -> Cow<'a, str> {
    match calls.get(id) {
        Some(first) if first == run => Cow::Borrowed(id),
        Some(_) => Cow::Owned(format!("{run}/{id}")),
        None => {
            calls.insert(id.to_owned(), run.to_owned());
            Cow::Borrowed(id)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_without_its_kinds_makes_them_a_lower_bound() {
        let usage = |json: &str| {
            let usage = serde_json::from_str::<TokenUsage>(json).unwrap().usage();
            (usage.total_tokens, usage.floor)
        };
        assert_eq!(usage(r#"{"totalTokens":1690}"#), (0, true));
        assert_eq!(usage(r#"{"outputTokens":90,"totalTokens":1690}"#), (90, true));
        assert_eq!(usage(r#"{"inputTokens":1600,"outputTokens":90,"totalTokens":1690}"#), (1690, false));
        assert_eq!(usage(r#"{"inputTokens":1600}"#), (1600, false));
    }

    #[test]
    fn ids_of_calls_are_each_runs_own() {
        let mut calls = HashMap::new();
        let mut id = |run, id| call_id(&mut calls, run, id).into_owned();
        assert_eq!([id("r1", "1"), id("r1", "1"), id("r2", "1"), id("r2", "2")], ["1", "1", "r2/1", "2"]);
        assert_eq!([id("r1", "2"), id("r2", "1")], ["r1/2", "r2/1"]);
    }
}
