//! Permission requests of Claude Code that a hook decides.
//!
//! Observed, from 2.0.45 (the first with this event) to 2.1.330: the terminal asks while a `PermissionRequest` hook runs.
//! The hook's decision answers the question on the screen ("Allowed by PermissionRequest hook"); in a run without a
//! terminal (`-p`), which refuses the call otherwise, the call waits for it. If the terminal is answered first, a refusal
//! kills the hook, and after a permission the hook runs on and its decision is ignored. A hook that prints nothing
//! decides nothing.

use serde::Deserialize;
use serde_json::{json, value::RawValue};
use subscope_decode::{AskedPermission, Permissions, lenient::Str};
use subscope_model::{AgentId, PermissionBehavior, PermissionDecision};

/// The event.
const EVENT: &str = "PermissionRequest";
/// Tools that ask for more than a yes or no: their answer is a choice, or a plan with a mode.
const QUESTIONS: [&str; 2] = ["AskUserQuestion", "ExitPlanMode"];
/// What the agent reads of a refusal without a reason.
const REASON: &str = "The user refused this, with subscope.";

/// The permission requests of its hooks.
pub(super) const PERMISSIONS: Permissions = Permissions { request: asked, decision };

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Payload<'a> {
    hook_event_name: Str<'a>,
    session_id: Str<'a>,
    agent_id: Str<'a>,
    cwd: Str<'a>,
    tool_name: Str<'a>,
    tool_input: Option<&'a RawValue>,
}

fn asked(payload: &[u8]) -> Option<AskedPermission> {
    let asked: Payload<'_> = serde_json::from_slice(payload).ok()?;
    asked.hook_event_name.get().filter(|event| *event == EVENT)?;
    let tool = asked.tool_name.filled().filter(|tool| !QUESTIONS.contains(tool))?;
    Some(AskedPermission {
        session: asked.session_id.filled()?.into(),
        agent: asked.agent_id.filled().unwrap_or(AgentId::ROOT).into(),
        tool: tool.to_owned(),
        arguments: asked.tool_input?.get().to_owned(),
        cwd: asked.cwd.filled().map(str::to_owned),
    })
}

/// Never changes the call or a rule: the decision is about this one request.
fn decision(decision: &PermissionDecision) -> String {
    let decided = match decision.behavior {
        PermissionBehavior::Allow => json!({ "behavior": "allow" }),
        PermissionBehavior::Deny => {
            json!({ "behavior": "deny", "message": decision.reason.as_deref().unwrap_or(REASON) })
        }
    };
    json!({ "hookSpecificOutput": { "hookEventName": EVENT, "decision": decided } }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_with_a_session_a_tool_and_arguments_is_one() {
        let asked_by = |line: &str| asked(line.as_bytes());
        let line = r#"{"session_id":"s","hook_event_name":"PermissionRequest","agent_id":"a1","cwd":"/w",
            "tool_name":"Bash","tool_input":{"command":"git tag  v1","z":1}}"#;
        let request = asked_by(line).unwrap();
        assert_eq!((request.session.as_str(), request.agent.as_str()), ("s", "a1"));
        assert_eq!(request.arguments, r#"{"command":"git tag  v1","z":1}"#);
        assert_eq!((request.tool.as_str(), request.cwd.as_deref()), ("Bash", Some("/w")));
        let root = asked_by(&line.replace("a1", "")).unwrap();
        assert!(root.agent.is_root());
        for (from, to) in [
            ("PermissionRequest", "PreToolUse"),
            ("\"s\"", "\"\""),
            ("Bash", "AskUserQuestion"),
            ("Bash", "ExitPlanMode"),
            ("tool_input", "input"),
            ("\"Bash\"", "7"),
        ] {
            assert_eq!(asked_by(&line.replace(from, to)), None, "{from} → {to}");
        }
    }

    #[test]
    fn decision_says_yes_or_no_and_nothing_else() {
        let decide = |behavior, reason: Option<&str>| {
            let text = decision(&PermissionDecision { behavior, reason: reason.map(Into::into) });
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(json["hookSpecificOutput"]["hookEventName"], EVENT);
            json["hookSpecificOutput"]["decision"].to_string()
        };
        assert_eq!(decide(PermissionBehavior::Allow, Some("why")), r#"{"behavior":"allow"}"#);
        assert_eq!(
            decide(PermissionBehavior::Deny, Some("not \"now\"")),
            r#"{"behavior":"deny","message":"not \"now\""}"#
        );
        assert!(decide(PermissionBehavior::Deny, None).contains(REASON));
    }
}
