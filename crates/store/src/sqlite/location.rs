//! Where a store stands, and whether it still stands there: a folder may be removed or replaced while somebody writes.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::{Access, FILE, LOCK, OpenError, Sqlite};

/// The folder of an open store, with what tells its files from others of the same names.
#[derive(Clone, Debug)]
pub struct Location {
    folder: PathBuf,
    rules: String,
    rows: FileId,
    /// Of those who write.
    lock: Option<FileId>,
}

/// A file by device and number, whatever it is called.
type FileId = (u64, u64);

fn id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

impl Location {
    pub(super) fn new(folder: &Path, rules: &str, lock: Option<&fs::File>) -> io::Result<Self> {
        let rows = id(&fs::metadata(folder.join(FILE))?);
        let lock = lock.map(fs::File::metadata).transpose()?.as_ref().map(id);
        Ok(Self { folder: folder.to_owned(), rules: rules.to_owned(), rows, lock })
    }

    /// The data folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the files that were opened are those that stand there now. What is written to others is lost.
    pub fn is_in_place(&self) -> bool {
        let is = |name: &str, known: FileId| {
            fs::metadata(self.folder.join(name)).is_ok_and(|metadata| id(&metadata) == known)
        };
        is(FILE, self.rows) && self.lock.is_none_or(|lock| is(LOCK, lock))
    }

    /// Opens it once more, to ask.
    pub fn open(&self) -> Result<Sqlite, OpenError> {
        Sqlite::open(&self.folder, Access::Read, &self.rules, 0)
    }
}
