//! Claude Code's conversations on disk.
//!
//! Flow: line → [`Line`] (one typed pass; big payloads are only located) → observations. Each line is read by itself;
//! only the last version and folder are remembered, so that they are not repeated.
//!
//! Layouts, all of which end here: sidechains inside the main file (1.0), `agent-*.jsonl` beside it (2.0),
//! `<session>/subagents/` (2.1), `subagents/workflows/wf_*/`.
//!
//! Pitfalls: one API message with n blocks is n lines with the same `message.id`; a forked agent's file opens with a
//! copy of its parent's last message; `isMeta` lines and task notifications have the user's role but are not prompts.
//!
//! To add a line type: a field in [`Line`] and an arm in `Transcript::read`.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Hint, LineDecoder, LineError, digest,
    lenient::{Flag, LineText, Num, Str},
};
use subscope_model::{
    Basis, CallEnd, Checksum, Claim, Clock, Decoded, EventKind, Fact, Observation, PromptKind, RawJson, Sink,
    SourceKind, SourcePosition, Spawn, SpawnBatch, SpawnMode, Usage, parse_rfc3339,
};

use super::{
    content::{Content, Message, string_content},
    notice::{Notice, is_notice, is_warmup, prompt_kind},
    tools::{self, HarnessResult},
};

/// Decodes one transcript file.
#[derive(Debug)]
pub(super) struct Transcript {
    hint: Hint,
    version: String,
    cwd: String,
    announced: bool,
}

impl Transcript {
    /// A decoder for the file that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { hint: hint.clone(), version: String::new(), cwd: String::new(), announced: false }
    }
}

/// One line. Fields of all line types together: they do not collide.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    subtype: Str<'a>,
    uuid: Str<'a>,
    parent_uuid: Str<'a>,
    session_id: Str<'a>,
    agent_id: Str<'a>,
    is_sidechain: Flag,
    is_meta: Flag,
    is_compact_summary: Flag,
    #[serde(rename = "isApiErrorMessage")]
    is_api_error: Flag,
    prompt_id: Str<'a>,
    origin: Option<Origin<'a>>,
    timestamp: Str<'a>,
    version: Str<'a>,
    cwd: Str<'a>,
    message: Option<Message<'a>>,
    tool_use_result: Option<HarnessResult<'a>>,
    tool_denial_kind: Str<'a>,
    attachment: Option<Attachment<'a>>,
    content: Str<'a>,
    model_usage: Option<&'a RawValue>,
    #[serde(rename = "totalCostUSD")]
    total_cost_usd: Option<f64>,
    retry_attempt: Num,
    max_retries: Num,
    retry_in_ms: Num,
    error: Option<&'a RawValue>,
}

/// Who a text of the user's role comes from. Observed: Claude Code 2.1.330; a prompt of `claude -p` has none.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Origin<'a> {
    kind: Str<'a>,
}

/// Why a request is tried again.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ApiError<'a> {
    status: Num,
    formatted: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Attachment<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    prompt: Str<'a>,
}

impl LineDecoder for Transcript {
    fn decode_line(
        &mut self,
        place: SourcePosition,
        line: LineText<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), LineError> {
        let entry: Line<'_> = serde_json::from_str(line.text)?;
        self.read(place, line, &entry, sink);
        Ok(())
    }
}

impl Transcript {
    fn read<'a>(
        &'a mut self,
        place: SourcePosition,
        text: LineText<'a>,
        line: &'a Line<'a>,
        sink: &mut Sink<'_>,
    ) {
        let Self { hint, version, cwd, announced } = self;
        let mut out = Observation {
            place,
            kind: SourceKind::Transcript,
            time: line.timestamp.get().and_then(parse_rfc3339),
            clock: Clock::Transcript,
            session: line.session_id.filled().or(hint.session.as_deref()),
            line_id: line.uuid.filled(),
            claim: claim(line, hint.agent.as_deref()),
            fact: Fact::Activity,
        };
        if !*announced {
            *announced = true;
            emit_workflow(hint, &mut out, sink);
        }
        emit_session(line, version, cwd, &mut out, sink);
        match line.kind.get() {
            Some("assistant") => assistant(line, text, &mut out, sink),
            Some("user") => user(line, text, &mut out, sink),
            Some("attachment") => {
                let queued =
                    line.attachment.as_ref().filter(|attachment| attachment.kind.is("queued_command"));
                emit_notice(queued.and_then(|attachment| attachment.prompt.get()), &mut out, sink);
                emit(Fact::Activity, &mut out, sink);
            }
            Some("queue-operation") => emit_notice(line.content.get(), &mut out, sink),
            Some("cost-state") => checksum(line, &mut out, sink),
            Some("system") => system(line, &mut out, sink),
            Some("progress") => emit(Fact::Activity, &mut out, sink),
            // Book-keeping of the harness; new types are skipped like these until they are known.
            _ => {}
        }
    }
}

/// Sends one fact.
fn emit<'a>(fact: Fact<'a>, out: &mut Observation<'a>, sink: &mut Sink<'_>) {
    out.fact = fact;
    sink(Decoded::Observation(out));
}

