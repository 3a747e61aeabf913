//! Writes a session in any format: the one dispatch of the command line and of HTTP.

use std::io::{self, BufWriter, Write};

use serde::Serialize;
use subscope_model::{
    CHECKPOINT_VERSION, Checkpoint, EventRecord, Payload, SessionDetail, SessionText, Spending, Tree,
};

use crate::{
    AtifSource, Format, FormatEncoding, Mask, Redacted, Shape, SpanSource, SpanWriter,
    csv::write_csv,
    execution,
    html::{Saved, write_html},
    perfetto::write_perfetto,
    pictures::without_pictures,
    trace, write_atif, write_execution, write_feed, write_trace,
};

/// A session to be exported, read as far as [`Format::needs`] says.
pub struct ExportSource<'s, T> {
    /// Its rows.
    pub tree: &'s Tree,
    /// Its runs and responses; `None` if only rows are known.
    pub detail: Option<&'s SessionDetail>,
    /// Its events, in order.
    pub events: &'s [EventRecord],
    /// Its prompts, messages and thoughts, in order.
    pub texts: &'s [SessionText],
    /// Returns the JSON text of a payload; `None` if its source cannot be read any more.
    pub resolve: &'s (dyn Fn(&Payload) -> Option<String> + Sync),
    /// Returns OpenTelemetry's name of the provider of a model.
    pub provider: &'s (dyn Fn(Option<&str>) -> Option<&'static str> + Sync),
    /// Form of the lines of a feed.
    pub shape: Shape,
    /// The page of [`Format::Html`].
    pub page: Option<ExportPage<'s, T>>,
}

/// The page that [`Format::Html`] puts a session into.
pub struct ExportPage<'s, T> {
    /// The parts before and after the data.
    pub parts: (&'s str, &'s str),
    /// The timeline that it shows; `None` if nothing has a time.
    pub timeline: Option<T>,
}

/// Bytes that are masked at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Writes a session; nothing for spans of a session of which only rows are known.
///
/// # Errors
/// Errors of the writer; earlier output is not undone. [`io::ErrorKind::NotFound`] for a page that is missing.
pub fn write_export<T: Serialize>(
    format: Format,
    source: &ExportSource<'_, T>,
    mask: Mask,
    out: &mut dyn Write,
) -> io::Result<()> {
    if mask == Mask::Secrets && format.encoding() == FormatEncoding::Json {
        let mut masked = BufWriter::with_capacity(CHUNK_BYTES, Redacted::new(out));
        write_export(format, source, Mask::Nothing, &mut masked)?;
        let masked = masked.into_inner().map_err(io::IntoInnerError::into_error)?;
        return masked.finish().map(drop);
    }
    let ExportSource { tree, detail, events, texts, resolve, provider, shape, page } = source;
    let known = events.iter().map(EventRecord::known);
    let value = |payload: &Payload| serde_json::from_str(&resolve(payload)?).ok();
    match format {
        Format::Trace => write_trace(&trace(tree, known), out),
        Format::Execution => write_execution(tree, &value, out),
        Format::Checkpoint => {
            let subagent_traces = execution(tree, &value);
            let checkpoint = Checkpoint { version: CHECKPOINT_VERSION.to_owned(), subagent_traces };
            Ok(serde_json::to_writer(out, &checkpoint)?)
        }
        Format::Feed => write_feed(events.iter().map(|event| event.read(resolve)), *shape, out),
        Format::Html => {
            let page = page.as_ref().ok_or(io::ErrorKind::NotFound)?;
            let spending = detail.map(|detail| Spending::of(tree, &detail.responses));
            let readable = |payload: &Payload| Some(without_pictures(&resolve(payload)?).into_owned());
            let events = events.iter().map(|event| event.read(&readable));
            let timeline = page.timeline.as_ref();
            let saved = Saved { tree, timeline, spending: spending.as_ref(), events };
            write_html(page.parts, &saved, mask, out)
        }
        Format::Csv => write_csv(tree, mask, out),
        Format::Perfetto => write_perfetto(tree, known, mask, out),
        Format::Otlp => {
            let Some(detail) = detail else { return Ok(()) };
            let source = SpanSource { tree, detail, provider, contents: None, mask };
            SpanWriter::new(&source).write_lines(out)
        }
        Format::Atif => write_atif(&AtifSource { tree, detail: *detail, texts, resolve, mask }, out),
    }
}
