//! What `gemini --output-format stream-json` prints: events of the root, none of its agents.
//!
//! Pitfalls: the end of a call that started an agent reports success even if the agent failed, and has no text: a chat
//! says more. Agents have no ids, so the id of the call names an agent until a chat does. `result` sums up the responses of all agents in
//! this process.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError, digest,
    lenient::{LineText, Num, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallBegin, CallEnd, Checksum, Claim, Clock, EndEvidence, Fact, Millis,
    Outcome, PromptKind, Response, Sink, SourceKind, SpawnResult, ToolClass, Usage, parse_rfc3339,
};

use super::tools;
use crate::common::parts::string;

/// Words of lines that change the state of agents, or of the session.
pub(super) const CHANGES: &[&str] = &["\"init\"", "\"result\"", "\"invoke_agent\"", "\"invoke_agent__"];

/// Decodes one recorded or piped stream.
#[derive(Debug)]
pub(super) struct Stream {
    session: Option<String>,
    /// Tools and begins of the calls that have not ended, by id.
    open: HashMap<String, (String, Option<Millis>)>,
}

/// One line. Fields of all line types together: they do not collide.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    timestamp: Str<'a>,
    session_id: Str<'a>,
    model: Str<'a>,
    role: Str<'a>,
    content: Option<&'a RawValue>,
    tool_name: Str<'a>,
    tool_id: Str<'a>,
    parameters: Option<&'a RawValue>,
    status: Str<'a>,
    output: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    stats: Option<&'a RawValue>,
}

/// The sum over all responses of a process.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Stats {
    total_tokens: Num,
    input_tokens: Num,
    output_tokens: Num,
    cached: Num,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ErrorText<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    message: Option<&'a RawValue>,
}

impl Stream {
    /// A decoder for the stream that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { session: hint.session.clone(), open: HashMap::new() }
    }
}

impl LineDecoder for Stream {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let line: Line<'_> = serde_json::from_str(text.text)?;
        if let Some(named) = line.session_id.filled() {
            self.session = Some(named.to_owned());
        }
        let session = self.session.clone();
        let claim = Claim::Root(Basis::Wire);
        let mut out = Emitter::new(SourceKind::Stream, Clock::Stream, claim, text, sink);
        out.head.time = line.timestamp.get().and_then(parse_rfc3339);
        out.head.session = session.as_deref();
        match line.kind.get() {
            Some("init") => {
                let model = line.model.filled();
                out.emit_made(Fact::Session { version: None, cwd: None, model, tells_starts: false });
            }
            Some("message") => message(&line, &mut out),
            Some("tool_use") => {
                let name = line.tool_name.get().unwrap_or_default();
                let digest = digest(name, line.parameters.map_or("", RawValue::get));
                if let Some(id) = line.tool_id.filled() {
                    self.open.insert(id.to_owned(), (name.to_owned(), out.head.time));
                }
                out.emit_made(last_line(false));
                let begin = tools::begin(line.tool_id.filled(), name, line.parameters, out.line, digest);
                out.emit_made(Fact::CallBegin(begin));
            }
            Some("tool_result") => {
                let call = line.tool_id.filled().and_then(|id| self.open.remove(id)).unwrap_or_default();
                tool_result(&line, &call.0, call.1, &mut out);
            }
            Some("result") => result(&line, &mut out),
            Some("error") => out.emit(Fact::Activity),
            _ => {}
        }
        Ok(())
    }
}

/// Returns the evidence whether the root's last line is a text: a response without tokens.
fn last_line(is_text: bool) -> Fact<'static> {
    Fact::Response(Response { has_text: is_text, has_call: !is_text, synthetic: true, ..Response::default() })
}

fn message<'a>(line: &Line<'a>, out: &mut Emitter<'a, '_>) {
    let Some(text) = out.raw(line.content) else { return };
    if line.role.is("user") {
        out.emit(Fact::Prompt { prompt_id: None, text, what: PromptKind::Asked });
    } else {
        out.emit(last_line(true));
        out.emit(Fact::Message { message_id: None, text });
    }
}

fn tool_result<'a>(line: &Line<'a>, tool: &str, begun: Option<Millis>, out: &mut Emitter<'a, '_>) {
    let error: ErrorText<'a> =
        line.error.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let text = string(error.message.or(line.output));
    let outcome = tools::outcome(line.status.get(), text.as_deref());
    let is_spawn = tools::class(tool) == ToolClass::Spawn;
    // Up to 0.34 each type of agent is a tool of its own: only the text of its end shows that it is an agent.
    let ended = text.as_deref().and_then(tools::reason_in_text).filter(|_| !is_spawn);
    if let Some(status) = ended {
        let (id, hindsight) = (line.tool_id.filled(), true);
        let begin = CallBegin { id, name: tool, hindsight, ..CallBegin::default() };
        let begin = tools::begin_of_kind(begin, None, out.line);
        out.emit_made(Fact::CallBegin(begin));
        let evidence = EndEvidence::Notification;
        out.emit_made(Fact::AgentEnd(AgentEnd { agent: id, status, evidence, ..AgentEnd::default() }));
    }
    let has_agent = is_spawn && outcome == Outcome::Ok;
    out.emit_made(Fact::CallEnd(CallEnd {
        id: line.tool_id.filled(),
        outcome,
        result: out.raw(line.output.or(error.message)),
        refused: is_spawn && matches!(outcome, Outcome::Error | Outcome::Denied),
        spawn: has_agent.then(|| SpawnResult { proves_agent: true, ..SpawnResult::default() }),
        ..CallEnd::default()
    }));
    // What is printed has no line of the agent: it worked from the begin of its call until the end.
    if let Some(id) = line.tool_id.filled().filter(|_| has_agent) {
        for time in [begun, out.head.time].into_iter().flatten() {
            out.emit_of(Claim::SpawnedBy(id), Some(time), Fact::Activity);
        }
    }
}

/// Type of the error of a turn that a person has stopped.
const CANCELLED: &str = "FatalCancellationError";

fn result<'a>(line: &Line<'a>, out: &mut Emitter<'a, '_>) {
    let stats: Option<Stats> = line.stats.and_then(|raw| serde_json::from_str(raw.get()).ok());
    if let Some(stats) = stats {
        let number = |field: Num| field.0.unwrap_or(0);
        let (input, output, cached) =
            (number(stats.input_tokens), number(stats.output_tokens), number(stats.cached));
        // Only the total includes thoughts.
        let thoughts = number(stats.total_tokens).saturating_sub(input).saturating_sub(output);
        let fresh = stats.input_tokens.0.map(|input| input.saturating_sub(cached));
        let written = stats.output_tokens.0.map(|output| output.saturating_add(thoughts));
        let usage = Usage::of_parts([fresh, written, Some(cached), None], stats.total_tokens.0);
        out.emit(Fact::Checksum(Checksum { usage, cost_micro_usd: None, part: out.head.time }));
    }
    let error: ErrorText<'a> =
        line.error.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let status = match line.status.is("success") {
        true => AgentStatus::Completed,
        false if error.kind.is(CANCELLED) => AgentStatus::Stopped,
        false => AgentStatus::Failed,
    };
    let text = out.raw(error.message).filter(|_| status == AgentStatus::Failed);
    if let Some(text) = text {
        out.emit(Fact::Message { message_id: None, text });
    }
    let evidence = EndEvidence::Notification;
    out.emit(Fact::TurnEnd { status, evidence, counts_run: true, text });
}
