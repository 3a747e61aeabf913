//! Pending events: events from observations, before their actor is known.
//!
//! A pending event owns its data; [`crate::feed`] adds actor, basis and run when it publishes the event. Starts
//! and ends of agents and runs are derived from rows instead (`lifecycle`), so that each is published once however
//! often sources repeat it.

use serde_json::{Value, json};
use subscope_decode::{Dialect, otlp::SPAN_LINE};
use subscope_model::{
    Basis, CallBegin, CallEnd, Claim, EventData, EventKind, Fact, Millis, MissingField, Observation, Outcome,
    Payload, PromptKind, RawJson, Response, SourceId, SourceKind, SourcePosition, StopStep, Text,
    stable_hash,
};
use subscope_track::CallName;

/// An owned claim.
#[derive(Clone, Debug)]
pub(crate) enum OwnedClaim {
    Root(Basis),
    Agent(String, Basis),
    SpawnedBy(String),
    Chain(String),
    Silent,
}

impl OwnedClaim {
    pub(crate) fn borrow(&self) -> Claim<'_> {
        match self {
            Self::Root(basis) => Claim::Root(*basis),
            Self::Agent(id, basis) => Claim::Agent(id, *basis),
            Self::SpawnedBy(call) => Claim::SpawnedBy(call),
            Self::Chain(line) => Claim::Chain { line, parent: None },
            Self::Silent => Claim::Silent,
        }
    }
}

/// An owned [`CallName`].
#[derive(Clone, Debug)]
pub(crate) enum OwnedCall {
    None,
    Id(String),
    Line,
    Response(String),
}

impl OwnedCall {
    fn new(id: Option<&str>) -> Self {
        id.map_or(Self::Line, |id| Self::Id(id.to_owned()))
    }

    pub(crate) fn borrow(&self) -> CallName<'_> {
        match self {
            Self::None => CallName::None,
            Self::Id(id) => CallName::Id(id),
            Self::Line => CallName::Line,
            Self::Response(id) => CallName::Response(id),
        }
    }
}

/// A feed event without its actor.
#[derive(Clone, Debug)]
pub(crate) struct PendingEvent {
    pub(crate) kind: EventKind,
    pub(crate) source_kind: SourceKind,
    pub(crate) dialect: Dialect,
    pub(crate) time: Option<Millis>,
    pub(crate) place: SourcePosition,
    /// Identity of the event within its session: equal for repeats in other sources.
    pub(crate) key: String,
    pub(crate) claim: OwnedClaim,
    /// The tool call whose owner is the actor.
    pub(crate) call: OwnedCall,
    /// Whether it only marks where an agent without times starts or ends: it is not published.
    pub(crate) is_mark: bool,
    /// Hash of the text of a message or thought, which several kinds of sources may report.
    pub(crate) text: Option<u64>,
    /// Where the text is, if only texts are wanted; the event has no other data then.
    pub(crate) text_place: Option<Box<TextPlace>>,
    /// Whether its line has an id, which is that of the same line in other sources.
    pub(crate) has_line_id: bool,
    /// The request of a response, if its source names it.
    pub(crate) request: Option<RequestName>,
    pub(crate) data: EventData,
}

/// The request of a response.
#[derive(Clone, Debug)]
pub(crate) struct RequestName {
    pub(crate) id: Text,
    /// Whether the source names the message, too: the event's key is that of the message then.
    pub(crate) has_message: bool,
}

/// Where the text of a prompt, message or thought is, and what it belongs to.
#[derive(Clone, Debug)]
pub(crate) struct TextPlace {
    pub(crate) message_id: Option<Text>,
    pub(crate) prompt_id: Option<Text>,
    pub(crate) payload: Payload,
}

/// What events are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventUse {
    /// The feed.
    Feed,
    /// The feed, whose long texts are read when they are written.
    Records {
        /// Whether the source cannot be read again.
        is_read_once: bool,
    },
    /// Texts, which are read when they are written: where they are is enough.
    Texts {
        /// Whether the source cannot be read again.
        is_read_once: bool,
    },
}

