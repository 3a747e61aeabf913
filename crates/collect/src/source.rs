//! A source that is opened: a regular file, or a session of a bundle.

use std::{
    fs::{self, File, Metadata},
    io::{self, Cursor, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{
    bundle::{self, bundle_of},
    read::open_regular,
};

/// An open source.
pub(crate) enum Source {
    /// A regular file.
    File(File),
    /// The lines of a session of a bundle.
    Lines(Cursor<Vec<u8>>),
}

/// What is known of a source without reading it. Two are equal if nothing was written between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceStat {
    /// The device of the file.
    pub(crate) device: u64,
    /// Its number there.
    pub(crate) inode: u64,
    /// When it was made, where the file system knows.
    pub(crate) born: Option<SystemTime>,
    /// When it was last written.
    pub(crate) modified: Option<SystemTime>,
    /// Its length in bytes.
    pub(crate) len: u64,
}

impl From<&Metadata> for SourceStat {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            born: metadata.created().ok(),
            modified: metadata.modified().ok(),
            len: metadata.len(),
        }
    }
}

impl Source {
    /// Opens a source for reading.
    ///
    /// # Errors
    /// As [`open_regular`]; `NotFound` for a session that its bundle does not have.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        match bundle_of(path) {
            Some(_) => bundle::lines(path).map(|lines| Self::Lines(Cursor::new(lines))),
            None => open_regular(path).map(Self::File),
        }
    }

    /// The length in bytes.
    pub(crate) fn len(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => file.metadata().map(|metadata| metadata.len()),
            Self::Lines(lines) => Ok(lines.get_ref().len() as u64),
        }
    }

    /// What is known of the source as it is open, where it was `seen` so before.
    pub(crate) fn stat(&self, seen: &SourceStat) -> io::Result<SourceStat> {
        match self {
            Self::File(file) => file.metadata().map(|metadata| SourceStat::from(&metadata)),
            Self::Lines(lines) => Ok(SourceStat { len: lines.get_ref().len() as u64, ..seen.clone() }),
        }
    }
}

/// Returns what is known of a source; `None` for anything but a regular file or a session of a bundle.
///
/// # Errors
/// What the operating system or the bundle says.
pub(crate) fn stat(path: &Path) -> io::Result<Option<SourceStat>> {
    let Some((at, _)) = bundle_of(path) else {
        let metadata = fs::symlink_metadata(path)?;
        return Ok(metadata.is_file().then(|| SourceStat::from(&metadata)));
    };
    let of_bundle = fs::metadata(at)?;
    let session = bundle::stat(path)?;
    let modified = u64::try_from(session.modified_ms).ok().map(|ms| UNIX_EPOCH + Duration::from_millis(ms));
    Ok(Some(SourceStat { born: None, modified, len: session.len, ..SourceStat::from(&of_bundle) }))
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Lines(lines) => lines.read(buffer),
        }
    }
}

impl Seek for Source {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::File(file) => file.seek(to),
            Self::Lines(lines) => lines.seek(to),
        }
    }
}
