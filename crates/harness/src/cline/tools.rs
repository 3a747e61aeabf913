//! Cline's tool calls and their results, and its words for endings.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, digest,
    lenient::{Flag, LineText, Str},
};
use subscope_model::{
    AgentStatus, CallBegin, CallEnd, Fact, Outcome, RawJson, Spawn, SpawnInput, SpawnMode, SpawnResult,
    ToolClass,
};

use crate::common::{
    parts::{elements, string},
    tools::Tools,
};

const TOOLS: Tools = Tools {
    spawn: "spawn_agent",
    instant: &["read_files", "search_files", "list_files", "editor", "team_spawn_teammate", "team_status"],
    asking: &[("ask_question", ToolClass::Question)],
    writing: &["editor"],
    has_local_ids: true,
};

/// The tool that has a teammate work.
const TEAM_RUN: &str = "team_run_task";
/// A part of the result of a call that nobody approved.
const DENIAL: &str = "requires approval in a TTY session";

/// Returns the class of a tool.
pub(super) fn class(tool: &str) -> ToolClass {
    if tool == TEAM_RUN { ToolClass::Spawn } else { TOOLS.class(tool) }
}

/// SpawnArguments of the tools that start agents.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct SpawnArguments<'a> {
    task: Option<&'a RawValue>,
    agent_id: Str<'a>,
    run_mode: Str<'a>,
}

/// What is known of a call whose end was not read.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenCall {
    pub(super) class: ToolClass,
    /// The teammate that it has work.
    pub(super) mate: Option<String>,
    pub(super) is_background: bool,
    /// Whether the teammate has worked before.
    pub(super) is_again: bool,
}

/// Builds a call's begin from its name and raw arguments. `has_worked` says whether a teammate has worked before: then the
/// call starts no agent.
pub(super) fn begin<'a>(
    id: Option<&'a str>,
    name: &'a str,
    input: Option<&'a RawValue>,
    line: LineText<'a>,
    has_worked: &mut dyn FnMut(&str) -> bool,
) -> (CallBegin<'a>, OpenCall) {
    let json = input.map_or("", RawValue::get);
    let spawn = |json: &'a str| -> SpawnInput<'a> {
        let arguments: SpawnArguments<'a> = serde_json::from_str(json).unwrap_or_default();
        SpawnInput { prompt: arguments.task.map(|raw| line.raw(raw)), ..SpawnInput::default() }
    };
    let mut call = TOOLS.begin(id, name, input, line, digest(name, json), spawn);
    let mut open = OpenCall::default();
    if name == TEAM_RUN {
        let arguments: SpawnArguments<'a> = serde_json::from_str(json).unwrap_or_default();
        open.is_background = arguments.run_mode.is("async");
        open.mate = arguments.agent_id.filled().map(str::to_owned);
        open.is_again = open.mate.as_deref().is_some_and(has_worked);
        call.detail = arguments.agent_id.0.clone();
        if !open.is_again {
            call.class = ToolClass::Spawn;
            call.spawn = Some(SpawnInput {
                name: arguments.agent_id.0,
                mode: open.is_background.then_some(SpawnMode::Background),
                ..spawn(json)
            });
        }
    } else if call.spawn.is_some() {
        call.detail = call.spawn.as_ref().and_then(|spawn| first_line(spawn.prompt));
    }
    open.class = call.class;
    (call, open)
}

/// Calls that start agents, until their agents start. Nothing that is printed or sent to a hook names the call of an agent:
/// it is the one of its parent that waits for an agent, and where several do, a guess by their order. Lines may come twice.
#[derive(Debug, Default)]
pub(super) struct SpawnQueue {
    /// Calls whose agent has not started, in order.
    waiting: Vec<WaitingCall>,
    /// Agents that have started: their calls, and whether no other can be it.
    started: HashMap<String, Option<(String, bool)>>,
    /// Teammates that have worked, with their first calls.
    worked: HashMap<String, String>,
}

/// A call whose agent has not started.
#[derive(Debug)]
struct WaitingCall {
    owner: String,
    call: String,
    /// Whether an agent before may have been its agent.
    is_doubtful: bool,
}

