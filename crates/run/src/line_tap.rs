//! Cuts the child's output into lines, detects their dialect, and enqueues them.

use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use subscope_decode::{Dialect, LifecycleFilter, session_of};
use subscope_harness::recognize_printed;

use crate::{line_cutter::LineCutter, queue::LineQueue};

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
    /// Longer lines than it cuts are printed but not enqueued.
    cutter: LineCutter,
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
            cutter: LineCutter::default(),
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

    /// Returns it for lines of a known dialect.
    pub(crate) fn of_dialect(self, dialect: Dialect) -> Self {
        self.dialect.get_or_init(|| dialect);
        Self { filter: LifecycleFilter::new(dialect), ..self }
    }

    pub(crate) fn dialect(&self) -> Arc<OnceLock<Dialect>> {
        Arc::clone(&self.dialect)
    }

    /// Processes the next bytes, cut anywhere.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.queues.is_empty() || (self.dialect.get().is_none() && self.tries >= MAX_TRIES) {
            return;
        }
        let mut cutter = std::mem::take(&mut self.cutter);
        cutter.push(bytes, |lines| self.enqueue(lines));
        self.cutter = cutter;
    }

    /// Ends the output: a last line without line end is complete.
    pub fn finish(&mut self) {
        std::mem::take(&mut self.cutter).finish(|lines| self.enqueue(lines));
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
