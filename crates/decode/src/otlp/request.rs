//! Takes requests apart: lines of files and posted bodies into groups of records.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use prost::{Message as _, bytes::Bytes};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    OTEL_GENAI, OtelSource, conventions, genai,
    json::{self, FileSpan},
    proto::{self, Signal},
    record::{Record, Scope},
};
use crate::{LineError, dialect::LineSession, lenient::Str};

/// Records of one scope, each with its bytes.
pub(crate) struct RecordGroup<R> {
    /// Their producer.
    pub(crate) scope: Scope,
    /// The resource as it was written.
    pub(crate) resource: Option<R>,
    /// The scope as it was written.
    pub(crate) written_scope: Option<R>,
    /// The records.
    pub(crate) records: Vec<(Record, R)>,
}

/// A request, taken apart.
pub(crate) struct Parts<R> {
    /// Its records.
    pub(crate) groups: Vec<RecordGroup<R>>,
    /// What cannot be read: why, and as it was written.
    pub(crate) broken: Vec<(String, R)>,
}

impl<R> Default for Parts<R> {
    fn default() -> Self {
        Self { groups: Vec::new(), broken: Vec::new() }
    }
}

/// A request, or a wrapped one.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Wrapped<'a> {
    path: Str<'a>,
    #[serde(rename = "content_type")]
    content_type: Str<'a>,
    body: Option<&'a RawValue>,
    resource_spans: Option<&'a RawValue>,
    resource_logs: Option<&'a RawValue>,
    resource_metrics: Option<&'a RawValue>,
    #[serde(rename = "type")]
    kind: Str<'a>,
}

impl Wrapped<'_> {
    fn is_request(&self) -> bool {
        self.resource_spans.is_some() || self.resource_logs.is_some() || self.resource_metrics.is_some()
    }
}

/// Reads the records of one line.
///
/// # Errors
/// Why a request cannot be read at all.
pub(crate) fn read_line(
    text: &str,
    each: &mut dyn FnMut(&Scope, Record),
    broken: &mut dyn FnMut(String, &str),
) -> Result<(), LineError> {
    let line: Wrapped<'_> = serde_json::from_str(text)?;
    if line.is_request() {
        return read_json(text, each, broken).map_err(|error| LineError::Foreign(error.into()));
    }
    let Some(body) = line.body else {
        if line.kind.filled().is_some() {
            let span: FileSpan<'_> = serde_json::from_str(text).map_err(|error| {
                LineError::Foreign(format!("a span of the wrong form ({error}), kept as text").into())
            })?;
            span.read().into_iter().for_each(|(scope, record)| each(&scope, record));
            return Ok(());
        }
        return Err("no OpenTelemetry records, kept as text".into());
    };
    if !body.get().starts_with('"') {
        return read_json(body.get(), each, broken).map_err(|error| LineError::Foreign(error.into()));
    }
    let body: String = serde_json::from_str(body.get())?;
    if line.content_type.get().is_some_and(|kind| kind.contains("json")) {
        return read_json(&body, each, broken).map_err(|error| LineError::Foreign(error.into()));
    }
    let bytes =
        STANDARD.decode(body).map_err(|_| LineError::from("a body that is no base64, kept as text"))?;
    let signal = line.path.get().and_then(signal_of).ok_or("a body of no known signal, kept as text")?;
    let parts = take_protobuf(signal, bytes.into()).map_err(|error| LineError::Foreign(error.into()))?;
    for group in parts.groups {
        group.records.into_iter().for_each(|(record, _)| each(&group.scope, record));
    }
    parts.broken.into_iter().for_each(|(why, _)| broken(why, ""));
    Ok(())
}

fn read_json(
    text: &str,
    each: &mut dyn FnMut(&Scope, Record),
    broken: &mut dyn FnMut(String, &str),
) -> Result<(), String> {
    let parts = take_json(text)?;
    for group in parts.groups {
        group.records.into_iter().for_each(|(record, _)| each(&group.scope, record));
    }
    parts.broken.into_iter().for_each(|(why, raw)| broken(why, raw));
    Ok(())
}

/// Returns the signal of a path, also of one with a prefix.
pub(crate) fn signal_of(path: &str) -> Option<Signal> {
    match path.rsplit('/').next()? {
        "traces" => Some(Signal::Traces),
        "logs" => Some(Signal::Logs),
        "metrics" => Some(Signal::Metrics),
        _ => None,
    }
}

/// Takes a request in JSON apart.
///
/// # Errors
/// Why it is none.
pub(crate) fn take_json(text: &str) -> Result<Parts<&str>, String> {
    let wrong = |error: serde_json::Error| {
        format!("no OTLP request (line {}, column {}: {error})", error.line(), error.column())
    };
    if !is_object(text) {
        return Err("no OTLP request: not a JSON object".to_owned());
    }
    let request: json::JsonRequest<'_> = serde_json::from_str(text).map_err(wrong)?;
    let mut parts = Parts::default();
    let signals = [
        (request.resource_spans, Signal::Traces),
        (request.resource_logs, Signal::Logs),
        (request.resource_metrics, Signal::Metrics),
    ];
    for (resources, signal) in signals {
        for raw in resources.into_iter().flatten() {
            take_json_resource(raw, signal, &mut parts);
        }
    }
    Ok(parts)
}

/// Names what a JSON value is that is no object, for a message.
fn json_kind(value: &str) -> &'static str {
    match value.trim_start().as_bytes().first() {
        Some(b'n') => "null",
        Some(b't' | b'f') => "a boolean",
        Some(b'"') => "a string",
        Some(b'[') => "an array",
        _ => "a number",
    }
}

