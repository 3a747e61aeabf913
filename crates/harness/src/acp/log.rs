//! Decodes the messages of one connection.
//!
//! Flow: line → [`RpcMessage`] → the session that it is about → observations of that session's root, or of an agent of it.
//! State: requests without an answer, the sessions and agents of the connection, open calls, a text that is being written.
//!
//! Pitfalls: each side numbers its own requests. `session/load` repeats the past of a session before its answer: no prompt of
//! it is a run. A text comes in pieces, which are joined until something else of the session comes. Only some agents tell
//! of their agents, and a question about an agent's call may name the root.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError,
    lenient::{LineText, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, Checksum, Claim, Clock, EndEvidence, Fact, MicroUsd, Millis, Parent,
    PromptKind, RawJson, Sink, SourceKind, SourcePosition, Spawn, SpawnMode, TitleOrigin, Usage,
};

use super::{
    agents::{AcpAgent, AgentWords, KnownAgent, PromptTokens},
    calls::{AcpCall, CallSink},
    messages::{Peer, RecordedMessage, RpcMessage, parsed, read},
    updates::{
        AcpAnswer, AcpCost, AcpUpdate, AgentInfo, ChildCapabilities, ChildState, ConfigOption, Decision,
        PermissionChoice, PromptUsage, SessionParams, TextBlock, owned, status_of,
    },
};
use crate::common::{
    parts::elements,
    turn_gap::{TurnBoundary, TurnGap},
};

/// Words of lines that change the state of agents, or of the session.
pub(super) const CHANGES: &[&str] = &[
    "\"subagent_update\"",
    "\"session/prompt\"",
    "\"stopReason\"",
    "\"tool_call\"",
    "\"tool_call_update\"",
    "\"session/request_permission\"",
    "\"outcome\"",
    "\"session/load\"",
];
/// Word of the lines that open a connection or a session.
pub(super) const OPENS: &str = "\"sessionId\"";

/// Most bytes of a text in pieces that are joined; a longer one is shown in parts.
const MOST_TEXT: usize = 64 << 10;
/// Longest name of an agent that is no known one.
const MOST_NAME: usize = 64;
/// What is between the root and the thread in the id of a child's session.
pub(super) const CHILD_MARK: &str = ":subagent:";

/// Decodes the messages of one connection.
#[derive(Default)]
pub(super) struct AcpConnection {
    agent: Option<KnownAgent>,
    agent_name: Option<String>,
    version: Option<String>,
    /// Requests without an answer, by the side that asked and their ids.
    asked: HashMap<(Peer, String), PendingRequest>,
    /// The sessions of the connection.
    roots: HashMap<String, AcpSession>,
    /// Agents, by the ids of their sessions.
    children: HashMap<String, AcpChild>,
    /// Open calls, by session and id.
    calls: HashMap<(String, String), AcpCall>,
    /// The text of a session that is being written.
    texts: HashMap<String, Pieces>,
    /// The place and time of the last line.
    last: (SourcePosition, Option<Millis>),
}

/// A request that waits for an answer.
enum PendingRequest {
    Initialize,
    New { cwd: Option<String> },
    Load { session: String },
    Prompt { session: String },
    Permission { session: String, call: String, refusing: Vec<String> },
}

/// A session.
#[derive(Default)]
struct AcpSession {
    cwd: Option<String>,
    /// Whether who it is of was emitted.
    is_announced: bool,
    /// Whether its past is being repeated.
    is_loading: bool,
    /// Whether it began in an earlier connection, so that what is counted here is not all.
    is_continued: bool,
    /// What its prompts have taken so far, and what it has cost.
    tokens: Usage,
    cost_micro_usd: Option<MicroUsd>,
}

/// An agent.
#[derive(Default)]
struct AcpChild {
    root: String,
    id: String,
    has_ended: bool,
    /// What comes after the end of its turn is of that turn until another begins.
    gap: TurnGap,
}

