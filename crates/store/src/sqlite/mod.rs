//! Persistent store in SQLite.

mod backup;
mod checkpoints;
mod deferred_index;
mod forget;
mod layout;
mod list;
mod location;
mod looks;
mod pack;
mod query;
mod repair;
mod rows;
mod schema;
mod session_keys;
mod write;

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, config::DbConfig};
use subscope_model::{Event, Millis, SessionId, Text};
use subscope_platform::{OpenPolicy as _, create_private_folder, path_bytes};

pub use backup::{Restored, copy_database};
pub use location::{Location, is_disk_full};
pub use query::StoredRev;
pub(crate) use query::{clamp, identity_at, path_at, select, size_bytes};
pub use repair::{RepairError, Repaired, SetAside};
pub(crate) use repair::{delete_database, find_damage};
pub use rows::DamagedSessions;
pub use session_keys::SharedHistory;

pub(crate) use self::pack::{pack_bytes, unpack as unpack_bytes};
use self::{checkpoints::Checkpointer, deferred_index::DeferredIndex, pack::Packer};
use crate::{Commit, Ledger, ReceivedInput, StoreError, StoreResult, waiting_spans};

/// Database file in the data folder.
const FILE: &str = "store.db";
/// Lock file: held by the writer, of which there is one per store.
const LOCK: &str = "store.lock";
/// How long a statement waits for another process's lock; WAL checkpoints are shorter.
const BUSY: Duration = Duration::from_secs(5);
/// Bytes of the file that readers map into memory, to read without copying. Mapped pages count as the process's memory,
/// so that a long-running writer would seem to grow with the store: writers do not map.
const MAP_BYTES: i64 = 1 << 30;
/// Page cache of writers, in KiB and negative as the pragma wants it: pages that every commit changes stay cached.
const CACHE_KB: i64 = -16_384;

/// Access mode of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Queries only; another process may write concurrently.
    Read,
    /// Queries and commits, as the only writer.
    Write,
}

/// Error of opening a store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no store.
    #[error("there is no store in {}", .0.display())]
    Missing(PathBuf),
    /// Another process has it open for writing.
    #[error("another process writes the store in {}", .0.display())]
    Locked(PathBuf),
    /// Another version of this program created it.
    #[error(
        "the store in {} has schema version {found}, this version of subscope reads 1 to {}",
        folder.display(),
        schema::VERSION
    )]
    OtherVersion {
        /// The data folder.
        folder: PathBuf,
        /// The store's schema version.
        found: i64,
    },
    /// The folder cannot be created or its lock file not locked.
    #[error("cannot open the store in {}", path.display())]
    Folder {
        /// The data folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The disk is full.
    #[error("the disk is full: the store in {} cannot be written", .0.display())]
    Full(PathBuf),
    /// The database is damaged.
    #[error(
        "the store in {} is damaged; `subscope doctor --repair` sets it aside, keeps what can be read of it and builds \
         the rest anew",
        path.display()
    )]
    Damaged {
        /// The data folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: rusqlite::Error,
    },
    /// The database cannot be opened.
    #[error("cannot open the store in {}", path.display())]
    Database {
        /// The data folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: rusqlite::Error,
    },
}

impl OpenError {
    fn of_folder(path: &Path, source: std::io::Error) -> Self {
        match is_disk_full(path) {
            true => Self::Full(path.to_owned()),
            false => Self::Folder { path: path.to_owned(), source },
        }
    }

    /// Error of a database in a data folder. SQLite has many codes for a full disk, and uses them for other causes too.
    pub(crate) fn of_database(path: &Path, source: rusqlite::Error) -> Self {
        match is_disk_full(path) {
            true => Self::Full(path.to_owned()),
            false => Self::Database { path: path.to_owned(), source },
        }
    }
}

/// Persistent store: one database file in a data folder.
pub struct SqliteStore {
    db: Connection,
    /// WAL checkpoint thread of a writer. Declared after `db`: it must be dropped after it.
    _checkpointer: Option<Checkpointer>,
    index: DeferredIndex,
    location: Location,
    /// Revision of the derivation rules; rows derived by another one are due for a rebuild.
    rules: String,
    next_seq: u64,
    next_rev: u64,
    /// Whether rows have sums; not in a store of an older version that is only read.
    has_sums: bool,
    /// Whether it has all tables of figures.
    has_figures: bool,
    /// Whether it keeps what the user has seen.
    has_looks: bool,
    packer: Packer,
    /// Held as long as this lives; the system releases it when the process ends, however it ends.
    _lock: Option<File>,
}