impl EventUse {
    /// Returns where a text is, if texts are wanted.
    fn place(
        self,
        observation: &Observation<'_>,
        [message_id, prompt_id]: [Option<&str>; 2],
        raw: RawJson<'_>,
    ) -> Option<Box<TextPlace>> {
        let Self::Texts { is_read_once } = self else { return None };
        Some(Box::new(TextPlace {
            message_id: message_id.map(Text::from),
            prompt_id: prompt_id.map(Text::from),
            payload: Payload::of(raw, observation.place.source, is_read_once),
        }))
    }
}

/// Returns the identity of an observation's event within its session, where that follows from ids of its source alone.
pub(crate) fn key_by_id(observation: &Observation<'_>) -> Option<String> {
    let of_line = |kind: &str, text: Option<RawJson<'_>>| {
        observation.line_id.map(|id| text_key(kind, id, text.map(|raw| raw.json)))
    };
    let fact = &observation.fact;
    if let Fact::CallBegin(call) = fact {
        call.id.map(|id| format!("tool/{id}/pre"))
    } else if let Fact::CallEnd(call) = fact {
        call.id.map(|id| format!("tool/{id}/{}", end_word(call.outcome)))
    } else if let Fact::Response(response) = fact {
        response_id(response).map(|id| format!("usage/{id}"))
    } else if let Fact::Message { text, .. } = fact {
        of_line("line", Some(*text))
    } else if let Fact::Thought { text, .. } = fact {
        of_line("thought", *text)
    } else {
        None
    }
}

/// Returns the identity of the event of a line's text. A thought that is encrypted has none.
fn text_key(kind: &str, line: &str, text: Option<&str>) -> String {
    format!("{kind}/{line}/{:x}", stable_hash(text.unwrap_or_default()))
}

/// Returns the id of a response: that of its message, or of its request.
fn response_id<'o>(response: &Response<'o>) -> Option<&'o str> {
    Some(response.message_id).filter(|id| !id.is_empty()).or(response.request_id)
}

fn end_word(outcome: Outcome) -> &'static str {
    if outcome == Outcome::Denied { "denied" } else { "end" }
}

