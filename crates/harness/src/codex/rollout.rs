//! The rollout of one thread.
//!
//! Flow: line → [`Line`] → the payload of its type → observations of the thread: the root, or a subagent. Remembered: the
//! thread, its root and its model; calls that have ended by a typed item; whether responses have records of their own.
//!
//! Versions before 0.32 write no envelope: a line is a payload itself, without a time, and the first one names the thread.
//! Those without `task_started` (up to 0.98) do not say that a turn has ended: a last text without calls ends it.
//!
//! Pitfalls: what a turn left running is reported after its end, up to seconds later. A child that was forked begins with a
//! copy of its parent's lines, which end where `subagent_history_start_ordinal` says. A command's typed item may come
//! long after its output, and has more data. In 0.118 `token_count` repeats itself, and a child that failed ends like one without a message; the parent's rollout
//! has the reason.

use std::collections::{BTreeMap, HashSet, VecDeque};

use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError,
    lenient::{LineText, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallEnd, Claim, Clock, EndEvidence, EventKind, Fact, Outcome, Parent,
    PromptKind, RawJson, Response, Sink, SourceKind, Spawn, SpawnMode, SpawnResult, TitleOrigin, ToolClass,
    Usage, parse_rfc3339,
};

use super::{
    forks::name_fork,
    layout::Meta,
    lines::{
        AgentOutput, Counts, Item, Line, McpResult, Notification, Opening, Payload, ThreadState, Tokens,
    },
    prompts::emit_prompt,
    tools::{self, first_text, words},
};
use crate::common::{
    emit_failure,
    turn_gap::{TurnBoundary, TurnGap},
};

/// Decodes one rollout.
#[derive(Debug)]
pub(super) struct Rollout {
    thread: String,
    root: String,
    /// Open calls without an id, by the names that their places give them.
    unnamed: VecDeque<String>,
    /// Lines with lesser numbers are a copy of the parent's.
    copied_below: u64,
    model: String,
    /// Calls that a typed item has ended.
    ended: HashSet<String>,
    /// Calls that have begun.
    begun: HashSet<String>,
    /// Calls of the tool that starts agents.
    spawning: HashSet<String>,
    /// Whether responses have records of their own.
    has_records: bool,
    /// Whether the tokens of a response are known.
    has_responded: bool,
    /// Whether the model has said or called anything: then it has used tokens, also where no line says how many.
    has_answered: bool,
    /// The last total of counted tokens.
    counted: Tokens,
    /// Totals that went back: to 0 in a new process, or for a review, which is counted by itself before the total goes on.
    interrupted: Vec<Tokens>,
    /// Number of records of responses.
    records: u64,
    /// Whether turns have records of their own.
    has_tasks: bool,
    /// The error of the turn, as JSON, until the model goes on or the turn ends.
    failure: Option<String>,
    /// Tier of service of the next responses.
    tier: ServiceTier,
    /// Time of the last line that has one: another's, whose time cannot be read, is not before it.
    last_time: Option<i64>,
    /// Lines after the end of a turn are of that turn until another begins.
    gap: TurnGap,
}

/// What responses are billed by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ServiceTier {
    /// The list price.
    #[default]
    Standard,
    /// Half of it.
    Flex,
    /// A price that depends on the model.
    Other,
}

impl ServiceTier {
    fn of(word: &str) -> Self {
        match word {
            "" | "default" | "auto" | "standard" => Self::Standard,
            "flex" => Self::Flex,
            _ => Self::Other,
        }
    }
}

const NOTIFIES: &str = "<subagent_notification>";
/// Beginning of the message that gives a child its task.
const NEW_TASK: &str = "Message Type: NEW_TASK";
/// The conversation was compacted.
const COMPACTED: Fact<'static> =
    Fact::Note { kind: EventKind::CompactPost, data: RawJson { json: "{}", offset: u64::MAX } };

