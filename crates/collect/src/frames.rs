//! Compressed files that can be read from any offset: zstd in frames of one size, with a table of them at the end.
//!
//! The format is Zstandard's own "seekable" one (facebook/zstd, `contrib/seekable_format/zstd_seekable_compression_format.md`,
//! version 0.1.0), without checksums in the table: `zstd -d` unpacks such a file as any other.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
};

use crate::read::{CHUNK_BYTES, SPAN_CAP_BYTES, open_regular};

/// The ending of their names.
pub(crate) const ENDING: &str = "zst";

/// Higher levels save a tenth more at several times the work.
const LEVEL: i32 = 3;
const SKIPPABLE_MAGIC: u32 = 0x184D_2A5E;
const SEEKABLE_MAGIC: u32 = 0x8F92_EAB1;
/// Number of frames, descriptor, magic.
const FOOTER_BYTES: u64 = 9;
/// What a frame takes in the table: its two lengths.
const ENTRY_BYTES: u64 = 8;
/// Magic and length of the frame that holds the table.
const HEADER_BYTES: u64 = 8;

/// Whether a file of that name is read frame by frame.
pub(crate) fn is_frames(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == ENDING)
}

/// Compresses all of a file and returns how many bytes it had.
pub(crate) fn write(from: &mut impl Read, to: &mut impl Write) -> io::Result<u64> {
    let (mut chunk, mut table, mut total, mut count) = (Vec::new(), Vec::new(), 0, 0u32);
    loop {
        chunk.clear();
        from.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut chunk)?;
        if chunk.is_empty() {
            break;
        }
        let packed = zstd::bulk::compress(&chunk, LEVEL)?;
        to.write_all(&packed)?;
        for bytes in [packed.len(), chunk.len()] {
            table.extend(u32::try_from(bytes).map_err(io::Error::other)?.to_le_bytes());
        }
        total += chunk.len() as u64;
        count += 1;
    }
    let length = table.len() as u64 + FOOTER_BYTES;
    to.write_all(&SKIPPABLE_MAGIC.to_le_bytes())?;
    to.write_all(&u32::try_from(length).map_err(io::Error::other)?.to_le_bytes())?;
    to.write_all(&table)?;
    to.write_all(&count.to_le_bytes())?;
    to.write_all(&[0])?;
    to.write_all(&SEEKABLE_MAGIC.to_le_bytes())?;
    Ok(total)
}

/// A compressed file with its table read.
pub(crate) struct Frames {
    file: File,
    all: Vec<Frame>,
    /// How many bytes it holds.
    pub(crate) bytes: u64,
}

/// Where a frame stands, packed and unpacked.
#[derive(Clone, Copy)]
struct Frame {
    at: u64,
    packed: u32,
    from: u64,
    bytes: u32,
}

