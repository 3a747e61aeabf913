//! Events of the feed: the JSON objects of exports, `watch --json` and live streams.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Actor, Basis, Millis, SessionId, Text, tree::agent_title};

/// Kind of an event. Serialized as the word of [`EventKind::as_str`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventKind {
    /// A process of the harness opened the session.
    SessionStart,
    /// A process of the harness closed the session.
    SessionEnd,
    /// A prompt of the user started a run.
    RunStart,
    /// The root ended its turn.
    RunEnd,
    /// A prompt of the user.
    UserPrompt,
    /// A tool call began.
    ToolPre,
    /// A tool call ended without error.
    ToolPost,
    /// A tool call ended in an error.
    ToolFailure,
    /// The user is asked to allow a call.
    PermissionRequest,
    /// A call was denied.
    PermissionDenied,
    /// A subagent started, or was resumed.
    SubagentStart,
    /// The harness reported a subagent's progress.
    SubagentProgress,
    /// A subagent ended.
    SubagentStop,
    /// A message of an agent.
    AgentMessage,
    /// A thought of an agent.
    Reasoning,
    /// Token usage of one API response.
    Usage,
    /// An agent has been silent for longer than its limit.
    Stall,
    /// A session or a day has cost 80 % or all of its budget.
    Budget,
    /// A sign of life of the harness.
    Heartbeat,
    /// An API request is retried.
    Retry,
    /// The harness notified the user.
    Notification,
    /// The conversation is about to be compacted.
    CompactPre,
    /// The conversation was compacted.
    CompactPost,
    /// A to-do item was created.
    TodoCreated,
    /// A to-do item was completed.
    TodoCompleted,
    /// A hook unknown to this version.
    UnknownHook,
    /// An earlier event's actor was corrected.
    Attribution,
    /// An agent got its real id.
    AgentRenamed,
    /// Input could not be decoded.
    Problem,
}

/// Every kind with its word.
const WORDS: [(EventKind, &str); 29] = [
    (EventKind::SessionStart, "session.start"),
    (EventKind::SessionEnd, "session.end"),
    (EventKind::RunStart, "run.start"),
    (EventKind::RunEnd, "run.end"),
    (EventKind::UserPrompt, "user.prompt"),
    (EventKind::ToolPre, "tool.pre"),
    (EventKind::ToolPost, "tool.post"),
    (EventKind::ToolFailure, "tool.failure"),
    (EventKind::PermissionRequest, "permission.request"),
    (EventKind::PermissionDenied, "permission.denied"),
    (EventKind::SubagentStart, "subagent.start"),
    (EventKind::SubagentProgress, "subagent.progress"),
    (EventKind::SubagentStop, "subagent.stop"),
    (EventKind::AgentMessage, "agent.message"),
    (EventKind::Reasoning, "reasoning"),
    (EventKind::Usage, "usage"),
    (EventKind::Stall, "stall"),
    (EventKind::Budget, "budget"),
    (EventKind::Heartbeat, "heartbeat"),
    (EventKind::Retry, "retry"),
    (EventKind::Notification, "notification"),
    (EventKind::CompactPre, "compact.pre"),
    (EventKind::CompactPost, "compact.post"),
    (EventKind::TodoCreated, "todo.created"),
    (EventKind::TodoCompleted, "todo.completed"),
    (EventKind::UnknownHook, "unknown.hook"),
    (EventKind::Attribution, "attribution"),
    (EventKind::AgentRenamed, "agent.renamed"),
    (EventKind::Problem, "problem"),
];

impl EventKind {
    /// Returns the word used in every serialization.
    pub fn as_str(self) -> &'static str {
        WORDS.iter().find(|(kind, _)| *kind == self).map_or("problem", |(_, word)| word)
    }

    /// Returns the kind of a word.
    pub fn parse(word: &str) -> Option<Self> {
        WORDS.iter().find(|(_, known)| *known == word).map(|(kind, _)| *kind)
    }
}

impl schemars::JsonSchema for EventKind {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "EventKind".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let words: Vec<&str> = WORDS.iter().map(|(_, word)| *word).collect();
        schemars::json_schema!({ "description": "Kind of an event.", "type": "string", "enum": words })
    }
}

impl Serialize for EventKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for EventKind {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::parse(&word).ok_or_else(|| serde::de::Error::custom(format!("unknown event kind {word:?}")))
    }
}

/// The schema version of an event, which takes no memory: [`Event::SCHEMA`] in JSON, where no other is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSchema;

impl Serialize for EventSchema {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Event::SCHEMA)
    }
}

impl<'de> Deserialize<'de> for EventSchema {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = std::borrow::Cow::<str>::deserialize(deserializer)?;
        if name == Event::SCHEMA {
            Ok(Self)
        } else {
            Err(serde::de::Error::custom(format!("unknown schema of an event {name:?}")))
        }
    }
}

/// An event of a session, as sent to every frontend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "Event")]
pub struct Event<D = Value> {
    /// Always `subscope.event/1`.
    #[schemars(with = "Text")]
    pub schema: EventSchema,
    /// Id of the event: equal from every source and after every rebuild.
    pub id: Text,
    /// Position in one log or file (1-based); not part of the identity.
    pub seq: u64,
    /// Time of the event; `None` if unknown.
    pub at_ms: Option<Millis>,
    /// The session it belongs to.
    pub session_id: SessionId,
    /// The run it belongs to (1-based); 0 before the first.
    pub run: u32,
    /// The actor.
    pub actor_id: Actor,
    /// Evidence for the actor.
    pub basis: Basis,
    /// Dialect of its source.
    pub source: Text,
    /// The kind.
    pub kind: EventKind,
    /// Details by kind; an object.
    pub data: D,
}

impl Event {
    /// Schema version of the event's JSON. Changes within it are additive only.
    pub const SCHEMA: &'static str = "subscope.event/1";

    /// Returns `data[key]` if it is a string.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.data.get(key).and_then(Value::as_str)
    }

    /// Returns the title of the agent that a start is about, as [`Agent::title`] of its row; `None` if only its id is known.
    ///
    /// [`Agent::title`]: crate::Agent::title
    pub fn agent_title(&self) -> Option<String> {
        agent_title(self.text("agent_type"), self.text("name"), self.text("description"))
    }
}

impl<D> Event<D> {
    /// Returns the event with other data.
    pub(crate) fn with_data<E>(self, data: E) -> Event<E> {
        let Self { schema, id, seq, at_ms, session_id, run, actor_id, basis, source, kind, data: _ } = self;
        Event { schema, id, seq, at_ms, session_id, run, actor_id, basis, source, kind, data }
    }
}

/// Serializes an event as one JSON line, without the newline.
pub fn feed_line(event: &Event) -> String {
    // An event consists of strings, numbers and JSON values: serializing cannot fail.
    serde_json::to_string(event).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_one_word_and_comes_back() {
        for (kind, word) in WORDS {
            assert_eq!((kind.as_str(), EventKind::parse(word)), (word, Some(kind)));
        }
    }
    #[test]
    fn an_event_of_another_schema_is_refused() {
        let event = |schema: &str| {
            serde_json::json!({
                "schema": schema, "id": "e", "seq": 1, "at_ms": null, "session_id": "s", "run": 0,
                "actor_id": "agent:root", "basis": "wire", "source": "feed", "kind": "heartbeat", "data": {},
            })
        };
        let known = event(Event::SCHEMA);
        let read: Event = serde_json::from_value(known.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), known);
        assert!(serde_json::from_value::<Event>(event("subscope.event/2")).is_err());
    }
}
