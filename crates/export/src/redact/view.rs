//! Text with escapes decoded, so that a secret directly after an escape is found.
//!
//! Texts of agents often contain nested JSON, URLs or terminal output, where the characters before a secret can belong
//! to an escape: `\nghp_…`, `%3Dghp_…`, `ESC[32mghp_…`.

use std::ops::Range;

use memchr::memchr3;

/// Decoded text with a mapping to the original.
pub(super) struct DecodedText {
    /// The decoded text.
    pub(super) text: String,
    /// Segment starts in the decoded text and in the original; within a segment offsets advance equally.
    segments: Vec<(usize, usize)>,
    original_len: usize,
    /// Whether a control sequence stands within a word.
    has_split_word: bool,
}

impl DecodedText {
    /// Returns a text decoded, and once more with its words joined where control sequences stand within them; nothing if
    /// it contains no escape.
    pub(super) fn views(original: &str) -> impl Iterator<Item = Self> {
        let apart = Self::of(original, " ");
        let joined = apart.as_ref().filter(|view| view.has_split_word).and_then(|_| Self::of(original, ""));
        apart.into_iter().chain(joined)
    }

    /// Decodes a text, with `between` in place of control sequences within words; `None` if it contains no escape.
    fn of(original: &str, between: &str) -> Option<Self> {
        let (text, original_len) = (String::new(), original.len());
        let mut view = Self { text, segments: vec![(0, 0)], original_len, has_split_word: false };
        let mut copied = 0;
        let mut at = 0;
        while let Some(found) = memchr3(b'\\', b'%', 0x1b, &original.as_bytes()[at..]) {
            let begin = at + found;
            let Some((decoded, length)) = decode_escape(&original[begin..]) else {
                at = begin + 1;
                continue;
            };
            if view.text.is_empty() {
                view.text.reserve(original.len());
            }
            view.text.push_str(&original[copied..begin]);
            view.segments.push((view.text.len(), begin));
            at = begin + length;
            copied = at;
            let is_in_word =
                |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
            match decoded {
                Decoded::Character(character) => view.text.push(character),
                // Colors change nothing, but they may keep words apart.
                Decoded::Control => {
                    let is_between =
                        is_in_word(view.text.as_bytes().last()) && is_in_word(original.as_bytes().get(at));
                    view.text.push_str(if is_between { between } else { "" });
                    view.has_split_word |= is_between;
                }
            }
            view.segments.push((view.text.len(), at));
        }
        view.text.push_str(&original[copied..]);
        (copied > 0).then_some(view)
    }

    /// Maps a range of the decoded text to the original, without control sequences at its ends.
    pub(super) fn original(&self, range: &Range<usize>) -> Range<usize> {
        // The first segment begins at 0.
        let start = self.segments.partition_point(|(decoded, _)| *decoded <= range.start) - 1;
        let end = self.segments.partition_point(|(decoded, _)| *decoded < range.end);
        let end = match self.segments.get(end) {
            Some((decoded, original)) if *decoded == range.end => *original,
            _ => self.offset_in(end - 1, range.end),
        };
        self.offset_in(start, range.start)..end.min(self.original_len)
    }

    fn offset_in(&self, segment: usize, at: usize) -> usize {
        let (decoded, original) = self.segments[segment];
        original + (at - decoded)
    }
}

/// Meaning of an escape.
#[derive(Clone, Copy)]
enum Decoded {
    Character(char),
    /// A control sequence of a terminal.
    Control,
}

/// Decodes an escape at the start of a text; returns its meaning and its length.
fn decode_escape(text: &str) -> Option<(Decoded, usize)> {
    let bytes = text.as_bytes();
    match bytes.first()? {
        b'\\' => decode_backslash(bytes),
        b'%' => hex(bytes.get(1..3)?).map(|code| (Decoded::Character(code), 3)),
        _ if bytes.get(1) == Some(&b'[') => decode_csi_rest(bytes, 1),
        _ => None,
    }
}