impl SpawnQueue {
    /// Whether a teammate has worked before it is called; remembers its first call.
    pub(super) fn has_worked(&mut self, mate: &str, call: Option<&str>) -> bool {
        let call = call.unwrap_or_default();
        self.worked.entry(mate.to_owned()).or_insert_with(|| call.to_owned()) != call
    }

    /// Adds a call that starts an agent.
    pub(super) fn add(&mut self, owner: &str, call: &str) {
        if self.waiting.iter().all(|waiting| waiting.call != call) {
            let (owner, call) = (owner.to_owned(), call.to_owned());
            self.waiting.push(WaitingCall { owner, call, is_doubtful: false });
        }
    }

    /// Removes a call that has ended.
    pub(super) fn remove(&mut self, call: Option<&str>) {
        self.waiting.retain(|waiting| Some(waiting.call.as_str()) != call);
    }

    /// Whether the agent of a call is known for certain.
    pub(super) fn is_certain(&self, call: Option<&str>) -> bool {
        self.started.values().flatten().any(|(known, is_only)| *is_only && Some(known.as_str()) == call)
    }

    /// Takes the call of an agent that starts; returns it, and whether no other can be its call.
    pub(super) fn start(&mut self, agent: &str, parent: Option<&str>) -> Option<(&str, bool)> {
        if !self.started.contains_key(agent) {
            let is_of_parent = |waiting: &WaitingCall| Some(waiting.owner.as_str()) == parent;
            let first = self.waiting.iter().position(is_of_parent).map(|at| self.waiting.remove(at));
            let others = self.waiting.iter_mut().filter(|waiting| is_of_parent(waiting));
            let has_others = others.map(|waiting| waiting.is_doubtful = true).count() > 0;
            let call = first.map(|first| (first.call, !first.is_doubtful && !has_others));
            self.started.insert(agent.to_owned(), call);
        }
        self.started.get(agent)?.as_ref().map(|(call, is_only)| (call.as_str(), *is_only))
    }
}

/// Emits that an agent starts, by a call that may be a guess.
pub(super) fn emit_start<'s>(spawn: Spawn<'s>, call: Option<(&'s str, bool)>, out: &mut Emitter<'_, '_>) {
    let agent = spawn.agent;
    let known = call.filter(|(_, is_only)| *is_only).map(|(call, _)| call);
    out.emit_made(Fact::Spawn(Spawn { call: known, is_origin: known.is_some(), starts: true, ..spawn }));
    if let Some((guessed, false)) = call {
        out.emit_made(Fact::Spawn(Spawn { agent, call: Some(guessed), ..Spawn::default() }));
    }
}

fn first_line<'a>(prompt: Option<RawJson<'a>>) -> Option<std::borrow::Cow<'a, str>> {
    let text = prompt?.text();
    let line: String = text.lines().next()?.chars().take(80).collect();
    (!line.is_empty()).then(|| line.into())
}

/// What the result of a call says, as JSON: an object of a tool of Cline's own, or the results of several commands or
/// files.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Said<'a> {
    error: Str<'a>,
    success: Flag,
    finish_reason: Str<'a>,
    text: Option<&'a RawValue>,
}

/// Returns how an agent or a session ended, by the program's word; `None` if it is still at work.
pub(super) fn status(word: &str) -> Option<AgentStatus> {
    match word {
        "completed" => Some(AgentStatus::Completed),
        "failed" | "error" => Some(AgentStatus::Failed),
        "cancelled" | "aborted" => Some(AgentStatus::Stopped),
        _ => None,
    }
}

