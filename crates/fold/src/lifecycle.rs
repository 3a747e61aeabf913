//! Starts and ends of sessions, runs and agents, read off rows: each comes once, whatever sources repeat.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use subscope_model::{
    Actor, Agent, AgentId, AgentStatus, Basis, Event, EventKind, Flag, LivenessKind, Millis, Text, Tree,
    event_id,
};
use subscope_track::Now;

/// How long an ending waits for the agent's own last line while sources grow. Harnesses write the files of several
/// agents in no order: a report often stands in the parent's transcript before the agent's last words and figures do.
const SETTLE_MS: Millis = 300;

/// What was last shown of a session's rows.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    agents: BTreeMap<AgentId, ShownAgent>,
    /// Agents whose ending waits for their last line, and since when.
    settling: BTreeMap<AgentId, Millis>,
    has_started: bool,
    problems: usize,
}

#[derive(Clone, Debug)]
struct ShownAgent {
    status: AgentStatus,
    /// How many of its stretches were shown as started.
    stretches: usize,
    /// What it waited for, while it ran.
    wait: Option<Wait>,
}

/// What an agent waits for, and since when it is silent. Of one that waits for its own subagents nothing is told: each of
/// them is watched itself.
#[derive(Clone, Debug)]
struct Wait {
    what: String,
    since: Millis,
}

impl Wait {
    fn of(row: &Agent) -> Option<Self> {
        let named = |word: &str, name: &Option<Text>| match name {
            Some(name) => format!("{word} {name}"),
            None => word.to_owned(),
        };
        let doing = row.liveness.as_ref();
        let what = match doing.map(|doing| (doing.kind, &doing.name)) {
            None if row.status == AgentStatus::Pending => "its start".to_owned(),
            None | Some((LivenessKind::Children | LivenessKind::Idle, _)) => return None,
            Some((LivenessKind::Model, _)) => "the model".to_owned(),
            Some((LivenessKind::Tool, name)) => named("tool", name),
            Some((LivenessKind::Permission, name)) => named("permission", name),
            Some((LivenessKind::Retry, Some(error))) => format!("retry: {error}"),
            Some((LivenessKind::Retry, None)) => "a retry".to_owned(),
        };
        let since = row.last_event_at_ms.max(doing.and_then(|doing| doing.since_ms))?;
        Some(Self { what, since })
    }
}

impl Shown {
    /// Returns when an ending has waited long enough.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        self.settling.values().min().map(|since| since + SETTLE_MS)
    }

    /// Whether an agent's ending waits for its own last line, which may still come.
    fn settles(&mut self, row: &Agent, now: &Now<'_>) -> bool {
        let is_whole = row.evidence.as_deref() == Some("last line") || row.status == AgentStatus::Lost;
        if row.status.is_live() || is_whole || !now.is_growing || row.id.is_root() {
            self.settling.remove(&row.id);
            return false;
        }
        if self.agents.get(&row.id).is_none_or(|shown| shown.status.is_live()) {
            let since = *self.settling.entry(row.id.clone()).or_insert(now.at);
            if now.at < since + SETTLE_MS {
                return true;
            }
        }
        self.settling.remove(&row.id);
        false
    }

    /// Returns the events by which a tree differs from what was last shown, in order.
    pub(crate) fn advance(&mut self, tree: &Tree, now: &Now<'_>) -> Vec<Event> {
        let mut events = Vec::new();
        if !self.has_started {
            self.has_started = true;
            events.push(session_start(tree));
        }
        events.extend(
            tree.agents
                .iter()
                .filter(|row| row.has(Flag::Stalled))
                .filter_map(|row| Some(stall(tree, row, &Wait::of(row)?, now.at))),
        );
        // An agent that is only asked for may still be refused: it starts when it is seen at work.
        for row in tree.agents.iter().filter(|row| row.status != AgentStatus::Pending) {
            // What stands beside a transcript may be there before its first line, which has the time.
            let is_known = self.agents.contains_key(&row.id) || row.id.is_root();
            if now.is_growing && row.status.is_live() && !is_known && started_at(tree, row, 0).is_none() {
                continue;
            }
            self.rename(tree, row, &mut events);
            let settles = self.settles(row, now);
            self.advance_agent(tree, row, settles, now, &mut events);
        }
        for problem in tree.problems.iter().skip(self.problems) {
            let data = json!({ "at": problem.at, "what": problem.what });
            let key = format!("problem/{}/{}", problem.at, problem.what);
            events.push(event(tree, None, EventKind::Problem, AgentId::from(AgentId::ROOT), &key, data));
        }
        self.problems = tree.problems.len().max(self.problems);
        events.sort_by_key(|event| event.at_ms);
        events
    }

    /// Tells when an agent that was shown under its spawn call's id got its real one.
    fn rename(&mut self, tree: &Tree, row: &Agent, events: &mut Vec<Event>) {
        let Some(call) = row.spawned_by.as_ref().filter(|_| !self.agents.contains_key(&row.id)) else {
            return;
        };
        let from = AgentId(call.0.clone());
        let Some(shown) = self.agents.remove(&from) else { return };
        self.agents.insert(row.id.clone(), shown);
        let data = json!({ "from": from, "to": row.id });
        let key = format!("agent/{}/renamed/{from}", row.id);
        events.push(event(tree, None, EventKind::AgentRenamed, row.id.clone(), &key, data));
    }

    fn advance_agent(
        &mut self,
        tree: &Tree,
        row: &Agent,
        settles: bool,
        now: &Now<'_>,
        events: &mut Vec<Event>,
    ) {
        let is_live = row.status.is_live() || settles;
        let stretches = row.intervals.len().max(1);
        let known = self.agents.get(&row.id).cloned();
        let shown = known.as_ref().map_or(0, |known| known.stretches);
        // Where the limit of a stall is also the one of its loss, both are told.
        let is_silent = row.evidence.as_deref().is_some_and(|why| why.starts_with("silent"));
        if let Some(wait) = known.as_ref().and_then(|known| known.wait.as_ref())
            && row.status == AgentStatus::Lost
            && is_silent
        {
            events.push(stall(tree, row, wait, now.at));
        }
        if !row.id.is_root() {
            for stretch in shown..stretches {
                events.push(start(tree, row, stretch));
                if stretch + 1 < stretches {
                    events.push(stop(tree, row, stretch, AgentStatus::Completed));
                }
            }
            // That nothing more would come of it was a conclusion only: its real ending is told all the same.
            let was_lost = known.as_ref().is_some_and(|known| known.status == AgentStatus::Lost);
            let is_found = was_lost && row.status != AgentStatus::Lost;
            if !is_live
                && (is_found
                    || known.as_ref().is_none_or(|known| known.status.is_live() || shown < stretches))
            {
                events.push(stop(tree, row, stretches - 1, row.status));
            }
        } else if !is_live
            && tree.session.runs > 0
            && known.as_ref().is_none_or(|known| known.status.is_live())
        {
            let data = json!({ "status": row.status, "text": row.error });
            let key = format!("run/{}/end/{}", tree.session.runs, row.ended_at_ms.unwrap_or(0));
            events.push(event(tree, row.ended_at_ms, EventKind::RunEnd, row.id.clone(), &key, data));
        }
        let status = if settles { AgentStatus::Running } else { row.status };
        let shown = ShownAgent { status, stretches, wait: Wait::of(row).filter(|_| is_live) };
        self.agents.insert(row.id.clone(), shown);
    }
}

