//! One lane for each run: its events are delivered one after the other, and what becomes of one decides about the next.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// How many runs are remembered that did not go well and never said that they ended. Beyond, they are forgotten; a forgotten
/// run is tried again.
const REMEMBERED: usize = 4096;

/// How a run's events go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Course {
    /// They are delivered.
    #[default]
    Delivered,
    /// One had to be spooled: those behind it are, too, so that none overtakes it.
    Spooled,
    /// One could not be delivered, and this is the error.
    Aborted(String),
}

/// The lanes of all runs under way.
#[derive(Debug, Default)]
pub(super) struct Lanes(Mutex<HashMap<String, Lane>>);

/// The lane of one run.
type Lane = Arc<Mutex<Course>>;

/// Keeps the others as they are where one panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lanes {
    /// Does something while no other event of the run is under way, and forgets the run where nothing is to be remembered or
    /// it is over.
    pub(super) fn in_turn<T>(&self, run: &str, is_last: bool, work: impl FnOnce(&mut Course) -> T) -> T {
        let lane = self.enter(run);
        let (done, is_fine) = {
            let mut course = lock(&lane);
            let done = work(&mut course);
            (done, *course == Course::Delivered)
        };
        let mut lanes = lock(&self.0);
        // Two: the map's and ours. More are of those who wait, and who enters does so under the lock held here.
        if is_last || (is_fine && Arc::strong_count(&lane) == 2) {
            lanes.remove(run);
        }
        done
    }

    fn enter(&self, run: &str) -> Lane {
        let mut lanes = lock(&self.0);
        if let Some(lane) = lanes.get(run) {
            return Arc::clone(lane);
        }
        if lanes.len() >= REMEMBERED {
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
        Arc::clone(lanes.entry(run.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn course_of_a_run_is_remembered_until_its_end() {
        let lanes = Lanes::default();
        let aborted = Course::Aborted("dead".to_owned());
        lanes.in_turn("a", false, |course| *course = aborted.clone());
        lanes.in_turn("a", false, |course| assert_eq!(*course, aborted));
        lanes.in_turn("b", false, |course| assert_eq!(*course, Course::Delivered));
        assert_eq!(lock(&lanes.0).len(), 1);
        lanes.in_turn("a", true, |course| assert_eq!(*course, aborted));
        lanes.in_turn("a", false, |course| assert_eq!(*course, Course::Delivered));
        assert!(lock(&lanes.0).is_empty());
    }

    #[test]
    fn memory_of_runs_is_bounded() {
        let lanes = Lanes::default();
        for run in 0..REMEMBERED + 10 {
            lanes.in_turn(&run.to_string(), false, |course| *course = Course::Spooled);
        }
        assert!(lock(&lanes.0).len() <= REMEMBERED);
    }
}
