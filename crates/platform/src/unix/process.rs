//! Processes: of this program, of others, and the wait for their output.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::AsFd,
        unix::process::{CommandExt, parent_id},
    },
    process::{Child, Command},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, Signal},
};

use crate::{Pollable, ProcessStart, Readiness};

/// What an open file is borrowed by.
pub use std::os::fd::AsFd as AsFile;

/// Nice value (0–19) of background threads: low priority, but never starved.
#[cfg(target_os = "linux")]
const NICE_VALUE: i32 = 10;

/// Returns a second handle of an open file, without the buffer that the standard library may have for it.
///
/// # Errors
/// Errors of the operating system.
pub fn duplicate(file: &impl AsFile) -> io::Result<File> {
    file.as_fd().try_clone_to_owned().map(File::from)
}

impl<T: AsFd> Pollable for T {
    fn wait_ready(&self, what: Readiness, limit: Duration) -> io::Result<bool> {
        let what = match what {
            Readiness::Readable => PollFlags::IN,
            Readiness::Writable => PollFlags::OUT,
        };
        let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(self, what)], Some(&limit)) {
            Ok(0) | Err(Errno::INTR) => Ok(false),
            Ok(_) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// Starts this program anew in this process, with the same arguments and a variable more. Returns only if it cannot.
pub fn restart_with(name: &str, value: &str) {
    let mut args = std::env::args_os();
    let (own, Ok(program)) = (args.next(), std::env::current_exe()) else { return };
    // `exec` returns only if it fails.
    let _ = Command::new(program).arg0(own.unwrap_or_default()).args(args).env(name, value).exec();
}

/// Replaces this process by a command. Returns only if it cannot.
pub fn replace_process(command: &mut Command) -> io::Error {
    command.exec()
}

/// Lets a Ctrl-C of this terminal not reach a command that is started.
pub fn outside_of_group(command: &mut Command) -> &mut Command {
    command.process_group(0)
}

/// Starts a command that outlives this process. It runs in the root folder, and calls [`leave_terminal`].
///
/// # Errors
/// If it cannot be started.
pub fn spawn_detached(command: &mut Command) -> io::Result<Child> {
    command.current_dir("/").spawn()
}

/// Leaves the terminal: neither its end nor its Ctrl-C reaches this process. Fails for a process group leader: that was
/// started from a shell, and is controlled from its terminal.
pub fn leave_terminal() {
    let _ = rustix::process::setsid();
}

/// Lowers the priority of this thread and the threads that it starts.
pub fn lower_priority() {
    // Outside Linux it would apply to the whole process; there the limit of threads must do.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, NICE_VALUE);
}

/// Returns the command that opens a URL in the user's browser.
pub fn url_opener(url: &str) -> Command {
    let mut opener = Command::new(if cfg!(target_os = "macos") { "open" } else { "xdg-open" });
    opener.arg(url);
    opener
}

/// Does nothing: terminals obey escape sequences.
pub fn enable_escapes() {}

/// Returns the name of this machine.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Ends a process at once, if it runs.
pub fn end_process(process: i32) {
    if let Some(process) = Pid::from_raw(process) {
        let _ = rustix::process::kill_process(process, Signal::KILL);
    }
}

impl ProcessStart {
    /// Returns when a running process started; `None` if there is no such process. One of another user counts; one that
    /// has ended does not, although its number is taken until its parent asks how it ended.
    pub fn of(process: i32) -> Option<Self> {
        let Some(ticks) = stat_field(process, 19) else {
            let process = Pid::from_raw(process)?;
            let exists = rustix::process::test_kill_process(process) != Err(Errno::SRCH);
            return exists.then(Self::default);
        };
        if stat_field(process, 0).is_some_and(|state| matches!(state.as_str(), "Z" | "X")) {
            return None;
        }
        let at_ms = boot_ms().zip(ticks.parse::<u64>().ok()).and_then(|(boot, ticks)| {
            let since = ticks.checked_mul(1_000)? / rustix::param::clock_ticks_per_second().max(1);
            Some(boot + i64::try_from(since).ok()?)
        });
        Some(Self { ticks, at_ms })
    }
}

/// Returns the parent of a process; `None` if the system's first process is, or the system does not tell.
pub fn parent_of(process: i32) -> Option<i32> {
    let of_other = || stat_field(process, 1)?.parse().ok();
    let is_own = u32::try_from(process) == Ok(std::process::id());
    let parent = if is_own { i32::try_from(parent_id()).ok() } else { of_other() };
    parent.filter(|parent| *parent > 1)
}

/// Returns the group of a process; `None` if there is no such process, or its group is not one of this container's.
pub fn group_of(process: i32) -> Option<i32> {
    // rustix takes it for granted that the number is not 0, which it is for a group outside of the container.
    let group = nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(process))).ok()?;
    Some(group.as_raw()).filter(|group| *group > 0)
}

/// Returns a field of `/proc/PID/stat`, counted after the command's name, which may contain anything.
fn stat_field(process: i32, field: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(field).map(str::to_owned)
}

/// Returns the time of the system's boot by its clock now (proc_stat(5), `btime`).
fn boot_ms() -> Option<i64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let seconds: i64 = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    seconds.checked_mul(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn process_that_has_ended_does_not_run_before_its_parent_asks() {
        let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let number = i32::try_from(child.id()).unwrap();
        assert!(ProcessStart::of(number).is_some());
        assert_eq!(parent_of(number), i32::try_from(std::process::id()).ok());
        drop(child.stdin.take());
        while stat_field(number, 0).as_deref() != Some("Z") {
            std::thread::yield_now();
        }
        assert_eq!(ProcessStart::of(number), None);
        child.wait().unwrap();
    }
}
