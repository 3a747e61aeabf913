//! Extracts text passages from a source for the full-text index.
//!
//! The agent of a passage is the one that its line names; it is empty where only a chain of lines would give it.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use subscope_decode::{Decoder, Dialect, Hint, ToolArguments, otlp::SPAN_LINE};
use subscope_harness::{harness_of_service, otel_sources, tool_class};
use subscope_model::{
    Claim, Decoded, Fact, Millis, Observation, Outcome, PromptKind, RawJson, SourceKind, SpanKind,
    SpanStatus, Spawn, TraceSpan, safe_id, stable_hash,
};

/// Class of a passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PassageClass {
    /// A prompt.
    Prompt,
    /// A message of the model.
    Message,
    /// A thought of the model.
    Thought,
    /// The arguments of a tool call.
    ToolInput,
    /// The result of a tool call.
    ToolResult,
}

/// A text passage of a source.
#[derive(Clone, Debug)]
pub struct Passage<'a> {
    /// `root`, an agent's id, the id of the agent's spawn call, or empty if unknown.
    pub agent: &'a str,
    /// The session, if the line names it.
    pub session: Option<&'a str>,
    /// Its class.
    pub class: PassageClass,
    /// The tool, for arguments and results; `None` if the result names a call that the source did not begin.
    pub tool: Option<&'a str>,
    /// Whether it is the result of a failed or denied call.
    pub failed: bool,
    /// Id of its line, if it has one: a copy of the line in another file has the same.
    pub line_id: Option<&'a str>,
    /// Time of its line, if any.
    pub at_ms: Option<Millis>,
    /// Byte offset of its JSON in the source; for a text that is encoded in an OpenTelemetry record, its number among
    /// such texts of the source ([`PassageReader::encoded_text`]).
    pub offset: u64,
    /// The length of its JSON in bytes; 0 for a text that is encoded in a record.
    pub bytes: u64,
    /// Its text.
    pub text: Cow<'a, str>,
}

/// Reads the passages of one source.
pub struct PassageReader {
    decoder: Box<dyn Decoder>,
    state: ReadState,
}

/// Context from earlier lines.
struct ReadState {
    agents: AgentLookup,
    open_calls: OpenCalls,
    encoded: EncodedTexts,
}

/// Tools of calls that have not ended, by the id of the call: a result does not name its tool.
type OpenCalls = HashMap<Box<str>, Box<str>>;

/// An empty text: of the prompt in a span without contents.
const EMPTY: &str = "\"\"";

/// Texts that are encoded in OpenTelemetry records.
#[derive(Default)]
struct EncodedTexts {
    /// Number of those found.
    count: u64,
    /// Texts found of calls, which several records repeat, and of spans.
    of_calls: HashSet<(Box<str>, PassageClass)>,
}

/// Determines the agent of a passage.
struct AgentLookup {
    /// Agent that the source's path names.
    file: Option<String>,
    /// Session whose hooks name agents, so that a hook naming none is the root's: see [`Fact::WireHasIdentity`].
    identified: Option<String>,
}

impl PassageReader {
    /// Creates a reader of a source in a known dialect; `agent` if its path names one.
    pub fn new(dialect: Dialect, agent: Option<String>) -> Self {
        let hint =
            Hint { agent: agent.clone(), tool_class, otel_sources, harness_of_service, ..Hint::default() };
        Self {
            decoder: dialect.decoder(&hint),
            state: ReadState {
                agents: AgentLookup {
                    file: agent.map(|agent| safe_id(&agent).into_owned()),
                    identified: None,
                },
                open_calls: OpenCalls::new(),
                encoded: EncodedTexts::default(),
            },
        }
    }

