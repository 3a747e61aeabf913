//! What operating systems do differently, by the same functions for each: identity of files, private modes, bytes of
//! paths, the local socket of a hub, the home folder, processes and what ends them, room on a disk.
//!
//! The only crate with code for one operating system: `unix.rs` and `windows.rs` define the same names. Only `windows.rs`
//! has `unsafe` code: the standard library lacks some of its questions.

#[cfg(any(windows, test))]
mod loopback;
mod mirror;
#[cfg(unix)]
mod unix;
#[cfg(any(windows, test))]
mod wtf8;

#[cfg(windows)]
mod windows;

use std::{
    fs::{Metadata, OpenOptions},
    io,
    time::{Duration, UNIX_EPOCH},
};

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

pub use mirror::{mirrored, original};
pub use system::{
    AsFile, LocalStream, REPORTS_OPEN_FILES, WATCHES_TREES, check_owner, check_private_folder, connect_local,
    create_private_folder, device_inode, disk_space, duplicate, enable_escapes, end_process, group_of,
    host_name, into_tcp, is_alive, is_private, leave_terminal, lower_priority, make_private_folder,
    open_device_inode, outside_of_group, own_user, parent_of, path_bytes, path_from_bytes, peer_pid,
    random_bytes, read_at, replace_process, restart_with, spawn_detached, url_opener, variable,
};

#[cfg(feature = "termination")]
pub use system::Termination;

#[cfg(feature = "listen")]
pub use system::{LocalConnection, LocalListener};

/// Identity of a file among all files of the machine: it stays when the file is renamed, and its hard links share it.
///
/// On Windows the serial number of the volume and the file's index there. A file system with longer numbers (ReFS) may
/// give two files the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceInode {
    /// The device, or volume.
    pub device: u64,
    /// The file's number there.
    pub inode: u64,
}

/// Room on the disk of a folder, for this user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Free bytes.
    pub free_bytes: u64,
    /// Whether another file can be made: a file system may have no number left for it.
    pub has_free_files: bool,
}

/// When a process started. Two processes with one number differ in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessStart {
    /// The moment as Linux writes it: clock ticks since its boot (proc_pid_stat(5), field 22); empty elsewhere.
    pub ticks: String,
    /// The same in milliseconds since 1970; on Linux it changes when the system clock is set. macOS does not tell.
    pub at_ms: Option<i64>,
}

/// What a file or connection is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// A read returns at once.
    Readable,
    /// A write accepts something.
    Writable,
}

/// What can be waited for.
pub trait Pollable {
    /// Waits until a read or a write does not block, at most for a time, and perhaps shorter. Returns whether it does not.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn wait_ready(&self, what: Readiness, limit: Duration) -> io::Result<bool>;
}

/// How a file is opened or created, beyond what the standard library says of every system.
pub trait OpenPolicy {
    /// Lets only its owner read a file that is created. On Windows the folder decides: the data folder is below the
    /// user's profile, which other users cannot read.
    fn private(&mut self) -> &mut Self;

    /// Opens a named pipe without waiting for its writer. On Windows no path of a folder names a pipe.
    fn without_waiting(&mut self) -> &mut Self;
}

impl OpenPolicy for OpenOptions {
    fn private(&mut self) -> &mut Self {
        system::set_private(self);
        self
    }

    fn without_waiting(&mut self) -> &mut Self {
        system::set_nonblocking(self);
        self
    }
}

/// Returns when a file was last written, in nanoseconds since 1970; 0 if the file system does not know.
pub fn modified_ns(metadata: &Metadata) -> i64 {
    let Ok(modified) = metadata.modified() else { return 0 };
    match modified.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |before| -before),
    }
}

#[cfg(test)]
mod tests;
