//! Windows.
//!
//! The standard library reports neither the room on a disk nor what processes do, and does not wait for pipes: that calls
//! the system.
#![allow(unsafe_code, reason = "questions that no safe function of the dependencies asks")]

mod process;
#[cfg(feature = "termination")]
mod termination;

use std::{
    borrow::Cow,
    env,
    ffi::{OsStr, OsString},
    fs::{self, DirBuilder, File, Metadata, OpenOptions},
    io,
    net::TcpStream,
    os::windows::{
        ffi::{OsStrExt, OsStringExt},
        fs::{FileExt, OpenOptionsExt},
        io::{AsRawHandle, FromRawHandle, OwnedHandle},
    },
    path::{Path, PathBuf},
    ptr,
    time::Duration,
};

use windows_sys::Win32::{
    Foundation::WAIT_TIMEOUT,
    Storage::FileSystem::{FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT, GetDiskFreeSpaceExW},
    System::Threading::{OpenProcess, PROCESS_SYNCHRONIZE, WaitForSingleObject},
};

pub use process::{
    AsFile, duplicate, enable_escapes, end_process, group_of, host_name, leave_terminal, lower_priority,
    outside_of_group, parent_of, replace_process, restart_with, spawn_detached, url_opener,
};
#[cfg(feature = "termination")]
pub use termination::Termination;

#[cfg(feature = "listen")]
pub use crate::loopback::listener::{LocalConnection, LocalListener};
use crate::{DeviceInode, DiskSpace, loopback, mirror::SHARES, wtf8};

/// Whether a watch covers a whole tree: `ReadDirectoryChangesW` does. It keeps each watched folder open, which then cannot
/// be renamed; so one watch above all is better than one for each.
pub const WATCHES_TREES: bool = true;

/// Whether the system reports what is written to a file that its writer keeps open. It does not before the file is closed
/// (<https://github.com/notify-rs/notify/issues/422>), and never for network drives: files are looked at regularly.
pub const REPORTS_OPEN_FILES: bool = false;

/// Returns the identity of the file at a path, of which `metadata` is.
///
/// # Errors
/// Errors of the operating system. The file is opened for its attributes alone, which no other process can forbid.
pub fn device_inode(path: &Path, metadata: &Metadata) -> io::Result<DeviceInode> {
    let of_link = if metadata.is_symlink() { FILE_FLAG_OPEN_REPARSE_POINT } else { 0 };
    let flags = FILE_FLAG_BACKUP_SEMANTICS | of_link;
    let file = OpenOptions::new().access_mode(0).custom_flags(flags).open(path)?;
    open_device_inode(&file, metadata)
}

/// Returns the identity of an open file, of which `metadata` is.
///
/// # Errors
/// Errors of the operating system.
pub fn open_device_inode(file: &File, _: &Metadata) -> io::Result<DeviceInode> {
    let found = winapi_util::file::information(file)?;
    Ok(DeviceInode { device: found.volume_serial_number(), inode: found.file_index() })
}

/// Changes nothing: the folder's list of rights holds for what is created in it.
pub(crate) fn set_private(_: &mut OpenOptions) {}

/// Changes nothing: named pipes have a file system of their own.
pub(crate) fn set_nonblocking(_: &mut OpenOptions) {}

/// Creates a folder with the rights of the folder above it, and those above it; an existing one is left as it is.
///
/// # Errors
/// Errors of the operating system.
pub fn create_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(folder)
}

/// Checks that there is a folder. Who may write in it is not checked: Windows keeps other users out of a user's profile.
///
/// # Errors
/// Errors of the operating system; [`io::ErrorKind::NotADirectory`].
pub fn check_private_folder(folder: &Path) -> io::Result<()> {
    if fs::metadata(folder)?.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

/// Checks that there is a file or folder. Its owner is not checked, as in [`check_private_folder`].
///
/// # Errors
/// Errors of the operating system.
pub fn check_owner(path: &Path) -> io::Result<()> {
    fs::metadata(path).map(|_| ())
}

/// Creates a missing folder, with the rights of the folder above it.
///
/// # Errors
/// Errors of the operating system.
pub fn make_private_folder(folder: &Path) -> io::Result<()> {
    create_private_folder(folder)
}

/// Says yes: who may read a file is not checked, as in [`check_private_folder`].
pub fn is_private(_: &Metadata) -> bool {
    true
}

/// Returns nothing: users have no number.
pub fn own_user() -> Option<u32> {
    None
}

/// Fills a buffer with random bytes of the system.
///
/// # Errors
/// If it has none.
pub fn random_bytes(buffer: &mut [u8]) -> io::Result<()> {
    getrandom::fill(buffer).map_err(io::Error::other)
}

/// Reads bytes of a file from an offset on; may read fewer than asked. Moves the file's position.
///
/// # Errors
/// Errors of the operating system.
pub fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(buffer, offset)
}

