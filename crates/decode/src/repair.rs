//! Payloads that are nearly JSON: some programs write texts into them without escaping.

use serde::de::IgnoredAny;

/// Returns a payload as JSON if it is, or can be repaired: a byte order mark is removed, raw control characters in texts
/// are escaped, and so are backslashes of a text in which they begin no escape (a Windows path). Anything else is returned as
/// it is.
pub fn repair_json(payload: Vec<u8>) -> Vec<u8> {
    if serde_json::from_slice::<IgnoredAny>(&payload).is_ok() {
        return payload;
    }
    let Ok(text) = std::str::from_utf8(&payload) else { return payload };
    let repaired = repaired(text.trim_start_matches('\u{feff}'));
    match serde_json::from_str::<IgnoredAny>(&repaired) {
        Ok(IgnoredAny) => repaired.into_bytes(),
        Err(_) => payload,
    }
}

fn repaired(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('"') {
        out.push_str(before);
        out.push('"');
        let end = end_of_text(behind);
        let (inside, after) = behind.split_at(end);
        push_text(inside, &mut out);
        rest = after;
        if let Some(after) = rest.strip_prefix('"') {
            out.push('"');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// Returns where a text ends: at the first quote that no backslash is before.
fn end_of_text(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    end.unwrap_or(text.len())
}

fn push_text(text: &str, out: &mut String) {
    let is_raw = has_false_escape(text);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if is_raw => {
                out.push_str("\\\\");
                // What was escaped stays so.
                if letters.next_if_eq(&'"').is_some() {
                    out.pop();
                    out.push('"');
                } else {
                    letters.next_if_eq(&'\\');
                }
            }
            '\\' => {
                out.push('\\');
                out.extend(letters.next());
            }
            letter if letter < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => out.push(letter),
        }
    }
}

/// Whether a text has a backslash that begins no escape of JSON.
fn has_false_escape(text: &str) -> bool {
    let mut rest = text;
    while let Some((_, behind)) = rest.split_once('\\') {
        let mut letters = behind.chars();
        let is_escape = match letters.next() {
            Some('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => true,
            Some('u') => {
                behind.get(1..5).is_some_and(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()))
            }
            Some(_) | None => false,
        };
        if !is_escape {
            return true;
        }
        rest = letters.as_str();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nearly_json_is_repaired_and_nothing_else_changed() {
        for (payload, field, expected) in [
            ("{\"a\":\"tab\\tand\"}", "a", "tab\tand"),
            ("{\"a\":\"a raw\ttab and\na line\",\"b\":\"c\\\\d\"}", "a", "a raw\ttab and\na line"),
            (r#"{"a":"C:\Users\new\a.md","b":"x\ny"}"#, "a", r"C:\Users\new\a.md"),
            (r#"{"a":"C:\Users\new\a.md","b":"x\ny"}"#, "b", "x\ny"),
            (r#"{"a":"say \"C:\\Users\x\""}"#, "a", r#"say "C:\Users\x""#),
            ("\u{feff}{\"a\":\"b\"}", "a", "b"),
        ] {
            let repaired = repair_json(payload.as_bytes().to_vec());
            let value: serde_json::Value = serde_json::from_slice(&repaired).unwrap();
            assert_eq!(value[field], expected, "{payload}");
        }
        for payload in ["{\"a\":\"b\"}", "{\"a\":1", "text", "{\"a\":\"\\x", ""] {
            assert_eq!(repair_json(payload.as_bytes().to_vec()), payload.as_bytes(), "{payload}");
        }
    }
}