impl Rollout {
    /// A decoder for the source that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        let root = hint.session.clone().unwrap_or_default();
        Self {
            thread: hint.agent.clone().unwrap_or_else(|| root.clone()),
            root,
            unnamed: VecDeque::new(),
            copied_below: 0,
            model: String::new(),
            ended: HashSet::new(),
            begun: HashSet::new(),
            spawning: HashSet::new(),
            has_records: false,
            has_responded: false,
            has_answered: false,
            counted: Tokens::default(),
            interrupted: Vec::new(),
            records: 0,
            has_tasks: false,
            failure: None,
            tier: ServiceTier::default(),
            last_time: None,
            gap: TurnGap::default(),
        }
    }

    /// Reads the first line: which thread this is. A second one is the copied parent's.
    fn open<'a>(&mut self, raw: &'a RawValue, text: LineText<'a>, time: Option<i64>, sink: &mut Sink<'_>) {
        let meta: Meta<'a> = serde_json::from_str(raw.get()).unwrap_or_default();
        let opening: Opening<'a> = serde_json::from_str(raw.get()).unwrap_or_default();
        let Some(thread) = meta.id.filled() else { return };
        // The name of a file may be that of a copy: its first line counts.
        let is_first = text.place.offset == 0;
        if self.copied_below > 0 || !is_first && self.thread != thread {
            return;
        }
        thread.clone_into(&mut self.thread);
        if self.root.is_empty() {
            let root = meta.root().or(meta.parent()).unwrap_or(thread);
            root.clone_into(&mut self.root);
        }
        self.copied_below = opening.subagent_history_start_ordinal.0.unwrap_or(0);
        let (own, root) = (self.thread.clone(), self.root.clone());
        let mut out = self.emitter(&own, &root, text, time, sink);
        name_fork(&meta, &mut out);
        if meta.is_own() {
            out.emit(Fact::Warmup);
        }
        let Some(parent) = meta.parent().map(str::to_owned).filter(|_| own != root) else {
            return out.emit_made(Fact::Session {
                version: opening.cli_version.filled(),
                cwd: opening.cwd.0.clone(),
                model: None,
                tells_starts: true,
            });
        };
        let parent = if parent == root { Parent::Root } else { Parent::Agent(&parent) };
        let spawn = meta.source.spawn.unwrap_or_default();
        // Both fields are equal where both are present.
        let filled = |name: Str<'a>, other: Str<'a>| {
            [name, other].into_iter().find_map(|name| name.0.filter(|name| !name.is_empty()))
        };
        let path = filled(spawn.agent_path, meta.agent_path);
        out.emit_made(Fact::Spawn(Spawn {
            agent: Some(&own),
            parent: Some(parent),
            agent_type: filled(spawn.agent_role, meta.agent_role),
            name: filled(spawn.agent_nickname, meta.agent_nickname),
            description: path.as_deref().and_then(|path| path.rsplit('/').next()).map(Into::into),
            mode: Some(SpawnMode::Foreground),
            starts: true,
            ..Spawn::default()
        }));
    }

    fn emitter<'o, 's>(
        &self,
        thread: &'o str,
        root: &'o str,
        text: LineText<'o>,
        time: Option<i64>,
        sink: &'s mut Sink<'_>,
    ) -> Emitter<'o, 's> {
        let claim = if thread == root { Claim::Root(Basis::Wire) } else { Claim::Agent(thread, Basis::Wire) };
        let mut out = Emitter::new(SourceKind::Transcript, Clock::Transcript, claim, text, sink);
        out.head.time = time;
        out.head.session = Some(root).filter(|root| !root.is_empty());
        out
    }

    /// Reads a line without an envelope (before 0.32).
    fn bare<'a>(&mut self, line: &Line<'a>, time: Option<i64>, text: LineText<'a>, sink: &mut Sink<'_>) {
        let id = line.id.filled().filter(|_| line.kind.get().is_none());
        if let Some(id) = id.filter(|id| self.thread.is_empty() || self.thread == *id) {
            id.clone_into(&mut self.thread);
            id.clone_into(&mut self.root);
        }
        let (thread, root) = (self.thread.clone(), self.root.clone());
        let mut out = self.emitter(&thread, &root, text, time, sink);
        if id.is_some() {
            return out.emit(Fact::Activity);
        }
        let payload: Payload<'_> = serde_json::from_str(text.text).unwrap_or_default();
        let Some(kind) = payload.kind.filled() else { return };
        let raw = first_text(payload.content);
        match kind {
            // What the program adds to the conversation is in elements.
            "message" if payload.role.is("user") && words(raw).trim_start().starts_with('<') => {
                out.emit(Fact::Activity);
            }
            "message" if payload.role.is("user") => emit_prompt(raw, PromptKind::Asked, &mut out),
            "message" => {
                message(payload.id.filled(), raw, &mut out);
                self.response_item(&payload, &mut out);
            }
            "reasoning" => thought(first_text(payload.summary), &mut out),
            _ => self.response_item(&payload, &mut out),
        }
    }

    /// Returns whether a turn begins or ends with a line.
    fn boundary(&self, kind: &str, payload: &Payload<'_>) -> TurnBoundary {
        let is_begin = match payload.kind.get().unwrap_or_default() {
            "task_complete" | "turn_aborted" if kind == "event_msg" => return TurnBoundary::End,
            "task_started" | "user_message" => kind == "event_msg",
            "item_completed" => payload.item.as_ref().is_some_and(|item| item.kind.is("UserMessage")),
            // Without records of the begins of turns, what the model says begins one.
            said => kind == "response_item" && !self.has_tasks && is_of_model(said, payload),
        };
        if is_begin { TurnBoundary::Begin } else { TurnBoundary::Inside }
    }

    fn event(&mut self, payload: &Payload<'_>, out: &mut Emitter<'_, '_>) {
        let is_root = self.thread == self.root;
        match payload.kind.get().unwrap_or_default() {
            "item_completed" => {
                if let Some(item) = &payload.item {
                    out.head.time = payload.completed_at_ms.signed().or(out.head.time);
                    self.item(item, out);
                }
            }
            "exec_command_end" | "patch_apply_end" => {
                let outcome = payload.status.get().and_then(|status| tools::item_outcome(status, None));
                self.end_marked(payload, outcome, payload.aggregated_output.or(payload.stderr), out);
            }
            "mcp_tool_call_end" => {
                let (outcome, result) = mcp_outcome(payload.result);
                self.end_marked(payload, outcome, result, out);
            }
            "task_started" => {
                (self.has_tasks, self.failure) = (true, None);
                out.emit(Fact::TurnStart);
            }
            "task_complete" => {
                self.has_tasks = true;
                let report = payload.last_agent_message.filter(|raw| raw.get() != "null");
                let stated = tools::error_message(payload.error);
                let failure = self.failure.take().filter(|_| report.is_none());
                if !self.has_responded && !self.has_answered && report.is_none() {
                    // The first request has failed.
                    out.emit(Fact::Totals { usage: Usage::default(), cost_micro_usd: None });
                }
                if let Some(error) = stated.filter(|error| is_root && failure.as_deref() != Some(error.get()))
                {
                    message(None, Some(error), out);
                }
                let line = out.line;
                let error = stated.map(|raw| line.raw(raw)).or(failure.as_deref().map(made_json));
                let status = if error.is_some() { AgentStatus::Failed } else { AgentStatus::Completed };
                let is_sure = error.is_some() || report.is_some();
                end(status, is_root, is_sure, report.map(|raw| line.raw(raw)), error, out);
            }
            "turn_aborted" => {
                self.failure = None;
                end(AgentStatus::Stopped, is_root, true, None, None, out);
            }
            "error" if !payload.codex_error_info.is_some_and(|info| is_aside(info.get())) => {
                let text = payload.message.map(|raw| out.line.raw(raw));
                self.failure = Some(text.map_or("\"\"", |text| text.json).to_owned());
                emit_failure(text, out);
            }
            "token_count" => self.count(payload.info.as_ref(), out),
            "context_compacted" => out.emit(COMPACTED),
            // 0.118: texts are events.
            "user_message" => emit_prompt(payload.message, PromptKind::Asked, out),
            "thread_name_updated" => {
                if let Some(text) = payload.thread_name.0.clone().filter(|name| !name.is_empty()) {
                    out.emit_made(Fact::Title { text, origin: TitleOrigin::Harness });
                }
            }
            "agent_message" => {
                self.answers(out);
                message(None, payload.message, out);
            }
            "agent_reasoning" => {
                self.answers(out);
                thought(payload.text, out);
            }
            _ => out.emit(Fact::Activity),
        }
    }

    fn item(&mut self, item: &Item<'_>, out: &mut Emitter<'_, '_>) {
        let id = item.id.filled();
        match item.kind.get().unwrap_or_default() {
            "UserMessage" => emit_prompt(first_text(item.content), PromptKind::Asked, out),
            "AgentMessage" => message(id, first_text(item.content), out),
            "Reasoning" => thought(item.summary_text.as_ref().and_then(|all| all.first().copied()), out),
            "SubAgentActivity" if item.activity.is("started") => {
                let agent = item.agent_thread_id.filled();
                spawned(agent, id, item.model.filled(), None, None, out);
            }
            "SubAgentActivity" => out.emit(Fact::Activity),
            "CollabAgentToolCall" if item.tool.is("spawn_agent") => {
                let agent = item.receiver_thread_ids.iter().flatten().find_map(Str::filled);
                if agent.is_some() {
                    spawned(agent, id, item.model.filled(), None, item.prompt, out);
                }
                self.end_call(item, out);
            }
            _ => self.end_call(item, out),
        }
    }

    /// Emits the end of a call by its typed item.
    fn end_call(&mut self, item: &Item<'_>, out: &mut Emitter<'_, '_>) {
        let outcome = item.status.get().and_then(|status| tools::item_outcome(status, item.error));
        let (Some(id), Some(outcome)) = (item.id.filled(), outcome) else { return out.emit(Fact::Activity) };
        self.ended.insert(id.to_owned());
        let result = item.aggregated_output.map(|raw| out.line.raw(raw));
        let end = CallEnd { id: Some(id), outcome, result, ..CallEnd::default() };
        out.emit_made(Fact::CallEnd(self.with_spawn(end)));
    }

    /// Emits the end of a call by the event of its kind, which says how it ended; its output has only words.
    fn end_marked(
        &mut self,
        payload: &Payload<'_>,
        outcome: Option<Outcome>,
        result: Option<&RawValue>,
        out: &mut Emitter<'_, '_>,
    ) {
        // A command that a person has typed has such an event, too, and is no call.
        let id = payload.call_id.filled().filter(|id| self.begun.contains(*id));
        let (Some(id), Some(outcome)) = (id, outcome) else {
            return out.emit(Fact::Activity);
        };
        self.ended.insert(id.to_owned());
        let result = result.map(|raw| out.line.raw(raw));
        out.emit_made(Fact::CallEnd(CallEnd { id: Some(id), outcome, result, ..CallEnd::default() }));
    }

    /// Completes the end of a call that starts an agent: it ends at once, and the agent continues.
    fn with_spawn<'c>(&self, end: CallEnd<'c>) -> CallEnd<'c> {
        if !end.id.is_some_and(|id| self.spawning.contains(id)) {
            return end;
        }
        let spawn = SpawnResult { finished: Some(false), ..SpawnResult::default() };
        CallEnd { refused: end.outcome != Outcome::Ok, spawn: Some(spawn), ..end }
    }

    fn count(&mut self, counts: Option<&Counts>, out: &mut Emitter<'_, '_>) {
        let Some(counts) = counts.filter(|_| !self.has_records) else { return out.emit(Fact::Activity) };
        let total = counts.total_token_usage;
        // It is written again with the same numbers.
        if total == self.counted {
            return out.emit(Fact::Activity);
        }
        let last = std::mem::replace(&mut self.counted, total);
        if self.interrupted.contains(&total) {
            return out.emit(Fact::Activity);
        }
        let size = |tokens: Tokens| tokens.usage().total_tokens;
        if size(total) < size(last) {
            self.interrupted.push(last);
        }
        // By its time and numbers, not by its place: a file may have some lines twice.
        let usage = total.usage();
        let [input, output, read, write] = usage.kinds();
        let kinds = format!("{input} {output} {read} {write}");
        let rest = Some(usage.unkinded()).filter(|rest| *rest > 0).map(|rest| format!(" {rest}"));
        let id = format!("count {} {kinds}{}", out.head.time.unwrap_or(0), rest.unwrap_or_default());
        self.respond(&id, &counts.last_token_usage, out);
    }

    /// Records that the model has said or called something: the turn has recovered from an error before that.
    fn answers(&mut self, out: &mut Emitter<'_, '_>) {
        self.has_answered = true;
        if self.failure.take().is_some() {
            out.emit(Fact::Response(Response { has_call: true, synthetic: true, ..Response::default() }));
        }
    }

    /// Emits a response. Its id is made unique by the thread: programs that serve models number theirs.
    fn respond(&mut self, id: &str, tokens: &Tokens, out: &mut Emitter<'_, '_>) {
        self.has_responded = true;
        out.emit_made(Fact::Response(Response {
            message_id: &format!("{}:{id}", self.thread),
            model: Some(self.model.as_str()).filter(|model| !model.is_empty()),
            usage: Some(tokens.usage()),
            has_stop_reason: true,
            // A turn ends by the harness's word alone; where it says none, by its last text.
            has_call: true,
            accounts_only: !self.has_tasks,
            price_permille: if self.tier == ServiceTier::Flex { 500 } else { 0 },
            is_unpriced: self.tier == ServiceTier::Other,
            ..Response::default()
        }));
    }

    /// Emits that a text of the model may end the turn, in versions that do not say when it ends.
    fn text_ends(&self, out: &mut Emitter<'_, '_>) {
        if !self.has_tasks {
            let response = Response { has_text: true, synthetic: true, ..Response::default() };
            out.emit_made(Fact::Response(response));
        }
    }

    /// Emits a call of a tool of the vendor, which has no record of its result, and up to 0.104 no id: its place names it.
    fn vendor_call(&self, name: &str, payload: &Payload<'_>, out: &mut Emitter<'_, '_>) {
        let made = format!("{name}@{}", out.line.place.offset);
        let id = Some(payload.call_id.filled().or(payload.id.filled()).unwrap_or(&made));
        let arguments = payload.action.or(payload.arguments);
        tools::with_begin(id, name, arguments, out.line, &mut |call| out.emit_made(Fact::CallBegin(call)));
        let status = payload.status.get().unwrap_or("completed");
        if let Some(outcome) = tools::item_outcome(status, payload.error) {
            out.emit_made(Fact::CallEnd(CallEnd { id, outcome, ..CallEnd::default() }));
        }
    }

    fn response_item(&mut self, payload: &Payload<'_>, out: &mut Emitter<'_, '_>) {
        let is_of_others = payload.kind.is("agent_message");
        if !is_of_others && (!payload.kind.is("message") || payload.role.is("assistant")) {
            // Results of calls that were open when the turn failed, and book-keeping, may come after its error.
            if is_of_model(payload.kind.get().unwrap_or_default(), payload) {
                self.answers(out)
            } else {
                self.has_answered = true
            }
        }
        match payload.kind.get().unwrap_or_default() {
            "function_call" | "custom_tool_call" | "local_shell_call" | "mcp_tool_call" => {
                let name = payload.name.filled().unwrap_or("local_shell");
                let arguments = payload.arguments.or(payload.input).or(payload.action);
                // A call without an id is named by its place; its output is the next one without an id.
                let made = format!("{name}@{}", out.line.place.offset);
                self.unnamed.extend(payload.call_id.filled().is_none().then(|| made.clone()));
                let id = Some(payload.call_id.filled().unwrap_or(&made));
                self.begun.extend(id.map(str::to_owned));
                if let Some(id) = id.filter(|_| tools::class(name) == ToolClass::Spawn) {
                    self.spawning.insert(id.to_owned());
                }
                tools::with_begin(id, name, arguments, out.line, &mut |call| {
                    out.emit_made(Fact::CallBegin(call));
                });
            }
            "web_search_call" => self.vendor_call("web_search", payload, out),
            "image_generation_call" => self.vendor_call("image_generation", payload, out),
            "tool_search_call" => self.vendor_call("tool_search", payload, out),
            "function_call_output" | "custom_tool_call_output" => self.output(payload, out),
            "message" if payload.role.is("assistant") => {
                self.text_ends(out);
                out.emit(Fact::Activity);
            }
            "message" if payload.role.is("user") => {
                let text = words(first_text(payload.content));
                if let Some(rest) = text.strip_prefix(NOTIFIES) {
                    let json = rest.split("</").next().unwrap_or_default();
                    let notification: Notification<'_> = serde_json::from_str(json).unwrap_or_default();
                    if let Some(agent) = notification.agent_path.filled() {
                        child_state(agent, notification.status, out);
                    }
                }
                out.emit(Fact::Activity);
            }
            "agent_message" => {
                let text = first_text(payload.content);
                let is_task = words(text).starts_with(NEW_TASK) && self.thread != self.root;
                let what = if is_task { PromptKind::Asked } else { PromptKind::Meta };
                emit_prompt(text, what, out);
            }
            _ => out.emit(Fact::Activity),
        }
    }

    fn output(&mut self, payload: &Payload<'_>, out: &mut Emitter<'_, '_>) {
        let made = if payload.call_id.filled().is_none() { self.unnamed.pop_front() } else { None };
        let Some(id) = payload.call_id.filled().or(made.as_deref()) else { return out.emit(Fact::Activity) };
        let raw = first_text(payload.output).or(payload.output);
        let text = words(raw);
        let parsed: AgentOutput<'_> = serde_json::from_str(&text).unwrap_or_default();
        let is_spawning = self.spawning.contains(id);
        if is_spawning && parsed.agent_id.filled().is_some() {
            spawned(parsed.agent_id.filled(), Some(id), None, parsed.nickname.filled(), None, out);
        }
        let states: BTreeMap<String, &RawValue> =
            parsed.status.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        for (agent, state) in &states {
            child_state(agent, Some(state), out);
        }
        if self.ended.contains(id) {
            return out.emit(Fact::Activity);
        }
        let told = tools::outcome(&text);
        let has_started_none = is_spawning && told == Outcome::Ok && !tools::names_agent(&text);
        let outcome = if has_started_none { Outcome::Error } else { told };
        let result = raw.map(|raw| out.line.raw(raw));
        let is_provisional = tools::runs_on(&text);
        let end = CallEnd { id: Some(id), outcome, result, is_provisional, ..CallEnd::default() };
        out.emit_made(Fact::CallEnd(self.with_spawn(end)));
    }
}