/// Converts an observation to a feed event; `None` if it only affects rows. `label` names its source.
pub(crate) fn to_pending_event(
    observation: &Observation<'_>,
    dialect: Dialect,
    label: &str,
    wanted: EventUse,
) -> Option<PendingEvent> {
    let mut data = DataWriter { wanted, source: observation.place.source, missing: None };
    let mut event = PendingEvent {
        kind: EventKind::Problem,
        source_kind: observation.kind,
        dialect,
        time: observation.time,
        place: observation.place,
        key: String::new(),
        claim: to_owned_claim(&observation.claim),
        call: OwnedCall::None,
        is_mark: false,
        text: None,
        text_place: None,
        // The id of a span is no line's.
        has_line_id: observation.line_id.is_some_and(|line| !line.starts_with(SPAN_LINE)),
        request: None,
        data: EventData::Nothing,
    };
    // Files of several agents may have the same lines at the same offsets, and so may the output of two processes: the
    // lines of one have other times, or none.
    let position = || {
        let at = format!("at/{}/{}", dialect.as_str(), observation.place.offset);
        let is_printed = observation.kind == SourceKind::Stream && observation.line_id.is_none();
        match (&observation.claim, observation.time.filter(|_| is_printed)) {
            (Claim::Agent(agent, _), _) if !is_printed => format!("{at}/{agent}"),
            (_, Some(time)) => format!("{at}/{time}"),
            (_, None) if is_printed => format!("{at}/{:x}", stable_hash(label)),
            (_, None) => at,
        }
    };
    let known_key = key_by_id(observation);
    let line_key = |kind: &str, raw: Option<&str>| match observation.line_id {
        Some(id) => text_key(kind, id, raw),
        None => text_key(kind, &position(), raw),
    };
    match &observation.fact {
        Fact::Prompt { prompt_id, text, what: PromptKind::Asked }
            if matches!(observation.claim, Claim::Root(_)) =>
        {
            event.kind = EventKind::UserPrompt;
            event.key =
                prompt_id.map_or_else(|| line_key("prompt", Some(text.json)), |id| format!("prompt/{id}"));
            // Its key depends on its text.
            event.data = whole(json!({ "text": text.text(), "prompt_id": prompt_id }));
            event.text_place = wanted.place(observation, [None, *prompt_id], *text);
        }
        Fact::Message { message_id, text } => {
            event.kind = EventKind::AgentMessage;
            event.key = known_key.unwrap_or_else(|| line_key("line", Some(text.json)));
            let words = text.text();
            if words.trim().is_empty() {
                return None;
            }
            event.text = Some(stable_hash(&words));
            event.text_place = wanted.place(observation, [*message_id, None], *text);
            if event.text_place.is_none() {
                let words = data.text(*text, words.into());
                event.data = data.write(json!({ "scope": null, "text": words, "message_id": message_id }));
            }
        }
        Fact::Thought { message_id, text } => {
            event.kind = EventKind::Reasoning;
            event.key = known_key.unwrap_or_else(|| line_key("thought", text.map(|raw| raw.json)));
            let words = text.map(|raw| raw.text()).filter(|words| !words.is_empty());
            event.text = words.as_ref().map(|words| stable_hash(&format!("thought/{words}")));
            if let (Some(raw), EventUse::Texts { .. }) = (text, wanted) {
                // One without words has no text.
                words.as_ref()?;
                event.text_place = wanted.place(observation, [*message_id, None], *raw);
            } else {
                let is_encrypted = words.is_none();
                let words = words.zip(*text).map(|(words, raw)| data.text(raw, words.into()));
                let fields = json!({ "text": words, "encrypted": is_encrypted, "message_id": message_id });
                event.data = data.write(fields);
            }
        }
        Fact::Response(response) if response.has_stop_reason && !response.synthetic => {
            event.kind = EventKind::Usage;
            let message = Some(response.message_id).filter(|id| !id.is_empty());
            event.key = known_key?;
            event.call = OwnedCall::Response(response_id(response)?.to_owned());
            let mut fields = json!({
                "message_id": message,
                "model": response.model,
                "usage": response.usage?,
                "cache_write_1h_tokens": response.cache_write_1h,
            });
            if response.price_permille > 0 {
                fields["price_permille"] = Value::from(response.price_permille);
            }
            if response.extra_pico_usd > 0 {
                fields["extra_pico_usd"] = Value::from(response.extra_pico_usd);
            }
            if response.is_unpriced {
                fields["is_unpriced"] = Value::from(true);
            }
            if let Some(request) = response.request_id {
                fields["request_id"] = Value::from(request);
                event.request = Some(RequestName { id: request.into(), has_message: message.is_some() });
            }
            event.data = data.write(fields);
        }
        Fact::CallBegin(call) if !call.hindsight => {
            event.key = known_key.unwrap_or_else(|| format!("{}/pre", position()));
            fill_call_begin(&mut event, call, data);
        }
        Fact::CallEnd(call) if call.outcome != Outcome::Over => {
            event.key = known_key.unwrap_or_else(|| format!("{}/{}", position(), end_word(call.outcome)));
            fill_call_end(&mut event, call, data);
        }
        Fact::Progress { agent, message, tool_calls, total_tokens } => {
            event.kind = EventKind::SubagentProgress;
            event.key = line_key("progress", None);
            event.claim = OwnedClaim::Agent((*agent)?.to_owned(), Basis::Wire);
            event.data = whole(json!({
                "agent_id": agent, "message": message, "tool_calls": tool_calls, "total_tokens": total_tokens,
            }));
        }
        Fact::Retry { agent, attempt, limit, delay_ms, error } if *attempt > 0 => {
            event.kind = EventKind::Retry;
            // Transcripts and streams give the main thread's retries different line ids, but the same random delay.
            event.key = match (&observation.claim, delay_ms) {
                (Claim::Root(_), Some(delay)) => format!("retry/root/{attempt}/{delay}"),
                _ => line_key("retry", None),
            };
            if let Some(agent) = agent {
                event.claim = OwnedClaim::Agent((*agent).to_owned(), Basis::Wire);
            }
            event.data =
                whole(json!({ "attempt": attempt, "limit": limit, "delay_ms": delay_ms, "error": error }));
        }
        Fact::Heartbeat => {
            event.kind = EventKind::Heartbeat;
            event.key = line_key("heartbeat", None);
            event.data = whole(json!({}));
        }
        Fact::Permission { name, class, input, .. } => {
            event.kind = EventKind::PermissionRequest;
            event.key = line_key("permission", input.map(|raw| raw.json));
            let mut data = json!({ "tool_name": name, "input": input.map(|input| input.value()) });
            if let Some(kind) = class.person_wait() {
                data["asks"] = json!(kind);
            }
            event.data = whole(data);
        }
        Fact::SessionStart { source } => {
            event.kind = EventKind::SessionStart;
            event.key = line_key("start", source.as_deref());
            event.data = whole(json!({ "reason": source }));
        }
        Fact::SessionEnd { reason } => {
            event.kind = EventKind::SessionEnd;
            event.key = line_key("end", reason.as_deref());
            event.data = whole(json!({ "reason": reason }));
        }
        Fact::AgentEnd(end) if observation.kind == SourceKind::Hook && end.report.is_some() => {
            event.kind = EventKind::AgentMessage;
            let report = end.report?;
            event.key = line_key("report", Some(report.json));
            let text = report.text().into_owned();
            event.claim = OwnedClaim::Agent(end.agent?.to_owned(), Basis::Wire);
            event.text = Some(stable_hash(&text));
            event.data = whole(json!({ "scope": Value::Null, "text": text, "message_id": Value::Null }));
        }
        Fact::TurnEnd { text: Some(text), .. } if observation.kind == SourceKind::Hook => {
            event.kind = EventKind::AgentMessage;
            event.key = line_key("turn", Some(text.json));
            let text = text.text().into_owned();
            event.text = Some(stable_hash(&text));
            event.data = whole(json!({ "scope": Value::Null, "text": text, "message_id": Value::Null }));
        }
        Fact::Stop { step, call, .. } => {
            event.kind = EventKind::Notification;
            let Claim::Agent(agent, _) = observation.claim else { return None };
            event.key = format!("stop/{}/{agent}/{}", step.as_str(), observation.time.unwrap_or(0));
            let message = match step {
                StopStep::Asked => "asked to stop",
                StopStep::Given => "told to stop",
            };
            event.data = whole(json!({ "agent_id": agent, "message": message, "tool_use_id": call }));
        }
        Fact::Note { kind, data } => {
            event.kind = *kind;
            event.key = line_key("note", Some(data.json));
            event.data = whole(data.value());
        }
        Fact::Spawn(spawn) if spawn.starts && observation.time.is_none() => {
            event.kind = EventKind::SubagentStart;
            event.claim = match (spawn.agent, spawn.call) {
                (Some(agent), _) => OwnedClaim::Agent(agent.to_owned(), Basis::Wire),
                (None, Some(call)) => OwnedClaim::SpawnedBy(call.to_owned()),
                (None, None) => return None,
            };
            event.is_mark = true;
        }
        Fact::AgentEnd(end) if observation.time.is_none() => {
            event.kind = EventKind::SubagentStop;
            event.claim = OwnedClaim::Agent(end.agent?.to_owned(), Basis::Wire);
            event.is_mark = true;
        }
        Fact::Session { .. }
        | Fact::WorkTree(_)
        | Fact::Harness { .. }
        | Fact::Activity
        | Fact::Prompt { .. }
        | Fact::Title { .. }
        | Fact::Response(_)
        | Fact::CallBegin(_)
        | Fact::CallEnd(_)
        | Fact::Spawn(_)
        | Fact::AgentEnd(_)
        | Fact::TurnEnd { .. }
        | Fact::Retry { .. }
        | Fact::Checksum(_)
        | Fact::VendorCost { .. }
        | Fact::Totals { .. }
        | Fact::ProcessEnd(_)
        | Fact::ProcessActivity { .. }
        | Fact::AwaitsPrompt
        | Fact::Warmup
        | Fact::Uncounted
        | Fact::TurnStart
        | Fact::PermissionReply { .. }
        | Fact::WireHasIdentity
        | Fact::Span(_)
        | Fact::ReportsQuestions => return None,
    }
    Some(event)
}

