//! OTLP/JSON, one request a line: the format of the Collector's file exporter.

use std::io::{self, Write};

use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

use super::{Draft, MAX_LINE_BYTES, SPAN_OVERHEAD_BYTES, SpanWriter};
use crate::pool::in_order;

/// Bytes of contents, and spans, that a thread masks and writes at once.
const BATCH_BYTES: usize = 128 << 10;
const BATCH_SPANS: usize = 128;

/// Spans as JSON.
#[derive(Default)]
struct JsonSpans {
    json: Vec<u8>,
    /// End of each span in the JSON, and its bytes in protobuf.
    spans: Vec<(usize, usize)>,
}

impl SpanWriter<'_> {
    /// Writes the requests of [`SpanWriter::requests`] of at most [`MAX_LINE_BYTES`] as OTLP/JSON, one a line. Contents
    /// are read on this thread, masked and written as JSON on others.
    ///
    /// # Errors
    /// Errors of the writer; earlier output is not undone.
    pub fn write_lines(&self, w: &mut dyn Write) -> io::Result<()> {
        let span = Span::default();
        let (empty, template) = (self.request(Vec::new()).encoded_len(), self.request(vec![span.clone()]));
        let (template, span) = (serde_json::to_string(&template)?, serde_json::to_string(&span)?);
        let (head, tail) = template.split_once(&span).unwrap_or_default();
        let mask = self.source.mask;
        let (mut has_begun, mut bytes) = (false, 0);
        let work = |drafts: Vec<Draft>| {
            let mut out = JsonSpans::default();
            drafts.into_iter().try_for_each(|draft| {
                let span = draft.finish(mask);
                serde_json::to_writer(&mut out.json, &span)?;
                out.spans.push((out.json.len(), span.encoded_len()));
                Ok::<(), serde_json::Error>(())
            })?;
            Ok(out)
        };
        in_order(batches(self.drafts()), work, &mut |made: serde_json::Result<JsonSpans>| {
            let JsonSpans { json, spans } = made?;
            let mut from = 0;
            for (end, length) in spans {
                bytes += length + SPAN_OVERHEAD_BYTES;
                if has_begun && bytes <= MAX_LINE_BYTES {
                    w.write_all(b",")?;
                } else {
                    if has_begun {
                        writeln!(w, "{tail}")?;
                    }
                    w.write_all(head.as_bytes())?;
                    bytes = empty + length + SPAN_OVERHEAD_BYTES;
                    has_begun = true;
                }
                w.write_all(json.get(from..end).unwrap_or_default())?;
                from = end;
            }
            Ok(())
        })?;
        if has_begun {
            writeln!(w, "{tail}")?;
        }
        w.flush()
    }
}

/// Returns drafts in batches for the threads.
fn batches(drafts: impl Iterator<Item = Draft>) -> impl Iterator<Item = Vec<Draft>> {
    let mut drafts = drafts;
    std::iter::from_fn(move || {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH_BYTES && batch.len() < BATCH_SPANS {
            let Some(draft) = drafts.next() else { break };
            bytes += draft.contents.iter().map(|(_, content)| content.len()).sum::<usize>();
            batch.push(draft);
        }
        (!batch.is_empty()).then_some(batch)
    })
}
