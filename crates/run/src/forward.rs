//! What is kept of a run: handed to the hub of this machine on a thread that nothing waits for longer than a moment, and spooled
//! for the next hub where this one does not take it in time.
//!
//! What is handed over and what is spooled have the same name, so that a hub that meets both takes one. Order within a source
//! counts: what comes while something of it waits in the spool goes there too, until a hub has taken it.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::sync_channel,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use subscope_client::{Client, ClientError};
use subscope_decode::{Dialect, SUBAGENT_EVENTS};
use subscope_hub::{Spooler, clock};

use crate::{
    RunError,
    line_tap::{LineTap, Written},
    queue::{Popped, Posting, Queue, Skipped},
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
/// How long after a line others are waited for, to be handed over with it: each time wakes two processes.
const TOGETHER: Duration = Duration::from_millis(30);
/// How long lines are gathered that are spooled: each time is a file.
const GATHER: Duration = Duration::from_millis(100);

/// How much of what the child prints a run spools: hooks and posts of others want room, too.
const SPILL_BYTES: usize = 64 << 20;
/// How long is waited, once no more is to be handed over, to learn what is under way.
const LEAVING: Duration = Duration::from_millis(200);

/// How long the hub may take to keep what was posted until it is spooled.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long it may take on top of that where the spool takes nothing. Publishers give up after 5 s.
const LAST_PATIENCE: Duration = Duration::from_secs(3);

/// Why nobody keeps what a run tells, in words.
#[derive(Debug)]
pub enum HubUnavailable {
    /// There is none, and none can be started: for a while it is not tried again.
    Absent(String),
    /// One does not answer. To find that out takes so long that it can be tried again at once: it may be back.
    Unresponsive(String),
}

/// Finds the hub, and starts one if need be.
pub type Connect = Arc<Mutex<Box<dyn FnMut() -> Result<Client, HubUnavailable> + Send>>>;

/// Where what a run tells is kept. Shared by the iterations of a run.
#[derive(Clone)]
pub struct Forwarder {
    /// The way to the hub.
    pub connect: Connect,
    /// The way around it.
    pub spooler: Arc<Spooler>,
}

impl std::fmt::Debug for Forwarder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forwarder").field("spooler", &self.spooler).finish_non_exhaustive()
    }
}

/// What the hub was not handed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undelivered {
    /// What is gone.
    pub lost: Skipped,
    /// Why, as far as that is known; the first reason.
    pub why: Option<String>,
    /// How many lines wait in the spool for the next hub, or did.
    pub spooled: u64,
}

/// Why something is not kept.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The hub will never take it.
    Refused(String),
    /// It might later.
    Missed(String),
}

/// One source's way into the spool.
#[derive(Debug)]
struct SpoolWriter {
    spooler: Arc<Spooler>,
    source: String,
    /// The last file, until a hub has taken it.
    last: Option<PathBuf>,
    spooled: Arc<AtomicU64>,
}

impl SpoolWriter {
    /// Whether something of this source waits.
    fn is_waiting(&mut self) -> bool {
        if self.last.as_ref().is_some_and(|last| !last.exists()) {
            self.last = None;
        }
        self.last.is_some()
    }

    fn put(&mut self, dialect: Dialect, delivery: &str, lines: &[u8]) -> io::Result<()> {
        self.last = Some(self.spooler.lines(dialect, &self.source, delivery, lines)?);
        self.spooled.fetch_add(count(lines), Ordering::Relaxed);
        Ok(())
    }
}

fn count(lines: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', lines).count() as u64
}

/// Keeps events that are posted: who posts them waits for that.
#[derive(Debug)]
pub struct PostForwarder {
    queue: Arc<Queue>,
    spill: SpoolWriter,
    number: u64,
}

impl PostForwarder {
    /// Returns once the lines are kept.
    ///
    /// # Errors
    /// Why they are not, in words.
    pub(crate) fn keep(&mut self, lines: Vec<u8>) -> Result<(), String> {
        self.number += 1;
        let delivery = format!("{}/posted/{}", self.spill.source, self.number);
        let mut late = None;
        if !self.spill.is_waiting() {
            let (kept, is_kept) = sync_channel(1);
            self.queue.post(Posting { delivery: delivery.clone(), lines: lines.clone(), kept });
            match is_kept.recv_timeout(PATIENCE) {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(Failure::Refused(why))) => return Err(why),
                Ok(Err(Failure::Missed(_))) => {}
                Err(_) => late = Some(is_kept),
            }
        }
        let Err(error) = self.spill.put(SUBAGENT_EVENTS, &delivery, &lines) else { return Ok(()) };
        let why = match late.map(|is_kept| is_kept.recv_timeout(LAST_PATIENCE)) {
            Some(Ok(Ok(()))) => return Ok(()),
            Some(Ok(Err(Failure::Refused(why)))) => return Err(why),
            Some(Ok(Err(Failure::Missed(why)))) => why,
            Some(Err(_)) | None => "the hub does not keep it in time".to_owned(),
        };
        Err(format!("{why}, and it cannot be spooled: {error}"))
    }
}

