//! What `claude -p --output-format stream-json` prints, all versions.
//!
//! Flow: line → [`Line`] → observations. State kept per source: which spawn call belongs to which agent (so that it is
//! emitted once), and the message that partial events belong to.
//!
//! Pitfalls: `system` lines name a task, never an actor; a shell is a task too (`local_bash`); neither `init` nor
//! `result` comes once; `usage` is the placeholder of the message's start, so a subagent's sum is a floor; below the
//! first level nothing but `task_*` lines appears unless subagent text is forwarded; a resumed agent's lines keep
//! the call that first started it, while its second `task_started` names the call that woke it.

mod tasks;

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError,
    lenient::{Flag, LineText, Num, Str},
};
use subscope_model::{
    AgentStatus, Basis, CallEnd, Claim, Clock, EndEvidence, Fact, Outcome, RawJson, Response, Sink,
    SourceKind, Spawn, ToolClass, parse_rfc3339, stable_hash,
};

use self::tasks::{task_notification, task_started, task_updated, workflow_progress};
use super::{
    content::{Message, Tokens, string_content},
    notice::prompt_kind,
    tools::{self, HarnessResult},
    transcript::{COMPACTED, emit_message, emit_notice, emit_result, model_usage},
};

/// Decodes one recorded or piped stream.
#[derive(Debug, Default)]
pub(super) struct Stream {
    hint: Hint,
    /// Spawn calls whose agent was emitted.
    told: HashSet<String>,
    /// The message that partial events without an id belong to.
    partial_message: String,
    /// The version that the last `init` named; empty before 2.0.
    version: String,
    /// Hashes of the main thread's texts: the results of several turns may come after the texts of all of them.
    texts: HashSet<u64>,
    /// Whether the main thread has other lines than results.
    has_turn: bool,
}

impl Stream {
    /// A decoder for the stream that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { hint: hint.clone(), ..Self::default() }
    }
}

/// One line. Fields of all line types together: they do not collide.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    subtype: Str<'a>,
    uuid: Str<'a>,
    request_id: Str<'a>,
    session_id: Str<'a>,
    timestamp: Str<'a>,
    parent_tool_use_id: Str<'a>,
    agent_id: Str<'a>,
    subagent_type: Str<'a>,
    task_description: Str<'a>,
    message: Option<&'a RawValue>,
    tool_use_result: Option<HarnessResult<'a>>,
    tool_result_meta: Option<&'a RawValue>,
    cwd: Str<'a>,
    model: Str<'a>,
    claude_code_version: Str<'a>,
    task_id: Str<'a>,
    run_id: Str<'a>,
    tool_use_id: Str<'a>,
    tool_name: Str<'a>,
    task_type: Str<'a>,
    parent_task_id: Str<'a>,
    description: Str<'a>,
    prompt: Option<&'a RawValue>,
    is_backgrounded: Flag,
    spawn_depth: Num,
    patch: Option<Patch<'a>>,
    status: Str<'a>,
    summary: Option<&'a RawValue>,
    summary_is_report: Flag,
    usage: Option<TaskUsage>,
    workflow_progress: Option<&'a RawValue>,
    heartbeat: Flag,
    subagent_retry: Option<SubagentRetry<'a>>,
    attempt: Num,
    max_retries: Num,
    retry_delay_ms: Num,
    error_status: Num,
    error: Str<'a>,
    is_error: Flag,
    terminal_reason: Str<'a>,
    result: Option<&'a RawValue>,
    /// Why there is no result.
    errors: Option<&'a RawValue>,
    origin: Option<&'a RawValue>,
    #[serde(rename = "modelUsage")]
    model_usage: Option<&'a RawValue>,
    total_cost_usd: Option<f64>,
    event: Option<PartialEvent<'a>>,
    api_message_id: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Patch<'a> {
    status: Str<'a>,
    end_time: Num,
    error: Option<&'a RawValue>,
    is_backgrounded: Flag,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TaskUsage {
    total_tokens: Num,
    tool_uses: Num,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct SubagentRetry<'a> {
    agent_id: Str<'a>,
    attempt: Num,
    max_retries: Num,
    retry_delay_ms: Num,
    error_status: Num,
    error_category: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct PartialEvent<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    message: Option<Message<'a>>,
    delta: Option<Delta<'a>>,
    usage: Option<Tokens>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Delta<'a> {
    stop_reason: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ResultMeta<'a> {
    non_execution_kind: Str<'a>,
}

