//! Begins and ends of tool calls.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::{SpawnInput, SpawnResult};
use crate::{LivenessKind, RawJson};

/// A class of tools that the tracker treats alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolClass {
    /// Starts a subagent.
    Spawn,
    /// Ends at once unless it needs a permission.
    Instant,
    /// Asks the person something, and ends with the answer.
    Question,
    /// Presents a plan to the person, and ends with the decision.
    Plan,
    /// Asks the person for a permission, and ends with the decision.
    Permission,
    /// Any other.
    #[default]
    Other,
}

impl ToolClass {
    /// Returns what an open call of the tool waits for from a person; `None` if the tool asks nobody.
    pub fn person_wait(self) -> Option<LivenessKind> {
        match self {
            Self::Spawn | Self::Instant | Self::Other => None,
            Self::Question => Some(LivenessKind::Question),
            Self::Plan => Some(LivenessKind::Plan),
            Self::Permission => Some(LivenessKind::Permission),
        }
    }
}

/// A tool call began.
#[derive(Clone, Debug, Default)]
pub struct CallBegin<'a> {
    /// The harness's id; `None` if the source has none.
    pub id: Option<&'a str>,
    /// The tool.
    pub name: &'a str,
    /// Its class.
    pub class: ToolClass,
    /// Its arguments.
    pub input: Option<RawJson<'a>>,
    /// Hash of the arguments; comparable within one kind of source.
    pub digest: u64,
    /// Short description of its target.
    pub detail: Option<Cow<'a, str>>,
    /// The files that it writes.
    pub writes: Vec<Cow<'a, str>>,
    /// Timeout in seconds, if known.
    pub timeout_s: Option<u64>,
    /// Arguments of a spawn tool.
    pub spawn: Option<SpawnInput<'a>>,
    /// The published run that it starts, where its arguments name one: an agent called as a tool.
    pub starts_run: Option<Cow<'a, str>>,
    /// Whether the call is reported after the fact and may have begun long before.
    pub hindsight: bool,
    /// Whether the id is unique only inside its session (`call_1`): an equal id in another is another call.
    pub has_local_id: bool,
    /// Whether the source numbers the calls that it repeats by itself: such a call counts only where the session has no
    /// transcript.
    pub is_renumbered: bool,
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Outcome {
    /// Success.
    Ok,
    /// Error.
    Error,
    /// Interrupted.
    Interrupted,
    /// Denied by the user, a rule or a hook.
    Denied,
    /// Ended with an unknown outcome.
    #[default]
    Over,
}

/// A tool call ended.
#[derive(Clone, Debug, Default)]
pub struct CallEnd<'a> {
    /// The harness's id; `None` if the source has none.
    pub id: Option<&'a str>,
    /// The tool, if the source repeats it.
    pub name: Option<&'a str>,
    /// The digest of the begin, if the source repeats the arguments.
    pub digest: u64,
    /// Outcome.
    pub outcome: Outcome,
    /// Its result.
    pub result: Option<RawJson<'a>>,
    /// Duration reported by the harness.
    pub duration_ms: Option<i64>,
    /// Result of a spawn call.
    pub spawn: Option<SpawnResult<'a>>,
    /// Whether the harness refused to start an agent (unknown type, limit, depth).
    pub refused: bool,
    /// The agent that this call stopped.
    pub stopped: Option<&'a str>,
    /// The agent that this call resumed.
    pub resumed: Option<&'a str>,
    /// The run of several agents that it started.
    pub batch_run: Option<&'a str>,
    /// Whether the command that it started continues in the background.
    pub left_running: bool,
    /// Whether the model continued before the call had ended: any other reported end takes precedence.
    pub is_provisional: bool,
    /// Whether the turn that made the call had ended before: the end is no activity of the agent.
    pub is_late: bool,
}
