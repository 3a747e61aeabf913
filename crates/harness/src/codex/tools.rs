//! Codex's tool calls: their arguments are JSON in a string, and how they ended is in typed items or in words.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    ToolArguments, digest,
    lenient::{LineText, Str},
};
use subscope_model::{CallBegin, Outcome, RawJson, SpawnInput, SpawnMode, ToolClass};

use crate::common::tools::{class_of, patched_files};

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
/// Tools that ask the person.
const ASKING_TOOLS: &[(&str, ToolClass)] = &[
    ("request_user_input", ToolClass::Question),
    ("tool_suggest", ToolClass::Question),
    ("request_plugin_install", ToolClass::Question),
    ("request_permissions", ToolClass::Permission),
];

/// Returns the class of a tool.
pub(super) fn class(tool: &str) -> ToolClass {
    if tool.ends_with(SPAWN_TOOL) { ToolClass::Spawn } else { class_of(tool, INSTANT_TOOLS, ASKING_TOOLS) }
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
        call.writes = patched_files(name, json).into_iter().map(Cow::Owned).collect();
    }
    each(call);
}

/// Beginnings of the output of a call that failed before it did anything, or was stopped. Observed: public rollouts of 2025,
/// rollouts of 0.118 to 0.171, and the strings of those programs.
const FAILED: [&str; 20] = [
    "unsupported call:",
    "unsupported custom tool call",
    "collab spawn failed:",
    "collab tool failed",
    "collab manager unavailable",
    "Agent depth limit reached",
    "agent thread limit reached",
    "failed to parse function arguments",
    "failed to parse exec",
    "exec_command failed",
    "write_stdin failed",
    "apply_patch verification failed",
    "error: Failed to ",
    "error: invalid hunk",
    "error: invalid patch",
    "failed in sandbox",
    "execution error:",
    "command timed out",
    "unable to locate image",
    "tool call error:",
];
/// Words at which the output of a call that concerns agents begins, and those with which it says that there is no such agent.
const NO_AGENT: [(&str, &str); 3] =
    [("live agent path ", "not found"), ("agent with id ", "not found"), ("agent with id ", "is closed")];
/// Text at the end of the output of a call that was stopped with its agent; a duration may follow it.
const ABORTED: &str = "aborted by user";
/// Beginnings of the output of a call that a hook, a person or a rule refused. Observed: as [`FAILED`].
const REFUSED: [&str; 9] = [
    "Command blocked by PreToolUse hook",
    "rejected by user",
    "exec command rejected",
    "approval policy is Never; reject command",
    "patch rejected by user",
    "exec_command rejected",
    "This action was rejected due to unacceptable risk.",
    "user cancelled MCP tool call",
    "user rejected MCP tool call",
];
/// Text before the reason of a refusal that is wrapped in the error of the process that was not started.
const WRAPS_REFUSAL: &str = "Rejected(\"";
/// Text between a command in backticks and the rule that refused it.
const REFUSED_BY_RULE: &str = "` rejected: ";
/// Texts before the exit code in the output of a command: in versions from 0.104 on, and before.
const EXITED: &str = "Process exited with code ";
const EXIT_CODE: &str = "Exit code: ";
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
    let code = match head.find(EXITED) {
        Some(at) => head[at + EXITED.len()..].lines().next(),
        None => head.strip_prefix(EXIT_CODE).and_then(|rest| rest.lines().next()),
    };
    let code = code.and_then(|code| code.trim().parse::<i64>().ok()).or_else(|| exit_code(output));
    let is_no_agent = NO_AGENT.iter().any(|(begin, end)| head.starts_with(begin) && head.contains(end));
    if is_refusal(head) {
        Outcome::Denied
    } else if FAILED.iter().any(|begin| head.starts_with(begin))
        || is_no_agent
        || !has_output && is_aborted(head)
        || code.is_some_and(|code| code != 0)
    {
        Outcome::Error
    } else {
        Outcome::Ok
    }
}

