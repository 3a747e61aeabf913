//! Permission requests of OpenCode that our plugin answers.
//!
//! OpenCode shows its question while the plugin's hook runs. The plugin gives the decision to OpenCode as an answer to that
//! question: `once`, or `reject` with the reason, never `always`. OpenCode tells the plugin when its own user has answered;
//! the plugin then ends the hook. In 1.18.33.

use serde::Deserialize;
use serde_json::{json, value::RawValue};
use subscope_decode::{AskedPermission, Permissions, lenient::Str};
use subscope_model::{AgentId, PermissionDecision};

use super::hook_answer::Session;

/// The event.
const EVENT: &str = "permission.asked";

/// The permission requests of its plugin.
pub(super) const PERMISSIONS: Permissions = Permissions { request: asked, decision };

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Payload<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    #[serde(borrow)]
    sessions: Vec<Session<'a>>,
    properties: Properties<'a>,
    part: Part<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Properties<'a> {
    permission: Str<'a>,
    metadata: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Part<'a> {
    tool: Str<'a>,
    state: State<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct State<'a> {
    input: Option<&'a RawValue>,
}

fn asked(payload: &[u8]) -> Option<AskedPermission> {
    let Payload { kind, sessions, properties, part } = serde_json::from_slice(payload).ok()?;
    kind.is(EVENT).then_some(())?;
    let (own, root) = (sessions.first()?.id.filled()?, sessions.last()?.id.filled()?);
    let permission = properties.permission.filled()?;
    // A call may ask for something else than its tool: for a folder outside of the project.
    let tool = match part.tool.filled() {
        Some(tool) if tool != permission => format!("{tool} ({permission})"),
        Some(_) | None => permission.to_owned(),
    };
    Some(AskedPermission {
        session: root.into(),
        agent: if own == root { AgentId::ROOT } else { own }.into(),
        tool,
        arguments: part.state.input.or(properties.metadata)?.get().to_owned(),
        questions: Vec::new(),
        cwd: None,
    })
}

fn decision(_payload: &[u8], decision: &PermissionDecision) -> Option<String> {
    let decided = match &decision.reason {
        Some(reason) => json!({ "permission": decision.behavior.as_str(), "reason": reason }),
        None => json!({ "permission": decision.behavior.as_str() }),
    };
    Some(decided.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: &str = r#"{"type":"permission.asked","properties":{"id":"per_1","permission":"bash",
        "metadata":{"command":"mv a b"}},"part":{"tool":"bash","state":{"input":{"command":"mv a b","description":"rename"}}},
        "sessions":[{"id":"ses_child","parentID":"ses_root"},{"id":"ses_root"}]}"#;

    #[test]
    fn request_has_the_arguments_of_its_call() {
        let asked_by = |line: &str| asked(line.as_bytes());
        let request = asked_by(ASKED).unwrap();
        assert_eq!((request.session.as_str(), request.agent.as_str()), ("ses_root", "ses_child"));
        assert_eq!(request.arguments, r#"{"command":"mv a b","description":"rename"}"#);
        assert_eq!(request.tool, "bash");
        let root = asked_by(&ASKED.replace(r#"{"id":"ses_child","parentID":"ses_root"},"#, "")).unwrap();
        assert!(root.agent.is_root());
        let folder =
            asked_by(&ASKED.replace("\"permission\":\"bash\"", "\"permission\":\"external_directory\""));
        assert_eq!(folder.unwrap().tool, "bash (external_directory)");
        let bare = asked_by(&ASKED.replace("\"part\"", "\"other\"")).unwrap();
        assert_eq!(bare.arguments, r#"{"command":"mv a b"}"#);
        for (from, to) in [("permission.asked", "permission.replied"), ("\"sessions\"", "\"others\"")] {
            assert_eq!(asked_by(&ASKED.replace(from, to)), None, "{to}");
        }
    }

    #[test]
    fn decision_says_yes_or_no_with_a_reason() {
        let decide = |decided| decision(ASKED.as_bytes(), &decided).unwrap();
        assert_eq!(decide(PermissionDecision::ALLOW), r#"{"permission":"allow"}"#);
        let denied = PermissionDecision::deny(Some("r".into()));
        assert_eq!(decide(denied), r#"{"permission":"deny","reason":"r"}"#);
    }
}
