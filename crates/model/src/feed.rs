//! What every face is fed with: a snapshot, then updates.

use std::{fmt, time::Duration};

use crate::{Agent, AgentId, Event, Session, SessionId, Tree};

/// Rows that changed. A reader replaces its rows by key, so repeats are harmless.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The session, as it now is.
    pub session: Session,
    /// Agents that are new or changed.
    pub agents: Vec<Agent>,
    /// Agents that no longer exist (merged into another, or refuted).
    pub removed: Vec<AgentId>,
}

/// What a subscriber gets. Closed: every face handles every kind.
///
/// Loss, by kind: `Snapshot` and `Change` are never lost silently (a later one carries the state); `Event`
/// may be dropped for a reader that does not keep up, which then gets `Missed` with the count.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// A session as it stands, before any of its changes.
    Snapshot(Box<Tree>),
    /// Rows that changed.
    Change(Box<Change>),
    /// Something that happened.
    Event(Box<Event>),
    /// This many events were dropped for this reader; 0 where nobody knows how many.
    Missed(u64),
    /// Nothing more is to be read for now: what came before is what the sources held.
    CaughtUp,
}

/// What waiting for an update gave.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedItem {
    /// The next update.
    Update(Update),
    /// None came within the time given.
    Idle,
    /// None will come any more.
    Closed,
}

/// The seam between what knows and what shows: implemented by the hub's subscriptions and by replays.
///
/// A new subscriber gets the snapshots and joins the list in one turn: no gap and no repeat.
pub trait Feed: Send {
    /// Returns the next update, waiting for it no longer than `wait`.
    fn next(&mut self, wait: Duration) -> FeedItem;

    /// Returns a session's tree as it stands now; `None` where the session is unknown.
    fn tree(&mut self, session: &SessionId) -> Option<Tree>;
}

impl fmt::Debug for dyn Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Feed")
    }
}
