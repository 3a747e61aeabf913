//! The one thread that owns sessions, what keeps them, and subscribers.
//!
//! A turn: obey what waits → keep the ingests among it in one commit and answer them → let the driver read → conclude
//! what changed: events are kept at once, rows now and then ([`rows`]) → keep a slice of what an index made. Where somebody
//! holds a handle and the driver can wake the hub, the wait between turns is for either of them; otherwise it is the driver's.

mod answers;
mod begin;
mod conclude;
mod copies;
mod handed;
mod ingest;
mod news;
mod past;
mod recall;
mod reload;
mod rest;
mod rows;
mod stop;
mod told;
mod whole;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::PathBuf,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use subscope_collect::archive::Archive;
use subscope_fold::{Events, Fold, FoldOptions, Keep, Limits};
use subscope_model::{AgentId, Millis, PriceTable, SessionId, SourceId, Update};
use subscope_store::Keeper;

pub(crate) use self::recall::divide_old;
use self::{
    begin::Begin, conclude::Unkept, copies::Copies, handed::HandedOver, ingest::Waiting, news::News,
    past::Past, recall::Recall, rest::Rest, rows::Rows, told::Told,
};
use crate::{
    awake::Wakefulness,
    clock,
    command::{Command, Figures},
    driver::Driver,
    handle::{HubHandle, Waker},
    posted::Posts,
    subscription::{Subscriber, Subscription, pair},
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
    pub rests_after: Duration,
}

