//! Tokens and money of ATIF: `prompt_tokens` are all input tokens, `cached_tokens` a part of them.

use serde::{Deserialize, Serialize};
use subscope_model::{Agent, ResponseDetail, Usage};

/// Picodollars of a dollar.
const PICO_USD: f64 = 1e12;
/// Microdollars of a dollar.
const MICRO_USD: f64 = 1e6;

/// `metrics` of a step.
#[derive(Serialize)]
pub(super) struct Metrics {
    prompt_tokens: u64,
    completion_tokens: u64,
    cached_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    extra: CacheWrites,
}

/// Token counts without a field in ATIF, named as in Harbor's converters.
#[derive(Serialize)]
struct CacheWrites {
    cache_creation_input_tokens: u64,
}

impl Metrics {
    pub(super) fn of(response: &ResponseDetail) -> Option<Self> {
        let [prompt, cached, write, output] = counts(&response.usage?);
        Some(Self {
            prompt_tokens: prompt,
            completion_tokens: output,
            cached_tokens: cached,
            cost_usd: response.cost_pico_usd.map(|pico| pico as f64 / PICO_USD),
            extra: CacheWrites { cache_creation_input_tokens: write },
        })
    }
}

/// Returns picodollars; `None` if a cost is none.
pub(super) fn pico_usd(cost_usd: f64) -> Option<u64> {
    let pico = (cost_usd * PICO_USD).round();
    // Above, a conversion would be inexact or saturate.
    (pico >= 0.0 && pico < u64::MAX as f64).then_some(pico as u64)
}

/// Returns microdollars; `None` if a cost is none.
pub(super) fn micro_usd(cost_usd: f64) -> Option<i64> {
    let micro = (cost_usd * MICRO_USD).round();
    (micro >= 0.0 && micro < i64::MAX as f64).then_some(micro as i64)
}

/// Returns all input, input read from a cache, input written to one, and output.
fn counts(usage: &Usage) -> [u64; 4] {
    let [fresh, output, read, write] = usage.kinds();
    [fresh.saturating_add(read).saturating_add(write), read, write, output]
}

/// `final_metrics` of a trajectory: sums of its own steps, or its total if no step is known.
#[derive(Serialize)]
pub(super) struct FinalMetrics {
    #[serde(skip_serializing_if = "Option::is_none")]
    total_prompt_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_cached_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_cost_usd: Option<f64>,
    total_steps: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<TotalCacheWrites>,
}

#[derive(Serialize)]
struct TotalCacheWrites {
    total_cache_creation_input_tokens: u64,
}

impl FinalMetrics {
    pub(super) fn of(agent: &Agent, responses: &[&ResponseDetail], total_steps: usize) -> Self {
        let counts = agent.usage.as_ref().map(counts);
        let pico: u128 = responses.iter().filter_map(|response| response.cost_pico_usd).sum();
        // Without all costs there is no sum.
        let cost = agent.cost_micro_usd.map(|micro| match responses {
            [] => micro as f64 / MICRO_USD,
            _ => pico as f64 / PICO_USD,
        });
        Self {
            total_prompt_tokens: counts.map(|[prompt, ..]| prompt),
            total_completion_tokens: counts.map(|[.., output]| output),
            total_cached_tokens: counts.map(|[_, cached, ..]| cached),
            total_cost_usd: cost,
            total_steps,
            extra: counts
                .map(|[_, _, write, _]| TotalCacheWrites { total_cache_creation_input_tokens: write }),
        }
    }
}

/// Token counts and cost in a document, of a step or a trajectory. Invalid numbers count as absent.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Counts {
    pub(super) prompt: Option<u64>,
    pub(super) output: Option<u64>,
    pub(super) cached: Option<u64>,
    pub(super) written: Option<u64>,
    pub(super) cost_usd: Option<f64>,
}

impl Counts {
    /// Returns the tokens, and whether the counts fit each other; `None` if there is no count.
    pub(super) fn usage(&self) -> Option<(Usage, bool)> {
        if self.prompt.is_none() && self.output.is_none() && self.cached.is_none() && self.written.is_none() {
            return None;
        }
        let [prompt, output, cached, written] =
            [self.prompt, self.output, self.cached, self.written].map(|count| count.unwrap_or(0));
        let from_cache = cached.saturating_add(written);
        let fresh = prompt.saturating_sub(from_cache);
        Some((Usage::new(fresh, output, cached, written), prompt >= from_cache))
    }
}
