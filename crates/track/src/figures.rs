//! Token usage and cost per agent: each API response counted once, at its own model's price.

use std::ops::Add;

use hashbrown::HashMap;
use subscope_model::{MicroUsd, Millis, ModelPrice, PriceTable, SpawnTotals, Text, Usage};

use crate::{
    duplicates::Duplicates,
    facts::{AgentKey, Facts, ResponseFacts, best_value},
    identities::{AgentIndex, Identities},
    owners::Ownership,
};

/// Usage and cost of one agent, without its subagents.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentFigures {
    /// Number of distinct API responses.
    pub(crate) messages: u32,
    pub(crate) usage: Option<Usage>,
    /// Sum of the known costs, in picodollars.
    pub(crate) pico_usd: u128,
    /// Whether a response with usage has no known price.
    pub(crate) has_unknown_price: bool,
    pub(crate) model: Option<(Millis, Text)>,
    /// Number of its calls by the result of its spawn call, if it has no lines of its own.
    pub(crate) reported_calls: u32,
    /// Whether an agent has ended of which nothing tells the tokens: sums with it are lower bounds.
    pub(crate) is_incomplete: bool,
}

impl AgentFigures {
    /// Returns the cost, if all of it is known.
    pub(crate) fn cost(&self) -> Option<MicroUsd> {
        (self.usage.is_some() && !self.has_unknown_price).then(|| PriceTable::micro_usd(self.pico_usd))
    }

    /// Adds another's figures.
    pub(crate) fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.usage = add_known(self.usage, other.usage);
        self.pico_usd += other.pico_usd;
        self.has_unknown_price |= other.has_unknown_price;
        self.is_incomplete |= other.is_incomplete;
    }

    /// Returns the usage; a lower bound if that of an agent is unknown.
    pub(crate) fn known_usage(&self) -> Option<Usage> {
        self.usage.map(|usage| Usage { floor: usage.floor || self.is_incomplete, ..usage })
    }

    /// Returns the known cost, and whether it is a lower bound.
    pub(crate) fn known_cost(&self) -> (Option<MicroUsd>, bool) {
        let is_floor = self.has_unknown_price || self.known_usage().is_some_and(|usage| usage.floor);
        let known = (self.pico_usd > 0 || !self.has_unknown_price) && self.usage.is_some();
        (known.then(|| PriceTable::micro_usd(self.pico_usd)), is_floor && known)
    }
}

/// Adds two values as far as they are known.
pub(crate) fn add_known<T: Add<Output = T>>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    }
}

/// A response is a placeholder, its usage a lower bound, if no line of it has a stop reason and its output tokens times
/// this factor are fewer than its characters (design, section 3; measured on fixtures 1.0.128, 2.0.76 and 2.1.50).
const PLACEHOLDER_FACTOR: u64 = 16;

/// Derives each agent's own usage and cost.
pub(crate) fn derive_figures(
    facts: &Facts,
    identities: &Identities,
    owners: &Ownership,
    duplicates: &Duplicates<'_>,
    prices: &PriceTable,
) -> Vec<AgentFigures> {
    let mut prices = PriceLookup::new(prices);
    let mut all = vec![AgentFigures::default(); identities.all.len()];
    for (index, (response, owner)) in facts.responses.iter().zip(owners.of_responses()).enumerate() {
        let Some(number) = owner else { continue };
        let own = &mut all[number];
        if response.synthetic || duplicates.has_response(index) {
            continue;
        }
        own.messages += 1;
        if own.model < response.model {
            own.model.clone_from(&response.model);
        }
        let Some((usage, price)) = response_figures(facts, identities, response, number, &mut prices) else {
            continue;
        };
        match price {
            Some(pico) => own.pico_usd += pico,
            None => own.has_unknown_price = true,
        }
        own.usage = add_known(own.usage, Some(usage));
    }
    for (own, identity) in all.iter_mut().zip(&identities.all).filter(|(own, _)| own.messages == 0) {
        let totals = identity.refs.iter().filter_map(|name| facts.agent(*name).totals).max();
        if let Some(([input, output, cache_read, cache_write], cost, floor)) = totals {
            own.usage = Some(Usage { floor, ..Usage::new(input, output, cache_read, cache_write) });
            own.has_unknown_price = cost.is_none();
            own.pico_usd = cost.map_or(0, PriceTable::to_pico_usd);
        }
    }
    for (number, own) in all.iter_mut().enumerate() {
        let is_unknown = own.usage.is_none() && !duplicates.has_agent(number);
        if let Some(totals) = reported_totals(facts, identities, number).filter(|_| is_unknown) {
            let [input, output, cache_read, cache_write] = totals.last_request.unwrap_or_default();
            own.usage = Some(Usage { floor: true, ..Usage::new(input, output, cache_read, cache_write) });
            own.has_unknown_price = true;
            own.reported_calls = totals.tool_calls;
        }
    }
    share_floors(facts, identities, &mut all);
    all
}

