//! Configuration of a hub, as far as the page shows it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{MicroUsd, SessionId, Text};

/// Schema version of [`Setup`]'s JSON.
pub const SETUP_SCHEMA: &str = "subscope.setup/1";

/// Configuration of a hub: `GET /api/v1/setup`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Setup {
    /// Always [`SETUP_SCHEMA`].
    pub schema: Text,
    /// Folders that are watched for sessions.
    pub folders: Vec<String>,
    /// Whether the user's settings of the harness have hooks of subscope; `None` if the settings cannot be read.
    pub hooks: Option<bool>,
    /// Command that resumes a session, by harness; the session's id follows.
    pub resume: BTreeMap<String, String>,
    /// The zone whose days are counted, as in [`crate::Stats::time_zone`].
    #[serde(default)]
    pub time_zone: Text,
    /// Budget of all sessions of a day together; `None` without one.
    pub budget_day_micro_usd: Option<MicroUsd>,
    /// Budget of each session; `None` without one.
    pub budget_session_micro_usd: Option<MicroUsd>,
    /// The recorded session of the demo, which is in no list; `None` if there is none.
    #[serde(default)]
    pub demo: Option<SessionId>,
    /// URL that opens a file in an editor, with `{path}` and maybe `{line}`; `None` if files are not opened.
    #[serde(default)]
    pub editor: Option<String>,
    /// URL of the team's server that the settings name; `None` if they name none.
    #[serde(default)]
    pub team: Option<String>,
}
