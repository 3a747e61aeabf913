//! Bounds answers: truncates texts, pages lists, and counts what is left out.

use serde::Serialize;
use serde_json::{Map, Value, json};
use subscope_render::safe;

/// Most JSON bytes of an answer's list; a first entry may exceed it. About 15,000 tokens, so that no client truncates
/// it.
pub(super) const ANSWER_BYTES: usize = 60_000;

/// Truncates every string in a value to `chars` characters; adds the number of missing ones to `left_out`.
pub(super) fn truncate_texts(value: &mut Value, chars: usize, left_out: &mut u64) {
    // Not recursive: a hostile payload may be nested deeper than the call stack.
    let mut next = vec![value];
    while let Some(value) = next.pop() {
        match value {
            Value::String(text) => truncate(text, chars, left_out),
            Value::Array(items) => next.extend(items),
            Value::Object(fields) => next.extend(fields.values_mut()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Truncates string fields.
pub(super) fn truncate_fields(object: &mut Value, fields: &[&str], chars: usize, left_out: &mut u64) {
    for field in fields {
        if let Some(Value::String(text)) = object.get_mut(field) {
            truncate(text, chars, left_out);
        }
    }
}

fn truncate(text: &mut String, chars: usize, left_out: &mut u64) {
    let Some((end, _)) = text.char_indices().nth(chars) else { return };
    let missing = text.get(end..).map_or(0, |rest| rest.chars().count());
    *left_out += missing as u64;
    text.truncate(end);
    text.push_str(&format!("… ({missing} more characters)"));
}

/// Converts items to JSON with `bound` applied, up to `limit` or [`ANSWER_BYTES`], at least one. Returns them, and
/// whether there are more.
pub(super) fn page<'a, T: Serialize + 'a>(
    items: impl IntoIterator<Item = &'a T>,
    limit: usize,
    mut bound: impl FnMut(&T, &mut Value),
) -> (Vec<Value>, bool) {
    let bounded = |item| {
        let mut entry = json!(item);
        bound(item, &mut entry);
        entry
    };
    let entries: Vec<Value> = items.into_iter().take(limit + 1).map(bounded).collect();
    let (mut taken, mut bytes) = (Vec::new(), 0);
    for entry in entries {
        let size = entry.to_string().len();
        if taken.len() == limit || (!taken.is_empty() && bytes + size > ANSWER_BYTES) {
            return (taken, true);
        }
        bytes += size;
        taken.push(entry);
    }
    (taken, false)
}

/// Adds a `left_out` object with counts above zero.
pub(super) fn note(answer: &mut Value, left_out: &[(&str, u64)]) {
    let counts: Map<String, Value> = left_out
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| ((*what).to_owned(), (*count).into()))
        .collect();
    if !counts.is_empty() {
        answer["left_out"] = Value::Object(counts);
    }
}

/// Serializes a value as JSON with control and invisible characters escaped (`\u…`), so that it is safe on a terminal.
pub(super) fn to_safe_json(value: &Value) -> String {
    let json = value.to_string();
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        if !safe::is_hidden(character) {
            out.push(character);
            continue;
        }
        let mut units = [0; 2];
        for unit in character.encode_utf16(&mut units) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_everywhere_and_what_is_missing_is_said() {
        let mut value = json!({"a": ["äöü12", 1, {"b": "ok"}]});
        let mut left_out = 0;
        truncate_texts(&mut value, 3, &mut left_out);
        assert_eq!(value, json!({"a": ["äöü… (2 more characters)", 1, {"b": "ok"}]}));
        assert_eq!(left_out, 2);
    }

    #[test]
    fn page_ends_at_its_limit_or_when_it_is_full() {
        let entries: Vec<u64> = (0..10).collect();
        assert_eq!(page(&entries, 3, |_, _| ()), (vec![json!(0), json!(1), json!(2)], true));
        assert!(!page(&entries, 10, |_, _| ()).1);
        let big: Vec<String> = (0..3).map(|_| "x".repeat(ANSWER_BYTES)).collect();
        let (taken, has_more) = page(&big, 3, |_, _| ());
        assert_eq!((taken.len(), has_more), (1, true));
    }

    #[test]
    fn what_acts_on_a_terminal_is_spelled_and_means_the_same() {
        let value = json!({"text": "a\u{1b}[2J\u{202e}b\u{e0041}日"});
        let text = to_safe_json(&value);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert!(text.contains("\\u202e") && text.contains('日') && !text.contains('\u{202e}'), "{text}");
    }
}
