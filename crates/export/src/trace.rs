//! Lifecycle trace: lifecycle events of all subagents, their hierarchy, and statistics (requirements 1.2, 1.6).
//!
//! Flow: spawns and endings come from the tree, progress from the events; all are sorted by time. The tree decides
//! which agent owns a call, because an event's actor may have been corrected.
//!
//! Pitfall: agents can be nested thousands deep. Nothing here recurses.

use std::{
    collections::HashMap,
    io::{self, BufWriter, Write},
};

use subscope_model::{
    Agent, AgentStatus, Event, EventKind, Lifecycle, LifecycleKind, Millis, Trace, TraceNode, TraceState,
    TraceStats, Tree, iso8601,
};

use crate::{
    execution::{agent_type, failure},
    spans::IntervalSet,
};

/// Returns the lifecycle trace of a session.
///
/// `events` are the session's, in feed order; long texts may be missing in them. They supply the progress of the
/// subagents, and the order where times are missing; without them the trace has no progress.
pub fn trace(tree: &Tree, events: impl Iterator<Item = Event> + Clone) -> Trace {
    let hierarchy = hierarchy(tree);
    Trace { events: lifecycle(tree, &hierarchy, events), stats: stats(tree, &hierarchy), hierarchy }
}

/// Writes a trace as one JSON object with the hierarchy nested: `{events, hierarchy: [{state, children}], stats}`.
///
/// Its stack does not grow with the depth of the hierarchy. Recursive readers may refuse deep nesting.
///
/// # Errors
/// Errors of the writer; earlier output is not undone.
pub fn write_trace(trace: &Trace, w: &mut dyn Write) -> io::Result<()> {
    let mut w = BufWriter::new(w);
    w.write_all(b"{\"events\":")?;
    serde_json::to_writer(&mut w, &trace.events)?;
    w.write_all(b",\"hierarchy\":[")?;
    write_nested(&trace.hierarchy, &mut w)?;
    w.write_all(b"],\"stats\":")?;
    serde_json::to_writer(&mut w, &trace.stats)?;
    w.write_all(b"}\n")?;
    w.flush()
}

fn write_nested(nodes: &[TraceNode], w: &mut dyn Write) -> io::Result<()> {
    let mut open: u32 = 0;
    for node in nodes {
        if node.level < open {
            close(open - node.level, w)?;
            w.write_all(b",")?;
        }
        // A node opens at most one level, whatever its number is, so that brackets match.
        open = node.level.min(open) + 1;
        w.write_all(b"{\"state\":")?;
        serde_json::to_writer(&mut *w, &node.state)?;
        w.write_all(b",\"children\":[")?;
    }
    close(open, w)
}

fn close(levels: u32, w: &mut dyn Write) -> io::Result<()> {
    for _ in 0..levels {
        w.write_all(b"]}")?;
    }
    Ok(())
}

/// Iterates over the subagents of a tree, in its order.
fn subagents(tree: &Tree) -> impl Iterator<Item = &Agent> {
    tree.agents.iter().filter(|agent| !agent.id.is_root())
}

/// Returns one node per subagent, in the order of [`subagents`].
fn hierarchy(tree: &Tree) -> Vec<TraceNode> {
    let mut nodes: Vec<TraceNode> = Vec::new();
    // Ancestors of the current agent with their depths. A subtree may begin at any depth.
    let mut ancestors: Vec<(u32, usize)> = Vec::new();
    for agent in subagents(tree) {
        while ancestors.pop_if(|(depth, _)| *depth >= agent.depth).is_some() {}
        let parent_id = ancestors.last().map(|(_, parent)| {
            let parent = &mut nodes[*parent].state;
            parent.child_ids.push(agent.id.to_string());
            parent.id.clone()
        });
        let level = u32::try_from(ancestors.len()).unwrap_or(u32::MAX);
        ancestors.push((agent.depth, nodes.len()));
        nodes.push(TraceNode { level, state: node_state(agent, parent_id) });
    }
    nodes
}

fn node_state(agent: &Agent, parent_id: Option<String>) -> TraceState {
    TraceState {
        id: agent.id.to_string(),
        agent_type: agent_type(agent).to_owned(),
        description: agent.description.as_deref().unwrap_or_default().to_owned(),
        status: agent.status.as_str().to_owned(),
        parent_id,
        child_ids: Vec::new(),
        spawned_at: agent.started_at_ms.map(iso8601),
        ended_at: ended_at(agent).map(iso8601),
        duration_ms: duration_ms(agent),
        prompt: agent.prompt.as_deref().map(str::to_owned),
        result: agent.result.as_deref().map(str::to_owned),
    }
}

