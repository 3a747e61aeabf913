//! Cutting a JSON array into its elements, on as many lines as it likes: some programs collect the lines of a log in one.
//! Objects that are pretty-printed one after another are cut likewise.
//!
//! An element gets its own number in place of a line's, and its offset in the source.

use subscope_model::{SourceId, SourcePosition};

use crate::lines::{EachLine, MAX_LINE_BYTES};

/// Cuts arrays into elements. Keeps at most one unfinished element.
#[derive(Debug, Default)]
pub(crate) struct ArrayCutter {
    source: SourceId,
    element: Vec<u8>,
    /// Offset of the element, and of the next byte.
    begin: u64,
    offset: u64,
    /// Number of elements before this one.
    count: u64,
    /// Whether an array is open.
    is_open: bool,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
}

impl ArrayCutter {
    /// Whether a source is an array of objects, or begins with an object on many lines; `None` if its first bytes do not
    /// show that yet.
    pub(crate) fn recognize(head: &[u8]) -> Option<bool> {
        let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
        match text.split_first() {
            Some((b'[', rest)) => rest.trim_ascii_start().first().map(|first| *first == b'{'),
            Some((b'{', rest)) => {
                let first = rest.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\r'));
                first.map(|first| *first == b'\n')
            }
            Some((b'\xef', rest)) if b"\xbb\xbf".starts_with(rest) => None,
            Some(_) => Some(false),
            None => None,
        }
    }

    /// A cutter of a source.
    pub(crate) fn new(source: SourceId) -> Self {
        Self { source, ..Self::default() }
    }

    /// Returns the number (from 1) and the offset of the unfinished element, or of the next byte.
    pub(crate) fn next_line(&self) -> (u64, u64) {
        (self.count + 1, if self.element.is_empty() { self.offset } else { self.begin })
    }

    /// Takes bytes and gives each complete element with its place.
    pub(crate) fn push(&mut self, chunk: &[u8], each: &mut EachLine<'_>) {
        chunk.iter().for_each(|byte| self.take(*byte, each));
    }

    /// Gives the unfinished element, or text behind an array, if there is any.
    pub(crate) fn flush(&mut self, each: &mut EachLine<'_>) {
        self.finish(each);
    }

    fn take(&mut self, byte: u8, each: &mut EachLine<'_>) {
        let is_between = self.depth == 0 && !self.is_in_string;
        self.offset += 1;
        match byte {
            b',' if is_between && self.is_open => return self.finish(each),
            b']' if is_between && self.is_open => {
                self.finish(each);
                self.is_open = false;
                return;
            }
            b'[' if is_between && !self.is_open => {
                self.finish(each);
                self.is_open = true;
                return;
            }
            // Text between arrays is a line of its own.
            b'\n' if is_between && !self.is_open => return self.finish(each),
            _ if self.element.is_empty()
                && (byte.is_ascii_whitespace() || !byte.is_ascii() && self.offset <= 3) =>
            {
                return;
            }
            _ => {}
        }
        if self.element.is_empty() {
            self.begin = self.offset - 1;
        }
        if self.element.len() <= MAX_LINE_BYTES {
            self.element.push(byte);
        }
        let is_json = self.is_open || self.element.first() == Some(&b'{');
        match byte {
            _ if std::mem::take(&mut self.is_escaped) => {}
            b'\\' if self.is_in_string => self.is_escaped = true,
            b'"' if is_json => self.is_in_string = !self.is_in_string,
            b'{' | b'[' if is_json && !self.is_in_string => self.depth += 1,
            b'}' | b']' if is_json && !self.is_in_string => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 && !self.is_open {
                    self.finish(each);
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self, each: &mut EachLine<'_>) {
        let bytes = std::mem::take(&mut self.element);
        (self.depth, self.is_in_string, self.is_escaped) = (0, false, false);
        if bytes.is_empty() {
            return;
        }
        self.count += 1;
        let place = SourcePosition { source: self.source, offset: self.begin, line: self.count };
        let text = bytes.trim_ascii_end();
        each(place, (bytes.len() <= MAX_LINE_BYTES).then_some(text));
        self.element = bytes;
        self.element.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number, offset and text of each element, from chunks of `size` bytes.
    fn elements(text: &str, size: usize) -> Vec<(u64, u64, String)> {
        let mut found = Vec::new();
        let mut each = |place: SourcePosition, cut: Option<&[u8]>| {
            found.push((place.line, place.offset, String::from_utf8(cut.unwrap().to_vec()).unwrap()));
        };
        let mut cutter = ArrayCutter::new(SourceId(0));
        text.as_bytes().chunks(size).for_each(|chunk| cutter.push(chunk, &mut each));
        cutter.flush(&mut each);
        found
    }

    #[test]
    fn elements_have_their_places_however_the_bytes_are_cut() {
        let text = "\u{feff}[\n  {\"a\": \"x],}{\\\"\"},\n  {\"b\": [1, {}]}\n]\n[{\"c\":1}]rest\n[{\"cut\":";
        let found = elements(text, 1);
        for (_, offset, element) in &found {
            assert!(text[*offset as usize..].starts_with(element), "{element}");
        }
        let texts: Vec<&str> = found.iter().map(|(.., text)| text.as_str()).collect();
        assert_eq!(texts, ["{\"a\": \"x],}{\\\"\"}", "{\"b\": [1, {}]}", "{\"c\":1}", "rest", "{\"cut\":"]);
        for size in 2..text.len() {
            assert_eq!(elements(text, size), found, "{size}");
        }
    }

    #[test]
    fn objects_on_many_lines_are_cut_like_elements() {
        let text = "{\n  \"a\": \"}\"\n}\n{\n \"b\": [{}]}{\"c\":1}\nrest\n{\"cut\": 1\n";
        let texts: Vec<String> = elements(text, 3).into_iter().map(|(.., text)| text).collect();
        let expected = ["{\n  \"a\": \"}\"\n}", "{\n \"b\": [{}]}", "{\"c\":1}", "rest", "{\"cut\": 1"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn only_an_array_of_objects_is_one() {
        for (head, is_array) in [
            ("", None),
            (" \n", None),
            ("[\n ", None),
            ("[\n {", Some(true)),
            ("\u{feff}[{", Some(true)),
            ("[info] {", Some(false)),
            ("{\"a\":[{", Some(false)),
            ("{ ", None),
            ("{ \r\n \"a\"", Some(true)),
            ("[1,{}]", Some(false)),
        ] {
            assert_eq!(ArrayCutter::recognize(head.as_bytes()), is_array, "{head:?}");
        }
    }
}
