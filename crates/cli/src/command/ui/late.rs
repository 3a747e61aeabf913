//! A feed that is connected later: the UI is drawn while a hub is being connected or started.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    time::Duration,
};

use subscope_model::{Feed, FeedItem, SessionId, Tree};

/// A feed that is idle until the real feed is sent to it.
pub(super) struct LateFeed {
    receiver: Receiver<Box<dyn Feed>>,
    feed: Option<Box<dyn Feed>>,
}

impl LateFeed {
    /// Returns the feed, and the sender of the real feed. If the sender is dropped unused, the feed closes.
    pub(super) fn new() -> (Self, SyncSender<Box<dyn Feed>>) {
        let (sender, receiver) = sync_channel(1);
        (Self { receiver, feed: None }, sender)
    }
}

impl Feed for LateFeed {
    fn next(&mut self, wait: Duration) -> FeedItem {
        if let Some(feed) = &mut self.feed {
            return feed.next(wait);
        }
        match self.receiver.recv_timeout(wait) {
            Ok(feed) => self.feed.insert(feed).next(wait),
            Err(RecvTimeoutError::Timeout) => FeedItem::Idle,
            Err(RecvTimeoutError::Disconnected) => FeedItem::Closed,
        }
    }

    fn tree(&mut self, session: &SessionId) -> Option<Tree> {
        self.feed.as_mut()?.tree(session)
    }
}

#[cfg(test)]
mod tests {
    use subscope_model::Update;

    use super::*;

    struct One;

    impl Feed for One {
        fn next(&mut self, _wait: Duration) -> FeedItem {
            FeedItem::Update(Update::CaughtUp)
        }

        fn tree(&mut self, _session: &SessionId) -> Option<Tree> {
            None
        }
    }

    #[test]
    fn feed_is_idle_until_it_is_connected() {
        let (mut late, sender) = LateFeed::new();
        assert_eq!(late.next(Duration::ZERO), FeedItem::Idle);
        sender.send(Box::new(One)).unwrap();
        assert_eq!(late.next(Duration::ZERO), FeedItem::Update(Update::CaughtUp));
    }

    #[test]
    fn feed_that_is_never_connected_closes() {
        let (mut late, sender) = LateFeed::new();
        drop(sender);
        assert_eq!(late.next(Duration::ZERO), FeedItem::Closed);
    }
}
