//! Identifiers: newtypes of the harness's strings, and derived event ids.

use std::{fmt, ops::Deref, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::safe_id;

/// Shared immutable text; cloning increments a reference count.
pub type Text = Arc<str>;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
        )]
        #[serde(transparent)]
        pub struct $name(pub Text);

        impl $name {
            /// Takes an id from outside, in its safe form ([`safe_id()`]).
            pub fn from_outside(id: &str) -> Self {
                Self(safe_id(id).into())
            }

            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Deref for $name {
            type Target = str;
            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// Id of a conversation, assigned by the harness. Unique within a harness.
    SessionId
);
text_id!(
    /// Id of an agent within its session: `root`, the harness's id of a subagent, or the spawn call's id until a source
    /// with the real id arrives.
    AgentId
);
text_id!(
    /// Id of a tool call within its session, assigned by the harness.
    ToolUseId
);

impl AgentId {
    /// The id of a session's root agent.
    pub const ROOT: &'static str = "root";

    /// Whether this is the root of its session.
    pub fn is_root(&self) -> bool {
        &*self.0 == Self::ROOT
    }
}

/// Number of a source (a file, or a stream of posts or hooks) within one session router. Local to it: no result may
/// depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u32);

/// An agent as actor of an event: `agent:root` or `subagent:<agent id>`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Actor(pub AgentId);

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_root() { f.write_str("agent:root") } else { write!(f, "subagent:{}", self.0) }
    }
}

impl schemars::JsonSchema for Actor {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Actor".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "An agent as actor of events: `agent:root` or `subagent:` and the agent's id.",
            "type": "string",
            "pattern": "^(agent:root|subagent:)",
        })
    }
}

impl Serialize for Actor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Actor {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        let id = text.strip_prefix("subagent:").unwrap_or(AgentId::ROOT);
        Ok(Self(AgentId::from(id)))
    }
}

/// Returns the 64-bit FNV-1a hash of a text: the same in every process and version.
pub fn stable_hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Returns the id of an event: a 128-bit FNV-1a hash of session and key as 32 hex digits. Equal from every source and
/// after every rebuild, because keys are (design, "Keys").
pub fn event_id(session: &str, key: &str) -> Text {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let mut hash = OFFSET;
    for byte in session.bytes().chain([0]).chain(key.bytes()) {
        hash = (hash ^ u128::from(byte)).wrapping_mul(PRIME);
    }
    format!("{hash:032x}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn show_actor_of_root_and_subagent() {
        assert_eq!(Actor(AgentId::from("root")).to_string(), "agent:root");
        assert_eq!(Actor(AgentId::from("a70")).to_string(), "subagent:a70");
        let back: Actor = serde_json::from_str("\"subagent:a70\"").unwrap();
        assert_eq!(back, Actor(AgentId::from("a70")));
    }

    #[test]
    fn event_id_depends_on_session_and_key_and_their_border() {
        assert_ne!(event_id("a", "bc"), event_id("ab", "c"));
        assert_eq!(event_id("a", "b"), event_id("a", "b"));
        assert_eq!(event_id("", "").len(), 32);
    }
}
