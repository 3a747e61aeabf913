//! Kimi Code's tool calls, the texts with which calls that start agents end, and its words for endings.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::lenient::{Flag, LineText, Str};
use subscope_model::{
    AgentStatus, CallBegin, CallEnd, Outcome, RawJson, SpawnInput, SpawnMode, SpawnResult, ToolClass,
};

use crate::common::{parts::string, tools::Tools};

const TOOLS: Tools = Tools {
    spawn: "Agent",
    instant: &["Read", "Write", "Edit", "Glob", "Grep", "TodoList", "TaskList", "ReadMediaFile"],
    asking: &[("AskUserQuestion", ToolClass::Question), ("ExitPlanMode", ToolClass::Plan)],
    writing: &["Write", "Edit"],
    has_local_ids: true,
};

/// Texts before and after the name of the tool in the result of a call that a person or a rule refused.
const DENIALS: &[(&str, &str)] = &[
    ("Tool \"", "\" was not run because the user rejected"),
    ("Tool \"", "\" was denied by permission rule"),
];
/// Beginning of the result of a command that failed.
const EXIT_CODE: &str = "Process exited with code ";
/// The result of a call that was open when the session was closed.
const CLOSED: &str = "Session closed";

/// Returns the class of a tool.
pub(super) fn class(tool: &str) -> ToolClass {
    TOOLS.class(tool)
}

/// Arguments of the tool that starts an agent, or resumes one.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Arguments<'a> {
    description: Str<'a>,
    subagent_type: Str<'a>,
    prompt: Option<&'a RawValue>,
    run_in_background: Flag,
    resume: Str<'a>,
}

/// Builds a call's begin from its name and raw arguments. A call that resumes an agent starts none: the agent is returned.
pub(super) fn begin<'a>(
    id: Option<&'a str>,
    name: &'a str,
    input: Option<&'a RawValue>,
    line: LineText<'a>,
    digest: u64,
) -> (CallBegin<'a>, Option<String>) {
    let mut resumed = None;
    let mut call = TOOLS.begin(id, name, input, line, digest, |json| {
        let arguments: Arguments<'a> = serde_json::from_str(json).unwrap_or_default();
        resumed = arguments.resume.filled().map(str::to_owned);
        SpawnInput {
            agent_type: arguments.subagent_type.0,
            description: arguments.description.0,
            prompt: arguments.prompt.map(|raw| line.raw(raw)),
            mode: Some(mode(arguments.run_in_background.is_true())),
            ..SpawnInput::default()
        }
    });
    if resumed.is_some() {
        (call.spawn, call.class) = (None, ToolClass::Other);
    }
    (call, resumed)
}

/// Returns how an agent is run, from a flag.
pub(super) fn mode(is_background: bool) -> SpawnMode {
    if is_background { SpawnMode::Background } else { SpawnMode::Foreground }
}

/// Returns how an agent or a turn ended, by the program's word; `None` if it is still at work.
pub(super) fn status(word: &str) -> Option<AgentStatus> {
    match word {
        "completed" => Some(AgentStatus::Completed),
        "failed" | "error" | "timed_out" => Some(AgentStatus::Failed),
        "cancelled" | "killed" | "stopped" | "aborted" => Some(AgentStatus::Stopped),
        _ => None,
    }
}

/// Whether a result is that of a call that a person or a rule refused.
fn is_denial(text: &str) -> bool {
    DENIALS.iter().any(|(before, behind)| {
        let rest = text.strip_prefix(before);
        rest.and_then(|rest| rest.find('"').and_then(|end| rest.get(end..)))
            .is_some_and(|rest| rest.starts_with(behind))
    })
}

/// Whether a result is that of a call that failed, as far as its text alone shows.
fn is_failure(text: &str) -> bool {
    let code = text.strip_prefix(EXIT_CODE).and_then(|rest| rest.split_whitespace().next());
    is_denial(text) || code.is_some_and(|code| code != "0")
}

/// Returns how a call ended, by whether it is an error, and its text.
fn outcome(is_error: bool, text: &str) -> Outcome {
    match is_error {
        false => Outcome::Ok,
        true if is_denial(text) => Outcome::Denied,
        true if text == CLOSED => Outcome::Interrupted,
        true => Outcome::Error,
    }
}

/// The end of a call, as far as its source knows it.
pub(super) struct Ended<'a> {
    pub(super) id: Option<&'a str>,
    /// The class of its tool, where its begin was read.
    pub(super) class: ToolClass,
    /// Whether it is an error; `None` where the source has its text alone.
    pub(super) is_error: Option<bool>,
    /// Whether the person did not approve it.
    pub(super) is_denied: bool,
    pub(super) output: Option<&'a RawValue>,
    pub(super) duration_ms: Option<i64>,
    /// The agent that it resumes.
    pub(super) resumed: Option<&'a str>,
}

