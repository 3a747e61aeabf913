//! Threads that answer questions, so that the thread that acknowledges input never waits for one.
//!
//! Each thread has a read connection of its own while it has work: a connection maps the store into memory, which would
//! count as the hub's.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use subscope_model::SessionId;
use subscope_store::{History, OpenReader};

use crate::{
    event_loop::FullTextLocation,
    handle::Waker,
    read_view::{ReadFailures, ReadView, RowOverlay},
};

/// Threads: a question that takes seconds must not delay short ones.
const THREADS: usize = 4;

/// Idle time after which a thread closes its connection.
const KEEP_OPEN: Duration = Duration::from_secs(1);

/// What a question does with the rows. It also sends the reply.
pub(crate) type Answer = Box<dyn FnOnce(&ReadView<'_>) + Send>;

/// A question that is answered beside the event loop.
pub(crate) struct Question {
    /// Session whose rows in memory it needs.
    pub(crate) session: Option<SessionId>,
    pub(crate) answer: Answer,
}

/// Reader threads, started with the first question. Dropping them answers what waits.
pub(crate) struct ReadPool {
    source: ReadSource,
    threads: Option<RunningReaders>,
}

struct RunningReaders {
    queue: Arc<QuestionQueue>,
    threads: Vec<JoinHandle<()>>,
}

/// Questions that wait for a thread. Handles bound their number ([`crate::AskError::Busy`]).
#[derive(Default)]
struct QuestionQueue {
    state: Mutex<QueueState>,
    /// Notified when a question comes or the queue is closed.
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    questions: VecDeque<(RowOverlay, Answer)>,
    is_closed: bool,
}

/// What a thread does next.
enum NextTask {
    Answer(RowOverlay, Answer),
    /// Nothing was asked for a while.
    Rest,
    End,
}

impl QuestionQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next question, with `is_open` at most [`KEEP_OPEN`].
    fn next(&self, is_open: bool) -> NextTask {
        let mut state = self.lock();
        loop {
            if let Some((overlay, answer)) = state.questions.pop_front() {
                return NextTask::Answer(overlay, answer);
            }
            if state.is_closed {
                return NextTask::End;
            }
            if !is_open {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let (next, waited) =
                self.changed.wait_timeout(state, KEEP_OPEN).unwrap_or_else(PoisonError::into_inner);
            if waited.timed_out() && next.questions.is_empty() && !next.is_closed {
                return NextTask::Rest;
            }
            state = next;
        }
    }
}

/// Where the threads read.
#[derive(Clone)]
struct ReadSource {
    open: OpenReader,
    texts: Option<FullTextLocation>,
    failures: ReadFailures,
    /// Wakes the event loop, which reports failures.
    waker: Waker,
}

impl ReadPool {
    pub(crate) fn new(
        open: OpenReader,
        texts: Option<FullTextLocation>,
        failures: ReadFailures,
        waker: Waker,
    ) -> Self {
        Self { source: ReadSource { open, texts, failures, waker }, threads: None }
    }

    /// Queues a question. It is dropped without a reply if the system cannot create a thread.
    pub(crate) fn ask(&mut self, overlay: RowOverlay, answer: Answer) {
        let threads = match &mut self.threads {
            Some(threads) => threads,
            None => match RunningReaders::start(&self.source) {
                Ok(threads) => self.threads.insert(threads),
                Err(error) => return tracing::warn!("questions cannot be answered: {error}"),
            },
        };
        threads.queue.lock().questions.push_back((overlay, answer));
        threads.queue.changed.notify_one();
    }
}

impl RunningReaders {
    fn start(source: &ReadSource) -> io::Result<Self> {
        let mut running = Self { queue: Arc::default(), threads: Vec::new() };
        for _ in 0..THREADS {
            let (source, queue) = (source.clone(), Arc::clone(&running.queue));
            let thread = std::thread::Builder::new().name("hub-reader".to_owned());
            running.threads.push(thread.spawn(move || source.answer(&queue))?);
        }
        Ok(running)
    }
}

impl Drop for RunningReaders {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic is reported by its hook.
            let _ = thread.join();
        }
    }
}

impl ReadSource {
    /// Answers questions until the queue is closed and empty.
    fn answer(&self, queue: &QuestionQueue) {
        let mut store: Option<Box<dyn History>> = None;
        loop {
            let (overlay, answer) = match queue.next(store.is_some()) {
                NextTask::Answer(overlay, answer) => (overlay, answer),
                NextTask::Rest => {
                    store = None;
                    continue;
                }
                NextTask::End => return,
            };
            let before = self.failures.count();
            if store.is_none() {
                store = self.failures.read("the store", (self.open)());
            }
            answer(&ReadView {
                store: store.as_deref(),
                overlay: &overlay,
                texts: self.texts.as_ref(),
                failures: &self.failures,
            });
            if self.failures.count() > before {
                // A connection that failed may be that of a file that was replaced.
                store = None;
                self.waker.wake();
            }
        }
    }
}
