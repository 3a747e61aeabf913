//! What a machine sends to the server of its team, as far as its hub knows.

use serde::{Deserialize, Serialize};

use crate::{ContentLevel, Millis, Text};

/// Schema version of [`Sending`]'s JSON.
pub const SENDING_SCHEMA: &str = "subscope.sending/1";

/// What this machine sends to its team's server: `GET /api/v1/sending`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Sending {
    /// Always [`SENDING_SCHEMA`].
    pub schema: Text,
    /// URL of the server that the settings name; `None` if they name none.
    pub url: Option<Text>,
    /// Whether the settings let a hub send to it.
    pub is_on: bool,
    /// Name of the machine.
    pub machine: Text,
    /// Level of content that is sent.
    pub level: ContentLevel,
    /// Whether the organization of this machine set the level as the highest one.
    pub is_level_locked: bool,
    /// Folders whose sessions never leave, as the settings have them.
    pub exclude: Vec<String>,
    /// Whether a process sends now.
    pub is_forwarding: bool,
    /// Number of sessions that the server has.
    pub sent: u64,
    /// Number of sessions that are newer here, or that it does not have.
    pub behind: u64,
    /// Number of sessions that it has with more content than the level allows: they are replaced.
    pub above_level: u64,
    /// When this hub last sent a session; `None` if it sent none.
    pub last_sent_at_ms: Option<Millis>,
    /// Why sessions cannot be sent now; `None` if the last attempt did not fail.
    pub error: Option<Text>,
    /// Level of the example.
    pub example_level: ContentLevel,
    /// The newest session that may leave, as the line of JSON that leaves (`subscope.team/1`); `None` if there is none.
    pub example: Option<Text>,
}
