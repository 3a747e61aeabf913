//! Redacts output that differs between runs.

/// Returns `text` with every duration as `[TIME]`: `12ms`, `7.9s`, `1m 02s`, `2h05m`, `3d`. A unit counts only directly
/// after a number and if the word ends after it; consecutive durations become one.
pub fn redact_durations(text: &str) -> String {
    let mut redacted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let is_inside_word =
            redacted.ends_with(|before: char| before.is_alphanumeric() || matches!(before, '.' | '_'));
        let length = if is_inside_word { 0 } else { durations(rest) };
        if length == 0 {
            redacted.push(letter);
            rest = &rest[letter.len_utf8()..];
        } else {
            redacted.push_str("[TIME]");
            rest = &rest[length..];
        }
    }
    redacted
}

/// The length of the row of durations that `text` begins with.
fn durations(text: &str) -> usize {
    let mut length = 0;
    loop {
        let gap = usize::from(length > 0 && text[length..].starts_with(' '));
        match duration(&text[length + gap..]) {
            0 => break,
            more => length += gap + more,
        }
    }
    // `5mb`, `3days`: a word goes on.
    if text[length..].starts_with(|letter: char| letter.is_alphanumeric()) { 0 } else { length }
}

/// The length of the one duration that `text` begins with.
fn duration(text: &str) -> usize {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    if digits == 0 {
        return 0;
    }
    let fraction = match text[digits..].strip_prefix('.') {
        Some(rest) => rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len()),
        None => 0,
    };
    let number = digits + if fraction > 0 { fraction + 1 } else { 0 };
    let units = ["ms", "\u{b5}s", "ns", "s", "m", "h", "d"];
    let ends = |rest: &str| !rest.starts_with(|letter: char| letter.is_alphabetic());
    let unit = units.iter().find(|unit| text[number..].strip_prefix(**unit).is_some_and(ends));
    unit.map_or(0, |unit| number + unit.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_redacted_and_other_numbers_are_left() {
        for (text, expected) in [
            ("took 12ms, then 7.9s.", "took [TIME], then [TIME]."),
            ("1m 02s 40% · 2h05m", "[TIME] 40% · [TIME]"),
            ("3d (1.25\u{b5}s)", "[TIME] ([TIME])"),
            ("5mb 3days v2.1s 17 agents a7s 1.2.3", "5mb 3days v2.1s 17 agents a7s 1.2.3"),
            ("\u{25b8}3 agents · 40s", "\u{25b8}3 agents · [TIME]"),
            ("", ""),
        ] {
            assert_eq!(redact_durations(text), expected);
        }
    }
}
