//! Requests of OpenTelemetry as ingests: one for each dialect and session of a body, known by the body's hash, so that
//! the same body counts once.
//!
//! A trace of an agent program has spans of other programs, such as a web server's: they link the spans above and below
//! them. They are kept once an agent program has reported something in their trace, before or after them, and wait on disk
//! until then.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use sha2::{Digest as _, Sha256};
use subscope_harness::{Encoding, KeptLine, Signal, dialect, divide_otlp};
use subscope_model::{TraceSpan, safe_id};
use subscope_store::{KeyedLine, StoreError, StoreResult, WaitingSpans};

use crate::command::{Asks, Ingest};

/// Partition of the inbox of all posted records.
const SOURCE: &str = "otlp";

/// A posted body, divided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtlpIngests {
    /// The ingests, in order; none if nothing of it is kept.
    pub ingests: Vec<Ingest>,
    /// Number of records in them.
    pub records: u64,
    /// Number of records of other programs or of no session: they are not kept, or not yet.
    pub foreign: u64,
    /// Why some records cannot be read.
    pub broken: Vec<String>,
    /// Those of the ingests that waited on disk.
    pub released: ReleasedSpans,
}

/// Ingests that waited: session of the trace and key of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReleasedSpans(BTreeSet<(String, String)>);

impl ReleasedSpans {
    /// Whether none waited.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Why a posted body was not divided.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    /// It is no request.
    #[error("{0}")]
    Malformed(String),
    /// What waits on disk could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What is known of traces between two bodies.
#[derive(Clone)]
pub(crate) struct TraceLinks(Arc<LinkStore>);

struct LinkStore {
    /// Data folder; `None` for a hub that keeps nothing.
    folder: Option<PathBuf>,
    /// Opened for the first body.
    spans: Mutex<Option<WaitingSpans>>,
}

fn keyed(kept: KeptLine, key: String) -> KeyedLine {
    let KeptLine { dialect, session, line, records } = kept;
    KeyedLine { session, key, dialect: dialect.as_str().to_owned(), records, line }
}

fn ingest(keyed: KeyedLine) -> Ingest {
    Ingest {
        source: SOURCE.to_owned(),
        session: Some(safe_id(&keyed.session).into_owned()),
        dialect: dialect(&keyed.dialect),
        key: keyed.key,
        received_ms: None,
        body: keyed.line,
        begins: None,
        asks: Asks::Nothing,
    }
}

impl TraceLinks {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self(Arc::new(LinkStore { folder, spans: Mutex::new(None) }))
    }

    /// Runs an operation on what waits.
    fn with<T>(&self, run: impl FnOnce(&mut WaitingSpans) -> StoreResult<T>) -> StoreResult<T> {
        let mut opened = self.0.spans.lock().unwrap_or_else(PoisonError::into_inner);
        let spans = match &mut *opened {
            Some(spans) => spans,
            closed => closed.insert(WaitingSpans::open(self.0.folder.as_deref())?),
        };
        run(spans)
    }

    /// Returns the ingests of a body. The same body is always divided alike, into ingests with the same keys.
    ///
    /// # Errors
    /// If it is no request, or what waits cannot be read or written.
    pub(crate) fn ingests(
        &self,
        signal: Signal,
        encoding: Encoding,
        body: &[u8],
    ) -> Result<OtlpIngests, OtlpError> {
        let divided = divide_otlp(signal, encoding, body);
        let divided = divided.map_err(|error| OtlpError::Malformed(error.to_string()))?;
        let hash: String = Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect();
        let mut all =
            OtlpIngests { foreign: divided.foreign, broken: divided.broken, ..OtlpIngests::default() };
        let links = divided.kept.len();
        self.with(|spans| {
            for (number, kept) in divided.kept.into_iter().enumerate() {
                let is_of_trace = TraceSpan::trace_of_session(&kept.session).is_some();
                let waited = if is_of_trace { spans.know(&kept.session)? } else { Vec::new() };
                all.records += kept.records;
                all.ingests.push(ingest(keyed(kept, format!("{hash}/{number}"))));
                for span in waited {
                    if all.released.0.insert((span.session.clone(), span.key.clone())) {
                        all.records += span.records;
                        all.ingests.push(ingest(span));
                    }
                }
            }
            for (number, link) in (links..).zip(divided.links) {
                let span = keyed(link, format!("{hash}/{number}"));
                if spans.wait(&span)? {
                    all.foreign += span.records;
                } else {
                    all.records += span.records;
                    all.ingests.push(ingest(span));
                }
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// Forgets spans that waited: their ingests were acknowledged.
    ///
    /// # Errors
    /// If that cannot be written: they are ingested once more, which changes nothing.
    pub(crate) fn release(&self, released: &ReleasedSpans) -> StoreResult<()> {
        self.with(|waiting| waiting.remove(&released.0))
    }
}