/// Returns the sums in the result of the call that started an agent, if no source has lines of the agent itself.
pub(crate) fn reported_totals(
    facts: &Facts,
    identities: &Identities,
    number: AgentIndex,
) -> Option<SpawnTotals> {
    let identity = &identities.all[number];
    let has_lines = identity.refs.iter().any(|name| {
        let agent = facts.agent(*name);
        agent.last_seen.is_some() || agent.span.get().is_some() || agent.hook_times.is_some()
    });
    let origin = identity.origin.filter(|_| !has_lines)?;
    facts.call(origin).spawn.as_deref()?.totals
}

/// Looks up the price of each model once.
pub(crate) struct PriceLookup<'t> {
    table: &'t PriceTable,
    known: HashMap<Text, Option<&'t ModelPrice>>,
}

impl<'t> PriceLookup<'t> {
    pub(crate) fn new(table: &'t PriceTable) -> Self {
        Self { table, known: HashMap::new() }
    }

    fn price(&mut self, model: &Text) -> Option<&'t ModelPrice> {
        *self.known.entry(model.clone()).or_insert_with(|| self.table.price(model))
    }
}

/// Returns tokens and cost in picodollars of a response of an agent; `None` if no line has its tokens.
pub(crate) fn response_figures(
    facts: &Facts,
    identities: &Identities,
    response: &ResponseFacts,
    owner: AgentIndex,
    prices: &mut PriceLookup<'_>,
) -> Option<(Usage, Option<u128>)> {
    let tokens = response.usage?;
    let mut usage = tokens.usage();
    let lines = response.content.iter().flat_map(|lines| lines.iter());
    let characters: u64 = lines.map(|(_, characters)| u64::from(*characters)).sum();
    let is_placeholder =
        !response.is_final && usage.output_tokens.saturating_mul(PLACEHOLDER_FACTOR) < characters;
    usage.floor |= is_placeholder || (owner != 0 && response.only_streamed);
    // Where responses name no model, that of the agent counts.
    let of_agent = || {
        let refs = &identities.all[owner].refs;
        refs.iter().find_map(|name| best_value(&facts.agent(*name).model))
    };
    let model = response.model.as_ref().map(|(_, model)| model.clone()).or_else(of_agent);
    let by_list = |model: Text| {
        let pico = prices.price(&model)?.pico_usd(&usage, u64::from(tokens.cache_write_1h))?;
        let part = match response.price_permille {
            0 => pico,
            permille => pico * u128::from(permille) / 1_000,
        };
        Some(part + u128::from(response.extra_pico_usd))
    };
    // Of tokens without kinds, and of those that are not told at all, no price is known.
    let has_kinds = usage.unkinded() == 0 && (!usage.floor || usage.total_tokens > 0);
    let listed = || model.filter(|_| !response.is_unpriced && has_kinds).and_then(by_list);
    Some((usage, response.cost_pico_usd.map(u128::from).or_else(listed)))
}

