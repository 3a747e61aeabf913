//! Masks what looks like a secret in what is written.
//!
//! Works on lines of output, so that every format is masked alike. It knows shapes, not secrets: what has no known shape
//! passes, and `--redact` must not be relied upon alone.

use std::{io, sync::LazyLock};

use regex::{Captures, Regex};

/// What stands in place of a secret.
const MASK: &str = "[redacted]";

/// Known shapes. Where a shape has a first group, the group stays and the rest is masked.
static SHAPES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    const SOURCES: [&str; 9] = [
        // AWS access key ids, and secret keys named as such.
        r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
        r#"((?i:aws_secret_access_key|secret_access_key)\\?["']?\s*[:=]\s*\\?["']?)[0-9A-Za-z/+]{40}"#,
        // GitHub, GitLab, Slack, npm, PyPI tokens.
        r"\b(?:gh[pousr]_[0-9A-Za-z]{20,}|github_pat_[0-9A-Za-z_]{20,}|glpat-[0-9A-Za-z_-]{20,})",
        r"\b(?:xox[abeoprs]-[0-9A-Za-z-]{10,}|npm_[0-9A-Za-z]{30,}|pypi-[0-9A-Za-z_-]{40,})",
        // API keys of model vendors and payment services.
        r"\b(?:sk|pk|rk)[-_](?:ant[-_]|proj[-_]|live[-_]|test[-_])?[0-9A-Za-z_-]{16,}",
        r"\bAIza[0-9A-Za-z_-]{35}",
        // Private keys and bearer tokens.
        r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)(?:[^-]|-[^-])*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
        r"\b((?i:bearer)\s+)[0-9A-Za-z._~+/-]{16,}=*",
        // Anything named a password, secret or token with a value.
        r#"((?i:password|passwd|api[_-]?key|client[_-]?secret|auth[_-]?token)\\?["']?\s*[:=]\s*\\?["']?)[^\s"'\\,;&]{6,}"#,
    ];
    SOURCES.iter().filter_map(|source| Regex::new(source).ok()).collect()
});

/// Returns a text with what looks like a secret masked.
pub fn redact(text: &str) -> String {
    let mut masked = text.to_owned();
    for shape in SHAPES.iter() {
        let keep = |captures: &Captures<'_>| {
            let head = captures.get(1).map_or("", |head| head.as_str());
            format!("{head}{MASK}")
        };
        if shape.is_match(&masked) {
            masked = shape.replace_all(&masked, keep).into_owned();
        }
    }
    masked
}

/// A writer that masks each line before it passes it on. [`Redacted::finish`] passes on the last one.
#[derive(Debug)]
pub struct Redacted<W> {
    inner: W,
    line: Vec<u8>,
}

impl<W: io::Write> Redacted<W> {
    /// Masks what is written from here on.
    pub fn new(inner: W) -> Self {
        Self { inner, line: Vec::new() }
    }

    /// Passes on what is left, and gives back what is written to.
    ///
    /// # Errors
    /// What the writer gives.
    pub fn finish(mut self) -> io::Result<W> {
        self.pass()?;
        self.inner.flush()?;
        Ok(self.inner)
    }

    fn pass(&mut self) -> io::Result<()> {
        let text = String::from_utf8_lossy(&self.line);
        self.inner.write_all(redact(&text).as_bytes())?;
        self.line.clear();
        Ok(())
    }
}

impl<W: io::Write> io::Write for Redacted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.pass()?;
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
    use std::io::Write;

    use super::*;

    #[test]
    fn redact_masks_known_shapes_and_nothing_else() {
        assert_eq!(SHAPES.len(), 9);
        for (text, masked) in [
            ("id AKIAIOSFODNN7EXAMPLE end", "id [redacted] end"),
            ("token ghp_abcdefghijklmnopqrstuvwxyz012345", "token [redacted]"),
            ("Authorization: Bearer abcdefghijklmnop123456", "Authorization: Bearer [redacted]"),
            (r#"{"password":"hunter2hunter2"}"#, r#"{"password":"[redacted]"}"#),
            (r#"{\"api_key\": \"abcdef123456\"}"#, r#"{\"api_key\": \"[redacted]\"}"#),
            (
                "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                "AWS_SECRET_ACCESS_KEY=[redacted]",
            ),
            ("sk-ant-api03-abcdefghijklmnopqrstuv", "[redacted]"),
            (
                "toolu_01HldhyaEvoeNI6LXYrtcfZD msg_01 a70ac2eddada1f966",
                "toolu_01HldhyaEvoeNI6LXYrtcfZD msg_01 a70ac2eddada1f966",
            ),
        ] {
            assert_eq!(redact(text), masked);
        }
    }

    #[test]
    fn writer_masks_across_writes_and_passes_the_last_line() {
        let mut out = Redacted::new(Vec::new());
        for piece in ["one AKIAIOSFOD", "NN7EXAMPLE\ntwo ghp_abcdefghij", "klmnopqrstuvwxyz"] {
            out.write_all(piece.as_bytes()).unwrap();
        }
        assert_eq!(out.finish().unwrap(), b"one [redacted]\ntwo [redacted]");
    }
}
