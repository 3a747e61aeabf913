//! Forwards a run's output and posted events to the machine's hub on a thread of its own; spools them for the next hub
//! if this one does not accept them in time.
//!
//! Delivered and spooled batches have the same delivery key, so that the hub stores a batch once. Order within a source
//! is kept: while a batch of a source is in the spool, later ones are spooled too.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::sync_channel,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use subscope_client::{Client, ClientError, IngestAnswer};
use subscope_decode::{Dialect, PROCESS_ENDS};
use subscope_hub::{Spooler, clock};
use subscope_model::AgentId;

use crate::{
    CommandRunError, EndedSessions,
    line_tap::LineTap,
    queue::{LineQueue, Popped, PostedBatch, SkippedLines},
};

/// Target size of a delivery.
const BATCH_BYTES: usize = 1 << 20;
/// Timeout of popping from the queue.
const POP_TIMEOUT: Duration = Duration::from_secs(1);
/// Attempts per delivery and the delay between them: a restarting hub needs a moment.
const MAX_ATTEMPTS: u32 = 5;
const RETRY_DELAY: Duration = Duration::from_millis(300);
/// Delay before connecting again after there was no hub.
const RECONNECT_DELAY: Duration = Duration::from_secs(5);
/// Poll interval while finishing.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Time to collect more lines for a delivery: each delivery wakes two processes.
const BATCH_DELAY: Duration = Duration::from_millis(30);
/// Time to collect lines for the spool: each batch is a file.
const SPOOL_DELAY: Duration = Duration::from_millis(100);

/// Maximum size of a run's spooled output: hooks and posts of others need space too.
const MAX_SPOOLED_BYTES: usize = 64 << 20;
/// Timeout of learning the delivery in flight when finishing.
const IN_FLIGHT_TIMEOUT: Duration = Duration::from_millis(200);

/// Timeout of a hub to store posted events before they are spooled.
const POST_TIMEOUT: Duration = Duration::from_millis(500);
/// Additional timeout if spooling failed. Publishers give up after 5 s.
const LAST_POST_TIMEOUT: Duration = Duration::from_secs(3);

/// Why there is no hub.
#[derive(Debug, thiserror::Error)]
pub enum HubUnavailable {
    /// No hub runs and none can be started; not retried for a while.
    #[error("{0}")]
    Absent(String),
    /// A hub does not respond. Detecting that takes long enough to retry at once.
    #[error("{0}")]
    Unresponsive(String),
}

/// Connects to the hub, and starts one if needed.
pub type Connect = Arc<Mutex<Box<dyn FnMut() -> Result<Client, HubUnavailable> + Send>>>;

/// Connection and spool of a run, shared by its iterations.
#[derive(Clone)]
pub struct Forwarder {
    /// Connects to the hub.
    pub connect: Connect,
    /// Spool if there is no hub.
    pub spooler: Arc<Spooler>,
}

/// Lines that were not delivered to the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undelivered {
    /// Lost lines.
    pub lost: SkippedLines,
    /// First known reason.
    pub why: Option<String>,
    /// Number of lines that were spooled.
    pub spooled: u64,
}

/// Error of a delivery.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeliveryError {
    /// Permanent: the hub rejects it.
    #[error("{0}")]
    Refused(String),
    /// Temporary: may succeed later.
    #[error("{0}")]
    Temporary(String),
}

/// Lines of one delivery.
#[derive(Debug)]
pub(crate) struct DeliveryBatch {
    dialect: Dialect,
    /// Delivery key.
    key: String,
    lines: Vec<u8>,
}

/// Writer of one source's spool files.
#[derive(Debug)]
struct SpoolWriter {
    spooler: Arc<Spooler>,
    source: String,
    /// Last spooled file, until a hub has ingested it.
    last: Option<PathBuf>,
    spooled: Arc<AtomicU64>,
}

