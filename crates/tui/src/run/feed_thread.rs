//! Feed thread: waits for updates so that the main loop never blocks on the feed.
//!
//! Changed rows are forwarded at once. Their order and the session's totals are only in the full tree: it is requested
//! [`TREE_MS`] after a session's first change, throttled to [`TREE_SHARE`].

use std::{
    collections::HashMap,
    io,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    time::Duration,
};

use subscope_model::{Feed, FeedItem, Millis, SessionId, Update};

use crate::settings::Clocks;

/// Capacity of the queue to the main loop, which handles as many per frame. While it is full, the feed's own queue counts losses.
const QUEUE: usize = 2_000;

/// Shortest delay between a change and the request for the full tree.
const TREE_MS: Millis = 250;

/// Tree requests take at most 1/25 of the time.
const TREE_SHARE: Millis = 25;

/// Timeout of one wait for the feed.
const WAIT: Duration = Duration::from_millis(500);

/// Timeout while tree requests are due.
const SHORT_WAIT: Duration = Duration::from_millis(50);

/// A message of the feed thread.
#[derive(Debug)]
pub(super) enum FeedMessage {
    Update(Update),
    /// The feed is closed.
    Closed,
}

/// Starts the thread. It ends when the receiver is dropped or the feed closes.
pub(super) fn spawn(feed: Box<dyn Feed>, clocks: Clocks) -> io::Result<Receiver<FeedMessage>> {
    let (sender, receiver) = sync_channel(QUEUE);
    let mut thread = FeedThread { feed, clocks, sender, due: HashMap::new(), throttled_until: Millis::MIN };
    std::thread::Builder::new().name("feed".to_owned()).spawn(move || {
        // A dropped receiver is the normal way to end.
        let _ = thread.run();
    })?;
    Ok(receiver)
}

/// The receiver was dropped.
struct ReceiverGone;

struct FeedThread {
    feed: Box<dyn Feed>,
    clocks: Clocks,
    sender: SyncSender<FeedMessage>,
    /// When to request the full tree, by session.
    due: HashMap<SessionId, Millis>,
    /// No tree requests before this time: large trees take long.
    throttled_until: Millis,
}

impl FeedThread {
    fn run(&mut self) -> Result<(), ReceiverGone> {
        loop {
            let wait = if self.due.is_empty() { WAIT } else { SHORT_WAIT };
            match self.feed.next(wait) {
                FeedItem::Update(update) => {
                    if let Update::Change(change) = &update {
                        let at = ((self.clocks.awake_ms)() + TREE_MS).max(self.throttled_until);
                        self.due.entry(change.session.id.clone()).or_insert(at);
                    }
                    self.send(FeedMessage::Update(update))?;
                }
                FeedItem::Idle => {}
                FeedItem::Closed => return self.send(FeedMessage::Closed),
            }
            self.request_due_trees()?;
        }
    }

    fn request_due_trees(&mut self) -> Result<(), ReceiverGone> {
        let now = (self.clocks.awake_ms)();
        let due: Vec<SessionId> =
            self.due.iter().filter(|(_, at)| **at <= now).map(|(id, _)| id.clone()).collect();
        for session in due {
            let began = (self.clocks.awake_ms)();
            let tree = self.feed.tree(&session);
            let took = (self.clocks.awake_ms)() - began;
            self.due.remove(&session);
            self.throttled_until = began + took * TREE_SHARE;
            if let Some(tree) = tree {
                self.send(FeedMessage::Update(Update::Snapshot(Box::new(tree))))?;
            }
        }
        Ok(())
    }

    fn send(&self, message: FeedMessage) -> Result<(), ReceiverGone> {
        self.sender.send(message).map_err(|_| ReceiverGone)
    }
}
