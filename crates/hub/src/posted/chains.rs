//! Which posted run was started by which, to find the session of an event that names none.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

/// How many runs are remembered. The oldest are forgotten first; a run of a chain that long ago begins a session of its
/// own, unless its events name their session.
const RUNS: usize = 65_536;

/// The parents of runs, as their events told them.
#[derive(Debug, Default)]
pub(super) struct Chains(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    parents: HashMap<String, String>,
    order: VecDeque<String>,
}

impl Chains {
    /// Remembers a run's parent, where one is told, and returns the run at the root of its chain.
    pub(super) fn root(&self, run: &str, parent: Option<&str>) -> String {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(parent) = parent.filter(|parent| *parent != run) {
            known.learn(run, parent);
        }
        let mut at = run;
        // No chain is longer than there are runs; one that goes in a circle ends there.
        for _ in 0..=known.parents.len() {
            match known.parents.get(at) {
                Some(parent) => at = parent,
                None => return at.to_owned(),
            }
        }
        run.to_owned()
    }
}

impl Known {
    fn learn(&mut self, run: &str, parent: &str) {
        if self.parents.insert(run.to_owned(), parent.to_owned()).is_some() {
            return;
        }
        self.order.push_back(run.to_owned());
        if self.order.len() > RUNS
            && let Some(oldest) = self.order.pop_front()
        {
            self.parents.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_found_through_the_chain_and_circles_end() {
        let chains = Chains::default();
        assert_eq!(chains.root("a", None), "a");
        assert_eq!(chains.root("c", Some("b")), "b");
        assert_eq!(chains.root("b", Some("a")), "a");
        assert_eq!(chains.root("c", None), "a");
        assert_eq!(chains.root("a", Some("c")), "a");
        assert_eq!(chains.root("d", Some("d")), "d");
    }

    #[test]
    fn memory_of_runs_is_bounded() {
        let chains = Chains::default();
        for run in 0..RUNS + 10 {
            chains.root(&run.to_string(), Some("p"));
        }
        assert_eq!(chains.0.lock().unwrap().parents.len(), RUNS);
        assert_eq!(chains.root("0", None), "0");
    }
}
