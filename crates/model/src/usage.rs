//! Token usage and money.

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// Money in integer micro-US-dollars.
pub type MicroUsd = i64;

/// Tokens of one or more API responses; each response counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Usage {
    /// Fresh input tokens (neither read from nor written to a cache).
    pub input_tokens: u64,
    /// Generated tokens, thinking included.
    pub output_tokens: u64,
    /// Input tokens read from the prompt cache.
    pub cache_read_tokens: u64,
    /// Input tokens written to the prompt cache.
    pub cache_write_tokens: u64,
    /// Sum of the four counts, and of tokens whose kind nothing tells; not the size of the context, which harnesses report
    /// as their total.
    pub total_tokens: u64,
    /// Whether a count is a lower bound: for some response only preliminary counts, or only their total, are known.
    pub floor: bool,
}

impl Usage {
    /// Returns a usage of the given counts with their sum.
    pub fn new(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Self {
        Self {
            input_tokens: input,
            output_tokens: output,
            cache_read_tokens: cache_read,
            cache_write_tokens: cache_write,
            total_tokens: input.saturating_add(output).saturating_add(cache_read).saturating_add(cache_write),
            floor: false,
        }
    }

    /// Returns the usage that a source tells in parts: fresh input, output, read from and written to the cache, and their
    /// total. Where the source leaves out input or output, the total tells it; where it leaves out both, or tells no total,
    /// the kinds are lower bounds: unknown is not zero.
    pub fn of_parts([input, output, cache_read, cache_write]: [Option<u64>; 4], total: Option<u64>) -> Self {
        let known = |part: Option<u64>| part.unwrap_or(0);
        let mut usage = Self::new(known(input), known(output), known(cache_read), known(cache_write));
        let rest = total.map(|total| total.saturating_sub(usage.total_tokens));
        match (input, output, rest) {
            (Some(_), Some(_), _) | (_, _, Some(0)) => {}
            (Some(_), None, Some(rest)) => usage.output_tokens = rest,
            (None, Some(_), Some(rest)) => usage.input_tokens = rest,
            (None, None, Some(_)) | (_, _, None) => usage.floor = true,
        }
        usage.total_tokens = match (input, output) {
            (Some(_), Some(_)) => usage.total_tokens,
            _ => usage.total_tokens.saturating_add(rest.unwrap_or(0)),
        };
        usage
    }

    /// Returns the number of tokens whose kind nothing tells.
    pub fn unkinded(&self) -> u64 {
        let kinds = self.kinds().into_iter().fold(0, u64::saturating_add);
        self.total_tokens.saturating_sub(kinds)
    }

    /// Adds tokens whose kind nothing tells.
    #[must_use]
    pub fn with_unkinded(self, tokens: u64) -> Self {
        Self { total_tokens: self.total_tokens.saturating_add(tokens), ..self }
    }

    /// Returns the four kinds in a fixed order.
    pub fn kinds(&self) -> [u64; 4] {
        [self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_write_tokens]
    }

    /// Whether every kind of `self` is at least that of `other`.
    pub fn covers(&self, other: &Self) -> bool {
        self.kinds().iter().zip(other.kinds()).all(|(mine, theirs)| *mine >= theirs)
    }

    /// Subtracts `other` in each kind, saturating at 0; the result is never a floor.
    pub fn minus(&self, other: &Self) -> Self {
        self.zip(other, u64::saturating_sub)
    }

    /// Combines the counts of each kind.
    fn zip(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        let (mine, theirs) = (self.kinds(), other.kinds());
        let [input, output, read, write] = std::array::from_fn(|kind| combine(mine[kind], theirs[kind]));
        let unkinded = combine(self.unkinded(), other.unkinded());
        Self::new(input, output, read, write).with_unkinded(unkinded)
    }
}

impl Add for Usage {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { floor: self.floor || other.floor, ..self.zip(&other, u64::saturating_add) }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn add_usage_sums_each_kind_and_keeps_the_floor() {
        let floor = Usage { floor: true, ..Usage::new(1, 2, 3, 4) };
        let sum = floor + Usage::new(10, 20, 30, 40);
        assert_eq!((sum.kinds(), sum.total_tokens, sum.floor), ([11, 22, 33, 44], 110, true));
        assert!(sum.covers(&Usage::new(11, 0, 0, 44)) && !sum.covers(&Usage::new(12, 0, 0, 0)));
        assert_eq!(sum.minus(&Usage::new(12, 2, 3, 4)).kinds(), [0, 20, 30, 40]);
    }

    #[test]
    fn what_a_source_leaves_out_is_told_by_its_total_or_a_lower_bound() {
        let of = |input, output, total| {
            let usage = Usage::of_parts([input, output, Some(5), None], total);
            (usage.input_tokens, usage.output_tokens, usage.total_tokens, usage.floor)
        };
        assert_eq!(of(Some(1), Some(2), Some(99)), (1, 2, 8, false), "kinds are exact");
        assert_eq!(of(Some(1), None, Some(10)), (1, 4, 10, false));
        assert_eq!(of(None, Some(2), Some(10)), (3, 2, 10, false));
        assert_eq!(of(None, None, Some(10)), (0, 0, 10, true));
        assert_eq!(of(None, None, Some(5)), (0, 0, 5, false));
        assert_eq!(of(Some(1), None, None), (1, 0, 6, true));
        let total = Usage::of_parts([None; 4], Some(7));
        let sum = total + Usage::new(1, 0, 0, 0);
        assert_eq!((sum.total_tokens, sum.unkinded(), sum.floor), (8, 7, true));
    }
}
