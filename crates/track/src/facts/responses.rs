//! Facts about API responses: owner, tokens, cost, and the keys under which they are known.

use std::hash::BuildHasher;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use subscope_model::{Basis, Millis, Text, Usage};

use super::{AgentRef, FactOrder, stored::list};

/// Facts about an API response.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ResponseFacts {
    /// Key in [`Facts::response_by_id`](super::Facts::response_by_id).
    pub(crate) key: (u64, u64),
    #[serde(with = "list")]
    pub(crate) owners: SmallVec<[(AgentRef, Basis); 1]>,
    pub(crate) model: Option<(Millis, Text)>,
    pub(crate) usage: Option<ResponseTokens>,
    /// Its cost in picodollars, where a source reports it.
    pub(crate) cost_pico_usd: Option<u64>,
    /// Its part of the list price in thousandths; 0: all of it.
    pub(crate) price_permille: u16,
    /// What it costs beside its tokens, in picodollars.
    pub(crate) extra_pico_usd: u64,
    /// Whether the price list does not apply to it.
    pub(crate) is_unpriced: bool,
    pub(crate) is_final: bool,
    pub(crate) only_streamed: bool,
    pub(crate) synthetic: bool,
    /// Whether it was joined into the response with its message's key and no longer counts.
    pub(crate) is_merged: bool,
    pub(crate) times: Option<(Millis, Millis)>,
    /// Hash and length in characters of each line's content; kept only until the final line is seen.
    #[expect(clippy::box_collection, reason = "rarely set, and a session has very many responses")]
    pub(crate) content: Option<Box<Vec<(u64, u32)>>>,
}

/// Name of a response, and how it ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ResponseNote {
    pub(crate) id: Text,
    pub(crate) ends_turn: bool,
    pub(crate) has_call: bool,
    /// Order of its first line.
    pub(crate) order: FactOrder,
    /// Ids of the calls in its lines, each once, sorted.
    pub(crate) calls: Vec<Text>,
}

impl ResponseNote {
    /// Joins another report of the same response.
    pub(crate) fn join(&mut self, other: &Self) {
        self.ends_turn |= other.ends_turn;
        self.has_call |= other.has_call;
        self.order = self.order.min(other.order);
        other.calls.iter().for_each(|call| self.add_call(call));
    }
}

impl ResponseNote {
    /// Adds a call that one of its lines has.
    pub(crate) fn add_call(&mut self, call: &Text) {
        if let Err(place) = self.calls.binary_search(call) {
            self.calls.insert(place, call.clone());
        }
    }
}

/// Token counts of one response, saturating at `u32::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ResponseTokens {
    output: u32,
    input: u32,
    cache_read: u32,
    cache_write: u32,
    pub(crate) cache_write_1h: u32,
    /// Whether the source itself reports a lower bound.
    is_floor: bool,
    /// Tokens of which only the total is known.
    #[serde(default)]
    unkinded: u32,
}

impl ResponseTokens {
    pub(crate) fn new(usage: &Usage, cache_write_1h: u64) -> Self {
        let cut = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            output: cut(usage.output_tokens),
            input: cut(usage.input_tokens),
            cache_read: cut(usage.cache_read_tokens),
            cache_write: cut(usage.cache_write_tokens),
            cache_write_1h: cut(cache_write_1h),
            is_floor: usage.floor,
            unkinded: cut(usage.unkinded()),
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        let [input, output, read, write] =
            [self.input, self.output, self.cache_read, self.cache_write].map(u64::from);
        let usage = Usage::new(input, output, read, write).with_unkinded(self.unkinded.into());
        Usage { floor: self.is_floor, ..usage }
    }
}

/// Returns the key of a response: two 64-bit hashes of its id, which is compared and never shown. 128 bits do not
/// collide by chance; a deliberate collision only falsifies that session's own counts.
pub(crate) fn response_key(id: &str) -> (u64, u64) {
    (hash_id(1, id), hash_id(2, id))
}

/// Returns the key of a call in [`subscope_model::SessionKeys`]. Its seed differs from that of response keys, which
/// share the set.
pub(crate) fn call_key(id: &str) -> u64 {
    hash_id(3, id)
}

/// Returns the key of a line by its id, and of an agent by its own.
pub(crate) fn line_key(id: &str) -> u64 {
    hash_id(4, id)
}

/// Hashes an id. Stores keep these hashes, so a change here must raise `subscope_session::REVISION`.
fn hash_id(seed: u64, id: &str) -> u64 {
    foldhash::quality::FixedState::with_seed(seed).hash_one(id)
}
