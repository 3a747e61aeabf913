//! What a response says that changes its price: fast mode, batches, searches of the web, inference in the US only.
//!
//! Prices: the vendor's price list, as reports of users quote it (taken 2026-11-26).

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// A word in the usage of a response, as far as it concerns the price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PriceWord {
    /// None, or one with which the list price holds.
    #[default]
    Standard,
    Fast,
    Batch,
    Us,
    /// One with a price that is not public, or a later version's.
    Unknown,
}

impl PriceWord {
    fn of(word: &str) -> Self {
        match word {
            "" | "standard" | "default" | "global" | "not_available" => Self::Standard,
            "fast" => Self::Fast,
            "batch" => Self::Batch,
            "us" => Self::Us,
            _ => Self::Unknown,
        }
    }
}

impl<'de> Deserialize<'de> for PriceWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordVisitor)
    }
}

/// Takes any value: only a text is a word.
struct WordVisitor;

impl<'de> Visitor<'de> for WordVisitor {
    type Value = PriceWord;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word")
    }

    fn visit_str<E>(self, word: &str) -> Result<PriceWord, E> {
        Ok(PriceWord::of(word))
    }

    fn visit_unit<E>(self) -> Result<PriceWord, E> {
        Ok(PriceWord::Standard)
    }

    fn visit_bool<E>(self, _: bool) -> Result<PriceWord, E> {
        Ok(PriceWord::Unknown)
    }

    fn visit_i64<E>(self, _: i64) -> Result<PriceWord, E> {
        Ok(PriceWord::Unknown)
    }

    fn visit_u64<E>(self, _: u64) -> Result<PriceWord, E> {
        Ok(PriceWord::Unknown)
    }

    fn visit_f64<E>(self, _: f64) -> Result<PriceWord, E> {
        Ok(PriceWord::Unknown)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<PriceWord, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(PriceWord::Unknown)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PriceWord, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(PriceWord::Unknown)
    }
}

/// What the price of a response is beside its tokens at list price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PriceChange {
    /// Part of the list price in thousandths; 0: all of it.
    pub(super) permille: u16,
    /// What it costs beside its tokens, in picodollars.
    pub(super) extra_pico_usd: u64,
    /// Whether its price is not public.
    pub(super) is_unknown: bool,
}

/// A search of the web: $10 a thousand.
const SEARCH_PICO_USD: u64 = 10_000_000_000;

impl PriceChange {
    /// Returns the change by the words of a response of a model, and its searches.
    pub(super) fn of(model: &str, words: [PriceWord; 3], searches: u64) -> Self {
        let mut change = Self { extra_pico_usd: searches.saturating_mul(SEARCH_PICO_USD), ..Self::default() };
        let mut permille: u64 = 1_000;
        for word in words {
            let factor = match word {
                PriceWord::Standard => continue,
                PriceWord::Fast => fast_permille(model),
                PriceWord::Batch => Some(500),
                PriceWord::Us => Some(1_100),
                PriceWord::Unknown => None,
            };
            match factor {
                Some(factor) => permille = permille * factor / 1_000,
                None => change.is_unknown = true,
            }
        }
        change.permille = u16::try_from(permille).ok().filter(|permille| *permille != 1_000).unwrap_or(0);
        change
    }
}

/// Returns the price of fast mode in thousandths of the list price; `None` for a model whose price is not known.
fn fast_permille(model: &str) -> Option<u64> {
    let is = |name: &str| {
        let behind = model.split_once(name).map(|(_, behind)| behind);
        behind.is_some_and(|behind| !behind.starts_with(|letter: char| letter.is_ascii_digit()))
    };
    if is("opus-4-6") || is("opus-4-7") {
        Some(6_000)
    } else if is("opus-4-8") || is("opus-5") {
        Some(2_000)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn price_is_changed_by_what_is_public_and_unknown_otherwise() {
        let standard = PriceWord::Standard;
        let change = |model, words: [&str; 3], searches| {
            let change = PriceChange::of(model, words.map(PriceWord::of), searches);
            (change.permille, change.extra_pico_usd, change.is_unknown)
        };
        let opus = "claude-opus-4-6";
        assert_eq!(PriceChange::of(opus, [standard; 3], 0), PriceChange::default());
        assert_eq!(change(opus, ["standard", "standard", "not_available"], 0), (0, 0, false));
        assert_eq!(change(opus, ["fast", "", ""], 0), (6_000, 0, false));
        assert_eq!(change("us.anthropic.claude-opus-5-5-v1:0", ["fast", "", "us"], 0), (2_200, 0, false));
        assert_eq!(change("claude-sonnet-5", ["fast", "", ""], 0), (0, 0, true));
        assert_eq!(change("claude-opus-50", ["fast", "", ""], 0), (0, 0, true));
        assert_eq!(change(opus, ["", "batch", ""], 0), (500, 0, false));
        assert_eq!(change(opus, ["", "priority", ""], 0), (0, 0, true));
        assert_eq!(change(opus, ["", "", "us"], 20), (1_100, 200_000_000_000, false));
    }

    #[test]
    fn words_of_other_types_are_unknown() {
        for (json, word) in [
            ("\"fast\"", PriceWord::Fast),
            ("null", PriceWord::Standard),
            ("7", PriceWord::Unknown),
            ("{\"a\":[1]}", PriceWord::Unknown),
        ] {
            assert_eq!(serde_json::from_str::<PriceWord>(json).unwrap(), word, "{json}");
        }
    }
}
