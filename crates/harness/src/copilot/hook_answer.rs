//! The answer of Copilot CLI's hooks that makes a subagent stop.
//!
//! Before each call a `permissionRequest` hook is asked, also where all tools are allowed, and its payload names the
//! agent. Its answer affects that agent alone: the call is refused, the agent ends without another request to the
//! model, and its siblings and the main thread continue. Observed: 1.0.102. No answer to `preToolUse` or `postToolUse`
//! ends an agent.

use serde_json::json;
use subscope_decode::{AskMoment, Asker, StopAnswer};

use super::hook::Line;

/// The event before a call.
const BEFORE: &str = "permissionRequest";
/// The reason that the harness records.
const REASON: &str = "Stopped by the user, with subscope.";

/// Returns the subagent that waits for an answer to this payload before it continues. Unlike in other events of an agent
/// the session is the main thread's.
pub(super) fn asker(payload: &[u8]) -> Option<Asker> {
    let line: Line<'_> = serde_json::from_slice(payload).ok()?;
    let payload = line.payload.filter(|_| line.event.is(BEFORE))?;
    Some(Asker {
        moment: AskMoment::BeforeCall,
        session: payload.session_id.filled()?.into(),
        agent: payload.agent_id.filled()?.into(),
        call: None,
    })
}

/// Returns the answer that makes the agent stop.
pub(super) fn stop_answer(_: AskMoment, _: Option<&str>) -> StopAnswer {
    let json = json!({ "behavior": "deny", "message": REASON, "interrupt": true });
    StopAnswer { json: json.to_string(), is_refused: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_subagent_that_asks_for_permission_waits_for_an_answer() {
        let agent =
            |line: &str| asker(line.as_bytes()).map(|asker| format!("{}/{}", asker.session, asker.agent));
        let ask = r#"{"_event":"permissionRequest","in":{"sessionId":"s","toolName":"bash","agentId":"a"}}"#;
        assert_eq!(agent(ask).as_deref(), Some("s/a"));
        for other in [
            ask.replace("permissionRequest", "preToolUse"),
            ask.replace(r#","agentId":"a""#, ""),
            ask.replace(r#""sessionId":"s","#, ""),
            r#"{"_event":"permissionRequest"}"#.to_owned(),
            "[]".to_owned(),
        ] {
            assert_eq!(agent(&other), None, "{other}");
        }
    }

    #[test]
    fn answer_refuses_the_call_and_ends_the_agent() {
        let answer = stop_answer(AskMoment::BeforeCall, None);
        let json: serde_json::Value = serde_json::from_str(&answer.json).unwrap();
        assert_eq!(
            (&json["behavior"], &json["interrupt"], answer.is_refused),
            (&"deny".into(), &true.into(), true)
        );
    }
}
