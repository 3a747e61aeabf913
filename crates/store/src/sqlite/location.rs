//! Location of an open store, and the check that its files were not deleted or replaced by a user meanwhile.

use std::{
    fs, io,
    path::{Path, PathBuf},
};
use subscope_platform::{DeviceInode, device_inode, disk_space, open_device_inode};

use super::{Access, FILE, LOCK, OpenError, SqliteStore};

/// Data folder of an open store, with the device and inode numbers of its files.
#[derive(Clone, Debug)]
pub struct Location {
    folder: PathBuf,
    rules: String,
    database: DeviceInode,
    /// The lock file, if opened for writing.
    lock: Option<DeviceInode>,
}

fn id_at(path: &Path) -> io::Result<DeviceInode> {
    device_inode(path, &fs::metadata(path)?)
}

/// Free bytes below which a disk counts as full: a commit writes some pages to the database and to its WAL.
const FULL_BYTES: u64 = 256 << 10;

/// Whether the disk of a folder has no room for a commit, or for another file.
pub fn is_disk_full(folder: &Path) -> bool {
    disk_space(folder).is_ok_and(|disk| !disk.has_free_files || disk.free_bytes < FULL_BYTES)
}

impl Location {
    pub(super) fn new(folder: &Path, rules: &str, lock: Option<&fs::File>) -> io::Result<Self> {
        let database = id_at(&folder.join(FILE))?;
        let lock = lock.map(|lock| open_device_inode(lock, &lock.metadata()?)).transpose()?;
        Ok(Self { folder: folder.to_owned(), rules: rules.to_owned(), database, lock })
    }

    /// The data folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Fingerprint of the rules for rows.
    pub(super) fn rules(&self) -> &str {
        &self.rules
    }

    /// Whether the open files are still the ones at their paths. Writes to deleted files are lost.
    pub fn is_in_place(&self) -> bool {
        let is_same = |name: &str, opened: DeviceInode| {
            id_at(&self.folder.join(name)).is_ok_and(|found| found == opened)
        };
        is_same(FILE, self.database) && self.lock.is_none_or(|lock| is_same(LOCK, lock))
    }

    /// Opens the store again for reading.
    ///
    /// # Errors
    ///
    /// As [`SqliteStore::open`].
    pub fn open(&self) -> Result<SqliteStore, OpenError> {
        SqliteStore::open(&self.folder, Access::Read, &self.rules, 0)
    }
}
