//! Writes to stdout (data) and stderr (everything else).
//!
//! Rust's runtime ignores SIGPIPE, so a closed pipe is an error of the next write. It ends the command without a
//! message: see [`CliError::write`].

use std::io::{self, BufWriter, Write};

use serde::Serialize;
use subscope_render::safe;

use crate::{context::Context, error::CliError};

/// Write buffer size: the default capacity of a Linux pipe. Larger buffers did not print a tree sooner.
const BUFFER_BYTES: usize = 64 << 10;

/// Runs `work` on stdout, which is locked, buffered, and flushed at the end.
pub(crate) fn to_stdout(work: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), CliError> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    work(&mut out).and_then(|()| out.flush()).map_err(|error| CliError::write("stdout", error))
}

/// Writes a text to stdout and flushes it, holding the lock: texts of several threads do not interleave.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    to_stdout(|out| out.write_all(text.as_bytes()))
}

/// Writes a sanitized line to stdout.
pub(crate) fn print_line(line: &str, context: &Context) -> Result<(), CliError> {
    print(&format!("{}\n", safe::line(line, context.style(None).charset())))
}

/// Writes a value to stdout as one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    to_stdout(|out| {
        let mut out = HarmlessJson::new(out);
        serde_json::to_writer(&mut out, value)?;
        out.write_all(b"\n")
    })
}

/// Escapes JSON lines as [`HarmlessJson`] does.
pub(crate) fn harmless_lines(lines: &str) -> String {
    let mut out = HarmlessJson::new(Vec::new());
    // Writing to memory cannot fail, and the output is valid UTF-8.
    let _ = out.write_all(lines.as_bytes());
    String::from_utf8(out.inner).unwrap_or_default()
}

/// Writer that escapes invisible and terminal-controlling characters in JSON (as `\u202e`, which every JSON parser
/// reads as the same character). JSON itself already escapes controls below U+0020; newlines between documents are
/// kept.
pub(crate) struct HarmlessJson<W> {
    inner: W,
    /// Incomplete UTF-8 sequence at the end of the last write.
    cut: Vec<u8>,
}

impl<W: Write> HarmlessJson<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, cut: Vec::new() }
    }

    fn write_escaped(&mut self, text: &str) -> io::Result<()> {
        let mut rest = text;
        // Of ASCII, only controls are hidden; most of what is written has none.
        if text.bytes().all(|byte| (b' '..=b'~').contains(&byte) || byte == b'\n') {
            return self.inner.write_all(text.as_bytes());
        }
        let is_escaped = |character: char| character != '\n' && safe::is_hidden(character);
        while let Some(at) = rest.find(is_escaped) {
            let (before, after) = rest.split_at(at);
            self.inner.write_all(before.as_bytes())?;
            let mut after = after.chars();
            if let Some(character) = after.next() {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(self.inner, "\\u{unit:04x}")?;
                }
            }
            rest = after.as_str();
        }
        self.inner.write_all(rest.as_bytes())
    }
}

impl<W: Write> Write for HarmlessJson<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let whole;
        let all = if self.cut.is_empty() {
            bytes
        } else {
            self.cut.extend_from_slice(bytes);
            whole = std::mem::take(&mut self.cut);
            &whole
        };
        let wrong = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        match std::str::from_utf8(all) {
            Ok(text) => self.write_escaped(text)?,
            Err(error) if error.error_len().is_none() => {
                let (text, cut) = all.split_at(error.valid_up_to());
                self.write_escaped(std::str::from_utf8(text).map_err(wrong)?)?;
                self.cut = cut.to_vec();
            }
            Err(error) => return Err(wrong(error)),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Writes a text to stderr while holding its lock. Errors are ignored.
pub(crate) fn complain(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_json_means_the_same_and_shows_everything() {
        let text = "a\u{202e}b\u{7f}c\u{9b}2J \u{e0041} \u{1b}[2J caf\u{e9} \u{65e5} \u{1f389}";
        let json = serde_json::to_string(text).unwrap();
        for size in 1..json.len() {
            let mut out = HarmlessJson::new(Vec::new());
            for piece in json.as_bytes().chunks(size) {
                out.write_all(piece).unwrap();
            }
            let written = String::from_utf8(out.inner).unwrap();
            assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
            assert!(!written.contains(safe::is_hidden), "{written:?}");
            assert!(written.contains("caf\u{e9} \u{65e5} \u{1f389}"), "{written}");
        }
    }
}
