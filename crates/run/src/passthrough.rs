//! The child's output on its way: out first, then into a file, then to who reads along.

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

/// What is read at once: as much as the pipe is asked to hold.
const PIECE_BYTES: usize = 256 << 10;
/// How long a silent pipe is still read after the child has ended: what its own children print in their last moments. One that
/// stays in the background keeps nobody waiting.
const LINGER: Timespec = Timespec { tv_sec: 0, tv_nsec: 300_000_000 };

/// Where the bytes go.
#[derive(Debug)]
pub enum Outlet {
    /// Out, as they are.
    Bytes(File),
    /// Out, as they are. A program seldom looks whether its messages can be written: where ours cannot, it goes on.
    Messages(File),
    /// Out, as the program would have printed without the flags that were added.
    Plain(File, Box<dyn PlainOutput>),
    /// Nowhere: something else is printed in their place.
    Nowhere,
}

/// What became of the bytes.
#[derive(Debug, Default)]
pub struct Passed {
    /// How many there were.
    pub bytes: u64,
    /// Why our output could not be written to its end: that whoever read it has left, or something else.
    pub failure: Option<io::Error>,
    /// Whether the file could not be written to its end.
    pub is_unlogged: bool,
}

/// Asks the system for a bigger pipe: fewer turns for as many bytes. One as small as ever does as well.
pub fn widen(pipe: &impl AsFd) {
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIECE_BYTES);
    #[cfg(not(target_os = "linux"))]
    let _ = pipe;
}

/// Passes everything on until the pipe ends, or `has_ended` is set and nothing comes any more, or our output cannot be written:
/// then the pipe is closed, and the child learns that nobody reads what it prints.
pub fn pass(
    mut input: impl Read + AsFd,
    mut outlet: Outlet,
    mut log: Option<File>,
    has_ended: &Arc<AtomicBool>,
    mut along: impl FnMut(&[u8]),
) -> Passed {
    let mut passed = Passed::default();
    let mut buffer = vec![0; PIECE_BYTES];
    let mut text = Vec::new();
    while is_readable(input.as_fd(), has_ended) {
        let bytes = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => buffer.get(..count).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        passed.bytes += bytes.len() as u64;
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
            passed.is_unlogged = true;
        }
        along(bytes);
        if let Err(error) = written {
            let has_reader = error.kind() != io::ErrorKind::BrokenPipe;
            passed.failure.get_or_insert(error);
            if has_reader && matches!(outlet, Outlet::Messages(_)) {
                outlet = Outlet::Nowhere;
                continue;
            }
            return passed;
        }
    }
    if let Outlet::Plain(out, plain) = &mut outlet {
        text.clear();
        plain.finish(&mut text);
        passed.failure = write_all(out, &text).err();
    }
    passed
}

/// Waits until there is something to read. Returns whether that is worth while.
fn is_readable(input: BorrowedFd<'_>, has_ended: &AtomicBool) -> bool {
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

/// Writes everything, also to a file that somebody else has made to fail where it would wait.
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
