//! What `codex app-server` writes to its client: the notifications of all threads of a connection, children among them.
//!
//! Flow: line → [`Message`] → the thread that it is about → observations of that thread: the root of a session, or a
//! subagent. State: the session of each thread, and calls that have begun.
//!
//! Pitfalls: a connection may serve several sessions. A child's first notifications may come before its parent's item
//! names it; they add nothing to the item. A call of a tool that only Codex itself carries out has no item. A line of a
//! recorded connection has its message in `msg`.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError, digest,
    lenient::{LineText, Num, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallBegin, CallEnd, Claim, Clock, EndEvidence, Fact, Outcome, Parent,
    PromptKind, Sink, SourceKind, Spawn, SpawnInput, SpawnMode, SpawnResult, ToolClass, Usage,
};

use super::{
    exec::FileChange,
    prompts::emit_prompt,
    tools::{self, first_text},
};
use crate::common::turn_gap::{TurnBoundary, TurnGap};

/// Decodes the messages of one connection.
#[derive(Debug)]
pub(super) struct AppServer {
    /// The session of each thread, by its id.
    sessions: HashMap<String, String>,
    /// Calls whose begin was emitted, with their threads.
    begun: HashSet<(String, String)>,
    /// Threads that have had a turn: messages after the end of one are of that turn until another begins.
    gaps: HashMap<String, TurnGap>,
}

/// One line: a message, or a recorded one.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Recorded<'a> {
    msg: Option<Message<'a>>,
}

/// One message of the server.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Message<'a> {
    method: Str<'a>,
    params: Option<&'a RawValue>,
    /// Of an answer: a thread that the client started, resumed or read.
    result: Option<&'a RawValue>,
    #[serde(rename = "emittedAtMs")]
    emitted_at_ms: Num,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Answer<'a> {
    thread: Option<Thread<'a>>,
}

/// What a notification is about.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Params<'a> {
    thread_id: Str<'a>,
    thread: Option<Thread<'a>>,
    turn: Option<Turn<'a>>,
    item: Option<Item<'a>>,
    token_usage: Option<Counts>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Thread<'a> {
    id: Str<'a>,
    session_id: Str<'a>,
    parent_thread_id: Str<'a>,
    model: Str<'a>,
    cwd: Str<'a>,
    cli_version: Str<'a>,
    agent_nickname: Str<'a>,
    agent_role: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Turn<'a> {
    id: Str<'a>,
    root_turn_id: Str<'a>,
    status: Str<'a>,
    error: Option<&'a RawValue>,
    items: Option<Vec<Item<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Item<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    id: Str<'a>,
    status: Str<'a>,
    tool: Str<'a>,
    text: Option<&'a RawValue>,
    content: Option<&'a RawValue>,
    summary: Option<Vec<&'a RawValue>>,
    command: Str<'a>,
    command_actions: Option<Vec<Action<'a>>>,
    aggregated_output: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    prompt: Option<&'a RawValue>,
    changes: Option<Vec<FileChange<'a>>>,
    model: Str<'a>,
    receiver_thread_ids: Option<Vec<Str<'a>>>,
    #[serde(rename = "kind")]
    activity: Str<'a>,
    agent_thread_id: Str<'a>,
    agent_path: Str<'a>,
    started_at_ms: Num,
    completed_at_ms: Num,
}

/// A part of a command.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Action<'a> {
    command: Str<'a>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Counts {
    total: Tokens,
}

/// Tokens: the input holds the cached ones, the output the reasoning ones.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Tokens {
    input_tokens: Num,
    cached_input_tokens: Num,
    cache_write_input_tokens: Num,
    output_tokens: Num,
    total_tokens: Num,
}

impl Tokens {
    fn usage(&self) -> Usage {
        let number = |field: Num| field.0.unwrap_or(0);
        let (read, write) = (number(self.cached_input_tokens), number(self.cache_write_input_tokens));
        let fresh = self.input_tokens.0.map(|input| input.saturating_sub(read).saturating_sub(write));
        Usage::of_parts([fresh, self.output_tokens.0, Some(read), Some(write)], self.total_tokens.0)
    }
}

/// Words of lines that change the state of agents, or of the session.
pub(super) const CHANGES: &[&str] = &["\"turn/", "\"collabAgentToolCall\"", "\"subAgentActivity\""];
/// Type of the line that opens a session.
pub(super) const OPENS: &str = "\"thread/started\"";

