//! A feed that is still to come: the screen is drawn while a hub is looked for, or started.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    time::Duration,
};

use subscope_model::{Feed, FeedItem, SessionId, Tree};

/// A feed that is still to come.
pub(super) struct LateFeed {
    coming: Receiver<Box<dyn Feed>>,
    feed: Option<Box<dyn Feed>>,
}

/// Where the feed is given.
pub(super) struct Giving(SyncSender<Box<dyn Feed>>);

impl LateFeed {
    /// Returns the feed and where the real one is given. It ends where none is.
    pub(super) fn new() -> (Self, Giving) {
        let (give, coming) = sync_channel(1);
        (Self { coming, feed: None }, Giving(give))
    }
}

impl Giving {
    /// Gives the real feed.
    pub(super) fn give(self, feed: Box<dyn Feed>) {
        // A reader that has left needs none.
        let _ = self.0.try_send(feed);
    }
}

impl Feed for LateFeed {
    fn next(&mut self, wait: Duration) -> FeedItem {
        if let Some(feed) = &mut self.feed {
            return feed.next(wait);
        }
        match self.coming.recv_timeout(wait) {
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
    fn nothing_comes_before_the_feed_is_given_and_all_of_it_afterwards() {
        let (mut late, giving) = LateFeed::new();
        assert_eq!(late.next(Duration::ZERO), FeedItem::Idle);
        giving.give(Box::new(One));
        assert_eq!(late.next(Duration::ZERO), FeedItem::Update(Update::CaughtUp));
    }

    #[test]
    fn feed_that_is_never_given_ends() {
        let (mut late, giving) = LateFeed::new();
        drop(giving);
        assert_eq!(late.next(Duration::ZERO), FeedItem::Closed);
    }
}
