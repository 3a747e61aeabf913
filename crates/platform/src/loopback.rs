//! The local socket of a hub where the system has no Unix sockets: TCP on the loopback interface.
//!
//! A file at the socket's path has the port and two secrets, which only this user can read there. The client sends the
//! first, the hub answers with the second, and nothing is sent before: neither side learns or gets anything if the other
//! one is another user's. Whoever listens holds a lock on the file `PATH.lock`. So a file that a killed hub has left is
//! recognized at once, whatever listens at its port by now.

#[cfg(any(feature = "listen", test))]
pub(crate) mod listener;

use std::{
    ffi::OsString,
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    time::Duration,
};

/// Hexadecimal digits of a secret: 256 bits.
const SECRET_DIGITS: usize = 64;

/// Longest file that is read.
const MAX_FILE_BYTES: u64 = 256;

/// What the file at a socket's path says.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct LoopbackFile {
    pub(crate) port: u16,
    /// What the client sends.
    pub(crate) client: String,
    /// What the hub answers.
    pub(crate) hub: String,
}

impl LoopbackFile {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let port = words.next()?.parse().ok()?;
        let mut secret = || words.next().filter(|word| is_secret(word)).map(str::to_owned);
        Some(Self { port, client: secret()?, hub: secret()? })
    }

    fn read(path: &Path) -> io::Result<Self> {
        let mut text = String::new();
        File::open(path)?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
        let wrong =
            || io::Error::new(io::ErrorKind::InvalidData, format!("{} names no socket", path.display()));
        Self::parse(&text).ok_or_else(wrong)
    }
}

fn is_secret(word: &str) -> bool {
    word.len() == SECRET_DIGITS && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Compares in constant time for equal lengths.
pub(crate) fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let differ = one.iter().zip(other).fold(0, |differ, (one, other)| differ | (one ^ other));
    one.len() == other.len() && std::hint::black_box(differ) == 0
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = path.into();
    name.push(ending);
    name.into()
}

fn lock_file(path: &Path) -> PathBuf {
    with_ending(path, ".lock")
}

/// Connects to a local socket. `left` returns the time that is left, `None` once there is none.
///
/// # Errors
/// Errors of the operating system; [`io::ErrorKind::ConnectionRefused`] if nobody listens,
/// [`io::ErrorKind::TimedOut`] in time, and [`io::ErrorKind::PermissionDenied`] if another program listens there.
pub(crate) fn connect(path: &Path, mut left: impl FnMut() -> Option<Duration>) -> io::Result<TcpStream> {
    let timed_out = || io::Error::from(io::ErrorKind::TimedOut);
    match OpenOptions::new().read(true).open(lock_file(path))?.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(error),
        Ok(()) => return Err(io::ErrorKind::ConnectionRefused.into()),
    }
    let known = LoopbackFile::read(path)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, known.port));
    let mut stream = TcpStream::connect_timeout(&address, left().ok_or_else(timed_out)?)?;
    stream.set_nodelay(true)?;
    let limit = Some(left().ok_or_else(timed_out)?);
    stream.set_write_timeout(limit)?;
    stream.set_read_timeout(limit)?;
    let mut answer = [0; SECRET_DIGITS];
    let greeted = stream.write_all(known.client.as_bytes()).and_then(|()| stream.read_exact(&mut answer));
    greeted.map_err(|error| if error.kind() == io::ErrorKind::WouldBlock { timed_out() } else { error })?;
    if !is_equal(&answer, known.hub.as_bytes()) {
        let what = format!("{} is listened to by another program", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    stream.set_write_timeout(None)?;
    stream.set_read_timeout(None)?;
    Ok(stream)
}
