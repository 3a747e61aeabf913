//! What is kept: rows and the change log behind two seams.
//!
//! [`Ledger`] takes commits, [`History`] answers queries. [`Memory`] serves what is asked about paths and keeps nothing
//! beyond the process; [`Sqlite`] keeps everything on this machine. Both pass one conformance suite. The full text has a
//! database of its own ([`Texts`]), so that its writing never waits for rows or they for it.
//!
//! Rows are derived from sources and can be rebuilt from them; what was received over a wire and stands in no file is
//! kept byte for byte beside them.
//!
//! Absent on purpose: attribution rules, HTTP, subscribers and a clock.

mod days;
mod memory;
mod sqlite;
mod texts;
mod word;

use std::path::PathBuf;

pub use memory::Memory;
pub use sqlite::{Access, Location, OpenError, SharedHistory, Sqlite};
use subscope_model::{AgentId, Event, Millis, SessionId, SessionKeys, SessionRow, Stats, Text, Tree};
pub use texts::{Hit, InboxPlace, PassageKind, Segment, Span, TextBatch, TextFile, TextQuery, Texts};
pub use word::words;

/// One commit: the rows of changed sessions, and what happened.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Changed sessions, whole, their changed rows stamped with a new rev ([`Ledger::reserve_revs`]).
    pub trees: Vec<Tree>,
    /// Whether they may lack something, because their files are still being read or are read as they grow: then the next
    /// index makes them anew, whether or not it finds the files changed.
    pub is_provisional: bool,
    /// When time alone may change a session's rows, for those of `trees` of which that is so.
    pub deadlines: Vec<(SessionId, Millis)>,
    /// What happened, in order; `seq` is given by the commit.
    pub events: Vec<Event>,
    /// What was received and stands in no file of its own. It is kept byte for byte.
    pub received: Vec<ReceivedInput>,
    /// Files as they stood when the rows were made from them.
    pub sources: Vec<Source>,
    /// What sessions of `trees` hold that a copy would hold too.
    pub held: Vec<StoredSessionKeys>,
    /// Sessions of which a file is gone: their rows stay as they are.
    pub gone: Vec<SessionId>,
    /// That the rows of all sessions rest on who holds what.
    pub compared: Option<Compared>,
    /// When it is committed, by the clock of whoever commits.
    pub at_ms: Millis,
}

/// Keys that are looked for among all that is held: many, and asked for very often.
pub type Keys = hashbrown::HashSet<u64>;

/// Sessions that were compared with all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Which.
    pub sessions: Vec<SessionId>,
    /// Whose is what they share with others; it replaces what was known of them.
    pub kin: Vec<SharedHistory>,
}

/// What a session is known to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSessionKeys {
    /// What it holds; keys that were told before need not be told again.
    pub holdings: SessionKeys,
    /// Whether this replaces what was told before.
    pub is_whole: bool,
}

/// A file that rows were made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Where it stands.
    pub path: PathBuf,
    /// The session that its rows are of.
    pub session: SessionId,
    /// What tells this file from another of the same name.
    pub identity: Identity,
}

/// How a file stood: any difference means that it must be looked at again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The file's number; 0 where the system has none.
    pub inode: u64,
    /// Its length.
    pub bytes: u64,
    /// When it was last written, in nanoseconds since 1970.
    pub modified_ns: i64,
}

/// Bytes that were handed over (hooks, posts, streams) and exist nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedInput {
    /// The partition that they belong to: bytes of one source are of one dialect and in order.
    pub source: String,
    /// The session that whoever handed them over named.
    pub session: Option<String>,
    /// The dialect's name; empty where the content has to tell.
    pub dialect: String,
    /// Unique within the source: what comes again with the same key is the same, and kept once.
    pub key: String,
    /// When they came.
    pub received_ms: Millis,
    /// The bytes, whole lines; empty where `parts` has them.
    pub body: Vec<u8>,
    /// The bytes divided by session, where they are of several. Who asks for one session gets its parts alone.
    pub parts: Vec<Part>,
    /// The sessions that they told something of.
    pub sessions: Vec<SessionId>,
}

/// Consecutive lines of a body that are of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Their session.
    pub session: SessionId,
    /// The number of the first in the body, from 1.
    pub line: u64,
    /// Where it begins in the body.
    pub offset: u64,
    /// The lines.
    pub body: Vec<u8>,
}

