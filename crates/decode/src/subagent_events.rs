//! Events that a program posts about its own subagents (requirement 4.1), one object a line.
//!
//! An agent of this wire has its run id as id and `subagentName` as name; without `parentRunId` it is a child of the
//! root. A file or stream of such events is one session: the id that an event names, else `events:` and the first
//! run's id.

use std::{borrow::Cow, collections::HashMap};

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallBegin, CallEnd, Claim, Clock, Decoded, EndEvidence, Fact, Observation,
    Outcome, Parent, RawJson, Response, Sink, SourceKind, SourcePosition, Spawn, ToolClass, Usage,
    parse_rfc3339,
};

use crate::{
    Hint, LineSession,
    lenient::{Flag, LineText, Num, Str},
    lines::{LineDecoder, LineError},
};

/// Decodes one stream of posted events.
#[derive(Debug)]
pub struct SubagentEvents {
    hint: Hint,
    session: Option<String>,
    /// The run that named each call first.
    calls: HashMap<String, String>,
}

impl SubagentEvents {
    /// A decoder for the stream that `hint` describes.
    pub fn new(hint: &Hint) -> Self {
        Self { hint: hint.clone(), session: hint.session.clone(), calls: HashMap::new() }
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
    execution_timeout_seconds: Num,
    reasoning_type: Str<'a>,
    token_usage: Option<TokenUsage>,
    parent_run_id: Str<'a>,
    session_id: Str<'a>,
    event_id: Str<'a>,
    is_error: Flag,
    status: Str<'a>,
    cwd: Str<'a>,
}

/// Returns whose a line is. An event without a session is of one that the first such event of its stream names
/// ([`SubagentEvents::read`]); what is no event belongs to the line before it.
pub(crate) fn line_session(line: &[u8]) -> LineSession {
    let Ok(event) = serde_json::from_slice::<Posted<'_>>(line) else { return LineSession::Same };
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
}

fn emit<'a>(fact: Fact<'a>, out: &mut Observation<'a>, sink: &mut Sink<'_>) {
    out.fact = fact;
    sink(Decoded::Observation(out));
}

impl LineDecoder for SubagentEvents {
    fn decode_line(
        &mut self,
        place: SourcePosition,
        line: LineText<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), LineError> {
        let event: Posted<'_> = serde_json::from_str(line.text)?;
        self.read(place, line, &event, sink)
    }
}

impl SubagentEvents {
    fn read(
        &mut self,
        place: SourcePosition,
        text: LineText<'_>,
        event: &Posted<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), LineError> {
        let missing = |field| LineError::MissingField { item: "an event", field };
        let run = event.subagent_run_id.filled().ok_or_else(|| missing("subagentRunId"))?;
        let kind = event.kind.filled().ok_or_else(|| missing("type"))?;
        let name = event.subagent_name.get().ok_or_else(|| missing("subagentName"))?;
        let stamp = event.timestamp.ok_or_else(|| missing("timestamp"))?;
        let session = match event.session_id.filled() {
            Some(session) => session,
            None => self.session.get_or_insert_with(|| format!("events:{run}")).as_str(),
        };
        let mut out = Observation {
            place,
            kind: SourceKind::Posted,
            time: read_time(stamp.get()),
            clock: Clock::Stream,
            session: Some(session).or(self.hint.session.as_deref()),
            line_id: event.event_id.filled(),
            claim: Claim::Agent(run, Basis::Wire),
            fact: Fact::Activity,
        };
        if let Some(cwd) = event.cwd.filled() {
            let cwd = Some(Cow::Borrowed(cwd));
            emit(Fact::Session { version: None, cwd, model: None, tells_starts: false }, &mut out, sink);
        }
        let call = event.tool_call_id.filled().map(|id| call_id(&mut self.calls, run, id));
        emit_agent(event, run, name, kind == "subagent_start", text, &mut out, sink);
        let payload = event.payload.map(|raw| text.raw(raw));
        match kind {
            "subagent_start" => emit(Fact::Activity, &mut out, sink),
            "subagent_end" => end(event, run, text, &mut out, sink),
            "tool_call" => begin(event, call.as_deref(), payload, &mut out, sink),
            "tool_result" => finish(event, call.as_deref(), payload, &mut out, sink),
            "thought_trace" => {
                let encrypted =
                    matches!(event.reasoning_type.get(), Some("encrypted" | "reasoning.encrypted"));
                emit(
                    Fact::Thought { message_id: None, text: payload.filter(|_| !encrypted) },
                    &mut out,
                    sink,
                );
            }
            other => return Err(LineError::UnknownType(other.to_owned())),
        }
        emit_usage(event, &mut out, sink);
        Ok(())
    }
}

/// Programs count their calls from one in each run: on this wire an id names a call of its run only (design, "Keys"). The first
/// run that uses one keeps it as it is; in others the run stands before it.
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

