//! What `claude -p --output-format stream-json` prints, all versions.
//!
//! Flow: line → [`Line`] → observations. Remembered inside the source: which spawn call belongs to which agent (so
//! that it is told once), and the message that partial events belong to.
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
    Decoder, Hint,
    lenient::{Flag, LineText, Num, Str},
    lines::{Cut, LineCutter, read_line},
};
use subscope_model::{
    AgentStatus, Basis, CallEnd, Claim, Clock, Decoded, EndEvidence, EventKind, Fact, Observation, Outcome,
    RawJson, Response, Sink, SourceKind, SourcePosition, Spawn, parse_rfc3339,
};

use self::tasks::{task_notification, task_started, task_updated, workflow_progress};
use super::{
    content::{Message, Tokens, string_content},
    notice::prompt_kind,
    tools::{self, HarnessResult},
    transcript::{emit_message, emit_notice, emit_result, model_usage},
};

/// Decodes one recorded or piped stream.
#[derive(Debug)]
pub(super) struct Stream {
    cutter: LineCutter,
    state: State,
}

#[derive(Debug)]
struct State {
    hint: Hint,
    /// Spawn calls whose agent was emitted.
    told: HashSet<String>,
    /// The message that partial events without an id belong to.
    partial_message: String,
    /// The version that the last `init` named; empty before 2.0.
    version: String,
}

impl Stream {
    /// A decoder for the stream that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        let state = State {
            hint: hint.clone(),
            told: HashSet::new(),
            partial_message: String::new(),
            version: String::new(),
        };
        Self { cutter: LineCutter::new(hint.source), state }
    }
}

impl Decoder for Stream {
    fn push(&mut self, chunk: &[u8], sink: &mut Sink<'_>) {
        let Self { cutter, state } = self;
        cutter.push(chunk, &mut |place, cut| state.take(place, cut, sink));
    }

    fn flush(&mut self, sink: &mut Sink<'_>) {
        let Self { cutter, state } = self;
        cutter.flush(&mut |place, cut| state.take(place, cut, sink));
    }

    fn skip_to(&mut self, line: u64, offset: u64) {
        self.cutter.skip_to(line, offset);
    }
}

/// One line. Fields of all line types together: they do not collide.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Str<'a>,
    #[serde(borrow, default)]
    subtype: Str<'a>,
    #[serde(borrow, default)]
    uuid: Str<'a>,
    #[serde(borrow, default)]
    session_id: Str<'a>,
    #[serde(borrow, default)]
    timestamp: Str<'a>,
    #[serde(borrow, default)]
    parent_tool_use_id: Str<'a>,
    #[serde(borrow, default)]
    agent_id: Str<'a>,
    #[serde(borrow, default)]
    subagent_type: Str<'a>,
    #[serde(borrow, default)]
    task_description: Str<'a>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_use_result: Option<HarnessResult<'a>>,
    #[serde(borrow, default)]
    tool_result_meta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    cwd: Str<'a>,
    #[serde(borrow, default)]
    model: Str<'a>,
    #[serde(borrow, default)]
    claude_code_version: Str<'a>,
    #[serde(borrow, default)]
    task_id: Str<'a>,
    #[serde(borrow, default)]
    run_id: Str<'a>,
    #[serde(borrow, default)]
    tool_use_id: Str<'a>,
    #[serde(borrow, default)]
    tool_name: Str<'a>,
    #[serde(borrow, default)]
    task_type: Str<'a>,
    #[serde(borrow, default)]
    parent_task_id: Str<'a>,
    #[serde(borrow, default)]
    description: Str<'a>,
    #[serde(borrow, default)]
    prompt: Option<&'a RawValue>,
    #[serde(default)]
    is_backgrounded: Flag,
    #[serde(default)]
    spawn_depth: Num,
    #[serde(borrow, default)]
    patch: Option<Patch<'a>>,
    #[serde(borrow, default)]
    status: Str<'a>,
    #[serde(borrow, default)]
    summary: Option<&'a RawValue>,
    #[serde(default)]
    summary_is_report: Flag,
    #[serde(default)]
    usage: Option<TaskUsage>,
    #[serde(borrow, default)]
    workflow_progress: Option<&'a RawValue>,
    #[serde(default)]
    heartbeat: Flag,
    #[serde(borrow, default)]
    subagent_retry: Option<SubagentRetry<'a>>,
    #[serde(default)]
    attempt: Num,
    #[serde(default)]
    max_retries: Num,
    #[serde(default)]
    retry_delay_ms: Num,
    #[serde(default)]
    error_status: Num,
    #[serde(borrow, default)]
    error: Str<'a>,
    #[serde(default)]
    is_error: Flag,
    #[serde(borrow, default)]
    terminal_reason: Str<'a>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    origin: Option<&'a RawValue>,
    #[serde(rename = "modelUsage", borrow, default)]
    model_usage: Option<&'a RawValue>,
    #[serde(default)]
    total_cost_usd: Option<f64>,
    #[serde(borrow, default)]
    event: Option<PartialEvent<'a>>,
    #[serde(borrow, default)]
    api_message_id: Str<'a>,
}

