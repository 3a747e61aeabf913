//! What `cline --json` prints: what agents do, without their names in most lines, and no session.
//!
//! Pitfalls: a call's line names no agent; a line in front of it, of the hooks, does. An agent makes its calls one after
//! another, while those that start agents run side by side: so a call is of the first agent that waits for one and has none
//! that keeps it. That is a guess, unless only one agent waits. The first agent without a parent is the root; teammates
//! have none either, and lines of their own, which are printed twice. Tokens name no agent: their sum is the session's,
//! those of the root are in the last line (with those of teammates), those of an agent in the line behind its end.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError,
    lenient::{LineText, Num, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, Checksum, Claim, Clock, EndEvidence, Fact, Millis, Parent, Sink,
    SourceKind, Spawn, ToolClass, Usage, parse_rfc3339,
};

use super::{
    messages::Metrics,
    tools::{self, OpenCall, SpawnQueue},
};

/// Words of lines that change the state of agents, or of the session.
pub(super) const CHANGES: &[&str] = &[
    "\"hook_event\"",
    "\"run_result\"",
    "\"teammate_spawned\"",
    "\"spawn_agent\"",
    "\"team_run_task\"",
    "\"content_start\"",
    "\"done\"",
];

/// Decodes one recorded or piped stream.
#[derive(Debug)]
pub(super) struct Stream {
    session: Option<String>,
    root: Option<String>,
    /// Names of teammates, by the ids of their runs.
    mates: HashMap<String, String>,
    /// Agents that are about to make a call, in order.
    waiting: Vec<String>,
    /// Calls that run.
    calls: HashMap<String, RunningCall>,
    spawns: SpawnQueue,
    /// Agents that have completed, and whose tokens were not read.
    ended: Vec<String>,
    /// Agents that have ended with an error, of which the next line says more.
    errors: Vec<String>,
    /// Tokens of teammates.
    tokens: HashMap<String, Usage>,
    /// Tokens of all responses.
    sum: Usage,
    /// When the process began to print.
    since: Option<Millis>,
}

#[derive(Debug)]
struct RunningCall {
    owner: String,
    basis: Basis,
    is_spawn: bool,
    open: OpenCall,
}

/// One line. Fields of all types together.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    ts: Str<'a>,
    hook_event_name: Str<'a>,
    agent_id: Str<'a>,
    parent_agent_id: Str<'a>,
    event: Option<&'a RawValue>,
    /// Of the last line.
    finish_reason: Str<'a>,
    text: Option<&'a RawValue>,
    model: PrintedModel<'a>,
    usage: Option<Metrics>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct PrintedModel<'a> {
    id: Str<'a>,
}

/// What an agent does.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    content_type: Str<'a>,
    tool_name: Str<'a>,
    tool_call_id: Str<'a>,
    input: Option<&'a RawValue>,
    output: Option<&'a RawValue>,
    duration_ms: Num,
    usage: Option<Metrics>,
    /// Of a response.
    input_tokens: Num,
    output_tokens: Num,
    cache_read_tokens: Num,
    cache_write_tokens: Num,
    reason: Str<'a>,
    /// Of a team.
    agent_id: Str<'a>,
    event: Option<&'a RawValue>,
    teammate: Teammate<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Teammate<'a> {
    runtime_agent_id: Str<'a>,
}

impl Event<'_> {
    /// Returns the tokens of a response.
    fn response_usage(&self) -> Usage {
        let Self { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, .. } = *self;
        Metrics { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens }.usage()
    }
}

fn parse<'a>(raw: Option<&'a RawValue>) -> Event<'a> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

