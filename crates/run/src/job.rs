//! Child process as a job: process group, terminal, signals, exit.
//!
//! The child leads a process group of its own, so that it can be stopped as a whole. If our group is the terminal's
//! foreground group, the child's group replaces it: at once for an interactive command, else when it first accesses the
//! terminal (the system then stops it, which we see). Signals sent to us are forwarded to the child. When it stops, we
//! stop, so that the shell sees one job; when we continue, it continues.
//!
//! Signals are blocked in all threads and awaited by one, so that there is no signal handler.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::{
        signal::{SigSet, SigmaskHow, Signal, killpg},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, getpgrp, getsid, tcgetpgrp, tcsetpgrp},
};

use rustix::termios::{LocalModes, tcgetattr};

use subscope_guard::Guard;

use crate::{ChildExit, CommandRunError};

/// Signals that are forwarded to the child.
const SIGNALS: [Signal; 9] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
    Signal::SIGCONT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Time between SIGTERM and SIGKILL.
const KILL_DELAY: Duration = Duration::from_secs(10);
/// Poll interval during that time.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// First argument of the helper mode.
pub const IN_FOREGROUND: &str = "__in-foreground";
/// Polls and poll interval of a helper that waits for the terminal.
const HANDOVER_POLLS: u32 = 5_000;
const HANDOVER_POLL_INTERVAL: Duration = Duration::from_micros(200);

/// Waits until this process's group is the terminal's foreground group, then replaces the process by the command.
/// Returns only on failure.
pub fn in_foreground(words: &[OsString]) -> CommandRunError {
    let (program, arguments) =
        words.split_first().map_or((OsString::new(), words), |(it, rest)| (it.clone(), rest));
    if let Ok(terminal) = OpenOptions::new().read(true).open("/dev/tty") {
        for _ in 0..HANDOVER_POLLS {
            if tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp()) {
                break;
            }
            std::thread::sleep(HANDOVER_POLL_INTERVAL);
        }
    }
    let source = Command::new(&program).args(arguments).exec();
    CommandRunError::Start { program, source }
}

/// Returns the command wrapped in the helper.
fn wrap_in_helper(command: &Command, helper: &Path) -> Command {
    let mut wrapped = Command::new(helper);
    wrapped.arg(IN_FOREGROUND).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped
}

/// Blocked signals of this process, forwarded to the running child. Create it once, before any other thread.
#[derive(Clone, Debug)]
pub struct Signals {
    blocked: SigSet,
    before: SigSet,
    job: Arc<Mutex<Option<ChildJob>>>,
    /// Last termination signal; 0 for none.
    termination: Arc<AtomicI32>,
}

impl Signals {
    /// Blocks the signals in this thread and all threads started by it later.
    ///
    /// # Errors
    /// The system's error.
    pub fn block() -> Result<Self, CommandRunError> {
        let blocked: SigSet = SIGNALS.into_iter().collect();
        let before =
            with_terminal_signals(&blocked).thread_swap_mask(SigmaskHow::SIG_BLOCK).map_err(system_error)?;
        let signals = Self { blocked, before, job: Arc::default(), termination: Arc::default() };
        let forwarder = signals.clone();
        let build = std::thread::Builder::new().name("signals".to_owned());
        build.spawn(move || forwarder.forward()).map_err(CommandRunError::System)?;
        Ok(signals)
    }

    /// Whether this process received a termination signal.
    pub fn is_terminated(&self) -> bool {
        self.termination.load(Ordering::Acquire) != 0
    }

    fn forward(&self) {
        while let Ok(signal) = self.blocked.wait() {
            if matches!(signal, Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT) {
                self.termination.store(signal as i32, Ordering::Release);
            }
            let job = self.job.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(job) = job {
                if signal == Signal::SIGCONT && job.has_terminal.load(Ordering::Acquire) {
                    job.hand_over_terminal();
                }
                job.send(signal);
            }
        }
    }
}

/// Adds SIGTTOU and SIGTTIN, which would stop us while we take the terminal back from the background.
fn with_terminal_signals(blocked: &SigSet) -> SigSet {
    let mut all = *blocked;
    all.add(Signal::SIGTTOU);
    all.add(Signal::SIGTTIN);
    all
}

fn system_error(errno: Errno) -> CommandRunError {
    CommandRunError::System(errno.into())
}

/// A running child.
#[derive(Clone, Debug)]
pub struct ChildJob {
    group: Pid,
    own: Pid,
    terminal: Option<Arc<File>>,
    /// Whether the child gets the terminal whenever we are in the foreground.
    has_terminal: Arc<AtomicBool>,
    has_ended: Arc<AtomicBool>,
}

