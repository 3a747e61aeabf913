//! Conversion of an imported checkpoint into a tree, for all user interfaces.
//!
//! A checkpoint has no data about the root and no call times; unknown values stay `None`. Depths are derived from the
//! parents; the file's own depths are ignored.
//!
//! Pitfall: the file may contain duplicate ids, cycles and unknown parents. Nothing here recurses, every trace gets
//! exactly one row, and each correction is reported as a problem.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use subscope_model::{
    Agent, AgentId, AgentStatus, Basis, Checkpoint, CheckpointMetadata, ExecutionTrace, Flag, Payload,
    Problem, Session, SessionId, Subtree, Summary, TREE_SCHEMA, ToolCall, ToolExecution, ToolStatus,
    ToolUseId, Tree, Usage,
};

use crate::{checkpoint::CHECKPOINT_FILE, execution::UNKNOWN_TYPE, spans::IntervalSet};

/// Session id without metadata.
const UNNAMED_SESSION: &str = "checkpoint";

/// Returns the tree of a checkpoint: a root without data, and one agent per trace.
///
/// An agent with a parent outside the checkpoint is an orphan. The root is `lost`, because a checkpoint has no ending
/// of it. All input tokens count as fresh, because a trace does not distinguish cached ones.
pub fn checkpoint_tree(checkpoint: &Checkpoint, metadata: Option<&CheckpointMetadata>) -> Tree {
    let traces = &checkpoint.subagent_traces;
    let mut problems = Vec::new();
    let ids = unique_ids(traces, &mut problems);
    let placed = arrange(traces, &ids, &mut problems);
    let mut agents = vec![root()];
    agents.extend(placed.iter().map(|placed| agent(&traces[placed.trace], &ids, placed)));
    sum_subtrees(&mut agents);
    let session_id = metadata.map_or(UNNAMED_SESSION, |metadata| &metadata.session_id);
    Tree {
        schema: TREE_SCHEMA.into(),
        session: Session {
            id: SessionId::from(session_id),
            harness: None,
            harness_version: None,
            cwd: None,
            title: None,
            started_at_ms: agents.iter().filter_map(|agent| agent.started_at_ms).min(),
            ended_at_ms: agents.iter().filter_map(|agent| agent.ended_at_ms).max(),
            runs: 0,
            rev: None,
        },
        summary: summary(&agents),
        agents,
        problems,
    }
}

/// Returns a unique id for each trace, different from the root's.
fn unique_ids(traces: &[ExecutionTrace], problems: &mut Vec<Problem>) -> Vec<AgentId> {
    let mut taken: HashSet<String> = traces.iter().map(|trace| trace.subagent_id.clone()).collect();
    let mut used: HashSet<&str> = HashSet::from([AgentId::ROOT]);
    let mut next: HashMap<&str, u64> = HashMap::new();
    let mut ids = Vec::with_capacity(traces.len());
    for trace in traces {
        let named = trace.subagent_id.as_str();
        if used.insert(named) {
            ids.push(AgentId::from(named));
            continue;
        }
        let number = next.entry(named).or_insert(2);
        let mut id = format!("{named}#{number}");
        while !taken.insert(id.clone()) {
            *number += 1;
            id = format!("{named}#{number}");
        }
        add_problem(problems, "an agent's id is another's too; it is shown under a new one");
        ids.push(AgentId::from(id.as_str()));
    }
    ids
}

fn add_problem(problems: &mut Vec<Problem>, what: &str) {
    problems.push(Problem { at: CHECKPOINT_FILE.to_owned(), what: what.to_owned() });
}

/// Position of a trace in the tree.
struct TreePosition {
    trace: usize,
    /// Index of the parent's trace; `None` below the root and for orphans.
    parent: Option<usize>,
    depth: u32,
    orphan: bool,
}

