//! What was read of the child and is not taken yet: bounded, and it never makes the child wait.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc::SyncSender},
    time::{Duration, Instant},
};

use subscope_decode::LifecycleFilter;
use subscope_hub::{Waker, clock};

use crate::forward::Failure;

/// How many bytes may wait. Enough for any burst of a real agent; what comes on top of it is skipped but for its gist.
const BUDGET_BYTES: usize = 4 << 20;
/// How many bytes the gist may have on top of that. Only a child that says nothing but starts and ends of agents, faster than
/// they can be taken, comes here: it waits, since these are never skipped and memory is bounded.
const GIST_BYTES: usize = 16 << 20;

/// How many lines may come at once where what is taken costs memory for good, and how many in a second from then on: several times
/// what twenty agents say that work side by side. Only what no person could follow comes faster.
const BURST_LINES: f64 = 4_000.0;
const LINES_PER_SECOND: f64 = 200.0;

/// What was not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Lines.
    pub lines: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What popping gave.
#[derive(Debug)]
pub(crate) enum Popped {
    /// Whole lines of the child's output.
    Lines(Vec<u8>),
    /// Events that were posted.
    Posted(Posting),
    /// Nothing came in time.
    Nothing,
    /// Nothing will come any more.
    Ended,
}

/// Events that were posted, and who waits until they are kept.
#[derive(Debug)]
pub(crate) struct Posting {
    /// By which a hub knows them.
    pub(crate) delivery: String,
    /// The events, one a line.
    pub(crate) lines: Vec<u8>,
    /// Told what became of them.
    pub(crate) kept: SyncSender<Result<(), Failure>>,
}

/// A queue between the thread that passes bytes on and who takes them.
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<State>,
    has_more: Condvar,
    has_room: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    /// Few and small: who posts them waits for them, some hundred at most.
    posted: VecDeque<Posting>,
    bytes: usize,
    skipped: Skipped,
    /// How many lines may still come; `None` where as many as are taken.
    pace: Option<Pace>,
    waker: Option<Waker>,
    has_ended: bool,
    /// Whether nobody takes anything any more.
    is_abandoned: bool,
}

/// How fast lines come.
#[derive(Debug)]
struct Pace {
    lines: f64,
    since: Instant,
}

