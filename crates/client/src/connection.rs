//! Connection to a hub over its Unix socket or TCP, with timeouts and a check of whose the socket is.

use std::{
    fmt,
    io::{self, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    time::Duration,
};

use subscope_platform::{LocalStream, connect_local, into_tcp, peer_pid};

use crate::{
    clock::Deadline,
    error::ClientError,
    http::{self, BodyFraming, ResponseHead, ResponseReader},
};

/// TCP connect timeout: the hub is on this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of each write and of each read of a response: far more than a hub needs unless it hangs.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest response: many times the tree of the largest real session.
const MAX_RESPONSE_BYTES: usize = 512 << 20;

/// Address of a hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Path of its Unix socket.
    Socket(PathBuf),
    /// A loopback address.
    Tcp(SocketAddr),
    /// URL of a team's server.
    Url(String),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Url(url) => f.write_str(url),
        }
    }
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connection {
    reader: ResponseReader<TcpStream>,
    host: String,
    /// Process id of the hub; `None` over TCP or if the system does not report it.
    pub(crate) peer_pid: Option<u32>,
}

impl Connection {
    /// Connects. `timeout` limits the wait for the accept queue, each write and each read.
    pub(crate) fn open(address: &Address, timeout: Duration) -> Result<Self, ClientError> {
        let unreachable = |source| ClientError::Unreachable { address: address.clone(), source };
        let (stream, host, peer_pid) = match address {
            Address::Socket(path) => {
                #[expect(clippy::wildcard_enum_match_arm, reason = "a foreign enum")]
                let stream = connect_socket(path, timeout).map_err(|source| match source.kind() {
                    io::ErrorKind::TimedOut => {
                        ClientError::Unresponsive { address: address.clone(), pid: None }
                    }
                    io::ErrorKind::PermissionDenied => ClientError::Untrusted(path.clone(), source),
                    _ => unreachable(source),
                })?;
                let peer_pid = peer_pid(&stream);
                (into_tcp(stream), "localhost".to_owned(), peer_pid)
            }
            Address::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, CONNECT_TIMEOUT).map_err(unreachable)?;
                // Requests are small and not pipelined: Nagle's algorithm would only delay them.
                let _ = stream.set_nodelay(true);
                (stream, address.to_string(), None)
            }
            Address::Url(_) => return Err(unreachable(io::ErrorKind::Unsupported.into())),
        };
        let connection = Self { reader: ResponseReader::new(stream), host, peer_pid };
        connection.set_timeout(timeout)?;
        Ok(connection)
    }

    /// Sets the timeout of each write and read.
    pub(crate) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.reader.stream.set_write_timeout(Some(timeout))?;
        self.reader.stream.set_read_timeout(Some(timeout))
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
        self.reader.stream.write_all(&http::request(method, path, &all, body))?;
        self.reader.head()
    }

    /// Reads a body to its end.
    pub(crate) fn read_body(&mut self, body: BodyFraming) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        self.reader.body(body, MAX_RESPONSE_BYTES, &mut all)?;
        Ok(all)
    }

    /// Appends the next available part of a body to `out`, waiting at most `wait`. Returns whether the body is
    /// complete.
    pub(crate) fn read_body_part(
        &mut self,
        body: &mut BodyFraming,
        out: &mut Vec<u8>,
        wait: Duration,
    ) -> io::Result<bool> {
        // A timeout of zero is an error.
        self.reader.stream.set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
        self.reader.body_part(body, out)
    }
}

/// Connects to a Unix socket of this user. Waits at most `limit` for room in its accept queue, which fills up while the
/// listening process is stopped.
///
/// # Errors
/// Error of the system call; [`io::ErrorKind::TimedOut`] if the queue stayed full; [`io::ErrorKind::PermissionDenied`] if
/// another user owns the socket, its folder or the listening process, or can replace one of them.
pub fn connect_socket(path: &Path, limit: Duration) -> io::Result<LocalStream> {
    let deadline = Deadline::after(limit);
    connect_local(path, || deadline.left())
}
