//! The one thread that owns sessions, what keeps them, and subscribers.
//!
//! A turn: handle_command what waits → keep the ingests among it in one commit and answer them → let the driver read → conclude
//! what changed: events are kept at once, rows now and then ([`rows`]) → keep a slice of what an index made. Where somebody
//! holds a handle and the driver can wake the hub, the wait between turns is for either of them; otherwise it is the driver's.

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
mod recall;
mod reload;
mod row_broadcast;
mod row_cache;
mod startup;
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
    inbox_replay::InboxReplay, index_commits::IndexCommits, ingest::Waiting, publish_dedup::PublishedFilter,
    recall::Recall, row_broadcast::PendingBroadcast, row_cache::RowCache, startup::Startup,
};
use crate::{
    clock,
    command::{Command, Figures},
    driver::Driver,
    event_routing::Posts,
    handle::{HubHandle, Waker},
    subscription::{Subscriber, Subscription, pair},
    suspend::SuspendDetector,
};

/// What the hub concludes with.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// Prices.
    pub prices: PriceTable,
    /// Limits of silence.
    pub limits: Limits,
    /// Where passages are found, where they are.
    pub texts: Option<TextsAt>,
    /// Whether a subagent that is stalled is told to stop, as if a person had ordered it.
    pub stops_stalled: bool,
    /// After how much silence the hub lets go of a session of which nothing is at work. It is shown as it is kept, and its
    /// files are read again when it goes on; a big one stays longer.
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

/// Where passages are found.
#[derive(Clone, Debug)]
pub struct TextsAt {
    /// The folder with the full text.
    pub folder: PathBuf,
    /// What is read where the harness has deleted a file.
    pub archive: Archive,
}

/// Why a hub could not be started.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The system gave no thread.
    #[error("cannot start the hub's thread")]
    Thread(#[source] std::io::Error),
}

/// How many commands may wait. Deep enough for every connection of a server to have one, with bodies that the server's
/// own budget bounds; whoever comes on top of that is told that the hub is busy.
const QUEUE_COMMANDS: usize = 1024;

/// How long a turn waits for bytes: the longest that a command waits for its answer where the driver cannot wake the hub.
const TURN: Duration = Duration::from_millis(100);

/// The same while changes wait to be concluded.
const BUSY_TURN: Duration = Duration::from_millis(50);

/// The same once nothing has happened for [`IDLE_AFTER`], so that a watcher that is left open costs nothing.
const IDLE_TURN: Duration = Duration::from_millis(300);
const IDLE_AFTER: Duration = Duration::from_secs(3);

/// The longest wait of a hub that is woken: bounds how late a deadline is met when somebody sets the clock.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The shortest: a deadline that cannot be met at once must not keep the hub busy.
const SHORTEST_WAIT: Duration = Duration::from_millis(10);

/// How many sessions are concluded in one turn because time alone changed them: thousands may have begun at one moment.
const MOST_DUE: usize = 256;

/// How long a session rests after it was concluded, in what that took: a big session is concluded less often.
const DERIVE_SHARE: u32 = 4;

/// From how many ingests in one commit on others wait for their answers while sessions are concluded.
const PRESSED: usize = 8;
/// How long concluding rests then, in what it took.
const PRESSED_SHARE: u32 = 6;

/// A handle to a running hub. Dropping it stops the hub.
pub struct Hub {
    commands: SyncSender<Command>,
    posts: Posts,
    thread: Option<JoinHandle<()>>,
}

impl Hub {
    /// Starts a hub on its own thread, polled by a driver. It begins to read when the first subscriber has joined, who so
    /// gets everything that happens, or when the first [`Hub::handle`] is asked for.
    pub fn start(
        driver: Box<dyn Driver>,
        store: Box<dyn Store>,
        options: HubOptions,
    ) -> Result<Self, HubError> {
        let (commands, inbox) = sync_channel(QUEUE_COMMANDS);
        let waker = Waker::new(commands.clone());
        let build = std::thread::Builder::new().name("hub".to_owned());
        let thread = build
            .spawn(move || EventLoop::new(driver, store, options, inbox, waker).run())
            .map_err(HubError::Thread)?;
        Ok(Self { commands, posts: Posts::default(), thread: Some(thread) })
    }

