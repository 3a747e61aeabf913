//! Ids from outside in a form that is safe wherever an id is shown, pasted or completed.
//!
//! A harness's ids are words of letters, digits and a few marks, and stay as they are. A file, hook or program may name
//! any text: in it, every character that could steer a terminal, be code of a shell or begin an option is written as the
//! `%XX` of its bytes, and so is `%`. So no two ids become one, and [`true_id`] returns the id that was given.

use std::borrow::Cow;

/// Marks that stay. None is special to a shell inside a word.
const MARKS: &[char] = &['.', '_', ':', '@', '/', '-', '+', ',', '=', '#', '~'];
/// Those that are special at the beginning of a word, or begin an option.
const NOT_FIRST: &[char] = &['-', '=', '#', '~'];

/// Whether a character stays as it is.
fn stays(character: char, is_first: bool) -> bool {
    character.is_alphanumeric()
        || (MARKS.contains(&character) && !(is_first && NOT_FIRST.contains(&character)))
}

/// Whether this is an ordinary id: [`safe_id`] returns it as it is.
fn is_ordinary(id: &str) -> bool {
    // Nearly every id of a harness is such a word. Without an early end, many bytes are looked at together.
    let is_plain = |byte: u8| {
        ((byte | 0x20).wrapping_sub(b'a') < 26)
            | (byte.wrapping_sub(b'0') < 10)
            | (byte == b'-')
            | (byte == b'_')
    };
    (id.bytes().fold(true, |all, byte| all & is_plain(byte)) && !id.starts_with('-'))
        || id.char_indices().all(|(at, character)| stays(character, at == 0))
}

/// Returns the safe form of an id from outside. Injective; the same text for an ordinary id.
pub fn safe_id(id: &str) -> Cow<'_, str> {
    if is_ordinary(id) {
        return Cow::Borrowed(id);
    }
    let mut safe = String::with_capacity(id.len() + 16);
    for (at, character) in id.char_indices() {
        if stays(character, at == 0) {
            safe.push(character);
        } else {
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                safe += &format!("%{byte:02X}");
            }
        }
    }
    Cow::Owned(safe)
}

/// Returns the id that was given, from its safe form.
pub fn true_id(safe: &str) -> Cow<'_, str> {
    let mut rest = safe.as_bytes();
    if !rest.contains(&b'%') {
        return Cow::Borrowed(safe);
    }
    let hex = |digits: &[u8]| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok();
    let mut bytes = Vec::with_capacity(rest.len());
    while let [first, more @ ..] = rest {
        let escaped = more.get(..2).filter(|_| *first == b'%').and_then(hex);
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { more.get(2..).unwrap_or_default() } else { more };
    }
    String::from_utf8(bytes).map_or(Cow::Borrowed(safe), Cow::Owned)
}

/// Returns the safe form of an id that subscope may have written: one that is in safe form already stays.
pub fn own_id(id: &str) -> Cow<'_, str> {
    if safe_id(&true_id(id)) == id { Cow::Borrowed(id) } else { safe_id(id) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ids_of_harnesses_stay_byte_for_byte() {
        for id in [
            "59d3cea2-1111-4222-8333-444455556666",
            "ses_6f0b",
            "toolu_01AbC",
            "events:r1",
            "reviewer@team-1",
            "rollout/2026.11#1",
            "a+b,c=d~e",
            "\u{4f1a}\u{8bdd}-1",
            "",
        ] {
            assert!(matches!(safe_id(id), Cow::Borrowed(same) if same == id), "{id}");
        }
    }

    #[test]
    fn what_a_terminal_or_a_shell_obeys_is_escaped() {
        for (id, safe) in [
            ("S$(touch${IFS}PWNED)", "S%24%28touch%24%7BIFS%7DPWNED%29"),
            ("a b", "a%20b"),
            ("a%20b", "a%2520b"),
            ("--force", "%2D-force"),
            ("~root", "%7Eroot"),
            ("x\u{1b}[2J\u{202e}", "x%1B%5B2J%E2%80%AE"),
            ("r1\u{200b}", "r1%E2%80%8B"),
            ("a'b\"c`d\\e", "a%27b%22c%60d%5Ce"),
            ("x*?[!]{}<>|&;\n", "x%2A%3F%5B%21%5D%7B%7D%3C%3E%7C%26%3B%0A"),
        ] {
            assert_eq!(safe_id(id), safe);
            assert_eq!(true_id(safe), id);
        }
    }

    /// Ids, many of which are nearly equal or look escaped.
    fn ids() -> impl Strategy<Value = String> {
        prop_oneof![any::<String>(), "[-a%20b $~#=\u{e9}]{0,6}", "(%[0-9A-Fa-f]{0,2}|.){0,5}"]
    }

    proptest! {
        #[test]
        fn safe_form_is_safe_and_gives_the_id_back(id in ids()) {
            let safe = safe_id(&id);
            prop_assert!(safe.chars().all(|it| it.is_alphanumeric() || MARKS.contains(&it) || it == '%'), "{safe}");
            prop_assert!(!safe.starts_with(NOT_FIRST), "{safe}");
            prop_assert_eq!(true_id(&safe), id.as_str());
            prop_assert_eq!(own_id(&safe), safe.as_ref());
            prop_assert_eq!(is_ordinary(&id), safe == id);
        }

        #[test]
        fn no_two_ids_become_one(one in ids(), other in ids()) {
            prop_assert_eq!(safe_id(&one) == safe_id(&other), one == other);
        }
    }
}
