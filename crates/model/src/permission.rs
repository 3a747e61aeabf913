//! Permission requests and questions of agents that a person answers here, and not in the agent's terminal.

use serde::{Deserialize, Serialize};

use crate::{AgentId, Millis, SessionId, Text};

/// Schema version of [`PermissionRequests`]'s JSON.
pub const PERMISSIONS_SCHEMA: &str = "subscope.permissions/1";

/// Most characters of a reason, and of an answer to a question.
const MAX_ANSWER_CHARS: usize = 2_000;

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

/// One request of an agent to make one tool call, or the questions that the call asks. Its hook waits for the answer; the
/// agent's terminal asks, too, and the first answer decides.
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
    /// The questions that the call asks, in order; empty for a call that is allowed or denied as it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<AgentQuestion>,
    /// Working folder of the agent, if the harness names it. Untrusted text: sanitize before printing.
    pub cwd: Option<Text>,
    /// When the hub received the request, in milliseconds since 1970.
    pub asked_at_ms: Millis,
    /// Until when it can be answered, in milliseconds since 1970. After that, only the agent's terminal can.
    pub until_ms: Millis,
}

/// A question of an agent to its user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AgentQuestion {
    /// The whole question. Untrusted text: sanitize before printing.
    pub question: Text,
    /// Its title in a few words, if it has one. Untrusted text: sanitize before printing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<Text>,
    /// What the agent offers as answers, in order. Any other text is an answer, too.
    pub options: Vec<QuestionOption>,
    /// Whether an answer may name several options.
    pub multi_select: bool,
}

/// One of the answers that an agent offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct QuestionOption {
    /// The answer's text. Untrusted text: sanitize before printing.
    pub label: Text,
    /// What it means, if the agent says so. Untrusted text: sanitize before printing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Text>,
}

/// A person's answer to one permission request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PermissionDecision {
    /// The decision.
    pub behavior: PermissionBehavior,
    /// Reason of a refusal, which the agent reads; an allowed call has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
    /// An answer to each question of the request, in their order: an option's label, several joined by `, `, or any other
    /// text. Empty if the request has no questions, or is denied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Text>,
}

impl PermissionRequest {
    /// Says why a decision is none about this request; `None` if it is one.
    pub fn objection(&self, decision: &PermissionDecision) -> Option<String> {
        let is_long = |text: &Text| text.chars().count() > MAX_ANSWER_CHARS;
        let PermissionDecision { behavior, reason, answers } = decision;
        if reason.iter().chain(answers).any(is_long) {
            return Some(format!("a text of more than {MAX_ANSWER_CHARS} characters"));
        }
        match behavior {
            PermissionBehavior::Allow if reason.is_some() => Some("only a refusal has a reason".to_owned()),
            PermissionBehavior::Allow if answers.len() != self.questions.len() => {
                Some(format!("{} answers to {} questions", answers.len(), self.questions.len()))
            }
            PermissionBehavior::Allow if answers.iter().any(|answer| answer.trim().is_empty()) => {
                Some("an answer without text".to_owned())
            }
            PermissionBehavior::Deny if !answers.is_empty() => Some("a refusal has no answers".to_owned()),
            PermissionBehavior::Allow | PermissionBehavior::Deny => None,
        }
    }
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
    /// The answers to the request's questions, as they were given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Text>,
}

impl PermissionAnswered {
    /// Returns what was done, as a participle: `allowed`, `denied`, and `answered` for questions.
    pub fn participle(&self) -> &'static str {
        match self.behavior {
            PermissionBehavior::Allow if self.answers.is_empty() => "allowed",
            PermissionBehavior::Allow => "answered",
            PermissionBehavior::Deny => "denied",
        }
    }
}

impl PermissionBehavior {
    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

impl PermissionDecision {
    /// This call is made, once.
    pub const ALLOW: Self = Self { behavior: PermissionBehavior::Allow, reason: None, answers: Vec::new() };

    /// The call is not made; the agent reads the reason.
    pub fn deny(reason: Option<Text>) -> Self {
        Self { behavior: PermissionBehavior::Deny, reason, answers: Vec::new() }
    }

    /// The agent's questions are answered, each in their order.
    pub fn answer(answers: Vec<Text>) -> Self {
        Self { answers, ..Self::ALLOW }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decision_fits_its_request() {
        let question = AgentQuestion {
            question: "Which?".into(),
            header: None,
            options: Vec::new(),
            multi_select: false,
        };
        let call = PermissionRequest {
            id: Text::default(),
            session_id: SessionId::from("s"),
            agent_id: AgentId::ROOT.into(),
            tool: "Bash".into(),
            arguments: "{}".into(),
            questions: Vec::new(),
            cwd: None,
            asked_at_ms: 0,
            until_ms: 0,
        };
        let asks = PermissionRequest { questions: vec![question.clone(), question], ..call.clone() };
        let answers =
            |texts: &[&str]| PermissionDecision::answer(texts.iter().map(|&text| text.into()).collect());
        let deny = |reason: &str| PermissionDecision::deny(Some(reason.into()));
        let long = "x".repeat(MAX_ANSWER_CHARS + 1);
        for (request, decision, fits) in [
            (&call, PermissionDecision::ALLOW, true),
            (&call, PermissionDecision::deny(None), true),
            (&call, deny("not now"), true),
            (&call, deny(&long), false),
            (&call, answers(&["yes"]), false),
            (&call, PermissionDecision { reason: Some("why".into()), ..PermissionDecision::ALLOW }, false),
            (&asks, PermissionDecision::ALLOW, false),
            (&asks, deny("ask me later"), true),
            (&asks, answers(&["a"]), false),
            (&asks, answers(&["a", " "]), false),
            (&asks, answers(&["a", &long]), false),
            (&asks, answers(&["a", "b"]), true),
            (&asks, PermissionDecision { behavior: PermissionBehavior::Deny, ..answers(&["a", "b"]) }, false),
        ] {
            assert_eq!(request.objection(&decision).is_none(), fits, "{decision:?}");
        }
    }
}
