//! What is kept: rows and the change log behind two seams.
//!
//! [`Ledger`] takes commits, [`History`] answers queries. This crate holds the in-memory ledger, which serves everything
//! that is asked about paths and keeps nothing beyond the process.
//!
//! Absent on purpose: attribution rules, HTTP and subscribers. Rows are derived; a later version can rebuild them.

mod memory;

pub use memory::Memory;
use subscope_model::{Event, Millis, Session, SessionId, Tree};

/// One commit: the rows of changed sessions, and what happened.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Changed sessions, whole.
    pub trees: Vec<Tree>,
    /// What happened, in order; `seq` is given by the commit.
    pub events: Vec<Event>,
    /// What was received and stands in no file of its own. It is kept byte for byte.
    pub received: Vec<Received>,
}

/// Bytes that were handed over (hooks, posts, streams) and exist nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The partition that they belong to: bytes of one source are of one dialect and in order.
    pub source: String,
    /// The dialect's word, as `claude.hook`; empty where the content has to tell.
    pub dialect: String,
    /// Unique within the source: what comes again with the same key is the same, and kept once.
    pub key: String,
    /// When they came.
    pub received_ms: Millis,
    /// The bytes, whole lines.
    pub body: Vec<u8>,
}

/// Why nothing of a commit was kept.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The disk has no room left.
    #[error("the disk is full")]
    Full,
    /// The storage failed otherwise.
    #[error("the store cannot be written")]
    Storage(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The seam of what is written: all of a commit or nothing of it.
pub trait Ledger: Send {
    /// Keeps a commit and returns its events with their places in the change log.
    fn commit(&mut self, commit: &Commit) -> Result<Vec<Event>, LedgerError>;

    /// Returns whether that key of that source was received before.
    fn has_received(&self, source: &str, key: &str) -> Result<bool, LedgerError>;
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

/// What both keeps and answers: one that is written is the one that is asked.
pub trait Keeper: Ledger + History {}

impl<K: Ledger + History> Keeper for K {}