/// The notifications of a thread's items.
const ITEM_STARTED: &str = "item/started";
const ITEM_COMPLETED: &str = "item/completed";
/// The type of the item that starts a child, and its value at the start.
const ACTIVITY: &str = "subAgentActivity";
const STARTED: &str = "started";
/// The kind of the item of a call that concerns agents.
const AGENT_CALL: &str = "collabAgentToolCall";

impl AppServer {
    /// A decoder for the source that `hint` describes.
    pub(super) fn new(_: &Hint) -> Self {
        Self { sessions: HashMap::new(), begun: HashSet::new(), gaps: HashMap::new() }
    }

    /// Notes the session of a thread that the server describes.
    fn place(&mut self, thread: &Thread<'_>) -> Option<String> {
        let id = thread.id.filled()?;
        let parent = thread.parent_thread_id.filled().and_then(|parent| self.sessions.get(parent).cloned());
        let named = || thread.session_id.filled().map(str::to_owned);
        let is_root = thread.parent_thread_id.filled().is_none();
        let session = parent.or_else(named).or_else(|| is_root.then(|| id.to_owned()))?;
        self.sessions.insert(id.to_owned(), session);
        Some(id.to_owned())
    }

    /// Notes the session of the thread and of the children that a notification names.
    fn place_all(&mut self, thread: &str, params: &Params<'_>) {
        // A turn that only a user can cause is a root's.
        if let Some(turn) = &params.turn
            && turn.id.filled().is_some_and(|id| turn.root_turn_id.is(id))
        {
            self.sessions.entry(thread.to_owned()).or_insert_with(|| thread.to_owned());
        }
        let (Some(item), Some(session)) = (&params.item, self.sessions.get(thread).cloned()) else { return };
        for child in item.children() {
            self.sessions.entry(child.to_owned()).or_insert_with(|| session.clone());
        }
    }

    fn item(&mut self, thread: &str, item: &Item<'_>, is_over: bool, out: &mut Emitter<'_, '_>) {
        let times =
            if is_over { [item.completed_at_ms, item.started_at_ms] } else { [item.started_at_ms; 2] };
        out.head.time = times.into_iter().find_map(Num::signed).or(out.head.time);
        let id = item.id.filled();
        let text = |raw: Option<&'_ RawValue>| raw.is_some_and(|raw| raw.get() != "null");
        match item.kind.get().unwrap_or_default() {
            "userMessage" if is_over => {
                emit_prompt(first_text(item.content), PromptKind::Asked, out);
            }
            "agentMessage" if is_over && text(item.text) => {
                if let Some(text) = item.text.map(|raw| out.line.raw(raw)) {
                    out.emit_made(Fact::Message { message_id: id, text });
                }
            }
            "reasoning" if is_over => {
                let first = item.summary.iter().flatten().next();
                let text = first.map(|raw| out.line.raw(raw));
                out.emit_made(Fact::Thought { message_id: None, text });
            }
            _ => match item.tool_name() {
                Some(name) => self.call(thread, item, name, is_over, out),
                None => out.emit(Fact::Activity),
            },
        }
    }

