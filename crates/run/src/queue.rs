//! Bounded queue of the child's output lines; it does not block the child, except as noted at [`MAX_LIFECYCLE_BYTES`].

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc::SyncSender},
    time::{Duration, Instant},
};

use subscope_decode::LifecycleFilter;
use subscope_hub::{Waker, clock};
use subscope_model::AgentId;

use crate::forward::{DeliveryBatch, DeliveryError};

/// Bytes queued without restriction, enough for any burst of real agents. Beyond that only lifecycle lines are
/// accepted.
const MAX_BYTES: usize = 4 << 20;
/// Additional bytes for lifecycle lines, which are never skipped. At this limit the child blocks: only one that prints
/// nothing but starts and ends of agents, faster than they are processed, reaches it.
const MAX_LIFECYCLE_BYTES: usize = 16 << 20;

/// Token bucket of rate-limited queues, whose reader stores what it reads: burst size and refill rate. Several times
/// the output of twenty concurrent agents; faster output cannot be read by a person anyway.
const BURST_LINES: f64 = 4_000.0;
const LINES_PER_SECOND: f64 = 200.0;

/// Number of skipped lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedLines {
    /// Lines.
    pub lines: u64,
    /// Bytes of these lines.
    pub bytes: u64,
}

/// Result of popping.
#[derive(Debug)]
pub(crate) enum Popped {
    /// Complete lines of the child's output.
    Lines(Vec<u8>),
    /// Posted events.
    Posted(PostedBatch),
    /// Timeout.
    Nothing,
    /// The queue has ended and is empty.
    Ended,
}

/// Posted events and the channel for their result.
#[derive(Debug)]
pub(crate) struct PostedBatch {
    /// Events, one per line.
    pub(crate) batch: Arc<DeliveryBatch>,
    /// Receives the result: the agents that a user asked to stop.
    pub(crate) result: SyncSender<Result<Vec<AgentId>, DeliveryError>>,
}

/// Queue between the thread that copies the output and a reader.
#[derive(Debug, Default)]
pub struct LineQueue {
    state: Mutex<QueueState>,
    has_more: Condvar,
    has_room: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    lines: VecDeque<Vec<u8>>,
    /// At most some hundred: each blocks its sender.
    posted: VecDeque<PostedBatch>,
    bytes: usize,
    skipped: SkippedLines,
    /// Rate limit; `None` if unlimited.
    rate: Option<LineRate>,
    waker: Option<Waker>,
    has_ended: bool,
    /// Whether the reader has stopped.
    is_abandoned: bool,
}

/// Token bucket.
#[derive(Debug)]
struct LineRate {
    lines: f64,
    since: Instant,
}

