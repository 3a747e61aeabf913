//! A thread that waits for the feed, so that keys never do.
//!
//! Rows that changed are handed on at once. Order and sums are the whole tree's: it is asked for when a session has been
//! quiet for a moment or changes for long, at a pace that its size sets.

use std::{
    collections::HashMap,
    io,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    time::Duration,
};

use subscope_model::{Feed, FeedItem, Millis, SessionId, Update};

use crate::settings::Clocks;

/// How many updates wait to be drawn. A frame takes as many at once; beyond, the feed's own queue counts what is lost.
const QUEUE: usize = 2_000;

/// How long changed rows wait for the whole tree, at least.
const TREE_MS: Millis = 250;

/// Asking for trees takes at most one part in so many of the time.
const TREE_SHARE: Millis = 25;

/// How long one wait for the feed lasts.
const WAIT: Duration = Duration::from_millis(500);

/// The same while a tree is to be asked for.
const SHORT_WAIT: Duration = Duration::from_millis(50);

/// What the thread hands on.
#[derive(Debug)]
pub(super) enum Fed {
    Update(Update),
    /// Nothing more will come.
    Ends,
}

/// Starts the thread. It ends when the receiver is gone, or the feed is.
pub(super) fn feeder(feed: Box<dyn Feed>, clocks: Clocks) -> io::Result<Receiver<Fed>> {
    let (sender, receiver) = sync_channel(QUEUE);
    let mut feeder = Feeder { feed, clocks, sender, due: HashMap::new(), rests_until: Millis::MIN };
    std::thread::Builder::new().name("feed".to_owned()).spawn(move || {
        // That nobody listens any more is how it ends.
        let _ = feeder.run();
    })?;
    Ok(receiver)
}

/// Nobody listens any more.
struct Gone;

struct Feeder {
    feed: Box<dyn Feed>,
    clocks: Clocks,
    sender: SyncSender<Fed>,
    /// Sessions whose whole tree is to be asked for, and when.
    due: HashMap<SessionId, Millis>,
    /// Until when no tree is asked for: big ones take long.
    rests_until: Millis,
}

impl Feeder {
    fn run(&mut self) -> Result<(), Gone> {
        loop {
            let wait = if self.due.is_empty() { WAIT } else { SHORT_WAIT };
            match self.feed.next(wait) {
                FeedItem::Update(update) => {
                    if let Update::Change(change) = &update {
                        let at = ((self.clocks.awake_ms)() + TREE_MS).max(self.rests_until);
                        self.due.entry(change.session.id.clone()).or_insert(at);
                    }
                    self.send(Fed::Update(update))?;
                }
                FeedItem::Idle => {}
                FeedItem::Closed => return self.send(Fed::Ends),
            }
            self.ask_for_trees()?;
        }
    }

    fn ask_for_trees(&mut self) -> Result<(), Gone> {
        let now = (self.clocks.awake_ms)();
        let due: Vec<SessionId> =
            self.due.iter().filter(|(_, at)| **at <= now).map(|(id, _)| id.clone()).collect();
        for session in due {
            let began = (self.clocks.awake_ms)();
            let tree = self.feed.tree(&session);
            let took = (self.clocks.awake_ms)() - began;
            self.due.remove(&session);
            self.rests_until = began + took * TREE_SHARE;
            if let Some(tree) = tree {
                self.send(Fed::Update(Update::Snapshot(Box::new(tree))))?;
            }
        }
        Ok(())
    }

    fn send(&self, fed: Fed) -> Result<(), Gone> {
        self.sender.send(fed).map_err(|_| Gone)
    }
}