/// Whether the text of a failed call says that a hook, a person or a rule refused it.
pub(super) fn is_refusal(text: &str) -> bool {
    // `exec_command failed for …: CreateProcess { message: "Rejected(\"rejected by user\")" }`.
    let is_wrapped = text.starts_with(WRAPS_REFUSAL)
        || text.starts_with("exec_command failed") && text.contains("{ message: \"Rejected(");
    is_wrapped
        || REFUSED.iter().any(|begin| text.starts_with(begin))
        || text.starts_with('`') && text.contains(REFUSED_BY_RULE)
}

/// Returns the exit code in the output of a command of 2025, which is JSON: `{"output":…,"metadata":{"exit_code":…}}`.
fn exit_code(output: &str) -> Option<i64> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Metadata {
        exit_code: Option<i64>,
    }
    #[derive(Deserialize)]
    struct CommandOutput {
        metadata: Metadata,
    }
    let json = output.starts_with('{').then_some(output)?;
    serde_json::from_str::<CommandOutput>(json).ok()?.metadata.exit_code
}

/// Whether an output without a command's own ends with the words for a stop, with or without a duration.
fn is_aborted(head: &str) -> bool {
    let last = head.trim_end().lines().next_back().unwrap_or_default();
    let behind = last.rsplit_once(ABORTED).map(|(_, behind)| behind);
    behind.is_some_and(|behind| {
        let duration = behind.strip_prefix(" after ").and_then(|rest| rest.strip_suffix('s'));
        behind.is_empty() || duration.is_some_and(|seconds| seconds.parse::<f64>().is_ok())
    })
}

/// Whether the output of the tool that starts agents names the agent that it started: by id, or by its path (V2).
pub(super) fn names_agent(output: &str) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(default, bound(deserialize = "'de: 'a"))]
    struct Started<'a> {
        agent_id: Str<'a>,
        task_name: Str<'a>,
    }
    let started: Started<'_> = serde_json::from_str(output).unwrap_or_default();
    started.agent_id.filled().is_some() || started.task_name.filled().is_some()
}

/// The error of an item or of a turn: a text, or an object with one.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ErrorObject<'a> {
    message: Option<&'a RawValue>,
}

/// Returns the message of an error, which may be an object with it; `None` where there is no error.
pub(super) fn error_message(error: Option<&RawValue>) -> Option<&RawValue> {
    let error = error.filter(|raw| raw.get() != "null")?;
    let parsed: ErrorObject<'_> = serde_json::from_str(error.get()).unwrap_or_default();
    Some(parsed.message.unwrap_or(error))
}

