//! Export formats, one module each.
//!
//! The functions turn rows and events into bytes. Large payloads are not in the rows: the caller passes a [`Resolve`]
//! for their text. Only `checkpoint` and `iteration` touch files: a checkpoint is a
//! folder that is replaced as a whole, a record of an iteration a folder that is read as a whole.
//!
//! Absent on purpose: network, clock and vendors.

mod atif;
mod checkpoint;
mod checkpoint_lines;
mod compact;
mod csv;
mod execution;
mod feed;
mod format;
mod html;
pub mod iteration;
mod otlp;
mod perfetto;
mod pictures;
mod pool;
mod redact;
#[cfg(test)]
mod sample;
mod session_export;
mod snapshot;
mod spans;
mod trace;

pub use atif::{AtifError, AtifSource, atif_lines, atif_version, write_atif};
pub use checkpoint::{CHECKPOINT_FILE, ImportError, SaveError, read_checkpoint, write_checkpoint};
pub use checkpoint_lines::checkpoint_lines;
pub use csv::csv_table;
pub use execution::{execution, write_execution};
pub use feed::{Shape, write_feed};
pub use format::{Format, FormatEncoding, FormatNeeds, NeededEvents, NeededFacts, UnknownFormat};
pub use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest as OtlpRequest;
pub use otlp::{
    Contents, MAX_LINE_BYTES, MAX_REQUEST_BYTES, SpanId, SpanSource, SpanWriter, encode_otlp, halve_otlp,
    rejected_spans, span_ids,
};
pub use redact::{Mask, Redacted, redact};
pub use session_export::{ExportPage, ExportSource, write_export};
pub use snapshot::{SnapshotHead, masked_line, reduced_texts, snapshot, snapshot_line, tombstone};
pub use trace::{trace, write_trace};

/// Returns the JSON value of a payload; `None` if its source cannot be read any more.
pub type Resolve<'r> = dyn Fn(&subscope_model::Payload) -> Option<serde_json::Value> + 'r;
