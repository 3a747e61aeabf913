//! OTLP in protobuf: the messages of opentelemetry-proto 1.x with the fields that are read here, under their numbers.
//!
//! Own messages and not those of the crate `opentelemetry-proto`: each record stays as bytes until it is read alone, so
//! that a broken one costs no other, and a body can be divided by session byte for byte.

use prost::{Message, Oneof, bytes::Bytes};

use super::record::{self, Attributes, Point, Record, SpanEvent, Value, millis};

/// A request of any signal: the field of resources has the same number in all of them.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProtoRequest {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(crate) resources: Vec<Bytes>,
}

/// `ResourceSpans`, `ResourceLogs`, `ResourceMetrics`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProtoResourceGroup {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(crate) resource: Option<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(crate) scopes: Vec<Bytes>,
}

/// `ScopeSpans`, `ScopeLogs`, `ScopeMetrics`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProtoScopeGroup {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(crate) scope: Option<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(crate) records: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct ProtoResource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<ProtoKeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ProtoInstrumentationScope {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct ProtoKeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<ProtoAnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ProtoAnyValue {
    #[prost(oneof = "ProtoKind", tags = "1, 2, 3, 4, 5, 6, 7")]
    value: Option<ProtoKind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum ProtoKind {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(message, tag = "5")]
    List(ProtoArrayValue),
    #[prost(message, tag = "6")]
    Map(ProtoKeyValueList),
    #[prost(bytes = "bytes", tag = "7")]
    Bytes(Bytes),
}

