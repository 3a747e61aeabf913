//! The ledger and the history in SQLite.

mod checkpoints;
mod deferred_index;
mod forget;
mod location;
mod pack;
mod query;
mod schema;
mod session_keys;
mod write;

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use subscope_model::{Event, Millis, SessionId, SessionKeys, SessionRow, Stats, Text, Tree};

pub use location::Location;
pub use session_keys::SharedHistory;

use self::{checkpoints::Checkpoints, deferred_index::Filing, pack::Packer};
use crate::{Commit, History, Keys, Ledger, LedgerError, ListQuery, Named, ReceivedInput, Source};

/// The file of rows in a data folder.
const FILE: &str = "store.db";
/// Whoever writes holds this file's lock: one writer a store.
const LOCK: &str = "store.lock";
/// How long a statement waits for another process: checkpoints of the other's log take this long at most.
const BUSY: Duration = Duration::from_secs(5);
/// How much of the file those who only ask map, and read without copying; 64-bit address space is plenty. What is mapped counts
/// as memory of the process: who writes for long would seem to grow with the store.
const MAP_BYTES: i64 = 1 << 30;
/// How many kilobytes of pages those who write hold, as the pragma wants it: what all commits change stays in them.
const CACHE_KB: i64 = -16_384;

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To ask only. Another process may write meanwhile.
    Read,
    /// To write as well, alone.
    Write,
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Nothing was ever kept there.
    #[error("there is no store in {}", .0.display())]
    Missing(PathBuf),
    /// Another process writes.
    #[error("another process writes the store in {}", .0.display())]
    Locked(PathBuf),
    /// Another version of this program created it.
    #[error(
        "the store in {} has schema version {found}, this program reads only {}: delete store.db and search.db there, after \
         exporting what you need with the version of subscope that wrote it",
        folder.display(),
        schema::VERSION
    )]
    OtherVersion {
        /// The data folder.
        folder: PathBuf,
        /// The store's schema version.
        found: i64,
    },
    /// The folder cannot be made or its lock not taken.
    #[error("cannot open the store in {}", path.display())]
    Folder {
        /// The data folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The database cannot be opened.
    #[error("cannot open the store in {}", path.display())]
    Database {
        /// The data folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
}

/// Keeps everything in one file of a data folder.
pub struct Sqlite {
    db: Connection,
    /// Where it writes; it ends behind the connection.
    _checkpoints: Option<Checkpoints>,
    filing: Filing,
    location: Location,
    /// What the rows are made by: rows made by other rules are due for a rebuild.
    rules: String,
    next_seq: u64,
    next_rev: u64,
    packer: Packer,
    /// StoredSessionKeys as long as this lives; the system frees it when the process ends, however it ends.
    _lock: Option<File>,
}

impl Sqlite {
    /// Opens the store of a data folder; for writing it is made if there is none. `rules` names the revision of what rows
    /// are made by. `now_us` is where a new store's change log begins, so that it never steps back.
    pub fn open(folder: &Path, access: Access, rules: &str, now_us: u64) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Folder { path: folder.to_owned(), source };
        let lock = match access {
            Access::Read => None,
            Access::Write => {
                private_folder(folder).map_err(failed)?;
                let lock = private_file().open(folder.join(LOCK)).map_err(failed)?;
                match lock.try_lock() {
                    Ok(()) => Some(lock),
                    Err(TryLockError::WouldBlock) => return Err(OpenError::Locked(folder.to_owned())),
                    Err(TryLockError::Error(source)) => return Err(failed(source)),
                }
            }
        };
        let path = folder.join(FILE);
        if access == Access::Read && !path.exists() {
            return Err(OpenError::Missing(folder.to_owned()));
        }
        let wrong = |source| OpenError::Database { path: folder.to_owned(), source };
        let mut db = connect(&path, access).map_err(wrong)?;
        match db.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(wrong)? {
            schema::VERSION => {}
            0 if access == Access::Write => {
                schema::create(&mut db, i64::try_from(now_us).unwrap_or(i64::MAX)).map_err(wrong)?;
            }
            // A writer is just creating it.
            0 => return Err(OpenError::Missing(folder.to_owned())),
            found => return Err(OpenError::OtherVersion { folder: folder.to_owned(), found }),
        }
        let place = |key: &str| {
            let value = db.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0));
            value.map(i64::unsigned_abs).map_err(wrong)
        };
        let (next_seq, next_rev) = (place("next_seq")?, place("next_rev")?);
        let (mut filing, mut checkpoints) = (Filing::default(), None);
        if access == Access::Write {
            filing = Filing::begin(&mut db).map_err(wrong)?;
            checkpoints = Some(Checkpoints::beside(&mut db, path).map_err(wrong)?);
        }
        let location = Location::new(folder, rules, lock.as_ref()).map_err(failed)?;
        Ok(Self {
            db,
            _checkpoints: checkpoints,
            filing,
            location,
            rules: rules.to_owned(),
            next_seq,
            next_rev,
            packer: Packer::default(),
            _lock: lock,
        })
    }

    /// Where it stands.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Whether somebody writes the store of a data folder, or is about to.
    pub fn is_written(folder: &Path) -> bool {
        let lock = File::open(folder.join(LOCK));
        lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// Returns all files that rows were made from.
    pub fn sources(&self) -> Result<Vec<Source>, LedgerError> {
        query::sources(&self.db).map_err(wrong)
    }

    /// Returns the sessions whose rows are due: made by other rules, older than what was received, or with a deadline that
    /// has passed. Frozen ones, whose
    /// files are gone, are never due.
    pub fn due(&self, now_ms: Millis) -> Result<Vec<SessionId>, LedgerError> {
        query::due(&self.db, &self.rules, now_ms).map_err(wrong)
    }

    /// Returns what was received of a session, in the order in which it came; `sessions` is left empty.
    pub fn received_of(&self, session: &SessionId) -> Result<Vec<ReceivedInput>, LedgerError> {
        let mut all = Vec::new();
        query::received_of(&self.db, session, &mut |received| all.push(received))?;
        Ok(all)
    }

    /// Returns rows of the inbox behind one, with their numbers, in order: so many that their bodies are about `bytes` as they are
    /// kept, one at least where there is one. Each says of which sessions it tells; forgotten ones tell of none.
    pub fn received_after(&self, row: u64, bytes: u64) -> Result<Vec<(u64, ReceivedInput)>, LedgerError> {
        query::received_after(&self.db, row, bytes)
    }

    /// Removes sessions with everything that was made from them or handed over of them. Their files are not touched, and
    /// stay known: only what changes is taken in again. Returns how many there were.
    pub fn forget(&mut self, sessions: &[SessionId]) -> Result<usize, LedgerError> {
        forget::forget(&mut self.db, &mut self.filing, sessions).map_err(wrong)
    }

    /// Returns the sessions that were forgotten and have not gone on since.
    pub fn forgotten(&self) -> Result<Vec<SessionId>, LedgerError> {
        forget::forgotten(&self.db).map_err(wrong)
    }

    /// Returns the sessions whose last event is older than a moment and of which nothing is at work.
    pub fn old(&self, before_ms: Millis) -> Result<Vec<SessionId>, LedgerError> {
        forget::old(&self.db, before_ms).map_err(wrong)
    }

    /// Returns the sessions that share something, as far as they were compared.
    pub fn kin(&self) -> Result<Vec<SharedHistory>, LedgerError> {
        session_keys::kin(&self.db).map_err(wrong)
    }

    /// Returns the sessions that are to be compared with the others, and whether even their heads are new.
    pub fn uncompared(&self) -> Result<Vec<(SessionId, bool)>, LedgerError> {
        session_keys::uncompared(&self.db).map_err(wrong)
    }

    /// Returns how many bytes the rows take on disk, free pages included.
    pub fn bytes(&self) -> Result<u64, LedgerError> {
        let bytes = self.db.query_row(
            "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
            [],
            |row| row.get::<_, i64>(0),
        );
        bytes.map(i64::unsigned_abs).map_err(wrong)
    }
}

