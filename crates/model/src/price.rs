//! Token prices of models.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{MicroUsd, Usage};

/// Prices of each kind of token in pico-US-dollars (10⁻¹² USD), so that sums are integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenPrices {
    /// A fresh input token.
    pub input: u64,
    /// A generated token.
    pub output: u64,
    /// An input token read from the cache; `None`: its vendor publishes no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// An input token written to the five-minute cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// An input token written to the one-hour cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<u64>,
}

/// Prices of one model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelPrice {
    /// The prices of a response with a short context.
    #[serde(flatten)]
    pub short: TokenPrices,
    /// The prices of responses with longer contexts, in any order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<LongContextPrice>,
}

/// Prices of responses with more input tokens than a number, cached ones included: those of all their tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongContextPrice {
    /// The number of input tokens.
    pub tokens: u64,
    /// The prices.
    #[serde(flatten)]
    pub prices: TokenPrices,
}

impl ModelPrice {
    /// Returns the prices that hold for a response with this many input tokens.
    fn of_context(&self, input_tokens: u64) -> &TokenPrices {
        let long = self.above.iter().filter(|price| input_tokens > price.tokens);
        long.max_by_key(|price| price.tokens).map_or(&self.short, |price| &price.prices)
    }

    /// Returns the cost of the `usage` of one response in picodollars; `cache_write_1h` of its cache-write tokens are billed
    /// at the one-hour price. `None` without a price for a kind of tokens that was used.
    pub fn pico_usd(&self, usage: &Usage, cache_write_1h: u64) -> Option<u128> {
        let cached = usage.cache_read_tokens.saturating_add(usage.cache_write_tokens);
        let price = self.of_context(usage.input_tokens.saturating_add(cached));
        let long = cache_write_1h.min(usage.cache_write_tokens);
        let kinds = [
            (usage.input_tokens, Some(price.input)),
            (usage.output_tokens, Some(price.output)),
            (usage.cache_read_tokens, price.cache_read),
            (usage.cache_write_tokens - long, price.cache_write),
            (long, price.cache_write_1h),
        ];
        let used = kinds.into_iter().filter(|(tokens, _)| *tokens > 0);
        used.map(|(tokens, each)| Some(u128::from(tokens) * u128::from(each?))).sum()
    }
}

/// Prices by model name, with the source and date of the figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriceTable {
    /// Source of the prices, for people.
    pub source: String,
    /// Date of the prices, `YYYY-MM-DD`.
    pub date: String,
    /// Prices by the model name that the harness writes.
    pub models: BTreeMap<String, ModelPrice>,
}

impl PriceTable {
    /// Returns the price of `model`: of an exact name, else of the name as its vendor spells it, without what providers and
    /// gateways put around it and without a date ([`spellings`]). A model that is not listed has no price; a family's price
    /// is never guessed.
    pub fn price(&self, model: &str) -> Option<&ModelPrice> {
        let exact = self.models.get(model);
        exact.or_else(|| spellings(model).iter().find_map(|name| self.models.get(name)))
    }

    /// Adds the prices of another table, which replace those of equal names. It is named as the source.
    pub fn extend(&mut self, other: Self) {
        self.source = format!("{}; else {}", other.source, self.source);
        self.date = other.date;
        self.models.extend(other.models);
    }

    /// Converts micro-dollars to picodollars; a negative amount counts as 0.
    pub fn to_pico_usd(micro: MicroUsd) -> u128 {
        u128::try_from(micro).unwrap_or(0) * 1_000_000
    }

    /// Rounds picodollars to the nearest micro-dollar.
    pub fn micro_usd(pico: u128) -> MicroUsd {
        MicroUsd::try_from((pico + 500_000) / 1_000_000).unwrap_or(MicroUsd::MAX)
    }
}

