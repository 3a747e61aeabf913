//! What a machine sends to the store of its team: a session's rows as they are, at a level of content.

use serde::{Deserialize, Serialize};

use crate::{Millis, SessionRow, Text, Tree};

/// Schema version of [`Snapshot`].
pub const SNAPSHOT_SCHEMA: &str = "subscope.team/1";

/// How much of a session's content leaves its machine.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ContentLevel {
    /// Ids, types, models, names of tools, times, statuses, counts, tokens, cost, and the project's name.
    #[default]
    Figures,
    /// Also titles, descriptions, short details of calls, and the first line of errors.
    Titles,
    /// Also prompts, messages, arguments and results, as searchable passages.
    Text,
}

impl ContentLevel {
    /// All levels, the least content first.
    pub const ALL: [Self; 3] = [Self::Figures, Self::Titles, Self::Text];

    /// Returns the word used in settings and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Figures => "figures",
            Self::Titles => "titles",
            Self::Text => "text",
        }
    }
}

/// A session's rows, as one line of a request to a team's server. A later snapshot replaces an earlier one whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Snapshot {
    /// Always [`SNAPSHOT_SCHEMA`].
    pub schema: Text,
    /// Name of the machine.
    pub machine: Text,
    /// Version: of two snapshots of a session the one with the higher rev is current.
    pub rev: u64,
    /// Day (UTC, `2026-11-21`) of the session's first event when it was first sent; it never changes afterwards.
    pub day: Text,
    /// The machine's time zone, on whose days the session counts; `None` for UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<Text>,
    /// Whether the session is to be removed; it has no tree then.
    #[serde(default)]
    pub deleted: bool,
    /// Name of the project; `None` if unknown.
    #[serde(default)]
    pub project: Option<Text>,
    /// Level of content.
    pub level: ContentLevel,
    /// The session's row in lists.
    pub row: SessionRow,
    /// The session's tree; `None` only of a deleted session.
    #[serde(default)]
    pub tree: Option<Tree>,
    /// Searchable passages; only at the level `text`.
    #[serde(default)]
    pub texts: Vec<SnapshotText>,
}

/// A searchable passage of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SnapshotText {
    /// Its id within the session: the same each time that it is sent.
    pub doc: u64,
    /// The agent; empty if unknown.
    #[serde(default)]
    pub agent_id: Text,
    /// `prompt`, `message`, `thought`, `tool input` or `tool result`.
    #[serde(default)]
    pub kind: Text,
    /// Time of its line; `None` if unknown.
    #[serde(default)]
    pub at_ms: Option<Millis>,
    /// The text; empty if it is deleted.
    #[serde(default)]
    pub text: Text,
    /// Whether the session no longer has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
}
