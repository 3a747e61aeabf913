//! A writer that masks secrets in the strings of JSON.

use std::io::{self, Write};

use super::redact_value;

/// A writer of JSON, or of lines of it, that masks what looks like a secret.
///
/// It searches each string as its reader will see it, decoded, together with the key that it stands under. All
/// else passes unchanged, and so does a string without a secret.
#[derive(Debug)]
pub struct Redacted<W> {
    inner: W,
    /// The string that is being written, with its quotes; empty between strings.
    string: Vec<u8>,
    /// Whether the last byte of the string escapes the next one.
    is_escaped: bool,
    /// The key whose value is next.
    key: String,
    /// A string of which only what follows tells whether it is a key.
    last: Option<String>,
}

impl<W: Write> Redacted<W> {
    /// Masks what is written from here on.
    pub fn new(inner: W) -> Self {
        Self { inner, string: Vec::new(), is_escaped: false, key: String::new(), last: None }
    }

    /// Passes on what is left, and gives back what is written to.
    ///
    /// # Errors
    /// What the writer gives.
    pub fn finish(mut self) -> io::Result<W> {
        self.inner.write_all(&self.string)?;
        self.inner.flush()?;
        Ok(self.inner)
    }

    /// Passes on what stands between strings.
    fn between(&mut self, bytes: &[u8]) -> io::Result<()> {
        for byte in bytes {
            match byte {
                b':' => self.key = self.last.take().unwrap_or_default(),
                b',' | b'{' | b'}' | b'\n' => self.key.clear(),
                _ => {}
            }
        }
        self.inner.write_all(bytes)
    }

    /// Passes on the string, which is whole.
    fn pass(&mut self) -> io::Result<()> {
        let string = std::mem::take(&mut self.string);
        // What is no string of JSON cannot be judged; nothing of ours writes such.
        let Ok(text) = serde_json::from_slice::<String>(&string) else {
            return self.inner.write_all(&string);
        };
        match redact_value(&self.key, &text) {
            std::borrow::Cow::Borrowed(_) => self.inner.write_all(&string)?,
            std::borrow::Cow::Owned(masked) => serde_json::to_writer(&mut self.inner, &masked)?,
        }
        self.last = Some(text);
        Ok(())
    }
}

impl<W: Write> Write for Redacted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let quote = |byte: &u8| *byte == b'"' || *byte == b'\\';
            let is_inside = !self.string.is_empty();
            if self.is_escaped {
                self.is_escaped = false;
                let (escaped, behind) = rest.split_at(1);
                self.string.extend_from_slice(escaped);
                rest = behind;
                continue;
            }
            let at = rest.iter().position(quote);
            let (before, behind) = rest.split_at(at.unwrap_or(rest.len()));
            if is_inside {
                self.string.extend_from_slice(before);
            } else if !before.is_empty() {
                self.between(before)?;
            }
            let Some((acting, behind)) = behind.split_first() else { break };
            rest = behind;
            match (is_inside, acting) {
                (true, b'"') => {
                    self.string.push(b'"');
                    self.pass()?;
                }
                (true, _) => {
                    self.string.push(b'\\');
                    self.is_escaped = true;
                }
                (false, b'"') => self.string.push(b'"'),
                (false, _) => self.between(b"\\")?,
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
