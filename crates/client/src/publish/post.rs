//! Posts events over pooled keep-alive connections, with one deadline per post.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use super::{Cause, address::ListenerAddress};
use crate::{
    clock::Deadline,
    http::{self, ResponseHead},
};

/// Time limit of connecting, sending and the response together (requirement 4.3).
const POST_LIMIT: Duration = Duration::from_secs(5);
/// Most idle connections in the pool. Further concurrent runs reconnect, which is cheaper than idle connections at the server.
const MAX_IDLE: usize = 16;
/// Read buffer: a response is a line or two.
const CHUNK_BYTES: usize = 4 << 10;
/// Longest response body read; after a longer one the connection is closed.
const MAX_BODY_BYTES: usize = 64 << 10;
/// Most characters of a response's message in an error.
const MESSAGE_CHARS: usize = 200;

/// Posts events to one address, on a connection per concurrent post.
#[derive(Debug)]
pub(super) struct Poster {
    address: ListenerAddress,
    idle: Mutex<Vec<TcpStream>>,
}

/// Failure of a post on one connection.
struct PostFailure {
    cause: Cause,
    /// Whether the connection closed before the first byte of a response.
    is_unanswered: bool,
}

impl PostFailure {
    fn of(cause: Cause) -> Self {
        Self { cause, is_unanswered: false }
    }
}

impl Poster {
    pub(super) fn new(address: ListenerAddress) -> Self {
        Self { address, idle: Mutex::new(Vec::new()) }
    }

    pub(super) fn address(&self) -> &ListenerAddress {
        &self.address
    }

    /// Posts one event and waits for the response.
    pub(super) fn post(&self, event: &[u8]) -> Result<(), Cause> {
        let deadline = Deadline::after(POST_LIMIT);
        let headers = [("host", self.address.host.as_str()), ("content-type", "application/json")];
        let request = http::request("POST", &self.address.path, &headers, Some(event));
        if let Some(stream) = self.take_idle() {
            match self.send_request(stream, &request, deadline) {
                // The server closed the idle connection meanwhile: retry. If it did process the event, the event id makes the
                // retry harmless.
                Err(PostFailure { is_unanswered: true, .. }) => {}
                answered => return answered.map_err(|failure| failure.cause),
            }
        }
        let stream = self.connect(deadline)?;
        self.send_request(stream, &request, deadline).map_err(|failure| failure.cause)
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
        mut stream: TcpStream,
        request: &[u8],
        deadline: Deadline,
    ) -> Result<(), PostFailure> {
        let broken = |error| PostFailure { cause: Cause::Broken(error), is_unanswered: true };
        // A server may respond and close before it has read everything: then the response counts, not the write error.
        let sent = send(&mut stream, request, deadline);
        if let Err(IoFailure::DeadlinePassed) = sent {
            return Err(PostFailure::of(Cause::TimedOut(POST_LIMIT)));
        }
        let mut bytes = Vec::new();
        let head = loop {
            match http::take_head(&mut bytes) {
                // Informational; the final response follows.
                Ok(Some(ResponseHead { status: 100..=199, .. })) => continue,
                Ok(Some(head)) => break head,
                Ok(None) => {}
                Err(error) => return Err(PostFailure::of(Cause::Broken(error))),
            }
            let is_unanswered = bytes.is_empty();
            match (read_more(&mut stream, &mut bytes, deadline), &sent) {
                (Ok(()), _) => {}
                (Err(IoFailure::DeadlinePassed), _) => {
                    return Err(PostFailure::of(Cause::TimedOut(POST_LIMIT)));
                }
                (Err(IoFailure::Broken(error)), _) => {
                    return Err(PostFailure { is_unanswered, ..broken(error) });
                }
            }
        };
        let (body, is_whole) = read_body(&mut stream, head, bytes, deadline);
        if (200..300).contains(&head.status) {
            if is_whole && head.is_reusable && sent.is_ok() {
                self.put_idle(stream);
            }
            return Ok(());
        }
        let message = error_message(&body);
        Err(PostFailure::of(Cause::Status { status: head.status, message }))
    }
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

/// Failure of a read or write.
enum IoFailure {
    /// The deadline has passed.
    DeadlinePassed,
    /// The connection broke.
    Broken(io::Error),
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Retries a read or write until it makes progress or the deadline passes.
fn retry_until_deadline(
    mut step: impl FnMut(Duration) -> io::Result<usize>,
    deadline: Deadline,
) -> Result<usize, IoFailure> {
    loop {
        match step(deadline.left().ok_or(IoFailure::DeadlinePassed)?) {
            Ok(0) => return Err(IoFailure::Broken(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => return Ok(count),
            Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(IoFailure::Broken(error)),
        }
    }
}

fn send(stream: &mut TcpStream, mut bytes: &[u8], deadline: Deadline) -> Result<(), IoFailure> {
    while !bytes.is_empty() {
        let write = |left| {
            stream.set_write_timeout(Some(left))?;
            stream.write(bytes)
        };
        let count = retry_until_deadline(write, deadline)?;
        bytes = bytes.get(count..).unwrap_or_default();
    }
    Ok(())
}

fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>, deadline: Deadline) -> Result<(), IoFailure> {
    let mut chunk = [0; CHUNK_BYTES];
    let read = |left| {
        stream.set_read_timeout(Some(left))?;
        stream.read(&mut chunk)
    };
    let count = retry_until_deadline(read, deadline)?;
    bytes.extend_from_slice(chunk.get(..count).unwrap_or_default());
    Ok(())
}

/// Reads a response body; also returns whether it is complete with no bytes behind it, so that the connection can be reused.
fn read_body(
    stream: &mut TcpStream,
    head: ResponseHead,
    mut bytes: Vec<u8>,
    deadline: Deadline,
) -> (Vec<u8>, bool) {
    let (mut framing, mut body) = (head.body, Vec::new());
    while body.len() <= MAX_BODY_BYTES {
        match framing.take(&mut bytes, &mut body) {
            Ok(true) => return (body, bytes.is_empty()),
            Ok(false) => {}
            Err(_) => break,
        }
        if read_more(stream, &mut bytes, deadline).is_err() {
            break;
        }
    }
    (body, false)
}

/// Returns the message of an error response on one line: the `error` field of JSON, else the beginning of the body.
fn error_message(body: &[u8]) -> String {
    let json = serde_json::from_slice::<serde_json::Value>(body).ok();
    let error = json.as_ref().and_then(|json| json.get("error")?.as_str());
    let text = match error {
        Some(error) => error.to_owned(),
        None => String::from_utf8_lossy(body).into_owned(),
    };
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MESSAGE_CHARS).collect()
}
