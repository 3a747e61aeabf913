//! What counts as a word: the same for what is written into the index and for what is asked.

use std::{collections::HashSet, hash::BuildHasher};

use hashbrown::{DefaultHashBuilder, HashTable};

/// Longer runs of letters and digits are encoded data, not words; nobody looks for them.
const LONGEST_WORD_BYTES: usize = 64;

/// Returns the different words of a text, in lower case, in order of first appearance.
///
/// A word is a run of letters, digits and combining marks.
pub fn words(text: &str) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    each(text, &mut |word| {
        if !seen.contains(word) {
            seen.insert(word.to_owned());
            all.push(word.to_owned());
        }
    });
    all
}

/// The different words of many texts, numbered in order of first appearance.
#[derive(Debug, Default)]
pub(crate) struct Vocabulary {
    known: HashTable<Known>,
    hasher: DefaultHashBuilder,
    /// All words, one behind the other, and where each ends.
    letters: String,
    ends: Vec<usize>,
    texts: u32,
}

/// A word that was seen. Words of equal hash are taken for one: a chance of 2⁻⁶⁴ each.
#[derive(Debug)]
struct Known {
    hash: u64,
    number: u32,
    /// The last text that had it.
    last: u32,
}

impl Vocabulary {
    /// Appends the numbers of the different words of a text.
    pub(crate) fn number(&mut self, text: &str, numbers: &mut Vec<u32>) {
        self.texts += 1;
        let Self { known, hasher, letters, ends, texts: current } = self;
        each(text, &mut |word| {
            let hash = hasher.hash_one(word);
            match known.find_mut(hash, |one| one.hash == hash) {
                Some(one) if one.last == *current => {}
                Some(one) => {
                    one.last = *current;
                    numbers.push(one.number);
                }
                None => {
                    let number = ends.len() as u32;
                    letters.push_str(word);
                    ends.push(letters.len());
                    known.insert_unique(hash, Known { hash, number, last: *current }, |one| one.hash);
                    numbers.push(number);
                }
            }
        });
    }

    /// How many words there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns all words in the order of their numbers.
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

/// What an ASCII byte is to a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// No part of any.
    Between,
    /// A part as it is.
    Plain,
    /// A part once it is lowered.
    Upper,
}

const CLASSES: [Class; 128] = {
    let mut classes = [Class::Between; 128];
    let mut byte = 0;
    while byte < 128 {
        if (byte as u8).is_ascii_uppercase() {
            classes[byte] = Class::Upper;
        } else if (byte as u8).is_ascii_alphanumeric() {
            classes[byte] = Class::Plain;
        }
        byte += 1;
    }
    classes
};

fn each(text: &str, found: &mut dyn FnMut(&str)) {
    let (mut lower, mut start, mut is_plain) = (String::new(), None, true);
    let mut end_word = |start: usize, end: usize, is_plain: bool| {
        let Some(word) = text.get(start..end).filter(|word| word.len() <= LONGEST_WORD_BYTES) else { return };
        if is_plain {
            return found(word);
        }
        lower.clear();
        lower.extend(word.chars().flat_map(char::to_lowercase));
        found(&lower);
    };
    let (bytes, mut at) = (text.as_bytes(), 0);
    while let Some(byte) = bytes.get(at) {
        // Most text is ASCII, and looking at its characters one by one costs twice as much.
        let (class, length) = match CLASSES.get(usize::from(*byte)) {
            Some(class) => (*class, 1),
            None => {
                let character = text.get(at..).and_then(|rest| rest.chars().next()).unwrap_or_default();
                let class = if is_of_word(character) { Class::Upper } else { Class::Between };
                (class, character.len_utf8())
            }
        };
        match (class, start) {
            (Class::Between, Some(begin)) => {
                end_word(begin, at, is_plain);
                start = None;
            }
            (Class::Between, None) => {}
            (_, Some(_)) => is_plain &= class == Class::Plain,
            (_, None) => {
                start = Some(at);
                is_plain = class == Class::Plain;
            }
        }
        at += length;
    }
    if let Some(begin) = start {
        end_word(begin, bytes.len(), is_plain);
    }
}

fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || ('\u{300}'..='\u{36f}').contains(&character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_lower_case_and_each_once() {
        assert_eq!(words("Src/main.rs: fix Main, FIX 12!"), ["src", "main", "rs", "fix", "12"]);
        assert_eq!(words("Größe 東京"), ["größe", "東京"]);
        assert_eq!(words("«Ünder» e\u{301}te\u{301}\u{2003}x"), ["ünder", "e\u{301}te\u{301}", "x"]);
        assert!(words(&"x".repeat(65)).is_empty());
        assert_eq!(words("last"), ["last"]);
    }

    #[test]
    fn numbers_are_given_once_a_text_and_kept_between_texts() {
        let mut vocabulary = Vocabulary::default();
        let mut numbers = Vec::new();
        vocabulary.number("one two ONE", &mut numbers);
        vocabulary.number("two three two", &mut numbers);
        assert_eq!(numbers, [0, 1, 1, 2]);
        assert_eq!(vocabulary.words(), ["one", "two", "three"]);
    }
}
