//! The local socket of a hub: a Unix socket, which only its user can reach.

use std::{
    io,
    net::TcpStream,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    thread,
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket},
};

use super::trust;

/// Interval of attempts while the accept queue is full.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);

/// A connection to a local socket.
pub type LocalStream = UnixStream;

/// Returns a connection to a local socket as one over TCP: reads, writes and timeouts work on every stream socket.
pub fn into_tcp(stream: LocalStream) -> TcpStream {
    TcpStream::from(OwnedFd::from(stream))
}

/// Connects to a local socket of this user. `left` returns the time that is left to wait, `None` once there is none: for
/// room in the accept queue, which fills up while the listening process is stopped.
///
/// # Errors
/// Error of the system call; [`io::ErrorKind::TimedOut`] in time; [`io::ErrorKind::PermissionDenied`] if another user owns
/// the socket, its folder or the listening process, or can replace one of them.
pub fn connect_local(path: &Path, mut left: impl FnMut() -> Option<Duration>) -> io::Result<LocalStream> {
    trust::check_socket(path)?;
    let address = SocketAddrUnix::new(path)?;
    let stream = UnixStream::from(socket(AddressFamily::UNIX, SocketType::STREAM, None)?);
    stream.set_nonblocking(true)?;
    loop {
        match connect(&stream, &address) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            // poll(2) cannot wait for room in the queue.
            Err(Errno::AGAIN) => {
                let left = left().ok_or(io::ErrorKind::TimedOut)?;
                thread::sleep(RETRY_INTERVAL.min(left));
            }
            Err(error) => return Err(error.into()),
        }
    }
    trust::check_peer(&stream, path)?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Returns the process at the other end of a local socket, where the system reports it.
#[cfg(target_os = "linux")]
pub fn peer_pid(stream: &LocalStream) -> Option<u32> {
    let peer = rustix::net::sockopt::socket_peercred(stream).ok()?;
    u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
}

/// Returns nothing: the system does not report the process.
#[cfg(not(target_os = "linux"))]
pub fn peer_pid(_: &LocalStream) -> Option<u32> {
    None
}
