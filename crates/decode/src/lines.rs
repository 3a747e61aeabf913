//! Cutting bytes into lines, whatever their chunks, and reading each line by itself.

use std::{borrow::Cow, sync::LazyLock};

use memchr::{memchr, memmem::Finder};
use serde_json::{Value, error::Category};
use subscope_model::{Decoded, Sink, SourceId, SourcePosition, replace_lone_surrogates};

use crate::{Decoder, array::ArrayCutter, lenient::LineText};

/// A line longer than this is skipped with a problem; what it holds is never kept in memory beyond the cap.
pub const MAX_LINE_BYTES: usize = 64 << 20;

/// How much of a line that could not be understood is kept as text.
const KEPT_TEXT_BYTES: usize = 4 << 10;

/// Why a line was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// JSON that ends too early.
    #[error("incomplete JSON, kept as text")]
    Incomplete,
    /// Not JSON, from this column (1-based) on.
    #[error("not JSON (column {0}), kept as text")]
    NotJson(usize),
    /// JSON with a field that cannot be read, with the reason.
    #[error("JSON of which a field cannot be read ({0}), kept as text")]
    Field(String),
    /// A required field is missing.
    #[error("{item} without {field}, kept as text")]
    MissingField {
        /// What has the field, with its article.
        item: &'static str,
        /// Name of the field.
        field: &'static str,
    },
    /// An event of a type that the dialect does not have.
    #[error("an event of unknown type {0:?}, kept as text")]
    UnknownType(String),
    /// JSON that is not of the dialect, with the reason.
    #[error("{0}")]
    Foreign(Cow<'static, str>),
}

impl From<serde_json::Error> for LineError {
    fn from(error: serde_json::Error) -> Self {
        match error.classify() {
            Category::Eof => Self::Incomplete,
            Category::Data => Self::Field(error.to_string()),
            Category::Syntax | Category::Io => Self::NotJson(error.column()),
        }
    }
}

impl From<&'static str> for LineError {
    fn from(reason: &'static str) -> Self {
        Self::Foreign(reason.into())
    }
}

/// What a source consists of.
#[derive(Debug, Default)]
enum SourceForm {
    /// Unknown: too few bytes have come.
    #[default]
    Unknown,
    Lines,
    /// JSON arrays, whose elements are its lines, or objects on many lines.
    Array(ArrayCutter),
}

/// Cuts a source into lines, or a JSON array into its elements. Keeps at most one unfinished line.
#[derive(Debug, Default)]
pub(crate) struct LineCutter {
    source: SourceId,
    form: SourceForm,
    partial: Vec<u8>,
    /// Whether the remaining bytes of a line over the cap are being skipped.
    skipping: bool,
    /// Offset and number of the line that comes next.
    offset: u64,
    line: u64,
}

/// Gets each line without its end; `None`: it was over [`MAX_LINE_BYTES`].
pub(crate) type EachLine<'e> = dyn FnMut(SourcePosition, Option<&[u8]>) + 'e;

impl LineCutter {
    /// A cutter for the source of that number.
    pub(crate) fn new(source: SourceId) -> Self {
        Self { source, ..Self::default() }
    }

    /// Returns the number (from 1) and the offset of the next line, or of the unfinished one.
    pub(crate) fn next_line(&self) -> (u64, u64) {
        match &self.form {
            SourceForm::Unknown | SourceForm::Lines => (self.line + 1, self.offset),
            SourceForm::Array(array) => array.next_line(),
        }
    }

    /// Sets the number and the offset of the next line. Offsets never decrease: they identify lines within a source.
    pub(crate) fn skip_to(&mut self, line: u64, offset: u64) {
        self.line = line.saturating_sub(1);
        self.offset = self.offset.max(offset);
        if self.offset > 0 {
            self.form = SourceForm::Lines;
        }
    }

    /// Takes bytes and gives each complete line with its place.
    pub(crate) fn push(&mut self, chunk: &[u8], each: &mut EachLine<'_>) {
        if let SourceForm::Unknown = self.form {
            let held = std::mem::take(&mut self.partial);
            let joined;
            let head = if held.is_empty() {
                chunk
            } else {
                joined = [held.as_slice(), chunk].concat();
                &joined
            };
            self.form = match ArrayCutter::recognize(head) {
                Some(true) => SourceForm::Array(ArrayCutter::new(self.source)),
                Some(false) => SourceForm::Lines,
                None => {
                    self.partial = head.to_vec();
                    return;
                }
            };
            return self.cut(head, each);
        }
        self.cut(chunk, each);
    }