/// Decodes a backslash escape; nested texts have several backslashes.
fn decode_backslash(bytes: &[u8]) -> Option<(Decoded, usize)> {
    let slashes = bytes.iter().take_while(|byte| **byte == b'\\').count();
    let after = slashes + 1;
    match bytes.get(slashes)? {
        b'n' | b'r' => Some((Decoded::Character('\n'), after)),
        b't' => Some((Decoded::Character('\t'), after)),
        quote @ (b'"' | b'\'' | b'/' | b'`') => Some((Decoded::Character(char::from(*quote)), after)),
        b'u' => decode_code(bytes, after, 4),
        b'x' => decode_code(bytes, after, 2),
        b'e' if bytes.get(after) == Some(&b'[') => decode_csi_rest(bytes, after),
        b'0' if bytes.get(after..after + 3) == Some(b"33[") => decode_csi_rest(bytes, after + 2),
        _ => None,
    }
}

/// Decodes a hexadecimal code of `digits` digits, with the control sequence that it may begin.
fn decode_code(bytes: &[u8], at: usize, digits: usize) -> Option<(Decoded, usize)> {
    let after = at + digits;
    let code = hex(bytes.get(at..after)?)?;
    let begins = code == '\u{1b}' && bytes.get(after) == Some(&b'[');
    begins.then(|| decode_csi_rest(bytes, after)).flatten().or(Some((Decoded::Character(code), after)))
}

/// Decodes a hexadecimal ASCII code. Secrets are ASCII, so other characters stay encoded.
fn hex(digits: &[u8]) -> Option<char> {
    let digits =
        std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u8::from_str_radix(digits, 16).ok().filter(u8::is_ascii).map(char::from)
}

/// Decodes a terminal control sequence (ECMA-48, CSI) from its `[` on.
fn decode_csi_rest(bytes: &[u8], bracket: usize) -> Option<(Decoded, usize)> {
    let rest = bytes.get(bracket + 1..)?;
    let parameters = rest.iter().take_while(|byte| matches!(byte, b'0'..=b'?')).count();
    rest.get(parameters).filter(|byte| byte.is_ascii_alphabetic())?;
    Some((Decoded::Control, bracket + 1 + parameters + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_and_mapped_back() {
        for (original, decoded) in [
            (r"a\nghp_x", "a\nghp_x"),
            (r#"{\\\"key\\\": \"v\"}"#, "{\"key\": \"v\"}"),
            ("token%3Dghp_x", "token=ghp_x"),
            ("\u{1b}[32mghp_x\u{1b}[0m", "ghp_x"),
            ("a\u{1b}[32mghp_x:\u{1b}[1m\u{1b}[0mb", "a ghp_x:b"),
            (r"\\u001b[32mghp_x", "ghp_x"),
            (r"\e[1;32mghp_x", "ghp_x"),
            (r"\033[1;32mghp_x", "ghp_x"),
            (r"ü\tghp_x ü", "ü\tghp_x ü"),
        ] {
            let view = DecodedText::views(original).next().unwrap();
            assert_eq!(view.text, decoded);
            if let Some(at) = decoded.find("ghp_x") {
                assert_eq!(&original[view.original(&(at..at + 5))], "ghp_x", "{original}");
            }
        }
        for plain in ["", "nothing", r"C:\dir", "100 %", "50%zz", r"\u00fc", "\u{1b}]8;;x", r"\"] {
            assert!(DecodedText::views(plain).next().is_none(), "{plain}");
        }
    }

    #[test]
    fn words_are_joined_over_control_sequences() {
        let original = "a ghp\u{1b}[1m_x\u{1b}[38:2::1;0mY b";
        let texts: Vec<String> = DecodedText::views(original).map(|view| view.text).collect();
        assert_eq!(texts, ["a ghp _x Y b", "a ghp_xY b"]);
        let joined = DecodedText::views(original).last().unwrap();
        assert_eq!(&original[joined.original(&(2..8))], "ghp\u{1b}[1m_x\u{1b}[38:2::1;0mY");
    }
}