fn read_time(json: &str) -> Option<i64> {
    match json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(text) => parse_rfc3339(text),
        None => json.parse::<f64>().ok().filter(|millis| *millis >= 0.0).map(|millis| millis as i64),
    }
}

fn emit_agent<'a>(
    event: &'a Posted<'_>,
    run: &'a str,
    name: &'a str,
    starts: bool,
    text: LineText<'a>,
    out: &mut Observation<'a>,
    sink: &mut Sink<'_>,
) {
    let parent = event.parent_run_id.filled().map_or(Parent::Root, Parent::Agent);
    let spawn = Spawn {
        agent: Some(run),
        parent: (starts || event.parent_run_id.filled().is_some()).then_some(parent),
        name: Some(Cow::Borrowed(name)).filter(|name| !name.is_empty()),
        prompt: event.payload.filter(|_| starts).map(|raw| text.raw(raw)),
        starts,
        detached: true,
        ..Spawn::default()
    };
    emit(Fact::Spawn(spawn), out, sink);
}

/// What `status` says of an ending that somebody brought about. Ours: others read a failure with the payload's message.
const STOPPED: &str = "stopped";

/// An ending with a payload is a failure with that message (requirement 4.1).
fn end<'a>(
    event: &'a Posted<'_>,
    run: &'a str,
    text: LineText<'a>,
    out: &mut Observation<'a>,
    sink: &mut Sink<'_>,
) {
    emit(Fact::Activity, out, sink);
    let error = event.payload.map(|raw| text.raw(raw)).filter(|raw| !matches!(raw.json, "\"\"" | "null"));
    let end = AgentEnd {
        agent: Some(run),
        call: None,
        run_id: None,
        status: match (event.status.get(), error) {
            (Some(STOPPED), _) => AgentStatus::Stopped,
            (_, Some(_)) => AgentStatus::Failed,
            (_, None) => AgentStatus::Completed,
        },
        evidence: EndEvidence::Notification,
        time: out.time,
        report: None,
        error,
        agent_type: None,
    };
    emit(Fact::AgentEnd(end), out, sink);
}

fn begin<'a>(
    event: &'a Posted<'_>,
    id: Option<&'a str>,
    input: Option<RawJson<'a>>,
    out: &mut Observation<'a>,
    sink: &mut Sink<'_>,
) {
    let name = event.tool_name.get().unwrap_or_default();
    let call = CallBegin {
        id,
        name,
        class: ToolClass::Other,
        input,
        digest: crate::digest(name, input.map_or("", |raw| raw.json)),
        detail: None,
        writes: None,
        timeout_s: event.execution_timeout_seconds.0,
        spawn: None,
        hindsight: false,
    };
    emit(Fact::CallBegin(call), out, sink);
}

fn finish<'a>(
    event: &'a Posted<'_>,
    id: Option<&'a str>,
    result: Option<RawJson<'a>>,
    out: &mut Observation<'a>,
    sink: &mut Sink<'_>,
) {
    let end = CallEnd {
        id,
        name: event.tool_name.filled(),
        digest: 0,
        outcome: if event.is_error.is_true() { Outcome::Error } else { Outcome::Ok },
        result,
        duration_ms: None,
        spawn: None,
        refused: false,
        stopped: None,
        resumed: None,
        batch_run: None,
        left_running: false,
    };
    emit(Fact::CallEnd(end), out, sink);
}

fn emit_usage<'a>(event: &'a Posted<'_>, out: &mut Observation<'a>, sink: &mut Sink<'_>) {
    let Some(tokens) = &event.token_usage else { return };
    let number = |field: Num| field.0.unwrap_or(0);
    // Ids are the program's own: those of another session mean nothing here.
    let (session, run) = (out.session.unwrap_or_default(), event.subagent_run_id.get().unwrap_or_default());
    let key = match event.event_id.filled() {
        Some(id) => format!("{session}#{run}#{id}"),
        None => format!("{session}#{run}@{}", out.place.offset),
    };
    let usage = Usage::new(
        number(tokens.input_tokens),
        number(tokens.output_tokens),
        number(tokens.cache_read_tokens),
        number(tokens.cache_write_tokens),
    );
    let response = Response {
        message_id: &key,
        model: None,
        usage: Some(usage),
        cache_write_1h: 0,
        has_stop_reason: true,
        ends_turn: false,
        content: (0, 0),
        has_call: true,
        has_text: false,
        synthetic: false,
        api_error: false,
    };
    sink(Decoded::Observation(&Observation { fact: Fact::Response(response), ..out.clone() }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_calls_are_each_runs_own() {
        let mut calls = HashMap::new();
        let mut id = |run, id| call_id(&mut calls, run, id).into_owned();
        assert_eq!([id("r1", "1"), id("r1", "1"), id("r2", "1"), id("r2", "2")], ["1", "1", "r2/1", "2"]);
        assert_eq!([id("r1", "2"), id("r2", "1")], ["r1/2", "r2/1"]);
    }
}
