//! Copies the child's output: to our output first, then to a file, then to a tap.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::AsFd,
    sync::atomic::AtomicBool,
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, poll};
use subscope_guard::read_pipe;
use subscope_harness::PlainOutput;

/// Read size; the pipe is enlarged to the same.
const BUFFER_BYTES: usize = 256 << 10;
/// How long a silent pipe is still read after the child ended, for the last output of its own children. A background
/// child that holds the pipe open does not delay us further.
const LINGER: Duration = Duration::from_millis(300);

/// Destination of the output.
#[derive(Debug)]
pub enum Outlet {
    /// Our output, unchanged.
    Bytes(File),
    /// Our output, unchanged, after the tap has it: an answer to it is then tapped later than it is.
    AfterTap(File),
    /// Our standard error, unchanged. Write errors other than a closed pipe are ignored, as programs do with their
    /// messages.
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

/// Copies until the pipe ends, or `has_ended` is set and the pipe is silent, or our output cannot be written: then the
/// pipe is closed, so that the child gets SIGPIPE.
pub fn copy_output(
    input: impl Read + AsFd,
    mut outlet: Outlet,
    mut log: Option<File>,
    has_ended: &AtomicBool,
    mut tap: impl FnMut(&[u8]),
) -> PassthroughResult {
    let mut result = PassthroughResult::default();
    let (mut text, mut is_closed) = (Vec::new(), false);
    // A read error counts as end of file.
    let _ = read_pipe(input, BUFFER_BYTES, LINGER, has_ended, |bytes| {
        let Some(bytes) = bytes else { return true };
        result.bytes += bytes.len() as u64;
        let taps_first = matches!(outlet, Outlet::AfterTap(_));
        if taps_first {
            tap(bytes);
        }
        let written = match &mut outlet {
            Outlet::Bytes(out) | Outlet::AfterTap(out) | Outlet::Messages(out) => write_all(out, bytes),
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
        if !taps_first {
            tap(bytes);
        }
        let Err(error) = written else { return true };
        is_closed = error.kind() == io::ErrorKind::BrokenPipe || !matches!(outlet, Outlet::Messages(_));
        result.failure.get_or_insert(error);
        if !is_closed {
            outlet = Outlet::Nowhere;
        }
        !is_closed
    });
    if let Outlet::Plain(out, plain) = &mut outlet
        && !is_closed
    {
        text.clear();
        plain.finish(&mut text);
        result.failure = write_all(out, &text).err();
    }
    result
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
