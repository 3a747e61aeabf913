//! One followed file: how far it was read, and whether it is still the same.

use std::{
    fs::{self, Metadata},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{FileEvent, FileId, Out};
use crate::read::{open_regular, read_on};

/// How many of the last bytes read are kept to recognise the file by: the end of a transcript's line holds its
/// uuid and time, so two files hardly ever agree in it.
const SEAM_BYTES: usize = 64;

/// Whether a file is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    There,
    Gone,
}

/// One followed file.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) path: PathBuf,
    /// Whether its last look failed; the failure was told then and is not told again.
    pub(super) has_failed: bool,
    offset: u64,
    /// The last bytes before `offset`.
    seam: Vec<u8>,
    look: Option<Look>,
}

/// What the file system said about a file when it was last looked at.
#[derive(Debug, PartialEq)]
struct Look {
    device: u64,
    inode: u64,
    born: Option<SystemTime>,
    modified: Option<SystemTime>,
    len: u64,
}

impl Look {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            born: metadata.created().ok(),
            modified: metadata.modified().ok(),
            len: metadata.len(),
        }
    }

    fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode, self.born) == (other.device, other.inode, other.born)
    }
}

impl Tail {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, has_failed: false, offset: 0, seam: Vec::new(), look: None }
    }

    /// Hands over what is new.
    pub(super) fn advance(
        &mut self,
        file: FileId,
        chunk: &mut Vec<u8>,
        out: &mut Out<'_>,
    ) -> io::Result<Presence> {
        let metadata = match fs::symlink_metadata(&self.path) {
            Ok(metadata) if metadata.is_file() => metadata,
            Ok(_) => return Ok(Presence::Gone),
            Err(error) => return gone_if_missing(error),
        };
        if self.look.as_ref() == Some(&Look::of(&metadata)) && metadata.len() == self.offset {
            return Ok(Presence::There);
        }
        let mut handle = match open_regular(&self.path) {
            Ok(handle) => handle,
            Err(error) => return gone_if_missing(error),
        };
        let look = Look::of(&handle.metadata()?);
        if !self.continues(&look, &mut handle)? {
            out.send(FileEvent::Restarted { file });
            self.offset = 0;
            self.seam.clear();
        }
        // Not to the end: a fast writer would keep the others waiting. What comes later makes its own event.
        let (from, until) = (self.offset, look.len);
        self.look = Some(look);
        read_on(&mut handle, from, until, chunk, &mut |offset, bytes| {
            out.send(FileEvent::Bytes { file, offset, bytes });
            self.offset = offset + bytes.len() as u64;
            self.seam.extend_from_slice(&bytes[bytes.len().saturating_sub(SEAM_BYTES)..]);
            self.seam.drain(..self.seam.len().saturating_sub(SEAM_BYTES));
        })?;
        Ok(Presence::There)
    }

    /// Whether the opened file goes on where reading stopped.
    fn continues(&self, look: &Look, handle: &mut fs::File) -> io::Result<bool> {
        let Some(last) = &self.look else { return Ok(true) };
        if !last.is_same_file(look) || look.len < self.offset {
            return Ok(false);
        }
        let mut seam = vec![0; self.seam.len()];
        handle.seek(SeekFrom::Start(self.offset - seam.len() as u64))?;
        match handle.read_exact(&mut seam) {
            Ok(()) => Ok(seam == self.seam),
            // It was cut just now.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn is_below(&self, folder: &Path) -> bool {
        self.path.starts_with(folder)
    }
}

fn gone_if_missing(error: io::Error) -> io::Result<Presence> {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(Presence::Gone),
        _ => Err(error),
    }
}