/// Returns every trace exactly once, in pre-order, siblings by start, orphans last.
fn arrange(traces: &[ExecutionTrace], ids: &[AgentId], problems: &mut Vec<Problem>) -> Vec<TreePosition> {
    // Children of a duplicate id belong to its first trace: later ones got another id.
    let by_id: HashMap<&str, usize> =
        ids.iter().enumerate().map(|(number, id)| (id.as_str(), number)).collect();
    let mut by_start: Vec<usize> = (0..traces.len()).collect();
    by_start.sort_by_key(|number| traces[*number].start_time);
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); traces.len()];
    let (mut below_root, mut orphans) = (Vec::new(), Vec::new());
    for &number in &by_start {
        let parent = traces[number].parent_subagent_id.as_deref().filter(|parent| *parent != AgentId::ROOT);
        let siblings = match parent.map(|parent| by_id.get(parent)) {
            None => &mut below_root,
            Some(Some(parent)) => &mut children[*parent],
            Some(None) => &mut orphans,
        };
        siblings.push(number);
    }
    let mut seen = vec![false; traces.len()];
    let mut placed = Vec::new();
    // Appends a trace and its descendants. Returns whether the trace was not placed before.
    let mut place = |top: usize, orphan: bool| {
        let is_new = !seen[top];
        let mut open = vec![TreePosition { trace: top, parent: None, depth: 1, orphan }];
        while let Some(position) = open.pop() {
            if std::mem::replace(&mut seen[position.trace], true) {
                continue;
            }
            let (parent, depth) = (Some(position.trace), position.depth.saturating_add(1));
            let below = children[position.trace].iter().rev();
            open.extend(below.map(|&trace| TreePosition { trace, parent, depth, orphan: false }));
            placed.push(position);
        }
        is_new
    };
    for &number in &below_root {
        place(number, false);
    }
    for &number in &orphans {
        add_problem(problems, "an agent's parent is not in the checkpoint; it is shown as an orphan");
        place(number, true);
    }
    // The remaining traces are in cycles: each is broken at its first agent.
    for &number in &by_start {
        if place(number, true) {
            add_problem(problems, "agents name each other as parents; the first is shown as an orphan");
        }
    }
    placed
}

fn root() -> Agent {
    Agent {
        evidence: Some("not in the checkpoint".into()),
        ..Agent::unknown(AgentId::from(AgentId::ROOT), 0, AgentStatus::Lost)
    }
}

fn agent(trace: &ExecutionTrace, ids: &[AgentId], placed: &TreePosition) -> Agent {
    let parent = placed.parent.map_or_else(|| AgentId::from(AgentId::ROOT), |parent| ids[parent].clone());
    let is_known = |text: &&str| !text.is_empty();
    let tools: Vec<ToolCall> = trace.tool_executions.iter().map(tool_call).collect();
    let count =
        |status| u32::try_from(tools.iter().filter(|call| call.status == status).count()).unwrap_or(u32::MAX);
    let (start, end) = (trace.start_time, trace.end_time.max(trace.start_time));
    let interval = start.zip(end).map(|(start, end)| [start, end]);
    let status = if trace.success { AgentStatus::Completed } else { AgentStatus::Failed };
    Agent {
        parent_id: (!placed.orphan).then_some(parent),
        spawned_by: Some(trace.parent_tool_call_id.as_str()).filter(is_known).map(ToolUseId::from),
        agent_type: Some(trace.subagent_type.as_str())
            .filter(|word| is_known(word) && *word != UNKNOWN_TYPE)
            .map(Into::into),
        model: trace.model.as_deref().map(Into::into),
        evidence: Some("checkpoint".into()),
        flags: if placed.orphan { vec![Flag::Orphan] } else { Vec::new() },
        started_at_ms: start,
        ended_at_ms: end,
        last_event_at_ms: end,
        intervals: interval.into_iter().collect(),
        wall_ms: interval.map(|[start, end]| end.saturating_sub(start)),
        tool_calls: u32::try_from(tools.len()).unwrap_or(u32::MAX),
        tool_errors: count(ToolStatus::Error),
        open_tools: count(ToolStatus::Open),
        tools,
        usage: trace.usage.map(|usage| Usage::new(usage.input_tokens, usage.output_tokens, 0, 0)),
        cost_micro_usd: trace.cost_micro_usd,
        prompt: Some(trace.prompt.as_str()).filter(is_known).map(Into::into),
        result: trace.result.as_deref().map(Into::into),
        error: trace.error.as_deref().map(Into::into),
        ..Agent::unknown(ids[placed.trace].clone(), placed.depth, status)
    }
}

