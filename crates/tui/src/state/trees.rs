//! Agent trees of sessions: subscribed ones, which the feed keeps up to date, and queried ones.

use std::collections::HashMap;

use subscope_model::{Agent, Change, Flag, SessionId, Tree};

/// Most queried trees cached; the oldest reply is evicted first.
const MAX_QUERIED: usize = 12;

/// Agent trees by session.
#[derive(Debug, Default)]
pub struct Trees {
    all: HashMap<SessionId, CachedTree>,
    /// Counter of insertions.
    inserted: u64,
}

#[derive(Debug)]
struct CachedTree {
    tree: Tree,
    /// Whether the feed keeps it up to date.
    is_subscribed: bool,
    inserted_at: u64,
}

impl Trees {
    /// A session's tree.
    pub fn get(&self, session: &SessionId) -> Option<&Tree> {
        self.all.get(session).map(|cached| &cached.tree)
    }

    /// Subscribed trees, in no order.
    pub fn subscribed(&self) -> impl Iterator<Item = &Tree> {
        self.all.values().filter(|cached| cached.is_subscribed).map(|cached| &cached.tree)
    }

    /// Whether the feed keeps a session up to date.
    pub fn is_subscribed(&self, session: &SessionId) -> bool {
        self.all.get(session).is_some_and(|cached| cached.is_subscribed)
    }

    /// Inserts a snapshot from the feed.
    pub fn insert_subscribed(&mut self, tree: Tree) {
        self.insert(tree, true);
    }

    /// Inserts a query's reply; ignored for subscribed sessions, whose tree is newer.
    pub fn insert_queried(&mut self, tree: Tree) {
        if self.is_subscribed(&tree.session.id) {
            return;
        }
        self.insert(tree, false);
        let queried = || self.all.iter().filter(|(_, cached)| !cached.is_subscribed);
        if queried().count() > MAX_QUERIED
            && let Some(oldest) =
                queried().min_by_key(|(_, cached)| cached.inserted_at).map(|(id, _)| id.clone())
        {
            self.all.remove(&oldest);
        }
    }

    fn insert(&mut self, tree: Tree, is_subscribed: bool) {
        self.inserted += 1;
        let cached = CachedTree { is_subscribed, inserted_at: self.inserted, tree };
        self.all.insert(cached.tree.session.id.clone(), cached);
    }

    /// Applies changed rows. Order and totals follow with the feed's next snapshot; until then a new agent is the last of its
    /// siblings. Ignored for unknown sessions: a snapshot will follow.
    pub fn apply_change(&mut self, change: Change) {
        let Some(cached) = self.all.get_mut(&change.session.id) else { return };
        let tree = &mut cached.tree;
        tree.session = change.session;
        tree.agents.retain(|agent| !change.removed.contains(&agent.id));
        for agent in change.agents {
            match tree.agents.iter_mut().find(|known| known.id == agent.id) {
                Some(known) => *known = agent,
                None => {
                    let place = insert_position(&tree.agents, &agent);
                    tree.agents.insert(place, agent);
                }
            }
        }
    }

    /// Counts live sessions and agents over all subscribed trees.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for tree in self.subscribed() {
            let live = || tree.agents.iter().filter(|agent| agent.is_at_work());
            counts.live += usize::from(live().next().is_some());
            counts.running += live().filter(|agent| !agent.id.is_root()).count();
            counts.stalled += live().filter(|agent| agent.has(Flag::Stalled)).count();
            counts.waiting += live().filter(|agent| waits_for_permission(agent)).count();
            if live().next().is_some() {
                counts.cost_micro_usd += tree.summary.cost_micro_usd.unwrap_or(0);
                counts.cost_floor |= tree.summary.cost_floor || tree.summary.cost_micro_usd.is_none();
            }
        }
        counts
    }
}

/// Totals over all subscribed sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sessions with a live agent.
    pub live: usize,
    /// Live subagents.
    pub running: usize,
    /// Live agents that are stalled.
    pub stalled: usize,
    /// Live agents that wait for a permission.
    pub waiting: usize,
    /// Cost of live sessions, as far as prices are known.
    pub cost_micro_usd: i64,
    /// Whether the cost is a lower bound.
    pub cost_floor: bool,
}

/// Whether a live agent waits for a permission.
pub fn waits_for_permission(agent: &Agent) -> bool {
    let kind = agent.liveness.as_ref().map(|live| live.kind);
    agent.is_at_work() && kind == Some(subscope_model::LivenessKind::Permission)
}

fn insert_position(agents: &[Agent], new: &Agent) -> usize {
    let parent = new.parent_id.as_ref().and_then(|id| agents.iter().position(|agent| agent.id == *id));
    let Some(parent) = parent else { return agents.len() };
    let depth = agents[parent].depth;
    let below = agents[parent + 1..].iter().take_while(|agent| agent.depth > depth).count();
    parent + 1 + below
}

#[cfg(test)]
mod tests {
    use subscope_model::{AgentId, AgentStatus};

    use super::*;
    use crate::samples;

    #[test]
    fn changed_rows_replace_and_new_ones_stand_last_among_their_siblings() {
        let mut trees = Trees::default();
        let tree = samples::tree("s", &[("root", 0), ("a", 1), ("b", 2), ("c", 1)]);
        trees.insert_subscribed(tree.clone());
        let agent = |id: &str, parent: &str, depth| Agent {
            parent_id: Some(AgentId::from(parent)),
            ..Agent::unknown(AgentId::from(id), depth, AgentStatus::Running)
        };
        let agents = vec![agent("d", "a", 2), agent("c", "root", 1), agent("e", "gone", 1)];
        let removed = vec![AgentId::from("b")];
        trees.apply_change(Change { session: tree.session.clone(), agents, removed });
        let now = trees.get(&"s".into()).unwrap();
        let ids: Vec<&str> = now.agents.iter().map(|agent| &*agent.id).collect();
        assert_eq!(ids, ["root", "a", "d", "c", "e"]);
        assert_eq!(now.agents[3].status, AgentStatus::Running);
        let session = subscope_model::Session { id: "other".into(), ..tree.session };
        trees.apply_change(Change { session, agents: Vec::new(), removed: Vec::new() });
        assert_eq!(trees.get(&"other".into()), None);
    }

    #[test]
    fn asked_sessions_are_bounded_and_never_replace_what_is_fed() {
        let mut trees = Trees::default();
        trees.insert_subscribed(samples::tree("fed", &[("root", 0), ("a", 1)]));
        trees.insert_queried(samples::tree("fed", &[("root", 0)]));
        assert_eq!(trees.get(&"fed".into()).unwrap().agents.len(), 2);
        for at in 0..MAX_QUERIED + 3 {
            trees.insert_queried(samples::tree(&format!("s{at}"), &[("root", 0)]));
        }
        assert!(trees.get(&"s2".into()).is_none() && trees.get(&"s3".into()).is_some());
        assert!(trees.is_subscribed(&"fed".into()));
    }
}
