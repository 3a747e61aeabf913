//! Claude Code's conversations on disk.
//!
//! Flow: line → [`Line`] (one typed pass; big payloads are only located) → observations. Each line is read by itself;
//! only the last session, version and folder are remembered, so that they are not repeated. A file may have lines of
//! several sessions: a resumed one begins with lines of the session before, or a program goes on in the file of another.
//!
//! Layouts, all of which end here: sidechains inside the main file (1.0), `agent-*.jsonl` next to it (2.0),
//! `<session>/subagents/` (2.1), `subagents/workflows/wf_*/`.
//!
//! Pitfalls: one API message with n blocks is n lines with the same `message.id`; a forked agent's file opens with a
//! copy of its parent's last message; `isMeta` lines and task notifications have the user's role but are not prompts.
//!
//! To add a line type: a field in [`Line`] and an arm in `Transcript::decode_line`.

use std::{borrow::Cow, collections::HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError, digest,
    lenient::{Flag, LineText, Num, Str},
};
use subscope_model::{
    AgentEnd, Basis, CallEnd, Checksum, Claim, Clock, EventKind, Fact, PromptKind, RawJson, Sink, SourceKind,
    Spawn, SpawnBatch, SpawnMode, TitleOrigin, Usage, WorkTree, parse_rfc3339,
};

use super::{
    content::{Block, Content, Message, string_content},
    notice::{Notice, asked, is_notice, is_warmup, prompt_kind},
    teammate,
    tools::{self, HarnessResult},
};

/// Decodes one transcript file.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    hint: Hint,
    /// Session of the last line; version and folder are its.
    session: String,
    version: String,
    cwd: String,
    announced: bool,
    /// Agents of which the file has lines of progress.
    in_progress: HashSet<String>,
    summaries: Summaries,
    /// Id of the last line that says that a local command follows.
    caveat: String,
}

/// What such a line begins with. Observed: 1.0 to 2.1, public transcripts. What the command prints may have no tag.
const CAVEAT: &str = "<local-command-caveat>";

/// Summaries of conversations with the last line of each (1.0 and 2.0). A file may have those of other sessions, too.
#[derive(Debug, Default)]
struct Summaries {
    /// Summaries whose line has not come yet.
    waiting: Vec<(String, String)>,
    /// Id of the last line.
    last: String,
}

impl Summaries {
    /// Most summaries that wait for their lines: resumed sessions begin with one of each conversation of their project.
    const MOST: usize = 64;

    /// Returns the summary of the conversation up to a line, if the line is its last.
    fn take(&mut self, line: &Line<'_>) -> Option<String> {
        if let (true, Some(leaf), Some(summary)) =
            (line.kind.is("summary"), line.leaf_uuid.filled(), line.summary.filled())
        {
            if leaf == self.last {
                return Some(summary.to_owned());
            }
            if self.waiting.len() < Self::MOST {
                self.waiting.push((leaf.to_owned(), summary.to_owned()));
            }
            return None;
        }
        let uuid = line.uuid.filled()?;
        uuid.clone_into(&mut self.last);
        let found = self.waiting.iter().position(|(leaf, _)| leaf == uuid)?;
        Some(self.waiting.swap_remove(found).1)
    }
}

impl Transcript {
    /// A decoder for the file that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { hint: hint.clone(), ..Self::default() }
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
    request_id: Str<'a>,
    origin: Option<Origin<'a>>,
    timestamp: Str<'a>,
    version: Str<'a>,
    cwd: Str<'a>,
    message: Option<Message<'a>>,
    tool_use_result: Option<HarnessResult<'a>>,
    tool_denial_kind: Str<'a>,
    attachment: Option<Attachment<'a>>,
    data: Option<&'a RawValue>,
    #[serde(rename = "parentToolUseID")]
    parent_tool_use_id: Str<'a>,
    content: Str<'a>,
    custom_title: Str<'a>,
    ai_title: Str<'a>,
    agent_name: Str<'a>,
    worktree_session: Option<&'a RawValue>,
    summary: Str<'a>,
    leaf_uuid: Str<'a>,
    row_source: Str<'a>,
    model_usage: Option<&'a RawValue>,
    #[serde(rename = "totalCostUSD")]
    total_cost_usd: Option<f64>,
    retry_attempt: Num,
    max_retries: Num,
    retry_in_ms: Num,
    error: Option<&'a RawValue>,
    /// Whether it is of a local command.
    #[serde(skip)]
    is_local: bool,
}

