//! The event loop: one thread that owns all live sessions, the store and the subscribers.
//!
//! One turn ([`EventLoop::turn`]), in order:
//! 1. `handle_commands`: queue ingests, index batches and questions ([`queries`]).
//! 2. `commit_ingests`: decode all queued ingests, save them in one commit, acknowledge them ([`ingest`]).
//! 3. `answer_waiting`: derive what the waiting questions must see, some milliseconds a turn, and hand them to the reader
//!    threads ([`crate::read_pool`]).
//! 4. `replay_portion`: after a start, replay the next sessions of the inbox ([`startup`]).
//! 5. `poll_driver`: retry a failed commit; let the driver push bytes; reload replaced sessions; derive the sessions that
//!    are due ([`mod@derive`]); send and save rows that are due ([`rows`]); evict idle
//!    sessions ([`eviction`]).
//! 6. `commit_index_batch`: commit one batch of the background index ([`index_commits`]).
//!
//! Between two turns, `wait_for_command` waits for a command if the driver can wake the hub; otherwise the driver waits
//! inside `poll`.
//!
//! Modules:
//! * [`backfill`]: loads everything that a session's rows are derived from, before they are derived.
//! * [`budget`]: alerts when a session or a day has cost 80 % or all of its budget.
//! * [`mod@derive`]: derives rows and events from facts, commits and publishes them; retries failed commits.
//! * [`duplicates`]: decides which session counts a response that several sessions contain.
//! * [`duty_cycle`]: limits how much of the time each kind of work takes.
//! * [`eviction`]: evicts idle sessions from memory.
//! * [`hub_store`]: the store, with failed reads counted, logged and reported.
//! * [`inbox_replay`]: replays a session's saved input from the inbox when the session is loaded.
//! * [`index_commits`]: commits batches of the background index.
//! * [`ingest`]: input from programs: group commit and acknowledgement.
//! * [`publish_dedup`]: drops events that an earlier hub process already published.
//! * [`queries`]: command dispatch, and what questions wait for.
//! * [`remotes`]: rows of other machines.
//! * [`retained`]: keeps what is known of a session although it cannot be read now, or is in no file any more.
//! * [`row_broadcast`]: what subscribers have of a session's rows, and when they get more.
//! * [`rows`]: rows of sessions in memory, a write-back cache: sends and saves what has changed.
//! * [`session_slot`]: the life of a session: its states, and what each transition leaves to do.
//! * [`session_table`]: the table of sessions, and when work on each is due.
//! * [`startup`]: reads existing files and replays the inbox at start-up, in portions.
//! * [`stop`]: orders to stop a subagent.

mod backfill;
mod budget;
mod derive;
mod duplicates;
mod duty_cycle;
mod eviction;
mod hub_store;
mod inbox_replay;
mod index_commits;
mod ingest;
mod publish_dedup;
mod queries;
mod remotes;
mod retained;
mod row_broadcast;
mod rows;
mod session_slot;
mod session_table;
mod startup;
mod stop;
#[cfg(test)]
mod tests;
mod traces;

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use subscope_collect::{archive::Archive, work_tree};
use subscope_model::{Millis, PriceTable, Update, Zone};
use subscope_session::{EventScope, FactDetail, Limits, Now, RouterOptions, SessionRouter};
use subscope_store::{Commit, Store};

pub use self::{
    budget::Budgets,
    remotes::{RemoteBatch, RemoteOrder, RemoteOrders},
};
use self::{
    budget::TotalOfDay,
    derive::DerivePace,
    duplicates::DuplicateIndex,
    eviction::EvictPace,
    hub_store::HubStore,
    ingest::PendingInput,
    publish_dedup::last_stop,
    queries::WaitingCommand,
    remotes::ConnectedMachines,
    rows::SavePace,
    session_slot::{Coverage, InputState, LoadedBy, Task},
    session_table::SessionTable,
    startup::Startup,
};
use crate::{
    clock::{Clock, SystemClock},
    command::{Command, Figures},
    driver::Driver,
    event_routing::EventRouter,
    handle::{HubHandle, QuestionCount, Waker},
    otlp::TraceLinks,
    partitions::Partitions,
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
    pub texts: Option<FullTextLocation>,
    /// Amounts of money that alerts are about.
    pub budgets: Budgets,
    /// The zone whose days budgets and statistics count, where a question names no other.
    pub zone: Zone,
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
            budgets: Budgets::default(),
            zone: Zone::default(),
            stops_stalled: false,
            evict_after: Duration::from_secs(60),
        }
    }
}

impl HubOptions {
    /// What a derivation knows of its time.
    fn now(&self, at: Millis, has_ended: bool, limits: Limits) -> Now<'_> {
        Now { at, has_ended, is_growing: !has_ended, prices: &self.prices, limits }
    }
}

