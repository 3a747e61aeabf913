//! One POST of JSON to the hub over a stream (HTTP/1.1, RFC 9112): as much of it as a hook needs.

use std::io::{self, IoSlice, Read, Write};

use subscope_collect::spool::Delivery;
use subscope_harness::hooked;

/// The greatest answer with its head. A decision has some hundred bytes; this much a pipe takes without a reader.
const ANSWER_LIMIT_BYTES: u64 = 64 << 10;

/// What the hub answered.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Posts a payload and returns the body of the answer.
///
/// # Errors
/// Where the connection fails, or the answer is no 200 or not whole.
pub(super) fn post(stream: impl Read + Write, delivery: Delivery, body: &[u8]) -> io::Result<Vec<u8>> {
    let received_ms = delivery.received_ms();
    let headers = format!("X-Subscope-Delivery: {delivery}\r\nX-Subscope-Received-Ms: {received_ms}\r\n");
    let (_, hooks) = hooked().ok_or_else(|| invalid("no harness has hooks"))?;
    let answer = exchange(stream, hooks.route(), &headers, body)?;
    // Only 200 means that the payload was taken.
    if answer.status == 200 { Ok(answer.body) } else { Err(invalid("no 200")) }
}

/// Posts JSON to a path and returns the answer. `headers` are whole lines.
///
/// # Errors
/// Where the connection fails, or the answer is not whole.
fn exchange(mut stream: impl Read + Write, path: &str, headers: &str, body: &[u8]) -> io::Result<Answer> {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\n\
         Host: localhost\r\n\
         Content-Type: application/json\r\n\
         Content-Length: {length}\r\n\
         {headers}\
         Connection: close\r\n\r\n"
    );
    write_all(&mut stream, &mut [IoSlice::new(head.as_bytes()), IoSlice::new(body)])?;
    read_answer(&mut stream.take(ANSWER_LIMIT_BYTES))
}