impl Pace {
    /// Whether so many lines may come now.
    fn takes(&mut self, lines: &[u8]) -> bool {
        let now = clock::tick();
        let earned = (now - self.since).as_secs_f64() * LINES_PER_SECOND;
        self.since = now;
        self.lines = (self.lines + earned).min(BURST_LINES);
        let count = memchr::memchr_iter(b'\n', lines).count() as f64;
        let fits = count <= self.lines;
        if fits {
            self.lines -= count;
        }
        fits
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One whose reader remembers what it takes: more than anybody could follow is not taken, however fast the reader is.
    pub fn paced() -> Self {
        let pace = Pace { lines: BURST_LINES, since: clock::tick() };
        Self { state: Mutex::new(State { pace: Some(pace), ..State::default() }), ..Self::default() }
    }

    /// Offers whole lines. Where there is no room, those that `gist` finds are taken and the others skipped.
    pub fn offer(&self, lines: &[u8], gist: &LifecycleFilter) {
        let mut state = self.lock();
        if state.is_abandoned {
            return;
        }
        let may_come = state.pace.as_mut().is_none_or(|pace| pace.takes(lines));
        if may_come && state.bytes + lines.len() <= BUDGET_BYTES {
            state.push(lines.to_vec());
        } else {
            let mut kept = Vec::new();
            for line in lines.split_inclusive(|byte| *byte == b'\n') {
                if !gist.holds(line) || !gist.shorten(line, &mut kept) {
                    state.skipped.lines += 1;
                    state.skipped.bytes += line.len() as u64;
                }
            }
            while state.bytes + kept.len() > BUDGET_BYTES + GIST_BYTES
                && state.bytes > 0
                && !state.is_abandoned
            {
                state = self.has_room.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if !kept.is_empty() {
                state.push(kept);
            }
        }
        self.tell(state);
    }

    /// Offers posted events, in front of everything else.
    pub(crate) fn post(&self, posting: Posting) {
        let mut state = self.lock();
        if !state.is_abandoned {
            state.posted.push_back(posting);
        }
        self.tell(state);
    }

    /// Has whoever takes from it look, though nothing has come.
    pub(crate) fn nudge(&self) {
        self.tell(self.lock());
    }

    /// Says that nothing will come any more.
    pub fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        self.tell(state);
    }

    /// Says that nobody takes anything any more; returns the lines that wait.
    pub fn abandon(&self) -> Vec<Vec<u8>> {
        let mut state = self.lock();
        state.is_abandoned = true;
        state.bytes = 0;
        self.has_room.notify_all();
        state.waiting.drain(..).collect()
    }

    fn tell(&self, state: MutexGuard<'_, State>) {
        let waker = state.waker.clone();
        drop(state);
        self.has_more.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes the next lines, after waiting no longer than that.
    pub(crate) fn pop(&self, wait: Duration) -> Popped {
        let mut state = self.lock();
        if state.is_empty() && !state.has_ended && !wait.is_zero() {
            let waited =
                self.has_more.wait_timeout_while(state, wait, |state| state.is_empty() && !state.has_ended);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some(posting) = state.posted.pop_front() {
            return Popped::Posted(posting);
        }
        match state.waiting.pop_front() {
            Some(lines) => {
                state.bytes -= lines.len();
                self.has_room.notify_all();
                Popped::Lines(lines)
            }
            None if state.has_ended => Popped::Ended,
            None => Popped::Nothing,
        }
    }

    /// Whether lines wait.
    pub(crate) fn has_more(&self) -> bool {
        let state = self.lock();
        !state.waiting.is_empty() || state.has_ended
    }

    /// What was skipped until now.
    pub fn skipped(&self) -> Skipped {
        self.lock().skipped
    }

    /// Has the hub woken from now on whenever something comes.
    pub(crate) fn wake(&self, waker: Waker) {
        self.lock().waker = Some(waker);
    }
}

impl State {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.posted.is_empty()
    }

    fn push(&mut self, lines: Vec<u8>) {
        self.bytes += lines.len();
        self.waiting.push_back(lines);
    }
}

#[cfg(test)]
mod tests {
    use subscope_harness::claude_code::STREAM;

    use super::*;

    const CALL: &str = "{\"type\":\"assistant\",\"message\":{\"content\":[]}}\n";
    const END: &str = "{\"type\":\"system\",\"subtype\":\"task_notification\"}\n";

    fn taken(queue: &Queue) -> String {
        queue.end();
        let mut all = Vec::new();
        while let Popped::Lines(lines) = queue.pop(Duration::ZERO) {
            all.extend(lines);
        }
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn what_does_not_fit_is_skipped_and_counted_but_for_its_gist() {
        let gist = LifecycleFilter::new(STREAM);
        let queue = Queue::default();
        let filler = CALL.repeat(BUDGET_BYTES / CALL.len());
        queue.offer(filler.as_bytes(), &gist);
        queue.offer(format!("{CALL}{END}{CALL}").as_bytes(), &gist);
        assert_eq!(queue.skipped(), Skipped { lines: 2, bytes: 2 * CALL.len() as u64 });
        assert_eq!(taken(&queue), filler + END);
    }

    #[test]
    fn more_than_anybody_could_follow_is_not_taken_however_fast_it_is_read() {
        let gist = LifecycleFilter::new(STREAM);
        let queue = Queue::paced();
        queue.offer(CALL.repeat(BURST_LINES as usize).as_bytes(), &gist);
        queue.offer(format!("{END}{}", CALL.repeat(BURST_LINES as usize)).as_bytes(), &gist);
        assert_eq!(queue.skipped().lines, BURST_LINES as u64);
        assert!(taken(&queue).ends_with(END));
    }

    #[test]
    fn who_has_left_keeps_nobody_waiting() {
        let queue = Queue::default();
        queue.offer(END.as_bytes(), &LifecycleFilter::default());
        assert_eq!(queue.abandon(), [END.as_bytes()]);
        queue.offer(END.repeat(GIST_BYTES / END.len() * 3).as_bytes(), &LifecycleFilter::new(STREAM));
        assert_eq!(taken(&queue), "");
    }
}
