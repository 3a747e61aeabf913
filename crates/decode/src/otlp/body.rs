//! Divides posted bodies into lines to keep: one for each dialect and session, or more for large bodies.
//!
//! A body with the records of one dialect and session is kept byte for byte. Of any other each record is kept as it was
//! written, with its resource and scope; records of other programs, and those without a session, are not kept.

use std::collections::{BTreeMap, HashMap};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use prost::{Message as _, bytes::Bytes};
use serde_json::{Value, json};

use super::{
    Encoding, OtelSource, Signal, proto,
    record::Record,
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
    /// Number of records of other programs, or of no session.
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
    // A span that names no session has that of its trace.
    let mut traces: HashMap<u128, &str> = HashMap::new();
    for (group, source) in &groups {
        for (record, _) in &group.records {
            if let (Some(session), true) = ((source.session)(record), record.trace() != 0) {
                traces.entry(record.trace()).or_insert(session);
            }
        }
    }
    let mut kept: BTreeMap<(&str, &str), Share<'_, R>> = BTreeMap::new();
    for (number, (group, source)) in groups.iter().enumerate() {
        for (record, raw) in &group.records {
            let sessions = sessions_of(record, source, &traces);
            divided.foreign += u64::from(sessions.is_empty());
            for session in sessions {
                let key = (source.dialect.as_str(), session);
                kept.entry(key).or_insert_with(|| (source.dialect, Vec::new())).1.push((number, raw));
            }
        }
    }
    let is_whole = kept.len() == 1 && divided.foreign == 0 && bytes <= LINE_BYTES;
    for ((_, session), (dialect, records)) in kept {
        let mut add = |line: Vec<u8>, count: usize| {
            divided.kept.push(KeptLine { dialect, session: session.to_owned(), line, records: count as u64 });
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

/// Returns the sessions of a record: the points of a metric may be of several.
fn sessions_of<'r>(record: &'r Record, source: &OtelSource, traces: &HashMap<u128, &'r str>) -> Vec<&'r str> {
    if let Record::Points(points) = record {
        let mut sessions: Vec<&str> = Vec::new();
        for point in points {
            // All harnesses name the session of a point alike.
            let session = point.attributes.text("session.id").filter(|_| (source.session)(record).is_some());
            sessions.extend(session.filter(|session| !sessions.contains(session)));
        }
        return sessions;
    }
    let by_trace = || {
        let is_span = matches!(record, Record::Span(_));
        traces.get(&record.trace()).copied().filter(|_| is_span)
    };
    (source.session)(record).or_else(by_trace).into_iter().collect()
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
