//! Codex's tool calls: their arguments are JSON in a string, and how they ended is in typed items or in words.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    ToolArguments, digest,
    lenient::{LineText, Str},
};
use subscope_model::{CallBegin, Outcome, RawJson, SpawnInput, SpawnMode, ToolClass};

/// The tool that starts an agent. Its namespace is configurable; hooks write both without a separator.
const SPAWN_TOOL: &str = "spawn_agent";
/// Tools that concern agents.
const AGENT_TOOLS: &[&str] = &[
    SPAWN_TOOL,
    "wait_agent",
    "close_agent",
    "resume_agent",
    "list_agents",
    "interrupt_agent",
    "send_input",
    "send_message",
    "followup_task",
];
/// Tools that end at once unless the user must allow them.
const INSTANT_TOOLS: &[&str] =
    &["update_plan", "apply_patch", "view_image", "list_agents", "send_input", "send_message", "close_agent"];

/// Returns the class of a tool.
pub(super) fn class(tool: &str) -> ToolClass {
    if tool.ends_with(SPAWN_TOOL) {
        ToolClass::Spawn
    } else if INSTANT_TOOLS.contains(&tool) {
        ToolClass::Instant
    } else {
        ToolClass::Other
    }
}

/// Arguments of the tools that concern agents, and of those that run commands.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Arguments<'a> {
    agent_type: Str<'a>,
    task_name: Str<'a>,
    message: Option<&'a RawValue>,
    model: Str<'a>,
    cmd: Str<'a>,
}

/// Returns the name of a tool that hooks call by its namespace and name without a separator, and the shell by another name.
pub(super) fn name_in_hooks(name: &str) -> &str {
    let of_agents = AGENT_TOOLS.iter().find(|tool| name.ends_with(**tool)).copied();
    if name == "Bash" { "exec_command" } else { of_agents.unwrap_or(name) }
}

/// Passes a call's begin on. Its arguments do not live as long as the line where they have escapes.
pub(super) fn with_begin(
    id: Option<&str>,
    name: &str,
    arguments: Option<&RawValue>,
    line: LineText<'_>,
    each: &mut dyn FnMut(CallBegin<'_>),
) {
    let inner: Str<'_> = arguments.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    // A tool of free text, and hooks, have no JSON in a string.
    let json = inner.get().unwrap_or_else(|| arguments.map_or("", RawValue::get));
    let parsed: Arguments<'_> = serde_json::from_str(json).unwrap_or_default();
    let class = class(name);
    let mut call = CallBegin {
        id,
        name,
        class,
        input: arguments.map(|raw| line.raw(raw)),
        digest: digest(name, json),
        has_local_id: true,
        ..CallBegin::default()
    };
    if class == ToolClass::Spawn {
        call.detail.clone_from(&parsed.task_name.0);
        call.spawn = Some(SpawnInput {
            agent_type: parsed.agent_type.0,
            description: parsed.task_name.0,
            prompt: parsed.message.map(|raw| RawJson { json: raw.get(), offset: u64::MAX }),
            model: parsed.model.0,
            mode: Some(SpawnMode::Foreground),
            ..SpawnInput::default()
        });
    } else {
        call.detail = parsed.cmd.0.or_else(|| ToolArguments::parse(json).detail());
    }
    each(call);
}

/// Beginning of the output of a call of an unknown tool.
const UNSUPPORTED: &str = "unsupported call:";
/// Text in the output of a call that was stopped with its agent.
const ABORTED: &str = "aborted by user";
/// Beginning of the output of a call that a hook refused.
const BLOCKED: &str = "Command blocked by PreToolUse hook";
/// Text before the exit code in the output of a command.
const EXITED: &str = "Process exited with code ";
/// Text in the output of a command that is still running.
const RUNNING: &str = "Process running with session ID";

/// Whether the output is of a command that runs on: it has ended for the model, and its typed item comes later.
pub(super) fn runs_on(output: &str) -> bool {
    let head = output.split("\nOutput:").next().unwrap_or_default();
    head.contains(RUNNING) && !head.contains(EXITED)
}

/// Returns how a call ended, by the words of its output.
pub(super) fn outcome(output: &str) -> Outcome {
    // Text after this is the command's own output.
    let (head, has_output) = match output.find("\nOutput:") {
        Some(at) => (&output[..at], true),
        None => (output, false),
    };
    let code = head.find(EXITED).and_then(|at| head[at + EXITED.len()..].lines().next());
    let is_stopped = !has_output && head.trim_end().ends_with(ABORTED);
    if head.starts_with(BLOCKED) {
        Outcome::Denied
    } else if head.starts_with(UNSUPPORTED) || is_stopped || code.is_some_and(|code| code.trim() != "0") {
        Outcome::Error
    } else {
        Outcome::Ok
    }
}

/// Returns how a typed item ended; `None` while it has not.
pub(super) fn item_outcome(status: &str) -> Option<Outcome> {
    match status {
        "completed" => Some(Outcome::Ok),
        "failed" => Some(Outcome::Error),
        "declined" => Some(Outcome::Denied),
        _ => None,
    }
}

/// Returns a text that may be a string or blocks of text, as JSON of its first block.
pub(super) fn first_text(content: Option<&RawValue>) -> Option<&RawValue> {
    #[derive(Default, Deserialize)]
    #[serde(default, bound(deserialize = "'de: 'a"))]
    struct Block<'a> {
        text: Option<&'a RawValue>,
    }
    let content = content?;
    match content.get().as_bytes().first() {
        Some(b'[') => serde_json::from_str::<Vec<Block<'_>>>(content.get())
            .ok()?
            .into_iter()
            .find_map(|block| block.text),
        Some(b'"') => Some(content),
        _ => None,
    }
}

/// Returns the words of a JSON string.
pub(super) fn words(raw: Option<&RawValue>) -> Cow<'_, str> {
    let text: Str<'_> = raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    text.0.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_is_read_from_the_words_before_the_output_alone() {
        let cases = [
            (
                "Wall time: 0 s\nProcess exited with code 0\nOutput:\nProcess exited with code 3\n",
                Outcome::Ok,
            ),
            ("Chunk ID: 1\nProcess exited with code 3\nOutput:\n", Outcome::Error),
            ("Process running with session ID 7\nOutput:\n", Outcome::Ok),
            ("unsupported call: collaborationspawn_agent", Outcome::Error),
            ("Wall time: 1.0 seconds\naborted by user", Outcome::Error),
            ("Command blocked by PreToolUse hook: no. Command: rm", Outcome::Denied),
            ("{\"agent_id\":\"1\"}", Outcome::Ok),
            ("", Outcome::Ok),
        ];
        for (output, expected) in cases {
            assert_eq!(super::outcome(output), expected, "{output}");
        }
        assert!(runs_on("Wall time: 1 s\nProcess running with session ID 7\nOutput:\n"));
        assert!(!runs_on("Process exited with code 0\nOutput:\nProcess running with session ID 7\n"));
    }

    #[test]
    fn hooks_call_tools_by_other_names() {
        for (hook, name) in [
            ("Bash", "exec_command"),
            ("multi_agent_v1wait_agent", "wait_agent"),
            ("collaborationspawn_agent", "spawn_agent"),
            ("spawn_agent", "spawn_agent"),
            ("apply_patch", "apply_patch"),
        ] {
            assert_eq!(name_in_hooks(hook), name);
        }
    }
}