    /// Subscribes: first the snapshots of all sessions, then every update.
    pub fn subscribe(&self) -> Subscription {
        let (subscriber, subscription) = pair(self.commands.clone());
        // A hub that has ended drops the subscriber, and its reader learns that it is closed.
        let _ = self.commands.send(Command::Subscribe(subscriber));
        subscription
    }

    /// Returns a handle for ingests and questions. From the first on the hub reads, listened to or not.
    pub fn handle(&self) -> HubHandle {
        // A hub that has ended says so to whoever asks it something.
        let _ = self.commands.send(Command::Expect);
        HubHandle::new(self.commands.clone(), self.posts.clone())
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

/// Whether to go on after a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Stop,
}

struct EventLoop {
    driver: Box<dyn Driver>,
    store: HubStore,
    options: HubOptions,
    inbox: Receiver<Command>,
    waker: Waker,
    /// Whether the driver wakes the hub, so that only the inbox is waited for.
    is_woken: bool,
    fold: Fold,
    events: FeedBuilder,
    subscribers: Vec<Subscriber>,
    rows: RowCache,
    evictor: Evictor,
    broadcast: PendingBroadcast,
    /// The place in the log before the commit that last changed a session's rows.
    moved: BTreeMap<SessionId, u64>,
    /// Agents that are to be told to stop.
    ordered: BTreeMap<SessionId, Vec<AgentId>>,
    /// Whether an order was taken since the last conclusion: it stands before the next hook is answered.
    has_new_order: bool,
    /// When time alone may change a session's rows.
    deadlines: BTreeMap<SessionId, Millis>,
    /// What hubs of before have told of what this one reads from its beginning.
    published: PublishedFilter,
    /// Sessions whose files have been looked for, since they were told of, with the sources that these became.
    backfilled: BTreeMap<SessionId, Vec<SourceId>>,
    /// How many groups of files were read so.
    groups_read: u32,
    /// Of which the files were read since the last conclusion.
    reloading: BTreeSet<SessionId>,
    /// Sessions with changes that are not concluded yet.
    dirty: BTreeSet<SessionId>,
    /// Sessions whose files are still read for the first time, and whose rows are of before.
    loading: BTreeSet<SessionId>,
    begin: Startup,
    /// Whether some of these changes were acknowledged: the next answer must know them.
    has_unprocessed_acked: bool,
    waiting: Waiting,
    index_commits: IndexCommits,
    inbox_replay: InboxReplay,
    duplicates: DuplicateIndex,
    /// Revs that are reserved and not given.
    revs: Range<u64>,
    recall: Recall,
    failed_commit: Option<FailedCommit>,
    figures: Figures,
    last_derived: Instant,
    /// The most ingests of one commit since sessions were concluded.
    last_group: usize,
    /// Before this no session is concluded.
    throttled_until: Option<Instant>,
    /// When a session is due to be concluded again, if it is pending.
    paces: BTreeMap<SessionId, Instant>,
    has_ended: bool,
    /// Whether the driver has read what stood there at first.
    is_caught_up: bool,
    startup_done: bool,
    /// Whether sessions of before are still being read beside the hub.
    reads_past: bool,
    /// Whether what stood there at first is still being read: no silence counts until then.
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
        inbox: Receiver<Command>,
        waker: Waker,
    ) -> Self {
        let store = HubStore::new(store);
        let published = PublishedFilter::before(&store);
        let figures = Figures { seq: store.last_seq(), ..Figures::default() };
        Self {
            driver,
            store,
            options,
            inbox,
            waker,
            is_woken: false,
            fold: new_fold(),
            events: FeedBuilder::new(),
            subscribers: Vec::new(),
            rows: RowCache::default(),
            evictor: Evictor::default(),
            broadcast: PendingBroadcast::default(),
            moved: BTreeMap::new(),
            ordered: BTreeMap::new(),
            has_new_order: false,
            deadlines: BTreeMap::new(),
            published,
            backfilled: BTreeMap::new(),
            groups_read: 0,
            reloading: BTreeSet::new(),
            dirty: BTreeSet::new(),
            loading: BTreeSet::new(),
            begin: Startup::default(),
            has_unprocessed_acked: false,
            waiting: Waiting::default(),
            index_commits: IndexCommits::default(),
            inbox_replay: InboxReplay::default(),
            duplicates: DuplicateIndex::default(),
            revs: 0..0,
            recall: Recall::default(),
            failed_commit: None,
            figures,
            last_derived: clock::tick(),
            last_group: 0,
            throttled_until: None,
            paces: BTreeMap::new(),
            has_ended: false,
            is_caught_up: false,
            startup_done: false,
            reads_past: false,
            initial_scan_running: true,
            suspend: SuspendDetector::default(),
        }
    }