    /// Returns a text that is encoded in a record of a source, by its number; `None` if the source has fewer.
    pub fn encoded_text(dialect: Dialect, source: &[u8], number: u64) -> Option<String> {
        let mut reader = Self::new(dialect, None);
        let mut text = None;
        let mut keep = |found: Passage<'_>| {
            if found.bytes == 0 && found.offset == number {
                text = Some(found.text.into_owned());
            }
        };
        reader.push(source, &mut keep);
        reader.flush(&mut keep);
        text
    }

    /// Decodes the next bytes, cut anywhere, and passes their passages to `found`.
    pub fn push(&mut self, bytes: &[u8], found: &mut dyn FnMut(Passage<'_>)) {
        let Self { decoder, state } = self;
        decoder.push(bytes, &mut |decoded| extract(state, decoded, found));
    }

    /// Decodes an unfinished last line at the end of the source.
    pub fn flush(&mut self, found: &mut dyn FnMut(Passage<'_>)) {
        let Self { decoder, state } = self;
        decoder.flush(&mut |decoded| extract(state, decoded, found));
    }
}

/// Returns the file that a call's arguments name, and the line at which it is read (1-based), if they name one. `None`
/// if they are not a JSON object that names a file.
pub fn file_argument(arguments: &str) -> Option<(String, Option<u64>)> {
    let arguments = ToolArguments::parse(arguments);
    arguments.file().map(|path| (path.clone().into_owned(), arguments.line()))
}

/// The call that a passage belongs to, if any.
#[derive(Clone, Copy, Default)]
struct CallOf<'a> {
    id: Option<&'a str>,
    tool: Option<&'a str>,
    failed: bool,
}

fn extract(state: &mut ReadState, decoded: Decoded<'_, '_>, found: &mut dyn FnMut(Passage<'_>)) {
    let Decoded::Observation(observation) = decoded else { return };
    let ReadState { agents, open_calls, encoded } = state;
    if matches!(observation.fact, Fact::WireHasIdentity) {
        agents.identified = observation.session.map(str::to_owned);
    }
    let mut emit_of = |agent: Option<&str>, class: PassageClass, call: CallOf<'_>, raw: RawJson<'_>| {
        // Other text without an offset cannot be read again to show it.
        let (offset, bytes) = match (raw.offset, observation.kind) {
            (u64::MAX, SourceKind::Otel) if raw.json == EMPTY => return,
            (u64::MAX, SourceKind::Otel) => {
                // A span that is sent again repeats its texts.
                let of_span = observation.line_id.filter(|line| line.starts_with(SPAN_LINE));
                let of_span = of_span.map(|line| format!("{line}/{:x}", stable_hash(raw.json)));
                match encoded.number(call.id.or(of_span.as_deref()), class) {
                    Some(number) => (number, 0),
                    None => return,
                }
            }
            (u64::MAX, _) => return,
            (offset, _) => (offset, raw.json.len() as u64),
        };
        found(Passage {
            agent: agent.unwrap_or_else(|| agents.of(observation)),
            session: observation.session,
            class,
            tool: call.tool,
            failed: call.failed,
            line_id: observation.line_id,
            at_ms: observation.time,
            offset,
            bytes,
            text: raw.text(),
        });
    };
    if let Fact::CallBegin(begin) = &observation.fact {
        if let Some(id) = begin.id {
            open_calls.insert(id.into(), begin.name.into());
        }
        // A finished batch lists inputs that were indexed when its calls began. A call reported only there is not found
        // by its input.
        if let Some(input) = begin.input.filter(|_| !begin.hindsight) {
            let call = CallOf { id: begin.id, tool: Some(begin.name), failed: false };
            emit_of(None, PassageClass::ToolInput, call, input);
        }
    }
    if let Fact::CallEnd(end) = &observation.fact {
        let begun = end.id.and_then(|id| open_calls.remove(id));
        if let Some(result) = end.result {
            let failed = matches!(end.outcome, Outcome::Error | Outcome::Interrupted | Outcome::Denied);
            let call = CallOf { id: end.id, tool: end.name.or(begun.as_deref()), failed };
            emit_of(None, PassageClass::ToolResult, call, result);
        }
    }
    if let Fact::Span(span) = &observation.fact {
        return extract_span(span, &mut emit_of);
    }
    let mut emit = |agent: Option<&str>, class: PassageClass, raw: RawJson<'_>| {
        emit_of(agent, class, CallOf::default(), raw);
    };
    // Transcripts and streams repeat the text of spawns and ends in lines of their own.
    let is_only_line = matches!(observation.kind, SourceKind::Posted | SourceKind::Hook);
    let names_prompt = is_only_line || observation.kind == SourceKind::Otel;
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other fact has text")]
    match &observation.fact {
        Fact::Prompt { text, what: PromptKind::Asked, .. } => emit(None, PassageClass::Prompt, *text),
        Fact::Message { text, .. } => emit(None, PassageClass::Message, *text),
        Fact::Thought { text: Some(text), .. } => emit(None, PassageClass::Thought, *text),
        Fact::Spawn(Spawn { agent, prompt: Some(prompt), .. }) if names_prompt => {
            emit(*agent, PassageClass::Prompt, *prompt);
        }
        Fact::AgentEnd(end) if is_only_line => {
            for text in [end.report, end.error].into_iter().flatten() {
                emit(end.agent, PassageClass::Message, text);
            }
        }
        Fact::TurnEnd { text: Some(text), .. } if is_only_line => emit(None, PassageClass::Message, *text),
        _ => {}
    }
}

