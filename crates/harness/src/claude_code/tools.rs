//! Tool calls and their results: short descriptions of arguments, and the agents that a result names.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, value::MapAccessDeserializer},
};
use serde_json::value::RawValue;
use subscope_decode::{
    ToolArguments,
    lenient::{self, Flag, Lenient, LineText, Num, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, CallBegin, CallEnd, EndEvidence, Fact, Outcome, RawJson, SpawnInput, SpawnMode,
    SpawnResult, SpawnTotals, ToolClass,
};

use super::content::Tokens;
use crate::common::tools::class_of;

/// Tools that start a subagent, in any case.
const SPAWN_TOOLS: &[&str] = &["task", "agent"];
/// Tools that end at once unless the user must allow them.
const INSTANT_TOOLS: &[&str] = &[
    "Read",
    "Edit",
    "MultiEdit",
    "Write",
    "NotebookEdit",
    "Glob",
    "Grep",
    "LS",
    "TodoWrite",
    "TaskCreate",
    "TaskUpdate",
    "TaskList",
    "TaskGet",
];
/// Tools that ask the person. `exit_plan_mode` is in versions up to 1.0.
const ASKING_TOOLS: &[(&str, ToolClass)] = &[
    ("AskUserQuestion", ToolClass::Question),
    ("ExitPlanMode", ToolClass::Plan),
    ("exit_plan_mode", ToolClass::Plan),
];
/// How the names of tools of MCP servers begin: one of them may be an agent (`subscope mcp agent`).
const MCP_PREFIX: &str = "mcp__";
/// Tools that write the file named by their arguments.
const WRITING_TOOLS: &[&str] = &["Write", "Edit", "MultiEdit", "NotebookEdit"];

/// Returns the class of a tool.
pub(super) fn class(tool: &str) -> ToolClass {
    if SPAWN_TOOLS.iter().any(|name| name.eq_ignore_ascii_case(tool)) {
        ToolClass::Spawn
    } else {
        class_of(tool, INSTANT_TOOLS, ASKING_TOOLS)
    }
}

/// Arguments of a spawn tool.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct SpawnArguments<'a> {
    description: Str<'a>,
    subagent_type: Str<'a>,
    name: Str<'a>,
    model: Str<'a>,
    prompt: Option<&'a RawValue>,
    run_in_background: Flag,
}

/// Builds a call's begin from its name and raw arguments.
pub(super) fn begin<'a>(
    id: Option<&'a str>,
    name: &'a str,
    input: Option<&'a RawValue>,
    line: LineText<'a>,
    digest: u64,
    default_mode: Option<SpawnMode>,
) -> CallBegin<'a> {
    let class = class(name);
    let mut call =
        CallBegin { id, name, class, input: input.map(|raw| line.raw(raw)), digest, ..CallBegin::default() };
    let Some(json) = input.map(RawValue::get) else { return call };
    if class == ToolClass::Spawn {
        if let Ok(arguments) = serde_json::from_str::<SpawnArguments<'a>>(json) {
            call.detail = arguments.description.0.clone();
            call.spawn = Some(SpawnInput {
                agent_type: arguments.subagent_type.0,
                description: arguments.description.0,
                name: arguments.name.0,
                prompt: arguments.prompt.map(|raw| line.raw(raw)),
                model: arguments.model.0,
                mode: arguments.run_in_background.0.map(mode).or(default_mode),
            });
        }
        return call;
    }
    let arguments = ToolArguments::parse(json);
    if WRITING_TOOLS.contains(&name) {
        call.writes = arguments.file().cloned().into_iter().collect();
    }
    if name.starts_with(MCP_PREFIX) {
        call.starts_run = arguments.run_id().cloned();
    }
    call.detail = arguments.detail();
    call
}

/// Returns the mode of a spawn call without a `background` argument: foreground up to 2.1.197 (1.0.x names no version
/// on its stream), unknown after that. Observed: the tool's own description, 1.0.128 to 2.1.330.
pub(super) fn default_mode(version: &str) -> Option<SpawnMode> {
    (version.is_empty() || parts(version) <= [2, 1, 197]).then_some(SpawnMode::Foreground)
}

