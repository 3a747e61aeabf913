//! The one thread that owns sessions, ledger and subscribers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use subscope_fold::{Events, Fold, FoldOptions, Keep, Limits, Now, next_deadline};
use subscope_model::{Agent, AgentId, Change, Event, Millis, PriceTable, Problem, SessionId, Tree, Update};
use subscope_store::{Commit, History, Ledger, LedgerError, Memory};

use crate::{
    clock,
    driver::Driver,
    subscription::{Subscriber, Subscription, pair},
};

/// What the hub concludes with.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// Prices.
    pub prices: PriceTable,
    /// Limits of silence.
    pub limits: Limits,
}

/// Why a hub could not be started.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The system gave no thread.
    #[error("cannot start the hub's thread")]
    Thread(#[source] std::io::Error),
}

/// What others ask of the hub. Closed.
pub(crate) enum Command {
    Subscribe(Subscriber),
    Tree(SessionId, SyncSender<Option<Tree>>),
    Stop,
}

/// How many commands may wait. Each is answered within a turn, so a few are plenty.
const QUEUE_COMMANDS: usize = 64;

/// How long a turn waits for bytes: the longest that a command waits for its answer.
const TURN: Duration = Duration::from_millis(100);

/// The same once nothing has happened for [`IDLE_AFTER`], so that a watcher that is left open costs nothing.
const IDLE_TURN: Duration = Duration::from_millis(300);
const IDLE_AFTER: Duration = Duration::from_secs(3);

/// Concluding a session's rows may take this share of the time: a big session is concluded less often.
const DERIVE_SHARE: u32 = 8;

/// A handle to a running hub. Dropping it stops the hub.
pub struct Hub {
    commands: SyncSender<Command>,
    thread: Option<JoinHandle<()>>,
}

impl Hub {
    /// Starts a hub on its own thread, fed by a driver. It begins to read when the first subscriber has joined, who so
    /// gets everything that happens.
    pub fn start(driver: Box<dyn Driver>, options: HubOptions) -> Result<Self, HubError> {
        let (commands, inbox) = sync_channel(QUEUE_COMMANDS);
        let build = std::thread::Builder::new().name("hub".to_owned());
        let thread =
            build.spawn(move || Loop::new(driver, options, inbox).run()).map_err(HubError::Thread)?;
        Ok(Self { commands, thread: Some(thread) })
    }

