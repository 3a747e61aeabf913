//! Timeline (waterfall) of a session: one lane of spans per agent, and the critical path. Drawn by terminal UI and
//! page.
//!
//! Computed from rows alone. Time between two calls counts as waiting for the model, since each step is a call or a
//! response. Rows do not record past permission waits and retries, so only current ones are shown.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use subscope_model::{Agent, AgentId, LivenessKind, Millis, Text, ToolCall, ToolStatus, ToolUseId, Tree};

use crate::text;

/// Start and end.
type Interval = [Millis; 2];

/// The timeline of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// Start of the first agent.
    pub start_ms: Millis,
    /// End of the last agent, or `now` while an agent runs. Never before the start.
    pub end_ms: Millis,
    /// One lane per agent, in tree order.
    pub lanes: Vec<Lane>,
    /// Critical path in chronological order, without overlaps.
    pub critical_path: Vec<Step>,
    /// What the critical path consists of.
    pub path: PathShares,
}

/// Shares of the critical path by agent; those of the root by what it did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PathShares {
    /// Length of the critical path.
    pub total_ms: Millis,
    /// The longest shares, longest first; at most four.
    pub shares: Vec<PathShare>,
    /// Sum of the others.
    pub rest_ms: Millis,
}

/// Maximum number of named shares.
pub const MAX_SHARES: usize = 4;

/// The share of one agent, or of one activity of the root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PathShare {
    /// The agent.
    pub agent_id: AgentId,
    /// Its description or title; of the root `main`, its activity after a colon. Unsanitized.
    pub what: String,
    /// Length.
    pub ms: Millis,
}

impl PathShares {
    /// Returns `21s: 9s Cart and its tests, 6s main: model, 2s the rest`; empty without a path. Unsanitized.
    pub fn sentence(&self) -> String {
        if self.shares.is_empty() {
            return String::new();
        }
        let share = |ms: Millis, what: &str| format!("{} {what}", text::duration(Some(ms)));
        let mut parts: Vec<String> = self.shares.iter().map(|part| share(part.ms, &part.what)).collect();
        parts.extend((self.rest_ms > 0).then(|| share(self.rest_ms, "the rest")));
        format!("{}: {}", text::duration(Some(self.total_ms)), parts.join(", "))
    }
}

/// The spans of one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lane {
    /// The agent.
    pub agent_id: AgentId,
    /// Its depth in the tree.
    pub depth: u32,
    /// Sorted by start; parallel calls overlap.
    pub spans: Vec<Span>,
}

/// A call, or a wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    /// The kind of the span.
    pub kind: SpanKind,
    /// Start.
    pub from_ms: Millis,
    /// End; never before the start.
    pub to_ms: Millis,
    /// The tool, or the cause of a wait.
    pub name: Option<Text>,
    /// Status of the call; `None` for a wait.
    pub status: Option<ToolStatus>,
    /// Id of the call.
    pub call_id: Option<ToolUseId>,
    /// Whether the attribution to the agent is a guess, or the wait is inferred from silence.
    pub is_guess: bool,
}

/// Kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpanKind {
    /// A tool call.
    Tool,
    /// A call that started a subagent.
    Children,
    /// No open call: waiting for the model.
    Model,
    /// Waiting for a permission.
    Permission,
    /// Retrying a failed API request.
    Retry,
}

/// A step of the critical path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// The agent.
    pub agent_id: AgentId,
    /// Start.
    pub from_ms: Millis,
    /// End.
    pub to_ms: Millis,
}

/// A timeline without its lanes, each of which is made when it is drawn: of 3,000 agents a screen shows some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Start of the first agent.
    pub start_ms: Millis,
    /// End of the last agent, or `now` while an agent runs. Never before the start.
    pub end_ms: Millis,
    /// Critical path in chronological order, without overlaps.
    pub critical_path: Vec<Step>,
    /// What the critical path consists of.
    pub path: PathShares,
    /// Of each agent.
    active_intervals: Vec<Vec<Interval>>,
    /// Calls that started agents.
    starters: HashSet<ToolUseId>,
}

impl Outline {
    /// Returns the lane of an agent, by its place in the tree that this is the outline of.
    pub fn lane(&self, tree: &Tree, place: usize) -> Option<Lane> {
        let active_intervals = self.active_intervals.get(place)?;
        tree.agents.get(place).map(|agent| lane(agent, active_intervals, &self.starters))
    }
}

/// Computes the timeline of a tree; `None` if nothing in it has a time. Running agents extend to `now` if given, else
/// to their last event.
pub fn timeline(tree: &Tree, now: Option<Millis>) -> Option<Timeline> {
    let outline = outline(tree, now)?;
    let lanes = (0..tree.agents.len()).filter_map(|place| outline.lane(tree, place)).collect();
    let Outline { start_ms, end_ms, critical_path, path, .. } = outline;
    Some(Timeline { start_ms, end_ms, lanes, critical_path, path })
}

