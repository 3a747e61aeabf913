//! Tokenizer of the text index, for indexed text and queries alike.

use std::{collections::HashSet, hash::BuildHasher};

use hashbrown::{DefaultHashBuilder, HashTable};

/// Longer runs of letters and digits are not indexed: they are encoded data, which nobody searches.
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

/// Distinct words of many texts, numbered in order of first appearance.
#[derive(Debug, Default)]
pub(crate) struct Vocabulary {
    known: HashTable<WordEntry>,
    hasher: DefaultHashBuilder,
    /// All words concatenated, and the end of each.
    letters: String,
    ends: Vec<usize>,
    texts: u32,
}

/// A known word. Words of equal hash count as the same: a chance of 2⁻⁶⁴ each.
#[derive(Debug)]
struct WordEntry {
    hash: u64,
    number: u32,
    /// Number of the last text that has it.
    last_text: u32,
}

impl Vocabulary {
    /// Appends the numbers of a text's distinct words.
    pub(crate) fn number(&mut self, text: &str, numbers: &mut Vec<u32>) {
        self.texts += 1;
        let Self { known, hasher, letters, ends, texts: current } = self;
        for_each_word(text, &mut |word| {
            let hash = hasher.hash_one(word);
            match known.find_mut(hash, |one| one.hash == hash) {
                Some(one) if one.last_text == *current => {}
                Some(one) => {
                    one.last_text = *current;
                    numbers.push(one.number);
                }
                None => {
                    let number = ends.len() as u32;
                    letters.push_str(word);
                    ends.push(letters.len());
                    known
                        .insert_unique(hash, WordEntry { hash, number, last_text: *current }, |one| one.hash);
                    numbers.push(number);
                }
            }
        });
    }

    /// Number of words.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns all words in number order.
    pub(crate) fn words(&self) -> Vec<&str> {
        let mut start = 0;
        let cut = |end: &usize| {
            let word = self.letters.get(start..*end).unwrap_or_default();
            start = *end;
            word
        };
        self.ends.iter().map(cut).collect()
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
    fn each_word_is_numbered_once_per_text() {
        let mut vocabulary = Vocabulary::default();
        let mut numbers = Vec::new();
        vocabulary.number("one two ONE", &mut numbers);
        vocabulary.number("two three two", &mut numbers);
        assert_eq!(numbers, [0, 1, 1, 2]);
        assert_eq!(vocabulary.words(), ["one", "two", "three"]);
    }
}
