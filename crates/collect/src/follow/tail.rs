//! One followed file: how far it was read, and whether it is still the same.

use std::{
    hash::Hasher,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::Duration,
};

use subscope_model::Millis;
use twox_hash::XxHash64;

use super::{EventSink, FileEvent, FileId, pace::Pace};
use crate::{
    read::read_on,
    source::{self, Source, SourceStat},
};

/// How many of the last bytes read are kept to recognize the file by: the end of a transcript's line holds its
/// uuid and time, so two files hardly ever agree in it.
const SEAM_BYTES: usize = 64;

/// How long a file that became shorter must stay unchanged before it counts as cut. Programs that rewrite a file in
/// place cut it first; its content meanwhile is neither the old nor the new.
const SETTLES_AFTER: Duration = Duration::from_secs(1);

/// Maximum number of former contents of a file that are compared. A file that was replaced more often never counts as restored.
const MAX_FORMER: usize = 64;

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
    offset: u64,
    /// The last bytes before `offset`.
    seam: Vec<u8>,
    /// The digest of all bytes before `offset`.
    digest: XxHash64,
    /// Length and digest of what it held when it was found cut or replaced, unless it begins with that again.
    former: Vec<(u64, u64)>,
    look: Option<SourceStat>,
    /// What the file was when it was last found shorter than `offset`, and since when.
    short: Option<Box<(SourceStat, Pace)>>,
    /// Whether it was removed since the last look.
    was_gone: bool,
}

impl Tail {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            offset: 0,
            seam: Vec::new(),
            digest: XxHash64::default(),
            former: Vec::new(),
            look: None,
            short: None,
            was_gone: false,
        }
    }

    /// Notes that the file was removed.
    pub(super) fn remove(&mut self) {
        self.was_gone = true;
        self.short = None;
    }

    /// Whether the file was found shorter than the part that was read, and may still be being rewritten.
    pub(super) fn is_short(&self) -> bool {
        self.short.is_some()
    }

    /// Adds time spent waiting without an event.
    pub(super) fn wait(&mut self, span: Duration) {
        if let Some(short) = &mut self.short {
            short.1.wait(span);
        }
    }

    /// Reads new content.
    pub(super) fn advance(
        &mut self,
        file: FileId,
        now_ms: Millis,
        chunk: &mut Vec<u8>,
        out: &mut EventSink<'_>,
    ) -> io::Result<Presence> {
        let seen = match source::stat(&self.path) {
            Ok(Some(seen)) => seen,
            Ok(None) => return Ok(Presence::Gone),
            Err(error) => return gone_if_missing(error),
        };
        if self.look.as_ref() == Some(&seen) && seen.len == self.offset {
            return Ok(Presence::There);
        }
        // Do not open the file before this check: opening causes an event, which would end the wait at once.
        if seen.len < self.offset && !self.has_settled(&seen, now_ms) {
            return Ok(Presence::There);
        }
        let mut handle = match Source::open(&self.path) {
            Ok(handle) => handle,
            Err(error) => return gone_if_missing(error),
        };
        let look = match handle.stat(&seen) {
            Ok(look) => look,
            Err(error) => return gone_if_missing(error),
        };
        if look.len < self.offset && !self.has_settled(&look, now_ms) {
            return Ok(Presence::There);
        }
        let continues = match self.continues(&look, &mut handle, chunk) {
            Ok(continues) => continues,
            // It was truncated just now, which causes an event of its own.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Presence::There),
            Err(error) => return Err(error),
        };
        if !continues {
            out.send(FileEvent::Restarted { file });
            match self.former.get_mut(MAX_FORMER - 1) {
                None => self.former.push((self.offset, self.digest.finish())),
                Some(last) => *last = (u64::MAX, 0),
            }
            self.offset = 0;
            self.seam.clear();
            self.digest = XxHash64::default();
        }
        self.short = None;
        self.was_gone = false;
        // Read only up to this length: a fast writer would delay the other files. Later content causes its own event.
        let (from, until) = (self.offset, look.len);
        self.look = Some(look);
        read_on(&mut handle, from, until, chunk, &mut |offset, bytes| {
            out.send(FileEvent::Bytes { file, offset, bytes });
            self.offset = offset + bytes.len() as u64;
            if self.restores(offset, bytes) {
                out.send(FileEvent::Restored { file });
            }
            self.digest.write(bytes);
            self.seam.extend_from_slice(&bytes[bytes.len().saturating_sub(SEAM_BYTES)..]);
            self.seam.drain(..self.seam.len().saturating_sub(SEAM_BYTES));
        })?;
        Ok(Presence::There)
    }

    /// Whether the file begins, with its next bytes, with the last of its former contents that it lacked.
    fn restores(&mut self, offset: u64, bytes: &[u8]) -> bool {
        let had_former = !self.former.is_empty();
        self.former.retain(|(len, former)| {
            let own = len.checked_sub(offset).and_then(|len| bytes.get(..usize::try_from(len).ok()?));
            own.is_none_or(|own| {
                let mut digest = self.digest.clone();
                digest.write(own);
                digest.finish() != *former
            })
        });
        had_former && self.former.is_empty()
    }

    /// Whether a file that became shorter has been as it is for [`SETTLES_AFTER`].
    fn has_settled(&mut self, look: &SourceStat, now_ms: Millis) -> bool {
        match self.short.as_deref() {
            Some((last, since)) if last == look => since.is_over(now_ms, SETTLES_AFTER),
            _ => {
                let mut since = Pace::default();
                since.restart(now_ms);
                self.short = Some(Box::new((look.clone(), since)));
                false
            }
        }
    }

    /// Whether the opened file continues where reading stopped. A file that has grown is compared by its seam (the last
    /// bytes read); another file, or one written without growing, by the digest of all bytes read.
    fn continues(&self, look: &SourceStat, handle: &mut Source, chunk: &mut Vec<u8>) -> io::Result<bool> {
        let Some(last) = &self.look else { return Ok(true) };
        if look.len < self.offset {
            return Ok(false);
        }
        let has_grown = look.len > self.offset;
        if is_same_file(last, look) && has_grown && !self.was_gone {
            let mut seam = vec![0; self.seam.len()];
            handle.seek(SeekFrom::Start(self.offset - seam.len() as u64))?;
            handle.read_exact(&mut seam)?;
            return Ok(seam == self.seam);
        }
        // When the file was removed, its unfinished last line was decoded as complete: it cannot continue.
        if self.was_gone && has_grown && !self.seam.ends_with(b"\n") {
            return Ok(false);
        }
        let mut digest = XxHash64::default();
        let end = read_on(handle, 0, self.offset, chunk, &mut |_, bytes| digest.write(bytes))?;
        if end < self.offset {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(digest.finish() == self.digest.finish())
    }

    pub(super) fn is_below(&self, folder: &Path) -> bool {
        self.path.starts_with(folder)
    }
}

fn is_same_file(one: &SourceStat, other: &SourceStat) -> bool {
    (one.id, one.born) == (other.id, other.born)
}

fn gone_if_missing(error: io::Error) -> io::Result<Presence> {
    if source::is_missing(&error) { Ok(Presence::Gone) } else { Err(error) }
}