/// Pieces of a text.
#[derive(Default)]
struct Pieces {
    message: Option<String>,
    /// The call that started the agent whose text it is, where only that is named.
    caller: Option<String>,
    is_thought: bool,
    text: String,
}

impl AcpConnection {
    /// A decoder for the source that `hint` describes.
    pub(super) fn new(_: &Hint) -> Self {
        Self::default()
    }

    /// How the agent speaks the protocol.
    fn row(&self) -> &'static AcpAgent {
        self.agent.map_or(&AcpAgent::PLAIN, |agent| agent.row)
    }

    /// The session of a root and the agent of a session of the connection; `None` if nobody placed it.
    fn place(&mut self, session: &str) -> Option<(String, Option<String>)> {
        if let Some(child) = self.children.get(session) {
            return Some((child.root.clone(), Some(child.id.clone())));
        }
        if let Some((root, thread)) = session.split_once(CHILD_MARK)
            && !root.is_empty()
            && !thread.is_empty()
        {
            let child = AcpChild { root: root.to_owned(), id: thread.to_owned(), ..AcpChild::default() };
            let placed = (child.root.clone(), Some(child.id.clone()));
            self.roots.entry(child.root.clone()).or_default();
            self.children.insert(session.to_owned(), child);
            return Some(placed);
        }
        if !self.roots.contains_key(session) {
            // Another session that nobody opened here may be an agent's.
            if !self.roots.is_empty() {
                return None;
            }
            self.roots.insert(session.to_owned(), AcpSession { is_continued: true, ..AcpSession::default() });
        }
        Some((session.to_owned(), None))
    }

    /// Calls back with the emitter of a session of the connection, once it was said whose the session is.
    fn with<'a>(
        &mut self,
        session: &str,
        line: &Lined<'a>,
        sink: &mut Sink<'_>,
        each: &mut dyn FnMut(&mut Self, &mut Emitter<'_, '_>),
    ) {
        let Some((root, agent)) = self.place(session) else { return };
        let gap = self.children.get(session).map(|child| child.gap).unwrap_or_default();
        let sink = &mut gap.sink(sink);
        let mut out =
            Emitter::new(SourceKind::Stream, Clock::Receiver, Claim::Root(Basis::Wire), line.text, sink);
        out.head.session = Some(&root);
        out.head.time = line.time;
        self.announce(&root, &mut out);
        if let Some(agent) = &agent {
            out.head.claim = Claim::Agent(agent, Basis::Wire);
        }
        each(self, &mut out);
    }

    fn announce(&mut self, root: &str, out: &mut Emitter<'_, '_>) {
        let known = self.roots.entry(root.to_owned()).or_default();
        if std::mem::replace(&mut known.is_announced, true) {
            return;
        }
        let cwd = known.cwd.clone();
        if let Some(name) = &self.agent_name {
            let name = self.agent.map_or(name.as_str(), |agent| agent.harness.name());
            out.emit_made(Fact::Harness { name });
        }
        let version = self.version.as_deref();
        out.emit_made(Fact::Session { version, cwd: cwd.map(Into::into), model: None, tells_starts: false });
    }

    fn request(&mut self, message: &RpcMessage<'_>, line: &Lined<'_>, sink: &mut Sink<'_>) {
        let params: SessionParams<'_> = parsed(message.params);
        let session = params.session_id.filled().map(str::to_owned);
        let cwd = params.cwd.filled().map(str::to_owned);
        let id = message.id().map(str::to_owned);
        let asks = match (message.method().unwrap_or_default(), session) {
            ("initialize", _) => Some(PendingRequest::Initialize),
            ("session/new", _) => Some(PendingRequest::New { cwd }),
            (method @ ("session/load" | "session/resume"), Some(session)) => {
                let is_loading = method == "session/load";
                let root = AcpSession { cwd, is_loading, is_continued: true, ..AcpSession::default() };
                self.roots.entry(session.clone()).or_insert(root).is_loading = is_loading;
                Some(PendingRequest::Load { session })
            }
            ("session/prompt", Some(session)) => {
                self.flush_text(&session, line, sink);
                if let Some(root) = self.roots.get_mut(&session) {
                    root.is_loading = false;
                }
                self.with(&session, line, sink, &mut |_, out| match params.prompt {
                    Some(prompt) => {
                        let text = line.text.raw(prompt);
                        out.emit_made(Fact::Prompt { prompt_id: None, text, what: PromptKind::Asked });
                    }
                    None => out.emit_made(Fact::TurnStart),
                });
                Some(PendingRequest::Prompt { session })
            }
            ("session/request_permission", Some(session)) => {
                self.ask(&session, &params, line, sink).filter(|_| id.is_some())
            }
            ("session/update", Some(session)) => {
                let update: AcpUpdate<'_> = parsed(params.update);
                self.update(&session, &update, line, sink);
                None
            }
            (_, Some(session)) => {
                self.with(&session, line, sink, &mut |_, out| out.emit_made(Fact::Activity));
                None
            }
            (_, None) => None,
        };
        if let (Some(id), Some(asks), Some(side)) = (id, asks, line.side) {
            self.asked.insert((side, id), asks);
        }
    }

    /// Emits that a person is asked about a call, if the call is known: a question may name the root though the call is an
    /// agent's.
    fn ask(
        &mut self,
        session: &str,
        params: &SessionParams<'_>,
        line: &Lined<'_>,
        sink: &mut Sink<'_>,
    ) -> Option<PendingRequest> {
        let about: AcpUpdate<'_> = parsed(params.tool_call);
        let call = self.call_id(about.tool_call_id.filled()?).to_owned();
        let choices: Vec<PermissionChoice<'_>> = elements(params.options);
        let refusing =
            choices.iter().filter(|choice| choice.kind.get().is_some_and(|kind| kind.starts_with("reject")));
        let refusing = refusing.filter_map(|choice| choice.option_id.filled().map(str::to_owned)).collect();
        let owner = self.owner_of(session, &call);
        self.with(
            &owner,
            line,
            sink,
            &mut |known, out| match known.calls.get(&(owner.clone(), call.clone())) {
                Some(open) => out.emit_made(Fact::Permission {
                    name: open.name(),
                    class: open.class(),
                    digest: open.digest(&call),
                    input: about.raw_input.map(|raw| RawJson { json: raw.get(), offset: u64::MAX }),
                }),
                None => out.emit_made(Fact::Activity),
            },
        );
        Some(PendingRequest::Permission { session: owner, call, refusing })
    }

    /// Returns the session that a call is open in: the named one, else the only other one that has it.
    fn owner_of(&self, session: &str, call: &str) -> String {
        if self.calls.contains_key(&(session.to_owned(), call.to_owned())) {
            return session.to_owned();
        }
        let owners = self.calls.keys().filter(|(_, open)| open == call);
        let mut owners: Vec<&str> = owners.map(|(owner, _)| owner.as_str()).collect();
        owners.sort_unstable();
        match owners.as_slice() {
            [owner] => (*owner).to_owned(),
            _ => session.to_owned(),
        }
    }

    /// The id of a call as the harness has it.
    fn call_id<'i>(&self, id: &'i str) -> &'i str {
        let is_numbered = self.row().numbers_calls;
        let rest = id.split_once(':').filter(|(number, _)| number.bytes().all(|byte| byte.is_ascii_digit()));
        rest.filter(|_| is_numbered).map_or(id, |(_, rest)| rest)
    }

    fn answer(&mut self, message: &RpcMessage<'_>, line: &Lined<'_>, sink: &mut Sink<'_>) {
        let answer: AcpAnswer<'_> = parsed(message.result);
        let id = message.id().unwrap_or_default().to_owned();
        // Without a recorded direction, only an answer to a question has an outcome.
        let by_form = if answer.outcome.is_some() { Peer::Client } else { Peer::Agent };
        let asker = line.side.unwrap_or(by_form).other();
        let Some(asked) = self.asked.remove(&(asker, id)) else {
            return self.answer_unasked(&answer, line, sink);
        };
        match asked {
            PendingRequest::Initialize => self.introduce(&answer),
            PendingRequest::New { cwd } => self.open(&answer, cwd, line, sink),
            PendingRequest::Load { session } => {
                self.flush_text(&session, line, sink);
                if let Some(root) = self.roots.get_mut(&session) {
                    root.is_loading = false;
                }
                self.with(&session, line, sink, &mut |_, _| {});
            }
            PendingRequest::Prompt { session } => self.end_turn(&session, &answer, message.error, line, sink),
            PendingRequest::Permission { session, call, refusing } => {
                let decision: Decision<'_> = parsed(answer.outcome);
                let chosen = decision.option_id.filled();
                let is_refused = decision.outcome.is("cancelled")
                    || chosen.is_some_and(|chosen| refusing.iter().any(|option| option == chosen));
                let open = self.calls.get_mut(&(session.clone(), call.clone()));
                let digest = open.map(|open| {
                    open.is_refused = is_refused;
                    open.digest(&call)
                });
                self.with(&session, line, sink, &mut |_, out| match digest {
                    Some(digest) => out.emit_made(Fact::PermissionReply { digest }),
                    None => out.emit_made(Fact::Activity),
                });
            }
        }
    }

    /// Reads an answer whose request is not in the source, as in a log of one direction.
    fn answer_unasked(&mut self, answer: &AcpAnswer<'_>, line: &Lined<'_>, sink: &mut Sink<'_>) {
        if answer.agent_info.is_some() {
            self.introduce(answer);
        } else if answer.session_id.filled().is_some() {
            self.open(answer, None, line, sink);
        } else if answer.stop_reason.filled().is_some()
            && let [session] = self.roots.keys().cloned().collect::<Vec<_>>().as_slice()
        {
            self.end_turn(session, answer, None, line, sink);
        }
    }

    fn introduce(&mut self, answer: &AcpAnswer<'_>) {
        let info: AgentInfo<'_> = parsed(answer.agent_info);
        let name = info.name.filled().map(|name| name.chars().take(MOST_NAME).collect::<String>());
        self.agent = name.as_deref().and_then(AcpAgent::named);
        self.agent_name = name;
        self.version = info.version.filled().map(str::to_owned);
    }

    fn open(&mut self, answer: &AcpAnswer<'_>, cwd: Option<String>, line: &Lined<'_>, sink: &mut Sink<'_>) {
        let Some(session) = answer.session_id.filled().map(str::to_owned) else { return };
        self.roots.entry(session.clone()).or_default().cwd = cwd;
        self.with(&session, line, sink, &mut |_, _| {});
    }

    fn end_turn(
        &mut self,
        session: &str,
        answer: &AcpAnswer<'_>,
        error: Option<&RawValue>,
        line: &Lined<'_>,
        sink: &mut Sink<'_>,
    ) {
        self.flush_text(session, line, sink);
        let by_reason = answer.stop_reason.filled().map(status_of);
        let failed = error.map(|_| AgentStatus::Failed);
        let status = failed.or(by_reason).unwrap_or(AgentStatus::Completed);
        let tokens: PromptUsage = parsed(answer.usage);
        let whose = self.row().tokens;
        let has_tokens = answer.usage.is_some() && whose != PromptTokens::Unknown;
        self.with(session, line, sink, &mut |known, out| {
            let text: ErrorMessage<'_> = parsed(error);
            let text = text.message.filled().map(|text| Value::from(text).to_string());
            let text = text.as_deref().map(|json| RawJson { json, offset: u64::MAX });
            let evidence = EndEvidence::of_turn(status);
            out.emit_made(Fact::TurnEnd { status, evidence, counts_run: true, text });
            let Some(root) = known.roots.get_mut(session) else { return };
            if !has_tokens || root.is_continued {
                return;
            }
            root.tokens += tokens.usage();
            let (usage, cost_micro_usd) = (root.tokens, root.cost_micro_usd);
            out.emit_made(match whose {
                PromptTokens::Tree => Fact::Checksum(Checksum { usage, cost_micro_usd, part: None }),
                PromptTokens::Root | PromptTokens::Unknown => Fact::Totals { usage, cost_micro_usd: None },
            });
        });
    }

    fn update(&mut self, session: &str, update: &AcpUpdate<'_>, line: &Lined<'_>, sink: &mut Sink<'_>) {
        let kind = update.kind.get().unwrap_or_default();
        match kind {
            "agent_message_chunk" | "agent_thought_chunk" => {
                return self.take_text(session, kind == "agent_thought_chunk", update, line, sink);
            }
            _ => self.flush_text(session, line, sink),
        }
        match kind {
            "tool_call" | "tool_call_update" => self.call(session, update, line, sink),
            "subagent_update" => self.agent(session, update, line, sink),
            "session_message" => self.message(session, update, line, sink),
            "usage_update" => {
                let cost: AcpCost<'_> = parsed(update.cost);
                if let (Some(cost), Some(root)) = (cost.micro_usd(), self.roots.get_mut(session)) {
                    root.cost_micro_usd = Some(cost);
                }
                self.with(session, line, sink, &mut |_, out| out.emit_made(Fact::Activity));
            }
            "session_info_update" => {
                let title = owned(&update.title);
                self.with(session, line, sink, &mut |_, out| {
                    if let Some(text) = title.clone() {
                        out.emit_made(Fact::Title { text, origin: TitleOrigin::Harness });
                    }
                });
            }
            "config_option_update" => {
                let options: Vec<ConfigOption<'_>> = elements(update.config_options);
                let model = options.iter().find(|option| option.id.is("model"));
                // A word for what the user has set names no model.
                let model = model.and_then(|option| option.current_value.filled());
                let model = model.filter(|model| *model != "default");
                self.with(session, line, sink, &mut |_, out| describe_model(model, out));
            }
            // Text of the person that is repeated, plans, commands.
            _ => self.with(session, line, sink, &mut |_, out| out.emit_made(Fact::Activity)),
        }
    }

    /// Takes a piece of a text.
    fn take_text(
        &mut self,
        session: &str,
        is_thought: bool,
        update: &AcpUpdate<'_>,
        line: &Lined<'_>,
        sink: &mut Sink<'_>,
    ) {
        let block: TextBlock<'_> = parsed(update.content);
        let text: Str<'_> = parsed_text(block.text);
        let Some(text) = text.filled() else { return };
        let message = update.message_id.filled();
        let caller = (self.row().meta)(update.meta).parent_tool_use_id.filled().map(str::to_owned);
        let caller = caller.filter(|_| !self.children.contains_key(session));
        let is_same = self.texts.get(session).is_some_and(|open| {
            open.message.as_deref() == message
                && open.is_thought == is_thought
                && open.caller == caller
                && open.text.len() + text.len() <= MOST_TEXT
        });
        if !is_same {
            self.flush_text(session, line, sink);
        }
        let open = self.texts.entry(session.to_owned()).or_insert_with(|| Pieces {
            message: message.map(str::to_owned),
            caller,
            is_thought,
            text: String::new(),
        });
        open.text.push_str(text);
    }

    /// Emits the text of a session that was being written.
    fn flush_text(&mut self, session: &str, line: &Lined<'_>, sink: &mut Sink<'_>) {
        let Some(Pieces { message, caller, is_thought, text }) = self.texts.remove(session) else { return };
        let json = Value::from(text).to_string();
        let text = RawJson { json: &json, offset: u64::MAX };
        self.with(session, line, sink, &mut |_, out| {
            let claim = caller.as_deref().map_or(out.head.claim, Claim::SpawnedBy);
            let message_id = message.as_deref();
            let fact = match is_thought {
                true => Fact::Thought { message_id, text: Some(text) },
                false => Fact::Message { message_id, text },
            };
            out.emit_of(claim, out.head.time, fact);
        });
    }

    fn call(&mut self, session: &str, update: &AcpUpdate<'_>, line: &Lined<'_>, sink: &mut Sink<'_>) {
        let Some(id) = update.tool_call_id.filled().map(|id| self.call_id(id).to_owned()) else { return };
        let key = (session.to_owned(), id.clone());
        let caller = (self.row().meta)(update.meta).parent_tool_use_id.filled().map(str::to_owned);
        let is_in_root = !self.children.contains_key(session);
        self.with(session, line, sink, &mut |known, out| {
            let caller = caller.as_deref().filter(|_| is_in_root);
            let (claim, time) = (caller.map_or(out.head.claim, Claim::SpawnedBy), out.head.time);
            let mut out = out.with(claim, time, None);
            let is_known = known.calls.contains_key(&key);
            let mut open = known.calls.remove(&key).unwrap_or_else(|| AcpCall::of(update, known.agent));
            let agent = known.agent;
            let mut seen = CallSink { emitter: &mut out, known: agent };
            open.begin(&id, update, !is_known, &mut seen);
            open.note_agents(&id, update, &mut seen);
            if !open.end(&id, update, &mut seen) {
                known.calls.insert(key.clone(), open);
            }
        });
    }

    /// Reads what a session says of an agent that it started.
    fn agent(&mut self, session: &str, update: &AcpUpdate<'_>, line: &Lined<'_>, sink: &mut Sink<'_>) {
        let Some((root, parent)) = self.place(session) else { return };
        let Some(child) = update.session_id.filled() else { return };
        let id = child.split_once(CHILD_MARK).map_or(child, |(_, thread)| thread).to_owned();
        let is_new = !self.children.contains_key(child);
        let state: ChildState<'_> = parsed(update.state);
        let ended = state.ended();
        let entry = self.children.entry(child.to_owned());
        let known =
            entry.or_insert_with(|| AcpChild { root: root.clone(), id: id.clone(), ..AcpChild::default() });
        let continues = known.has_ended && state.state.is("running");
        if state.state.filled().is_some() && ended.is_none() {
            known.gap.note(TurnBoundary::Begin, line.time);
        }
        known.has_ended = if state.state.filled().is_some() { ended.is_some() } else { known.has_ended };
        let words = self.row().about;
        let (kind, description) = match words {
            AgentWords::Description => (None, owned(&update.description).or_else(|| owned(&update.title))),
            AgentWords::Task => (None, None),
            AgentWords::Type => (owned(&update.description), owned(&update.title)),
        };
        let prompt = (words == AgentWords::Task).then(|| update.description.filled()).flatten();
        let prompt = prompt.map(|text| Value::from(text).to_string());
        let error = state.error;
        let capabilities: ChildCapabilities<'_> = parsed(update.capabilities);
        let can_stop = line.is_relayed && capabilities.cancel.is_some();
        self.with(child, line, sink, &mut |_, out| {
            let is_told = kind.is_some() || description.is_some() || prompt.is_some();
            if is_new || is_told || can_stop {
                out.emit_made(Fact::Spawn(Spawn {
                    agent: Some(&id),
                    parent: Some(parent.as_deref().map_or(Parent::Root, Parent::Agent)),
                    agent_type: kind.clone(),
                    description: description.clone(),
                    prompt: prompt.as_deref().map(|json| RawJson { json, offset: u64::MAX }),
                    mode: Some(SpawnMode::Foreground),
                    starts: is_new,
                    can_stop,
                    ..Spawn::default()
                }));
            }
            if continues {
                out.emit_made(Fact::TurnStart);
            }
            out.emit_made(Fact::Activity);
            let Some(status) = ended else { return };
            let text: ErrorMessage<'_> = parsed(error);
            let text = text.message.filled().map(|text| Value::from(text).to_string());
            out.emit_made(Fact::AgentEnd(AgentEnd {
                agent: Some(&id),
                status,
                evidence: EndEvidence::of_turn(status),
                error: text.as_deref().map(|json| RawJson { json, offset: u64::MAX }),
                ..AgentEnd::default()
            }));
        });
        if let Some(known) = self.children.get_mut(child).filter(|known| known.has_ended) {
            known.gap.note(TurnBoundary::End, line.time);
        }
    }

    /// Reads a text from one session to another: the task of an agent, named by the call that started it.
    fn message(&mut self, session: &str, update: &AcpUpdate<'_>, line: &Lined<'_>, sink: &mut Sink<'_>) {
        let is_sent = update.sender_session_id.get() == Some(session);
        let child = update.recipient_session_id.filled().filter(|_| is_sent);
        let Some(child) = child.filter(|child| self.children.contains_key(*child)).map(str::to_owned) else {
            return self.with(session, line, sink, &mut |_, out| out.emit_made(Fact::Activity));
        };
        let call = update.message_id.filled();
        let is_call = self.row().about == AgentWords::Type;
        self.with(&child, line, sink, &mut |_, out| {
            let agent = match out.head.claim {
                Claim::Agent(agent, _) => Some(agent),
                Claim::Root(_) | Claim::SpawnedBy(_) | Claim::Chain { .. } | Claim::Silent => None,
            };
            let prompt = update.content.map(|raw| RawJson { json: raw.get(), offset: u64::MAX });
            let call = call.filter(|_| is_call);
            out.emit_made(Fact::Spawn(Spawn { agent, call, prompt, is_origin: is_call, ..Spawn::default() }));
        });
    }
}

