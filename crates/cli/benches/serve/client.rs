//! Programs under load, and the connections to them.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::Instant,
};

use subscope_testkit::figures::now;

/// A server and its address. It ends with this.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
}

impl Server {
    /// Starts the real program over a home folder.
    pub(crate) fn subscope(home: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_subscope"));
        command.args(["serve", "--listen", "127.0.0.1:0"]).env_clear().env("HOME", home);
        Self::start(command)
    }

    /// Starts a server that prints its address once it answers.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts");
        let mut url = String::new();
        let stdout = child.stdout.take().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut url).expect("its address");
        Self { child, address: url.trim().trim_start_matches("http://").to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

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

/// A percentile of sorted figures.
pub(crate) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted.get(sorted.len() * percent / 100).or(sorted.last()).copied().unwrap_or_default()
}

/// Milliseconds between two moments.
pub(crate) fn millis(from: Instant, to: Instant) -> f64 {
    to.duration_since(from).as_secs_f64() * 1000.0
}
