//! What `copilot --output-format json` prints: its events, and `result` as the last line.
//!
//! Pitfall: only `result`, the last line, names the session; before that, only `source` of an agent's first prompt
//! does. So lines are buffered until one of them names the session, or the stream ends.

use subscope_decode::{Hint, LineDecoder, LineError, lenient::LineText};
use subscope_model::{Sink, SourceKind};

use super::events::{Events, Line, Message};
use crate::common::late_session::WaitingLines;

/// Words of lines that change the state of agents, or of the session.
pub(super) const CHANGES: &[&str] = &[
    "\"subagent.",
    "\"abort\"",
    "\"result\"",
    "\"user.message\"",
    "\"task\"",
    "\"write_agent\"",
    "\"agent_idle\"",
];

/// What `source` of an agent's first prompt begins with; the id of its parent follows, the session's for the root.
const PARENT: &str = "agent-";

/// Decodes one recorded or piped stream.
#[derive(Debug)]
pub(super) struct Stream {
    events: Events,
    waiting: WaitingLines,
    /// Whether lines were emitted without a session.
    is_unnamed: bool,
}

impl Stream {
    /// A decoder for the stream that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        let events = Events::new(hint, SourceKind::Stream);
        Self { events, waiting: WaitingLines::default(), is_unnamed: false }
    }

    fn emit_waiting(&mut self, sink: &mut Sink<'_>) {
        for waiting in self.waiting.take() {
            let line = waiting.line();
            // It was read before.
            if let Ok(read) = serde_json::from_str::<Line<'_>>(line.text) {
                self.events.emit(&read, line, sink);
            }
        }
    }
}

impl LineDecoder for Stream {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let line: Line<'_> = serde_json::from_str(text.text)?;
        if self.events.session.is_none() && !self.is_unnamed {
            self.events.session = session_in(&line);
            if self.events.session.is_none() {
                if !line.ephemeral.is_true() && self.waiting.push(text) {
                    self.is_unnamed = true;
                    self.emit_waiting(sink);
                }
                return Ok(());
            }
            self.emit_waiting(sink);
        }
        self.events.emit(&line, text, sink);
        Ok(())
    }

    fn end_delivery(&mut self, sink: &mut Sink<'_>) {
        self.emit_waiting(sink);
    }
}

/// Returns the session that a line names.
fn session_in(line: &Line<'_>) -> Option<String> {
    let named = match line.kind.get()? {
        "result" => return line.session_id.filled().map(str::to_owned),
        "user.message" if line.agent_id.filled().is_some() => line.data::<Message<'_>>().source.0,
        _ => None,
    };
    named?.strip_prefix(PARENT).filter(|id| !id.is_empty()).map(str::to_owned)
}

/// Returns the session of the first of these lines that names one.
pub(super) fn session_of(lines: &[u8]) -> Option<String> {
    let lines = lines.split(|byte| *byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice::<Line<'_>>(line).ok()).find_map(|line| session_in(&line))
}

#[cfg(test)]
mod tests {
    use subscope_model::{Decoded, Fact, SourceId};

    use super::super::STREAM;
    use super::*;

    const PROMPT: &str = r#"{"type":"user.message","data":{"content":"go","messageId":"m"},"id":"1"}"#;
    const CHILD: &str =
        r#"{"type":"user.message","data":{"content":"do","source":"agent-s1"},"id":"2","agentId":"a"}"#;

    /// Returns the sessions and lines of all prompts.
    fn prompts(chunks: &[&str], is_flushed: bool) -> Vec<(Option<String>, u64)> {
        let mut found = Vec::new();
        let mut sink = |decoded: Decoded<'_, '_>| match decoded {
            Decoded::Observation(seen) => {
                if matches!(seen.fact, Fact::Prompt { .. }) {
                    found.push((seen.session.map(str::to_owned), seen.place.line));
                }
            }
            Decoded::Problem { what, .. } => panic!("{what}"),
        };
        let mut decoder = STREAM.decoder(&Hint { source: SourceId(0), ..Hint::default() });
        chunks.iter().for_each(|chunk| decoder.push(format!("{chunk}\n").as_bytes(), &mut sink));
        if is_flushed {
            decoder.flush(&mut sink);
        }
        found
    }

    #[test]
    fn lines_wait_until_one_names_the_session() {
        let s1 = || Some("s1".to_owned());
        assert_eq!(prompts(&[PROMPT], false), []);
        assert_eq!(prompts(&[PROMPT], true), [(None, 1)]);
        assert_eq!(prompts(&[PROMPT, CHILD], false), [(s1(), 1), (s1(), 2)]);
        let result = r#"{"type":"result","sessionId":"s1","exitCode":0}"#;
        assert_eq!(prompts(&[PROMPT, result], false), [(s1(), 1)]);
    }
}
