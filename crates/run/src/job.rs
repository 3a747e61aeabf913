//! The child as a job: its process group, the terminal, signals, how it ended.
//!
//! The child leads a process group of its own, so that it can be stopped as a whole. A terminal has one group in its
//! foreground: where ours is that, the child's becomes it, at once for what looks interactive, else when it first asks
//! for the terminal (it is then stopped by the system, which we see). What is sent to us goes on to the child. When it
//! stops we stop, so that the shell sees one job; when we go on it goes on.
//!
//! Signals are blocked in every thread and waited for by one: no handler, nothing to do at a bad moment.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
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

use crate::RunError;

/// What is sent to us and meant for the child.
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

/// How long a child that was told to end may take until it is killed.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// How often is looked whether it has ended by then.
const LOOK: Duration = Duration::from_millis(50);

/// When the child gets the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handover {
    /// Before it begins: it is what the person at the terminal works with. Where it asked for the terminal in the moment before
    /// it has it, it would be stopped, or be refused it for good.
    AtOnce {
        /// A program that calls [`in_foreground`] with the rest of its words when the first of them is [`IN_FOREGROUND`].
        helper: PathBuf,
    },
    /// When it asks for it: others (a pager behind us) may need it meanwhile.
    WhenAsked,
}

/// Which of its streams are read; the others are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    /// Standard output.
    pub pipes_stdout: bool,
    /// Standard error.
    pub pipes_stderr: bool,
}

/// The word by which a helper knows what it is to do.
pub const IN_FOREGROUND: &str = "__in-foreground";
/// How long a helper waits for the terminal, and how often it looks.
const HANDOVER_LIMIT: u32 = 5_000;
const HANDOVER_LOOK: Duration = Duration::from_micros(200);

/// Waits until this process's group is in the foreground of its terminal, and becomes the command. Returns why it cannot.
pub fn in_foreground(words: &[OsString]) -> RunError {
    let (program, arguments) =
        words.split_first().map_or((OsString::new(), words), |(it, rest)| (it.clone(), rest));
    if let Ok(terminal) = OpenOptions::new().read(true).open("/dev/tty") {
        for _ in 0..HANDOVER_LIMIT {
            if tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp()) {
                break;
            }
            std::thread::sleep(HANDOVER_LOOK);
        }
    }
    let source = Command::new(&program).args(arguments).exec();
    RunError::Start { program, source }
}

/// The same command, started by a helper.
fn wrapped(command: &Command, helper: &Path) -> Command {
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

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl Ended {
    /// The exit code that says so: 128 and the number after a signal.
    pub fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(number) => 128 + number,
        }
    }

    /// Returns how a child would have ended that writes to our output itself, where that failed: by SIGPIPE where its reader
    /// had left, else with 1. A pipe between us takes what it prints last, so that it does not learn of that. One that ended in
    /// another way has its own reason.
    #[must_use]
    pub fn with_output(self, failure: Option<&io::Error>) -> Self {
        let Some(error) = failure else { return self };
        let by_pipe = Self::Signal(Signal::SIGPIPE as i32);
        match error.kind() {
            io::ErrorKind::BrokenPipe if self == Self::Code(0) => by_pipe,
            io::ErrorKind::BrokenPipe => self,
            // We close the pipe, which is what it then ends by; a shell says so with a code.
            _ if self.code() == 0 || self.code() == by_pipe.code() => Self::Code(1),
            _ => self,
        }
    }
}

/// Signals of this process, held back from their usual effect and passed on to the child that runs. Made once, before any
/// other thread.
#[derive(Clone, Debug)]
pub struct Signals {
    held: SigSet,
    before: SigSet,
    job: Arc<Mutex<Option<Job>>>,
    /// The last signal that asks a program to end; 0 for none.
    told: Arc<AtomicI32>,
}

impl Signals {
    /// Holds them back in this thread and all that it starts from now on.
    ///
    /// # Errors
    /// What the system says.
    pub fn hold() -> Result<Self, RunError> {
        let held: SigSet = SIGNALS.into_iter().collect();
        let before = all_of(&held).thread_swap_mask(SigmaskHow::SIG_BLOCK).map_err(system)?;
        let signals = Self { held, before, job: Arc::default(), told: Arc::default() };
        let waiting = signals.clone();
        let build = std::thread::Builder::new().name("signals".to_owned());
        build.spawn(move || waiting.pass_on()).map_err(RunError::System)?;
        Ok(signals)
    }

    /// Whether somebody asked this process to end, by a signal.
    pub fn asked_to_end(&self) -> bool {
        self.told.load(Ordering::Acquire) != 0
    }

    fn pass_on(&self) {
        while let Ok(signal) = self.held.wait() {
            if matches!(signal, Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT) {
                self.told.store(signal as i32, Ordering::Release);
            }
            let job = self.job.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(job) = job {
                if signal == Signal::SIGCONT && job.has_terminal.load(Ordering::Acquire) {
                    job.hand_over();
                }
                job.send(signal);
            }
        }
    }
}

