//! Lines of a stream about tasks: agents that start, are moved to the background and end, and those of workflows.

use serde::Deserialize;
use subscope_decode::{
    Emitter,
    lenient::{Num, Str},
};
use subscope_model::{AgentEnd, AgentStatus, Basis, Claim, EndEvidence, Fact, Parent, Spawn, SpawnBatch};

use super::{
    super::{
        notice::{is_warmup, waits},
        tools,
    },
    Line,
};

/// One agent of a workflow, as each progress line of the workflow repeats it.
/// Observed: Claude Code 2.1.330, fixture `unseen/2.1.330/u16-workflow`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct WorkflowAgent<'a> {
    agent_id: Str<'a>,
    label: Str<'a>,
    model: Str<'a>,
    state: Str<'a>,
    started_at: Num,
    duration_ms: Num,
}

/// Emits the agents of a workflow: this wire names them nowhere else.
pub(super) fn workflow_progress(line: &Line<'_>, out: &mut Emitter<'_, '_>) {
    let all: Vec<WorkflowAgent<'_>> =
        line.workflow_progress.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    for told in &all {
        let Some(agent) = told.agent_id.filled() else { continue };
        let (claim, line_time, started) =
            (Claim::Agent(agent, Basis::Wire), out.head.time, told.started_at.signed());
        let spawn = Spawn {
            agent: Some(agent),
            description: told.label.0.clone(),
            model: told.model.0.clone(),
            starts: true,
            detached: true,
            batch: line.tool_use_id.filled().map(SpawnBatch::Call),
            ..Spawn::default()
        };
        out.emit_of(claim, line_time, Fact::Spawn(spawn));
        out.emit_of(claim, started, Fact::Activity);
        let status = match told.state.get() {
            Some("done" | "completed") => AgentStatus::Completed,
            Some("error" | "failed") => AgentStatus::Failed,
            _ => continue,
        };
        let time = started.zip(told.duration_ms.signed()).map(|(start, span)| start + span);
        let end = AgentEnd { agent: Some(agent), call: None, run_id: None, time, ..ended(line, status) };
        out.emit_of(claim, time, Fact::Activity);
        out.emit_of(claim, line_time, Fact::AgentEnd(end));
    }
}

pub(super) fn task_started<'a>(line: &'a Line<'_>, out: &mut Emitter<'a, '_>) {
    let (agent, call) = (line.task_id.filled(), line.tool_use_id.filled());
    let parent = match (line.parent_task_id.filled(), line.spawn_depth.0) {
        (Some(parent), _) => Some(Parent::Agent(parent)),
        (None, Some(1)) => Some(Parent::Root),
        (None, _) => None,
    };
    let prompt = out.raw(line.prompt);
    out.emit(Fact::Spawn(Spawn {
        agent,
        call,
        run_id: line.run_id.filled(),
        parent,
        agent_type: line.subagent_type.0.clone(),
        description: line.description.0.clone(),
        prompt,
        mode: line.is_backgrounded.0.map(tools::mode),
        starts: true,
        ..Spawn::default()
    }));
    let is_warmup = call.is_none() && prompt.is_some_and(|raw| is_warmup(&raw.text()));
    if let Some(agent) = agent.filter(|_| is_warmup) {
        out.emit_of(Claim::Agent(agent, Basis::Wire), out.head.time, Fact::Warmup);
    }
}

fn ended<'a>(line: &'a Line<'_>, status: AgentStatus) -> AgentEnd<'a> {
    AgentEnd {
        agent: line.task_id.filled(),
        call: line.tool_use_id.filled(),
        run_id: line.run_id.filled(),
        status,
        evidence: EndEvidence::Notification,
        ..AgentEnd::default()
    }
}

fn status_word(word: Option<&str>) -> Option<AgentStatus> {
    match word {
        Some("completed") => Some(AgentStatus::Completed),
        Some("failed") => Some(AgentStatus::Failed),
        Some("killed" | "stopped") => Some(AgentStatus::Stopped),
        _ => None,
    }
}

pub(super) fn task_updated<'a>(line: &'a Line<'_>, out: &mut Emitter<'a, '_>) {
    let Some(patch) = &line.patch else { return };
    if patch.is_backgrounded.is_true() {
        let mode = Some(tools::mode(true));
        out.emit(Fact::Spawn(Spawn { agent: line.task_id.filled(), mode, ..Spawn::default() }));
    }
    let Some(status) = status_word(patch.status.get()) else { return };
    let (time, error) = (patch.end_time.signed(), out.raw(patch.error));
    out.emit(Fact::AgentEnd(AgentEnd { time, error, ..ended(line, status) }));
}

pub(super) fn task_notification<'a>(line: &'a Line<'_>, out: &mut Emitter<'a, '_>) {
    let Some(status) = status_word(line.status.get()) else { return };
    let summary = out.raw(line.summary);
    let is_interim = status == AgentStatus::Completed && summary.is_some_and(|raw| waits(&raw.text()));
    let status = if is_interim { AgentStatus::Running } else { status };
    out.emit(Fact::AgentEnd(AgentEnd {
        report: summary.filter(|_| status == AgentStatus::Completed && line.summary_is_report.is_true()),
        error: summary.filter(|_| status == AgentStatus::Failed),
        ..ended(line, status)
    }));
}