impl SpoolWriter {
    /// Whether a file of this source is in the spool.
    fn is_pending(&mut self) -> bool {
        if self.last.as_ref().is_some_and(|last| !last.exists()) {
            self.last = None;
        }
        self.last.is_some()
    }

    fn write(&mut self, batch: &DeliveryBatch) -> io::Result<()> {
        self.last = Some(self.spooler.lines(batch.dialect, &self.source, &batch.key, &batch.lines)?);
        self.spooled.fetch_add(count_lines(&batch.lines), Ordering::Relaxed);
        Ok(())
    }
}

fn count_lines(lines: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', lines).count() as u64
}

/// Forwards what was posted; the sender waits for the result.
#[derive(Debug)]
pub struct PostForwarder {
    queue: Arc<LineQueue>,
    spool: SpoolWriter,
    number: u64,
}

impl PostForwarder {
    /// Forwards lines of a dialect and returns once they are stored or spooled. Returns the agents that a user asked to stop.
    ///
    /// # Errors
    /// If they are neither.
    pub(crate) fn forward(
        &mut self,
        dialect: Dialect,
        lines: Vec<u8>,
    ) -> Result<Vec<AgentId>, DeliveryError> {
        self.number += 1;
        let key = format!("{}/posted/{}", self.spool.source, self.number);
        let batch = Arc::new(DeliveryBatch { dialect, key, lines });
        let mut late = None;
        if !self.spool.is_pending() {
            let (result, received) = sync_channel(1);
            self.queue.post(PostedBatch { batch: Arc::clone(&batch), result });
            match received.recv_timeout(POST_TIMEOUT) {
                Ok(Err(DeliveryError::Temporary(_))) => {}
                Ok(done) => return done,
                Err(_) => late = Some(received),
            }
        }
        let Err(error) = self.spool.write(&batch) else { return Ok(Vec::new()) };
        let why = match late.map(|received| received.recv_timeout(LAST_POST_TIMEOUT)) {
            Some(Ok(Err(DeliveryError::Temporary(why)))) => why,
            Some(Ok(done)) => return done,
            Some(Err(_)) | None => "the hub does not keep it in time".to_owned(),
        };
        Err(DeliveryError::Temporary(format!("{why}, and it cannot be spooled: {error}")))
    }
}

/// State shared by the forwarding thread and the thread that waits for its end.
#[derive(Debug, Default)]
struct ForwardState {
    /// Batch sent without a response so far.
    in_flight: Option<Arc<DeliveryBatch>>,
    /// Sessions whose process has ended: delivered after everything else.
    ended: Option<EndedSessions>,
    undelivered: Undelivered,
}

impl ForwardState {
    fn add_lost(&mut self, lines: &[u8], why: String) {
        self.undelivered.lost.lines += count_lines(lines);
        self.undelivered.lost.bytes += lines.len() as u64;
        self.undelivered.why.get_or_insert(why);
    }
}

fn lock(shared: &Mutex<ForwardState>) -> MutexGuard<'_, ForwardState> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Thread that forwards the items of a queue.
#[derive(Debug)]
pub struct ForwardThread {
    queue: Arc<LineQueue>,
    dialect: Arc<OnceLock<Dialect>>,
    spool: SpoolWriter,
    shared: Arc<Mutex<ForwardState>>,
    thread: JoinHandle<()>,
}

struct ForwardWorker {
    queue: Arc<LineQueue>,
    dialect: Arc<OnceLock<Dialect>>,
    connect: Connect,
    client: Option<Client>,
    spool: SpoolWriter,
    spooled_bytes: usize,
    shared: Arc<Mutex<ForwardState>>,
    number: u64,
    retry_after: Option<Instant>,
}

