//! Running subagents known to a live feed, for its heartbeats.

use std::collections::BTreeMap;

use subscope_hub::{clock, heartbeat};
use subscope_model::{Agent, AgentId, Event, SessionId, Update};

/// Rows of running subagents; sessions without one are not stored.
#[derive(Default)]
pub(crate) struct ActiveAgents {
    sessions: BTreeMap<SessionId, BTreeMap<AgentId, Agent>>,
    /// Heartbeats so far.
    beats: u64,
}

impl ActiveAgents {
    pub(crate) fn apply(&mut self, update: &Update) {
        match update {
            Update::Snapshot(tree) => self.replace(&tree.session.id, &tree.agents),
            Update::Change(change) => self.update(&change.session().id, &change.agents, &change.removed),
            Update::Event(_) | Update::Missed(_) | Update::Reset | Update::CaughtUp => {}
        }
    }

    /// Replaces a session's rows.
    pub(crate) fn replace(&mut self, session: &SessionId, rows: &[Agent]) {
        self.sessions.remove(session);
        self.update(session, rows, &[]);
    }

    fn update(&mut self, session: &SessionId, rows: &[Agent], removed: &[AgentId]) {
        let active = self.sessions.entry(session.clone()).or_default();
        for row in rows {
            if !row.id.is_root() && row.status.is_live() {
                active.insert(row.id.clone(), heartbeat_row(row));
            } else {
                active.remove(&row.id);
            }
        }
        removed.iter().for_each(|id| drop(active.remove(id)));
        if active.is_empty() {
            self.sessions.remove(session);
        }
    }

    /// Returns a heartbeat for each session with active subagents, its rows ordered by id.
    pub(crate) fn heartbeats(&mut self) -> Vec<Event> {
        let now = clock::now_ms();
        self.beats += 1;
        let beat = |(session, rows): (&SessionId, &BTreeMap<AgentId, Agent>)| {
            heartbeat(session, &rows.values().collect::<Vec<_>>(), now, self.beats)
        };
        self.sessions.iter().map(beat).collect()
    }
}

/// Returns a row with only the fields of a heartbeat, to save memory.
fn heartbeat_row(row: &Agent) -> Agent {
    Agent {
        agent_type: row.agent_type.clone(),
        name: row.name.clone(),
        description: row.description.clone(),
        liveness: row.liveness.clone(),
        flags: row.flags.clone(),
        started_at_ms: row.started_at_ms,
        last_event_at_ms: row.last_event_at_ms,
        rev: row.rev,
        ..Agent::unknown(row.id.clone(), row.depth, row.status)
    }
}
