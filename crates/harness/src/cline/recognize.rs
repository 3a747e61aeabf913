//! Detects which of Cline's dialects a line is written in.

use serde::{Deserialize, de::IgnoredAny};
use subscope_decode::{Dialect, lenient::Str};

use super::{HOOK, MESSAGES, ROWS, STATE, STREAM, layout::is_session};
use crate::HeadLine;

/// The fields by which the dialects are recognized.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Marks<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    ts: Str<'a>,
    agent: Str<'a>,
    session_id: Str<'a>,
    origin: Option<IgnoredAny>,
    messages: Option<IgnoredAny>,
    #[serde(rename = "session_id")]
    session: Str<'a>,
    #[serde(rename = "started_at")]
    started_at: Str<'a>,
    pid: Option<IgnoredAny>,
    rows: Option<IgnoredAny>,
    hook_event_name: Str<'a>,
    event: Option<IgnoredAny>,
    finish_reason: Str<'a>,
    hook_name: Str<'a>,
    session_context: Option<IgnoredAny>,
    #[serde(rename = "agent_id")]
    agent_id: Str<'a>,
}

/// Whose conversations there are.
const AGENTS: &[&str] = &["lead", "subagent", "teammate"];

/// Returns the dialect that a line is written in.
pub(super) fn recognize(line: HeadLine<'_>) -> Option<Dialect> {
    let marks: Marks<'_> = serde_json::from_str(line.object).ok()?;
    if marks.hook_name.filled().is_some() {
        return (marks.session_context.is_some() && marks.agent_id.filled().is_some()).then_some(HOOK);
    }
    let is_dated = marks.ts.filled().is_some();
    match marks.kind.get() {
        Some("hook_event") => (is_dated && marks.hook_event_name.filled().is_some()).then_some(STREAM),
        Some("agent_event" | "team_event") => (is_dated && marks.event.is_some()).then_some(STREAM),
        Some("run_result") => (is_dated && marks.finish_reason.filled().is_some()).then_some(STREAM),
        Some("cline.rows") => marks.rows.is_some().then_some(ROWS),
        Some(_) => None,
        None if marks.agent.get().is_some_and(|agent| AGENTS.contains(&agent)) => {
            let is_conversation = marks.origin.is_some() && (marks.messages.is_some() || line.is_cut);
            (is_conversation && marks.session_id.filled().is_some()).then_some(MESSAGES)
        }
        None => {
            let is_row = marks.started_at.filled().is_some() && marks.pid.is_some();
            (is_row && marks.session.filled().is_some_and(is_session)).then_some(STATE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_lines_are_told_from_those_of_others() {
        let cases: [(&str, Option<Dialect>); 11] = [
            (
                r#"{"version":1,"agent":"lead","sessionId":"1795721277480_8ea7b","origin":{},"messages":[]}"#,
                Some(MESSAGES),
            ),
            (r#"{"version":1,"agent":"somebody","sessionId":"1","origin":{},"messages":[]}"#, None),
            (
                r#"{"version":1,"session_id":"1795721277480_8ea7b","pid":53,"started_at":"2026-11-26T19:27:57.560Z"}"#,
                Some(STATE),
            ),
            (r#"{"session_id":"s","pid":53,"started_at":"2026-11-26T19:27:57.560Z"}"#, None),
            (r#"{"type":"cline.rows","rows":[]}"#, Some(ROWS)),
            (r#"{"ts":"t","type":"hook_event","hookEventName":"agent_start","agentId":"a"}"#, Some(STREAM)),
            (r#"{"ts":"t","type":"agent_event","event":{"type":"iteration_start"}}"#, Some(STREAM)),
            (r#"{"type":"agent_event","event":{}}"#, None),
            (r#"{"ts":"t","type":"run_result","finishReason":"completed"}"#, Some(STREAM)),
            (r#"{"hookName":"agent_end","sessionContext":{"rootSessionId":"1"},"agent_id":"a"}"#, Some(HOOK)),
            (r#"{"hookName":"agent_end","agent_id":"a"}"#, None),
        ];
        for (object, expected) in cases {
            assert_eq!(recognize(HeadLine { object, is_cut: false }), expected, "{object}");
            if expected.is_some() {
                assert_eq!(crate::recognize(object.as_bytes()), expected, "{object}");
            }
        }
    }
}
