//! Lines that no dialect recognises: each is a problem with its place.

use serde::de::IgnoredAny;
use subscope_model::{Sink, SourceId, SourcePosition};

use crate::{
    Decoder,
    lines::{Cut, LineCutter, read_line},
};
/// What is wrong with a line of JSON that is written in no dialect.
pub const UNRECOGNISED: &str = "JSON of no known harness";

/// Reads lines until their dialect is known. The first line of JSON is a problem, and each that is not JSON.
#[derive(Debug)]
pub struct Unrecognised {
    cutter: LineCutter,
    has_told: bool,
}

impl Unrecognised {
    /// A reader of that source.
    pub fn new(source: SourceId) -> Self {
        Self { cutter: LineCutter::new(source), has_told: false }
    }

    /// Returns the number (from 1) and the offset of the next line.
    pub fn next_line(&self) -> (u64, u64) {
        self.cutter.next_line()
    }
}

impl Decoder for Unrecognised {
    fn push(&mut self, chunk: &[u8], sink: &mut Sink<'_>) {
        let Self { cutter, has_told } = self;
        cutter.push(chunk, &mut |place, cut| take(place, cut, has_told, sink));
    }

    fn flush(&mut self, sink: &mut Sink<'_>) {
        let Self { cutter, has_told } = self;
        cutter.flush(&mut |place, cut| take(place, cut, has_told, sink));
        // What comes now is another delivery.
        *has_told = false;
    }
}

fn take(place: SourcePosition, cut: Cut<'_>, has_told: &mut bool, sink: &mut Sink<'_>) {
    read_line(place, cut, sink, &mut |line, _| match serde_json::from_str::<IgnoredAny>(line.text) {
        Err(error) => Err(error.into()),
        Ok(IgnoredAny) if std::mem::replace(has_told, true) => Ok(()),
        Ok(IgnoredAny) => Err(UNRECOGNISED.into()),
    });
}

#[cfg(test)]
mod tests {
    use subscope_model::Decoded;

    use super::*;

    #[test]
    fn first_json_and_all_text_are_problems_with_their_lines() {
        let mut reader = Unrecognised::new(SourceId(0));
        let mut problems = Vec::new();
        let mut sink = |decoded: Decoded<'_, '_>| {
            let Decoded::Problem { place, what, .. } = decoded else { panic!("{decoded:?}") };
            problems.push((place.line, what.into_owned()));
        };
        reader.push(b"some\n{\"foo\":1}\n\n{\"foo\":2}\nmo", &mut sink);
        assert_eq!(reader.next_line(), (5, 26));
        reader.flush(&mut sink);
        let text = |line| (line, "not JSON (column 1), kept as text".to_owned());
        assert_eq!(problems[..2], [text(1), (2, UNRECOGNISED.to_owned())]);
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert_eq!(problems[2].0, 5);
    }
}
