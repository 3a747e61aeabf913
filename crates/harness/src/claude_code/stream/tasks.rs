//! Lines of a stream about tasks: agents that start, are moved to the background and end, and those of workflows.

use serde::Deserialize;
use subscope_decode::lenient::{LineText, Num, Str};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, Claim, Decoded, EndEvidence, Fact, Observation, Parent, Sink, Spawn,
    SpawnBatch,
};

use super::{
    super::{
        notice::{is_warmup, waits},
        tools,
    },
    Line, emit,
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
pub(super) fn workflow_progress(line: &Line<'_>, out: &Observation<'_>, sink: &mut Sink<'_>) {
    let all: Vec<WorkflowAgent<'_>> =
        line.workflow_progress.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    for told in &all {
        let Some(agent) = told.agent_id.filled() else { continue };
        let millis = |field: Num| field.0.and_then(|millis| i64::try_from(millis).ok());
        let spawn = Spawn {
            agent: Some(agent),
            description: told.label.0.clone(),
            model: told.model.0.clone(),
            starts: true,
            detached: true,
            batch: line.tool_use_id.filled().map(SpawnBatch::Call),
            ..Spawn::default()
        };
        let claim = Claim::Agent(agent, Basis::Wire);
        sink(Decoded::Observation(&Observation { claim, fact: Fact::Spawn(spawn), ..out.clone() }));
        let started =
            Observation { claim, time: millis(told.started_at), fact: Fact::Activity, ..out.clone() };
        sink(Decoded::Observation(&started));
        let status = match told.state.get() {
            Some("done" | "completed") => AgentStatus::Completed,
            Some("error" | "failed") => AgentStatus::Failed,
            _ => continue,
        };
        let time = millis(told.started_at).zip(millis(told.duration_ms)).map(|(start, span)| start + span);
        let end = AgentEnd { agent: Some(agent), call: None, run_id: None, time, ..ended(line, status) };
        sink(Decoded::Observation(&Observation { claim, time, fact: Fact::Activity, ..out.clone() }));
        sink(Decoded::Observation(&Observation { claim, fact: Fact::AgentEnd(end), ..out.clone() }));
    }
}

pub(super) fn task_started<'a>(
    line: &'a Line<'_>,
    text: LineText<'a>,
    out: &mut Observation<'a>,
    sink: &mut Sink<'_>,
) {
    let parent = match (line.parent_task_id.filled(), line.spawn_depth.0) {
        (Some(parent), _) => Some(Parent::Agent(parent)),
        (None, Some(1)) => Some(Parent::Root),
        (None, _) => None,
    };
    let spawn = Spawn {
        agent: line.task_id.filled(),
        call: line.tool_use_id.filled(),
        run_id: line.run_id.filled(),
        parent,
        agent_type: line.subagent_type.0.clone(),
        description: line.description.0.clone(),
        prompt: line.prompt.map(|raw| text.raw(raw)),
        mode: line.is_backgrounded.0.map(tools::mode),
        starts: true,
        ..Spawn::default()
    };
    let is_warmup = line.tool_use_id.filled().is_none()
        && line.prompt.is_some_and(|raw| is_warmup(&text.raw(raw).text()));
    emit(Fact::Spawn(spawn), out, sink);
    if let Some(agent) = line.task_id.filled().filter(|_| is_warmup) {
        let claim = Claim::Agent(agent, Basis::Wire);
        sink(Decoded::Observation(&Observation { claim, fact: Fact::Warmup, ..out.clone() }));
    }
}

fn ended<'a>(line: &'a Line<'_>, status: AgentStatus) -> AgentEnd<'a> {
    AgentEnd {
        agent: line.task_id.filled(),
        call: line.tool_use_id.filled(),
        run_id: line.run_id.filled(),
        status,
        evidence: EndEvidence::Notification,
        time: None,
        report: None,
        error: None,
        agent_type: None,
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

pub(super) fn task_updated<'a>(
    line: &'a Line<'_>,
    text: LineText<'a>,
    out: &mut Observation<'a>,
    sink: &mut Sink<'_>,
) {
    let Some(patch) = &line.patch else { return };
    if patch.is_backgrounded.is_true() {
        let spawn = Spawn { agent: line.task_id.filled(), mode: Some(tools::mode(true)), ..Spawn::default() };
        emit(Fact::Spawn(spawn), out, sink);
    }
    let Some(status) = status_word(patch.status.get()) else { return };
    let end = AgentEnd {
        time: patch.end_time.0.and_then(|time| i64::try_from(time).ok()),
        error: patch.error.map(|raw| text.raw(raw)),
        ..ended(line, status)
    };
    emit(Fact::AgentEnd(end), out, sink);
}

pub(super) fn task_notification<'a>(
    line: &'a Line<'_>,
    text: LineText<'a>,
    out: &mut Observation<'a>,
    sink: &mut Sink<'_>,
) {
    let Some(status) = status_word(line.status.get()) else { return };
    let summary = line.summary.map(|raw| text.raw(raw));
    let is_interim = status == AgentStatus::Completed && summary.is_some_and(|raw| waits(&raw.text()));
    let status = if is_interim { AgentStatus::Running } else { status };
    let end = AgentEnd {
        report: summary.filter(|_| status == AgentStatus::Completed && line.summary_is_report.is_true()),
        error: summary.filter(|_| status == AgentStatus::Failed),
        ..ended(line, status)
    };
    emit(Fact::AgentEnd(end), out, sink);
}
