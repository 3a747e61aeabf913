//! Trajectories as lines (`subscope.trajectory/1`): the content of an ATIF document, one line per step.
//!
//! A document describes an ended session. Bounds of intervals and of the session are emitted with the best clock, so
//! that times of calls and responses do not widen them.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_model::{
    AgentEnd, AgentStatus, Basis, CallBegin, CallEnd, Checksum, Claim, Clock, EndEvidence, EventKind, Fact,
    Millis, Outcome, Parent, PromptKind, RawJson, Response, Sink, SourceKind, Spawn, SpawnBatch, SpawnMode,
    ToolClass, TrajectoryLine, Usage,
};

use crate::{
    Emitter,
    lenient::{Flag, LineText, Num, Str, Strs},
    lines::{LineDecoder, LineError},
};

/// Most responses per step; a greater number is invalid.
const MAX_RESPONSES: u64 = 1_000;

/// Decodes lines of trajectories.
#[derive(Debug)]
pub(crate) struct Trajectories;

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    schema: Str<'a>,
    session_id: Str<'a>,
    r#type: Str<'a>,
    agent_id: Str<'a>,
    started_at_ms: Option<Millis>,
    ended_at_ms: Option<Millis>,
    harness: Str<'a>,
    version: Str<'a>,
    cwd: Str<'a>,
    usage: Option<Usage>,
    cost_micro_usd: Option<i64>,
    parent_id: Str<'a>,
    spawned_by: Str<'a>,
    is_batch: Flag,
    agent_type: Str<'a>,
    name: Str<'a>,
    description: Str<'a>,
    prompt: Option<&'a RawValue>,
    model: Str<'a>,
    background: Flag,
    is_warmup: Flag,
    is_copy: Flag,
    is_handed_over: Flag,
    is_inferred: Flag,
    intervals: Vec<[Millis; 2]>,
    triggers: Vec<Str<'a>>,
    text: Option<&'a RawValue>,
    prompt_id: Str<'a>,
    is_inserted: Flag,
    status: Option<AgentStatus>,
    evidence: Str<'a>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    message_id: Str<'a>,
    responses: Num,
    cost_pico_usd: Num,
    is_unpriced: Flag,
    finish_reason: Str<'a>,
    texts: Vec<&'a RawValue>,
    thoughts: Vec<&'a RawValue>,
    calls: Vec<Call<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Call<'a> {
    id: Str<'a>,
    name: Str<'a>,
    input: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    status: Str<'a>,
    is_interrupted: Flag,
    is_repeat: Flag,
    basis: Basis,
    is_spawn: Flag,
    started_at_ms: Option<Millis>,
    ended_at_ms: Option<Millis>,
    detail: Str<'a>,
    writes: Strs<'a>,
}

impl LineDecoder for Trajectories {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let line: Line<'_> = serde_json::from_str(text.text)?;
        if !line.schema.is(TrajectoryLine::SCHEMA) {
            return Err(LineError::Foreign(format!("no {}, kept as text", TrajectoryLine::SCHEMA).into()));
        }
        let agent = line.agent_id.filled();
        let claim = match agent {
            Some("root") | None => Claim::Root(Basis::Link),
            Some(agent) => Claim::Agent(agent, Basis::Link),
        };
        let mut out = Emitter::new(SourceKind::Posted, Clock::Stream, claim, text, sink);
        out.head.session = line.session_id.filled();
        match (line.r#type.get(), agent) {
            (Some("session"), _) => emit_session(&line, &mut out),
            (Some("start"), Some(agent)) => emit_start(agent, &line, &mut out),
            (Some("prompt"), _) => emit_prompt(&line, &mut out),
            (Some("step"), _) => emit_step(&line, claim, &mut out),
            (Some("note"), _) => emit_note(&line, &mut out),
            (Some("end"), Some(agent)) => emit_end(agent, &line, &mut out),
            (other, _) => return Err(LineError::UnknownType(other.unwrap_or_default().to_owned())),
        }
        Ok(())
    }
}

fn emit_session<'a>(line: &'a Line<'_>, out: &mut Emitter<'a, '_>) {
    // Its line is no activity of the root.
    out.head.claim = Claim::Silent;
    out.head.clock = Clock::Transcript;
    out.head.time = line.started_at_ms;
    if let Some(harness) = line.harness.filled() {
        out.emit(Fact::Harness { name: harness });
    }
    let session = || Fact::Session {
        version: line.version.filled(),
        cwd: line.cwd.0.clone(),
        model: line.model.filled(),
        tells_starts: true,
    };
    out.emit(session());
    out.head.time = line.ended_at_ms;
    out.emit(session());
    if let Some(usage) = line.usage {
        out.emit(Fact::Checksum(Checksum { usage, cost_micro_usd: line.cost_micro_usd, part: None }));
    }
}