/// Lines of the child's that are handed over together.
#[derive(Debug)]
struct Batch {
    dialect: Dialect,
    delivery: String,
    lines: Vec<u8>,
}

/// What the thread that hands over and the one that waits for it share.
#[derive(Debug, Default)]
struct Shared {
    /// What was sent and not answered.
    under_way: Option<Arc<Batch>>,
    unkept: Undelivered,
}

impl Shared {
    fn lose(&mut self, lines: &[u8], why: String) {
        self.unkept.lost.lines += count(lines);
        self.unkept.lost.bytes += lines.len() as u64;
        self.unkept.why.get_or_insert(why);
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps what comes into a queue.
#[derive(Debug)]
pub struct ForwardThread {
    queue: Arc<Queue>,
    written: Arc<Written>,
    spill: SpoolWriter,
    shared: Arc<Mutex<Shared>>,
    thread: JoinHandle<()>,
}

struct Work {
    queue: Arc<Queue>,
    written: Arc<Written>,
    connect: Connect,
    client: Option<Client>,
    spill: SpoolWriter,
    spilled_bytes: usize,
    shared: Arc<Mutex<Shared>>,
    number: u64,
    rests_until: Option<Instant>,
}

impl ForwardThread {
    /// Starts keeping what `tap` hands to `queue`, and what comes over the desk; `source` names the run. A hub is looked for
    /// when there is something to keep.
    ///
    /// # Errors
    /// Where there is no thread.
    pub fn start(
        queue: &Arc<Queue>,
        tap: &LineTap,
        source: &str,
        keeper: &Forwarder,
    ) -> Result<(Self, PostForwarder), RunError> {
        let spooled = Arc::new(AtomicU64::new(0));
        let spill = || SpoolWriter {
            spooler: Arc::clone(&keeper.spooler),
            source: source.to_owned(),
            last: None,
            spooled: Arc::clone(&spooled),
        };
        let shared = Arc::new(Mutex::new(Shared::default()));
        let mut work = Work {
            queue: Arc::clone(queue),
            written: tap.written(),
            connect: Arc::clone(&keeper.connect),
            client: None,
            spill: spill(),
            spilled_bytes: 0,
            shared: Arc::clone(&shared),
            number: 0,
            rests_until: None,
        };
        let build = std::thread::Builder::new().name("keep".to_owned());
        let thread = build.spawn(move || work.run()).map_err(RunError::System)?;
        let desk = PostForwarder { queue: Arc::clone(queue), spill: spill(), number: 0 };
        let queue = Arc::clone(queue);
        Ok((Self { queue, written: tap.written(), spill: spill(), shared, thread }, desk))
    }

    /// Waits until all is handed over, no longer than that, and spools the rest. Returns what the hub was not handed.
    pub fn finish(mut self, limit: Duration) -> Undelivered {
        self.queue.end();
        let began = clock::tick();
        while !self.thread.is_finished() && began.elapsed() < limit {
            std::thread::sleep(LOOK);
        }
        if !self.thread.is_finished() {
            self.spool_rest();
        }
        let skipped = self.queue.skipped();
        let mut unkept = lock(&self.shared).unkept.clone();
        unkept.lost.lines += skipped.lines;
        unkept.lost.bytes += skipped.bytes;
        unkept.spooled = self.spill.spooled.load(Ordering::Relaxed);
        unkept
    }

    /// Spools what was sent and not answered, and what waits behind it.
    fn spool_rest(&mut self) {
        let rest = self.queue.abandon();
        let began = clock::tick();
        let sent = loop {
            // What was taken from the queue is sent a moment later.
            let sent = lock(&self.shared).under_way.clone();
            if sent.is_some() || self.thread.is_finished() || began.elapsed() > LEAVING {
                break sent;
            }
            std::thread::sleep(LOOK);
        };
        if let Some(batch) = sent {
            self.spool(batch.dialect, &batch.delivery, &batch.lines);
        }
        let Some(dialect) = self.written.get() else { return };
        for (number, lines) in rest.iter().enumerate() {
            let delivery = format!("{}/rest/{number}", self.spill.source);
            self.spool(dialect, &delivery, lines);
        }
    }

    fn spool(&mut self, dialect: Dialect, delivery: &str, lines: &[u8]) {
        if let Err(error) = self.spill.put(dialect, delivery, lines) {
            let why = format!("the hub does not keep them in time, and they cannot be spooled: {error}");
            lock(&self.shared).lose(lines, why);
        }
    }
}

impl Work {
    fn run(&mut self) {
        loop {
            match self.queue.pop(WAIT) {
                Popped::Lines(mut lines) => {
                    if self.spill.is_waiting() {
                        std::thread::sleep(GATHER);
                    }
                    let mut posted = None;
                    let until = clock::tick() + TOGETHER;
                    while lines.len() < BATCH_BYTES && posted.is_none() {
                        match self.queue.pop(until.saturating_duration_since(clock::tick())) {
                            Popped::Lines(more) => lines.extend_from_slice(&more),
                            Popped::Posted(posting) => posted = Some(posting),
                            Popped::Nothing | Popped::Ended => break,
                        }
                    }
                    // Who posted waits.
                    if let Some(posting) = posted {
                        self.take(posting);
                    }
                    if let Some(dialect) = self.written.get() {
                        self.keep(dialect, lines);
                    }
                }
                Popped::Posted(posting) => self.take(posting),
                Popped::Nothing => {}
                Popped::Ended => return,
            }
        }
    }

    /// Hands over what was posted, and says what became of it.
    fn take(&mut self, posting: Posting) {
        let Posting { delivery, lines, kept } = posting;
        // Who has waited long enough has spooled it.
        let _ = kept.try_send(self.deliver(SUBAGENT_EVENTS, &delivery, &lines));
    }

    /// Hands over what the child printed, or spools it.
    fn keep(&mut self, dialect: Dialect, lines: Vec<u8>) {
        self.number += 1;
        let delivery = format!("{}/{}", self.spill.source, self.number);
        let why = if self.spill.is_waiting() {
            "the hub did not keep them".to_owned()
        } else {
            let batch = Arc::new(Batch { dialect, delivery: delivery.clone(), lines: lines.clone() });
            lock(&self.shared).under_way = Some(batch);
            let delivered = self.deliver(dialect, &delivery, &lines);
            let mut shared = lock(&self.shared);
            shared.under_way = None;
            match delivered {
                Ok(()) => return,
                Err(Failure::Refused(why)) => return shared.lose(&lines, why),
                Err(Failure::Missed(why)) => why,
            }
        };
        let spooled = if self.spilled_bytes + lines.len() > SPILL_BYTES {
            Err(format!("{why}, and more than {} MiB of them would be spooled", SPILL_BYTES >> 20))
        } else {
            let put = self.spill.put(dialect, &delivery, &lines);
            put.map_err(|error| format!("{why}, and they cannot be spooled: {error}"))
        };
        match spooled {
            Ok(()) => self.spilled_bytes += lines.len(),
            Err(why) => lock(&self.shared).lose(&lines, why),
        }
    }

    fn deliver(&mut self, dialect: Dialect, delivery: &str, lines: &[u8]) -> Result<(), Failure> {
        let mut why = String::new();
        for tried in 0..TRIES {
            if tried > 0 {
                std::thread::sleep(PAUSE);
            }
            let mut client = match self.client.take() {
                Some(client) => client,
                None => self.connect().map_err(Failure::Missed)?,
            };
            match client.hand_over(dialect.as_str(), &self.spill.source, delivery, lines) {
                Ok(()) => {
                    self.client = Some(client);
                    return Ok(());
                }
                Err(error @ ClientError::Refused { status: 400..500, .. }) => {
                    return Err(Failure::Refused(error.to_string()));
                }
                Err(error) => why = error.to_string(),
            }
        }
        Err(Failure::Missed(why))
    }

    fn connect(&mut self) -> Result<Client, String> {
        if self.rests_until.is_some_and(|until| clock::tick() < until) {
            return Err("there is no hub".to_owned());
        }
        let connected = (self.connect.lock().unwrap_or_else(PoisonError::into_inner))();
        connected.map_err(|nobody| match nobody {
            HubUnavailable::Absent(why) => {
                self.rests_until = Some(clock::tick() + REST);
                why
            }
            HubUnavailable::Unresponsive(why) => why,
        })
    }
}
