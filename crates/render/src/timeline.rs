//! A session against the wall clock: one lane an agent, in it what the agent did and what it waited for, and the critical
//! path. The rows of the waterfall that terminal and page draw.
//!
//! Only what rows tell is here. Between two calls an agent waits for the model, since each of its steps is a call or an
//! answer; of permissions and retries that are over, rows tell nothing, so only those of now are shown.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use subscope_model::{Agent, AgentId, LivenessKind, Millis, Text, ToolCall, ToolStatus, ToolUseId, Tree};

/// A session against the wall clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// When the first agent began.
    pub start_ms: Millis,
    /// When the last thing happened; the moment asked for, while an agent runs. Never before the start.
    pub end_ms: Millis,
    /// One for each agent, in the order of the tree.
    pub lanes: Vec<Lane>,
    /// What the run's length rests on, from its begin to its end, without overlaps.
    pub critical_path: Vec<Step>,
}

/// What one agent did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// The agent.
    pub agent_id: AgentId,
    /// Its depth in the tree.
    pub depth: u32,
    /// By begin; calls that were made together overlap.
    pub spans: Vec<Span>,
}

/// What somebody did, or waited for, for some time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// What it is.
    pub kind: SpanKind,
    /// Its begin.
    pub from_ms: Millis,
    /// Its end; never before its begin.
    pub to_ms: Millis,
    /// The tool, or what is waited for.
    pub name: Option<Text>,
    /// How the call stands or ended; `None` for what is no call.
    pub status: Option<ToolStatus>,
    /// The call.
    pub call_id: Option<ToolUseId>,
    /// Whether that it is this agent's rests on a guess, or it is inferred from silence.
    pub is_guess: bool,
}

/// What fills a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SpanKind {
    /// A call of a tool.
    Tool,
    /// A call that started a subagent.
    Children,
    /// No call is open: the model answers, or thinks.
    Model,
    /// A person is asked.
    Permission,
    /// The API failed and is asked again.
    Retry,
}

/// A part of the critical path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Whose time it is.
    pub agent_id: AgentId,
    /// Its begin.
    pub from_ms: Millis,
    /// Its end.
    pub to_ms: Millis,
}

/// Returns a tree against the wall clock; `None` where nothing in it has a time. What runs goes on until `now`, where one
/// is given, else until its agent was last heard of.
pub fn timeline(tree: &Tree, now: Option<Millis>) -> Option<Timeline> {
    let stretches: Vec<Vec<[Millis; 2]>> = tree.agents.iter().map(|agent| stretches(agent, now)).collect();
    let all = || stretches.iter().flatten();
    let start_ms = all().map(|[from, _]| *from).min()?;
    let end_ms = all().map(|[_, to]| *to).max()?;
    let starters: HashSet<&ToolUseId> =
        tree.agents.iter().filter_map(|agent| agent.spawned_by.as_ref()).collect();
    let lanes = tree.agents.iter().zip(&stretches).map(|(agent, stretches)| Lane {
        agent_id: agent.id.clone(),
        depth: agent.depth,
        spans: spans(agent, stretches, &starters),
    });
    Some(Timeline {
        start_ms,
        end_ms,
        lanes: lanes.collect(),
        critical_path: critical_path(tree, &stretches),
    })
}

/// When an agent was at work, in order and without overlaps.
fn stretches(agent: &Agent, now: Option<Millis>) -> Vec<[Millis; 2]> {
    let mut stretches: Vec<[Millis; 2]> = agent.intervals.clone();
    if stretches.is_empty()
        && let Some(start) = agent.started_at_ms
    {
        stretches.push([start, agent.ended_at_ms.or(agent.last_event_at_ms).unwrap_or(start)]);
    }
    if let (Some(now), Some(last)) = (now.filter(|_| agent.is_at_work()), stretches.last_mut()) {
        last[1] = last[1].max(now);
    }
    stretches.sort_unstable();
    let mut end = Millis::MIN;
    for stretch in &mut stretches {
        stretch[0] = stretch[0].max(end);
        stretch[1] = stretch[1].max(stretch[0]);
        end = stretch[1];
    }
    stretches
}

/// What fills an agent's lane: its calls, what it waits for now, and the model's time between them.
fn spans(agent: &Agent, stretches: &[[Millis; 2]], starters: &HashSet<&ToolUseId>) -> Vec<Span> {
    let Some([_, end]) = stretches.last().copied() else { return Vec::new() };
    let wait = wait_of(agent, end);
    let mut spans: Vec<Span> =
        agent.tools.iter().filter_map(|call| call_span(call, end, wait.as_ref(), starters)).collect();
    spans.extend(wait);
    spans.sort_by_key(|span| (span.from_ms, span.to_ms));
    let gaps = gaps(stretches, &spans);
    spans.extend(gaps);
    // A stable sort: what begins together stays in the order of the calls.
    spans.sort_by_key(|span| span.from_ms);
    spans
}

/// What a live agent waits for since a known moment, other than the model, a tool or its children.
fn wait_of(agent: &Agent, end: Millis) -> Option<Span> {
    let live = agent.liveness.as_ref().filter(|_| agent.status.is_live())?;
    let kind = match live.kind {
        LivenessKind::Permission => SpanKind::Permission,
        LivenessKind::Retry => SpanKind::Retry,
        LivenessKind::Model | LivenessKind::Tool | LivenessKind::Children | LivenessKind::Idle => {
            return None;
        }
    };
    let from_ms = live.since_ms?.min(end);
    let name = live.name.clone();
    Some(Span { kind, from_ms, to_ms: end, name, status: None, call_id: None, is_guess: live.inferred })
}

