//! Tokens of services that no rule knows: a prefix in small letters, then many letters of both cases with digits
//! (`acme_live_…`).

use std::ops::Range;

use super::rules::{RULES, entropy};

/// Fewest characters after the prefix, most in it, and in each of its words.
pub(super) const MIN_RANDOM_BYTES: usize = 32;
const MAX_PREFIX_BYTES: usize = 40;
const MAX_WORD_BYTES: usize = 12;
/// Minimum entropy in bits per byte, with the prefix.
const MIN_ENTROPY: f64 = 4.2;

/// Appends the byte ranges of such tokens, in order.
pub(super) fn find(text: &str, found: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let mut start = 0;
    // Scan backwards from where a run that begins here would be long enough: most of a text is skipped.
    while let Some(run) = bytes.get(start..start + MIN_RANDOM_BYTES) {
        if let Some(last) = run.iter().rposition(|byte| !byte.is_ascii_alphanumeric()) {
            start += last + 1;
            continue;
        }
        let rest = bytes[start..].iter().position(|byte| !byte.is_ascii_alphanumeric());
        let end = rest.map_or(bytes.len(), |length| start + length);
        if start > 0 && matches!(bytes[start - 1], b'_' | b'.') {
            found.extend(token(text, start..end));
        }
        start = end + 1;
    }
}

/// Returns the token that ends with these random characters.
pub(super) fn token(text: &str, random: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let has = |is: fn(&u8) -> bool| bytes[random.clone()].iter().any(is);
    if !(has(u8::is_ascii_digit) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase)) {
        return None;
    }
    let is_of_prefix =
        |byte: &&u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.".contains(byte);
    let length = bytes[..random.start].iter().rev().take(MAX_PREFIX_BYTES).take_while(is_of_prefix).count();
    let begin = random.start - length;
    let is_inside = begin > 0 && (bytes[begin - 1].is_ascii_alphanumeric() || bytes[begin - 1] == b'\\');
    let mut words = text[begin..random.start - 1].split(['_', '.']);
    let is_prefix =
        bytes[begin].is_ascii_lowercase() && words.all(|word| (1..=MAX_WORD_BYTES).contains(&word.len()));
    let spelled = text.get(begin..random.end)?;
    let is_token = is_prefix && !is_inside && entropy(spelled.as_bytes()) >= MIN_ENTROPY;
    (is_token && !RULES.stands_for_secret(spelled)).then_some(begin..random.end)
}
