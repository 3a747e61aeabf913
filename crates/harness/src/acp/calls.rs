//! Tool calls of a session: `tool_call` begins one, each `tool_call_update` changes what it names, the last one ends it.
//!
//! Where an agent does not tell of its agents by themselves, the result of the call that started one may: in words of its
//! own, which are those of its harness.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, ToolArguments, digest,
    lenient::{Flag, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, CallBegin, CallEnd, EndEvidence, Fact, Outcome, Spawn, SpawnBatch, SpawnInput,
    SpawnMode, SpawnResult, ToolClass,
};

use super::{
    agents::{AcpAgent, KnownAgent},
    messages::parsed,
    updates::{AcpUpdate, TextBlock, ToolResponse, owned},
};
use crate::common::parts::{elements, string};

/// A call that has begun.
#[derive(Debug, Default)]
pub(super) struct AcpCall {
    name: String,
    class: ToolClass,
    /// Whether its arguments were emitted.
    has_input: bool,
    /// Whether a person refused it.
    pub(super) is_refused: bool,
    /// The agent that it started, and the agent's type.
    agent: Option<(String, Option<String>)>,
    /// Agents that it reported, each once.
    reported: Vec<String>,
}

/// Arguments of a tool that starts an agent, in the words of several harnesses.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct AgentArguments<'a> {
    description: Str<'a>,
    subagent_type: Str<'a>,
    prompt: Option<&'a RawValue>,
    #[serde(rename = "receiverThreadIds")]
    threads: Option<&'a RawValue>,
}

/// What a call returned.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct CallOutput<'a> {
    metadata: Option<&'a RawValue>,
    details: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct CallMetadata<'a> {
    /// The session of the agent that the call started.
    #[serde(rename = "sessionId")]
    session_id: Str<'a>,
}

/// Agents that a call reports while it runs, and at its end.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct CallDetails<'a> {
    progress: Option<&'a RawValue>,
    results: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct StartedAgent<'a> {
    id: Str<'a>,
    agent: Str<'a>,
    /// Of one that has ended.
    #[serde(rename = "exitCode")]
    exit_code: Option<i64>,
    aborted: Flag,
}

impl StartedAgent<'_> {
    /// How the agent ended; `None` while it is at work.
    fn ended(&self) -> Option<AgentStatus> {
        match self.exit_code? {
            _ if self.aborted.is_true() => Some(AgentStatus::Stopped),
            0 => Some(AgentStatus::Completed),
            _ => Some(AgentStatus::Failed),
        }
    }
}

impl AcpCall {
    /// A call as the update that begins it names it.
    pub(super) fn of(update: &AcpUpdate<'_>, known: Option<KnownAgent>) -> Self {
        let name = tool_name(update, known);
        let class = known.map_or(ToolClass::Other, |known| known.harness.tool_class(&name));
        Self { name, class, ..Self::default() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn class(&self) -> ToolClass {
        self.class
    }

    /// Returns the digest of a call, by which the question about it is found.
    pub(super) fn digest(&self, id: &str) -> u64 {
        digest(&self.name, id)
    }

    /// Emits the begin, where the update adds its arguments or `is_new`.
    pub(super) fn begin(
        &mut self,
        id: &str,
        update: &AcpUpdate<'_>,
        is_new: bool,
        out: &mut CallSink<'_, '_, '_>,
    ) {
        let input = update.raw_input.filter(|raw| raw.get().len() > "{}".len());
        if !is_new && (self.has_input || input.is_none()) {
            return;
        }
        self.has_input = input.is_some();
        let arguments: AgentArguments<'_> = parsed(input);
        let is_spawn = self.class == ToolClass::Spawn;
        let spawn = is_spawn.then(|| SpawnInput {
            agent_type: owned(&arguments.subagent_type),
            description: owned(&arguments.description),
            prompt: arguments.prompt.filter(|raw| raw.get() != "null").map(|raw| out.emitter.line.raw(raw)),
            mode: Some(SpawnMode::Foreground),
            ..SpawnInput::default()
        });
        let said = input.and_then(|raw| ToolArguments::parse(raw.get()).detail());
        let detail = said.map(Cow::into_owned);
        let detail = if is_spawn { arguments.description.filled().map(str::to_owned) } else { detail };
        out.emitter.emit_made(Fact::CallBegin(CallBegin {
            id: Some(id),
            name: &self.name,
            class: self.class,
            input: input.map(|raw| out.emitter.line.raw(raw)),
            digest: self.digest(id),
            detail: detail.map(Into::into),
            spawn,
            has_local_id: out.row().has_local_ids,
            ..CallBegin::default()
        }));
    }

    /// Notes which agent an update says that the call started, and emits those that it reports by themselves.
    pub(super) fn note_agents(&mut self, id: &str, update: &AcpUpdate<'_>, out: &mut CallSink<'_, '_, '_>) {
        let output: CallOutput<'_> = parsed(update.raw_output);
        let details: CallDetails<'_> = parsed(output.details);
        for list in [details.progress, details.results] {
            for agent in elements::<StartedAgent<'_>>(list) {
                let Some(reported) = agent.id.filled() else { continue };
                if let Some(status) = agent.ended() {
                    let (agent, evidence) = (Some(reported), EndEvidence::SpawnResult);
                    let end = AgentEnd { agent, status, evidence, ..AgentEnd::default() };
                    out.emitter.emit_made(Fact::AgentEnd(end));
                }
                if self.reported.iter().any(|known| known == reported) {
                    continue;
                }
                self.reported.push(reported.to_owned());
                out.emitter.emit_made(Fact::Spawn(Spawn {
                    agent: Some(reported),
                    agent_type: owned(&agent.agent),
                    detached: true,
                    batch: Some(SpawnBatch::Call(id)),
                    mode: Some(SpawnMode::Foreground),
                    starts: true,
                    ..Spawn::default()
                }));
            }
        }
        if self.class != ToolClass::Spawn {
            return;
        }
        let response: ToolResponse<'_> = parsed((out.row().meta)(update.meta).tool_response);
        let metadata: CallMetadata<'_> = parsed(output.metadata);
        let arguments: AgentArguments<'_> = parsed(update.raw_input);
        let threads: Vec<Str<'_>> = elements(arguments.threads);
        let text = string(update.raw_output).unwrap_or_default();
        let in_text = |name: &str| {
            let lines = text.lines().take_while(|line| !line.is_empty());
            lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).next().map(str::to_owned)
        };
        let first = threads.first().and_then(Str::filled);
        let named = response.agent_id.filled().or(metadata.session_id.filled()).or(first);
        if let Some(agent) = named.map(str::to_owned).or_else(|| in_text("agent_id")) {
            let kind = response.agent_type.filled().map(str::to_owned);
            self.agent = Some((agent, kind.or_else(|| in_text("actual_subagent_type"))));
        }
    }

