//! Exports as downloads: one function for all formats.

use std::io::{self, BufWriter, Write};

use subscope_model::{
    CHECKPOINT_VERSION, Checkpoint, EventRecord, Payload, SessionDetail, SessionText, Tree,
};

use crate::{
    AtifSource, Format, Mask, Redacted, Shape, SpanSource, SpanWriter, execution, trace, write_atif,
    write_csv, write_execution, write_feed, write_perfetto, write_trace,
};

/// A session to be exported.
pub struct DownloadSource<'s> {
    /// Its rows.
    pub tree: &'s Tree,
    /// Its runs and responses; `None` if only rows are known.
    pub detail: Option<&'s SessionDetail>,
    /// Its events, in order.
    pub events: &'s [EventRecord],
    /// Returns the JSON text of a payload; `None` if its source cannot be read any more.
    pub resolve: &'s (dyn Fn(&Payload) -> Option<String> + Sync),
    /// Returns OpenTelemetry's name of the provider of a model.
    pub provider: &'s (dyn Fn(Option<&str>) -> Option<&'static str> + Sync),
}

/// Writes a session in any format but `html`, which needs a page; nothing for spans of a session of which only rows are
/// known.
///
/// # Errors
/// Errors of the writer; earlier output is not undone.
pub fn write_download(
    format: Format,
    source: &DownloadSource<'_>,
    mask: Mask,
    out: &mut dyn Write,
) -> io::Result<()> {
    let DownloadSource { tree, detail, events, resolve, provider } = *source;
    let known = events.iter().map(EventRecord::known);
    let value = |payload: &Payload| serde_json::from_str(&resolve(payload)?).ok();
    match format {
        Format::Execution => write_json(out, mask, &mut |out| write_execution(tree, &value, out)),
        Format::Checkpoint => {
            let subagent_traces = execution(tree, &value);
            let checkpoint = Checkpoint { version: CHECKPOINT_VERSION.to_owned(), subagent_traces };
            write_json(out, mask, &mut |out| Ok(serde_json::to_writer(out, &checkpoint)?))
        }
        Format::Atif => {
            let texts: Vec<SessionText> = events.iter().filter_map(SessionText::of_record).collect();
            // It masks what it has by itself, as spans do.
            write_atif(&AtifSource { tree, detail, texts: &texts, resolve, mask }, out)
        }
        Format::Otlp => {
            let Some(detail) = detail else { return Ok(()) };
            let source = SpanSource { tree, detail, provider, contents: None, mask };
            SpanWriter::new(&source).write_lines(out)
        }
        Format::Trace => {
            let trace = trace(tree, known);
            write_json(out, mask, &mut |out| write_trace(&trace, out))
        }
        Format::Feed => {
            let events = || events.iter().map(|event| event.read(resolve));
            write_json(out, mask, &mut |out| write_feed(events(), Shape::Event, out))
        }
        Format::Csv => write_csv(tree, mask, out),
        Format::Perfetto => write_perfetto(tree, known, mask, out),
        Format::Html => Ok(()),
    }
}

/// Bytes that are masked at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Writes JSON, and masks secrets if requested.
fn write_json(
    out: &mut dyn Write,
    mask: Mask,
    write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    match mask {
        Mask::Nothing => write(out),
        Mask::Secrets => {
            let mut masked = BufWriter::with_capacity(CHUNK_BYTES, Redacted::new(out));
            write(&mut masked)?;
            let masked = masked.into_inner().map_err(io::IntoInnerError::into_error)?;
            masked.finish().map(drop)
        }
    }
}