/// The message of an error of JSON-RPC or of an agent.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ErrorMessage<'a> {
    message: Str<'a>,
}

/// A line with what its recording adds.
struct Lined<'a> {
    text: LineText<'a>,
    side: Option<Peer>,
    time: Option<Millis>,
    is_relayed: bool,
}

fn parsed_text<'a>(raw: Option<&'a RawValue>) -> Str<'a> {
    parsed(raw)
}

/// Emits the model of a root or an agent.
fn describe_model(model: Option<&str>, out: &mut Emitter<'_, '_>) {
    let Some(model) = model else { return out.emit_made(Fact::Activity) };
    let fact = match out.head.claim {
        Claim::Agent(agent, _) => {
            let model = Some(model.to_owned().into());
            Fact::Spawn(Spawn { agent: Some(agent), model, ..Spawn::default() })
        }
        Claim::Root(_) | Claim::SpawnedBy(_) | Claim::Chain { .. } | Claim::Silent => {
            Fact::Session { version: None, cwd: None, model: Some(model), tells_starts: false }
        }
    };
    out.emit_made(fact);
}

impl LineDecoder for AcpConnection {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let RecordedMessage { message, side, time, is_relayed } = read(text.text)?;
        let line = Lined { text, side, time, is_relayed };
        self.last = (text.place, time);
        if message.is_answer() {
            self.answer(&message, &line, sink);
        } else {
            self.request(&message, &line, sink);
        }
        Ok(())
    }

    fn end_delivery(&mut self, sink: &mut Sink<'_>) {
        let mut open: Vec<String> = self.texts.keys().cloned().collect();
        open.sort_unstable();
        let (place, time) = self.last;
        let text = LineText { place, text: "", is_exact: false };
        let line = Lined { text, side: None, time, is_relayed: false };
        open.iter().for_each(|session| self.flush_text(session, &line, sink));
    }
}