fn event(
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

fn session_start(tree: &Tree) -> Event {
    let data = json!({
        "harness": tree.session.harness, "version": tree.session.harness_version, "cwd": tree.session.cwd,
        "model": tree.agents.first().and_then(|root| root.model.clone()),
    });
    event(
        tree,
        tree.session.started_at_ms,
        EventKind::SessionStart,
        AgentId::from(AgentId::ROOT),
        "session/start",
        data,
    )
}

/// The trigger of a stretch, as far as rows tell: the spawn call of the first, the place in order of others.
fn trigger(row: &Agent, stretch: usize) -> String {
    match (&row.spawned_by, stretch) {
        (Some(call), 0) => call.to_string(),
        _ => format!("{}#{}", row.id, stretch + 1),
    }
}

fn start(tree: &Tree, row: &Agent, stretch: usize) -> Event {
    let at = started_at(tree, row, stretch);
    let trigger = trigger(row, stretch);
    let data = json!({
        "agent_id": row.id, "agent_type": row.agent_type, "name": row.name, "description": row.description,
        "prompt": row.prompt, "parent_id": row.parent_id, "spawned_by": row.spawned_by, "trigger": trigger,
        "background": row.background, "model": row.model, "depth": row.depth,
    });
    event(
        tree,
        at,
        EventKind::SubagentStart,
        row.id.clone(),
        &format!("agent/{}/start/{trigger}", row.id),
        data,
    )
}

fn started_at(tree: &Tree, row: &Agent, stretch: usize) -> Option<Millis> {
    let own = row.intervals.get(stretch).map(|stretch| stretch[0]).or(row.started_at_ms);
    own.or_else(|| asked_at(tree, row))
}

/// When the call was made that started an agent: what is known of its start before its first line is written.
fn asked_at(tree: &Tree, row: &Agent) -> Option<Millis> {
    let call = row.spawned_by.as_ref()?;
    let parent = tree.agents.iter().find(|parent| Some(&parent.id) == row.parent_id.as_ref())?;
    parent.tools.iter().find(|tool| tool.id.as_ref() == Some(call))?.started_at_ms
}

fn stop(tree: &Tree, row: &Agent, stretch: usize, status: AgentStatus) -> Event {
    let at = row.intervals.get(stretch).map(|stretch| stretch[1]).or(row.ended_at_ms);
    let is_last = stretch + 1 >= row.intervals.len();
    let trigger = trigger(row, stretch);
    let duration = row.intervals.get(stretch).map(|stretch| stretch[1] - stretch[0]);
    let data = json!({
        "agent_id": row.id, "status": status, "result": row.result.as_ref().filter(|_| is_last),
        "error": row.error.as_ref().filter(|_| is_last), "evidence": row.evidence.as_ref().filter(|_| is_last),
        "duration_ms": duration, "trigger": trigger, "tool_calls": row.tool_calls,
        "total_tokens": row.usage.map(|usage| usage.total_tokens), "floor": row.usage.map(|usage| usage.floor),
        "cost_micro_usd": row.cost_micro_usd,
    });
    // Its real ending may still come, as another event.
    let word = if status == AgentStatus::Lost { "lost" } else { "end" };
    event(
        tree,
        at,
        EventKind::SubagentStop,
        row.id.clone(),
        &format!("agent/{}/{word}/{trigger}", row.id),
        data,
    )
}

/// That an agent is silent for longer than its limit: told once for one silence, whoever finds it.
fn stall(tree: &Tree, row: &Agent, wait: &Wait, at: Millis) -> Event {
    let data = json!({ "agent_id": row.id, "waiting_for": wait.what, "since_ms": wait.since });
    let key = format!("stall/{}/{}", row.id, wait.since);
    event(tree, Some(at), EventKind::Stall, row.id.clone(), &key, data)
}
