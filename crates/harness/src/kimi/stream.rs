//! What `kimi -p --output-format stream-json` prints: the root's messages as the API has them, without times and tokens.
//!
//! Pitfall: only the last line names the session, and a run that is killed or fails prints none. So lines are buffered
//! until one of them names the session, or the stream ends. An agent is named by the text of its call's result.

use std::{borrow::Cow, collections::HashMap};

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError, digest,
    lenient::{LineText, Num, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, Claim, Clock, EndEvidence, Fact, Response, Sink, SourceKind, Spawn,
    SpawnBatch, ToolClass,
};

use super::tools::{self, Ended};
use crate::common::{
    late_session::WaitingLines,
    parts::{elements, string},
};

/// Words of lines that change the state of agents, or of the session.
pub(super) const CHANGES: &[&str] =
    &["\"Agent\"", "\"AgentSwarm\"", "\"tool_call_id\"", "\"session.resume_hint\"", "\"turn.step.retrying\""];

/// Decodes one recorded or piped stream.
#[derive(Debug)]
pub(super) struct Stream {
    hint: Hint,
    session: Option<String>,
    waiting: WaitingLines,
    /// Whether lines were emitted without a session.
    is_unnamed: bool,
    /// Whether the turn of the root was begun.
    has_begun: bool,
    /// Open calls: their tool, and the agent that they resume.
    calls: HashMap<String, (String, ToolClass, Option<String>)>,
}

/// One line.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    role: Str<'a>,
    #[serde(rename = "type")]
    kind: Str<'a>,
    version: Str<'a>,
    session_id: Str<'a>,
    content: Option<&'a RawValue>,
    tool_calls: Option<&'a RawValue>,
    tool_call_id: Str<'a>,
    failed_attempt: Num,
    max_attempts: Num,
    error_message: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Call<'a> {
    id: Str<'a>,
    function: Function<'a>,
}

/// The arguments are JSON in a string.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Function<'a> {
    name: Str<'a>,
    arguments: Option<&'a RawValue>,
}