/// Computes the outline of the timeline of a tree, as [`timeline`] does.
pub fn outline(tree: &Tree, now: Option<Millis>) -> Option<Outline> {
    let active_intervals: Vec<Vec<Interval>> =
        tree.agents.iter().map(|agent| active_intervals(agent, now)).collect();
    let all = || active_intervals.iter().flatten();
    let start_ms = all().map(|[from, _]| *from).min()?;
    let end_ms = all().map(|[_, to]| *to).max()?;
    let starters: HashSet<ToolUseId> =
        tree.agents.iter().filter_map(|agent| agent.spawned_by.clone()).collect();
    let critical_path = critical_path(tree, &active_intervals, [start_ms, end_ms]);
    let root = tree.agents.first().filter(|agent| agent.id.is_root()).zip(active_intervals.first());
    let root = root.map(|(root, active_intervals)| lane(root, active_intervals, &starters));
    let path = path_shares(tree, root.as_ref(), &critical_path);
    Some(Outline { start_ms, end_ms, critical_path, path, active_intervals, starters })
}

fn lane(agent: &Agent, active_intervals: &[Interval], starters: &HashSet<ToolUseId>) -> Lane {
    Lane { agent_id: agent.id.clone(), depth: agent.depth, spans: spans(agent, active_intervals, starters) }
}

/// Sums the critical path by agent, and its steps in the root by activity.
fn path_shares(tree: &Tree, root: Option<&Lane>, critical_path: &[Step]) -> PathShares {
    let agents: HashMap<&AgentId, &Agent> = tree.agents.iter().map(|agent| (&agent.id, agent)).collect();
    // In order of their first step, so that equal lengths have one order.
    let mut sums: Vec<PathShare> = Vec::new();
    let mut places: HashMap<(AgentId, String), usize> = HashMap::new();
    let mut add = |agent_id: &AgentId, what: String, ms: Millis| {
        let place = *places.entry((agent_id.clone(), what.clone())).or_insert_with(|| {
            sums.push(PathShare { agent_id: agent_id.clone(), what, ms: 0 });
            sums.len() - 1
        });
        sums[place].ms += ms;
    };
    for step in critical_path {
        let lane = root.filter(|lane| lane.agent_id == step.agent_id);
        match (lane, agents.get(&step.agent_id)) {
            (Some(lane), _) => {
                activities(lane, step, |what, ms| add(&step.agent_id, format!("main: {what}"), ms))
            }
            (None, Some(agent)) => {
                let what = agent.description.as_deref().map_or_else(|| agent.title(), str::to_owned);
                add(&step.agent_id, what, step.to_ms - step.from_ms);
            }
            (None, None) => {}
        }
    }
    sums.retain(|share| share.ms > 0);
    sums.sort_by_key(|share| Reverse(share.ms));
    let total_ms = sums.iter().map(|share| share.ms).sum();
    let rest_ms = sums.iter().skip(MAX_SHARES).map(|share| share.ms).sum();
    sums.truncate(MAX_SHARES);
    PathShares { total_ms, shares: sums, rest_ms }
}

/// Splits a step by the spans of its lane. Of parallel spans the one that starts first counts; its successor counts
/// from its end.
fn activities(lane: &Lane, step: &Step, mut add: impl FnMut(&str, Millis)) {
    let mut at = step.from_ms;
    for span in lane.spans.iter().take_while(|span| span.from_ms < step.to_ms) {
        let (from, to) = (span.from_ms.max(at), span.to_ms.min(step.to_ms));
        if from >= to {
            continue;
        }
        let what = match span.kind {
            SpanKind::Tool => span.name.as_deref().unwrap_or("a tool"),
            SpanKind::Children => "subagents",
            SpanKind::Model => "model",
            SpanKind::Permission => "permission",
            SpanKind::Retry => "retries",
        };
        add(what, to - from);
        at = to;
    }
}

/// An agent's active intervals, in order and without overlaps.
fn active_intervals(agent: &Agent, now: Option<Millis>) -> Vec<Interval> {
    let mut active_intervals: Vec<Interval> = agent.intervals.clone();
    if active_intervals.is_empty()
        && let Some(start) = agent.started_at_ms
    {
        active_intervals.push([start, agent.ended_at_ms.or(agent.last_event_at_ms).unwrap_or(start)]);
    }
    if let (Some(now), Some(last)) = (now.filter(|_| agent.is_at_work()), active_intervals.last_mut()) {
        last[1] = last[1].max(now);
    }
    active_intervals.sort_unstable();
    let mut end = Millis::MIN;
    for interval in &mut active_intervals {
        interval[0] = interval[0].max(end);
        interval[1] = interval[1].max(interval[0]);
        end = interval[1];
    }
    active_intervals
}

