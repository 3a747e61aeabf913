//! Subagent event and its JSON on the wire (requirement 4.1).

use std::{
    collections::hash_map::RandomState,
    fmt,
    hash::{BuildHasher, Hasher},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::value::RawValue;
use subscope_model::{Millis, iso8601, parse_event_time};

use super::compact::compact;
use crate::clock;

/// Longest JSON event that a hub accepts, in bytes.
pub const EVENT_BYTES: usize = 4 << 20;
/// Room for the note on a truncated payload.
const NOTE_BYTES: usize = 64;

/// Kind of a subagent event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PublishedEventKind")]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The subagent starts; the payload is its prompt.
    SubagentStart,
    /// The subagent has ended; a payload is its error.
    SubagentEnd,
    /// The subagent calls a tool; the payload is the arguments.
    ToolCall,
    /// A tool has returned; the payload is the result.
    ToolResult,
    /// Reasoning; the payload is the text.
    ThoughtTrace,
}

impl EventKind {
    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SubagentStart => "subagent_start",
            Self::SubagentEnd => "subagent_end",
            Self::ToolCall => "tool_call",
            Self::ToolResult => "tool_result",
            Self::ThoughtTrace => "thought_trace",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Token usage of a model response; unknown counts are omitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenUsage {
    /// Uncached input tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Total, if the agent reports one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// Tokens read from the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
}

/// A subagent event. [`Event::new`] sets the required fields; the others are optional and omitted if not set. The
/// methods `with_…` set those that most agents know; rarer ones are set as fields.
///
/// Serializes to one line of camel-case JSON (`subagentRunId`). When parsed, the payload may also be any JSON, and the
/// timestamp epoch milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PublishedEvent")]
pub struct Event {
    /// The subagent's name; need not be unique.
    pub subagent_name: String,
    /// Id of the subagent's run, unique from start to end. Not blank.
    #[serde(alias = "subagentRunID")]
    pub subagent_run_id: String,
    /// Time in milliseconds since 1970; RFC 3339 on the wire.
    #[serde(rename = "timestamp", serialize_with = "write_time", deserialize_with = "read_time")]
    #[schemars(schema_with = "time_schema")]
    pub timestamp_ms: Millis,
    /// Kind of the event.
    #[serde(rename = "type")]
    pub kind: EventKind,
    /// Name of the tool.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool_name: Option<String>,
    /// Id that joins a tool call and its result.
    #[serde(skip_serializing_if = "Option::is_none", default, alias = "toolCallID")]
    pub tool_call_id: Option<String>,
    /// Prompt, arguments, result, thought or error: text, or JSON in compact form.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "read_payload")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub payload: Option<String>,
    /// Result of the subagent, in its end event.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "read_payload")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub result: Option<String>,
    /// Id of the tool call that started the subagent, among the calls of its parent.
    #[serde(skip_serializing_if = "Option::is_none", default, alias = "parentToolCallID")]
    pub parent_tool_call_id: Option<String>,
    /// Time limit of the tool.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub execution_timeout_seconds: Option<u64>,
    /// `encrypted` if the reasoning text is not available.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reasoning_type: Option<String>,
    /// Token usage of the model response that caused this event.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub token_usage: Option<TokenUsage>,
    /// Run id of the parent subagent; `None` below the root.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent_run_id: Option<String>,
    /// Depth of the subagent: 1 below the root.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub depth: Option<u32>,
    /// Id of the session that the run belongs to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session_id: Option<String>,
    /// Working directory of the publisher, which assigns the session to a project.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cwd: Option<String>,
    /// `stopped` if the run ended neither in success nor in failure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<String>,
    /// Whether the tool failed.
    #[serde(skip_serializing_if = "std::ops::Not::not", default, deserialize_with = "read_flag")]
    pub is_error: bool,
    /// Unique id of the event: an event posted again under the same id counts once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub event_id: Option<String>,
}

impl Event {
    /// Creates an event with the current time and a unique id.
    pub fn new(
        subagent_name: impl Into<String>,
        subagent_run_id: impl Into<String>,
        kind: EventKind,
    ) -> Self {
        let now_ns = clock::now_ns();
        Self {
            subagent_name: subagent_name.into(),
            subagent_run_id: subagent_run_id.into(),
            timestamp_ms: Millis::try_from(now_ns / 1_000_000).unwrap_or(Millis::MAX),
            kind,
            tool_name: None,
            tool_call_id: None,
            payload: None,
            result: None,
            parent_tool_call_id: None,
            execution_timeout_seconds: None,
            reasoning_type: None,
            token_usage: None,
            parent_run_id: None,
            depth: None,
            session_id: None,
            cwd: None,
            status: None,
            is_error: false,
            event_id: Some(generate_id(now_ns)),
        }
    }

