//! Lifecycle events: starts, ends and stalls, derived by comparing rows with those last published.
//!
//! Each is published once, however often sources repeat it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use subscope_model::{
    Actor, Agent, AgentId, AgentStatus, Basis, Event, EventKind, Flag, LivenessKind, Millis, Problem, Text,
    Tree, event_id,
};
use subscope_track::Now;

/// How long the end of an agent is delayed to wait for its last line while sources grow. Harnesses write files of
/// several agents in no fixed order: the report is often in the parent's transcript before the agent's last text and
/// usage are in its own.
const END_DELAY_MS: Millis = 300;

/// Published state of a session's agents.
#[derive(Debug, Default)]
pub(crate) struct LifecycleState {
    agents: BTreeMap<AgentId, PublishedAgent>,
    /// Agents whose end waits for their last line, and since when.
    delayed_ends: BTreeMap<AgentId, Millis>,
    has_started: bool,
    problems: BTreeSet<Problem>,
}

#[derive(Clone, Debug)]
struct PublishedAgent {
    status: AgentStatus,
    /// Number of its intervals whose start was published.
    intervals: usize,
    /// What it was waiting for, if it was live.
    wait: Option<AgentWait>,
}

/// What an agent waits for, and since when it is silent. None for an agent that waits for its subagents: their own
/// silence is reported.
#[derive(Clone, Debug)]
struct AgentWait {
    target: String,
    since: Millis,
}

impl AgentWait {
    fn of(row: &Agent) -> Option<Self> {
        let named = |word: &str, name: &Option<Text>| match name {
            Some(name) => format!("{word} {name}"),
            None => word.to_owned(),
        };
        let doing = row.liveness.as_ref();
        let target = match doing.map(|doing| (doing.kind, &doing.name)) {
            None if row.status == AgentStatus::Pending => "its start".to_owned(),
            None | Some((LivenessKind::Children | LivenessKind::Idle, _)) => return None,
            Some((LivenessKind::Model, _)) => "the model".to_owned(),
            Some((LivenessKind::Tool, name)) => named("tool", name),
            Some((LivenessKind::Permission, name)) => named("permission", name),
            Some((LivenessKind::Retry, Some(error))) => format!("retry: {error}"),
            Some((LivenessKind::Retry, None)) => "a retry".to_owned(),
        };
        let since = row.last_event_at_ms.max(doing.and_then(|doing| doing.since_ms))?;
        Some(Self { target, since })
    }
}