/// Emits the start of an agent, and all bounds of its intervals.
fn emit_start<'a>(agent: &'a str, line: &'a Line<'_>, out: &mut Emitter<'a, '_>) {
    let is_root = agent == "root";
    out.head.clock = Clock::Transcript;
    let (call, batch) = match line.spawned_by.filled() {
        Some(call) if line.is_batch.is_true() => (None, Some(SpawnBatch::Call(call))),
        call => (call, None),
    };
    let parent = match line.parent_id.filled() {
        Some("root") => Some(Parent::Root),
        Some(parent) => Some(Parent::Agent(parent)),
        None => None,
    };
    let spawn = |trigger: Option<&'a str>| Spawn {
        agent: Some(agent),
        call: trigger,
        parent,
        agent_type: line.agent_type.0.clone(),
        description: line.description.0.clone(),
        name: line.name.0.clone(),
        prompt: line.prompt.map(|raw| out.line.raw(raw)),
        model: line.model.0.clone(),
        mode: line.background.is_true().then_some(SpawnMode::Background),
        starts: true,
        is_origin: trigger.is_some() && trigger == call,
        detached: call.is_none() && batch.is_none() && parent.is_some(),
        batch,
        is_copy: line.is_copy.is_true(),
        is_handed_over: line.is_handed_over.is_true(),
        is_inferred: line.is_inferred.is_true(),
        ..Spawn::default()
    };
    let mut starts: Vec<(Option<[Millis; 2]>, Spawn<'a>)> = Vec::new();
    if line.intervals.is_empty() {
        starts.push((None, spawn(call)));
    }
    for (number, interval) in line.intervals.iter().enumerate() {
        let trigger = line.triggers.get(number).and_then(Str::filled);
        let trigger = trigger.or_else(|| call.filter(|_| number == 0));
        starts.push((Some(*interval), spawn(trigger)));
    }
    let count = starts.len();
    for (number, (interval, spawn)) in starts.into_iter().enumerate() {
        let trigger = spawn.call;
        out.head.time = interval.map(|[from, _]| from);
        if !is_root {
            out.emit(Fact::Spawn(spawn));
        }
        if interval.is_some() || !is_root {
            out.emit(Fact::Activity);
        }
        if number > 0 && trigger.is_none() {
            out.emit(Fact::TurnStart);
        }
        if let Some([_, to]) = interval {
            out.head.time = Some(to);
            out.emit(Fact::Activity);
            if !is_root && number + 1 < count {
                // How an earlier interval ended is not in a document, and changes no status.
                out.emit(Fact::AgentEnd(AgentEnd {
                    agent: Some(agent),
                    call: trigger,
                    status: AgentStatus::Completed,
                    evidence: EndEvidence::Notification,
                    time: Some(to),
                    ..AgentEnd::default()
                }));
            }
        }
    }
    if line.is_warmup.is_true() {
        out.emit(Fact::Warmup);
    }
}

fn emit_prompt<'a>(line: &'a Line<'_>, out: &mut Emitter<'a, '_>) {
    out.head.time = line.started_at_ms;
    if let Some(text) = out.raw(line.text) {
        let what = if line.is_inserted.is_true() { PromptKind::Meta } else { PromptKind::Asked };
        out.emit(Fact::Prompt { prompt_id: line.prompt_id.filled(), text, what });
    }
    if let Some(status) = line.status {
        emit_turn_end(status, line.ended_at_ms, out);
    }
}

fn emit_turn_end(status: AgentStatus, time: Option<Millis>, out: &mut Emitter<'_, '_>) {
    out.head.time = time;
    if !status.is_live() {
        let evidence = EndEvidence::Notification;
        out.emit(Fact::TurnEnd { status, evidence, counts_run: false, text: None });
    }
}

