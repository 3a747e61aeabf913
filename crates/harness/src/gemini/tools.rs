//! Gemini's tool calls and their ends.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::lenient::{LineText, Str};
use subscope_model::{AgentStatus, CallBegin, Outcome, SpawnInput, SpawnMode, ToolClass};

use crate::common::tools::Tools;

/// Its tools. Up to 0.34 each kind of agent is a tool of its own.
const TOOLS: Tools = Tools {
    spawn: "invoke_agent",
    instant: &[
        "read_file",
        "read_many_files",
        "write_file",
        "replace",
        "glob",
        "grep_search",
        "search_file_content",
        "list_directory",
        "complete_task",
        "write_todos",
        "save_memory",
    ],
    asking: &[("ask_user", ToolClass::Question), ("exit_plan_mode", ToolClass::Plan)],
    writing: &["write_file", "replace"],
    has_local_ids: false,
};

/// Returns the class of a tool.
pub(super) fn class(tool: &str) -> ToolClass {
    TOOLS.class(tool)
}

/// Arguments of the tool that starts an agent.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct SpawnArguments<'a> {
    agent_name: Str<'a>,
    prompt: Option<&'a RawValue>,
}

/// Builds a call's begin from its name and raw arguments.
pub(super) fn begin<'a>(
    id: Option<&'a str>,
    name: &'a str,
    input: Option<&'a RawValue>,
    line: LineText<'a>,
    digest: u64,
) -> CallBegin<'a> {
    TOOLS.begin(id, name, input, line, digest, |json| {
        let arguments: SpawnArguments<'a> = serde_json::from_str(json).unwrap_or_default();
        SpawnInput {
            agent_type: arguments.agent_name.0,
            prompt: arguments.prompt.map(|raw| line.raw(raw)),
            mode: Some(SpawnMode::Foreground),
            ..SpawnInput::default()
        }
    })
}

/// Returns the begin of a call whose tool is a kind of agent, as before `invoke_agent`. Its longest text argument is the
/// task: the agent's prompt holds it between words of the kind.
pub(super) fn begin_of_kind<'a>(
    call: CallBegin<'a>,
    input: Option<&'a RawValue>,
    line: LineText<'a>,
) -> CallBegin<'a> {
    let arguments: BTreeMap<String, &'a RawValue> =
        input.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let texts = arguments.into_values().filter(|value| value.get().starts_with('"'));
    let spawn = SpawnInput {
        agent_type: Some(call.name.into()),
        prompt: texts.max_by_key(|value| value.get().len()).map(|raw| line.raw(raw)),
        mode: Some(SpawnMode::Foreground),
        ..SpawnInput::default()
    };
    CallBegin { class: ToolClass::Spawn, spawn: Some(spawn), ..call }
}

/// Beginning of the text of a call that a rule or the user denied. The second was found in public conversations.
const DENIALS: &[&str] = &[
    "Tool execution denied by policy",
    "[Operation Cancelled] Reason: User denied",
    "[Operation Cancelled] Reason: User did not allow tool call",
    "User did not allow tool call",
];
/// Beginning and later words of the text of a call that would have needed a person's consent where there is nobody to ask.
const UNASKABLE: (&str, &str) = ("Tool execution for ", "requires user confirmation, which is not supported");

/// Returns how a call ended, by the harness's status and the text.
pub(super) fn outcome(status: Option<&str>, text: Option<&str>) -> Outcome {
    match status {
        Some("success") => Outcome::Ok,
        Some("error" | "cancelled") if text.is_some_and(is_denial) => Outcome::Denied,
        Some("error") => Outcome::Error,
        Some("cancelled") => Outcome::Interrupted,
        Some(_) | None => Outcome::Over,
    }
}

/// Whether a text reports that a call was denied.
fn is_denial(text: &str) -> bool {
    let text = text.trim_start_matches("Error: ");
    let is_unaskable = text.starts_with(UNASKABLE.0) && text.contains(UNASKABLE.1);
    is_unaskable || DENIALS.iter().any(|denial| text.starts_with(denial))
}

/// Data in a call's result about the agent that it started; a string if the call was refused.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
pub(super) struct AgentDisplay<'a> {
    pub(super) agent_name: Str<'a>,
    state: Str<'a>,
    terminate_reason: Str<'a>,
    pub(super) result: Option<&'a RawValue>,
}

impl AgentDisplay<'_> {
    /// Returns how the agent ended; `None` if its text does not report it.
    pub(super) fn status(&self) -> Option<AgentStatus> {
        match (self.state.get(), self.terminate_reason.get()) {
            (Some("error"), _) => Some(AgentStatus::Failed),
            (Some("cancelled"), _) => Some(AgentStatus::Stopped),
            (_, Some(reason)) => Some(status(reason)),
            (Some("completed"), None) => Some(AgentStatus::Completed),
            (Some(_) | None, None) => None,
        }
    }
}

/// Returns how an agent ended, by the harness's reason. At a limit it has not done its task.
pub(super) fn status(reason: &str) -> AgentStatus {
    match reason {
        "GOAL" => AgentStatus::Completed,
        "ABORTED" => AgentStatus::Stopped,
        _ => AgentStatus::Failed,
    }
}

/// Returns how an agent ended, by the text of its call. Up to 0.34 it is the only evidence that the call started one.
pub(super) fn reason_in_text(text: &str) -> Option<AgentStatus> {
    let rest = text.strip_prefix("Subagent ")?;
    if let Some((_, rest)) = rest.split_once("Termination Reason:") {
        return Some(status(rest.split_whitespace().next()?));
    }
    rest.split_once(" failed. Error:").map(|_| AgentStatus::Failed)
}
