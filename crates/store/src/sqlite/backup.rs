//! Copies of the store: the daily backup in a folder of its own, for what no transcript gives back (received input, rows of
//! deleted transcripts, events), if the pages of the store itself are lost; and those that a person makes and restores.
//!
//! Sessions that another machine has forgotten are noted ([`REMOVED`]) and removed from the backup later: that takes seconds,
//! for which a hub does not wait.
//!
//! A copy is a store: `forget` opens the backup as one, and a repair reads its rows after those of the damaged file.

use std::{
    collections::HashSet,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use subscope_model::{Millis, SessionId};
use subscope_platform::{create_private_folder, disk_space};

use rusqlite::Connection;

use super::{
    Access, FILE, LOCK, Location, OpenError, SetAside, SqliteStore, connect, forget, lock,
    private_file_options, query::select, rows,
};
use crate::{RepairError, SessionQueries, StoreError, StoreResult};

/// Folder of the backup in the data folder, and the file in which it is written.
const FOLDER: &str = "backup";
const NEW_FILE: &str = "store.db.new";
/// Ids of sessions that were removed from the store since the backup was made, one a line as JSON; and the same while they are
/// removed from the backup.
const REMOVED: &str = "removed.jsonl";
const REMOVING: &str = "removing.jsonl";
/// Age at which a backup is replaced: a copy of 200 MB costs some seconds of a processor.
const MAX_AGE_MS: Millis = 24 * 3_600_000;
/// A backup takes at most this share of the free space, as a divisor: hooks need the rest.
const SHARE_OF_FREE: u64 = 2;

/// Folder in which a copy is made ready to replace the store.
const RESTORING: &str = "restoring";

/// Path of the backup's database.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join(FOLDER).join(FILE)
}

impl Location {
    /// Replaces the backup if it is older than a day and the store has changed since, unless rows of the store are damaged
    /// or the disk is nearly full. Returns whether it did. It reads all pages: call it where nobody waits.
    ///
    /// # Errors
    ///
    /// If the store cannot be read, or the backup not be written; the one that was there then stays.
    pub fn back_up(&self, now_ms: Millis) -> StoreResult<bool> {
        let (folder, backup) = (self.folder(), path(self.folder()));
        if !self.is_in_place() || !is_due(folder, &backup, now_ms) {
            return Ok(false);
        }
        let store = self.open().map_err(|error| StoreError::Storage(Box::new(error)))?;
        if free_bytes(folder)? / SHARE_OF_FREE < store.bytes()? {
            return Ok(false);
        }
        if store.has_sums && rows::find_damaged(&store.db)?.is_some() {
            return Ok(false);
        }
        let new = backup.with_file_name(NEW_FILE);
        create_private_folder(&folder.join(FOLDER))?;
        copy(&store.db, &new)?;
        fs::rename(&new, &backup)?;
        Ok(true)
    }

    /// Removes from the backup what was removed from the store since it was made, because another machine has forgotten it.
    /// Call it where nobody waits.
    ///
    /// # Errors
    ///
    /// If the store or the notes cannot be read, or the backup not be written or deleted; the next call tries again.
    pub fn remove_from_backup(&self) -> StoreResult<()> {
        let own = self.folder().join(FOLDER);
        let (noted, removing) = (own.join(REMOVED), own.join(REMOVING));
        if !removing.exists() {
            match fs::rename(&noted, &removing) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                renamed => renamed?,
            }
        }
        let store = self.open().map_err(|error| StoreError::Storage(Box::new(error)))?;
        let mut gone = Vec::new();
        for line in fs::read_to_string(&removing)?.lines() {
            // A line that is no longer one says nothing.
            let Ok(session) = serde_json::from_str::<String>(line) else { continue };
            let session = SessionId(session.into());
            // It may be there again, or be noted for a commit that failed.
            if store.session_row(&session)?.is_none() {
                gone.push(session);
            }
        }
        if !gone.is_empty() {
            forget(self.folder(), &gone, self.rules())?;
        }
        match fs::remove_file(&removing) {
            // The backup was deleted whole.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => Ok(removed?),
        }
    }
}

/// Notes sessions that are removed from the store, so that [`Location::remove_from_backup`] removes them from the backup, if
/// there is one.
pub(super) fn note_removed(folder: &Path, sessions: &[SessionId]) -> StoreResult<()> {
    if sessions.is_empty() || !path(folder).exists() {
        return Ok(());
    }
    let mut lines = Vec::new();
    for session in sessions {
        serde_json::to_writer(&mut lines, session.as_str())?;
        lines.push(b'\n');
    }
    let mut options = private_file_options();
    let mut file = options.append(true).open(folder.join(FOLDER).join(REMOVED))?;
    Ok(file.write_all(&lines)?)
}

/// Copies a database as it is at one moment, also while another process writes it, to a new file with mode 0600.
///
/// # Errors
///
/// If it cannot be read or the copy not be written, of which nothing is then left.
pub fn copy_database(from: &Path, to: &Path) -> StoreResult<()> {
    copy(&connect(from, Access::Read)?, to)
}

