//! OpenCode's events: the append-only log of its database, what its server sends, and what our plugin passes on.
//!
//! Flow: line → [`Envelope`] → [`Payload`] → the object in it → observations of [`Objects`]. A server's line begins with
//! `data:`; `/global/event` wraps each event in another object. Types of the log end with their version (`.1`). The
//! plugin adds the sessions from that of the event up to the root, and the part of a call that a question is about.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError,
    lenient::{LineText, Num, Str},
};
use subscope_model::{Clock, Fact, Sink, SourceKind};

use super::objects::{MessageInfo, Objects, Part, Question, SessionInfo, claim, step_cost};

/// Decodes the events of one source.
#[derive(Debug)]
pub(super) struct Events {
    kind: SourceKind,
    clock: Clock,
    objects: Objects,
}

/// One event.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Envelope<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Str<'a>,
    /// By a server.
    pub(super) properties: Option<&'a RawValue>,
    /// In the log.
    pub(super) data: Option<&'a RawValue>,
    /// By a server, of all folders.
    pub(super) payload: Option<&'a RawValue>,
    /// Of a fork, by us: lines of its database name it.
    pub(super) program: Str<'a>,
    /// By the plugin: the session of the event, the one above it, and so on.
    pub(super) sessions: Option<&'a RawValue>,
    /// By the plugin: the call that a question is about.
    part: Option<&'a RawValue>,
}

/// The data of an event.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Payload<'a> {
    #[serde(rename = "sessionID")]
    session_id: Str<'a>,
    info: Option<&'a RawValue>,
    part: Option<&'a RawValue>,
    time: Num,
    /// Of a question: its id, what is asked for, the details, and the call.
    id: Str<'a>,
    permission: Str<'a>,
    metadata: Option<&'a RawValue>,
    tool: Option<&'a RawValue>,
    /// Of an answer: the question's id.
    #[serde(rename = "requestID")]
    request_id: Str<'a>,
}

impl<'a> Payload<'a> {
    /// The data of an event with a session or message, and perhaps a part.
    pub(super) fn of(info: Option<&'a RawValue>, part: Option<&'a RawValue>) -> Self {
        Self { info, part, ..Self::default() }
    }
}

/// The call that a question is about.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct AskedCall<'a> {
    #[serde(rename = "messageID")]
    message_id: Str<'a>,
    #[serde(rename = "callID")]
    call_id: Str<'a>,
}

impl Events {
    /// A decoder for the source that `hint` describes.
    pub(super) fn new(hint: &Hint, kind: SourceKind, clock: Clock) -> Self {
        Self { kind, clock, objects: Objects::new(hint) }
    }

    /// Emits an event of a type.
    pub(super) fn emit(
        &mut self,
        kind: &str,
        payload: &Payload<'_>,
        text: LineText<'_>,
        sink: &mut Sink<'_>,
    ) {
        let session: SessionInfo<'_> = parse(payload.info.filter(|_| kind.starts_with("session.")));
        let message: MessageInfo<'_> = parse(payload.info.filter(|_| kind == "message.updated"));
        let part: Part<'_> = parse(payload.part);
        self.objects.learn(&session);
        let named = [&payload.session_id, &session.id, &message.session_id, &part.session_id];
        let Some(id) = named.into_iter().find_map(Str::filled) else { return };
        let root = self.objects.root_of(id);
        let is_root = root == id;
        let mut out = Emitter::new(self.kind, self.clock, claim(id, &root), text, sink);
        out.head.session = Some(&root);
        let moments = [
            payload.time,
            message.time.completed,
            message.time.created,
            session.time.updated,
            session.time.created,
        ];
        out.head.time = moments.into_iter().find_map(Num::signed);
        self.objects.name_fork(&part, &mut out);
        match kind {
            "session.created" | "session.updated" => self.objects.session(&session, &mut out),
            "message.updated" => self.objects.message(&message, is_root, &mut out),
            // The message itself has the tokens of its step.
            "message.part.updated" if part.is_step() => step_cost(&part, &mut out),
            "message.part.updated" => self.objects.part(&part, is_root, &mut out),
            "permission.asked" => {
                let call: AskedCall<'_> = parse(payload.tool);
                let question = Question {
                    id: payload.id.filled(),
                    permission: payload.permission.get().unwrap_or_default(),
                    details: payload.metadata,
                    call: call.message_id.filled().zip(call.call_id.filled()),
                };
                self.objects.question(&question, &part, &mut out);
            }
            // The user may have denied a call, which no message reports, but the root's turn has ended.
            "session.idle" if is_root => out.emit(Fact::AwaitsPrompt),
            "permission.replied" => self.objects.reply(payload.request_id.filled(), &part, &mut out),
            _ => out.emit(Fact::Activity),
        }
    }
}

impl LineDecoder for Events {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let Some(object) = object_of(text.text) else { return Ok(()) };
        let mut envelope: Envelope<'_> = serde_json::from_str(object)?;
        if let Some(wrapped) = envelope.payload {
            envelope = parse(Some(wrapped));
        }
        let kind = envelope.kind.get().unwrap_or_default();
        let kind = kind.rsplit_once('.').filter(|(_, end)| is_number(end)).map_or(kind, |(name, _)| name);
        for session in parse::<Vec<SessionInfo<'_>>>(envelope.sessions) {
            self.objects.learn(&session);
        }
        let payload: Payload<'_> = parse(envelope.properties.or(envelope.data));
        self.emit(kind, &Payload { part: payload.part.or(envelope.part), ..payload }, text, sink);
        Ok(())
    }
}

/// Returns the object of a line; `None` for lines of a stream of server-sent events that hold none (`event: …`).
fn object_of(line: &str) -> Option<&str> {
    let line = line.trim();
    match line.strip_prefix("data:") {
        Some(object) => Some(object.trim_start()),
        None => {
            let field = line.split(':').next().unwrap_or_default();
            (!matches!(field, "" | "event" | "id" | "retry")).then_some(line)
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses an object; the default where it is absent or of other types than expected.
fn parse<'a, T: Default + Deserialize<'a>>(raw: Option<&'a RawValue>) -> T {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}