#[derive(Deserialize)]
struct Patch<'a> {
    #[serde(borrow, default)]
    status: Str<'a>,
    #[serde(default)]
    end_time: Num,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(default)]
    is_backgrounded: Flag,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TaskUsage {
    total_tokens: Num,
    tool_uses: Num,
}

#[derive(Deserialize)]
struct SubagentRetry<'a> {
    #[serde(borrow, default)]
    agent_id: Str<'a>,
    #[serde(default)]
    attempt: Num,
    #[serde(default)]
    max_retries: Num,
    #[serde(default)]
    retry_delay_ms: Num,
    #[serde(default)]
    error_status: Num,
    #[serde(borrow, default)]
    error_category: Str<'a>,
}

#[derive(Deserialize)]
struct PartialEvent<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Str<'a>,
    #[serde(borrow, default)]
    message: Option<PartialMessage<'a>>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(default)]
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct PartialMessage<'a> {
    #[serde(borrow, default)]
    id: Str<'a>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    stop_reason: Str<'a>,
}

#[derive(Deserialize)]
struct ResultMeta<'a> {
    #[serde(borrow, default)]
    non_execution_kind: Str<'a>,
}

fn emit<'a>(fact: Fact<'a>, out: &mut Observation<'a>, sink: &mut Sink<'_>) {
    out.fact = fact;
    sink(Decoded::Observation(out));
}

impl State {
    fn take(&mut self, place: SourcePosition, cut: Cut<'_>, sink: &mut Sink<'_>) {
        read_line(place, cut, sink, &mut |line, sink| {
            let entry: Line<'_> = serde_json::from_str(line.text)?;
            self.read(place, line, &entry, sink);
            Ok(())
        });
    }

    fn read<'a>(
        &'a mut self,
        place: SourcePosition,
        text: LineText<'a>,
        line: &'a Line<'a>,
        sink: &mut Sink<'_>,
    ) {
        let Self { hint, told, partial_message, version } = self;
        if let Some(named) = line.claude_code_version.filled() {
            named.clone_into(version);
        }
        let mut out = Observation {
            place,
            kind: SourceKind::Stream,
            time: line.timestamp.get().and_then(parse_rfc3339),
            clock: Clock::Stream,
            session: line.session_id.filled().or(hint.session.as_deref()),
            line_id: line.uuid.filled(),
            claim: claim(line),
            fact: Fact::Activity,
        };
        emit_spawn_link(told, line, &mut out, sink);
        match line.kind.get() {
            Some("assistant") => {
                if let Some(message) = read_message(line) {
                    emit_message(&message, text, false, tools::default_mode(version), &mut out.clone(), sink);
                }
            }
            Some("user") => {
                if let Some(message) = read_message(line) {
                    user(line, &message, text, &mut out.clone(), sink);
                }
            }
            Some("system") => system(line, text, &mut out, sink),
            Some("tool_progress") => tool_progress(line, &mut out, sink),
            Some("result") => result(line, text, &mut out, sink),
            Some("stream_event") => partial(partial_message, line, &out, sink),
            _ => {}
        }
    }
}