/// Whether the stream of this version reports each agent's start immediately (`task_started`, from 2.1.64).
pub(super) fn tells_starts(version: &str) -> bool {
    parts(version) >= [2, 1, 64]
}

/// The numbers of a version.
pub(super) fn parts(version: &str) -> [u32; 3] {
    let mut numbers = version.split(['.', '-', ' ']).map(|part| part.parse().unwrap_or(0));
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}

/// How an agent is run, from a `background` flag.
pub(super) fn mode(background: bool) -> SpawnMode {
    if background { SpawnMode::Background } else { SpawnMode::Foreground }
}

/// `toolUseResult` (transcript), `tool_use_result` (stream), `tool_response` (hook): the harness's own record of a
/// result. Only fields about agents are read.
#[derive(Debug, Default)]
pub(super) struct HarnessResult<'a> {
    /// The whole, where it is a string.
    pub(super) text: Option<Cow<'a, str>>,
    fields: ResultFields<'a>,
    is_object: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct ResultFields<'a> {
    status: Str<'a>,
    agent_id: Str<'a>,
    #[serde(rename = "agent_id")]
    teammate_id: Str<'a>,
    agent_type: Str<'a>,
    description: Str<'a>,
    resolved_model: Str<'a>,
    prompt: Option<&'a RawValue>,
    content: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    command_name: Str<'a>,
    resumed_agent_id: Str<'a>,
    run_id: Str<'a>,
    #[serde(rename = "task_id")]
    task_id: Str<'a>,
    background_task_id: Str<'a>,
    message: Str<'a>,
    success: Flag,
    #[serde(rename = "team_name")]
    team_name: Str<'a>,
    total_tool_use_count: Num,
    usage: Option<&'a RawValue>,
    was_interrupted: Flag,
    task: Option<&'a RawValue>,
    agents: Option<&'a RawValue>,
}

/// What a call has fetched of a task in the background: `task` of `TaskOutput`; up to 2.0.6x `agents` of `AgentOutputTool`, as a
/// list or by id.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct FetchedTask<'a> {
    #[serde(alias = "agentId", alias = "agent_id")]
    task_id: Str<'a>,
    task_type: Str<'a>,
    status: Str<'a>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

impl<'de: 'a, 'a> Deserialize<'de> for HarnessResult<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        lenient::deserialize(deserializer)
    }
}

impl<'de: 'a, 'a> Lenient<'de> for HarnessResult<'a> {
    fn from_text(text: &'de str) -> Self {
        Self { text: Some(Cow::Borrowed(text)), ..Self::default() }
    }

    fn from_unescaped(text: &str) -> Self {
        Self { text: Some(Cow::Owned(text.to_owned())), ..Self::default() }
    }

    fn from_map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        let fields = ResultFields::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Self { text: None, fields, is_object: true })
    }
}

impl<'a> HarnessResult<'a> {
    /// The agent that the call stopped, by its result (TaskStop).
    /// Observed: Claude Code 2.1.330, fixture `e-taskstop`: `{"message":"Successfully stopped task: …","task_id":…}`.
    fn stopped(&self) -> Option<&str> {
        let done = self.fields.message.get().is_some_and(|text| text.starts_with("Successfully stopped"));
        self.fields.task_id.filled().filter(|_| done)
    }

    /// The agent that the call resumed, by its result (SendMessage).
    fn resumed(&self) -> Option<&str> {
        self.fields.resumed_agent_id.filled()
    }