/// Origin of a text of the user's role. Observed: Claude Code 2.1.330; a prompt of `claude -p` has none.
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

/// A message of a subagent in the main transcript, also where the subagent has a file of its own.
/// Observed: Claude Code 2.1.12 to 2.1.47, public transcripts.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct AgentProgress<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    agent_id: Str<'a>,
    message: Option<&'a RawValue>,
}

impl<'a> AgentProgress<'a> {
    fn of(line: &Line<'a>) -> Option<Self> {
        let data = line.data.filter(|_| line.kind.is("progress"))?;
        let progress: Self = serde_json::from_str(data.get()).ok()?;
        progress.kind.is("agent_progress").then_some(progress)
    }

    /// The message as the line of the subagent's own file.
    fn line(&self) -> Option<Line<'a>> {
        serde_json::from_str(self.message?.get()).ok()
    }
}

/// Emits a subagent's message in the main transcript; `call` started the agent, and is given with its first message.
fn emit_progress<'a>(agent: &'a str, call: Option<&'a str>, line: &'a Line<'a>, out: &mut Emitter<'a, '_>) {
    out.head.claim = Claim::Agent(agent, Basis::Wire);
    out.head.time = line.timestamp.get().and_then(parse_rfc3339).or(out.head.time);
    out.head.line_id = line.uuid.filled();
    if call.is_some() {
        let (agent, is_origin) = (Some(agent), true);
        out.emit(Fact::Spawn(Spawn { agent, call, is_origin, starts: true, ..Spawn::default() }));
    }
    match (line.kind.get(), &line.message) {
        (Some("assistant"), Some(message)) => {
            emit_message(message, line.request_id.filled(), line.is_api_error.is_true(), None, out);
        }
        (Some("user"), Some(_)) => user(line, out),
        _ => out.emit(Fact::Activity),
    }
}

/// The conversation was compacted.
pub(super) const COMPACTED: Fact<'static> =
    Fact::Note { kind: EventKind::CompactPost, data: RawJson { json: "{}", offset: u64::MAX } };

