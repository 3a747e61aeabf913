//! What `opencode export` prints: a session with its messages and their parts, one object.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{Hint, LineDecoder, LineError, lenient::LineText};
use subscope_model::{Clock, Sink, SourceKind};

use super::events::{Events, Payload};
use crate::common::parts::elements;

/// Decodes one such object.
#[derive(Debug)]
pub(super) struct Export(pub(super) Hint);

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Exported<'a> {
    info: Option<&'a RawValue>,
    messages: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ExportedMessage<'a> {
    info: Option<&'a RawValue>,
    parts: Option<&'a RawValue>,
}

impl LineDecoder for Export {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let exported: Exported<'_> = serde_json::from_str(text.text)?;
        let mut events = Events::new(&self.0, SourceKind::Transcript, Clock::Transcript);
        events.emit("session.updated", &Payload::of(exported.info, None), text, sink);
        for message in elements::<ExportedMessage<'_>>(exported.messages) {
            events.emit("message.updated", &Payload::of(message.info, None), text, sink);
            for part in elements::<&RawValue>(message.parts) {
                events.emit("message.part.updated", &Payload::of(None, Some(part)), text, sink);
            }
        }
        Ok(())
    }
}
