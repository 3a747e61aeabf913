//! The records of a chat: what a person or the program wrote, and what the model answered.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::lenient::{Num, Str};
use subscope_model::Usage;

use crate::common::parts::{FunctionResponse, Part, elements};

/// One record. It is written again, with the same id, when its calls have ended.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
pub(super) struct Record<'a> {
    pub(super) id: Str<'a>,
    #[serde(rename = "type")]
    pub(super) kind: Str<'a>,
    pub(super) timestamp: Str<'a>,
    pub(super) content: Option<&'a RawValue>,
    pub(super) thoughts: Option<&'a RawValue>,
    pub(super) tokens: Option<Tokens>,
    pub(super) model: Str<'a>,
    pub(super) tool_calls: Option<&'a RawValue>,
}

/// The tokens of a response: the input holds the cached ones, the output not the thoughts.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    pub(super) input: Num,
    pub(super) output: Num,
    pub(super) cached: Num,
    pub(super) thoughts: Num,
    pub(super) tool: Num,
    pub(super) total: Num,
}

impl Tokens {
    /// Returns the tokens in our kinds. Prompts of tools are input of their own.
    pub(super) fn usage(self) -> Usage {
        let number = |field: Num| field.0.unwrap_or(0);
        let fresh = |input: u64| input.saturating_sub(number(self.cached)).saturating_add(number(self.tool));
        let written = |output: u64| output.saturating_add(number(self.thoughts));
        let parts = [self.input.0.map(fresh), self.output.0.map(written), self.cached.0, None];
        Usage::of_parts(parts, self.total.0)
    }
}

/// A thought of the model.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Thought<'a> {
    pub(super) description: Option<&'a RawValue>,
}

/// A call with its end.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
pub(super) struct ToolCall<'a> {
    pub(super) id: Str<'a>,
    pub(super) name: Str<'a>,
    pub(super) args: Option<&'a RawValue>,
    pub(super) result: Option<&'a RawValue>,
    pub(super) status: Str<'a>,
    pub(super) timestamp: Str<'a>,
    pub(super) agent_id: Str<'a>,
    pub(super) result_display: Option<&'a RawValue>,
}

impl Record<'_> {
    /// Returns whether it has tokens, and whether it has calls: a copy may lack them.
    pub(super) fn fullness(&self) -> [bool; 2] {
        [self.tokens.is_some(), self.tool_calls.is_some_and(|calls| calls.get() != "[]")]
    }
}

impl<'a> ToolCall<'a> {
    /// Returns what the model sees of the result.
    pub(super) fn response(&self) -> Option<FunctionResponse<'a>> {
        elements::<Part<'a>>(self.result).into_iter().find_map(|part| part.function_response)
    }
}
