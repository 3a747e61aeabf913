//! The decoder of a source of requests, one per line.

use std::collections::HashMap;

use subscope_model::{Claim, Clock, Decoded, Sink, SourceKind};

use super::{
    OtelSource,
    record::{Record, Scope},
    request::read_line,
    spans::SpanTable,
};
use crate::{Emitter, LineDecoder, LineError, lenient::LineText};

/// Most bytes of a broken record that are kept as text.
const KEPT_TEXT_BYTES: usize = 4 << 10;

/// Most traces whose sessions are remembered.
const MAX_TRACES: usize = 10_000;

/// Decodes the records of one dialect.
pub trait RecordDecoder: Send + Sync {
    /// How its records are known.
    fn source(&self) -> &'static OtelSource;

    /// Whether the session of a record is that of all records of its trace together, which others find.
    fn is_placed_by_trace(&self, _scope: &Scope, _record: &Record) -> bool {
        false
    }

    /// Takes note of the records of one line before any of them is decoded: spans may come before those above them.
    fn prepare(&mut self, _scope: &Scope, _record: &Record) {}

    /// Decodes one record: emits its observations. The time and the actor of `out` are not set.
    fn decode(&mut self, scope: &Scope, record: &Record, out: &mut Emitter<'_, '_>);
}

/// Decodes lines of requests with the records of one dialect; those of others are skipped.
pub struct OtelLines<D> {
    records: D,
    /// The dialects of harnesses, to find the dialect of a record.
    sources: Vec<&'static OtelSource>,
    /// The session of records that name none.
    session: Option<String>,
    /// The session that a span of each trace names: others of the trace may name none.
    traces: HashMap<u128, String>,
    /// Records that name no session, until one of their trace does.
    nameless: SpanTable<(), (Scope, Record)>,
}

impl<D: RecordDecoder> OtelLines<D> {
    /// Creates the decoder of a source. `session` is the one that its path or its sender names.
    pub fn new(records: D, sources: Vec<&'static OtelSource>, session: Option<String>) -> Self {
        Self { records, sources, session, traces: HashMap::new(), nameless: SpanTable::default() }
    }
}

impl<D: RecordDecoder> LineDecoder for OtelLines<D> {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let Self { records: decoder, sources, session: hinted, traces, nameless } = self;
        let source = decoder.source();
        let mut own: Vec<(Scope, Record)> = Vec::new();
        let mut broken: Vec<(String, String)> = Vec::new();
        let is_own = |scope: &Scope| OtelSource::of(sources, scope).dialect == source.dialect;
        read_line(
            text.text,
            &mut |scope, record| {
                if is_own(scope) {
                    own.push((scope.clone(), record));
                }
            },
            &mut |why, raw| broken.push((why, cut(raw).to_owned())),
        )?;
        for (why, raw) in &broken {
            let what = format!("{why}, skipped").into();
            sink(Decoded::Problem { place: text.place, what, text: raw });
        }
        let mut all: Vec<(Scope, Record)> = Vec::new();
        for (scope, record) in &own {
            decoder.prepare(scope, record);
            if decoder.is_placed_by_trace(scope, record) {
                continue;
            }
            let (session, trace) = ((source.session)(record), record.trace());
            if let Some(session) = session.filter(|_| trace != 0 && !traces.contains_key(&trace)) {
                if traces.len() >= MAX_TRACES {
                    traces.clear();
                }
                traces.insert(trace, session.to_owned());
                all.extend(nameless.take_waiting(trace as u64));
            }
        }
        all.extend(own);
        for (number, (scope, record)) in (0..).zip(all) {
            let of_trace = || traces.get(&record.trace()).map(String::as_str);
            let session =
                (source.session)(&record).or(hinted.as_deref()).or_else(of_trace).map(str::to_owned);
            let is_placed = decoder.is_placed_by_trace(&scope, &record);
            let session = if is_placed { hinted.clone() } else { session };
            // Metrics name a session for each point.
            if session.is_none() && !is_placed && !matches!(record, Record::Points(_)) {
                if record.trace() != 0 {
                    nameless.wait(record.trace() as u64, (scope, record));
                }
                continue;
            }
            // The same line, with slices that are of no place of it.
            let line = LineText { is_exact: false, ..text };
            let mut out = Emitter::new(SourceKind::Otel, Clock::Otel, Claim::Silent, line, sink);
            // Increasing offsets keep the order of the line's records.
            out.head.place.offset += number;
            out.head.session = session.as_deref();
            decoder.decode(&scope, &record, &mut out);
        }
        Ok(())
    }
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(KEPT_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