fn tool_call(tool: &ToolExecution) -> ToolCall {
    let payload =
        |value: &Value| (!value.is_null()).then(|| Box::new(Payload::Inline(value.to_string().into())));
    ToolCall {
        id: tool.tool_call_id.as_deref().map(ToolUseId::from),
        name: tool.tool_name.as_str().into(),
        // A call that was open when its agent ended has no result, error flag or duration.
        status: match (tool.is_error, tool.result.is_null() && tool.duration.is_none()) {
            (Some(true), _) => ToolStatus::Error,
            (None, true) => ToolStatus::Open,
            (Some(false), _) | (None, false) => ToolStatus::Ok,
        },
        basis: Basis::Link,
        started_at_ms: None,
        ended_at_ms: None,
        detail: None,
        input: payload(&tool.arguments),
        result: payload(&tool.result),
    }
}

/// Sums over an agent and its descendants.
#[derive(Default)]
struct SubtreeSum {
    figures: Subtree,
    intervals: IntervalSet,
    /// Whether the cost of some agent is unknown.
    unpriced: bool,
}

impl SubtreeSum {
    fn add(&mut self, other: Self) {
        let (mine, theirs) = (&mut self.figures, &other.figures);
        mine.agents = mine.agents.saturating_add(theirs.agents);
        mine.tool_calls = mine.tool_calls.saturating_add(theirs.tool_calls);
        mine.usage = sum(mine.usage, theirs.usage, |left, right| left + right);
        mine.cost_micro_usd = sum(mine.cost_micro_usd, theirs.cost_micro_usd, i64::saturating_add);
        mine.agent_ms = sum(mine.agent_ms, theirs.agent_ms, i64::saturating_add);
        self.intervals.join(other.intervals);
        self.unpriced |= other.unpriced;
    }
}

/// Adds two optional values; `None` only if both are.
fn sum<T: Copy>(left: Option<T>, right: Option<T>, add: fn(T, T) -> T) -> Option<T> {
    match (left, right) {
        (Some(left), Some(right)) => Some(add(left, right)),
        (one, None) | (None, one) => one,
    }
}

/// Fills in each agent's subtree figures. In reverse pre-order every child precedes its parent.
fn sum_subtrees(agents: &mut [Agent]) {
    let numbers: HashMap<AgentId, usize> =
        agents.iter().enumerate().map(|(number, agent)| (agent.id.clone(), number)).collect();
    let mut below: Vec<SubtreeSum> = agents.iter().map(|_| SubtreeSum::default()).collect();
    for (number, agent) in agents.iter_mut().enumerate().rev() {
        let mut sum = std::mem::take(&mut below[number]);
        sum.add(own(agent));
        sum.figures.wall_ms = sum.intervals.total_ms();
        sum.figures.cost_floor = sum.unpriced && sum.figures.cost_micro_usd.is_some();
        agent.subtree = sum.figures.clone();
        // Orphans count for the root, so that its figures are the session's totals.
        let above = agent.parent_id.as_ref().and_then(|parent| numbers.get(parent)).copied().unwrap_or(0);
        if number > 0 {
            below[above].add(sum);
        }
    }
}

fn own(agent: &Agent) -> SubtreeSum {
    let mut intervals = IntervalSet::default();
    agent.intervals.iter().for_each(|interval| intervals.add(*interval));
    let figures = Subtree {
        agents: 1,
        tool_calls: agent.tool_calls,
        usage: agent.usage,
        cost_micro_usd: agent.cost_micro_usd,
        cost_floor: false,
        wall_ms: None,
        agent_ms: agent.wall_ms,
    };
    SubtreeSum { figures, intervals, unpriced: agent.cost_micro_usd.is_none() }
}

fn summary(agents: &[Agent]) -> Summary {
    let whole = agents.first().map(|root| root.subtree.clone()).unwrap_or_default();
    let mut summary = Summary {
        agents: whole.agents.saturating_sub(1),
        tool_calls: whole.tool_calls,
        usage: whole.usage,
        cost_micro_usd: whole.cost_micro_usd,
        cost_floor: whole.cost_floor,
        wall_ms: whole.wall_ms,
        agent_ms: whole.agent_ms,
        ..Summary::default()
    };
    for agent in agents.iter().filter(|agent| !agent.id.is_root()) {
        summary.completed += u32::from(agent.status == AgentStatus::Completed);
        summary.failed += u32::from(agent.status == AgentStatus::Failed);
        summary.max_depth = summary.max_depth.max(agent.depth);
        summary.tool_errors = summary.tool_errors.saturating_add(agent.tool_errors);
        let agent_type = agent.agent_type.as_deref().unwrap_or(UNKNOWN_TYPE);
        *summary.by_type.entry(agent_type.to_owned()).or_default() += 1;
    }
    summary
}

#[cfg(test)]
mod tests;
