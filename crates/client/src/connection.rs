//! Connection to a hub over its Unix socket or TCP, with timeouts and a check of the socket's directory.

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
    http::{self, BodyFraming, ResponseHead},
};

/// TCP connect timeout: the hub is on this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Retry interval while the socket's accept queue is full.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);
/// Timeout of each write and of each read of a response: far more than a hub needs unless it hangs.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Read buffer.
const CHUNK_BYTES: usize = 64 << 10;
/// Longest response: many times the tree of the largest real session.
const MAX_RESPONSE_BYTES: usize = 512 << 20;

/// Address of a hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Path of its Unix socket.
    Socket(PathBuf),
    /// A loopback address.
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

enum HubStream {
    Socket(UnixStream),
    Tcp(TcpStream),
}

impl HubStream {
    fn set_read_timeout(&self, limit: Duration) -> io::Result<()> {
        // A timeout of zero is an error.
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

/// Outcome of a read with timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// Bytes were read.
    Bytes,
    /// Timed out.
    Timeout,
    /// End of the body or connection.
    End,
}

/// An open connection.
pub(crate) struct Connection {
    stream: HubStream,
    host: String,
    /// Bytes read but not consumed.
    bytes: Vec<u8>,
}

impl Connection {
    /// Connects. `timeout` limits the wait for the accept queue, each write and each read.
    pub(crate) fn open(address: &Address, timeout: Duration) -> Result<Self, ClientError> {
        let unreachable = |source| ClientError::Unreachable { address: address.clone(), source };
        let stream = match address {
            Address::Socket(path) => {
                if !is_directory_private(path).map_err(unreachable)? {
                    return Err(ClientError::Untrusted(path.clone()));
                }
                let connected = connect_socket(path, timeout);
                HubStream::Socket(connected.map_err(|source| {
                    if source.kind() == io::ErrorKind::TimedOut {
                        ClientError::Unresponsive { address: address.clone(), pid: None }
                    } else {
                        unreachable(source)
                    }
                })?)
            }
            Address::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, CONNECT_TIMEOUT).map_err(unreachable)?;
                // Requests are small and not pipelined: Nagle's algorithm would only delay them.
                let _ = stream.set_nodelay(true);
                HubStream::Tcp(stream)
            }
        };
        let host = match address {
            Address::Socket(_) => "localhost".to_owned(),
            Address::Tcp(address) => address.to_string(),
        };
        let connection = Self { stream, host, bytes: Vec::new() };
        connection.set_timeout(timeout)?;
        Ok(connection)
    }

    /// Sets the timeout of each write and read.
    pub(crate) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.stream.set_write_timeout(timeout)?;
        self.stream.set_read_timeout(timeout)
    }

    /// Process id of the hub; `None` over TCP or if the system does not report it.
    pub(crate) fn peer_pid(&self) -> Option<u32> {
        match &self.stream {
            #[cfg(target_os = "linux")]
            HubStream::Socket(stream) => {
                let peer = rustix::net::sockopt::socket_peercred(stream).ok()?;
                u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
            }
            #[cfg(not(target_os = "linux"))]
            HubStream::Socket(_) => None,
            HubStream::Tcp(_) => None,
        }
    }

    /// Sends a request and returns the response head.
    pub(crate) fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> io::Result<ResponseHead> {
        let mut all = vec![("host", self.host.as_str())];
        all.extend_from_slice(headers);
        let request = http::request(method, path, &all, body);
        self.stream.write_all(&request)?;
        loop {
            if let Some(head) = http::take_head(&mut self.bytes)? {
                return Ok(head);
            }
            self.read_more()?;
        }
    }

    /// Reads a body to its end.
    pub(crate) fn read_body(&mut self, mut body: BodyFraming) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        while !body.take(&mut self.bytes, &mut all)? {
            if all.len() > MAX_RESPONSE_BYTES {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer without an end"));
            }
            match self.read_some()? {
                ReadOutcome::Bytes => {}
                ReadOutcome::End if body == BodyFraming::UntilClose => break,
                ReadOutcome::End => return Err(io::ErrorKind::UnexpectedEof.into()),
                ReadOutcome::Timeout => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
        Ok(all)
    }

    /// Appends the next available part of a body to `out`, waiting at most `wait`.
    pub(crate) fn read_body_part(
        &mut self,
        body: &mut BodyFraming,
        out: &mut Vec<u8>,
        wait: Duration,
    ) -> io::Result<ReadOutcome> {
        let had = out.len();
        if body.take(&mut self.bytes, out)? {
            return Ok(ReadOutcome::End);
        }
        if out.len() > had {
            return Ok(ReadOutcome::Bytes);
        }
        // Buffered bytes are an incomplete chunk header: read more.
        self.stream.set_read_timeout(wait)?;
        match self.read_some()? {
            ReadOutcome::Bytes => {}
            outcome @ (ReadOutcome::Timeout | ReadOutcome::End) => return Ok(outcome),
        }
        Ok(if body.take(&mut self.bytes, out)? { ReadOutcome::End } else { ReadOutcome::Bytes })
    }

    fn read_more(&mut self) -> io::Result<()> {
        match self.read_some()? {
            ReadOutcome::Bytes => Ok(()),
            ReadOutcome::Timeout => Err(io::ErrorKind::TimedOut.into()),
            ReadOutcome::End => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn read_some(&mut self) -> io::Result<ReadOutcome> {
        let mut chunk = [0; CHUNK_BYTES];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(ReadOutcome::End),
                Ok(count) => {
                    self.bytes.extend_from_slice(chunk.get(..count).unwrap_or_default());
                    return Ok(ReadOutcome::Bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Ok(ReadOutcome::Timeout);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Connects to a Unix socket. Waits at most `limit` for room in its accept queue, which fills up while the listening process is
/// stopped.
///
/// # Errors
/// Error of the system call; [`io::ErrorKind::TimedOut`] if the queue stayed full.
pub fn connect_socket(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let deadline = Deadline::after(limit);
    let address = SocketAddrUnix::new(path)?;
    let stream = UnixStream::from(socket(AddressFamily::UNIX, SocketType::STREAM, None)?);
    stream.set_nonblocking(true)?;
    loop {
        match connect(&stream, &address) {
            Ok(()) => break,
            Err(rustix::io::Errno::INTR) => {}
            // poll(2) cannot wait for room in the queue.
            Err(rustix::io::Errno::AGAIN) => {
                let left = deadline.left().ok_or(io::ErrorKind::TimedOut)?;
                std::thread::sleep(RETRY_INTERVAL.min(left));
            }
            Err(error) => return Err(error.into()),
        }
    }
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Whether other users cannot replace the socket: its directory is not writable by group or others.
fn is_directory_private(socket: &Path) -> io::Result<bool> {
    let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(fs::metadata(folder)?.permissions().mode() & 0o022 == 0)
}