/// Returns the end time of an agent that no longer runs; for a lost one, its last event.
fn ended_at(agent: &Agent) -> Option<Millis> {
    if agent.status.is_live() { None } else { agent.ended_at_ms.or(agent.last_event_at_ms) }
}

fn duration_ms(agent: &Agent) -> Option<i64> {
    let from_ends =
        || agent.started_at_ms.zip(ended_at(agent)).map(|(from, to)| to.saturating_sub(from).max(0));
    agent.wall_ms.or_else(from_ends)
}

fn stats(tree: &Tree, hierarchy: &[TraceNode]) -> TraceStats {
    let mut stats = TraceStats::default();
    let mut wall = IntervalSet::default();
    for (agent, node) in subagents(tree).zip(hierarchy) {
        stats.total_subagents += 1;
        *stats.by_type.entry(node.state.agent_type.clone()).or_default() += 1;
        stats.total_duration_ms = stats.total_duration_ms.saturating_add(node.state.duration_ms.unwrap_or(0));
        stats.failure_count += u32::from(agent.status == AgentStatus::Failed);
        stats.max_depth = stats.max_depth.max(agent.depth);
        agent.intervals.iter().for_each(|interval| wall.add(*interval));
    }
    stats.wall_ms = wall.total_ms().unwrap_or(0);
    stats
}

/// Sort key: time, position in the feed, then spawn before progress before ending.
type SortKey = (Millis, usize, u8);

/// First and last event of an agent, as time and position in the feed.
#[derive(Clone, Copy)]
struct EventRange {
    first: (Millis, usize),
    last: (Millis, usize),
}

fn lifecycle(
    tree: &Tree,
    hierarchy: &[TraceNode],
    events: impl Iterator<Item = Event> + Clone,
) -> Vec<Lifecycle> {
    let agents: Vec<&Agent> = subagents(tree).collect();
    let lookup = AgentLookup::new(&agents);
    let mut ranges: Vec<Option<EventRange>> = vec![None; agents.len()];
    let mut entries: Vec<(SortKey, Lifecycle)> = Vec::new();
    // An event without a time has that of the event before it.
    let mut time = events.clone().find_map(|event| event.at_ms).unwrap_or(Millis::MIN);
    for (position, event) in events.enumerate() {
        time = event.at_ms.unwrap_or(time);
        let Some((number, role)) = lookup.subject(&event) else { continue };
        let at = (time, position);
        let EventRange { first, last } = ranges[number].unwrap_or(EventRange { first: at, last: at });
        ranges[number] = Some(EventRange { first: first.min(at), last: last.max(at) });
        if let EventRole::Progress(message) = role {
            let entry = entry(agents[number], &hierarchy[number], LifecycleKind::Progress, event.at_ms);
            entries.push(((time, position, 1), Lifecycle { message, ..entry }));
        }
    }
    for ((agent, node), range) in agents.iter().zip(hierarchy).zip(ranges) {
        // Without any time: a pending agent comes last, others first.
        let fallback = if agent.status == AgentStatus::Pending { Millis::MAX } else { Millis::MIN };
        let spawn_at = agent.started_at_ms.or(range.map(|range| range.first.0)).unwrap_or(fallback);
        entries.push(((spawn_at, range.map_or(0, |range| range.first.1), 0), spawn(agent, node)));
        let (last_at, last) = range.map_or((spawn_at, usize::MAX), |range| range.last);
        let end_at = ended_at(agent).unwrap_or(last_at.max(spawn_at));
        entries.extend(ending(agent, node).map(|ending| ((end_at, last, 2), ending)));
    }
    // Stable: entries with equal keys stay in tree order.
    entries.sort_by_key(|(order, _)| *order);
    entries.into_iter().map(|(_, entry)| entry).collect()
}

/// Meaning of an event for its subagent.
enum EventRole {
    /// Progress, with a message if there is one.
    Progress(Option<String>),
    /// Only extends the agent's time range.
    Other,
}

/// Index of agents by id and by call.
struct AgentLookup<'a> {
    agents: HashMap<&'a str, usize>,
    calls: HashMap<&'a str, (usize, Option<&'a str>)>,
}

