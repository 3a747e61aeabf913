//! The three objects that every source of the family is made of: sessions, messages and parts of messages.
//!
//! A subagent is a session with a parent. A message of the model holds the tokens and the cost of one response; its texts,
//! thoughts and tool calls are parts, which are written again whenever their state changes. [`Objects`] remembers what
//! was already emitted, so that each statement is made once.
//!
//! Pitfalls: the `cost` of a message may hold that of the agents that it started (Kilo CLI 7.7.7). A message's `parentID` is the user's message before it, no session. In versions before 1.18 the tokens have
//! no `total` and `output` holds the reasoning. A task in the background is `completed` at once. The task of a child
//! whose last message is an error may be `completed`, so the child's own messages take precedence.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet, hash_map::Entry},
};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint,
    lenient::{Flag, Num, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallBegin, CallEnd, Claim, EndEvidence, Fact, Millis, Outcome, Parent,
    PromptKind, RawJson, Response, Spawn, SpawnResult, TitleOrigin, ToolClass, Usage,
};

use super::{
    recognize::fork_of_part,
    tools::{self, CallState, Span},
};
use crate::common::EMPTY_TEXT;

/// A session.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct SessionInfo<'a> {
    pub(super) id: Str<'a>,
    #[serde(rename = "parentID")]
    pub(super) parent_id: Str<'a>,
    directory: Str<'a>,
    title: Str<'a>,
    agent: Str<'a>,
    version: Str<'a>,
    pub(super) time: Moments,
}

/// When an object was made, changed and completed, in milliseconds since 1970.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Moments {
    pub(super) created: Num,
    pub(super) updated: Num,
    pub(super) completed: Num,
}

/// A message.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct MessageInfo<'a> {
    id: Str<'a>,
    #[serde(rename = "sessionID")]
    pub(super) session_id: Str<'a>,
    role: Str<'a>,
    #[serde(rename = "modelID")]
    model_id: Str<'a>,
    finish: Str<'a>,
    error: Option<&'a RawValue>,
    tokens: Option<Tokens>,
    pub(super) time: Moments,
}

/// A part of a message.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Part<'a> {
    id: Str<'a>,
    #[serde(rename = "sessionID")]
    pub(super) session_id: Str<'a>,
    #[serde(rename = "messageID")]
    message_id: Str<'a>,
    #[serde(rename = "type")]
    kind: Str<'a>,
    text: Option<&'a RawValue>,
    synthetic: Flag,
    #[serde(rename = "callID")]
    call_id: Str<'a>,
    tool: Str<'a>,
    state: Option<&'a RawValue>,
    time: Span,
    reason: Str<'a>,
    cost: Option<&'a RawValue>,
    tokens: Option<Tokens>,
    /// By Kilo CLI: how fast the model answered.
    metrics: Option<IgnoredAny>,
}

/// Tokens of a response.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Tokens {
    total: Num,
    input: Num,
    output: Num,
    reasoning: Num,
    cache: CacheTokens,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct CacheTokens {
    read: Num,
    write: Num,
}

impl Tokens {
    /// Returns the tokens in our kinds; `None` where nothing was counted yet.
    fn usage(&self, is_over: bool) -> Option<Usage> {
        let number = |field: Num| field.0.unwrap_or(0);
        let reasoning = if self.total.0.is_some() { number(self.reasoning) } else { 0 };
        let output = number(self.output).saturating_add(reasoning);
        let output = self.output.0.or(self.reasoning.0).map(|_| output);
        let usage =
            Usage::of_parts([self.input.0, output, self.cache.read.0, self.cache.write.0], self.total.0);
        (is_over || usage.total_tokens > 0).then_some(usage)
    }
}

/// The error of a message.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct MessageError<'a> {
    name: Str<'a>,
    data: ErrorData<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ErrorData<'a> {
    message: Option<&'a RawValue>,
}

/// The error of a message whose agent was stopped.
const ABORTED: &str = "MessageAbortedError";
/// A question whether a call is allowed.
pub(super) struct Question<'a> {
    pub(super) id: Option<&'a str>,
    /// The rule that asks: `bash`, `edit`, `external_directory` and others.
    pub(super) permission: &'a str,
    pub(super) details: Option<&'a RawValue>,
    /// The call, by its message and its id.
    pub(super) call: Option<(&'a str, &'a str)>,
}

/// Why a message ended that is followed by the results of its calls.
const CALLS_TOOLS: &str = "tool-calls";

