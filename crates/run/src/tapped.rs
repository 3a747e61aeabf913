//! The driver of a run's own hub: it reads what passes by, and nothing else.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use subscope_fold::{Fold, SourceSpec};
use subscope_hub::{Driver, Fed, Waker, clock};
use subscope_model::{Millis, Problem, SourceId};

use crate::{
    queue::{Popped, Queue},
    tap::{Tap, Written},
};

/// How many pieces are folded in one turn: what is asked of the hub meanwhile waits no longer than that takes.
const TURN_PIECES: usize = 4;

/// Feeds a hub from a queue until the run is over.
#[derive(Debug)]
pub struct Tapped {
    queue: Arc<Queue>,
    written: Arc<Written>,
    source: Option<SourceId>,
    has_flushed: bool,
    is_over: Arc<AtomicBool>,
    waker: Option<Waker>,
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

impl Tapped {
    /// A driver for what `tap` hands to `queue`, and what ends it.
    pub fn new(queue: Arc<Queue>, tap: &Tap) -> (Self, Over) {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Over { queue: Arc::clone(&queue), is_over: Arc::clone(&is_over) };
        let written = tap.written();
        (Self { queue, written, source: None, has_flushed: false, is_over, waker: None }, over)
    }

    fn push(&mut self, lines: &[u8], fold: &mut Fold) {
        let dialect = self.written.get();
        let source = *self.source.get_or_insert_with(|| {
            fold.open(SourceSpec { label: "stdout".to_owned(), dialect, ..SourceSpec::default() })
        });
        fold.push(source, lines);
    }

    fn tell_skipped(&self, fed: &mut Fed) {
        let skipped = self.queue.skipped();
        if skipped.lines > 0 {
            let what = format!(
                "{} lines ({} MB) came faster than anybody could follow: figures and texts are incomplete, agents and their endings are not",
                skipped.lines,
                skipped.bytes.div_ceil(1_000_000)
            );
            fed.problems.push(Problem { at: "stdout".to_owned(), what });
        }
    }
}

impl Driver for Tapped {
    fn turn(&mut self, wait: Duration, fold: &mut Fold) -> Fed {
        let mut fed = Fed { is_caught_up: true, ..Fed::default() };
        let mut wait = wait;
        for _ in 0..TURN_PIECES {
            let popped = self.queue.pop(std::mem::take(&mut wait));
            fold.receive_at(Some(clock::now_ms()));
            match popped {
                Popped::Lines(lines) => {
                    self.push(&lines, fold);
                    fed.has_pushed = true;
                }
                // These go to the hub through its handle.
                Popped::Posted(_) | Popped::Nothing => return fed,
                Popped::Ended => {
                    if let Some(source) = self.source
                        && !std::mem::replace(&mut self.has_flushed, true)
                    {
                        fold.flush(source);
                        fed.has_pushed = true;
                    }
                    if self.is_over.load(Ordering::Acquire) {
                        self.tell_skipped(&mut fed);
                        fed.has_ended = true;
                    }
                    return fed;
                }
            }
        }
        if let Some(waker) = &self.waker
            && self.queue.has_more()
        {
            waker.wake();
        }
        fed
    }

    fn restart(&mut self) -> Result<(), Problem> {
        Err(Problem { at: "stdout".to_owned(), what: "a stream cannot be read again".to_owned() })
    }

    fn now(&self) -> Millis {
        clock::now_ms()
    }

    fn wake_with(&mut self, waker: Waker) -> bool {
        self.queue.wake(waker.clone());
        self.waker = Some(waker);
        true
    }
}