impl LineDecoder for Rollout {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let line: Line<'_> = serde_json::from_str(text.text)?;
        let kind = line.kind.get().unwrap_or_default();
        let time = line.timestamp.get().and_then(parse_rfc3339).or(self.last_time);
        self.last_time = time;
        let Some(raw) = line.payload else {
            self.bare(&line, time, text, sink);
            return Ok(());
        };
        if kind == "session_meta" {
            self.open(raw, text, time, sink);
            return Ok(());
        }
        if line.ordinal.0.is_some_and(|ordinal| ordinal < self.copied_below) {
            return Ok(());
        }
        let payload: Payload<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
        let (thread, root) = (self.thread.clone(), self.root.clone());
        let gap = self.gap.note(self.boundary(kind, &payload), time);
        let mut sink = gap.sink(sink);
        let mut out = self.emitter(&thread, &root, text, time, &mut sink);
        match kind {
            "event_msg" => self.event(&payload, &mut out),
            "response_item" => self.response_item(&payload, &mut out),
            "turn_context" => {
                self.tier = ServiceTier::of(payload.service_tier.get().unwrap_or_default());
                if let Some(model) = payload.model.filled().filter(|model| *model != self.model) {
                    model.clone_into(&mut self.model);
                    if thread == root {
                        let model = Some(model);
                        out.emit_made(Fact::Session { version: None, cwd: None, model, tells_starts: true });
                    }
                }
            }
            "token_usage_record" => {
                self.has_records = true;
                if let Some(tokens) = &payload.usage {
                    let made = format!("record {}", self.records);
                    self.records += 1;
                    self.respond(payload.response_id.filled().unwrap_or(&made), tokens, &mut out);
                }
            }
            "compacted" => out.emit(COMPACTED),
            // Book-keeping of the harness; new types are skipped like these until they are known.
            _ => {}
        }
        Ok(())
    }
}

