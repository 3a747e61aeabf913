//! The lines of a rollout, as far as they are read.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::lenient::{Flag, Num, Str};
use subscope_model::Usage;

/// One line.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Line<'a> {
    pub(super) id: Str<'a>,
    pub(super) timestamp: Str<'a>,
    pub(super) ordinal: Num,
    #[serde(rename = "type")]
    pub(super) kind: Str<'a>,
    pub(super) payload: Option<&'a RawValue>,
}

/// `session_meta`, as far as it describes the session.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Opening<'a> {
    pub(super) cwd: Str<'a>,
    pub(super) cli_version: Str<'a>,
    pub(super) subagent_history_start_ordinal: Num,
}

/// The payload of any other line.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Payload<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Str<'a>,
    pub(super) id: Str<'a>,
    pub(super) role: Str<'a>,
    pub(super) content: Option<&'a RawValue>,
    pub(super) summary: Option<&'a RawValue>,
    pub(super) name: Str<'a>,
    pub(super) call_id: Str<'a>,
    pub(super) status: Str<'a>,
    pub(super) arguments: Option<&'a RawValue>,
    pub(super) input: Option<&'a RawValue>,
    pub(super) action: Option<&'a RawValue>,
    pub(super) output: Option<&'a RawValue>,
    pub(super) item: Option<Item<'a>>,
    pub(super) completed_at_ms: Num,
    pub(super) model: Str<'a>,
    pub(super) service_tier: Str<'a>,
    pub(super) response_id: Str<'a>,
    pub(super) usage: Option<Tokens>,
    pub(super) info: Option<Counts>,
    pub(super) message: Option<&'a RawValue>,
    pub(super) text: Option<&'a RawValue>,
    pub(super) last_agent_message: Option<&'a RawValue>,
    pub(super) error: Option<&'a RawValue>,
    pub(super) codex_error_info: Option<&'a RawValue>,
    pub(super) author: Str<'a>,
    pub(super) thread_name: Str<'a>,
    pub(super) aggregated_output: Option<&'a RawValue>,
    pub(super) stderr: Option<&'a RawValue>,
    pub(super) result: Option<&'a RawValue>,
}

/// How a call of an MCP server ended.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "PascalCase")]
pub(super) struct McpResult<'a> {
    pub(super) ok: Option<McpAnswer<'a>>,
    pub(super) err: Option<&'a RawValue>,
}

/// What the MCP server answered.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct McpAnswer<'a> {
    pub(super) content: Option<&'a RawValue>,
    #[serde(rename = "isError", alias = "is_error")]
    pub(super) is_error: Flag,
}

/// A typed item.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Item<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Str<'a>,
    pub(super) id: Str<'a>,
    pub(super) status: Str<'a>,
    pub(super) tool: Str<'a>,
    pub(super) content: Option<&'a RawValue>,
    pub(super) summary_text: Option<Vec<&'a RawValue>>,
    pub(super) aggregated_output: Option<&'a RawValue>,
    pub(super) error: Option<&'a RawValue>,
    pub(super) receiver_thread_ids: Option<Vec<Str<'a>>>,
    pub(super) prompt: Option<&'a RawValue>,
    pub(super) model: Str<'a>,
    #[serde(rename = "kind")]
    pub(super) activity: Str<'a>,
    pub(super) agent_thread_id: Str<'a>,
}

/// Tokens: the input holds the cached ones, the output the reasoning ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    pub(super) input_tokens: Num,
    pub(super) cached_input_tokens: Num,
    pub(super) cache_write_input_tokens: Num,
    pub(super) output_tokens: Num,
    pub(super) total_tokens: Num,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Counts {
    pub(super) total_token_usage: Tokens,
    pub(super) last_token_usage: Tokens,
}

impl Tokens {
    /// Returns the tokens in our kinds.
    pub(super) fn usage(&self) -> Usage {
        let number = |field: Num| field.0.unwrap_or(0);
        let (read, write) = (number(self.cached_input_tokens), number(self.cache_write_input_tokens));
        let fresh = self.input_tokens.0.map(|input| input.saturating_sub(read).saturating_sub(write));
        Usage::of_parts([fresh, self.output_tokens.0, Some(read), Some(write)], self.total_tokens.0)
    }
}

/// The output of a call that concerns agents.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct AgentOutput<'a> {
    /// Of a spawn.
    pub(super) agent_id: Str<'a>,
    pub(super) nickname: Str<'a>,
    /// Of a wait: state of each thread.
    pub(super) status: Option<&'a RawValue>,
}

/// Status of a thread: a word, or an object with its last message.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct ThreadState<'a> {
    pub(super) completed: Option<&'a RawValue>,
    pub(super) errored: Option<&'a RawValue>,
}

/// The notification in a parent's rollout that a child has ended.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Notification<'a> {
    pub(super) agent_path: Str<'a>,
    pub(super) status: Option<&'a RawValue>,
}
