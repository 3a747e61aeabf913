//! One reader of the hub.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    time::Duration,
};

use subscope_model::{Change, Feed, Received, SessionId, Tree, Update};

use crate::hub::Command;

/// How many updates a reader may be behind. Deep enough for the burst of a whole recording's line, small enough that a
/// stuck reader costs some megabytes at most.
const QUEUE_UPDATES: usize = 4096;

/// The reader's end.
pub struct Subscription {
    updates: Receiver<Update>,
    commands: SyncSender<Command>,
}

/// The hub's end.
pub(crate) struct Subscriber {
    updates: SyncSender<Update>,
    /// Events dropped and not told of yet.
    missed: u64,
    /// Sessions whose rows could not be handed over: they get a snapshot as soon as there is room.
    stale: Vec<SessionId>,
}

pub(crate) fn pair(commands: SyncSender<Command>) -> (Subscriber, Subscription) {
    let (sender, updates) = sync_channel(QUEUE_UPDATES);
    (Subscriber { updates: sender, missed: 0, stale: Vec::new() }, Subscription { updates, commands })
}

impl Feed for Subscription {
    fn next(&mut self, wait: Duration) -> Received {
        match self.updates.recv_timeout(wait) {
            Ok(update) => Received::Update(update),
            Err(RecvTimeoutError::Timeout) => Received::Idle,
            Err(RecvTimeoutError::Disconnected) => Received::Closed,
        }
    }

    fn tree(&mut self, session: &SessionId) -> Option<Tree> {
        let (reply, answer) = sync_channel(1);
        self.commands.send(Command::Tree(session.clone(), reply)).ok()?;
        answer.recv().ok().flatten()
    }
}

impl Subscriber {
    /// Hands over an update. Returns whether the reader is still there.
    pub(crate) fn send(&mut self, update: Update, tree: &dyn Fn(&SessionId) -> Option<Tree>) -> bool {
        if !self.catch_up(tree) {
            return false;
        }
        match self.updates.try_send(update) {
            Ok(()) => true,
            Err(TrySendError::Full(update)) => {
                match update {
                    Update::Event(_) => self.missed += 1,
                    Update::Missed(count) => self.missed += count,
                    Update::Snapshot(tree) => self.mark(&tree.session.id),
                    Update::Change(change) => {
                        let Change { session, .. } = *change;
                        self.mark(&session.id);
                    }
                    // A reader that is behind has not caught up: it is told with the next one.
                    Update::CaughtUp => {}
                }
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }

    fn mark(&mut self, session: &SessionId) {
        if !self.stale.contains(session) {
            self.stale.push(session.clone());
        }
    }

    /// Tells a reader that has room again what it missed.
    fn catch_up(&mut self, tree: &dyn Fn(&SessionId) -> Option<Tree>) -> bool {
        while let Some(session) = self.stale.last() {
            let Some(snapshot) = tree(session) else {
                self.stale.pop();
                continue;
            };
            match self.updates.try_send(Update::Snapshot(Box::new(snapshot))) {
                Ok(()) => self.stale.pop(),
                Err(TrySendError::Full(_)) => return true,
                Err(TrySendError::Disconnected(_)) => return false,
            };
        }
        if self.missed > 0 {
            match self.updates.try_send(Update::Missed(self.missed)) {
                Ok(()) => self.missed = 0,
                Err(TrySendError::Full(_)) => {}
                Err(TrySendError::Disconnected(_)) => return false,
            }
        }
        true
    }
}