impl LineDecoder for Transcript {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let mut line: Line<'_> = serde_json::from_str(text.text)?;
        line.is_local = line.parent_uuid.filled() == Some(&self.caveat);
        if line.is_meta.is_true() && text.text.contains(CAVEAT) {
            line.uuid.filled().unwrap_or_default().clone_into(&mut self.caveat);
        }
        let progress = AgentProgress::of(&line);
        let nested = progress.as_ref().and_then(AgentProgress::line);
        let summary = self.summaries.take(&line);
        let Self { hint, session, version, cwd, announced, in_progress, .. } = self;
        let claim = claim(&line, hint.agent.as_deref());
        let mut out = Emitter::new(SourceKind::Transcript, Clock::Transcript, claim, text, sink);
        out.head.time = line.timestamp.get().and_then(parse_rfc3339);
        out.head.session = line.session_id.filled().or(hint.session.as_deref());
        out.head.line_id = line.uuid.filled();
        if let Some(named) = out.head.session.filter(|named| *named != session.as_str()) {
            named.clone_into(session);
            version.clear();
            cwd.clear();
        }
        // Workflow agents have no spawn call: their folder names the workflow run.
        // Observed: public reports on Claude Code 2.1.206 (`subagents/workflows/wf_*/`, no `toolUseId` in their meta).
        let is_first = !std::mem::replace(announced, true);
        if is_first && let (Some(agent), Some(run)) = (hint.agent.as_deref(), hint.workflow.as_deref()) {
            let batch = Some(SpawnBatch::Run(run));
            out.emit(Fact::Spawn(Spawn { agent: Some(agent), detached: true, batch, ..Spawn::default() }));
        }
        // The agent that sums a conversation up for a compaction. Observed: 2.1.38 and 2.1.39.
        if is_first && hint.agent.as_deref().is_some_and(|agent| agent.starts_with("acompact")) {
            out.emit(Fact::Warmup);
        }
        emit_session(&line, version, cwd, &mut out);
        if let Some(text) = summary.filter(|_| matches!(out.head.claim, Claim::Root(_))) {
            out.emit_made(Fact::Title { text: text.into(), origin: TitleOrigin::Harness });
        }
        match line.kind.get() {
            Some("assistant") => match &line.message {
                Some(message) if !message.answers_nothing() => {
                    let mode = tools::default_mode(line.version.get().unwrap_or_default());
                    emit_message(
                        message,
                        line.request_id.filled(),
                        line.is_api_error.is_true(),
                        mode,
                        &mut out,
                    );
                }
                Some(_) | None => out.emit(Fact::Activity),
            },
            Some("user") => user(&line, &mut out),
            Some("attachment") => {
                let queued =
                    line.attachment.as_ref().filter(|attachment| attachment.kind.is("queued_command"));
                emit_notice(queued.and_then(|attachment| attachment.prompt.get()), &mut out);
                out.emit(Fact::Activity);
            }
            Some("queue-operation") => emit_notice(line.content.get(), &mut out),
            Some("cost-state") => {
                if let Some(sum) = model_usage(line.model_usage, line.total_cost_usd) {
                    out.emit(Fact::Checksum(sum));
                }
            }
            Some("custom-title") => title(&line.custom_title, TitleOrigin::Person, &mut out),
            Some("agent-name") => title(&line.agent_name, TitleOrigin::Harness, &mut out),
            Some("ai-title") => title(&line.ai_title, TitleOrigin::Harness, &mut out),
            Some("worktree-state") => emit_work_tree(line.worktree_session, &mut out),
            Some("system") => system(&line, &mut out),
            Some("progress") => {
                out.emit(Fact::Activity);
                let agent = progress.as_ref().and_then(|progress| progress.agent_id.filled());
                if let (Some(agent), Some(nested)) = (agent, &nested) {
                    let call = line.parent_tool_use_id.filled();
                    let is_new = !in_progress.contains(agent) && in_progress.insert(agent.to_owned());
                    emit_progress(agent, call.filter(|_| is_new), nested, &mut out);
                }
            }
            // Book-keeping of the harness; new types are skipped like these until they are known.
            _ => {}
        }
        Ok(())
    }
}

/// The linked work tree in which the harness runs.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct WorktreeSession<'a> {
    original_cwd: Str<'a>,
    worktree_path: Str<'a>,
}

/// Emits the work tree that the session entered; `null` says that it left it.
fn emit_work_tree(state: Option<&RawValue>, out: &mut Emitter<'_, '_>) {
    let state: Option<WorktreeSession<'_>> = state.and_then(|state| serde_json::from_str(state.get()).ok());
    let Some(WorktreeSession { original_cwd, worktree_path }) = state else { return };
    if let (Some(project), Some(folder)) = (original_cwd.filled(), worktree_path.filled()) {
        out.emit_made(Fact::WorkTree(WorkTree { folder: folder.into(), project: project.into() }));
    }
}

/// Emits a name of the session.
fn title<'a>(name: &Str<'a>, origin: TitleOrigin, out: &mut Emitter<'a, '_>) {
    if let Some(text) = name.0.clone().filter(|name| !name.trim().is_empty()) {
        out.emit_made(Fact::Title { text, origin });
    }
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

/// Emits version and folder of the session when they differ from the last ones.
fn emit_session<'a>(
    line: &'a Line<'_>,
    last_version: &mut String,
    last_cwd: &mut String,
    out: &mut Emitter<'a, '_>,
) {
    let version = line.version.filled().filter(|version| *version != last_version.as_str());
    let own = matches!(out.head.claim, Claim::Root(_));
    let cwd = line.cwd.filled().filter(|cwd| own && *cwd != last_cwd.as_str());
    if let Some(version) = version {
        version.clone_into(last_version);
    }
    if let Some(cwd) = cwd {
        cwd.clone_into(last_cwd);
    }
    if version.is_some() || cwd.is_some() {
        let cwd = cwd.map(Cow::Borrowed);
        out.emit(Fact::Session { version, cwd, model: None, tells_starts: true });
    }
}

