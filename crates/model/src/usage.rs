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
    /// Sum of the four counts; not the size of the context, which harnesses report as their total.
    pub total_tokens: u64,
    /// Whether a count is a lower bound: for some response only preliminary counts are known.
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
        Self::new(input, output, read, write)
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
}
