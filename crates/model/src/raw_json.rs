//! Raw JSON values of sources, and where they are.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::{SourceId, Text};

/// A JSON value of a source: raw, valid JSON text.
#[derive(Clone, Copy, Debug)]
pub struct RawJson<'a> {
    /// The JSON text.
    pub json: &'a str,
    /// Its byte offset in the source.
    pub offset: u64,
}

impl<'a> RawJson<'a> {
    /// Returns the value's text: a string unescaped, the texts of an array of content blocks joined by
    /// newlines (`{"type":"text","text":…}` or plain strings), anything else as its JSON.
    pub fn text(&self) -> Cow<'a, str> {
        match self.json.as_bytes().first() {
            Some(b'"') => unescape(self.json),
            Some(b'[') => {
                let texts = self.block_texts();
                if texts.is_empty() { Cow::Borrowed(self.json) } else { Cow::Owned(texts.join("\n")) }
            }
            _ => Cow::Borrowed(self.json),
        }
    }

    /// Parses the value; a JSON string of its text if it is invalid.
    pub fn value(&self) -> Value {
        serde_json::from_str(self.json).unwrap_or_else(|_| Value::from(self.json))
    }

    /// Returns the text of the last content block that has one; for a string, the string.
    pub fn last_text(&self) -> Option<Cow<'a, str>> {
        match self.json.as_bytes().first() {
            Some(b'[') => self.block_texts().pop(),
            _ => Some(self.text()),
        }
    }

    /// Returns the text of the only content block; for a string, the string. `None` for several.
    pub fn only_text(&self) -> Option<Cow<'a, str>> {
        let mut texts = self.block_texts();
        match self.json.as_bytes().first() {
            Some(b'[') => texts.pop().filter(|_| texts.is_empty()),
            _ => Some(self.text()),
        }
    }

    /// Returns the texts of an array of content blocks or plain strings.
    fn block_texts(&self) -> Vec<Cow<'a, str>> {
        // An untagged enum cannot borrow raw values: inspect each element.
        let elements: Vec<&'a RawValue> = serde_json::from_str(self.json).unwrap_or_default();
        let text = |element: &'a RawValue| {
            let json = element.get();
            if json.starts_with('"') {
                return Some(unescape(json));
            }
            let text = serde_json::from_str::<ContentBlockText<'a>>(json).ok()?.text?.get();
            text.starts_with('"').then(|| unescape(text))
        };
        elements.into_iter().filter_map(text).collect()
    }
}

/// The text of a content block.
#[derive(Deserialize)]
struct ContentBlockText<'a> {
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
}

fn unescape(json: &str) -> Cow<'_, str> {
    let inner = json.get(1..json.len().saturating_sub(1)).unwrap_or("");
    if inner.contains('\\') {
        let text = serde_json::from_str::<String>(&replace_lone_surrogates(json));
        text.map_or(Cow::Borrowed(inner), Cow::Owned)
    } else {
        Cow::Borrowed(inner)
    }
}

/// Replaces escapes of lone surrogates (`\ud83d` without its second half), which are no text, by `\ufffd`. The length
/// stays the same, so offsets into the JSON do, too.
pub fn replace_lone_surrogates(json: &str) -> Cow<'_, str> {
    let mut out = Cow::Borrowed(json);
    // Nearly no text has an escaped surrogate, and many have escapes.
    if !["\\ud", "\\uD"].iter().any(|begin| json.contains(begin)) {
        return out;
    }
    let unit = |at: usize| {
        let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut at = 0;
    while let Some(found) = json.get(at..).and_then(|rest| rest.find('\\')) {
        at += found;
        at += match (unit(at), unit(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                out.to_mut().replace_range(at..at + 6, "\\ufffd");
                6
            }
            // An escaped backslash is no beginning of an escape.
            _ => 2,
        };
    }
    out
}

/// Large foreign data: inline, or a reference into its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Payload {
    /// The JSON text itself, if its source cannot be read again.
    Inline(Text),
    /// Location of the JSON text in a permanent source.
    At {
        /// Number of the source, within one session router.
        #[serde(skip)]
        source: SourceId,
        /// Byte offset.
        offset: u64,
        /// Length in bytes.
        len: u32,
    },
}

impl Payload {
    /// Refers to JSON in a source; keeps its text if it cannot be read there again.
    pub fn of(raw: RawJson<'_>, source: SourceId, is_read_once: bool) -> Self {
        match u32::try_from(raw.json.len()) {
            Ok(len) if raw.offset != u64::MAX && !is_read_once => {
                Self::At { source, offset: raw.offset, len }
            }
            _ => Self::Inline(raw.json.into()),
        }
    }

    /// Returns the length of the JSON text in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Inline(text) => text.len(),
            Self::At { len, .. } => *len as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> RawJson<'_> {
        RawJson { json, offset: 0 }
    }

    #[test]
    fn lone_surrogates_are_replaced_and_pairs_stay() {
        for (json, expected) in [
            (r#""a\ud83d\ude00b""#, r#""a\ud83d\ude00b""#),
            (r#""a\ud83db\ude00""#, r#""a\ufffdb\ufffd""#),
            (r#""\ud83d\ud83d\ude00\uDBFF""#, r#""\ufffd\ud83d\ude00\ufffd""#),
            (r#""\\ud83d \\\ud83d é\""#, r#""\\ud83d \\\ufffd é\""#),
            (r#""\ud83""#, r#""\ud83""#),
        ] {
            assert_eq!(replace_lone_surrogates(json), expected, "{json}");
        }
        assert_eq!(raw(r#""a\ud83d b""#).text(), "a\u{fffd} b");
    }

    #[test]
    fn text_of_strings_blocks_and_other_values() {
        for (json, text, last) in [
            (r#""a\nb""#, "a\nb", Some("a\nb")),
            (
                r#"[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b\u00e9"}]"#,
                "a\nbé",
                Some("bé"),
            ),
            (r#"["x","y"]"#, "x\ny", Some("y")),
            (
                r#"[{"type":"tool_reference","tool_name":"T"}]"#,
                r#"[{"type":"tool_reference","tool_name":"T"}]"#,
                None,
            ),
            (r#"{"a":1}"#, r#"{"a":1}"#, Some(r#"{"a":1}"#)),
        ] {
            assert_eq!((raw(json).text().as_ref(), raw(json).last_text().as_deref()), (text, last), "{json}");
        }
    }
}