impl<'a> AgentLookup<'a> {
    fn new(agents: &[&'a Agent]) -> Self {
        let mut lookup = Self { agents: HashMap::new(), calls: HashMap::new() };
        for (number, agent) in agents.iter().enumerate() {
            lookup.agents.insert(agent.id.as_str(), number);
            for call in &agent.tools {
                if let Some(id) = &call.id {
                    lookup.calls.insert(id.as_str(), (number, call.detail.as_deref()));
                }
            }
        }
        lookup
    }

    /// Returns the index of the subagent that an event is about, and the event's role; `None` for events about the
    /// root.
    fn subject(&self, event: &Event) -> Option<(usize, EventRole)> {
        let actor = self.agents.get(event.actor_id.0.as_str()).copied();
        if event.kind == EventKind::ToolPre {
            let call = event.text("tool_use_id").and_then(|id| self.calls.get(id)).copied();
            let number = call.map(|(number, _)| number).or(actor)?;
            let name = event.text("tool_name").unwrap_or("tool");
            let detail = call.and_then(|(_, detail)| detail);
            let message = detail.map_or_else(|| name.to_owned(), |detail| format!("{name} {detail}"));
            return Some((number, EventRole::Progress(Some(message))));
        }
        let named = event.text("agent_id").and_then(|id| self.agents.get(id)).copied().or(actor);
        if event.kind == EventKind::SubagentProgress {
            return Some((named?, EventRole::Progress(progress_message(event))));
        }
        let is_own = matches!(event.kind, EventKind::SubagentStart | EventKind::SubagentStop);
        Some((if is_own { named? } else { actor? }, EventRole::Other))
    }
}

fn progress_message(event: &Event) -> Option<String> {
    let calls = || event.data.get("tool_calls").and_then(serde_json::Value::as_u64);
    event.text("message").map(str::to_owned).or_else(|| calls().map(|calls| format!("{calls} tool calls")))
}

fn entry(agent: &Agent, node: &TraceNode, kind: LifecycleKind, at_ms: Option<Millis>) -> Lifecycle {
    Lifecycle {
        id: agent.id.to_string(),
        kind,
        timestamp: at_ms.map(iso8601),
        agent_type: node.state.agent_type.clone(),
        description: node.state.description.clone(),
        parent_id: node.state.parent_id.clone(),
        prompt: None,
        model: None,
        message: None,
        exit_status: None,
        duration_ms: None,
        result: None,
        error_message: None,
        error_code: None,
    }
}

fn spawn(agent: &Agent, node: &TraceNode) -> Lifecycle {
    Lifecycle {
        prompt: node.state.prompt.clone(),
        model: agent.model.as_deref().map(str::to_owned),
        ..entry(agent, node, LifecycleKind::Spawn, agent.started_at_ms)
    }
}

/// Returns the entry of an agent's ending; `None` while it runs.
fn ending(agent: &Agent, node: &TraceNode) -> Option<Lifecycle> {
    let status = Some(agent.status.as_str().to_owned());
    let duration_ms = node.state.duration_ms;
    match agent.status {
        AgentStatus::Pending | AgentStatus::Running => None,
        AgentStatus::Completed => Some(Lifecycle {
            exit_status: Some("success".to_owned()),
            duration_ms,
            result: node.state.result.clone(),
            ..entry(agent, node, LifecycleKind::Complete, ended_at(agent))
        }),
        AgentStatus::Failed | AgentStatus::Stopped | AgentStatus::Lost => Some(Lifecycle {
            error_message: Some(failure(agent)),
            error_code: agent.error.as_deref().and_then(http_status).or(status),
            duration_ms,
            ..entry(agent, node, LifecycleKind::Error, ended_at(agent))
        }),
    }
}

/// Returns the HTTP status that an error names: a number from 400 to 599 after `error`, `status`, `code` or `HTTP`.
fn http_status(error: &str) -> Option<String> {
    let words: Vec<&str> =
        error.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let names_status = |word: &str| {
        ["error", "status", "code", "http", "statuscode"].iter().any(|known| word.eq_ignore_ascii_case(known))
    };
    let is_status = |word: &str| word.len() == 3 && matches!(word.parse::<u16>(), Ok(400..=599));
    let named = words.windows(2).find(|pair| names_status(pair[0]) && is_status(pair[1]))?;
    Some(named[1].to_owned())
}

#[cfg(test)]
mod tests;
