//! Lifecycle events: starts, ends and stalls, derived by comparing rows with those last published.
//!
//! Each is published once, however often sources repeat it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use subscope_model::{
    Actor, Agent, AgentId, AgentStatus, Basis, Event, EventKind, EventSchema, Flag, LivenessKind, Millis,
    Problem, Text, Tree, event_id,
};
use subscope_track::{Derived, Now};

use crate::router::UnreadLines;

/// How long the end of an agent is delayed to wait for its last line while sources grow. Harnesses write files of
/// several agents in no fixed order: the report is often in the parent's transcript before the agent's last text and
/// usage are in its own.
const END_DELAY_MS: Millis = 300;

/// How long a start is delayed while sources grow, where another agent may turn out to be the same one: a hook has reported
/// the one by its id, and a stream the other by its spawn call. Within this time a source usually links both.
const START_DELAY_MS: Millis = 2_000;

/// Published state of a session's agents.
#[derive(Debug, Default)]
pub(crate) struct LifecycleState {
    agents: BTreeMap<AgentId, PublishedAgent>,
    /// Agents whose start waits for more than a hook, and since when.
    delayed_starts: BTreeMap<AgentId, Millis>,
    /// Agents whose end waits for their last line, and since when.
    delayed_ends: BTreeMap<AgentId, Millis>,
    /// Since when no agent is at work, until the end of the run is published.
    at_rest_since: Option<Millis>,
    has_started: bool,
    /// Number of runs whose start was published.
    started_runs: u32,
    /// Runs whose end was published, with whether it was only inferred.
    ended_runs: BTreeMap<u32, bool>,
    problems: BTreeSet<Problem>,
}

#[derive(Clone, Debug)]
struct PublishedAgent {
    status: AgentStatus,
    /// Number of its intervals whose start was published.
    intervals: usize,
    /// Number of its intervals whose end was published.
    ends: usize,
    /// Whether it was published that the last interval's end is not known.
    is_lost: bool,
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
            Some((LivenessKind::Question, name)) => named("an answer to", name),
            Some((LivenessKind::Plan, name)) => named("a decision about a plan:", name),
            Some((LivenessKind::Retry, Some(error))) => format!("retry: {error}"),
            Some((LivenessKind::Retry, None)) => "a retry".to_owned(),
        };
        let since = row.last_event_at_ms.max(doing.and_then(|doing| doing.since_ms))?;
        Some(Self { target, since })
    }
}