impl LifecycleState {
    /// Returns the time at which the next delayed end is due; `None` if none is delayed.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        self.delayed_ends.values().min().map(|since| since + END_DELAY_MS)
    }

    /// Whether the end of an agent still waits for its last line.
    fn delays_end(&mut self, row: &Agent, now: &Now<'_>) -> bool {
        let is_final = row.evidence.as_deref() == Some("last line") || row.status == AgentStatus::Lost;
        if row.status.is_live() || is_final || !now.is_growing || row.id.is_root() {
            self.delayed_ends.remove(&row.id);
            return false;
        }
        if self.agents.get(&row.id).is_none_or(|published| published.status.is_live()) {
            let since = *self.delayed_ends.entry(row.id.clone()).or_insert(now.at);
            if now.at < since + END_DELAY_MS {
                return true;
            }
        }
        self.delayed_ends.remove(&row.id);
        false
    }

    /// Returns the events for the differences between a tree and the published state, in order, and updates the state.
    pub(crate) fn advance(&mut self, tree: &Tree, now: &Now<'_>) -> Vec<Event> {
        let mut events = Vec::new();
        if !self.has_started {
            self.has_started = true;
            events.push(session_start_event(tree));
        }
        events.extend(
            tree.agents
                .iter()
                .filter(|row| row.has(Flag::Stalled))
                .filter_map(|row| Some(stall_event(tree, row, &AgentWait::of(row)?, now.at))),
        );
        // A pending agent may still be refused: its start is published when it is at work.
        for row in tree.agents.iter().filter(|row| row.status != AgentStatus::Pending) {
            // Wait for the first line, which has the time: files beside a transcript may be read before it.
            let is_known = self.agents.contains_key(&row.id) || row.id.is_root();
            if now.is_growing && row.status.is_live() && !is_known && started_at(tree, row, 0).is_none() {
                continue;
            }
            self.rename(tree, row, &mut events);
            let is_delayed = self.delays_end(row, now);
            self.advance_agent(tree, row, is_delayed, now, &mut events);
        }
        for problem in &tree.problems {
            if self.problems.contains(problem) {
                continue;
            }
            self.problems.insert(problem.clone());
            let data = json!({ "at": problem.at, "what": problem.what });
            let key = format!("problem/{}/{}", problem.at, problem.what);
            events.push(make_event(tree, None, EventKind::Problem, AgentId::from(AgentId::ROOT), &key, data));
        }
        events.sort_by_key(|event| event.at_ms);
        events
    }

    /// Publishes the rename of an agent that was published under its spawn call's id.
    fn rename(&mut self, tree: &Tree, row: &Agent, events: &mut Vec<Event>) {
        let Some(call) = row.spawned_by.as_ref().filter(|_| !self.agents.contains_key(&row.id)) else {
            return;
        };
        let from = AgentId(call.0.clone());
        let Some(published) = self.agents.remove(&from) else { return };
        self.agents.insert(row.id.clone(), published);
        let data = json!({ "from": from, "to": row.id });
        let key = format!("agent/{}/renamed/{from}", row.id);
        events.push(make_event(tree, None, EventKind::AgentRenamed, row.id.clone(), &key, data));
    }

    fn advance_agent(
        &mut self,
        tree: &Tree,
        row: &Agent,
        is_delayed: bool,
        now: &Now<'_>,
        events: &mut Vec<Event>,
    ) {
        let is_live = row.status.is_live() || is_delayed;
        let intervals = row.intervals.len().max(1);
        let known = self.agents.get(&row.id).cloned();
        let published = known.as_ref().map_or(0, |known| known.intervals);
        // If the limits for stalled and lost are equal, both events are published.
        let is_silent = row.evidence.as_deref().is_some_and(|why| why.starts_with("silent"));
        if let Some(wait) = known.as_ref().and_then(|known| known.wait.as_ref())
            && row.status == AgentStatus::Lost
            && is_silent
        {
            events.push(stall_event(tree, row, wait, now.at));
        }
        if !row.id.is_root() {
            for interval in published..intervals {
                events.push(start_event(tree, row, interval));
                if interval + 1 < intervals {
                    events.push(stop_event(tree, row, interval, AgentStatus::Completed));
                }
            }
            // `lost` was only inferred: the real end is published as well.
            let was_lost = known.as_ref().is_some_and(|known| known.status == AgentStatus::Lost);
            let is_found = was_lost && row.status != AgentStatus::Lost;
            if !is_live
                && (is_found
                    || known.as_ref().is_none_or(|known| known.status.is_live() || published < intervals))
            {
                events.push(stop_event(tree, row, intervals - 1, row.status));
            }
        } else if !is_live
            && tree.session.runs > 0
            && known.as_ref().is_none_or(|known| known.status.is_live())
        {
            let data = json!({ "status": row.status, "text": row.error });
            let key = format!("run/{}/end/{}", tree.session.runs, row.ended_at_ms.unwrap_or(0));
            events.push(make_event(tree, row.ended_at_ms, EventKind::RunEnd, row.id.clone(), &key, data));
        }
        let status = if is_delayed { AgentStatus::Running } else { row.status };
        let published = PublishedAgent { status, intervals, wait: AgentWait::of(row).filter(|_| is_live) };
        self.agents.insert(row.id.clone(), published);
    }
}

fn make_event(
    tree: &Tree,
    at_ms: Option<Millis>,
    kind: EventKind,
    actor: AgentId,
    key: &str,
    data: Value,
) -> Event {
    Event {
        schema: Event::SCHEMA.into(),
        id: event_id(&tree.session.id, key),
        seq: 0,
        at_ms,
        session_id: tree.session.id.clone(),
        run: 0,
        actor_id: Actor(actor),
        basis: Basis::Link,
        source: "subscope".into(),
        kind,
        data,
    }
}