/// Returns how a call of an MCP server ended, and its text.
fn mcp_outcome(result: Option<&RawValue>) -> (Option<Outcome>, Option<&RawValue>) {
    let result: McpResult<'_> =
        result.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    match result {
        McpResult { err: Some(error), .. } => (tools::item_outcome("failed", Some(error)), Some(error)),
        McpResult { ok: Some(answer), .. } => {
            let outcome = if answer.is_error.is_true() { Outcome::Error } else { Outcome::Ok };
            (Some(outcome), first_text(answer.content).or(answer.content))
        }
        McpResult { .. } => (None, None),
    }
}

/// Whether the model said or called something.
fn is_of_model(kind: &str, payload: &Payload<'_>) -> bool {
    kind == "message" && payload.role.is("assistant") || kind == "reasoning" || kind.ends_with("_call")
}

fn message(message_id: Option<&str>, text: Option<&RawValue>, out: &mut Emitter<'_, '_>) {
    if let Some(text) = text.map(|raw| out.line.raw(raw)) {
        out.emit_made(Fact::Message { message_id, text });
    }
}

fn thought(text: Option<&RawValue>, out: &mut Emitter<'_, '_>) {
    let text = text.map(|raw| out.line.raw(raw));
    out.emit_made(Fact::Thought { message_id: None, text });
}

