//! Payloads of Copilot's hooks, one per line, under the name of their event: `{"_event": …, "in": …}`. A payload does not
//! name its event.
//!
//! Pitfalls, observed in 1.0.102: `sessionId` of an agent's payload is the agent's id, and at the start of a nested
//! one a third id; `parentAgentId` is the session for an agent of the root. Calls have no ids. An agent that fails has
//! no `subagentStop`.

use std::{borrow::Cow, collections::HashMap};

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError, canonical_digest,
    lenient::{LineText, Num, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallEnd, Claim, Clock, EndEvidence, Fact, Outcome, Parent, PromptKind,
    Sink, SourceKind, Spawn,
};

use super::tools;
use crate::common::hook_repeats::{HookEvent, Repeats};

/// Decodes one log of payloads.
#[derive(Debug)]
pub(super) struct Hooks {
    hint: Hint,
    /// The session of each agent.
    sessions: HashMap<String, String>,
    /// The session that was last reported to have identity on its wire.
    identified: String,
    repeats: Repeats,
}

/// A payload and the event that it was delivered for, which the payload does not name.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Line<'a> {
    #[serde(rename = "_event")]
    pub(super) event: Str<'a>,
    #[serde(rename = "in")]
    pub(super) payload: Option<Payload<'a>>,
}

/// One payload. Fields of all events together.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
pub(super) struct Payload<'a> {
    pub(super) session_id: Str<'a>,
    timestamp: Num,
    cwd: Str<'a>,
    source: Str<'a>,
    reason: Str<'a>,
    prompt: Option<&'a RawValue>,
    pub(super) agent_id: Str<'a>,
    agent_type: Str<'a>,
    parent_agent_id: Str<'a>,
    tool_name: Str<'a>,
    tool_args: Option<&'a RawValue>,
    tool_result: Option<ToolResult<'a>>,
    error: Option<&'a RawValue>,
    response: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct ToolResult<'a> {
    result_type: Str<'a>,
    text_result_for_llm: Option<&'a RawValue>,
}

impl Hooks {
    /// A decoder for the log that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self {
            hint: hint.clone(),
            sessions: HashMap::new(),
            identified: String::new(),
            repeats: Repeats::default(),
        }
    }

    /// Returns the session of a payload: an agent's is that of its parent, or its parent's id.
    fn session(&mut self, payload: &Payload<'_>) -> Option<String> {
        let Some(agent) = payload.agent_id.filled() else {
            return payload.session_id.filled().map(str::to_owned).or_else(|| self.hint.session.clone());
        };
        if let Some(session) = self.sessions.get(agent) {
            return Some(session.clone());
        }
        let parent = payload.parent_agent_id.filled()?;
        let session = self.sessions.get(parent).cloned().unwrap_or_else(|| parent.to_owned());
        self.sessions.insert(agent.to_owned(), session.clone());
        Some(session)
    }
}

impl LineDecoder for Hooks {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let line: Line<'_> = serde_json::from_str(text.text)?;
        let payload = line.payload.unwrap_or_default();
        let session = self.session(&payload);
        let agent = payload.agent_id.filled();
        let claim = agent.map_or(Claim::Root(Basis::Wire), |agent| Claim::Agent(agent, Basis::Wire));
        let mut out = Emitter::new(SourceKind::Hook, Clock::Receiver, claim, text, sink);
        out.head.time = payload.timestamp.signed();
        out.head.session = session.as_deref();
        if let Some(session) = session.as_deref().filter(|session| *session != self.identified) {
            session.clone_into(&mut self.identified);
            out.emit(Fact::WireHasIdentity);
        }
        let event = line.event.get().unwrap_or_default();
        let delivered = HookEvent::of(event, false);
        if self.repeats.is_repeated(out.head.session.unwrap_or_default(), delivered, text.text) {
            return Ok(());
        }
        match event {
            "sessionStart" => {
                let cwd = payload.cwd.filled().map(Cow::Borrowed);
                out.emit_made(Fact::Session { version: None, cwd, model: None, tells_starts: true });
                out.emit_made(Fact::SessionStart { source: payload.source.0.clone() });
            }
            "sessionEnd" => out.emit_made(Fact::SessionEnd { reason: payload.reason.0.clone() }),
            "userPromptSubmitted" => {
                if let Some(text) = out.raw(payload.prompt) {
                    out.emit_made(Fact::Prompt { prompt_id: None, text, what: PromptKind::Asked });
                }
            }
            "preToolUse" => {
                let name = payload.tool_name.get().unwrap_or_default();
                let begin = tools::begin(None, name, payload.tool_args, out.line, payload.digest());
                out.emit_made(Fact::CallBegin(begin));
            }
            "postToolUse" | "postToolUseFailure" => call_end(&payload, &mut out),
            "subagentStart" => out.emit_made(Fact::Spawn(Spawn {
                agent,
                parent: payload.parent_agent_id.filled().map(|parent| {
                    if session.as_deref() == Some(parent) { Parent::Root } else { Parent::Agent(parent) }
                }),
                agent_type: payload.agent_type.0.clone(),
                starts: true,
                ..Spawn::default()
            })),
            "subagentStop" => {
                let (status, evidence) = (AgentStatus::Completed, EndEvidence::StopHook);
                let report = out.raw(payload.response);
                let agent_type = payload.agent_type.0.clone();
                let end = AgentEnd { agent, status, evidence, report, agent_type, ..AgentEnd::default() };
                out.emit_made(Fact::AgentEnd(end));
            }
            "agentStop" if agent.is_none() => {
                let (status, evidence) = (AgentStatus::Completed, EndEvidence::StopHook);
                out.emit(Fact::TurnEnd { status, evidence, counts_run: false, text: None });
            }
            _ => out.emit(Fact::Activity),
        }
        Ok(())
    }
}

impl Payload<'_> {
    fn digest(&self) -> u64 {
        let name = self.tool_name.get().unwrap_or_default();
        canonical_digest(name, self.tool_args.map_or("", RawValue::get))
    }
}

fn call_end<'a>(payload: &Payload<'a>, out: &mut Emitter<'a, '_>) {
    let result = payload.tool_result.as_ref();
    let text = out.raw(result.and_then(|result| result.text_result_for_llm));
    let outcome = match result.and_then(|result| result.result_type.get()) {
        Some("success") if text.is_some_and(|text| tools::has_failed_command(&text.text())) => Outcome::Error,
        Some("success") => Outcome::Ok,
        Some("denied") => Outcome::Denied,
        Some("failure" | "rejected") => Outcome::Error,
        Some(_) => Outcome::Over,
        None if payload.error.is_some() => Outcome::Error,
        None => Outcome::Over,
    };
    out.emit_made(Fact::CallEnd(CallEnd {
        name: payload.tool_name.filled(),
        digest: payload.digest(),
        outcome,
        result: text.or_else(|| out.raw(payload.error)),
        ..CallEnd::default()
    }));
}
