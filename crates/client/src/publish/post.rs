//! Posts events over pooled keep-alive connections, with one deadline per post.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    path::PathBuf,
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};

use subscope_platform::{into_tcp, variable};

use super::{Cause, address::ListenerAddress, is_stop};
use crate::{
    Address, Client,
    clock::Deadline,
    connection::connect_socket,
    http::{self, ResponseReader, error_field, is_timeout},
};

/// Time limit of connecting, sending and the response together (requirement 4.3).
const POST_LIMIT: Duration = Duration::from_secs(5);
/// HTTP status of a hub that cannot identify the poster.
const UNAUTHORIZED: u16 = 401;
/// Most idle connections in the pool. Further concurrent runs reconnect, which is cheaper than idle connections at the
/// server.
const MAX_IDLE: usize = 16;
/// Longest response body read; after a longer one the connection is closed.
const MAX_BODY_BYTES: usize = 64 << 10;
/// Most characters of a response's message in an error.
const MESSAGE_CHARS: usize = 200;

/// Posts events to one address, on a connection per concurrent post.
#[derive(Debug)]
pub(super) struct Poster {
    address: ListenerAddress,
    /// Unix socket of the hub at the address, if it does not know us over TCP.
    socket: OnceLock<PathBuf>,
    idle: Mutex<Vec<TcpStream>>,
}

/// Failure of a post on one connection.
struct PostFailure {
    cause: Cause,
    /// Whether the connection closed before the first byte of a response.
    is_unanswered: bool,
}

impl Poster {
    pub(super) fn new(address: ListenerAddress) -> Self {
        Self { address, socket: OnceLock::new(), idle: Mutex::new(Vec::new()) }
    }

    pub(super) fn address(&self) -> &ListenerAddress {
        &self.address
    }

    /// Posts one event and waits for the response. Returns whether a user asked that its run stop.
    pub(super) fn post(&self, event: &[u8]) -> Result<bool, Cause> {
        let deadline = Deadline::after(POST_LIMIT);
        let headers = [("host", self.address.host.as_str()), ("content-type", "application/json")];
        let request = http::request("POST", &self.address.path, &headers, Some(event));
        if let Some(stream) = self.take_idle() {
            match self.send_request(stream, &request, deadline) {
                // The server closed the idle connection meanwhile: retry. If it did process the event, the event id
                // makes the retry harmless.
                Err(PostFailure { is_unanswered: true, .. }) => {}
                answered => return answered.map_err(|failure| failure.cause),
            }
        }
        let answered = self.send_request(self.connect(deadline)?, &request, deadline);
        let is_unknown =
            matches!(&answered, Err(PostFailure { cause: Cause::Status { status: UNAUTHORIZED, .. }, .. }));
        let answered = match is_unknown && self.find_socket(deadline) {
            true => self.send_request(self.connect(deadline)?, &request, deadline),
            false => answered,
        };
        answered.map_err(|failure| failure.cause)
    }

    /// Looks for the Unix socket of the hub at the address. The socket identifies this user on systems that do not
    /// report the owner of a TCP connection. No token is sent: another user's program may listen at the address.
    fn find_socket(&self, deadline: Deadline) -> bool {
        let (Some(socket), Some(left)) = (socket_of_environment(), deadline.left()) else { return false };
        let Ok((_, health)) = Client::greet(Address::Socket(socket.clone()), left) else { return false };
        let own = ListenerAddress::parse(&health.url).map(|hub| hub.sockets).unwrap_or_default();
        own.iter().any(|address| self.address.sockets.contains(address)) && self.socket.set(socket).is_ok()
    }

    /// Takes an idle connection that the server has not closed.
    fn take_idle(&self) -> Option<TcpStream> {
        loop {
            // Last in, first out, so that surplus connections idle out.
            let stream = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            if is_open(&stream) {
                return Some(stream);
            }
        }
    }