/// Returns how a typed item ended, by its status and its error; `None` while it has not.
pub(super) fn item_outcome(status: &str, error: Option<&RawValue>) -> Option<Outcome> {
    match status {
        "completed" => Some(Outcome::Ok),
        "failed" if is_refusal(&words(error_message(error))) => Some(Outcome::Denied),
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
    use subscope_decode::Hint;
    use subscope_model::{Decoded, Fact, SourceId};

    use crate::codex::{APP_SERVER, EXEC, ROLLOUT};

    #[test]
    fn each_source_says_which_files_a_patch_changes() {
        const PATCH: &str =
            r"*** Begin Patch\n*** Update File: a.rs\n@@\n-1\n+2\n*** Add File: b.rs\n+1\n*** End Patch";
        let changes =
            r#""changes":[{"path":"a.rs","kind":"update"},{"kind":"add","path":"b.rs"},{"kind":"add"}]"#;
        let meta = r#"{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"t","cwd":"/shop"}}"#;
        let response = |payload: &str| {
            format!(
                "{meta}\n{{\"timestamp\":\"2026-01-01T00:00:01Z\",\"type\":\"response_item\",\"payload\":{payload}}}\n"
            )
        };
        let shell = PATCH.replace('\\', r"\\");
        for (dialect, lines) in [
            (
                ROLLOUT,
                response(&format!(
                    r#"{{"type":"custom_tool_call","call_id":"c","name":"apply_patch","input":"{PATCH}"}}"#
                )),
            ),
            (
                ROLLOUT,
                response(&format!(
                    r#"{{"type":"function_call","call_id":"c","name":"shell","arguments":"{{\"command\":[\"apply_patch\",\"{shell}\"]}}"}}"#
                )),
            ),
            (
                EXEC,
                format!(
                    "{{\"type\":\"item.started\",\"item\":{{\"id\":\"i\",\"type\":\"file_change\",{changes}}}}}\n"
                ),
            ),
            (
                APP_SERVER,
                format!(
                    "{{\"method\":\"thread/started\",\"params\":{{\"thread\":{{\"id\":\"t\"}}}}}}\n{{\"method\":\"item/started\",\"params\":{{\"threadId\":\"t\",\"turnId\":\"u\",\"item\":{{\"id\":\"i\",\"type\":\"fileChange\",{changes}}}}}}}\n"
                ),
            ),
        ] {
            let hint = Hint { source: SourceId(0), session: Some("t".to_owned()), ..Hint::default() };
            let mut found = Vec::new();
            let mut sink = |decoded: Decoded<'_, '_>| {
                if let Decoded::Observation(seen) = decoded
                    && let Fact::CallBegin(call) = &seen.fact
                {
                    found.push(call.writes.iter().map(ToString::to_string).collect::<Vec<_>>());
                }
            };
            let mut decoder = dialect.decoder(&hint);
            decoder.push(lines.as_bytes(), &mut sink);
            decoder.flush(&mut sink);
            assert_eq!(found, [["a.rs", "b.rs"]], "{lines}");
        }
    }

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
            ("aborted by user after 5.5s", Outcome::Error),
            ("it was aborted by user request", Outcome::Ok),
            ("collab spawn failed: agent thread limit reached", Outcome::Error),
            ("Agent depth limit reached. Solve the task yourself.", Outcome::Error),
            ("live agent path /root/x not found", Outcome::Error),
            ("agent with id 1-2 not found", Outcome::Error),
            ("agent with id 1-2 is closed", Outcome::Error),
            ("Exit code: 1\nWall time: 0.1 seconds\nOutput:\nx", Outcome::Error),
            ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nExit code: 1", Outcome::Ok),
            (r#"{"output":"x","metadata":{"exit_code":2,"duration_seconds":0.1}}"#, Outcome::Error),
            (r#"{"output":"x","metadata":{"exit_code":0,"duration_seconds":0.1}}"#, Outcome::Ok),
            ("failed in sandbox LinuxSeccomp with execution error: command timed out", Outcome::Error),
            ("error: Failed to find expected lines in /w/a.rs:\nfn a() {}", Outcome::Error),
            ("error: the words of a tool", Outcome::Ok),
            ("exec command rejected by user", Outcome::Denied),
            (
                r#"exec_command failed for `/bin/bash -lc ls`: CreateProcess { message: "Rejected(\"rejected by user\")" }"#,
                Outcome::Denied,
            ),
            (
                r#"exec_command failed for `/bin/bash -lc ls`: CreateProcess { message: "No such file" }"#,
                Outcome::Error,
            ),
            (r#"Rejected("rejected by user approval settings")"#, Outcome::Denied),
            ("`/bin/bash -lc rm` rejected: blocked by policy", Outcome::Denied),
            ("This action was rejected due to unacceptable risk.\nReason: x", Outcome::Denied),
            ("user cancelled MCP tool call", Outcome::Denied),
            ("the offer was rejected: too low", Outcome::Ok),
            ("exec command rejected: dangerous command detected", Outcome::Denied),
            ("approval policy is Never; reject command — ask for no more", Outcome::Denied),
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
