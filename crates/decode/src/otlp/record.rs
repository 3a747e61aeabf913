//! Records of OpenTelemetry: spans, log events and points of metrics, whatever encoding they came in.

use std::{
    fmt::Write as _,
    hash::{BuildHasher, Hash, Hasher},
};

use serde_json::{Map, Number};
use subscope_model::Millis;

/// A value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any number.
    Double(f64),
    /// Values in order.
    List(Vec<Value>),
    /// Values by name.
    Map(Attributes),
    /// Bytes, which no attribute that is read here has; or no value at all.
    Other,
}

impl Value {
    fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Bool(truth) => (*truth).into(),
            Self::Int(number) => (*number).into(),
            Self::Double(number) => Number::from_f64(*number).into(),
            Self::List(values) => values.iter().map(Self::to_json).collect(),
            Self::Map(attributes) => attributes.to_json(),
            Self::Other => serde_json::Value::Null,
        }
    }
}

/// Attributes in order; of several with one name the first counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes(pub Vec<(String, Value)>);

impl Attributes {
    /// Returns the value of a name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Returns a text that is not empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Value::Text(text) => Some(text.as_str()).filter(|text| !text.is_empty()),
            Value::Bool(_)
            | Value::Int(_)
            | Value::Double(_)
            | Value::List(_)
            | Value::Map(_)
            | Value::Other => None,
        }
    }

    /// Returns a whole number, also one that is written as a text or with a fraction, which is cut; `None` if it is
    /// negative.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            Value::Int(number) => u64::try_from(*number).ok(),
            // `as` saturates.
            Value::Double(number) => (*number >= 0.0).then_some(*number as u64),
            Value::Text(text) => text.parse().ok().or_else(|| {
                text.parse::<f64>().ok().filter(|number| *number >= 0.0).map(|number| number as u64)
            }),
            Value::Bool(_) | Value::List(_) | Value::Map(_) | Value::Other => None,
        }
    }

    /// Returns any number, also one that is written as a text.
    pub fn decimal(&self, name: &str) -> Option<f64> {
        match self.get(name)? {
            Value::Int(number) => Some(*number as f64),
            Value::Double(number) => Some(*number),
            Value::Text(text) => text.parse().ok(),
            Value::Bool(_) | Value::List(_) | Value::Map(_) | Value::Other => None,
        }
        .filter(|number: &f64| number.is_finite())
    }

    /// Returns a truth value, also one that is written as a text.
    pub fn flag(&self, name: &str) -> Option<bool> {
        match self.get(name)? {
            Value::Bool(truth) => Some(*truth),
            Value::Text(text) => text.parse().ok(),
            Value::Int(_) | Value::Double(_) | Value::List(_) | Value::Map(_) | Value::Other => None,
        }
    }

    /// Returns the texts of a list, or the one text.
    pub fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        let values = match self.get(name) {
            Some(Value::List(values)) => values.as_slice(),
            Some(value @ Value::Text(_)) => std::slice::from_ref(value),
            Some(Value::Bool(_) | Value::Int(_) | Value::Double(_) | Value::Map(_) | Value::Other) | None => {
                &[]
            }
        };
        values.iter().filter_map(|value| match value {
            Value::Text(text) => Some(text.as_str()),
            Value::Bool(_)
            | Value::Int(_)
            | Value::Double(_)
            | Value::List(_)
            | Value::Map(_)
            | Value::Other => None,
        })
    }

    /// Returns them as a JSON object.
    pub fn to_json(&self) -> serde_json::Value {
        let fields: Map<_, _> =
            self.0.iter().rev().map(|(name, value)| (name.clone(), value.to_json())).collect();
        fields.into()
    }

    /// Drops long texts. The rest is enough to find a record's agent and how it ended.
    pub(crate) fn drop_long_texts(&mut self, most: usize) {
        self.0.retain(|(_, value)| !matches!(value, Value::Text(text) if text.len() > most));
    }

    fn hash(&self, hasher: &mut impl Hasher) {
        for (name, value) in &self.0 {
            name.hash(hasher);
            value.to_json().to_string().hash(hasher);
        }
    }
}