    /// Sets the time, in milliseconds since 1970.
    #[must_use]
    pub fn with_timestamp_ms(mut self, at_ms: Millis) -> Self {
        self.timestamp_ms = at_ms;
        self
    }

    /// Sets the tool's name and the call id, which joins call and result.
    #[must_use]
    pub fn with_tool(mut self, name: impl Into<String>, call_id: impl Into<String>) -> Self {
        self.tool_name = Some(name.into());
        self.tool_call_id = Some(call_id.into());
        self
    }

    /// Sets the payload: text, or compact JSON.
    #[must_use]
    pub fn with_payload(mut self, payload: impl Into<String>) -> Self {
        self.payload = Some(payload.into());
        self
    }

    /// Sets a JSON payload.
    #[must_use]
    pub fn with_json(self, payload: &serde_json::Value) -> Self {
        self.with_payload(payload.to_string())
    }

    /// Sets the subagent's result, for its end event.
    #[must_use]
    pub fn with_result(mut self, result: impl Into<String>) -> Self {
        self.result = Some(result.into());
        self
    }

    /// Sets the id of the tool call that started the subagent, among the calls of its parent.
    #[must_use]
    pub fn with_parent_tool_call_id(mut self, call: impl Into<String>) -> Self {
        self.parent_tool_call_id = Some(call.into());
        self
    }

    /// Sets the parent run.
    #[must_use]
    pub fn with_parent_run_id(mut self, run: impl Into<String>) -> Self {
        self.parent_run_id = Some(run.into());
        self
    }

    /// Sets the depth: 1 below the root.
    #[must_use]
    pub fn with_depth(mut self, depth: u32) -> Self {
        self.depth = Some(depth);
        self
    }

    /// Marks an end event as stopped from outside. Readers without support for this treat an end event with a payload
    /// as a failure.
    #[must_use]
    pub fn with_stopped(mut self) -> Self {
        self.status = Some("stopped".to_owned());
        self
    }

    /// Sets whether the tool failed.
    #[must_use]
    pub fn with_is_error(mut self, is_error: bool) -> Self {
        self.is_error = is_error;
        self
    }

    /// Serializes to one line of JSON without a line end, not truncated.
    pub fn to_json(&self) -> Vec<u8> {
        #[expect(clippy::expect_used, reason = "strings and numbers always have a JSON")]
        serde_json::to_vec(self).expect("an event is strings and numbers")
    }

