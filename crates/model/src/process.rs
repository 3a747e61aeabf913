//! The process that runs a session: lines of our own dialects, `subscope.process/1` for its end and
//! `subscope.process-activity/1` for what its note says that it does.
//!
//! `run` starts the process and knows how it ended, whatever its agents reported; of processes that others started, the
//! hub sees that they are gone. The line is stored with the session's other input, so that a rebuild derives the same
//! rows.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{LivenessKind, Millis, SessionId, Text};

/// The end of a session's process, and with it of everything that the session had running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ProcessEnd {
    /// Always [`ProcessEnd::SCHEMA`].
    pub schema: Text,
    /// Time. Later input of the session shows that another process has opened it again.
    pub at_ms: Millis,
    /// The session.
    pub session_id: SessionId,
    /// How it ended.
    #[serde(flatten)]
    pub exit: ProcessExit,
}

impl ProcessEnd {
    /// Schema version.
    pub const SCHEMA: &'static str = "subscope.process/1";
}

/// What a session's process does, by the note that the process keeps of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ProcessNoteLine {
    /// Always [`ProcessNoteLine::SCHEMA`].
    pub schema: Text,
    /// When the note was read.
    pub at_ms: Millis,
    /// The session.
    pub session_id: SessionId,
    /// What the process does.
    pub activity: ProcessActivity,
    /// Since when, by the note.
    pub since_ms: Millis,
}

impl ProcessNoteLine {
    /// Schema version.
    pub const SCHEMA: &'static str = "subscope.process-activity/1";
}

/// What a process does. It names no agent: a process asks the user one thing at a time, for any of its agents.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ProcessActivity {
    /// It waits for the user's next prompt.
    Idle,
    /// It works, and asks the user nothing.
    Busy,
    /// It asks the user for a permission.
    Permission,
    /// It asks the user for anything else: an answer, a decision, a form.
    Input,
    /// It has begun another session: what it does is no longer about this one.
    Elsewhere,
}

impl ProcessActivity {
    /// Returns what it waits for; `None` unless it asks the person something.
    pub fn wait(self) -> Option<LivenessKind> {
        match self {
            Self::Idle | Self::Busy | Self::Elsewhere => None,
            Self::Permission => Some(LivenessKind::Permission),
            Self::Input => Some(LivenessKind::Question),
        }
    }
}

/// How a process ended.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ProcessExit {
    /// Exit code.
    Code(i32),
    /// Number of the signal that killed it.
    Signal(i32),
    /// It is gone; only its parent knows how.
    Unknown,
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(number) => write!(f, "signal {number}"),
            Self::Unknown => f.write_str("exit code unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_reads_as_it_was_written() {
        for (exit, field) in [
            (ProcessExit::Code(3), "\"code\":3"),
            (ProcessExit::Signal(15), "\"signal\":15"),
            (ProcessExit::Unknown, "\"unknown\":null"),
        ] {
            let end =
                ProcessEnd { schema: ProcessEnd::SCHEMA.into(), at_ms: 7, session_id: "s".into(), exit };
            let line = serde_json::to_string(&end).unwrap();
            assert!(line.contains(field), "{line}");
            assert_eq!(serde_json::from_str::<ProcessEnd>(&line).unwrap(), end);
        }
    }
}
