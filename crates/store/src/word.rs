//! Tokenizer of the text index, for indexed text and queries alike.

use std::{collections::HashSet, hash::BuildHasher};

use hashbrown::DefaultHashBuilder;

/// Longest run of letters and digits that is indexed: longer ones are encoded data, which users do not search.
const MAX_WORD_BYTES: usize = 64;

/// Returns the distinct words of a text, in lower case, in order of first appearance.
///
/// A word is a run of letters, digits and combining marks.
pub fn words(text: &str) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for_each_word(text, &mut |word| {
        if !seen.contains(word) {
            seen.insert(word.to_owned());
            all.push(word.to_owned());
        }
    });
    all
}

/// Entries of [`DistinctWords`]: 64 KiB, which stay in the processor's cache.
const CACHED_WORDS: usize = 1 << 12;

/// Appends the words of texts, leaving out repetitions within a text.
///
/// It is a direct-mapped cache: a repeated word is appended again if another one took its entry, which costs an index
/// time but changes nothing. Words of equal hash count as the same: a chance of 2⁻⁶⁴ each.
#[derive(Debug)]
pub(crate) struct DistinctWords {
    /// Hash of a word, and the number of the last text that has it.
    cache: Vec<(u64, u32)>,
    hasher: DefaultHashBuilder,
    texts: u32,
}

impl Default for DistinctWords {
    fn default() -> Self {
        Self { cache: vec![(0, 0); CACHED_WORDS], hasher: DefaultHashBuilder::default(), texts: 0 }
    }
}

impl DistinctWords {
    /// Appends a text's words, each followed by a space.
    pub(crate) fn append(&mut self, text: &str, words: &mut String) {
        self.texts += 1;
        for_each_word(text, &mut |word| {
            let hash = self.hasher.hash_one(word);
            let Some(entry) = self.cache.get_mut(hash as usize % CACHED_WORDS) else { return };
            if std::mem::replace(entry, (hash, self.texts)) != (hash, self.texts) {
                words.push_str(word);
                words.push(' ');
            }
        });
    }
}

/// Class of an ASCII byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteClass {
    /// Separates words.
    Separator,
    /// Word character as it is.
    Lower,
    /// Word character that is to be converted to lower case.
    Upper,
}

const CLASSES: [ByteClass; 128] = {
    let mut classes = [ByteClass::Separator; 128];
    let mut byte = 0;
    while byte < 128 {
        if (byte as u8).is_ascii_uppercase() {
            classes[byte] = ByteClass::Upper;
        } else if (byte as u8).is_ascii_alphanumeric() {
            classes[byte] = ByteClass::Lower;
        }
        byte += 1;
    }
    classes
};

fn for_each_word(text: &str, found: &mut dyn FnMut(&str)) {
    let (mut lower, mut start, mut is_lower) = (String::new(), None, true);
    let mut end_word = |start: usize, end: usize, is_lower: bool| {
        let Some(word) = text.get(start..end).filter(|word| word.len() <= MAX_WORD_BYTES) else { return };
        if is_lower {
            return found(word);
        }
        lower.clear();
        lower.extend(word.chars().flat_map(char::to_lowercase));
        found(&lower);
    };
    let (bytes, mut at) = (text.as_bytes(), 0);
    while let Some(byte) = bytes.get(at) {
        // Most text is ASCII, and decoding its characters costs twice as much.
        let (class, length) = match CLASSES.get(usize::from(*byte)) {
            Some(class) => (*class, 1),
            None => {
                let character = text.get(at..).and_then(|rest| rest.chars().next()).unwrap_or_default();
                let class = if is_word_char(character) { ByteClass::Upper } else { ByteClass::Separator };
                (class, character.len_utf8())
            }
        };
        match (class, start) {
            (ByteClass::Separator, Some(begin)) => {
                end_word(begin, at, is_lower);
                start = None;
            }
            (ByteClass::Separator, None) => {}
            (_, Some(_)) => is_lower &= class == ByteClass::Lower,
            (_, None) => {
                start = Some(at);
                is_lower = class == ByteClass::Lower;
            }
        }
        at += length;
    }
    if let Some(begin) = start {
        end_word(begin, bytes.len(), is_lower);
    }
}

fn is_word_char(character: char) -> bool {
    character.is_alphanumeric() || ('\u{300}'..='\u{36f}').contains(&character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_lower_case_and_distinct() {
        assert_eq!(words("Src/main.rs: fix Main, FIX 12!"), ["src", "main", "rs", "fix", "12"]);
        assert_eq!(words("Größe 東京"), ["größe", "東京"]);
        assert_eq!(words("«Ünder» e\u{301}te\u{301}\u{2003}x"), ["ünder", "e\u{301}te\u{301}", "x"]);
        assert!(words(&"x".repeat(65)).is_empty());
        assert_eq!(words("last"), ["last"]);
    }

    #[test]
    fn each_word_is_appended_once_per_text() {
        let (mut distinct, mut appended) = (DistinctWords::default(), String::new());
        distinct.append("one two ONE", &mut appended);
        distinct.append("two three two", &mut appended);
        assert_eq!(appended, "one two two three ");
    }
}
