//! Minimal HTTP/1.1 client (RFC 9112): builds a request, parses a response head, decodes a body incrementally.

use std::io::{self, Read, Write};

/// Longest response head, and longest chunk header line.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Size of a read.
const CHUNK_BYTES: usize = 16 << 10;

/// A complete response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// Status code.
    pub status: u16,
    /// Decoded body.
    pub body: Vec<u8>,
}

/// A response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    pub(crate) body: BodyFraming,
    /// Whether the connection can be reused.
    pub(crate) is_reusable: bool,
}

/// Framing of a body, and how much of it is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFraming {
    /// Bytes left of `content-length`.
    Length(u64),
    /// Chunked transfer coding, with its parser state.
    Chunked(ChunkState),
    /// Until the connection closes.
    UntilClose,
}

/// Parser state of a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkState {
    /// Before a chunk size line.
    Size,
    /// Bytes left of a chunk.
    Data(u64),
    /// Before the line end of a chunk.
    End,
    /// In the trailer section.
    Trailer,
    /// Complete.
    Complete,
}

/// Serializes a request; adds `content-length` if there is a body.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if let Some(body) = body {
        head += &format!("content-length: {}\r\n", body.len());
    }
    head += "\r\n";
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body.unwrap_or_default());
    bytes
}

/// Sends a serialized request and reads the complete response, without reusing the connection. Reads at most
/// `max_bytes`, including the head.
///
/// # Errors
/// If the connection fails, or the response is invalid, incomplete or too long.
pub fn exchange(mut stream: impl Read + Write, request: &[u8], max_bytes: u64) -> io::Result<HttpResponse> {
    stream.write_all(request)?;
    let mut reader = ResponseReader::new(stream.take(max_bytes));
    let head = reader.head()?;
    let mut body = Vec::new();
    reader.body(head.body, usize::MAX, &mut body)?;
    Ok(HttpResponse { status: head.status, body })
}

/// Reads responses from a stream, and buffers the bytes after them.
#[derive(Debug)]
pub(crate) struct ResponseReader<S> {
    pub(crate) stream: S,
    buffer: Vec<u8>,
}

impl<S: Read> ResponseReader<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// Whether all bytes read so far are consumed.
    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Reads the head of a response.
    pub(crate) fn head(&mut self) -> io::Result<ResponseHead> {
        loop {
            match take_head(&mut self.buffer)? {
                // Informational; the final response follows.
                Some(ResponseHead { status: 100..=199, .. }) => {}
                Some(head) => return Ok(head),
                None if self.fill()? == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                None => {}
            }
        }
    }

    /// Appends a body to `out`. Fails if it is longer than about `max_bytes`.
    pub(crate) fn body(
        &mut self,
        mut framing: BodyFraming,
        max_bytes: usize,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        while !self.body_part(&mut framing, out)? {
            if out.len() > max_bytes {
                return Err(invalid("an answer without an end"));
            }
        }
        Ok(())
    }

    /// Appends the next part of a body to `out`: what is buffered, else the result of one read. Returns whether the
    /// body is complete.
    pub(crate) fn body_part(&mut self, framing: &mut BodyFraming, out: &mut Vec<u8>) -> io::Result<bool> {
        let had = out.len();
        let is_complete = framing.take(&mut self.buffer, out)?;
        if is_complete || out.len() > had {
            return Ok(is_complete);
        }
        // Buffered bytes are an incomplete chunk header.
        match self.fill()? {
            0 if *framing == BodyFraming::UntilClose => Ok(true),
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => framing.take(&mut self.buffer, out),
        }
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut chunk = [0; CHUNK_BYTES];
        loop {
            match self.stream.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => return Err(io::ErrorKind::TimedOut.into()),
                read => {
                    let count = read?;
                    self.buffer.extend_from_slice(chunk.get(..count).unwrap_or_default());
                    return Ok(count);
                }
            }
        }
    }
}

/// Removes a response head from the front of `bytes`; `None` if it is incomplete.
fn take_head(bytes: &mut Vec<u8>) -> io::Result<Option<ResponseHead>> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        if bytes.len() > MAX_HEAD_BYTES {
            return Err(invalid("a head without an end"));
        }
        return Ok(None);
    };
    let head = str::from_utf8(bytes.get(..end).unwrap_or_default())
        .map_err(|_| invalid("a header that is not text"))?;
    let head = parse(head)?;
    bytes.drain(..end + 4);
    Ok(Some(head))
}

