//! The lines of a file of the family: those of one session, or of one agent. Observed: oh-my-pi 18.2.3; version 3 and older
//! ones of pi and OpenClaw in public examples.
//!
//! Flow: line → [`Entry`] → [`Messages`] → observations.
//!
//! Pitfalls: `parentId` is the line before, not the agent above. oh-my-pi rewrites the first line, its title, in place. The
//! line about the end of the process says nothing about success.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Decoder, Emitter, Hint, LineDecoder, LineError, LinesDecoder,
    lenient::{LineText, Str},
};
use subscope_model::{
    Basis, Claim, Clock, EventKind, Fact, Parent, RawJson, Sink, SourceKind, Spawn, TitleOrigin,
    parse_rfc3339,
};

use super::{
    layout,
    messages::{Message, Messages, name_of, parse},
};

/// Decodes one file.
#[derive(Debug)]
pub(super) struct Entries {
    session: Option<String>,
    messages: Messages,
}

/// One line. Fields of all types together.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Entry<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    timestamp: Str<'a>,
    message: Option<&'a RawValue>,
    /// Of the line about the session.
    id: Str<'a>,
    cwd: Str<'a>,
    parent_session: Str<'a>,
    /// Of a title.
    title: Str<'a>,
    name: Str<'a>,
    /// Of the line about an agent.
    agent: Str<'a>,
    custom_type: Str<'a>,
    data: Option<&'a RawValue>,
}

/// How the process ended.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Exit<'a> {
    kind: Str<'a>,
}

/// The conversation was compacted.
const COMPACTED: Fact<'static> =
    Fact::Note { kind: EventKind::CompactPost, data: RawJson { json: "{}", offset: u64::MAX } };

/// Makes a decoder of a file of pi or oh-my-pi.
pub(super) fn of_pi(hint: &Hint) -> Box<dyn Decoder> {
    decoder(hint, Messages::of(hint.agent.clone()))
}

/// Makes a decoder of a file of OpenClaw.
pub(super) fn of_openclaw(hint: &Hint) -> Box<dyn Decoder> {
    decoder(hint, Messages::of_openclaw())
}

fn decoder(hint: &Hint, messages: Messages) -> Box<dyn Decoder> {
    Box::new(LinesDecoder::new(hint.source, Entries { session: hint.session.clone(), messages }))
}

impl Entries {
    fn head<'a>(&self, entry: &Entry<'a>, out: &mut Emitter<'a, '_>) {
        let Some(own) = self.messages.own.as_deref() else {
            let cwd = entry.cwd.0.clone().filter(|cwd| !cwd.is_empty());
            return out.emit_made(Fact::Session { version: None, cwd, model: None, tells_starts: true });
        };
        // The path is that of another machine: its last part alone counts.
        let above = entry.parent_session.filled().and_then(|path| path.rsplit(['/', '\\']).next());
        let above = above.and_then(|file| file.strip_suffix(".jsonl"));
        let by_id = || own.rsplit_once('.').map(|(parent, _)| parent);
        let parent = match above {
            Some(stem) if layout::session_in(stem).is_some() => None,
            Some(stem) => Some(stem),
            None => by_id(),
        };
        out.emit_made(Fact::Spawn(Spawn {
            agent: Some(own),
            parent: Some(parent.map_or(Parent::Root, Parent::Agent)),
            name: Some(name_of(own, parent).into()),
            detached: true,
            ..Spawn::default()
        }));
    }
}

impl LineDecoder for Entries {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let entry: Entry<'_> = serde_json::from_str(text.text)?;
        let Some(kind) = entry.kind.filled() else {
            return Err(LineError::MissingField { item: "a line of a session", field: "type" });
        };
        let own = self.messages.own.clone();
        if kind == "session" && own.is_none() && self.session.is_none() {
            self.session = entry.id.filled().map(str::to_owned);
        }
        let claim = own.as_deref().map_or(Claim::Root(Basis::Link), |own| Claim::Agent(own, Basis::Link));
        let session = self.session.clone();
        let mut out = Emitter::new(SourceKind::Transcript, Clock::Transcript, claim, text, sink);
        out.head.session = session.as_deref();
        out.head.time = entry.timestamp.get().and_then(parse_rfc3339);
        match kind {
            "message" => {
                let message: Message<'_> = parse(entry.message);
                out.head.time = message.time().or(out.head.time);
                let line_id = message.line_id().filter(|_| own.is_none());
                out.head.line_id = line_id.as_deref();
                self.messages.emit(&message, &mut out);
            }
            "custom_message" => {
                self.messages.notice(&serde_json::from_str(text.text).unwrap_or_default(), &mut out);
            }
            "custom" if entry.custom_type.is("session_exit") => {
                let exit: Exit<'_> = parse(entry.data);
                if exit.kind.is("signal") {
                    self.messages.signal(&mut out);
                }
            }
            "custom" if entry.custom_type.is("openclaw:prompt-error") => {
                self.messages.refused(&parse(entry.data), &mut out);
            }
            "session" => self.head(&entry, &mut out),
            "session_init" => {
                let agent_type = entry.agent.0.clone().filter(|kind| !kind.is_empty());
                out.emit_made(Fact::Spawn(Spawn { agent: own.as_deref(), agent_type, ..Spawn::default() }));
            }
            "title" | "session_info" => {
                let origin = if kind == "title" { TitleOrigin::Harness } else { TitleOrigin::Person };
                let title = entry.title.0.clone().or(entry.name.0.clone()).filter(|title| !title.is_empty());
                match (title, own.as_deref()) {
                    (Some(text), None) => out.emit_made(Fact::Title { text, origin }),
                    (None, None) => {
                        out.emit(Fact::Session { version: None, cwd: None, model: None, tells_starts: true });
                    }
                    (_, agent) => out.emit_made(Fact::Spawn(Spawn { agent, ..Spawn::default() })),
                }
            }
            "compaction" => out.emit(COMPACTED),
            // Book-keeping; new types are read like these until they are known.
            _ => self.messages.alive(&mut out),
        }
        Ok(())
    }
}
