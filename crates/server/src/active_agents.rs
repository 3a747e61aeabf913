//! Running subagents known to a live feed, for its heartbeats.

use std::collections::BTreeMap;

use subscope_hub::{clock, heartbeat};
use subscope_model::{Agent, AgentId, Change, Event, SessionId, Tree, Update};

/// Rows of running subagents by session.
#[derive(Default)]
pub(crate) struct ActiveAgents {
    sessions: BTreeMap<SessionId, BTreeMap<AgentId, Agent>>,
    /// Heartbeats so far.
    beats: u64,
}

impl ActiveAgents {
    pub(crate) fn apply(&mut self, update: &Update) {
        match update {
            Update::Snapshot(tree) => self.apply_tree(tree),
            Update::Change(change) => {
                let Change { session, agents, removed } = &**change;
                let rows = self.sessions.entry(session.id.clone()).or_default();
                rows.retain(|id, _| !removed.contains(id));
                for row in agents {
                    if is_active(row) {
                        rows.insert(row.id.clone(), heartbeat_row(row));
                    } else {
                        rows.remove(&row.id);
                    }
                }
                if rows.is_empty() {
                    self.sessions.remove(&session.id);
                }
            }
            Update::Event(_) | Update::Missed(_) | Update::CaughtUp => {}
        }
    }

    pub(crate) fn apply_tree(&mut self, tree: &Tree) {
        let rows: BTreeMap<AgentId, Agent> = tree
            .agents
            .iter()
            .filter(|row| is_active(row))
            .map(|row| (row.id.clone(), heartbeat_row(row)))
            .collect();
        if rows.is_empty() {
            self.sessions.remove(&tree.session.id);
        } else {
            self.sessions.insert(tree.session.id.clone(), rows);
        }
    }

    /// Returns a heartbeat for each session with active subagents.
    pub(crate) fn heartbeats(&mut self) -> Vec<Event> {
        let now = clock::now_ms();
        self.beats += 1;
        let beat = |(session, rows): (&SessionId, &BTreeMap<AgentId, Agent>)| {
            heartbeat(session, &rows.values().collect::<Vec<_>>(), now, self.beats)
        };
        self.sessions.iter().map(beat).collect()
    }
}

fn is_active(row: &Agent) -> bool {
    !row.id.is_root() && row.status.is_live()
}

/// Returns a row with only the fields of a heartbeat, to save memory.
fn heartbeat_row(row: &Agent) -> Agent {
    let unknown = Agent::unknown(row.id.clone(), row.depth, row.status);
    Agent {
        agent_type: row.agent_type.clone(),
        description: row.description.clone(),
        liveness: row.liveness.clone(),
        flags: row.flags.clone(),
        started_at_ms: row.started_at_ms,
        last_event_at_ms: row.last_event_at_ms,
        ..unknown
    }
}
