//! API responses and the tokens and cost that a source reports for them.

use crate::{MicroUsd, Millis, Usage};
use serde::{Deserialize, Serialize};

/// One line of an API response.
#[derive(Clone, Debug, Default)]
pub struct Response<'a> {
    /// The API's id of the message; empty where the source has only the id of the request.
    pub message_id: &'a str,
    /// The API's id of the request that it answers.
    pub request_id: Option<&'a str>,
    /// The model.
    pub model: Option<&'a str>,
    /// Its tokens as reported by this line.
    pub usage: Option<Usage>,
    /// Number of cache-write tokens with a one-hour lifetime.
    pub cache_write_1h: u64,
    /// Its cost in picodollars as reported by this line; `None`: by the price list.
    pub cost_pico_usd: Option<u64>,
    /// Its part of the list price in thousandths, where that depends on more than model and tokens (a batch, a fast mode);
    /// 0: all of it.
    pub price_permille: u16,
    /// What it costs beside its tokens, in picodollars: searches of the web.
    pub extra_pico_usd: u64,
    /// Whether the price list is not what its user pays, as with a subscription: its cost is unknown.
    pub is_unpriced: bool,
    /// Whether the line has a stop reason.
    pub has_stop_reason: bool,
    /// Whether the stop reason is the end of the turn.
    pub ends_turn: bool,
    /// Hash of the line's content, and its length in characters.
    pub content: (u64, u32),
    /// Whether the line has a tool call.
    pub has_call: bool,
    /// Whether the line has text.
    pub has_text: bool,
    /// Set where the harness gives no reason for the end of a response, so that text ends the turn if nothing follows soon:
    /// the longest time in milliseconds that a call behind a text took in this source so far.
    pub ends_if_last: Option<i64>,
    /// Whether the harness synthesized the line: its usage is not counted.
    pub synthetic: bool,
    /// Whether it reports an API error.
    pub api_error: bool,
    /// Whether it only reports tokens and cost: it is no evidence of whether the turn continues.
    pub accounts_only: bool,
}

/// The session's own total over all its API responses, or over those of one of its processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checksum {
    /// Tokens.
    pub usage: Usage,
    /// Cost.
    pub cost_micro_usd: Option<MicroUsd>,
    /// The time of the total of one process, by which reports of the same one are known; `None`: of the whole session.
    pub part: Option<Millis>,
}
