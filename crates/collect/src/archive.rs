//! The archive keeps what transcripts said, also after the harness deleted, cut or rewrote them: a compressed copy of each,
//! with bytes of its own.
//!
//! The archive is a folder that mirrors the originals' paths, so that users find their files in it. It has each file as
//! `<path>.zst` ([`crate::frames`]). A file whose content is no longer the beginning of its original's is kept as that of
//! a former file, `<path>~1`, `<path>~2` and so on, which is one more file of its session. Older versions kept a hard link,
//! `<path>`, while the harness had the file; it is compressed when it is met.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, File, FileTimes, Metadata, OpenOptions},
    io::{self, BufWriter},
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use subscope_harness::classify;
use subscope_platform::{OpenPolicy as _, create_private_folder, device_inode, mirrored, modified_ns};

use crate::{
    Skipped,
    bundle::bundle_of,
    frames::{self, FrameWriter, Frames, Table},
    list::{self, Kind},
    peek::complete_by,
    read::{SpanReader, read_file, read_head, read_span},
    source::is_missing,
};

/// The archive of a data folder. The folder is created with the first archived file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    folder: PathBuf,
}

/// An archived file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its path. [`crate::read`] reads it at the original's offsets.
    pub path: PathBuf,
    /// The original's length.
    pub bytes: u64,
    /// When the original was last written, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Whether its seek table is damaged: `bytes` may then be too small, and only the frames that are found are read.
    pub is_damaged: bool,
}

/// What [`Archive::verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Compressed files.
    pub files: u64,
    /// The compressed files without checksums, written by an older version.
    pub without_checksums: u64,
    /// Files that are damaged or cannot be read, each with what is wrong.
    pub damaged: Vec<(PathBuf, String)>,
}

impl Archive {
    /// The archive in that folder.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Archives the file at a path, unless its copy is of this state. Returns the path of the former file if the original
    /// no longer begins with what was archived of it. Sessions of bundles and transcripts that the harness has compressed
    /// are not archived: the harness keeps them.
    ///
    /// # Errors
    ///
    /// Errors of the operating system; `InvalidInput` for anything but a regular file and for a path that is not
    /// absolute.
    pub fn take(&self, original: &Path) -> io::Result<Option<PathBuf>> {
        if bundle_of(original).is_some() || frames::is_frames(original) {
            return Ok(None);
        }
        let own = self.place(original)?;
        let now = fs::metadata(original)?;
        if !now.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        if let Some(folder) = own.parent() {
            create_private_folder(folder)?;
        }
        let packed = with_ending(&own, frames::ENDING);
        if let Ok(link) = fs::symlink_metadata(&own) {
            // An older version's link shares what is written into the original.
            if device_inode(&own, &link)? != device_inode(original, &now)? {
                compress(&own, &packed)?;
            }
            remove_if_there(&own)?;
        }
        let mut former = None;
        if let Some(kept) = self.find(original)? {
            if (kept.bytes, kept.modified_ns) == (now.len(), modified_ns(&now)) {
                return Ok(None);
            }
            if kept.is_damaged || !begins_with(original, &kept)? {
                let (path, place) = self.former_place(original)?;
                fs::rename(&packed, place)?;
                former = Some(path);
            }
        }
        compress(original, &packed)?;
        Ok(former)
    }

    /// Returns the path of the next former file of an original, and where the archive has it.
    fn former_place(&self, original: &Path) -> io::Result<(PathBuf, PathBuf)> {
        let mut number = 1_u32;
        loop {
            let path = former_path(original, number);
            let place = with_ending(&self.place(&path)?, frames::ENDING);
            if !place.exists() {
                return Ok((path, place));
            }
            number += 1;
        }
    }

    /// Compresses the archived file of a deleted original, unless that is done, and returns it; `None` if the file was
    /// never archived. Adds checksums to a file that an older version compressed.
    ///
    /// # Errors
    ///
    /// Errors of the operating system; `InvalidData` where a file without checksums is damaged, or what was written
    /// does not read back as it should. The file that was there then stays.
    pub fn settle(&self, original: &Path) -> io::Result<Option<Kept>> {
        let Ok(own) = self.place(original) else { return Ok(None) };
        let packed = with_ending(&own, frames::ENDING);
        if own.exists() {
            compress(&own, &packed)?;
            remove_if_there(&own)?;
        } else if packed.exists() && Frames::open(&packed)?.table == Table::Unchecked {
            compress(&packed, &packed)?;
        }
        self.find(original)
    }

