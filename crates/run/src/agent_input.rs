//! The standard input of an agent that speaks the Agent Client Protocol: what its client writes, unchanged, and whole
//! messages of ours between two of the client's.

use std::{
    fs::File,
    io::{self, Write},
    process::ChildStdin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nix::unistd::dup2_stdin;
use subscope_guard::read_pipe;
use subscope_harness::acp::{Peer, StoppableChild};

use crate::ConnectionTap;

/// Read size.
const BUFFER_BYTES: usize = 64 << 10;
/// How long a silent client is waited for between two looks whether the agent has ended.
const SILENCE: Duration = Duration::from_millis(300);
/// Interval of asking whether a user wants an agent to stop.
const STOP_POLL: Duration = Duration::from_millis(500);

/// The input of an agent.
#[derive(Clone, Debug)]
pub struct AgentInput(Arc<Mutex<InputState>>);

#[derive(Debug)]
struct InputState {
    /// `None` once it is closed.
    pipe: Option<ChildStdin>,
    /// Whether the client has written a line in part.
    is_inside_line: bool,
    /// Messages of ours that wait for the end of that line.
    waiting: Vec<u8>,
}

impl InputState {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Self { pipe: Some(pipe), is_inside_line, waiting } = self else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let end = memchr::memrchr(b'\n', bytes).map(|at| at + 1);
        match end.filter(|_| !waiting.is_empty()) {
            Some(end) => {
                let (whole, rest) = bytes.split_at(end);
                pipe.write_all(whole)?;
                pipe.write_all(&std::mem::take(waiting))?;
                pipe.write_all(rest)?;
            }
            None => pipe.write_all(bytes)?,
        }
        *is_inside_line = if end.is_some() { end != Some(bytes.len()) } else { true };
        Ok(())
    }
}

impl AgentInput {
    /// Takes the pipe to the agent.
    pub fn new(pipe: ChildStdin) -> Self {
        Self(Arc::new(Mutex::new(InputState {
            pipe: Some(pipe),
            is_inside_line: false,
            waiting: Vec::new(),
        })))
    }

    /// Copies what the client writes, until it ends, or the agent does; then closes the agent's input. If the agent reads no
    /// more, neither do we: the client gets the same error as without us.
    pub fn copy(&self, client: File, has_ended: &AtomicBool, tap: &ConnectionTap) {
        let mut is_closed = false;
        // A read error counts as end of file.
        let _ = read_pipe(client, BUFFER_BYTES, SILENCE, has_ended, |bytes| {
            let Some(bytes) = bytes else { return true };
            tap.push(Peer::Client, bytes);
            is_closed = self.lock().write(bytes).is_err();
            !is_closed
        });
        tap.finish(Peer::Client);
        self.lock().pipe = None;
        if is_closed && let Ok(nothing) = File::open("/dev/null") {
            // Ours is the last one that holds the client's pipe open.
            let _ = dup2_stdin(nothing);
        }
    }

    /// Asks until the agent has ended whether a user wants one of its agents to stop, and passes that on. `is_asked` may take
    /// long: nobody waits for it.
    pub fn pass_stops(
        &self,
        tap: &ConnectionTap,
        has_ended: &AtomicBool,
        mut is_asked: impl FnMut(&StoppableChild) -> bool,
    ) {
        while !has_ended.load(Ordering::Acquire) {
            std::thread::sleep(STOP_POLL);
            for child in tap.stoppable() {
                if is_asked(&child) {
                    let line = child.cancel_line();
                    tap.push_cancel(&child, line.as_bytes());
                    self.send(line.as_bytes());
                }
            }
        }
    }

    /// Writes a whole line, once the client is not in the middle of one.
    fn send(&self, line: &[u8]) {
        let mut state = self.lock();
        state.waiting.extend_from_slice(line);
        let InputState { pipe: Some(pipe), is_inside_line: false, waiting } = &mut *state else { return };
        // If the agent reads no more, the client is the one that notices.
        let _ = pipe.write_all(&std::mem::take(waiting));
    }

    fn lock(&self) -> MutexGuard<'_, InputState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read,
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn a_message_of_ours_is_never_inside_one_of_the_clients() {
        let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = AgentInput::new(cat.stdin.take().unwrap());
        let write = |text: &str| input.lock().write(text.as_bytes()).unwrap();
        input.send(b"first\n");
        write("{\"half\":");
        input.send(b"second\n");
        input.send(b"third\n");
        write(" of it");
        write("}\r\n{\"next\":1}\n{\"again");
        write("\":2}\n");
        input.send(b"last\n");
        input.lock().pipe = None;
        let mut text = String::new();
        cat.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        cat.wait().unwrap();
        assert_eq!(text, "first\n{\"half\": of it}\r\n{\"next\":1}\nsecond\nthird\n{\"again\":2}\nlast\n");
    }
}
