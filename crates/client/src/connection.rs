//! A connection to a hub: where it is, whom to trust there, bytes to and fro.

use std::{
    fmt, fs,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};

use crate::{
    clock::Deadline,
    error::ClientError,
    http::{self, Body, Head},
};

/// How long a hub may take to connect over TCP: it is on this machine.
const CONNECT: Duration = Duration::from_secs(5);
/// How often a socket whose queue of connections is full is tried again.
const QUEUE_FULL: Duration = Duration::from_millis(2);
/// How long a hub may take to take a request, and until the next piece of its answer: far more than it needs, so that only one
/// that hangs is given up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// What is read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// The longest answer: the rows of a session of any real size, many times over.
const ANSWER_BYTES: usize = 512 << 20;

/// Where a hub is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Its Unix socket.
    Socket(PathBuf),
    /// An address on the loopback.
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
        }
    }
}

enum Stream {
    Socket(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn set_read_timeout(&self, limit: Duration) -> io::Result<()> {
        // None at all would be an error.
        let limit = Some(limit.max(Duration::from_millis(1)));
        match self {
            Self::Socket(stream) => stream.set_read_timeout(limit),
            Self::Tcp(stream) => stream.set_read_timeout(limit),
        }
    }

    fn set_write_timeout(&self, limit: Duration) -> io::Result<()> {
        match self {
            Self::Socket(stream) => stream.set_write_timeout(Some(limit)),
            Self::Tcp(stream) => stream.set_write_timeout(Some(limit)),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Socket(stream) => stream.write_all(bytes),
            Self::Tcp(stream) => stream.write_all(bytes),
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Socket(stream) => stream.read(bytes),
            Self::Tcp(stream) => stream.read(bytes),
        }
    }
}

/// What a wait for bytes gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Some came.
    Bytes,
    /// None came in time.
    Nothing,
    /// None will come any more.
    End,
}

/// An open connection.
pub(crate) struct Connection {
    stream: Stream,
    host: String,
    /// What was read and not taken yet.
    bytes: Vec<u8>,
}

impl Connection {
    /// Connects. `patience` limits the wait for room in a socket's queue, for each write and for each piece of an answer.
    pub(crate) fn open(address: &Address, patience: Duration) -> Result<Self, ClientError> {
        let unreachable = |source| ClientError::Unreachable { address: address.clone(), source };
        let stream = match address {
            Address::Socket(path) => {
                if !is_private(path).map_err(unreachable)? {
                    return Err(ClientError::Untrusted(path.clone()));
                }
                let connected = connect_socket(path, patience);
                Stream::Socket(connected.map_err(|source| match source.kind() {
                    io::ErrorKind::TimedOut => {
                        ClientError::Unresponsive { address: address.clone(), pid: None }
                    }
                    _ => unreachable(source),
                })?)
            }
            Address::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, CONNECT).map_err(unreachable)?;
                // Questions are short and answered before the next.
                let _ = stream.set_nodelay(true);
                Stream::Tcp(stream)
            }
        };
        let host = match address {
            Address::Socket(_) => "localhost".to_owned(),
            Address::Tcp(address) => address.to_string(),
        };
        let connection = Self { stream, host, bytes: Vec::new() };
        connection.set_patience(patience)?;
        Ok(connection)
    }

    /// Limits each write and the wait for each piece of an answer.
    pub(crate) fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.stream.set_write_timeout(patience)?;
        self.stream.set_read_timeout(patience)
    }

    /// The process that listens at the other end; `None` where the system does not say.
    pub(crate) fn peer_pid(&self) -> Option<u32> {
        match &self.stream {
            #[cfg(target_os = "linux")]
            Stream::Socket(stream) => {
                let peer = rustix::net::sockopt::socket_peercred(stream).ok()?;
                u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
            }
            #[cfg(not(target_os = "linux"))]
            Stream::Socket(_) => None,
            Stream::Tcp(_) => None,
        }
    }

    /// Sends a request and returns the head of its answer.
    pub(crate) fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> io::Result<Head> {
        let mut all = vec![("host", self.host.as_str())];
        all.extend_from_slice(headers);
        let request = http::request(method, path, &all, body);
        self.stream.write_all(&request)?;
        loop {
            if let Some(head) = http::take_head(&mut self.bytes)? {
                return Ok(head);
            }
            self.hear_some()?;
        }
    }

    /// Reads a body to its end.
    pub(crate) fn read_body(&mut self, mut body: Body) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        while !body.take(&mut self.bytes, &mut all)? {
            if all.len() > ANSWER_BYTES {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer without an end"));
            }
            match self.hear()? {
                Heard::Bytes => {}
                Heard::End if body == Body::ToTheEnd => break,
                Heard::End => return Err(io::ErrorKind::UnexpectedEof.into()),
                Heard::Nothing => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
        Ok(all)
    }

    /// Waits for more of a body, no longer than that, and takes what came of it.
    pub(crate) fn hear_body(
        &mut self,
        body: &mut Body,
        out: &mut Vec<u8>,
        wait: Duration,
    ) -> io::Result<Heard> {
        let had = out.len();
        if body.take(&mut self.bytes, out)? {
            return Ok(Heard::End);
        }
        if out.len() > had {
            return Ok(Heard::Bytes);
        }
        // What is left is the beginning of something: more of it has to come.
        self.stream.set_read_timeout(wait)?;
        match self.hear()? {
            Heard::Bytes => {}
            other => return Ok(other),
        }
        Ok(if body.take(&mut self.bytes, out)? { Heard::End } else { Heard::Bytes })
    }

    fn hear_some(&mut self) -> io::Result<()> {
        match self.hear()? {
            Heard::Bytes => Ok(()),
            Heard::Nothing => Err(io::ErrorKind::TimedOut.into()),
            Heard::End => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn hear(&mut self) -> io::Result<Heard> {
        let mut chunk = [0; CHUNK_BYTES];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(Heard::End),
                Ok(count) => {
                    self.bytes.extend_from_slice(chunk.get(..count).unwrap_or_default());
                    return Ok(Heard::Bytes);
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Ok(Heard::Nothing),
                    _ => return Err(error),
                },
            }
        }
    }
}

/// Connects to a Unix socket. Waits no longer than `limit` for room in its queue of connections, which fills up where the
/// process that listens is stopped.
///
/// # Errors
/// What the system says; [`io::ErrorKind::TimedOut`] where there was no room.
pub fn connect_socket(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let deadline = Deadline::after(limit);
    let address = SocketAddrUnix::new(path)?;
    let stream = UnixStream::from(socket(AddressFamily::UNIX, SocketType::STREAM, None)?);
    stream.set_nonblocking(true)?;
    loop {
        match connect(&stream, &address) {
            Ok(()) => break,
            Err(rustix::io::Errno::INTR) => {}
            // A full queue gives nothing to wait with.
            Err(rustix::io::Errno::AGAIN) => {
                let left = deadline.left().ok_or(io::ErrorKind::TimedOut)?;
                std::thread::sleep(QUEUE_FULL.min(left));
            }
            Err(error) => return Err(error.into()),
        }
    }
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Whether nobody else can have put the socket there.
fn is_private(socket: &Path) -> io::Result<bool> {
    let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(fs::metadata(folder)?.permissions().mode() & 0o022 == 0)
}
