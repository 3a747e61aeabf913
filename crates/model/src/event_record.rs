//! Events of a session that was read as a whole: their long texts stay in the sources and are read where an event is
//! written, because a session may be larger than memory.

use std::borrow::Cow;

use serde_json::Value;

use crate::{Event, Payload, RawJson};

/// An event whose data may be partly in its source.
pub type EventRecord = Event<EventData>;

/// Data of an event.
#[derive(Clone, Debug, Default)]
pub enum EventData {
    /// None: null.
    #[default]
    Nothing,
    /// As it is in the event.
    Whole(Box<Value>),
    /// As JSON, which takes a fraction of the memory.
    Compact(Box<CompactData>),
}

/// Data of an event as JSON, in which the value of a field may be missing.
#[derive(Clone, Debug)]
pub struct CompactData {
    json: Box<str>,
    missing: Option<MissingField>,
}

/// A field of an event's data that is null there, and where its value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingField {
    /// The field.
    pub name: &'static str,
    /// Whether its value is the text of the JSON, not the JSON.
    pub is_text: bool,
    /// The JSON.
    pub payload: Payload,
}

/// Beginning of the data of a message whose agent is not known yet.
const UNKNOWN_SCOPE: &str = "{\"scope\":null";

impl EventData {
    /// Returns data as JSON.
    pub fn compact(data: &Value, missing: Option<MissingField>) -> Self {
        Self::Compact(Box::new(CompactData { json: data.to_string().into(), missing }))
    }

    /// Returns the data; a missing field is null.
    pub fn known(&self) -> Cow<'_, Value> {
        match self {
            Self::Nothing => Cow::Owned(Value::Null),
            Self::Whole(data) => Cow::Borrowed(data),
            Self::Compact(data) => Cow::Owned(serde_json::from_str(&data.json).unwrap_or_default()),
        }
    }

    /// Changes the data; a missing field is null, and stays missing.
    pub fn edit(&mut self, edit: impl FnOnce(&mut Value)) {
        match self {
            Self::Nothing => {}
            Self::Whole(data) => edit(data),
            Self::Compact(compact) => {
                let mut data = serde_json::from_str(&compact.json).unwrap_or_default();
                edit(&mut data);
                compact.json = data.to_string().into();
            }
        }
    }

    /// Sets `scope`, if the data has it.
    pub fn set_scope(&mut self, scope: &str) {
        match self {
            Self::Nothing => {}
            Self::Whole(data) => {
                data.get_mut("scope").into_iter().for_each(|known| *known = Value::from(scope));
            }
            Self::Compact(data) => {
                if let Some(rest) = data.json.strip_prefix(UNKNOWN_SCOPE) {
                    data.json = format!("{{\"scope\":{}{rest}", Value::from(scope)).into();
                }
            }
        }
    }

    /// Returns where the value of the missing field is.
    pub fn missing_payload(&mut self) -> Option<&mut Payload> {
        match self {
            Self::Nothing | Self::Whole(_) => None,
            Self::Compact(data) => data.missing.as_mut().map(|missing| &mut missing.payload),
        }
    }

    /// Returns the field that is missing, if one is.
    pub fn missing(&self) -> Option<&MissingField> {
        match self {
            Self::Nothing | Self::Whole(_) => None,
            Self::Compact(data) => data.missing.as_ref(),
        }
    }
}

impl EventRecord {
    /// Returns the event; a missing field is null.
    pub fn known(&self) -> Event {
        self.clone().into_event()
    }

    /// Returns the complete event. `resolve` returns the JSON text of a payload, `None` if its source cannot be read any
    /// more.
    pub fn read(&self, resolve: &dyn Fn(&Payload) -> Option<String>) -> Event {
        let mut event = self.known();
        if let Some(MissingField { name, is_text, payload }) = self.data.missing() {
            let json = match payload {
                Payload::Inline(json) => Some(Cow::Borrowed(&**json)),
                Payload::At { .. } => resolve(payload).map(Cow::Owned),
            };
            event.data[*name] = json.map_or(Value::Null, |json| {
                let raw = RawJson { json: &json, offset: 0 };
                if *is_text { Value::from(raw.text()) } else { raw.value() }
            });
        }
        event
    }

    /// Returns the event; a missing field is null.
    pub fn into_event(mut self) -> Event {
        let data = match std::mem::take(&mut self.data) {
            EventData::Whole(data) => *data,
            data @ (EventData::Nothing | EventData::Compact(_)) => data.known().into_owned(),
        };
        self.with_data(data)
    }
}

impl From<Event> for EventRecord {
    fn from(mut event: Event) -> Self {
        let data = EventData::Whole(Box::new(event.data.take()));
        event.with_data(data)
    }
}