fn parse(head: &str) -> io::Result<ResponseHead> {
    let mut lines = head.split("\r\n");
    let mut status = lines.next().unwrap_or_default().split(' ');
    let is_reusable = match status.next() {
        Some("HTTP/1.1") => true,
        Some("HTTP/1.0") => false,
        _ => return Err(invalid("no HTTP")),
    };
    let status = status.next().and_then(|word| word.parse().ok()).ok_or_else(|| invalid("no status"))?;
    let mut head = ResponseHead { status, body: BodyFraming::UntilClose, is_reusable };
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted);
        if is("transfer-encoding") {
            head.body = BodyFraming::Chunked(ChunkState::Size);
        } else if is("content-length") && head.body == BodyFraming::UntilClose {
            // RFC 9112, 6.3: transfer-encoding overrides content-length.
            head.body =
                BodyFraming::Length(value.parse().map_err(|_| invalid("a length that is not a number"))?);
        } else if is("connection") && value.eq_ignore_ascii_case("close") {
            head.is_reusable = false;
        }
    }
    if matches!(status, 204 | 304) {
        head.body = BodyFraming::Length(0);
    }
    head.is_reusable &= head.body != BodyFraming::UntilClose;
    Ok(head)
}

impl BodyFraming {
    /// Moves body bytes from `bytes` to `out`. Returns whether the body is complete.
    fn take(&mut self, bytes: &mut Vec<u8>, out: &mut Vec<u8>) -> io::Result<bool> {
        match self {
            Self::UntilClose => {
                out.append(bytes);
                Ok(false)
            }
            Self::Length(left) => {
                *left -= move_bytes(*left, bytes, out);
                Ok(*left == 0)
            }
            Self::Chunked(chunk) => chunk.take(bytes, out),
        }
    }
}

impl ChunkState {
    fn take(&mut self, bytes: &mut Vec<u8>, out: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            match self {
                Self::Complete => return Ok(true),
                Self::Data(left) => {
                    *left -= move_bytes(*left, bytes, out);
                    if *left > 0 {
                        return Ok(false);
                    }
                    *self = Self::End;
                }
                Self::Size => {
                    let Some(line) = take_line(bytes)? else { return Ok(false) };
                    let size = line.split(';').next().unwrap_or_default().trim();
                    let size =
                        u64::from_str_radix(size, 16).map_err(|_| invalid("a chunk without a size"))?;
                    *self = if size == 0 { Self::Trailer } else { Self::Data(size) };
                }
                Self::End => match take_line(bytes)?.as_deref() {
                    None => return Ok(false),
                    Some("") => *self = Self::Size,
                    Some(_) => return Err(invalid("a chunk longer than its size")),
                },
                Self::Trailer => match take_line(bytes)?.as_deref() {
                    None => return Ok(false),
                    Some("") => *self = Self::Complete,
                    Some(_) => {}
                },
            }
        }
    }
}

/// Moves at most `most` bytes; returns how many.
fn move_bytes(most: u64, bytes: &mut Vec<u8>, out: &mut Vec<u8>) -> u64 {
    let count = usize::try_from(most).unwrap_or(usize::MAX).min(bytes.len());
    out.extend(bytes.drain(..count));
    count as u64
}

fn take_line(bytes: &mut Vec<u8>) -> io::Result<Option<String>> {
    let Some(end) = bytes.windows(2).position(|window| window == b"\r\n") else {
        return if bytes.len() > MAX_HEAD_BYTES { Err(invalid("a line without an end")) } else { Ok(None) };
    };
    let line = String::from_utf8(bytes.drain(..end + 2).take(end).collect());
    line.map(Some).map_err(|_| invalid("a line that is not text"))
}

/// Whether a read or write timed out.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Returns the message of an error response: its field `error`.
pub(crate) fn error_field(body: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct ErrorBody {
        error: String,
    }
    serde_json::from_slice::<ErrorBody>(body).ok().map(|body| body.error)
}