/// What was already emitted of the objects of one source.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// The root session, where the source is of one alone.
    only_root: Option<String>,
    /// The parent of each session that is known; `None` for roots.
    parents: HashMap<String, Option<String>>,
    /// Messages of users, by id, with their times.
    prompts: HashMap<String, Option<Millis>>,
    /// Messages whose end was emitted, and whether as an error.
    ended: HashMap<String, bool>,
    /// The message of each agent's session that ended its turn, while no other follows.
    last: HashMap<String, String>,
    /// Texts and thoughts that were emitted, by part, and messages of users of which anything was.
    texts: HashSet<String>,
    /// Calls whose begin was emitted, by [`call_key`].
    calls: HashMap<String, BegunCall>,
    /// Digests of the calls that open questions are about, by the question's id.
    questions: HashMap<String, u64>,
    /// Whether the fork was emitted that wrote the source.
    is_fork_named: bool,
}

/// A call whose begin was emitted.
#[derive(Debug)]
struct BegunCall {
    /// Whether the spawn of its agent was emitted.
    is_linked: bool,
    /// Its tool and digest, until it ends.
    open: Option<(String, u64)>,
}

/// Returns the key of a call: its message and its id. Providers of models may number the calls of each message anew.
fn call_key(message: &str, call: &str) -> String {
    format!("{message}\0{call}")
}

impl<'a> Part<'a> {
    /// Whether it sums up a step.
    pub(super) fn is_step(&self) -> bool {
        self.kind.is("step-finish")
    }

    /// Whether it says how fast the model answered.
    pub(super) fn has_metrics(&self) -> bool {
        self.metrics.is_some()
    }

    /// Returns the arguments of a call.
    fn input(&self) -> Option<&'a RawValue> {
        let state: CallState<'a> = serde_json::from_str(self.state?.get()).ok()?;
        state.input
    }

    /// Returns the digest of a call.
    fn digest(&self) -> Option<u64> {
        Some(tools::digest_of(self.tool.filled()?, self.input()))
    }

    /// Whether it is the last of a turn.
    pub(super) fn ends_turn(&self) -> bool {
        self.is_step() && self.reason.filled().is_some_and(|reason| reason != CALLS_TOOLS)
    }
}