/// Emits once for each spawn call which agent's lines carry it.
fn emit_spawn_link<'a>(
    told: &mut HashSet<String>,
    line: &'a Line<'_>,
    out: &mut Observation<'a>,
    sink: &mut Sink<'_>,
) {
    let Some(call) = spawn_call(line).filter(|_| !line.kind.is("tool_progress")) else {
        return;
    };
    if told.contains(call) {
        return;
    }
    told.insert(call.to_owned());
    let spawn = Spawn {
        agent: line.agent_id.filled(),
        call: Some(call),
        agent_type: line.subagent_type.0.clone(),
        description: line.task_description.0.clone(),
        is_origin: true,
        ..Spawn::default()
    };
    emit(Fact::Spawn(spawn), out, sink);
}

/// Emits the final usage of the main thread's messages, which only partial events have.
fn partial(partial_message: &mut String, line: &Line<'_>, out: &Observation<'_>, sink: &mut Sink<'_>) {
    let Some(event) = &line.event else { return };
    if let Some(id) = event.message.as_ref().and_then(|message| message.id.filled()) {
        id.clone_into(partial_message);
    }
    let Some(stop_reason) = event.delta.as_ref().and_then(|delta| delta.stop_reason.filled()) else { return };
    let message_id = line.api_message_id.filled().unwrap_or(partial_message);
    if !event.kind.is("message_delta") || message_id.is_empty() {
        return;
    }
    let response = Response {
        message_id,
        model: None,
        usage: event.usage.as_ref().map(Tokens::usage),
        cache_write_1h: event.usage.as_ref().map_or(0, Tokens::cache_write_1h),
        has_stop_reason: true,
        ends_turn: stop_reason == "end_turn",
        content: (0, 0),
        has_call: stop_reason == "tool_use",
        has_text: false,
        synthetic: false,
        api_error: false,
    };
    let told = Observation { fact: Fact::Response(response), ..out.clone() };
    sink(Decoded::Observation(&told));
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

fn read_message<'a>(line: &'a Line<'a>) -> Option<Message<'a>> {
    serde_json::from_str(line.message?.get()).ok()
}

fn user<'a>(
    line: &'a Line<'a>,
    message: &'a Message<'a>,
    text: LineText<'a>,
    out: &mut Observation<'a>,
    sink: &mut Sink<'_>,
) {
    if let Some(raw) = string_content(message, text) {
        return prompt(raw, out, sink);
    }
    let result = line.tool_use_result.as_ref();
    let metas: Vec<ResultMeta<'_>> =
        line.tool_result_meta.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let denial = metas.iter().find_map(|meta| meta.non_execution_kind.filled());
    for block in message.blocks() {
        match block.kind.get() {
            Some("tool_result") => emit_result(block, result, denial, text, &mut out.clone(), sink),
            Some("text") => {
                if let Some(raw) = block.text {
                    prompt(text.raw(raw), out, sink);
                }
            }
            _ => {}
        }
    }
}

fn prompt<'a>(raw: RawJson<'a>, out: &mut Observation<'a>, sink: &mut Sink<'_>) {
    let words = raw.text();
    emit_notice(Some(&words), &mut out.clone(), sink);
    emit(Fact::Prompt { prompt_id: None, text: raw, what: prompt_kind(&words, None) }, out, sink);
}

/// Whether a task is an agent and not a shell. Versions that do not tell start agents only.
fn is_agent_task(line: &Line<'_>) -> bool {
    line.task_type.get().is_none_or(|kind| kind.ends_with("agent") || kind.ends_with("teammate"))
}

