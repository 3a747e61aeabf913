//! A running `serve`, a client that writes raw bytes, and the sources of a recorded session to ingest.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use serde_json::Value;
use subscope_hub::clock;
use subscope_testkit::{
    env::TestEnv,
    fixtures::{self, Recording, recording},
};

/// Far more than any wait of these tests takes: a slow machine is no failure.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Waits until there is something.
pub(crate) fn wait_until<T>(mut ready: impl FnMut() -> Option<T>) -> T {
    let began = clock::tick();
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(began.elapsed() < LIMIT, "it does not come");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A running `serve`.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) address: String,
    pub(crate) errors: Option<thread::JoinHandle<String>>,
}

impl Serving {
    pub(crate) fn start(env: &TestEnv, words: &str) -> Self {
        let mut command = env.command();
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(words.split_whitespace());
        Self::start_as(command)
    }

    /// Starts it by a command that says so, and waits until it answers.
    pub(crate) fn start_as(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let errors = child.stderr.take().unwrap();
        let errors = thread::spawn(move || std::io::read_to_string(errors).unwrap_or_default());
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let address = url.trim().strip_prefix("http://").unwrap_or_else(|| panic!("{url:?}")).to_owned();
        Self { child, address, errors: Some(errors) }
    }

    /// Waits for the end of the initial scan.
    pub(crate) fn has_read(&self) {
        let began = clock::tick();
        while self.json("/healthz")["is_reading"] == true {
            assert!(began.elapsed() < LIMIT, "it reads and reads");
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        exchange(
            self.connect(),
            format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address).as_bytes(),
        )
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path);
        assert_eq!(status, 200, "{path} {body}");
        serde_json::from_str(&body).unwrap()
    }

    pub(crate) fn tree(&self, session: &str) -> Option<Value> {
        let (status, body) = self.get(&format!("/api/v1/sessions/{session}/tree"));
        (status == 200).then(|| serde_json::from_str(&body).unwrap())
    }

    pub(crate) fn post(&self, path: &str, headers: &str, body: &[u8]) -> String {
        let (status, answer) = exchange(self.connect(), &posting(&self.address, path, headers, body));
        assert_eq!(status, 200, "{path} {answer}");
        answer
    }

    /// Opens the live feed and reads it on a thread, until the server ends it or as many blocks have come.
    pub(crate) fn live(&self, headers: &str, blocks: usize) -> thread::JoinHandle<Vec<String>> {
        let mut stream = self.connect();
        write!(stream, "GET /api/v1/live HTTP/1.1\r\nhost: {}\r\n{headers}\r\n", self.address).unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        while reader.read_line(&mut line).unwrap() > 2 {
            line.clear();
        }
        thread::spawn(move || {
            let (mut all, mut block) = (Vec::new(), String::new());
            for line in reader.lines().map_while(Result::ok) {
                match line.split_once(": ") {
                    Some(("id" | "event" | "data", _)) => block += &format!("{line}\n"),
                    _ if line.is_empty() && !block.is_empty() => {
                        all.push(std::mem::take(&mut block));
                        if all.len() == blocks {
                            return all;
                        }
                    }
                    _ => {}
                }
            }
            all
        })
    }

    /// Ends it by a signal; returns its stderr.
    pub(crate) fn end(mut self, signal: &str) -> String {
        let killed = Command::new("kill").arg(signal).arg(self.child.id().to_string()).status().unwrap();
        assert!(killed.success());
        let began = clock::tick();
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(began.elapsed() < LIMIT, "it does not end"),
            }
            thread::sleep(Duration::from_millis(5));
        };
        let errors = self.errors.take().unwrap().join().unwrap();
        assert_eq!(status.code(), Some(0), "{errors}");
        assert!(!errors.contains("panicked"), "{errors}");
        errors
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It has ended already where the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn posting(host: &str, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let kind = if path.contains("/ingest/") { "application/x-ndjson" } else { "application/json" };
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

pub(crate) fn exchange(mut stream: impl Read + Write, request: &[u8]) -> (u16, String) {
    stream.write_all(request).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    // An export may be binary.
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// A session's sources, as pieces that can be ingested in any order between sources.
pub(crate) struct Sources {
    pub(crate) recording: Recording,
    pub(crate) session: String,
}

impl Sources {
    pub(crate) fn nested() -> Self {
        let recording = recording("2.1.330", "c-nested");
        let main = main_file(&recording);
        let session = main.file_stem().unwrap().to_string_lossy().into_owned();
        Self { recording, session }
    }

    pub(crate) fn lines(&self, file: &str) -> Vec<Vec<u8>> {
        let bytes = fixtures::bytes(&main_file(&self.recording).ancestors().nth(3).unwrap().join(file));
        bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    }
}

pub(crate) fn main_file(recording: &Recording) -> PathBuf {
    let files = recording.conversation().into_iter();
    let mut main = files.filter(|path| {
        path.extension().is_some_and(|it| it == "jsonl") && !path.to_string_lossy().contains("subagents")
    });
    main.next().unwrap()
}
