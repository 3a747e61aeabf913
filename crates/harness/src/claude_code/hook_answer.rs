//! The answer of Claude Code's hooks that makes a subagent stop.
//!
//! A `PreToolUse` hook waits for its answer before the call is made, a `PostToolUse` hook before its result is used,
//! and in a subagent their payloads name the agent (from 2.1.64). The answer affects that agent alone: its siblings,
//! ancestors and subagents continue. The agent ends when its other calls of the same message have ended.

use serde::Deserialize;
use serde_json::json;

use subscope_decode::{AskMoment, Asker, StopAnswer, lenient::Str};

use super::tools::parts;

/// The event before a call.
const BEFORE: &str = "PreToolUse";
/// The event after a call. Observed: its answer ends the agent from 2.1.64 to 2.1.330.
const AFTER: &str = "PostToolUse";
/// The reason that the harness records.
const REASON: &str = "Stopped by the user, with subscope.";
/// First version in which an answer can both refuse the call and stop the agent. Before, a refusal overrides the stop:
/// the agent sees the refusal and continues with its next call. Observed: 2.1.250, 2.1.300 and 2.1.330 end the agent;
/// 2.1.150 and 2.1.197 do not.
const REFUSES_FROM: [u32; 3] = [2, 1, 250];

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Payload<'a> {
    hook_event_name: Str<'a>,
    session_id: Str<'a>,
    agent_id: Str<'a>,
    tool_use_id: Str<'a>,
}

/// Returns the subagent that waits for an answer to this payload before it continues.
pub(super) fn asker(payload: &[u8]) -> Option<Asker> {
    let told: Payload<'_> = serde_json::from_slice(payload).ok()?;
    let moment = match told.hook_event_name.get() {
        Some(BEFORE) => AskMoment::BeforeCall,
        Some(AFTER) => AskMoment::AfterCall,
        _ => return None,
    };
    Some(Asker {
        moment,
        session: told.session_id.filled()?.into(),
        agent: told.agent_id.filled()?.into(),
        call: told.tool_use_id.filled().map(|call| subscope_model::ToolUseId(call.into())),
    })
}

/// Returns the answer that makes the agent stop. For an unknown version it is the old answer, which every version that
/// names its agents obeys.
pub(super) fn stop_answer(moment: AskMoment, version: Option<&str>) -> StopAnswer {
    let is_refused =
        moment == AskMoment::BeforeCall && version.is_some_and(|version| parts(version) >= REFUSES_FROM);
    let mut json = json!({ "continue": false, "stopReason": REASON });
    if is_refused {
        json["hookSpecificOutput"] = json!({
            "hookEventName": BEFORE, "permissionDecision": "deny", "permissionDecisionReason": REASON,
        });
    }
    StopAnswer { json: json.to_string(), is_refused }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(payload: &str) -> Option<String> {
        let asker = asker(payload.as_bytes())?;
        Some(format!("{:?} {}/{} {:?}", asker.moment, asker.session, asker.agent, asker.call))
    }

    #[test]
    fn only_a_subagent_at_a_tool_call_waits_for_an_answer() {
        let call = r#"{"session_id":"s","hook_event_name":"PreToolUse","agent_id":"a1","tool_name":"Bash","tool_use_id":"t"}"#;
        assert_eq!(agent(call).as_deref(), Some(r#"BeforeCall s/a1 Some(ToolUseId("t"))"#));
        let over = call.replace("Pre", "Post");
        assert_eq!(agent(&over).as_deref(), Some(r#"AfterCall s/a1 Some(ToolUseId("t"))"#));
        for other in [
            r#"{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_use_id":"t"}"#,
            r#"{"session_id":"s","hook_event_name":"PreToolUse","agent_id":"","tool_name":"Bash"}"#,
            r#"{"hook_event_name":"PreToolUse","agent_id":"a1"}"#,
            r#"{"session_id":"s","hook_event_name":"PostToolUseFailure","agent_id":"a1","tool_use_id":"t"}"#,
            r#"{"session_id":"s","hook_event_name":"PostToolUse","tool_use_id":"t"}"#,
            r#"{"session_id":"s","hook_event_name":"SubagentStart","agent_id":"a1"}"#,
            r#"{"session_id":7,"hook_event_name":"PreToolUse","agent_id":["a1"]}"#,
            "[]",
            "PreToolUse",
        ] {
            assert_eq!(agent(other), None, "{other}");
        }
    }

    #[test]
    fn call_is_refused_with_the_stop_only_where_the_version_obeys_both() {
        for (version, refused) in [
            (None, false),
            (Some("2.1.64"), false),
            (Some("2.1.197"), false),
            (Some("2.1.250"), true),
            (Some("2.1.330 (Claude Code)"), true),
            (Some("3.0.0"), true),
            (Some("?"), false),
        ] {
            assert!(!stop_answer(AskMoment::AfterCall, version).json.contains("deny"));
            let answer = stop_answer(AskMoment::BeforeCall, version);
            let json: serde_json::Value = serde_json::from_str(&answer.json).unwrap();
            assert_eq!(json["continue"], false);
            assert_eq!(json["stopReason"], REASON);
            let decision = &json["hookSpecificOutput"]["permissionDecision"];
            assert_eq!((answer.is_refused, decision == "deny"), (refused, refused), "{version:?}");
        }
    }
}
