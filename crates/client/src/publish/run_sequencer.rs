//! Serializes the events of each run, and stores the run's delivery state between them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Most runs stored. Above it, spooled and aborted runs without an end event are forgotten; their next event is tried
/// again.
const MAX_RUNS: usize = 4096;

/// Delivery state of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum RunDelivery {
    /// Events are delivered.
    #[default]
    Delivered,
    /// An event was spooled: later ones are spooled, too, to keep the order.
    Spooled,
    /// An event could not be delivered; its error.
    Aborted(String),
}

/// Delivery states of active runs.
#[derive(Debug, Default)]
pub(super) struct RunSequencer(Mutex<HashMap<String, RunState>>);

/// Locked while an event of the run is being delivered.
type RunState = Arc<Mutex<RunDelivery>>;

/// Locks a mutex, ignoring poisoning.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RunSequencer {
    /// Runs `work` while no other event of the run is being delivered. Afterwards removes the run if it has ended, or
    /// is in the default state with no event waiting.
    pub(super) fn with_run<T>(
        &self,
        run: &str,
        is_last: bool,
        work: impl FnOnce(&mut RunDelivery) -> T,
    ) -> T {
        let state = self.enter(run);
        let (done, is_fine) = {
            let mut delivery = lock(&state);
            let done = work(&mut delivery);
            (done, *delivery == RunDelivery::Delivered)
        };
        let mut runs = lock(&self.0);
        // Two references: the map's and ours. More belong to waiting callers, which are added under the lock held here.
        if is_last || (is_fine && Arc::strong_count(&state) == 2) {
            runs.remove(run);
        }
        done
    }

    fn enter(&self, run: &str) -> RunState {
        let mut runs = lock(&self.0);
        if let Some(state) = runs.get(run) {
            return Arc::clone(state);
        }
        if runs.len() >= MAX_RUNS {
            runs.retain(|_, state| Arc::strong_count(state) > 1);
        }
        Arc::clone(runs.entry(run.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn course_of_a_run_is_remembered_until_its_end() {
        let runs = RunSequencer::default();
        let aborted = RunDelivery::Aborted("dead".to_owned());
        runs.with_run("a", false, |delivery| *delivery = aborted.clone());
        runs.with_run("a", false, |delivery| assert_eq!(*delivery, aborted));
        runs.with_run("b", false, |delivery| assert_eq!(*delivery, RunDelivery::Delivered));
        assert_eq!(lock(&runs.0).len(), 1);
        runs.with_run("a", true, |delivery| assert_eq!(*delivery, aborted));
        runs.with_run("a", false, |delivery| assert_eq!(*delivery, RunDelivery::Delivered));
        assert!(lock(&runs.0).is_empty());
    }

    #[test]
    fn memory_of_runs_is_bounded() {
        let runs = RunSequencer::default();
        for run in 0..MAX_RUNS + 10 {
            runs.with_run(&run.to_string(), false, |delivery| *delivery = RunDelivery::Spooled);
        }
        assert!(lock(&runs.0).len() <= MAX_RUNS);
    }
}