/// Builds a call's end from its result, which is an object, an array of them, or one of these in a string.
pub(super) fn end(id: Option<&str>, open: &OpenCall, output: Option<&RawValue>, is_error: bool) -> Ended {
    let unwrapped = string(output).and_then(|text| RawValue::from_string(text).ok());
    let output = unwrapped.as_deref().or(output);
    let json = output.map_or("", RawValue::get);
    let said: Vec<Said<'_>> = match json.starts_with('[') {
        true => elements(output),
        false => serde_json::from_str(json).ok().into_iter().collect(),
    };
    let has_failed = |said: &Said<'_>| said.error.filled().is_some() || said.success.0 == Some(false);
    let finished = said.iter().find_map(|said| status(said.finish_reason.get()?));
    let outcome = match finished {
        _ if said.iter().any(|said| said.error.get().is_some_and(|text| text.contains(DENIAL))) => {
            Outcome::Denied
        }
        // It says how its agent ended.
        Some(AgentStatus::Failed) => Outcome::Error,
        Some(AgentStatus::Stopped) => Outcome::Interrupted,
        _ if is_error || said.iter().any(has_failed) => Outcome::Error,
        _ => Outcome::Ok,
    };
    let report = said.iter().find_map(|said| said.text).map(|raw| raw.get().to_owned());
    let is_refused = open.class == ToolClass::Spawn && finished.is_none() && outcome != Outcome::Ok;
    let id = id.map(str::to_owned);
    Ended { id, outcome, finished, report, is_refused, open: open.clone() }
}

/// The end of a call.
pub(super) struct Ended {
    id: Option<String>,
    pub(super) outcome: Outcome,
    /// How the agent that it started ended, where it waited for it.
    finished: Option<AgentStatus>,
    pub(super) report: Option<String>,
    is_refused: bool,
    open: OpenCall,
}

impl Ended {
    /// Returns the fact.
    pub(super) fn fact<'e>(&'e self, result: Option<RawJson<'e>>, duration_ms: Option<i64>) -> CallEnd<'e> {
        let mate = self.open.mate.as_deref().filter(|_| self.outcome == Outcome::Ok);
        let is_spawn = self.open.class == ToolClass::Spawn;
        let has_completed = (self.finished == Some(AgentStatus::Completed)).then_some(true);
        let launched = (mate.is_some() && self.open.is_background).then_some(false);
        let report = self.report.as_deref().filter(|_| has_completed.is_some());
        let spawn = is_spawn.then(|| SpawnResult {
            agent: mate,
            finished: has_completed.or(launched),
            report: report.map(|json| RawJson { json, offset: u64::MAX }),
            ..SpawnResult::default()
        });
        CallEnd {
            id: self.id.as_deref(),
            outcome: self.outcome,
            result,
            duration_ms,
            refused: self.is_refused,
            resumed: mate.filter(|_| self.open.is_again),
            spawn: spawn.filter(|spawn| spawn.agent.is_some() || spawn.finished.is_some()),
            ..CallEnd::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_say_how_calls_and_their_agents_ended() {
        let spawn = OpenCall { class: ToolClass::Spawn, ..OpenCall::default() };
        let of = |json: &str, open: &OpenCall, is_error| {
            let raw = RawValue::from_string(json.to_owned()).unwrap();
            let ended = end(Some("c"), open, Some(&raw), is_error);
            (ended.outcome, ended.finished, ended.is_refused)
        };
        let plain = OpenCall::default();
        let cases = [
            (r#"[{"query":"ls","result":"x","success":true}]"#, &plain, false, (Outcome::Ok, None, false)),
            (
                r#"[{"success":true},{"success":false,"error":"no"}]"#,
                &plain,
                false,
                (Outcome::Error, None, false),
            ),
            (r#""{\"error\":\"broken\"}""#, &spawn, false, (Outcome::Error, None, true)),
            (
                r#""{\"error\":\"Tool \\\"x\\\" requires approval in a TTY session -- no\"}""#,
                &spawn,
                true,
                (Outcome::Denied, None, true),
            ),
            (
                r#"{"text":"2","finishReason":"completed"}"#,
                &spawn,
                false,
                (Outcome::Ok, Some(AgentStatus::Completed), false),
            ),
            (
                r#""{\"text\":\"\",\"finishReason\":\"error\"}""#,
                &spawn,
                false,
                (Outcome::Error, Some(AgentStatus::Failed), false),
            ),
            (
                r#"{"finishReason":"aborted"}"#,
                &spawn,
                false,
                (Outcome::Interrupted, Some(AgentStatus::Stopped), false),
            ),
            (r#""a plain text""#, &plain, false, (Outcome::Ok, None, false)),
            (r#""a plain text""#, &plain, true, (Outcome::Error, None, false)),
            ("null", &plain, false, (Outcome::Ok, None, false)),
        ];
        for (json, open, is_error, expected) in cases {
            assert_eq!(of(json, open, is_error), expected, "{json}");
        }
    }
}
