//! Payloads of Cline's hooks, one per line. They name agents, their parents and calls exactly.
//!
//! Pitfalls: the root is the first agent without a parent. A teammate has none either, and an id that no other source has:
//! what its payloads say is left to those.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError,
    lenient::{LineText, Num, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, Claim, Clock, EndEvidence, Fact, Parent, Sink, SourceKind, Spawn,
    ToolClass, parse_rfc3339,
};

use super::tools::{self, OpenCall, SpawnQueue};

/// Decodes one log of payloads.
#[derive(Debug)]
pub(super) struct Hooks {
    hint: Hint,
    /// What is known of each session.
    sessions: HashMap<String, SessionHooks>,
}

#[derive(Debug, Default)]
struct SessionHooks {
    root: Option<String>,
    calls: HashMap<String, OpenCall>,
    spawns: SpawnQueue,
}

/// One payload. Fields of all events together.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Payload<'a> {
    hook_name: Str<'a>,
    timestamp: Str<'a>,
    session_context: Context<'a>,
    #[serde(rename = "agent_id")]
    agent: Str<'a>,
    #[serde(rename = "parent_agent_id")]
    parent: Str<'a>,
    #[serde(rename = "tool_call")]
    call: Call<'a>,
    #[serde(rename = "tool_result")]
    result: Call<'a>,
    turn: Turn<'a>,
    error: Failure<'a>,
    workspace_roots: Option<Vec<Str<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Context<'a> {
    root_session_id: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Call<'a> {
    id: Str<'a>,
    name: Str<'a>,
    input: Option<&'a RawValue>,
    output: Option<&'a RawValue>,
    error: Str<'a>,
    duration_ms: Num,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Turn<'a> {
    output_text: Option<&'a RawValue>,
    status: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Failure<'a> {
    message: Option<&'a RawValue>,
}

/// Returns the session of a payload.
pub(super) fn session_of(line: &[u8]) -> Option<String> {
    let payload: Payload<'_> = serde_json::from_slice(line).ok()?;
    payload.session_context.root_session_id.filled().map(str::to_owned)
}

impl Hooks {
    /// A decoder for the log that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { hint: hint.clone(), sessions: HashMap::new() }
    }
}

impl LineDecoder for Hooks {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let payload: Payload<'_> = serde_json::from_str(text.text)?;
        let (Some(event), Some(agent)) = (payload.hook_name.filled(), payload.agent.filled()) else {
            return Err(LineError::MissingField { item: "a hook payload", field: "hookName" });
        };
        let named = payload.session_context.root_session_id.filled();
        let session = named.or(self.hint.session.as_deref());
        let key = session.unwrap_or_default();
        let is_new = !self.sessions.contains_key(key);
        let known = self.sessions.entry(key.to_owned()).or_default();
        let parent = payload.parent.filled();
        if parent.is_none() && known.root.is_none() {
            known.root = Some(agent.to_owned());
        }
        let is_root = known.root.as_deref() == Some(agent);
        let claim = match parent {
            _ if is_root => Claim::Root(Basis::Wire),
            Some(_) => Claim::Agent(agent, Basis::Wire),
            None => Claim::Silent,
        };
        let mut out = Emitter::new(SourceKind::Hook, Clock::Receiver, claim, text, sink);
        out.head.time = payload.timestamp.get().and_then(parse_rfc3339);
        out.head.session = session;
        if is_new {
            let cwd = payload.workspace_roots.as_ref().and_then(|roots| roots.first()?.0.clone());
            out.emit_made(Fact::Session { version: None, cwd, model: None, tells_starts: true });
        }
        if !is_root && parent.is_none() {
            out.emit(Fact::Activity);
            return Ok(());
        }
        match event {
            "agent_start" if is_root => out.emit(Fact::TurnStart),
            "agent_start" => known.start(agent, parent.unwrap_or_default(), &mut out),
            "tool_call" => known.begin(agent, &payload.call, &mut out),
            "tool_result" => known.end(&payload.result, &mut out),
            "agent_end" | "agent_error" => {
                let has_failed = event == "agent_error";
                let by_word = payload.turn.status.get().and_then(tools::status);
                let status =
                    if has_failed { AgentStatus::Failed } else { by_word.unwrap_or(AgentStatus::Completed) };
                let report = out.raw(payload.turn.output_text).filter(|_| !has_failed);
                // It names its agent; the call whose result says the same may be a guess.
                let (evidence, error) = (EndEvidence::Notification, out.raw(payload.error.message));
                if is_root {
                    let text = report.or(error);
                    out.emit_made(Fact::TurnEnd { status, evidence, counts_run: false, text });
                } else {
                    let agent = Some(agent);
                    out.emit_made(Fact::AgentEnd(AgentEnd {
                        agent,
                        status,
                        evidence,
                        report,
                        error,
                        ..AgentEnd::default()
                    }));
                }
            }
            _ => out.emit(Fact::Activity),
        }
        Ok(())
    }
}

impl SessionHooks {
    fn start(&mut self, agent: &str, parent: &str, out: &mut Emitter<'_, '_>) {
        let call = self.spawns.start(agent, Some(parent));
        let is_of_root = self.root.as_deref() == Some(parent);
        let parent = if is_of_root { Parent::Root } else { Parent::Agent(parent) };
        let parent = Some(parent).filter(|_| self.root.is_some());
        tools::emit_start(Spawn { agent: Some(agent), parent, ..Spawn::default() }, call, out);
    }

    fn begin<'a>(&mut self, agent: &str, call: &Call<'a>, out: &mut Emitter<'a, '_>) {
        let (id, name) = (call.id.filled(), call.name.get().unwrap_or_default());
        let spawns = &mut self.spawns;
        let (begin, open) =
            tools::begin(id, name, call.input, out.line, &mut |mate| spawns.has_worked(mate, id));
        out.emit_made(Fact::CallBegin(begin));
        let Some(id) = id else { return };
        if open.class == ToolClass::Spawn && open.mate.is_none() {
            self.spawns.add(agent, id);
        }
        self.calls.insert(id.to_owned(), open);
    }

    fn end<'a>(&mut self, call: &Call<'a>, out: &mut Emitter<'a, '_>) {
        let id = call.id.filled();
        let open = id.and_then(|id| self.calls.remove(id));
        self.spawns.remove(id);
        // Its begin may be in no payload that was read.
        let class = tools::class(call.name.get().unwrap_or_default());
        let open = open.unwrap_or_else(|| OpenCall { class, ..OpenCall::default() });
        let mut ended = tools::end(id, &open, call.output, call.error.filled().is_some());
        ended.report = ended.report.filter(|_| self.spawns.is_certain(id));
        let mut end = ended.fact(out.raw(call.output), call.duration_ms.signed());
        end.name = call.name.filled();
        out.emit_made(Fact::CallEnd(end));
    }
}