fn system<'a>(line: &'a Line<'_>, text: LineText<'a>, out: &mut Observation<'a>, sink: &mut Sink<'_>) {
    match line.subtype.get() {
        Some("init") => {
            let version = line.claude_code_version.filled();
            let fact = Fact::Session {
                version,
                cwd: line.cwd.0.clone(),
                model: line.model.filled(),
                tells_starts: version.is_some_and(tools::tells_starts),
            };
            emit(fact, out, sink);
        }
        Some("task_started") if is_agent_task(line) => task_started(line, text, out, sink),
        Some("task_progress") if line.workflow_progress.is_some() => workflow_progress(line, out, sink),
        Some("task_progress") => {
            let usage = line.usage.as_ref();
            let fact = Fact::Progress {
                agent: line.task_id.filled(),
                message: line.description.0.clone(),
                tool_calls: usage.and_then(|usage| usage.tool_uses.0),
                total_tokens: usage.and_then(|usage| usage.total_tokens.0),
            };
            emit(fact, out, sink);
        }
        Some("task_updated") => task_updated(line, text, out, sink),
        Some("task_notification") => task_notification(line, text, out, sink),
        Some("permission_denied") => permission_denied(line, out, sink),
        // Observed: Claude Code 2.1.110 to 2.1.330, for requests of the main thread; of agents' `tool_progress` tells.
        Some("api_retry") => {
            let why = tools::api_error(line.error.filled(), line.error_status.0);
            emit(tools::retry(None, line.attempt, line.max_retries, line.retry_delay_ms, why), out, sink);
        }
        Some("compact_boundary") => {
            emit(
                Fact::Note { kind: EventKind::CompactPost, data: RawJson { json: "{}", offset: u64::MAX } },
                out,
                sink,
            );
        }
        _ => {}
    }
}

fn permission_denied<'a>(line: &'a Line<'_>, out: &mut Observation<'a>, sink: &mut Sink<'_>) {
    if let Some(agent) = line.agent_id.filled() {
        out.claim = Claim::Agent(agent, Basis::Wire);
    }
    let end = CallEnd {
        id: line.tool_use_id.filled(),
        name: line.tool_name.filled(),
        digest: 0,
        outcome: Outcome::Denied,
        result: line.message.map(|raw| RawJson { json: raw.get(), offset: u64::MAX }),
        duration_ms: None,
        spawn: None,
        refused: false,
        stopped: None,
        resumed: None,
        batch_run: None,
        left_running: false,
    };
    emit(Fact::CallEnd(end), out, sink);
}

fn tool_progress<'a>(line: &'a Line<'_>, out: &mut Observation<'a>, sink: &mut Sink<'_>) {
    if let Some(retry) = &line.subagent_retry {
        let why = tools::api_error(retry.error_category.filled(), retry.error_status.0);
        let agent = retry.agent_id.filled();
        emit(tools::retry(agent, retry.attempt, retry.max_retries, retry.retry_delay_ms, why), out, sink);
    } else if line.heartbeat.is_true() {
        emit(Fact::Heartbeat, out, sink);
    } else if line.tool_name.get().is_some_and(|name| tools::class(name) == subscope_model::ToolClass::Spawn)
    {
        // The same line without a retry says that the retry is over.
        let over = Fact::Retry { agent: None, attempt: 0, limit: 0, delay_ms: None, error: "".into() };
        emit(over, out, sink);
    }
}

fn result<'a>(line: &'a Line<'_>, text: LineText<'a>, out: &mut Observation<'a>, sink: &mut Sink<'_>) {
    if let Some(sum) = model_usage(line.model_usage, line.total_cost_usd) {
        emit(Fact::Checksum(sum), out, sink);
    }
    let aborted = line.terminal_reason.get().is_some_and(|reason| reason.starts_with("aborted"));
    let status = match (aborted, line.is_error.is_true()) {
        (true, _) => AgentStatus::Stopped,
        (false, true) => AgentStatus::Failed,
        (false, false) => AgentStatus::Completed,
    };
    let fact = Fact::TurnEnd {
        status,
        evidence: EndEvidence::Notification,
        counts_run: line.origin.is_none(),
        text: line.result.map(|raw| text.raw(raw)),
    };
    emit(fact, out, sink);
}
