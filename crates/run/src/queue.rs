//! What was read of the child and is not taken yet: bounded, and it never makes the child wait.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc::SyncSender},
    time::Duration,
};

use subscope_decode::Gist;
use subscope_hub::Waker;

/// How many bytes may wait. Enough for any burst of a real agent; what comes on top of it is skipped but for its gist.
const BUDGET_BYTES: usize = 4 << 20;
/// How many bytes the gist may have on top of that. Only a child that says nothing but starts and ends of agents, faster than
/// they can be taken, comes here: it waits, since these are never skipped and memory is bounded.
const GIST_BYTES: usize = 16 << 20;

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
    /// Events that were posted, and who waits until they are kept.
    Posted(Vec<u8>, SyncSender<()>),
    /// Nothing came in time.
    Nothing,
    /// Nothing will come any more.
    Ended,
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
    posted: VecDeque<(Vec<u8>, SyncSender<()>)>,
    bytes: usize,
    skipped: Skipped,
    waker: Option<Waker>,
    has_ended: bool,
    /// Whether nobody takes anything any more.
    is_abandoned: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Offers whole lines. Where there is no room, those that `gist` finds are taken and the others skipped.
    pub fn offer(&self, lines: &[u8], gist: &Gist) {
        let mut state = self.lock();
        if state.is_abandoned {
            return;
        }
        if state.bytes + lines.len() <= BUDGET_BYTES {
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

    /// Offers posted events, in front of everything else; `kept` is told once they are.
    pub(crate) fn post(&self, lines: Vec<u8>, kept: SyncSender<()>) {
        let mut state = self.lock();
        if !state.is_abandoned {
            state.posted.push_back((lines, kept));
        }
        self.tell(state);
    }

    /// Says that nothing will come any more.
    pub fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        self.tell(state);
    }

    /// Says that nobody takes anything any more; returns what is lost by that.
    pub fn abandon(&self) -> Skipped {
        let mut state = self.lock();
        state.is_abandoned = true;
        let lost: usize = state.waiting.iter().map(|lines| memchr::memchr_iter(b'\n', lines).count()).sum();
        let lost = Skipped { lines: lost as u64, bytes: state.bytes as u64 };
        state.waiting.clear();
        state.bytes = 0;
        self.has_room.notify_all();
        lost
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
        if let Some((lines, kept)) = state.posted.pop_front() {
            return Popped::Posted(lines, kept);
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
