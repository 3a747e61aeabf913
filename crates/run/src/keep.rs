//! What the hub of this machine is handed, so that it is kept: on a thread that nothing waits for longer than a moment.

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use subscope_client::{Client, ClientError};
use subscope_decode::Dialect;
use subscope_hub::clock;

use crate::{
    RunError,
    queue::{Popped, Queue, Skipped},
    tap::{Tap, Written},
};

/// How many bytes are handed over at once.
const BATCH_BYTES: usize = 1 << 20;
/// How long a wait for something to keep lasts at most: the longest that the end goes unnoticed.
const WAIT: Duration = Duration::from_secs(1);
/// How often a delivery is tried: a hub that is started anew needs a moment.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(300);
/// How long nobody is asked for a hub after there was none.
const REST: Duration = Duration::from_secs(5);
/// How often is looked whether all is kept.
const LOOK: Duration = Duration::from_millis(5);

/// Finds the hub, and starts one if need be. Shared by the iterations of a run.
pub type Connect = Arc<Mutex<Box<dyn FnMut() -> Result<Client, String> + Send>>>;

/// What could not be kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unkept {
    /// How much.
    pub lost: Skipped,
    /// Why, as far as that is known; the first reason.
    pub why: Option<String>,
}

/// Keeps what comes into a queue.
#[derive(Debug)]
pub struct Keeping {
    queue: Arc<Queue>,
    thread: JoinHandle<Unkept>,
}

struct Work {
    queue: Arc<Queue>,
    written: Arc<Written>,
    connect: Connect,
    client: Option<Client>,
    source: String,
    number: u64,
    rests_until: Option<Instant>,
    unkept: Unkept,
}

impl Keeping {
    /// Starts keeping what `tap` hands to `queue`; `source` names the run. A hub is looked for when there is something to
    /// keep.
    ///
    /// # Errors
    /// Where there is no thread.
    pub fn start(queue: Arc<Queue>, tap: &Tap, source: String, connect: Connect) -> Result<Self, RunError> {
        let mut work = Work {
            queue: Arc::clone(&queue),
            written: tap.written(),
            connect,
            client: None,
            source,
            number: 0,
            rests_until: None,
            unkept: Unkept::default(),
        };
        let build = std::thread::Builder::new().name("keep".to_owned());
        let thread = build
            .spawn(move || {
                work.run();
                work.unkept
            })
            .map_err(RunError::System)?;
        Ok(Self { queue, thread })
    }

    /// Waits until all is kept, no longer than that, and returns what is not.
    pub fn finish(self, limit: Duration) -> Unkept {
        self.queue.end();
        let began = clock::tick();
        while !self.thread.is_finished() && began.elapsed() < limit {
            std::thread::sleep(LOOK);
        }
        let skipped = self.queue.skipped();
        let mut unkept = if self.thread.is_finished() {
            self.thread.join().unwrap_or_default()
        } else {
            Unkept { lost: self.queue.abandon(), why: Some("the hub is too slow".to_owned()) }
        };
        unkept.lost.lines += skipped.lines;
        unkept.lost.bytes += skipped.bytes;
        unkept
    }
}

impl Work {
    fn run(&mut self) {
        loop {
            match self.queue.pop(WAIT) {
                Popped::Lines(mut lines) => {
                    let mut posted = None;
                    while lines.len() < BATCH_BYTES && posted.is_none() {
                        match self.queue.pop(Duration::ZERO) {
                            Popped::Lines(more) => lines.extend_from_slice(&more),
                            Popped::Posted(lines, kept) => posted = Some((lines, kept)),
                            Popped::Nothing | Popped::Ended => break,
                        }
                    }
                    if let Some(dialect) = self.written.get() {
                        self.keep(dialect, &lines);
                    }
                    if let Some((lines, kept)) = posted {
                        self.keep(Dialect::SubagentEvents, &lines);
                        // Who posted has waited long enough already.
                        let _ = kept.try_send(());
                    }
                }
                Popped::Posted(lines, kept) => {
                    self.keep(Dialect::SubagentEvents, &lines);
                    let _ = kept.try_send(());
                }
                Popped::Nothing => {}
                Popped::Ended => return,
            }
        }
    }

    fn keep(&mut self, dialect: Dialect, lines: &[u8]) {
        self.number += 1;
        let delivery = format!("{}/{}", self.source, self.number);
        if let Err(why) = self.deliver(dialect, &delivery, lines) {
            self.unkept.lost.lines += memchr::memchr_iter(b'\n', lines).count() as u64;
            self.unkept.lost.bytes += lines.len() as u64;
            self.unkept.why.get_or_insert(why);
        }
    }

    fn deliver(&mut self, dialect: Dialect, delivery: &str, lines: &[u8]) -> Result<(), String> {
        let mut why = String::new();
        for tried in 0..TRIES {
            if tried > 0 {
                std::thread::sleep(PAUSE);
            }
            let mut client = match self.client.take() {
                Some(client) => client,
                None => self.connect()?,
            };
            match client.hand_over(dialect.as_str(), &self.source, delivery, lines) {
                Ok(()) => {
                    self.client = Some(client);
                    return Ok(());
                }
                Err(error @ ClientError::Refused { status: 400..500, .. }) => return Err(error.to_string()),
                Err(error) => why = error.to_string(),
            }
        }
        Err(why)
    }

    fn connect(&mut self) -> Result<Client, String> {
        if self.rests_until.is_some_and(|until| clock::tick() < until) {
            return Err("there is no hub".to_owned());
        }
        let connected = (self.connect.lock().unwrap_or_else(PoisonError::into_inner))();
        if connected.is_err() {
            self.rests_until = Some(clock::tick() + REST);
        }
        connected
    }
}