impl Objects {
    /// Nothing was emitted yet of the source that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { only_root: hint.session.clone(), ..Self::default() }
    }

    /// Learns which session a session is below.
    pub(super) fn learn(&mut self, info: &SessionInfo<'_>) {
        if let Some(id) = info.id.filled()
            && !self.parents.contains_key(id)
        {
            self.parents.insert(id.to_owned(), info.parent_id.filled().map(str::to_owned));
        }
    }

    /// Returns the root above a session, as far as its ancestors are known.
    pub(super) fn root_of(&self, session: &str) -> String {
        if let Some(root) = &self.only_root {
            return root.clone();
        }
        let mut at = session;
        // A cycle of parents ends after as many steps as there are sessions.
        for _ in 0..self.parents.len() {
            match self.parents.get(at) {
                Some(Some(parent)) => at = parent,
                Some(None) | None => break,
            }
        }
        at.to_owned()
    }

    /// Emits the fork that wrote a part, once.
    pub(super) fn name_fork<'a>(&mut self, part: &Part<'a>, out: &mut Emitter<'a, '_>) {
        if let Some(fork) = fork_of_part(part).filter(|_| !self.is_fork_named) {
            self.is_fork_named = true;
            out.emit_made(Fact::Harness { name: fork.name });
        }
    }

    /// Emits a session: the conversation itself, or the agent whose conversation it is.
    pub(super) fn session<'a>(&mut self, info: &SessionInfo<'a>, out: &mut Emitter<'a, '_>) {
        // What is read of a session alone, or in a cycle of parents, has it as its root.
        let is_root = |id: &str| self.root_of(id) == id;
        let parent = info.parent_id.filled().filter(|_| !info.id.filled().is_some_and(is_root));
        let Some(parent) = parent else {
            // Until it has one, a session is named by its start.
            if let Some(text) =
                info.title.0.clone().filter(|title| !title.is_empty() && !title.starts_with(UNTITLED))
            {
                out.emit_made(Fact::Title { text, origin: TitleOrigin::Harness });
            }
            return out.emit_made(Fact::Session {
                version: info.version.filled(),
                cwd: info.directory.0.clone().filter(|folder| !folder.is_empty()),
                model: None,
                tells_starts: true,
            });
        };
        let Some(id) = info.id.filled() else { return };
        let parent = if self.root_of(parent) == parent { Parent::Root } else { Parent::Agent(parent) };
        let type_of = |name: &Str<'a>| name.0.clone().filter(|name| !name.is_empty());
        out.emit_made(Fact::Spawn(Spawn {
            agent: Some(id),
            parent: Some(parent),
            agent_type: type_of(&info.agent),
            description: info.title.0.as_ref().map(|title| task_of(title)),
            starts: true,
            ..Spawn::default()
        }));
    }

    /// Emits a message: a prompt is in its parts, a response here.
    pub(super) fn message<'a>(&mut self, info: &MessageInfo<'a>, is_root: bool, out: &mut Emitter<'a, '_>) {
        let Some(id) = info.id.filled() else { return };
        if !info.role.is("assistant") {
            self.prompts.insert(id.to_owned(), out.head.time);
            return out.emit(Fact::Activity);
        }
        let session = info.session_id.get().unwrap_or_default();
        if self.last.get(session).is_some_and(|last| last != id) && !self.ended.contains_key(id) {
            // The last message determines how its agent ended: earlier messages no longer count.
            self.last.remove(session);
            let time = info.time.created.signed().or(out.head.time);
            out.emit_of(out.head.claim, time, Fact::TurnStart);
        }
        let is_over = info.time.completed.0.is_some() || info.error.is_some();
        let ends_turn = is_over && !info.finish.is(CALLS_TOOLS) && info.finish.filled().is_some();
        let usage = info.tokens.and_then(|tokens| tokens.usage(is_over));
        let is_free = usage.is_some_and(|usage| usage.total_tokens == 0);
        out.emit_made(Fact::Response(Response {
            message_id: id,
            model: info.model_id.filled(),
            usage,
            // A request that failed has no step, which would have its cost.
            cost_pico_usd: is_free.then_some(0),
            has_stop_reason: is_over,
            ends_turn,
            has_call: info.finish.is(CALLS_TOOLS),
            api_error: info.error.is_some(),
            ..Response::default()
        }));
        // A message that is complete may fail later, as where a call of it is refused.
        let is_emitted = self.ended.get(id).is_some_and(|was_error| *was_error || info.error.is_none());
        if !is_over || is_emitted {
            return;
        }
        self.ended.insert(id.to_owned(), info.error.is_some());
        if info.error.is_some() || ends_turn {
            if !is_root {
                self.last.insert(session.to_owned(), id.to_owned());
            }
            end(info.error, is_root, out);
        }
    }

    /// Emits a part of a message.
    pub(super) fn part<'a>(&mut self, part: &Part<'a>, is_root: bool, out: &mut Emitter<'a, '_>) {
        let kind = part.kind.get().unwrap_or_default();
        let message = part.message_id.get().unwrap_or_default();
        // In a folder of objects the parts of a message come after it and have no times of their own.
        let own_times = [part.time.end, part.time.start].into_iter().find_map(Num::signed);
        let times = [out.head.time, own_times, self.prompts.get(message).copied().flatten()];
        out.head.time = times.into_iter().find_map(|time| time);
        if out.head.time.is_none() && self.ended.contains_key(message) && kind != "tool" {
            return;
        }
        match kind {
            "text" | "reasoning" => self.text(part, kind == "reasoning", out),
            "tool" => self.call(part, out),
            "step-finish" => step(part, is_root, out),
            "file" if self.is_wordless(message) => {
                // A prompt may consist of files only.
                self.texts.insert(message.to_owned());
                let what = PromptKind::Asked;
                out.emit_as(Some(message), Fact::Prompt { prompt_id: None, text: EMPTY_TEXT, what });
            }
            _ => out.emit(Fact::Activity),
        }
    }

    /// Emits a permission question. The arguments are those of the call's part, else those of its begin.
    pub(super) fn question<'a>(
        &mut self,
        question: &Question<'a>,
        part: &Part<'a>,
        out: &mut Emitter<'a, '_>,
    ) {
        let known = question.call.and_then(|(message, call)| self.calls.get(&call_key(message, call)));
        let known = known.and_then(|call| call.open.as_ref());
        let digest = part.digest().or(known.map(|(_, digest)| *digest));
        let digest = digest.unwrap_or_else(|| tools::digest_of(question.permission, question.details));
        // Where the plugin is installed twice, each question comes twice.
        if question.id.is_some_and(|id| self.questions.insert(id.to_owned(), digest).is_some()) {
            return out.emit(Fact::Activity);
        }
        let name = part.tool.filled().or(known.map(|(name, _)| name.as_str())).unwrap_or(question.permission);
        let input = out.raw(part.input().or(question.details));
        out.emit_made(Fact::Permission { name, class: tools::class(name), digest, input });
    }

    /// Emits that a question was answered.
    pub(super) fn reply<'a>(&mut self, question: Option<&str>, part: &Part<'a>, out: &mut Emitter<'a, '_>) {
        let known = question.and_then(|id| self.questions.remove(id));
        match known.or_else(|| part.digest()) {
            Some(digest) => out.emit_made(Fact::PermissionReply { digest }),
            None => out.emit(Fact::Activity),
        }
    }

    /// Whether a message is a prompt of which no text was emitted yet.
    fn is_wordless(&self, message: &str) -> bool {
        self.prompts.contains_key(message) && !self.texts.contains(message)
    }

    fn text<'a>(&mut self, part: &Part<'a>, is_thought: bool, out: &mut Emitter<'a, '_>) {
        let message_id = part.message_id.filled();
        let text = out.raw(part.text).filter(|text| text.json.len() > 2);
        let is_prompt = message_id.is_some_and(|id| self.prompts.contains_key(id));
        // A text of the model is written empty first, and whole when it is done.
        let is_done = is_prompt || part.time.end.0.is_some() || part.time.start.0.is_none();
        let id = part.id.get().unwrap_or_default();
        let Some(text) = text.filter(|_| is_done && self.texts.insert(id.to_owned())) else {
            return out.emit(Fact::Activity);
        };
        let what = if part.synthetic.is_true() { PromptKind::Meta } else { PromptKind::Asked };
        if is_prompt {
            self.texts.extend(message_id.map(str::to_owned));
            // What is printed has no prompt, so its id would join nothing; two streams of a server have the same message.
            return out.emit_as(message_id, Fact::Prompt { prompt_id: None, text, what });
        }
        let fact = if is_thought {
            Fact::Thought { message_id, text: Some(text) }
        } else {
            Fact::Message { message_id, text }
        };
        out.emit_as(part.id.filled(), fact);
    }

    fn call<'a>(&mut self, part: &Part<'a>, out: &mut Emitter<'a, '_>) {
        let state: CallState<'a> =
            part.state.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let (Some(id), Some(name)) = (part.call_id.filled(), part.tool.filled()) else { return };
        // Its arguments and its start come later; or never, if the process was killed.
        if state.status.is("pending") {
            let begin = tools::begin(Some(id), name, &CallState::default(), out.line);
            return out.emit_made(Fact::CallBegin(CallBegin { spawn: None, hindsight: true, ..begin }));
        }
        // In a fork of a session its calls are copied: their agents are those of the first one.
        let starter = state.metadata.parent_session_id.filled();
        let is_copy = starter.is_some_and(|starter| !part.session_id.is(starter));
        let is_spawn = tools::class(name) == ToolClass::Spawn && !is_copy;
        let own_time = out.head.time;
        let key = call_key(part.message_id.get().unwrap_or_default(), id);
        let (call, is_new) = match self.calls.entry(key) {
            Entry::Occupied(known) => (known.into_mut(), false),
            Entry::Vacant(place) => (place.insert(BegunCall { is_linked: false, open: None }), true),
        };
        if is_new {
            out.head.time = state.time.start.signed().or(own_time);
            let begin = tools::begin(Some(id), name, &state, out.line);
            call.open = Some((name.to_owned(), begin.digest));
            out.emit_made(Fact::CallBegin(if is_copy {
                CallBegin { class: ToolClass::Other, spawn: None, ..begin }
            } else {
                begin
            }));
        }
        let agent = state.metadata.session_id.filled().filter(|_| is_spawn);
        let arguments = state.arguments();
        // A refused call resumes no agent.
        let resumed = state.resumed(&arguments).filter(|_| agent.is_some()).map(str::to_owned);
        if let Some(agent) = agent.filter(|_| !std::mem::replace(&mut call.is_linked, true)) {
            let (agent_type, description, mode) = arguments.spawn();
            let is_first = resumed.is_none();
            out.head.time = state.time.start.signed().or(own_time);
            out.emit_made(Fact::Spawn(Spawn {
                agent: Some(agent),
                call: Some(id),
                agent_type: agent_type.0.filter(|_| is_first),
                description: description.0.filter(|_| is_first),
                model: state.metadata.model.model_id.0.clone(),
                mode: Some(mode),
                starts: true,
                is_origin: is_first,
                ..Spawn::default()
            }));
        }
        if !state.is_over() {
            out.head.time = own_time;
            return out.emit(Fact::Activity);
        }
        call.open = None;
        out.head.time = state.time.end.signed().or(own_time);
        // What is printed has no line of the agent: it worked from the begin of its task until its end.
        if let Some(agent) = agent.filter(|_| self.parents.is_empty() && !state.left_agent_running()) {
            for time in [state.time.start, state.time.end].into_iter().filter_map(Num::signed) {
                out.emit_of(Claim::Agent(agent, Basis::Link), Some(time), Fact::Activity);
            }
        }
        // Whether its agent was stopped or failed is in the agent's own message; a task with an error failed.
        let is_cut_task = is_spawn && state.outcome() == Outcome::Interrupted;
        let outcome = if is_cut_task { Outcome::Error } else { state.outcome() };
        out.emit_made(Fact::CallEnd(CallEnd {
            id: Some(id),
            outcome,
            result: out.raw(state.output.or(state.error)),
            spawn: agent.map(|agent| SpawnResult {
                agent: Some(agent),
                // Of a failed call, the outcome is the evidence of how the agent ended.
                finished: state.status.is("completed").then(|| !state.left_agent_running()),
                proves_agent: true,
                ..SpawnResult::default()
            }),
            refused: is_spawn && agent.is_none() && outcome != Outcome::Ok,
            resumed: resumed.as_deref(),
            ..CallEnd::default()
        }));
        out.head.time = own_time;
    }
}

