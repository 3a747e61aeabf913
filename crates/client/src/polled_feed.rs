//! Live feed of a team's server: asks for sessions at work every few seconds.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use subscope_model::{Change, Feed, FeedItem, Millis, SessionId, Tree, Update};
use subscope_query::{ListQuery, Queries, QueryResult};

use crate::{client::Client, clock::Deadline};

/// Interval of queries.
const POLL: Duration = Duration::from_secs(5);
/// Most sessions: the newest.
const MAX_SESSIONS: usize = 100;

/// A feed that polls.
pub struct PolledFeed {
    client: Client,
    known: HashMap<SessionId, (Option<Millis>, Tree)>,
    updates: VecDeque<Update>,
    next_poll: Deadline,
    is_caught_up: bool,
}

impl PolledFeed {
    /// Opens the feed with a first query.
    ///
    /// # Errors
    /// The first query failed. Later failures are retried.
    pub fn open(client: Client) -> QueryResult<Self> {
        let (known, updates) = (HashMap::new(), VecDeque::new());
        let mut feed = Self { client, known, updates, next_poll: Deadline::after(POLL), is_caught_up: false };
        feed.poll()?;
        Ok(feed)
    }

    fn poll(&mut self) -> QueryResult<()> {
        self.next_poll = Deadline::after(POLL);
        let live = self.client.sessions(&ListQuery::live(MAX_SESSIONS))?.sessions;
        let gone: Vec<SessionId> =
            self.known.keys().filter(|id| !live.iter().any(|row| row.id == **id)).cloned().collect();
        for row in live {
            let version = row.kept_at_ms.or(row.last_event_at_ms);
            if self.known.get(&row.id).is_none_or(|(before, _)| *before != version)
                && let Some(tree) = self.client.tree(&row.id)?
            {
                self.offer(&tree);
                self.known.insert(row.id, (version, tree));
            }
        }
        for session in gone {
            // Its last rows, which contain how it ended.
            if let Some(tree) = self.client.tree(&session)? {
                self.offer(&tree);
            }
            self.known.remove(&session);
        }
        if !std::mem::replace(&mut self.is_caught_up, true) {
            self.updates.push_back(Update::CaughtUp);
        }
        Ok(())
    }

    fn offer(&mut self, tree: &Tree) {
        let Some((_, before)) = self.known.get(&tree.session.id) else {
            return self.updates.push_back(Update::snapshot(tree.clone()));
        };
        self.updates.push_back(Update::change(Change::between(before, tree)));
    }
}

impl Feed for PolledFeed {
    /// Yields [`FeedItem::Idle`] between queries and while the server does not answer; never [`FeedItem::Closed`].
    fn next(&mut self, wait: Duration) -> FeedItem {
        if let Some(update) = self.updates.pop_front() {
            return FeedItem::Update(update);
        }
        match self.next_poll.left() {
            Some(left) => std::thread::sleep(left.min(wait)),
            // The next round repeats failed queries.
            None => drop(self.poll()),
        }
        self.updates.pop_front().map_or(FeedItem::Idle, FeedItem::Update)
    }

    fn tree(&mut self, session: &SessionId) -> Option<Tree> {
        self.client.tree(session).ok().flatten()
    }
}