    fn cut(&mut self, mut chunk: &[u8], each: &mut EachLine<'_>) {
        if let SourceForm::Array(array) = &mut self.form {
            return array.push(chunk, each);
        }
        while let Some(end) = memchr(b'\n', chunk) {
            let (head, rest) = chunk.split_at(end);
            chunk = rest.get(1..).unwrap_or_default();
            if self.partial.is_empty() && !self.skipping {
                self.emit(head, head.len() as u64 + 1, each);
            } else {
                self.gather(head);
                self.finish(1, each);
            }
        }
        self.gather(chunk);
    }

    /// Gives the unfinished last line, if there is one.
    pub(crate) fn flush(&mut self, each: &mut EachLine<'_>) {
        match &mut self.form {
            SourceForm::Unknown => {
                let held = std::mem::take(&mut self.partial);
                self.cut(&held, each);
            }
            SourceForm::Lines => {}
            SourceForm::Array(array) => return array.flush(each),
        }
        if !self.partial.is_empty() || self.skipping {
            self.finish(0, each);
        }
    }

    fn gather(&mut self, bytes: &[u8]) {
        if self.skipping {
            self.offset += bytes.len() as u64;
        } else if self.partial.len() + bytes.len() > MAX_LINE_BYTES {
            self.skipping = true;
            self.offset += (self.partial.len() + bytes.len()) as u64;
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }

    fn finish(&mut self, newline: u64, each: &mut EachLine<'_>) {
        if self.skipping {
            self.skipping = false;
            self.line += 1;
            each(SourcePosition { source: self.source, offset: self.offset, line: self.line }, None);
            self.offset += newline;
        } else {
            let bytes = std::mem::take(&mut self.partial);
            self.emit(&bytes, bytes.len() as u64 + newline, each);
            self.partial = bytes;
            self.partial.clear();
        }
    }

    fn emit(&mut self, bytes: &[u8], advance: u64, each: &mut EachLine<'_>) {
        self.line += 1;
        let mut place = SourcePosition { source: self.source, offset: self.offset, line: self.line };
        self.offset += advance;
        let mut bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        (place, bytes) = without_mark(place, bytes);
        if bytes.len() > MAX_LINE_BYTES {
            each(place, None);
        } else if !bytes.iter().all(u8::is_ascii_whitespace) {
            each(place, Some(bytes));
        }
    }
}

/// The mark of UTF-8 that some editors and shells put in front of a file.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Returns the first bytes of a source without the mark, and their place; others as they are.
fn without_mark(place: SourcePosition, bytes: &[u8]) -> (SourcePosition, &[u8]) {
    match bytes.strip_prefix(MARK) {
        Some(rest) if place.offset == 0 => (SourcePosition { offset: MARK.len() as u64, ..place }, rest),
        Some(_) | None => (place, bytes),
    }
}

/// Decodes the lines of one source, each by itself.
pub trait LineDecoder: Send + Sync {
    /// Decodes one line: emits its observations.
    ///
    /// # Errors
    /// Why the line cannot be read: it becomes a problem with its place.
    fn decode_line(&mut self, line: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError>;

    /// Called when no bytes will follow for now: emits what waited for a later line.
    fn end_delivery(&mut self, _sink: &mut Sink<'_>) {}
}

/// Decoder of a source of lines: cuts the bytes, and passes each line to a [`LineDecoder`].
#[derive(Debug)]
pub struct LinesDecoder<D> {
    cutter: LineCutter,
    lines: D,
}

impl<D: LineDecoder> LinesDecoder<D> {
    /// Creates the decoder of a source.
    pub fn new(source: SourceId, lines: D) -> Self {
        Self { cutter: LineCutter::new(source), lines }
    }

    /// Returns the number (from 1) and the offset of the next line, or of the unfinished one.
    pub fn next_line(&self) -> (u64, u64) {
        self.cutter.next_line()
    }
}

impl<D: LineDecoder> Decoder for LinesDecoder<D> {
    fn push(&mut self, chunk: &[u8], sink: &mut Sink<'_>) {
        let Self { cutter, lines } = self;
        cutter.push(chunk, &mut |place, cut| read_line(place, cut, lines, sink));
    }

    fn flush(&mut self, sink: &mut Sink<'_>) {
        let Self { cutter, lines } = self;
        cutter.flush(&mut |place, cut| read_line(place, cut, lines, sink));
        lines.end_delivery(sink);
    }

    fn skip_to(&mut self, line: u64, offset: u64) {
        self.cutter.skip_to(line, offset);
    }
}

/// Decoder of a file that is one JSON object, on as many lines as it likes, and is rewritten as a whole.
#[derive(Debug)]
pub struct ObjectDecoder<D> {
    source: SourceId,
    object: D,
    bytes: Vec<u8>,
}

/// No such file is larger; more is a problem and not read. A whole conversation may be one object.
const MAX_OBJECT_BYTES: usize = MAX_LINE_BYTES;

impl<D: LineDecoder> ObjectDecoder<D> {
    /// Creates the decoder of a source. `object` gets the object as one line.
    pub fn new(source: SourceId, object: D) -> Self {
        Self { source, object, bytes: Vec::new() }
    }
}

impl<D: LineDecoder> Decoder for ObjectDecoder<D> {
    fn push(&mut self, chunk: &[u8], _: &mut Sink<'_>) {
        let room = MAX_OBJECT_BYTES.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(chunk.get(..room.min(chunk.len())).unwrap_or_default());
    }

    fn flush(&mut self, sink: &mut Sink<'_>) {
        let place = SourcePosition { source: self.source, offset: 0, line: 1 };
        let bytes = std::mem::take(&mut self.bytes);
        let (place, bytes) = without_mark(place, &bytes);
        if !bytes.is_empty() {
            read_line(place, Some(bytes), &mut self.object, sink);
        }
    }
}

/// Decoder of a source of JSON objects one after another, each on as many lines as it likes.
///
/// An object ends with its last brace. One that is broken ends where the next begins: at a line that begins with a
/// brace, since lines inside an object are indented.
#[derive(Debug)]
pub struct ObjectsDecoder<D> {
    source: SourceId,
    object: D,
    bytes: Vec<u8>,
    /// Position of the object that is being read.
    offset: u64,
    line: u64,
    /// Position of the next byte.
    next_offset: u64,
    next_line: u64,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    is_line_start: bool,
}

impl<D: LineDecoder> ObjectsDecoder<D> {
    /// Creates the decoder of a source. `object` gets each object as one line.
    pub fn new(source: SourceId, object: D) -> Self {
        Self {
            source,
            object,
            bytes: Vec::new(),
            offset: 0,
            line: 1,
            next_offset: 0,
            next_line: 1,
            depth: 0,
            is_in_string: false,
            is_escaped: false,
            is_line_start: true,
        }
    }

    /// Passes on what was gathered: an object, or what is left of one.
    fn finish(&mut self, sink: &mut Sink<'_>) {
        let place = SourcePosition { source: self.source, offset: self.offset, line: self.line };
        let bytes = std::mem::take(&mut self.bytes);
        let (place, bytes) = without_mark(place, &bytes);
        (self.depth, self.is_in_string, self.is_escaped) = (0, false, false);
        let is_blank = bytes.iter().all(u8::is_ascii_whitespace);
        if !is_blank {
            let cut = (bytes.len() <= MAX_LINE_BYTES).then_some(bytes);
            read_line(place, cut, &mut self.object, sink);
        }
    }

    fn take(&mut self, byte: u8, sink: &mut Sink<'_>) {
        let starts_anew = byte == b'{' && self.is_line_start && self.depth > 0;
        // Text between objects is a line of its own.
        let ends_text = self.depth == 0 && matches!(byte, b'\n' | b'{');
        if starts_anew || ends_text {
            self.finish(sink);
        }
        if self.bytes.is_empty() {
            (self.offset, self.line) = (self.next_offset, self.next_line);
        }
        self.next_offset += 1;
        self.next_line += u64::from(byte == b'\n');
        self.is_line_start = byte == b'\n';
        let is_room = self.bytes.len() <= MAX_LINE_BYTES;
        if is_room && !(self.bytes.is_empty() && byte.is_ascii_whitespace()) {
            self.bytes.push(byte);
        }
        match byte {
            _ if std::mem::take(&mut self.is_escaped) => {}
            b'\\' if self.is_in_string => self.is_escaped = true,
            b'"' if self.depth > 0 => self.is_in_string = !self.is_in_string,
            b'{' | b'[' if !self.is_in_string => self.depth += 1,
            b'}' | b']' if !self.is_in_string && self.depth > 0 => {
                self.depth -= 1;
                if self.depth == 0 {
                    self.finish(sink);
                }
            }
            _ => {}
        }
    }
}

impl<D: LineDecoder> Decoder for ObjectsDecoder<D> {
    fn push(&mut self, chunk: &[u8], sink: &mut Sink<'_>) {
        chunk.iter().for_each(|byte| self.take(*byte, sink));
    }

    fn flush(&mut self, sink: &mut Sink<'_>) {
        self.finish(sink);
        self.object.end_delivery(sink);
    }

    fn skip_to(&mut self, line: u64, offset: u64) {
        (self.next_line, self.next_offset) = (line, offset.max(self.next_offset));
    }
}

/// What an escaped surrogate begins with.
static ESCAPE: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(b"\\u"));

/// Reads one line's text, and emits a problem if it cannot be read.
fn read_line(place: SourcePosition, cut: Option<&[u8]>, lines: &mut impl LineDecoder, sink: &mut Sink<'_>) {
    let Some(bytes) = cut else {
        let what = format!("line over {} MiB skipped", MAX_LINE_BYTES >> 20);
        return sink(Decoded::Problem { place, what: what.into(), text: "" });
    };
    let lossy;
    let line = match std::str::from_utf8(bytes) {
        Ok(text) => LineText { place, text, is_exact: true },
        Err(error) => {
            let what = format!("invalid UTF-8 at byte {} of the line, replaced", error.valid_up_to() + 1);
            sink(Decoded::Problem { place, what: what.into(), text: "" });
            lossy = String::from_utf8_lossy(bytes);
            LineText { place, text: &lossy, is_exact: false }
        }
    };
    // One of them would make the whole line unreadable.
    let text = match ESCAPE.find(line.text.as_bytes()) {
        Some(_) => replace_lone_surrogates(line.text),
        None => Cow::Borrowed(line.text),
    };
    let line = LineText { text: &text, ..line };
    if let Err(error) = lines.decode_line(line, sink) {
        let text = cut_text(line.text, KEPT_TEXT_BYTES);
        sink(Decoded::Problem { place, what: error.to_string().into(), text });
    }
}

fn cut_text(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// One line of JSON Lines.
#[derive(Clone, Debug, PartialEq)]
pub enum Parsed {
    /// A line that is JSON; unknown fields are preserved.
    Message(Value),
    /// A line that is not JSON, unchanged.
    Fallback(String),
    /// A line over [`MAX_LINE_BYTES`].
    TooLong,
}

/// A streaming JSON Lines reader for any dialect (requirement 1.1): bytes cut anywhere in, lines out.
#[derive(Debug, Default)]
pub struct JsonLines {
    cutter: LineCutter,
}

impl JsonLines {
    /// Returns each line that these bytes complete, in order. Blank lines are skipped.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<Parsed> {
        let mut parsed = Vec::new();
        self.cutter.push(chunk, &mut |_, cut| parsed.push(parse(cut)));
        parsed
    }

    /// Returns the unfinished last line.
    pub fn flush(&mut self) -> Option<Parsed> {
        let mut parsed = None;
        self.cutter.flush(&mut |_, cut| parsed = Some(parse(cut)));
        parsed
    }
}

fn parse(cut: Option<&[u8]>) -> Parsed {
    let Some(bytes) = cut else { return Parsed::TooLong };
    let text = String::from_utf8_lossy(bytes);
    serde_json::from_str(&text).map_or_else(|_| Parsed::Fallback(text.into_owned()), Parsed::Message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(chunks: &[&[u8]]) -> Vec<Parsed> {
        let mut lines = JsonLines::default();
        let mut parsed: Vec<Parsed> = chunks.iter().flat_map(|chunk| lines.push(chunk)).collect();
        parsed.extend(lines.flush());
        parsed
    }

    /// Keeps the position of each object.
    #[derive(Default)]
    struct Places(Vec<(u64, u64, String)>);

    impl LineDecoder for &mut Places {
        fn decode_line(&mut self, line: LineText<'_>, _: &mut Sink<'_>) -> Result<(), LineError> {
            let value: Value = serde_json::from_str(line.text)?;
            self.0.push((line.place.line, line.place.offset, value.to_string()));
            Ok(())
        }
    }

    #[test]
    fn objects_on_many_lines_are_cut_anywhere_and_a_broken_one_costs_no_other() {
        let text =
            "{\n  \"a\": \"}\\\"{\"\n}\n{ \"b\": [1]}{}\n{\n  \"c\": \"broken\n{\n  \"d\": 2\n}\nnoise\n{";
        for size in 1..text.len() {
            let (mut places, mut problems) = (Places::default(), Vec::new());
            let mut decoder = ObjectsDecoder::new(SourceId(0), &mut places);
            let mut sink = |decoded: Decoded<'_, '_>| {
                if let Decoded::Problem { place, .. } = decoded {
                    problems.push(place.line);
                }
            };
            text.as_bytes().chunks(size).for_each(|chunk| decoder.push(chunk, &mut sink));
            decoder.flush(&mut sink);
            let lines: Vec<(u64, &str)> =
                places.0.iter().map(|(line, _, text)| (*line, text.as_str())).collect();
            let expected = [(1, r#"{"a":"}\"{"}"#), (4, r#"{"b":[1]}"#), (4, "{}"), (7, r#"{"d":2}"#)];
            assert_eq!(lines, expected, "{size}");
            assert_eq!(problems, [5, 10, 11], "{size}");
            assert!(places.0.iter().all(|(_, at, _)| text.as_bytes()[*at as usize] == b'{'));
        }
    }

    #[test]
    fn mark_before_an_object_is_no_part_of_it() {
        let text = "\u{feff}{\n  \"a\": 1\n}\n";
        for size in 1..=text.len() {
            let (mut one, mut many) = (Places::default(), Places::default());
            let mut sink = |decoded: Decoded<'_, '_>| {
                if let Decoded::Problem { what, .. } = decoded {
                    panic!("{what}")
                }
            };
            let decoders: [&mut dyn Decoder; 2] = [
                &mut ObjectDecoder::new(SourceId(0), &mut one),
                &mut ObjectsDecoder::new(SourceId(0), &mut many),
            ];
            for decoder in decoders {
                text.as_bytes().chunks(size).for_each(|chunk| decoder.push(chunk, &mut sink));
                decoder.flush(&mut sink);
            }
            let expected = [(1, 3, r#"{"a":1}"#.to_owned())];
            assert_eq!((one.0.as_slice(), many.0.as_slice()), (&expected[..], &expected[..]), "{size}");
        }
    }

    #[test]
    fn read_message_gives_its_fields() {
        let parsed = all(&[br#"{"type":"assistant","message":"Hello"}"#]);
        let Parsed::Message(value) = &parsed[0] else { panic!("{parsed:?}") };
        assert_eq!((value["type"].as_str(), value["message"].as_str()), (Some("assistant"), Some("Hello")));
    }

    #[test]
    fn read_blank_lines_gives_nothing() {
        assert_eq!(all(&[b"\n   \n\t\n\r\n"]), []);
        assert_eq!(all(&[b""]), []);
    }

    #[test]
    fn read_text_between_messages_keeps_order() {
        let parsed = all(&[b"{\"a\":1}\nnot json\n{\"b\":2}\n"]);
        assert_eq!(parsed.len(), 3);
        assert_eq!(parsed[1], Parsed::Fallback("not json".into()));
    }

    #[test]
    fn push_half_a_line_gives_it_when_complete() {
        let mut lines = JsonLines::default();
        assert_eq!(lines.push(br#"{"type": "#).len(), 0);
        assert_eq!(lines.push(b"\"init\"}\n").len(), 1);
        assert_eq!(lines.flush(), None);
        assert_eq!(lines.push(b"1\n2\n3\n").len(), 3);
        assert_eq!(lines.push(b"{}"), []);
        assert!(lines.flush().is_some());
        assert!(lines.flush().is_none());
    }

    #[test]
    fn push_cut_anywhere_reads_as_uncut() {
        let bytes = "\u{feff}{\"t\":\"grün 🌍\"}\r\n{\"u\":1}\r\nrest".as_bytes();
        let whole = all(&[bytes]);
        assert_eq!(whole.len(), 3);
        for cut in 0..=bytes.len() {
            assert_eq!(all(&[&bytes[..cut], &bytes[cut..]]), whole, "cut at {cut}");
        }
    }

    #[test]
    fn read_line_over_the_cap_is_skipped_and_the_rest_kept() {
        let mut lines = JsonLines::default();
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..70 {
            assert_eq!(lines.push(&chunk), []);
            assert!(lines.cutter.partial.len() <= MAX_LINE_BYTES);
        }
        assert_eq!(lines.push(b"\n{}\n"), [Parsed::TooLong, Parsed::Message(serde_json::json!({}))]);
    }
}
