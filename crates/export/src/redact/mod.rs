//! Redaction of secrets by known patterns.
//!
//! Secrets without a known pattern are not masked, so `--redact` must not be relied upon alone.

mod assignments;
mod json;
mod prefixed;
mod rules;
mod view;

use std::{
    borrow::Cow,
    io::{self, Write as _},
    ops::Range,
};

pub use json::Redacted;
use rules::RULES;
use view::DecodedText;

/// Replacement of a secret.
const MASK: &str = "[redacted]";

/// Maximum length of a value that is searched together with its key.
const MAX_VALUE_BYTES: usize = 4 << 10;

/// Whether secrets are masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// Mask known patterns.
    Secrets,
    /// Mask nothing.
    Nothing,
}

impl Mask {
    /// Returns JSON with its strings masked as this says.
    pub(crate) fn json(self, json: Vec<u8>) -> io::Result<Vec<u8>> {
        match self {
            Self::Nothing => Ok(json),
            Self::Secrets => {
                let mut masked = Redacted::new(Vec::with_capacity(json.len()));
                masked.write_all(&json)?;
                masked.finish()
            }
        }
    }
}

/// Returns a text with secrets masked.
pub fn redact(text: &str) -> Cow<'_, str> {
    mask_ranges(text, find_secrets(text))
}

/// Returns the value of a key with secrets masked: a value is often recognized by its key alone.
fn redact_value<'t>(key: &str, text: &'t str) -> Cow<'t, str> {
    if assignments::is_secret_of(key, text) {
        return Cow::Owned(MASK.to_owned());
    }
    let mut found = find_secrets(text);
    if !text.is_empty() && text.len() <= MAX_VALUE_BYTES && RULES.have_keyword_in(key) {
        let assigned = format!("{key}=\"{text}\"");
        let begin = key.len() + 2;
        let end = begin + text.len();
        let within =
            find_secrets(&assigned).into_iter().filter(|secret| secret.end > begin && secret.start < end);
        found.extend(within.map(|secret| secret.start.max(begin) - begin..secret.end.min(end) - begin));
    }
    mask_ranges(text, found)
}

/// Returns the byte ranges of secrets, unordered.
fn find_secrets(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    RULES.find(text, &mut found);
    prefixed::find(text, &mut found);
    for view in DecodedText::views(text) {
        let mut decoded = Vec::new();
        RULES.find(&view.text, &mut decoded);
        prefixed::find(&view.text, &mut decoded);
        found.extend(decoded.iter().map(|secret| view.original(secret)));
    }
    found
}

/// Returns a text with these ranges masked; they may overlap.
fn mask_ranges(text: &str, mut secrets: Vec<Range<usize>>) -> Cow<'_, str> {
    if secrets.is_empty() {
        return Cow::Borrowed(text);
    }
    secrets.sort_by_key(|secret| secret.start);
    let mut merged: Vec<Range<usize>> = Vec::new();
    for secret in secrets {
        match merged.last_mut().filter(|last| secret.start <= last.end) {
            Some(last) => last.end = last.end.max(secret.end),
            None => merged.push(secret),
        }
    }
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    for secret in merged {
        // Rules match bytes: extend a match to whole characters.
        let begin = (copied..=secret.start).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(copied);
        let end = (secret.end..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        out.push_str(text.get(copied..begin).unwrap_or_default());
        out.push_str(MASK);
        copied = end;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

#[cfg(test)]
mod tests;
