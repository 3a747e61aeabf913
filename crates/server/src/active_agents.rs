//! The running subagents as a live feed has heard of them, for its heartbeats.

use std::collections::BTreeMap;

use subscope_hub::{clock, heartbeat};
use subscope_model::{Agent, AgentId, Change, Event, SessionId, Tree, Update};

/// Running subagents by session. Holds no row of an agent that has ended.
#[derive(Default)]
pub(crate) struct ActiveAgents {
    sessions: BTreeMap<SessionId, BTreeMap<AgentId, Agent>>,
    beats: u64,
}

impl ActiveAgents {
    pub(crate) fn take(&mut self, update: &Update) {
        match update {
            Update::Snapshot(tree) => self.take_tree(tree),
            Update::Change(change) => {
                let Change { session, agents, removed } = &**change;
                let rows = self.sessions.entry(session.id.clone()).or_default();
                rows.retain(|id, _| !removed.contains(id));
                for row in agents {
                    if is_active(row) {
                        rows.insert(row.id.clone(), bare(row));
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

    pub(crate) fn take_tree(&mut self, tree: &Tree) {
        let rows: BTreeMap<AgentId, Agent> =
            tree.agents.iter().filter(|row| is_active(row)).map(|row| (row.id.clone(), bare(row))).collect();
        if rows.is_empty() {
            self.sessions.remove(&tree.session.id);
        } else {
            self.sessions.insert(tree.session.id.clone(), rows);
        }
    }

    /// Returns a heartbeat for each session with active subagents.
    pub(crate) fn beat(&mut self) -> Vec<Event> {
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

/// A row without what a heartbeat does not tell and what can be long.
fn bare(row: &Agent) -> Agent {
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
