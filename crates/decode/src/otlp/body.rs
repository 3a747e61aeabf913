//! Divides posted bodies into lines to keep: one for each dialect and session, or more for large bodies.
//!
//! A body with the records of one dialect and session is kept byte for byte. Of any other each record is kept as it was
//! written, with its resource and scope; records of other programs, and those without a session, are not kept.
//!
//! A span of an agent program belongs to the session of its trace, which may be known later: it is kept under the id of
//! the trace. So are the other spans of such a trace, which link the spans above and below them.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use prost::{Message as _, bytes::Bytes};
use serde_json::{Value, json};

use subscope_model::TraceSpan;

use super::{
    Encoding, OTEL_GENAI, OtelSource, Signal,
    conventions::is_genai,
    genai::is_foreign,
    proto,
    record::{Record, Scope},
    request::{Parts, RecordGroup, take_json, take_protobuf},
};
use crate::Dialect;

/// Most bytes of a body, decompressed: one that is larger is refused.
pub const MAX_BODY_BYTES: usize = 64 << 20;

/// Bytes of a body above which it is kept in several lines, so that other input is committed in between, and no line is
/// too long to be read again.
const LINE_BYTES: usize = 4 << 20;

/// Why a body is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BodyError(pub String);

/// What is kept of a body for one dialect and session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptLine {
    /// The dialect.
    pub dialect: Dialect,
    /// The session.
    pub session: String,
    /// The line, without its end.
    pub line: Vec<u8>,
    /// Number of its records.
    pub records: u64,
}

/// A body, divided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Divided {
    /// What is kept, in order.
    pub kept: Vec<KeptLine>,
    /// Spans of traces in which no agent program reports anything in this body: they are kept if one does in another.
    pub links: Vec<KeptLine>,
    /// Number of records of other programs, or of no session; without `links`.
    pub foreign: u64,
    /// Why records cannot be read.
    pub broken: Vec<String>,
}

/// Divides the body of a request. The same body is always divided alike.
///
/// # Errors
/// Why it is no request.
pub fn divide(
    signal: Signal,
    encoding: Encoding,
    body: &[u8],
    sources: &[&'static OtelSource],
) -> Result<Divided, BodyError> {
    match encoding {
        Encoding::Json => {
            let text =
                std::str::from_utf8(body).map_err(|error| BodyError(format!("not UTF-8 ({error})")))?;
            let text = text.strip_prefix('\u{feff}').unwrap_or(text);
            let parts = take_json(text).map_err(BodyError)?;
            let whole = || {
                if text.bytes().any(|byte| matches!(byte, b'\n' | b'\r')) {
                    let line = json!({ "path": path(signal), "content_type": JSON, "body": text });
                    line.to_string().into_bytes()
                } else {
                    text.as_bytes().to_vec()
                }
            };
            Ok(divide_parts(parts, body.len(), sources, &whole, &|groups| json_line(signal, groups)))
        }
        Encoding::Protobuf => {
            let parts = take_protobuf(signal, Bytes::copy_from_slice(body)).map_err(BodyError)?;
            let whole = || protobuf_line(signal, body);
            let some = |groups: &[Chosen<'_, Bytes>]| protobuf_line(signal, &protobuf_request(groups));
            Ok(divide_parts(parts, body.len(), sources, &whole, &some))
        }
    }
}

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/x-protobuf";

fn path(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "/v1/traces",
        Signal::Logs => "/v1/logs",
        Signal::Metrics => "/v1/metrics",
    }
}

/// Records of a group that are kept in one line.
struct Chosen<'g, R> {
    group: &'g RecordGroup<R>,
    records: Vec<&'g R>,
}

/// The records of one dialect and session, each with the number of its group.
type Share<'p, R> = (Dialect, Vec<(usize, &'p R)>);

