//! What is kept: rows and the change log behind two seams.
//!
//! [`Ledger`] takes commits, [`History`] answers queries. This crate holds the in-memory ledger, which serves everything
//! that is asked about paths and keeps nothing beyond the process.
//!
//! Absent on purpose: attribution rules, HTTP and subscribers. Rows are derived; a later version can rebuild them.

mod memory;

pub use memory::Memory;
use subscope_model::{Event, Session, SessionId, Tree};

/// One commit: the rows of changed sessions, and what happened.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Changed sessions, whole.
    pub trees: Vec<Tree>,
    /// What happened, in order; `seq` is given by the commit.
    pub events: Vec<Event>,
}

/// The seam of what is written: all of a commit or nothing of it.
pub trait Ledger: Send {
    /// Keeps a commit and returns its events with their places in the change log.
    fn commit(&mut self, commit: Commit) -> Vec<Event>;
}

/// The seam of what is asked.
pub trait History: Send {
    /// Returns all sessions, the newest first by their last event.
    fn sessions(&self) -> Vec<Session>;

    /// Returns a session's tree as last committed.
    fn tree(&self, session: &SessionId) -> Option<Tree>;

    /// Returns the events behind a place in the change log, in order; `None` where the log no longer reaches back there.
    fn events_after(&self, seq: u64) -> Option<Vec<Event>>;
}