/// Makes a folder that only this user can look into; one that is there already is left as it is.
fn private_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// How files are opened that only this user can read.
fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Opens a database file the way both databases are used.
pub(crate) fn connect(path: &Path, access: Access) -> rusqlite::Result<Connection> {
    let flags = match access {
        Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
        Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    };
    if access == Access::Write {
        // Made here, so that nobody else can read it, and with it the log that SQLite keeps beside it.
        private_file().open(path).map_err(|_| rusqlite::Error::InvalidPath(path.to_owned()))?;
    }
    let db = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.busy_timeout(BUSY)?;
    if access == Access::Read {
        db.pragma_update(None, "mmap_size", MAP_BYTES)?;
    }
    if access == Access::Write {
        db.pragma_update(None, "cache_size", CACHE_KB)?;
        // WAL survives the death of the process with NORMAL as with FULL (measured: nothing lost in 18 kills), at a
        // fifth of the cost of a commit; FULL would also survive a loss of power.
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "NORMAL")?;
    }
    db.set_prepared_statement_cache_capacity(64);
    Ok(db)
}

/// Puts an error of the database into the seam's words.
pub(crate) fn wrong(error: rusqlite::Error) -> LedgerError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => LedgerError::Full,
        _ => LedgerError::Storage(Box::new(error)),
    }
}

