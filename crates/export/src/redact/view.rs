//! A second reading of a text in which escapes are decoded, so that a secret behind an escape is found.
//!
//! A text of an agent is often source of something else: JSON in a string of JSON, a URL, what a terminal shows. There
//! the letter before a secret can belong to an escape: `\nghp_…`, `%3Dghp_…`, `ESC[32mghp_…`.

use std::ops::Range;

/// A decoded text that knows where each of its bytes stands in the original.
pub(super) struct View {
    /// The decoded text.
    pub(super) text: String,
    /// Where stretches begin: in the decoded text, and in the original. Within a stretch both run alike.
    stretches: Vec<(usize, usize)>,
    original_len: usize,
}

impl View {
    /// Returns the decoded text; `None` where nothing in the original is an escape.
    pub(super) fn of(original: &str) -> Option<Self> {
        let mut view = Self { text: String::new(), stretches: vec![(0, 0)], original_len: original.len() };
        let mut copied = 0;
        let mut at = 0;
        let acts = |byte: u8| matches!(byte, b'\\' | b'%' | 0x1b);
        while let Some(found) =
            original.as_bytes().get(at..).and_then(|rest| rest.iter().position(|byte| acts(*byte)))
        {
            let begin = at + found;
            let Some((decoded, length)) = original.get(begin..).and_then(escape) else {
                at = begin + 1;
                continue;
            };
            if view.text.is_empty() {
                view.text.reserve(original.len());
            }
            view.text.push_str(original.get(copied..begin).unwrap_or_default());
            view.stretches.push((view.text.len(), begin));
            view.text.push(decoded);
            at = begin + length;
            copied = at;
            view.stretches.push((view.text.len(), at));
        }
        view.text.push_str(original.get(copied..)?);
        (copied > 0).then_some(view)
    }

    /// Returns the stretch of the original that a stretch of the decoded text was made of.
    pub(super) fn original(&self, range: &Range<usize>) -> Range<usize> {
        self.place(range.start)..self.place(range.end).min(self.original_len)
    }

    fn place(&self, at: usize) -> usize {
        let behind = self.stretches.partition_point(|(decoded, _)| *decoded <= at);
        let (decoded, original) =
            behind.checked_sub(1).and_then(|i| self.stretches.get(i)).copied().unwrap_or((0, 0));
        original + (at - decoded)
    }
}

/// Returns the character that a text begins with as an escape, and the length of the escape.
fn escape(text: &str) -> Option<(char, usize)> {
    let bytes = text.as_bytes();
    match bytes.first()? {
        b'\\' => backslashed(bytes),
        b'%' => hex(bytes.get(1..3)?).map(|code| (code, 3)),
        _ => terminal(bytes),
    }
}

/// Backslashes before an escaped letter: as many as the text is nested deep.
fn backslashed(bytes: &[u8]) -> Option<(char, usize)> {
    let slashes = bytes.iter().take_while(|byte| **byte == b'\\').count();
    let after = slashes + 1;
    match bytes.get(slashes)? {
        b'n' | b'r' => Some(('\n', after)),
        b't' => Some(('\t', after)),
        quote @ (b'"' | b'\'' | b'/' | b'`') => Some((char::from(*quote), after)),
        b'u' => coded(bytes, after, 4),
        b'x' => coded(bytes, after, 2),
        b'e' if bytes.get(after) == Some(&b'[') => styled(bytes, after),
        b'0' if bytes.get(after..after + 3) == Some(b"33[") => styled(bytes, after + 2),
        _ => None,
    }
}

/// A character by so many digits of its code, with the rest of the control sequence that it begins.
fn coded(bytes: &[u8], at: usize, digits: usize) -> Option<(char, usize)> {
    let after = at + digits;
    let code = hex(bytes.get(at..after)?)?;
    let begins = code == '\u{1b}' && bytes.get(after) == Some(&b'[');
    begins.then(|| styled(bytes, after)).flatten().or(Some((code, after)))
}

/// An ASCII character by its code. Secrets are ASCII, so what is not stays as it is spelled.
fn hex(digits: &[u8]) -> Option<char> {
    let digits =
        std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u8::from_str_radix(digits, 16).ok().filter(u8::is_ascii).map(char::from)
}

/// A control sequence of a terminal (ECMA-48, CSI).
fn terminal(bytes: &[u8]) -> Option<(char, usize)> {
    if bytes.get(1) == Some(&b'[') { styled(bytes, 1) } else { None }
}

/// The rest of a control sequence whose `[` stands at a place.
fn styled(bytes: &[u8], bracket: usize) -> Option<(char, usize)> {
    let rest = bytes.get(bracket + 1..)?;
    let parameters = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
    rest.get(parameters).filter(|byte| byte.is_ascii_alphabetic())?;
    Some((' ', bracket + 1 + parameters + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_and_lead_back_to_where_they_stand() {
        for (original, decoded) in [
            (r"a\nghp_x", "a\nghp_x"),
            (r#"{\\\"key\\\": \"v\"}"#, "{\"key\": \"v\"}"),
            ("token%3Dghp_x", "token=ghp_x"),
            ("\u{1b}[32mghp_x\u{1b}[0m", " ghp_x "),
            (r"\\u001b[32mghp_x", " ghp_x"),
            (r"\e[1;32mghp_x", " ghp_x"),
            (r"\033[1;32mghp_x", " ghp_x"),
            (r"ü\tghp_x ü", "ü\tghp_x ü"),
        ] {
            let view = View::of(original).unwrap();
            assert_eq!(view.text, decoded);
            if let Some(at) = decoded.find("ghp_x") {
                assert_eq!(&original[view.original(&(at..at + 5))], "ghp_x", "{original}");
            }
        }
        for plain in ["", "nothing", r"C:\dir", "100 %", "50%zz", r"\u00fc", "\u{1b}]8;;x", r"\"] {
            assert!(View::of(plain).is_none(), "{plain}");
        }
    }
}
