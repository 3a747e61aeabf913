//! Permission requests of agents that a person answers here, and not in the agent's terminal.

use serde::{Deserialize, Serialize};

use crate::{AgentId, Millis, SessionId, Text};

/// Schema version of [`PermissionRequests`]'s JSON.
pub const PERMISSIONS_SCHEMA: &str = "subscope.permissions/1";

/// Schema version of [`PermissionAnswered`]'s JSON.
pub const PERMISSION_ANSWERED_SCHEMA: &str = "subscope.permission-answered/1";

/// The permission requests that wait for an answer: `GET /api/v1/permissions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PermissionRequests {
    /// Always [`PERMISSIONS_SCHEMA`].
    pub schema: Text,
    /// Whether the hub takes answers: the setting `answers.enabled`.
    pub enabled: bool,
    /// The requests, the oldest first.
    pub requests: Vec<PermissionRequest>,
}

/// One request of an agent to make one tool call. Its hook waits for the answer; the agent's terminal asks, too, and
/// the first answer decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PermissionRequest {
    /// Id of the request, by which it is answered.
    pub id: Text,
    /// The agent's session.
    pub session_id: SessionId,
    /// The agent.
    pub agent_id: AgentId,
    /// Name of the tool in the harness. Untrusted text: sanitize before printing.
    pub tool: Text,
    /// All arguments of the call: JSON, as the harness sent it. Untrusted text: sanitize before printing.
    pub arguments: Text,
    /// Working folder of the agent, if the harness names it. Untrusted text: sanitize before printing.
    pub cwd: Option<Text>,
    /// When the hub received the request, in milliseconds since 1970.
    pub asked_at_ms: Millis,
    /// Until when it can be answered, in milliseconds since 1970. After that, only the agent's terminal can.
    pub until_ms: Millis,
}

/// A person's answer to one permission request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PermissionDecision {
    /// The decision.
    pub behavior: PermissionBehavior,
    /// Reason of a refusal, which the agent reads; an allowed call has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// What is done with a call; the harness's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PermissionBehavior {
    /// This call is made, once. No rule is changed.
    Allow,
    /// This call is not made.
    Deny,
}

/// An answer that the agent's hook has received: `POST /api/v1/permissions/{id}/answer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PermissionAnswered {
    /// Always [`PERMISSION_ANSWERED_SCHEMA`].
    pub schema: Text,
    /// Id of the request.
    pub id: Text,
    /// The agent's session.
    pub session_id: SessionId,
    /// The agent.
    pub agent_id: AgentId,
    /// Name of the tool in the harness. Untrusted text: sanitize before printing.
    pub tool: Text,
    /// The decision.
    pub behavior: PermissionBehavior,
}

impl PermissionBehavior {
    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }

    /// Returns what was done, as a participle: `allowed`.
    pub fn participle(self) -> &'static str {
        match self {
            Self::Allow => "allowed",
            Self::Deny => "denied",
        }
    }
}