/// Passes on a text with its agent, its class and its call.
type Emit<'e> = dyn FnMut(Option<&str>, PassageClass, CallOf<'_>, RawJson<'_>) + 'e;

/// Passes on the texts of a span. Its agent is the span above it, unless it is one itself.
fn extract_span(span: &TraceSpan, emit: &mut Emit<'_>) {
    let is_agent = matches!(span.kind, SpanKind::Agent | SpanKind::Workflow);
    let agent = if is_agent { Some(span.id) } else { span.parent };
    let agent = agent.map_or_else(String::new, |id| format!("{id:016x}"));
    let mut text = |class: PassageClass, words: &str| {
        let json = serde_json::Value::from(words).to_string();
        emit(Some(&agent), class, CallOf::default(), RawJson { json: &json, offset: u64::MAX });
    };
    // A request repeats the conversation: the prompt of an agent is in its own span.
    if let Some(prompt) = span.prompt.as_deref().filter(|_| is_agent) {
        text(PassageClass::Prompt, prompt);
    }
    for (is_thought, words) in &span.answers {
        text(if *is_thought { PassageClass::Thought } else { PassageClass::Message }, words);
    }
    if span.kind == SpanKind::Call {
        let hex = span.hex_id();
        let id = span.own_id.as_deref().unwrap_or(&hex);
        let failed = !matches!(span.status, SpanStatus::Ok);
        let call = CallOf { id: Some(id), tool: span.name.as_deref(), failed };
        for (class, json) in
            [(PassageClass::ToolInput, &span.input), (PassageClass::ToolResult, &span.result)]
        {
            if let Some(json) = json {
                emit(Some(&agent), class, call, RawJson { json, offset: u64::MAX });
            }
        }
    }
}

impl EncodedTexts {
    /// Counts a text and returns its number; `None` if it repeats one of the same call.
    fn number(&mut self, call: Option<&str>, class: PassageClass) -> Option<u64> {
        if call.is_some_and(|call| !self.of_calls.insert((call.into(), class))) {
            return None;
        }
        self.count += 1;
        Some(self.count - 1)
    }
}

impl AgentLookup {
    fn of<'a>(&'a self, observation: &Observation<'a>) -> &'a str {
        if let Some(file) = &self.file {
            return file;
        }
        match observation.claim {
            Claim::Root(_) => "root",
            Claim::Agent(agent, _) => agent,
            Claim::SpawnedBy(call) => call,
            Claim::Silent
                if observation.session.is_some() && self.identified.as_deref() == observation.session =>
            {
                "root"
            }
            Claim::Silent | Claim::Chain { .. } => "",
        }
    }
}
