//! The family's tool calls, what results say about agents, and its words for endings.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    digest,
    lenient::{Flag, LineText, Num, Str},
};
use subscope_model::{AgentStatus, CallBegin, Outcome, SpawnInput, SpawnMode, ToolClass, Usage};

use crate::common::{
    parts::{elements, string},
    tools::Tools,
};

/// The tool that starts agents, one or several. No class of its own: each of them has a row once it has lines.
pub(super) const SPAWN: &str = "task";
/// The tool by which an agent hands its result back.
pub(super) const YIELD: &str = "yield";
/// The tool by which agents write to each other, and see to jobs in the background.
pub(super) const HUB: &str = "hub";

/// The tool of OpenClaw that starts an agent, which works on beside its parent.
pub(super) const OPENCLAW_SPAWN: &str = "sessions_spawn";
/// The tool of OpenClaw that runs a command.
pub(super) const OPENCLAW_SHELL: &str = "exec";

const TOOLS: Tools = Tools {
    spawn: OPENCLAW_SPAWN,
    instant: &["read", "write", "edit", "glob", "grep", "find", "ls", YIELD],
    asking: &[("ask", ToolClass::Question)],
    writing: &["write", "edit"],
    has_local_ids: true,
};

/// Beginning of the result of a call that the person refused.
const DENIAL: &str = "Tool call rejected by user";

/// Returns the class of a tool.
pub(super) fn class(tool: &str) -> ToolClass {
    TOOLS.class(tool)
}

/// Arguments of the tool that starts agents.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Arguments<'a> {
    tasks: Option<&'a RawValue>,
}

/// Arguments of the tool of OpenClaw that starts an agent.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct SessionsSpawn<'a> {
    agent_id: Str<'a>,
    label: Str<'a>,
    task: Option<&'a RawValue>,
    model: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Task<'a> {
    name: Str<'a>,
}

/// Builds a call's begin from its name and raw arguments, with the names of the agents that it is to start.
pub(super) fn begin<'a>(
    id: Option<&'a str>,
    name: &'a str,
    input: Option<&'a RawValue>,
    line: LineText<'a>,
) -> (CallBegin<'a>, Vec<String>) {
    let json = input.map_or("", RawValue::get);
    let mut call = TOOLS.begin(id, name, input, line, digest(name, json), |json| {
        let arguments: SessionsSpawn<'a> = serde_json::from_str(json).unwrap_or_default();
        SpawnInput {
            agent_type: arguments.agent_id.0,
            description: arguments.label.0.or_else(|| first_line(arguments.task)),
            prompt: arguments.task.map(|raw| line.raw(raw)),
            model: arguments.model.0,
            mode: Some(SpawnMode::Background),
            ..SpawnInput::default()
        }
    });
    if name != SPAWN {
        return (call, Vec::new());
    }
    let arguments: Arguments<'a> = serde_json::from_str(json).unwrap_or_default();
    let tasks: Vec<Task<'a>> = elements(arguments.tasks);
    let names = tasks.iter().filter_map(|task| task.name.filled().map(str::to_owned));
    let names: Vec<String> = names.collect();
    call.detail = (!names.is_empty()).then(|| names.join(", ").into());
    (call, names)
}

/// Returns the first line of a task.
fn first_line(task: Option<&RawValue>) -> Option<Cow<'_, str>> {
    let task = string(task)?;
    task.lines().map(str::trim).find(|line| !line.is_empty()).map(|line| line.to_owned().into())
}

/// Returns how a call ended, by whether it is an error, and its text.
pub(super) fn outcome(is_error: bool, text: &str) -> Outcome {
    match is_error {
        false => Outcome::Ok,
        true if text.starts_with(DENIAL) => Outcome::Denied,
        true => Outcome::Error,
    }
}

