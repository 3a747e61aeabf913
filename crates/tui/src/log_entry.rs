//! An event as the UI stores it: its displayable parts, bounded in size.

use serde_json::Value;
use subscope_model::{AgentId, Event, EventKind, Millis, Text};
use subscope_render::{
    blocks::{budget_words, detail as detail_of, first_line, full_text, pretty_json, request_words},
    text::prefix,
};

/// Most bytes stored of one text.
const MAX_BYTES: usize = 64 << 10;

/// Most bytes of one text once there is no room for more: more than a screen.
const SHORT_BYTES: usize = 4 << 10;

/// A displayable event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LogEntry {
    pub(crate) id: Text,
    /// Time of the event; `None` if no source has one.
    pub(crate) at_ms: Option<Millis>,
    pub(crate) agent: AgentId,
    pub(crate) kind: EventKind,
    /// Whether the attribution to `agent` is a guess.
    pub(crate) is_guess: bool,
    /// Id of the tool call that the event belongs to.
    pub(crate) call: Option<Text>,
    /// One-line summary. Raw agent text: sanitize before display.
    pub(crate) words: Box<str>,
    /// Full message or result, raw agent text.
    pub(crate) body: Option<Box<str>>,
    /// Bytes of `body` that were cut off.
    pub(crate) cut_bytes: usize,
}

impl LogEntry {
    /// Converts an event; `None` for kinds that are never displayed.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        let (words, body) = summary_and_body(event)?;
        let is_about_another =
            matches!(event.kind, EventKind::SubagentStart | EventKind::SubagentStop | EventKind::Stall);
        let about = event.text("agent_id").filter(|_| is_about_another);
        let (body, cut_bytes) = truncate(body, MAX_BYTES);
        let (words, _) = truncate(words, SHORT_BYTES);
        Some(Self {
            id: event.id.clone(),
            at_ms: event.at_ms,
            agent: about.map_or_else(|| event.actor_id.0.clone(), AgentId::from),
            kind: event.kind,
            is_guess: event.basis.is_guess(),
            call: event.text("tool_use_id").map(Text::from),
            words: words.into(),
            body: (!body.is_empty()).then(|| body.into()),
            cut_bytes,
        })
    }

    /// Cuts a long text, to free memory. Returns the number of bytes freed.
    pub(crate) fn shorten(&mut self) -> usize {
        let Some(body) = self.body.take_if(|body| body.len() > SHORT_BYTES) else { return 0 };
        let (body, cut_bytes) = truncate(body.into(), SHORT_BYTES);
        self.body = Some(body.into());
        self.cut_bytes += cut_bytes;
        cut_bytes
    }

    /// Whether it is the end of a tool call.
    pub(crate) fn is_end_of_call(&self) -> bool {
        matches!(self.kind, EventKind::ToolPost | EventKind::ToolFailure | EventKind::PermissionDenied)
    }

    /// Approximate memory use in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + 64 + self.words.len() + self.body.as_ref().map_or(0, |body| body.len())
    }

    /// Whether the entry contains a text, ignoring case; `lower` must be lower case.
    pub(crate) fn has(&self, lower: &str) -> bool {
        let is_in = |text: &str| contains(text, lower);
        is_in(&self.words) || self.body.as_deref().is_some_and(is_in) || is_in(self.kind.as_str())
    }
}

/// Whether `text` contains `lower`, ignoring case. An ASCII needle is compared without allocating.
fn contains(text: &str, lower: &str) -> bool {
    let (text_bytes, needle) = (text.as_bytes(), lower.as_bytes());
    if lower.is_ascii() {
        return text_bytes.windows(needle.len().max(1)).any(|part| part.eq_ignore_ascii_case(needle))
            || needle.is_empty();
    }
    text.to_lowercase().contains(lower)
}

