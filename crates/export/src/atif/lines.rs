//! Writes a resolved document as lines of the dialect `trajectories`.

use std::{borrow::Cow, collections::HashMap};

use serde_json::value::RawValue;
use subscope_model::{
    AgentId, AgentStatus, Basis, Flag, Millis, Text, ToolStatus, TrajectoryCall, TrajectoryLine,
    TrajectoryLineKind, Usage, parse_rfc3339,
};

use super::{
    figures::{Counts, micro_usd, pico_usd},
    import::{AtifDocument, FoundCall, FoundStep, FoundTrajectory},
    steps::SEPARATOR,
};
use crate::compact::compact;

/// Writes the lines.
pub(super) struct LineWriter<'d, 'a> {
    document: &'d mut AtifDocument<'a>,
    session: String,
    out: Vec<u8>,
}

impl<'d, 'a> LineWriter<'d, 'a> {
    pub(super) fn new(document: &'d mut AtifDocument<'a>) -> Self {
        let session = document.session_id();
        Self { document, session, out: Vec::new() }
    }

    /// Returns all lines.
    pub(super) fn write(mut self) -> serde_json::Result<Vec<u8>> {
        let trajectories = std::mem::take(&mut self.document.trajectories);
        self.write_session(&trajectories)?;
        for (number, part) in in_order(&trajectories) {
            let trajectory = &trajectories[number];
            match part {
                TrajectoryPart::Start => self.write_start(&trajectories, trajectory)?,
                TrajectoryPart::Step(place) => {
                    self.write_step(number, trajectory, place, &trajectory.steps[place])?
                }
                TrajectoryPart::End => self.write_end(trajectory)?,
            }
        }
        self.write_session_end(&trajectories)?;
        Ok(self.out)
    }

    fn put(&mut self, line: TrajectoryLine<'_>) -> serde_json::Result<()> {
        let line = TrajectoryLine {
            schema: TrajectoryLine::SCHEMA.into(),
            session_id: Cow::Borrowed(&self.session),
            ..line
        };
        // Arguments and results are as the document has them: it may be indented.
        self.out.extend_from_slice(compact(&serde_json::to_string(&line)?).as_bytes());
        self.out.push(b'\n');
        Ok(())
    }

