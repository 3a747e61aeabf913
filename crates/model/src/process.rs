//! The end of the process that ran a session: lines of our own dialect, `subscope.process/1`.
//!
//! `run` starts the process and knows how it ended, whatever its agents reported; of processes that others started, the
//! hub sees that they are gone. The line is stored with the session's other input, so that a rebuild derives the same
//! rows.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Millis, SessionId, Text};

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
