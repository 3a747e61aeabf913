//! Location of an open store, and the check that its files were not deleted or replaced by a user meanwhile.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

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

/// Device and inode number.
type DeviceInode = (u64, u64);

fn device_inode(metadata: &Metadata) -> DeviceInode {
    (metadata.dev(), metadata.ino())
}

/// Free bytes below which a disk counts as full: a commit writes some pages to the database and to its WAL.
const FULL_BYTES: u64 = 256 << 10;

/// Whether the disk of a folder has no room for a commit, or for another file.
pub fn is_disk_full(folder: &Path) -> bool {
    rustix::fs::statvfs(folder).is_ok_and(|disk| {
        let has_no_files = disk.f_files > 0 && disk.f_favail == 0;
        has_no_files || disk.f_bavail.saturating_mul(disk.f_frsize) < FULL_BYTES
    })
}

impl Location {
    pub(super) fn new(folder: &Path, rules: &str, lock: Option<&fs::File>) -> io::Result<Self> {
        let database = device_inode(&fs::metadata(folder.join(FILE))?);
        let lock = lock.map(fs::File::metadata).transpose()?.as_ref().map(device_inode);
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
            fs::metadata(self.folder.join(name)).is_ok_and(|metadata| device_inode(&metadata) == opened)
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
