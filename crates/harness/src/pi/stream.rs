//! What `--mode json` and `--mode rpc` print: the root's messages as they are in its file, and counters of its agents.
//!
//! Pitfalls: `--mode rpc` names the session only in the answer to a question. `agent_end` and `turn_end` repeat messages.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError,
    lenient::{LineText, Num, Str},
};
use subscope_model::{Basis, Claim, Clock, Fact, Sink, SourceKind};

use super::{
    messages::{Message, Messages, number, parse},
    tools::{ReportedAgent, ResultDetails},
};
use crate::common::parts::elements;

/// Words of lines that change the state of agents, or of the session.
pub(super) const CHANGES: &[&str] =
    &["\"message_end\"", "\"tool_execution_update\"", "\"auto_retry_start\"", "\"response\""];
/// Type of the line that opens a session.
pub(super) const OPENS: &str = "\"session\"";

/// Decodes one recorded or piped stream.
#[derive(Debug)]
pub(super) struct Stream {
    session: Option<String>,
    messages: Messages,
}

/// One line.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    id: Str<'a>,
    cwd: Str<'a>,
    message: Option<&'a RawValue>,
    tool_call_id: Str<'a>,
    partial_result: PartialResult<'a>,
    attempt: Num,
    max_attempts: Num,
    delay_ms: Option<f64>,
    error_message: Str<'a>,
    data: State<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct PartialResult<'a> {
    details: Option<&'a RawValue>,
}

/// The answer to a question for the state of the process.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct State<'a> {
    session_id: Str<'a>,
}

impl Line<'_> {
    fn session(&self) -> Option<&str> {
        match self.kind.get()? {
            "session" => self.id.filled(),
            "response" => self.data.session_id.filled(),
            _ => None,
        }
    }
}

impl Stream {
    /// A decoder for the stream that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { session: hint.session.clone(), messages: Messages::of(None) }
    }
}

impl LineDecoder for Stream {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let line: Line<'_> = serde_json::from_str(text.text)?;
        let Some(kind) = line.kind.filled() else {
            return Err(LineError::MissingField { item: "a printed line", field: "type" });
        };
        if let Some(session) = line.session() {
            self.session = Some(session.to_owned());
        }
        let session = self.session.clone();
        let mut out = Emitter::new(SourceKind::Stream, Clock::Stream, Claim::Root(Basis::Wire), text, sink);
        out.head.session = session.as_deref();
        match kind {
            "session" => {
                let cwd = line.cwd.0.clone().filter(|cwd| !cwd.is_empty());
                out.emit_made(Fact::Session { version: None, cwd, model: None, tells_starts: true });
            }
            "message_end" => {
                let message: Message<'_> = parse(line.message);
                out.head.time = message.time();
                let line_id = message.line_id();
                out.head.line_id = line_id.as_deref();
                self.messages.emit(&message, &mut out);
            }
            "tool_execution_update" => {
                let details: ResultDetails<'_> = parse(line.partial_result.details);
                let at_work: Vec<ReportedAgent<'_>> = elements(details.progress);
                self.messages.agents(line.tool_call_id.filled(), &details, &mut out);
                for agent in &at_work {
                    let Some(id) = agent.id.filled() else { continue };
                    out.emit_made(Fact::Progress {
                        agent: Some(id),
                        message: agent.activity().map(Into::into),
                        tool_calls: agent.tool_count.0,
                        total_tokens: agent.tokens.0,
                    });
                }
                if at_work.is_empty() {
                    out.emit(Fact::Activity);
                }
            }
            "auto_retry_start" => {
                let delay = line.delay_ms.filter(|delay| (0.0..1e12).contains(delay));
                out.emit_made(Fact::Retry {
                    agent: None,
                    attempt: number(line.attempt).unwrap_or(1),
                    limit: number(line.max_attempts).unwrap_or(0),
                    // In range by the filter.
                    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                    delay_ms: delay.map(|delay| delay as u64),
                    error: line.error_message.0.clone().unwrap_or_default(),
                });
            }
            // Parts of messages, repeats of them, the screen.
            _ if session.is_some() => out.emit(Fact::Activity),
            _ => {}
        }
        Ok(())
    }
}

/// Returns the session of the first of these lines that names one.
pub(super) fn session_of(lines: &[u8]) -> Option<String> {
    let lines = lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    lines.filter_map(|line: Line<'_>| line.session().map(str::to_owned)).next()
}