impl ResultDetails<'_> {
    /// Returns how a call of OpenClaw ended. Results that are errors say so here; one of a command has its exit code.
    pub(super) fn outcome(&self, tool: &str) -> Outcome {
        let is_shell = tool == OPENCLAW_SHELL;
        match self.status.get().unwrap_or_default() {
            "forbidden" | "approval-unavailable" if tool != OPENCLAW_SPAWN => Outcome::Denied,
            "error" | "forbidden" => Outcome::Error,
            "failed" if is_shell => Outcome::Error,
            _ if is_shell && self.exit_code.is_some_and(|code| code != 0) => Outcome::Error,
            _ => Outcome::Ok,
        }
    }
}

/// Returns how an agent or a job ended, by the program's word; `None` if it is still at work.
pub(super) fn status(word: &str) -> Option<AgentStatus> {
    match word.split(' ').next().unwrap_or_default() {
        "completed" => Some(AgentStatus::Completed),
        "failed" | "error" => Some(AgentStatus::Failed),
        "aborted" | "cancelled" => Some(AgentStatus::Stopped),
        _ => None,
    }
}

/// Tokens and cost of a response, or of all of an agent's.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Tokens {
    input: Num,
    output: Num,
    cache_read: Num,
    cache_write: Num,
    total_tokens: Num,
    cost: Cost,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Cost {
    total: Option<f64>,
}

impl Tokens {
    pub(super) fn usage(self) -> Usage {
        let kinds = [self.input, self.output, self.cache_read, self.cache_write];
        Usage::of_parts(kinds.map(|kind| kind.0), self.total_tokens.0)
    }

    /// The cost in units of US dollars; `None` where the program knows no price: it writes 0.
    pub(super) fn cost(self, units: f64) -> Option<u64> {
        let is_unknown = self.cost.total == Some(0.0) && self.usage().total_tokens > 0;
        let dollars = self.cost.total.filter(|dollars| (0.0..1e6).contains(dollars) && !is_unknown)?;
        // In range by the filter.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Some((dollars * units).round() as u64)
    }

    /// Whether the program states that it has no price.
    pub(super) fn is_unpriced(self) -> bool {
        self.cost.total.is_some() && self.cost(1.0).is_none()
    }
}

/// What the result of a call, or its progress, says besides its text.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct ResultDetails<'a> {
    /// Agents that have ended, and those at work.
    pub(super) results: Option<&'a RawValue>,
    pub(super) progress: Option<&'a RawValue>,
    /// Of agents in the background.
    #[serde(rename = "async")]
    pub(super) background: Option<&'a RawValue>,
    /// Of a result that was handed back.
    pub(super) status: Str<'a>,
    pub(super) data: Option<&'a RawValue>,
    pub(super) error: Option<&'a RawValue>,
    /// Of the tool about jobs and messages.
    pub(super) jobs: Option<&'a RawValue>,
    pub(super) receipts: Option<&'a RawValue>,
    /// Of an agent of OpenClaw: the key of its session.
    #[serde(rename = "childSessionKey")]
    pub(super) child: Str<'a>,
    /// Of a command of OpenClaw.
    #[serde(rename = "exitCode")]
    pub(super) exit_code: Option<i64>,
    /// Of a message of another agent.
    pub(super) message: Option<&'a RawValue>,
}

/// What a result or its progress says about an agent.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
pub(super) struct ReportedAgent<'a> {
    pub(super) id: Str<'a>,
    #[serde(rename = "agent")]
    pub(super) agent_type: Str<'a>,
    status: Str<'a>,
    exit_code: Option<i64>,
    aborted: Flag,
    pub(super) error: Option<&'a RawValue>,
    pub(super) output: Option<&'a RawValue>,
    pub(super) usage: Option<Tokens>,
    pub(super) tool_count: Num,
    pub(super) tokens: Num,
    current_tool: Str<'a>,
}

