//! Reads and writes that are given up at a moment: the process is asked to wait no longer, whoever it waits for.

use std::{
    io::{self, IoSlice, Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    path::Path,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use subscope_client::connect_socket;
use subscope_hub::clock;

/// A moment after which nothing is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Instant);

impl Deadline {
    pub(super) fn after(time: Duration) -> Self {
        Self(clock::tick() + time)
    }

    /// How long it is until then.
    ///
    /// # Errors
    /// That it is over.
    pub(super) fn left(self) -> io::Result<Duration> {
        let left = self.0.saturating_duration_since(clock::tick());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    /// Waits until something can be done.
    fn wait(self, with: impl AsFd, what: PollFlags) -> io::Result<()> {
        loop {
            let left = Timespec::try_from(self.left()?).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(&with, what)], Some(&left)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A file that is waited for until the deadline.
#[derive(Debug)]
pub(super) struct Patient<T> {
    file: T,
    deadline: Deadline,
}

impl<T> Patient<T> {
    pub(super) fn new(file: T, deadline: Deadline) -> Self {
        Self { file, deadline }
    }
}

impl<T: Read + AsFd> Read for Patient<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.deadline.wait(&self.file, PollFlags::IN)?;
        self.file.read(buffer)
    }
}

impl<T: Write + AsFd> Write for Patient<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        loop {
            match self.file.write_vectored(parts) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.deadline.wait(&self.file, PollFlags::OUT)?;
                }
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Connects to a Unix socket. The stream never blocks.
pub(super) fn connect(path: &Path, deadline: Deadline) -> io::Result<UnixStream> {
    let stream = connect_socket(path, deadline.left()?)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}
