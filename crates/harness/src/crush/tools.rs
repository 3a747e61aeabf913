//! Crush's tool calls, and the texts with which they end.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{digest, lenient::LineText};
use subscope_model::{CallBegin, Outcome, RawJson, SpawnInput, SpawnMode, ToolClass};

use crate::common::tools::Tools;

const TOOLS: Tools = Tools {
    spawn: "agent",
    instant: &["view", "ls", "glob", "grep", "edit", "multiedit", "write", "todos"],
    asking: &[("question", ToolClass::Question)],
    writing: &["edit", "multiedit", "write"],
    has_local_ids: true,
};

/// The tool that has an agent of its own read the web.
const FETCHING_AGENT: &str = "agentic_fetch";
/// The tool that runs commands.
const SHELL: &str = "bash";
/// The whole text of the result of a call that a person refused: by versions of 2026, and of 2025.
const DENIALS: [&str; 2] = ["User denied permission", "Permission denied"];
/// The same of a call that was open when a person stopped the turn.
const CANCELS: [&str; 2] =
    ["Error: user cancelled assistant tool calling", "Tool execution canceled by user"];
/// What follows the output of a command.
const FOLDER_MARK: &str = "\n\n<cwd>";
/// Last line of the output of a command that failed, and of one that was stopped.
const EXIT_CODE: &str = "Exit code ";
const ABORTED: &str = "Command was aborted before completion";

/// Returns the class of a tool.
pub(super) fn class(tool: &str) -> ToolClass {
    if tool == FETCHING_AGENT { ToolClass::Spawn } else { TOOLS.class(tool) }
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct CrushAgentInput<'a> {
    prompt: Option<&'a RawValue>,
}

/// Builds a call's begin. `input` are its arguments, which the line has as a string.
pub(super) fn begin<'a>(
    id: &'a str,
    name: &'a str,
    input: Option<&'a RawValue>,
    line: LineText<'a>,
) -> CallBegin<'a> {
    let json = input.map_or("", RawValue::get);
    let mut call = TOOLS.begin(Some(id), name, input, line, digest(name, json), |_| SpawnInput::default());
    call.class = class(name);
    call.spawn = (call.class == ToolClass::Spawn).then(|| {
        let arguments: CrushAgentInput<'a> = serde_json::from_str(json).unwrap_or_default();
        let prompt = arguments.prompt.map(|raw| RawJson { json: raw.get(), offset: u64::MAX });
        SpawnInput { prompt, mode: Some(SpawnMode::Foreground), ..SpawnInput::default() }
    });
    call
}

/// Returns how a call ended, by its result.
pub(super) fn outcome(tool: Option<&str>, text: &str, is_error: bool) -> Outcome {
    let is_command = tool == Some(SHELL);
    let output = text.rfind(FOLDER_MARK).and_then(|end| text.get(..end)).unwrap_or(text);
    let last = output.trim_end().lines().next_back().filter(|_| is_command).unwrap_or_default();
    match (is_error, text) {
        (true, text) if DENIALS.contains(&text) => Outcome::Denied,
        (true, text) if CANCELS.contains(&text) => Outcome::Interrupted,
        (true, _) => Outcome::Error,
        (false, _) if last == ABORTED => Outcome::Interrupted,
        (false, _) if last.strip_prefix(EXIT_CODE).is_some_and(|code| code != "0") => Outcome::Error,
        (false, _) => Outcome::Ok,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_say_how_calls_ended() {
        let shell = Some("bash");
        let cases = [
            (shell, "a\n\n<cwd>/w</cwd>", false, Outcome::Ok),
            (shell, "\nno such file\nExit code 2\n\n<cwd>/w</cwd>", false, Outcome::Error),
            (shell, "\nexit status 1\nExit code 1", false, Outcome::Error),
            (shell, "Exit code 1\nis what it said", false, Outcome::Ok),
            (shell, "\nCommand was aborted before completion\n\n<cwd>/w</cwd>", false, Outcome::Interrupted),
            (Some("view"), "Exit code 1", false, Outcome::Ok),
            (None, "Exit code 1", false, Outcome::Ok),
            (shell, "Permission denied", true, Outcome::Denied),
            (shell, "Permission denied", false, Outcome::Ok),
            (Some("agent"), "User denied permission", true, Outcome::Denied),
            (Some("view"), "Tool execution canceled by user", true, Outcome::Interrupted),
            (Some("view"), "File not found", true, Outcome::Error),
        ];
        for (tool, text, is_error, expected) in cases {
            assert_eq!(outcome(tool, text, is_error), expected, "{text}");
        }
    }
}
