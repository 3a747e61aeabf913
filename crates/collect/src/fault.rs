//! Lets tests make a look at a file, or a read of it, fail as an operating system does (out of descriptors, a bad disk,
//! no permission). Without the feature `faults` nothing fails and nothing is counted.

use std::io;

#[cfg(feature = "faults")]
use std::sync::atomic::{AtomicI64, Ordering};

/// Looks that still succeed; negative if none fails.
#[cfg(feature = "faults")]
static LEFT: AtomicI64 = AtomicI64::new(i64::MIN);

/// Makes the look after `looks` others fail, in all threads, and `length` after it; the next ones succeed again.
#[cfg(feature = "faults")]
pub fn fail_after(looks: u32, length: u32) {
    LENGTH.store(i64::from(length), Ordering::SeqCst);
    LEFT.store(i64::from(looks), Ordering::SeqCst);
}

/// How many looks in a row fail.
#[cfg(feature = "faults")]
static LENGTH: AtomicI64 = AtomicI64::new(1);

/// Ends the failures. Returns whether one has happened.
#[cfg(feature = "faults")]
pub fn end() -> bool {
    LEFT.swap(i64::MIN, Ordering::SeqCst) < 0
}

/// Fails if a test wants it.
#[cfg(feature = "faults")]
pub(crate) fn check() -> io::Result<()> {
    let left = LEFT.load(Ordering::SeqCst);
    if left == i64::MIN {
        return Ok(());
    }
    let left = LEFT.fetch_sub(1, Ordering::SeqCst);
    if left <= 0 && left > -LENGTH.load(Ordering::SeqCst) {
        // EIO has no kind of its own.
        return Err(io::Error::from_raw_os_error(5));
    }
    Ok(())
}

/// Never fails.
#[cfg(not(feature = "faults"))]
#[expect(clippy::unnecessary_wraps, reason = "with the feature `faults` it may fail")]
#[inline]
pub(crate) fn check() -> io::Result<()> {
    Ok(())
}