impl LineDecoder for Stream {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let Self { hint, told, partial_message, version, texts: told_texts, has_turn } = self;
        let line: Line<'_> = serde_json::from_str(text.text)?;
        if let Some(named) = line.claude_code_version.filled() {
            named.clone_into(version);
        }
        let kind = line.kind.get();
        let has_message = matches!(kind, Some("assistant" | "user"));
        let message: Option<Message<'_>> =
            line.message.filter(|_| has_message).and_then(|raw| serde_json::from_str(raw.get()).ok());
        let claim = claim(&line);
        let mut out = Emitter::new(SourceKind::Stream, Clock::Stream, claim, text, sink);
        out.head.time = line.timestamp.get().and_then(parse_rfc3339);
        out.head.session = line.session_id.filled().or(hint.session.as_deref());
        out.head.line_id = line.uuid.filled();
        emit_spawn_link(told, &line, &mut out);
        let is_root = matches!(out.head.claim, Claim::Root(_));
        *has_turn |= is_root && matches!(kind, Some("assistant" | "user" | "system" | "stream_event"));
        if let Some(message) = message.as_ref().filter(|_| is_root && kind == Some("assistant")) {
            let texts = message.blocks().iter().filter(|block| block.kind.is("text"));
            told_texts.extend(texts.filter_map(|block| out.raw(block.text)).map(text_hash));
        }
        match (kind, &message) {
            (Some("assistant"), Some(message)) => {
                emit_message(
                    message,
                    line.request_id.filled(),
                    false,
                    tools::default_mode(version),
                    &mut out,
                );
            }
            (Some("user"), Some(message)) => user(&line, message, &mut out),
            (Some("system"), _) => system(&line, &mut out),
            (Some("tool_progress"), _) => tool_progress(&line, &mut out),
            (Some("result"), _) => result(&line, *has_turn, told_texts, &mut out),
            (Some("stream_event"), _) => partial(partial_message, &line, &mut out),
            _ => {}
        }
        Ok(())
    }
}

/// Emits once for each spawn call which agent's lines carry it.
fn emit_spawn_link<'a>(told: &mut HashSet<String>, line: &'a Line<'_>, out: &mut Emitter<'a, '_>) {
    let Some(call) = spawn_call(line).filter(|_| !line.kind.is("tool_progress")) else { return };
    if told.contains(call) {
        return;
    }
    told.insert(call.to_owned());
    out.emit(Fact::Spawn(Spawn {
        agent: line.agent_id.filled(),
        call: Some(call),
        agent_type: line.subagent_type.0.clone(),
        description: line.task_description.0.clone(),
        is_origin: true,
        ..Spawn::default()
    }));
}

/// Emits the final usage of the main thread's messages, which only partial events have.
fn partial(partial_message: &mut String, line: &Line<'_>, out: &mut Emitter<'_, '_>) {
    let Some(event) = &line.event else { return };
    if let Some(id) = event.message.as_ref().and_then(|message| message.id.filled()) {
        id.clone_into(partial_message);
    }
    let Some(stop_reason) = event.delta.as_ref().and_then(|delta| delta.stop_reason.filled()) else { return };
    let message_id = line.api_message_id.filled().unwrap_or(partial_message);
    if !event.kind.is("message_delta") || message_id.is_empty() {
        return;
    }
    out.emit_made(Fact::Response(Response {
        message_id,
        usage: event.usage.as_ref().map(Tokens::usage),
        cache_write_1h: event.usage.as_ref().map_or(0, Tokens::cache_write_1h),
        has_stop_reason: true,
        ends_turn: stop_reason == "end_turn",
        has_call: stop_reason == "tool_use",
        ..Response::default()
    }));
}

/// The call that started the line's agent. An agent that a command of the user's started has a made-up one.
/// Observed: Claude Code 2.1.330, fixture `unseen/2.1.330/v16-skill`: `forked-command-review`.
fn spawn_call<'a>(line: &'a Line<'_>) -> Option<&'a str> {
    line.parent_tool_use_id.filled().filter(|call| !call.starts_with("forked-command-"))
}

fn claim<'a>(line: &'a Line<'_>) -> Claim<'a> {
    let lines_of_agents = !line.kind.is("system");
    match (line.agent_id.filled(), spawn_call(line)) {
        (Some(agent), _) if lines_of_agents => Claim::Agent(agent, Basis::Wire),
        (None, Some(call)) if lines_of_agents => Claim::SpawnedBy(call),
        _ => Claim::Root(Basis::Link),
    }
}

fn user<'a>(line: &'a Line<'a>, message: &'a Message<'a>, out: &mut Emitter<'a, '_>) {
    if let Some(raw) = string_content(message, out.line) {
        return prompt(raw, out);
    }
    let result = line.tool_use_result.as_ref();
    let metas: Vec<ResultMeta<'_>> =
        line.tool_result_meta.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let denial = metas.iter().find_map(|meta| meta.non_execution_kind.filled());
    for block in message.blocks() {
        match (block.kind.get(), out.raw(block.text)) {
            (Some("tool_result"), _) => emit_result(block, result, denial, out),
            (Some("text"), Some(raw)) => prompt(raw, out),
            _ => {}
        }
    }
}

fn prompt<'a>(text: RawJson<'a>, out: &mut Emitter<'a, '_>) {
    let words = text.text();
    emit_notice(Some(&words), out);
    out.emit(Fact::Prompt { prompt_id: None, text, what: prompt_kind(&words, None) });
}

