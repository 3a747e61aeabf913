//! Exports as downloads, of the formats that need more than rows and events: payloads, runs and responses.

use std::io::{self, Write};

use subscope_model::{CHECKPOINT_VERSION, Checkpoint, Payload, SessionDetail, SessionText, Tree};

use crate::{
    AtifSource, Format, MAX_LINE_BYTES, Mask, Redacted, SpanSource, SpanWriter, execution, write_atif,
    write_execution, write_otlp,
};

/// A session to be exported.
pub struct DownloadSource<'s> {
    /// Its rows.
    pub tree: &'s Tree,
    /// Its runs and responses; `None` if only rows are known.
    pub detail: Option<&'s SessionDetail>,
    /// Its prompts, messages and thoughts, in order.
    pub texts: &'s [SessionText],
    /// Returns the JSON text of a payload; `None` if its source cannot be read any more.
    pub resolve: &'s dyn Fn(&Payload) -> Option<String>,
    /// Returns OpenTelemetry's name of the provider of a model.
    pub provider: &'s dyn Fn(Option<&str>) -> Option<&'static str>,
}

/// Writes a session in a format that needs payloads or details; returns `false`, without output, for another format, and
/// for spans of a session of which only rows are known.
///
/// # Errors
/// Errors of the writer; earlier output is not undone.
pub fn write_download(
    format: Format,
    source: &DownloadSource<'_>,
    mask: Mask,
    out: &mut Vec<u8>,
) -> io::Result<bool> {
    let value = |payload: &Payload| serde_json::from_str(&(source.resolve)(payload)?).ok();
    match format {
        Format::Execution => write_json(out, mask, &mut |out| write_execution(source.tree, &value, out))?,
        Format::Checkpoint => {
            let subagent_traces = execution(source.tree, &value);
            let checkpoint = Checkpoint { version: CHECKPOINT_VERSION.to_owned(), subagent_traces };
            write_json(out, mask, &mut |out| Ok(serde_json::to_writer(out, &checkpoint)?))?;
        }
        Format::Atif => {
            let DownloadSource { tree, detail, texts, resolve, .. } = *source;
            let source = AtifSource { tree, detail, texts, resolve };
            write_json(out, mask, &mut |out| write_atif(&source, out))?;
        }
        Format::Otlp => {
            let Some(detail) = source.detail else { return Ok(false) };
            let (tree, provider) = (source.tree, source.provider);
            // It masks what it has by itself.
            let source = SpanSource { tree, detail, provider, contents: None, mask };
            write_otlp(SpanWriter::new(&source).requests(MAX_LINE_BYTES), out)?;
        }
        Format::Trace | Format::Feed | Format::Html | Format::Csv | Format::Perfetto => return Ok(false),
    }
    Ok(true)
}

/// Writes JSON, and masks secrets if requested.
fn write_json(
    out: &mut Vec<u8>,
    mask: Mask,
    write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    match mask {
        Mask::Nothing => write(out),
        Mask::Secrets => {
            let mut masked = Redacted::new(out);
            write(&mut masked)?;
            masked.finish().map(drop)
        }
    }
}
