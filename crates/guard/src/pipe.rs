//! Reads the pipe of a child, which other processes may hold open after the child has ended.

use std::{
    io::{self, Read},
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

/// Reads until end of file, until `is_over` is set and the pipe is silent, or until `take` returns `false`. `take` gets
/// `None` if nothing arrives within `silence`.
///
/// # Errors
/// The pipe cannot be read.
pub fn read_pipe(
    mut pipe: impl Read + AsFd,
    buffer_bytes: usize,
    silence: Duration,
    is_over: &AtomicBool,
    mut take: impl FnMut(Option<&[u8]>) -> bool,
) -> io::Result<()> {
    let mut buffer = vec![0; buffer_bytes];
    let silence = Timespec::try_from(silence).map_err(io::Error::other)?;
    loop {
        // Loaded before the wait, so that everything written before the end is read.
        let was_over = is_over.load(Ordering::Acquire);
        match poll(&mut [PollFd::new(&pipe, PollFlags::IN)], Some(&silence)) {
            Ok(0) if was_over || !take(None) => return Ok(()),
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        match pipe.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) if !take(buffer.get(..count)) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
}
