//! Detects which of Gemini's dialects a line is written in.

use serde::{Deserialize, de::IgnoredAny};
use subscope_decode::{Dialect, lenient::Str};

use super::{CHAT, HOOK, SESSION, STREAM, TELEMETRY};
use crate::HeadLine;

/// The fields by which the dialects are recognized.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Marks<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    timestamp: Str<'a>,
    #[serde(rename = "sessionId")]
    session: Str<'a>,
    #[serde(rename = "projectHash")]
    project: Str<'a>,
    messages: Option<IgnoredAny>,
    session_id: Str<'a>,
    model: Str<'a>,
    tool_id: Str<'a>,
    role: Str<'a>,
    content: Option<IgnoredAny>,
    severity: Str<'a>,
    stats: Option<IgnoredAny>,
    status: Str<'a>,
    id: Str<'a>,
    tokens: Option<IgnoredAny>,
    thoughts: Option<IgnoredAny>,
    subtype: Str<'a>,
    hook_event_name: Str<'a>,
    transcript_path: Str<'a>,
    #[serde(rename = "hrTime")]
    record_time: Option<IgnoredAny>,
    #[serde(rename = "_spanContext")]
    span: Option<IgnoredAny>,
    attributes: Option<IgnoredAny>,
}

/// The name of the service in its telemetry.
const SERVICE: &str = "\"gemini-cli\"";

/// Events of hooks that no other harness has.
const OWN_EVENTS: &[&str] = &[
    "BeforeAgent",
    "AfterAgent",
    "BeforeModel",
    "AfterModel",
    "BeforeToolSelection",
    "BeforeTool",
    "AfterTool",
    "PreCompress",
];

/// Returns the dialect that a line is written in.
pub(super) fn recognize(line: HeadLine<'_>) -> Option<Dialect> {
    let marks: Marks<'_> = serde_json::from_str(line.object).ok()?;
    let has = |field: &Str<'_>| field.filled().is_some();
    if has(&marks.session) && has(&marks.project) {
        // The fields of a chat's object come before its messages.
        return Some(if marks.messages.is_some() || line.is_cut { SESSION } else { CHAT });
    }
    let is_telemetry = (marks.record_time.is_some() || marks.span.is_some()) && marks.attributes.is_some();
    if is_telemetry && line.object.contains(SERVICE) {
        return Some(TELEMETRY);
    }
    // Payloads of another harness have no time, and name transcripts elsewhere.
    let is_of_chat = marks.transcript_path.get().is_some_and(|path| path.contains("/chats/session-"));
    if has(&marks.hook_event_name) && has(&marks.timestamp) {
        let is_own = OWN_EVENTS.iter().any(|event| marks.hook_event_name.is(event));
        return (is_own || is_of_chat).then_some(HOOK);
    }
    if !has(&marks.timestamp) || has(&marks.subtype) {
        return None;
    }
    match marks.kind.get()? {
        "init" => (has(&marks.session_id) && has(&marks.model)).then_some(STREAM),
        "message" => (has(&marks.role) && marks.content.is_some()).then_some(STREAM),
        "tool_use" | "tool_result" => has(&marks.tool_id).then_some(STREAM),
        "error" => has(&marks.severity).then_some(STREAM),
        "result" => (has(&marks.status) && marks.stats.is_some()).then_some(STREAM),
        "gemini" => (has(&marks.id) && (marks.tokens.is_some() || marks.thoughts.is_some())).then_some(CHAT),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chats_and_streams_are_known_by_their_fields() {
        let cases: [(&str, Option<Dialect>); 7] = [
            (r#"{"sessionId":"s","projectHash":"h","startTime":"t","kind":"main"}"#, Some(CHAT)),
            (r#"{"sessionId":"s","projectHash":"h","messages":[]}"#, Some(SESSION)),
            (r#"{"id":"1","timestamp":"t","type":"gemini","content":"x","tokens":{}}"#, Some(CHAT)),
            (r#"{"type":"init","timestamp":"t","session_id":"9","model":"gemini-2.5-flash"}"#, Some(STREAM)),
            (r#"{"type":"message","timestamp":"t","role":"user","content":"do the demo"}"#, Some(STREAM)),
            (
                r#"{"type":"result","timestamp":"t","status":"success","stats":{"total_tokens":1}}"#,
                Some(STREAM),
            ),
            (r#"{"type":"result","subtype":"success","session_id":"s"}"#, None),
        ];
        for (line, expected) in cases {
            assert_eq!(recognize(HeadLine { object: line, is_cut: false }), expected, "{line}");
        }
    }
}
