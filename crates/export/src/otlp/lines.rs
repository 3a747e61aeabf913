//! OTLP/JSON, one request a line: the format of the Collector's file exporter.

use std::io::{self, Write};

use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

use super::{MAX_LINE_BYTES, SPAN_OVERHEAD_BYTES, SpanWriter, Subject};
use crate::pool::{batches, in_order};

/// Field of a root span that is left out.
const NO_PARENT: &str = r#""parentSpanId":"","#;

/// Spans as JSON, separated by commas.
#[derive(Default)]
struct JsonSpans {
    json: Vec<u8>,
    /// Begin of each span in the JSON, and its bytes in protobuf.
    spans: Vec<(usize, usize)>,
}

impl SpanWriter<'_> {
    /// Writes the requests of [`SpanWriter::requests`] of at most [`MAX_LINE_BYTES`] as OTLP/JSON, one per line. Spans are
    /// made on other threads.
    ///
    /// # Errors
    /// Errors of the writer; earlier output is not undone.
    pub fn write_lines(&self, w: &mut dyn Write) -> io::Result<()> {
        let span = Span::default();
        let (empty, template) = (self.request(Vec::new()).encoded_len(), self.request(vec![span.clone()]));
        let (template, span) = (serde_json::to_string(&template)?, serde_json::to_string(&span)?);
        let (head, tail) = template.split_once(&span).unwrap_or_default();
        let (mut has_begun, mut bytes) = (false, 0);
        let work = |subjects: Vec<Subject>| {
            let mut out = JsonSpans::default();
            subjects.into_iter().try_for_each(|subject| {
                let span = self.span(subject);
                if !out.json.is_empty() {
                    out.json.push(b',');
                }
                let begin = out.json.len();
                if span.parent_span_id.is_empty() {
                    // OTLP has no id there, and some readers take an empty one for an id. No text precedes it.
                    let json = serde_json::to_string(&span)?.replacen(NO_PARENT, "", 1);
                    out.json.extend_from_slice(json.as_bytes());
                } else {
                    serde_json::to_writer(&mut out.json, &span)?;
                }
                out.spans.push((begin, span.encoded_len()));
                Ok::<(), serde_json::Error>(())
            })?;
            Ok(out)
        };
        let subjects = batches(self.subjects(), |subject| self.bytes_to_read(*subject));
        in_order(subjects, work, &mut |made: serde_json::Result<JsonSpans>| {
            let JsonSpans { json, spans } = made?;
            let mut written = 0;
            for (begin, length) in spans {
                bytes += length + SPAN_OVERHEAD_BYTES;
                if has_begun && bytes <= MAX_LINE_BYTES {
                    if begin == 0 {
                        w.write_all(b",")?;
                    }
                    continue;
                }
                // Without the comma before this span: it begins a line.
                w.write_all(json.get(written..begin.saturating_sub(1)).unwrap_or_default())?;
                if has_begun {
                    writeln!(w, "{tail}")?;
                }
                w.write_all(head.as_bytes())?;
                bytes = empty + length + SPAN_OVERHEAD_BYTES;
                (has_begun, written) = (true, begin);
            }
            w.write_all(json.get(written..).unwrap_or_default())
        })?;
        if has_begun {
            writeln!(w, "{tail}")?;
        }
        w.flush()
    }
}