    fn run(mut self) {
        tracing::info!(seq = self.figures.seq, "event loop starts");
        self.begin_recall();
        // What is read before anybody listens would be told to nobody.
        let Ok(command) = self.inbox.recv() else { return };
        let mut next = self.handle_command(command);
        while next == Next::GoOn {
            next = self.handle_commands();
            self.commit_ingests();
            if let Some(problem) = self.store.take_problem(clock::tick()) {
                self.publish_problem(problem);
            }
            if next == Next::Stop {
                break;
            }
            self.recall_portion();
            if !self.has_ended {
                self.turn();
            }
            self.commit_index_batch();
            next = self.wait_for_command();
        }
        // What could not be kept gets its last chance.
        self.failed_commit.iter_mut().for_each(FailedCommit::make_due);
        let _ = self.retry_failed_commit();
        let _ = self.save_rows();
    }

    /// Obeys what waits, until a group of ingests is full.
    fn handle_commands(&mut self) -> Next {
        while !self.waiting.is_full() {
            match self.inbox.try_recv() {
                Ok(command) => {
                    if self.handle_command(command) == Next::Stop {
                        return Next::Stop;
                    }
                }
                Err(TryRecvError::Empty) => return Next::GoOn,
                Err(TryRecvError::Disconnected) => return Next::Stop,
            }
        }
        Next::GoOn
    }

    /// Waits for a command where the driver's turn does not wait itself.
    fn wait_for_command(&mut self) -> Next {
        if self.has_ended {
            return match self.inbox.recv() {
                Ok(command) => self.handle_command(command),
                Err(_) => Next::Stop,
            };
        }
        if !self.is_woken
            || !self.index_commits.is_empty()
            || !self.waiting.is_empty()
            || self.recall.is_under_way()
        {
            return Next::GoOn;
        }
        match self.inbox.recv_timeout(self.woken_wait()) {
            Ok(command) => self.handle_command(command),
            Err(RecvTimeoutError::Timeout) => Next::GoOn,
            Err(RecvTimeoutError::Disconnected) => Next::Stop,
        }
    }

    fn turn(&mut self) {
        if self.retry_failed_commit().is_err() {
            // Nothing more is read while nothing can be kept: files and programs wait.
            if !self.is_woken {
                std::thread::sleep(TURN);
            }
            return;
        }
        let is_hurried = self.is_woken || self.recall.is_hurried();
        let wait = if is_hurried { Duration::ZERO } else { self.wait() };
        let polled = self.driver.poll(wait, &mut self.fold);
        self.take_changed();
        for session in &polled.replaced {
            self.reload(session);
        }
        self.take_changed();
        self.derive_loaded(polled.whole);
        for problem in polled.problems {
            self.publish_problem(problem);
        }
        let is_behind = polled.is_catching_up || self.recall.is_under_way();
        if std::mem::replace(&mut self.initial_scan_running, is_behind) && !is_behind {
            // Now it is known how silent everybody is.
            let replayed = self.replayed_running();
            self.dirty.extend(self.rows.sessions().cloned().chain(replayed));
        }
        let at = self.look();
        let due = self
            .deadlines
            .iter()
            .filter(|(session, deadline)| **deadline <= at && !self.dirty.contains(*session))
            .map(|(session, _)| session.clone())
            .take(MOST_DUE)
            .collect::<Vec<_>>();
        self.dirty.extend(due);
        if polled.has_ended {
            self.dirty.append(&mut self.loading);
            // That nothing more will come settles what was left open, in all of them.
            self.dirty.extend(self.rows.sessions().cloned());
            self.derive_dirty(true);
        } else {
            self.derive_due();
        }
        self.broadcast_rows(polled.has_ended);
        self.write_due();
        if self.startup_done && self.failed_commit.is_none() {
            self.evict_idle();
        }
        self.is_caught_up |= polled.is_caught_up;
        if self.is_caught_up && !self.recall.is_under_way() && !self.startup_done {
            self.dirty.append(&mut self.loading);
            if !self.dirty.is_empty() {
                self.derive_dirty(polled.has_ended);
            }
            self.startup_done = true;
            self.published.announced();
            self.broadcast_rows(true);
            self.publish(&Update::CaughtUp);
        }
        self.catch_up_subscribers();
        if polled.has_ended {
            self.has_ended = true;
            let _ = self.save_rows();
            // Readers learn that nothing more will come by the end of their queue.
            self.subscribers.clear();
        }
    }

