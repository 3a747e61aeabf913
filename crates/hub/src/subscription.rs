//! Subscribers: bounded queues of updates.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    time::Duration,
};

use subscope_model::{Feed, FeedItem, SessionId, Tree, Update};

use crate::{command::Command, read_pool::Question, read_view::ReadView};

/// Capacity of a subscriber's queue: enough for the burst of a whole recording's line, small enough that a stuck reader
/// costs some megabytes at most.
const QUEUE_UPDATES: usize = 4096;

/// Result of offering an update to a subscriber.
#[derive(Debug)]
pub enum EnqueueOutcome {
    /// The update is queued.
    Queued,
    /// The queue is full; the update is returned.
    Full(Box<Update>),
    /// The subscriber has left.
    Closed,
}

/// Bounded queue of a subscriber: here for threads, in the server for async tasks.
pub trait UpdateQueue: Send {
    /// Queues an update without blocking.
    fn offer(&mut self, update: Update) -> EnqueueOutcome;
}

impl UpdateQueue for SyncSender<Update> {
    fn offer(&mut self, update: Update) -> EnqueueOutcome {
        match self.try_send(update) {
            Ok(()) => EnqueueOutcome::Queued,
            Err(TrySendError::Full(update)) => EnqueueOutcome::Full(Box::new(update)),
            Err(TrySendError::Disconnected(_)) => EnqueueOutcome::Closed,
        }
    }
}

/// The subscriber's end.
pub struct HubSubscription {
    updates: Receiver<Update>,
    commands: SyncSender<Command>,
}

/// The hub's end.
pub(crate) struct Subscriber {
    queue: Box<dyn UpdateQueue>,
    /// Dropped events that are not reported as [`Update::Missed`] yet.
    missed: u64,
    /// Events dropped since the last call of [`Self::take_dropped`].
    dropped: u64,
    /// Sessions whose rows could not be queued: they get a snapshot as soon as there is room.
    stale: Vec<SessionId>,
}

pub(crate) fn pair(commands: SyncSender<Command>) -> (Subscriber, HubSubscription) {
    let (sender, updates) = sync_channel(QUEUE_UPDATES);
    (Subscriber::new(Box::new(sender)), HubSubscription { updates, commands })
}

impl Feed for HubSubscription {
    fn next(&mut self, wait: Duration) -> FeedItem {
        match self.updates.recv_timeout(wait) {
            Ok(update) => FeedItem::Update(update),
            Err(RecvTimeoutError::Timeout) => FeedItem::Idle,
            Err(RecvTimeoutError::Disconnected) => FeedItem::Closed,
        }
    }

    fn tree(&mut self, session: &SessionId) -> Option<Tree> {
        let (sender, answer) = sync_channel(1);
        let id = session.clone();
        // The receiver may be gone.
        let answer_tree = Box::new(move |view: &ReadView<'_>| drop(sender.try_send(view.tree(&id))));
        let question = Question { session: Some(session.clone()), answer: answer_tree };
        self.commands.send(Command::Ask(question)).ok()?;
        answer.recv().ok().flatten()
    }
}

impl Subscriber {
    pub(crate) fn new(queue: Box<dyn UpdateQueue>) -> Self {
        Self { queue, missed: 0, dropped: 0, stale: Vec::new() }
    }

    /// Queues an update, or records it as missed. Returns whether the subscriber is still there.
    pub(crate) fn send(&mut self, update: Update, tree: &dyn Fn(&SessionId) -> Option<Tree>) -> bool {
        if !self.catch_up(tree) {
            return false;
        }
        // Missed updates come first.
        if self.is_behind() {
            self.record_missed(update);
            return true;
        }
        match self.queue.offer(update) {
            EnqueueOutcome::Queued => true,
            EnqueueOutcome::Full(update) => {
                self.record_missed(*update);
                true
            }
            EnqueueOutcome::Closed => false,
        }
    }

    /// Whether missed updates wait for room.
    pub(crate) fn is_behind(&self) -> bool {
        self.missed > 0 || !self.stale.is_empty()
    }

    /// Returns the number of events dropped since the last call.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    fn record_missed(&mut self, update: Update) {
        match update {
            Update::Event(_) => {
                self.missed += 1;
                self.dropped += 1;
            }
            Update::Missed(count) => self.missed += count,
            Update::Snapshot(tree) => self.mark_stale(&tree.session.id),
            Update::Change(change) => self.mark_stale(&change.session().id),
            // `CaughtUp` can be dropped for a subscriber with missed updates: it has not caught up.
            Update::CaughtUp => {}
            // Only sent to a new reader.
            Update::Reset => {}
        }
    }

    fn mark_stale(&mut self, session: &SessionId) {
        if !self.stale.contains(session) {
            self.stale.push(session.clone());
        }
    }

    /// Queues snapshots and the missed count as far as there is room. Returns whether the subscriber is still there.
    pub(crate) fn catch_up(&mut self, tree: &dyn Fn(&SessionId) -> Option<Tree>) -> bool {
        while let Some(session) = self.stale.last() {
            let Some(snapshot) = tree(session) else {
                self.stale.pop();
                continue;
            };
            match self.queue.offer(Update::snapshot(snapshot)) {
                EnqueueOutcome::Queued => self.stale.pop(),
                EnqueueOutcome::Full(_) => return true,
                EnqueueOutcome::Closed => return false,
            };
        }
        if self.missed > 0 {
            match self.queue.offer(Update::Missed(self.missed)) {
                EnqueueOutcome::Queued => self.missed = 0,
                EnqueueOutcome::Full(_) => {}
                EnqueueOutcome::Closed => return false,
            }
        }
        true
    }
}
