//! Detects which of Copilot's dialects a line is written in.

use serde::{Deserialize, de::IgnoredAny};
use subscope_decode::{
    Dialect,
    lenient::{Flag, Str},
};

use super::{EVENTS, HOOK, STREAM};
use crate::HeadLine;

/// The fields by which the dialects are recognized.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Marks<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    id: Str<'a>,
    timestamp: Str<'a>,
    session_id: Str<'a>,
    ephemeral: Flag,
    data: Option<IgnoredAny>,
    exit_code: Option<IgnoredAny>,
    #[serde(rename = "_event")]
    event: Str<'a>,
    #[serde(rename = "in")]
    payload: Option<IgnoredAny>,
}

/// What the types of its events begin with.
const FAMILIES: &[&str] =
    &["session.", "user.", "assistant.", "tool.", "subagent.", "system.", "model.", "hook.", "permission."];
/// Events that only a transcript has.
const ON_DISK: &[&str] = &[
    "session.start",
    "session.resume",
    "session.usage_record",
    "session.shutdown",
    "system.message",
    "hook.",
];

/// Returns the dialect that a line is written in.
pub(super) fn recognize(line: HeadLine<'_>) -> Option<Dialect> {
    let marks: Marks<'_> = serde_json::from_str(line.object).ok()?;
    if marks.event.filled().is_some() && marks.payload.is_some() {
        return Some(HOOK);
    }
    let kind = marks.kind.filled()?;
    if kind == "result" {
        return (marks.session_id.filled().is_some() && marks.exit_code.is_some()).then_some(STREAM);
    }
    let is_of_family = kind == "abort" || FAMILIES.iter().any(|family| kind.starts_with(family));
    // A line that is cut may lack what follows its data.
    let has_envelope = line.is_cut
        || marks.data.is_some() && marks.id.filled().is_some() && marks.timestamp.filled().is_some();
    let is_on_disk = !marks.ephemeral.is_true() && ON_DISK.iter().any(|event| kind.starts_with(event));
    (is_of_family && has_envelope).then_some(if is_on_disk { EVENTS } else { STREAM })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_disk_and_stdout_are_told_apart_by_their_first_event() {
        let rest = r#""id":"1","timestamp":"2026-11-21T20:48:01.957Z","parentId":"0""#;
        let of = |line: String| recognize(HeadLine { object: &line, is_cut: false });
        let event = |kind: &str| of(format!(r#"{{"type":"{kind}","data":{{}},{rest}}}"#));
        assert_eq!(event("session.start"), Some(EVENTS));
        assert_eq!(event("session.resume"), Some(EVENTS));
        assert_eq!(event("user.message"), Some(STREAM));
        assert_eq!(event("session.skills_loaded"), Some(STREAM));
        let result =
            r#"{"type":"result","timestamp":"2026-11-21T20:52:20.354Z","sessionId":"s","exitCode":0}"#;
        assert_eq!(of(result.to_owned()), Some(STREAM));
        // Events of other programs.
        assert_eq!(event("thread.started"), None);
        assert_eq!(of(r#"{"type":"session.created","properties":{"sessionID":"s"}}"#.to_owned()), None);
        assert_eq!(of(r#"{"type":"result","status":"success","stats":{}}"#.to_owned()), None);
    }
}