    fn call(&mut self, thread: &str, item: &Item<'_>, name: &str, is_over: bool, out: &mut Emitter<'_, '_>) {
        let Some(id) = item.id.filled() else { return out.emit(Fact::Activity) };
        let digest = digest(name, id);
        let class = tools::class(name);
        let key = (thread.to_owned(), id.to_owned());
        if self.begun.insert(key.clone()) {
            let time = item.started_at_ms.signed().or(out.head.time);
            let spawn = (class == ToolClass::Spawn).then(|| SpawnInput {
                description: item.task_name().map(Into::into),
                prompt: item.prompt.filter(|raw| raw.get() != "null").map(|raw| out.line.raw(raw)),
                model: item.model.filled().map(Into::into),
                mode: Some(SpawnMode::Foreground),
                ..SpawnInput::default()
            });
            let begin = CallBegin {
                id: Some(id),
                name,
                class,
                digest,
                detail: item.detail().map(Into::into),
                writes: item.changes.iter().flatten().filter_map(|change| change.path.0.clone()).collect(),
                spawn,
                has_local_id: true,
                ..CallBegin::default()
            };
            out.emit_of(out.head.claim, time, Fact::CallBegin(begin));
        }
        if class == ToolClass::Spawn
            && let Some(agent) = item.children().next()
        {
            let parent = match out.head.claim {
                Claim::Agent(own, _) => Parent::Agent(own),
                Claim::Root(_) | Claim::SpawnedBy(_) | Claim::Chain { .. } | Claim::Silent => Parent::Root,
            };
            out.emit_made(Fact::Spawn(Spawn {
                agent: Some(agent),
                call: Some(id),
                parent: Some(parent),
                description: item.task_name().map(Into::into),
                model: item.model.filled().map(Into::into),
                prompt: item.prompt.filter(|raw| raw.get() != "null").map(|raw| out.line.raw(raw)),
                mode: Some(SpawnMode::Foreground),
                starts: true,
                is_origin: true,
                ..Spawn::default()
            }));
        }
        // An activity without a status has already happened.
        let outcome = match item.status.get() {
            Some(status) => tools::item_outcome(status, item.error),
            None => Some(Outcome::Ok),
        };
        let (true, Some(outcome)) = (is_over, outcome) else { return };
        self.begun.remove(&key);
        let launched = SpawnResult { finished: Some(false), ..SpawnResult::default() };
        let is_spawn = class == ToolClass::Spawn;
        out.emit_made(Fact::CallEnd(CallEnd {
            id: Some(id),
            name: Some(name),
            digest,
            outcome,
            result: item.aggregated_output.filter(|raw| raw.get() != "null").map(|raw| out.line.raw(raw)),
            spawn: is_spawn.then_some(launched),
            refused: is_spawn && outcome != Outcome::Ok,
            ..CallEnd::default()
        }));
    }
}

impl Params<'_> {
    /// Returns whether a turn begins or ends with a notification.
    fn boundary(&self, method: &str) -> TurnBoundary {
        let is_prompt = || self.item.as_ref().is_some_and(|item| item.kind.is("userMessage"));
        match method {
            "turn/started" => TurnBoundary::Begin,
            "turn/completed" => TurnBoundary::End,
            ITEM_STARTED | ITEM_COMPLETED if is_prompt() => TurnBoundary::Begin,
            _ => TurnBoundary::Inside,
        }
    }
}

impl Item<'_> {
    /// The threads that the item starts.
    fn children(&self) -> impl Iterator<Item = &str> {
        let kind = self.kind.get().unwrap_or_default();
        let is_start = kind == ACTIVITY && self.activity.is(STARTED);
        let is_spawn = kind == AGENT_CALL && self.tool.is("spawnAgent");
        let activity = self.agent_thread_id.filled().filter(|_| is_start);
        let spawned = self.receiver_thread_ids.iter().flatten().filter(move |_| is_spawn);
        activity.into_iter().chain(spawned.filter_map(Str::filled))
    }

    /// The tool's name as the model calls it; `None` for an item that is not a call, or that does not name the tool.
    fn tool_name(&self) -> Option<&str> {
        match self.kind.get()? {
            "commandExecution" => Some("exec_command"),
            "fileChange" => Some("apply_patch"),
            "mcpToolCall" | "dynamicToolCall" => self.tool.filled(),
            AGENT_CALL => match self.tool.filled()? {
                "spawnAgent" => Some("spawn_agent"),
                "sendInput" => Some("send_input"),
                "resumeAgent" => Some("resume_agent"),
                "wait" => Some("wait_agent"),
                "closeAgent" => Some("close_agent"),
                other => Some(other),
            },
            ACTIVITY => match self.activity.filled()? {
                STARTED => Some("spawn_agent"),
                "interrupted" => Some("interrupt_agent"),
                // Of two tools, or of none.
                _ => None,
            },
            _ => None,
        }
    }

    /// The name of a child's task: the end of its path.
    fn task_name(&self) -> Option<&str> {
        self.agent_path.filled().and_then(|path| path.rsplit('/').next())
    }

    fn detail(&self) -> Option<&str> {
        let action = self.command_actions.iter().flatten().find_map(|action| action.command.filled());
        action.or_else(|| self.command.filled()).or_else(|| self.task_name())
    }
}