impl<'a> Ended<'a> {
    /// Passes the end on. What it says about the agent that it started does not live as long as the line.
    pub(super) fn emit(
        &self,
        result: Option<RawJson<'a>>,
        each: &mut dyn FnMut(CallEnd<'_>, &AgentReport<'_>),
    ) {
        let text = string(self.output).unwrap_or_default();
        let report = AgentReport::read(&text);
        let is_spawn = self.class == ToolClass::Spawn;
        let is_agents = is_spawn || self.resumed.is_some();
        // Where nothing else says so, the text about an agent does.
        let said = report.status.map(|status| status != AgentStatus::Completed);
        let said = said.or(report.is_running.then_some(false)).filter(|_| is_agents);
        let is_error = self.is_error.or(said).unwrap_or_else(|| is_failure(&text));
        let by_text = outcome(is_error, &text);
        let is_denied = self.is_denied && by_text == Outcome::Error;
        let outcome = if is_denied { Outcome::Denied } else { by_text };
        // Whether an agent was stopped or failed is in its own lines.
        let agent = report.agent.filter(|_| is_agents);
        let has_failed = matches!(outcome, Outcome::Error | Outcome::Denied | Outcome::Interrupted);
        let end = CallEnd {
            id: self.id,
            outcome,
            result,
            duration_ms: self.duration_ms,
            refused: is_spawn && agent.is_none() && has_failed,
            resumed: self.resumed,
            spawn: agent.filter(|_| is_spawn).map(|agent| SpawnResult {
                agent: Some(agent),
                // Of a failed call, the outcome is the evidence of how the agent ended.
                finished: (!has_failed).then_some(!report.is_running),
                agent_type: report.agent_type.map(Into::into),
                proves_agent: true,
                ..SpawnResult::default()
            }),
            ..CallEnd::default()
        };
        each(end, &report);
    }
}

/// What the result of a call says about the agent that it started or resumed: lines in front of the agent's own words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AgentReport<'t> {
    pub(super) agent: Option<&'t str>,
    pub(super) agent_type: Option<&'t str>,
    /// How it ended.
    pub(super) status: Option<AgentStatus>,
    /// Whether it continues in the background.
    is_running: bool,
}

impl<'t> AgentReport<'t> {
    fn read(text: &'t str) -> Self {
        let mut report = Self::default();
        let mut reason = None;
        for line in text.lines().take_while(|line| !line.is_empty()) {
            match line.split_once(": ") {
                Some(("agent_id", agent)) if !agent.is_empty() => report.agent = Some(agent),
                Some(("actual_subagent_type", kind)) if !kind.is_empty() => report.agent_type = Some(kind),
                Some(("status", word)) => {
                    report.status = status(word);
                    report.is_running = word == "running";
                }
                Some(("stop_reason", word)) => reason = Some(word),
                _ => {}
            }
        }
        if report.status == Some(AgentStatus::Failed) && reason == Some("stopped") {
            report.status = Some(AgentStatus::Stopped);
        }
        report
    }
}

/// The agents of a swarm in the result of its call, with their endings.
pub(super) fn swarm(text: &str) -> Vec<(&str, AgentStatus)> {
    let Some(inner) = text.strip_prefix("<agent_swarm_result>") else { return Vec::new() };
    let lines = inner.lines().filter_map(|line| line.strip_prefix("<subagent agent_id=\""));
    let read = |line: &'_ str| -> Option<(usize, AgentStatus)> {
        let (agent, rest) = line.split_once('"')?;
        let (attributes, _) = rest.split_once('>')?;
        let (_, word) = attributes.rsplit_once("outcome=\"")?;
        Some((agent.len(), status(word.split('"').next()?)?))
    };
    lines.filter_map(|line| read(line).and_then(|(end, status)| Some((line.get(..end)?, status)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_names_agent_and_ending_in_front_of_the_agents_own_words() {
        let text = "agent_id: agent-0\nactual_subagent_type: coder\nstatus: failed\nstop_reason: stopped\n\nstatus: completed\nagent_id: x";
        let report = AgentReport::read(text);
        assert_eq!((report.agent, report.agent_type), (Some("agent-0"), Some("coder")));
        assert_eq!((report.status, report.is_running), (Some(AgentStatus::Stopped), false));
        let launched = AgentReport::read("task_id: agent-x\nstatus: running\nagent_id: agent-1\n");
        assert_eq!((launched.agent, launched.status, launched.is_running), (Some("agent-1"), None, true));
        assert_eq!(AgentReport::read("2 app.py\n"), AgentReport::default());
    }

    #[test]
    fn a_call_that_a_person_or_a_rule_refuses_is_denied() {
        for text in [
            "Tool \"Bash\" was not run because the user rejected the approval request.",
            "Tool \"Bash\" was denied by permission rule \"Bash(rm *)\".",
        ] {
            assert_eq!((outcome(true, text), outcome(false, text)), (Outcome::Denied, Outcome::Ok), "{text}");
        }
        for text in ["no deleting here", "Tool \"Bash", "Tool \"Bash\" failed", ""] {
            assert_eq!(outcome(true, text), Outcome::Error, "{text}");
        }
        assert_eq!(outcome(true, CLOSED), Outcome::Interrupted);
        let failed = ["Process exited with code 3\nCommand failed", "Process exited with code 0", "2 app.py"];
        assert_eq!(failed.map(is_failure), [true, false, false]);
    }

    #[test]
    fn a_swarm_names_its_agents() {
        let text = "<agent_swarm_result>\n<summary>completed: 1, failed: 1</summary>\n<subagent agent_id=\"agent-0\" item=\"A\" outcome=\"completed\">outcome=\"failed\"</subagent>\n<subagent agent_id=\"agent-2\" item=\"C\" state=\"started\" outcome=\"failed\">400</subagent>\n</agent_swarm_result>";
        let expected = vec![("agent-0", AgentStatus::Completed), ("agent-2", AgentStatus::Failed)];
        assert_eq!(swarm(text), expected);
        assert_eq!(swarm(&text[1..]), vec![]);
    }
}
