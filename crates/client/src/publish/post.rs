//! Posting: connections that are kept, and one limit on everything that a post waits for.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use super::{Cause, address::Target};
use crate::{
    clock::Deadline,
    http::{self, Head},
};

/// How long connecting, sending and the answer may take together (requirement 4.3).
const LIMIT: Duration = Duration::from_secs(5);
/// How many connections wait for their next event. More runs at once than that connect anew, which costs less than a server's
/// patience with connections that say nothing.
const KEPT: usize = 16;
/// What is read at once: an answer is a line or two.
const CHUNK_BYTES: usize = 4 << 10;
/// The longest answer that is read to its end; behind a longer one the connection is given up.
const ANSWER_BYTES: usize = 64 << 10;
/// How much of a refusal's words an error repeats.
const MESSAGE_CHARS: usize = 200;

/// Posts events to one target, on as many connections as there are posts at once.
#[derive(Debug)]
pub(super) struct Poster {
    target: Target,
    kept: Mutex<Vec<TcpStream>>,
}

/// How a post on one connection went wrong.
struct Failure {
    cause: Cause,
    /// Whether the connection ended before anything of an answer.
    is_unanswered: bool,
}

impl Failure {
    fn of(cause: Cause) -> Self {
        Self { cause, is_unanswered: false }
    }
}

impl Poster {
    pub(super) fn new(target: Target) -> Self {
        Self { target, kept: Mutex::new(Vec::new()) }
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Posts one event and waits until it is taken.
    pub(super) fn post(&self, event: &[u8]) -> Result<(), Cause> {
        let deadline = Deadline::after(LIMIT);
        let headers = [("host", self.target.host.as_str()), ("content-type", "application/json")];
        let request = http::request("POST", &self.target.path, &headers, Some(event));
        if let Some(stream) = self.take_kept() {
            match self.ask(stream, &request, deadline) {
                // The server closed it while the event was on its way. Should it have taken the event first, it knows the
                // event's id.
                Err(Failure { is_unanswered: true, .. }) => {}
                answered => return answered.map_err(|failure| failure.cause),
            }
        }
        let stream = self.connect(deadline)?;
        self.ask(stream, &request, deadline).map_err(|failure| failure.cause)
    }

    /// Takes a kept connection that the server has not closed.
    fn take_kept(&self) -> Option<TcpStream> {
        loop {
            // The last used first: the others may then be closed for want of use.
            let stream = self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            if is_open(&stream) {
                return Some(stream);
            }
        }
    }

    fn keep(&self, stream: TcpStream) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT {
            kept.push(stream);
        }
    }

    fn connect(&self, deadline: Deadline) -> Result<TcpStream, Cause> {
        let mut failed = Cause::TimedOut(LIMIT);
        for socket in &self.target.sockets {
            let Some(left) = deadline.left() else { return Err(Cause::TimedOut(LIMIT)) };
            match TcpStream::connect_timeout(socket, left) {
                Ok(stream) => {
                    // An event is one packet, and is waited for.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(error) if is_timeout(&error) => return Err(Cause::TimedOut(LIMIT)),
                Err(error) => failed = Cause::Connect(error),
            }
        }
        Err(failed)
    }

    fn ask(&self, mut stream: TcpStream, request: &[u8], deadline: Deadline) -> Result<(), Failure> {
        let broken = |error| Failure { cause: Cause::Broken(error), is_unanswered: true };
        // A server may answer and close before it has read everything: its answer counts, not that the rest was not sent.
        let sent = send(&mut stream, request, deadline);
        if let Err(Failed::Late) = sent {
            return Err(Failure::of(Cause::TimedOut(LIMIT)));
        }
        let mut bytes = Vec::new();
        let head = loop {
            match http::take_head(&mut bytes) {
                // An announcement; the answer follows.
                Ok(Some(Head { status: 100..=199, .. })) => continue,
                Ok(Some(head)) => break head,
                Ok(None) => {}
                Err(error) => return Err(Failure::of(Cause::Broken(error))),
            }
            let is_unanswered = bytes.is_empty();
            match (hear(&mut stream, &mut bytes, deadline), &sent) {
                (Ok(()), _) => {}
                (Err(Failed::Late), _) => return Err(Failure::of(Cause::TimedOut(LIMIT))),
                (Err(Failed::Broken(error)), _) => {
                    return Err(Failure { is_unanswered, ..broken(error) });
                }
            }
        };
        let (body, is_whole) = read_body(&mut stream, head, bytes, deadline);
        if (200..300).contains(&head.status) {
            if is_whole && head.is_kept && sent.is_ok() {
                self.keep(stream);
            }
            return Ok(());
        }
        let message = message(&body);
        Err(Failure::of(Cause::Status { status: head.status, message }))
    }
}

/// Whether the other side has neither closed a connection nor said anything on it that nobody asked for.
fn is_open(stream: &TcpStream) -> bool {
    let mut byte = [0];
    if stream.set_nonblocking(true).is_err() {
        return false;
    }
    let heard = stream.peek(&mut byte);
    stream.set_nonblocking(false).is_ok()
        && matches!(heard, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// Why bytes did not come or go.
enum Failed {
    /// The time is over.
    Late,
    /// The connection is.
    Broken(io::Error),
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Repeats a read or write until it did something, and no longer than there is time.
fn patiently(
    mut step: impl FnMut(Duration) -> io::Result<usize>,
    deadline: Deadline,
) -> Result<usize, Failed> {
    loop {
        match step(deadline.left().ok_or(Failed::Late)?) {
            Ok(0) => return Err(Failed::Broken(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => return Ok(count),
            Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failed::Broken(error)),
        }
    }
}

fn send(stream: &mut TcpStream, mut bytes: &[u8], deadline: Deadline) -> Result<(), Failed> {
    while !bytes.is_empty() {
        let write = |left| {
            stream.set_write_timeout(Some(left))?;
            stream.write(bytes)
        };
        let count = patiently(write, deadline)?;
        bytes = bytes.get(count..).unwrap_or_default();
    }
    Ok(())
}

fn hear(stream: &mut TcpStream, bytes: &mut Vec<u8>, deadline: Deadline) -> Result<(), Failed> {
    let mut chunk = [0; CHUNK_BYTES];
    let read = |left| {
        stream.set_read_timeout(Some(left))?;
        stream.read(&mut chunk)
    };
    let count = patiently(read, deadline)?;
    bytes.extend_from_slice(chunk.get(..count).unwrap_or_default());
    Ok(())
}

/// Reads an answer's body, and says whether it is whole with nothing behind it, so that more can be asked on its connection.
fn read_body(stream: &mut TcpStream, head: Head, mut bytes: Vec<u8>, deadline: Deadline) -> (Vec<u8>, bool) {
    let (mut framing, mut body) = (head.body, Vec::new());
    while body.len() <= ANSWER_BYTES {
        match framing.take(&mut bytes, &mut body) {
            Ok(true) => return (body, bytes.is_empty()),
            Ok(false) => {}
            Err(_) => break,
        }
        if hear(stream, &mut bytes, deadline).is_err() {
            break;
        }
    }
    (body, false)
}

/// Returns what a refusal says, on one line: its `error`, as a hub writes it, else the front of its text.
fn message(body: &[u8]) -> String {
    let json = serde_json::from_slice::<serde_json::Value>(body).ok();
    let said = json.as_ref().and_then(|json| json.get("error")?.as_str());
    let text = match said {
        Some(said) => said.to_owned(),
        None => String::from_utf8_lossy(body).into_owned(),
    };
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MESSAGE_CHARS).collect()
}
