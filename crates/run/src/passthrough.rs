//! Copies the child's output: to our output first, then to a file, then to a tap.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use subscope_harness::PlainOutput;

/// Read size; the pipe is enlarged to the same.
const BUFFER_BYTES: usize = 256 << 10;
/// How long a silent pipe is still read after the child ended, for the last output of its own children. A background child that holds
/// the pipe open does not delay us further.
const LINGER: Timespec = Timespec { tv_sec: 0, tv_nsec: 300_000_000 };

/// Destination of the output.
#[derive(Debug)]
pub enum Outlet {
    /// Our output, unchanged.
    Bytes(File),
    /// Our standard error, unchanged. Write errors other than a closed pipe are ignored, as programs do with their messages.
    Messages(File),
    /// Our output, converted to what the program prints without the flags that we added.
    Plain(File, Box<dyn PlainOutput>),
    /// Discarded, because we print something else.
    Nowhere,
}

/// Result of copying.
#[derive(Debug, Default)]
pub struct PassthroughResult {
    /// Bytes read.
    pub bytes: u64,
    /// First error of writing to our output, e.g. a closed pipe.
    pub failure: Option<io::Error>,
    /// Whether the file is incomplete.
    pub is_unlogged: bool,
}

/// Enlarges a pipe if possible, for fewer reads.
pub fn widen(pipe: &impl AsFd) {
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, BUFFER_BYTES);
    #[cfg(not(target_os = "linux"))]
    let _ = pipe;
}

/// Copies until the pipe ends, or `has_ended` is set and the pipe is silent, or our output cannot be written: then the pipe is closed,
/// so that the child gets SIGPIPE.
pub fn copy_output(
    mut input: impl Read + AsFd,
    mut outlet: Outlet,
    mut log: Option<File>,
    has_ended: &Arc<AtomicBool>,
    mut tap: impl FnMut(&[u8]),
) -> PassthroughResult {
    let mut result = PassthroughResult::default();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut text = Vec::new();
    while wait_readable(input.as_fd(), has_ended) {
        let bytes = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => buffer.get(..count).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        result.bytes += bytes.len() as u64;
        let written = match &mut outlet {
            Outlet::Bytes(out) | Outlet::Messages(out) => write_all(out, bytes),
            Outlet::Plain(out, plain) => {
                text.clear();
                plain.push(bytes, &mut text);
                write_all(out, &text)
            }
            Outlet::Nowhere => Ok(()),
        };
        if let Some(file) = &mut log
            && file.write_all(bytes).is_err()
        {
            log = None;
            result.is_unlogged = true;
        }
        tap(bytes);
        if let Err(error) = written {
            let has_reader = error.kind() != io::ErrorKind::BrokenPipe;
            result.failure.get_or_insert(error);
            if has_reader && matches!(outlet, Outlet::Messages(_)) {
                outlet = Outlet::Nowhere;
                continue;
            }
            return result;
        }
    }
    if let Outlet::Plain(out, plain) = &mut outlet {
        text.clear();
        plain.finish(&mut text);
        result.failure = write_all(out, &text).err();
    }
    result
}

/// Waits for input; returns `false` if the child ended and the pipe stayed silent.
fn wait_readable(input: BorrowedFd<'_>, has_ended: &AtomicBool) -> bool {
    loop {
        let was_over = has_ended.load(Ordering::Acquire);
        let mut fds = [PollFd::from_borrowed_fd(input, PollFlags::IN)];
        match poll(&mut fds, Some(&LINGER)) {
            Ok(0) if was_over => return false,
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => return true,
        }
    }
}

/// Writes all bytes, also to a file that another process made non-blocking.
fn write_all(out: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut fds = [PollFd::from_borrowed_fd(out.as_fd(), PollFlags::OUT)];
                poll(&mut fds, None)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