/// Emits the tokens of a message where the source has no messages themselves: each has one step.
fn step<'a>(part: &Part<'a>, is_root: bool, out: &mut Emitter<'a, '_>) {
    let Some(message_id) = part.message_id.filled() else { return };
    let has_call = part.reason.is(CALLS_TOOLS);
    out.emit_made(Fact::Response(Response {
        message_id,
        usage: part.tokens.and_then(|tokens| tokens.usage(true)),
        cost_pico_usd: pico_usd(part.cost),
        has_stop_reason: true,
        ends_turn: is_root && !has_call,
        has_call,
        ..Response::default()
    }));
}

/// Emits the cost of a message by its step: in Kilo CLI that of a message holds those of the agents that it started.
pub(super) fn step_cost<'a>(part: &Part<'a>, out: &mut Emitter<'a, '_>) {
    let (Some(message_id), Some(cost)) = (part.message_id.filled(), pico_usd(part.cost)) else {
        return out.emit(Fact::Activity);
    };
    out.emit_made(Fact::Response(Response {
        message_id,
        cost_pico_usd: Some(cost),
        accounts_only: true,
        ..Response::default()
    }));
}

/// Emits the end of an agent's turn.
pub(super) fn end<'a>(error: Option<&'a RawValue>, is_root: bool, out: &mut Emitter<'a, '_>) {
    let parsed: MessageError<'a> =
        error.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let status = match error {
        None => AgentStatus::Completed,
        Some(_) if parsed.name.is(ABORTED) => AgentStatus::Stopped,
        Some(_) => AgentStatus::Failed,
    };
    let evidence = EndEvidence::Notification;
    // Some errors have a name alone.
    let name = parsed.name.filled().map(|name| serde_json::Value::from(name).to_string());
    let name = name.as_deref().map(|json| RawJson { json, offset: u64::MAX });
    let words = out.raw(parsed.data.message).or(name);
    let words = words.or(out.raw(error.filter(|raw| raw.get() != "null")));
    if is_root {
        if let Some(text) = words.filter(|_| status == AgentStatus::Failed) {
            out.emit_made(Fact::Message { message_id: None, text });
        }
        out.emit_made(Fact::TurnEnd { status, evidence, counts_run: true, text: words });
    } else {
        out.emit_made(Fact::AgentEnd(AgentEnd { status, evidence, error: words, ..AgentEnd::default() }));
    }
}

/// The actor of a session.
pub(super) fn claim<'s>(session: &'s str, root: &str) -> Claim<'s> {
    if session == root { Claim::Root(Basis::Wire) } else { Claim::Agent(session, Basis::Wire) }
}

/// Beginning of the title of a session that has none yet.
const UNTITLED: &str = "New session - ";

/// Returns the description of an agent's task from the title of its session: `Count lines (@general subagent)`.
fn task_of<'a>(title: &Cow<'a, str>) -> Cow<'a, str> {
    let end = title.rfind(" (@").filter(|_| title.ends_with(" subagent)")).unwrap_or(title.len());
    match title {
        Cow::Borrowed(title) => Cow::Borrowed(&title[..end]),
        Cow::Owned(title) => Cow::Owned(title[..end].to_owned()),
    }
}

/// Returns picodollars of a number of dollars; `None` where there is none, or it is no price.
fn pico_usd(dollars: Option<&RawValue>) -> Option<u64> {
    let dollars: f64 = dollars?.get().parse().ok()?;
    // `as` saturates.
    (dollars.is_finite() && dollars >= 0.0).then(|| (dollars * 1e12).round() as u64)
}