/// Why something could not be kept or asked. Nothing of a failed commit is kept.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The disk has no room left.
    #[error("the disk is full")]
    Full,
    /// The files were removed or replaced: what is written to them is lost.
    #[error("the store in {} was removed or replaced while it was open", .0.display())]
    Gone(PathBuf),
    /// The storage failed otherwise.
    #[error("the store failed")]
    Storage(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The seam of what is written: all of a commit or nothing of it.
pub trait Ledger: Send {
    /// Keeps a commit and returns its events with their places in the change log.
    fn commit(&mut self, commit: &Commit) -> Result<Vec<Event>, LedgerError>;

    /// Fails where what is committed would be lost, because the storage was removed or replaced. Cheap.
    fn check_place(&self) -> Result<(), LedgerError> {
        Ok(())
    }

    /// Reserves that many revs to stamp rows with, and returns the first. Each is higher than any that was reserved before,
    /// also by processes of before, however they ended.
    fn reserve_revs(&mut self, count: u64) -> Result<u64, LedgerError>;

    /// Returns whether that key of that source was received before.
    fn has_received(&self, source: &str, key: &str) -> Result<bool, LedgerError>;

    /// Hands over what was received of a session, one at a time, in the order in which it came, what a process of before has
    /// kept too. Returns `false`, and hands over nothing, where that is more than about so many bytes, or not kept any more.
    fn received_within(
        &self,
        session: &SessionId,
        bytes: u64,
        each: &mut dyn FnMut(ReceivedInput),
    ) -> Result<bool, LedgerError>;

    /// Returns how many bytes of what was received of a session are kept, as they are kept.
    fn received_bytes(&self, session: &SessionId) -> Result<u64, LedgerError>;

    /// Returns a body of several sessions that an older version kept undivided, with its place; `None` where none is left.
    fn undivided(&self) -> Result<Option<(i64, ReceivedInput)>, LedgerError> {
        Ok(None)
    }

    /// Replaces such a body by its parts; where there are none it stays as it is, and is not returned again.
    fn divide(&mut self, _place: i64, _parts: &[Part]) -> Result<(), LedgerError> {
        Ok(())
    }

    /// Whether all that was ever received can be had again.
    fn keeps_received(&self) -> bool {
        true
    }

    /// Returns the sessions of which something was received since their rows were last kept, also by a process of before.
    fn sessions_with_unprocessed_input(&self) -> Result<Vec<SessionId>, LedgerError>;

    /// Nothing was kept for a while: gives back the memory that only speeds up what comes next.
    fn release_memory(&mut self) {}
}

/// Which sessions a list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// At most so many.
    pub limit: usize,
    /// Only those behind this one: time of the last event and id of the last row of the page before.
    pub after: Option<(Millis, SessionId)>,
    /// Only those of which something has not ended.
    pub only_live: bool,
    /// Only those of which something new was kept at this moment or later.
    pub kept_since: Option<Millis>,
}

impl ListQuery {
    /// Asks for the first `limit` of all.
    pub fn first(limit: usize) -> Self {
        Self { limit, after: None, only_live: false, kept_since: None }
    }

    /// Asks for the first `limit` of those of which something has not ended.
    pub fn live(limit: usize) -> Self {
        Self { only_live: true, ..Self::first(limit) }
    }
}

/// Who an agent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its id.
    pub id: AgentId,
    /// The harness's type of agent.
    pub agent_type: Option<Text>,
    /// What it was asked to do, in a few words.
    pub description: Option<Text>,
}

/// The seam of what is asked.
pub trait History: Send {
    /// Returns lines of a list of sessions, the newest first by their last event.
    fn list(&self, query: &ListQuery) -> Result<Vec<SessionRow>, LedgerError>;

    /// Returns a session's tree as last committed.
    fn tree(&self, session: &SessionId) -> Result<Option<Tree>, LedgerError>;

    /// Returns the files that a session's rows were made from; none where it has none, or they are not kept.
    fn files_of(&self, session: &SessionId) -> Result<Vec<PathBuf>, LedgerError>;

    /// Returns the bytes of a row of the inbox, by its number in [`Sqlite::received_after`]; `None` where there is no such row, or
    /// it is not kept beyond the process.
    fn received_body(&self, row: u64) -> Result<Option<Vec<u8>>, LedgerError>;

    /// Returns the sessions whose id begins so, the newest first, at most `limit`.
    fn named(&self, prefix: &str, limit: usize) -> Result<Vec<SessionId>, LedgerError>;

    /// Returns the agents whose id begins so, with their sessions, at most `limit`; the root is none of them.
    fn agents(&self, prefix: &str, limit: usize) -> Result<Vec<(SessionId, AgentId)>, LedgerError>;

    /// Returns the heads of every session that is known to hold something, those of forgotten ones too.
    fn first_keys(&self) -> Result<Vec<(SessionId, Vec<u64>)>, LedgerError>;

    /// Returns which sessions hold which of these keys. It looks at all that is held: ask once for many.
    fn holders(&self, keys: &Keys) -> Result<Vec<(SessionId, u64)>, LedgerError>;

    /// Returns what a session holds, its keys sorted and each once; `None` where nothing is known of it.
    fn holdings(&self, session: &SessionId) -> Result<Option<SessionKeys>, LedgerError>;

    /// Returns who an agent of a session is, by its id or by the call that started it; `None` where no row tells.
    fn who(&self, session: &SessionId, agent: &str) -> Result<Option<Named>, LedgerError>;

    /// Returns figures over everything.
    fn stats(&self) -> Result<Stats, LedgerError>;

    /// Returns the last place that was given in the change log; 0 where none was.
    fn last_seq(&self) -> u64;

    /// Returns the first events behind a place in the change log, in order, at most `limit`, of one session where one is
    /// named; `None` where the log no longer reaches back there. Place 0 is the log's beginning, wherever that is.
    fn events_after(
        &self,
        seq: u64,
        session: Option<&SessionId>,
        limit: usize,
    ) -> Result<Option<Vec<Event>>, LedgerError>;

    /// Returns the ids and times of the last events in the change log of a session, the newest first, at most `limit`.
    fn told_last(
        &self,
        session: &SessionId,
        limit: usize,
    ) -> Result<Vec<(Text, Option<Millis>)>, LedgerError>;
}

/// What both keeps and answers: one that is written is the one that is asked.
pub trait Store: Ledger + History {}

impl<K: Ledger + History> Store for K {}