impl Default for HubOptions {
    fn default() -> Self {
        Self {
            prices: PriceTable::default(),
            limits: Limits::default(),
            texts: None,
            stops_stalled: false,
            rests_after: Duration::from_secs(60),
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
    /// Starts a hub on its own thread, fed by a driver. It begins to read when the first subscriber has joined, who so
    /// gets everything that happens, or when the first [`Hub::handle`] is asked for.
    pub fn start(
        driver: Box<dyn Driver>,
        keeper: Box<dyn Keeper>,
        options: HubOptions,
    ) -> Result<Self, HubError> {
        let (commands, inbox) = sync_channel(QUEUE_COMMANDS);
        let waker = Waker::new(commands.clone());
        let build = std::thread::Builder::new().name("hub".to_owned());
        let thread = build
            .spawn(move || Loop::new(driver, keeper, options, inbox, waker).run())
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

struct Loop {
    driver: Box<dyn Driver>,
    keeper: Box<dyn Keeper>,
    options: HubOptions,
    inbox: Receiver<Command>,
    waker: Waker,
    /// Whether the driver wakes the hub, so that only the inbox is waited for.
    is_woken: bool,
    fold: Fold,
    events: Events,
    subscribers: Vec<Subscriber>,
    rows: Rows,
    rest: Rest,
    news: News,
    /// The place in the log before the commit that last changed a session's rows.
    moved: BTreeMap<SessionId, u64>,
    /// Agents that are to be told to stop.
    ordered: BTreeMap<SessionId, Vec<AgentId>>,
    /// Whether an order was taken since the last conclusion: it stands before the next hook is answered.
    has_new_order: bool,
    /// When time alone may change a session's rows.
    deadlines: BTreeMap<SessionId, Millis>,
    /// What hubs of before have told of what this one reads from its beginning.
    told: Told,
    /// Sessions whose files have been looked for, since they were told of, with the sources that these became.
    whole: BTreeMap<SessionId, Vec<SourceId>>,
    /// How many groups of files were read so.
    groups_read: u32,
    /// Of which the files were read since the last conclusion.
    reread: BTreeSet<SessionId>,
    /// Sessions with changes that are not concluded yet.
    pending: BTreeSet<SessionId>,
    /// Sessions whose files are still read for the first time, and whose rows are of before.
    half_read: BTreeSet<SessionId>,
    begin: Begin,
    /// Whether some of these changes were acknowledged: the next answer must know them.
    owes: bool,
    waiting: Waiting,
    past: Past,
    handed: HandedOver,
    copies: Copies,
    /// Revs that are reserved and not given.
    revs: Range<u64>,
    recall: Recall,
    unkept: Option<Unkept>,
    figures: Figures,
    last_derived: Instant,
    /// The most ingests of one commit since sessions were concluded.
    last_group: usize,
    /// Before this no session is concluded.
    rests_until: Option<Instant>,
    /// When a session is due to be concluded again, if it is pending.
    paces: BTreeMap<SessionId, Instant>,
    has_ended: bool,
    /// Whether the driver has read what stood there at first.
    is_caught_up: bool,
    is_announced: bool,
    /// Whether sessions of before are still being read beside the hub.
    reads_past: bool,
    /// Whether what stood there at first is still being read: no silence counts until then.
    is_behind: bool,
    wakefulness: Wakefulness,
}

fn new_fold() -> Fold {
    Fold::new(FoldOptions { keep: Keep::Rows, cutoff: None, events: true })
}

impl Loop {
    fn new(
        driver: Box<dyn Driver>,
        keeper: Box<dyn Keeper>,
        options: HubOptions,
        inbox: Receiver<Command>,
        waker: Waker,
    ) -> Self {
        let told = Told::before(&*keeper);
        let figures = Figures { seq: keeper.last_seq(), ..Figures::default() };
        Self {
            driver,
            keeper,
            options,
            inbox,
            waker,
            is_woken: false,
            fold: new_fold(),
            events: Events::new(),
            subscribers: Vec::new(),
            rows: Rows::default(),
            rest: Rest::default(),
            news: News::default(),
            moved: BTreeMap::new(),
            ordered: BTreeMap::new(),
            has_new_order: false,
            deadlines: BTreeMap::new(),
            told,
            whole: BTreeMap::new(),
            groups_read: 0,
            reread: BTreeSet::new(),
            pending: BTreeSet::new(),
            half_read: BTreeSet::new(),
            begin: Begin::default(),
            owes: false,
            waiting: Waiting::default(),
            past: Past::default(),
            handed: HandedOver::default(),
            copies: Copies::default(),
            revs: 0..0,
            recall: Recall::default(),
            unkept: None,
            figures,
            last_derived: clock::tick(),
            last_group: 0,
            rests_until: None,
            paces: BTreeMap::new(),
            has_ended: false,
            is_caught_up: false,
            is_announced: false,
            reads_past: false,
            is_behind: true,
            wakefulness: Wakefulness::default(),
        }
    }

    fn run(mut self) {
        self.begin_recall();
        // What is read before anybody listens would be told to nobody.
        let Ok(command) = self.inbox.recv() else { return };
        let mut next = self.obey(command);
        while next == Next::GoOn {
            next = self.obey_all();
            self.settle_ingests();
            if next == Next::Stop {
                break;
            }
            self.recall_portion();
            if !self.has_ended {
                self.turn();
            }
            self.keep_past();
            next = self.rest();
        }
        // What could not be kept gets its last chance.
        self.unkept.iter_mut().for_each(Unkept::make_due);
        let _ = self.keep_again();
        let _ = self.settle_rows();
    }

    /// Obeys what waits, until a group of ingests is full.
    fn obey_all(&mut self) -> Next {
        while !self.waiting.is_full() {
            match self.inbox.try_recv() {
                Ok(command) => {
                    if self.obey(command) == Next::Stop {
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
    fn rest(&mut self) -> Next {
        if self.has_ended {
            return match self.inbox.recv() {
                Ok(command) => self.obey(command),
                Err(_) => Next::Stop,
            };
        }
        if !self.is_woken || !self.past.is_empty() || !self.waiting.is_empty() || self.recall.is_under_way() {
            return Next::GoOn;
        }
        match self.inbox.recv_timeout(self.woken_wait()) {
            Ok(command) => self.obey(command),
            Err(RecvTimeoutError::Timeout) => Next::GoOn,
            Err(RecvTimeoutError::Disconnected) => Next::Stop,
        }
    }

    fn turn(&mut self) {
        if self.keep_again().is_err() {
            // Nothing more is read while nothing can be kept: files and programs wait.
            if !self.is_woken {
                std::thread::sleep(TURN);
            }
            return;
        }
        let is_hurried = self.is_woken || self.recall.is_under_way();
        let wait = if is_hurried { Duration::ZERO } else { self.wait() };
        let fed = self.driver.turn(wait, &mut self.fold);
        self.take_changed();
        for session in &fed.replaced {
            self.reload(session);
        }
        self.take_changed();
        self.take_whole(fed.whole);
        for problem in fed.problems {
            self.publish_problem(problem);
        }
        let is_behind = fed.is_catching_up || self.recall.is_under_way();
        if std::mem::replace(&mut self.is_behind, is_behind) && !is_behind {
            // Now it is known how silent everybody is.
            let recalled = self.recalled_at_work();
            self.pending.extend(self.rows.sessions().cloned().chain(recalled));
        }
        let at = self.look();
        let due = self
            .deadlines
            .iter()
            .filter(|(session, deadline)| **deadline <= at && !self.pending.contains(*session))
            .map(|(session, _)| session.clone())
            .take(MOST_DUE)
            .collect::<Vec<_>>();
        self.pending.extend(due);
        if fed.has_ended {
            self.pending.append(&mut self.half_read);
            // That nothing more will come settles what was left open, in all of them.
            self.pending.extend(self.rows.sessions().cloned());
            self.conclude_pending(true);
        } else {
            self.conclude_due();
        }
        self.tell_rows(fed.has_ended);
        self.write_due();
        if self.is_announced && self.unkept.is_none() {
            self.let_rest();
        }
        self.is_caught_up |= fed.is_caught_up;
        if self.is_caught_up && !self.recall.is_under_way() && !self.is_announced {
            self.pending.append(&mut self.half_read);
            if !self.pending.is_empty() {
                self.conclude_pending(fed.has_ended);
            }
            self.is_announced = true;
            self.told.announced();
            self.tell_rows(true);
            self.publish(&Update::CaughtUp);
        }
        self.catch_up_subscribers();
        if fed.has_ended {
            self.has_ended = true;
            let _ = self.settle_rows();
            // Readers learn that nothing more will come by the end of their queue.
            self.subscribers.clear();
        }
    }

    /// Returns the time. Where it was seen to jump, deadlines were named by the time before.
    fn look(&mut self) -> Millis {
        let now = self.driver.now();
        if self.wakefulness.look(now, self.driver.awake_ms(), clock::tick()) {
            self.pending.extend(self.deadlines.keys().cloned());
        }
        now
    }

    /// What the hub concludes with at this moment.
    fn limits(&self) -> Limits {
        if self.is_behind {
            return Limits::endless();
        }
        Limits { awake: self.wakefulness.awake(), ..self.options.limits.clone() }
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
        let is_half_read = !self.is_announced
            && (self.driver.follows(&session) || self.told.has_rows(&session, &*self.keeper));
        if is_half_read {
            self.half_read.insert(session)
        } else {
            self.pending.insert(session)
        };
    }

    /// How long a turn of a driver may wait that cannot wake the hub: less while changes wait to be concluded.
    fn wait(&self) -> Duration {
        let now = clock::tick();
        if let Some(news) = self.news.due_in(now).filter(|_| self.pending.is_empty()) {
            return news.min(BUSY_TURN);
        }
        if self.pending.is_empty() {
            return if self.last_derived.elapsed() > IDLE_AFTER { IDLE_TURN } else { TURN };
        }
        let due = |session| {
            self.paces.get(session).map_or(Duration::ZERO, |next| next.saturating_duration_since(now))
        };
        let rest = self.rests_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        self.pending.iter().map(due).min().unwrap_or_default().max(rest).min(BUSY_TURN)
    }

    /// How long the hub may sleep until something wakes it: to what is next to be concluded.
    fn woken_wait(&self) -> Duration {
        if self.unkept.is_some() || self.subscribers.iter().any(Subscriber::is_behind) {
            return TURN;
        }
        if !self.pending.is_empty() {
            let news = self.news.due_in(clock::tick());
            return news.map_or(self.wait(), |news| news.min(self.wait()));
        }
        let at = self.driver.now();
        let next = self.deadlines.values().min().map(|deadline| (deadline - at).max(0));
        let until = next.and_then(|ms| u64::try_from(ms).ok()).map_or(LONGEST_WAIT, Duration::from_millis);
        let now = clock::tick();
        let until = self.rows.due_in(now).map_or(until, |rows| until.min(rows));
        let until = self.news.due_in(now).map_or(until, |news| until.min(news));
        let until = self.rest.due_in(now).map_or(until, |rest| until.min(rest));
        until.clamp(SHORTEST_WAIT, LONGEST_WAIT)
    }
}