    fn put_idle(&self, stream: TcpStream) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push(stream);
        }
    }

    fn connect(&self, deadline: Deadline) -> Result<TcpStream, Cause> {
        if let Some(socket) = self.socket.get() {
            let left = deadline.left().ok_or(Cause::TimedOut(POST_LIMIT))?;
            let stream = connect_socket(socket, left).map_err(Cause::Connect)?;
            return Ok(into_tcp(stream));
        }
        let mut failed = Cause::TimedOut(POST_LIMIT);
        for socket in &self.address.sockets {
            let Some(left) = deadline.left() else { return Err(Cause::TimedOut(POST_LIMIT)) };
            match TcpStream::connect_timeout(socket, left) {
                Ok(stream) => {
                    // Each event is one write followed by a wait: Nagle's algorithm would only delay it.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(error) if is_timeout(&error) => return Err(Cause::TimedOut(POST_LIMIT)),
                Err(error) => failed = Cause::Connect(error),
            }
        }
        Err(failed)
    }

    fn send_request(
        &self,
        stream: TcpStream,
        request: &[u8],
        deadline: Deadline,
    ) -> Result<bool, PostFailure> {
        let mut stream = DeadlineStream { stream, deadline };
        // A server may respond and close before it has read everything: then the response counts, not the write error.
        let is_sent = stream.write_all(request).is_ok();
        let mut reader = ResponseReader::new(stream);
        let head = reader.head().map_err(|error| {
            if is_timeout(&error) {
                PostFailure { cause: Cause::TimedOut(POST_LIMIT), is_unanswered: false }
            } else {
                PostFailure { cause: Cause::Broken(error), is_unanswered: reader.is_empty() }
            }
        })?;
        let mut body = Vec::new();
        let is_whole = reader.body(head.body, MAX_BODY_BYTES, &mut body).is_ok() && reader.is_empty();
        if !(200..300).contains(&head.status) {
            let cause = Cause::Status { status: head.status, message: error_message(&body) };
            return Err(PostFailure { cause, is_unanswered: false });
        }
        if is_whole && head.is_reusable && is_sent {
            self.put_idle(reader.stream.stream);
        }
        Ok(is_stop(&body))
    }
}

/// Returns the path of the socket in the data folder that the environment names: `SUBSCOPE_DATA_DIR`, else `subscope` in
/// `XDG_DATA_HOME`, else in `~/.local/share`.
fn socket_of_environment() -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = || set("XDG_DATA_HOME").filter(|folder| folder.is_absolute());
    let base = || base().or_else(|| Some(set("HOME")?.join(".local/share")));
    let folder = set("SUBSCOPE_DATA_DIR").or_else(|| Some(base()?.join("subscope")))?;
    Some(folder.join("hub.sock"))
}

/// Whether an idle connection is open, without unexpected data.
fn is_open(stream: &TcpStream) -> bool {
    let mut byte = [0];
    if stream.set_nonblocking(true).is_err() {
        return false;
    }
    let peeked = stream.peek(&mut byte);
    stream.set_nonblocking(false).is_ok()
        && matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// A stream whose reads and writes time out at a deadline.
struct DeadlineStream {
    stream: TcpStream,
    deadline: Deadline,
}

impl DeadlineStream {
    /// Retries a read or write until it makes progress or the deadline passes.
    fn retry(
        &mut self,
        mut step: impl FnMut(&mut TcpStream, Duration) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            let left = self.deadline.left().ok_or(io::ErrorKind::TimedOut)?;
            match step(&mut self.stream, left) {
                Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

impl Read for DeadlineStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.retry(|stream, left| {
            stream.set_read_timeout(Some(left))?;
            stream.read(buffer)
        })
    }
}

impl Write for DeadlineStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.retry(|stream, left| {
            stream.set_write_timeout(Some(left))?;
            stream.write(bytes)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the message of an error response on one line: the `error` field of JSON, else the beginning of the body.
fn error_message(body: &[u8]) -> String {
    let text = error_field(body).unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MESSAGE_CHARS).collect()
}