fn claim<'a>(line: &'a Line<'_>, file_agent: Option<&'a str>) -> Claim<'a> {
    if let Some(agent) =
        line.agent_id.filled().filter(|_| file_agent.is_some() || line.is_sidechain.is_true())
    {
        return Claim::Agent(agent, Basis::Wire);
    }
    if let Some(agent) = file_agent {
        return Claim::Agent(agent, Basis::Link);
    }
    match line.uuid.filled() {
        Some(uuid) if line.is_sidechain.is_true() => {
            Claim::Chain { line: uuid, parent: line.parent_uuid.filled() }
        }
        _ => Claim::Root(Basis::Link),
    }
}

/// Workflow agents have no spawn call: their folder says where they come from.
/// Observed: public reports on Claude Code 2.1.206 (`subagents/workflows/wf_*/`, no `toolUseId` in their meta).
fn emit_workflow<'a>(hint: &'a Hint, out: &mut Observation<'a>, sink: &mut Sink<'_>) {
    if let (Some(agent), Some(run)) = (hint.agent.as_deref(), hint.workflow.as_deref()) {
        let batch = Some(SpawnBatch::Run(run));
        emit(Fact::Spawn(Spawn { agent: Some(agent), detached: true, batch, ..Spawn::default() }), out, sink);
    }
}

/// Emits version and folder of the session when they differ from the last ones.
fn emit_session<'a>(
    line: &'a Line<'_>,
    last_version: &mut String,
    last_cwd: &mut String,
    out: &mut Observation<'a>,
    sink: &mut Sink<'_>,
) {
    let version = line.version.filled().filter(|version| *version != last_version.as_str());
    let own = matches!(out.claim, Claim::Root(_));
    let cwd = line.cwd.filled().filter(|cwd| own && *cwd != last_cwd.as_str());
    if version.is_none() && cwd.is_none() {
        return;
    }
    if let Some(version) = version {
        version.clone_into(last_version);
    }
    if let Some(cwd) = cwd {
        cwd.clone_into(last_cwd);
    }
    emit(Fact::Session { version, cwd: cwd.map(Cow::Borrowed), model: None, tells_starts: true }, out, sink);
}

fn assistant<'a>(line: &'a Line<'_>, text: LineText<'a>, out: &mut Observation<'a>, sink: &mut Sink<'_>) {
    let Some(message) = &line.message else { return emit(Fact::Activity, out, sink) };
    let mode = tools::default_mode(line.version.get().unwrap_or_default());
    emit_message(message, text, line.is_api_error.is_true(), mode, out, sink);
}

/// Emits everything in one line of a model's message.
pub(super) fn emit_message<'a>(
    message: &'a Message<'_>,
    text: LineText<'a>,
    api_error: bool,
    default_mode: Option<SpawnMode>,
    out: &mut Observation<'a>,
    sink: &mut Sink<'_>,
) {
    let message_id = message.id.filled();
    match message.response(api_error) {
        Some(response) => emit(Fact::Response(response), out, sink),
        None => emit(Fact::Activity, out, sink),
    }
    if let Content::Text(inner) = message.content
        && let Some(raw) = text.quoted(inner)
    {
        emit(Fact::Message { message_id, text: raw }, out, sink);
    }
    for block in message.blocks() {
        match block.kind.get() {
            Some("text") => {
                if let Some(raw) = block.text {
                    emit(Fact::Message { message_id, text: text.raw(raw) }, out, sink);
                }
            }
            Some("thinking") => {
                emit(Fact::Thought { message_id, text: block.thinking.map(|raw| text.raw(raw)) }, out, sink);
            }
            Some("redacted_thinking") => emit(Fact::Thought { message_id, text: None }, out, sink),
            Some("tool_use") => {
                let name = block.name.get().unwrap_or_default();
                let digest = digest(name, block.input.map_or("", RawValue::get));
                emit(
                    Fact::CallBegin(tools::begin(
                        block.id.filled(),
                        name,
                        block.input,
                        text,
                        digest,
                        default_mode,
                    )),
                    out,
                    sink,
                );
            }
            _ => {}
        }
    }
}

fn user<'a>(line: &'a Line<'a>, text: LineText<'a>, out: &mut Observation<'a>, sink: &mut Sink<'_>) {
    let Some(message) = &line.message else { return emit(Fact::Activity, out, sink) };
    if let Some(raw) = string_content(message, text) {
        return prompt(line, raw, out, sink);
    }
    let result = line.tool_use_result.as_ref();
    for block in message.blocks() {
        match block.kind.get() {
            Some("tool_result") => {
                emit_result(block, result, line.tool_denial_kind.filled(), text, out, sink)
            }
            Some("text") => {
                if let Some(raw) = block.text {
                    prompt(line, text.raw(raw), out, sink);
                }
            }
            _ => emit(Fact::Activity, out, sink),
        }
    }
}