impl Ledger for Sqlite {
    fn commit(&mut self, commit: &Commit) -> Result<Vec<Event>, LedgerError> {
        let mut events = commit.events.clone();
        let mut seq = self.next_seq;
        for event in &mut events {
            event.seq = seq;
            seq += 1;
        }
        let Self { db, filing, packer, rules, .. } = self;
        write::commit(db, filing, packer, rules, commit, &events, seq).map_err(wrong)?;
        self.next_seq = seq;
        // What went into a file that nobody finds again is not kept.
        self.check_place()?;
        Ok(events)
    }

    fn check_place(&self) -> Result<(), LedgerError> {
        if self.location.is_in_place() {
            return Ok(());
        }
        Err(LedgerError::Gone(self.location.folder().to_owned()))
    }

    fn reserve_revs(&mut self, count: u64) -> Result<u64, LedgerError> {
        let first = self.next_rev;
        write::next_rev(&self.db, first + count).map_err(wrong)?;
        self.next_rev = first + count;
        Ok(first)
    }

    fn has_received(&self, source: &str, key: &str) -> Result<bool, LedgerError> {
        self.filing.has_received(&self.db, source, key).map_err(wrong)
    }

    fn received_within(
        &self,
        session: &SessionId,
        bytes: u64,
        each: &mut dyn FnMut(ReceivedInput),
    ) -> Result<bool, LedgerError> {
        if self.received_bytes(session)? > bytes {
            return Ok(false);
        }
        query::received_of(&self.db, session, each).map(|()| true)
    }

    fn received_bytes(&self, session: &SessionId) -> Result<u64, LedgerError> {
        query::received_bytes(&self.db, session).map_err(wrong)
    }

    fn sessions_with_unprocessed_input(&self) -> Result<Vec<SessionId>, LedgerError> {
        query::sessions_with_unprocessed_input(&self.db).map_err(wrong)
    }

    fn release_memory(&mut self) {
        // What it cannot give back, it holds.
        let _ = self.db.execute_batch("PRAGMA shrink_memory");
    }
}

impl History for Sqlite {
    fn list(&self, query: &ListQuery) -> Result<Vec<SessionRow>, LedgerError> {
        query::list(&self.db, query).map_err(wrong)
    }

    fn tree(&self, session: &SessionId) -> Result<Option<Tree>, LedgerError> {
        query::tree(&self.db, session)
    }

    fn received_body(&self, row: u64) -> Result<Option<Vec<u8>>, LedgerError> {
        query::received_body(&self.db, row)
    }

    fn named(&self, prefix: &str, limit: usize) -> Result<Vec<SessionId>, LedgerError> {
        query::named(&self.db, prefix, limit).map_err(wrong)
    }

    fn agents(
        &self,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<(SessionId, subscope_model::AgentId)>, LedgerError> {
        query::agents(&self.db, prefix, limit).map_err(wrong)
    }

    fn first_keys(&self) -> Result<Vec<(SessionId, Vec<u64>)>, LedgerError> {
        session_keys::first_keys(&self.db).map_err(wrong)
    }

    fn holders(&self, keys: &Keys) -> Result<Vec<(SessionId, u64)>, LedgerError> {
        session_keys::holders(&self.db, keys).map_err(wrong)
    }

    fn holdings(&self, session: &SessionId) -> Result<Option<SessionKeys>, LedgerError> {
        session_keys::holdings(&self.db, session).map_err(wrong)
    }

    fn files_of(&self, session: &SessionId) -> Result<Vec<PathBuf>, LedgerError> {
        query::files_of(&self.db, session).map_err(wrong)
    }

    fn who(&self, session: &SessionId, agent: &str) -> Result<Option<Named>, LedgerError> {
        query::who(&self.db, session, agent).map_err(wrong)
    }

    fn stats(&self) -> Result<Stats, LedgerError> {
        query::stats(&self.db).map_err(wrong)
    }

    fn last_seq(&self) -> u64 {
        self.next_seq.saturating_sub(1)
    }

    fn events_after(
        &self,
        seq: u64,
        session: Option<&SessionId>,
        limit: usize,
    ) -> Result<Option<Vec<Event>>, LedgerError> {
        query::events_after(&self.db, seq, session, limit, self.next_seq)
    }

    fn told_last(
        &self,
        session: &SessionId,
        limit: usize,
    ) -> Result<Vec<(Text, Option<Millis>)>, LedgerError> {
        query::told_last(&self.db, session, limit)
    }
}