    /// Returns the ends of agents in the background that the call has fetched.
    pub(super) fn fetched(&self) -> Vec<(Cow<'a, str>, AgentEnd<'a>)> {
        let parse = |raw: &'a RawValue| serde_json::from_str::<FetchedTask<'a>>(raw.get()).ok();
        let named = |(id, raw): (Cow<'a, str>, &'a RawValue)| Some((Some(id), parse(raw)?));
        let mut all: Vec<(Option<Cow<'a, str>>, FetchedTask<'a>)> = Vec::new();
        all.extend(self.fields.task.and_then(parse).map(|task| (None, task)));
        if let Some(agents) = self.fields.agents.map(RawValue::get) {
            if let Ok(list) = serde_json::from_str::<Vec<&'a RawValue>>(agents) {
                all.extend(list.into_iter().filter_map(parse).map(|task| (None, task)));
            } else if let Ok(map) = serde_json::from_str::<BTreeMap<Cow<'a, str>, &'a RawValue>>(agents) {
                all.extend(map.into_iter().filter_map(named));
            }
        }
        let end = |(id, task): (Option<Cow<'a, str>>, FetchedTask<'a>)| {
            let status = match task.status.get()? {
                "completed" => AgentStatus::Completed,
                "failed" => AgentStatus::Failed,
                "killed" | "stopped" => AgentStatus::Stopped,
                _ => return None,
            };
            let is_agent = task.task_type.get().is_none_or(|kind| kind.ends_with("agent"));
            let id = task.task_id.0.or(id).filter(|id| is_agent && !id.is_empty())?;
            let text = |raw: Option<&'a RawValue>| {
                let words = raw.filter(|raw| raw.get().starts_with('"'))?;
                Some(RawJson { json: words.get(), offset: u64::MAX })
            };
            let has_failed = status == AgentStatus::Failed;
            let (report, error) = (text(task.result), text(task.error).filter(|_| has_failed));
            let evidence = EndEvidence::Notification;
            Some((id, AgentEnd { status, evidence, report, error, ..AgentEnd::default() }))
        };
        all.into_iter().filter_map(end).collect()
    }

    /// Whether the call deleted the team (TeamDelete).
    /// Observed: public transcripts of 2.1.42: `{"success":true,"team_name":…}`. The result of TeamCreate has no `success`.
    pub(super) fn has_deleted_team(&self) -> bool {
        self.fields.success.is_true() && self.fields.team_name.filled().is_some()
    }

    /// Whether the call's command continues in the background (Bash).
    fn left_running(&self) -> bool {
        self.fields.background_task_id.filled().is_some()
    }

    /// The workflow run that the call started, by its result.
    /// Observed: Claude Code 2.1.330, fixture `unseen/2.1.330/u16-workflow`: `"runId":"wf_…"`, also the folder's name.
    fn workflow_run(&self) -> Option<&str> {
        self.fields.run_id.filled().filter(|run| run.starts_with("wf_"))
    }

    /// Completes the end of a call with this result.
    pub(super) fn complete<'r>(&'r self, line: LineText<'a>, end: CallEnd<'r>) -> CallEnd<'r> {
        CallEnd {
            spawn: self.spawn(line),
            stopped: self.stopped(),
            resumed: self.resumed(),
            batch_run: self.workflow_run(),
            left_running: self.left_running(),
            ..end
        }
    }

    /// The started agent; `None` if the result names none.
    fn spawn(&self, line: LineText<'a>) -> Option<SpawnResult<'_>> {
        let fields = &self.fields;
        let agent = fields.agent_id.filled().or(fields.teammate_id.filled());
        let status = fields.status.filled();
        let is_forked = status == Some(FORKED);
        // 1.0.x writes neither id nor status, but counts the agent's calls.
        let counted = fields.total_tool_use_count.0.is_some();
        if agent.is_none() && !counted {
            return None;
        }
        let finished = match status {
            Some("completed" | FORKED) => Some(true),
            Some(_) => Some(false),
            None => None,
        };
        Some(SpawnResult {
            agent,
            finished,
            agent_type: fields.agent_type.0.clone(),
            description: fields.description.0.clone().or_else(|| {
                fields.command_name.filled().filter(|_| is_forked).map(|name| format!("/{name}").into())
            }),
            model: fields.resolved_model.0.clone(),
            prompt: fields.prompt.map(|raw| line.raw(raw)),
            totals: fields.total_tool_use_count.0.map(|calls| SpawnTotals {
                tool_calls: u32::try_from(calls).unwrap_or(u32::MAX),
                last_request: fields
                    .usage
                    .and_then(|raw| serde_json::from_str::<Tokens>(raw.get()).ok())
                    .map(|tokens| tokens.usage().kinds()),
                duration_ms: None,
            }),
            report: fields.content.or(fields.result.filter(|_| is_forked)).map(|raw| line.raw(raw)),
            proves_agent: self.is_object,
            is_forked,
            is_teammate: status == Some(TEAMMATE),
        })
    }
}