    /// Returns the time. Where it was seen to jump, deadlines were named by the time before.
    fn look(&mut self) -> Millis {
        let now = self.driver.now();
        if self.suspend.look(now, self.driver.awake_ms(), clock::tick()) {
            self.dirty.extend(self.deadlines.keys().cloned());
        }
        now
    }

    /// What the hub concludes with at this moment.
    fn limits(&self) -> Limits {
        if self.initial_scan_running {
            return Limits::endless();
        }
        Limits { awake: self.suspend.awake(), ..self.options.limits.clone() }
    }

    /// Notes which sessions the driver changed. One whose files are read from their beginning is concluded when they are read to
    /// their end: until then it is known by names that later files correct, and rows of before are better.
    fn take_changed(&mut self) {
        for session in self.fold.take_changed() {
            self.note_changed(session);
        }
    }

    fn note_changed(&mut self, session: SessionId) {
        self.begin.goes_on(&session);
        self.look_up(&session);
        // Where the store cannot say, the session's rows may stand there.
        let has_rows = |it: &mut Self| it.published.has_rows(&session, &it.store).unwrap_or(true);
        if !self.startup_done && (self.driver.follows(&session) || has_rows(self)) {
            self.loading.insert(session);
        } else {
            self.dirty.insert(session);
        }
    }

    /// How long a turn of a driver may wait that cannot wake the hub: less while changes wait to be concluded.
    fn wait(&self) -> Duration {
        let now = clock::tick();
        if let Some(news) = self.broadcast.due_in(now).filter(|_| self.dirty.is_empty()) {
            return news.min(BUSY_TURN);
        }
        if self.dirty.is_empty() {
            return if self.last_derived.elapsed() > IDLE_AFTER { IDLE_TURN } else { TURN };
        }
        let due = |session| {
            self.paces.get(session).map_or(Duration::ZERO, |next| next.saturating_duration_since(now))
        };
        let rest = self.throttled_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        self.dirty.iter().map(due).min().unwrap_or_default().max(rest).min(BUSY_TURN)
    }

    /// How long the hub may sleep until something wakes it: to what is next to be concluded.
    fn woken_wait(&self) -> Duration {
        if self.failed_commit.is_some() || self.subscribers.iter().any(Subscriber::is_behind) {
            return TURN;
        }
        if !self.dirty.is_empty() {
            let news = self.broadcast.due_in(clock::tick());
            return news.map_or(self.wait(), |news| news.min(self.wait()));
        }
        let at = self.driver.now();
        let next = self.deadlines.values().min().map(|deadline| (deadline - at).max(0));
        let until = next.and_then(|ms| u64::try_from(ms).ok()).map_or(LONGEST_WAIT, Duration::from_millis);
        let now = clock::tick();
        let until = self.rows.due_in(now).map_or(until, |rows| until.min(rows));
        let until = self.broadcast.due_in(now).map_or(until, |news| until.min(news));
        let until = self.evictor.due_in(now).map_or(until, |rest| until.min(rest));
        until.clamp(SHORTEST_WAIT, LONGEST_WAIT)
    }
}