/// Emits the result in one `tool_result` block.
pub(super) fn emit_result<'a>(
    block: &'a super::content::Block<'_>,
    result: Option<&'a HarnessResult<'a>>,
    denial: Option<&str>,
    text: LineText<'a>,
    out: &mut Observation<'a>,
    sink: &mut Sink<'_>,
) {
    let content = block.content.map(|raw| text.raw(raw));
    let outcome = tools::outcome(block.is_error.is_true(), denial, result, content);
    let end = CallEnd {
        id: block.tool_use_id.filled(),
        name: None,
        digest: 0,
        outcome,
        result: content,
        duration_ms: None,
        spawn: result.and_then(|result| result.spawn(text)),
        refused: block.is_error.is_true() && tools::refused(content),
        stopped: result.and_then(HarnessResult::stopped),
        resumed: result.and_then(HarnessResult::resumed),
        batch_run: result.and_then(HarnessResult::workflow_run),
        left_running: result.is_some_and(HarnessResult::left_running),
    };
    emit(Fact::CallEnd(end), out, sink);
}

fn prompt<'a>(line: &'a Line<'_>, raw: RawJson<'a>, out: &mut Observation<'a>, sink: &mut Sink<'_>) {
    let words = raw.text();
    let told = prompt_kind(&words, line.origin.as_ref().and_then(|origin| origin.kind.filled()));
    let what = match told {
        // Compaction goes on with what was at work before, and nothing was where the user asked for it.
        PromptKind::Asked if line.is_compact_summary.is_true() => PromptKind::Local,
        // So does what the harness notes for the model, as the table that `/context` prints (2.1.330): it waits for the next
        // prompt. After a stop hook's feedback the root seems to rest until its next line.
        PromptKind::Asked if line.is_meta.is_true() && matches!(out.claim, Claim::Root(_)) => {
            PromptKind::Local
        }
        PromptKind::Asked if line.is_meta.is_true() => PromptKind::Meta,
        told @ (PromptKind::Asked | PromptKind::Meta | PromptKind::Local | PromptKind::Interrupted) => told,
    };
    emit_notice(Some(&words), &mut out.clone(), sink);
    // The first line of an agent's conversation has no parent.
    let is_first = line.parent_uuid.filled().is_none() && !matches!(out.claim, Claim::Root(_));
    if is_first && what == PromptKind::Asked && is_warmup(&words) {
        emit(Fact::Warmup, out, sink);
    }
    emit(Fact::Prompt { prompt_id: line.prompt_id.filled(), text: raw, what }, out, sink);
}

/// Emits the ending that a text announces, if it is a task notification.
pub(super) fn emit_notice(text: Option<&str>, out: &mut Observation<'_>, sink: &mut Sink<'_>) {
    let Some(text) = text.filter(|text| is_notice(text)) else { return };
    let Some(notice) = Notice::read(text) else { return };
    let mut buffer = String::new();
    let told = Observation { fact: Fact::AgentEnd(notice.end(&mut buffer)), ..out.clone() };
    sink(Decoded::Observation(&told));
}

fn system<'a>(line: &'a Line<'_>, out: &mut Observation<'a>, sink: &mut Sink<'_>) {
    if line.subtype.is("compact_boundary") {
        let data = RawJson { json: "{}", offset: u64::MAX };
        emit(Fact::Note { kind: EventKind::CompactPost, data }, out, sink);
    } else if line.subtype.is("api_error") && line.retry_attempt.0.is_some() {
        // Observed: Claude Code 2.1.330, in the main transcript only.
        let error = line.error.and_then(|raw| serde_json::from_str::<ApiError<'_>>(raw.get()).ok());
        let status = error.as_ref().and_then(|error| error.status.0);
        let words = error.as_ref().and_then(|error| error.formatted.filled());
        let why = words.map_or_else(|| tools::api_error(None, status), str::to_owned);
        emit(tools::retry(None, line.retry_attempt, line.max_retries, line.retry_in_ms, why), out, sink);
    } else {
        emit(Fact::Activity, out, sink);
    }
}

fn checksum<'a>(line: &'a Line<'_>, out: &mut Observation<'a>, sink: &mut Sink<'_>) {
    if let Some(sum) = model_usage(line.model_usage, line.total_cost_usd) {
        emit(Fact::Checksum(sum), out, sink);
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ModelSum {
    input_tokens: Num,
    output_tokens: Num,
    cache_read_input_tokens: Num,
    cache_creation_input_tokens: Num,
}

/// Returns the session's own sum over all models, where the line has one.
pub(super) fn model_usage(raw: Option<&RawValue>, cost_usd: Option<f64>) -> Option<Checksum> {
    let models: std::collections::BTreeMap<String, ModelSum> = serde_json::from_str(raw?.get()).ok()?;
    let number = |field: Num| field.0.unwrap_or(0);
    let usage = models.values().fold(Usage::default(), |sum, model| {
        sum + Usage::new(
            number(model.input_tokens),
            number(model.output_tokens),
            number(model.cache_read_input_tokens),
            number(model.cache_creation_input_tokens),
        )
    });
    // `as` saturates; a cost is far below 2^53 micro-dollars.
    let cost = cost_usd.filter(|usd| usd.is_finite() && *usd >= 0.0).map(|usd| (usd * 1e6).round() as i64);
    Some(Checksum { usage, cost_micro_usd: cost })
}
