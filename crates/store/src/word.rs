//! What counts as a word: the same for what is written into the index and for what is asked.

use std::{collections::HashSet, hash::BuildHasher};

use hashbrown::HashMap;

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

/// Which words the text in hand has had so far; kept between texts, so that none of them costs an allocation.
#[derive(Debug, Default)]
pub struct Vocabulary {
    /// A word's hash → the last text that had it. Words of equal hash are taken for one: a chance of 2⁻⁶⁴ each.
    last: HashMap<u64, u32>,
    text: u32,
}

/// A vocabulary with more words is begun anew with the next text: it should stay in the processor's caches.
const MOST_WORDS: usize = 1 << 15;

impl Vocabulary {
    /// Returns the different words of a text, separated by spaces.
    pub(crate) fn condense(&mut self, text: &str) -> String {
        if self.last.len() > MOST_WORDS || self.text == u32::MAX {
            *self = Self::default();
        }
        self.text += 1;
        let Self { last, text: number } = self;
        let mut out = String::new();
        each(text, &mut |word| {
            let hash = last.hasher().hash_one(word);
            if last.insert(hash, *number) != Some(*number) {
                out.push_str(word);
                out.push(' ');
            }
        });
        out
    }
}

fn each(text: &str, found: &mut dyn FnMut(&str)) {
    let mut lower = String::new();
    for word in text.split(|character: char| !is_of_word(character)) {
        if word.is_empty() || word.len() > LONGEST_WORD_BYTES {
            continue;
        }
        if word.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase()) {
            found(word);
        } else {
            lower.clear();
            lower.extend(word.chars().flat_map(char::to_lowercase));
            found(&lower);
        }
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
        assert!(words(&"x".repeat(65)).is_empty());
    }
}
