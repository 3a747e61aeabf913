//! Requests of OpenTelemetry as ingests: one for each dialect and session of a body, known by the body's hash, so that
//! the same body counts once.

use sha2::{Digest as _, Sha256};
use subscope_harness::{Encoding, Signal, divide_otlp};
use subscope_model::safe_id;

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
    /// Number of records of other programs or of no session, which are not kept.
    pub foreign: u64,
    /// Why some records cannot be read.
    pub broken: Vec<String>,
}

/// Returns the ingests of a body. The same body is always divided alike, into ingests with the same keys.
///
/// # Errors
/// Why it is no request.
pub fn otlp_ingests(signal: Signal, encoding: Encoding, body: &[u8]) -> Result<OtlpIngests, String> {
    let divided = divide_otlp(signal, encoding, body).map_err(|error| error.to_string())?;
    let hash: String = Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect();
    let mut all = OtlpIngests { foreign: divided.foreign, broken: divided.broken, ..OtlpIngests::default() };
    for (number, kept) in divided.kept.into_iter().enumerate() {
        all.records += kept.records;
        all.ingests.push(Ingest {
            source: SOURCE.to_owned(),
            session: Some(safe_id(&kept.session).into_owned()),
            dialect: Some(kept.dialect),
            key: format!("{hash}/{number}"),
            received_ms: None,
            body: kept.line,
            begins: None,
            asks: Asks::Nothing,
        });
    }
    Ok(all)
}
