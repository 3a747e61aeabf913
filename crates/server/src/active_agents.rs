//! Running subagents known to a live feed, for its heartbeats.

use subscope_hub::{clock, heartbeat};
use subscope_model::{Agent, Change, Event, LiveView, Session, Summary, TREE_SCHEMA, Tree, Update};

/// Rows of running subagents; sessions without one are not stored.
#[derive(Default)]
pub(crate) struct ActiveAgents {
    view: LiveView,
    /// Heartbeats so far.
    beats: u64,
}

impl ActiveAgents {
    pub(crate) fn apply(&mut self, update: &Update) {
        match update {
            Update::Snapshot(tree) => self.insert(&tree.session, &tree.agents),
            Update::Change(change) if self.view.get(&change.session().id).is_none() => {
                self.insert(change.session(), &change.agents);
            }
            Update::Change(change) => {
                let session = change.session();
                let ended = change.agents.iter().filter(|row| !is_active(row)).map(|row| row.id.clone());
                self.view.apply(Update::change(Change {
                    schema: change.schema.clone(),
                    seq: change.seq,
                    sessions: [session.clone()],
                    agents: heartbeat_rows(&change.agents),
                    removed: change.removed.iter().cloned().chain(ended).collect(),
                    places: Vec::new(),
                    summary: None,
                }));
                if self.view.get(&session.id).is_some_and(|tree| tree.agents.is_empty()) {
                    self.view.remove(&session.id);
                }
            }
            Update::Event(_) | Update::Missed(_) | Update::Reset | Update::CaughtUp => {}
        }
    }

    /// Replaces a session's rows.
    pub(crate) fn insert(&mut self, session: &Session, agents: &[Agent]) {
        let agents = heartbeat_rows(agents);
        if agents.is_empty() {
            self.view.remove(&session.id);
        } else {
            self.view.apply(Update::snapshot(Tree {
                schema: TREE_SCHEMA.into(),
                session: session.clone(),
                agents,
                summary: Summary::default(),
                problems: Vec::new(),
            }));
        }
    }

    /// Returns a heartbeat for each session with active subagents, its rows ordered by id.
    pub(crate) fn heartbeats(&mut self) -> Vec<Event> {
        let now = clock::now_ms();
        self.beats += 1;
        let beat = |tree: &Tree| {
            let mut rows: Vec<&Agent> = tree.agents.iter().collect();
            rows.sort_unstable_by_key(|row| &row.id);
            heartbeat(&tree.session.id, &rows, now, self.beats)
        };
        self.view.trees().map(beat).collect()
    }
}

fn is_active(row: &Agent) -> bool {
    !row.id.is_root() && row.status.is_live()
}

/// Returns the active rows with only the fields of a heartbeat, to save memory.
fn heartbeat_rows(rows: &[Agent]) -> Vec<Agent> {
    let heartbeat_row = |row: &Agent| Agent {
        agent_type: row.agent_type.clone(),
        description: row.description.clone(),
        liveness: row.liveness.clone(),
        flags: row.flags.clone(),
        started_at_ms: row.started_at_ms,
        last_event_at_ms: row.last_event_at_ms,
        rev: row.rev,
        ..Agent::unknown(row.id.clone(), row.depth, row.status)
    };
    rows.iter().filter(|row| is_active(row)).map(heartbeat_row).collect()
}