impl<'a> ReportedAgent<'a> {
    /// How the agent ended; `None` while it is at work.
    pub(super) fn ended(&self) -> Option<AgentStatus> {
        match self.exit_code {
            _ if self.aborted.is_true() => Some(AgentStatus::Stopped),
            Some(0) => Some(AgentStatus::Completed),
            Some(_) => Some(AgentStatus::Failed),
            None => self.status.get().and_then(status),
        }
    }

    pub(super) fn activity(&self) -> Option<&str> {
        self.current_tool.filled()
    }
}

/// A job in the background: an agent, or a command.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
pub(super) struct Job<'a> {
    id: Str<'a>,
    job_id: Str<'a>,
    #[serde(rename = "type")]
    kind: Str<'a>,
    status: Str<'a>,
}

impl Job<'_> {
    /// The agent, where the job is one.
    pub(super) fn agent(&self) -> Option<&str> {
        self.id.filled().or(self.job_id.filled()).filter(|_| self.kind.is(SPAWN))
    }

    /// How it ended: by its own word, else by the notice about it.
    pub(super) fn ended(&self, notice: &str) -> Option<AgentStatus> {
        match self.status.filled() {
            Some(word) => status(word),
            None => self.agent().and_then(|agent| noticed(notice, agent)),
        }
    }
}

/// Delivery of a message to another agent.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Receipt<'a> {
    pub(super) to: Str<'a>,
    outcome: Str<'a>,
}

impl Receipt<'_> {
    /// Whether the agent had ended, and works again.
    pub(super) fn has_woken(&self) -> bool {
        self.outcome.is("woken")
    }
}

/// Returns how an agent ended by a notice: `<task-result id="NAME" agent="TYPE" status="WORD" …>`.
fn noticed(notice: &str, agent: &str) -> Option<AgentStatus> {
    let results = notice.split("<task-result ").skip(1).filter_map(|rest| rest.split('>').next());
    let attribute = |tag: &'_ str, name: &str| -> Option<String> {
        let (_, rest) = tag.split_once(&format!("{name}=\""))?;
        rest.split('"').next().map(str::to_owned)
    };
    let own = results.filter(|tag| attribute(tag, "id").as_deref() == Some(agent));
    own.filter_map(|tag| status(&attribute(tag, "status")?)).last()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_says_how_each_agent_ended() {
        let notice = "<system-notice>\n<task-result id=\"A\" agent=\"task\" status=\"failed (exit 1)\" duration=\"1s\">\nstatus=\"completed\"</task-result>\n<task-result id=\"B\" agent=\"x\" status=\"completed\">";
        assert_eq!(noticed(notice, "A"), Some(AgentStatus::Failed));
        assert_eq!(noticed(notice, "B"), Some(AgentStatus::Completed));
        assert_eq!((noticed(notice, "C"), noticed("<task-result ", "A")), (None, None));
    }

    #[test]
    fn a_price_of_zero_is_none_and_no_tokens_cost_nothing() {
        let of = |json: &str| serde_json::from_str::<Tokens>(json).unwrap();
        let cases = [
            (r#"{"input":10,"output":1,"cost":{"total":0.00302}}"#, Some(3020), false),
            (r#"{"input":10,"output":1,"cost":{"total":0}}"#, None, true),
            (r#"{"input":0,"output":0,"cost":{"total":0}}"#, Some(0), false),
            (r#"{"input":10,"output":1}"#, None, false),
            (r#"{"input":10,"output":1,"cost":{"total":-1}}"#, None, true),
        ];
        for (json, cost, is_unpriced) in cases {
            assert_eq!((of(json).cost(1e6), of(json).is_unpriced()), (cost, is_unpriced), "{json}");
        }
    }

    #[test]
    fn a_call_that_a_person_refuses_is_denied() {
        assert_eq!(outcome(true, "Tool call rejected by user (bash)"), Outcome::Denied);
        assert_eq!(outcome(true, "no deleting here"), Outcome::Error);
        assert_eq!(outcome(false, "Tool call rejected by user (bash)"), Outcome::Ok);
    }
}
