//! Database of sessions, events and received input.
//!
//! [`Ledger`] takes commits, [`SessionQueries`] and [`History`] answer queries. [`MemoryStore`] serves path TARGETs and ends with the
//! process; [`SqliteStore`] is the persistent one. Both pass one conformance suite. Full-text search has a database of
//! its own ([`TextIndex`]), so that neither writer waits for the other.
//!
//! Rows are derived from transcripts and the inbox and can be rebuilt. The inbox holds input that arrived over a wire
//! and exists in no file, byte for byte.
//!
//! Absent on purpose: attribution rules, HTTP, subscribers and a clock.

mod days;
mod forward_log;
mod memory;
mod salvage;
mod sqlite;
mod stats;
mod texts;
mod waiting_spans;
mod word;

use std::{path::PathBuf, sync::Arc};

pub use days::{DayCost, ModelFigures, agent_figures, cost_of_day, tool_figures};
pub use forward_log::{ForwardLog, Forwarded};
pub use memory::MemoryStore;
pub use sqlite::{
    Access, DamagedSessions, Location, OpenError, ReadSnapshot, RepairError, Repaired, Restored, SetAside,
    SharedHistory, SqliteStore, StoredRev, copy_database, is_disk_full,
};
use subscope_model::{
    Agent, AgentId, AgentName, Event, Looks, Millis, SessionId, SessionKeys, SessionRow, Stats, StatsQuery,
    Text, Tree, Zone,
};
pub use subscope_query::ListQuery;
use subscope_query::QueryError;
pub use texts::{
    ByteSpan, Hit, InboxPosition, Passage, PassageBatch, PassageKind, TextCounter, TextCounts, TextFile,
    TextIndex, TextQuery,
};
pub use waiting_spans::{KeyedLine, WaitingSpans};
pub use word::words;

/// One transaction: rows of changed sessions, new events, and received input.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Complete trees of changed sessions; changed rows carry a new rev ([`Ledger::reserve_revs`]).
    pub trees: Vec<Tree>,
    /// True if `trees` may be incomplete because their files are still being read or still grow. The next index run
    /// rebuilds them, whether or not the files changed.
    pub is_provisional: bool,
    /// Times at which the rows of a session in `trees` may change without new input; sessions without one are left out.
    pub deadlines: Vec<(SessionId, Millis)>,
    /// New events in order; the commit assigns `seq`.
    pub events: Vec<Event>,
    /// Input that exists in no file; stored byte for byte.
    pub received: Vec<ReceivedInput>,
    /// Earlier input that turned out to be about another session.
    pub moved: Vec<MovedInput>,
    /// Files that the rows were derived from, with their state at that time.
    pub sources: Vec<SourceFile>,
    /// What the transcripts of sessions have reported so far; replaces what was stored.
    pub facts: Vec<StoredFacts>,
    /// Keys of sessions in `trees`, by which duplicated history is found.
    pub session_keys: Vec<StoredSessionKeys>,
    /// Sessions with a deleted source file: their rows are not due for a rebuild until a later commit has their tree.
    pub frozen: Vec<SessionId>,
    /// Result of a duplicate comparison.
    pub duplicate_scan: Option<DuplicateScan>,
    /// Sessions of another machine that no longer has them; nothing of them stays.
    pub removed: Vec<SessionId>,
    /// How far the rows of another machine are read with this commit.
    pub remote: Option<RemotePosition>,
    /// Time of the commit by the caller's clock.
    pub at_ms: Millis,
}

/// How far the rows of another machine are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemotePosition {
    /// Name of the machine in the settings.
    pub machine: Text,
    /// Id of its store: a position in another one means nothing.
    pub store: Text,
    /// All of its rows up to this rev are stored here.
    pub rev: u64,
}

/// Keys to look up. Every stored key is tested against it, hence the faster hasher.
pub type KeySet = hashbrown::HashSet<u64>;

/// Result of the duplicate comparison; marks `sessions` as compared and replaces their shared-history rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DuplicateScan {
    /// Ids of the sessions that were compared.
    pub sessions: Vec<SessionId>,
    /// New shared-history rows of these sessions.
    pub shared: Vec<SharedHistory>,
}