/// Writes all parts, the first ones in one go: head and body of most payloads arrive together.
fn write_all(stream: &mut impl Write, mut rest: &mut [IoSlice<'_>]) -> io::Result<()> {
    // One that is empty would look like a writer that takes no more.
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match stream.write_vectored(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => IoSlice::advance_slices(&mut rest, count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// How an answer's body ends.
#[derive(Clone, Copy)]
enum Framing {
    /// After that many bytes.
    Length(usize),
    /// With an empty chunk.
    Chunked,
    /// With the connection.
    Close,
}

fn read_answer(stream: &mut impl Read) -> io::Result<Answer> {
    let mut bytes = Vec::new();
    let ((status, framing), start) = loop {
        if let Some(end) = find(&bytes, b"\r\n\r\n") {
            break (read_head(&bytes[..end])?, end + 4);
        }
        if read_more(stream, &mut bytes)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    let mut body = bytes.split_off(start);
    loop {
        let whole = match framing {
            Framing::Length(length) => (body.len() >= length).then(|| body[..length].to_vec()),
            Framing::Chunked => unchunk(&body)?,
            Framing::Close => None,
        };
        if let Some(whole) = whole {
            return Ok(Answer { status, body: whole });
        }
        if read_more(stream, &mut body)? == 0 {
            return match framing {
                Framing::Close => Ok(Answer { status, body }),
                Framing::Length(_) | Framing::Chunked => Err(io::ErrorKind::UnexpectedEof.into()),
            };
        }
    }
}

fn read_more(stream: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<usize> {
    let mut chunk = [0; 4096];
    loop {
        match stream.read(&mut chunk) {
            Ok(count) => {
                bytes.extend_from_slice(&chunk[..count]);
                return Ok(count);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads the status line and the headers.
fn read_head(head: &[u8]) -> io::Result<(u16, Framing)> {
    let head = str::from_utf8(head).map_err(|_| invalid("a head that is no text"))?;
    let mut lines = head.split("\r\n");
    let mut status = lines.next().unwrap_or_default().split(' ');
    let is_http = status.next().is_some_and(|version| version.starts_with("HTTP/1."));
    let status = status.next().and_then(|word| word.parse().ok()).filter(|_| is_http);
    let status = status.ok_or_else(|| invalid("no answer of HTTP/1"))?;
    let mut framing = Framing::Close;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("transfer-encoding") {
            // RFC 9112, 6.3: it overrides a length.
            return Ok((status, Framing::Chunked));
        }
        if name.eq_ignore_ascii_case("content-length") {
            framing = Framing::Length(value.parse().map_err(|_| invalid("a length that is no number"))?);
        }
    }
    Ok((status, framing))
}

/// Returns the chunks joined, or `None` where the last has not come yet.
fn unchunk(mut rest: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    loop {
        let Some(end) = find(rest, b"\r\n") else { return Ok(None) };
        let size = str::from_utf8(&rest[..end]).unwrap_or_default();
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| invalid("a chunk without a size"))?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Ok(Some(body));
        }
        let Some(chunk) = rest.get(..size) else { return Ok(None) };
        body.extend_from_slice(chunk);
        match rest.get(size..size.saturating_add(2)) {
            None => return Ok(None),
            Some(b"\r\n") => rest = &rest[size + 2..],
            Some(_) => return Err(invalid("a chunk longer than its size")),
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives an answer in pieces of a size and keeps what was written.
    struct Peer<'a>(&'a [u8], Vec<u8>, usize);

    impl Read for Peer<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.2.min(self.0.len()).min(buffer.len());
            let (now, later) = self.0.split_at(count);
            buffer[..count].copy_from_slice(now);
            self.0 = later;
            Ok(count)
        }
    }

    impl Write for Peer<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let some = &bytes[..bytes.len().min(7)];
            self.1.extend_from_slice(some);
            Ok(some.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn answer(answer: &str) -> Option<String> {
        let in_pieces = [1, 2, 3, 1 << 20].map(|size| answer_in(answer, size));
        assert!(in_pieces.iter().all(|answer| *answer == in_pieces[0]), "{in_pieces:?}");
        in_pieces.into_iter().next().unwrap()
    }

    fn answer_in(answer: &str, size: usize) -> Option<String> {
        let mut peer = Peer(answer.as_bytes(), Vec::new(), size);
        let answered = post(&mut peer, Delivery::new(1_000_000, 2, 3), b"{\"a\":1}");
        let sent = String::from_utf8(peer.1).unwrap();
        assert!(
            sent.starts_with("POST /hooks/claude HTTP/1.1\r\n") && sent.ends_with("\r\n\r\n{\"a\":1}"),
            "{sent}"
        );
        assert!(
            sent.contains("\r\nContent-Length: 7\r\n") && sent.contains("\r\nX-Subscope-Received-Ms: 1\r\n")
        );
        assert!(
            sent.contains("\r\nX-Subscope-Delivery: 00000000000f4240-00000002-0000000000000003\r\n"),
            "{sent}"
        );
        answered.ok().map(|body| String::from_utf8(body).unwrap())
    }

    #[test]
    fn post_takes_a_200_in_each_framing() {
        for (text, body) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}and more", "{}"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ""),
            ("HTTP/1.1 200\r\n\r\n{\"to\":\"the end\"}", "{\"to\":\"the end\"}"),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\nA;x=y\r\n\"a\":12345}\r\n0\r\n\r\n",
                "{\"a\":12345}",
            ),
        ] {
            assert_eq!(answer(text).as_deref(), Some(body), "{text}");
        }
    }

    #[test]
    fn post_fails_on_anything_else() {
        for text in [
            "",
            "HTTP/1.1 200 OK",
            "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{}",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n{}",
            "SSH-2.0 200\r\n\r\n",
        ] {
            assert_eq!(answer(text), None, "{text}");
        }
    }

    #[test]
    fn post_bounds_the_answer() {
        let long = format!("HTTP/1.1 200 OK\r\n{}\r\n{{}}", "a: b\r\n".repeat(20_000));
        assert_eq!(answer_in(&long, 4096), None);
    }
}