/// Emits what a session, or a child, is.
fn describe(thread: &Thread<'_>, out: &mut Emitter<'_, '_>) {
    let filled = |text: &Str<'_>| text.filled().map(|text| text.to_owned().into());
    let Claim::Agent(own, _) = out.head.claim else {
        out.emit_made(Fact::Session {
            version: thread.cli_version.filled(),
            cwd: thread.cwd.filled().map(Into::into),
            model: thread.model.filled(),
            tells_starts: true,
        });
        return;
    };
    let parent = thread.parent_thread_id.filled().map(|parent| match out.head.session {
        Some(session) if session == parent => Parent::Root,
        Some(_) | None => Parent::Agent(parent),
    });
    out.emit_made(Fact::Spawn(Spawn {
        agent: Some(own),
        parent,
        agent_type: filled(&thread.agent_role),
        name: filled(&thread.agent_nickname),
        model: filled(&thread.model),
        mode: Some(SpawnMode::Foreground),
        starts: true,
        ..Spawn::default()
    }));
}

/// Emits the end of the thread's turn.
fn end(turn: &Turn<'_>, out: &mut Emitter<'_, '_>) {
    let status = match turn.status.get() {
        Some("completed") => AgentStatus::Completed,
        Some("failed") => AgentStatus::Failed,
        Some("interrupted") => AgentStatus::Stopped,
        _ => return out.emit(Fact::Activity),
    };
    // It was at work until then.
    out.emit_made(Fact::Activity);
    let evidence = EndEvidence::of_turn(status);
    let last = turn.items.iter().flatten().rev().find(|item| item.kind.is("agentMessage"));
    let report = last.and_then(|item| item.text).map(|raw| out.line.raw(raw));
    let error = tools::error_message(turn.error).map(|raw| out.line.raw(raw));
    if matches!(out.head.claim, Claim::Root(_)) {
        if let Some(text) = error {
            out.emit_made(Fact::Message { message_id: None, text });
        }
        out.emit_made(Fact::TurnEnd { status, evidence, counts_run: true, text: error.or(report) });
    } else {
        out.emit_made(Fact::AgentEnd(AgentEnd { status, evidence, report, error, ..AgentEnd::default() }));
    }
}

impl LineDecoder for AppServer {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let message = read(text.text)?;
        let params: Params<'_> = parsed(message.params);
        let answer: Answer<'_> = parsed(message.result);
        let answered = answer.thread.as_ref().and_then(|thread| self.place(thread));
        let placed = params.thread.as_ref().and_then(|thread| self.place(thread)).or(answered);
        let Some(thread) = params.thread_id.filled().map(str::to_owned).or(placed) else { return Ok(()) };
        self.place_all(&thread, &params);
        // Skip a thread that began before the source: it may be a child.
        let Some(session) = self.sessions.get(&thread).cloned() else { return Ok(()) };
        let claim =
            if thread == session { Claim::Root(Basis::Wire) } else { Claim::Agent(&thread, Basis::Wire) };
        let time = message.emitted_at_ms.signed();
        let method = message.method.get().unwrap_or_default();
        let gap = self.gaps.entry(thread.clone()).or_default().note(params.boundary(method), time);
        let mut sink = gap.sink(sink);
        let mut out = Emitter::new(SourceKind::Stream, Clock::Stream, claim, text, &mut sink);
        out.head.session = Some(&session);
        out.head.time = time;
        if let Some(described) = &params.thread {
            describe(described, &mut out);
            return Ok(());
        }
        match method {
            "turn/completed" => {
                if let Some(turn) = &params.turn {
                    end(turn, &mut out);
                }
            }
            "thread/tokenUsage/updated" => match params.token_usage {
                Some(counts) => {
                    out.emit(Fact::Totals { usage: counts.total.usage(), cost_micro_usd: None });
                }
                None => out.emit(Fact::Activity),
            },
            method @ (ITEM_STARTED | ITEM_COMPLETED) => {
                if let Some(item) = &params.item {
                    self.item(&thread, item, method == ITEM_COMPLETED, &mut out);
                }
            }
            "turn/started" => out.emit(Fact::TurnStart),
            method if method.starts_with("item/") => out.emit(Fact::Activity),
            // What the client asks for, and the state of windows and accounts.
            _ => {}
        }
        Ok(())
    }
}

/// Reads a message, recorded or not.
fn read(line: &str) -> Result<Message<'_>, serde_json::Error> {
    let recorded: Recorded<'_> = serde_json::from_str(line)?;
    match recorded.msg {
        Some(message) => Ok(message),
        None => serde_json::from_str(line),
    }
}

