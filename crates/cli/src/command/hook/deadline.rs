//! Blocking I/O with a deadline, by `poll` on one thread.

use std::{
    io::{self, IoSlice, Read, Write},
    path::Path,
    time::{Duration, Instant},
};

use subscope_client::connect_socket;
use subscope_hub::clock;
use subscope_platform::{LocalStream, Pollable, Readiness};

/// Deadline of all I/O of a hook.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollDeadline(Instant);

impl PollDeadline {
    pub(crate) fn after(time: Duration) -> Self {
        Self(clock::tick() + time)
    }

    /// Returns the remaining time.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] once it has passed.
    pub(crate) fn left(self) -> io::Result<Duration> {
        let left = self.0.saturating_duration_since(clock::tick());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    /// Waits until a file is ready.
    fn wait(self, with: &impl Pollable, what: Readiness) -> io::Result<()> {
        while !with.wait_ready(what, self.left()?)? {}
        Ok(())
    }
}

/// A file of which reads and writes time out at the deadline.
#[derive(Debug)]
pub(crate) struct DeadlineIo<T> {
    file: T,
    deadline: PollDeadline,
}

impl<T> DeadlineIo<T> {
    pub(crate) fn new(file: T, deadline: PollDeadline) -> Self {
        Self { file, deadline }
    }
}

impl<T: Read + Pollable> Read for DeadlineIo<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.deadline.wait(&self.file, Readiness::Readable)?;
        self.file.read(buffer)
    }
}

impl<T: Write + Pollable> Write for DeadlineIo<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        loop {
            match self.file.write_vectored(parts) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.deadline.wait(&self.file, Readiness::Writable)?;
                }
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Connects to a hub's local socket, before the deadline. The stream is non-blocking.
pub(super) fn connect(path: &Path, deadline: PollDeadline) -> io::Result<LocalStream> {
    let stream = connect_socket(path, deadline.left()?)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}