impl LifecycleState {
    /// Returns the time at which the next delayed start or end is due; `None` if none is delayed.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        // The end of the run waits for those of agents.
        let end = self.delayed_ends.values().min().or(self.at_rest_since.as_ref());
        let start = self.delayed_starts.values().min();
        let due = [end.map(|since| since + END_DELAY_MS), start.map(|since| since + START_DELAY_MS)];
        due.into_iter().flatten().min()
    }

    /// Whether the start of an agent still waits: for its first line, which has the time (meta files may be read before
    /// the transcript), or for a source that links it to another one.
    fn delays_start(&mut self, tree: &Tree, row: &Agent, now: &Now<'_>) -> bool {
        let is_known = self.agents.contains_key(&row.id) || row.id.is_root();
        let may_wait = now.is_growing && row.status.is_live() && !is_known;
        let is_undated = started_at(tree, row, 0).is_none();
        if !may_wait || is_undated || !self.may_be_another(tree, row) {
            self.delayed_starts.remove(&row.id);
            return may_wait && is_undated;
        }
        let since = *self.delayed_starts.entry(row.id.clone()).or_insert(now.at);
        if now.at < since + START_DELAY_MS {
            return true;
        }
        self.delayed_starts.remove(&row.id);
        false
    }

    /// Whether an agent may be the same as one whose start is published, or is about to be: of one a hook has reported only
    /// the start, of the other only the spawn call is known.
    fn may_be_another(&self, tree: &Tree, row: &Agent) -> bool {
        let has_only_call = |row: &Agent| row.spawned_by.as_ref().is_some_and(|call| call.0 == row.id.0);
        let has_only_id = |row: &Agent| {
            let is_linked = row.spawned_by.is_some() || row.name.is_some() || row.prompt.is_some();
            !row.id.is_root() && !is_linked && row.tool_calls == 0 && row.usage.is_none()
        };
        let fits = |other: &Agent| {
            let types = row.agent_type.as_ref().zip(other.agent_type.as_ref());
            types.is_none_or(|(own, other)| own == other)
        };
        tree.agents.iter().filter(|other| other.status == AgentStatus::Running && fits(other)).any(|other| {
            has_only_id(row) && has_only_call(other)
                || has_only_call(row) && has_only_id(other) && self.agents.contains_key(&other.id)
        })
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

    /// Returns the events for the differences between a tree and the published state, and updates the state. `unread`
    /// are the lines of problems; with `is_holding`, events of lines are still held back, which precede the end of a run.
    pub(crate) fn advance(
        &mut self,
        derived: &Derived<'_>,
        now: &Now<'_>,
        unread: &UnreadLines,
        is_holding: bool,
    ) -> Vec<Event> {
        let tree = &derived.tree;
        let mut events = Vec::new();
        // A hook's own event reports it, and why.
        if !self.has_started && !derived.attribution.reports_opening() {
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
        // An agent that another session has started is announced there.
        let is_started_here = |row: &&Agent| row.status != AgentStatus::Pending && !row.has(Flag::Copied);
        let rows = tree.agents.iter().filter(is_started_here);
        for delayed in [&mut self.delayed_starts, &mut self.delayed_ends] {
            delayed.retain(|agent, _| rows.clone().any(|row| row.id == *agent));
        }
        for row in rows {
            if self.delays_start(tree, row, now) {
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
            let data = json!({ "at": problem.at, "what": problem.what, "line": unread.get(problem) });
            let key = format!("problem/{}/{}", problem.at, problem.what);
            events.push(make_event(tree, None, EventKind::Problem, AgentId::from(AgentId::ROOT), &key, data));
        }
        self.advance_runs(derived, now, is_holding, &mut events);
        events
    }

    /// Publishes each run's start and end. A run ends where the next begins; the last one, once neither the root nor a
    /// subagent is at work.
    fn advance_runs(
        &mut self,
        derived: &Derived<'_>,
        now: &Now<'_>,
        is_holding: bool,
        events: &mut Vec<Event>,
    ) {
        let Derived { tree, attribution } = derived;
        let Some(root) = tree.agents.first() else { return };
        let runs = attribution.runs();
        let at_rest_since = self.at_rest_since.take();
        for run in runs {
            let number = run.number;
            if number > self.started_runs {
                self.started_runs = number;
                let data = json!({ "run": number, "name": format!("{}:R{number}", tree.session.id) });
                let key = format!("run/{number}/start");
                let id = AgentId::from(AgentId::ROOT);
                let event = make_event(tree, run.started_at, EventKind::RunStart, id, &key, data);
                events.push(Event { run: number, ..event });
            }
            let is_last = number as usize == runs.len();
            let (status, time) = match run.ending {
                _ if is_last => (root.status, root.ended_at_ms),
                Some(ending) => (ending.status, ending.time),
                None => (AgentStatus::Lost, None),
            };
            let is_lost = status == AgentStatus::Lost;
            let is_due = self.ended_runs.get(&number).is_none_or(|was_lost| *was_lost != is_lost);
            if is_due && (!is_last || self.is_at_rest(at_rest_since, tree, now, is_holding)) {
                self.ended_runs.insert(number, is_lost);
                let error = root.error.as_ref().filter(|_| is_last);
                let data = json!({ "run": number, "status": status, "text": error });
                // A key of its own, because the real end may still follow.
                let word = if is_lost { "lost" } else { "end" };
                let key = format!("run/{number}/{word}");
                let event = make_event(tree, time, EventKind::RunEnd, root.id.clone(), &key, data);
                events.push(Event { run: number, ..event });
            }
        }
    }

    /// Whether neither the root nor a subagent is at work, nor likely to be in a moment: the end of a subagent in the
    /// background wakes the root. `since`: since when no agent is at work.
    fn is_at_rest(&mut self, since: Option<Millis>, tree: &Tree, now: &Now<'_>, is_holding: bool) -> bool {
        if tree.agents.iter().any(|row| row.status.is_live()) {
            return false;
        }
        let since = since.unwrap_or(now.at);
        let is_waiting = now.at < since + END_DELAY_MS || !self.delayed_ends.is_empty() || is_holding;
        self.at_rest_since = Some(since).filter(|_| now.is_growing && is_waiting);
        self.at_rest_since.is_none()
    }

    /// Publishes the rename of an agent that was published under its spawn call's id: also where a source that names
    /// no call has published it under its own id meanwhile.
    fn rename(&mut self, tree: &Tree, row: &Agent, events: &mut Vec<Event>) {
        let Some(call) = row.spawned_by.as_ref() else { return };
        let from = AgentId(call.0.clone());
        if from == row.id {
            return;
        }
        let Some(published) = self.agents.remove(&from) else { return };
        self.agents.entry(row.id.clone()).or_insert(published);
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
        let (started, ended) = known.as_ref().map_or((0, 0), |known| (known.intervals, known.ends));
        let was_lost = known.as_ref().is_some_and(|known| known.is_lost && known.intervals == intervals);
        let is_lost = row.status == AgentStatus::Lost;
        // If the limits for stalled and lost are equal, both events are published.
        let is_silent = row.evidence.as_deref().is_some_and(|why| why.starts_with("silent"));
        if let Some(wait) = known.as_ref().and_then(|known| known.wait.as_ref())
            && is_lost
            && is_silent
        {
            events.push(stall_event(tree, row, wait, now.at));
        }
        if !row.id.is_root() {
            for interval in 0..intervals {
                if interval >= started {
                    events.push(start_event(tree, row, interval));
                }
                if interval >= ended && interval + 1 < intervals {
                    events.push(stop_event(tree, row, interval, AgentStatus::Completed));
                }
            }
            // `lost` was only inferred: the real end is published as well. An agent may also be lost after an end, if no
            // time says that it was resumed.
            let is_published = if is_lost { was_lost } else { ended == intervals };
            if !is_live && !is_published {
                events.push(stop_event(tree, row, intervals - 1, row.status));
            }
        }
        let has_ended = !is_live && !is_lost;
        let published = PublishedAgent {
            status: if is_delayed { AgentStatus::Running } else { row.status },
            intervals,
            ends: ended.max(if has_ended { intervals } else { intervals - 1 }),
            is_lost: is_lost || (was_lost && is_live),
            wait: AgentWait::of(row).filter(|_| is_live),
        };
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
        schema: EventSchema,
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

/// Adds properties of the session to the data of its start.
pub(crate) fn add_session_data(tree: &Tree, data: &mut Value) {
    data["harness"] = json!(tree.session.harness);
    data["version"] = json!(tree.session.harness_version);
    data["cwd"] = json!(tree.session.cwd);
    data["model"] = json!(tree.agents.first().and_then(|root| root.model.as_ref()));
}

fn session_start_event(tree: &Tree) -> Event {
    let mut data = json!({});
    add_session_data(tree, &mut data);
    make_event(
        tree,
        tree.session.started_at_ms,
        EventKind::SessionStart,
        AgentId::from(AgentId::ROOT),
        "session/start",
        data,
    )
}

/// Returns what began an interval: the spawn call for the first, agent id and number for others.
fn trigger_of(row: &Agent, interval: usize) -> String {
    match (&row.spawned_by, interval) {
        (Some(call), 0) => call.to_string(),
        _ => format!("{}#{}", row.id, interval + 1),
    }
}

fn start_event(tree: &Tree, row: &Agent, interval: usize) -> Event {
    let at = started_at(tree, row, interval);
    let trigger = trigger_of(row, interval);
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
        &format!("agent/{}/start/{}", row.id, interval + 1),
        data,
    )
}

/// Returns when an interval of an agent began; without a time of its own, when its call did.
pub(crate) fn started_at(tree: &Tree, row: &Agent, interval: usize) -> Option<Millis> {
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
    let trigger = trigger_of(row, interval);
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
        &format!("agent/{}/{word}/{}", row.id, interval + 1),
        data,
    )
}

/// Makes the event that an agent is stalled. Its key contains the begin of the silence, so it is published once per
/// silence.
fn stall_event(tree: &Tree, row: &Agent, wait: &AgentWait, at: Millis) -> Event {
    let data = json!({
        "agent_id": row.id, "agent_type": row.agent_type, "name": row.name, "description": row.description,
        "waiting_for": wait.target, "since_ms": wait.since,
    });
    let key = format!("stall/{}/{}", row.id, wait.since);
    make_event(tree, Some(at), EventKind::Stall, row.id.clone(), &key, data)
}