fn divide_parts<R: AsRef<[u8]>>(
    parts: Parts<R>,
    bytes: usize,
    sources: &[&'static OtelSource],
    whole: &dyn Fn() -> Vec<u8>,
    some: &dyn Fn(&[Chosen<'_, R>]) -> Vec<u8>,
) -> Divided {
    let mut divided = Divided::default();
    divided.broken.extend(parts.broken.into_iter().map(|(why, _)| why));
    let groups: Vec<(&RecordGroup<R>, &'static OtelSource)> =
        parts.groups.iter().map(|group| (group, OtelSource::of(sources, &group.scope))).collect();
    let places = Places::of(&groups);
    let mut kept: BTreeMap<(&str, Cow<'_, str>), Share<'_, R>> = BTreeMap::new();
    for (number, (group, source)) in groups.iter().enumerate() {
        for (record, raw) in &group.records {
            let sessions = places.sessions_of(&group.scope, record, source);
            divided.foreign += u64::from(sessions.is_empty());
            for session in sessions {
                let key = (source.dialect.as_str(), session);
                kept.entry(key).or_insert_with(|| (source.dialect, Vec::new())).1.push((number, raw));
            }
        }
    }
    let is_whole = kept.len() == 1 && divided.foreign == 0 && bytes <= LINE_BYTES;
    for ((_, session), (dialect, records)) in kept {
        let is_link = !places.has_agents(&session);
        let mut add = |line: Vec<u8>, count: usize| {
            let kept = KeptLine { dialect, session: session.to_string(), line, records: count as u64 };
            if is_link { divided.links.push(kept) } else { divided.kept.push(kept) }
        };
        if is_whole {
            add(whole(), records.len());
            continue;
        }
        let mut rest = records.as_slice();
        while !rest.is_empty() {
            let mut size = 0;
            let fits = rest.iter().take_while(|(_, raw)| {
                size += raw.as_ref().len();
                size <= LINE_BYTES
            });
            let (now, later) = rest.split_at(fits.count().max(1));
            rest = later;
            let mut chosen: Vec<(usize, Chosen<'_, R>)> = Vec::new();
            for (number, raw) in now {
                match chosen.last_mut().filter(|(known, _)| known == number) {
                    Some((_, last)) => last.records.push(raw),
                    None => chosen.push((*number, Chosen { group: groups[*number].0, records: vec![raw] })),
                }
            }
            let chosen: Vec<Chosen<'_, R>> = chosen.into_iter().map(|(_, chosen)| chosen).collect();
            add(some(&chosen), now.len());
        }
    }
    divided
}

/// Where the records of a body belong.
struct Places<'r> {
    /// The session that a span of each trace names.
    sessions: HashMap<u128, &'r str>,
    /// Traces in which an agent program reports something, by the id of their session.
    agents: HashSet<String>,
}

impl<'r> Places<'r> {
    fn of<R>(groups: &[(&'r RecordGroup<R>, &'static OtelSource)]) -> Self {
        let mut places = Self { sessions: HashMap::new(), agents: HashSet::new() };
        for (group, source) in groups {
            for (record, _) in group.records.iter().filter(|(record, _)| record.trace() != 0) {
                match record {
                    Record::Span(span) if is_of_trace(&group.scope, source) => {
                        if is_genai(&span.attributes) {
                            places.agents.insert(TraceSpan::session_of_trace(span.trace));
                        }
                    }
                    Record::Span(_) | Record::Log(_) | Record::Points(_) => {
                        if let Some(session) = (source.session)(record) {
                            places.sessions.entry(record.trace()).or_insert(session);
                        }
                    }
                }
            }
        }
        places
    }

    /// Whether an agent program reports something in what is kept under a session.
    fn has_agents(&self, session: &str) -> bool {
        TraceSpan::trace_of_session(session).is_none() || self.agents.contains(session)
    }

    /// Returns the sessions of a record: the points of a metric may be of several.
    fn sessions_of(&self, scope: &Scope, record: &'r Record, source: &OtelSource) -> Vec<Cow<'r, str>> {
        match record {
            Record::Points(points) => {
                let mut sessions: Vec<Cow<'_, str>> = Vec::new();
                for point in points {
                    // All harnesses name the session of a point alike.
                    let session =
                        point.attributes.text("session.id").filter(|_| (source.session)(record).is_some());
                    sessions.extend(session.map(Cow::Borrowed).filter(|session| !sessions.contains(session)));
                }
                sessions
            }
            Record::Span(span) if is_of_trace(scope, source) && span.trace != 0 => {
                vec![Cow::Owned(TraceSpan::session_of_trace(span.trace))]
            }
            // A span that names no session has that of its trace.
            Record::Span(span) => {
                let by_trace = || self.sessions.get(&span.trace).copied();
                (source.session)(record).or_else(by_trace).map(Cow::Borrowed).into_iter().collect()
            }
            Record::Log(_) => (source.session)(record).map(Cow::Borrowed).into_iter().collect(),
        }
    }
}

/// Whether the session of a span is that of its trace.
fn is_of_trace(scope: &Scope, source: &OtelSource) -> bool {
    source.dialect == OTEL_GENAI && is_foreign(scope)
}

fn json_line(signal: Signal, groups: &[Chosen<'_, &str>]) -> Vec<u8> {
    let (resources, scopes, records) = match signal {
        Signal::Traces => ("resourceSpans", "scopeSpans", "spans"),
        Signal::Logs => ("resourceLogs", "scopeLogs", "logRecords"),
        Signal::Metrics => ("resourceMetrics", "scopeMetrics", "metrics"),
    };
    let written = |raw: &Option<&str>| raw.unwrap_or("null").to_owned();
    let group = |chosen: &Chosen<'_, &str>| {
        let all: Vec<&str> = chosen.records.iter().map(|raw| **raw).collect();
        format!(
            r#"{{"resource":{},"{scopes}":[{{"scope":{},"{records}":[{}]}}]}}"#,
            written(&chosen.group.resource),
            written(&chosen.group.written_scope),
            all.join(",")
        )
    };
    let all: Vec<String> = groups.iter().map(group).collect();
    let mut line = format!(r#"{{"{resources}":[{}]}}"#, all.join(",")).into_bytes();
    // Between tokens only: a text has none.
    line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    line
}

fn protobuf_request(groups: &[Chosen<'_, Bytes>]) -> Vec<u8> {
    let group = |chosen: &Chosen<'_, Bytes>| {
        let records = chosen.records.iter().map(|raw| (*raw).clone()).collect();
        let scoped = proto::ProtoScopeGroup { scope: chosen.group.written_scope.clone(), records };
        let scopes = vec![Bytes::from(scoped.encode_to_vec())];
        let resource = chosen.group.resource.clone();
        Bytes::from(proto::ProtoResourceGroup { resource, scopes }.encode_to_vec())
    };
    proto::ProtoRequest { resources: groups.iter().map(group).collect() }.encode_to_vec()
}

fn protobuf_line(signal: Signal, body: &[u8]) -> Vec<u8> {
    let body = Value::from(STANDARD.encode(body));
    json!({ "path": path(signal), "content_type": PROTOBUF, "body": body }).to_string().into_bytes()
}

#[derive(Clone, PartialEq, prost::Message)]
struct ExportAnswer {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

/// Returns the answer to a request whose records were taken, but for those that cannot be read (OTLP, "Partial
/// Success"), in the request's encoding.
pub fn answer(signal: Signal, encoding: Encoding, broken: &[String]) -> Vec<u8> {
    let rejected = i64::try_from(broken.len()).unwrap_or(i64::MAX);
    let partial_success =
        broken.first().map(|first| PartialSuccess { rejected, error_message: first.clone() });
    match (encoding, partial_success) {
        (Encoding::Protobuf, partial_success) => ExportAnswer { partial_success }.encode_to_vec(),
        (Encoding::Json, None) => b"{}".to_vec(),
        (Encoding::Json, Some(PartialSuccess { rejected, error_message })) => {
            let field = match signal {
                Signal::Traces => "rejectedSpans",
                Signal::Logs => "rejectedLogRecords",
                Signal::Metrics => "rejectedDataPoints",
            };
            // 64-bit numbers are texts in OTLP's JSON.
            let partial = json!({ field: rejected.to_string(), "errorMessage": error_message });
            json!({ "partialSuccess": partial }).to_string().into_bytes()
        }
    }
}
