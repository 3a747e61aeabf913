//! Identifies processes by number and start: the system gives the number of an ended process to another one.

use std::fs;

use nix::{errno::Errno, sys::signal::kill, unistd::Pid};
use subscope_harness::ProcessNote;
use subscope_model::Millis;

/// Most milliseconds by which a process may seem to have started after it made its note: the system's time of boot is
/// in whole seconds, and clocks are adjusted.
const START_TOLERANCE_MS: Millis = 5_000;

/// When a process started. Two processes with one number differ in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessStart {
    /// Clock ticks since the system's boot, as the system writes them (proc_pid_stat(5), field 22); empty where it does
    /// not tell, as on macOS.
    pub(crate) ticks: String,
    /// The same in milliseconds since 1970; changes when the system clock is set.
    pub(crate) at_ms: Option<Millis>,
}

impl ProcessStart {
    /// Returns when a running process started; `None` if there is no such process. One of another user counts; one that
    /// has ended does not, although its number is taken until its parent asks how it ended.
    pub(crate) fn of(process: i32) -> Option<Self> {
        let Some(ticks) = stat_field(process, 19) else {
            let exists = kill(Pid::from_raw(process), None) != Err(Errno::ESRCH);
            return exists.then(Self::default);
        };
        if stat_field(process, 0).is_some_and(|state| matches!(state.as_str(), "Z" | "X")) {
            return None;
        }
        let at_ms = boot_ms().zip(ticks.parse::<u64>().ok()).and_then(|(boot, ticks)| {
            let since = ticks.checked_mul(1_000)? / rustix::param::clock_ticks_per_second().max(1);
            Some(boot + Millis::try_from(since).ok()?)
        });
        Some(Self { ticks, at_ms })
    }

    /// Whether the process is the one that made a note: it has the start that the note names, or had started when the
    /// note was made.
    pub(crate) fn is_of(&self, note: &ProcessNote) -> bool {
        match &note.start_ticks {
            Some(ticks) if !self.ticks.is_empty() => *ticks == self.ticks,
            _ => self.at_ms.is_none_or(|at| at <= note.started_ms + START_TOLERANCE_MS),
        }
    }
}

/// Returns the parent of a process; `None` if the system's first process is.
pub(crate) fn parent(process: Pid) -> Option<Pid> {
    let parent = stat_field(process.as_raw(), 1)?.parse().ok()?;
    Some(Pid::from_raw(parent)).filter(|parent| parent.as_raw() > 1)
}

/// Returns a field of `/proc/PID/stat`, counted after the command's name, which may contain anything.
fn stat_field(process: i32, field: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(field).map(str::to_owned)
}

/// Returns the time of the system's boot by its clock now (proc_stat(5), `btime`).
fn boot_ms() -> Option<Millis> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let seconds: Millis = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    seconds.checked_mul(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_that_another_process_has_now_is_not_the_noted_process() {
        let note = |start_ticks: Option<&str>, started_ms| ProcessNote {
            process: 7,
            session: "s".to_owned(),
            started_ms,
            start_ticks: start_ticks.map(str::to_owned),
            has_screen: true,
            activity: None,
            tmux_pane: None,
        };
        let now = ProcessStart { ticks: "500".to_owned(), at_ms: Some(100_000) };
        assert!(now.is_of(&note(Some("500"), 1)), "its own start, whatever the clock said");
        assert!(!now.is_of(&note(Some("499"), 100_000)));
        assert!(now.is_of(&note(None, 100_200)) && now.is_of(&note(None, 96_000)));
        assert!(!now.is_of(&note(None, 90_000)), "it started after the note was made");
        assert!(ProcessStart::default().is_of(&note(Some("1"), 1)), "the system does not tell");
    }

    #[test]
    fn own_process_has_one_start_and_a_missing_one_has_none() {
        let own = i32::try_from(std::process::id()).unwrap();
        let start = ProcessStart::of(own).unwrap();
        assert_eq!(ProcessStart::of(own).unwrap(), start);
        assert_eq!(start.ticks.is_empty(), start.at_ms.is_none());
        assert_eq!(ProcessStart::of(i32::MAX), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn process_that_has_ended_does_not_run_before_its_parent_asks() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let number = i32::try_from(child.id()).unwrap();
        assert!(ProcessStart::of(number).is_some());
        drop(child.stdin.take());
        while stat_field(number, 0).as_deref() != Some("Z") {
            std::thread::yield_now();
        }
        assert_eq!(ProcessStart::of(number), None);
        child.wait().unwrap();
    }
}
