//! The event loop: one thread that owns all live sessions, the store and the subscribers.
//!
//! One turn ([`EventLoop::run`]), in order:
//! 1. `handle_commands`: answer queries, queue ingests and index batches ([`queries`]).
//! 2. `commit_ingests`: fold all queued ingests, save them in one commit, acknowledge them ([`ingest`]).
//! 3. `replay_portion`: after a start, replay the next sessions of the inbox ([`startup_replay`]).
//! 4. `run_turn`: retry a failed commit; let the driver push bytes; reload replaced sessions; derive the sessions that are
//!    due ([`mod@derive`]); send rows that are due ([`row_broadcast`]); save rows that are due ([`row_cache`]); evict idle
//!    sessions ([`eviction`]).
//! 5. `commit_index_batch`: commit one batch of the background index ([`index_commits`]).
//! 6. `wait_for_command`: wait for a command if the driver can wake the hub; otherwise the driver waits inside `poll`.
//!
//! Modules:
//! * [`backfill`]: loads the transcript files of a session for which only input from programs has arrived.
//! * [`mod@derive`]: derives rows and events from facts, commits and publishes them; retries failed commits.
//! * [`duplicates`]: decides which session counts a response that several sessions contain.
//! * [`eviction`]: evicts idle sessions from memory.
//! * [`hub_store`]: the store, with failed reads counted, logged and reported.
//! * [`inbox_replay`]: replays a session's saved input from the inbox when the session is loaded.
//! * [`index_commits`]: commits batches of the background index.
//! * [`ingest`]: input from programs: group commit and acknowledgement.
//! * [`publish_dedup`]: drops events that an earlier hub process already published.
//! * [`queries`]: command dispatch and queries.
//! * [`reload`]: derives a session anew whose file was truncated or replaced.
//! * [`row_broadcast`]: sends changed rows to subscribers, rate-limited per session.
//! * [`row_cache`]: write-back cache of rows.
//! * [`startup`]: derives and evicts in portions while existing files are read at start-up.
//! * [`startup_replay`]: replays the inbox at start-up.
//! * [`stop`]: orders to stop a subagent.

mod backfill;
mod derive;
mod duplicates;
mod eviction;
mod hub_store;
mod inbox_replay;
mod index_commits;
mod ingest;
mod publish_dedup;
mod queries;
mod reload;
mod row_broadcast;
mod row_cache;
mod startup;
mod startup_replay;
mod stop;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::PathBuf,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use subscope_collect::archive::Archive;
use subscope_fold::{FactDetail, FeedBuilder, Fold, FoldOptions, Limits};
use subscope_model::{AgentId, Millis, PriceTable, SessionId, SourceId, Update};
use subscope_store::Store;

use self::{
    derive::FailedCommit, duplicates::DuplicateIndex, eviction::Evictor, hub_store::HubStore,
    inbox_replay::InboxReplay, index_commits::IndexCommits, ingest::PendingIngests,
    publish_dedup::PublishedFilter, row_broadcast::PendingBroadcast, row_cache::RowCache, startup::Startup,
    startup_replay::StartupReplay,
};
use crate::{
    clock,
    command::{Command, Figures},
    driver::Driver,
    event_routing::EventRouter,
    handle::{HubHandle, Waker},
    subscription::{HubSubscription, Subscriber, pair},
    suspend::SuspendDetector,
};

/// Options of a hub.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// Token prices.
    pub prices: PriceTable,
    /// Silence limits.
    pub limits: Limits,
    /// Full-text index, if there is one.
    pub texts: Option<TextsAt>,
    /// Whether the hub orders a stalled subagent to stop, as a user could.
    pub stops_stalled: bool,
    /// Idle time after which a session without running agents is evicted from memory. It is served from the store, and
    /// its files are read again when its input changes. Large sessions stay longer.
    pub evict_after: Duration,
}

impl Default for HubOptions {
    fn default() -> Self {
        Self {
            prices: PriceTable::default(),
            limits: Limits::default(),
            texts: None,
            stops_stalled: false,
            evict_after: Duration::from_secs(60),
        }
    }
}