    /// Serializes for posting: like [`Event::to_json`], with payload or result truncated so that a hub accepts the event,
    /// since a huge tool result is no reason to abort a run. An event too long without its payload is left as it is,
    /// and will be refused.
    pub(super) fn to_wire(&self) -> Vec<u8> {
        let json = self.to_json();
        // One of them is long: an end event has an error or a result.
        let is_result = self.result.as_ref().map(String::len) > self.payload.as_ref().map(String::len);
        let text = if is_result { &self.result } else { &self.payload };
        let Some(text) = text.as_deref().filter(|_| json.len() > EVENT_BYTES) else { return json };
        let rest = json.len() - text.chars().map(json_bytes).sum::<usize>();
        let Some(room) = EVENT_BYTES.checked_sub(rest + NOTE_BYTES) else { return json };
        let mut used = 0;
        let fits = |character: &char| {
            used += json_bytes(*character);
            used <= room
        };
        let kept: String = text.chars().take_while(fits).collect();
        let cut = Some(format!("{kept}\n... ({} bytes cut)", text.len() - kept.len()));
        let payload = if is_result { self.payload.clone() } else { cut.clone() };
        let result = if is_result { cut } else { self.result.clone() };
        Self { payload, result, ..self.clone() }.to_json()
    }
}

/// Length of a character in a JSON string as serde_json escapes it.
fn json_bytes(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => character.len_utf8(),
    }
}

/// Writes RFC 3339, which all implementations of this wire format read; only some read epoch milliseconds.
fn write_time<S: Serializer>(at_ms: &Millis, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&iso8601(*at_ms))
}

/// Returns the schema of a time: RFC 3339, or milliseconds since 1970.
fn time_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "oneOf": [{ "type": "string", "format": "date-time" }, { "type": "integer" }] })
}

fn read_time<'de, D: Deserializer<'de>>(from: D) -> Result<Millis, D::Error> {
    let json = Box::<RawValue>::deserialize(from)?;
    let no_time = || D::Error::custom("timestamp is neither RFC 3339 nor epoch milliseconds");
    parse_event_time(json.get()).ok_or_else(no_time)
}

fn read_flag<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(Option::<bool>::deserialize(from)?.unwrap_or_default())
}

/// Reads a string verbatim, other JSON as compact text.
fn read_payload<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let Some(raw) = Option::<Box<RawValue>>::deserialize(from)? else { return Ok(None) };
    if raw.get().starts_with('"') {
        return serde_json::from_str(raw.get()).map(Some).map_err(D::Error::custom);
    }
    Ok(Some(compact(raw.get())))
}

