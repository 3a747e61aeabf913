//! The answer that makes our plugin for OpenCode stop a subagent.
//!
//! Before each call of a subagent the plugin asks, and waits for the answer. It aborts the subagent's session and
//! refuses the call; siblings and the main thread continue.

use serde::Deserialize;
use serde_json::json;
use subscope_decode::{AskMoment, Asker, StopAnswer, lenient::Str};

/// The event before a call.
const BEFORE: &str = "tool.execute.before";
/// The reason that the harness records.
const REASON: &str = "Stopped by the user, with subscope.";

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Payload<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    #[serde(borrow)]
    sessions: Vec<Session<'a>>,
    properties: Properties<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Session<'a> {
    pub(super) id: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Properties<'a> {
    #[serde(rename = "callID")]
    call_id: Str<'a>,
}

/// Returns the subagent that waits for an answer to this payload before it continues.
pub(super) fn asker(payload: &[u8]) -> Option<Asker> {
    let payload: Payload<'_> = serde_json::from_slice(payload).ok()?;
    let [own, .., root] = payload.sessions.as_slice() else { return None };
    payload.kind.is(BEFORE).then_some(())?;
    Some(Asker {
        moment: AskMoment::BeforeCall,
        session: root.id.filled()?.into(),
        agent: own.id.filled()?.into(),
        call: payload.properties.call_id.filled().map(Into::into),
    })
}

/// Returns the answer that makes the agent stop.
pub(super) fn stop_answer(_: AskMoment, _: Option<&str>) -> StopAnswer {
    StopAnswer { json: json!({ "stop": REASON }).to_string(), is_refused: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_subagent_before_a_call_waits_for_an_answer() {
        let agent =
            |line: &str| asker(line.as_bytes()).map(|asker| format!("{}/{}", asker.session, asker.agent));
        let ask = r#"{"type":"tool.execute.before","properties":{"callID":"c"},"sessions":[{"id":"in"},{"id":"mid"},{"id":"root"}]}"#;
        assert_eq!(agent(ask).as_deref(), Some("root/in"));
        for other in [
            ask.replace("tool.execute.before", "permission.asked"),
            ask.replace(r#"{"id":"in"},{"id":"mid"},"#, ""),
            r#"{"type":"tool.execute.before"}"#.to_owned(),
            "[]".to_owned(),
        ] {
            assert_eq!(agent(&other), None, "{other}");
        }
    }
}
