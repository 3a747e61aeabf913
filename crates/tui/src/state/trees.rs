//! The rows of sessions: those that the feed keeps up to date, and those that were asked for.

use std::collections::HashMap;

use subscope_model::{Agent, Change, Flag, SessionId, Tree};

/// Sessions that were asked for and are kept: those that somebody went through lately.
const MOST_ASKED: usize = 12;

/// Sessions' rows.
#[derive(Debug, Default)]
pub struct Trees {
    all: HashMap<SessionId, Held>,
    uses: u64,
}

#[derive(Debug)]
struct Held {
    tree: Tree,
    /// Whether the feed tells of it.
    is_fed: bool,
    used: u64,
}

impl Trees {
    /// A session's rows.
    pub fn get(&self, session: &SessionId) -> Option<&Tree> {
        self.all.get(session).map(|held| &held.tree)
    }

    /// The rows of sessions that the feed tells of, in no order.
    pub fn fed(&self) -> impl Iterator<Item = &Tree> {
        self.all.values().filter(|held| held.is_fed).map(|held| &held.tree)
    }

    /// Whether the feed tells of a session.
    pub fn is_fed(&self, session: &SessionId) -> bool {
        self.all.get(session).is_some_and(|held| held.is_fed)
    }

    /// Takes rows that the feed tells.
    pub fn feed(&mut self, tree: Tree) {
        self.put(tree, true);
    }

    /// Takes rows that were asked for. What the feed tells of is newer.
    pub fn answer(&mut self, tree: Tree) {
        if self.is_fed(&tree.session.id) {
            return;
        }
        self.put(tree, false);
        let asked = || self.all.iter().filter(|(_, held)| !held.is_fed);
        if asked().count() > MOST_ASKED
            && let Some(oldest) = asked().min_by_key(|(_, held)| held.used).map(|(id, _)| id.clone())
        {
            self.all.remove(&oldest);
        }
    }

    fn put(&mut self, tree: Tree, is_fed: bool) {
        self.uses += 1;
        let held = Held { is_fed, used: self.uses, tree };
        self.all.insert(held.tree.session.id.clone(), held);
    }

    /// Takes rows that changed. Order and sums are the whole tree's, which the feed tells soon after; until then a new
    /// agent stands last among its siblings. Nothing for a session that is not known yet: all of it will be told.
    pub fn change(&mut self, change: Change) {
        let Some(held) = self.all.get_mut(&change.session.id) else { return };
        let tree = &mut held.tree;
        tree.session = change.session;
        tree.agents.retain(|agent| !change.removed.contains(&agent.id));
        for agent in change.agents {
            match tree.agents.iter_mut().find(|known| known.id == agent.id) {
                Some(known) => *known = agent,
                None => {
                    let place = place_of(&tree.agents, &agent);
                    tree.agents.insert(place, agent);
                }
            }
        }
    }

    /// Counts over everything that the feed tells of: sessions at work, agents at work, stalled ones, and those that wait
    /// for a person.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for tree in self.fed() {
            let live = || tree.agents.iter().filter(|agent| agent.is_at_work());
            counts.live += usize::from(live().next().is_some());
            counts.running += live().filter(|agent| !agent.id.is_root()).count();
            counts.stalled += live().filter(|agent| agent.has(Flag::Stalled)).count();
            counts.waiting += live().filter(|agent| asks(agent)).count();
            if live().next().is_some() {
                counts.cost_micro_usd += tree.summary.cost_micro_usd.unwrap_or(0);
                counts.cost_floor |= tree.summary.cost_floor || tree.summary.cost_micro_usd.is_none();
            }
        }
        counts
    }
}

/// What the feed tells of, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sessions at work.
    pub live: usize,
    /// Subagents at work.
    pub running: usize,
    /// Agents that are stalled.
    pub stalled: usize,
    /// Agents that wait for a person.
    pub waiting: usize,
    /// What the sessions at work cost, as far as prices are known.
    pub cost_micro_usd: i64,
    /// Whether that is a lower bound.
    pub cost_floor: bool,
}

/// Whether an agent waits for a permission.
pub fn asks(agent: &Agent) -> bool {
    let kind = agent.liveness.as_ref().map(|live| live.kind);
    agent.status.is_live() && kind == Some(subscope_model::LivenessKind::Permission)
}

fn place_of(agents: &[Agent], new: &Agent) -> usize {
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
        trees.feed(tree.clone());
        let agent = |id: &str, parent: &str, depth| Agent {
            parent_id: Some(AgentId::from(parent)),
            ..Agent::unknown(AgentId::from(id), depth, AgentStatus::Running)
        };
        let agents = vec![agent("d", "a", 2), agent("c", "root", 1), agent("e", "gone", 1)];
        let removed = vec![AgentId::from("b")];
        trees.change(Change { session: tree.session.clone(), agents, removed });
        let now = trees.get(&"s".into()).unwrap();
        let ids: Vec<&str> = now.agents.iter().map(|agent| &*agent.id).collect();
        assert_eq!(ids, ["root", "a", "d", "c", "e"]);
        assert_eq!(now.agents[3].status, AgentStatus::Running);
        let session = subscope_model::Session { id: "other".into(), ..tree.session };
        trees.change(Change { session, agents: Vec::new(), removed: Vec::new() });
        assert_eq!(trees.get(&"other".into()), None);
    }

    #[test]
    fn asked_sessions_are_bounded_and_never_replace_what_is_fed() {
        let mut trees = Trees::default();
        trees.feed(samples::tree("fed", &[("root", 0), ("a", 1)]));
        trees.answer(samples::tree("fed", &[("root", 0)]));
        assert_eq!(trees.get(&"fed".into()).unwrap().agents.len(), 2);
        for at in 0..MOST_ASKED + 3 {
            trees.answer(samples::tree(&format!("s{at}"), &[("root", 0)]));
        }
        assert!(trees.get(&"s2".into()).is_none() && trees.get(&"s3".into()).is_some());
        assert!(trees.is_fed(&"fed".into()));
    }
}