/// Generates an id from a random seed per process, the time and a counter. The time is needed because a forked process
/// inherits seed and counter.
fn generate_id(now_ns: u64) -> String {
    static SEED: OnceLock<u64> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // RandomState is seeded by the operating system.
    let seed = SEED.get_or_init(|| RandomState::new().build_hasher().finish());
    format!("{seed:016x}-{now_ns:x}-{:x}", COUNT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(event: &Event) -> String {
        String::from_utf8(event.to_json()).unwrap()
    }

    #[test]
    fn event_has_the_four_required_keys_and_no_optional_one_that_is_not_set() {
        let mut event =
            Event::new("worker", "r1", EventKind::SubagentStart).with_timestamp_ms(1_795_293_906_647);
        event.event_id = None;
        let expected = r#"{"subagentName":"worker","subagentRunId":"r1","timestamp":"2026-11-21T20:45:06.647Z","type":"subagent_start"}"#;
        assert_eq!(json(&event), expected);
        event.token_usage = Some(TokenUsage { input_tokens: Some(100), ..TokenUsage::default() });
        let event = event.with_is_error(true);
        assert!(
            json(&event)
                .ends_with(r#""type":"subagent_start","tokenUsage":{"inputTokens":100},"isError":true}"#)
        );
    }

    #[test]
    fn event_that_says_everything_comes_back() {
        let event = Event {
            execution_timeout_seconds: Some(30),
            reasoning_type: Some("encrypted".to_owned()),
            session_id: Some("s".to_owned()),
            ..Event::new("w", "r2", EventKind::ToolCall)
        };
        let event = event
            .with_tool("Read", "t1")
            .with_json(&serde_json::json!({"path": "a b", "lines": [1, 2]}))
            .with_parent_run_id("r1")
            .with_depth(2);
        assert_eq!(event.payload.as_deref(), Some(r#"{"path":"a b","lines":[1,2]}"#));
        assert_eq!(serde_json::from_slice::<Event>(&event.to_json()).unwrap(), event);
    }

    #[test]
    fn event_is_read_as_any_program_writes_it() {
        let line = r#"{"subagentRunID": "r", "subagentName": "", "type": "tool_result", "timestamp": 1795293906647.5,
            "toolCallID": "t", "payload": {"a" : [ 1, "x y" ]}, "isError": null, "other": 1}"#;
        let event: Event = serde_json::from_str(line).unwrap();
        assert_eq!((event.subagent_run_id.as_str(), event.tool_call_id.as_deref()), ("r", Some("t")));
        assert_eq!(event.timestamp_ms, 1_795_293_906_647);
        assert_eq!(event.payload.as_deref(), Some(r#"{"a":[1,"x y"]}"#));
        assert_eq!((event.is_error, event.event_id), (false, None));
    }

    #[test]
    fn event_that_lacks_something_says_what() {
        for (line, what) in [
            (r#"{"subagentRunId":"r","timestamp":1,"type":"tool_call"}"#, "subagentName"),
            (r#"{"subagentName":"n","timestamp":1,"type":"tool_call"}"#, "subagentRunId"),
            (r#"{"subagentName":"n","subagentRunId":"r","type":"tool_call"}"#, "timestamp"),
            (r#"{"subagentName":"n","subagentRunId":"r","timestamp":1}"#, "type"),
            (r#"{"subagentName":"n","subagentRunId":"r","timestamp":"now","type":"tool_call"}"#, "timestamp"),
            (r#"{"subagentName":"n","subagentRunId":"r","timestamp":true,"type":"tool_call"}"#, "timestamp"),
            (r#"{"subagentName":"n","subagentRunId":"r","timestamp":1,"type":"toolcall"}"#, "toolcall"),
        ] {
            let error = serde_json::from_str::<Event>(line).unwrap_err().to_string();
            assert!(error.contains(what), "{error} does not say {what}");
        }
    }

    #[test]
    fn payload_that_is_too_long_is_cut_and_says_by_how_much() {
        let every: String = (0..0x3000).filter_map(char::from_u32).collect();
        let event = |payload: String| Event::new("w", "r", EventKind::ToolResult).with_payload(payload);
        for payload in
            [every.repeat(200), "\"".repeat(EVENT_BYTES), "\u{1}\u{10ffff}".repeat(EVENT_BYTES / 4)]
        {
            let wire = event(payload.clone()).to_wire();
            assert!(wire.len() <= EVENT_BYTES && wire.len() > EVENT_BYTES - 2 * NOTE_BYTES, "{}", wire.len());
            let cut_payload = serde_json::from_slice::<Event>(&wire).unwrap().payload.unwrap();
            let (kept, mark) = cut_payload.rsplit_once("\n... (").unwrap();
            assert!(payload.starts_with(kept));
            assert_eq!(mark, format!("{} bytes cut)", payload.len() - kept.len()));
        }
        let whole = event("x".repeat(EVENT_BYTES - 1000));
        assert_eq!(whole.to_wire(), whole.to_json());
        let hopeless = Event { subagent_name: "x".repeat(EVENT_BYTES), ..event("y".to_owned()) };
        assert_eq!(hopeless.to_wire(), hopeless.to_json());
    }

    #[test]
    fn ids_are_never_given_twice() {
        let ids: std::collections::HashSet<_> = (0..1000).map(|_| generate_id(1)).collect();
        assert_eq!(ids.len(), 1000);
        let kinds = [
            EventKind::SubagentStart,
            EventKind::SubagentEnd,
            EventKind::ToolCall,
            EventKind::ToolResult,
            EventKind::ThoughtTrace,
        ];
        assert!(kinds.iter().all(|kind| serde_json::to_value(kind).unwrap() == kind.as_str()));
    }
}