impl SqliteStore {
    /// Opens the store of a data folder; a writer creates a missing one. `rules` is the revision of the derivation
    /// rules. `now_us` is the first event number of a new store, so that numbers never step back after a store was
    /// deleted.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: no store to read, another writer, another schema version, or an I/O or database error.
    pub fn open(folder: &Path, access: Access, rules: &str, now_us: u64) -> Result<Self, OpenError> {
        let folder_error = |source| OpenError::of_folder(folder, source);
        let lock = match access {
            Access::Read => None,
            Access::Write => Some(lock(folder, LOCK)?),
        };
        let path = folder.join(FILE);
        if access == Access::Read && !path.exists() {
            return Err(OpenError::Missing(folder.to_owned()));
        }
        let database_error = |source: rusqlite::Error| match crate::is_damage(&source) {
            true => OpenError::Damaged { path: folder.to_owned(), source },
            false => OpenError::of_database(folder, source),
        };
        if repair::is_emptied(&path) {
            // SQLite would delete the WAL, which still has the latest commits.
            return Err(database_error(repair::malformed()));
        }
        let mut db = connect(&path, access).map_err(database_error)?;
        let (mut has_sums, mut has_figures, mut has_looks) = (true, true, true);
        match db.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(database_error)? {
            schema::VERSION => {}
            // Only statistics and forwarding need what they lack, and statistics can be made of trees.
            schema::WITHOUT_WORK | schema::WITHOUT_REV | schema::WITHOUT_SUMS if access == Access::Read => {
                (has_sums, has_figures, has_looks) = (false, false, false);
            }
            schema::WITHOUT_QUARTERS | schema::WITHOUT_LOOKS if access == Access::Read => {
                (has_figures, has_looks) = (false, false);
            }
            schema::WITHOUT_TOP_AGENTS | schema::WITHOUT_DENIED if access == Access::Read => {
                has_figures = false
            }
            found @ schema::WITHOUT_WORK..=schema::WITHOUT_DENIED => {
                schema::upgrade(&mut db, found).map_err(database_error)?;
            }
            0 if repair::has_tables(&db).map_err(database_error)? => {
                return Err(database_error(repair::malformed()));
            }
            0 if access == Access::Write => {
                schema::create(&mut db, clamp(now_us)).map_err(database_error)?;
            }
            // A writer is just creating it.
            0 => return Err(OpenError::Missing(folder.to_owned())),
            found => return Err(OpenError::OtherVersion { folder: folder.to_owned(), found }),
        }
        let counter = |key: &str| {
            let value = db.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0));
            value.map(i64::unsigned_abs).map_err(database_error)
        };
        let (next_seq, next_rev) = (counter("next_seq")?, counter("next_rev")?);
        let (mut index, mut checkpointer) = (DeferredIndex::default(), None);
        if access == Access::Write {
            index = DeferredIndex::open(&mut db).map_err(database_error)?;
            checkpointer = Some(Checkpointer::start(&mut db, path).map_err(database_error)?);
        }
        let location = Location::new(folder, rules, lock.as_ref()).map_err(folder_error)?;
        Ok(Self {
            db,
            _checkpointer: checkpointer,
            index,
            location,
            rules: rules.to_owned(),
            next_seq,
            next_rev,
            has_sums,
            has_figures,
            has_looks,
            packer: Packer::default(),
            _lock: lock,
        })
    }

    /// Data folder and identity of the open files.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Whether a process has the store of a data folder open for writing.
    pub fn is_written(folder: &Path) -> bool {
        let lock = File::open(folder.join(LOCK));
        lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// Deletes sessions with their rows, events and received input; returns their number. Their transcript files are
    /// not touched and stay recorded as sources: only a file that changes is indexed again.
    ///
    /// They are removed from the backup too, and files that a repair has set aside are deleted.
    pub fn forget(&mut self, sessions: &[SessionId]) -> StoreResult<usize> {
        if sessions.is_empty() {
            return Ok(0);
        }
        // The rows last: after an interruption they show what is still to be removed.
        let folder = self.location.folder();
        backup::forget(folder, sessions, &self.rules)?;
        SetAside::before(folder, u64::MAX)?.delete()?;
        waiting_spans::rewrite(folder)?;
        self.forget_here(sessions)
    }

    /// Deletes sessions from this database.
    fn forget_here(&mut self, sessions: &[SessionId]) -> StoreResult<usize> {
        let rev = self.reserve_revs(1)?;
        forget::forget(&mut self.db, &mut self.index, self.location.folder(), sessions, rev)
    }

    /// Has all queries see one state of the store until the result is dropped.
    pub fn snapshot(&self) -> StoreResult<ReadSnapshot<'_>> {
        Ok(ReadSnapshot { _transaction: self.db.unchecked_transaction()? })
    }

    /// Returns the database's size on disk in bytes, free pages included.
    pub fn bytes(&self) -> StoreResult<u64> {
        size_bytes(&self.db)
    }
}

/// One state of a store, which its queries see while this lives. Nothing may be committed meanwhile.
pub struct ReadSnapshot<'s> {
    _transaction: rusqlite::Transaction<'s>,
}

/// Takes a lock of a data folder, which is created if missing.
pub(crate) fn lock(folder: &Path, name: &str) -> Result<File, OpenError> {
    let folder_error = |source| OpenError::of_folder(folder, source);
    create_private_folder(folder).map_err(folder_error)?;
    let lock = private_file_options().open(folder.join(name)).map_err(folder_error)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked(folder.to_owned())),
        Err(TryLockError::Error(source)) => Err(folder_error(source)),
    }
}