    /// Subscribes: first the snapshots of all sessions, then every update.
    pub fn subscribe(&self) -> Subscription {
        let (subscriber, subscription) = pair(self.commands.clone());
        // A hub that has ended drops the subscriber, and its reader learns that it is closed.
        let _ = self.commands.send(Command::Subscribe(subscriber));
        subscription
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

struct Loop {
    driver: Box<dyn Driver>,
    options: HubOptions,
    inbox: Receiver<Command>,
    fold: Fold,
    events: Events,
    ledger: Memory,
    subscribers: Vec<Subscriber>,
    /// Rows as they were last published, to tell what changed.
    published: BTreeMap<SessionId, BTreeMap<AgentId, Agent>>,
    /// When time alone may change a session's rows.
    deadlines: BTreeMap<SessionId, Millis>,
    /// Sessions with changes that are not concluded yet.
    pending: BTreeSet<SessionId>,
    last_derived: Instant,
    derive_cost: Duration,
    has_ended: bool,
    is_announced: bool,
}

impl Loop {
    fn new(driver: Box<dyn Driver>, options: HubOptions, inbox: Receiver<Command>) -> Self {
        Self {
            driver,
            options,
            inbox,
            fold: Fold::new(FoldOptions { keep: Keep::Rows, cutoff: None, events: true }),
            events: Events::new(),
            ledger: Memory::new(),
            subscribers: Vec::new(),
            published: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            pending: BTreeSet::new(),
            last_derived: clock::tick(),
            derive_cost: Duration::ZERO,
            has_ended: false,
            is_announced: false,
        }
    }

    fn run(mut self) {
        // What is read before anybody listens would be told to nobody.
        match self.inbox.recv() {
            Ok(command) => {
                if !self.obey(command) {
                    return;
                }
            }
            Err(_) => return,
        }
        loop {
            loop {
                match self.inbox.try_recv() {
                    Ok(command) => {
                        if !self.obey(command) {
                            return;
                        }
                    }
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            if self.has_ended {
                match self.inbox.recv() {
                    Ok(command) => {
                        if !self.obey(command) {
                            return;
                        }
                    }
                    Err(_) => return,
                }
                continue;
            }
            self.turn();
        }
    }

    /// Does what a command says. Returns whether to go on.
    fn obey(&mut self, command: Command) -> bool {
        match command {
            Command::Subscribe(mut subscriber) => {
                let ledger = &self.ledger;
                let tree = |session: &SessionId| ledger.tree(session).ok().flatten();
                for session in ledger.sessions().unwrap_or_default().iter().rev() {
                    if let Some(snapshot) = tree(&session.id) {
                        subscriber.send(Update::Snapshot(Box::new(snapshot)), &tree);
                    }
                }
                if self.is_announced {
                    subscriber.send(Update::CaughtUp, &tree);
                }
                if !self.has_ended {
                    self.subscribers.push(subscriber);
                }
            }
            Command::Tree(session, reply) => {
                let _ = reply.try_send(self.ledger.tree(&session).ok().flatten());
            }
            Command::Stop => return false,
        }
        true
    }

    fn turn(&mut self) {
        let fed = self.driver.turn(self.wait(), &mut self.fold);
        if fed.must_restart {
            return self.restart();
        }
        self.pending.extend(self.fold.take_changed());
        for problem in fed.problems {
            self.publish_problem(problem);
        }
        let at = self.driver.now();
        let due = self
            .deadlines
            .iter()
            .filter(|(_, deadline)| **deadline <= at)
            .map(|(session, _)| session.clone());
        self.pending.extend(due);
        if fed.has_ended {
            // That nothing more will come settles what was left open, in all of them.
            self.pending.extend(self.published.keys().cloned());
        }
        let is_due = self.last_derived.elapsed() >= self.derive_cost * DERIVE_SHARE;
        if (!self.pending.is_empty() && is_due) || fed.has_ended {
            self.conclude(fed.has_ended);
        }
        if fed.is_caught_up && !self.is_announced {
            if !self.pending.is_empty() {
                self.conclude(fed.has_ended);
            }
            self.is_announced = true;
            self.publish(Update::CaughtUp);
        }
        if fed.has_ended {
            self.has_ended = true;
            // Readers learn that nothing more will come by the end of their queue.
            self.subscribers.clear();
        }
    }

    /// Folds everything again: facts only grow, so what became void is forgotten with all the rest and read anew. Events
    /// that were shown are known by their keys and not shown again.
    fn restart(&mut self) {
        self.fold = Fold::new(FoldOptions { keep: Keep::Rows, cutoff: None, events: true });
        if let Err(problem) = self.driver.restart() {
            self.publish_problem(problem);
        }
    }

    /// How long a turn may wait: less while changes wait to be concluded.
    fn wait(&self) -> Duration {
        if self.pending.is_empty() {
            return if self.last_derived.elapsed() > IDLE_AFTER { IDLE_TURN } else { TURN };
        }
        (self.derive_cost * DERIVE_SHARE).saturating_sub(self.last_derived.elapsed()).min(TURN)
    }

    fn conclude(&mut self, has_ended: bool) {
        let began = clock::tick();
        let at: Millis = self.driver.now();
        let now = Now {
            at,
            has_ended,
            is_growing: !has_ended,
            prices: &self.options.prices,
            limits: self.options.limits,
        };
        let sessions: Vec<SessionId> = std::mem::take(&mut self.pending).into_iter().collect();
        let (trees, events) = self.events.advance(&mut self.fold, &sessions, &now);
        for tree in &trees {
            let due = self.events.next_due(&tree.session.id);
            match next_deadline(tree, &now).into_iter().chain(due).min() {
                Some(deadline) => self.deadlines.insert(tree.session.id.clone(), deadline),
                None => self.deadlines.remove(&tree.session.id),
            };
        }
        let changes: Vec<Update> = trees.iter().filter_map(|tree| self.change(tree)).collect();
        match self.ledger.commit(&Commit { trees, events, ..Commit::default() }) {
            Ok(events) => {
                for change in changes {
                    self.publish(change);
                }
                for event in events {
                    self.publish(Update::Event(Box::new(event)));
                }
            }
            Err(error) => self.keep_for_later(sessions, &error),
        }
        self.last_derived = clock::tick();
        self.derive_cost = self.last_derived.duration_since(began);
    }

    /// Concludes these sessions again in a later turn, and sends them whole then: nothing of them was committed.
    fn keep_for_later(&mut self, sessions: Vec<SessionId>, error: &LedgerError) {
        for session in &sessions {
            self.published.remove(session);
        }
        self.pending.extend(sessions);
        let problem = Problem { at: "store".to_owned(), what: error.to_string() };
        self.publish(Update::Event(Box::new(Events::problem(&problem))));
    }

    /// What of a tree differs from what was published; a snapshot for a new session.
    fn change(&mut self, tree: &Tree) -> Option<Update> {
        let rows: BTreeMap<AgentId, Agent> =
            tree.agents.iter().map(|row| (row.id.clone(), row.clone())).collect();
        let known = self.published.insert(tree.session.id.clone(), rows);
        let Some(known) = known else { return Some(Update::Snapshot(Box::new(tree.clone()))) };
        let agents: Vec<Agent> =
            tree.agents.iter().filter(|row| known.get(&row.id) != Some(row)).cloned().collect();
        let removed: Vec<AgentId> =
            known.keys().filter(|id| !tree.agents.iter().any(|row| row.id == **id)).cloned().collect();
        if agents.is_empty() && removed.is_empty() {
            return None;
        }
        Some(Update::Change(Box::new(Change { session: tree.session.clone(), agents, removed })))
    }

    fn publish(&mut self, update: Update) {
        let ledger = &self.ledger;
        let tree = |session: &SessionId| ledger.tree(session).ok().flatten();
        self.subscribers.retain_mut(|subscriber| subscriber.send(update.clone(), &tree));
    }

    fn publish_problem(&mut self, problem: Problem) {
        let event: Event = Events::problem(&problem);
        let commit = Commit { events: vec![event.clone()], ..Commit::default() };
        for event in self.ledger.commit(&commit).unwrap_or_else(|_| vec![event]) {
            self.publish(Update::Event(Box::new(event)));
        }
    }
}