/// Reads a part of a message; data of other methods is ignored.
fn parsed<'a, T: Default + Deserialize<'a>>(part: Option<&'a RawValue>) -> T {
    part.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// Whether a line is a message of a connection that is about threads.
pub(super) fn is_message(line: &str) -> bool {
    const FAMILIES: [&str; 4] = ["thread/", "turn/", "item/", "remoteControl/"];
    let Ok(message) = read(line) else { return false };
    let is_server = message.emitted_at_ms.0.is_some();
    let params: Params<'_> = parsed(message.params);
    let is_about_thread = params.thread_id.filled().is_some() || params.thread.is_some();
    message.method.filled().is_some_and(|method| FAMILIES.iter().any(|family| method.starts_with(family)))
        && (is_server || is_about_thread)
}

#[cfg(test)]
mod tests {
    use subscope_decode::{Decoder, LinesDecoder};
    use subscope_model::{Decoded, SourceId};

    use super::*;

    const ROOT: &str = r#"{"method":"thread/started","params":{"thread":{"id":"r","sessionId":"r","parentThreadId":null,"cliVersion":"0.169.0"}},"emittedAtMs":1}"#;
    const SPAWN: &str = r#"{"method":"item/started","params":{"threadId":"r","item":{"type":"subAgentActivity","id":"call_1","kind":"started","agentThreadId":"c","agentPath":"/root/count"}},"emittedAtMs":2}"#;
    const COMMAND: &str = r#"{"method":"item/completed","params":{"threadId":"c","item":{"type":"commandExecution","id":"call_2","status":"failed"}},"emittedAtMs":3}"#;
    const END: &str = r#"{"method":"turn/completed","params":{"threadId":"c","turn":{"id":"t2","rootTurnId":"t1","status":"failed","error":{"message":"no"}}},"emittedAtMs":4}"#;

    fn facts(lines: &[&str]) -> Vec<String> {
        let mut decoder = LinesDecoder::new(SourceId(0), AppServer::new(&Hint::default()));
        let mut found = Vec::new();
        for line in lines {
            decoder.push(format!("{line}\n").as_bytes(), &mut |decoded| match decoded {
                Decoded::Observation(seen) => {
                    let session = seen.session.unwrap_or_default();
                    let mut fact = format!("{:?}", seen.fact);
                    fact.truncate(
                        fact.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(fact.len()),
                    );
                    if let Fact::Spawn(spawn) = &seen.fact {
                        fact = format!("{:?} by {:?}", spawn.agent, spawn.call);
                    } else if let Fact::CallBegin(call) = &seen.fact {
                        fact = format!("begin {}", call.name);
                    } else if let Fact::CallEnd(call) = &seen.fact {
                        fact = format!("end {:?}", call.outcome);
                    } else if let Fact::AgentEnd(end) = &seen.fact {
                        fact = format!("agent {:?}", end.status);
                    }
                    found.push(format!("{session} {:?} {fact}", seen.claim));
                }
                Decoded::Problem { what, .. } => found.push(format!("problem {what}")),
            });
        }
        found
    }

    #[test]
    fn child_is_of_the_session_of_the_thread_that_started_it() {
        let found = facts(&[ROOT, SPAWN, COMMAND, END]);
        let expected = [
            "r Root(Wire) Session",
            "r Root(Wire) begin spawn_agent",
            r#"r Root(Wire) Some("c") by Some("call_1")"#,
            r#"r Agent("c", Wire) begin exec_command"#,
            r#"r Agent("c", Wire) end Error"#,
            r#"r Agent("c", Wire) Activity"#,
            r#"r Agent("c", Wire) agent Failed"#,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn thread_that_nobody_placed_is_of_no_session() {
        assert_eq!(facts(&[COMMAND, END]), [""; 0]);
    }

    #[test]
    fn recorded_and_plain_messages_are_the_same() {
        let recorded: Vec<String> =
            [ROOT, SPAWN].iter().map(|line| format!(r#"{{"dir":"in","t":1.5,"msg":{line}}}"#)).collect();
        let recorded: Vec<&str> = recorded.iter().map(String::as_str).collect();
        assert_eq!(facts(&recorded), facts(&[ROOT, SPAWN]));
        assert!(recorded.iter().chain(&[ROOT, SPAWN]).all(|line| is_message(line)));
        assert!(!is_message(r#"{"method":"thread/x"}"#));
        assert!(!is_message(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#));
    }
}