/// Emits that a call of this thread started an agent.
fn spawned(
    agent: Option<&str>,
    call: Option<&str>,
    model: Option<&str>,
    name: Option<&str>,
    prompt: Option<&RawValue>,
    out: &mut Emitter<'_, '_>,
) {
    let parent = match out.head.claim {
        Claim::Agent(own, _) => Parent::Agent(own),
        Claim::Root(_) | Claim::SpawnedBy(_) | Claim::Chain { .. } | Claim::Silent => Parent::Root,
    };
    out.emit_made(Fact::Spawn(Spawn {
        agent,
        call,
        parent: Some(parent),
        name: name.map(Into::into),
        model: model.map(Into::into),
        prompt: prompt.map(|raw| out.line.raw(raw)),
        mode: Some(SpawnMode::Foreground),
        starts: true,
        is_origin: true,
        ..Spawn::default()
    }));
}

/// Emits a child's end by its parent's rollout. A child without a last message may have failed before.
fn child_state(agent: &str, state: Option<&RawValue>, out: &mut Emitter<'_, '_>) {
    let state: ThreadState<'_> =
        state.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let (status, report, error) = match state {
        ThreadState { errored: Some(error), .. } => (AgentStatus::Failed, None, Some(error)),
        ThreadState { completed: Some(words), .. } => (AgentStatus::Completed, Some(words), None),
        ThreadState { .. } => return,
    };
    out.emit_made(Fact::AgentEnd(AgentEnd {
        agent: Some(agent),
        status,
        evidence: EndEvidence::SpawnResult,
        report: report.map(|raw| made_json(raw.get())),
        error: tools::error_message(error).map(|raw| made_json(raw.get())),
        ..AgentEnd::default()
    }));
}

/// A value of a text inside the line, which the source does not have byte for byte.
fn made_json(json: &str) -> RawJson<'_> {
    RawJson { json, offset: u64::MAX }
}

/// Errors that are not of the turn that goes on beside them, by the program's code.
const ASIDE: [&str; 2] = ["thread_rollback_failed", "active_turn_not_steerable"];

/// Whether an error with this code does not end the turn.
fn is_aside(code: &str) -> bool {
    ASIDE.iter().any(|aside| code.contains(aside))
}

/// Emits the end of the thread's turn.
fn end(
    status: AgentStatus,
    is_root: bool,
    is_sure: bool,
    report: Option<RawJson<'_>>,
    error: Option<RawJson<'_>>,
    out: &mut Emitter<'_, '_>,
) {
    // It was at work until then.
    out.emit_made(Fact::Activity);
    let evidence = if is_sure { EndEvidence::of_turn(status) } else { EndEvidence::LastLine };
    if is_root {
        out.emit_made(Fact::TurnEnd { status, evidence, counts_run: true, text: error.or(report) });
    } else {
        out.emit_made(Fact::AgentEnd(AgentEnd { status, evidence, report, error, ..AgentEnd::default() }));
    }
}