/// Location of the full-text index.
#[derive(Clone, Debug)]
pub struct FullTextLocation {
    /// Data folder, which has the full-text index, and spans of other programs that wait for an agent program.
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

/// Most of them that are loaded for it.
const MAX_DUE_LOADS: usize = 8;

/// A handle to a running hub. Dropping it stops the hub.
pub struct Hub {
    commands: SyncSender<Command>,
    router: EventRouter,
    links: TraceLinks,
    questions: QuestionCount,
    zone: Zone,
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
        let (waker, zone) = (Waker::new(commands.clone()), options.zone.clone());
        let links = TraceLinks::new(options.texts.as_ref().map(|texts| texts.folder.clone()));
        let build = std::thread::Builder::new().name("hub".to_owned());
        let thread = build
            .spawn(move || {
                let queue = CommandQueue::new(queue, waker, false);
                EventLoop::new(driver, store, options, queue, Box::new(SystemClock)).run();
            })
            .map_err(HubError::Thread)?;
        let (router, questions) = (EventRouter::default(), QuestionCount::default());
        Ok(Self { commands, router, links, questions, zone, thread: Some(thread) })
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
        let Self { commands, router, links, questions, zone, .. } = self;
        HubHandle::new(commands.clone(), router.clone(), links.clone(), questions.clone(), zone.clone())
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

/// Commands to the event loop.
struct CommandQueue {
    commands: Receiver<Command>,
    waker: Waker,
    /// Whether the driver wakes the hub, so that the hub waits for commands only.
    is_woken: bool,
    /// Commands that wait until what was acknowledged before them is derived, in order.
    waiting: VecDeque<WaitingCommand>,
    /// Other machines that are heard: commands about their agents are passed on.
    machines: ConnectedMachines,
}

impl CommandQueue {
    fn new(commands: Receiver<Command>, waker: Waker, is_woken: bool) -> Self {
        Self { commands, waker, is_woken, waiting: VecDeque::new(), machines: ConnectedMachines::default() }
    }
}

/// How often each kind of work is done.
struct Pace {
    derive: DerivePace,
    save: SavePace,
    evict: EvictPace,
}

/// Time as the hub sees it.
struct HubTime {
    clock: Box<dyn Clock>,
    suspend: SuspendDetector,
}

impl HubTime {
    /// A monotonic instant.
    fn tick(&self) -> Instant {
        self.clock.tick()
    }

    /// Milliseconds since 1970.
    fn now_ms(&self) -> Millis {
        self.clock.now_ms()
    }
}

/// State of the event loop. What belongs to one session is in `sessions`, its facts are in `router`.
struct EventLoop {
    driver: Box<dyn Driver>,
    store: HubStore,
    options: HubOptions,
    queue: CommandQueue,
    /// Facts of the loaded sessions.
    router: SessionRouter,
    sessions: SessionTable,
    subscribers: Vec<Subscriber>,
    /// Inbox partitions as sources of the router.
    partitions: Partitions,
    pending: PendingInput,
    duplicates: DuplicateIndex,
    /// `None` until it is needed.
    day_cost: Option<TotalOfDay>,
    startup: Startup,
    pace: Pace,
    time: HubTime,
    figures: Figures,
}

impl EventLoop {
    fn new(
        driver: Box<dyn Driver>,
        store: Box<dyn Store>,
        options: HubOptions,
        queue: CommandQueue,
        clock: Box<dyn Clock>,
    ) -> Self {
        let store = HubStore::new(store, options.texts.clone(), queue.waker.clone());
        let startup = Startup::after(last_stop(&store));
        let figures = Figures { seq: store.last_seq(), ..Figures::default() };
        let derive = DerivePace::new(clock.tick());
        Self {
            driver,
            store,
            options,
            queue,
            router: SessionRouter::new(RouterOptions {
                keep: FactDetail::Rows,
                cutoff: None,
                events: EventScope::All,
            })
            .with_work_trees(work_tree),
            sessions: SessionTable::default(),
            subscribers: Vec::new(),
            partitions: Partitions::default(),
            pending: PendingInput::default(),
            duplicates: DuplicateIndex::default(),
            day_cost: None,
            startup,
            pace: Pace { derive, save: SavePace::default(), evict: EvictPace::default() },
            time: HubTime { clock, suspend: SuspendDetector::default() },
            figures,
        }
    }

    fn run(mut self) {
        self.start_looks();
        self.start();
        // Events published before the first subscriber would be lost.
        let Ok(command) = self.queue.commands.recv() else { return };
        let mut next = self.handle_command(command);
        while next == LoopControl::Continue && self.turn() == LoopControl::Continue {
            next = self.wait_for_command();
        }
        self.stop_saving();
    }