impl LineRate {
    /// Takes tokens for all lines; returns `false` if there are too few.
    fn accept(&mut self, lines: &[u8]) -> bool {
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

impl LineQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a rate-limited queue, for a reader that stores what it reads.
    pub fn rate_limited() -> Self {
        let rate = LineRate { lines: BURST_LINES, since: clock::tick() };
        Self {
            state: Mutex::new(QueueState { rate: Some(rate), ..QueueState::default() }),
            ..Self::default()
        }
    }

    /// Enqueues complete lines. Without room, lines matched by `filter` are shortened and enqueued, and others skipped.
    pub fn offer(&self, lines: &[u8], filter: &LifecycleFilter) {
        let mut state = self.lock();
        if state.is_abandoned {
            return;
        }
        let is_accepted = state.rate.as_mut().is_none_or(|rate| rate.accept(lines));
        if is_accepted && state.bytes + lines.len() <= MAX_BYTES {
            state.push(lines.to_vec());
        } else {
            let mut kept = Vec::new();
            for line in lines.split_inclusive(|byte| *byte == b'\n') {
                if !filter.holds(line) || !filter.shorten(line, &mut kept) {
                    state.skipped.lines += 1;
                    state.skipped.bytes += line.len() as u64;
                }
            }
            while state.bytes + kept.len() > MAX_BYTES + MAX_LIFECYCLE_BYTES
                && state.bytes > 0
                && !state.is_abandoned
            {
                state = self.has_room.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if !kept.is_empty() {
                state.push(kept);
            }
        }
        self.notify(state);
    }

    /// Enqueues posted events, before all lines.
    pub(crate) fn post(&self, batch: PostedBatch) {
        let mut state = self.lock();
        if !state.is_abandoned {
            state.posted.push_back(batch);
        }
        self.notify(state);
    }

    /// Wakes the reader without new lines.
    pub(crate) fn wake_reader(&self) {
        self.notify(self.lock());
    }

    /// Ends the queue.
    pub fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        self.notify(state);
    }

    /// Stops the reader: returns the queued lines, and discards later ones.
    pub fn abandon(&self) -> Vec<Vec<u8>> {
        let mut state = self.lock();
        state.is_abandoned = true;
        state.bytes = 0;
        self.has_room.notify_all();
        state.lines.drain(..).collect()
    }

    fn notify(&self, state: MutexGuard<'_, QueueState>) {
        let waker = state.waker.clone();
        drop(state);
        self.has_more.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes the next item; waits at most `wait`.
    pub(crate) fn pop(&self, wait: Duration) -> Popped {
        let mut state = self.lock();
        if state.is_empty() && !state.has_ended && !wait.is_zero() {
            let waited =
                self.has_more.wait_timeout_while(state, wait, |state| state.is_empty() && !state.has_ended);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some(batch) = state.posted.pop_front() {
            return Popped::Posted(batch);
        }
        match state.lines.pop_front() {
            Some(lines) => {
                state.bytes -= lines.len();
                self.has_room.notify_all();
                Popped::Lines(lines)
            }
            None if state.has_ended => Popped::Ended,
            None => Popped::Nothing,
        }
    }

    /// Whether lines are queued, or the queue has ended.
    pub(crate) fn has_more(&self) -> bool {
        let state = self.lock();
        !state.lines.is_empty() || state.has_ended
    }

    /// Returns the skipped lines so far.
    pub fn skipped(&self) -> SkippedLines {
        self.lock().skipped
    }

    /// Sets the waker of the reading hub.
    pub(crate) fn set_waker(&self, waker: Waker) {
        self.lock().waker = Some(waker);
    }
}

impl QueueState {
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.posted.is_empty()
    }

    fn push(&mut self, lines: Vec<u8>) {
        self.bytes += lines.len();
        self.lines.push_back(lines);
    }
}

#[cfg(test)]
mod tests {
    use subscope_harness::claude_code::STREAM;

    use super::*;

    const CALL: &str = "{\"type\":\"assistant\",\"message\":{\"content\":[]}}\n";
    const END: &str = "{\"type\":\"system\",\"subtype\":\"task_notification\"}\n";

    fn taken(queue: &LineQueue) -> String {
        queue.end();
        let mut all = Vec::new();
        while let Popped::Lines(lines) = queue.pop(Duration::ZERO) {
            all.extend(lines);
        }
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn lines_without_room_are_skipped_and_counted_except_lifecycle() {
        let gist = LifecycleFilter::new(STREAM);
        let queue = LineQueue::default();
        let filler = CALL.repeat(MAX_BYTES / CALL.len());
        queue.offer(filler.as_bytes(), &gist);
        queue.offer(format!("{CALL}{END}{CALL}").as_bytes(), &gist);
        assert_eq!(queue.skipped(), SkippedLines { lines: 2, bytes: 2 * CALL.len() as u64 });
        assert_eq!(taken(&queue), filler + END);
    }

    #[test]
    fn rate_limit_applies_to_fast_readers_too() {
        let gist = LifecycleFilter::new(STREAM);
        let queue = LineQueue::rate_limited();
        queue.offer(CALL.repeat(BURST_LINES as usize).as_bytes(), &gist);
        queue.offer(format!("{END}{}", CALL.repeat(BURST_LINES as usize)).as_bytes(), &gist);
        assert_eq!(queue.skipped().lines, BURST_LINES as u64);
        assert!(taken(&queue).ends_with(END));
    }

    #[test]
    fn abandoned_queue_does_not_block() {
        let queue = LineQueue::default();
        queue.offer(END.as_bytes(), &LifecycleFilter::default());
        assert_eq!(queue.abandon(), [END.as_bytes()]);
        queue
            .offer(END.repeat(MAX_LIFECYCLE_BYTES / END.len() * 3).as_bytes(), &LifecycleFilter::new(STREAM));
        assert_eq!(taken(&queue), "");
    }
}
