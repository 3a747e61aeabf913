//! Connections to a program under load.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Instant,
};

use subscope_testkit::figures::now;

/// A connection that stays open.
pub(crate) struct Connection<'a> {
    address: &'a str,
    stream: TcpStream,
}

impl<'a> Connection<'a> {
    pub(crate) fn open(address: &'a str) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        Self { address, stream }
    }

    /// Posts, waits for the answer, and returns how long that took in milliseconds.
    pub(crate) fn post(&mut self, path: &str, body: &str) -> f64 {
        let mut buffer = [0; 4096];
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        let asked = now();
        self.stream.write_all(request.as_bytes()).expect("a post");
        let count = self.stream.read(&mut buffer).expect("an answer");
        let answer = &buffer[..count];
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(answer));
        asked.elapsed().as_secs_f64() * 1000.0
    }

    /// Opens the live feed and returns its lines from where it begins to be live.
    pub(crate) fn feed(mut self) -> BufReader<TcpStream> {
        write!(self.stream, "GET /api/v1/live HTTP/1.1\r\nhost: {}\r\n\r\n", self.address)
            .expect("a request");
        let mut lines = BufReader::with_capacity(1 << 16, self.stream);
        let mut line = String::new();
        // What happens before that is in snapshots, and no event.
        while line.trim_end() != ": live" {
            line.clear();
            assert!(lines.read_line(&mut line).expect("the feed") > 0, "the feed ended");
        }
        lines
    }
}

/// Milliseconds between two moments.
pub(crate) fn millis(from: Instant, to: Instant) -> f64 {
    to.duration_since(from).as_secs_f64() * 1000.0
}
