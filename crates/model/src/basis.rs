//! Evidence for the actor of an observation.

use serde::{Deserialize, Serialize};

/// Evidence for an actor. Ordered: a greater basis is stronger; the strongest of all sources wins, regardless of the
/// order of arrival.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Unknown.
    #[default]
    Unknown,
    /// Guess: the agent started last (LIFO). Used only if the input has no identity; wrong for 62–98 % of the calls of
    /// parallel agents.
    Stack,
    /// The only possible actor.
    Sole,
    /// A link identifies the agent: the parent call, the transcript file, a run id.
    Link,
    /// The event itself names its agent.
    Wire,
}

impl Basis {
    /// Whether a frontend must mark data with this basis by `~`.
    pub fn is_guess(self) -> bool {
        self <= Self::Stack
    }

    /// Returns the lower-case word used in every serialization.
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