/// Keys of a session to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSessionKeys {
    /// The keys; those stored by earlier commits may be left out.
    pub keys: SessionKeys,
    /// True to replace the stored keys, false to add to them. Start time and first keys are always replaced.
    pub replaces: bool,
}

/// Everything that the transcripts of a session have reported, of which rows can be derived after a transcript was cut,
/// replaced or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFacts {
    /// The session.
    pub session: SessionId,
    /// Whether some of it is in no file any more: rows are then derived from these facts and the files.
    pub is_needed: bool,
    /// The facts, compressed.
    body: Vec<u8>,
}

impl StoredFacts {
    /// Compresses facts, which takes about as long as writing them would.
    ///
    /// # Errors
    /// If compression fails.
    pub fn pack(session: SessionId, is_needed: bool, facts: &[u8]) -> StoreResult<Self> {
        Ok(Self { session, is_needed, body: sqlite::pack_bytes(facts)? })
    }

    /// Returns the facts.
    ///
    /// # Errors
    /// If they are damaged.
    pub fn unpack(&self) -> StoreResult<Vec<u8>> {
        Ok(sqlite::unpack_bytes(self.body.clone())?)
    }
}

/// A file that rows were derived from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Session that its rows belong to.
    pub session: SessionId,
    /// State of the file when it was read.
    pub identity: FileIdentity,
}

/// State of a file; any difference means that it must be read again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Inode number; 0 where the system has none.
    pub inode: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Modification time in nanoseconds since 1970.
    pub modified_ns: i64,
}

/// One delivery to the inbox (hook, post, stream); its bytes exist nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedInput {
    /// Name of the source; all its bytes are of one dialect and in order.
    pub source: String,
    /// Session named by the sender.
    pub session: Option<String>,
    /// Dialect name; empty if it is recognized from the content.
    pub dialect: String,
    /// Idempotency key, unique within the source: a second delivery with the same key is not stored.
    pub key: String,
    /// Time of arrival.
    pub received_ms: Millis,
    /// Complete lines; empty if `parts` holds them.
    pub body: Vec<u8>,
    /// The lines split by session if they belong to several; a query for one session returns its own parts only.
    pub parts: Vec<SessionPart>,
    /// Sessions that the input is about.
    pub sessions: Vec<SessionId>,
}

/// Input of one sender that turned out to be about another session than was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedInput {
    /// Session that the sender named: all of its input is moved.
    pub named: SessionId,
    /// Session that the input was about.
    pub from: SessionId,
    /// Session that it is about.
    pub to: SessionId,
    /// Whether nothing is left of the former session: its rows and events are deleted.
    pub is_whole: bool,
}

/// Consecutive lines of a body that belong to one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionPart {
    /// Session of the lines.
    pub session: SessionId,
    /// Number of the first line within the body, from 1.
    pub line: u64,
    /// Byte offset of the first line within the body.
    pub offset: u64,
    /// The lines.
    pub body: Vec<u8>,
}

/// Error of a commit or a query. Nothing of a failed commit is stored.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk is full.
    #[error("the disk is full")]
    Full,
    /// The open files were deleted or replaced: writes to them are lost.
    #[error("the store in {} was removed or replaced while it was open", .0.display())]
    Gone(PathBuf),
    /// The database is damaged.
    #[error(
        "the store is damaged; `subscope doctor --repair` sets it aside and keeps what can be read of it"
    )]
    Damaged(#[source] rusqlite::Error),
    /// A stored row is not as it was written.
    #[error(
        "a row of {0} in the store is damaged; `subscope index` derives it again from its transcript, and \
         `subscope doctor --repair` takes it out"
    )]
    DamagedRow(String),
    /// The full-text index was damaged and is deleted: the next index run rebuilds it.
    #[error("the full-text index was damaged and is being rebuilt: try again in a moment")]
    TextsDamaged,
    /// Any other storage error.
    #[error("the store failed")]
    Storage(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Result of a commit or a query.
pub type StoreResult<T> = Result<T, StoreError>;

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => Self::Full,
            _ if is_damage(&error) => Self::Damaged(error),
            _ => Self::Storage(Box::new(error)),
        }
    }
}

/// Whether an error means that a database file is damaged.
fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}

impl From<serde_json::Error> for StoreError {
    fn from(error: serde_json::Error) -> Self {
        Self::Storage(Box::new(error))
    }
}

