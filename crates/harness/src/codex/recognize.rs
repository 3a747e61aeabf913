//! Detects which of Codex's dialects a line is written in.

use std::path::Path;

use serde::{Deserialize, de::IgnoredAny};
use subscope_decode::{Dialect, lenient::Str};

use super::{
    APP_SERVER, EXEC, HOOK, ROLLOUT, app_server,
    exec::Line,
    hook::Payload,
    layout::{is_uuid, thread_of},
};
use crate::HeadLine;

/// The fields by which rollouts are recognized.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Marks<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    id: Str<'a>,
    timestamp: Str<'a>,
    payload: Option<IgnoredAny>,
    instructions: Option<IgnoredAny>,
    git: Option<IgnoredAny>,
    record_type: Str<'a>,
}

impl Marks<'_> {
    /// Whether it is the first line of a rollout without envelopes (before 0.32), or one of its marks.
    fn is_bare(&self, line: &str) -> bool {
        let is_named = self.id.filled().is_some_and(is_uuid) && self.timestamp.filled().is_some();
        let is_head = is_named
            && (self.git.is_some() || self.instructions.is_some() || line.contains("\"instructions\""));
        is_head || self.record_type.is("state")
    }
}

/// Types of the lines of a rollout.
const LINES: &[&str] =
    &["session_meta", "event_msg", "response_item", "turn_context", "token_usage_record", "compacted"];
/// Types of the printed lines.
const PRINTED: &[&str] = &[
    "thread.started",
    "turn.started",
    "turn.completed",
    "turn.failed",
    "item.started",
    "item.updated",
    "item.completed",
];

/// Returns the dialect that a line is written in.
pub(super) fn recognize(line: HeadLine<'_>) -> Option<Dialect> {
    let marks: Marks<'_> = serde_json::from_str(line.object).ok()?;
    if let Some(kind) = marks.kind.filled() {
        let is_rollout = marks.timestamp.filled().is_some() && (marks.payload.is_some() || line.is_cut);
        if is_rollout && LINES.contains(&kind) {
            return Some(ROLLOUT);
        }
        let printed: Line<'_> = serde_json::from_str(line.object).ok()?;
        let is_whole = match kind {
            "thread.started" => printed.thread_id.filled().is_some(),
            "item.started" | "item.updated" | "item.completed" => {
                printed.item.is_some_and(|item| item.kind.filled().is_some())
            }
            _ => true,
        };
        return (PRINTED.contains(&kind) && is_whole).then_some(EXEC);
    }
    if marks.is_bare(line.object) {
        return Some(ROLLOUT);
    }
    if app_server::is_message(line.object) {
        return Some(APP_SERVER);
    }
    let payload: Payload<'_> = serde_json::from_str(line.object).ok()?;
    // Payloads of other harnesses have the same names, and transcripts of other names.
    let path = payload.transcript_path.get();
    let is_own = path.is_some_and(|path| thread_of(Path::new(path)).is_some())
        || path.is_none() && payload.turn_id.filled().is_some() && payload.model.filled().is_some();
    (payload.hook_event_name.filled().is_some() && is_own).then_some(HOOK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rollouts_stdout_and_hooks_are_told_apart() {
        let hook = |path: &str| {
            format!(r#"{{"session_id":"s","hook_event_name":"Stop","transcript_path":"{path}"}}"#)
        };
        let own = hook("/h/rollout-2026-11-21T20-33-54-01a1ffd0-c380-7df3-9146-df0895c2f7be.jsonl");
        let cases: [(&str, Option<Dialect>); 11] = [
            (
                r#"{"id":"11111111-2222-4333-8444-555566667777","timestamp":"2025-08-19T08:25:08Z","instructions":null}"#,
                Some(ROLLOUT),
            ),
            (r#"{"record_type":"state"}"#, Some(ROLLOUT)),
            (r#"{"id":"7","timestamp":"2025-08-19T08:25:08Z","instructions":null}"#, None),
            (r#"{"timestamp":"t","type":"session_meta","payload":{"id":"1"}}"#, Some(ROLLOUT)),
            (r#"{"timestamp":"t","ordinal":3,"type":"event_msg","payload":{}}"#, Some(ROLLOUT)),
            (r#"{"type":"thread.started","thread_id":"01a1ffd3"}"#, Some(EXEC)),
            (r#"{"type":"item.completed","item":{"id":"item_0","type":"error"}}"#, Some(EXEC)),
            (r#"{"type":"item.completed"}"#, None),
            (&own, Some(HOOK)),
            (&hook("/h/.claude/projects/p/s.jsonl"), None),
            (
                r#"{"session_id":"s","turn_id":"t","model":"m","hook_event_name":"Stop","transcript_path":null}"#,
                Some(HOOK),
            ),
        ];
        for (object, expected) in cases {
            assert_eq!(recognize(HeadLine { object, is_cut: false }), expected, "{object}");
        }
    }
}
