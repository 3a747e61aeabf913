//! Agent trees of sessions: subscribed ones, which the feed keeps up to date, and queried ones.

use std::{
    cell::Cell,
    collections::{HashSet, VecDeque},
};

use subscope_model::{Agent, AgentId, LiveView, SessionId, Tree, Update};

/// Most queried trees cached, and most agents in them; the oldest reply is evicted first. A screen full of sessions fits.
const MAX_QUERIED: usize = 256;
const MAX_QUERIED_AGENTS: usize = 20_000;

#[derive(Debug, Default)]
pub(crate) struct Trees {
    subscribed: LiveView,
    /// Oldest first.
    queried: VecDeque<Tree>,
    /// Sessions that were queried for a list.
    listed: HashSet<SessionId>,
    /// Totals since the last update, if requested.
    counts: Cell<Option<Counts>>,
}

impl Trees {
    pub(crate) fn get(&self, session: &SessionId) -> Option<&Tree> {
        let queried = || self.queried.iter().find(|tree| tree.session.id == *session);
        self.subscribed.get(session).or_else(queried)
    }

    /// Subscribed trees, in no order.
    pub(crate) fn subscribed(&self) -> impl Iterator<Item = &Tree> {
        self.subscribed.trees()
    }

    /// An agent of a subscribed session.
    pub(crate) fn agent(&self, session: &SessionId, agent: &AgentId) -> Option<&Agent> {
        self.subscribed.agent(session, agent)
    }

    /// Returns whether the tree of a listed session is to be queried; only once for each session, so that evicted trees
    /// are not queried in turn.
    pub(crate) fn is_missing(&mut self, session: &SessionId) -> bool {
        self.get(session).is_none() && self.listed.insert(session.clone())
    }

    /// Whether the feed keeps a session up to date.
    pub(crate) fn is_subscribed(&self, session: &SessionId) -> bool {
        self.subscribed.get(session).is_some()
    }

    pub(crate) fn apply(&mut self, update: Update) {
        if let Update::Snapshot(tree) = &update {
            self.queried.retain(|queried| queried.session.id != tree.session.id);
        }
        self.counts.set(None);
        self.subscribed.apply(update);
    }

    /// Inserts a query's reply; ignored for subscribed sessions, whose tree is newer.
    pub(crate) fn insert_queried(&mut self, tree: Tree) {
        if self.is_subscribed(&tree.session.id) {
            return;
        }
        self.queried.retain(|queried| queried.session.id != tree.session.id);
        self.queried.push_back(tree);
        let agents = |trees: &VecDeque<Tree>| trees.iter().map(|tree| tree.agents.len()).sum::<usize>();
        while self.queried.len() > MAX_QUERIED
            || (self.queried.len() > 1 && agents(&self.queried) > MAX_QUERIED_AGENTS)
        {
            self.queried.pop_front();
        }
    }

    /// Counts live sessions and agents over all subscribed trees.
    pub(crate) fn counts(&self) -> Counts {
        let counts = self.counts.get().unwrap_or_else(|| self.count());
        self.counts.set(Some(counts));
        counts
    }

    fn count(&self) -> Counts {
        let mut counts = Counts::default();
        for tree in self.subscribed() {
            let live = || tree.agents.iter().filter(|agent| agent.is_at_work());
            counts.live += usize::from(live().next().is_some());
            counts.running += live().filter(|agent| !agent.id.is_root()).count();
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
pub(crate) struct Counts {
    /// Sessions with a live agent.
    pub(crate) live: usize,
    /// Live subagents.
    pub(crate) running: usize,
    /// Cost of live sessions, as far as prices are known.
    pub(crate) cost_micro_usd: i64,
    /// Whether the cost is a lower bound.
    pub(crate) cost_floor: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn asked_sessions_are_bounded_and_never_replace_what_is_fed() {
        let mut trees = Trees::default();
        trees.apply(Update::snapshot(samples::tree("fed", &[("root", 0), ("a", 1)])));
        trees.insert_queried(samples::tree("fed", &[("root", 0)]));
        assert_eq!(trees.get(&"fed".into()).unwrap().agents.len(), 2);
        for at in 0..MAX_QUERIED + 3 {
            trees.insert_queried(samples::tree(&format!("s{at}"), &[("root", 0)]));
        }
        assert!(trees.get(&"s2".into()).is_none() && trees.get(&"s3".into()).is_some());
        assert!(trees.is_subscribed(&"fed".into()));
        // One with more agents than all may have pushes out the others, and stays itself.
        let ids: Vec<String> = (0..=MAX_QUERIED_AGENTS).map(|at| format!("a{at}")).collect();
        let many: Vec<(&str, u32)> = ids.iter().map(|id| (id.as_str(), 1)).collect();
        trees.insert_queried(samples::tree("many", &many));
        assert!(trees.get(&"many".into()).is_some() && trees.queried.len() == 1);
        // Those that were asked for a list are not asked again.
        assert!(!trees.is_missing(&"many".into()) && !trees.is_missing(&"fed".into()));
        assert!(trees.is_missing(&"s3".into()) && !trees.is_missing(&"s3".into()));
    }
}