impl Stream {
    /// A decoder for the stream that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self {
            session: hint.session.clone(),
            root: None,
            mates: HashMap::new(),
            waiting: Vec::new(),
            calls: HashMap::new(),
            spawns: SpawnQueue::default(),
            ended: Vec::new(),
            errors: Vec::new(),
            tokens: HashMap::new(),
            sum: Usage::default(),
            since: None,
        }
    }

    /// Returns the name under which an agent is known.
    fn name_of(&self, agent: &str) -> String {
        self.mates.get(agent).map_or(agent, String::as_str).to_owned()
    }

    fn claim<'n>(&self, agent: &'n str, basis: Basis) -> Claim<'n> {
        if self.root.as_deref() == Some(agent) { Claim::Root(basis) } else { Claim::Agent(agent, basis) }
    }

    fn hook(&mut self, line: &Line<'_>, out: &mut Emitter<'_, '_>) {
        let Some(id) = line.agent_id.filled() else { return out.emit_made(Fact::Activity) };
        let agent = self.name_of(id);
        let parent = line.parent_agent_id.filled();
        if parent.is_none() && self.root.is_none() && !self.mates.contains_key(id) {
            self.root = Some(agent.clone());
        }
        let (is_root, time) = (self.root.as_ref() == Some(&agent), out.head.time);
        let claim = self.claim(&agent, Basis::Wire);
        match line.hook_event_name.get().unwrap_or_default() {
            "agent_start" => {
                out.emit_of(claim, time, Fact::TurnStart);
                if !is_root {
                    self.spawned(&agent, parent, out);
                }
            }
            "tool_call" => {
                out.emit_of(claim, time, Fact::Activity);
                self.waiting.push(agent);
            }
            "agent_end" => {
                self.agent_end(&agent, AgentStatus::Completed, out);
                if !is_root && !self.mates.contains_key(id) {
                    self.ended.push(agent);
                }
            }
            "agent_error" => {
                self.agent_end(&agent, AgentStatus::Failed, out);
                self.errors.push(agent);
            }
            _ => out.emit_of(claim, time, Fact::Activity),
        }
    }

    fn spawned(&mut self, agent: &str, parent: Option<&str>, out: &mut Emitter<'_, '_>) {
        let is_mate = self.mates.values().any(|mate| mate == agent);
        let parent = parent.map(|parent| self.name_of(parent));
        let call = self.spawns.start(agent, parent.as_deref());
        let spawn = Spawn {
            agent: Some(agent),
            parent: match parent.as_deref() {
                Some(parent) if self.root.as_deref() == Some(parent) => Some(Parent::Root),
                Some(parent) => Some(Parent::Agent(parent)),
                // The root alone has teammates.
                None => is_mate.then_some(Parent::Root),
            },
            name: is_mate.then(|| agent.into()),
            ..Spawn::default()
        };
        tools::emit_start(spawn, call, out);
    }

    fn agent_end(&self, agent: &str, status: AgentStatus, out: &mut Emitter<'_, '_>) {
        if self.root.as_deref() == Some(agent) {
            // The last line says how the root ended.
            return out.emit_made(Fact::Activity);
        }
        // An error may be that it was stopped: the next line says so.
        let is_sure = status == AgentStatus::Completed;
        let evidence = if is_sure { EndEvidence::Notification } else { EndEvidence::LastLine };
        let agent = Some(agent);
        out.emit_made(Fact::AgentEnd(AgentEnd { agent, status, evidence, ..AgentEnd::default() }));
    }

    /// Emits what an error was, where one agent alone has one.
    fn error(&mut self, status: AgentStatus, out: &mut Emitter<'_, '_>) {
        let only = if self.errors.len() == 1 { self.errors.pop() } else { None };
        self.errors.clear();
        match only.filter(|agent| self.root.as_ref() != Some(agent)) {
            Some(agent) => out.emit_made(Fact::AgentEnd(AgentEnd {
                agent: Some(&agent),
                status,
                evidence: EndEvidence::Notification,
                ..AgentEnd::default()
            })),
            None => out.emit(Fact::Heartbeat),
        }
    }

    /// Returns the agent that makes a call now, and how that is known.
    fn caller(&mut self, is_spawn: bool) -> Option<(String, Basis)> {
        let is_free = |agent: &String| {
            let mut own = self.calls.values().filter(|call| call.owner == *agent);
            own.all(|call| call.is_spawn && is_spawn)
        };
        let at = self.waiting.iter().position(is_free)?;
        let is_alone = self.waiting.iter().all(|agent| *agent == self.waiting[at]);
        let basis = if is_alone { Basis::Link } else { Basis::Stack };
        Some((self.waiting.remove(at), basis))
    }

    /// Emits what an agent does: the one that the line names, else the one that it can be of.
    fn event<'a>(&mut self, event: &Event<'a>, named: Option<&str>, out: &mut Emitter<'a, '_>) {
        match event.kind.get().unwrap_or_default() {
            "content_start" if event.content_type.is("tool") => self.begin(event, named, out),
            "content_end" if event.content_type.is("tool") => self.end(event, out),
            "usage" => self.response(event.response_usage(), named, out),
            "done" if named.is_none() && event.reason.is("aborted") => self.error(AgentStatus::Stopped, out),
            "done" => self.done(event, named, out),
            "error" if named.is_none() => self.error(AgentStatus::Failed, out),
            _ => out.emit(Fact::Heartbeat),
        }
    }

    fn begin<'a>(&mut self, event: &Event<'a>, named: Option<&str>, out: &mut Emitter<'a, '_>) {
        let (id, name) = (event.tool_call_id.filled(), event.tool_name.get().unwrap_or_default());
        let is_spawn = tools::class(name) == ToolClass::Spawn;
        let owner = match named {
            Some(named) => {
                let at = self.waiting.iter().position(|agent| agent == named);
                at.map(|at| self.waiting.remove(at));
                Some((named.to_owned(), Basis::Wire))
            }
            None => self.caller(is_spawn),
        };
        let spawns = &mut self.spawns;
        let (begin, open) =
            tools::begin(id, name, event.input, out.line, &mut |mate| spawns.has_worked(mate, id));
        let is_team = open.mate.is_some();
        let claim = owner.as_ref().map_or(Claim::Silent, |(owner, basis)| self.claim(owner, *basis));
        out.emit_of(claim, out.head.time, Fact::CallBegin(begin));
        if let Some((id, (owner, basis))) = id.map(str::to_owned).zip(owner) {
            if is_spawn && !is_team {
                self.spawns.add(&owner, &id);
            }
            self.calls.insert(id, RunningCall { owner, basis, is_spawn, open });
        }
    }

    fn end<'a>(&mut self, event: &Event<'a>, out: &mut Emitter<'a, '_>) {
        let id = event.tool_call_id.filled();
        let call = id.and_then(|id| self.calls.remove(id));
        self.spawns.remove(id);
        let (owner, open) = call.map(|call| ((call.owner, call.basis), call.open)).unzip();
        let mut ended = tools::end(id, &open.unwrap_or_default(), event.output, false);
        ended.report = ended.report.filter(|_| self.spawns.is_certain(id));
        let claim = owner.as_ref().map_or(Claim::Silent, |(owner, basis)| self.claim(owner, *basis));
        let fact = ended.fact(out.raw(event.output), event.duration_ms.signed());
        out.emit_of(claim, out.head.time, Fact::CallEnd(fact));
    }

    /// Counts the tokens of a response. A response of a teammate is printed twice: once with its name.
    fn response(&mut self, usage: Usage, named: Option<&str>, out: &mut Emitter<'_, '_>) {
        let Some(mate) = named else {
            self.sum += usage;
            let sum = Checksum { usage: self.sum, cost_micro_usd: None, part: self.since };
            return out.emit_made(Fact::Checksum(sum));
        };
        let sum = self.tokens.entry(mate.to_owned()).or_default();
        *sum += usage;
        let totals = Fact::Totals { usage: *sum, cost_micro_usd: None };
        out.emit_of(Claim::Agent(mate, Basis::Wire), out.head.time, totals);
    }

    /// Emits the tokens of an agent that has completed. Whose they are is not known while several are to come.
    fn done(&mut self, event: &Event<'_>, named: Option<&str>, out: &mut Emitter<'_, '_>) {
        if named.is_some() || !event.reason.is("completed") {
            return out.emit(Fact::Heartbeat);
        }
        let own = if self.ended.len() == 1 { self.ended.pop() } else { None };
        self.ended.clear();
        match own.zip(event.usage) {
            Some((agent, tokens)) => {
                let totals = Fact::Totals { usage: tokens.usage(), cost_micro_usd: None };
                out.emit_of(Claim::Agent(&agent, Basis::Link), out.head.time, totals);
            }
            None => out.emit(Fact::Heartbeat),
        }
    }

    /// Emits how the root ended, and its tokens.
    fn result<'a>(&mut self, line: &Line<'a>, out: &mut Emitter<'a, '_>) {
        out.head.claim = Claim::Root(Basis::Wire);
        let model = line.model.id.filled();
        out.emit_made(Fact::Session { version: None, cwd: None, model, tells_starts: true });
        if let Some(tokens) = line.usage {
            let mates = self.tokens.values().fold(Usage::default(), |sum, tokens| sum + *tokens);
            let usage = tokens.usage().minus(&mates);
            out.emit_made(Fact::Totals { usage, cost_micro_usd: None });
        }
        let result = out.raw(line.text).filter(|text| text.json.len() > 2);
        if let Some(text) = result {
            out.emit_made(Fact::Message { message_id: None, text });
        }
        if let Some(status) = line.finish_reason.get().and_then(tools::status) {
            let evidence = EndEvidence::LastLine;
            let text = result.filter(|_| status == AgentStatus::Failed);
            out.emit_made(Fact::TurnEnd { status, evidence, counts_run: true, text });
        }
    }

    fn team<'a>(&mut self, event: &Event<'a>, out: &mut Emitter<'a, '_>) {
        let Some(mate) = event.agent_id.filled() else { return out.emit(Fact::Heartbeat) };
        match event.kind.get().unwrap_or_default() {
            "teammate_spawned" => {
                if let Some(id) = event.teammate.runtime_agent_id.filled() {
                    self.mates.insert(id.to_owned(), mate.to_owned());
                }
                out.emit(Fact::Heartbeat);
            }
            "agent_event" => self.event(&parse(event.event), Some(mate), out),
            _ => out.emit(Fact::Heartbeat),
        }
    }
}

impl LineDecoder for Stream {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let line: Line<'_> = serde_json::from_str(text.text)?;
        let Some(kind) = line.kind.filled() else {
            return Err(LineError::MissingField { item: "a printed line", field: "type" });
        };
        let session = self.session.clone();
        let mut out = Emitter::new(SourceKind::Stream, Clock::Stream, Claim::Silent, text, sink);
        out.head.session = session.as_deref();
        out.head.time = line.ts.get().and_then(parse_rfc3339);
        self.since = self.since.or(out.head.time);
        match kind {
            "hook_event" => {
                out.head.claim = Claim::Root(Basis::Link);
                self.hook(&line, &mut out);
            }
            "agent_event" => self.event(&parse(line.event), None, &mut out),
            "team_event" => self.team(&parse(line.event), &mut out),
            "run_result" => self.result(&line, &mut out),
            _ => out.emit(Fact::Heartbeat),
        }
        Ok(())
    }
}