/// Why a request failed, in short.
pub(super) fn api_error(category: Option<&str>, status: Option<u64>) -> String {
    match (category, status) {
        (Some(category), Some(status)) => format!("{category} {status}"),
        (Some(category), None) => category.to_owned(),
        (None, Some(status)) => format!("HTTP {status}"),
        (None, None) => "error".to_owned(),
    }
}

/// An API retry after a delay, by the named agent or by the line's actor.
pub(super) fn retry(agent: Option<&str>, attempt: Num, limit: Num, delay_ms: Num, error: String) -> Fact<'_> {
    let number = |field: Num| field.0.and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
    let (attempt, limit) = (number(attempt).max(1), number(limit));
    Fact::Retry { agent, attempt, limit, delay_ms: delay_ms.0, error: error.into() }
}

/// The word for a skill that ran as an agent of its own. Observed: Claude Code 2.1.197 and 2.1.330, fixture
/// `unseen/2.1.330/v17-skilltool`: `{"status":"forked","agentId":…}`.
const FORKED: &str = "forked";
/// The word for a teammate that was started. Observed: public transcripts of 2.1.34 and 2.1.42.
const TEAMMATE: &str = "teammate_spawned";
/// The text in place of a result when the user interrupted or rejected a call.
const REJECTED: &str = "User rejected tool use";
/// What an interrupt puts into a conversation.
pub(super) const INTERRUPTED: &str = "[Request interrupted";

/// First version whose transcripts say how a call was denied (`toolDenialKind`). Before it, a call of which the result is
/// [`REJECTED`] was refused at a prompt: what an interrupt ends says [`INTERRUPTED`].
const TELLS_DENIALS: [u32; 3] = [2, 1, 220];

/// Returns the word for a denial in a transcript: the harness's own, else one for a rejection by a version without such words.
pub(super) fn denial_of<'a>(
    told: Option<&'a str>,
    version: Option<&str>,
    result: Option<&HarnessResult<'_>>,
) -> Option<&'a str> {
    let is_rejected = result.is_some_and(|result| result.text.as_deref() == Some(REJECTED));
    let is_before = version.is_some_and(|version| parts(version) < TELLS_DENIALS);
    told.or_else(|| (is_rejected && is_before).then_some("rejected"))
}

/// Whether a result is the harness's own message that a person, a rule or a hook did not allow the call.
/// Observed: Claude Code 1.0.43 to 2.1.330, public transcripts and recordings.
fn is_denial(content: RawJson<'_>) -> bool {
    /// Begin of such a message, and what it has after that.
    const MESSAGES: [(&str, &str); 14] = [
        ("The user doesn't want to proceed with this tool use", ""),
        ("The user doesn't want to take this action right now", ""),
        ("Permission for this tool use was denied", ""),
        ("Permission for this action has been denied", ""),
        ("Permission to use ", "has been denied"),
        ("Permission to use ", "has been auto-denied"),
        ("File is in a directory that is denied by your permission settings", ""),
        ("Claude requested permissions to ", "which is a sensitive file"),
        ("This Bash command contains multiple operations", "requires approval"),
        ("The agent proposed a plan that was rejected by the user", ""),
        ("Claude requested permissions to ", "you haven't granted it yet"),
        ("This command requires approval", ""),
        ("PreToolUse:", " hook error"),
        ("Execution stopped by PreToolUse hook", ""),
    ];
    /// Messages that begin with a name.
    const WITHIN: [&str; 3] = [
        " needs approval. The path is outside",
        "was blocked. For security, Claude Code",
        "has been denied by permission rule",
    ];
    let text = content.text();
    let head: String = text.trim_start_matches("<tool_use_error>").chars().take(400).collect();
    MESSAGES.iter().any(|(begin, behind)| head.starts_with(begin) && head.contains(behind))
        || WITHIN.iter().any(|part| head.contains(part)) && !head.starts_with("Exit code")
}