/// Returns other names of a model, the nearest first: without path (`openrouter/anthropic/…`, an ARN), region and vendor
/// (`us.anthropic.…`), version of the provider (`-v1:0`), alias or date behind `@`, length of context (`[1m]`), and date;
/// last with hyphens in its version (`opus-4.7`).
fn spellings(model: &str) -> Vec<String> {
    let is_version = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut name = model.rsplit('/').next().unwrap_or(model);
    name = name.split(['[', '@']).next().unwrap_or(name);
    while let Some((prefix, rest)) = name.split_once('.')
        && !prefix.is_empty()
        && prefix.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    {
        name = rest;
    }
    let plain = match name.split_once(':') {
        Some((before, number)) if is_version(number) => before,
        _ => name,
    };
    let plain = match plain.rsplit_once("-v") {
        Some((before, number)) if is_version(number) => before,
        _ => plain,
    };
    let undated = |name: &str| {
        let (rest, day) = name.rsplit_once('-')?;
        if day.len() == 8 && is_version(day) {
            return Some(rest.to_owned());
        }
        let (rest, month) = rest.rsplit_once('-').filter(|_| day.len() == 2 && is_version(day))?;
        let (rest, year) = rest.rsplit_once('-').filter(|_| month.len() == 2 && is_version(month))?;
        (year.len() == 4 && is_version(year)).then(|| rest.to_owned())
    };
    let hyphenated = plain.replace('.', "-");
    let dated = [name, plain, &hyphenated].map(str::to_owned);
    let undated: Vec<String> = dated.iter().filter_map(|name| undated(name)).collect();
    let [name, plain, hyphenated] = dated;
    [vec![name, plain], undated, vec![hyphenated]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn priced(short: TokenPrices) -> ModelPrice {
        ModelPrice { short, above: Vec::new() }
    }

    #[test]
    fn price_is_found_with_date_and_provider_and_never_guessed() {
        let mut table = PriceTable::default();
        table
            .models
            .insert("model-4-5".into(), priced(TokenPrices { input: 3_000_000, ..TokenPrices::default() }));
        for name in ["model-4-5", "model-4-5-20250929", "vendor/model-4-5"] {
            assert!(table.price(name).is_some(), "{name}");
        }
        for name in [
            "us.anthropic.model-4-5-20250929-v1:0",
            "us-gov.anthropic.model-4-5-20250929-v1:0",
            "global.anthropic.model-4-5-v1",
            "arn:aws:bedrock:us-east-1:1:inference-profile/eu.anthropic.model-4-5-20250929-v1:0",
            "model-4-5@20250929",
            "model-4-5@default",
            "model-4-5[1m]",
            "model-4-5-2025-09-29",
            "openrouter/vendor/model-4.5",
            "publishers/anthropic/models/model-4-5",
        ] {
            assert!(table.price(name).is_some(), "{name}");
        }
        for name in
            ["model-4", "model-4-6", "model-4-5-fast", "model-4-5-mini", "other.4-5", "model-4-5-2025", ""]
        {
            assert!(table.price(name).is_none(), "{name}");
        }
        let pico = table.price("model-4-5").unwrap().pico_usd(&Usage::new(1_000, 0, 0, 0), 0);
        assert_eq!(pico.map(PriceTable::micro_usd), Some(3_000));
        assert_eq!(
            table.price("model-4-5").unwrap().pico_usd(&Usage::new(1_000, 0, 1, 0), 0),
            None,
            "no price of cached tokens"
        );
    }

    #[test]
    fn a_table_adds_to_another_and_replaces_equal_names() {
        let table = |source: &str, models: &[(&str, u64)]| PriceTable {
            source: source.into(),
            date: "2026-01-01".into(),
            models: models
                .iter()
                .map(|(name, input)| {
                    ((*name).into(), priced(TokenPrices { input: *input, ..TokenPrices::default() }))
                })
                .collect(),
        };
        let mut all = table("list", &[("a", 1), ("b", 2)]);
        all.extend(table("mine", &[("b", 3), ("c", 4)]));
        let inputs = ["a", "b", "c"].map(|name| all.price(name).map(|price| price.short.input));
        assert_eq!(inputs, [Some(1), Some(3), Some(4)]);
        assert_eq!(all.source, "mine; else list");
    }

    #[test]
    fn long_context_has_its_own_prices() {
        let prices = |input| TokenPrices { input, ..TokenPrices::default() };
        let long = |tokens, input| LongContextPrice { tokens, prices: prices(input) };
        // A table that a person writes may have them in any order.
        let above = vec![long(1_000, 3), long(100, 2)];
        let short = TokenPrices { cache_read: Some(0), ..prices(1) };
        let mut table = PriceTable::default();
        table.models.insert("m".into(), ModelPrice { short, above });
        let cost = |fresh, cached| table.price("m").unwrap().pico_usd(&Usage::new(fresh, 0, cached, 0), 0);
        assert_eq!([cost(100, 0), cost(101, 0), cost(1_000, 0)], [Some(100), Some(202), Some(2_000)]);
        assert_eq!(cost(1_001, 0), Some(3_003));
        assert_eq!(cost(1, 100), None, "no price of cached tokens at this length");
        assert_eq!(cost(1, 99), Some(1));
    }
}
