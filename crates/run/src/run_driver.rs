//! Driver of a run's own hub: reads the child's output and the transcripts of its sessions.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use subscope_decode::Dialect;
use subscope_hub::{Driver, FileTailDriver, PollResult, Waker, clock};
use subscope_model::{Millis, Problem, SessionId, SourceId};
use subscope_session::{SessionRouter, SourceSpec};

use crate::{
    line_tap::LineTap,
    queue::{LineQueue, Popped},
};

/// Queue items per poll: bounds the latency of commands to the hub.
const POLL_ITEMS: usize = 4;

/// Feeds a hub from a queue until the run has ended.
pub struct RunDriver {
    run: RunHandle,
    dialect: Arc<OnceLock<Dialect>>,
    source: Option<SourceId>,
    has_flushed: bool,
    waker: Option<Waker>,
    transcripts: Vec<FileTailDriver>,
}

/// Handle of a run's hub, which ends with [`RunHandle::end`]: the child's output ends earlier, but other processes may
/// still post events.
#[derive(Clone, Debug)]
pub struct RunHandle {
    queue: Arc<LineQueue>,
    is_over: Arc<AtomicBool>,
    /// Transcripts to start following.
    requested: Arc<Mutex<Vec<PathBuf>>>,
}

impl RunHandle {
    /// Ends all input.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.queue.end();
    }

    /// Whether lines of the command wait to be read.
    pub(crate) fn has_unread_lines(&self) -> bool {
        self.queue.has_more()
    }

    /// Follows a session's transcript and those of its subagents until the run has ended and they are read completely.
    pub(crate) fn follow(&self, transcript: PathBuf) {
        self.requested.lock().unwrap_or_else(PoisonError::into_inner).push(transcript);
        self.queue.wake_reader();
    }
}

impl RunDriver {
    /// Creates a driver for the lines that `tap` enqueues in `queue`.
    pub fn new(queue: Arc<LineQueue>, tap: &LineTap) -> Self {
        let run = RunHandle { queue, is_over: Arc::default(), requested: Arc::default() };
        let dialect = tap.dialect();
        Self { run, dialect, source: None, has_flushed: false, waker: None, transcripts: Vec::new() }
    }

    /// Returns the handle of the run.
    pub fn handle(&self) -> RunHandle {
        self.run.clone()
    }

    fn push(&mut self, lines: &[u8], router: &mut SessionRouter) {
        let dialect = self.dialect.get().copied();
        let source = *self.source.get_or_insert_with(|| {
            router.open(SourceSpec { label: "stdout".to_owned(), dialect, ..SourceSpec::default() })
        });
        router.push(source, lines);
    }

    fn report_skipped(&self, polled: &mut PollResult) {
        let skipped = self.run.queue.skipped();
        if skipped.lines > 0 {
            let what = format!(
                "{} lines ({} MB) came faster than anybody could follow: figures and texts are incomplete, agents and their endings are not",
                skipped.lines,
                skipped.bytes.div_ceil(1_000_000)
            );
            polled.problems.push(Problem { at: "stdout".to_owned(), what });
        }
    }

    /// Decodes the queued lines.
    fn poll_lines(&mut self, mut wait: Duration, router: &mut SessionRouter) -> PollResult {
        let mut polled = PollResult { is_caught_up: true, ..PollResult::default() };
        for _ in 0..POLL_ITEMS {
            let popped = self.run.queue.pop(std::mem::take(&mut wait));
            router.receive_at(Some(clock::now_ms()));
            match popped {
                Popped::Lines(lines) => {
                    self.push(&lines, router);
                    polled.has_pushed = true;
                }
                // Posted events reach this hub through its handle.
                Popped::Posted(_) | Popped::Nothing => return polled,
                Popped::Ended => {
                    if let Some(source) = self.source
                        && !std::mem::replace(&mut self.has_flushed, true)
                    {
                        router.flush(source);
                        polled.has_pushed = true;
                    }
                    polled.has_ended = self.run.is_over.load(Ordering::Acquire);
                    return polled;
                }
            }
        }
        if let Some(waker) = &self.waker
            && self.run.queue.has_more()
        {
            waker.wake();
        }
        polled
    }

    fn open_requested(&mut self, polled: &mut PollResult) {
        let requested =
            std::mem::take(&mut *self.run.requested.lock().unwrap_or_else(PoisonError::into_inner));
        for transcript in requested {
            let at = transcript.display().to_string();
            match FileTailDriver::session(transcript, Arc::clone(&self.run.is_over)) {
                Ok(mut live) => {
                    if let Some(waker) = &self.waker {
                        live.wake_with(waker.clone());
                    }
                    self.transcripts.push(live);
                }
                Err(error) => polled.problems.push(Problem { at, what: error.to_string() }),
            }
        }
    }
}

impl Driver for RunDriver {
    fn poll(&mut self, wait: Duration, router: &mut SessionRouter) -> PollResult {
        let mut polled = self.poll_lines(wait, router);
        self.open_requested(&mut polled);
        let mut has_ended = true;
        for live in &mut self.transcripts {
            let one = live.poll(Duration::ZERO, router);
            polled.has_pushed |= one.has_pushed;
            polled.is_catching_up |= one.is_catching_up;
            polled.problems.extend(one.problems);
            polled.unread_changed.extend(one.unread_changed);
            has_ended &= one.has_ended;
        }
        polled.has_ended &= has_ended;
        if polled.has_ended {
            self.report_skipped(&mut polled);
        }
        polled
    }

    fn now(&self) -> Millis {
        clock::now_ms()
    }

    fn follows(&self, session: &SessionId) -> bool {
        self.transcripts.iter().any(|live| live.follows(session))
    }

    fn unread(&self, session: &SessionId) -> Vec<Problem> {
        self.transcripts.iter().flat_map(|live| live.unread(session)).collect()
    }

    fn is_incomplete(&self, session: &SessionId) -> bool {
        self.transcripts.iter().any(|live| live.is_incomplete(session))
    }

    fn is_cut(&self, session: &SessionId) -> bool {
        self.transcripts.iter().any(|live| live.is_cut(session))
    }

    fn retry_unread(&mut self, session: &SessionId, router: &mut SessionRouter) {
        self.transcripts.iter_mut().for_each(|live| live.retry_unread(session, router));
    }

    fn wake_with(&mut self, waker: Waker) -> bool {
        self.run.queue.set_waker(waker.clone());
        for live in &mut self.transcripts {
            live.wake_with(waker.clone());
        }
        self.waker = Some(waker);
        true
    }
}