    /// Has the first look of a user begin now, where none is kept: what ended before is no news.
    fn start_looks(&mut self) {
        let looks = self.store.read("what the user has seen", self.store.looks());
        if looks.is_some_and(|looks| looks.seen_until_ms.is_none()) {
            let now_ms = self.time.now_ms();
            let marked = self.store.mark_seen(now_ms);
            self.store.read("what the user has seen", marked);
        }
    }

    /// Saves everything, as the last thing that the hub does.
    fn stop_saving(&mut self) {
        while !self.queue.waiting.is_empty() {
            self.answer_waiting();
        }
        // Last attempt for a failed commit.
        self.store.end_retry_pause(self.time.tick());
        let _ = self.retry_failed_commit();
        let _ = self.save_rows();
        self.save_facts();
    }

    /// Does all that is due, without waiting.
    fn turn(&mut self) -> LoopControl {
        let next = self.handle_commands();
        self.commit_ingests();
        if let Some(problem) = self.store.failures.take_problem(self.time.tick()) {
            self.publish_problem(problem);
        }
        if next == LoopControl::Stop {
            return next;
        }
        self.answer_waiting();
        self.replay_portion();
        if !self.startup.has_ended {
            self.poll_driver();
        }
        self.commit_index_batch();
        next
    }

    /// Handles queued commands until the ingest batch is full.
    fn handle_commands(&mut self) -> LoopControl {
        while !self.pending.is_full() {
            match self.queue.commands.try_recv() {
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
        if !self.queue.waiting.is_empty() {
            return LoopControl::Continue;
        }
        if self.startup.has_ended {
            return match self.queue.commands.recv() {
                Ok(command) => self.handle_command(command),
                Err(_) => LoopControl::Stop,
            };
        }
        if !self.queue.is_woken || !self.pending.is_empty() || self.startup.is_replaying() {
            return LoopControl::Continue;
        }
        match self.queue.commands.recv_timeout(self.command_timeout()) {
            Ok(command) => self.handle_command(command),
            Err(RecvTimeoutError::Timeout) => LoopControl::Continue,
            Err(RecvTimeoutError::Disconnected) => LoopControl::Stop,
        }
    }

    /// Takes the driver's input, then derives, broadcasts, saves and evicts what is due.
    fn poll_driver(&mut self) {
        if self.retry_failed_commit().is_err() {
            // Backpressure: nothing more is read while nothing can be saved.
            if !self.queue.is_woken {
                std::thread::sleep(POLL_WAIT);
            }
            return;
        }
        let is_hurried = self.queue.is_woken || self.startup.is_hurried() || !self.queue.waiting.is_empty();
        let wait = if is_hurried { Duration::ZERO } else { self.poll_timeout() };
        let polled = self.driver.poll(wait, &mut self.router);
        self.collect_changed();
        self.retry_unread(polled.unread_changed);
        self.derive_loaded(polled.loaded);
        for problem in polled.problems {
            self.publish_problem(problem);
        }
        let is_read = !polled.is_catching_up && !self.startup.is_replaying();
        if !std::mem::replace(&mut self.startup.is_read, is_read) && is_read {
            // From now on silence counts.
            let now = self.time.tick();
            self.sessions.mark_all_dirty(now);
            self.sessions.end_wait(InputState::AwaitsSilence, now);
        }
        let at = self.read_clock();
        self.mark_due(at);
        if polled.has_ended {
            let now = self.time.tick();
            self.sessions.end_wait(InputState::FirstRead, now);
            // The end of input decides the state of agents that were left open, in all sessions.
            self.sessions.mark_all_dirty(now);
            self.derive_dirty(true);
        } else {
            self.derive_due();
        }
        self.broadcast_rows(polled.has_ended);
        self.save_due_rows();
        if self.startup.is_done && !self.store.has_failed_commit() {
            self.evict_idle();
        }
        self.startup.is_caught_up |= polled.is_caught_up;
        if self.startup.is_caught_up && !self.startup.is_replaying() && !self.startup.is_done {
            self.sessions.end_wait(InputState::FirstRead, self.time.tick());
            if !self.sessions.has_none(Task::Derive) {
                self.derive_dirty(polled.has_ended);
            }
            self.startup.is_done = true;
            self.broadcast_rows(true);
            self.publish(&Update::CaughtUp);
        }
        self.catch_up_subscribers();
        if polled.has_ended {
            self.startup.has_ended = true;
            let _ = self.save_rows();
            // Subscribers see the end of the feed by the end of their queue.
            self.subscribers.clear();
        }
    }

    /// Marks the sessions dirty whose deadline has passed. Those that are not in memory are loaded when they are derived.
    fn mark_due(&mut self, at: Millis) {
        let due = self.sessions.deadlines().take_while(|(deadline, _)| *deadline <= at);
        let due = due.map(|(_, session)| session).filter(|session| !self.sessions.is_dirty(session));
        let (held, stored): (Vec<_>, Vec<_>) = due.take(MAX_DUE_SESSIONS).cloned().partition(|session| {
            self.sessions.loaded(session).is_some_and(|it| it.coverage == Coverage::Complete)
        });
        self.mark_dirty(held);
        if !self.startup.is_read {
            // Silence does not count yet.
            return;
        }
        for session in stored.into_iter().take(MAX_DUE_LOADS) {
            self.sessions.load(&session, LoadedBy::Deadline);
            self.mark_dirty([session]);
        }
    }

    /// Returns the driver's time. After a clock jump all deadlines are void: their sessions become dirty.
    fn read_clock(&mut self) -> Millis {
        let now = self.driver.now();
        let tick = self.time.tick();
        if self.time.suspend.record(now, self.driver.awake_ms(), tick) {
            self.sessions.mark_all_dirty(tick);
        }
        now
    }

    /// Silence limits for this derivation; endless during the initial scan.
    fn limits(&self) -> Limits {
        if !self.startup.is_read {
            return Limits::endless();
        }
        Limits { awake: self.time.suspend.awake(), ..self.options.limits.clone() }
    }

    /// Marks the sessions that the driver changed. A session whose files are read from their beginning is derived after
    /// they are read completely: until then agents have names that later files correct, and its stored rows are better.
    fn collect_changed(&mut self) {
        let moves = self.router.take_moves();
        if !moves.is_empty() {
            moves.iter().filter(|moved| moved.is_whole).for_each(|moved| self.publish_emptied(&moved.from));
            self.forget_moved(&moves, None);
            self.pending.moves.extend(moves);
            let moved = self.take_moved_input(&mut []);
            // A failed commit is kept and tried again.
            let _ = self.commit(Commit { moved, ..Commit::default() });
        }
        for session in self.router.take_changed() {
            self.sessions.load(&session, LoadedBy::Input);
            self.sessions.loaded_mut(&session).into_iter().for_each(|it| it.loaded_by = LoadedBy::Input);
            self.ensure_replayed(&session);
            // If the store cannot be read, assume that it has rows of the session.
            let has_rows = |it: &mut Self| it.has_stored_rows(&session).unwrap_or(true);
            if !self.startup.is_done && (self.driver.follows(&session) || has_rows(self)) {
                self.sessions
                    .loaded_mut(&session)
                    .into_iter()
                    .for_each(|it| it.input = InputState::FirstRead);
            } else {
                self.mark_dirty([session]);
            }
        }
    }

    /// Longest wait of a driver that cannot wake the hub: shorter while sessions are dirty.
    fn poll_timeout(&self) -> Duration {
        let now = self.time.tick();
        let pace = &self.pace.derive;
        match (self.sessions.due_in(Task::Derive, now), self.sessions.due_in(Task::Broadcast, now)) {
            (Some(derive), _) => derive.max(pace.throttle.pause_left(now)).min(DIRTY_POLL_WAIT),
            (None, Some(broadcast)) => broadcast.min(DIRTY_POLL_WAIT),
            (None, None) if now.duration_since(pace.last_derived) > IDLE_AFTER => IDLE_POLL_WAIT,
            (None, None) => POLL_WAIT,
        }
    }

    /// Longest wait of a hub that is woken: until the next derivation, broadcast, save or eviction is due.
    fn command_timeout(&self) -> Duration {
        if self.store.has_failed_commit() || self.subscribers.iter().any(Subscriber::is_behind) {
            return POLL_WAIT;
        }
        let now = self.time.tick();
        let broadcast = self.sessions.due_in(Task::Broadcast, now);
        if !self.sessions.has_none(Task::Derive) {
            return broadcast.map_or(self.poll_timeout(), |broadcast| broadcast.min(self.poll_timeout()));
        }
        let at = self.driver.now();
        let deadline = self.sessions.deadlines().next().map(|(deadline, _)| (deadline - at).max(0));
        let deadline = deadline.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis);
        let retry = self.sessions.due_in(Task::Retry, now);
        let due = [
            deadline,
            broadcast,
            retry,
            self.pace.save.due_in(&self.sessions, now),
            self.pace.evict.due_in(now),
        ];
        due.into_iter().flatten().min().unwrap_or(MAX_WAIT).clamp(MIN_WAIT, MAX_WAIT)
    }
}
