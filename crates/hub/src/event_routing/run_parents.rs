//! Parents of posted runs, to find the session of an event that names none.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

/// Most runs in memory. The oldest are evicted first; a later run of such a chain starts a session of its own, unless
/// its events name their session.
const MAX_RUNS: usize = 65_536;

/// Parents of runs, as reported by their events; a root run is its own parent.
#[derive(Debug, Default)]
pub(super) struct RunParents(Mutex<ParentMap>);

#[derive(Debug, Default)]
struct ParentMap {
    parents: HashMap<String, String>,
    order: VecDeque<String>,
}

/// The run at the root of a chain.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RunRoot {
    pub(super) run: String,
    /// Whether it is known to have no parent, from its start event or from a lookup.
    pub(super) is_resolved: bool,
}

impl RunParents {
    /// Returns the root of a run's chain, and records its parent where one is given.
    pub(super) fn root(&self, run: &str, parent: Option<&str>) -> RunRoot {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(parent) = parent.filter(|parent| *parent != run) {
            map.insert(run, parent);
        }
        let mut at = run;
        // No chain is longer than the number of runs; a cycle ends here.
        for _ in 0..=map.parents.len() {
            match map.parents.get(at) {
                Some(parent) if parent == at => return RunRoot { run: at.to_owned(), is_resolved: true },
                Some(parent) => at = parent,
                None => return RunRoot { run: at.to_owned(), is_resolved: false },
            }
        }
        RunRoot { run: run.to_owned(), is_resolved: true }
    }

    /// Records the root of a run without a known parent; it may be its own root.
    pub(super) fn set_root(&self, run: &str, root: &str) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for run in [run, root] {
            if !map.parents.contains_key(run) {
                map.insert(run, root);
            }
        }
    }
}

impl ParentMap {
    fn insert(&mut self, run: &str, parent: &str) {
        if self.parents.insert(run.to_owned(), parent.to_owned()).is_some() {
            return;
        }
        self.order.push_back(run.to_owned());
        if self.order.len() > MAX_RUNS
            && let Some(oldest) = self.order.pop_front()
        {
            self.parents.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(chains: &RunParents, run: &str, parent: Option<&str>) -> (String, bool) {
        let RunRoot { run, is_resolved } = chains.root(run, parent);
        (run, is_resolved)
    }

    #[test]
    fn root_is_found_through_the_chain_and_circles_end() {
        let chains = RunParents::default();
        let open = |run: &str| (run.to_owned(), false);
        assert_eq!(root(&chains, "a", None), open("a"));
        assert_eq!(root(&chains, "c", Some("b")), open("b"));
        assert_eq!(root(&chains, "b", Some("a")), open("a"));
        assert_eq!(root(&chains, "c", None), open("a"));
        assert_eq!(root(&chains, "a", Some("c")).0, "a");
        assert_eq!(root(&chains, "d", Some("d")), open("d"));
    }

    #[test]
    fn settled_root_is_not_asked_for_again_until_it_names_a_parent() {
        let chains = RunParents::default();
        chains.set_root("b", "a");
        assert_eq!(root(&chains, "c", Some("b")), ("a".to_owned(), true));
        chains.set_root("a", "z");
        assert_eq!(root(&chains, "c", None), ("a".to_owned(), true), "what is known stays");
        assert_eq!(root(&chains, "a", Some("y")), ("y".to_owned(), false));
    }

    #[test]
    fn memory_of_runs_is_bounded() {
        let chains = RunParents::default();
        for run in 0..MAX_RUNS + 10 {
            chains.root(&run.to_string(), Some("p"));
        }
        assert_eq!(chains.0.lock().unwrap().parents.len(), MAX_RUNS);
        assert_eq!(root(&chains, "0", None).0, "0");
    }
}