fn session_start_event(tree: &Tree) -> Event {
    let data = json!({
        "harness": tree.session.harness, "version": tree.session.harness_version, "cwd": tree.session.cwd,
        "model": tree.agents.first().and_then(|root| root.model.clone()),
    });
    make_event(
        tree,
        tree.session.started_at_ms,
        EventKind::SessionStart,
        AgentId::from(AgentId::ROOT),
        "session/start",
        data,
    )
}

/// Returns the key of an interval: the spawn call for the first, agent id and number for others.
fn trigger_key(row: &Agent, interval: usize) -> String {
    match (&row.spawned_by, interval) {
        (Some(call), 0) => call.to_string(),
        _ => format!("{}#{}", row.id, interval + 1),
    }
}

fn start_event(tree: &Tree, row: &Agent, interval: usize) -> Event {
    let at = started_at(tree, row, interval);
    let trigger = trigger_key(row, interval);
    let data = json!({
        "agent_id": row.id, "agent_type": row.agent_type, "name": row.name, "description": row.description,
        "prompt": row.prompt, "parent_id": row.parent_id, "spawned_by": row.spawned_by, "trigger": trigger,
        "background": row.background, "model": row.model, "depth": row.depth,
    });
    make_event(
        tree,
        at,
        EventKind::SubagentStart,
        row.id.clone(),
        &format!("agent/{}/start/{trigger}", row.id),
        data,
    )
}

fn started_at(tree: &Tree, row: &Agent, interval: usize) -> Option<Millis> {
    let own = row.intervals.get(interval).map(|interval| interval[0]).or(row.started_at_ms);
    own.or_else(|| spawn_time(tree, row))
}

/// Returns the time of the call that started an agent: its start, until its first line is written.
fn spawn_time(tree: &Tree, row: &Agent) -> Option<Millis> {
    let call = row.spawned_by.as_ref()?;
    let parent = tree.agents.iter().find(|parent| Some(&parent.id) == row.parent_id.as_ref())?;
    parent.tools.iter().find(|tool| tool.id.as_ref() == Some(call))?.started_at_ms
}

fn stop_event(tree: &Tree, row: &Agent, interval: usize, status: AgentStatus) -> Event {
    let at = row.intervals.get(interval).map(|interval| interval[1]).or(row.ended_at_ms);
    let is_last = interval + 1 >= row.intervals.len();
    let trigger = trigger_key(row, interval);
    let duration = row.intervals.get(interval).map(|interval| interval[1] - interval[0]);
    let data = json!({
        "agent_id": row.id, "status": status, "result": row.result.as_ref().filter(|_| is_last),
        "error": row.error.as_ref().filter(|_| is_last), "evidence": row.evidence.as_ref().filter(|_| is_last),
        "duration_ms": duration, "trigger": trigger, "tool_calls": row.tool_calls,
        "total_tokens": row.usage.map(|usage| usage.total_tokens), "floor": row.usage.map(|usage| usage.floor),
        "cost_micro_usd": row.cost_micro_usd,
    });
    // A key of its own, because the real end may still follow.
    let word = if status == AgentStatus::Lost { "lost" } else { "end" };
    make_event(
        tree,
        at,
        EventKind::SubagentStop,
        row.id.clone(),
        &format!("agent/{}/{word}/{trigger}", row.id),
        data,
    )
}

/// Makes the event that an agent is stalled. Its key contains the begin of the silence, so it is published once per
/// silence.
fn stall_event(tree: &Tree, row: &Agent, wait: &AgentWait, at: Millis) -> Event {
    let data = json!({ "agent_id": row.id, "waiting_for": wait.target, "since_ms": wait.since });
    let key = format!("stall/{}/{}", row.id, wait.since);
    make_event(tree, Some(at), EventKind::Stall, row.id.clone(), &key, data)
}
