//! Ends the process when its main thread hangs in a system call: nobody else can end a wait for a dead disk.
//!
//! A thread that is ready to run and gets no processor does not hang. With 200 hooks and 40 busy programs on two
//! processors, hooks waited for seconds to run for some milliseconds; ended by a clock alone, they lost their payloads.

use std::{fs, io, thread, time::Duration};

use subscope_hub::clock;

/// Stack size of a thread that sleeps and reads two small files.
const STACK_BYTES: usize = 64 << 10;
/// Pause before a thread that was not blocked is looked at again.
const PAUSE: Duration = Duration::from_millis(25);

/// Ends the process with code 0 once its main thread has been blocked for longer than a limit.
///
/// # Errors
/// If no thread can be started.
pub(super) fn exit_when_blocked(limit: Duration) -> io::Result<()> {
    let (began, before) = (clock::tick(), MainThread::now());
    let watch = move || {
        thread::sleep(limit);
        while !MainThread::now().is_blocked(&before, began.elapsed(), limit) {
            thread::sleep(PAUSE);
        }
        std::process::exit(0);
    };
    thread::Builder::new().stack_size(STACK_BYTES).spawn(watch).map(drop)
}

/// What the system says of the main thread; nothing outside Linux.
#[derive(Default)]
struct MainThread {
    /// Whether it runs or waits for a processor.
    is_ready: bool,
    /// Time for which it has waited for a processor, the current wait not included.
    waited: Duration,
}

impl MainThread {
    fn now() -> Self {
        let read = |name: &str| fs::read_to_string(name).unwrap_or_default();
        Self::of(&read("/proc/self/stat"), &read("/proc/self/schedstat"))
    }

    /// Reads `/proc/PID/stat` (the state follows the name, which may contain anything) and `/proc/PID/schedstat` (time
    /// on a processor, time of waiting for one, in nanoseconds).
    fn of(stat: &str, schedule: &str) -> Self {
        let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
        let waited = schedule.split_whitespace().nth(1).and_then(|ns| ns.parse().ok());
        Self {
            is_ready: state.is_some_and(|state| state.starts_with('R')),
            waited: Duration::from_nanos(waited.unwrap_or(0)),
        }
    }

    /// Whether it was blocked for a limit, of the time that has passed since `before`.
    fn is_blocked(&self, before: &Self, elapsed: Duration, limit: Duration) -> bool {
        !self.is_ready && elapsed.saturating_sub(self.waited.saturating_sub(before.waited)) >= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(250);

    #[test]
    fn thread_that_waits_for_a_processor_is_not_blocked() {
        let before = MainThread::of("7 (a) S) R 1 1", "4352161 100000000 2");
        assert!(before.is_ready);
        let blocked = |stat: &str, schedule: &str, elapsed| {
            MainThread::of(stat, schedule).is_blocked(&before, Duration::from_millis(elapsed), LIMIT)
        };
        assert!(!blocked("7 (a) R 1", "4352161 100000000 2", 9_000), "its wait is counted when it ends");
        assert!(blocked("7 (a) D 1", "4352161 100000000 2", 250), "a dead disk");
        assert!(!blocked("7 (a) D 1", "4352161 200000000 2", 349), "100 ms of it without a processor");
        assert!(blocked("7 (a) D 1", "4352161 200000000 2", 350));
        assert!(blocked("", "", 250), "where the system says nothing, all time counts");
        assert!(!blocked("", "", 249));
    }
}