/// Marks the usage of the root and of all agents in the root's file (1.0.x) as a lower bound if that of one of them is:
/// a writer that left one placeholder may have left others too short to detect (measured on fixture
/// `1.0.128/a-single`).
fn share_floors(facts: &Facts, identities: &Identities, all: &mut [AgentFigures]) {
    let is_chain = |name: &u32| matches!(facts.agent(*name).key, AgentKey::Chain);
    let same_file: Vec<usize> = (0..identities.all.len())
        .filter(|number| *number == 0 || identities.all[*number].refs.iter().any(is_chain))
        .collect();
    let has_floor = |number: &usize| all[*number].usage.is_some_and(|usage| usage.floor);
    if same_file.len() > 1 && same_file.iter().any(has_floor) {
        for number in same_file {
            all[number].usage.iter_mut().for_each(|usage| usage.floor = true);
        }
    }
}

#[cfg(test)]
mod tests {
    use subscope_model::{Agent, Claim, Fact, ModelPrice, Response, SourceKind, TokenPrices};

    use super::*;
    use crate::test_session::{ROOT, TestSession, response};

    const TRANSCRIPT: SourceKind = SourceKind::Transcript;

    fn root(session: &TestSession) -> Agent {
        session.tree(1_000).agents.into_iter().next().unwrap()
    }

    #[test]
    fn response_counts_once_with_the_usage_of_its_final_line() {
        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 1, ROOT, Fact::Response(response("m1", 9)));
        session.add(
            TRANSCRIPT,
            2,
            ROOT,
            Fact::Response(Response { has_stop_reason: true, ..response("m1", 5) }),
        );
        session.add(TRANSCRIPT, 3, ROOT, Fact::Response(response("m1", 7)));
        session.add(TRANSCRIPT, 4, ROOT, Fact::Response(Response { synthetic: true, ..response("m2", 100) }));
        let row = root(&session);
        assert_eq!((row.messages, row.usage), (1, Some(Usage::new(0, 5, 0, 0))));
    }

    #[test]
    fn usage_of_a_placeholder_is_a_lower_bound() {
        for (characters, floor) in [(32, false), (33, true)] {
            let mut session = TestSession::new();
            let line = Response { content: (1, characters), ..response("m1", 2) };
            session.add(TRANSCRIPT, 1, ROOT, Fact::Response(line));
            assert_eq!(root(&session).usage.unwrap().floor, floor, "{characters}");
        }
    }

    #[test]
    fn placeholder_makes_all_agents_of_the_roots_file_a_lower_bound() {
        let mut session = TestSession::new();
        session.add(
            TRANSCRIPT,
            1,
            ROOT,
            Fact::Response(Response { content: (1, 1_000), ..response("m1", 2) }),
        );
        let chain = Claim::Chain { line: "l1", parent: None };
        session.add(TRANSCRIPT, 2, chain, Fact::Response(response("m2", 2)));
        session.add(TRANSCRIPT, 3, crate::test_session::agent("a1"), Fact::Response(response("m3", 2)));
        let floors =
            session.tree(10).agents.into_iter().map(|row| (row.id.to_string(), row.usage.unwrap().floor));
        let floors: std::collections::BTreeMap<String, bool> = floors.collect();
        assert_eq!(
            floors,
            [("a1", false), ("agent-1", true), ("root", true)].map(|(id, floor)| (id.into(), floor)).into()
        );
    }

    #[test]
    fn cost_needs_all_prices_and_known_cost_is_a_lower_bound_without() {
        let price = ModelPrice {
            short: TokenPrices { output: 1_000_000, ..TokenPrices::default() },
            ..ModelPrice::default()
        };
        let prices = PriceTable { models: [("m".to_owned(), price)].into(), ..PriceTable::default() };
        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 1, ROOT, Fact::Response(response("m1", 3)));
        let derive = |session: &TestSession| {
            let (identities, owners) = (session.identities(), session.owners());
            let none = hashbrown::HashSet::new();
            let duplicates = Duplicates::find(session.facts(), &identities, &owners, &none);
            derive_figures(session.facts(), &identities, &owners, &duplicates, &prices).remove(0)
        };
        let own = derive(&session);
        assert_eq!((own.cost(), own.known_cost()), (Some(3), (Some(3), false)));
        session.add(
            TRANSCRIPT,
            2,
            ROOT,
            Fact::Response(Response { model: Some("other"), ..response("m2", 3) }),
        );
        let own = derive(&session);
        assert_eq!((own.cost(), own.known_cost()), (None, (Some(3), true)));
    }
}
