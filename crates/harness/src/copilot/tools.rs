//! Copilot's tool calls and their ends.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::lenient::{Flag, LineText, Str};
use subscope_model::{CallBegin, Outcome, SpawnInput, SpawnMode, ToolClass};

use crate::common::tools::Tools;

const TOOLS: Tools = Tools {
    spawn: "task",
    instant: &[
        "view",
        "grep",
        "glob",
        "edit",
        "create",
        "apply_patch",
        "str_replace_editor",
        "report_intent",
        "list_agents",
    ],
    asking: &[("ask_user", ToolClass::Question), ("exit_plan_mode", ToolClass::Plan)],
    writing: &["edit", "create", "str_replace_editor"],
    has_local_ids: true,
};
/// The tool that resumes an agent.
pub(super) const WRITE_TOOL: &str = "write_agent";

/// Returns the class of a tool.
pub(super) fn class(tool: &str) -> ToolClass {
    TOOLS.class(tool)
}

/// Arguments of the tools that concern agents.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Arguments<'a> {
    name: Str<'a>,
    description: Str<'a>,
    agent_type: Str<'a>,
    model: Str<'a>,
    mode: Str<'a>,
    prompt: Option<&'a RawValue>,
    agent_id: Str<'a>,
}

fn parse(json: &str) -> Arguments<'_> {
    serde_json::from_str(json).unwrap_or_default()
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
        let arguments = parse(json);
        SpawnInput {
            agent_type: arguments.agent_type.0,
            description: arguments.description.0,
            name: arguments.name.0,
            prompt: arguments.prompt.map(|raw| line.raw(raw)),
            model: arguments.model.0,
            mode: arguments.mode.get().and_then(mode),
        }
    })
}

/// Returns the agent that a call of [`WRITE_TOOL`] writes to.
pub(super) fn written_agent(input: Option<&RawValue>) -> Option<String> {
    parse(input?.get()).agent_id.filled().map(str::to_owned)
}

/// Returns how an agent is run, by the harness's mode.
pub(super) fn mode(word: &str) -> Option<SpawnMode> {
    match word {
        "sync" => Some(SpawnMode::Foreground),
        "background" => Some(SpawnMode::Background),
        _ => None,
    }
}

/// Outcome of a call, by its end.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
pub(super) struct Ending<'a> {
    pub(super) tool_call_id: Str<'a>,
    pub(super) success: Flag,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    shell_execution: Option<&'a RawValue>,
}

/// The result of a call as the model sees it, or why the call failed.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct CallText<'a> {
    content: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    code: Str<'a>,
}

/// How a command ended. Observed: 1.0.102; 1.0.39 and hooks have the code in the result's text only.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct ShellExecution<'a> {
    exit_code: Option<&'a RawValue>,
}

/// Whether the text of a command ends with the harness's word that it failed: `<exited with exit code 3>` (1.0.39),
/// `<shellId: 2 completed with exit code 3>` (1.0.102).
pub(super) fn has_failed_command(text: &str) -> bool {
    let last = text.trim_end().rsplit('\n').next().unwrap_or_default();
    let word = last.strip_suffix('>').and_then(|last| last.rsplit_once('<')).map(|(_, word)| word);
    let Some((what, code)) = word.and_then(|word| word.rsplit_once(" with exit code ")) else { return false };
    let is_end = what == "exited" || what.starts_with("shellId: ") && what.ends_with(" completed");
    is_end && code.parse::<i64>().is_ok_and(|code| code != 0)
}

/// Codes of the error of a call that a rule or a person denied, and beginnings of its text where it has no code.
const DENIALS: [&str; 2] = ["denied", "rejected"];
const DENIALS_IN_WORDS: [&str; 2] =
    ["Permission denied and could not request permission", "The user rejected this tool call"];

fn is_denial(error: &CallText<'_>) -> bool {
    match error.code.filled() {
        Some(code) => DENIALS.contains(&code),
        None => {
            let text: Str<'_> = part(error.message);
            DENIALS_IN_WORDS.iter().any(|begin| text.get().unwrap_or_default().starts_with(begin))
        }
    }
}

fn part<'a, T: Default + Deserialize<'a>>(raw: Option<&'a RawValue>) -> T {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

impl<'a> Ending<'a> {
    /// Returns how the call ended. A command with an exit code other than 0 is an error, though the harness calls it a
    /// success.
    pub(super) fn outcome(&self) -> Outcome {
        let error: CallText<'_> = part(self.error);
        match self.success.0 {
            Some(true) if self.has_failed_command() => Outcome::Error,
            Some(true) => Outcome::Ok,
            Some(false) if is_denial(&error) => Outcome::Denied,
            Some(false) => Outcome::Error,
            None => Outcome::Over,
        }
    }

    fn has_failed_command(&self) -> bool {
        let shell: ShellExecution<'_> = part(self.shell_execution);
        let code = shell.exit_code.and_then(|raw| raw.get().parse::<f64>().ok());
        let in_text = || self.text().and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        match code {
            Some(code) => code != 0.0,
            None => in_text().is_some_and(|text| has_failed_command(&text)),
        }
    }

    /// Returns the text of the call's result.
    pub(super) fn text(&self) -> Option<&'a RawValue> {
        let (result, error): (CallText<'a>, CallText<'a>) = (part(self.result), part(self.error));
        result.content.or(error.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_is_read_from_the_last_words_alone() {
        for (text, has_failed) in [
            ("x\n<shellId: 2 completed with exit code 3>", true),
            ("<exited with exit code 3>\n", true),
            ("x <exited with exit code -1>", true),
            ("x\n<shellId: 1 completed with exit code 0>", false),
            ("<exited with exit code 3>\n<exited with exit code 0>", false),
            ("<exited with exit code 3>\nmore", false),
            ("the program exited with exit code 3", false),
            ("", false),
        ] {
            assert_eq!(has_failed_command(text), has_failed, "{text}");
        }
    }
}