/// Location of the full-text index.
#[derive(Clone, Debug)]
pub struct TextsAt {
    /// Folder of the full-text index.
    pub folder: PathBuf,
    /// Archive that is read where the harness has deleted a file.
    pub archive: Archive,
}

/// Why a hub could not be started.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The operating system could not create the thread.
    #[error("cannot start the hub's thread")]
    Thread(#[source] std::io::Error),
}

/// Capacity of the command queue: deep enough for one command of each connection of a server, whose bodies the server's
/// own budget bounds. A caller beyond that gets [`crate::AskError::Busy`].
const QUEUE_COMMANDS: usize = 1024;

/// Longest wait for bytes in a turn: the longest that a command waits for its answer if the driver cannot wake the hub.
const POLL_WAIT: Duration = Duration::from_millis(100);

/// The same while sessions are dirty.
const DIRTY_POLL_WAIT: Duration = Duration::from_millis(50);

/// The same after [`IDLE_AFTER`] without changes, so that a watcher left open costs nothing.
const IDLE_POLL_WAIT: Duration = Duration::from_millis(300);
const IDLE_AFTER: Duration = Duration::from_secs(3);

/// Longest wait of a hub that is woken: bounds how late a deadline is met after the system clock was set.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Shortest wait: a deadline that cannot be met at once must not keep the hub busy.
const MIN_WAIT: Duration = Duration::from_millis(10);

/// Most sessions derived in one turn because a deadline passed: thousands may have started at one moment.
const MAX_DUE_SESSIONS: usize = 256;

/// Pause of a session after it was derived, as a multiple of the time that took: a big session is derived less often.
const DERIVE_SHARE: u32 = 4;

/// Ingests in one commit from which deriving is throttled, so that acknowledgements come first.
const THROTTLE_FROM_INGESTS: usize = 8;
/// Pause of all deriving in that case, as a multiple of the time that deriving took.
const THROTTLE_SHARE: u32 = 6;

/// A handle to a running hub. Dropping it stops the hub.
pub struct Hub {
    commands: SyncSender<Command>,
    router: EventRouter,
    thread: Option<JoinHandle<()>>,
}

impl Hub {
    /// Starts a hub on its own thread, polled by a driver. It begins to read when the first subscriber has joined, who
    /// therefore gets every update, or at the first [`Hub::handle`].
    ///
    /// # Errors
    /// If the operating system cannot create the thread.
    pub fn start(
        driver: Box<dyn Driver>,
        store: Box<dyn Store>,
        options: HubOptions,
    ) -> Result<Self, HubError> {
        let (commands, queue) = sync_channel(QUEUE_COMMANDS);
        let waker = Waker::new(commands.clone());
        let build = std::thread::Builder::new().name("hub".to_owned());
        let thread = build
            .spawn(move || EventLoop::new(driver, store, options, queue, waker).run())
            .map_err(HubError::Thread)?;
        Ok(Self { commands, router: EventRouter::default(), thread: Some(thread) })
    }

    /// Subscribes: first the snapshots of all sessions, then every update.
    pub fn subscribe(&self) -> HubSubscription {
        let (subscriber, subscription) = pair(self.commands.clone());
        // A hub that has ended drops the subscriber: its reader sees a closed feed.
        let _ = self.commands.send(Command::Subscribe(subscriber));
        subscription
    }

