//! A fake listener of published events: records them, and answers as a test needs.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::Value;

type Answer = dyn Fn(&Value) -> u16 + Send + Sync;

/// A listener on a free port.
pub(crate) struct Listener {
    pub(crate) address: String,
    events: Arc<Mutex<Vec<Value>>>,
}

impl Listener {
    /// A listener that accepts everything.
    pub(crate) fn start() -> Self {
        Self::answering(|_| 200)
    }

    /// A listener that answers each event with a status.
    pub(crate) fn answering(answer: impl Fn(&Value) -> u16 + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let events = Arc::new(Mutex::new(Vec::new()));
        let (kept, answer): (_, Arc<Answer>) = (Arc::clone(&events), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                thread::spawn(move || take(stream, &kept, &*answer));
            }
        });
        Self { address, events }
    }

    /// All that came.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.events.lock().unwrap().clone()
    }

    /// Events of one run, each as `type` or `type tool`.
    pub(crate) fn of(&self, run: &str) -> Vec<String> {
        let word = |event: &Value| {
            let tool = event["toolName"].as_str().map(|tool| format!(" {tool}")).unwrap_or_default();
            format!("{}{tool}", event["type"].as_str().unwrap())
        };
        self.events().iter().filter(|event| event["subagentRunId"] == run).map(word).collect()
    }
}

/// Answers the requests of one connection.
fn take(stream: TcpStream, kept: &Mutex<Vec<Value>>, answer: &Answer) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    loop {
        let (mut head, mut line) = (String::new(), String::new());
        while reader.read_line(&mut line).unwrap_or(0) > 2 {
            head += &line.to_ascii_lowercase();
            line.clear();
        }
        let Some((_, length)) = head.split_once("content-length:") else { return };
        let length: usize = length.lines().next().unwrap().trim().parse().unwrap();
        assert!(head.starts_with("post /subagent-events "), "{head}");
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let event: Value = serde_json::from_slice(&body).unwrap();
        let status = answer(&event);
        if status < 300 {
            kept.lock().unwrap().push(event);
        }
        let answer =
            format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}");
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
