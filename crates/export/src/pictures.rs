//! Pictures and other files in payloads: their bytes in base64 are no text that a reader or a search could use.

use std::borrow::Cow;

use memchr::memchr;

use crate::compact::string_len;

/// Shortest base64 that is taken for a file's bytes; hashes, tokens and signatures are shorter.
const MIN_BYTES: usize = 4 << 10;

/// Replaces each long base64 string of valid JSON, alone or in a `data:` URL, by a note of its length.
pub(crate) fn without_pictures(json: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = memchr(b'"', json.as_bytes().get(at..).unwrap_or_default()) {
        let from = at + found;
        at = from + string_len(json.get(from..).unwrap_or_default());
        let Some(content) = json.get(from + 1..at.saturating_sub(1)).filter(|text| is_file(text)) else {
            continue;
        };
        out.push_str(json.get(copied..from).unwrap_or_default());
        out.push_str(&format!("\"[{} bytes in base64 are left out]\"", content.len()));
        copied = at;
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(json.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

fn is_file(text: &str) -> bool {
    if text.len() < MIN_BYTES {
        return false;
    }
    let base64 = match text.strip_prefix("data:") {
        Some(rest) => rest.split_once(";base64,").map_or("", |(_, base64)| base64),
        None => text,
    };
    // JSON may write `/` as `\/`.
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=-_\\".contains(&byte);
    let has = |kind: fn(&u8) -> bool| base64.as_bytes().iter().any(kind);
    let is_mixed = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit);
    base64.bytes().all(is_base64) && is_mixed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_base64_is_left_out_and_all_else_is_as_it_was() {
        let picture = "iVBORw0KGgo+/=".repeat(400);
        let note = format!("[{} bytes in base64 are left out]", picture.len());
        let with = |value: &str| {
            format!(r#"[{{"type":"image","source":{{"data":"{value}"}}}},{{"text":"a \"b\""}}]"#)
        };
        assert_eq!(without_pictures(&with(&picture)), with(&note));
        assert_eq!(without_pictures(&format!("\"{picture}\"")), format!("\"{note}\""));
        let url = format!("data:image/png;base64,{picture}");
        assert_eq!(
            without_pictures(&with(&url)),
            with(&format!("[{} bytes in base64 are left out]", url.len()))
        );
        for kept in ["iVBORw0KGgo=", &"some words ".repeat(900), &format!("{picture}."), ""] {
            let json = with(kept);
            assert!(matches!(without_pictures(&json), Cow::Borrowed(same) if same == json), "{kept:.40}");
        }
    }
}