impl Frames {
    /// Reads the table. What it says is checked against the file before memory is taken for it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut file = open_regular(path)?;
        let length = file.metadata()?.len();
        let table_end = length.checked_sub(FOOTER_BYTES).ok_or_else(damaged)?;
        file.seek(SeekFrom::Start(table_end))?;
        let mut footer = [0; FOOTER_BYTES as usize];
        file.read_exact(&mut footer)?;
        let [a, b, c, d, descriptor, magic @ ..] = footer;
        if descriptor != 0 || u32::from_le_bytes(magic) != SEEKABLE_MAGIC {
            return Err(damaged());
        }
        let count = u32::from_le_bytes([a, b, c, d]);
        let table_bytes = u64::from(count) * ENTRY_BYTES;
        let frames_end = table_end.checked_sub(table_bytes + HEADER_BYTES).ok_or_else(damaged)?;
        file.seek(SeekFrom::Start(frames_end + HEADER_BYTES))?;
        let mut table = vec![0; usize::try_from(table_bytes).map_err(|_| damaged())?];
        file.read_exact(&mut table)?;
        let (mut at, mut from, mut all) = (0, 0, Vec::with_capacity(count as usize));
        let (numbers, _) = table.as_chunks::<4>();
        for entry in numbers.chunks_exact(2) {
            let [packed, bytes] = entry else { continue };
            let (packed, bytes) = (u32::from_le_bytes(*packed), u32::from_le_bytes(*bytes));
            if bytes as usize > CHUNK_BYTES {
                return Err(damaged());
            }
            all.push(Frame { at, packed, from, bytes });
            at += u64::from(packed);
            from += u64::from(bytes);
        }
        if at != frames_end {
            return Err(damaged());
        }
        Ok(Self { file, all, bytes: from })
    }

    /// Gives everything behind an offset, piece by piece with the offset of each, and returns where it ended.
    pub(crate) fn read(&mut self, from: u64, each: &mut dyn FnMut(u64, &[u8])) -> io::Result<u64> {
        let first = self.all.partition_point(|frame| frame.from + u64::from(frame.bytes) <= from);
        for frame in self.all.get(first..).unwrap_or_default().to_vec() {
            let bytes = self.unpack(frame)?;
            let skipped = usize::try_from(from.saturating_sub(frame.from)).unwrap_or(usize::MAX);
            each(frame.from.max(from), bytes.get(skipped..).unwrap_or_default());
        }
        Ok(self.bytes.max(from))
    }

    /// Returns a span.
    pub(crate) fn span(&mut self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let end = offset.saturating_add(len as u64);
        if len > SPAN_CAP_BYTES || end > self.bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let first = self.all.partition_point(|frame| frame.from + u64::from(frame.bytes) <= offset);
        let mut span = Vec::with_capacity(len);
        for frame in self.all.get(first..).unwrap_or_default().to_vec() {
            if frame.from >= end {
                break;
            }
            let bytes = self.unpack(frame)?;
            let inside = |place: u64| usize::try_from(place.saturating_sub(frame.from)).unwrap_or(usize::MAX);
            span.extend_from_slice(
                bytes.get(inside(offset)..inside(end).min(bytes.len())).unwrap_or_default(),
            );
        }
        Ok(span)
    }

    fn unpack(&mut self, frame: Frame) -> io::Result<Vec<u8>> {
        self.file.seek(SeekFrom::Start(frame.at))?;
        let mut packed = vec![0; frame.packed as usize];
        self.file.read_exact(&mut packed)?;
        let bytes = zstd::bulk::decompress(&packed, frame.bytes as usize)?;
        if bytes.len() == frame.bytes as usize { Ok(bytes) } else { Err(damaged()) }
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not a compressed file of ours, or a damaged one")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A compressed file of bytes that differ everywhere.
    fn file(length: usize) -> (tempfile::TempDir, std::path::PathBuf, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl.zst");
        let content: Vec<u8> = (0..length).map(|at| (at * at % 251) as u8).collect();
        let mut packed = Vec::new();
        assert_eq!(write(&mut content.as_slice(), &mut packed).unwrap(), length as u64);
        std::fs::write(&path, packed).unwrap();
        (folder, path, content)
    }

    #[test]
    fn spans_and_tails_are_those_of_the_original() {
        for length in [0, 1, CHUNK_BYTES, CHUNK_BYTES * 2 + 17] {
            let (_folder, path, content) = file(length);
            let mut frames = Frames::open(&path).unwrap();
            assert_eq!(frames.bytes, length as u64);
            for from in [0, 1, length / 2, CHUNK_BYTES, length, length + 5] {
                let mut all = Vec::new();
                let end = frames.read(from as u64, &mut |at, bytes| {
                    assert_eq!(at, (from + all.len()) as u64);
                    all.extend_from_slice(bytes);
                });
                assert_eq!(all, content.get(from..).unwrap_or_default(), "{length} from {from}");
                assert_eq!(end.unwrap(), length.max(from) as u64);
                for len in [0, 1, 1000, CHUNK_BYTES + 3] {
                    let span = frames.span(from as u64, len).ok();
                    assert_eq!(span.as_deref(), content.get(from..from + len), "{length}: {from}+{len}");
                }
            }
        }
    }

    #[test]
    fn any_zstd_reads_it() {
        let (_folder, path, content) = file(CHUNK_BYTES + 99);
        assert_eq!(zstd::decode_all(File::open(path).unwrap()).unwrap(), content);
    }

    #[test]
    fn damage_is_an_error_and_takes_no_memory() {
        let (_folder, path, _) = file(1000);
        let good = std::fs::read(&path).unwrap();
        for cut in 0..good.len() {
            std::fs::write(&path, &good[..cut]).unwrap();
            assert!(Frames::open(&path).is_err(), "cut at {cut}");
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0xFF;
            std::fs::write(&path, &bad).unwrap();
            // Damage inside a frame may be found only when it is unpacked, or give other bytes of the same length.
            if let Ok(mut frames) = Frames::open(&path) {
                let _ = frames.read(0, &mut |_, _| {});
                let _ = frames.span(10, 900);
            }
        }
    }
}
