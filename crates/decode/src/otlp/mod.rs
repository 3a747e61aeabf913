//! OpenTelemetry records as input: OTLP in JSON and protobuf, as bodies that programs post and as lines of files.
//!
//! [`record`] has the records, [`json`] and [`proto`] read them, [`request`] takes a request apart, and [`lines`] is the
//! decoder of a source of requests: one per line. [`body`] divides a posted body into lines for each dialect and session.
//! [`genai`] decodes the spans of any program that follows the GenAI conventions, and [`spans`] finds what a span is a
//! part of, whatever the order in which spans come. The dialects of harnesses are in the crate `harness`.
//!
//! A line is a request in OTLP/JSON (the format of the Collector's file exporter, and of our own `export --as otlp`), a
//! request with its path and content type (`{"path":…,"content_type":…,"body":…}`, where a body in protobuf is in base64:
//! so posted bodies are kept), or a span of the JavaScript SDK's file exporter.

mod body;
mod conventions;
mod genai;
mod json;
mod lines;
mod messages;
mod proto;
mod record;
mod request;
mod spans;
mod trace;

pub use body::{BodyError, Divided, KeptLine, MAX_BODY_BYTES, answer, divide};
pub use genai::{GENAI_SPANS, OTEL_GENAI, SPAN_LINE};
pub use lines::{OtelLines, RecordDecoder};
pub use proto::Signal;
pub use record::{Attributes, LogEvent, Point, Record, Scope, Span, SpanEvent, Value};
pub use request::{session_of_line, session_of_lines, source_of_line};
pub use spans::SpanTable;
use subscope_model::RawJson;
pub use trace::{CallIds, Trace};

use crate::Dialect;

/// Encoding of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// OTLP/JSON.
    Json,
    /// Protobuf.
    Protobuf,
}

/// The harness that reports as a `service.name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub harness: &'static str,
    /// Whether its users do not pay list prices, but for a subscription.
    pub is_unpriced: bool,
}

/// How the records of one dialect are known.
#[derive(Debug)]
pub struct OtelSource {
    /// The dialect.
    pub dialect: Dialect,
    /// Whether the name of an instrumentation scope is the dialect's.
    pub has_scope: fn(&str) -> bool,
    /// Whether the name of a service is the dialect's, where the scope does not determine it.
    pub has_service: fn(&str) -> bool,
    /// Returns the session of a record; `None` for a record of none.
    pub session: fn(&Record) -> Option<&str>,
}

impl OtelSource {
    /// Returns the source of a scope's records among the sources of all harnesses; that of the GenAI conventions for any
    /// other program.
    pub fn of(sources: &[&'static Self], scope: &Scope) -> &'static Self {
        if (GENAI_SPANS.has_scope)(&scope.name) {
            return &GENAI_SPANS;
        }
        let by_scope = sources.iter().find(|source| (source.has_scope)(&scope.name));
        let by_service = || sources.iter().find(|source| (source.has_service)(&scope.service));
        by_scope.or_else(by_service).copied().unwrap_or(&GENAI_SPANS)
    }
}

/// Returns a text as JSON that no source has at a place.
pub fn made_json(json: &str) -> RawJson<'_> {
    RawJson { json, offset: u64::MAX }
}