/// The producer of records: instrumentation scope and service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scope {
    /// Name of the instrumentation scope; may be empty.
    pub name: String,
    /// `service.name` of the resource; may be empty.
    pub service: String,
    /// `service.version` of the resource.
    pub version: Option<String>,
}

/// A span. Spans are reported when they have ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Span {
    /// Its trace; 0 if it names none.
    pub trace: u128,
    /// Its id; 0 if it names none.
    pub id: u64,
    /// The span that it is a part of.
    pub parent: Option<u64>,
    /// Its name.
    pub name: String,
    /// When it began.
    pub start: Option<Millis>,
    /// When it ended.
    pub end: Option<Millis>,
    /// Whether its status is an error.
    pub is_error: bool,
    /// Its attributes.
    pub attributes: Attributes,
    /// What happened in it.
    pub events: Vec<SpanEvent>,
}

impl Span {
    /// Returns its id as every format writes it.
    pub fn hex_id(&self) -> String {
        let mut hex = String::with_capacity(16);
        // Writing to a string cannot fail.
        let _ = write!(hex, "{:016x}", self.id);
        hex
    }
}

/// Something that happened in a span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpanEvent {
    /// Its name.
    pub name: String,
    /// When.
    pub time: Option<Millis>,
    /// Its attributes.
    pub attributes: Attributes,
}

/// A log event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogEvent {
    /// When.
    pub time: Option<Millis>,
    /// Its name: the event's, else the attribute `event.name`; may be empty.
    pub name: String,
    /// Trace of the span in which it happened; 0 if it names none.
    pub trace: u128,
    /// The span in which it happened.
    pub span: Option<u64>,
    /// Its attributes.
    pub attributes: Attributes,
}

impl LogEvent {
    /// Returns a text that is equal only for the same event of one program: a record may be sent again.
    pub fn identity(&self) -> String {
        let mut hasher = foldhash::quality::FixedState::with_seed(5).build_hasher();
        self.name.hash(&mut hasher);
        self.attributes.hash(&mut hasher);
        format!("log/{}/{:016x}", self.time.unwrap_or(0), hasher.finish())
    }
}

/// A point of a sum.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// Name of the metric.
    pub metric: String,
    /// Whether its value is that of all the time since `start_ns`, not only since the point before.
    pub is_cumulative: bool,
    /// Begin of its time in nanoseconds.
    pub start_ns: u64,
    /// End of its time in nanoseconds.
    pub time_ns: u64,
    /// Its value.
    pub value: f64,
    /// Its attributes.
    pub attributes: Attributes,
}

impl Point {
    /// Returns a hash of the series that it belongs to; for a point that is added to others, of itself.
    pub fn series(&self) -> u64 {
        let mut hasher = foldhash::quality::FixedState::with_seed(6).build_hasher();
        self.metric.hash(&mut hasher);
        self.start_ns.hash(&mut hasher);
        if !self.is_cumulative {
            self.time_ns.hash(&mut hasher);
        }
        self.attributes.hash(&mut hasher);
        hasher.finish()
    }
}

/// A record.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A span.
    Span(Span),
    /// A log event.
    Log(LogEvent),
    /// Points of a metric.
    Points(Vec<Point>),
}

impl Record {
    /// Returns its attributes; of a metric those of its first point.
    pub fn attributes(&self) -> Option<&Attributes> {
        match self {
            Self::Span(span) => Some(&span.attributes),
            Self::Log(log) => Some(&log.attributes),
            Self::Points(points) => points.first().map(|point| &point.attributes),
        }
    }

    /// Returns its trace; 0 if it names none.
    pub fn trace(&self) -> u128 {
        match self {
            Self::Span(span) => span.trace,
            Self::Log(log) => log.trace,
            Self::Points(_) => 0,
        }
    }
}

/// Returns a time in nanoseconds as milliseconds; 0 is none.
pub(crate) fn millis(ns: u64) -> Option<Millis> {
    (ns > 0).then_some((ns / 1_000_000) as Millis)
}
