//! Detects which of Claude Code's dialects a line is written in.

use serde::{Deserialize, de::IgnoredAny};
use subscope_decode::{
    Dialect,
    lenient::{Num, Str},
};

use super::{HOOK, JOURNAL, META, STREAM, TRANSCRIPT};
use crate::HeadLine;

/// The fields by which the dialects are recognized.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Marks<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    subtype: Str<'a>,
    hook_event_name: Str<'a>,
    session_id: Str<'a>,
    #[serde(rename = "sessionId")]
    session_id_camel: Str<'a>,
    #[serde(rename = "agentType")]
    agent_type: Str<'a>,
    #[serde(rename = "agentId")]
    agent_id: Str<'a>,
    key: Str<'a>,
    #[serde(rename = "parentUuid")]
    parent_uuid: Str<'a>,
    uuid: Str<'a>,
    /// A number in the logs of prompts that Gemini CLI and its forks keep for their own history.
    #[serde(rename = "messageId")]
    number: Num,
    message: Option<IgnoredAny>,
}

/// Returns the dialect that a line is written in.
pub(super) fn recognize(line: HeadLine<'_>) -> Option<Dialect> {
    let marks: Marks<'_> = serde_json::from_str(line.object).ok()?;
    let has = |field: &Str<'_>| field.filled().is_some();
    if marks.number.0.is_some() && !has(&marks.uuid) {
        None
    } else if has(&marks.hook_event_name) {
        Some(HOOK)
    } else if !has(&marks.kind) {
        has(&marks.agent_type).then_some(META)
    } else if has(&marks.session_id_camel) || has(&marks.parent_uuid) {
        Some(TRANSCRIPT)
    } else if has(&marks.key) && has(&marks.agent_id) {
        Some(JOURNAL)
    } else if is_of_stream(&marks, line.is_cut) {
        Some(STREAM)
    } else {
        match marks.kind.get() {
            Some("summary" | "file-history-snapshot" | "queue-operation" | "ai-title" | "custom-title") => {
                Some(TRANSCRIPT)
            }
            _ => None,
        }
    }
}

/// Whether a line is of a stream. Other harnesses print lines of the same types: these name no session or have other
/// fields.
fn is_of_stream(marks: &Marks<'_>, is_cut: bool) -> bool {
    let is_named = marks.session_id.filled().is_some() || is_cut;
    match marks.kind.get() {
        Some("assistant" | "user") => is_named || marks.message.is_some(),
        Some("system" | "result") => is_named || marks.subtype.filled().is_some(),
        Some("stream_event" | "tool_progress") => true,
        _ => false,
    }
}
