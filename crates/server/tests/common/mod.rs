//! In-process server and a raw HTTP client, since access control depends on exact bytes.

#![allow(dead_code, clippy::unwrap_used)]

pub(crate) mod otlp;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::PathBuf,
    thread::JoinHandle,
    time::Duration,
};

use serde_json::Value;
use subscope_hub::{Hub, HubHandle, HubOptions, Nothing, Store};
use subscope_model::HubMode;
use subscope_server::{HubIdentity, PublicNames, Server, ServerOptions, Timeouts, Token};
use subscope_store::MemoryStore;
use tempfile::TempDir;
use tokio::sync::oneshot;

/// Far more than any wait of these tests takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Identity of the test servers.
pub(crate) const IDENTITY: HubIdentity = HubIdentity { version: "0.0.1", mode: HubMode::Foreground };

/// Running server; dropping ends it.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) socket: PathBuf,
    pub(crate) folder: TempDir,
    pub(crate) handle: HubHandle,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// HTTP response.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl HttpResponse {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }
}

pub(crate) fn start() -> Running {
    start_with(MemoryStore::new(), Timeouts::default(), Duration::from_secs(10))
}

/// Starts a server that waits for its peers for ever: whatever a busy machine delays, it gives nobody up.
pub(crate) fn start_patient() -> Running {
    let for_ever = Duration::from_secs(100_000);
    let timeouts = Timeouts { head: for_ever, body_idle: for_ever, body: for_ever, write: for_ever };
    start_with(MemoryStore::new(), timeouts, Duration::from_secs(10))
}

pub(crate) fn start_with(keeper: impl Store + 'static, timeouts: Timeouts, heartbeat: Duration) -> Running {
    start_at(([127, 0, 0, 1], 0).into(), None, keeper, timeouts, heartbeat)
}

/// Starts a server on an address, with an optional token.
pub(crate) fn start_at(
    listen: SocketAddr,
    token: Option<Token>,
    keeper: impl Store + 'static,
    timeouts: Timeouts,
    heartbeat: Duration,
) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("data/hub.sock");
    let options = HubOptions::default();
    let hub = Hub::start(Box::new(Nothing), Box::new(keeper), options).unwrap();
    let handle = hub.handle();
    let options = ServerOptions {
        listen,
        socket: socket.clone(),
        heartbeat,
        timeouts,
        token,
        public: PublicNames::default(),
        identity: IDENTITY,
        session_reader: None,
        indexer: None,
        setup: None,
        sending: None,
        jumper: None,
        takes_answers: false,
        demo: None,
        forwarding: None,
        remotes: None,
    };
    let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
    let (end, is_ended) = oneshot::channel::<()>();
    let own = handle.clone();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.unwrap().block_on(async {
            let server = Server::bind(options, own).await.unwrap();
            ready.send(server.url()).unwrap();
            server.run(async { drop(is_ended.await) }).await;
        });
        drop(hub);
    });
    let url: String = is_ready.recv_timeout(LIMIT).unwrap();
    let address = url.strip_prefix("http://").unwrap().parse().unwrap();
    Running { address, socket, folder, handle, end: Some(end), thread: Some(thread) }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

impl Running {
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    pub(crate) fn connect_socket(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    /// Sends raw bytes and reads until the connection ends.
    pub(crate) fn raw(&self, request: impl AsRef<[u8]>) -> HttpResponse {
        exchange(self.connect(), request.as_ref())
    }

    pub(crate) fn get(&self, path: &str) -> HttpResponse {
        self.get_with(path, "")
    }

    /// `headers` are complete lines.
    pub(crate) fn get_with(&self, path: &str, headers: &str) -> HttpResponse {
        let address = self.address;
        self.raw(format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n"))
    }

    pub(crate) fn post(&self, path: &str, body: impl AsRef<[u8]>) -> HttpResponse {
        self.post_with(path, "content-type: application/json\r\n", body)
    }

    pub(crate) fn post_with(&self, path: &str, headers: &str, body: impl AsRef<[u8]>) -> HttpResponse {
        self.raw(self.posting(path, headers, body.as_ref()))
    }

    pub(crate) fn posting(&self, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
        let (address, length) = (self.address, body.len());
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
        );
        [head.as_bytes(), body].concat()
    }

    /// Opens the live feed.
    pub(crate) fn live(&self, headers: &str) -> Feed {
        let mut stream = self.connect();
        let address = self.address;
        write!(stream, "GET /api/v1/live HTTP/1.1\r\nhost: {address}\r\n{headers}\r\n").unwrap();
        let mut feed = Feed { reader: BufReader::new(stream), text: String::new() };
        let mut line = String::new();
        while feed.reader.read_line(&mut line).unwrap() > 2 {
            if line.starts_with("HTTP/") {
                assert!(line.contains(" 200 "), "{line}");
            }
            line.clear();
        }
        feed
    }
}

pub(crate) fn exchange(mut stream: impl Read + Write, request: &[u8]) -> HttpResponse {
    // The server may respond before it has read everything.
    let _ = stream.write_all(request);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    parse(&bytes)
}

pub(crate) fn parse(bytes: &[u8]) -> HttpResponse {
    let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") else {
        let head = String::from_utf8_lossy(bytes).into_owned();
        return HttpResponse { status: 0, head, body: String::new() };
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    let mut response = HttpResponse { status, head, body: String::new() };
    let body = &bytes[end + 4..];
    let is_chunked = response.header("transfer-encoding") == Some("chunked");
    let body = if is_chunked { joined(body) } else { body.to_vec() };
    response.body = String::from_utf8_lossy(&body).into_owned();
    response
}

/// Joins the chunks of a body, up to where it ends or is cut.
fn joined(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|end| end == b"\r\n") {
        let length = usize::from_str_radix(&String::from_utf8_lossy(&rest[..end]), 16).unwrap_or(0);
        let Some(chunk) = rest.get(end + 2..end + 2 + length).filter(|chunk| !chunk.is_empty()) else {
            break;
        };
        body.extend_from_slice(chunk);
        rest = rest.get(end + 2 + length + 2..).unwrap_or_default();
    }
    body
}