impl ChildJob {
    /// Starts a command. The guard ends its process group if this process is killed; drop it once the child has ended.
    ///
    /// With `helper`, a program that calls [`in_foreground`] with its other arguments if the first is
    /// [`IN_FOREGROUND`], the child becomes the foreground group of the terminal before it starts, as interactive
    /// commands must: otherwise it could access the terminal too early and be stopped, or be refused it for good.
    /// Without `helper` it does when it first accesses the terminal; until then others (a pager after us) may need it.
    ///
    /// # Errors
    /// The command cannot be started.
    pub fn start(
        mut command: Command,
        (stdout, stderr): (Stdio, Stdio),
        helper: Option<&Path>,
        signals: &Signals,
    ) -> Result<(Self, Child, Guard), CommandRunError> {
        let program = command.get_program().to_owned();
        if let Some(helper) = helper {
            command = wrap_in_helper(&command, helper);
        }
        command.process_group(0).stdout(stdout).stderr(stderr);
        let mut guard = Guard::start();
        // A child inherits the signal mask of the spawning thread.
        signals.before.thread_set_mask().map_err(system_error)?;
        let spawned = command.spawn();
        with_terminal_signals(&signals.blocked).thread_block().map_err(system_error)?;
        let child = spawned.map_err(|source| CommandRunError::Start { program, source })?;
        guard.over(&child);
        let pid = i32::try_from(child.id()).unwrap_or(i32::MAX);
        let job = Self {
            group: Pid::from_raw(pid),
            own: getpgrp(),
            terminal: OpenOptions::new().read(true).write(true).open("/dev/tty").ok().map(Arc::new),
            has_terminal: Arc::default(),
            has_ended: Arc::default(),
        };
        *signals.job.lock().unwrap_or_else(PoisonError::into_inner) = Some(job.clone());
        if helper.is_some() {
            job.hand_over_terminal();
        }
        Ok((job, child, guard))
    }

    /// Waits until the child has ended, then takes the terminal back.
    ///
    /// # Errors
    /// The system's error.
    pub fn wait(&self) -> Result<ChildExit, CommandRunError> {
        let ended = loop {
            match waitpid(self.group, Some(WaitPidFlag::WUNTRACED)) {
                Ok(WaitStatus::Exited(_, code)) => break ChildExit::Code(code),
                Ok(WaitStatus::Signaled(_, signal, _)) => break ChildExit::Signal(signal as i32),
                Ok(WaitStatus::Stopped(_, signal)) => self.handle_stop(signal),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(system_error(errno)),
            }
        };
        self.has_ended.store(true, Ordering::Release);
        self.take_back_terminal();
        Ok(ended)
    }

    /// Sends SIGTERM to the process group, and SIGKILL after a delay if needed. Returns at once.
    ///
    /// # Errors
    /// No thread is available.
    pub fn end(&self) -> Result<(), CommandRunError> {
        let job = self.clone();
        self.send(Signal::SIGTERM);
        self.send(Signal::SIGCONT);
        let wait = move || {
            for _ in 0..KILL_DELAY.as_millis() / POLL_INTERVAL.as_millis() {
                std::thread::sleep(POLL_INTERVAL);
                if job.has_ended.load(Ordering::Acquire) {
                    return;
                }
            }
            job.send(Signal::SIGKILL);
        };
        std::thread::Builder::new().name("end".to_owned()).spawn(wait).map_err(CommandRunError::System)?;
        Ok(())
    }

    /// Whether the terminal is in raw (non-canonical) mode: a full-screen program uses it.
    pub fn is_terminal_raw(&self) -> bool {
        let modes = self.terminal.as_deref().and_then(|terminal| tcgetattr(terminal).ok());
        modes.is_some_and(|modes| !modes.local_modes.contains(LocalModes::ICANON))
    }

    fn send(&self, signal: Signal) {
        // The number of an ended process may be reused.
        if !self.has_ended.load(Ordering::Acquire) {
            let _ = killpg(self.group, signal);
        }
    }

    fn handle_stop(&self, signal: Signal) {
        let wants_terminal = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
        if wants_terminal && self.foreground() == Some(self.own) {
            self.hand_over_terminal();
        }
        if wants_terminal && self.foreground() == Some(self.group) {
            return self.send(Signal::SIGCONT);
        }
        // An orphaned process group cannot be stopped from the terminal: no shell could continue it.
        let is_orphaned = getsid(None).is_ok_and(|session| session == self.own);
        if self.terminal.is_none() || is_orphaned {
            if signal == Signal::SIGTSTP && is_orphaned {
                self.send(Signal::SIGCONT);
            }
            return;
        }
        self.take_back_terminal();
        let _ = killpg(self.own, Signal::SIGSTOP);
    }

    fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(self.terminal.as_deref()?).ok()
    }

    /// Makes the child's group the foreground group, if ours is.
    fn hand_over_terminal(&self) {
        let Some(terminal) = self.terminal.as_deref() else { return };
        if self.foreground() == Some(self.own) && tcsetpgrp(terminal, self.group).is_ok() {
            self.has_terminal.store(true, Ordering::Release);
        }
    }

    fn take_back_terminal(&self) {
        let Some(terminal) = self.terminal.as_deref() else { return };
        if self.foreground() == Some(self.group) {
            let _ = tcsetpgrp(terminal, self.own);
        }
    }
}
