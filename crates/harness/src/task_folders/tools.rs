//! Tool calls and their results. Older versions have the model write a call as elements into its text:
//! `<read_file><path>a.rs</path></read_file>`.

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use subscope_decode::{ToolArguments, digest, lenient::Str};
use subscope_model::{CallBegin, Outcome, RawJson, SpawnInput, SpawnMode, ToolClass};

use super::lines::made;
use crate::common::tools::Tools;

const TOOLS: Tools = Tools {
    spawn: "new_task",
    instant: &[
        "read_file",
        "search_files",
        "list_files",
        "list_code_definition_names",
        "codebase_search",
        "write_to_file",
        "replace_in_file",
        "apply_diff",
        "update_todo_list",
        "switch_mode",
    ],
    asking: &[("ask_followup_question", ToolClass::Question), ("plan_mode_respond", ToolClass::Plan)],
    writing: &[
        "write_to_file",
        "replace_in_file",
        "apply_diff",
        "insert_content",
        "search_and_replace",
        "edit_file",
        "edit",
        "search_replace",
    ],
    has_local_ids: true,
};

/// The tool with which a task ends: it is no call.
pub(super) const COMPLETION: &str = "attempt_completion";

/// The tool that runs a command.
pub(super) const COMMAND: &str = "execute_command";

/// Tools that a model may have called by elements.
const ELEMENTS: &[&str] = &[
    COMMAND,
    "read_file",
    "write_to_file",
    "replace_in_file",
    "apply_diff",
    "insert_content",
    "search_and_replace",
    "edit_file",
    "search_files",
    "list_files",
    "list_code_definition_names",
    "codebase_search",
    "browser_action",
    "use_mcp_tool",
    "access_mcp_resource",
    "ask_followup_question",
    "plan_mode_respond",
    "new_task",
    "switch_mode",
    "fetch_instructions",
    "update_todo_list",
    "web_fetch",
    "load_mcp_documentation",
];
/// Parameters whose value may itself hold elements: they end with the last one of their name.
const TEXTS: &[&str] = &["content", "diff", "message", "response", "question"];
/// Most calls of one text.
const MOST_CALLS: usize = 64;

/// Words of results, and of the JSON of newer ones.
const DENIAL: &str = "The user denied this operation";
const FAILURES: [&str; 3] =
    ["The tool execution failed", "Error executing", "Missing value for required parameter"];
/// What the result of a call that started a task begins with.
const STARTED: &str = "Delegated to child task ";
const ENDED: (&str, &str) = ("Subtask ", " completed.");

/// Returns the class of a tool.
pub(super) fn class(tool: &str) -> ToolClass {
    TOOLS.class(tool)
}

/// Arguments of the tool that starts a task.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct NewTask<'a> {
    mode: Str<'a>,
    message: Option<&'a RawValue>,
}

/// Builds a call's begin from its name and raw arguments.
pub(super) fn begin<'a>(id: &'a str, name: &'a str, input: RawJson<'a>) -> CallBegin<'a> {
    let (class, json) = (TOOLS.class(name), input.json);
    let call = CallBegin {
        id: Some(id),
        name,
        class,
        input: Some(input),
        digest: digest(name, json),
        has_local_id: TOOLS.has_local_ids,
        ..CallBegin::default()
    };
    if class == ToolClass::Spawn {
        let asked: NewTask<'a> = serde_json::from_str(json).unwrap_or_default();
        let agent_type = asked.mode.0.filter(|mode| !mode.is_empty());
        let prompt = asked.message.map(|raw| made(raw.get()));
        let mode = Some(SpawnMode::Foreground);
        let spawn = SpawnInput { agent_type: agent_type.clone(), prompt, mode, ..SpawnInput::default() };
        return CallBegin { detail: agent_type, spawn: Some(spawn), ..call };
    }
    let arguments = ToolArguments::parse(json);
    let writes = arguments.file().filter(|_| TOOLS.writing.contains(&name)).cloned().into_iter().collect();
    CallBegin { writes, detail: arguments.detail(), ..call }
}

/// Returns the file that arguments name.
pub(super) fn file_of(arguments: &str) -> Option<String> {
    ToolArguments::parse(arguments).file().map(|file| file.clone().into_owned())
}

/// Returns the calls that a text has as elements, each with its arguments as JSON.
pub(super) fn element_calls(text: &str) -> Vec<(&'static str, String)> {
    let mut calls = Vec::new();
    let mut rest = text;
    while calls.len() < MOST_CALLS {
        let first = ELEMENTS.iter().filter_map(|name| Some((rest.find(&format!("<{name}>"))?, *name))).min();
        let Some((at, name)) = first else { break };
        let inside = rest.get(at + name.len() + 2..).unwrap_or_default();
        // What is not closed was cut off: it was not called.
        let Some(end) = inside.find(&format!("</{name}>")) else { break };
        let (arguments, after) = inside.split_at(end);
        calls.push((name, Value::Object(parameters(arguments)).to_string()));
        rest = after;
    }
    calls
}

fn parameters(mut text: &str) -> Map<String, Value> {
    let mut found = Map::new();
    while let Some((_, begun)) = text.split_once('<') {
        let Some((name, rest)) = begun.split_once('>') else { break };
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let end = format!("</{name}>");
        let at = if TEXTS.contains(&name) { rest.rfind(&end) } else { rest.find(&end) };
        let Some(at) = at.filter(|_| is_name) else {
            text = begun;
            continue;
        };
        let (value, after) = rest.split_at(at);
        found.insert(name.to_owned(), Value::from(value.trim_matches('\n')));
        text = after.get(end.len()..).unwrap_or_default();
    }
    found
}

/// Returns the tool whose result a text of the program announces, and what follows of it: `[read_file for 'a.rs'] Result:`.
pub(super) fn announced(text: &str) -> Option<(&str, &str)> {
    let (title, result) = text.trim_start().strip_prefix('[')?.split_once("Result:")?;
    let name = title.split([' ', ']']).next().unwrap_or_default();
    (title.trim_end().ends_with(']') && !title.contains('\n')).then_some((name, result.trim_start()))
}

/// Returns how a call ended, by the text of its result.
pub(super) fn outcome(text: &str, is_error: bool) -> Outcome {
    let text = text.trim_start();
    let newer: ResultStatus<'_> = if text.starts_with('{') {
        serde_json::from_str(text).unwrap_or_default()
    } else {
        ResultStatus::default()
    };
    if text.starts_with(DENIAL) || newer.status.is("denied") {
        return Outcome::Denied;
    }
    let has_failed = FAILURES.iter().any(|words| text.starts_with(words)) || newer.status.is("error");
    if is_error || has_failed { Outcome::Error } else { Outcome::Ok }
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ResultStatus<'a> {
    status: Str<'a>,
}

/// Returns the task that a call started, and what it reported where it has ended.
pub(super) fn started_task(text: &str) -> Option<(&str, Option<&str>)> {
    let text = text.trim();
    let plain =
        |id: &str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if let Some(id) = text.strip_prefix(STARTED) {
        return plain(id).then_some((id, None));
    }
    let (id, result) = text.strip_prefix(ENDED.0)?.split_once(ENDED.1)?;
    let report = result.trim_start().strip_prefix("Result:").unwrap_or(result).trim_start();
    plain(id).then_some((id, Some(report)))
}
