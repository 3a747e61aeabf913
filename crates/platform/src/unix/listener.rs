//! The hub's side of a local socket.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use tokio::net::{UnixListener, UnixStream};

use super::own_user;

/// A bound local socket; dropping it removes its file.
#[derive(Debug)]
pub struct LocalListener {
    listener: UnixListener,
    // After the listener, so that it is removed last.
    _file: SocketFile,
}

/// An accepted connection, whose client may be another user's.
#[derive(Debug)]
pub struct LocalConnection(UnixStream);

/// File of the socket; dropping removes it.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Inode of the created file: a file with another inode belongs to another hub and is left alone.
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            // The next hub replaces a leftover file.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl LocalListener {
    /// Listens at a path in a private folder, in place of what a killed hub has left there.
    ///
    /// # Errors
    /// Errors of the operating system; [`io::ErrorKind::AddrInUse`] if another process listens there,
    /// [`io::ErrorKind::AlreadyExists`] if something else than a socket is there.
    pub async fn bind(path: &Path) -> io::Result<Self> {
        if let Ok(found) = fs::symlink_metadata(path) {
            if !found.file_type().is_socket() {
                let what = "the path exists and is not a socket";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
            }
            if UnixStream::connect(path).await.is_ok() {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            // Stale: its hub was killed.
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        // Until then the private folder keeps other users out.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        let inode = fs::symlink_metadata(path)?.ino();
        Ok(Self { listener, _file: SocketFile { path: path.to_owned(), inode } })
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub async fn accept(&self) -> io::Result<LocalConnection> {
        self.listener.accept().await.map(|(stream, _)| LocalConnection(stream))
    }
}

impl LocalConnection {
    /// Returns the connection if its client is this user's.
    ///
    /// # Errors
    /// The connection if it is another's.
    pub async fn of_this_user(self) -> Result<UnixStream, UnixStream> {
        let user = self.0.peer_cred().ok().map(|peer| peer.uid());
        if user.is_some() && user == own_user() { Ok(self.0) } else { Err(self.0) }
    }
}