    /// Returns the originals of all archived files, deleted or not, with their sessions: what the archive itself says,
    /// whatever a store knows. And the files whose session is not known, because they cannot be read.
    ///
    /// # Errors
    ///
    /// If a folder of the archive cannot be read.
    pub fn originals(&self) -> io::Result<ArchivedOriginals> {
        let (mut originals, mut folders) = (BTreeMap::new(), vec![self.folder.clone()]);
        let mut unread = Vec::new();
        while let Some(folder) = folders.pop() {
            let entries = match list::entries(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for (path, kind) in entries {
                match kind {
                    Kind::Folder => folders.push(path),
                    Kind::File => match self.original(&path) {
                        Ok(original) => originals.extend(original),
                        Err(error) => unread.push(Skipped { path, why: error.to_string() }),
                    },
                    Kind::Link | Kind::Special => {}
                }
            }
        }
        Ok(ArchivedOriginals { known: originals.into_iter().collect(), unread })
    }

    /// Returns the original of a file of the archive, and its session; `None` if neither path nor first line name one, or
    /// the first line is lost.
    fn original(&self, own: &Path) -> io::Result<Option<(PathBuf, String)>> {
        let plain = if frames::is_frames(own) { own.with_extension("") } else { own.to_owned() };
        let original = subscope_platform::original(plain.strip_prefix(&self.folder).unwrap_or(&plain));
        let named = original_of(&original).unwrap_or_else(|| original.clone());
        let place = classify(&named);
        let session = match place.session {
            Some(session) => Some(session),
            None => match read_head(own) {
                Err(error) if frames::is_damage(&error) => None,
                head => complete_by(&named, &head?, &place).and_then(|place| place.session),
            },
        };
        Ok(session.map(|session| (original, session)))
    }

    /// Returns the archived copy of a file; `None` if it was never archived.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn find(&self, original: &Path) -> io::Result<Option<Kept>> {
        let Ok(own) = self.place(original) else { return Ok(None) };
        if let Some(metadata) = look(&own)? {
            let (bytes, modified_ns) = (metadata.len(), modified_ns(&metadata));
            return Ok(Some(Kept { path: own, bytes, modified_ns, is_damaged: false }));
        }
        let packed = with_ending(&own, frames::ENDING);
        let Some(metadata) = look(&packed)? else { return Ok(None) };
        let Frames { bytes, table, .. } = Frames::open(&packed)?;
        let is_damaged = table == Table::Damaged;
        Ok(Some(Kept { path: packed, bytes, modified_ns: modified_ns(&metadata), is_damaged }))
    }

    /// Reads every compressed file and compares it with its checksums, which takes as long as reading the archive does.
    pub fn verify(&self) -> Verified {
        let mut verified = Verified::default();
        let mut folders = vec![self.folder.clone()];
        while let Some(folder) = folders.pop() {
            let entries = match list::entries(&folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    verified.damaged.push((folder, error.to_string()));
                    continue;
                }
            };
            for (path, kind) in entries {
                match kind {
                    Kind::Folder => folders.push(path),
                    Kind::File if frames::is_frames(&path) => verified.add(path),
                    Kind::File | Kind::Link | Kind::Special => {}
                }
            }
        }
        verified.damaged.sort();
        verified
    }

    /// Returns a span of a file that may have been deleted since.
    ///
    /// # Errors
    ///
    /// As [`read_span`]; that of the original where the archive does not have it either.
    pub fn read_span(&self, original: &Path, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        match read_span(original, offset, len) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => match self.find(original)? {
                Some(kept) => read_span(&kept.path, offset, len),
                None => Err(error),
            },
            outcome => outcome,
        }
    }

    /// Forgets a file; the original is not touched.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn remove(&self, original: &Path) -> io::Result<()> {
        let Ok(own) = self.place(original) else { return Ok(()) };
        for name in [with_ending(&own, "part"), with_ending(&own, frames::ENDING), own] {
            remove_if_there(&name)?;
        }
        let mut former = former_path(original, 1);
        for number in 2.. {
            let place = with_ending(&self.place(&former)?, frames::ENDING);
            if look(&place)?.is_none() {
                break;
            }
            remove_if_there(&place)?;
            former = former_path(original, number);
        }
        Ok(())
    }

    /// The path of a file's second name: always below the archive's folder.
    fn place(&self, original: &Path) -> io::Result<PathBuf> {
        let refused = || io::Error::new(io::ErrorKind::InvalidInput, "not a plain absolute path");
        mirrored(&self.folder, original).ok_or_else(refused)
    }
}