/// Also those by which the system keeps a group in the background from the terminal: whoever takes it back is in the background.
fn all_of(held: &SigSet) -> SigSet {
    let mut all = *held;
    all.add(Signal::SIGTTOU);
    all.add(Signal::SIGTTIN);
    all
}

fn system(errno: Errno) -> RunError {
    RunError::System(errno.into())
}

/// A running child.
#[derive(Clone, Debug)]
pub struct Job {
    group: Pid,
    own: Pid,
    terminal: Option<Arc<File>>,
    /// Whether the terminal is the child's whenever we are in its foreground.
    has_terminal: Arc<AtomicBool>,
    has_ended: Arc<AtomicBool>,
}

impl Job {
    /// Starts a command; its working folder is ours. The guard ends its process group where this process is killed, and is to be
    /// dropped once the child has ended.
    ///
    /// # Errors
    /// That it cannot be started.
    pub fn start(
        mut command: Command,
        streams: Streams,
        handover: Handover,
        signals: &Signals,
    ) -> Result<(Self, Child, Guard), RunError> {
        let program = command.get_program().to_owned();
        if let Handover::AtOnce { helper } = &handover {
            command = wrapped(&command, helper);
        }
        command.process_group(0);
        if streams.pipes_stdout {
            command.stdout(Stdio::piped());
        }
        if streams.pipes_stderr {
            command.stderr(Stdio::piped());
        }
        let mut guard = Guard::start();
        // A child inherits what its parent's thread holds back.
        signals.before.thread_set_mask().map_err(system)?;
        let spawned = command.spawn();
        all_of(&signals.held).thread_block().map_err(system)?;
        let child = spawned.map_err(|source| RunError::Start { program, source })?;
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
        if handover != Handover::WhenAsked {
            job.hand_over();
        }
        Ok((job, child, guard))
    }

    /// Waits until the child has ended, and takes the terminal back.
    ///
    /// # Errors
    /// What the system says.
    pub fn wait(&self) -> Result<Ended, RunError> {
        let ended = loop {
            match waitpid(self.group, Some(WaitPidFlag::WUNTRACED)) {
                Ok(WaitStatus::Exited(_, code)) => break Ended::Code(code),
                Ok(WaitStatus::Signaled(_, signal, _)) => break Ended::Signal(signal as i32),
                Ok(WaitStatus::Stopped(_, signal)) => self.stopped_by(signal),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(system(errno)),
            }
        };
        self.has_ended.store(true, Ordering::Release);
        self.take_back();
        Ok(ended)
    }

    /// Tells the child and all of its group to end, and kills what has not after a while. Returns at once.
    ///
    /// # Errors
    /// Where there is no thread to wait on.
    pub fn end(&self) -> Result<(), RunError> {
        let job = self.clone();
        self.send(Signal::SIGTERM);
        self.send(Signal::SIGCONT);
        let wait = move || {
            for _ in 0..LAST_WORDS.as_millis() / LOOK.as_millis() {
                std::thread::sleep(LOOK);
                if job.has_ended.load(Ordering::Acquire) {
                    return;
                }
            }
            job.send(Signal::SIGKILL);
        };
        std::thread::Builder::new().name("end".to_owned()).spawn(wait).map_err(RunError::System)?;
        Ok(())
    }

    /// Whether somebody draws on the terminal: it gives keys as they are typed, and not lines.
    pub fn is_drawn_on(&self) -> bool {
        let modes = self.terminal.as_deref().and_then(|terminal| tcgetattr(terminal).ok());
        modes.is_some_and(|modes| !modes.local_modes.contains(LocalModes::ICANON))
    }

    fn send(&self, signal: Signal) {
        // A number of a process that has ended may be another's.
        if !self.has_ended.load(Ordering::Acquire) {
            let _ = killpg(self.group, signal);
        }
    }

    fn stopped_by(&self, signal: Signal) {
        let wants_terminal = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
        if wants_terminal && self.foreground() == Some(self.own) {
            self.hand_over();
        }
        if wants_terminal && self.foreground() == Some(self.group) {
            return self.send(Signal::SIGCONT);
        }
        // A group of which nobody in the session is the parent cannot be stopped from the terminal: nobody could let it go on.
        let is_orphaned = getsid(None).is_ok_and(|session| session == self.own);
        if self.terminal.is_none() || is_orphaned {
            if signal == Signal::SIGTSTP && is_orphaned {
                self.send(Signal::SIGCONT);
            }
            return;
        }
        self.take_back();
        let _ = killpg(self.own, Signal::SIGSTOP);
    }

    fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(self.terminal.as_deref()?).ok()
    }

    /// Makes the child's group the foreground one, where ours is that.
    fn hand_over(&self) {
        let Some(terminal) = self.terminal.as_deref() else { return };
        if self.foreground() == Some(self.own) && tcsetpgrp(terminal, self.group).is_ok() {
            self.has_terminal.store(true, Ordering::Release);
        }
    }

    fn take_back(&self) {
        let Some(terminal) = self.terminal.as_deref() else { return };
        if self.foreground() == Some(self.group) {
            let _ = tcsetpgrp(terminal, self.own);
        }
    }
}
