//! One reader of the hub.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    time::Duration,
};

use subscope_model::{Feed, FeedItem, SessionId, Tree, Update};

use crate::command::Command;

/// How many updates a reader may be behind. Deep enough for the burst of a whole recording's line, small enough that a
/// stuck reader costs some megabytes at most.
const QUEUE_UPDATES: usize = 4096;

/// What became of an update that was offered to a reader.
#[derive(Debug)]
pub enum Offered {
    /// It is queued.
    Taken,
    /// There is no room; here it is back.
    Full(Box<Update>),
    /// The reader has left.
    Gone,
}

/// The bounded queue of a reader: one of this crate for threads, one of the server for tasks.
pub trait Inlet: Send {
    /// Queues an update, without waiting.
    fn offer(&mut self, update: Update) -> Offered;
}

impl Inlet for SyncSender<Update> {
    fn offer(&mut self, update: Update) -> Offered {
        match self.try_send(update) {
            Ok(()) => Offered::Taken,
            Err(TrySendError::Full(update)) => Offered::Full(Box::new(update)),
            Err(TrySendError::Disconnected(_)) => Offered::Gone,
        }
    }
}

/// The reader's end.
pub struct Subscription {
    updates: Receiver<Update>,
    commands: SyncSender<Command>,
}

/// The hub's end.
pub(crate) struct Subscriber {
    inlet: Box<dyn Inlet>,
    /// Events dropped and not told of yet.
    missed: u64,
    /// Events dropped since it was last asked for.
    dropped: u64,
    /// Sessions whose rows could not be handed over: they get a snapshot as soon as there is room.
    stale: Vec<SessionId>,
}

pub(crate) fn pair(commands: SyncSender<Command>) -> (Subscriber, Subscription) {
    let (sender, updates) = sync_channel(QUEUE_UPDATES);
    (Subscriber::new(Box::new(sender)), Subscription { updates, commands })
}

impl Feed for Subscription {
    fn next(&mut self, wait: Duration) -> FeedItem {
        match self.updates.recv_timeout(wait) {
            Ok(update) => FeedItem::Update(update),
            Err(RecvTimeoutError::Timeout) => FeedItem::Idle,
            Err(RecvTimeoutError::Disconnected) => FeedItem::Closed,
        }
    }

    fn tree(&mut self, session: &SessionId) -> Option<Tree> {
        let (sender, answer) = sync_channel(1);
        // A reader that no longer waits for the answer has left.
        let reply = Box::new(move |tree| drop(sender.try_send(tree)));
        self.commands.send(Command::Tree(session.clone(), reply)).ok()?;
        answer.recv().ok().flatten()
    }
}

impl Subscriber {
    pub(crate) fn new(inlet: Box<dyn Inlet>) -> Self {
        Self { inlet, missed: 0, dropped: 0, stale: Vec::new() }
    }

    /// Hands over an update. Returns whether the reader is still there.
    pub(crate) fn send(&mut self, update: Update, tree: &dyn Fn(&SessionId) -> Option<Tree>) -> bool {
        if !self.catch_up(tree) {
            return false;
        }
        // Nothing overtakes what this reader is still to be told.
        if self.is_behind() {
            self.miss(update);
            return true;
        }
        match self.inlet.offer(update) {
            Offered::Taken => true,
            Offered::Full(update) => {
                self.miss(*update);
                true
            }
            Offered::Gone => false,
        }
    }

    /// Whether something is to be told as soon as there is room.
    pub(crate) fn is_behind(&self) -> bool {
        self.missed > 0 || !self.stale.is_empty()
    }

    /// Returns how many events were dropped since the last call.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    fn miss(&mut self, update: Update) {
        match update {
            Update::Event(_) => {
                self.missed += 1;
                self.dropped += 1;
            }
            Update::Missed(count) => self.missed += count,
            Update::Snapshot(tree) => self.mark(&tree.session.id),
            Update::Change(change) => self.mark(&change.session().id),
            // A reader that is behind has not caught up: it is told with the next one.
            Update::CaughtUp => {}
            // Only sent to a new reader.
            Update::Reset => {}
        }
    }

    fn mark(&mut self, session: &SessionId) {
        if !self.stale.contains(session) {
            self.stale.push(session.clone());
        }
    }

    /// Tells a reader that has room again what it missed. Returns whether it is still there.
    pub(crate) fn catch_up(&mut self, tree: &dyn Fn(&SessionId) -> Option<Tree>) -> bool {
        while let Some(session) = self.stale.last() {
            let Some(snapshot) = tree(session) else {
                self.stale.pop();
                continue;
            };
            match self.inlet.offer(Update::snapshot(snapshot)) {
                Offered::Taken => self.stale.pop(),
                Offered::Full(_) => return true,
                Offered::Gone => return false,
            };
        }
        if self.missed > 0 {
            match self.inlet.offer(Update::Missed(self.missed)) {
                Offered::Taken => self.missed = 0,
                Offered::Full(_) => {}
                Offered::Gone => return false,
            }
        }
        true
    }
}
