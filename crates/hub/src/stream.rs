//! Driver for a stream that is read until its end.

use std::{
    io::Read,
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    time::Duration,
};

use subscope_model::{Millis, Problem, SourceId};
use subscope_session::{Dialect, SessionRouter, SourceSpec};

use crate::{
    clock,
    driver::{Driver, PollResult},
};

/// Capacity of the queue to the hub, in chunks. The reader blocks when it is full: nothing is dropped.
const QUEUE_CHUNKS: usize = 16;

/// Reads standard input, or any other stream, on a thread of its own.
pub struct StreamDriver {
    chunks: Receiver<Result<Vec<u8>, std::io::Error>>,
    dialect: Option<Dialect>,
    source: Option<SourceId>,
}

impl StreamDriver {
    /// Starts reading.
    ///
    /// # Errors
    /// If the operating system cannot create the thread.
    pub fn start(mut input: impl Read + Send + 'static, dialect: Option<Dialect>) -> std::io::Result<Self> {
        let (sender, chunks) = sync_channel(QUEUE_CHUNKS);
        std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            loop {
                let chunk = match input.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(count) => Ok(buffer.get(..count).unwrap_or_default().to_vec()),
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let is_last = chunk.is_err();
                if sender.send(chunk).is_err() || is_last {
                    return;
                }
            }
        })?;
        Ok(Self { chunks, dialect, source: None })
    }
}

impl Driver for StreamDriver {
    fn poll(&mut self, wait: Duration, router: &mut SessionRouter) -> PollResult {
        let mut polled = PollResult::default();
        let dialect = self.dialect;
        let spec = || SourceSpec { label: "stdin".to_owned(), dialect, ..SourceSpec::default() };
        let source = *self.source.get_or_insert_with(|| router.open(spec()));
        let chunk = self.chunks.recv_timeout(wait);
        router.receive_at(Some(clock::now_ms()));
        match chunk {
            Ok(Ok(bytes)) => {
                router.push(source, &bytes);
                polled.has_pushed = true;
                polled.is_caught_up = true;
            }
            Ok(Err(error)) => {
                polled.problems.push(Problem { at: "stdin".to_owned(), what: error.to_string() });
            }
            Err(RecvTimeoutError::Timeout) => polled.is_caught_up = true,
            Err(RecvTimeoutError::Disconnected) => {
                router.flush(source);
                polled.has_pushed = true;
                polled.is_caught_up = true;
                polled.has_ended = true;
            }
        }
        polled
    }

    fn now(&self) -> Millis {
        clock::now_ms()
    }
}
