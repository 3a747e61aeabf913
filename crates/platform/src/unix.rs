//! Unix: Linux and macOS.

#[cfg(feature = "listen")]
mod listener;
mod local_socket;
mod process;
#[cfg(feature = "termination")]
mod termination;
mod trust;

use std::{
    borrow::Cow,
    env,
    ffi::{OsStr, OsString},
    fs::{DirBuilder, File, Metadata, OpenOptions},
    io::{self, Read as _},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use rustix::{fs::OFlags, process::Pid};

#[cfg(feature = "listen")]
pub use listener::{LocalConnection, LocalListener};
pub use local_socket::{LocalStream, connect_local, into_tcp, peer_pid};
pub use process::{
    AsFile, duplicate, enable_escapes, end_process, group_of, host_name, leave_terminal, lower_priority,
    outside_of_group, parent_of, replace_process, restart_with, spawn_detached, url_opener,
};
#[cfg(feature = "termination")]
pub use termination::Termination;
pub use trust::{check_owner, check_private_folder, is_private, make_private_folder, own_user};

use crate::{DeviceInode, DiskSpace};

/// Whether a watch covers a whole tree: FSEvents does, and each further path costs a restart of its stream. Elsewhere
/// each folder is watched alone, because only so can it be listed after it is watched.
pub const WATCHES_TREES: bool = cfg!(target_os = "macos");

/// Whether the system reports what is written to a file that its writer keeps open.
pub const REPORTS_OPEN_FILES: bool = true;

/// Returns the identity of the file at a path, of which `metadata` is.
///
/// # Errors
/// None here: the metadata has it.
pub fn device_inode(_: &Path, metadata: &Metadata) -> io::Result<DeviceInode> {
    Ok(DeviceInode { device: metadata.dev(), inode: metadata.ino() })
}

/// Returns the identity of an open file, of which `metadata` is.
///
/// # Errors
/// As [`device_inode`].
pub fn open_device_inode(_: &File, metadata: &Metadata) -> io::Result<DeviceInode> {
    Ok(DeviceInode { device: metadata.dev(), inode: metadata.ino() })
}

pub(crate) fn set_private(options: &mut OpenOptions) {
    options.mode(0o600);
}

pub(crate) fn set_nonblocking(options: &mut OpenOptions) {
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
}

/// Creates a folder with mode 0700, and those above it; an existing one is left as it is.
///
/// # Errors
/// Errors of the operating system.
pub fn create_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Reads bytes of a file from an offset on; may read fewer than asked. The file's position stays.
///
/// # Errors
/// Errors of the operating system.
pub fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buffer, offset)
}

/// Returns the bytes of a path, from which [`path_from_bytes`] makes it again.
pub fn path_bytes(path: &Path) -> Cow<'_, [u8]> {
    path.as_os_str().as_bytes().into()
}

/// Returns the path of bytes that [`path_bytes`] returned.
pub fn path_from_bytes(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

/// Returns a variable of the environment.
pub fn variable(name: impl AsRef<OsStr>) -> Option<OsString> {
    env::var_os(name)
}

/// Fills a buffer with random bytes of the system.
///
/// # Errors
/// If it has none.
pub fn random_bytes(buffer: &mut [u8]) -> io::Result<()> {
    // All systems with Unix sockets have this file.
    File::open("/dev/urandom")?.read_exact(buffer)
}

/// Whether a process of this user runs.
pub fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

/// Returns the room on the disk of a folder.
///
/// # Errors
/// Errors of the operating system.
pub fn disk_space(folder: &Path) -> io::Result<DiskSpace> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(DiskSpace {
        free_bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
        has_free_files: disk.f_files == 0 || disk.f_favail > 0,
    })
}

pub(crate) fn root_of(below: &Path) -> PathBuf {
    Path::new("/").join(below)
}
