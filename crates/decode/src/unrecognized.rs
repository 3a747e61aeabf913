//! Lines that no dialect recognizes: each is a problem with its place.

use serde::de::IgnoredAny;
use subscope_model::Sink;

use crate::{
    lenient::LineText,
    lines::{LineDecoder, LineError, LinesDecoder},
};

/// What is wrong with a line of JSON that is written in no dialect.
pub const UNRECOGNIZED: &str = "JSON of no known harness";

/// Reader of lines until their dialect is known: the first line of JSON is a problem, and each that is not JSON. A document
/// on many lines is one problem.
pub type Unrecognized = LinesDecoder<UnrecognizedLines>;

/// The lines of an [`Unrecognized`] source.
#[derive(Debug, Default)]
pub struct UnrecognizedLines {
    has_reported: bool,
    /// Whether the lines are of a document on many lines.
    is_document: bool,
}

impl LineDecoder for UnrecognizedLines {
    fn decode_line(&mut self, line: LineText<'_>, _: &mut Sink<'_>) -> Result<(), LineError> {
        let begins_value = line.text.trim_start().starts_with(['{', '[']);
        match serde_json::from_str::<IgnoredAny>(line.text) {
            Ok(IgnoredAny) => {}
            Err(_) if self.is_document => return Ok(()),
            Err(error) if error.is_eof() && begins_value && !self.has_reported => self.is_document = true,
            Err(error) => return Err(error.into()),
        }
        match std::mem::replace(&mut self.has_reported, true) {
            true => Ok(()),
            false => Err(UNRECOGNIZED.into()),
        }
    }

    fn end_delivery(&mut self, _: &mut Sink<'_>) {
        self.has_reported = false;
    }
}

#[cfg(test)]
mod tests {
    use subscope_model::{Decoded, SourceId};

    use super::*;
    use crate::Decoder;

    #[test]
    fn first_json_and_all_text_are_problems_with_their_lines() {
        let mut reader = Unrecognized::new(SourceId(0), UnrecognizedLines::default());
        let mut problems = Vec::new();
        let mut sink = |decoded: Decoded<'_, '_>| {
            let Decoded::Problem { place, what, .. } = decoded else { panic!("{decoded:?}") };
            problems.push((place.line, what.into_owned()));
        };
        reader.push(b"some\n{\"foo\":1}\n\n{\"foo\":2}\nmo", &mut sink);
        assert_eq!(reader.next_line(), (5, 26));
        reader.flush(&mut sink);
        let text = |line| (line, "not JSON (column 1), kept as text".to_owned());
        assert_eq!(problems[..2], [text(1), (2, UNRECOGNIZED.to_owned())]);
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert_eq!(problems[2].0, 5);
    }

    #[test]
    fn a_document_on_many_lines_is_one_problem() {
        for text in
            ["{\n  \"foo\": 1,\n  \"bar\": [\n    2\n  ]\n}\n", "[\n  {\n    \"foo\": 1\n  },\n  {}\n]\n"]
        {
            let mut reader = Unrecognized::new(SourceId(0), UnrecognizedLines::default());
            let mut problems = Vec::new();
            let mut sink = |decoded: Decoded<'_, '_>| {
                let Decoded::Problem { place, what, .. } = decoded else { panic!("{decoded:?}") };
                problems.push((place.line, what.into_owned()));
            };
            reader.push(text.as_bytes(), &mut sink);
            reader.flush(&mut sink);
            assert_eq!(problems, [(1, UNRECOGNIZED.to_owned())], "{text}");
        }
    }
}
