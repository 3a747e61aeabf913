//! An observation as shown: the one object of feed, `watch --json` and live streams.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Actor, Basis, Millis, SessionId, Text};

/// What an event is about. Serialised as the words of `as_str`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventKind {
    /// A process of the harness opened the session.
    SessionStart,
    /// A process of the harness left the session.
    SessionEnd,
    /// A prompt of the user started a run.
    RunStart,
    /// The root ended its turn.
    RunEnd,
    /// What the user asked.
    UserPrompt,
    /// A tool call began.
    ToolPre,
    /// A tool call ended without error.
    ToolPost,
    /// A tool call ended in an error.
    ToolFailure,
    /// A person is asked to allow a call.
    PermissionRequest,
    /// A call was denied.
    PermissionDenied,
    /// A subagent started, or was resumed.
    SubagentStart,
    /// The harness told how far a subagent is.
    SubagentProgress,
    /// A subagent ended.
    SubagentStop,
    /// An agent said something.
    AgentMessage,
    /// An agent thought.
    Reasoning,
    /// Tokens of one API response.
    Usage,
    /// An agent is silent for longer than its limit.
    Stall,
    /// The harness said that it lives.
    Heartbeat,
    /// The API is asked again.
    Retry,
    /// The harness notified the user.
    Notification,
    /// The conversation is about to be compacted.
    CompactPre,
    /// The conversation was compacted.
    CompactPost,
    /// A to-do item was made.
    TodoCreated,
    /// A to-do item was done.
    TodoCompleted,
    /// A hook that this version does not know.
    UnknownHook,
    /// An earlier event's actor was corrected.
    Attribution,
    /// An agent got its real id.
    AgentRenamed,
    /// Something could not be understood.
    Problem,
}

/// Every kind with its word, in one place.
const WORDS: [(EventKind, &str); 28] = [
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
    /// The word used on every wire.
    pub fn as_str(self) -> &'static str {
        WORDS.iter().find(|(kind, _)| *kind == self).map_or("problem", |(_, word)| word)
    }

    /// The kind with the given word.
    pub fn parse(word: &str) -> Option<Self> {
        WORDS.iter().find(|(_, known)| *known == word).map(|(kind, _)| *kind)
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

/// One event of a session, as every face gets it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Always [`Event::SCHEMA`].
    pub schema: Text,
    /// The event's identity: the same from every source and after every rebuild.
    pub id: Text,
    /// A place in one log or file, from 1; says nothing about identity.
    pub seq: u64,
    /// When it happened; `None` where no source tells.
    pub at_ms: Option<Millis>,
    /// The session it belongs to.
    pub session_id: SessionId,
    /// The run it belongs to, from 1; 0 before the first.
    pub run: u32,
    /// Who did it.
    pub actor_id: Actor,
    /// How the actor is known.
    pub basis: Basis,
    /// The dialect that told it.
    pub source: Text,
    /// What it is about.
    pub kind: EventKind,
    /// Details by kind; an object.
    pub data: Value,
}

impl Event {
    /// The version word of the event's JSON. Changes within it are additive only.
    pub const SCHEMA: &'static str = "subscope.event/1";

    /// Returns the text of `data[key]`, where it is text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.data.get(key).and_then(Value::as_str)
    }
}

/// Returns the event as one line of JSON without its newline.
pub fn feed_line(event: &Event) -> String {
    // An event is made of strings, numbers and JSON values: serialising it has no way to fail.
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
}
