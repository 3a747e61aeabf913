//! What harnesses state about their own sessions: totals, and ends of turns. `subscope verify` compares them with rows.
//!
//! They are read from the JSON of each line alone, never through a decoder: what is checked is not what it is checked with.
//! A harness states its totals in one table, [`SelfReport::totals`]; a new one adds an entry.

use std::collections::BTreeMap;

use serde_json::Value;
use subscope_decode::Dialect;

/// What a harness states about its own sessions.
#[derive(Debug)]
pub struct SelfReport {
    /// Its totals, one entry for each place that states some.
    pub totals: &'static [StatedTotal],
    /// Whether a line has a response or a call: totals in lines before it do not cover it.
    pub is_work: fn(&Value) -> bool,
    /// Whether the harness makes requests of its own with a model, such as for titles: their responses are in no transcript.
    pub asks_with: fn(&str) -> bool,
    /// Whether a line shows that the harness makes requests of its own with the session's model, such as for summaries.
    pub shows_own_requests: fn(&Value) -> bool,
    /// Whether a line ends the turn of the agent whose file it is in; `None` if it says nothing about the turn.
    pub ends_turn: fn(&Value) -> Option<bool>,
}

/// A place at which a harness states totals.
#[derive(Debug)]
pub struct StatedTotal {
    /// The name of the place in the harness's own words: for reports.
    pub name: &'static str,
    /// The dialects whose lines have it.
    pub dialects: &'static [Dialect],
    /// Returns the totals that a line states.
    pub read: fn(&Value) -> Vec<Statement>,
}

/// A total that a line states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statement {
    /// The session, where the line names it; else that of its source.
    pub session: Option<String>,
    /// Whose total it is.
    pub of: StatedScope,
    /// What it covers of that: of statements about the same part the last counts, those about several parts are added.
    pub part: Option<String>,
    /// Since when it counts, in milliseconds since 1970, where the line says so.
    pub since_ms: Option<i64>,
    /// The figures by model; by `""` where the line names none.
    pub models: BTreeMap<String, StatedFigures>,
}

/// Whose total a statement is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StatedScope {
    /// The whole session. Where the process is started again, it may count from 0.
    #[default]
    Session,
    /// The agent whose file it is in: the root, unless the path or the first line names a subagent.
    File,
    /// An agent, by its id; the session's own id is the root.
    Agent(String),
    /// The agent that a call started.
    StartedBy(String),
    /// The agent that a call started, with its descendants.
    Below(String),
    /// One response of an agent, by the agent's id.
    Response(String),
}

/// Figures that a statement has.
pub type StatedFigures = BTreeMap<Figure, u64>;

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Figure {
    /// Input tokens that were neither read from nor written to a cache.
    Input,
    /// Output tokens with those of thoughts.
    Output,
    /// Tokens read from a cache.
    CacheRead,
    /// Tokens written to a cache.
    CacheWrite,
    /// All tokens, where the kinds are not stated.
    Tokens,
    /// Tool calls.
    Calls,
    /// Subagents.
    Agents,
    /// Cost in micro-US-dollars.
    Cost,
}

impl Figure {
    /// Returns its name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Input => "input tokens",
            Self::Output => "output tokens",
            Self::CacheRead => "cache read tokens",
            Self::CacheWrite => "cache write tokens",
            Self::Tokens => "tokens",
            Self::Calls => "tool calls",
            Self::Agents => "subagents",
            Self::Cost => "cost",
        }
    }
}

/// Returns the whole number at a JSON pointer.
pub(crate) fn number(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer)?.as_u64()
}

/// Returns the text at a JSON pointer, unless it is empty.
pub(crate) fn text(value: &Value, pointer: &str) -> Option<String> {
    value.pointer(pointer)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Whether the text at a JSON pointer is this word.
pub(crate) fn is(value: &Value, pointer: &str, word: &str) -> bool {
    value.pointer(pointer).and_then(Value::as_str) == Some(word)
}

/// Returns an amount of US dollars at a JSON pointer, in micro-US-dollars.
pub(crate) fn dollars(value: &Value, pointer: &str) -> Option<u64> {
    let dollars = value.pointer(pointer)?.as_f64().filter(|dollars| (0.0..1e9).contains(dollars))?;
    // In range by the filter.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Some((dollars * 1e6).round() as u64)
}

/// Returns figures of tokens by kind. `input` holds the tokens of the cache where `holds_cached`.
pub(crate) fn tokens(input: u64, output: u64, [read, write]: [u64; 2], holds_cached: bool) -> StatedFigures {
    let cached = if holds_cached { read.saturating_add(write) } else { 0 };
    let kinds = [
        (Figure::Input, input.saturating_sub(cached)),
        (Figure::Output, output),
        (Figure::CacheRead, read),
        (Figure::CacheWrite, write),
    ];
    kinds.into()
}

impl Statement {
    /// A total without models.
    pub(crate) fn of(of: StatedScope, figures: StatedFigures) -> Self {
        Self { of, models: [(String::new(), figures)].into(), ..Self::default() }
    }
}
