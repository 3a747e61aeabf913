//! Detects losses in the rows of a live feed: a known field that became null, a count that fell, an agent that
//! disappeared.

use std::collections::{BTreeMap, BTreeSet};

use subscope_model::{Agent, AgentId, Session, SessionId, ToolUseId, Update};

/// Follows a feed and notes each loss. Momentary state (status, ending, liveness, flags, result and error of the last
/// interval) may change; a call that moves to another agent of the session is a correction.
#[derive(Debug, Default)]
pub struct Losses {
    sessions: BTreeMap<SessionId, Known>,
    /// Each loss, for messages.
    pub found: Vec<String>,
    /// How many rows were compared with the same row before.
    pub compared: u64,
}

/// The last rows of a session.
#[derive(Debug, Default)]
struct Known {
    session: Option<Session>,
    agents: BTreeMap<AgentId, Agent>,
}

impl Losses {
    /// Returns how many sessions were followed.
    pub fn followed(&self) -> usize {
        self.sessions.len()
    }

    /// Takes the next update.
    pub fn take(&mut self, update: &Update) {
        match update {
            Update::Snapshot(tree) => {
                let all: BTreeSet<&AgentId> = tree.agents.iter().map(|row| &row.id).collect();
                let known = self.sessions.get(&tree.session.id);
                let gone = known.into_iter().flat_map(|known| known.agents.keys());
                let gone: Vec<AgentId> = gone.filter(|id| !all.contains(id)).cloned().collect();
                self.rows(&tree.session, &tree.agents, &gone);
            }
            Update::Change(change) => self.rows(change.session(), &change.agents, &change.removed),
            Update::Event(_) | Update::CaughtUp | Update::Missed(_) | Update::Reset => {}
        }
    }

    fn rows(&mut self, session: &Session, agents: &[Agent], gone: &[AgentId]) {
        let Self { sessions, found, compared } = self;
        let known = sessions.entry(session.id.clone()).or_default();
        if let Some(before) = known.session.replace(session.clone()) {
            let mut lost = Vec::new();
            null(&mut lost, "harness", &before.harness, &session.harness);
            null(&mut lost, "harness_version", &before.harness_version, &session.harness_version);
            null(&mut lost, "cwd", &before.cwd, &session.cwd);
            null(&mut lost, "project", &before.project, &session.project);
            null(&mut lost, "title", &before.title, &session.title);
            null(&mut lost, "started_at_ms", &before.started_at_ms, &session.started_at_ms);
            fell(&mut lost, "rev", before.rev.unwrap_or(0), session.rev.unwrap_or(0));
            fell(&mut lost, "runs", before.runs.into(), session.runs.into());
            found.extend(lost.into_iter().map(|lost| format!("{}: {lost}", session.id)));
        }
        let mut before = Vec::new();
        for id in gone {
            // An agent known by its call only is renamed once its own id is known.
            let Some(row) = known.agents.remove(id) else { continue };
            if row.spawned_by.as_ref().is_none_or(|call| call.as_str() != id.as_str()) {
                found.push(format!("{}/{id}: is no more", session.id));
            }
        }
        for row in agents {
            if let Some(row) = known.agents.insert(row.id.clone(), row.clone()) {
                before.push(row);
            }
        }
        for before in before {
            *compared += 1;
            let Some(after) = known.agents.get(&before.id) else { continue };
            let lost = of_agent(&before, after, &known.agents);
            found.extend(lost.into_iter().map(|lost| format!("{}/{}: {lost}", session.id, after.id)));
        }
    }
}

fn of_agent(before: &Agent, after: &Agent, all: &BTreeMap<AgentId, Agent>) -> Vec<String> {
    let mut lost = Vec::new();
    null(&mut lost, "parent_id", &before.parent_id, &after.parent_id);
    null(&mut lost, "spawned_by", &before.spawned_by, &after.spawned_by);
    null(&mut lost, "type", &before.agent_type, &after.agent_type);
    null(&mut lost, "name", &before.name, &after.name);
    null(&mut lost, "description", &before.description, &after.description);
    null(&mut lost, "model", &before.model, &after.model);
    null(&mut lost, "started_at_ms", &before.started_at_ms, &after.started_at_ms);
    null(&mut lost, "last_event_at_ms", &before.last_event_at_ms, &after.last_event_at_ms);
    null(&mut lost, "usage", &before.usage, &after.usage);
    null(&mut lost, "cost_micro_usd", &before.cost_micro_usd, &after.cost_micro_usd);
    null(&mut lost, "prompt", &before.prompt, &after.prompt);
    fell(&mut lost, "rev", before.rev.unwrap_or(0), after.rev.unwrap_or(0));
    fell(&mut lost, "messages", before.messages.into(), after.messages.into());
    let tokens = |row: &Agent| row.usage.map_or(0, |usage| usage.total_tokens);
    fell(&mut lost, "total_tokens", tokens(before), tokens(after));
    let calls = |row: &Agent| -> BTreeSet<ToolUseId> {
        row.tools.iter().filter_map(|call| call.id.clone()).collect()
    };
    let elsewhere: BTreeSet<ToolUseId> = all.values().flat_map(calls).collect();
    let missing = calls(before).difference(&elsewhere).count();
    if missing > 0 {
        lost.push(format!("{missing} of {} calls are no more", before.tool_calls));
    }
    lost
}

fn null<T: std::fmt::Debug>(lost: &mut Vec<String>, name: &str, before: &Option<T>, after: &Option<T>) {
    if let (Some(before), None) = (before, after) {
        lost.push(format!("{name} was {before:?} and is null"));
    }
}

fn fell(lost: &mut Vec<String>, name: &str, before: u64, after: u64) {
    if after < before {
        lost.push(format!("{name} fell from {before} to {after}"));
    }
}
