//! Which dialect a source speaks, by its content.

use serde::Deserialize;

use crate::{Dialect, lenient::Str};

/// The fields that tell dialects apart.
#[derive(Deserialize)]
struct Marks<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Str<'a>,
    #[serde(borrow, default)]
    schema: Str<'a>,
    #[serde(borrow, default)]
    hook_event_name: Str<'a>,
    #[serde(borrow, default)]
    session_id: Str<'a>,
    #[serde(rename = "sessionId", borrow, default)]
    session_id_camel: Str<'a>,
    #[serde(rename = "subagentRunId", alias = "subagentRunID", borrow, default)]
    run_id: Str<'a>,
    #[serde(rename = "subagentName", borrow, default)]
    subagent_name: Str<'a>,
    #[serde(rename = "agentType", borrow, default)]
    agent_type: Str<'a>,
    #[serde(rename = "agentId", borrow, default)]
    agent_id: Str<'a>,
    #[serde(borrow, default)]
    key: Str<'a>,
    #[serde(rename = "parentUuid", borrow, default)]
    parent_uuid: Str<'a>,
    #[serde(borrow, default)]
    uuid: Str<'a>,
}

/// Returns the dialect of a source from its first bytes (64 KiB are plenty); `None` where no line of them tells.
/// Lines that are not JSON are read over: a stream may begin with a warning.
pub fn recognise(head: &[u8]) -> Option<Dialect> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    head.split(|byte| *byte == b'\n').find_map(|line| {
        let text = String::from_utf8_lossy(line);
        let marks: Marks<'_> = serde_json::from_str(text.trim()).or_else(|_| first_fields(&text)).ok()?;
        dialect(&marks)
    })
}

/// Reads the marks of a line that the head cuts off: its leading scalar fields.
fn first_fields(text: &str) -> Result<Marks<'_>, serde_json::Error> {
    let end = text.char_indices().filter(|(_, letter)| *letter == ',').map(|(at, _)| at);
    let mut error = None;
    for at in end.take(24).collect::<Vec<_>>().into_iter().rev() {
        let closed = format!("{}}}", text.get(..at).unwrap_or_default());
        match serde_json::from_str::<Marks<'_>>(&closed) {
            Ok(marks) => return Ok(own(&marks)),
            Err(cause) => error = Some(cause),
        }
    }
    Err(error.unwrap_or_else(|| serde::de::Error::custom("no fields")))
}

fn own(marks: &Marks<'_>) -> Marks<'static> {
    let keep = |field: &Str<'_>| Str(field.get().map(|text| text.to_owned().into()));
    Marks {
        kind: keep(&marks.kind),
        schema: keep(&marks.schema),
        hook_event_name: keep(&marks.hook_event_name),
        session_id: keep(&marks.session_id),
        session_id_camel: keep(&marks.session_id_camel),
        run_id: keep(&marks.run_id),
        subagent_name: keep(&marks.subagent_name),
        agent_type: keep(&marks.agent_type),
        agent_id: keep(&marks.agent_id),
        key: keep(&marks.key),
        parent_uuid: keep(&marks.parent_uuid),
        uuid: keep(&marks.uuid),
    }
}

fn dialect(marks: &Marks<'_>) -> Option<Dialect> {
    let has = |field: &Str<'_>| field.filled().is_some();
    if marks.schema.is(subscope_model::Event::SCHEMA) {
        Some(Dialect::Feed)
    } else if marks.schema.is(subscope_model::StopOrder::SCHEMA) {
        Some(Dialect::StopOrders)
    } else if has(&marks.hook_event_name) {
        Some(Dialect::ClaudeHook)
    } else if has(&marks.run_id) || has(&marks.subagent_name) {
        Some(Dialect::SubagentEvents)
    } else if !has(&marks.kind) {
        has(&marks.agent_type).then_some(Dialect::ClaudeMeta)
    } else if has(&marks.session_id_camel) || has(&marks.parent_uuid) {
        Some(Dialect::ClaudeTranscript)
    } else if has(&marks.key) && has(&marks.agent_id) {
        Some(Dialect::ClaudeJournal)
    } else if has(&marks.session_id) {
        Some(Dialect::ClaudeStream)
    } else {
        match marks.kind.get() {
            Some("system" | "assistant" | "user" | "result" | "stream_event" | "tool_progress" | "init") => {
                Some(Dialect::ClaudeStream)
            }
            Some("summary" | "file-history-snapshot" | "queue-operation" | "ai-title" | "custom-title") => {
                Some(Dialect::ClaudeTranscript)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognise_each_dialect_by_content() {
        let cases: [(&str, Option<Dialect>); 12] = [
            (r#"{"type":"system","subtype":"init","session_id":"s"}"#, Some(Dialect::ClaudeStream)),
            (r#"{"type":"assistant","message":"Hello"}"#, Some(Dialect::ClaudeStream)),
            (r#"{"parentUuid":null,"sessionId":"s","type":"user"}"#, Some(Dialect::ClaudeTranscript)),
            (r#"{"type":"summary","summary":"x","leafUuid":"u"}"#, Some(Dialect::ClaudeTranscript)),
            (r#"{"session_id":"s","hook_event_name":"Stop"}"#, Some(Dialect::ClaudeHook)),
            (r#"{"subagentName":"a","subagentRunID":"r","type":"tool_call"}"#, Some(Dialect::SubagentEvents)),
            (r#"{"schema":"subscope.event/1","id":"x","kind":"usage"}"#, Some(Dialect::Feed)),
            (r#"{"schema":"subscope.stop/1","step":"asked"}"#, Some(Dialect::StopOrders)),
            (r#"{"agentType":"Explore","toolUseId":"t"}"#, Some(Dialect::ClaudeMeta)),
            (r#"{"type":"started","key":"v2:1","agentId":"a1"}"#, Some(Dialect::ClaudeJournal)),
            ("warning: x\n{\"type\":\"result\",\"session_id\":\"s\"}", Some(Dialect::ClaudeStream)),
            ("hello", None),
        ];
        for (line, expected) in cases {
            assert_eq!(recognise(line.as_bytes()), expected, "{line}");
        }
        let cut = r#"{"parentUuid":null,"isSidechain":false,"sessionId":"s","type":"user","message":{"role":"user","content":"cu"#;
        assert_eq!(recognise(cut.as_bytes()), Some(Dialect::ClaudeTranscript));
    }
}