fn copy(db: &Connection, to: &Path) -> StoreResult<()> {
    // SQLite writes into an empty file; made here for its mode.
    let file = private_file_options().truncate(true).open(to)?;
    let copied = db.execute("VACUUM INTO ?1", [to.to_string_lossy()]);
    let written = copied.map_err(StoreError::from).and_then(|_| Ok(file.sync_all()?));
    if written.is_err() {
        fs::remove_file(to)?;
    }
    written
}

/// Result of a restoration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Folder with the files of the store that was there before; `None` if there was none.
    pub aside: Option<PathBuf>,
    /// Number of sessions that the copy has and that were forgotten since: they stay forgotten.
    pub forgotten: usize,
}

impl SqliteStore {
    /// Copies the store into a folder, as it is at one moment.
    ///
    /// # Errors
    ///
    /// If it cannot be read or the copy not be written; the folder then has no store.
    pub fn copy_to(&self, folder: &Path) -> StoreResult<()> {
        let new = folder.join(NEW_FILE);
        copy(&self.db, &new)?;
        Ok(fs::rename(new, folder.join(FILE))?)
    }

    /// Puts a copy of a store in place of that of a data folder, whose files are set aside. What was forgotten in the data
    /// folder stays forgotten.
    ///
    /// # Errors
    ///
    /// If there is no store in the folder of the copy, another process writes the data folder, or files cannot be written: the
    /// store is then as it was.
    pub fn restore(folder: &Path, from: &Path, rules: &str, now_us: u64) -> Result<Restored, RepairError> {
        let copied = Self::open(from, Access::Read, rules, now_us)?;
        let _lock = lock(folder, LOCK)?;
        let own = folder.join(RESTORING);
        if own.exists() {
            fs::remove_dir_all(&own).map_err(StoreError::from)?;
        }
        create_private_folder(&own).map_err(StoreError::from)?;
        copied.copy_to(&own)?;
        let mut store = Self::open(&own, Access::Write, rules, now_us)?;
        let forgotten = store.forget_those_of(folder)?;
        drop(store);
        let aside = SetAside::store_of(folder, "replaced-", now_us)?;
        for name in [FILE, forget::RECORD] {
            fs::rename(own.join(name), folder.join(name)).map_err(StoreError::from)?;
        }
        fs::remove_dir_all(&own).map_err(StoreError::from)?;
        Ok(Restored { aside, forgotten })
    }

    /// Forgets the sessions that another store has forgotten. Returns how many of them this one had.
    fn forget_those_of(&mut self, folder: &Path) -> StoreResult<usize> {
        let query = "SELECT id FROM sessions WHERE is_forgotten = ?1";
        let id = |row: &rusqlite::Row<'_>| row.get(0).map(SessionId);
        let known = connect(&folder.join(FILE), Access::Read).map_err(StoreError::from);
        let mut sessions = match known.and_then(|other| select(&other, query, [1], id)) {
            Ok(sessions) => sessions,
            // There is none, or it is damaged.
            Err(_) => {
                forget::recorded(folder)?.into_iter().map(|(session, _)| SessionId(session.into())).collect()
            }
        };
        let transaction = self.db.transaction()?;
        forget::keep_forgotten(&transaction, folder)?;
        transaction.commit()?;
        let own: HashSet<SessionId> = select(&self.db, query, [0], id)?.into_iter().collect();
        sessions.retain(|session| own.contains(session));
        self.forget_here(&sessions)
    }
}

/// Whether a backup is missing, or old and older than the store.
fn is_due(folder: &Path, backup: &Path, now_ms: Millis) -> bool {
    let Some(made_ms) = modified_ms(backup) else { return true };
    let changed = [FILE, "store.db-wal"].iter().filter_map(|name| modified_ms(&folder.join(name))).max();
    now_ms.abs_diff(made_ms) >= MAX_AGE_MS.unsigned_abs() && changed > Some(made_ms)
}

fn modified_ms(path: &Path) -> Option<Millis> {
    let modified = fs::metadata(path).ok()?.modified().ok()?;
    let since = modified.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Millis::try_from(since.as_millis()).ok()
}

fn free_bytes(folder: &Path) -> io::Result<u64> {
    disk_space(folder).map(|disk| disk.free_bytes)
}

/// Removes sessions from the backup. One that cannot be written is deleted, since what is forgotten must be gone.
pub(super) fn forget(folder: &Path, sessions: &[SessionId], rules: &str) -> StoreResult<()> {
    let own = folder.join(FOLDER);
    let forgotten = match SqliteStore::open(&own, Access::Read, rules, 0) {
        Err(OpenError::Missing(_)) => return Ok(()),
        Err(_) => false,
        Ok(reader) => {
            drop(reader);
            let opened = SqliteStore::open(&own, Access::Write, rules, 0);
            opened.is_ok_and(|mut backup| backup.forget_here(sessions).is_ok())
        }
    };
    if !forgotten {
        fs::remove_dir_all(&own)?;
    }
    Ok(())
}
