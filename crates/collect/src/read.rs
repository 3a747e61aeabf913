//! Reads regular files with bounded memory and without blocking on pipes.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use subscope_platform::OpenPolicy as _;

use crate::{
    fault,
    frames::{Frames, is_frames},
    packed::is_packed,
    source::{Source, length},
};

/// How much is read at once. Measured on recordings: below 64 KiB the calls cost, above 1 MiB the caches do.
pub const CHUNK_BYTES: usize = 256 * 1024;

/// The longest span that [`read_span`] returns: the longest line that decoders keep.
pub const SPAN_CAP_BYTES: usize = 64 * 1024 * 1024;

/// Reads a file from an offset to its end, and returns the offset where it ended. Of a file that the archive has
/// compressed offsets are those of the original, as in [`read_span`].
///
/// `each` gets chunks of up to [`CHUNK_BYTES`] in order, with the offset of their first byte; chunks end
/// anywhere, not at lines. `chunk` is the buffer, to be passed again for the next file. An offset past the end
/// reads nothing and is returned unchanged.
///
/// # Errors
///
/// Errors of the operating system; `InvalidInput` for anything but a regular file.
pub fn read_file(
    path: &Path,
    from: u64,
    chunk: &mut Vec<u8>,
    each: &mut dyn FnMut(u64, &[u8]),
) -> io::Result<u64> {
    if is_frames(path) && !is_packed(path) {
        return Frames::open(path)?.read(from, each);
    }
    let mut source = Source::open(path)?;
    read_on(&mut source, from, u64::MAX, chunk, each)
}

/// Returns `len` bytes from an offset of a file.
///
/// # Errors
///
/// `InvalidInput` for a span over [`SPAN_CAP_BYTES`] and for anything but a regular file, `UnexpectedEof` where
/// the file ends before the span does.
pub fn read_span(path: &Path, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    if len > SPAN_CAP_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "span over 64 MiB"));
    }
    if is_frames(path) && !is_packed(path) {
        return Frames::open(path)?.span(offset, len);
    }
    span_of(&mut Source::open(path)?, offset, len)
}

/// How much of a file is read to find out what it is.
const HEAD_BYTES: u64 = 64 << 10;

/// Returns the first bytes of a file, at most 64 KiB.
///
/// # Errors
///
/// As of [`read_span`].
pub(crate) fn read_head(path: &Path) -> io::Result<Vec<u8>> {
    let bytes = length(path)?.unwrap_or(0);
    let bytes = if is_frames(path) && !is_packed(path) { Frames::open(path)?.bytes } else { bytes };
    read_span(path, 0, usize::try_from(bytes.min(HEAD_BYTES)).map_err(io::Error::other)?)
}

/// Reads spans as [`read_span`] does; the file of the last one stays open, and what follows it in memory, because the next
/// one is mostly there.
#[derive(Default)]
pub struct SpanReader {
    opened: Option<(PathBuf, Source)>,
    /// A part of the file, and where it begins.
    window: Vec<u8>,
    window_at: u64,
}

/// What [`SpanReader`] reads at once, and how much of it is before the span: several lines, because the spans of parallel
/// calls alternate.
const WINDOW_BYTES: usize = 256 << 10;
const WINDOW_BYTES_BEFORE: u64 = 64 << 10;

impl SpanReader {
    /// Reads a span of a file.
    ///
    /// # Errors
    ///
    /// As of [`read_span`].
    pub fn read(&mut self, path: &Path, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        if len > SPAN_CAP_BYTES || is_frames(path) {
            return read_span(path, offset, len);
        }
        let opened = match self.opened.take().filter(|(known, _)| known == path) {
            Some(opened) => opened,
            None => {
                self.window.clear();
                (path.to_owned(), Source::open(path)?)
            }
        };
        let (_, file) = self.opened.insert(opened);
        if len > WINDOW_BYTES / 2 {
            return span_of(file, offset, len);
        }
        let span = |window: &[u8], window_at: u64| {
            let from = usize::try_from(offset.checked_sub(window_at)?).ok()?;
            window.get(from..from.checked_add(len)?).map(<[u8]>::to_vec)
        };
        if let Some(found) = span(&self.window, self.window_at) {
            return Ok(found);
        }
        self.window_at = offset.saturating_sub(WINDOW_BYTES_BEFORE);
        self.window.clear();
        file.seek(SeekFrom::Start(self.window_at))?;
        file.by_ref().take(WINDOW_BYTES as u64).read_to_end(&mut self.window)?;
        span(&self.window, self.window_at).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

fn span_of(file: &mut Source, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    // The span may come from a damaged index: no memory for what the file does not hold.
    if file.len()? < offset.saturating_add(len as u64) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    read_at(file, offset, len)
}

/// Reads a part of a file that is known to be within its length.
pub(crate) fn read_at(file: &mut (impl Read + Seek), offset: u64, len: usize) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = vec![0; len];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Opens a regular file, also by a symbolic link to it, without waiting for a pipe's writer.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    fault::check()?;
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
    if !fs::metadata(path)?.is_file() {
        return Err(refused());
    }
    // The file may have been swapped for a pipe since.
    let file = OpenOptions::new().read(true).without_waiting().open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(refused()) }
}