/// Returns the bytes of a path, from which [`path_from_bytes`] makes it again: WTF-8.
pub fn path_bytes(path: &Path) -> Cow<'_, [u8]> {
    match path.to_str() {
        Some(text) => text.as_bytes().into(),
        None => wtf8::encode(path.as_os_str().encode_wide()).into(),
    }
}

/// Returns the path of bytes that [`path_bytes`] returned.
pub fn path_from_bytes(bytes: Vec<u8>) -> PathBuf {
    match String::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(error) => OsString::from_wide(&wtf8::decode(error.as_bytes())).into(),
    }
}

/// Returns a variable of the environment. `HOME` is the folder of the user's profile where it is not set: only Unix shells
/// set it.
pub fn variable(name: impl AsRef<OsStr>) -> Option<OsString> {
    let name = name.as_ref();
    let is_home = || name.eq_ignore_ascii_case("HOME");
    env::var_os(name).or_else(|| is_home().then(|| env::var_os("USERPROFILE"))?)
}

/// Whether a process runs that this user may wait for.
pub fn is_alive(pid: u32) -> bool {
    // SAFETY: takes no pointer. The handle that it returns is this function's alone.
    let handle = unsafe { OpenProcess(PROCESS_SYNCHRONIZE, 0, pid) };
    if handle.is_null() {
        return false;
    }
    // SAFETY: the handle is open, and nothing else closes it.
    let process = unsafe { OwnedHandle::from_raw_handle(handle) };
    // SAFETY: the handle is open until `process` is dropped, and has the right to be waited for.
    unsafe { WaitForSingleObject(process.as_raw_handle(), 0) == WAIT_TIMEOUT }
}

/// Returns the room on the disk of a folder.
///
/// # Errors
/// Errors of the operating system.
pub fn disk_space(folder: &Path) -> io::Result<DiskSpace> {
    let folder: Vec<u16> = folder.as_os_str().encode_wide().chain([0]).collect();
    let mut free_bytes = 0;
    // SAFETY: the path ends with 0 and lives until the call ends, as does the number that it writes; the other two may be
    // null.
    let is_known = unsafe {
        GetDiskFreeSpaceExW(folder.as_ptr(), &raw mut free_bytes, ptr::null_mut(), ptr::null_mut())
    };
    if is_known == 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(DiskSpace { free_bytes, has_free_files: true })
    }
}

/// A connection to a hub, which is one over TCP.
pub type LocalStream = TcpStream;

/// Returns a connection to a local socket as one over TCP, which it is.
pub fn into_tcp(stream: LocalStream) -> TcpStream {
    stream
}

/// Connects to a local socket of this user. `left` returns the time that is left to wait, `None` once there is none.
///
/// # Errors
/// Errors of the operating system; [`io::ErrorKind::ConnectionRefused`] if nobody listens,
/// [`io::ErrorKind::TimedOut`] in time, [`io::ErrorKind::PermissionDenied`] if another program listens there.
pub fn connect_local(path: &Path, left: impl FnMut() -> Option<Duration>) -> io::Result<LocalStream> {
    loopback::connect(path, left)
}

/// Returns nothing: TCP does not report the process.
pub fn peer_pid(_: &LocalStream) -> Option<u32> {
    None
}

/// Returns the path that a mirrored one stands for: its first folder is a disk's letter, or that of all shares.
pub(crate) fn root_of(below: &Path) -> PathBuf {
    let mut parts = below.components();
    let first = parts.next().map(|part| part.as_os_str().to_owned()).unwrap_or_default();
    let mut root = if first == SHARES { OsString::from("\\") } else { first.clone() };
    root.push(if first == SHARES { "\\" } else { ":\\" });
    if first == SHARES {
        for end in ["\\", "\\"] {
            root.push(parts.next().map(|part| part.as_os_str().to_owned()).unwrap_or_default());
            root.push(end);
        }
    }
    PathBuf::from(root).join(parts.as_path())
}
