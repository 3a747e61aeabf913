//! JSON without whitespace between its tokens.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// Removes the whitespace between the tokens of valid JSON; names keep their order, numbers and strings their spelling.
/// Nearly all that is recorded has none.
pub(crate) fn compact(json: &str) -> Cow<'_, str> {
    // One string is one token.
    if json.starts_with('"') && json.ends_with('"') {
        return Cow::Borrowed(json);
    }
    let mut out = String::new();
    // What is not copied yet.
    let mut pending = json;
    let mut rest = json;
    while !rest.is_empty() {
        let string = memchr(b'"', rest.as_bytes()).unwrap_or(rest.len());
        if let Some(space) = rest[..string].find(is_space) {
            let copied = pending.len() - rest.len() + space;
            out.push_str(&pending[..copied]);
            pending = pending[copied..].trim_start_matches(is_space);
            rest = pending;
            continue;
        }
        rest = &rest[string..];
        rest = &rest[string_len(rest)..];
    }
    if pending.len() == json.len() {
        return Cow::Borrowed(json);
    }
    out.push_str(pending);
    Cow::Owned(out)
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r')
}

/// Returns the length of the string at the start, with its quotes.
pub(crate) fn string_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while let Some(found) = memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        at += found;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use subscope_testkit::fixtures;

    use super::*;

    #[test]
    fn only_whitespace_between_tokens_goes() {
        for (json, compacted) in [
            (
                "{\n  \"b\" : [ 1.0 , true ],\r\n\t\"a\": \"x  \\\" \\\\\"  }\n",
                "{\"b\":[1.0,true],\"a\":\"x  \\\" \\\\\"}",
            ),
            (" \"ü \" ", "\"ü \""),
            ("[ ]", "[]"),
            (" 1e3", "1e3"),
            ("", ""),
        ] {
            assert_eq!(compact(json), compacted);
        }
        assert!(matches!(compact("{\"a\":\"b c\",\"d\":[1,null]}"), Cow::Borrowed(_)));
    }

    #[test]
    fn all_recorded_lines_are_the_same_when_they_were_indented() {
        let mut count = 0;
        for recording in fixtures::recordings() {
            for main in recording.mains() {
                for line in std::fs::read_to_string(main).unwrap().lines() {
                    let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
                    assert_eq!(compact(&serde_json::to_string_pretty(&value).unwrap()), value.to_string());
                    count += 1;
                }
            }
        }
        assert!(count > 1_000, "{count}");
    }
}
