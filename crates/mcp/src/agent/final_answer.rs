//! Extracts an agent's answer from its output: the final result of the stream, or the lines that are not JSON.

use subscope_decode::{Decoder, Dialect, Hint};
use subscope_model::{Decoded, Fact};

use super::tail::TextTail;

/// Decodes a stream a second time for its final result, which is not part of any row.
pub(super) struct FinalResult {
    decoder: Box<dyn Decoder>,
    text: Option<String>,
}

impl FinalResult {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { decoder: dialect.decoder(&Hint::default()), text: None }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let Self { decoder, text } = self;
        decoder.push(bytes, &mut |decoded| take_result(decoded, text));
    }

    /// Flushes the decoder at the end of the stream and returns the last result.
    pub(super) fn end(mut self) -> Option<String> {
        let Self { decoder, text } = &mut self;
        decoder.flush(&mut |decoded| take_result(decoded, text));
        self.text
    }
}

fn take_result(decoded: Decoded<'_, '_>, last: &mut Option<String>) {
    let Decoded::Observation(observation) = decoded else { return };
    if let Fact::TurnEnd { text: Some(text), .. } = &observation.fact {
        let text = text.text();
        if !text.trim().is_empty() {
            *last = Some(text.into_owned());
        }
    }
}

/// Collects output lines that are not JSON objects.
pub(super) struct NonJsonLines {
    text: TextTail,
    is_text: bool,
    is_at_start: bool,
}

impl NonJsonLines {
    pub(super) fn new(limit: usize) -> Self {
        Self { text: TextTail::new(limit), is_text: false, is_at_start: true }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.is_at_start {
                self.is_text = piece.first() != Some(&b'{');
            }
            self.is_at_start = piece.ends_with(b"\n");
            if self.is_text {
                self.text.push(piece);
            }
        }
    }

    pub(super) fn text(&self) -> String {
        self.text.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_of_a_stream_is_found_however_it_is_cut() {
        let stream = b"{\"type\":\"assistant\",\"session_id\":\"s\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}}\n{\"type\":\"result\",\"session_id\":\"s\",\"result\":\"done\"}";
        for size in 1..stream.len() {
            let mut last = FinalResult::new(subscope_harness::claude_code::STREAM);
            stream.chunks(size).for_each(|piece| last.push(piece));
            assert_eq!(last.end().as_deref(), Some("done"), "{size}");
        }
    }

    #[test]
    fn lines_that_are_no_objects_stand_beside() {
        let text = b"warning\n{\"a\":1}\nmore\n{\"b\":\"\\n\"}\nend";
        for size in 1..text.len() {
            let mut non_json_lines = NonJsonLines::new(100);
            text.chunks(size).for_each(|piece| non_json_lines.push(piece));
            assert_eq!(non_json_lines.text(), "warning\nmore\nend", "{size}");
        }
    }
}
