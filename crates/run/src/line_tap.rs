//! Cuts the child's output into lines, detects their dialect, and enqueues them.

use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use subscope_decode::{Dialect, LifecycleFilter, session_of};
use subscope_harness::recognize_printed;

use crate::queue::LineQueue;

/// Maximum length of an observed line. Longer lines are printed but not enqueued.
const MAX_LINE_BYTES: usize = 16 << 20;
/// JSON lines in which the dialect is searched. After that the output of a program that logs other JSON is ignored.
const MAX_TRIES: usize = 1_000;

/// Session of the child's output, once detected; the run's own id until then.
#[derive(Debug)]
pub struct SessionName {
    detected: Mutex<Option<String>>,
    changed: Condvar,
    run_id: String,
}

impl SessionName {
    /// Creates an undetected session.
    pub fn new(run_id: String) -> Self {
        Self { detected: Mutex::default(), changed: Condvar::new(), run_id }
    }

    fn set(&self, session: String) {
        *self.detected.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
        self.changed.notify_all();
    }

    /// Returns the session, if detected.
    pub(crate) fn detected(&self) -> Option<String> {
        self.detected.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the session from another source than the output, if not detected.
    pub(crate) fn set_if_unknown(&self, session: &str) {
        self.detected
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_with(|| session.to_owned());
        self.changed.notify_all();
    }

    /// Returns the session, or the run's id if none is detected within `wait`.
    pub fn get(&self, wait: Duration) -> String {
        let known = self.detected.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(known, wait, |known| known.is_none());
        let known = waited.unwrap_or_else(PoisonError::into_inner).0;
        known.clone().unwrap_or_else(|| self.run_id.clone())
    }
}

/// Observer of the child's output bytes.
#[derive(Debug)]
pub struct LineTap {
    partial: Vec<u8>,
    /// Whether the current line exceeds the limit.
    is_overlong: bool,
    /// Detected dialect; set before the first line is enqueued.
    dialect: Arc<OnceLock<Dialect>>,
    tries: usize,
    filter: LifecycleFilter,
    session: Arc<SessionName>,
    queues: Vec<Arc<LineQueue>>,
    /// The name of the program, where it is a harness's.
    program: Option<&'static str>,
}

impl LineTap {
    /// Creates a tap that fills these queues and detects the session.
    pub fn new(session: Arc<SessionName>, queues: Vec<Arc<LineQueue>>) -> Self {
        Self {
            partial: Vec::new(),
            is_overlong: false,
            dialect: Arc::default(),
            tries: 0,
            filter: LifecycleFilter::default(),
            session,
            queues,
            program: None,
        }
    }

    /// Returns it for the output of a harness's program.
    #[must_use]
    pub fn of_program(self, program: Option<&'static str>) -> Self {
        Self { program, ..self }
    }

    pub(crate) fn dialect(&self) -> Arc<OnceLock<Dialect>> {
        Arc::clone(&self.dialect)
    }

    /// Processes the next bytes, cut anywhere.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.queues.is_empty() || (self.dialect.get().is_none() && self.tries >= MAX_TRIES) {
            return;
        }
        let Some(end) = memchr::memrchr(b'\n', bytes) else { return self.buffer_partial(bytes) };
        let (mut whole, rest) = bytes.split_at(end + 1);
        if self.is_overlong || !self.partial.is_empty() {
            let first = memchr::memchr(b'\n', whole).map_or(whole.len(), |at| at + 1);
            let (first, others) = whole.split_at(first);
            whole = others;
            self.buffer_partial(first);
            let line = std::mem::take(&mut self.partial);
            if !std::mem::take(&mut self.is_overlong) {
                self.enqueue(&line);
            }
        }
        self.enqueue(whole);
        self.buffer_partial(rest);
    }

    /// Ends the output: a last line without line end is complete.
    pub fn finish(&mut self) {
        let mut line = std::mem::take(&mut self.partial);
        if !line.is_empty() && !self.is_overlong {
            line.push(b'\n');
            self.enqueue(&line);
        }
    }

    fn buffer_partial(&mut self, bytes: &[u8]) {
        if self.partial.len() + bytes.len() > MAX_LINE_BYTES {
            self.is_overlong = true;
            self.partial = Vec::new();
        }
        if !self.is_overlong {
            self.partial.extend_from_slice(bytes);
        }
    }

    fn enqueue(&mut self, mut lines: &[u8]) {
        if self.dialect.get().is_none() {
            lines = self.detect_dialect(lines);
        }
        if lines.is_empty() {
            return;
        }
        if let Some(session) = self.filter.learn(lines) {
            self.session.set(session);
        }
        for queue in &self.queues {
            queue.offer(lines, &self.filter);
        }
    }

    /// Returns the lines from the first one with a known dialect on; earlier lines are other output of the program.
    fn detect_dialect<'l>(&mut self, lines: &'l [u8]) -> &'l [u8] {
        let mut rest = lines;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = rest.split_at(end + 1);
            if line.trim_ascii_start().starts_with(b"{") {
                self.tries += 1;
                if let Some(dialect) = recognize_printed(self.program, line) {
                    self.filter = LifecycleFilter::new(dialect);
                    self.dialect.get_or_init(|| dialect);
                    if let Some(session) = session_of(line) {
                        self.session.set(session);
                    }
                    return rest;
                }
            }
            rest = after;
        }
        rest
    }
}
