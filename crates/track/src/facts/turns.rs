//! Facts about the turns of the root: prompts, ends, lines of streams, and the order of hooks.

use serde::{Deserialize, Serialize};
use subscope_model::{AgentStatus, Millis, SourceKind, Text, ToolClass};

use super::{AgentRef, CallIndex, FactOrder, LastLine};

/// A prompt of the user.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PromptFact {
    pub(crate) kind: SourceKind,
    pub(crate) source: u32,
    pub(crate) id: Option<Text>,
    /// Hash of the text, the same in every process.
    pub(crate) hash: u64,
    pub(crate) time: Option<Millis>,
    pub(crate) order: FactOrder,
    pub(crate) line_id: Option<Text>,
}

impl PromptFact {
    /// Whether its source left the text out.
    pub(crate) fn is_redacted(&self) -> bool {
        self.hash == subscope_model::stable_hash("")
    }
}

/// End of a turn of the root, as the harness reports it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TurnFact {
    pub(crate) kind: SourceKind,
    pub(crate) source: u32,
    pub(crate) status: AgentStatus,
    pub(crate) time: Option<Millis>,
    pub(crate) order: FactOrder,
    pub(crate) counts_run: bool,
    pub(crate) line_id: Option<Text>,
    /// What its line says of the turn: its last words, or why it failed.
    #[serde(default)]
    pub(crate) text: Option<Text>,
}

/// A line of the root that ended its turn, unless the root continued.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RootLineFact {
    pub(crate) source: u32,
    pub(crate) last_line: LastLine,
    pub(crate) time: Option<Millis>,
    pub(crate) order: FactOrder,
}

/// Root activity and results of one stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamFacts {
    /// Ids of lines with root activity; a repeated line is not new activity.
    pub(crate) active_lines: hashbrown::HashSet<Text>,
    /// Offset of the latest root activity.
    pub(crate) last_activity: Option<u64>,
    /// Offset of the latest result.
    pub(crate) last_result: Option<u64>,
    /// Offset and time of the first root activity, and of the first after each result.
    pub(crate) begins: Vec<(u64, Option<Millis>)>,
}

/// One entry of a hook log, or a question of another source. Hooks have no timestamps, so their order is that of `source`
/// and `offset`.
#[derive(Clone, Debug)]
pub(crate) struct HookStep {
    pub(crate) source: u32,
    pub(crate) offset: u64,
    pub(crate) line: u64,
    /// Whether it is a question of a transcript, which says what is asked at the moment: no hook, and not counted.
    pub(crate) is_transcribed: bool,
    pub(crate) kind: HookStepKind,
}

/// Kind of a [`HookStep`]. `named` is the agent that the payload names.
#[derive(Clone, Debug)]
pub(crate) enum HookStepKind {
    Prompt {
        is_user: bool,
    },
    Start {
        agent: Text,
    },
    Stop {
        agent: Text,
    },
    /// A call began.
    Pre {
        call: CallIndex,
        named: Option<AgentRef>,
        digest: u64,
    },
    /// A call ended; `launched` if it started a background agent.
    Post {
        call: CallIndex,
        named: Option<AgentRef>,
        launched: bool,
    },
    Permission {
        named: Option<AgentRef>,
        name: Text,
        class: ToolClass,
        digest: u64,
        time: Option<Millis>,
    },
    PermissionReply {
        named: Option<AgentRef>,
        digest: u64,
    },
    TurnEnd {
        status: AgentStatus,
    },
    /// A process of the harness opened the session.
    SessionStart {
        time: Option<Millis>,
        reason: Option<Text>,
    },
    /// The harness waits for the user's next prompt.
    AwaitsPrompt {
        time: Option<Millis>,
    },
    SessionEnd,
}