    fn write_session(&mut self, trajectories: &[FoundTrajectory<'_>]) -> serde_json::Result<()> {
        let Some(root) = trajectories.first() else { return Ok(()) };
        let own = root.extra.as_ref().and_then(|extra| extra.session.clone());
        let line = match own {
            Some(session) => TrajectoryLine {
                started_at_ms: session.started_at_ms,
                harness: session.harness.map(owned),
                version: session.harness_version.map(owned),
                cwd: session.cwd.map(owned),
                model: root.model.as_deref().map(Cow::Borrowed),
                usage: session.total_usage,
                cost_micro_usd: session.total_cost_micro_usd,
                ..TrajectoryLine::default()
            },
            None => {
                let times: Vec<Millis> = trajectories.iter().flat_map(FoundTrajectory::times).collect();
                TrajectoryLine {
                    started_at_ms: times.iter().min().copied(),
                    harness: root.name.as_deref().map(Cow::Borrowed),
                    version: root.version.as_deref().map(Cow::Borrowed),
                    model: root.model.as_deref().map(Cow::Borrowed),
                    usage: self.document.total(trajectories),
                    ..TrajectoryLine::default()
                }
            }
        };
        self.put(line)
    }

    /// Writes when the session ended: last, because a line without a time has that of the latest line before it.
    fn write_session_end(&mut self, trajectories: &[FoundTrajectory<'_>]) -> serde_json::Result<()> {
        let own = trajectories.first().and_then(|root| root.extra.as_ref()?.session.as_ref());
        let last = || trajectories.iter().flat_map(FoundTrajectory::times).max();
        let ended_at_ms = own.map_or_else(last, |session| session.ended_at_ms);
        self.put(TrajectoryLine { ended_at_ms, ..TrajectoryLine::default() })
    }

    fn write_start(
        &mut self,
        all: &[FoundTrajectory<'_>],
        trajectory: &FoundTrajectory<'_>,
    ) -> serde_json::Result<()> {
        let id = Some(Cow::Borrowed(trajectory.id.as_str()));
        let parent = trajectory.parent.and_then(|parent| all.get(parent));
        let model = trajectory.model.as_deref().map(Cow::Borrowed);
        let is_root = trajectory.id == AgentId::ROOT;
        let line = TrajectoryLine {
            kind: TrajectoryLineKind::Start,
            agent_id: id,
            parent_id: parent.map(|parent| Cow::Borrowed(parent.id.as_str())),
            spawned_by: trajectory.spawned_by.as_deref().map(Cow::Borrowed),
            is_batch: trajectory
                .spawned_by
                .as_ref()
                .is_some_and(|call| self.document.spawns.get(call) > Some(&1)),
            prompt: trajectory.task().filter(|_| !is_root),
            model,
            ..TrajectoryLine::default()
        };
        let line = match &trajectory.extra {
            Some(extra) => TrajectoryLine {
                agent_type: extra.agent_type.clone().map(owned),
                name: extra.name.clone().map(owned),
                description: extra.description.clone().map(owned),
                background: extra.background,
                is_warmup: extra.flags.contains(&Flag::Warmup),
                is_copy: extra.flags.contains(&Flag::Copied),
                is_handed_over: extra.flags.contains(&Flag::Handoff),
                is_inferred: extra.flags.contains(&Flag::Inferred),
                intervals: extra.intervals.clone(),
                triggers: extra.triggers.clone(),
                ..line
            },
            None => TrajectoryLine {
                agent_type: trajectory.name.as_deref().map(Cow::Borrowed).filter(|_| !is_root),
                is_copy: trajectory.is_copied(),
                intervals: trajectory.span().into_iter().collect(),
                ..line
            },
        };
        self.put(line)
    }

    fn write_end(&mut self, trajectory: &FoundTrajectory<'_>) -> serde_json::Result<()> {
        let line = TrajectoryLine {
            kind: TrajectoryLineKind::End,
            agent_id: Some(Cow::Borrowed(trajectory.id.as_str())),
            ..TrajectoryLine::default()
        };
        let line = match &trajectory.extra {
            Some(extra) => {
                let last = extra.triggers.last().cloned().flatten();
                TrajectoryLine {
                    status: Some(extra.status),
                    evidence: extra.evidence.clone().map(owned),
                    ended_at_ms: extra.intervals.last().map(|[_, to]| *to).or(extra.ended_at_ms),
                    result: extra.result.clone().map(owned),
                    error: extra.error.clone().map(owned),
                    usage: extra.usage,
                    cost_micro_usd: extra.cost_micro_usd,
                    spawned_by: last
                        .map(owned)
                        .or_else(|| trajectory.spawned_by.as_deref().map(Cow::Borrowed)),
                    ..line
                }
            }
            None => {
                let totals = trajectory.totals.usage().filter(|_| !trajectory.has_metrics());
                TrajectoryLine {
                    status: Some(trajectory.status()),
                    ended_at_ms: trajectory.span().map(|[_, to]| to),
                    spawned_by: trajectory.spawned_by.as_deref().map(Cow::Borrowed),
                    cost_micro_usd: trajectory
                        .totals
                        .cost_usd
                        .and_then(micro_usd)
                        .filter(|_| totals.is_some()),
                    usage: totals.map(|(usage, _)| usage),
                    ..line
                }
            }
        };
        self.put(line)
    }

    fn write_step(
        &mut self,
        number: usize,
        trajectory: &FoundTrajectory<'_>,
        place: usize,
        step: &FoundStep<'_>,
    ) -> serde_json::Result<()> {
        let is_placeholder = step.extra.as_ref().is_some_and(|extra| extra.is_placeholder);
        // Steps copied from another trajectory count in that one.
        if is_placeholder || step.is_copied {
            return Ok(());
        }
        let line = TrajectoryLine {
            agent_id: Some(Cow::Borrowed(trajectory.id.as_str())),
            ..TrajectoryLine::default()
        };
        match step.source.as_deref() {
            Some("user") => self.write_prompt(trajectory, step, line)?,
            Some("system") => self.put(TrajectoryLine {
                kind: TrajectoryLineKind::Prompt,
                started_at_ms: step.time,
                text: Some(Cow::Borrowed(&step.message)),
                is_inserted: true,
                ..line
            })?,
            _ => self.write_agent_step((number, trajectory), place, step, line)?,
        }
        for note in step.notes() {
            self.put(TrajectoryLine {
                kind: TrajectoryLineKind::Note,
                agent_id: Some(Cow::Borrowed(trajectory.id.as_str())),
                started_at_ms: step.time,
                text: Some(note),
                ..TrajectoryLine::default()
            })?;
        }
        Ok(())
    }

    fn write_prompt(
        &mut self,
        trajectory: &FoundTrajectory<'_>,
        step: &FoundStep<'_>,
        line: TrajectoryLine<'_>,
    ) -> serde_json::Result<()> {
        let extra = step.extra.clone().unwrap_or_default();
        // The start of a subagent already contains its task; as a prompt the task would open another interval.
        let is_task = trajectory.id != AgentId::ROOT && trajectory.extra.is_some();
        if is_task {
            return Ok(());
        }
        self.put(TrajectoryLine {
            kind: TrajectoryLineKind::Prompt,
            started_at_ms: step.time,
            ended_at_ms: extra.run_ended_at_ms,
            text: Some(Cow::Borrowed(&step.message)),
            prompt_id: extra.prompt_id.map(owned),
            status: extra.run_status,
            ..line
        })
    }

    fn write_agent_step(
        &mut self,
        (number, trajectory): (usize, &FoundTrajectory<'_>),
        place: usize,
        step: &FoundStep<'_>,
        line: TrajectoryLine<'_>,
    ) -> serde_json::Result<()> {
        let own = step.extra.as_ref();
        let message_id = match own {
            Some(extra) => extra.message_id.clone().map(owned),
            // The harness reported no id: each step of a document gets its own.
            None if step.llm_calls == Some(0) => None,
            None => {
                let name = self.document.name_of(number);
                Some(Cow::Owned(format!("{}/{name}/{}", self.session, place + 1)))
            }
        };
        let counts = step.counts.usage();
        let usage =
            counts.map(|(usage, _)| Usage { floor: own.is_some_and(|extra| extra.is_floor), ..usage });
        let cost = step.counts.cost_usd.and_then(pico_usd);
        let calls = step.calls.iter().map(|call| self.call(trajectory, step, call)).collect();
        let texts = match own {
            Some(extra) => split(&step.message, &extra.texts),
            None => vec![Cow::Borrowed(step.message.as_str())],
        };
        let texts = texts.into_iter().filter(|text| !text.is_empty()).collect();
        let thought = step.reasoning.as_deref().filter(|text| !text.is_empty());
        let started = own.and_then(|extra| extra.started_at_ms).or(step.time);
        self.put(TrajectoryLine {
            kind: TrajectoryLineKind::Step,
            started_at_ms: started,
            ended_at_ms: step.time,
            message_id,
            responses: step.llm_calls.filter(|count| *count > 1),
            model: step.model.as_deref().map(Cow::Borrowed),
            usage,
            cost_pico_usd: cost,
            // In our own documents a cost is left out only if it is unknown.
            is_unpriced: own.is_some() && cost.is_none(),
            finish_reason: own.and_then(|extra| extra.finish_reason.clone()).map(owned),
            texts,
            thoughts: thought.map(Cow::Borrowed).into_iter().collect(),
            calls,
            ..line
        })
    }

    fn call<'c>(
        &self,
        trajectory: &FoundTrajectory<'_>,
        step: &'c FoundStep<'_>,
        call: &'c FoundCall<'_>,
    ) -> TrajectoryCall<'c> {
        let result = step.results.iter().find(|result| result.call.as_deref() == Some(&call.name_in_step));
        let content = result.and_then(|result| result.content);
        let agent = self.document.stopped_by.get(&call.id);
        let base = TrajectoryCall {
            id: Some(Cow::Borrowed(call.id.as_str())),
            name: Cow::Borrowed(&call.function),
            input: call.arguments,
            result: content,
            status: if result.is_some() { ToolStatus::Ok } else { ToolStatus::Open },
            is_interrupted: false,
            is_repeat: None,
            basis: Basis::Link,
            is_spawn: self.document.spawns.get(&call.id) == Some(&1),
            started_at_ms: step.time,
            ended_at_ms: None,
            detail: None,
            writes: Box::default(),
        };
        let Some(extra) = &call.extra else { return base };
        TrajectoryCall {
            id: base.id.filter(|_| !extra.has_no_id),
            input: base.input.filter(|_| !extra.has_no_arguments).map(unwrapped),
            status: extra.status,
            is_repeat: trajectory.extra.as_ref().map(|_| trajectory.is_repeated(&call.id)),
            is_interrupted: extra.status == ToolStatus::Error && agent.is_some(),
            basis: extra.basis,
            started_at_ms: extra.started_at_ms,
            ended_at_ms: extra.ended_at_ms,
            detail: extra.detail.clone(),
            writes: extra.writes.clone(),
            ..base
        }
    }
}

/// A part of a trajectory.
#[derive(Clone, Copy)]
enum TrajectoryPart {
    Start,
    /// A step by its place.
    Step(usize),
    End,
}

/// Returns the parts of all trajectories, with the number of theirs, in order of time: a line belongs to the run that
/// began last before it. A part without a time follows its predecessor, and a start follows the step that caused it.
fn in_order(trajectories: &[FoundTrajectory<'_>]) -> Vec<(usize, TrajectoryPart)> {
    let mut calls: HashMap<&str, Millis> = HashMap::new();
    for trajectory in trajectories {
        for step in &trajectory.steps {
            let named = step.calls.iter().filter_map(|call| Some((call.id.as_str(), step.time?)));
            calls.extend(named);
        }
    }
    let mut parts: Vec<(Millis, usize, TrajectoryPart)> = Vec::new();
    for (number, trajectory) in trajectories.iter().enumerate() {
        let interval = trajectory.extra.as_ref().and_then(|extra| Some(extra.intervals.first()?[0]));
        let asked = trajectory.spawned_by.as_deref().and_then(|call| calls.get(call).copied());
        let mut last = interval.or_else(|| trajectory.times().min()).or(asked).unwrap_or(Millis::MIN);
        parts.push((last, number, TrajectoryPart::Start));
        for (place, step) in trajectory.steps.iter().enumerate() {
            last = step.time.unwrap_or(last).max(last);
            parts.push((last, number, TrajectoryPart::Step(place)));
        }
        parts.push((last, number, TrajectoryPart::End));
    }
    parts.sort_by_key(|(time, number, _)| (*time, *number));
    parts.into_iter().map(|(_, number, part)| (number, part)).collect()
}

fn owned<'a>(text: Text) -> Cow<'a, str> {
    Cow::Owned(text.to_string())
}

/// Returns the original arguments: the export wraps a value that is not an object in an object with the only field
/// `value`.
fn unwrapped(arguments: &RawValue) -> &RawValue {
    let fields: HashMap<Cow<'_, str>, &RawValue> = serde_json::from_str(arguments.get()).unwrap_or_default();
    match fields.get("value") {
        Some(value) if fields.len() == 1 && !value.get().starts_with('{') => value,
        _ => arguments,
    }
}

/// Returns the texts that are joined in a message; the message if the lengths do not fit it.
fn split<'t>(message: &'t str, lengths: &[usize]) -> Vec<Cow<'t, str>> {
    let mut texts = Vec::new();
    let mut rest = message;
    for (number, length) in lengths.iter().enumerate() {
        let end = rest.char_indices().nth(*length).map_or(rest.len(), |(end, _)| end);
        let (text, after) = rest.split_at(end);
        texts.push(Cow::Borrowed(text));
        let is_last = number + 1 == lengths.len();
        rest = match after.strip_prefix(SEPARATOR) {
            Some(next) if !is_last => next,
            None if is_last && after.is_empty() => after,
            _ => return vec![Cow::Borrowed(message)],
        };
    }
    if texts.is_empty() { vec![Cow::Borrowed(message)] } else { texts }
}

/// Returns the time of a timestamp of ISO 8601; one without an offset is UTC.
pub(super) fn time(text: &str) -> Option<Millis> {
    parse_rfc3339(text).or_else(|| parse_rfc3339(&format!("{text}Z")))
}

/// Returns the status of an agent of a foreign document: completed when its last step is its own without calls.
pub(super) fn foreign_status(last: Option<&FoundStep<'_>>) -> AgentStatus {
    let is_last_word =
        |step: &FoundStep<'_>| step.source.as_deref() == Some("agent") && step.calls.is_empty();
    if last.is_some_and(is_last_word) { AgentStatus::Completed } else { AgentStatus::Lost }
}

/// Returns whether any count is present.
pub(super) fn is_counted(counts: &Counts) -> bool {
    counts.usage().is_some()
}