/// An agent's spans: calls, the current wait, and model time between them.
fn spans(agent: &Agent, active_intervals: &[Interval], starters: &HashSet<ToolUseId>) -> Vec<Span> {
    let Some([_, end]) = active_intervals.last().copied() else { return Vec::new() };
    let wait = wait_of(agent, end);
    let mut spans: Vec<Span> =
        agent.tools.iter().filter_map(|call| call_span(call, end, wait.as_ref(), starters)).collect();
    spans.extend(wait);
    spans.sort_by_key(|span| (span.from_ms, span.to_ms));
    let gaps = gaps(active_intervals, &spans);
    spans.extend(gaps);
    // Stable: spans with the same start stay in call order.
    spans.sort_by_key(|span| span.from_ms);
    spans
}

/// The current wait for a person or retry of a live agent, if its start is known.
fn wait_of(agent: &Agent, end: Millis) -> Option<Span> {
    let live = agent.liveness.as_ref().filter(|_| agent.status.is_live())?;
    let kind = match live.kind {
        LivenessKind::Permission | LivenessKind::Question | LivenessKind::Plan => SpanKind::Permission,
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
    starters: &HashSet<ToolUseId>,
) -> Option<Span> {
    let from_ms = call.started_at_ms?;
    // An open call that waits for permission ends where the wait begins.
    let permission_wait =
        wait.filter(|wait| wait.kind == SpanKind::Permission && wait.name.as_ref() == Some(&call.name));
    let open_until = permission_wait.map_or(end, |wait| wait.from_ms);
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

/// Model spans for the parts of the active intervals that no span covers. Both inputs are sorted by start.
fn gaps(active_intervals: &[Interval], spans: &[Span]) -> Vec<Span> {
    let mut gaps = Vec::new();
    let mut spans = spans.iter().peekable();
    // Latest end of the spans passed: parallel calls end in any order.
    let mut covered = Millis::MIN;
    let mut gap = |from_ms: Millis, to_ms: Millis| {
        if from_ms < to_ms {
            let (name, status, call_id) = (None, None, None);
            gaps.push(Span { kind: SpanKind::Model, from_ms, to_ms, name, status, call_id, is_guess: false });
        }
    };
    for [from, to] in active_intervals {
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

/// An active interval of a subagent, seen from its parent.
struct ChildInterval {
    agent: usize,
    from_ms: Millis,
    to_ms: Millis,
}

/// Computes the critical path backwards from the end: an agent is on the path back to the end of its last subagent,
/// then that subagent back to its start, and so on. Subagents that ended while another was on the path delayed nothing.
fn critical_path(tree: &Tree, active_intervals: &[Vec<Interval>], [begin, end]: Interval) -> Vec<Step> {
    let mut children = child_intervals(tree, active_intervals);
    let mut path: Vec<Step> = Vec::new();
    // Only an agent's active intervals are on the path: the root is idle between prompts, and may end before its
    // background agents.
    let mut step = |agent: usize, from_ms: Millis, to_ms: Millis| {
        let own = &active_intervals[agent];
        let first = own.partition_point(|[_, to]| *to <= from_ms);
        let last = own.partition_point(|[from, _]| *from < to_ms);
        for [from, to] in own.get(first..last).unwrap_or_default().iter().rev() {
            let agent_id = tree.agents[agent].id.clone();
            path.push(Step { agent_id, from_ms: from_ms.max(*from), to_ms: to_ms.min(*to) });
        }
    };
    // Stack of agents from the root to the current one, each with the start of its interval.
    let mut open: Vec<(usize, Millis)> = vec![(0, begin)];
    let mut at = end;
    while let Some((agent, began)) = open.last().copied() {
        let next = loop {
            match children[agent].last() {
                None => break None,
                Some(child) if child.to_ms <= at && child.from_ms >= began => break children[agent].pop(),
                Some(child) if child.to_ms > at => children[agent].pop(),
                // Belongs to an earlier interval of the agent.
                Some(_) => break None,
            };
        };
        let until = next.as_ref().map_or(began, |child| child.to_ms);
        step(agent, until, at);
        at = until;
        match next {
            Some(child) => open.push((child.agent, child.from_ms)),
            None => drop(open.pop()),
        }
    }
    path.reverse();
    path
}

/// For each agent the intervals of its children, sorted by end; of equal ends the one with the earliest start is last.
fn child_intervals(tree: &Tree, active_intervals: &[Vec<Interval>]) -> Vec<Vec<ChildInterval>> {
    let places: HashMap<&AgentId, usize> =
        tree.agents.iter().enumerate().map(|(at, agent)| (&agent.id, at)).collect();
    let mut below: Vec<Vec<ChildInterval>> = tree.agents.iter().map(|_| Vec::new()).collect();
    for (at, agent) in tree.agents.iter().enumerate() {
        let parent = agent.parent_id.as_ref().and_then(|id| places.get(id)).copied();
        // Rows are in pre-order: a later parent is invalid and could form a cycle.
        let Some(parent) = parent.filter(|parent| *parent < at) else { continue };
        let own = active_intervals[at].iter();
        below[parent].extend(own.map(|&[from_ms, to_ms]| ChildInterval { agent: at, from_ms, to_ms }));
    }
    for children in &mut below {
        children.sort_by_key(|child| (child.to_ms, Reverse(child.from_ms)));
    }
    below
}

#[cfg(test)]
mod tests;