fn whole(data: Value) -> EventData {
    EventData::Whole(Box::new(data))
}

/// Makes the data of events as they are wanted: with their long values, or with the places of these.
struct DataWriter {
    wanted: EventUse,
    source: SourceId,
    missing: Option<MissingField>,
}

impl DataWriter {
    /// Returns a value; null if it is left out.
    fn value(&mut self, name: &'static str, raw: Option<RawJson<'_>>) -> Option<Value> {
        let raw = raw?;
        Some(if self.leaves_out(name, false, raw) { Value::Null } else { raw.value() })
    }

    /// Returns the text `words` of a value; null if it is left out.
    fn text(&mut self, raw: RawJson<'_>, words: String) -> Value {
        if self.leaves_out("text", true, raw) { Value::Null } else { Value::from(words) }
    }

    fn leaves_out(&mut self, name: &'static str, is_text: bool, raw: RawJson<'_>) -> bool {
        let EventUse::Records { is_read_once } = self.wanted else { return false };
        let payload = Payload::of(raw, self.source, is_read_once);
        self.missing = Some(MissingField { name, is_text, payload });
        true
    }

    fn write(self, data: Value) -> EventData {
        match self.wanted {
            EventUse::Records { .. } => EventData::compact(&data, self.missing),
            EventUse::Feed | EventUse::Texts { .. } => whole(data),
        }
    }
}

