//! A source that is opened: a regular file, also one that its harness has compressed, or a session of a bundle.

use std::{
    cell::OnceCell,
    fs::{self, File, Metadata},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use subscope_model::Millis;
use subscope_platform::{DeviceInode, device_inode, open_device_inode};

use crate::{
    bundle::{self, LineIndex, Window, bundle_of},
    fault,
    packed::{Packed, content_len, is_packed},
    read::open_regular,
};

/// An open source.
pub(crate) enum Source {
    /// A regular file.
    File(File),
    /// A compressed transcript.
    Packed(Packed),
    /// The lines of a session of a bundle.
    Lines(BundleLines),
}

/// The lines of a session of a bundle, of which a part is in memory. The bundle is first read when something is asked.
pub(crate) struct BundleLines {
    path: PathBuf,
    index: OnceCell<LineIndex>,
    /// What is read next.
    at: u64,
    window: Window,
}

impl BundleLines {
    fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), index: OnceCell::new(), at: 0, window: Window::default() }
    }

    /// The number of bytes, as it was when the bundle was first read.
    fn len(&self) -> io::Result<u64> {
        if let Some(index) = self.index.get() {
            return Ok(index.len);
        }
        let index = bundle::index(&self.path)?;
        Ok(self.index.get_or_init(|| index).len)
    }

    /// Returns what is in memory from the next byte on.
    fn ahead(&self) -> &[u8] {
        let from = |start: u64| self.at.checked_sub(start).and_then(|from| usize::try_from(from).ok());
        let first = self.index.get().map_or(&[][..], |index| &index.first);
        let of_first = from(0).and_then(|from| first.get(from..)).filter(|bytes| !bytes.is_empty());
        let of_window = || from(self.window.from).and_then(|from| self.window.bytes.get(from..));
        of_first.or_else(of_window).unwrap_or_default()
    }
}

impl Read for BundleLines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ahead().is_empty() {
            match self.index.get() {
                Some(index) if self.at >= index.len => {}
                Some(index) => self.window = bundle::window(&self.path, index, self.at)?,
                None => {
                    let (index, window) = bundle::open(&self.path, self.at)?;
                    (self.index, self.window) = (OnceCell::from(index), window);
                }
            }
        }
        let ahead = self.ahead();
        let count = ahead.len().min(buffer.len());
        buffer[..count].copy_from_slice(&ahead[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

/// Metadata of a source. Two are equal if nothing was written between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceStat {
    /// Which file it is.
    pub(crate) id: DeviceInode,
    /// When it was made, where the file system knows.
    pub(crate) born: Option<SystemTime>,
    /// When it was last written.
    pub(crate) modified: Option<SystemTime>,
    /// Its length in bytes.
    pub(crate) len: u64,
}

impl SourceStat {
    fn new(id: DeviceInode, metadata: &Metadata) -> Self {
        Self { id, born: metadata.created().ok(), modified: metadata.modified().ok(), len: metadata.len() }
    }

    /// Returns the metadata of a file or folder.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub(crate) fn of_path(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self::new(device_inode(path, &metadata)?, &metadata))
    }
}

impl Source {
    /// Opens a source for reading.
    ///
    /// # Errors
    /// As [`open_regular`]. A session that its bundle does not have is `NotFound` when it is read.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        match bundle_of(path) {
            Some(_) => Ok(Self::Lines(BundleLines::new(path))),
            None if is_packed(path) => Packed::open(path).map(Self::Packed),
            None => open_regular(path).map(Self::File),
        }
    }

    /// The length in bytes.
    pub(crate) fn len(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => file.metadata().map(|metadata| metadata.len()),
            Self::Packed(packed) => Ok(packed.len),
            Self::Lines(lines) => lines.len(),
        }
    }

    /// Returns the metadata of the open source; `seen` is its metadata by path before it was opened.
    pub(crate) fn stat(&self, seen: &SourceStat) -> io::Result<SourceStat> {
        match self {
            Self::File(file) => {
                let metadata = file.metadata()?;
                Ok(SourceStat::new(open_device_inode(file, &metadata)?, &metadata))
            }
            Self::Packed(Packed { len, .. }) => Ok(SourceStat { len: *len, ..seen.clone() }),
            Self::Lines(lines) => Ok(SourceStat { len: lines.len()?, ..seen.clone() }),
        }
    }
}

/// Returns the length of a file, or of the lines of a session of a bundle; `None` if it does not exist.
///
/// # Errors
/// If nothing can be said of it: it may exist. No evidence of absence is evidence of nothing.
pub fn length(path: &Path) -> io::Result<Option<u64>> {
    let length = || {
        fault::check()?;
        match bundle_of(path) {
            Some(_) => bundle::stat(path).map(|session| session.len),
            None if is_packed(path) => content_len(&mut open_regular(path)?),
            None => fs::metadata(path).map(|metadata| metadata.len()),
        }
    };
    match length() {
        Ok(length) => Ok(Some(length)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether an error says that nothing exists at a path.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns the length of the lines of a session of a bundle, and when it was last changed; `None` for any other path.
///
/// # Errors
/// If the bundle cannot be read.
pub fn bundled(path: &Path) -> io::Result<Option<(u64, Millis)>> {
    let session = bundle_of(path).map(|_| bundle::stat(path)).transpose()?;
    Ok(session.map(|session| (session.len, session.modified_ms)))
}

/// Returns the metadata of a source; `None` for anything but a regular file or a session of a bundle.
///
/// # Errors
/// The error of the operating system or of the bundle.
pub(crate) fn stat(path: &Path) -> io::Result<Option<SourceStat>> {
    fault::check()?;
    let Some((at, _)) = bundle_of(path) else {
        let metadata = fs::metadata(path)?;
        if !metadata.is_file() {
            return Ok(None);
        }
        let mut stat = SourceStat::new(device_inode(path, &metadata)?, &metadata);
        if is_packed(path) {
            stat.len = content_len(&mut open_regular(path)?)?;
        }
        return Ok(Some(stat));
    };
    let of_bundle = SourceStat::of_path(at)?;
    let session = bundle::stat(path)?;
    let modified = u64::try_from(session.modified_ms).ok().map(|ms| UNIX_EPOCH + Duration::from_millis(ms));
    Ok(Some(SourceStat { born: None, modified, len: session.len, ..of_bundle }))
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        fault::check()?;
        match self {
            Self::File(file) => file.read(buffer),
            Self::Packed(packed) => packed.read(buffer),
            Self::Lines(lines) => lines.read(buffer),
        }
    }
}

impl Seek for Source {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::File(file) => file.seek(to),
            Self::Packed(packed) => packed.seek(to),
            Self::Lines(lines) => {
                let at = match to {
                    SeekFrom::Start(at) => Some(at),
                    SeekFrom::End(by) => lines.len()?.checked_add_signed(by),
                    SeekFrom::Current(by) => lines.at.checked_add_signed(by),
                };
                lines.at = at.ok_or(io::ErrorKind::InvalidInput)?;
                Ok(lines.at)
            }
        }
    }
}
