//! Parents of posted runs, to find the session of an event that names none.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use super::ConnectionId;

/// Most runs in memory. The oldest are evicted first; a later run of such a chain starts a session of its own, unless
/// its events name their session.
const MAX_RUNS: usize = 65_536;

/// Parents of runs, as reported by their events.
#[derive(Debug, Default)]
pub(super) struct RunParents(Mutex<ParentMap>);

#[derive(Debug, Default)]
struct ParentMap {
    parents: HashMap<String, RunParent>,
    order: VecDeque<String>,
}

/// What a run belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RunParent {
    /// Another run; a root run is its own parent.
    Run(String),
    /// The session that its events name, and the connection of the first that did.
    Session(String, Option<ConnectionId>),
}

/// The end of a chain of runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RunRoot {
    /// The run at the root of the chain.
    pub(super) run: String,
    /// The session that the root names, and the connection that named it.
    pub(super) session: Option<(String, Option<ConnectionId>)>,
    /// Whether it is known to have no parent, from its start event or from a lookup.
    pub(super) is_resolved: bool,
}

impl RunParents {
    /// Returns the root of a run's chain, and records its parent where one is given.
    pub(super) fn root(&self, run: &str, parent: Option<&str>) -> RunRoot {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(parent) = parent.filter(|parent| *parent != run) {
            map.insert(run, RunParent::Run(parent.to_owned()));
        }
        let root = |run: &str, session, is_resolved| RunRoot { run: run.to_owned(), session, is_resolved };
        let mut at = run;
        // No chain is longer than the number of runs; a cycle ends here.
        for _ in 0..=map.parents.len() {
            match map.parents.get(at) {
                Some(RunParent::Session(session, by)) => {
                    return root(at, Some((session.clone(), *by)), true);
                }
                Some(RunParent::Run(parent)) if parent == at => return root(at, None, true),
                Some(RunParent::Run(parent)) => at = parent,
                None => return root(at, None, false),
            }
        }
        root(run, None, true)
    }

    /// Records the root of a run without a known parent; it may be its own root.
    pub(super) fn set_root(&self, run: &str, root: &str) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for run in [run, root] {
            map.insert_new(run, || RunParent::Run(root.to_owned()));
        }
    }

    /// Records the session of a run without a known parent; `by` is the connection that named it.
    pub(super) fn set_session(&self, run: &str, session: &str, by: Option<ConnectionId>) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        map.insert_new(run, || RunParent::Session(session.to_owned(), by));
    }
}

impl ParentMap {
    fn insert_new(&mut self, run: &str, parent: impl FnOnce() -> RunParent) {
        if !self.parents.contains_key(run) {
            self.insert(run, parent());
        }
    }

    fn insert(&mut self, run: &str, parent: RunParent) {
        if self.parents.insert(run.to_owned(), parent).is_some() {
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
        let RunRoot { run, is_resolved, .. } = chains.root(run, parent);
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
    fn chain_ends_in_the_session_that_a_run_names() {
        let chains = RunParents::default();
        chains.set_session("a", "s", None);
        let of = |run, parent| chains.root(run, parent).session.map(|(session, _)| session);
        assert_eq!(of("b", Some("a")).as_deref(), Some("s"));
        assert_eq!(of("c", Some("b")).as_deref(), Some("s"));
        chains.set_session("b", "t", None);
        assert_eq!(of("c", None).as_deref(), Some("s"), "a named parent is better");
        assert_eq!(of("d", None), None);
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
