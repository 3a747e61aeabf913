//! The driver of a run's own hub: it reads what passes by, and the files of sessions that the command's processes are in.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use subscope_fold::{Fold, SourceSpec};
use subscope_hub::{Driver, FileTailDriver, PollResult, Waker, clock};
use subscope_model::{Millis, Problem, SessionId, SourceId};

use crate::{
    line_tap::{LineTap, Written},
    queue::{Popped, Queue},
};

/// How many pieces are folded in one turn: what is asked of the hub meanwhile waits no longer than that takes.
const TURN_PIECES: usize = 4;
/// How many numbers the groups of one followed session have: it is one group.
const GROUPS: u32 = 8;

/// Feeds a hub from a queue until the run is over.
pub struct RunDriver {
    queue: Arc<Queue>,
    written: Arc<Written>,
    source: Option<SourceId>,
    has_flushed: bool,
    is_over: Arc<AtomicBool>,
    waker: Option<Waker>,
    /// Transcripts that are to be followed from now on.
    joining: Arc<Mutex<Vec<PathBuf>>>,
    lives: Vec<FileTailDriver>,
}

/// Ends a run's hub: what its child printed has ended before, but others may still post.
#[derive(Clone, Debug)]
pub struct Over {
    queue: Arc<Queue>,
    is_over: Arc<AtomicBool>,
}

impl Over {
    /// Says that nothing more will come from anybody.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.queue.end();
    }
}

/// Has transcripts followed beside what is tapped.
#[derive(Clone, Debug)]
pub struct FollowRequests {
    queue: Arc<Queue>,
    joining: Arc<Mutex<Vec<PathBuf>>>,
}

impl FollowRequests {
    /// Follows a session's transcript, with those of its subagents, until the run is over and all of it is read.
    pub(crate) fn follow(&self, transcript: PathBuf) {
        self.joining.lock().unwrap_or_else(PoisonError::into_inner).push(transcript);
        self.queue.nudge();
    }
}

impl RunDriver {
    /// A driver for what `tap` hands to `queue`, what ends it, and what else it can follow.
    pub fn new(queue: Arc<Queue>, tap: &LineTap) -> (Self, Over, FollowRequests) {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Over { queue: Arc::clone(&queue), is_over: Arc::clone(&is_over) };
        let joining = Arc::new(Mutex::new(Vec::new()));
        let following = FollowRequests { queue: Arc::clone(&queue), joining: Arc::clone(&joining) };
        let driver = Self {
            queue,
            written: tap.written(),
            source: None,
            has_flushed: false,
            is_over,
            waker: None,
            joining,
            lives: Vec::new(),
        };
        (driver, over, following)
    }

    fn push(&mut self, lines: &[u8], fold: &mut Fold) {
        let dialect = self.written.get();
        let source = *self.source.get_or_insert_with(|| {
            fold.open(SourceSpec { label: "stdout".to_owned(), dialect, ..SourceSpec::default() })
        });
        fold.push(source, lines);
    }

    fn tell_skipped(&self, polled: &mut PollResult) {
        let skipped = self.queue.skipped();
        if skipped.lines > 0 {
            let what = format!(
                "{} lines ({} MB) came faster than anybody could follow: figures and texts are incomplete, agents and their endings are not",
                skipped.lines,
                skipped.bytes.div_ceil(1_000_000)
            );
            polled.problems.push(Problem { at: "stdout".to_owned(), what });
        }
    }

    /// Takes what the child has printed.
    fn take_lines(&mut self, mut wait: Duration, fold: &mut Fold) -> PollResult {
        let mut polled = PollResult { is_caught_up: true, ..PollResult::default() };
        for _ in 0..TURN_PIECES {
            let popped = self.queue.pop(std::mem::take(&mut wait));
            fold.receive_at(Some(clock::now_ms()));
            match popped {
                Popped::Lines(lines) => {
                    self.push(&lines, fold);
                    polled.has_pushed = true;
                }
                // These go to the hub through its handle.
                Popped::Posted(_) | Popped::Nothing => return polled,
                Popped::Ended => {
                    if let Some(source) = self.source
                        && !std::mem::replace(&mut self.has_flushed, true)
                    {
                        fold.flush(source);
                        polled.has_pushed = true;
                    }
                    polled.has_ended = self.is_over.load(Ordering::Acquire);
                    return polled;
                }
            }
        }
        if let Some(waker) = &self.waker
            && self.queue.has_more()
        {
            waker.wake();
        }
        polled
    }

    fn begin_to_follow(&mut self, polled: &mut PollResult) {
        let joining = std::mem::take(&mut *self.joining.lock().unwrap_or_else(PoisonError::into_inner));
        for transcript in joining {
            let at = transcript.display().to_string();
            // What the child prints is group 0.
            let group = GROUPS.saturating_mul(u32::try_from(self.lives.len() + 1).unwrap_or(u32::MAX));
            match FileTailDriver::session(transcript, group, Arc::clone(&self.is_over)) {
                Ok(mut live) => {
                    if let Some(waker) = &self.waker {
                        live.wake_with(waker.clone());
                    }
                    self.lives.push(live);
                }
                Err(error) => polled.problems.push(Problem { at, what: error.to_string() }),
            }
        }
    }
}

impl Driver for RunDriver {
    fn poll(&mut self, wait: Duration, fold: &mut Fold) -> PollResult {
        let mut polled = self.take_lines(wait, fold);
        self.begin_to_follow(&mut polled);
        let mut has_ended = true;
        for live in &mut self.lives {
            let told = live.poll(Duration::ZERO, fold);
            polled.has_pushed |= told.has_pushed;
            polled.is_catching_up |= told.is_catching_up;
            polled.problems.extend(told.problems);
            polled.replaced.extend(told.replaced);
            has_ended &= told.has_ended;
        }
        polled.has_ended &= has_ended;
        if polled.has_ended {
            self.tell_skipped(&mut polled);
        }
        polled
    }

    fn now(&self) -> Millis {
        clock::now_ms()
    }

    fn follows(&self, session: &SessionId) -> bool {
        self.lives.iter().any(|live| live.follows(session))
    }

    fn reload(&mut self, session: &SessionId, others: Option<&[SourceId]>, fold: &mut Fold) -> bool {
        // What the child printed cannot be read again, nor one of several that follow the same session forget it by itself.
        let is_forgotten = self.lives.iter_mut().map(|live| live.reload(session, others, fold));
        is_forgotten.fold(false, |one, other| one | other)
    }

    fn wake_with(&mut self, waker: Waker) -> bool {
        self.queue.wake(waker.clone());
        for live in &mut self.lives {
            live.wake_with(waker.clone());
        }
        self.waker = Some(waker);
        true
    }
}