impl ForwardThread {
    /// Starts forwarding the lines that `tap` enqueues in `queue`, and posted events; `source` names the run. It
    /// connects to a hub with the first item.
    ///
    /// # Errors
    /// No thread is available.
    pub fn start(
        queue: &Arc<LineQueue>,
        tap: &LineTap,
        source: &str,
        forwarder: &Forwarder,
    ) -> Result<(Self, PostForwarder), CommandRunError> {
        let spooled = Arc::new(AtomicU64::new(0));
        let spool_writer = || SpoolWriter {
            spooler: Arc::clone(&forwarder.spooler),
            source: source.to_owned(),
            last: None,
            spooled: Arc::clone(&spooled),
        };
        let shared = Arc::new(Mutex::new(ForwardState::default()));
        let mut worker = ForwardWorker {
            queue: Arc::clone(queue),
            dialect: tap.dialect(),
            connect: Arc::clone(&forwarder.connect),
            client: None,
            spool: spool_writer(),
            spooled_bytes: 0,
            shared: Arc::clone(&shared),
            number: 0,
            retry_after: None,
        };
        let build = std::thread::Builder::new().name("keep".to_owned());
        let thread = build.spawn(move || worker.run()).map_err(CommandRunError::System)?;
        let posts = PostForwarder { queue: Arc::clone(queue), spool: spool_writer(), number: 0 };
        let queue = Arc::clone(queue);
        Ok((Self { queue, dialect: tap.dialect(), spool: spool_writer(), shared, thread }, posts))
    }

    /// Waits until everything is delivered, and last that the process of these sessions has ended; at most `limit`. Spools
    /// the rest. Returns what was not delivered.
    pub fn finish(mut self, ended: EndedSessions, limit: Duration) -> Undelivered {
        lock(&self.shared).ended = Some(ended).filter(|ended| !ended.sessions.is_empty());
        self.queue.end();
        let began = clock::tick();
        while !self.thread.is_finished() && began.elapsed() < limit {
            std::thread::sleep(POLL_INTERVAL);
        }
        if !self.thread.is_finished() {
            self.spool_rest();
        }
        let skipped = self.queue.skipped();
        let mut undelivered = lock(&self.shared).undelivered.clone();
        undelivered.lost.lines += skipped.lines;
        undelivered.lost.bytes += skipped.bytes;
        undelivered.spooled = self.spool.spooled.load(Ordering::Relaxed);
        undelivered
    }

    /// Spools the batch in flight and the queued lines.
    fn spool_rest(&mut self) {
        let rest = self.queue.abandon();
        let began = clock::tick();
        let sent = loop {
            // A popped batch is in flight a moment later.
            let sent = lock(&self.shared).in_flight.clone();
            if sent.is_some() || self.thread.is_finished() || began.elapsed() > IN_FLIGHT_TIMEOUT {
                break sent;
            }
            std::thread::sleep(POLL_INTERVAL);
        };
        if let Some(batch) = sent {
            self.spool(&batch);
        }
        let Some(dialect) = self.dialect.get().copied() else { return };
        for (number, lines) in rest.into_iter().enumerate() {
            let key = format!("{}/rest/{number}", self.spool.source);
            self.spool(&DeliveryBatch { dialect, key, lines });
        }
        let ended = lock(&self.shared).ended.take();
        if let Some(ended) = ended {
            let key = format!("{}/ended", self.spool.source);
            self.spool(&DeliveryBatch { dialect: PROCESS_ENDS, key, lines: ended.lines(clock::now_ms()) });
        }
    }

    fn spool(&mut self, batch: &DeliveryBatch) {
        if let Err(error) = self.spool.write(batch) {
            let why = format!("the hub does not keep them in time, and they cannot be spooled: {error}");
            lock(&self.shared).add_lost(&batch.lines, why);
        }
    }
}

