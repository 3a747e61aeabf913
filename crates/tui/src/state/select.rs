//! Sort order and filter of a tree's rows.

use std::cmp::Reverse;

use subscope_model::{Agent, AgentStatus, Tree};
use subscope_render::tree::is_trouble;

choices! {
    /// The order of siblings.
    #[derive(Default)]
    pub(crate) enum Sort {
        #[default]
        Start = "by start",
        /// By last activity, newest first.
        Activity = "by last activity",
        /// By cost of the subtree, highest first.
        Cost = "by cost",
        /// By duration, longest first.
        Time = "by time",
    }
}

choices! {
    /// A filter of agents.
    #[derive(Default)]
    pub(crate) enum Filter {
        #[default]
        All = "all agents",
        Running = "running",
        /// Agents that failed or are lost.
        Failed = "failed",
        /// Agents at trouble: stalled, looping, failing, colliding, or waiting for a permission.
        Flagged = "flagged",
    }
}

impl Filter {
    /// Whether an agent passes the filter.
    pub(crate) fn has(self, agent: &Agent) -> bool {
        match self {
            Self::All => true,
            Self::Running => agent.status.is_live(),
            Self::Failed => matches!(agent.status, AgentStatus::Failed | AgentStatus::Lost),
            Self::Flagged => agent.waits_for_person() || agent.flags.iter().any(|flag| is_trouble(*flag)),
        }
    }
}

/// Returns indices of a tree's agents in pre-order, siblings sorted.
pub(crate) fn order(tree: &Tree, sort: Sort) -> Vec<usize> {
    let agents = &tree.agents;
    if sort == Sort::Start {
        return (0..agents.len()).collect();
    }
    // Children by parent, derived from the depth alone, as rows are drawn.
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); agents.len()];
    let (mut tops, mut above): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for (at, agent) in agents.iter().enumerate() {
        above.truncate(agent.depth as usize);
        match above.last() {
            Some(parent) => below[*parent].push(at),
            None => tops.push(at),
        }
        above.push(at);
    }
    let key = |at: &usize| {
        let agent = &agents[*at];
        Reverse(match sort {
            Sort::Start => None,
            Sort::Activity => agent.last_event_at_ms,
            Sort::Cost => agent.subtree.cost_micro_usd,
            Sort::Time => agent.wall_ms,
        })
    };
    below.iter_mut().for_each(|children| children.sort_by_key(key));
    let mut order = Vec::with_capacity(agents.len());
    let mut open: Vec<usize> = tops.into_iter().rev().collect();
    while let Some(at) = open.pop() {
        order.push(at);
        open.extend(below[at].iter().rev());
    }
    order
}

#[cfg(test)]
mod tests {
    use subscope_model::Flag;

    use super::*;
    use crate::samples;

    #[test]
    fn siblings_are_sorted_and_stay_below_their_parents() {
        let mut tree = samples::tree("s", &[("root", 0), ("a", 1), ("b", 2), ("c", 2), ("d", 1), ("e", 1)]);
        for (at, cost) in [(1, 5), (2, 1), (3, 4), (4, 9)] {
            tree.agents[at].subtree.cost_micro_usd = Some(cost);
        }
        assert_eq!(order(&tree, Sort::Start), [0, 1, 2, 3, 4, 5]);
        assert_eq!(order(&tree, Sort::Cost), [0, 4, 1, 3, 2, 5]);
        for sort in [Sort::Activity, Sort::Time] {
            assert_eq!(order(&tree, sort), [0, 1, 2, 3, 4, 5], "equal ones stay as they are");
        }
    }

    #[test]
    fn filters_take_whom_they_say() {
        let mut agent = samples::tree("s", &[("root", 0)]).agents.remove(0);
        let filters = [Filter::All, Filter::Running, Filter::Failed, Filter::Flagged];
        let taken = |agent: &Agent| filters.map(|filter| filter.has(agent));
        assert_eq!(taken(&agent), [true, false, false, false]);
        agent.status = AgentStatus::Failed;
        assert_eq!(taken(&agent), [true, false, true, false]);
        agent.status = AgentStatus::Running;
        assert_eq!(taken(&agent), [true, true, false, false]);
        agent.flags = vec![Flag::Stalled];
        assert_eq!(taken(&agent), [true, true, false, true]);
    }
}
