//! Whether folders, files and a hub's socket are this user's: another user's program there would get private payloads, and its answers would
//! steer agents.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::{
        fs::{FileTypeExt, MetadataExt, PermissionsExt},
        net::UnixStream,
    },
    path::Path,
};

use rustix::process::{Gid, Uid, getegid, geteuid};

/// Permission of the group and of others to write.
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
/// Only its owner may rename or remove an entry of such a folder.
const STICKY: u32 = 0o1000;

/// The user whose files are trusted.
#[derive(Clone, Copy, Debug)]
struct Owner {
    user: Uid,
    group: Gid,
}

impl Owner {
    fn of_process() -> Self {
        Self { user: geteuid(), group: getegid() }
    }

    /// Whether a file belongs to this user or to root.
    fn owns(self, file: &Metadata) -> bool {
        let owner = Uid::from_raw(file.uid());
        owner == self.user || owner.is_root()
    }

    /// Whether others may write to a file. A group of one user, with the number of the user, is the user.
    fn shares(self, file: &Metadata) -> bool {
        let is_own_group = file.gid() == self.group.as_raw() && self.group.as_raw() == self.user.as_raw();
        file.mode() & (OTHERS_WRITE | if is_own_group { 0 } else { GROUP_WRITES }) != 0
    }
}

fn refused(path: &Path, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{} {what}", path.display()))
}

/// Checks that a folder with private data is this user's or root's, that nobody else can write in it, and that nobody else
/// can replace it: neither it nor a folder above it.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`], with the folder, if it is not so; errors of the operating system.
pub fn check_private_folder(folder: &Path) -> io::Result<()> {
    check_owner(folder)?;
    let (owner, path) = (Owner::of_process(), fs::canonicalize(folder)?);
    if fs::metadata(&path)?.mode() & (GROUP_WRITES | OTHERS_WRITE) != 0 {
        return Err(refused(folder, "may be written by others"));
    }
    for above in path.ancestors().skip(1) {
        let found = fs::metadata(above)?;
        if !owner.owns(&found) {
            return Err(refused(above, "belongs to another user"));
        }
        if owner.shares(&found) && found.mode() & STICKY == 0 {
            return Err(refused(above, "may be written by others"));
        }
    }
    Ok(())
}

/// Creates a missing folder, and makes it private (0700).
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] if it is another user's; errors of the operating system.
pub fn make_private_folder(folder: &Path) -> io::Result<()> {
    super::create_private_folder(folder)?;
    let found = fs::metadata(folder)?;
    if Some(found.uid()) != own_user() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
    }
    if found.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Whether a file is this user's, and nobody else can read or write it.
pub fn is_private(file: &Metadata) -> bool {
    Some(file.uid()) == own_user() && file.permissions().mode() & 0o077 == 0
}

/// Returns the number of this process's user (effective); `None` where users have none.
pub fn own_user() -> Option<u32> {
    Some(geteuid().as_raw())
}

/// Checks that a file or folder is this user's or root's.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] if it is not; errors of the operating system.
pub fn check_owner(path: &Path) -> io::Result<()> {
    if Owner::of_process().owns(&fs::metadata(path)?) {
        return Ok(());
    }
    Err(refused(path, "belongs to another user"))
}

/// Checks that a path is a socket of this user or root in a folder of theirs. A link to one is none: its owner may not be
/// the socket's.
pub(crate) fn check_socket(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    check_private_folder(folder)?;
    let found = fs::symlink_metadata(path)?;
    if !found.file_type().is_socket() {
        return Err(refused(path, "is no socket"));
    }
    if Owner::of_process().owns(&found) { Ok(()) } else { Err(refused(path, "belongs to another user")) }
}

/// Checks that the process at the other end of a socket is this user's or root's, where the system reports it.
#[cfg(target_os = "linux")]
pub(crate) fn check_peer(stream: &UnixStream, path: &Path) -> io::Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(stream)?.uid;
    if peer == geteuid() || peer.is_root() {
        return Ok(());
    }
    Err(refused(path, "is listened to by another user"))
}

/// Checks nothing: the system does not report the process.
#[cfg(not(target_os = "linux"))]
pub(crate) fn check_peer(_: &UnixStream, _: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::symlink, net::UnixListener};

    use super::*;

    fn allow(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn folder_that_others_may_write_or_replace_is_not_private() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("data");
        fs::create_dir(&folder).unwrap();
        let check = |above_mode, mode| {
            allow(above.path(), above_mode);
            allow(&folder, mode);
            check_private_folder(&folder).map_err(|error| error.kind())
        };
        let denied = Err(io::ErrorKind::PermissionDenied);
        assert_eq!(
            (check(0o755, 0o700), check(0o700, 0o755), check(0o1777, 0o700)),
            (Ok(()), Ok(()), Ok(()))
        );
        for (above_mode, mode) in [(0o700, 0o775), (0o700, 0o1777), (0o757, 0o700), (0o777, 0o700)] {
            assert_eq!(check(above_mode, mode), denied, "{above_mode:o} {mode:o}");
        }
        allow(above.path(), 0o700);
        assert_eq!(
            check_private_folder(&above.path().join("none")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn owner_is_this_user_or_root_and_its_own_group_is_itself() {
        let folder = tempfile::tempdir().unwrap();
        allow(folder.path(), 0o770);
        let found = fs::metadata(folder.path()).unwrap();
        let of = |user: u32, group: u32| Owner { user: Uid::from_raw(user), group: Gid::from_raw(group) };
        let (user, group) = (found.uid(), found.gid());
        assert!(of(user, group).owns(&found));
        assert_eq!(of(user + 1, group).owns(&found), user == 0, "root's are trusted");
        assert!(!of(group, group).shares(&found), "a group of one user");
        assert!(of(group + 1, group).shares(&found) && of(user, group + 1).shares(&found));
    }

    #[test]
    fn socket_is_one_of_this_user_and_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, link, file) =
            (folder.path().join("hub.sock"), folder.path().join("link"), folder.path().join("file"));
        let _listener = UnixListener::bind(&socket).unwrap();
        symlink(&socket, &link).unwrap();
        fs::write(&file, "").unwrap();
        assert!(check_socket(&socket).is_ok());
        for path in [&link, &file] {
            assert_eq!(check_socket(path).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
        let stream = UnixStream::connect(&socket).unwrap();
        assert!(check_peer(&stream, &socket).is_ok());
    }
}