impl Verified {
    fn add(&mut self, path: PathBuf) {
        self.files += 1;
        let outcome = Frames::open(&path).and_then(|mut frames| {
            self.without_checksums += u64::from(frames.table == Table::Unchecked);
            frames.read(0, &mut |_, _| {})
        });
        if let Err(error) = outcome {
            self.damaged.push((path, error.to_string()));
        }
    }
}

/// Returns what the operating system knows of a file; `None` if there is none.
fn look(path: &Path) -> io::Result<Option<fs::Metadata>> {
    match fs::symlink_metadata(path) {
        Err(error) if is_missing(&error) => Ok(None),
        metadata => Ok(Some(metadata?)),
    }
}

/// What the archive itself says it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchivedOriginals {
    /// The originals, by path, each with its session.
    pub known: Vec<(PathBuf, String)>,
    /// Archived files whose session is not known, because they cannot be read.
    pub unread: Vec<Skipped>,
}

/// Returns the path of a former file: of content that a file had before it was cut or replaced.
fn former_path(original: &Path, number: u32) -> PathBuf {
    let mut name: OsString = original.as_os_str().to_owned();
    name.push(format!("~{number}"));
    name.into()
}

/// Returns the file whose content a former file has; `None` for any other path.
pub fn original_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let (original, number) = name.rsplit_once('~')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !original.is_empty()).then(|| path.with_file_name(original))
}

/// Whether a file begins with what is archived of it.
fn begins_with(original: &Path, kept: &Kept) -> io::Result<bool> {
    let (mut reader, mut is_equal, mut outcome) = (SpanReader::default(), true, Ok(()));
    read_file(&kept.path, 0, &mut Vec::new(), &mut |at, bytes| {
        if is_equal && outcome.is_ok() {
            match reader.read(original, at, bytes.len()) {
                Ok(span) => is_equal = span == bytes,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => is_equal = false,
                Err(error) => outcome = Err(error),
            }
        }
    })?;
    outcome.map(|()| is_equal)
}

/// Compresses a file to another path, which it replaces at once when what was written has been read back and is the
/// same.
fn compress(from: &Path, to: &Path) -> io::Result<()> {
    let part = with_ending(to, "part");
    let outcome = write_frames(from, &part).and_then(|length| compare(&part, from, length));
    match outcome {
        Ok(()) => fs::rename(&part, to),
        Err(error) => remove_if_there(&part).and(Err(error)),
    }
}

/// Writes a file's content compressed, with the file's time, down to the disk. Returns the content's length.
fn write_frames(from: &Path, to: &Path) -> io::Result<u64> {
    let metadata = fs::metadata(from)?;
    let mut writer = FrameWriter::new(BufWriter::new(new_file(to)?))?;
    let mut written = Ok(());
    let length = read_file(from, 0, &mut Vec::new(), &mut |_, bytes| {
        if written.is_ok() {
            written = writer.push(bytes);
        }
    })?;
    written?;
    let file = writer.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.set_times(times(&metadata))?;
    file.sync_all()?;
    Ok(length)
}

/// Reads a compressed file back and compares it with what it was made from.
fn compare(packed: &Path, original: &Path, length: u64) -> io::Result<()> {
    let mut is_equal = true;
    let end = Frames::open(packed)?.read(0, &mut |at, bytes| {
        is_equal = is_equal && read_span(original, at, bytes.len()).is_ok_and(|span| span == bytes);
    })?;
    if is_equal && end == length {
        Ok(())
    } else {
        let what = format!("{} does not read back as {}", packed.display(), original.display());
        Err(io::Error::new(io::ErrorKind::InvalidData, what))
    }
}

fn times(metadata: &Metadata) -> FileTimes {
    let since = u64::try_from(modified_ns(metadata)).unwrap_or(0);
    FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_nanos(since))
}

/// A file that only this user can read, empty.
fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).private().open(path)
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

/// Removes a file; one that is gone already is no error.
pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