fn emit_step<'a>(line: &'a Line<'_>, claim: Claim<'a>, out: &mut Emitter<'a, '_>) {
    let (from, to) = (line.started_at_ms.or(line.ended_at_ms), line.ended_at_ms);
    out.head.time = from;
    let message_id = line.message_id.filled();
    if let Some(id) = message_id {
        let finish = line.finish_reason.get();
        let response = Response {
            message_id: id,
            model: line.model.filled(),
            usage: line.usage,
            cost_pico_usd: line.cost_pico_usd.0,
            is_unpriced: line.is_unpriced.is_true(),
            has_stop_reason: true,
            ends_turn: finish == Some("stop"),
            has_call: finish == Some("tool_call"),
            // Another line reports how its agent ended.
            accounts_only: true,
            ..Response::default()
        };
        out.emit(Fact::Response(response.clone()));
        for number in 2..=line.responses.0.unwrap_or(1).min(MAX_RESPONSES) {
            let id = format!("{id}/{number}");
            let one = Response { message_id: &id, usage: None, cost_pico_usd: None, ..response.clone() };
            out.emit_made(Fact::Response(one));
        }
        if to > from {
            out.head.time = to;
            out.emit(Fact::Response(response));
            out.head.time = from;
        }
    }
    for thought in &line.thoughts {
        let text = Some(out.line.raw(thought));
        out.emit(Fact::Thought { message_id, text });
    }
    for message in &line.texts {
        let text = out.line.raw(message);
        out.emit(Fact::Message { message_id, text });
    }
    for call in &line.calls {
        emit_call(call, claim, out);
        // Increasing offsets keep the order of calls without times.
        out.head.place.offset += 1;
    }
}

fn emit_call<'a>(call: &'a Call<'_>, claim: Claim<'a>, out: &mut Emitter<'a, '_>) {
    let (id, name) = (call.id.filled(), call.name.get().unwrap_or_default());
    out.head.claim = if let Claim::Agent(agent, _) = claim {
        Claim::Agent(agent, call.basis)
    } else {
        Claim::Root(call.basis)
    };
    out.head.time = call.started_at_ms;
    let input = out.raw(call.input);
    // Calls of unknown arguments are not known to be equal.
    let arguments = match call.is_repeat.0 {
        Some(true) => Some(""),
        Some(false) => None,
        None => call.input.map(RawValue::get),
    };
    let place = out.head.place.offset.to_string();
    let digest = crate::digest(name, arguments.or(id).unwrap_or(&place));
    out.emit(Fact::CallBegin(CallBegin {
        id,
        name,
        class: if call.is_spawn.is_true() { ToolClass::Spawn } else { ToolClass::Other },
        input,
        digest,
        detail: call.detail.0.clone(),
        writes: call.writes.0.clone(),
        ..CallBegin::default()
    }));
    let outcome = match call.status.get() {
        Some("ok") => Some(Outcome::Ok),
        Some("error") if call.is_interrupted.is_true() => Some(Outcome::Interrupted),
        Some("error") => Some(Outcome::Error),
        Some("denied") => Some(Outcome::Denied),
        _ => None,
    };
    if let Some(outcome) = outcome {
        out.head.time = call.ended_at_ms;
        let result = out.raw(call.result);
        out.emit(Fact::CallEnd(CallEnd {
            id,
            name: Some(name),
            digest,
            outcome,
            result,
            ..CallEnd::default()
        }));
    }
    out.head.claim = claim;
}

fn emit_note<'a>(line: &'a Line<'_>, out: &mut Emitter<'a, '_>) {
    out.head.time = line.started_at_ms;
    let Some(text) = line.text else { return };
    let data = format!("{{\"message\":{}}}", text.get());
    let data = RawJson { json: &data, offset: u64::MAX };
    out.emit_made(Fact::Note { kind: EventKind::Notification, data });
}

fn emit_end<'a>(agent: &'a str, line: &'a Line<'_>, out: &mut Emitter<'a, '_>) {
    out.head.clock = Clock::Transcript;
    out.head.time = line.ended_at_ms;
    if let Some(usage) = line.usage {
        out.emit(Fact::Totals { usage, cost_micro_usd: line.cost_micro_usd });
    }
    let Some(status) = line.status.filter(|status| !status.is_live()) else { return };
    if agent == "root" {
        // The ends of its runs are derived from their prompts.
        return emit_turn_end(status, None, out);
    }
    let known = EndEvidence::parse(line.evidence.get().unwrap_or_default());
    let (report, error) = (out.raw(line.result), out.raw(line.error));
    out.emit(Fact::AgentEnd(AgentEnd {
        agent: Some(agent),
        call: line.spawned_by.filled(),
        status,
        evidence: if status == AgentStatus::Lost {
            EndEvidence::Lost
        } else {
            known.unwrap_or(EndEvidence::Notification)
        },
        time: line.ended_at_ms,
        report,
        error,
        ..AgentEnd::default()
    }));
}
