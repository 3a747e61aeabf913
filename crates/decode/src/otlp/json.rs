//! OTLP in JSON, and the lines of a file exporter that is not OTLP.
//!
//! The mapping is that of opentelemetry-proto: ids in hexadecimal, 64-bit numbers as texts or numbers, unknown fields
//! ignored. `null` counts as absent, since exporters write it. Each record is read alone: a broken one costs no other.

use std::borrow::Cow;

use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};
use serde_json::value::RawValue;

use super::record::{self, Attributes, LogEvent, Point, Record, Scope, SpanEvent, Value, millis};
use crate::lenient::{Num, Str};

/// A request of any signal.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct JsonRequest<'a> {
    pub(crate) resource_spans: Option<Vec<&'a RawValue>>,
    pub(crate) resource_logs: Option<Vec<&'a RawValue>>,
    pub(crate) resource_metrics: Option<Vec<&'a RawValue>>,
}

/// Records of one resource.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct ResourceGroup<'a> {
    pub(crate) resource: Option<&'a RawValue>,
    #[serde(alias = "scopeLogs", alias = "scopeMetrics")]
    pub(crate) scope_spans: Option<Vec<&'a RawValue>>,
}

/// Records of one scope.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct ScopeGroup<'a> {
    pub(crate) scope: Option<&'a RawValue>,
    #[serde(alias = "logRecords", alias = "metrics")]
    pub(crate) spans: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JsonResource {
    attributes: Option<Pairs>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InstrumentationScope {
    name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct JsonSpan {
    trace_id: Hex,
    span_id: Hex,
    parent_span_id: Hex,
    name: Option<String>,
    start_time_unix_nano: Whole,
    end_time_unix_nano: Whole,
    attributes: Option<Pairs>,
    events: Option<Vec<Option<JsonEvent>>>,
    status: Option<JsonStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct JsonEvent {
    time_unix_nano: Whole,
    name: Option<String>,
    attributes: Option<Pairs>,
}

/// The status of a span. The name of a code is not OTLP's, and known all the same.
#[derive(Default, Deserialize)]
#[serde(default)]
struct JsonStatus {
    code: Code,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LogRecord {
    time_unix_nano: Whole,
    observed_time_unix_nano: Whole,
    event_name: Option<String>,
    attributes: Option<Pairs>,
    trace_id: Hex,
    span_id: Hex,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metric {
    name: Option<String>,
    sum: Option<Sum>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Sum {
    data_points: Option<Vec<Option<NumberDataPoint>>>,
    aggregation_temporality: Code,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NumberDataPoint {
    start_time_unix_nano: Whole,
    time_unix_nano: Whole,
    as_double: Option<Real>,
    as_int: Option<Whole>,
    attributes: Option<Pairs>,
}

#[derive(Default, Deserialize)]
#[serde(transparent)]
struct Pairs(Vec<Option<KeyValue>>);

#[derive(Default, Deserialize)]
#[serde(default)]
struct KeyValue {
    key: Option<String>,
    value: Option<AnyValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AnyValue {
    string_value: Option<String>,
    bool_value: Option<bool>,
    int_value: Option<Whole>,
    double_value: Option<Real>,
    array_value: Option<ArrayValue>,
    kvlist_value: Option<KeyValueList>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ArrayValue {
    values: Option<Vec<Option<AnyValue>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct KeyValueList {
    values: Option<Pairs>,
}

/// A whole number, or its digits as a text. A fraction of zero is none.
#[derive(Clone, Copy, Default)]
struct Whole(i128);

/// A number, or its text.
#[derive(Clone, Copy, Default)]
struct Real(f64);

/// The number of an enumeration, or the name of a value.
#[derive(Clone, Copy, Default)]
struct Code(i64);

/// An id in hexadecimal; none is 0.
#[derive(Clone, Copy, Default)]
struct Hex(u128);

macro_rules! visitor {
    ($name:ident, $expecting:literal, $($method:ident($kind:ty) $body:expr),+ $(,)?) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Reader;
                impl Visitor<'_> for Reader {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($expecting)
                    }

                    fn visit_unit<E>(self) -> Result<$name, E> {
                        Ok($name::default())
                    }

                    $(fn $method<E: de::Error>(self, value: $kind) -> Result<$name, E> {
                        let read: fn($kind) -> Option<$name> = $body;
                        read(value).ok_or_else(|| E::custom(concat!("not ", $expecting)))
                    })+
                }
                deserializer.deserialize_any(Reader)
            }
        }
    };
}

visitor!(
    Whole,
    "a whole number",
    visit_u64(u64) | number | Some(Whole(number.into())),
    visit_i64(i64) | number | Some(Whole(number.into())),
    visit_f64(f64) | number | (number.fract() == 0.0).then_some(Whole(number as i128)),
    visit_str(&str) | text | text.parse().ok().map(Whole),
);
visitor!(
    Real,
    "a number",
    visit_u64(u64) | number | Some(Real(number as f64)),
    visit_i64(i64) | number | Some(Real(number as f64)),
    visit_f64(f64) | number | Some(Real(number)),
    visit_str(&str) | text | text.parse().ok().map(Real),
);
visitor!(
    Code,
    "the number of an enumeration",
    visit_u64(u64) | number | i64::try_from(number).ok().map(Code),
    visit_i64(i64) | number | Some(Code(number)),
    visit_str(&str)
        | name
        | Some(Code(match name {
            "STATUS_CODE_ERROR" | "AGGREGATION_TEMPORALITY_CUMULATIVE" => 2,
            "STATUS_CODE_OK" | "AGGREGATION_TEMPORALITY_DELTA" => 1,
            _ => 0,
        })),
);
visitor!(
    Hex,
    "an id in hexadecimal",
    visit_str(&str)
        | text
        | match text.len() {
            0 => Some(Hex(0)),
            16 | 32 => u128::from_str_radix(text, 16).ok().map(Hex),
            _ => None,
        },
);

impl Whole {
    fn unsigned(self) -> u64 {
        u64::try_from(self.0).unwrap_or(0)
    }
}

impl From<Option<Pairs>> for Attributes {
    fn from(pairs: Option<Pairs>) -> Self {
        let pairs = pairs.unwrap_or_default().0.into_iter().flatten();
        Self(
            pairs.map(|pair| (pair.key.unwrap_or_default(), value(pair.value.unwrap_or_default()))).collect(),
        )
    }
}

/// Nested values end with the recursion limit of serde_json.
fn value(any: AnyValue) -> Value {
    if let Some(text) = any.string_value {
        Value::Text(text)
    } else if let Some(truth) = any.bool_value {
        Value::Bool(truth)
    } else if let Some(Whole(number)) = any.int_value {
        i64::try_from(number).map_or(Value::Other, Value::Int)
    } else if let Some(Real(number)) = any.double_value {
        Value::Double(number)
    } else if let Some(list) = any.array_value {
        Value::List(
            list.values.unwrap_or_default().into_iter().map(|any| value(any.unwrap_or_default())).collect(),
        )
    } else if let Some(map) = any.kvlist_value {
        Value::Map(map.values.into())
    } else {
        Value::Other
    }
}

/// Returns the producer of a group's records.
pub(crate) fn scope(resource: Option<&RawValue>, scope: Option<&RawValue>) -> Result<Scope, String> {
    let resource: Option<JsonResource> = parse(resource, "resource")?;
    let scope: Option<InstrumentationScope> = parse(scope, "scope")?;
    let attributes = Attributes::from(resource.unwrap_or_default().attributes);
    Ok(Scope {
        name: scope.and_then(|scope| scope.name).unwrap_or_default(),
        service: attributes.text("service.name").unwrap_or_default().to_owned(),
        version: attributes.text("service.version").map(str::to_owned),
    })
}

fn parse<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>, what: &str) -> Result<Option<T>, String> {
    let parsed = raw.map(|raw| serde_json::from_str::<Option<T>>(raw.get())).transpose();
    parsed.map(Option::flatten).map_err(|error| format!("a {what} of the wrong form ({error})"))
}

/// Reads a span.
pub(crate) fn span(raw: &RawValue) -> Result<Record, serde_json::Error> {
    let span: JsonSpan = serde_json::from_str(raw.get())?;
    Ok(Record::Span(record::Span {
        trace: span.trace_id.0,
        id: span.span_id.0 as u64,
        parent: Some(span.parent_span_id.0 as u64).filter(|parent| *parent != 0),
        name: span.name.unwrap_or_default(),
        start: millis(span.start_time_unix_nano.unsigned()),
        end: millis(span.end_time_unix_nano.unsigned()),
        is_error: span.status.is_some_and(|status| status.code.0 == 2),
        attributes: span.attributes.into(),
        events: span.events.unwrap_or_default().into_iter().flatten().map(event).collect(),
    }))
}

fn event(event: JsonEvent) -> SpanEvent {
    SpanEvent {
        name: event.name.unwrap_or_default(),
        time: millis(event.time_unix_nano.unsigned()),
        attributes: event.attributes.into(),
    }
}

/// Reads a log event.
pub(crate) fn log(raw: &RawValue) -> Result<Record, serde_json::Error> {
    let log: LogRecord = serde_json::from_str(raw.get())?;
    let attributes = Attributes::from(log.attributes);
    let name = attributes.text("event.name").map(str::to_owned).or(log.event_name).unwrap_or_default();
    let observed = || millis(log.observed_time_unix_nano.unsigned());
    Ok(Record::Log(LogEvent {
        time: millis(log.time_unix_nano.unsigned()).or_else(observed),
        name,
        trace: log.trace_id.0,
        span: Some(log.span_id.0 as u64).filter(|span| *span != 0),
        attributes,
    }))
}

/// Reads a metric. Only sums have points here.
pub(crate) fn metric(raw: &RawValue) -> Result<Record, serde_json::Error> {
    let Metric { name, sum } = serde_json::from_str(raw.get())?;
    let name = name.unwrap_or_default();
    let Sum { data_points, aggregation_temporality } = sum.unwrap_or_default();
    let point = |point: NumberDataPoint| Point {
        metric: name.clone(),
        is_cumulative: aggregation_temporality.0 == 2,
        start_ns: point.start_time_unix_nano.unsigned(),
        time_ns: point.time_unix_nano.unsigned(),
        value: point.as_double.map(|real| real.0).or(point.as_int.map(|whole| whole.0 as f64)).unwrap_or(0.0),
        attributes: point.attributes.into(),
    };
    Ok(Record::Points(data_points.unwrap_or_default().into_iter().flatten().map(point).collect()))
}

/// A line of the file exporter of OpenTelemetry's JavaScript SDK: one span, its attributes as an object, its times as
/// seconds and nanoseconds. Observed: fixtures `copilot/*/*/otel.jsonl`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct FileSpan<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    trace_id: Hex,
    span_id: Hex,
    parent_span_id: Hex,
    name: Str<'a>,
    start_time: Option<[Num; 2]>,
    end_time: Option<[Num; 2]>,
    attributes: Option<serde_json::Map<String, serde_json::Value>>,
    status: Option<JsonStatus>,
    resource: Option<FileResource>,
    instrumentation_scope: Option<InstrumentationScope>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FileResource {
    attributes: Option<serde_json::Map<String, serde_json::Value>>,
}

impl FileSpan<'_> {
    /// Returns the span and its producer; `None` for a line of another kind.
    pub(crate) fn read(self) -> Option<(Scope, Record)> {
        if !self.kind.is("span") {
            return None;
        }
        let resource = plain(self.resource.and_then(|resource| resource.attributes));
        let scope = Scope {
            name: self.instrumentation_scope.and_then(|scope| scope.name).unwrap_or_default(),
            service: resource.text("service.name").unwrap_or_default().to_owned(),
            version: resource.text("service.version").map(str::to_owned),
        };
        let time = |time: Option<[Num; 2]>| {
            let [seconds, nanos] = time?.map(|part| part.0.unwrap_or(0));
            millis(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
        };
        let span = record::Span {
            trace: self.trace_id.0,
            id: self.span_id.0 as u64,
            parent: Some(self.parent_span_id.0 as u64).filter(|parent| *parent != 0),
            name: self.name.0.map(Cow::into_owned).unwrap_or_default(),
            start: time(self.start_time),
            end: time(self.end_time),
            is_error: self.status.is_some_and(|status| status.code.0 == 2),
            attributes: plain(self.attributes),
            events: Vec::new(),
        };
        Some((scope, Record::Span(span)))
    }
}

/// Returns the attributes of a JSON object.
fn plain(object: Option<serde_json::Map<String, serde_json::Value>>) -> Attributes {
    fn value(json: serde_json::Value) -> Value {
        match json {
            serde_json::Value::String(text) => Value::Text(text),
            serde_json::Value::Bool(truth) => Value::Bool(truth),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(whole) => Value::Int(whole),
                None => number.as_f64().map_or(Value::Other, Value::Double),
            },
            serde_json::Value::Array(values) => Value::List(values.into_iter().map(value).collect()),
            serde_json::Value::Object(fields) => Value::Map(plain(Some(fields))),
            serde_json::Value::Null => Value::Other,
        }
    }
    Attributes(object.unwrap_or_default().into_iter().map(|(key, json)| (key, value(json))).collect())
}
