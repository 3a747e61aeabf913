//! The child process of a run: start, pipes, end.

use std::{
    io::{self, Read, Write},
    os::{fd::AsFd, unix::process::CommandExt},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use rustix::process::Pid;
use subscope_guard::{Guard, read_pipe};
use tokio::sync::oneshot;

use super::{command::CommandLine, output_reader::RunIdentity, process_group, tail::TextTail};

/// Read buffer: the capacity of a pipe.
const CHUNK_BYTES: usize = 64 << 10;
/// Poll interval of a reader, to notice the end of the run.
const POLL: Duration = Duration::from_millis(100);
/// Most bytes read after the end of a run: more than a pipe's capacity, so that everything written before the end is
/// read.
const MAX_LATE_BYTES: usize = 2 << 20;
/// Bytes of the child's stderr to keep, from its end.
const STDERR_BYTES: usize = 16 << 10;

/// A running child process, leader of its own process group.
pub(super) struct ChildProcess {
    child: Child,
    pub(super) pid: Pid,
    /// The child's stdout, until taken.
    pub(super) stdout: Option<ChildStdout>,
    /// Signaled when the child has exited.
    pub(super) ended: oneshot::Receiver<()>,
    stderr: Option<thread::JoinHandle<TextTail>>,
    /// Set when the readers are to stop.
    pub(super) is_over: Arc<AtomicBool>,
    /// Dropped with the child, after its processes have ended.
    _guard: Guard,
}

impl ChildProcess {
    /// Starts the child, and threads that write its stdin, read its stderr and wait for its exit.
    pub(super) fn start(line: CommandLine, run: &RunIdentity) -> io::Result<Self> {
        let mut command = Command::new(&line.program);
        command
            .args(&line.arguments)
            .env("SUBSCOPE_PARENT_RUN_ID", &run.id)
            .env("SUBSCOPE_DEPTH", run.depth.to_string())
            .stdin(if line.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut guard = Guard::start();
        let child = command.spawn()?;
        let pid = Pid::from_child(&child);
        guard.over(&child);
        let (exited, ended) = oneshot::channel();
        let mut running =
            Self { child, pid, stdout: None, ended, stderr: None, is_over: Arc::default(), _guard: guard };
        match running.start_threads(line.stdin, exited) {
            Ok(()) => Ok(running),
            Err(error) => {
                // A thread could not be started: the child's output would not be read.
                let _ = running.child.kill();
                let _ = running.child.wait();
                Err(error)
            }
        }
    }

    /// Starts the threads that write the prompt, read stderr, and wait for the exit.
    fn start_threads(&mut self, prompt: Option<String>, exited: oneshot::Sender<()>) -> io::Result<()> {
        let thread_named = |name: &str| thread::Builder::new().name(name.to_owned());
        if let (Some(mut pipe), Some(text)) = (self.child.stdin.take(), prompt) {
            thread_named("prompt").spawn(move || {
                // A child may ignore its stdin.
                let _ = pipe.write_all(text.as_bytes());
            })?;
        }
        self.stdout = self.child.stdout.take();
        let (stderr, is_over) = (self.child.stderr.take(), Arc::clone(&self.is_over));
        self.stderr = Some(thread_named("stderr").spawn(move || {
            let mut tail = TextTail::new(STDERR_BYTES);
            if let Some(pipe) = stderr {
                read_output(pipe, &is_over, |bytes| {
                    tail.push(bytes.unwrap_or_default());
                    true
                });
            }
            tail
        })?);
        let pid = self.pid;
        thread_named("wait").spawn(move || {
            process_group::wait(pid);
            let _ = exited.send(());
        })?;
        Ok(())
    }

    /// Makes the readers stop once the pipes are empty: a process that outlived the run may keep them open.
    pub(super) fn stop_waiting(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Terminates the remaining processes of the run; see [`process_group::end`].
    pub(super) async fn end(&self, grace: Duration) {
        process_group::end(self.pid, grace).await;
    }

    /// Reaps the child, which must have exited; returns its status and the end of its stderr.
    pub(super) fn reap(mut self) -> (io::Result<ExitStatus>, String) {
        let status = self.child.wait();
        let stderr = self.stderr.take().and_then(|thread| thread.join().ok()).map(|tail| tail.text());
        (status, stderr.unwrap_or_default())
    }
}

/// Reads a pipe of the child until end of file, until the run has ended and the pipe is empty, or until `take` returns
/// `false`. `take` gets `None` when the pipe was silent for one poll interval.
pub(super) fn read_output(
    pipe: impl Read + AsFd,
    is_over: &AtomicBool,
    mut take: impl FnMut(Option<&[u8]>) -> bool,
) {
    let mut late = 0;
    // A read error counts as end of file.
    let _ = read_pipe(pipe, CHUNK_BYTES, POLL, is_over, |bytes| {
        late += if is_over.load(Ordering::Acquire) { bytes.map_or(0, <[u8]>::len) } else { 0 };
        take(bytes) && late <= MAX_LATE_BYTES
    });
}
