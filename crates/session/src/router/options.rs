//! Options of a router: what it records.

use subscope_model::{EventKind, Fact, Millis};
use subscope_track::FactDetail;

/// Options of a [`SessionRouter`](super::SessionRouter).
#[derive(Clone, Debug)]
pub struct RouterOptions {
    /// How much of call payloads is recorded.
    pub keep: FactDetail,
    /// Later observations are dropped.
    pub cutoff: Option<Millis>,
    /// Which events are recorded in addition to rows.
    pub events: EventScope,
}

/// Which events are recorded. What is not recorded takes no memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventScope {
    /// None.
    #[default]
    Nothing,
    /// Waits: requests for permission and retries; also what follows from rows, as stalls.
    Waits,
    /// Prompts, messages and thoughts, for [`texts`](super::SessionRouter::texts): their positions, not their text.
    Texts,
    /// All, for [`SessionRouter::records`](super::SessionRouter::records): with the places of long texts.
    Records,
    /// All.
    All,
}

impl EventScope {
    /// Whether any event is recorded.
    pub(crate) fn is_any(self) -> bool {
        self != Self::Nothing
    }

    /// Whether the event of a fact is recorded.
    pub(crate) fn includes(self, fact: &Fact<'_>) -> bool {
        let is_text = matches!(fact, Fact::Prompt { .. } | Fact::Message { .. } | Fact::Thought { .. });
        let is_of_wait = matches!(
            fact,
            Fact::Permission { .. }
                | Fact::Note { kind: EventKind::PermissionRequest, .. }
                | Fact::Retry { .. }
                | Fact::Spawn(_)
                | Fact::AgentEnd(_)
        );
        match self {
            Self::Nothing => false,
            Self::Waits => is_of_wait,
            Self::Texts => is_text,
            Self::Records | Self::All => true,
        }
    }
}