fn fill_call_begin(event: &mut PendingEvent, call: &CallBegin<'_>, mut data: DataWriter) {
    event.kind = EventKind::ToolPre;
    event.call = OwnedCall::new(call.id);
    let mut fields = json!({
        "tool_use_id": call.id, "tool_name": call.name, "input": data.value("input", call.input), "detail": call.detail,
    });
    if !call.writes.is_empty() {
        fields["writes"] = json!(call.writes);
    }
    if let Some(timeout) = call.timeout_s {
        fields["timeout_seconds"] = Value::from(timeout);
    }
    event.data = data.write(fields);
}

fn fill_call_end(event: &mut PendingEvent, call: &CallEnd<'_>, mut data: DataWriter) {
    let (kind, field) = match call.outcome {
        Outcome::Ok | Outcome::Over => (EventKind::ToolPost, "result"),
        Outcome::Error | Outcome::Interrupted => (EventKind::ToolFailure, "error"),
        Outcome::Denied => (EventKind::PermissionDenied, "error"),
    };
    event.kind = kind;
    event.call = OwnedCall::new(call.id);
    let mut fields = json!({
        "tool_use_id": call.id, "tool_name": call.name, field: data.value(field, call.result),
        "duration_ms": call.duration_ms,
    });
    if call.outcome == Outcome::Interrupted {
        fields["interrupted"] = Value::Bool(true);
    }
    event.data = data.write(fields);
}

fn to_owned_claim(claim: &Claim<'_>) -> OwnedClaim {
    match claim {
        Claim::Root(basis) => OwnedClaim::Root(*basis),
        Claim::Agent(id, basis) => OwnedClaim::Agent((*id).to_owned(), *basis),
        Claim::SpawnedBy(call) => OwnedClaim::SpawnedBy((*call).to_owned()),
        Claim::Chain { line, .. } => OwnedClaim::Chain((*line).to_owned()),
        Claim::Silent => OwnedClaim::Silent,
    }
}
