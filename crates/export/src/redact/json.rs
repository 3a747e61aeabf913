//! Writer that masks secrets in JSON strings.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use memchr::memchr2;

use super::redact_value;

/// Writer of JSON or JSON lines that masks secrets.
///
/// Each string is decoded and searched together with its key. Everything else, and strings without a secret, pass
/// unchanged.
#[derive(Debug)]
pub struct Redacted<W> {
    inner: W,
    /// Current string with its quotes; empty between strings.
    string: Vec<u8>,
    /// Whether the last byte escapes the next one.
    is_escaped: bool,
    /// Key of the next value.
    key: String,
    /// Last string; a key if a colon follows.
    last: Option<String>,
}

impl<W: Write> Redacted<W> {
    /// Creates a masking writer.
    pub fn new(inner: W) -> Self {
        Self { inner, string: Vec::new(), is_escaped: false, key: String::new(), last: None }
    }

    /// Writes an incomplete string, flushes, and returns the inner writer.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.inner.write_all(&self.string)?;
        self.inner.flush()?;
        Ok(self.inner)
    }

    /// Writes bytes between strings and tracks the current key.
    fn write_between(&mut self, bytes: &[u8]) -> io::Result<()> {
        for byte in bytes {
            match byte {
                b':' => self.key = self.last.take().unwrap_or_default(),
                b',' | b'{' | b'}' | b'\n' => self.key.clear(),
                _ => {}
            }
        }
        self.inner.write_all(bytes)
    }

    /// Writes the completed string, masked.
    fn write_string(&mut self) -> io::Result<()> {
        let string = std::mem::take(&mut self.string);
        // An invalid string passes unchanged; our serialisers write none.
        let Ok(text) = serde_json::from_slice::<String>(&string) else {
            return self.inner.write_all(&string);
        };
        match redact_value(&self.key, &text) {
            Cow::Borrowed(_) => self.inner.write_all(&string)?,
            Cow::Owned(masked) => serde_json::to_writer(&mut self.inner, &masked)?,
        }
        self.last = Some(text);
        Ok(())
    }
}

impl<W: Write> Write for Redacted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let is_inside = !self.string.is_empty();
            if self.is_escaped {
                self.is_escaped = false;
                let (escaped, behind) = rest.split_at(1);
                self.string.extend_from_slice(escaped);
                rest = behind;
                continue;
            }
            let at = memchr2(b'"', b'\\', rest);
            let (before, behind) = rest.split_at(at.unwrap_or(rest.len()));
            if is_inside {
                self.string.extend_from_slice(before);
            } else if !before.is_empty() {
                self.write_between(before)?;
            }
            let Some((byte, behind)) = behind.split_first() else { break };
            rest = behind;
            match (is_inside, byte) {
                (true, b'"') => {
                    self.string.push(b'"');
                    self.write_string()?;
                }
                (true, _) => {
                    self.string.push(b'\\');
                    self.is_escaped = true;
                }
                (false, b'"') => self.string.push(b'"'),
                (false, _) => self.write_between(b"\\")?,
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn masked(text: &str, size: usize) -> String {
        let mut out = Redacted::new(Vec::new());
        for piece in text.as_bytes().chunks(size) {
            out.write_all(piece).unwrap();
        }
        String::from_utf8(out.finish().unwrap()).unwrap()
    }

    #[test]
    fn strings_are_searched_decoded_and_with_their_key() {
        let token = format!("ghp{}", "_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        let value = json!({
            "text": format!("one \"two\"\n{token}\n"),
            "nested": json!({ "inner": format!("\n{token}") }).to_string(),
            "password": "Tr0ub4dor3x",
            "list": ["password", "Tr0ub4dor3x", 7, null, {}],
            token.clone(): "a\\",
        });
        let plain = value.to_string();
        for size in 1..plain.len() {
            let back: Value = serde_json::from_str(&masked(&plain, size)).unwrap();
            assert_eq!(
                back,
                json!({
                    "text": "one \"two\"\n[redacted]\n",
                    "nested": "{\"inner\":\"\\n[redacted]\"}",
                    "password": "[redacted]",
                    "list": ["password", "Tr0ub4dor3x", 7, null, {}],
                    "[redacted]": "a\\",
                })
            );
        }
    }

    #[test]
    fn what_has_no_secret_passes_byte_for_byte() {
        for text in [
            "",
            "{\"a\" : \"\\u00fc\\/\\\\\" , \"b\":[1e3,true]}\n{\"a\":\"\"}\n",
            "[]",
            "\"cut",
            "no json \\ at all",
        ] {
            for size in 1..=text.len().max(1) {
                assert_eq!(masked(text, size), text);
            }
        }
    }
}
