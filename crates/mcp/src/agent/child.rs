//! The process of a run: its start, its pipes, its end.

use std::{
    io::{self, Read, Write},
    os::{fd::AsFd, unix::process::CommandExt},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::Pid,
};
use tokio::sync::oneshot;

use subscope_guard::Guard;

use super::{command::CommandLine, process_group, tail::Tail};

/// What is read at once: a pipe's whole content.
const CHUNK_BYTES: usize = 64 << 10;
/// How often a reader without anything to read looks whether there will be any more.
const LOOK: Duration = Duration::from_millis(100);
/// How much is still read once a run is over: more than a pipe holds, so that only what comes later is missed.
const LATE_BYTES: usize = 2 << 20;
/// How much of what a child says on stderr is kept.
const STDERR_BYTES: usize = 16 << 10;

/// What is passed down to children.
pub(super) struct Passed<'a> {
    pub(super) run_id: &'a str,
    pub(super) depth: u32,
}

/// A child that runs, in a process group of its own.
pub(super) struct Running {
    child: Child,
    pub(super) pid: Pid,
    /// What it prints.
    pub(super) stdout: Option<Pipe<std::process::ChildStdout>>,
    /// Told when it has ended by itself.
    pub(super) ended: oneshot::Receiver<()>,
    stderr: Option<thread::JoinHandle<Tail>>,
    is_over: Arc<AtomicBool>,
    /// Dropped with it: when its processes have ended.
    _guard: Guard,
}

impl Running {
    /// Starts a child; its prompt is written to it by a thread of its own.
    pub(super) fn start(line: CommandLine, passed: &Passed<'_>) -> io::Result<Self> {
        let mut command = Command::new(&line.program);
        command
            .args(&line.arguments)
            .env("SUBSCOPE_PARENT_RUN_ID", passed.run_id)
            .env("SUBSCOPE_DEPTH", passed.depth.to_string())
            .stdin(if line.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut guard = Guard::start();
        let child = command.spawn()?;
        let pid = Pid::from_child(&child);
        guard.over(&child);
        let (tell, ended) = oneshot::channel();
        let mut running =
            Self { child, pid, stdout: None, ended, stderr: None, is_over: Arc::default(), _guard: guard };
        match running.attend(line.stdin, tell) {
            Ok(()) => Ok(running),
            Err(error) => {
                // Nobody would read what it prints.
                let _ = running.child.kill();
                let _ = running.child.wait();
                Err(error)
            }
        }
    }

    /// Begins to write its prompt, to read its stderr, and to wait for its end.
    fn attend(&mut self, prompt: Option<String>, tell: oneshot::Sender<()>) -> io::Result<()> {
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        if let (Some(mut pipe), Some(text)) = (self.child.stdin.take(), prompt) {
            named("prompt").spawn(move || {
                // A child that does not read its prompt knows what to do without.
                let _ = pipe.write_all(text.as_bytes());
            })?;
        }
        self.stdout = self.child.stdout.take().map(|pipe| Pipe { pipe, is_over: Arc::clone(&self.is_over) });
        let stderr = self.child.stderr.take().map(|pipe| Pipe { pipe, is_over: Arc::clone(&self.is_over) });
        self.stderr = Some(named("stderr").spawn(move || {
            let mut tail = Tail::new(STDERR_BYTES);
            if let Some(mut pipe) = stderr {
                let _ = pipe.read_all(&mut |heard| {
                    if let Heard::Bytes(bytes) = heard {
                        tail.push(bytes);
                    }
                    true
                });
            }
            tail
        })?);
        let pid = self.pid;
        named("wait").spawn(move || {
            process_group::wait(pid);
            let _ = tell.send(());
        })?;
        Ok(())
    }

    /// Says that nothing more is waited for: what its pipes hold is read, and not what a stranger may still write to them.
    pub(super) fn is_over(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Ends whatever is left of it.
    pub(super) async fn end(&self, grace: Duration) {
        process_group::end(self.pid, grace).await;
    }

    /// Waits for it, which must have ended, and returns how, with the last that it said on stderr.
    pub(super) fn reap(mut self) -> (io::Result<ExitStatus>, String) {
        let status = self.child.wait();
        let said = self.stderr.take().and_then(|thread| thread.join().ok()).map(|tail| tail.text());
        (status, said.unwrap_or_default())
    }
}

/// What reading gave.
pub(super) enum Heard<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// Nothing for a while.
    Nothing,
}

/// A pipe that a child writes to.
pub(super) struct Pipe<P> {
    pipe: P,
    is_over: Arc<AtomicBool>,
}

impl<P: Read + AsFd> Pipe<P> {
    /// Reads until nobody writes to it any more, or nobody of the child does and it is empty, or `take` has had enough.
    pub(super) fn read_all(&mut self, take: &mut dyn FnMut(Heard<'_>) -> bool) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK_BYTES];
        let wait = Timespec::try_from(LOOK).ok();
        let mut late = 0;
        loop {
            // Asked first: what was written before the end is read.
            let is_over = self.is_over.load(Ordering::Acquire);
            if late > LATE_BYTES {
                return Ok(());
            }
            let ready = match poll(&mut [PollFd::new(&self.pipe, PollFlags::IN)], wait.as_ref()) {
                Ok(count) => count > 0,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            if !ready {
                if is_over || !take(Heard::Nothing) {
                    return Ok(());
                }
                continue;
            }
            match self.pipe.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    late += if is_over { count } else { 0 };
                    if !take(Heard::Bytes(buffer.get(..count).unwrap_or_default())) {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
