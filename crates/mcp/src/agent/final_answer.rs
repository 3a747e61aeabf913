//! What a harness itself calls the result of its run, and the text between its lines.

use subscope_decode::{Decoder, Dialect, Hint, decoder};
use subscope_model::{Decoded, Fact};

use super::tail::Tail;

/// Reads a stream a second time, for the one thing of it that no row keeps: the result that it ends with.
pub(super) struct LastWord {
    decoder: Box<dyn Decoder>,
    text: Option<String>,
}

impl LastWord {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { decoder: decoder(dialect, &Hint::default()), text: None }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let Self { decoder, text } = self;
        decoder.push(bytes, &mut |decoded| take(decoded, text));
    }

    /// Returns the last result; for when nothing will follow.
    pub(super) fn end(mut self) -> Option<String> {
        let Self { decoder, text } = &mut self;
        decoder.flush(&mut |decoded| take(decoded, text));
        self.text
    }
}

fn take(decoded: Decoded<'_, '_>, last: &mut Option<String>) {
    let Decoded::Observation(seen) = decoded else { return };
    if let Fact::TurnEnd { text: Some(text), .. } = &seen.fact {
        let text = text.text();
        if !text.trim().is_empty() {
            *last = Some(text.into_owned());
        }
    }
}

/// Keeps the lines that are no JSON objects: what a program prints beside its stream.
pub(super) struct Beside {
    text: Tail,
    is_text: bool,
    is_at_start: bool,
}

impl Beside {
    pub(super) fn new(limit: usize) -> Self {
        Self { text: Tail::new(limit), is_text: false, is_at_start: true }
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
            let mut last = LastWord::new(Dialect::ClaudeStream);
            stream.chunks(size).for_each(|piece| last.push(piece));
            assert_eq!(last.end().as_deref(), Some("done"), "{size}");
        }
    }

    #[test]
    fn lines_that_are_no_objects_stand_beside() {
        let text = b"warning\n{\"a\":1}\nmore\n{\"b\":\"\\n\"}\nend";
        for size in 1..text.len() {
            let mut beside = Beside::new(100);
            text.chunks(size).for_each(|piece| beside.push(piece));
            assert_eq!(beside.text(), "warning\nmore\nend", "{size}");
        }
    }
}