impl ForwardWorker {
    fn run(&mut self) {
        loop {
            match self.queue.pop(POP_TIMEOUT) {
                Popped::Lines(mut lines) => {
                    if self.spool.is_pending() {
                        std::thread::sleep(SPOOL_DELAY);
                    }
                    let mut posted = None;
                    let until = clock::tick() + BATCH_DELAY;
                    while lines.len() < BATCH_BYTES && posted.is_none() {
                        match self.queue.pop(until.saturating_duration_since(clock::tick())) {
                            Popped::Lines(more) => lines.extend_from_slice(&more),
                            Popped::Posted(batch) => posted = Some(batch),
                            Popped::Nothing | Popped::Ended => break,
                        }
                    }
                    // First, because the sender waits.
                    if let Some(batch) = posted {
                        self.deliver_post(batch);
                    }
                    if let Some(dialect) = self.dialect.get() {
                        self.deliver_or_spool(*dialect, lines);
                    }
                }
                Popped::Posted(batch) => self.deliver_post(batch),
                Popped::Nothing => {}
                Popped::Ended => {
                    let ended = lock(&self.shared).ended.take();
                    if let Some(ended) = ended {
                        self.deliver_or_spool(PROCESS_ENDS, ended.lines(clock::now_ms()));
                    }
                    return;
                }
            }
        }
    }

    /// Delivers posted events and sends the result.
    fn deliver_post(&mut self, PostedBatch { batch, result }: PostedBatch) {
        // After its timeout the receiver is gone and has spooled them.
        let _ = result.try_send(self.deliver(&batch));
    }

    /// Delivers lines of the child, or spools them.
    fn deliver_or_spool(&mut self, dialect: Dialect, lines: Vec<u8>) {
        self.number += 1;
        let key = format!("{}/{}", self.spool.source, self.number);
        let batch = Arc::new(DeliveryBatch { dialect, key, lines });
        let why = if self.spool.is_pending() {
            "the hub did not keep them".to_owned()
        } else {
            lock(&self.shared).in_flight = Some(Arc::clone(&batch));
            let delivered = self.deliver(&batch);
            let mut shared = lock(&self.shared);
            shared.in_flight = None;
            match delivered {
                Ok(_) => return,
                Err(DeliveryError::Refused(why)) => return shared.add_lost(&batch.lines, why),
                Err(DeliveryError::Temporary(why)) => why,
            }
        };
        let spooled = if self.spooled_bytes + batch.lines.len() > MAX_SPOOLED_BYTES {
            Err(format!("{why}, and more than {} MiB of them would be spooled", MAX_SPOOLED_BYTES >> 20))
        } else {
            let written = self.spool.write(&batch);
            written.map_err(|error| format!("{why}, and they cannot be spooled: {error}"))
        };
        match spooled {
            Ok(()) => self.spooled_bytes += batch.lines.len(),
            Err(why) => lock(&self.shared).add_lost(&batch.lines, why),
        }
    }

    /// Delivers a batch; returns the agents of published events that a user asked to stop.
    fn deliver(&mut self, batch: &DeliveryBatch) -> Result<Vec<AgentId>, DeliveryError> {
        let mut why = String::new();
        for attempt in 0..MAX_ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(RETRY_DELAY);
            }
            let mut client = match self.client.take() {
                Some(client) => client,
                None => self.connect().map_err(|error| DeliveryError::Temporary(error.to_string()))?,
            };
            match client.ingest(batch.dialect.as_str(), &self.spool.source, &batch.key, &batch.lines) {
                Ok(IngestAnswer { stop: to_stop, .. }) => {
                    self.client = Some(client);
                    return Ok(to_stop);
                }
                Err(error @ ClientError::Refused { status: 400..500, .. }) => {
                    return Err(DeliveryError::Refused(error.to_string()));
                }
                Err(error) => why = error.to_string(),
            }
        }
        Err(DeliveryError::Temporary(why))
    }

    fn connect(&mut self) -> Result<Client, HubUnavailable> {
        if self.retry_after.is_some_and(|until| clock::tick() < until) {
            return Err(HubUnavailable::Absent("no hub is running".to_owned()));
        }
        let connected = (self.connect.lock().unwrap_or_else(PoisonError::into_inner))();
        connected.inspect_err(|unavailable| {
            if matches!(unavailable, HubUnavailable::Absent(_)) {
                self.retry_after = Some(clock::tick() + RECONNECT_DELAY);
            }
        })
    }
}