/// Emits everything in one line of a model's message.
pub(super) fn emit_message<'a>(
    message: &'a Message<'_>,
    request_id: Option<&'a str>,
    api_error: bool,
    default_mode: Option<SpawnMode>,
    out: &mut Emitter<'a, '_>,
) {
    let message_id = message.id.filled();
    let response = message.response(api_error, request_id, out.head.line_id);
    out.emit(response.map_or(Fact::Activity, Fact::Response));
    if let Content::Text(inner) = message.content
        && let Some(text) = out.line.quoted(inner)
    {
        out.emit(Fact::Message { message_id, text });
    }
    for block in message.blocks() {
        match block.kind.get() {
            Some("text") => {
                if let Some(text) = out.raw(block.text) {
                    out.emit(Fact::Message { message_id, text });
                }
            }
            Some("thinking") => out.emit(Fact::Thought { message_id, text: out.raw(block.thinking) }),
            Some("redacted_thinking") => out.emit(Fact::Thought { message_id, text: None }),
            Some("tool_use") => {
                let name = block.name.get().unwrap_or_default();
                let (id, digest) = (block.id.filled(), digest(name, block.input.map_or("", RawValue::get)));
                let begin = tools::begin(id, name, block.input, out.line, digest, default_mode);
                out.emit(Fact::CallBegin(begin));
            }
            _ => {}
        }
    }
}

fn user<'a>(line: &'a Line<'a>, out: &mut Emitter<'a, '_>) {
    let Some(message) = &line.message else { return out.emit(Fact::Activity) };
    if let Some(raw) = string_content(message, out.line) {
        return prompt(line, raw, out);
    }
    let result = line.tool_use_result.as_ref();
    let denial = tools::denial_of(line.tool_denial_kind.filled(), line.version.filled(), result);
    for block in message.blocks() {
        match block.kind.get() {
            Some("tool_result") => emit_result(block, result, denial, out),
            Some("text") => {
                if let Some(raw) = out.raw(block.text) {
                    prompt(line, raw, out);
                }
            }
            _ => out.emit(Fact::Activity),
        }
    }
}

/// Emits the result in one `tool_result` block.
pub(super) fn emit_result<'a>(
    block: &'a Block<'_>,
    result: Option<&'a HarnessResult<'a>>,
    denial: Option<&str>,
    out: &mut Emitter<'a, '_>,
) {
    let content = out.raw(block.content);
    let end = CallEnd {
        id: block.tool_use_id.filled(),
        outcome: tools::outcome(block.is_error.is_true(), denial, result, content),
        result: content,
        refused: block.is_error.is_true() && tools::refused(content),
        ..CallEnd::default()
    };
    if result.is_some_and(HarnessResult::has_deleted_team) {
        teammate::emit_team_end(out);
    }
    for (agent, end) in result.map(HarnessResult::fetched).unwrap_or_default() {
        out.emit_made(Fact::AgentEnd(AgentEnd { agent: Some(&agent), ..end }));
    }
    out.emit(Fact::CallEnd(match result {
        Some(result) => result.complete(out.line, end),
        None => end,
    }));
}

