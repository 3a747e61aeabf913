//! OpenCode's tool calls: parts of type `tool`, whose state goes from pending over running to completed or error.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    digest,
    lenient::{Flag, LineText, Num, Str},
};
use subscope_model::{CallBegin, Outcome, SpawnInput, SpawnMode, ToolClass};

use crate::common::tools::Tools;

/// Its tools. The one that starts an agent resumes one, too.
const TOOLS: Tools = Tools {
    spawn: "task",
    instant: &[
        "read",
        "glob",
        "grep",
        "list",
        "edit",
        "write",
        "patch",
        "apply_patch",
        "todowrite",
        "todoread",
    ],
    asking: &[
        ("question", ToolClass::Question),
        ("plan_enter", ToolClass::Plan),
        ("plan_exit", ToolClass::Plan),
    ],
    writing: &["edit", "write"],
    has_local_ids: true,
};
/// Beginning of the error of a call that a rule or the user denied. Versions before 1.18 write `Error: ` before it.
const DENIALS: &[&str] = &[
    "The user has specified a rule which prevents you from using this specific tool call",
    "The user rejected permission to use this specific tool call",
];
/// Beginning of the error of a call that was open when its agent was stopped.
const ABORTED: &str = "Tool execution aborted";
/// Part of the result of a call whose agent continues in the background.
const STILL_RUNNING: &str = "state=\\\"running\\\"";

/// Returns the class of a tool.
pub(super) fn class(tool: &str) -> ToolClass {
    TOOLS.class(tool)
}

/// The state of a call.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct CallState<'a> {
    pub(super) status: Str<'a>,
    pub(super) input: Option<&'a RawValue>,
    pub(super) output: Option<&'a RawValue>,
    pub(super) error: Option<&'a RawValue>,
    pub(super) metadata: Metadata<'a>,
    pub(super) time: Span,
}

/// Start and end of something, in milliseconds since 1970.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Span {
    pub(super) start: Num,
    pub(super) end: Num,
}

/// Metadata that a tool reports about its call.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
pub(super) struct Metadata<'a> {
    /// The session of the agent that the call started.
    pub(super) session_id: Str<'a>,
    /// The session that made the call.
    pub(super) parent_session_id: Str<'a>,
    exit: Num,
    pub(super) model: ModelName<'a>,
}

/// A model.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
pub(super) struct ModelName<'a> {
    #[serde(rename = "modelID")]
    pub(super) model_id: Str<'a>,
}

/// Arguments of the tool that concerns agents.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Arguments<'a> {
    description: Str<'a>,
    subagent_type: Str<'a>,
    prompt: Option<&'a RawValue>,
    background: Flag,
    /// The agent that continues.
    task_id: Str<'a>,
}

impl<'a> CallState<'a> {
    /// Returns the arguments.
    pub(super) fn arguments(&self) -> Arguments<'a> {
        self.input.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }

    /// Whether the call has ended.
    pub(super) fn is_over(&self) -> bool {
        self.status.is("completed") || self.status.is("error")
    }

    /// Returns how the call ended. A command that exits with another code than 0 is completed for the harness; the code
    /// is a field.
    pub(super) fn outcome(&self) -> Outcome {
        if self.status.is("completed") {
            return if self.metadata.exit.0.is_some_and(|code| code != 0) {
                Outcome::Error
            } else {
                Outcome::Ok
            };
        }
        let error: Str<'_> =
            self.error.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let error = error.get().unwrap_or_default();
        let error = error.strip_prefix("Error: ").unwrap_or(error);
        if DENIALS.iter().any(|denial| error.starts_with(denial)) {
            Outcome::Denied
        } else if error.starts_with(ABORTED) {
            Outcome::Interrupted
        } else {
            Outcome::Error
        }
    }

    /// Whether the agent that the call started continues.
    pub(super) fn left_agent_running(&self) -> bool {
        // The report that follows the tag is the agent's own.
        let tag = self.output.and_then(|raw| raw.get().split('>').next()).unwrap_or_default();
        tag.starts_with("\"<task") && tag.contains(STILL_RUNNING)
    }

    /// Returns the agent that the call resumes. A call that names an unknown agent starts a new one.
    pub(super) fn resumed<'s>(&self, arguments: &'s Arguments<'_>) -> Option<&'s str> {
        let named = arguments.task_id.filled()?;
        self.metadata.session_id.filled().is_none_or(|agent| agent == named).then_some(named)
    }
}

/// Builds a call's begin. Its id is the model provider's own, which may number its calls.
pub(super) fn begin<'a>(
    id: Option<&'a str>,
    name: &'a str,
    state: &CallState<'a>,
    line: LineText<'a>,
) -> CallBegin<'a> {
    let digest = digest_of(name, state.input);
    let arguments = state.arguments();
    let is_resumed = state.resumed(&arguments).is_some();
    let is_linked = state.metadata.session_id.filled().is_some();
    let mut call = TOOLS.begin(id, name, state.input, line, digest, |_| SpawnInput {
        agent_type: arguments.subagent_type.0,
        description: arguments.description.0,
        prompt: arguments.prompt.map(|raw| line.raw(raw)),
        mode: Some(mode(arguments.background)),
        ..SpawnInput::default()
    });
    if is_resumed {
        // A call that resumes an agent starts none.
        call.spawn = None;
        call.class = if is_linked { call.class } else { ToolClass::Other };
    }
    call
}

/// Returns the digest of a call by its tool and arguments.
pub(super) fn digest_of(tool: &str, input: Option<&RawValue>) -> u64 {
    digest(tool, input.map_or("", RawValue::get))
}

/// Whether the caller of an agent waits for it.
pub(super) fn mode(background: Flag) -> SpawnMode {
    if background.is_true() { SpawnMode::Background } else { SpawnMode::Foreground }
}

impl<'a> Arguments<'a> {
    /// Returns the type of the agent, the description of its task, and whether its caller waits.
    pub(super) fn spawn(self) -> (Str<'a>, Str<'a>, SpawnMode) {
        (self.subagent_type, self.description, mode(self.background))
    }
}