/// Percent-encodes a text for a path segment or query value.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an answer that comes in pieces of a size; gives status, body, whether it is whole, and what is left.
    fn read(answer: &str, size: usize) -> Option<(u16, String, bool, String)> {
        let (mut bytes, mut head, mut body, mut is_whole) = (Vec::new(), None, Vec::new(), false);
        for piece in answer.as_bytes().chunks(size) {
            bytes.extend_from_slice(piece);
            if head.is_none() {
                head = take_head(&mut bytes).ok()?;
            }
            if let Some(ResponseHead { body: framing, .. }) = &mut head {
                is_whole = is_whole || framing.take(&mut bytes, &mut body).ok()?;
            }
        }
        let text = |bytes| String::from_utf8(bytes).unwrap();
        head.map(|head| (head.status, text(body), is_whole, text(bytes)))
    }

    fn check(answer: &str, expected: Option<(u16, &str, bool, &str)>) {
        let expected = expected
            .map(|(status, body, is_whole, rest)| (status, body.to_owned(), is_whole, rest.to_owned()));
        for size in [1, 2, 3, 7, 1 << 20] {
            assert_eq!(read(answer, size), expected, "{answer} in pieces of {size}");
        }
    }

    #[test]
    fn answers_end_by_length_by_chunks_or_with_the_connection() {
        check("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}rest", Some((200, "{}", true, "rest")));
        check("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", Some((404, "", true, "")));
        check("HTTP/1.1 204 No Content\r\n\r\nrest", Some((204, "", true, "rest")));
        check("HTTP/1.1 200\r\n\r\nto the end", Some((200, "to the end", false, "")));
        let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\ncontent-length: 9\r\n\r\n\
            1\r\n{\r\nA;x=y\r\n\"a\":12345}\r\n0\r\nx: y\r\n\r\nrest";
        check(chunks, Some((200, "{\"a\":12345}", true, "rest")));
        check("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{}", Some((200, "{}", false, "")));
    }

    #[test]
    fn damaged_answers_are_errors() {
        for answer in [
            "SSH-2.0 200\r\n\r\n",
            "HTTP/1.1 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n",
        ] {
            check(answer, None);
        }
        let endless = format!("HTTP/1.1 200 OK\r\n{}", "a: b\r\n".repeat(20_000));
        assert_eq!(read(&endless, 4096), None);
        assert_eq!(take_head(&mut vec![0xff; 3]).unwrap(), None);
    }

    #[test]
    fn connections_stay_unless_something_says_otherwise() {
        let is_reusable = |head: &str| parse(head).unwrap().is_reusable;
        assert!(is_reusable("HTTP/1.1 200 OK\r\ncontent-length: 2"));
        assert!(!is_reusable("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nConnection: close"));
        assert!(!is_reusable("HTTP/1.0 200 OK\r\ncontent-length: 2"));
        assert!(!is_reusable("HTTP/1.1 200 OK"));
    }

    /// A stream that returns a response in pieces of a size, and records what was written, at most 7 bytes a write.
    struct ScriptedStream<'a> {
        response: &'a [u8],
        piece: usize,
        written: Vec<u8>,
    }

    impl Read for ScriptedStream<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.piece.min(self.response.len()).min(buffer.len());
            let (now, later) = self.response.split_at(count);
            buffer[..count].copy_from_slice(now);
            self.response = later;
            Ok(count)
        }
    }

    impl Write for ScriptedStream<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let part = &bytes[..bytes.len().min(7)];
            self.written.extend_from_slice(part);
            Ok(part.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn exchange_in(response: &str, piece: usize) -> Option<(u16, String)> {
        let mut stream = ScriptedStream { response: response.as_bytes(), piece, written: Vec::new() };
        let request = request("POST", "/path", &[("host", "localhost")], Some(b"{\"a\":1}"));
        let response = exchange(&mut stream, &request, 64 << 10);
        assert_eq!(
            String::from_utf8(stream.written).unwrap(),
            "POST /path HTTP/1.1\r\nhost: localhost\r\ncontent-length: 7\r\n\r\n{\"a\":1}"
        );
        response.ok().map(|response| (response.status, String::from_utf8(response.body).unwrap()))
    }

    #[test]
    fn exchange_returns_a_complete_response_in_each_framing() {
        for (text, status, body) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}and more", 200, "{}"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, ""),
            ("HTTP/1.1 200\r\n\r\n{\"to\":\"the end\"}", 200, "{\"to\":\"the end\"}"),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 500 Oh\r\ncontent-length: 1\r\n\r\nx", 500, "x"),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\nA;x=y\r\n\"a\":12345}\r\n0\r\n\r\n",
                200,
                "{\"a\":12345}",
            ),
        ] {
            for piece in [1, 2, 3, 1 << 20] {
                assert_eq!(
                    exchange_in(text, piece),
                    Some((status, body.to_owned())),
                    "{text} in pieces of {piece}"
                );
            }
        }
    }

    #[test]
    fn exchange_fails_on_invalid_incomplete_and_endless_responses() {
        for text in [
            "",
            "HTTP/1.1 200 OK",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{}",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n{}",
            "SSH-2.0 200\r\n\r\n",
        ] {
            for piece in [1, 3, 1 << 20] {
                assert_eq!(exchange_in(text, piece), None, "{text} in pieces of {piece}");
            }
        }
        let endless = format!("HTTP/1.1 200 OK\r\n{}\r\n{{}}", "a: b\r\n".repeat(20_000));
        assert_eq!(exchange_in(&endless, 4096), None);
    }

    #[test]
    fn escape_leaves_nothing_that_means_something() {
        assert_eq!(escape("a-B_9.~"), "a-B_9.~");
        assert_eq!(escape("a/b?c=d&e #%\"ü\r\n"), "a%2Fb%3Fc%3Dd%26e%20%23%25%22%C3%BC%0D%0A");
    }
}