impl Stream {
    /// A decoder for the stream that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self {
            hint: hint.clone(),
            session: None,
            waiting: WaitingLines::default(),
            is_unnamed: false,
            has_begun: false,
            calls: HashMap::new(),
        }
    }

    fn emit_waiting(&mut self, sink: &mut Sink<'_>) {
        for waiting in self.waiting.take() {
            let text = waiting.line();
            // It was read before.
            if let Ok(line) = serde_json::from_str::<Line<'_>>(text.text) {
                self.emit(&line, text, sink);
            }
        }
    }

    fn emit<'a>(&mut self, line: &Line<'a>, text: LineText<'a>, sink: &mut Sink<'_>) {
        let session = self.session.clone().or_else(|| self.hint.session.clone());
        let mut out = Emitter::new(SourceKind::Stream, Clock::Stream, Claim::Root(Basis::Wire), text, sink);
        out.head.session = session.as_deref();
        if !std::mem::replace(&mut self.has_begun, true) {
            // There is no line for the prompt.
            out.emit(Fact::TurnStart);
        }
        match line.role.get().unwrap_or_default() {
            "assistant" => self.answer(line, &mut out),
            "tool" => self.call_end(line, &mut out),
            "meta" => match line.kind.get().unwrap_or_default() {
                "system.version" => {
                    let version = line.version.filled();
                    out.emit_made(Fact::Session { version, cwd: None, model: None, tells_starts: false });
                }
                "turn.step.retrying" => {
                    let number = |field: Num| field.0.and_then(|number| u32::try_from(number).ok());
                    out.emit_made(Fact::Retry {
                        agent: None,
                        attempt: number(line.failed_attempt).unwrap_or(1),
                        limit: number(line.max_attempts).unwrap_or(0),
                        delay_ms: None,
                        error: line.error_message.0.clone().unwrap_or_default(),
                    });
                }
                // The process ends with it, and prints it at the end of a turn alone.
                "session.resume_hint" => out.emit(Fact::TurnEnd {
                    status: AgentStatus::Completed,
                    evidence: EndEvidence::LastLine,
                    counts_run: true,
                    text: None,
                }),
                _ => out.emit(Fact::Activity),
            },
            _ => out.emit(Fact::Activity),
        }
    }

    fn answer<'a>(&mut self, line: &Line<'a>, out: &mut Emitter<'a, '_>) {
        let calls: Vec<Call<'a>> = elements(line.tool_calls);
        let text = out.raw(line.content).filter(|text| text.json.starts_with('"') && text.json.len() > 2);
        out.emit_made(Fact::Response(Response {
            has_stop_reason: true,
            has_call: !calls.is_empty(),
            has_text: text.is_some(),
            synthetic: true,
            ..Response::default()
        }));
        if let Some(text) = text {
            out.emit_made(Fact::Message { message_id: None, text });
        }
        for call in &calls {
            let name = call.function.name.get().unwrap_or_default();
            let arguments = string(call.function.arguments).and_then(|json| RawValue::from_string(json).ok());
            let arguments = arguments.as_deref().or(call.function.arguments);
            // They do not live as long as the line.
            let line = LineText { is_exact: false, ..out.line };
            let digest = digest(name, arguments.map_or("", RawValue::get));
            let (begin, resumed) = tools::begin(call.id.filled(), name, arguments, line, digest);
            if let Some(id) = call.id.filled() {
                self.calls.insert(id.to_owned(), (name.to_owned(), begin.class, resumed));
            }
            out.emit_made(Fact::CallBegin(begin));
        }
    }

    fn call_end<'a>(&mut self, line: &Line<'a>, out: &mut Emitter<'a, '_>) {
        let id = line.tool_call_id.filled();
        let (name, class, resumed) = id.and_then(|id| self.calls.remove(id)).unwrap_or_default();
        let text = string(line.content).unwrap_or_default();
        let evidence = EndEvidence::SpawnResult;
        if name == SWARM {
            for (agent, status) in tools::swarm(&text) {
                out.emit_made(Fact::Spawn(Spawn {
                    agent: Some(agent),
                    detached: true,
                    batch: id.map(SpawnBatch::Call),
                    ..Spawn::default()
                }));
                let agent = Some(agent);
                out.emit_made(Fact::AgentEnd(AgentEnd { agent, status, evidence, ..AgentEnd::default() }));
            }
        }
        let (output, is_error) = (line.content, (name == SWARM).then_some(false));
        let ended = Ended {
            id,
            class,
            is_error,
            is_denied: false,
            output,
            duration_ms: None,
            resumed: resumed.as_deref(),
        };
        let result = out.raw(line.content);
        let is_agents = class == ToolClass::Spawn || resumed.is_some();
        ended.emit(result, &mut |end, report| {
            out.emit_made(Fact::CallEnd(end));
            if let (Some(agent), Some(status)) = (report.agent.filter(|_| is_agents), report.status) {
                let agent_type = report.agent_type.map(Cow::Borrowed);
                let agent = Some(agent);
                out.emit_made(Fact::Spawn(Spawn { agent, agent_type, ..Spawn::default() }));
                out.emit_made(Fact::AgentEnd(AgentEnd { agent, status, evidence, ..AgentEnd::default() }));
            }
        });
    }
}

/// The tool that starts several agents.
const SWARM: &str = "AgentSwarm";

impl LineDecoder for Stream {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let line: Line<'_> = serde_json::from_str(text.text)?;
        if line.role.filled().is_none() {
            return Err(LineError::MissingField { item: "a printed message", field: "role" });
        }
        if self.session.is_none() && !self.is_unnamed {
            self.session = line.session_id.filled().map(str::to_owned);
            if self.session.is_none() {
                if self.waiting.push(text) {
                    self.is_unnamed = true;
                    self.emit_waiting(sink);
                }
                return Ok(());
            }
            self.emit_waiting(sink);
        }
        self.emit(&line, text, sink);
        Ok(())
    }

    fn end_delivery(&mut self, sink: &mut Sink<'_>) {
        self.emit_waiting(sink);
    }
}

/// Returns the session of the first of these lines that names one.
pub(super) fn session_of(lines: &[u8]) -> Option<String> {
    let lines = lines.split(|byte| *byte == b'\n');
    let named = |line: Line<'_>| line.session_id.filled().map(str::to_owned);
    lines.filter_map(|line| serde_json::from_slice(line).ok()).find_map(named)
}
