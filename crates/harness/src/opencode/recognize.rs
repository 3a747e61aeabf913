//! Detects which dialect of the family a line is written in.

use memchr::memmem;
use serde::{Deserialize, de::IgnoredAny};
use subscope_decode::{Dialect, lenient::Str};

use super::{HOOK, KILO, Member, OPENCODE, events::Envelope, family::MEMBERS, objects::Part, stdout::Line};
use crate::HeadLine;

/// Types of the printed lines.
const PRINTED: &[&str] = &["step_start", "step_finish", "tool_use", "text", "reasoning", "error", "done"];
/// What the types of its events begin with.
const FAMILIES: &[&str] = &["server.", "session.", "message.", "permission.", "project.", "file.", "lsp."];

/// Words of lines that name a fork.
const FORK_WORDS: [&str; 2] = ["\"program\"", METRICS];
/// A field of the end of a step, which one fork alone writes.
const METRICS: &str = "\"metrics\"";

/// Returns the dialect of a program that a line is written in.
pub(super) fn recognize(line: HeadLine<'_>, member: &Member) -> Option<Dialect> {
    let has_fork_word = FORK_WORDS.iter().any(|word| line.object.contains(word));
    if member.name != OPENCODE.name && !has_fork_word {
        return None;
    }
    let owner = if has_fork_word { owner_of(line.object) } else { &OPENCODE };
    (owner.name == member.name).then(|| dialect_of(line, member)).flatten()
}

/// Returns the program that a line names; OpenCode where it names none.
fn owner_of(object: &str) -> &'static Member {
    let event: Envelope<'_> = serde_json::from_str(object).unwrap_or_default();
    let named = event.program.filled();
    let by_name = MEMBERS.iter().copied().find(|member| named == Some(member.name));
    by_name.or_else(|| fork_of_line(object)).unwrap_or(&OPENCODE)
}

/// Returns the fork that printed a line.
fn fork_of_line(object: &str) -> Option<&'static Member> {
    let line: Line<'_> = serde_json::from_str(object).ok()?;
    let part: Part<'_> = serde_json::from_str(line.part?.get()).ok()?;
    fork_of_part(&part)
}

/// Returns the fork that wrote a part.
pub(super) fn fork_of_part(part: &Part<'_>) -> Option<&'static Member> {
    (part.is_step() && part.has_metrics()).then_some(&KILO)
}

/// Returns what a fork prints, if the head of a source that OpenCode seems to have printed has a mark of it.
pub(super) fn fork(head: &[u8]) -> Option<Dialect> {
    memmem::find(head, METRICS.as_bytes())?;
    let lines = head.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    let marked = lines.filter(|line| line.contains(METRICS)).find_map(fork_of_line);
    marked.map(|member| member.stdout)
}

/// Returns the dialect that a line of a program is written in.
fn dialect_of(line: HeadLine<'_>, member: &Member) -> Option<Dialect> {
    let event: Envelope<'_> = serde_json::from_str(line.object).ok()?;
    let is_event = |kind: &str| FAMILIES.iter().any(|family| kind.starts_with(family));
    if let Some(inner) = event.payload {
        let inner: Envelope<'_> = serde_json::from_str(inner.get()).ok()?;
        return inner.kind.filled().is_some_and(is_event).then_some(member.events);
    }
    let Some(kind) = event.kind.filled() else {
        let exported: Exported<'_> = serde_json::from_str(line.object).ok()?;
        let is_session = exported.info.id.filled().is_some_and(|id| id.starts_with(SESSION_ID));
        return (is_session && (exported.messages.is_some() || line.is_cut)).then_some(member.export);
    };
    if event.sessions.is_some() && (is_event(kind) || kind.starts_with("tool.execute.")) {
        return Some(HOOK);
    }
    let marks: Marks<'_> = serde_json::from_str(line.object).ok()?;
    if is_event(kind) && marks.id.filled().is_some_and(|id| id.starts_with("evt_")) {
        let is_logged = marks.seq.is_some() || event.data.is_some();
        return Some(if is_logged { member.database } else { member.events });
    }
    let printed: Line<'_> = serde_json::from_str(line.object).ok()?;
    let is_session = printed.session_id.filled().is_some_and(|id| id.starts_with(SESSION_ID));
    (is_session && PRINTED.contains(&kind)).then_some(member.stdout)
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
    use crate::opencode::{DATABASE, EVENTS, EXPORT, STDOUT, kilo};

    #[test]
    fn log_server_and_stdout_are_told_apart() {
        let cases: [(&str, Option<Dialect>); 14] = [
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
            (
                r#"{"program":"kilo","id":"evt_1","seq":0,"type":"session.created.1","data":{"sessionID":"ses_1"}}"#,
                Some(kilo::DATABASE),
            ),
            (
                r#"{"type":"step_finish","sessionID":"ses_1","part":{"type":"step-finish","metrics":{"source":"computed"}}}"#,
                Some(kilo::STDOUT),
            ),
            // The arguments of a call prove nothing.
            (
                r#"{"type":"tool_use","sessionID":"ses_1","part":{"type":"tool","state":{"input":{"metrics":1}}}}"#,
                Some(STDOUT),
            ),
        ];
        for (object, expected) in cases {
            let line = HeadLine { object, is_cut: false };
            let found: Vec<Dialect> = MEMBERS.iter().filter_map(|member| recognize(line, member)).collect();
            assert_eq!(found, Vec::from_iter(expected), "{object}");
        }
    }

    #[test]
    fn a_printed_stream_is_that_of_the_fork_that_one_of_its_lines_names() {
        let begin = "{\"type\":\"step_start\",\"sessionID\":\"ses_1\",\"part\":{\"type\":\"step-start\"}}\n";
        let end = |metrics: &str| {
            format!(
                "{begin}{{\"type\":\"step_finish\",\"sessionID\":\"ses_1\",\"part\":{{\"type\":\"step-finish\"{metrics}}}}}\n"
            )
        };
        assert_eq!(crate::recognize(end("").as_bytes()), Some(STDOUT));
        assert_eq!(crate::recognize(end(",\"metrics\":{}").as_bytes()), Some(kilo::STDOUT));
        let quoted = end(",\"reason\":\"\\\"metrics\\\":{}\"");
        assert_eq!(crate::recognize(quoted.as_bytes()), Some(STDOUT));
    }
}
