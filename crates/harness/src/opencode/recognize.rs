//! Detects which of OpenCode's dialects a line is written in.

use serde::{Deserialize, de::IgnoredAny};
use subscope_decode::{Dialect, lenient::Str};

use super::{DATABASE, EVENTS, EXPORT, HOOK, STDOUT, events::Envelope, stdout::Line};
use crate::HeadLine;

/// Types of the printed lines.
const PRINTED: &[&str] = &["step_start", "step_finish", "tool_use", "text", "reasoning", "error", "done"];
/// What the types of its events begin with.
const FAMILIES: &[&str] = &["server.", "session.", "message.", "permission.", "project.", "file.", "lsp."];

/// Returns the dialect that a line is written in.
pub(super) fn recognize(line: HeadLine<'_>) -> Option<Dialect> {
    let event: Envelope<'_> = serde_json::from_str(line.object).ok()?;
    let is_event = |kind: &str| FAMILIES.iter().any(|family| kind.starts_with(family));
    if let Some(inner) = event.payload {
        let inner: Envelope<'_> = serde_json::from_str(inner.get()).ok()?;
        return inner.kind.filled().is_some_and(is_event).then_some(EVENTS);
    }
    let Some(kind) = event.kind.filled() else {
        let exported: Exported<'_> = serde_json::from_str(line.object).ok()?;
        let is_session = exported.info.id.filled().is_some_and(|id| id.starts_with(SESSION_ID));
        return (is_session && (exported.messages.is_some() || line.is_cut)).then_some(EXPORT);
    };
    if event.sessions.is_some() && (is_event(kind) || kind.starts_with("tool.execute.")) {
        return Some(HOOK);
    }
    let marks: Marks<'_> = serde_json::from_str(line.object).ok()?;
    if is_event(kind) && marks.id.filled().is_some_and(|id| id.starts_with("evt_")) {
        let is_logged = marks.seq.is_some() || event.data.is_some();
        return Some(if is_logged { DATABASE } else { EVENTS });
    }
    let printed: Line<'_> = serde_json::from_str(line.object).ok()?;
    let is_session = printed.session_id.filled().is_some_and(|id| id.starts_with(SESSION_ID));
    (is_session && PRINTED.contains(&kind)).then_some(STDOUT)
}

/// Prefix of the ids of sessions.
const SESSION_ID: &str = "ses_";

/// The fields by which an exported session is recognized.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Exported<'a> {
    info: Marks<'a>,
    messages: Option<IgnoredAny>,
}

/// The fields by which events are recognized.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Marks<'a> {
    id: Str<'a>,
    seq: Option<IgnoredAny>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_server_and_stdout_are_told_apart() {
        let cases: [(&str, Option<Dialect>); 11] = [
            (r#"{"info":{"id":"ses_1"},"messages":[]}"#, Some(EXPORT)),
            (r#"{"info":{"id":"x"},"messages":[]}"#, None),
            (
                r#"{"id":"evt_1","seq":0,"type":"session.created.1","data":{"sessionID":"ses_1"}}"#,
                Some(DATABASE),
            ),
            (r#"{"id":"evt_1","type":"server.connected","properties":{}}"#, Some(EVENTS)),
            (r#"{"payload":{"id":"evt_1","type":"server.connected","properties":{}}}"#, Some(EVENTS)),
            (
                r#"{"type":"step_start","timestamp":1,"sessionID":"ses_1","part":{"type":"step-start"}}"#,
                Some(STDOUT),
            ),
            (r#"{"type":"error","timestamp":1,"sessionID":"ses_1","error":{}}"#, Some(STDOUT)),
            (
                r#"{"type":"permission.asked","properties":{"id":"per_1"},"sessions":[{"id":"ses_1"}]}"#,
                Some(HOOK),
            ),
            (r#"{"type":"session.start","id":"1","data":{},"timestamp":"2026-11-21T20:48:01.957Z"}"#, None),
            (r#"{"type":"text","timestamp":1,"session_id":"ses_1"}"#, None),
            (r#"{"payload":{"type":"init"}}"#, None),
        ];
        for (object, expected) in cases {
            assert_eq!(recognize(HeadLine { object, is_cut: false }), expected, "{object}");
        }
    }
}