/// Message of a live feed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) id: Option<u64>,
    pub(crate) event: String,
    pub(crate) data: Value,
}

/// Client of a live feed.
pub(crate) struct Feed {
    reader: BufReader<TcpStream>,
    text: String,
}

impl Feed {
    /// Returns the next message; comments and ids without data give null data.
    pub(crate) fn next(&mut self) -> Option<Told> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                let field = |name: &str| {
                    let lines = block.lines().filter_map(|line| line.split_once(": "));
                    lines.filter(|(found, _)| *found == name).map(|(_, value)| value).next()
                };
                return Some(Told {
                    id: field("id").map(|id| id.parse().unwrap()),
                    event: field("event").unwrap_or_default().to_owned(),
                    data: field("data").map_or(Value::Null, |data| serde_json::from_str(data).unwrap()),
                });
            }
            // A chunk: its size in hexadecimal, its bytes, a line end.
            let mut size = String::new();
            if self.reader.read_line(&mut size).ok()? == 0 {
                return None;
            }
            let size = usize::from_str_radix(size.trim(), 16).unwrap();
            let mut chunk = vec![0; size + 2];
            self.reader.read_exact(&mut chunk).ok()?;
            if size == 0 {
                return None;
            }
            self.text += std::str::from_utf8(&chunk[..size]).unwrap();
        }
    }

    /// Reads until a message matches; it is the last one returned.
    pub(crate) fn until(&mut self, is_it: impl Fn(&Told) -> bool) -> Vec<Told> {
        let mut all = Vec::new();
        loop {
            let told = self.next().unwrap_or_else(|| panic!("the feed ended after {all:?}"));
            let is_last = is_it(&told);
            all.push(told);
            if is_last {
                return all;
            }
        }
    }
}

/// Returns the hook payload of a subagent.
pub(crate) fn by_agent(session: &str, agent: &str, event: &str, call: &str) -> String {
    format!(
        r#"{{"session_id":"{session}","hook_event_name":"{event}","agent_id":"{agent}","agent_type":"Explore","prompt_id":"p","tool_name":"Bash","tool_use_id":"{call}","tool_input":{{}}}}"#
    )
}

/// Starts a subagent with one tool call.
pub(crate) fn start_agent(server: &Running, session: &str, agent: &str) {
    for (event, call) in [("SubagentStart", ""), ("PreToolUse", "first"), ("PostToolUse", "first")] {
        let call = format!("{call}-{agent}");
        assert_eq!(server.post("/hooks/claude", by_agent(session, agent, event, &call)).status, 200);
    }
}

/// Returns the hook payload of a tool call of the root.
pub(crate) fn call(session: &str, id: &str) -> String {
    format!(
        r#"{{"session_id":"{session}","hook_event_name":"PreToolUse","prompt_id":"p","tool_name":"Read","tool_use_id":"{id}","tool_input":{{"file_path":"/x"}}}}"#
    )
}

/// Returns the body of a posted event.
pub(crate) fn event(run: &str, kind: &str, more: &str) -> String {
    format!(
        r#"{{"subagentName":"worker","subagentRunId":"{run}","timestamp":"2026-11-21T20:00:00Z","type":"{kind}"{more}}}"#
    )
}