/// Whether a task is an agent and not a shell. In versions without task types all tasks are agents.
fn is_agent_task(line: &Line<'_>) -> bool {
    line.task_type.get().is_none_or(|kind| kind.ends_with("agent") || kind.ends_with("teammate"))
}

fn system<'a>(line: &'a Line<'_>, out: &mut Emitter<'a, '_>) {
    match line.subtype.get() {
        Some("init") => {
            let version = line.claude_code_version.filled();
            out.emit(Fact::Session {
                version,
                cwd: line.cwd.0.clone(),
                model: line.model.filled(),
                tells_starts: version.is_some_and(tools::tells_starts),
            });
        }
        Some("task_started") if is_agent_task(line) => task_started(line, out),
        Some("task_progress") if line.workflow_progress.is_some() => workflow_progress(line, out),
        Some("task_progress") => {
            let usage = line.usage.as_ref();
            out.emit(Fact::Progress {
                agent: line.task_id.filled(),
                message: line.description.0.clone(),
                tool_calls: usage.and_then(|usage| usage.tool_uses.0),
                total_tokens: usage.and_then(|usage| usage.total_tokens.0),
            });
        }
        Some("task_updated") => task_updated(line, out),
        Some("task_notification") => task_notification(line, out),
        Some("permission_denied") => {
            if let Some(agent) = line.agent_id.filled() {
                out.head.claim = Claim::Agent(agent, Basis::Wire);
            }
            out.emit(Fact::CallEnd(CallEnd {
                id: line.tool_use_id.filled(),
                name: line.tool_name.filled(),
                outcome: Outcome::Denied,
                result: line.message.map(|raw| RawJson { json: raw.get(), offset: u64::MAX }),
                ..CallEnd::default()
            }));
        }
        // Observed: Claude Code 2.1.110 to 2.1.330, for requests of the main thread; those of agents are reported by
        // `tool_progress`.
        Some("api_retry") => {
            let why = tools::api_error(line.error.filled(), line.error_status.0);
            out.emit(tools::retry(None, line.attempt, line.max_retries, line.retry_delay_ms, why));
        }
        Some("compact_boundary") => out.emit(COMPACTED),
        _ => {}
    }
}

fn tool_progress<'a>(line: &'a Line<'_>, out: &mut Emitter<'a, '_>) {
    if let Some(retry) = &line.subagent_retry {
        let why = tools::api_error(retry.error_category.filled(), retry.error_status.0);
        let agent = retry.agent_id.filled();
        out.emit(tools::retry(agent, retry.attempt, retry.max_retries, retry.retry_delay_ms, why));
    } else if line.heartbeat.is_true() {
        out.emit(Fact::Heartbeat);
    } else if line.tool_name.get().is_some_and(|name| tools::class(name) == ToolClass::Spawn) {
        // The same line without a retry means that the retry has ended.
        out.emit(Fact::Retry { agent: None, attempt: 0, limit: 0, delay_ms: None, error: "".into() });
    }
}

/// Returns the hash by which a result is known to repeat a message.
fn text_hash(text: RawJson<'_>) -> u64 {
    stable_hash(text.text().trim())
}

/// Emits the end of a turn. `--output-format json` prints nothing but this: the turn and its last words are here alone.
fn result<'a>(line: &'a Line<'_>, has_turn: bool, told: &HashSet<u64>, out: &mut Emitter<'a, '_>) {
    if !has_turn && line.origin.is_none() {
        out.emit(Fact::TurnStart);
    }
    if let Some(sum) = model_usage(line.model_usage, line.total_cost_usd) {
        out.emit(Fact::Checksum(sum));
    }
    let aborted = line.terminal_reason.get().is_some_and(|reason| reason.starts_with("aborted"));
    // A limit that was reached (`error_max_turns`) need not be marked as an error.
    let subtype = line.subtype.filled().filter(|subtype| subtype.starts_with("error"));
    let status = match (aborted, line.is_error.is_true() || subtype.is_some()) {
        (true, _) => AgentStatus::Stopped,
        (false, true) => AgentStatus::Failed,
        (false, false) => AgentStatus::Completed,
    };
    // Without a result the model's last words would seem to be the error.
    let reason = || out.raw(line.errors).or_else(|| out.line.quoted(subtype?));
    if let Some(text) = reason().filter(|_| status == AgentStatus::Failed && line.result.is_none()) {
        out.emit_made(Fact::Message { message_id: None, text });
    }
    let text = out.raw(line.result);
    let is_new = |text: &RawJson<'_>| !text.text().trim().is_empty() && !told.contains(&text_hash(*text));
    if let Some(text) = text.filter(is_new) {
        out.emit_as(line.uuid.filled(), Fact::Message { message_id: None, text });
    }
    let evidence = EndEvidence::Notification;
    out.emit(Fact::TurnEnd { status, evidence, counts_run: line.origin.is_none(), text });
}