/// How a call ended (design, section 3): by `is_error`, the harness's own word for a denial, and its own result.
pub(super) fn outcome(
    is_error: bool,
    denial: Option<&str>,
    result: Option<&HarnessResult<'_>>,
    content: Option<RawJson<'_>>,
) -> Outcome {
    let text = result.and_then(|result| result.text.as_deref());
    let rejected = text == Some(REJECTED);
    match denial {
        Some("user-rejected") if rejected => Outcome::Interrupted,
        // Written for a call whose process died, when its session is resumed (2.1.330).
        Some("interrupted") => Outcome::Interrupted,
        Some(_) => Outcome::Denied,
        // Up to 1.0 the result of a call that a person has interrupted is no error.
        None if result.is_some_and(|result| result.fields.was_interrupted.is_true()) => Outcome::Interrupted,
        None if !is_error => Outcome::Ok,
        None if rejected || text.is_some_and(|text| text.contains(INTERRUPTED)) => Outcome::Interrupted,
        None if content.is_some_and(|raw| starts(raw, INTERRUPTED)) => Outcome::Interrupted,
        None if content.is_some_and(is_denial) => Outcome::Denied,
        None => Outcome::Error,
    }
}

/// Whether the harness reports that it started no agent for a spawn call.
/// Observed: Claude Code 1.0.128 to 2.1.330 (`Agent type 'x' not found`, `Concurrent subagent limit reached`,
/// `Agent is not available inside subagents`, `No such tool available`, `InputValidationError`).
pub(super) fn refused(content: Option<RawJson<'_>>) -> bool {
    const MARKS: [&str; 8] = [
        "Agent type '",
        "Concurrent subagent limit",
        "is not available inside subagents",
        "No such tool available",
        "InputValidationError",
        "<tool_use_error>",
        "nesting depth",
        "has been denied",
    ];
    let Some(raw) = content else { return false };
    let text = raw.text();
    let head: String = text.chars().take(300).collect();
    MARKS.iter().any(|mark| head.contains(mark)) && !head.contains("terminated early")
}

/// Whether a raw value's text starts with the given words.
pub(super) fn starts(raw: RawJson<'_>, words: &str) -> bool {
    match raw.json.as_bytes().first() {
        Some(b'"') => raw.json.get(1..).is_some_and(|inner| inner.starts_with(words)),
        _ => raw.text().starts_with(words),
    }
}

#[cfg(test)]
mod tests {
    use subscope_model::SourcePosition;

    use super::*;

