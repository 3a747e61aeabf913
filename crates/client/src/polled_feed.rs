//! Live feed of a team's server: asks for sessions at work every few seconds.

use std::time::Duration;

use subscope_model::{Feed, FeedItem, SessionId, Tree};
use subscope_query::{PolledSessions, Queries, QueryResult};

use crate::{client::Client, clock::Deadline};

/// Interval of queries.
const POLL: Duration = Duration::from_secs(5);
/// Most sessions: the newest.
const MAX_SESSIONS: usize = 100;

/// A feed that polls.
pub struct PolledFeed {
    client: Client,
    sessions: PolledSessions,
    next_poll: Deadline,
}

impl PolledFeed {
    /// Opens the feed with a first query.
    ///
    /// # Errors
    /// The first query failed. Later failures are retried.
    pub fn open(client: Client) -> QueryResult<Self> {
        let mut feed = Self { client, sessions: PolledSessions::default(), next_poll: Deadline::after(POLL) };
        feed.sessions.poll(&mut feed.client, MAX_SESSIONS)?;
        Ok(feed)
    }
}

impl Feed for PolledFeed {
    /// Yields [`FeedItem::Idle`] between queries and while the server does not answer; never [`FeedItem::Closed`].
    fn next(&mut self, wait: Duration) -> FeedItem {
        if let Some(update) = self.sessions.next_update() {
            return FeedItem::Update(update);
        }
        match self.next_poll.left() {
            Some(left) => std::thread::sleep(left.min(wait)),
            // The next round repeats failed queries.
            None => {
                self.next_poll = Deadline::after(POLL);
                drop(self.sessions.poll(&mut self.client, MAX_SESSIONS));
            }
        }
        self.sessions.next_update().map_or(FeedItem::Idle, FeedItem::Update)
    }

    fn tree(&mut self, session: &SessionId) -> Option<Tree> {
        self.client.tree(session).ok().flatten()
    }
}