/// Options to open or create a file that only its owner can read.
fn private_file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).private();
    options
}

/// Opens a database file with the settings of both databases.
pub(crate) fn connect(path: &Path, access: Access) -> rusqlite::Result<Connection> {
    let flags = match access {
        Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
        Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    };
    if access == Access::Write {
        // Created here for mode 0600, which SQLite copies to the WAL.
        private_file_options().open(path).map_err(|_| rusqlite::Error::InvalidPath(path.to_owned()))?;
    }
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags)?;
    if access == Access::Read
        && let Err(error) = db.query_row("PRAGMA schema_version", [], |_| Ok(()))
        && !crate::is_damage(&error)
    {
        // Connections of one process share their locks.
        drop(db);
        db = connect_alone(path).map_err(|_| error)?;
    }
    layout::add_row_sum(&db)?;
    db.busy_timeout(BUSY)?;
    if access == Access::Read {
        db.pragma_update(None, "mmap_size", MAP_BYTES)?;
    }
    if access == Access::Write {
        db.pragma_update(None, "cache_size", CACHE_KB)?;
        // With NORMAL as with FULL nothing is lost when the process is killed (measured: 18 kills), at a fifth of a
        // commit's cost; FULL would also survive a power failure.
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "NORMAL")?;
    }
    db.set_prepared_statement_cache_capacity(64);
    Ok(db)
}

/// Opens a database to read it where the file of its WAL's index cannot be made: on a full disk, or where this user may not
/// write. Fails if another process has it open.
fn connect_alone(path: &Path) -> rusqlite::Result<Connection> {
    let wal_bytes = fs::metadata(repair::with_suffix(path, "-wal")).map_or(0, |metadata| metadata.len());
    if wal_bytes == 0 {
        let path: String = path_bytes(path).iter().map(|byte| format!("%{byte:02x}")).collect();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        return Connection::open_with_flags(
            format!("file:{path}?immutable=1"),
            flags | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        );
    }
    // This file system of SQLite keeps the index in memory, under an exclusive lock, which needs a writable file.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags_and_vfs(path, flags, c"unix-excl")?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    db.pragma_update(None, "query_only", "ON")?;
    db.query_row("PRAGMA schema_version", [], |_| Ok(()))?;
    Ok(db)
}

impl Ledger for SqliteStore {
    fn commit(&mut self, commit: &Commit) -> StoreResult<Vec<Event>> {
        let mut events = commit.events.clone();
        let mut seq = self.next_seq;
        for event in &mut events {
            event.seq = seq;
            seq += 1;
        }
        backup::note_removed(self.location.folder(), &commit.removed)?;
        write::write(self, commit, &events, seq)?;
        self.next_seq = seq;
        // A commit to a deleted file is lost.
        self.check_location()?;
        Ok(events)
    }

    fn check_location(&self) -> StoreResult<()> {
        if self.location.is_in_place() {
            return Ok(());
        }
        Err(StoreError::Gone(self.location.folder().to_owned()))
    }

    fn reserve_revs(&mut self, count: u64) -> StoreResult<u64> {
        let first = self.next_rev;
        let mut update = self.db.prepare_cached("UPDATE meta SET value = ?1 WHERE key = 'next_rev'")?;
        update.execute([(first + count).cast_signed()])?;
        self.next_rev = first + count;
        Ok(first)
    }

    fn has_received(&self, source: &str, key: &str) -> StoreResult<bool> {
        Ok(self.index.has_received(&self.db, source, key)?)
    }

    fn read_received(
        &self,
        session: &SessionId,
        after: u64,
        bytes: u64,
        each: &mut dyn FnMut(ReceivedInput),
    ) -> StoreResult<Option<u64>> {
        self.each_received(session, after, bytes, each)
    }

    fn received_bytes(&self, session: &SessionId) -> StoreResult<u64> {
        let mut statement = self.db.prepare_cached(&format!(
            "SELECT coalesce(sum(length(coalesce(part.body, inbox.body))), 0) FROM inbox {} WHERE inbox.no IN ({})",
            query::JOIN_PARTS,
            deferred_index::INBOX_ROWS_OF_SESSION
        ))?;
        Ok(statement.query_row([session.as_str()], |row| row.get::<_, i64>(0))?.unsigned_abs())
    }

    fn sessions_with_unprocessed_input(&self) -> StoreResult<Vec<SessionId>> {
        self.select_sessions("SELECT session FROM unsettled", [])
    }

    fn dismiss(&mut self, session: &SessionId, facts: &[Text], at_ms: Millis) -> StoreResult<()> {
        looks::write_dismissal(&self.db, session, facts, at_ms)
    }

    fn mark_seen(&mut self, until_ms: Millis) -> StoreResult<()> {
        looks::write_seen(&self.db, until_ms)
    }

    fn release_memory(&mut self) {
        // Best effort.
        let _ = self.db.execute_batch("PRAGMA shrink_memory");
    }
}
