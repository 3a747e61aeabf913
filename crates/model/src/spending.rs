//! What the agents of a session spent over time: the JSON of `GET /api/v1/sessions/{id}/spending`.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::{AgentId, MicroUsd, Millis, PriceTable, ResponseDetail, Text, Tree};

/// Schema version of [`Spending`]. Changes within it are additive only.
pub const SPENDING_SCHEMA: &str = "subscope.spending/1";

/// Lengths of spans: the first one that needs at most [`MAX_SPANS`] is used, else the last.
const SPANS_MS: [Millis; 19] = [
    1_000,
    2_000,
    5_000,
    10_000,
    15_000,
    30_000,
    60_000,
    2 * 60_000,
    5 * 60_000,
    10 * 60_000,
    15 * 60_000,
    30 * 60_000,
    3_600_000,
    3 * 3_600_000,
    6 * 3_600_000,
    12 * 3_600_000,
    DAY_MS,
    7 * DAY_MS,
    28 * DAY_MS,
];
const DAY_MS: Millis = 86_400_000;
const MAX_SPANS: Millis = 80;

/// Tokens and cost of a session by span of time and agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Spending {
    /// Always [`SPENDING_SCHEMA`].
    pub schema: Text,
    /// Length of a span.
    pub span_ms: Millis,
    /// What was spent, by start of the span; within a span in the order of the tree. Nothing was spent in spans that are
    /// left out.
    pub spans: Vec<SpendingSpan>,
}

/// What one agent spent in one span.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SpendingSpan {
    /// Start of the span.
    pub at_ms: Millis,
    /// The agent.
    pub agent_id: AgentId,
    /// Tokens of all kinds.
    pub total_tokens: u64,
    /// Known cost. The spans of an agent add up to the cost of its row, if its responses have prices.
    pub cost_micro_usd: MicroUsd,
}

/// Sums of an agent in a span.
#[derive(Clone, Copy, Default)]
struct Sum {
    tokens: u64,
    pico_usd: u128,
}

impl Spending {
    /// Sums responses of a session. A response counts at its end; one without a time at its agent's end.
    pub fn of(tree: &Tree, responses: &[ResponseDetail]) -> Self {
        let agents: HashMap<&AgentId, (usize, Option<Millis>)> =
            tree.agents.iter().enumerate().map(|(place, row)| (&row.id, (place, row.ended_at_ms))).collect();
        let placed = responses.iter().filter_map(|response| {
            let (place, ended_at) = *agents.get(&response.agent)?;
            let at = response.times.map(|[_, to]| to).or(ended_at).or(tree.session.ended_at_ms)?;
            let tokens = response.usage.map_or(0, |usage| usage.total_tokens);
            Some((at, place, Sum { tokens, pico_usd: response.cost_pico_usd.unwrap_or(0) }))
        });
        let placed: Vec<(Millis, usize, Sum)> = placed.collect();
        let times = || placed.iter().map(|(at, ..)| *at);
        let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        let needed = |span: Millis| last.div_euclid(span) - first.div_euclid(span) + 1;
        let span_ms = SPANS_MS.into_iter().find(|span| needed(*span) <= MAX_SPANS);
        let span_ms = span_ms.unwrap_or(SPANS_MS[SPANS_MS.len() - 1]);
        let mut sums: BTreeMap<(Millis, usize), Sum> = BTreeMap::new();
        for (at, place, part) in placed {
            let sum = sums.entry((at.div_euclid(span_ms), place)).or_default();
            sum.tokens = sum.tokens.saturating_add(part.tokens);
            sum.pico_usd = sum.pico_usd.saturating_add(part.pico_usd);
        }
        // Differences of rounded sums add up to the rounded total.
        let mut before = vec![0_u128; tree.agents.len()];
        let mut spans = Vec::with_capacity(sums.len());
        for ((span, place), sum) in sums {
            let (Some(agent), Some(spent)) = (tree.agents.get(place), before.get_mut(place)) else {
                continue;
            };
            let so_far = PriceTable::micro_usd(*spent);
            *spent = spent.saturating_add(sum.pico_usd);
            spans.push(SpendingSpan {
                at_ms: span * span_ms,
                agent_id: agent.id.clone(),
                total_tokens: sum.tokens,
                cost_micro_usd: PriceTable::micro_usd(*spent) - so_far,
            });
        }
        Self { schema: SPENDING_SCHEMA.into(), span_ms, spans }
    }
}
