//! Backup of the store: a copy in a folder of its own, for what no transcript gives back (received input, rows of deleted
//! transcripts, events), if the pages of the store itself are lost.
//!
//! The copy is a store: `forget` opens it as one, and a repair reads its rows after those of the damaged file.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use subscope_model::{Millis, SessionId};

use super::{
    Access, FILE, Location, OpenError, SqliteStore, create_private_folder, private_file_options, rows,
};
use crate::{StoreError, StoreResult};

/// Folder of the backup in the data folder, and the file in which it is written.
const FOLDER: &str = "backup";
const NEW_FILE: &str = "store.db.new";
/// Age at which a backup is replaced: a copy of 200 MB costs some seconds of a processor.
const MAX_AGE_MS: Millis = 24 * 3_600_000;
/// A backup takes at most this share of the free space, as a divisor: hooks need the rest.
const SHARE_OF_FREE: u64 = 2;

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
        // SQLite writes into an empty file; made here for its mode.
        let file = private_file_options().truncate(true).open(&new)?;
        let copied = store.db.execute("VACUUM INTO ?1", [new.to_string_lossy()]);
        let written = copied.map_err(StoreError::from).and_then(|_| Ok(file.sync_all()?));
        if let Err(error) = written {
            fs::remove_file(&new)?;
            return Err(error);
        }
        fs::rename(&new, &backup)?;
        Ok(true)
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
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
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
