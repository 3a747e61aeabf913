//! Whether the terminal is in full-screen mode: main loop, panic hook and signal thread restore it once, and each of
//! them returns only when it is restored. Each may end the process next.

use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
    thread,
    time::Duration,
};

/// Polling interval while another thread restores the terminal.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The state of the terminal; locked while it changes.
#[derive(Debug)]
pub(super) struct FullScreen {
    is_entered: Mutex<bool>,
}

impl FullScreen {
    pub(super) const fn new() -> Self {
        Self { is_entered: Mutex::new(false) }
    }

    pub(super) fn is_entered(&self) -> bool {
        *self.lock()
    }

    pub(super) fn enter(&self, enter: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut is_entered = self.lock();
        enter()?;
        *is_entered = true;
        Ok(())
    }

    /// Restores the terminal if that was not done; returns when it is restored, by whichever thread.
    pub(super) fn leave(&self, restore: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        leave(self.lock(), restore)
    }

    /// Like [`Self::leave`]; `None` if another thread still holds the terminal after about `limit`.
    pub(super) fn leave_within(
        &self,
        limit: Duration,
        restore: impl FnOnce() -> io::Result<()>,
    ) -> Option<io::Result<()>> {
        for _ in 0..limit.as_millis() / POLL_INTERVAL.as_millis() {
            match self.is_entered.try_lock() {
                Ok(is_entered) => return Some(leave(is_entered, restore)),
                Err(TryLockError::Poisoned(error)) => return Some(leave(error.into_inner(), restore)),
                Err(TryLockError::WouldBlock) => thread::sleep(POLL_INTERVAL),
            }
        }
        None
    }

    /// The state is one word: a panic leaves it whole.
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_entered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn leave(mut is_entered: MutexGuard<'_, bool>, restore: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    if !*is_entered {
        return Ok(());
    }
    let restored = restore();
    *is_entered = false;
    restored
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    /// A process that ends between these two leaves a shell without line editing.
    #[test]
    fn second_thread_returns_when_the_first_has_restored() {
        let full_screen = FullScreen::new();
        full_screen.enter(|| Ok(())).unwrap();
        let (began, restored) = (Barrier::new(3), AtomicUsize::new(0));
        let restore = |delay| {
            thread::sleep(delay);
            restored.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        let restored_at_return: Vec<usize> = thread::scope(|scope| {
            scope.spawn(|| {
                full_screen.leave(|| {
                    began.wait();
                    restore(Duration::from_millis(100))
                })
            });
            let main_loop = scope.spawn(|| {
                began.wait();
                full_screen.leave(|| restore(Duration::ZERO)).unwrap();
                restored.load(Ordering::SeqCst)
            });
            let signal_thread = scope.spawn(|| {
                began.wait();
                full_screen.leave_within(LIMIT, || restore(Duration::ZERO)).unwrap().unwrap();
                restored.load(Ordering::SeqCst)
            });
            [main_loop, signal_thread].into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(restored_at_return, [1, 1]);
        assert!(!full_screen.is_entered());
    }

    #[test]
    fn thread_that_is_stuck_is_not_waited_for_without_end() {
        let full_screen = FullScreen::new();
        full_screen.enter(|| Ok(())).unwrap();
        let held = full_screen.lock();
        assert!(full_screen.leave_within(Duration::from_millis(50), || Ok(())).is_none());
        drop(held);
        let failed = full_screen.leave_within(LIMIT, || Err(io::Error::other("closed")));
        assert!(failed.unwrap().is_err());
        assert!(!full_screen.is_entered(), "a terminal that is gone is not restored again");
    }
}
