//! Requests of OpenTelemetry as ingests: one for each dialect and session of a body, known by the body's hash, so that
//! the same body counts once.
//!
//! A trace of an agent program has spans of other programs, such as a web server's: they link the spans above and below
//! them. They are kept once an agent program has reported something in their trace, before or after them.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use sha2::{Digest as _, Sha256};
use subscope_harness::{Encoding, KeptLine, Signal, divide_otlp};
use subscope_model::safe_id;

use crate::command::{Asks, Ingest};

/// Partition of the inbox of all posted records.
const SOURCE: &str = "otlp";

/// Most traces of agent programs that are remembered: of one that was forgotten, spans of other programs that come alone
/// are not kept.
const MAX_TRACES: usize = 100_000;

/// Most bytes of spans that wait for an agent program in their trace.
const MAX_WAITING_BYTES: usize = 16 << 20;

/// A posted body, divided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtlpIngests {
    /// The ingests, in order; none if nothing of it is kept.
    pub ingests: Vec<Ingest>,
    /// Number of records in them.
    pub records: u64,
    /// Number of records of other programs or of no session, which are not kept.
    pub foreign: u64,
    /// Why some records cannot be read.
    pub broken: Vec<String>,
}

/// What is remembered of traces between two bodies.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceLinks(Arc<Mutex<LinkMemory>>);

/// Traces of agent programs, and spans of other traces.
#[derive(Debug, Default)]
struct LinkMemory {
    /// Ids of the sessions of traces in which an agent program has reported something, and their order.
    known: HashSet<String>,
    known_order: VecDeque<String>,
    /// Spans of other traces, by the session of their trace, and the order in which these came.
    waiting: HashMap<String, Vec<(Ingest, u64)>>,
    waiting_order: VecDeque<String>,
    waiting_bytes: usize,
}

impl LinkMemory {
    /// Records that an agent program has reported something in a trace. Returns the spans that waited for that.
    fn know(&mut self, session: &str) -> Vec<(Ingest, u64)> {
        if !self.known.insert(session.to_owned()) {
            return Vec::new();
        }
        self.known_order.push_back(session.to_owned());
        if self.known_order.len() > MAX_TRACES
            && let Some(oldest) = self.known_order.pop_front()
        {
            self.known.remove(&oldest);
        }
        let waiting = self.waiting.remove(session).unwrap_or_default();
        if !waiting.is_empty() {
            self.waiting_order.retain(|known| known != session);
        }
        self.waiting_bytes -= waiting.iter().map(|(ingest, _)| ingest.body.len()).sum::<usize>();
        waiting
    }

    /// Keeps spans until an agent program reports something in their trace. Above the bound the oldest go.
    fn wait(&mut self, session: String, ingest: Ingest, records: u64) {
        self.waiting_bytes += ingest.body.len();
        let known = self.waiting.entry(session.clone()).or_default();
        if known.is_empty() {
            self.waiting_order.push_back(session);
        }
        known.push((ingest, records));
        while self.waiting_bytes > MAX_WAITING_BYTES
            && let Some(oldest) = self.waiting_order.pop_front()
        {
            let dropped = self.waiting.remove(&oldest).unwrap_or_default();
            self.waiting_bytes -= dropped.iter().map(|(ingest, _)| ingest.body.len()).sum::<usize>();
        }
    }
}

fn ingest(hash: &str, number: usize, kept: KeptLine) -> Ingest {
    Ingest {
        source: SOURCE.to_owned(),
        session: Some(safe_id(&kept.session).into_owned()),
        dialect: Some(kept.dialect),
        key: format!("{hash}/{number}"),
        received_ms: None,
        body: kept.line,
        begins: None,
        asks: Asks::Nothing,
    }
}

impl TraceLinks {
    /// Returns the ingests of a body. The same body is always divided alike, into ingests with the same keys.
    ///
    /// # Errors
    /// Why it is no request.
    pub(crate) fn ingests(
        &self,
        signal: Signal,
        encoding: Encoding,
        body: &[u8],
    ) -> Result<OtlpIngests, String> {
        let divided = divide_otlp(signal, encoding, body).map_err(|error| error.to_string())?;
        let hash: String = Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect();
        let mut all =
            OtlpIngests { foreign: divided.foreign, broken: divided.broken, ..OtlpIngests::default() };
        let links = divided.kept.len();
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, kept) in divided.kept.into_iter().enumerate() {
            let waited = memory.know(&kept.session);
            all.records += kept.records + waited.iter().map(|(_, records)| records).sum::<u64>();
            all.ingests.push(ingest(&hash, number, kept));
            all.ingests.extend(waited.into_iter().map(|(ingest, _)| ingest));
        }
        for (number, kept) in (links..).zip(divided.links) {
            let (session, records) = (kept.session.clone(), kept.records);
            let ingest = ingest(&hash, number, kept);
            if memory.known.contains(&session) {
                all.records += records;
                all.ingests.push(ingest);
            } else {
                all.foreign += records;
                memory.wait(session, ingest, records);
            }
        }
        Ok(all)
    }
}