fn call_span(
    call: &ToolCall,
    end: Millis,
    wait: Option<&Span>,
    starters: &HashSet<&ToolUseId>,
) -> Option<Span> {
    let from_ms = call.started_at_ms?;
    // A call waits for a permission from some moment on: until then it is drawn as a call.
    let asks =
        wait.filter(|wait| wait.kind == SpanKind::Permission && wait.name.as_ref() == Some(&call.name));
    let open_until = asks.map_or(end, |wait| wait.from_ms);
    let is_start = call.id.as_ref().is_some_and(|id| starters.contains(id));
    Some(Span {
        kind: if is_start { SpanKind::Children } else { SpanKind::Tool },
        from_ms,
        to_ms: call.ended_at_ms.unwrap_or(open_until).max(from_ms),
        name: Some(call.name.clone()),
        status: Some(call.status),
        call_id: call.id.clone(),
        is_guess: call.basis.is_guess(),
    })
}

/// The parts of the stretches that no span covers. Both come by begin.
fn gaps(stretches: &[[Millis; 2]], spans: &[Span]) -> Vec<Span> {
    let mut gaps = Vec::new();
    let mut spans = spans.iter().peekable();
    // How far the spans that were passed reach: calls that were made together end in any order.
    let mut covered = Millis::MIN;
    let mut gap = |from_ms: Millis, to_ms: Millis| {
        if from_ms < to_ms {
            let (name, status, call_id) = (None, None, None);
            gaps.push(Span { kind: SpanKind::Model, from_ms, to_ms, name, status, call_id, is_guess: false });
        }
    };
    for [from, to] in stretches {
        let mut at = covered.max(*from);
        while let Some(span) = spans.next_if(|span| span.from_ms < *to) {
            gap(at, span.from_ms);
            covered = covered.max(span.to_ms);
            at = at.max(covered);
        }
        gap(at, *to);
        covered = covered.max(*to);
    }
    gaps
}

/// One stretch of a subagent, as a step of whoever started it.
struct Stage {
    agent: usize,
    from_ms: Millis,
    to_ms: Millis,
}

/// Walks back from the end of the run: whoever works is on the path until one of its subagents had ended, then that one is,
/// until it began. Subagents that ended while another was on the path held nobody up.
fn critical_path(tree: &Tree, stretches: &[Vec<[Millis; 2]>]) -> Vec<Step> {
    let mut stages = stages_below(tree, stretches);
    let all = || stretches.iter().flatten();
    let (Some(begin), Some(end)) = (all().map(|[from, _]| *from).min(), all().map(|[_, to]| *to).max())
    else {
        return Vec::new();
    };
    let mut path: Vec<Step> = Vec::new();
    // An agent is on the path only while it is at work: the root sleeps between two prompts, and may have ended before what
    // it left behind in the background.
    let mut step = |agent: usize, from_ms: Millis, to_ms: Millis| {
        let own = &stretches[agent];
        let first = own.partition_point(|[_, to]| *to <= from_ms);
        let last = own.partition_point(|[from, _]| *from < to_ms);
        for [from, to] in own.get(first..last).unwrap_or_default().iter().rev() {
            let agent_id = tree.agents[agent].id.clone();
            path.push(Step { agent_id, from_ms: from_ms.max(*from), to_ms: to_ms.min(*to) });
        }
    };
    // Whoever started whom, down to who is on the path, with the moments at which each began.
    let mut open: Vec<(usize, Millis)> = vec![(0, begin)];
    let mut at = end;
    while let Some((agent, began)) = open.last().copied() {
        let next = loop {
            match stages[agent].last() {
                None => break None,
                Some(stage) if stage.to_ms <= at && stage.from_ms >= began => break stages[agent].pop(),
                Some(stage) if stage.to_ms > at => stages[agent].pop(),
                // It belongs to an earlier stretch of the agent.
                Some(_) => break None,
            };
        };
        let until = next.as_ref().map_or(began, |stage| stage.to_ms);
        step(agent, until, at);
        at = until;
        match next {
            Some(stage) => open.push((stage.agent, stage.from_ms)),
            None => drop(open.pop()),
        }
    }
    path.reverse();
    path
}

/// For each agent the stretches of those that it started, by end; of equal ends the one that began first is last.
fn stages_below(tree: &Tree, stretches: &[Vec<[Millis; 2]>]) -> Vec<Vec<Stage>> {
    let places: HashMap<&AgentId, usize> =
        tree.agents.iter().enumerate().map(|(at, agent)| (&agent.id, at)).collect();
    let mut below: Vec<Vec<Stage>> = tree.agents.iter().map(|_| Vec::new()).collect();
    for (at, agent) in tree.agents.iter().enumerate() {
        let parent = agent.parent_id.as_ref().and_then(|id| places.get(id)).copied();
        // Rows are in pre-order: a parent that comes later is none, and would make a circle.
        let Some(parent) = parent.filter(|parent| *parent < at) else { continue };
        let own = stretches[at].iter().map(|[from, to]| Stage { agent: at, from_ms: *from, to_ms: *to });
        below[parent].extend(own);
    }
    for stages in &mut below {
        stages.sort_by_key(|stage| (stage.to_ms, std::cmp::Reverse(stage.from_ms)));
    }
    below
}

#[cfg(test)]
mod tests;
