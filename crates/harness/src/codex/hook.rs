//! Payloads of Codex's hooks. The tool hooks of a child name it; nothing names a parent but the end of a child, by the
//! name of the parent's rollout. A failed command looks like a good one: from hooks alone, each ended call is a success.

use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError,
    lenient::{LineText, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallBegin, CallEnd, Claim, Clock, EndEvidence, EventKind, Fact, Outcome,
    Parent, PromptKind, Sink, SourceKind, Spawn, SpawnMode, SpawnResult, ToolClass,
};

use super::{layout::thread_of, prompts::emit_prompt, tools};
use crate::common::hook_repeats::{HookEvent, Repeats};

/// Decodes payloads, one per line.
#[derive(Debug)]
pub(super) struct Hooks {
    hint: Hint,
    repeats: Repeats,
}

impl Hooks {
    /// A decoder for the log that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { hint: hint.clone(), repeats: Repeats::default() }
    }
}

/// One payload.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Payload<'a> {
    pub(super) hook_event_name: Str<'a>,
    pub(super) session_id: Str<'a>,
    pub(super) turn_id: Str<'a>,
    pub(super) transcript_path: Str<'a>,
    pub(super) model: Str<'a>,
    cwd: Str<'a>,
    agent_id: Str<'a>,
    agent_type: Str<'a>,
    tool_name: Str<'a>,
    tool_use_id: Str<'a>,
    tool_input: Option<&'a RawValue>,
    tool_response: Option<&'a RawValue>,
    prompt: Option<&'a RawValue>,
    last_assistant_message: Option<&'a RawValue>,
    source: Str<'a>,
    reason: Str<'a>,
}

/// The output of a call that started an agent of the first generation.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Spawned<'a> {
    agent_id: Str<'a>,
}

impl LineDecoder for Hooks {
    fn decode_line(&mut self, line: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let payload: Payload<'_> = serde_json::from_str(line.text)?;
        let Some(event) = payload.hook_event_name.filled() else {
            return Err(LineError::MissingField { item: "a hook payload", field: "hook_event_name" });
        };
        let agent = payload.agent_id.filled();
        let claim = agent.map_or(Claim::Root(Basis::Wire), |agent| Claim::Agent(agent, Basis::Wire));
        let mut out = Emitter::new(SourceKind::Hook, Clock::Receiver, claim, line, sink);
        out.head.session = payload.session_id.filled().or(self.hint.session.as_deref());
        let words = payload.last_assistant_message.map(|raw| line.raw(raw));
        let delivered = HookEvent::of(event, payload.turn_id.filled().is_some());
        if self.repeats.is_repeated(out.head.session.unwrap_or_default(), delivered, line.text) {
            return Ok(());
        }
        match event {
            "SessionStart" => {
                let (cwd, model) = (payload.cwd.0.clone(), payload.model.filled());
                out.emit_made(Fact::Session { version: None, cwd, model, tells_starts: true });
                out.emit_made(Fact::SessionStart { source: payload.source.0.clone() });
            }
            "SessionEnd" => out.emit_made(Fact::SessionEnd { reason: payload.reason.0.clone() }),
            "UserPromptSubmit" if payload.prompt.is_some() => {
                emit_prompt(payload.prompt, PromptKind::Asked, &mut out);
            }
            "UserPromptSubmit" => out.emit(Fact::Activity),
            "PreToolUse" => {
                let (id, named) = (payload.tool_use_id.filled(), payload.tool_name.get().unwrap_or_default());
                let name = tools::name_in_hooks(named);
                out.emit(Fact::ReportsQuestions);
                tools::with_begin(id, name, payload.tool_input, line, &mut |call| {
                    // The second generation of agents names none in its output: which call started which is not known.
                    let is_nameless = call.class == ToolClass::Spawn && name != named;
                    out.emit_made(Fact::CallBegin(if is_nameless {
                        CallBegin { class: ToolClass::Other, spawn: None, ..call }
                    } else {
                        call
                    }));
                });
            }
            "PostToolUse" => {
                let text = tools::words(payload.tool_response);
                let output: Spawned<'_> = serde_json::from_str(&text).unwrap_or_default();
                let agent = output.agent_id.filled();
                let name = payload.tool_name.filled().map(tools::name_in_hooks);
                let is_spawn = name.is_some_and(|name| tools::class(name) == ToolClass::Spawn);
                out.emit_made(Fact::CallEnd(CallEnd {
                    id: payload.tool_use_id.filled(),
                    name,
                    outcome: Outcome::Ok,
                    result: payload.tool_response.map(|raw| line.raw(raw)),
                    // The call ends at once, and the agent continues.
                    spawn: is_spawn.then_some(SpawnResult {
                        agent,
                        finished: Some(false),
                        ..SpawnResult::default()
                    }),
                    ..CallEnd::default()
                }));
            }
            "PermissionRequest" => {
                let name = tools::name_in_hooks(payload.tool_name.get().unwrap_or_default());
                let mut digest = 0;
                tools::with_begin(None, name, payload.tool_input, line, &mut |call| digest = call.digest);
                let input = payload.tool_input.map(|raw| line.raw(raw));
                out.emit_made(Fact::Permission { name, class: tools::class(name), digest, input });
            }
            "SubagentStart" => out.emit_made(Fact::Spawn(Spawn {
                agent,
                mode: Some(SpawnMode::Foreground),
                starts: true,
                ..Spawn::default()
            })),
            "SubagentStop" => {
                let parent = payload.transcript_path.get().and_then(|path| thread_of(Path::new(path)));
                let root = out.head.session;
                let parent = parent.map(|thread| match root {
                    Some(root) if root == thread => Parent::Root,
                    Some(_) | None => Parent::Agent(thread),
                });
                out.emit_made(Fact::Spawn(Spawn { agent, parent, ..Spawn::default() }));
                out.emit_made(Fact::AgentEnd(AgentEnd {
                    agent,
                    status: AgentStatus::Completed,
                    evidence: EndEvidence::StopHook,
                    report: words,
                    agent_type: Some(payload.agent_type.0.clone().unwrap_or_default()),
                    ..AgentEnd::default()
                }));
            }
            "Stop" => {
                let (status, evidence) = (AgentStatus::Completed, EndEvidence::StopHook);
                out.emit_made(Fact::TurnEnd { status, evidence, counts_run: false, text: words });
            }
            other => {
                let kind = match other {
                    "PreCompact" => EventKind::CompactPre,
                    "PostCompact" => EventKind::CompactPost,
                    "Interrupt" => EventKind::Notification,
                    _ => EventKind::UnknownHook,
                };
                out.emit(Fact::Note { kind, data: line.slice(line.text) });
            }
        }
        Ok(())
    }
}
