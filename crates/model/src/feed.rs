//! The live feed of all frontends: a snapshot, then updates.

use std::{fmt, time::Duration};

use crate::{Agent, AgentId, Event, Session, SessionId, Tree};

/// Changed rows of a session. A reader replaces its rows by key, so that repeats are harmless.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The session's current row.
    pub session: Session,
    /// New or changed agents.
    pub agents: Vec<Agent>,
    /// Agents that no longer exist (merged into another, or refuted).
    pub removed: Vec<AgentId>,
}

/// A message to a subscriber. Closed enum: every frontend handles every variant.
///
/// Delivery: `Snapshot` and `Change` are never lost silently (a later one carries the state); an `Event` may be dropped
/// for a slow reader, which then gets `Missed` with the count.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// The current state of a session, before any of its changes.
    Snapshot(Box<Tree>),
    /// Changed rows.
    Change(Box<Change>),
    /// An event.
    Event(Box<Event>),
    /// This many events were dropped for this reader; 0 if the number is unknown.
    Missed(u64),
    /// All existing content has been sent; updates from here on are live.
    CaughtUp,
}

/// Result of waiting for an update.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedItem {
    /// The next update.
    Update(Update),
    /// No update arrived within the time limit.
    Idle,
    /// No more updates will arrive.
    Closed,
}

/// A source of updates for frontends: implemented by the hub's subscriptions and by replays.
///
/// A new subscriber gets the snapshots and is registered atomically: no gap and no repeat.
pub trait Feed: Send {
    /// Returns the next update, waiting at most `wait`.
    fn next(&mut self, wait: Duration) -> FeedItem;

    /// Returns the current tree of a session; `None` if the session is unknown.
    fn tree(&mut self, session: &SessionId) -> Option<Tree>;
}

impl fmt::Debug for dyn Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Feed")
    }
}