    /// Returns a handle for ingests and queries. From the first call on the hub reads, with or without subscribers.
    pub fn handle(&self) -> HubHandle {
        // A hub that has ended rejects every later query.
        let _ = self.commands.send(Command::EnableWaking);
        HubHandle::new(self.commands.clone(), self.router.clone())
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether the event loop continues after a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LoopControl {
    Continue,
    Stop,
}

/// State of the event loop. A session's state is spread over these tables, keyed by its id.
struct EventLoop {
    driver: Box<dyn Driver>,
    store: HubStore,
    options: HubOptions,
    /// Command queue.
    commands: Receiver<Command>,
    waker: Waker,
    /// Whether the driver wakes the hub, so that the hub waits for commands only.
    is_woken: bool,
    /// Facts of the loaded sessions.
    fold: Fold,
    /// Builds events from facts.
    feed: FeedBuilder,
    subscribers: Vec<Subscriber>,
    rows: RowCache,
    evictor: Evictor,
    broadcast: PendingBroadcast,
    /// Sequence number of the change log before the commit that last changed a session's rows.
    rows_changed_at: BTreeMap<SessionId, u64>,
    /// Agents with a pending order to stop.
    stop_orders: BTreeMap<SessionId, Vec<AgentId>>,
    /// Whether a stop order arrived since the last derivation: it must be derived before the next hook is answered.
    has_new_order: bool,
    /// Time at which a session's rows may change without new input.
    deadlines: BTreeMap<SessionId, Millis>,
    /// Drops events that an earlier hub process already published; needed because live files are re-read from offset 0.
    published: PublishedFilter,
    /// Sessions whose files were looked up because input arrived for them, with the sources opened for these files.
    backfilled: BTreeMap<SessionId, Vec<SourceId>>,
    /// Number of file groups opened by backfill.
    backfilled_groups: u32,
    /// Sessions whose input was read again since the last derivation.
    reloading: BTreeSet<SessionId>,
    /// Sessions with changes that are not derived yet.
    dirty: BTreeSet<SessionId>,
    /// Sessions whose files are being read for the first time; until then their stored rows are served.
    loading: BTreeSet<SessionId>,
    startup: Startup,
    /// Acknowledged input is not derived yet: derive before answering the next query (read-your-writes).
    has_unprocessed_acked: bool,
    pending_ingests: PendingIngests,
    index_commits: IndexCommits,
    inbox_replay: InboxReplay,
    duplicates: DuplicateIndex,
    /// Reserved revisions that are not used yet.
    revs: Range<u64>,
    startup_replay: StartupReplay,
    failed_commit: Option<FailedCommit>,
    figures: Figures,
    last_derived: Instant,
    /// Most ingests in one commit since the last derivation.
    largest_ingest_batch: usize,
    /// No session is derived before this time.
    throttled_until: Option<Instant>,
    /// Earliest next derivation of a session, if it is dirty.
    next_derivations: BTreeMap<SessionId, Instant>,
    /// Whether the driver's input has ended: only queries are handled.
    has_ended: bool,
    /// Whether the driver has read the initial content of its files.
    is_caught_up: bool,
    /// Whether the initial content was published completely ([`Update::CaughtUp`]).
    startup_done: bool,
    /// Whether the background index is still reading older sessions.
    is_indexing: bool,
    /// Whether the initial content of files or the inbox is still being read: silence does not count until then.
    initial_scan_running: bool,
    suspend: SuspendDetector,
}

fn new_fold() -> Fold {
    Fold::new(FoldOptions { keep: FactDetail::Rows, cutoff: None, events: true })
}

impl EventLoop {
    fn new(
        driver: Box<dyn Driver>,
        store: Box<dyn Store>,
        options: HubOptions,
        commands: Receiver<Command>,
        waker: Waker,
    ) -> Self {
        let store = HubStore::new(store);
        let published = PublishedFilter::load(&store);
        let figures = Figures { seq: store.last_seq(), ..Figures::default() };
        Self {
            driver,
            store,
            options,
            commands,
            waker,
            is_woken: false,
            fold: new_fold(),
            feed: FeedBuilder::new(),
            subscribers: Vec::new(),
            rows: RowCache::default(),
            evictor: Evictor::default(),
            broadcast: PendingBroadcast::default(),
            rows_changed_at: BTreeMap::new(),
            stop_orders: BTreeMap::new(),
            has_new_order: false,
            deadlines: BTreeMap::new(),
            published,
            backfilled: BTreeMap::new(),
            backfilled_groups: 0,
            reloading: BTreeSet::new(),
            dirty: BTreeSet::new(),
            loading: BTreeSet::new(),
            startup: Startup::default(),
            has_unprocessed_acked: false,
            pending_ingests: PendingIngests::default(),
            index_commits: IndexCommits::default(),
            inbox_replay: InboxReplay::default(),
            duplicates: DuplicateIndex::default(),
            revs: 0..0,
            startup_replay: StartupReplay::default(),
            failed_commit: None,
            figures,
            last_derived: clock::tick(),
            largest_ingest_batch: 0,
            throttled_until: None,
            next_derivations: BTreeMap::new(),
            has_ended: false,
            is_caught_up: false,
            startup_done: false,
            is_indexing: false,
            initial_scan_running: true,
            suspend: SuspendDetector::default(),
        }
    }

    fn run(mut self) {
        tracing::info!(seq = self.figures.seq, "event loop starts");
        self.start_replay();
        // Events published before the first subscriber would reach nobody.
        let Ok(command) = self.commands.recv() else { return };
        let mut next = self.handle_command(command);
        while next == LoopControl::Continue {
            next = self.handle_commands();
            self.commit_ingests();
            if let Some(problem) = self.store.take_problem(clock::tick()) {
                self.publish_problem(problem);
            }
            if next == LoopControl::Stop {
                break;
            }
            self.replay_portion();
            if !self.has_ended {
                self.run_turn();
            }
            self.commit_index_batch();
            next = self.wait_for_command();
        }
        // Last attempt for a failed commit.
        self.failed_commit.iter_mut().for_each(FailedCommit::make_due);
        let _ = self.retry_failed_commit();
        let _ = self.save_rows();
    }

    /// Handles queued commands until the ingest batch is full.
    fn handle_commands(&mut self) -> LoopControl {
        while !self.pending_ingests.is_full() {
            match self.commands.try_recv() {
                Ok(command) => {
                    if self.handle_command(command) == LoopControl::Stop {
                        return LoopControl::Stop;
                    }
                }
                Err(TryRecvError::Empty) => return LoopControl::Continue,
                Err(TryRecvError::Disconnected) => return LoopControl::Stop,
            }
        }
        LoopControl::Continue
    }

    /// Waits for a command if the driver does not wait inside `poll`.
    fn wait_for_command(&mut self) -> LoopControl {
        if self.has_ended {
            return match self.commands.recv() {
                Ok(command) => self.handle_command(command),
                Err(_) => LoopControl::Stop,
            };
        }
        if !self.is_woken
            || !self.index_commits.is_empty()
            || !self.pending_ingests.is_empty()
            || self.startup_replay.is_under_way()
        {
            return LoopControl::Continue;
        }
        match self.commands.recv_timeout(self.command_timeout()) {
            Ok(command) => self.handle_command(command),
            Err(RecvTimeoutError::Timeout) => LoopControl::Continue,
            Err(RecvTimeoutError::Disconnected) => LoopControl::Stop,
        }
    }

    fn run_turn(&mut self) {
        if self.retry_failed_commit().is_err() {
            // Backpressure: nothing more is read while nothing can be saved.
            if !self.is_woken {
                std::thread::sleep(POLL_WAIT);
            }
            return;
        }
        let is_hurried = self.is_woken || self.startup_replay.is_hurried();
        let wait = if is_hurried { Duration::ZERO } else { self.poll_timeout() };
        let polled = self.driver.poll(wait, &mut self.fold);
        self.collect_changed();
        for session in &polled.replaced {
            self.reload(session);
        }
        self.collect_changed();
        self.derive_loaded(polled.loaded);
        for problem in polled.problems {
            self.publish_problem(problem);
        }
        let is_behind = polled.is_catching_up || self.startup_replay.is_under_way();
        if std::mem::replace(&mut self.initial_scan_running, is_behind) && !is_behind {
            // From now on silence counts.
            let replayed = self.take_replayed_running();
            self.dirty.extend(self.rows.sessions().cloned().chain(replayed));
        }
        let at = self.read_clock();
        let due = self
            .deadlines
            .iter()
            .filter(|(session, deadline)| **deadline <= at && !self.dirty.contains(*session))
            .map(|(session, _)| session.clone())
            .take(MAX_DUE_SESSIONS)
            .collect::<Vec<_>>();
        self.dirty.extend(due);
        if polled.has_ended {
            self.dirty.append(&mut self.loading);
            // The end of input decides the state of agents that were left open, in all sessions.
            self.dirty.extend(self.rows.sessions().cloned());
            self.derive_dirty(true);
        } else {
            self.derive_due();
        }
        self.broadcast_rows(polled.has_ended);
        self.save_due_rows();
        if self.startup_done && self.failed_commit.is_none() {
            self.evict_idle();
        }
        self.is_caught_up |= polled.is_caught_up;
        if self.is_caught_up && !self.startup_replay.is_under_way() && !self.startup_done {
            self.dirty.append(&mut self.loading);
            if !self.dirty.is_empty() {
                self.derive_dirty(polled.has_ended);
            }
            self.startup_done = true;
            self.published.finish_startup();
            self.broadcast_rows(true);
            self.publish(&Update::CaughtUp);
        }
        self.catch_up_subscribers();
        if polled.has_ended {
            self.has_ended = true;
            let _ = self.save_rows();
            // Subscribers see the end of the feed by the end of their queue.
            self.subscribers.clear();
        }
    }

    /// Returns the driver's time. After a clock jump all deadlines are void: their sessions become dirty.
    fn read_clock(&mut self) -> Millis {
        let now = self.driver.now();
        if self.suspend.record(now, self.driver.awake_ms(), clock::tick()) {
            self.dirty.extend(self.deadlines.keys().cloned());
        }
        now
    }

    /// Silence limits for this derivation; endless during the initial scan.
    fn limits(&self) -> Limits {
        if self.initial_scan_running {
            return Limits::endless();
        }
        Limits { awake: self.suspend.awake(), ..self.options.limits.clone() }
    }

    /// Marks the sessions that the driver changed. A session whose files are read from their beginning is derived after
    /// they are read completely: until then agents have names that later files correct, and its stored rows are better.
    fn collect_changed(&mut self) {
        for session in self.fold.take_changed() {
            self.mark_changed(session);
        }
    }

    fn mark_changed(&mut self, session: SessionId) {
        self.startup.remove(&session);
        self.ensure_replayed(&session);
        // If the store cannot be read, assume that it has rows of the session.
        let has_rows = |it: &mut Self| it.published.has_rows(&session, &it.store).unwrap_or(true);
        if !self.startup_done && (self.driver.follows(&session) || has_rows(self)) {
            self.loading.insert(session);
        } else {
            self.dirty.insert(session);
        }
    }

    /// Longest wait of a driver that cannot wake the hub: shorter while sessions are dirty.
    fn poll_timeout(&self) -> Duration {
        let now = clock::tick();
        if let Some(broadcast) = self.broadcast.due_in(now).filter(|_| self.dirty.is_empty()) {
            return broadcast.min(DIRTY_POLL_WAIT);
        }
        if self.dirty.is_empty() {
            return if self.last_derived.elapsed() > IDLE_AFTER { IDLE_POLL_WAIT } else { POLL_WAIT };
        }
        let due = |session| {
            self.next_derivations
                .get(session)
                .map_or(Duration::ZERO, |next| next.saturating_duration_since(now))
        };
        let throttle =
            self.throttled_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        self.dirty.iter().map(due).min().unwrap_or_default().max(throttle).min(DIRTY_POLL_WAIT)
    }

    /// Longest wait of a hub that is woken: until the next derivation, broadcast, save or eviction is due.
    fn command_timeout(&self) -> Duration {
        if self.failed_commit.is_some() || self.subscribers.iter().any(Subscriber::is_behind) {
            return POLL_WAIT;
        }
        if !self.dirty.is_empty() {
            let broadcast = self.broadcast.due_in(clock::tick());
            return broadcast.map_or(self.poll_timeout(), |broadcast| broadcast.min(self.poll_timeout()));
        }
        let at = self.driver.now();
        let next = self.deadlines.values().min().map(|deadline| (deadline - at).max(0));
        let until = next.and_then(|ms| u64::try_from(ms).ok()).map_or(MAX_WAIT, Duration::from_millis);
        let now = clock::tick();
        let until = self.rows.due_in(now).map_or(until, |rows| until.min(rows));
        let until = self.broadcast.due_in(now).map_or(until, |broadcast| until.min(broadcast));
        let until = self.evictor.due_in(now).map_or(until, |eviction| until.min(eviction));
        until.clamp(MIN_WAIT, MAX_WAIT)
    }
}
