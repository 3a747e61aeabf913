//! Which of Qwen Code's dialects a line is written in. Its stream has the types of another harness's, with other
//! fields.

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;
use subscope_decode::{Dialect, lenient::Str};

use super::{CHAT, HOOK, META, STREAM};
use crate::HeadLine;

/// The fields by which the dialects are recognized.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Marks<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    subtype: Str<'a>,
    uuid: Str<'a>,
    session_id: Str<'a>,
    #[serde(rename = "sessionId")]
    session: Str<'a>,
    provenance: Str<'a>,
    #[serde(rename = "systemPayload")]
    system_payload: Option<IgnoredAny>,
    message: Option<&'a RawValue>,
    data: Option<IgnoredAny>,
    usage: Option<IgnoredAny>,
    #[serde(rename = "modelUsage")]
    model_usage: Option<IgnoredAny>,
    permission_denials: Option<IgnoredAny>,
    qwen_code_version: Str<'a>,
    event: Option<Event<'a>>,
    #[serde(rename = "agentType")]
    agent_type: Str<'a>,
    #[serde(rename = "parentSessionId")]
    parent_session: Str<'a>,
    hook_event_name: Str<'a>,
    timestamp: Str<'a>,
    transcript_path: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Message<'a> {
    id: Str<'a>,
    parts: Option<IgnoredAny>,
}

/// Returns the dialect that a line is written in.
pub(super) fn recognize(line: HeadLine<'_>) -> Option<Dialect> {
    let marks: Marks<'_> = serde_json::from_str(line.object).ok()?;
    let has = |field: &Str<'_>| field.filled().is_some();
    let message: Message<'_> =
        marks.message.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    if has(&marks.hook_event_name) {
        // Payloads of another harness have no time; those of the other fork name transcripts otherwise.
        let is_of_chat = marks.transcript_path.get().is_some_and(|path| path.contains("/chats/"));
        return (has(&marks.timestamp) && is_of_chat).then_some(HOOK);
    }
    if !has(&marks.kind) {
        return (has(&marks.agent_type) && has(&marks.parent_session)).then_some(META);
    }
    if has(&marks.session) {
        let is_chat = has(&marks.provenance) || message.parts.is_some() || marks.system_payload.is_some();
        return is_chat.then_some(CHAT);
    }
    if !has(&marks.session_id) {
        return None;
    }
    let is_ours = match (marks.kind.get()?, marks.subtype.get()) {
        ("system", Some("init")) => has(&marks.qwen_code_version),
        ("system", Some(_)) => marks.data.is_some(),
        // Lines of its stream lack the API's id of a message.
        ("assistant", _) => has(&message.id) && message.id.get() == marks.uuid.get(),
        ("stream_event", _) => marks.event.is_some_and(|event| event.kind.is("goal_state")),
        ("result", _) => {
            let is_whole = marks.usage.is_some() && marks.permission_denials.is_some();
            is_whole && marks.model_usage.is_none() && !line.is_cut
        }
        _ => false,
    };
    is_ours.then_some(STREAM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_like_another_harnesses_are_told_apart() {
        let cases: [(&str, Option<Dialect>); 12] = [
            // A chat of commands alone has no other lines.
            (
                r#"{"uuid":"u","sessionId":"s","type":"system","subtype":"slash_command","systemPayload":{}}"#,
                Some(CHAT),
            ),
            (r#"{"uuid":"u","sessionId":"s","type":"system","subtype":"local_command"}"#, None),
            (
                r#"{"type":"system","subtype":"init","session_id":"s","qwen_code_version":"0.24.4"}"#,
                Some(STREAM),
            ),
            (r#"{"type":"system","subtype":"init","session_id":"s","claude_code_version":"2.1.330"}"#, None),
            (
                r#"{"type":"assistant","uuid":"u","session_id":"s","message":{"id":"u","content":[]}}"#,
                Some(STREAM),
            ),
            (
                r#"{"type":"assistant","uuid":"u","session_id":"s","message":{"id":"msg_1","content":[]}}"#,
                None,
            ),
            (
                r#"{"uuid":"u","sessionId":"s","type":"user","provenance":"real_user","message":{}}"#,
                Some(CHAT),
            ),
            (r#"{"uuid":"u","sessionId":"s","type":"user","message":{"parts":[]}}"#, Some(CHAT)),
            (r#"{"uuid":"u","sessionId":"s","type":"user","message":{"content":"x"}}"#, None),
            (r#"{"agentId":"a","agentType":"t","parentSessionId":"s"}"#, Some(META)),
            (
                r#"{"session_id":"s","hook_event_name":"Stop","timestamp":"t","transcript_path":"/q/chats/s.jsonl"}"#,
                Some(HOOK),
            ),
            (
                r#"{"session_id":"s","hook_event_name":"Stop","transcript_path":"/c/projects/p/s.jsonl"}"#,
                None,
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(recognize(HeadLine { object: line, is_cut: false }), expected, "{line}");
        }
    }
}