#[derive(Clone, PartialEq, Message)]
struct ProtoArrayValue {
    #[prost(message, repeated, tag = "1")]
    values: Vec<ProtoAnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ProtoKeyValueList {
    #[prost(message, repeated, tag = "1")]
    values: Vec<ProtoKeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ProtoSpan {
    #[prost(bytes = "bytes", tag = "1")]
    trace_id: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    span_id: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    parent_span_id: Bytes,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<ProtoKeyValue>,
    #[prost(message, repeated, tag = "11")]
    events: Vec<ProtoEvent>,
    #[prost(message, optional, tag = "15")]
    status: Option<ProtoStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct ProtoEvent {
    #[prost(fixed64, tag = "1")]
    time_unix_nano: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, repeated, tag = "3")]
    attributes: Vec<ProtoKeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ProtoStatus {
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
struct ProtoLogRecord {
    #[prost(fixed64, tag = "1")]
    time_unix_nano: u64,
    #[prost(fixed64, tag = "11")]
    observed_time_unix_nano: u64,
    #[prost(message, repeated, tag = "6")]
    attributes: Vec<ProtoKeyValue>,
    #[prost(bytes = "bytes", tag = "9")]
    trace_id: Bytes,
    #[prost(bytes = "bytes", tag = "10")]
    span_id: Bytes,
    #[prost(string, tag = "12")]
    event_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct ProtoMetric {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "7")]
    sum: Option<ProtoSum>,
}

#[derive(Clone, PartialEq, Message)]
struct ProtoSum {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<ProtoNumberDataPoint>,
    #[prost(int32, tag = "2")]
    aggregation_temporality: i32,
}

#[derive(Clone, PartialEq, Message)]
struct ProtoNumberDataPoint {
    #[prost(fixed64, tag = "2")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    time_unix_nano: u64,
    #[prost(double, optional, tag = "4")]
    as_double: Option<f64>,
    #[prost(sfixed64, optional, tag = "6")]
    as_int: Option<i64>,
    #[prost(message, repeated, tag = "7")]
    attributes: Vec<ProtoKeyValue>,
}

/// Which records a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Log events.
    Logs,
    /// Metrics.
    Metrics,
}

/// Returns the producer of a group's records.
pub(crate) fn scope(resource: Option<&Bytes>, scope: Option<&Bytes>) -> Result<record::Scope, String> {
    let resource = resource.map(|bytes| ProtoResource::decode(bytes.clone())).transpose();
    let resource = resource.map_err(|error| format!("a resource that is no protobuf ({error})"))?;
    let scope = scope.map(|bytes| ProtoInstrumentationScope::decode(bytes.clone())).transpose();
    let scope = scope.map_err(|error| format!("a scope that is no protobuf ({error})"))?;
    let attributes = attributes(resource.unwrap_or_default().attributes);
    Ok(record::Scope {
        name: scope.unwrap_or_default().name,
        service: attributes.text("service.name").unwrap_or_default().to_owned(),
        version: attributes.text("service.version").map(str::to_owned),
    })
}

/// Reads one record.
pub(crate) fn record(signal: Signal, bytes: &Bytes) -> Result<Record, String> {
    let broken = |error: prost::DecodeError| format!("not protobuf ({error})");
    Ok(match signal {
        Signal::Traces => {
            let span = ProtoSpan::decode(bytes.clone()).map_err(broken)?;
            Record::Span(record::Span {
                trace: id(&span.trace_id)?,
                id: id(&span.span_id)? as u64,
                parent: Some(id(&span.parent_span_id)? as u64).filter(|parent| *parent != 0),
                name: span.name,
                start: millis(span.start_time_unix_nano),
                end: millis(span.end_time_unix_nano),
                is_error: span.status.is_some_and(|status| status.code == 2),
                attributes: attributes(span.attributes),
                events: span.events.into_iter().map(event).collect(),
            })
        }
        Signal::Logs => {
            let log = ProtoLogRecord::decode(bytes.clone()).map_err(broken)?;
            let attributes = attributes(log.attributes);
            let named = attributes.text("event.name").unwrap_or(&log.event_name);
            Record::Log(record::LogEvent {
                time: millis(log.time_unix_nano).or(millis(log.observed_time_unix_nano)),
                name: named.to_owned(),
                trace: id(&log.trace_id)?,
                span: Some(id(&log.span_id)? as u64).filter(|span| *span != 0),
                attributes,
            })
        }
        Signal::Metrics => {
            let ProtoMetric { name, sum } = ProtoMetric::decode(bytes.clone()).map_err(broken)?;
            let ProtoSum { data_points, aggregation_temporality } = sum.unwrap_or_default();
            let point = |point: ProtoNumberDataPoint| Point {
                metric: name.clone(),
                is_cumulative: aggregation_temporality == 2,
                start_ns: point.start_time_unix_nano,
                time_ns: point.time_unix_nano,
                value: point.as_double.or(point.as_int.map(|value| value as f64)).unwrap_or(0.0),
                attributes: attributes(point.attributes),
            };
            Record::Points(data_points.into_iter().map(point).collect())
        }
    })
}

fn event(event: ProtoEvent) -> SpanEvent {
    let ProtoEvent { time_unix_nano, name, attributes: values } = event;
    SpanEvent { name, time: millis(time_unix_nano), attributes: attributes(values) }
}

/// Returns an id of up to 16 bytes; none is 0.
fn id(bytes: &[u8]) -> Result<u128, String> {
    match bytes.len() {
        0 | 8 | 16 => Ok(bytes.iter().fold(0, |id, byte| id << 8 | u128::from(*byte))),
        len => Err(format!("an id of {len} bytes")),
    }
}

fn attributes(values: Vec<ProtoKeyValue>) -> Attributes {
    Attributes(values.into_iter().map(|pair| (pair.key, value(pair.value))).collect())
}

/// Nested values end with the recursion limit of prost.
fn value(any: Option<ProtoAnyValue>) -> Value {
    match any.and_then(|any| any.value) {
        Some(ProtoKind::Text(text)) => Value::Text(text),
        Some(ProtoKind::Bool(truth)) => Value::Bool(truth),
        Some(ProtoKind::Int(number)) => Value::Int(number),
        Some(ProtoKind::Double(number)) => Value::Double(number),
        Some(ProtoKind::List(list)) => {
            Value::List(list.values.into_iter().map(|any| value(Some(any))).collect())
        }
        Some(ProtoKind::Map(map)) => Value::Map(attributes(map.values)),
        Some(ProtoKind::Bytes(_)) | None => Value::Other,
    }
}
