//! Qwen Code's tool calls, and its words for endings.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::lenient::{Flag, LineText, Str};
use subscope_model::{AgentStatus, CallBegin, Outcome, SpawnInput, SpawnMode, ToolClass};

use crate::common::tools::Tools;

const TOOLS: Tools = Tools {
    spawn: "agent",
    instant: &[
        "read_file",
        "write_file",
        "edit",
        "glob",
        "grep_search",
        "list_directory",
        "todo_write",
        "list_agents",
    ],
    asking: &[("ask_user_question", ToolClass::Question), ("exit_plan_mode", ToolClass::Plan)],
    writing: &["write_file", "edit"],
    has_local_ids: true,
};

/// Returns the class of a tool.
pub(super) fn class(tool: &str) -> ToolClass {
    TOOLS.class(tool)
}

/// Arguments of the tool that starts an agent.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct SpawnArguments<'a> {
    description: Str<'a>,
    subagent_type: Str<'a>,
    prompt: Option<&'a RawValue>,
    model: Str<'a>,
    run_in_background: Flag,
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
            agent_type: arguments.subagent_type.0,
            description: arguments.description.0,
            prompt: arguments.prompt.map(|raw| line.raw(raw)),
            model: arguments.model.0,
            mode: arguments.run_in_background.0.map(mode),
            ..SpawnInput::default()
        }
    })
}

/// Returns how an agent is run, from a flag.
pub(super) fn mode(is_background: bool) -> SpawnMode {
    if is_background { SpawnMode::Background } else { SpawnMode::Foreground }
}

/// Returns the call that started an agent: an agent's id is its type and the id of that call.
pub(super) fn call_of<'a>(agent: &'a str, agent_type: Option<&str>) -> Option<&'a str> {
    agent.strip_prefix(agent_type?)?.strip_prefix('-').filter(|call| !call.is_empty())
}

/// Returns how an agent ended, by the harness's status; `None` if it is still at work.
pub(super) fn status(word: &str) -> Option<AgentStatus> {
    match word {
        "completed" => Some(AgentStatus::Completed),
        "failed" | "error" => Some(AgentStatus::Failed),
        "cancelled" | "stopped" | "killed" | "aborted" => Some(AgentStatus::Stopped),
        _ => None,
    }
}

/// Beginning of the text of a denied call.
const DENIALS: &[&str] = &[
    "Tool execution denied",
    "Tool execution blocked by",
    "Permission denied by",
    "Permission denied for tool",
    "Qwen Code requires permission",
    "[Operation Cancelled] Reason: User denied",
];

/// Text before and after the name of the tool in other such texts (observed or in the program: 0.24.4).
const NAMED_DENIALS: &[(&str, &str)] =
    &[("This \"", "\" invocation was denied by permission rules"), ("Tool \"", "\" is denied: ")];

/// Whether the text of a call reports that it was denied.
fn is_denial(text: &str) -> bool {
    DENIALS.iter().any(|denial| text.starts_with(denial))
        || NAMED_DENIALS.iter().any(|(before, behind)| {
            let rest = text.strip_prefix(before);
            rest.and_then(|rest| rest.find('"').and_then(|at| rest.get(at..)))
                .is_some_and(|rest| rest.starts_with(behind))
        })
}

/// Returns how a call ended, by the harness's status, if it has one, and the text of an error.
pub(super) fn outcome(word: Option<&str>, error: Option<&str>) -> Outcome {
    match (word, error) {
        (_, Some(text)) if is_denial(text) => Outcome::Denied,
        (Some("cancelled"), _) => Outcome::Interrupted,
        (Some("error"), _) | (_, Some(_)) => Outcome::Error,
        (_, None) => Outcome::Ok,
    }
}

/// A task notification: how the harness reports to a conversation that an agent in the background ended.
pub(super) struct Notice<'t> {
    pub(super) agent: &'t str,
    pub(super) call: Option<&'t str>,
    pub(super) status: AgentStatus,
    pub(super) report: Option<&'t str>,
}

/// Prefix of such a text. It is never a prompt of the user.
const NOTICE: &str = "<task-notification>";

impl<'t> Notice<'t> {
    /// Reads a notification; `None` where it is none, or names no agent or no ending.
    pub(super) fn read(text: &'t str) -> Option<Self> {
        let text = text.trim_start().strip_prefix(NOTICE)?;
        let report = text.split_once("<result>").and_then(|(_, rest)| rest.rsplit_once("</result>"));
        Some(Self {
            agent: tag(text, "task-id")?,
            call: tag(text, "tool-use-id"),
            status: status(tag(text, "status")?)?,
            report: report.map(|(report, _)| report.trim()).filter(|report| !report.is_empty()),
        })
    }
}

fn tag<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (inner, _) = rest.split_once(&format!("</{name}>"))?;
    Some(inner.trim()).filter(|inner| !inner.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_that_a_rule_a_hook_or_a_person_refuses_is_denied() {
        let of = |text| outcome(Some("error"), Some(text));
        for text in [
            "This \"run_shell_command\" invocation was denied by permission rules. Matching deny rule: \"Bash(rm *)\".",
            "Tool \"agent\" is denied: the tool's default permission is 'deny'.",
            "Permission denied by hook for \"agent\"",
            "Qwen Code requires permission to use \"agent\", but that permission was declined.",
        ] {
            assert_eq!(of(text), Outcome::Denied, "{text}");
        }
        for text in
            ["Permission denied (EACCES)", "This \"x\" invocation failed", "Tool \"agent", "cat: a: denied"]
        {
            assert_eq!(of(text), Outcome::Error, "{text}");
        }
    }

    #[test]
    fn notice_names_agent_call_and_ending() {
        let text = "<task-notification>\n<task-id>g-c1</task-id>\n<tool-use-id>c1</tool-use-id>\n<status>failed</status>\n<result>a\nb</result>";
        let notice = Notice::read(text).unwrap();
        assert_eq!((notice.agent, notice.call, notice.status), ("g-c1", Some("c1"), AgentStatus::Failed));
        assert_eq!(notice.report, Some("a\nb"));
        assert!(Notice::read("please read <task-notification>").is_none());
    }
}
