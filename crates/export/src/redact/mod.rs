//! Masks what looks like a secret.
//!
//! It knows shapes, not secrets: what has no known shape passes, and `--redact` must not be relied upon alone.

mod json;
mod rules;
mod view;

use std::{borrow::Cow, ops::Range};

pub use json::Redacted;
use rules::RULES;
use view::View;

/// What stands in place of a secret.
const MASK: &str = "[redacted]";

/// The longest value that is searched together with its key.
const MAX_VALUE_BYTES: usize = 4 << 10;

/// Whether what looks like a secret is masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// Known shapes are.
    Secrets,
    /// Everything stays as it is.
    Nothing,
}

/// Returns a text with what looks like a secret masked.
pub(crate) fn redact(text: &str) -> Cow<'_, str> {
    masked(text, secrets(text))
}

/// Returns the text that stands under a key with what looks like a secret masked: a value is often known for a secret by
/// its key alone.
fn redact_value<'t>(key: &str, text: &'t str) -> Cow<'t, str> {
    let mut found = secrets(text);
    if !text.is_empty() && text.len() <= MAX_VALUE_BYTES && RULES.have_keyword_in(key) {
        let assigned = format!("{key}=\"{text}\"");
        let begin = key.len() + 2;
        let end = begin + text.len();
        let within = secrets(&assigned).into_iter().filter(|secret| secret.end > begin && secret.start < end);
        found.extend(within.map(|secret| secret.start.max(begin) - begin..secret.end.min(end) - begin));
    }
    masked(text, found)
}

/// Returns where the secrets of a text stand, in no order.
fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    RULES.find(text, &mut found);
    if let Some(view) = View::of(text) {
        let mut decoded = Vec::new();
        RULES.find(&view.text, &mut decoded);
        found.extend(decoded.iter().map(|secret| view.original(secret)));
    }
    found
}

/// Returns a text with these stretches of it masked, which may overlap.
fn masked(text: &str, mut secrets: Vec<Range<usize>>) -> Cow<'_, str> {
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
        // Rules see bytes: what they find of a longer character is the whole of it.
        let begin = (copied..=secret.start).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(copied);
        let end = (secret.end..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        out.push_str(text.get(copied..begin).unwrap_or_default());
        out.push_str(MASK);
        copied = end;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}