/// Whether JSON is an object: serde reads a list as one, too.
fn is_object(json: &str) -> bool {
    json.trim_start().starts_with('{')
}

fn take_json_resource<'a>(raw: &'a RawValue, signal: Signal, parts: &mut Parts<&'a str>) {
    let group: json::ResourceGroup<'a> = match serde_json::from_str(raw.get()) {
        Ok(group) => group,
        Err(error) => {
            return parts
                .broken
                .push((format!("records of a resource of the wrong form ({error})"), raw.get()));
        }
    };
    for raw in group.scope_spans.into_iter().flatten() {
        let scoped: json::ScopeGroup<'a> = match serde_json::from_str(raw.get()) {
            Ok(scoped) => scoped,
            Err(error) => {
                parts.broken.push((format!("records of a scope of the wrong form ({error})"), raw.get()));
                continue;
            }
        };
        let scope = match json::scope(group.resource, scoped.scope) {
            Ok(scope) => scope,
            Err(why) => {
                parts.broken.push((why, raw.get()));
                continue;
            }
        };
        let mut records = Vec::new();
        for raw in scoped.spans.into_iter().flatten() {
            let (read, what) = match signal {
                Signal::Traces => (json::span(raw), "span"),
                Signal::Logs => (json::log(raw), "log record"),
                Signal::Metrics => (json::metric(raw), "metric"),
            };
            if !is_object(raw.get()) {
                parts
                    .broken
                    .push((format!("a {what} that is {}, not an object", json_kind(raw.get())), raw.get()));
                continue;
            }
            match read {
                Ok(record) => records.push((record, raw.get())),
                Err(error) => parts.broken.push((format!("a {what} of the wrong form ({error})"), raw.get())),
            }
        }
        let (resource, written_scope) = (group.resource.map(RawValue::get), scoped.scope.map(RawValue::get));
        parts.groups.push(RecordGroup { scope, resource, written_scope, records });
    }
}

/// Takes a request in protobuf apart.
///
/// # Errors
/// Why it is none.
pub(crate) fn take_protobuf(signal: Signal, bytes: Bytes) -> Result<Parts<Bytes>, String> {
    let request = proto::ProtoRequest::decode(bytes).map_err(|error| format!("no OTLP request ({error})"))?;
    let mut parts = Parts::default();
    for raw in request.resources {
        let group = match proto::ProtoResourceGroup::decode(raw.clone()) {
            Ok(group) => group,
            Err(error) => {
                parts.broken.push((format!("records of a resource that are no protobuf ({error})"), raw));
                continue;
            }
        };
        for raw in group.scopes {
            let scoped = proto::ProtoScopeGroup::decode(raw.clone())
                .map_err(|error| format!("records of a scope that are no protobuf ({error})"));
            let known = scoped.and_then(|scoped| {
                Ok((proto::scope(group.resource.as_ref(), scoped.scope.as_ref())?, scoped))
            });
            let (scope, scoped) = match known {
                Ok(known) => known,
                Err(why) => {
                    parts.broken.push((why, raw));
                    continue;
                }
            };
            let mut records = Vec::new();
            for raw in scoped.records {
                match proto::record(signal, &raw) {
                    Ok(record) => records.push((record, raw)),
                    Err(why) => parts.broken.push((format!("a record that cannot be read: {why}"), raw)),
                }
            }
            let resource = group.resource.clone();
            parts.groups.push(RecordGroup { scope, resource, written_scope: scoped.scope, records });
        }
    }
    Ok(parts)
}

/// Returns the source of the first record of a line that is of a known program or session; `None` for a line of no such
/// records.
pub fn source_of_line(sources: &[&'static OtelSource], line: &str) -> Option<&'static OtelSource> {
    let mut found = None;
    let each = &mut |scope: &Scope, record: Record| {
        let source = OtelSource::of(sources, scope);
        let is_agents = matches!(&record, Record::Span(span) if conventions::is_genai(&span.attributes));
        if found.is_none() && (is_agents || (source.session)(&record).is_some()) {
            found = Some(source);
        }
    };
    read_line(line, each, &mut |_, _| {}).ok()?;
    found
}

/// Returns the session of the lines' records of one source: the one that all of them name.
pub fn session_of_line(source: &OtelSource, line: &[u8]) -> LineSession {
    let Ok(text) = std::str::from_utf8(line) else { return LineSession::Same };
    let mut sessions: Vec<String> = Vec::new();
    let read = read_line(
        text,
        &mut |scope, record| {
            // A span of another program has the session of its trace.
            let names = !matches!(record, Record::Span(_))
                || !genai::is_foreign(scope)
                || source.dialect != OTEL_GENAI;
            if let Some(session) = (source.session)(&record)
                .filter(|_| names)
                .filter(|session| !sessions.iter().any(|known| known == session))
            {
                sessions.push(session.to_owned());
            }
        },
        &mut |_, _| {},
    );
    match (read, sessions.len()) {
        (Ok(()), 1) => sessions.pop().map_or(LineSession::Same, LineSession::Named),
        (Ok(()), 0) | (Err(_), _) => LineSession::Same,
        (Ok(()), _) => LineSession::Unknown,
    }
}

/// Returns the session that all of these lines name.
pub fn session_of_lines(source: &OtelSource, lines: &[u8]) -> Option<String> {
    let mut found: Option<String> = None;
    for line in lines.split(|byte| *byte == b'\n') {
        match (session_of_line(source, line), &found) {
            (LineSession::Same, _) => {}
            (LineSession::Named(session), None) => found = Some(session),
            (LineSession::Named(session), Some(known)) if session == *known => {}
            (LineSession::Named(_) | LineSession::Unknown, _) => return None,
        }
    }
    found
}