fn prompt<'a>(line: &'a Line<'_>, text: RawJson<'a>, out: &mut Emitter<'a, '_>) {
    let words = text.text();
    let is_root = matches!(out.head.claim, Claim::Root(_));
    let task = teammate::task(&words);
    // Observed: `rowSource` from 2.1.332 on.
    let is_harness = line.is_meta.is_true() || line.row_source.is("harness");
    let told = prompt_kind(&words, line.origin.as_ref().and_then(|origin| origin.kind.filled()));
    let what = match told {
        // The summary of a compaction begins no turn: the work before it continues. There was none if the user
        // requested it.
        PromptKind::Asked if line.is_compact_summary.is_true() || line.is_local => PromptKind::Local,
        // The harness's own notes for the model, as the table that `/context` prints (2.1.330), begin none either: the
        // root waits for the next prompt. After a stop hook's feedback the root appears idle until its next line.
        PromptKind::Asked if is_harness && is_root => PromptKind::Local,
        PromptKind::Asked if is_harness => PromptKind::Meta,
        // What a lead writes to a teammate is its task.
        PromptKind::Meta if !is_root && task.is_some() => PromptKind::Asked,
        told @ (PromptKind::Asked | PromptKind::Meta | PromptKind::Local | PromptKind::Interrupted) => told,
    };
    emit_notice(Some(&words), out);
    // The first line of an agent's conversation has no parent.
    let is_first = line.parent_uuid.filled().is_none() && !is_root;
    if is_first && what == PromptKind::Asked && is_warmup(&words) {
        out.emit(Fact::Warmup);
    }
    if is_root
        && what == PromptKind::Asked
        && let Some(typed) = asked(&words)
    {
        out.emit_made(Fact::Title { text: typed.into(), origin: TitleOrigin::Prompt });
    }
    if is_root && what == PromptKind::Local {
        emit_rename(&words, out);
    }
    let prompt_id = line.prompt_id.filled();
    match task.filter(|_| !is_root) {
        Some(task) => {
            let json = serde_json::Value::from(task).to_string();
            out.emit_made(Fact::Prompt { prompt_id, text: RawJson { json: &json, offset: u64::MAX }, what });
        }
        None => out.emit(Fact::Prompt { prompt_id, text, what }),
    }
}

/// Emits the name that a person gave the session, if a local command does.
fn emit_rename(words: &str, out: &mut Emitter<'_, '_>) {
    let typed = asked(words);
    if let Some(name) = typed.as_deref().and_then(|typed| typed.strip_prefix("/rename ")) {
        out.emit_made(Fact::Title { text: name.into(), origin: TitleOrigin::Person });
    }
}

/// Emits the ending that a text announces, if it is a task notification.
pub(super) fn emit_notice(text: Option<&str>, out: &mut Emitter<'_, '_>) {
    let Some(text) = text else { return };
    if let Some(notice) = Some(text).filter(|text| is_notice(text)).and_then(Notice::read) {
        out.emit_made(Fact::AgentEnd(notice.end(&mut String::new())));
    }
    teammate::emit_ends(text, out);
}

fn system<'a>(line: &'a Line<'_>, out: &mut Emitter<'a, '_>) {
    if line.subtype.is("compact_boundary") {
        out.emit(COMPACTED);
        // The summary has no line; its tokens are in the state of costs that the process writes at its end.
        out.emit(Fact::Uncounted);
    } else if line.subtype.is("local_command") {
        // A command that no model answers, and what it printed. Observed: 2.1.x, public transcripts.
        emit_rename(line.content.get().unwrap_or_default(), out);
        let text = RawJson { json: "\"\"", offset: u64::MAX };
        out.emit(Fact::Prompt { prompt_id: None, text, what: PromptKind::Local });
    } else if line.subtype.is("api_error") && line.retry_attempt.0.is_some() {
        // Observed: Claude Code 2.1.330, in the main transcript only.
        let error = line.error.and_then(|raw| serde_json::from_str::<ApiError<'_>>(raw.get()).ok());
        let status = error.as_ref().and_then(|error| error.status.0);
        let words = error.as_ref().and_then(|error| error.formatted.filled());
        let why = words.map_or_else(|| tools::api_error(None, status), str::to_owned);
        out.emit(tools::retry(None, line.retry_attempt, line.max_retries, line.retry_in_ms, why));
    } else {
        out.emit(Fact::Activity);
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
    let usage = models.values().fold(Usage::default(), |sum, model| {
        let kinds = [
            model.input_tokens,
            model.output_tokens,
            model.cache_read_input_tokens,
            model.cache_creation_input_tokens,
        ];
        sum + Usage::of_parts(kinds.map(|kind| kind.0), None)
    });
    // `as` saturates; a cost is far below 2^53 micro-dollars.
    let cost = cost_usd.filter(|usd| usd.is_finite() && *usd >= 0.0).map(|usd| (usd * 1e6).round() as i64);
    Some(Checksum { usage, cost_micro_usd: cost, part: None })
}
