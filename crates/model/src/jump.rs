//! Where a session's terminal is, and what came of going there.

use serde::{Deserialize, Serialize};

use crate::{SessionId, Text};

/// Schema version of [`Jumped`]'s JSON.
pub const JUMPED_SCHEMA: &str = "subscope.jumped/1";

/// What came of a request to go to the terminal of a session: `POST /api/v1/sessions/{id}/jump`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Jumped {
    /// Always [`JUMPED_SCHEMA`].
    pub schema: Text,
    /// The session.
    pub session_id: SessionId,
    /// What came of it.
    pub outcome: JumpOutcome,
    /// Number of the session's process; `None` if none was found.
    pub process: Option<i32>,
    /// Program that has the terminal, as it calls itself: `tmux`, `kitty`, `WezTerm`; `None` if it is not known.
    pub terminal: Option<Text>,
    /// The place in it: `work:1.0` in tmux; elsewhere the terminal's device; `None` if it is not known.
    pub place: Option<Text>,
    /// A command for a shell that leads there, or resumes the session; `None` if there is none.
    pub command: Option<Text>,
    /// All that in one sentence.
    pub says: Text,
}

/// What came of a request to go to a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JumpOutcome {
    /// The terminal is on the screen now.
    Went,
    /// It is one of a multiplexer that nothing shows: the command attaches to it.
    Detached,
    /// The process runs at a terminal to which no command goes.
    Unreachable,
    /// No process of the session was found: the command, if there is one, resumes the session.
    NotRunning,
}