impl From<std::io::Error> for StoreError {
    fn from(error: std::io::Error) -> Self {
        Self::Storage(Box::new(error))
    }
}

impl From<StoreError> for QueryError {
    fn from(error: StoreError) -> Self {
        Self::failed(error)
    }
}

/// Write side of a store; commits are atomic.
///
/// # Errors
///
/// All methods return the storage's error as [`StoreError`].
pub trait Ledger: Send {
    /// Stores a commit and returns its events with their sequence numbers.
    fn commit(&mut self, commit: &Commit) -> StoreResult<Vec<Event>>;

    /// Checks that commits would not be lost because the storage was deleted or replaced. Cheap.
    fn check_location(&self) -> StoreResult<()> {
        Ok(())
    }

    /// Reserves `count` revs and returns the first. Revs grow strictly, also across restarts and crashes.
    fn reserve_revs(&mut self, count: u64) -> StoreResult<u64>;

    /// Returns whether a delivery with this source and key is stored.
    fn has_received(&self, source: &str, key: &str) -> StoreResult<bool>;

    /// Passes a page of the received input of a session to `each`, in order of arrival, including that of earlier
    /// processes: deliveries after number `after` (0 for the first page), about `bytes` and at least one. Returns the
    /// number after which the next page begins; `None` if there are no more.
    fn read_received(
        &self,
        session: &SessionId,
        after: u64,
        bytes: u64,
        each: &mut dyn FnMut(ReceivedInput),
    ) -> StoreResult<Option<u64>>;

    /// Returns the size of a session's received input in bytes, as stored: compressed if the store compresses.
    fn received_bytes(&self, session: &SessionId) -> StoreResult<u64>;

    /// Whether all input ever received can still be read.
    fn keeps_received(&self) -> bool {
        true
    }

    /// Returns the sessions with input that their rows do not contain, including input of earlier processes.
    fn sessions_with_unprocessed_input(&self) -> StoreResult<Vec<SessionId>>;

    /// Replaces the facts of a session that the user has dismissed.
    fn dismiss(&mut self, session: &SessionId, facts: &[Text], at_ms: Millis) -> StoreResult<()>;

    /// Records that the user has seen everything that ended up to a time. It never moves back.
    fn mark_seen(&mut self, until_ms: Millis) -> StoreResult<()>;

    /// Frees caches; called when nothing was written for a while.
    fn release_memory(&mut self) {}
}

/// Id, type and task of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentLabel {
    /// Agent id.
    pub id: AgentId,
    /// Agent type as named by the harness.
    pub agent_type: Option<Text>,
    /// Short description of the task.
    pub description: Option<Text>,
}

impl AgentLabel {
    /// Returns the label of an agent by its id, or by the id of the call that started it.
    #[must_use]
    pub fn of(tree: &Tree, agent: &str) -> Option<Self> {
        let started_by = |row: &&Agent| row.spawned_by.as_ref().is_some_and(|call| call.as_str() == agent);
        let by_id = tree.agents.iter().find(|row| row.id.as_str() == agent);
        let row = by_id.or_else(|| tree.agents.iter().find(started_by))?;
        Some(Self {
            id: row.id.clone(),
            agent_type: row.agent_type.clone(),
            description: row.description.clone(),
        })
    }
}

/// Questions about sessions that every store answers: that of a machine and that of a team.
///
/// # Errors
///
/// All methods return the storage's error as [`StoreError`].
pub trait SessionQueries: Send {
    /// Returns a page of the session list.
    fn list(&self, query: &ListQuery) -> StoreResult<Vec<SessionRow>>;

    /// Returns the row of a session; `None` if it is unknown.
    fn session_row(&self, session: &SessionId) -> StoreResult<Option<SessionRow>>;

    /// Returns a session's last committed tree.
    fn tree(&self, session: &SessionId) -> StoreResult<Option<Tree>>;

    /// Returns at most `limit` sessions by id prefix, newest first.
    fn sessions_with_prefix(&self, prefix: &str, limit: usize) -> StoreResult<Vec<SessionId>>;

    /// Returns at most `limit` agents by id prefix, with their sessions; roots are left out.
    fn agents_with_prefix(&self, prefix: &str, limit: usize) -> StoreResult<Vec<(SessionId, AgentId)>>;

