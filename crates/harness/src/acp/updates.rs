//! What an agent says of a session: the parameter of `session/update`.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::lenient::{Num, Str};
use subscope_model::{AgentStatus, MicroUsd, Usage};

/// Parameters of the methods about sessions.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct SessionParams<'a> {
    pub(super) session_id: Str<'a>,
    pub(super) cwd: Str<'a>,
    pub(super) prompt: Option<&'a RawValue>,
    pub(super) update: Option<&'a RawValue>,
    pub(super) tool_call: Option<&'a RawValue>,
    pub(super) options: Option<&'a RawValue>,
}

/// An update. Which fields it has depends on its kind.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct AcpUpdate<'a> {
    #[serde(rename = "sessionUpdate")]
    pub(super) kind: Str<'a>,
    pub(super) content: Option<&'a RawValue>,
    pub(super) message_id: Str<'a>,
    pub(super) tool_call_id: Str<'a>,
    pub(super) name: Str<'a>,
    pub(super) title: Str<'a>,
    #[serde(rename = "kind")]
    pub(super) tool_kind: Str<'a>,
    pub(super) status: Str<'a>,
    pub(super) raw_input: Option<&'a RawValue>,
    pub(super) raw_output: Option<&'a RawValue>,
    /// The session of an agent.
    pub(super) session_id: Str<'a>,
    pub(super) description: Str<'a>,
    pub(super) state: Option<&'a RawValue>,
    /// What the client can do with the session of an agent.
    pub(super) capabilities: Option<&'a RawValue>,
    pub(super) sender_session_id: Str<'a>,
    pub(super) recipient_session_id: Str<'a>,
    pub(super) config_options: Option<&'a RawValue>,
    pub(super) cost: Option<&'a RawValue>,
    /// What the agent adds beside the protocol.
    #[serde(rename = "_meta")]
    pub(super) meta: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct ChildState<'a> {
    pub(super) state: Str<'a>,
    stop_reason: Str<'a>,
    pub(super) error: Option<&'a RawValue>,
}

impl ChildState<'_> {
    /// How the agent ended; `None` while it works or waits.
    pub(super) fn ended(&self) -> Option<AgentStatus> {
        if !self.state.is("idle") {
            return None;
        }
        Some(self.stop_reason.filled().map_or(AgentStatus::Completed, status_of))
    }
}

/// What a client can do with the session of an agent.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct ChildCapabilities<'a> {
    /// To cancel it alone.
    pub(super) cancel: Option<&'a RawValue>,
}

/// Returns how a turn ended.
pub(super) fn status_of(stop_reason: &str) -> AgentStatus {
    match stop_reason {
        "end_turn" => AgentStatus::Completed,
        "cancelled" => AgentStatus::Stopped,
        // A refusal, a limit, an error.
        _ => AgentStatus::Failed,
    }
}

/// What a session has cost so far.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct AcpCost<'a> {
    amount: Option<f64>,
    currency: Str<'a>,
}

impl AcpCost<'_> {
    pub(super) fn micro_usd(&self) -> Option<MicroUsd> {
        let dollars = self.amount.filter(|amount| (0.0..1e6).contains(amount) && self.currency.is("USD"))?;
        // In range by the filter.
        #[expect(clippy::cast_possible_truncation)]
        Some((dollars * 1e6).round() as MicroUsd)
    }
}

/// What a call that started an agent returned, besides its text.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct ToolResponse<'a> {
    pub(super) agent_id: Str<'a>,
    pub(super) agent_type: Str<'a>,
}

/// The answer to a request of the client.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct AcpAnswer<'a> {
    pub(super) session_id: Str<'a>,
    pub(super) agent_info: Option<&'a RawValue>,
    pub(super) stop_reason: Str<'a>,
    pub(super) usage: Option<&'a RawValue>,
    /// What a person decided about a call.
    pub(super) outcome: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct AgentInfo<'a> {
    pub(super) name: Str<'a>,
    pub(super) version: Str<'a>,
}

/// What a person decided about a call.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct Decision<'a> {
    pub(super) outcome: Str<'a>,
    pub(super) option_id: Str<'a>,
}

/// A choice that a person has about a call.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct PermissionChoice<'a> {
    pub(super) option_id: Str<'a>,
    pub(super) kind: Str<'a>,
}

/// PromptUsage of a prompt: the input without the cached ones.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PromptUsage {
    input_tokens: Num,
    output_tokens: Num,
    cached_read_tokens: Num,
    cached_write_tokens: Num,
}

impl PromptUsage {
    pub(super) fn usage(self) -> Usage {
        let kinds =
            [self.input_tokens, self.output_tokens, self.cached_read_tokens, self.cached_write_tokens];
        Usage::of_parts(kinds.map(|kind| Some(kind.0.unwrap_or(0))), None)
    }
}

/// A setting of a session.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct ConfigOption<'a> {
    pub(super) id: Str<'a>,
    pub(super) current_value: Str<'a>,
}

/// The text of a block of content.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct TextBlock<'a> {
    pub(super) text: Option<&'a RawValue>,
}

/// A text, owned for longer than its line.
pub(super) fn owned<'b>(text: &Str<'_>) -> Option<Cow<'b, str>> {
    text.filled().map(|text| Cow::Owned(text.to_owned()))
}