    #[test]
    fn detail_is_short_by_kind_of_tool() {
        let detail = |name, json: &str| {
            let raw: &RawValue = serde_json::from_str(json).unwrap();
            let line = LineText { place: SourcePosition::default(), text: json, is_exact: true };
            begin(None, name, Some(raw), line, 0, None).detail.map(Cow::into_owned)
        };
        assert_eq!(detail("Read", r#"{"file_path":"/a/b/server.js"}"#).as_deref(), Some("server.js"));
        assert_eq!(detail("Grep", r#"{"pattern":"fn main","path":"/a"}"#).as_deref(), Some("fn main"));
        let long = "x".repeat(50);
        assert_eq!(
            detail("Bash", &format!(r#"{{"command":"{long}"}}"#)),
            Some(format!("{}…", "x".repeat(40)))
        );
        assert_eq!(detail("Agent", r#"{"description":"Map it","prompt":"p"}"#).as_deref(), Some("Map it"));
        assert_eq!(detail("Bash", r#"{"command":7}"#), None);
    }

    #[test]
    fn class_of_spawn_tools_in_any_case() {
        for name in ["Task", "Agent", "AGENT", "task"] {
            assert_eq!(class(name), ToolClass::Spawn, "{name}");
        }
        assert_eq!(class("Read"), ToolClass::Instant);
        assert_eq!(class("Bash"), ToolClass::Other);
        assert_eq!(class(""), ToolClass::Other);
    }

    #[test]
    fn default_mode_depends_on_the_version() {
        for version in ["", "1.0.128", "2.0.76", "2.1.197"] {
            assert_eq!(default_mode(version), Some(SpawnMode::Foreground), "{version}");
        }
        assert_eq!(default_mode("2.1.330"), None);
        assert!(tells_starts("2.1.64") && !tells_starts("2.1.50") && !tells_starts(""));
    }

    #[test]
    fn outcome_of_rejections_follows_the_harness_words() {
        let result =
            |text: &str| HarnessResult { text: Some(text.to_owned().into()), ..HarnessResult::default() };
        assert_eq!(outcome(true, Some("user-rejected"), Some(&result(REJECTED)), None), Outcome::Interrupted);
        assert_eq!(outcome(true, Some("user-rejected"), Some(&result("Error: no")), None), Outcome::Denied);
        assert_eq!(outcome(true, Some("hook"), None, None), Outcome::Denied);
        assert_eq!(outcome(true, None, Some(&result("Error: x")), None), Outcome::Error);
        assert_eq!(outcome(false, None, None, None), Outcome::Ok);
        let old = |version| denial_of(None, Some(version), Some(&result(REJECTED)));
        assert_eq!(
            [old("1.0.43"), old("2.1.219"), old("2.1.220")],
            [Some("rejected"), Some("rejected"), None]
        );
        assert_eq!(
            denial_of(None, None, Some(&result(REJECTED))),
            None,
            "a stream is of no person at a prompt"
        );
        assert_eq!(denial_of(None, Some("1.0.43"), Some(&result("Error: x"))), None);
    }

    #[test]
    fn outcome_without_a_word_for_denials_is_by_the_harness_message() {
        let ended = |text: &str| {
            let json = serde_json::Value::from(text).to_string();
            outcome(true, None, None, Some(RawJson { json: &json, offset: 0 }))
        };
        for denied in [
            "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, …). To tell you how to proceed, the user said:\nno",
            "Claude requested permissions to use WebSearch, but you haven't granted it yet.",
            "Claude requested permissions to write to /w/a, but you haven't granted it yet.",
            "Permission to use Bash with command rm -rf x has been denied.",
            "<tool_use_error>Agent type 'Explore' has been denied by permission rule 'Agent(Explore)'</tool_use_error>",
            "cd in '/etc' was blocked. For security, Claude Code may only change directories to …",
            "PreToolUse:Bash hook error: [check.sh]: no",
            "Permission to use Bash has been auto-denied (prompts unavailable).",
            "<tool_use_error>File is in a directory that is denied by your permission settings.</tool_use_error>",
            "Claude requested permissions to edit /w/.env which is a sensitive file.",
            "This Bash command contains multiple operations. The following part requires approval: rm x",
            "The agent proposed a plan that was rejected by the user. The user chose to stay in plan mode.",
        ] {
            assert_eq!(ended(denied), Outcome::Denied, "{denied}");
        }
        for failed in [
            "Exit code 1\nThe user doesn't want to proceed with this tool use",
            "Exit code 1\nx was blocked. For security, Claude Code may not",
            "File does not exist.",
            "Permission to use nothing",
        ] {
            assert_eq!(ended(failed), Outcome::Error, "{failed}");
        }
        assert_eq!(ended("[Request interrupted by user for tool use]"), Outcome::Interrupted);
    }
}
