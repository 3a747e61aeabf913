//! How the actor of an observation is known.

use serde::{Deserialize, Serialize};

/// How an actor is known. Ordered: a greater basis is a stronger one, and the strongest that any source
/// gives wins, whatever arrived first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Nothing tells.
    #[default]
    Unknown,
    /// The agent started last is guessed (LIFO). Used only where the wire has no identity; wrong for
    /// 62–98 % of the calls of parallel agents.
    Stack,
    /// Nobody else can have done it.
    Sole,
    /// A link names the agent: the parent call, the transcript file it stands in, a run id.
    Link,
    /// The event itself names its agent.
    Wire,
}

impl Basis {
    /// Whether a face must mark what rests on this basis with `~`.
    pub fn is_guess(self) -> bool {
        self <= Self::Stack
    }

    /// The lower-case word used on every wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Stack => "stack",
            Self::Sole => "sole",
            Self::Link => "link",
            Self::Wire => "wire",
        }
    }
}
