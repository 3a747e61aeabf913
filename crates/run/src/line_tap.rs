//! Cuts what passes into whole lines, finds out what they are written in, and hands them to the queues.

use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use subscope_decode::{Dialect, LifecycleFilter, session_of};
use subscope_harness::recognise;

use crate::queue::Queue;

/// The longest line that is looked at. Longer ones are passed through like all others, but nothing is told of them.
const LINE_BYTES: usize = 16 << 20;
/// How many lines of JSON may come before one tells what the output is written in. A program that logs JSON of its own costs
/// nothing from then on.
const TRIES: usize = 1_000;

/// The session that the child's output is of, once it says so; a name of the run's own until then.
#[derive(Debug)]
pub struct SessionName {
    known: Mutex<Option<String>>,
    has_come: Condvar,
    own: String,
}

impl SessionName {
    /// A run whose child has said nothing yet.
    pub fn new(own: String) -> Self {
        Self { known: Mutex::default(), has_come: Condvar::new(), own }
    }

    fn set(&self, session: String) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
        self.has_come.notify_all();
    }

    /// Returns the session, where it is known.
    pub(crate) fn known(&self) -> Option<String> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Names it by something else than the output, where that has not.
    pub(crate) fn suggest(&self, session: &str) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| session.to_owned());
        self.has_come.notify_all();
    }

    /// Returns the session, after waiting no longer than that for its name.
    pub fn get(&self, wait: Duration) -> String {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.has_come.wait_timeout_while(known, wait, |known| known.is_none());
        let known = waited.unwrap_or_else(PoisonError::into_inner).0;
        known.clone().unwrap_or_else(|| self.own.clone())
    }
}

/// What the output was found to be written in, for who takes the lines.
#[derive(Debug, Default)]
pub(crate) struct Written(OnceLock<Dialect>);

impl Written {
    fn set(&self, dialect: Dialect) {
        // It is found out once.
        let _ = self.0.set(dialect);
    }

    /// The dialect, once it is known: before the first line is handed over.
    pub(crate) fn get(&self) -> Option<Dialect> {
        self.0.get().copied()
    }
}

/// Where the bytes of a child's output come by.
#[derive(Debug)]
pub struct LineTap {
    partial: Vec<u8>,
    /// Whether the line that has begun is too long to be looked at.
    is_overlong: bool,
    dialect: Option<Dialect>,
    tries: usize,
    gist: LifecycleFilter,
    session: Arc<SessionName>,
    queues: Vec<Arc<Queue>>,
    written: Arc<Written>,
}

impl LineTap {
    /// A tap that fills these queues and names the session.
    pub fn new(session: Arc<SessionName>, queues: Vec<Arc<Queue>>) -> Self {
        Self {
            partial: Vec::new(),
            is_overlong: false,
            dialect: None,
            tries: 0,
            gist: LifecycleFilter::default(),
            session,
            queues,
            written: Arc::default(),
        }
    }

    pub(crate) fn written(&self) -> Arc<Written> {
        Arc::clone(&self.written)
    }

    /// Takes the next bytes, cut anywhere.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.queues.is_empty() || (self.dialect.is_none() && self.tries >= TRIES) {
            return;
        }
        let Some(end) = memchr::memrchr(b'\n', bytes) else { return self.hold(bytes) };
        let (whole, rest) = bytes.split_at(end + 1);
        if self.is_overlong || !self.partial.is_empty() {
            let first = memchr::memchr(b'\n', whole).map_or(whole.len(), |at| at + 1);
            let (first, whole) = whole.split_at(first);
            self.hold(first);
            let line = std::mem::take(&mut self.partial);
            if !std::mem::take(&mut self.is_overlong) {
                self.hand_over(&line);
            }
            self.hand_over(whole);
        } else {
            self.hand_over(whole);
        }
        self.hold(rest);
    }

    /// Says that no bytes will follow.
    pub fn finish(&mut self) {
        let mut line = std::mem::take(&mut self.partial);
        if !line.is_empty() && !self.is_overlong {
            line.push(b'\n');
            self.hand_over(&line);
        }
    }

    fn hold(&mut self, bytes: &[u8]) {
        if self.partial.len() + bytes.len() > LINE_BYTES {
            self.is_overlong = true;
            self.partial = Vec::new();
        }
        if !self.is_overlong {
            self.partial.extend_from_slice(bytes);
        }
    }

    fn hand_over(&mut self, mut lines: &[u8]) {
        if self.dialect.is_none() {
            lines = self.find_out(lines);
        }
        if lines.is_empty() {
            return;
        }
        if let Some(session) = self.gist.learn(lines) {
            self.session.set(session);
        }
        for queue in &self.queues {
            queue.offer(lines, &self.gist);
        }
    }

    /// Returns the lines from the first that tells its dialect on; what comes before is no machine's.
    fn find_out<'l>(&mut self, lines: &'l [u8]) -> &'l [u8] {
        let mut rest = lines;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = rest.split_at(end + 1);
            if line.trim_ascii_start().starts_with(b"{") {
                self.tries += 1;
                if let Some(dialect) = recognise(line) {
                    self.dialect = Some(dialect);
                    self.gist = LifecycleFilter::new(dialect);
                    self.written.set(dialect);
                    self.session_from(line);
                    return rest;
                }
            }
            rest = after;
        }
        rest
    }

    fn session_from(&self, line: &[u8]) {
        if let Some(session) = session_of(line) {
            self.session.set(session);
        }
    }
}
