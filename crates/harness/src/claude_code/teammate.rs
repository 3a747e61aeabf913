//! Messages of teammates: the members of an agent team write to their lead in the user's role, and the harness tells in
//! the same form that one waits for messages or was shut down.
//!
//! Observed: 2.1.332 (`idle_notification`, with words before the element), and public documentation of 2.1.34 to 2.1.42
//! (`shutdown_approved`, `teammate_terminated`).

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{Emitter, lenient::Str};
use subscope_model::{AgentEnd, AgentStatus, EndEvidence, Fact, RawJson, parse_rfc3339};

/// What messages start with: the element, or words before it.
const HEADS: [&str; 2] = ["<teammate-message", "Another Claude session sent a message:"];
const OPEN: &str = "<teammate-message";
const CLOSE: &str = "</teammate-message>";

/// Whether a text is a message of a teammate or another session.
pub(super) fn is_message(text: &str) -> bool {
    let head = text.trim_start();
    HEADS.iter().any(|words| head.starts_with(words))
}

/// Returns the task that a lead wrote to a teammate, if a text is one.
pub(super) fn task(text: &str) -> Option<&str> {
    let (_, body) = messages(text.trim_start().starts_with(OPEN).then_some(text)?).next()?;
    (!body.starts_with('{')).then_some(body)
}

/// Returns sender and body of each message in a text.
fn messages(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(OPEN).skip(1).filter_map(|element| {
        let (attributes, rest) = element.split_once('>')?;
        let (body, _) = rest.split_once(CLOSE)?;
        let (_, sender) = attributes.split_once("teammate_id=\"")?;
        Some((sender.split_once('"')?.0, body.trim()))
    })
}

/// A notice of the harness in a message.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Notice<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    from: Str<'a>,
    timestamp: Str<'a>,
    idle_reason: Str<'a>,
    failure_reason: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    message: Str<'a>,
}

/// Emits the ends of turns and of teammates that the messages in a text tell.
pub(super) fn emit_ends(text: &str, out: &mut Emitter<'_, '_>) {
    if !is_message(text) {
        return;
    }
    for (sender, body) in messages(text) {
        let Ok(notice) = serde_json::from_str::<Notice<'_>>(body) else { continue };
        let (name, evidence) = match notice.kind.get() {
            Some("idle_notification") => (notice.from.filled().unwrap_or(sender), EndEvidence::IdleNotice),
            Some("shutdown_approved") => (notice.from.filled().unwrap_or(sender), EndEvidence::Notification),
            Some("teammate_terminated") => {
                let Some((name, _)) =
                    notice.message.get().and_then(|words| words.split_once(" has shut down"))
                else {
                    continue;
                };
                (name, EndEvidence::Notification)
            }
            _ => continue,
        };
        let status = match notice.idle_reason.get() {
            Some("failed") => AgentStatus::Failed,
            Some("interrupted") => AgentStatus::Stopped,
            Some(_) | None => AgentStatus::Completed,
        };
        let has_failed = status == AgentStatus::Failed;
        let error = notice.failure_reason.filter(|_| has_failed);
        out.emit_made(Fact::AgentEnd(AgentEnd {
            agent: Some(&address(name)),
            status,
            evidence,
            time: notice.timestamp.get().and_then(parse_rfc3339),
            report: notice.result.map(made),
            error: error.map(made),
            ..AgentEnd::default()
        }));
    }
}

fn made(value: &RawValue) -> RawJson<'_> {
    RawJson { json: value.get(), offset: u64::MAX }
}

/// Returns what names a teammate in [`AgentEnd`]; that of all teammates for an empty name.
pub(super) fn address(name: &str) -> Cow<'static, str> {
    format!("@{name}").into()
}

/// Emits the end of all teammates, for the team was deleted: the harness refuses that while one is at work.
pub(super) fn emit_team_end(out: &mut Emitter<'_, '_>) {
    let (status, evidence) = (AgentStatus::Completed, EndEvidence::StopCall);
    out.emit_made(Fact::AgentEnd(AgentEnd {
        agent: Some(&address("")),
        status,
        evidence,
        ..AgentEnd::default()
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_sender_and_body() {
        let two = "Another Claude session sent a message:\n<teammate-message teammate_id=\"ada\" color=\"blue\">\nHi\n</teammate-message>\n<teammate-message teammate_id=\"bob\">{}</teammate-message>";
        assert_eq!(messages(two).collect::<Vec<_>>(), [("ada", "Hi"), ("bob", "{}")]);
        assert!(is_message(two) && !is_message("what is <teammate-message>?"));
    }

    #[test]
    fn task_is_what_the_lead_wrote() {
        let text = "<teammate-message teammate_id=\"team-lead\">\nWrite tests.\n</teammate-message>";
        assert_eq!(task(text), Some("Write tests."));
        assert_eq!(task("<teammate-message teammate_id=\"a\">{\"type\":\"x\"}</teammate-message>"), None);
        assert_eq!(task("Write tests."), None);
    }
}