/// Returns the one-line summary and the full text of an event.
fn summary_and_body(event: &Event) -> Option<(String, String)> {
    let own = |field: &str| event.text(field).unwrap_or_default().to_owned();
    let tool = || event.text("tool_name").unwrap_or("tool").to_owned();
    Some(match event.kind {
        EventKind::ToolPre => {
            let input = event.data.get("input");
            let command = input.and_then(|input| input.get("command")).and_then(Value::as_str);
            let detail = command.map(str::to_owned).or_else(|| event.text("detail").map(str::to_owned));
            let detail = detail.or_else(|| detail_of(input));
            (join(&tool(), detail.as_deref().unwrap_or_default()), arguments(input))
        }
        EventKind::ToolPost => {
            let output = event.data.get("report").or_else(|| event.data.get("result"));
            (join(&tool(), &first_line(output)), full_text(output))
        }
        EventKind::ToolFailure => {
            let error = event.data.get("error").filter(|error| !error.is_null());
            let error = error.or_else(|| event.data.get("result"));
            (join(&tool(), &first_line(error)), full_text(error))
        }
        EventKind::PermissionRequest => {
            let input = event.data.get("input");
            let words = join(&tool(), detail_of(input).as_deref().unwrap_or_default());
            (format!("{}: {words}", request_words(event)), arguments(input))
        }
        EventKind::PermissionDenied => (format!("{} denied", tool()), String::new()),
        EventKind::AgentMessage | EventKind::UserPrompt => first_line_and_text(own("text"))?,
        EventKind::Reasoning => {
            let is_encrypted = event.data.get("encrypted").and_then(Value::as_bool) == Some(true);
            if is_encrypted {
                ("thinks, encrypted".into(), String::new())
            } else {
                first_line_and_text(own("text"))?
            }
        }
        EventKind::SubagentStart => ("started".into(), own("prompt")),
        EventKind::SubagentStop => {
            let error = first_line(event.data.get("error"));
            (join(event.text("status").unwrap_or("ended"), &error), full_text(event.data.get("result")))
        }
        EventKind::Stall => (format!("stalled: waits for {}", own("waiting_for")), String::new()),
        EventKind::Budget => (budget_words(event), String::new()),
        EventKind::Problem => (format!("problem at {}: {}", own("at"), own("what")), String::new()),
        EventKind::Retry => (join("retry", &own("error")), String::new()),
        EventKind::Notification => (join("notification", &own("message")), String::new()),
        EventKind::SubagentProgress => (own("message"), String::new()),
        EventKind::RunStart => ("a run begins".into(), String::new()),
        EventKind::RunEnd => ("the run ends".into(), String::new()),
        EventKind::SessionStart => ("the session begins".into(), String::new()),
        EventKind::SessionEnd => ("the session ends".into(), String::new()),
        EventKind::CompactPre | EventKind::CompactPost => ("conversation compacted".into(), String::new()),
        EventKind::TodoCreated | EventKind::TodoCompleted => {
            (join(event.kind.as_str(), &own("text")), String::new())
        }
        // Usage is part of the rows, and heartbeats have nothing to show.
        EventKind::Usage
        | EventKind::Heartbeat
        | EventKind::UnknownHook
        | EventKind::Attribution
        | EventKind::AgentRenamed => return None,
    })
}

fn join(first: &str, second: &str) -> String {
    format!("{first} {second}").trim_end().to_owned()
}

/// Returns the first line that is not blank and the whole text; `None` for a blank text.
fn first_line_and_text(text: String) -> Option<(String, String)> {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty())?.to_owned();
    Some((first, text))
}

/// Formats a call's arguments: a shell command verbatim, others as indented JSON.
fn arguments(input: Option<&Value>) -> String {
    let Some(input) = input.filter(|input| !input.is_null()) else { return String::new() };
    match input.get("command").and_then(Value::as_str) {
        Some(command) => command.to_owned(),
        None => pretty_json(input).unwrap_or_else(str::to_owned),
    }
}

/// Truncates a text to `most` bytes; returns it with the number of bytes cut off.
fn truncate(mut text: String, most: usize) -> (String, usize) {
    let all = text.len();
    text.truncate(prefix(&text, most).len());
    let cut_bytes = all - text.len();
    (text, cut_bytes)
}

#[cfg(test)]
mod tests {
    use subscope_model::{Actor, Basis, EventSchema, SessionId};

    use super::*;

    fn event(kind: EventKind, data: Value) -> Event {
        Event {
            schema: EventSchema,
            id: "e".into(),
            seq: 1,
            at_ms: Some(7),
            session_id: SessionId::from("s"),
            run: 1,
            actor_id: Actor(AgentId::from("a1")),
            basis: Basis::Stack,
            source: "claude.hook".into(),
            kind,
            data,
        }
    }

    #[test]
    fn call_keeps_its_tool_what_it_works_on_and_its_arguments() {
        let input = serde_json::json!({"command": "npm test\nnpm run lint"});
        let data = serde_json::json!({"tool_use_id": "t1", "tool_name": "Bash", "input": input});
        let entry = LogEntry::of(&event(EventKind::ToolPre, data)).unwrap();
        assert_eq!(&*entry.words, "Bash npm test\nnpm run lint");
        assert_eq!(entry.body.as_deref(), Some("npm test\nnpm run lint"));
        assert!(entry.is_guess && entry.call.as_deref() == Some("t1"));
    }

    #[test]
    fn long_texts_are_cut_between_characters_and_counted() {
        let text = "é".repeat(MAX_BYTES);
        let data = serde_json::json!({ "text": text });
        let entry = LogEntry::of(&event(EventKind::AgentMessage, data)).unwrap();
        let mut entry = entry;
        assert_eq!(entry.body.as_ref().map(|body| body.len()), Some(MAX_BYTES));
        assert_eq!(entry.cut_bytes, MAX_BYTES);
        assert_eq!((entry.shorten(), entry.shorten()), (MAX_BYTES - SHORT_BYTES, 0));
        assert_eq!(entry.cut_bytes, 2 * MAX_BYTES - SHORT_BYTES);
    }

    #[test]
    fn ends_are_about_the_agent_that_ended_and_figures_are_nothing_to_show() {
        let data = serde_json::json!({"agent_id": "a9", "status": "failed", "error": "no\nway"});
        let entry = LogEntry::of(&event(EventKind::SubagentStop, data)).unwrap();
        assert_eq!((&*entry.agent, &*entry.words), ("a9", "failed no"));
        assert_eq!(LogEntry::of(&event(EventKind::Usage, Value::Null)), None);
    }

    #[test]
    fn text_is_found_in_any_case() {
        let data = serde_json::json!({"text": "The Überblick of Races"});
        let entry = LogEntry::of(&event(EventKind::AgentMessage, data)).unwrap();
        for (word, is_in) in [("races", true), ("überblick", true), ("agent.mess", true), ("racing", false)]
        {
            assert_eq!(entry.has(word), is_in, "{word}");
        }
    }
}
