//! A receiver of spans that accepts, delays, refuses and drops requests.

use std::{
    io::{BufReader, Read as _, Write as _},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::{collector::trace::v1::ExportTraceServiceRequest, trace::v1::Span};
use prost::Message as _;
use subscope_testkit::address::RefusingAddress;

/// A request that the receiver got completely.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) path: String,
    pub(crate) headers: Vec<String>,
    pub(crate) request: ExportTraceServiceRequest,
}

impl Received {
    pub(crate) fn spans(&self) -> impl Iterator<Item = &Span> {
        let scopes = self.request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| &scope.spans)
    }

    pub(crate) fn span_ids(&self) -> Vec<String> {
        let hex = |id: &Vec<u8>| id.iter().map(|byte| format!("{byte:02x}")).collect();
        self.spans().map(|span| hex(&span.span_id)).collect()
    }

    pub(crate) fn has(&self, header: &str) -> bool {
        self.headers.iter().any(|line| line == header)
    }
}

/// What the receiver answers to a request.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// Status, more header lines, body.
    With(u16, &'static str, Vec<u8>),
    /// Closes the connection without an answer.
    Drop,
    /// Waits for the end of the test.
    Hang,
    /// Takes it after a while.
    Slow(Duration),
}

pub(crate) const TAKEN: Answer = Answer::With(200, "", Vec::new());

pub(crate) struct Receiver {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    /// Starts a receiver that gives these answers, then takes everything. `news` gets a word for each request.
    pub(crate) fn start(answers: Vec<Answer>, news: Option<mpsc::SyncSender<()>>) -> Self {
        Self::start_at(RefusingAddress::default(), answers, news)
    }

    /// Starts a receiver at an address that refused connections until now.
    pub(crate) fn start_at(
        address: RefusingAddress,
        answers: Vec<Answer>,
        news: Option<mpsc::SyncSender<()>>,
    ) -> Self {
        let listener = address.listen();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let kept = received.clone();
        thread::spawn(move || {
            let mut answers = answers.into_iter();
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                while let Some(request) = read_request(&mut stream) {
                    kept.lock().unwrap().push(request);
                    news.iter().for_each(|news| news.send(()).unwrap());
                    match answers.next().unwrap_or(TAKEN) {
                        Answer::With(status, headers, body) => {
                            let head = format!(
                                "HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n",
                                body.len()
                            );
                            let answer = [head.into_bytes(), body].concat();
                            if stream.get_mut().write_all(&answer).is_err() {
                                break;
                            }
                        }
                        Answer::Slow(time) => {
                            thread::sleep(time);
                            if stream
                                .get_mut()
                                .write_all(b"HTTP/1.1 200 X\r\ncontent-length: 0\r\n\r\n")
                                .is_err()
                            {
                                break;
                            }
                        }
                        Answer::Drop => break,
                        Answer::Hang => loop {
                            thread::park();
                        },
                    }
                }
            }
        });
        Self { url, received }
    }

    pub(crate) fn all(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

fn read_request(stream: &mut impl std::io::BufRead) -> Option<Received> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        lines.push(line.to_ascii_lowercase());
    }
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).ok()?;
    let mut bytes = Vec::new();
    GzDecoder::new(&*body).read_to_end(&mut bytes).unwrap();
    let request = ExportTraceServiceRequest::decode(&*bytes).unwrap();
    let path = lines[0].split(' ').nth(1).unwrap().to_owned();
    Some(Received { path, headers: lines, request })
}