    /// Returns at most `limit` agents by words ([`AgentName::found`]), those of the newest sessions first; roots are left
    /// out.
    fn agents_with_words(&self, words: &str, limit: usize) -> StoreResult<Vec<AgentName>>;

    /// Returns statistics over the sessions and days that a query covers.
    fn stats(&self, query: &StatsQuery) -> StoreResult<Stats>;
}

/// Read side of a machine's store: what only the machine has, in addition to [`SessionQueries`].
///
/// # Errors
///
/// All methods return the storage's error as [`StoreError`].
pub trait History: SessionQueries {
    /// Returns what opens further connections for reading: for other threads, beside this one.
    fn reader(&self) -> OpenReader;

    /// Returns statistics as [`SessionQueries::stats`], with these trees in place of the stored ones of their sessions.
    fn stats_with(&self, query: &StatsQuery, unsaved: &[&Tree]) -> StoreResult<Stats>;

    /// Returns the label of an agent by its id or by the call that spawned it; `None` if no row matches.
    fn agent_label(&self, session: &SessionId, agent: &str) -> StoreResult<Option<AgentLabel>>;

    /// Returns the files that a session's rows were derived from; empty if there are none or they are not recorded.
    fn files_of(&self, session: &SessionId) -> StoreResult<Vec<PathBuf>>;

    /// Returns what the transcripts of a session have reported; `None` if it is not stored.
    fn facts_of(&self, session: &SessionId) -> StoreResult<Option<StoredFacts>>;

    /// Whether rows of a session are derived from stored facts too, because no file has some of them any more.
    fn needs_facts(&self, session: &SessionId) -> StoreResult<bool>;

    /// Returns the times at which rows of sessions may change without new input.
    fn deadlines(&self) -> StoreResult<Vec<(SessionId, Millis)>>;

    /// Returns an inbox row with its whole body by its number in [`SqliteStore::received_after`], without its sessions;
    /// `None` if there is no such row or the store is not persistent.
    fn received_row(&self, row: u64) -> StoreResult<Option<ReceivedInput>>;

    /// Returns the first keys of every session that has keys, forgotten sessions included.
    fn first_keys(&self) -> StoreResult<Vec<(SessionId, Vec<u64>)>>;

    /// Returns all pairs of session and key for these keys. It scans all stored keys: ask once for many.
    fn sessions_with_keys(&self, keys: &KeySet) -> StoreResult<Vec<(SessionId, u64)>>;

    /// Returns a session's keys, sorted and without repeats; `None` if none were stored.
    fn session_keys(&self, session: &SessionId) -> StoreResult<Option<SessionKeys>>;

    /// Returns what the agents that started on a day of a zone (days since 1970) have cost: those of one session, or all.
    fn cost_of_day(&self, day: i64, zone: &Zone, session: Option<&SessionId>) -> StoreResult<DayCost>;

    /// Whether the user has forgotten a session, and nothing new of it came since.
    fn is_forgotten(&self, session: &SessionId) -> StoreResult<bool>;

    /// Returns how far the rows of another machine are read; `None` if none are.
    fn remote_position(&self, machine: &str) -> StoreResult<Option<RemotePosition>>;

    /// Returns what the user has seen.
    fn looks(&self) -> StoreResult<Looks>;

    /// Returns the last assigned event number; 0 if there is none.
    fn last_seq(&self) -> u64;

    /// Returns at most `limit` events after `seq` in order, optionally of one session. `None` if the event log was cut
    /// after `seq`; 0 always means the log's beginning.
    fn events_after(
        &self,
        seq: u64,
        session: Option<&SessionId>,
        limit: usize,
    ) -> StoreResult<Option<Vec<Event>>>;

    /// Returns ids and times of a session's last events, newest first, at most `limit`.
    fn latest_events(&self, session: &SessionId, limit: usize) -> StoreResult<Vec<(Text, Option<Millis>)>>;
}

/// Opens a connection for reading that sees all commits so far.
pub type OpenReader = Arc<dyn Fn() -> StoreResult<Box<dyn History>> + Send + Sync>;

/// A store: [`Ledger`] for writes and [`History`] for reads on the same data.
pub trait Store: Ledger + History {}

impl<K: Ledger + History> Store for K {}