    /// Emits the end, if the update is one; returns whether it is.
    pub(super) fn end(&self, id: &str, update: &AcpUpdate<'_>, out: &mut CallSink<'_, '_, '_>) -> bool {
        let outcome = match update.status.get() {
            Some("completed") => Outcome::Ok,
            Some("failed") if self.is_refused => Outcome::Denied,
            Some("failed") => Outcome::Error,
            _ => return false,
        };
        let is_spawn = self.class == ToolClass::Spawn;
        let started = self.agent.as_ref().filter(|_| is_spawn);
        // A call that reports the states of agents leaves the one that it started at work.
        let outlives =
            started.is_some() && update.raw_input.is_some_and(|raw| raw.get().contains("\"agentsStates\""));
        if let Some((agent, _)) = started {
            let (agent, call, mode) = (Some(agent.as_str()), Some(id), Some(SpawnMode::Foreground));
            out.emitter.emit_made(Fact::Spawn(Spawn {
                agent,
                call,
                mode,
                is_origin: true,
                ..Spawn::default()
            }));
        }
        let blocks: Vec<CallContent<'_>> = elements(update.content);
        let in_block = || {
            let block: TextBlock<'_> = parsed(blocks.first()?.content);
            block.text
        };
        let said = update.raw_output.filter(|raw| raw.get().starts_with(['"', '[']));
        let result = said.or_else(in_block).or(update.raw_output);
        out.emitter.emit_made(Fact::CallEnd(CallEnd {
            id: Some(id),
            name: Some(&self.name),
            digest: self.digest(id),
            outcome,
            result: result.map(|raw| out.emitter.line.raw(raw)),
            refused: is_spawn && started.is_none() && outcome != Outcome::Ok,
            spawn: started.map(|(agent, kind)| SpawnResult {
                agent: Some(agent),
                agent_type: kind.as_deref().map(Into::into),
                finished: (outcome == Outcome::Ok).then_some(!outlives),
                proves_agent: true,
                ..SpawnResult::default()
            }),
            ..CallEnd::default()
        }));
        true
    }
}

/// A part of what a call shows.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct CallContent<'a> {
    content: Option<&'a RawValue>,
}

/// Where the facts of an update go, and whose they are.
pub(super) struct CallSink<'e, 'a, 's> {
    pub(super) emitter: &'e mut Emitter<'a, 's>,
    pub(super) known: Option<KnownAgent>,
}

impl CallSink<'_, '_, '_> {
    fn row(&self) -> &'static AcpAgent {
        row_of(self.known)
    }
}

fn row_of(known: Option<KnownAgent>) -> &'static AcpAgent {
    known.map_or(&AcpAgent::PLAIN, |known| known.row)
}

/// Returns the name of a tool, as the model knows it: what the agent says it is, else its title where that is one word, else
/// the kind of the call.
fn tool_name(update: &AcpUpdate<'_>, known: Option<KnownAgent>) -> String {
    let row = row_of(known);
    let meta = (row.meta)(update.meta);
    let title = update.title.filled().filter(|title| is_word(title));
    let by_title = || title.map(|title| row.tool_of(title).unwrap_or(title));
    let kind = update.tool_kind.filled().unwrap_or("other");
    let by_kind = row.tool_of(kind).unwrap_or(kind);
    let named = update.name.filled().or(meta.tool_name.filled());
    named.or_else(by_title).unwrap_or(by_kind).to_owned()
}

/// Whether a title is a word that may be a tool's name, and no sentence or command.
fn is_word(title: &str) -> bool {
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    title.len() <= 64 && title.bytes().all(letters) && title.bytes().any(|byte| byte.is_ascii_alphabetic())
}