/// Reads an open file from an offset up to another or to its end, whichever comes first.
pub(crate) fn read_on(
    file: &mut (impl Read + Seek),
    from: u64,
    until: u64,
    chunk: &mut Vec<u8>,
    each: &mut dyn FnMut(u64, &[u8]),
) -> io::Result<u64> {
    file.seek(SeekFrom::Start(from))?;
    read_chunk_by_chunk(file, from, until, chunk, each)
}

/// Reads up to an offset or to the end, whichever comes first, and passes on each chunk as soon as it comes.
pub(crate) fn read_chunk_by_chunk(
    reader: &mut impl Read,
    from: u64,
    until: u64,
    chunk: &mut Vec<u8>,
    each: &mut dyn FnMut(u64, &[u8]),
) -> io::Result<u64> {
    chunk.resize(CHUNK_BYTES, 0);
    let mut offset = from;
    while offset < until {
        let wanted = usize::try_from(until - offset).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        match reader.read(&mut chunk[..wanted]) {
            Ok(0) => break,
            Ok(count) => {
                each(offset, &chunk[..count]);
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(path: &Path, from: u64) -> (Vec<u8>, u64, usize) {
        let (mut all, mut chunks) = (Vec::new(), 0);
        let end = read_file(path, from, &mut Vec::new(), &mut |offset, bytes| {
            assert_eq!(offset, from + all.len() as u64);
            all.extend_from_slice(bytes);
            chunks += 1;
        });
        (all, end.unwrap(), chunks)
    }

    #[test]
    fn read_file_from_offset_gives_chunks_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("big");
        let content: Vec<u8> = (0..CHUNK_BYTES * 2 + 10).map(|at| (at % 251) as u8).collect();
        fs::write(&path, &content).unwrap();
        assert_eq!(collect(&path, 0), (content.clone(), content.len() as u64, 3));
        assert_eq!(collect(&path, 7).0, content[7..]);
        let past = content.len() as u64 + 5;
        assert_eq!(collect(&path, past), (Vec::new(), past, 0));
    }

    #[test]
    fn read_span_gives_exactly_the_span_or_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, b"0123456789").unwrap();
        assert_eq!(read_span(&path, 3, 4).unwrap(), b"3456");
        assert_eq!(read_span(&path, 8, 4).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(read_span(&path, u64::MAX, 4).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(read_span(&path, 0, SPAN_CAP_BYTES + 1).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let (mut reader, other) = (SpanReader::default(), folder.path().join("other"));
        fs::write(&other, b"abc").unwrap();
        assert_eq!(reader.read(&path, 3, 4).unwrap(), b"3456");
        assert_eq!(reader.read(&path, 8, 4).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(reader.read(&path, 0, 2).unwrap(), b"01");
        assert_eq!(reader.read(&other, 1, 2).unwrap(), b"bc");
        let none = reader.read(&folder.path().join("none"), 0, 1);
        assert_eq!(none.unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(reader.read(&path, 9, 1).unwrap(), b"9");
    }

    #[test]
    fn reader_gives_what_is_written_in_any_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let bytes: Vec<u8> = (0..3 * WINDOW_BYTES).map(|at| (at % 251) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        let mut reader = SpanReader::default();
        let steps = (0..bytes.len()).step_by(7_919);
        for (number, at) in steps.chain((0..bytes.len()).rev().step_by(40_009)).enumerate() {
            // Spans of parallel calls: forth, and back.
            for from in [at, at.saturating_sub(WINDOW_BYTES / 8), at] {
                let len = [0, 1, 3_000, WINDOW_BYTES / 2, WINDOW_BYTES][number % 5].min(bytes.len() - from);
                assert_eq!(reader.read(&path, from as u64, len).unwrap(), bytes[from..from + len]);
            }
        }
    }

    #[test]
    #[cfg(unix)]
    fn open_follows_a_link_to_a_file_and_refuses_anything_else() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, b"x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let (device, endless) = (folder.path().join("device"), folder.path().join("endless"));
        std::os::unix::fs::symlink("/dev/zero", &device).unwrap();
        std::os::unix::fs::symlink(&endless, &endless).unwrap();
        for path in [folder.path(), &device] {
            assert_eq!(open_regular(path).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        assert!(open_regular(&endless).is_err());
        assert!(open_regular(&file).is_ok() && open_regular(&link).is_ok());
    }
}
