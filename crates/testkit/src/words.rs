//! Text with a natural spread of words: made-up words and identifiers, their frequencies after Zipf.
//!
//! A text index over random letters behaves unlike one over prose: this text has the few very common and the many
//! rare words that make its sizes and times believable. It is kept JSON-escaped, so that a slice is copied into a
//! line as it is; slices begin and end at a blank, so no escape and no character is cut.

use std::sync::OnceLock;

use crate::random::Random;

const CONSONANTS: [&str; 19] =
    ["b", "c", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "st", "tr", "pl"];
const VOWELS: [&str; 8] = ["a", "e", "i", "o", "u", "ai", "or", "en"];
/// Words that trip careless code: escapes, characters of two to four bytes, right to left.
const ODD: [&str; 6] = [
    "na\u{ef}ve",
    "\u{65e5}\u{672c}\u{8a9e}",
    "\\\"so\\\"",
    "a\\\\b",
    "\u{1f980}",
    "\u{5e9}\u{5dc}\u{5d5}\u{5dd}",
];

/// A pool of text.
#[derive(Debug)]
pub(crate) struct Words {
    text: String,
}

impl Words {
    /// 256 KiB over 5,000 words: made in milliseconds, for sessions of unit tests.
    pub(crate) fn small() -> &'static Self {
        static POOL: OnceLock<Words> = OnceLock::new();
        POOL.get_or_init(|| Self::new(5_000, 256 << 10))
    }

    /// 8 MiB over 200,000 words: long enough that a big session does not compress or index unlike prose.
    pub(crate) fn large() -> &'static Self {
        static POOL: OnceLock<Words> = OnceLock::new();
        POOL.get_or_init(|| Self::new(200_000, 8 << 20))
    }

    fn new(vocabulary: usize, bytes: usize) -> Self {
        let mut random = Random::new(0x5ab5_c09e);
        let words: Vec<String> = (0..vocabulary).map(|_| word(&mut random)).collect();
        let mut total = 0u64;
        // Integer weights: the same text on every platform.
        let sums: Vec<u64> = (0..vocabulary as u64)
            .map(|rank| {
                total += 1_000_000_000_000 / (rank * 10 + 27);
                total
            })
            .collect();
        let mut text = String::with_capacity(bytes + 64);
        let mut count = 0u32;
        while text.len() < bytes {
            let at = random.below(total);
            text.push_str(&words[sums.partition_point(|sum| *sum <= at)]);
            count += 1;
            match count % 34 {
                0 => text.push(','),
                17 => text.push_str(".\\n"),
                _ => {}
            }
            text.push(' ');
        }
        Self { text }
    }

    /// Returns a JSON-escaped slice of at most `bytes` bytes, whole words; empty where `bytes` is too few for one.
    pub(crate) fn take(&self, random: &mut Random, bytes: usize) -> &str {
        let bytes = bytes.min(self.text.len() / 2);
        let text = self.text.as_bytes();
        let from = random.below((text.len() - bytes) as u64) as usize;
        let Some(blank) = text[from..].iter().position(|byte| *byte == b' ') else { return "" };
        let start = from + blank + 1;
        let end = (start + bytes).min(text.len());
        match text[start.min(end)..end].iter().rposition(|byte| *byte == b' ') {
            Some(length) => &self.text[start..start + length],
            None => "",
        }
    }
}

fn syllables(random: &mut Random, count: u64) -> String {
    (0..count).flat_map(|_| [random.pick(&CONSONANTS), random.pick(&VOWELS)]).collect()
}

fn word(random: &mut Random) -> String {
    match random.below(100) {
        0..70 => {
            let count = random.between(1, 4);
            syllables(random, count)
        }
        70..85 => format!("{}_{}", syllables(random, 2), syllables(random, 2)),
        85..91 => format!("src/{}/{}.rs", syllables(random, 2), syllables(random, 2)),
        91..96 => format!("{}()", syllables(random, 2)),
        96..98 => random.below(100_000).to_string(),
        _ => random.pick(&ODD).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take_words_gives_valid_json_text_up_to_the_size() {
        let mut random = Random::new(1);
        for bytes in [0, 1, 5, 80, 3000, usize::MAX] {
            let text = Words::small().take(&mut random, bytes);
            assert!(text.len() <= bytes);
            let parsed: String = serde_json::from_str(&format!("\"{text}\"")).unwrap();
            assert!(parsed.len() <= text.len());
            assert!(bytes < 80 || text.len() + 40 > bytes.min(128 << 10), "{bytes} {}", text.len());
        }
    }

    #[test]
    fn few_words_make_much_of_the_text() {
        let mut counts = std::collections::HashMap::<&str, usize>::new();
        for word in Words::small().text.split(' ') {
            *counts.entry(word).or_default() += 1;
        }
        let mut sorted: Vec<usize> = counts.into_values().collect();
        sorted.sort_unstable_by(|one, two| two.cmp(one));
        let all: usize = sorted.iter().sum();
        let top: usize = sorted.iter().take(100).sum();
        assert!(top * 3 > all && top * 5 < all * 4, "{top} of {all}");
        assert!(sorted.len() > 3000);
    }
}
