//! Compressed files that can be read from any offset and notice every damage: zstd in frames of one size, with checksums
//! and a seek table at the end.
//!
//! The format is Zstandard's own "seekable" one (facebook/zstd, `contrib/seekable_format/zstd_seekable_compression_format.md`,
//! version 0.1.0): `zstd -d` unpacks such a file as any other, and `zstd -t` checks it. A file is
//!
//! 1. its data frames, each with zstd's content checksum;
//! 2. a skippable frame of ours: the CRC-32 of each data frame as stored, then the CRC-32 of everything after the data
//!    frames (except these four bytes). zstd's checksum says that the content is right, but ignores bits that do not
//!    change it; these cover every bit, and the seek table, for which the format has no checksum;
//! 3. the seek table. Its last entry, which holds no content, is the frame of checksums.
//!
//! Files of older versions have no checksums; they are read as well as can be.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Range,
    path::Path,
};

use zstd::{
    bulk::{Compressor, decompress},
    compress_bound,
    zstd_safe::{CParameter, find_frame_compressed_size, get_frame_content_size},
};

use crate::fault;
use crate::read::{CHUNK_BYTES, SPAN_CAP_BYTES, open_regular, read_at};

/// The ending of their names.
pub(crate) const ENDING: &str = "zst";

/// Higher levels save a tenth more at several times the work.
const LEVEL: i32 = 3;
/// Begins the frame of checksums. The format leaves sixteen such numbers to applications.
const CHECKSUMS_MAGIC: u32 = 0x184D_2A5D;
/// Begins the frame of the seek table.
const TABLE_MAGIC: u32 = 0x184D_2A5E;
/// Ends the file.
const SEEKABLE_MAGIC: u32 = 0x8F92_EAB1;
/// Number of frames, descriptor, magic.
const FOOTER_BYTES: u64 = 9;
/// Size of an entry of the seek table: two lengths.
const ENTRY_BYTES: u64 = 8;
/// Magic and length of a skippable frame.
const HEADER_BYTES: u64 = 8;
const CHECKSUM_BYTES: usize = 4;
/// How many lost places an error names; it counts the others.
const NAMED_PLACES: usize = 3;

/// Whether a file of that name is compressed.
pub(crate) fn is_frames(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == ENDING)
}

/// Compresses bytes into such a file.
pub(crate) struct FrameWriter<W> {
    to: W,
    compressor: Compressor<'static>,
    /// Content of the frame that is not full yet.
    chunk: Vec<u8>,
    entries: Vec<u8>,
    checksums: Vec<u8>,
}

impl<W: Write> FrameWriter<W> {
    pub(crate) fn new(to: W) -> io::Result<Self> {
        let mut compressor = Compressor::new(LEVEL)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        Ok(Self { to, compressor, chunk: Vec::new(), entries: Vec::new(), checksums: Vec::new() })
    }

    /// Appends content.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK_BYTES - self.chunk.len()));
            self.chunk.extend_from_slice(now);
            bytes = later;
            if self.chunk.len() == CHUNK_BYTES {
                self.write_frame()?;
            }
        }
        Ok(())
    }

    fn write_frame(&mut self) -> io::Result<()> {
        let packed = self.compressor.compress(&self.chunk)?;
        self.to.write_all(&packed)?;
        self.checksums.extend(crc32fast::hash(&packed).to_le_bytes());
        self.add_entry(packed.len(), self.chunk.len())?;
        self.chunk.clear();
        Ok(())
    }

    fn add_entry(&mut self, packed: usize, bytes: usize) -> io::Result<()> {
        for length in [packed, bytes] {
            self.entries.extend(length_field(length)?);
        }
        Ok(())
    }

    /// Writes what is left and the tables, and returns what was written to.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        if !self.chunk.is_empty() {
            self.write_frame()?;
        }
        let checksums = skippable(CHECKSUMS_MAGIC, &self.checksums, CHECKSUM_BYTES)?;
        self.add_entry(checksums.len() + CHECKSUM_BYTES, 0)?;
        let mut table = skippable(TABLE_MAGIC, &self.entries, FOOTER_BYTES as usize)?;
        table.extend(length_field(self.entries.len() / ENTRY_BYTES as usize)?);
        table.push(0);
        table.extend(SEEKABLE_MAGIC.to_le_bytes());
        self.to.write_all(&checksums)?;
        self.to.write_all(&checksum_of(&[&checksums, &table]).to_le_bytes())?;
        self.to.write_all(&table)?;
        Ok(self.to)
    }
}

/// A skippable frame that begins with this content and has so many bytes more.
fn skippable(magic: u32, content: &[u8], more: usize) -> io::Result<Vec<u8>> {
    let mut frame = magic.to_le_bytes().to_vec();
    frame.extend(length_field(content.len() + more)?);
    frame.extend_from_slice(content);
    Ok(frame)
}

fn length_field(length: usize) -> io::Result<[u8; 4]> {
    Ok(u32::try_from(length).map_err(io::Error::other)?.to_le_bytes())
}

fn checksum_of(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

/// A compressed file with its seek table read.
pub(crate) struct Frames {
    file: File,
    all: Vec<Frame>,
    /// Length of its content, as far as it is found.
    pub(crate) bytes: u64,
    /// Whether the seek table is checked, unchecked or damaged.
    pub(crate) table: Table,
}

/// State of the tables at a file's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// Every bit is covered by a checksum; those of the table are right.
    Checked,
    /// An older version wrote it, without checksums.
    Unchecked,
    /// It is damaged or cut off. The frames are those that can be found without it: all in front of the first one of which
    /// the length cannot be read.
    Damaged,
}

/// A data frame: where it is stored, which part of the content it holds, and its checksum where it has one.
#[derive(Clone, Copy)]
struct Frame {
    at: u64,
    packed: u32,
    from: u64,
    bytes: u32,
    checksum: Option<u32>,
}

impl Frame {
    fn end(&self) -> u64 {
        self.from + u64::from(self.bytes)
    }
}

impl Frames {
    /// Whether a compressed file is one of these, also a damaged one, and not what another program has compressed: that has
    /// no seek table at its end, and larger frames than these, or one alone.
    pub(crate) fn is_archived(path: &Path) -> bool {
        let Ok(mut file) = open_regular(path) else { return false };
        let Ok(length) = file.metadata().map(|metadata| metadata.len()) else { return false };
        let magic = length.checked_sub(SEEKABLE_MAGIC.to_le_bytes().len() as u64);
        if magic
            .is_some_and(|at| read_at(&mut file, at, 4).is_ok_and(|end| end == SEEKABLE_MAGIC.to_le_bytes()))
        {
            return true;
        }
        let first = find_frames(&mut file).unwrap_or_default();
        first.first().is_some_and(|frame| u64::from(frame.packed) < length)
    }

    /// Opens a file, also a damaged one ([`Table::Damaged`]). No memory is taken for what the file cannot hold.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut file = open_regular(path)?;
        let length = file.metadata()?.len();
        let (all, table) = match read_table(&mut file, length) {
            Ok(known) => known,
            Err(error) if is_damage(&error) => (find_frames(&mut file)?, Table::Damaged),
            Err(error) => return Err(error),
        };
        Ok(Self { file, bytes: all.last().map_or(0, Frame::end), all, table })
    }

    /// Passes on the content from an offset on, in pieces with their offsets, and returns the end offset. Lost content
    /// is replaced by white space, so that later content keeps its offset and starts on a new line.
    ///
    /// # Errors
    ///
    /// `InvalidData` with the damaged positions, after all undamaged content was passed on; else where it cannot be read
    /// further.
    pub(crate) fn read(&mut self, from: u64, each: &mut dyn FnMut(u64, &[u8])) -> io::Result<u64> {
        let mut lost: Vec<Range<u64>> = Vec::new();
        let first = self.all.partition_point(|frame| frame.end() <= from);
        for frame in self.all.get(first..).unwrap_or_default().to_vec() {
            let bytes = match self.unpack(frame) {
                Err(error) if is_damage(&error) => {
                    match lost.last_mut().filter(|range| range.end == frame.from) {
                        Some(range) => range.end = frame.end(),
                        None => lost.push(frame.from..frame.end()),
                    }
                    blank(frame.bytes as usize)
                }
                bytes => bytes?,
            };
            let skipped = usize::try_from(from.saturating_sub(frame.from)).unwrap_or(usize::MAX);
            each(frame.from.max(from), bytes.get(skipped..).unwrap_or_default());
        }
        if self.table == Table::Damaged || !lost.is_empty() {
            return Err(self.damage(&lost));
        }
        Ok(self.bytes.max(from))
    }

    /// Returns a span.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof` where the content ends before it does; `InvalidData` where a frame of it is damaged.
    pub(crate) fn span(&mut self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let end = offset.saturating_add(len as u64);
        if len > SPAN_CAP_BYTES || end > self.bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let first = self.all.partition_point(|frame| frame.end() <= offset);
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
        fault::check()?;
        let packed = read_at(&mut self.file, frame.at, frame.packed as usize)?;
        if frame.checksum.is_some_and(|checksum| checksum != crc32fast::hash(&packed)) {
            return Err(damaged("checksum mismatch"));
        }
        let bytes = decompress(&packed, frame.bytes as usize).map_err(|error| damaged(&error.to_string()))?;
        if bytes.len() == frame.bytes as usize { Ok(bytes) } else { Err(damaged("wrong length")) }
    }

    /// The error that names what is damaged.
    fn damage(&self, lost: &[Range<u64>]) -> io::Error {
        let mut what = "damaged archive:".to_owned();
        // Writing into a String has no way to fail.
        if self.table == Table::Damaged {
            let _ = write!(what, " unreadable seek table, {} bytes found without it;", self.bytes);
        }
        for Range { start, end } in lost.iter().take(NAMED_PLACES) {
            let _ = write!(what, " lost bytes {start} to {end} of {};", self.bytes);
        }
        if lost.len() > NAMED_PLACES {
            let _ = write!(what, " {} more places lost;", lost.len() - NAMED_PLACES);
        }
        damaged(&format!("{what} the rest is read"))
    }
}

/// Reads the seek table and the checksums, and compares them with each other and with the file's length.
fn read_table(file: &mut File, length: u64) -> io::Result<(Vec<Frame>, Table)> {
    let wrong = || damaged("no seek table");
    let table_end = length.checked_sub(FOOTER_BYTES).ok_or_else(wrong)?;
    let footer = read_at(file, table_end, FOOTER_BYTES as usize)?;
    let (numbers, _) = footer.as_chunks::<4>();
    let count = numbers.first().map_or(0, |count| u32::from_le_bytes(*count));
    let entry_bytes = u64::from(count) * ENTRY_BYTES;
    let table_at = table_end.checked_sub(entry_bytes + HEADER_BYTES).ok_or_else(wrong)?;
    let table = read_at(file, table_at, usize::try_from(length - table_at).map_err(io::Error::other)?)?;
    let entries = table
        .get(HEADER_BYTES as usize..)
        .and_then(|rest| rest.get(..usize::try_from(entry_bytes).ok()?))
        .ok_or_else(wrong)?;
    let mut whole = skippable(TABLE_MAGIC, entries, FOOTER_BYTES as usize)?;
    whole.extend(count.to_le_bytes());
    whole.push(0);
    whole.extend(SEEKABLE_MAGIC.to_le_bytes());
    if table != whole {
        return Err(wrong());
    }
    let (mut at, mut from, mut all) = (0, 0, Vec::with_capacity(count as usize));
    let (numbers, _) = entries.as_chunks::<4>();
    for entry in numbers.chunks_exact(2) {
        let [packed, bytes] = entry else { continue };
        let (packed, bytes) = (u32::from_le_bytes(*packed), u32::from_le_bytes(*bytes));
        all.push(Frame { at, packed, from, bytes, checksum: None });
        at += u64::from(packed);
        from += u64::from(bytes);
    }
    if at != table_at {
        return Err(wrong());
    }
    let mut state = Table::Unchecked;
    // Either of two marks identifies a file with checksums, so that a single damaged bit cannot hide them.
    if all.last().is_some_and(|last| last.bytes == 0) {
        state = Table::Checked;
        read_checksums(file, &mut all, &table)?;
    } else if let Some(last) = all.last()
        && last.packed >= 4
        && read_at(file, last.at, 4)? == CHECKSUMS_MAGIC.to_le_bytes()
    {
        return Err(wrong());
    }
    let is_ours = |frame: &Frame| {
        (1..=CHUNK_BYTES).contains(&(frame.bytes as usize))
            && frame.packed as usize <= compress_bound(CHUNK_BYTES)
    };
    if all.iter().all(is_ours) { Ok((all, state)) } else { Err(wrong()) }
}

/// Takes the frame of checksums out of the list and gives each data frame its own, if they and the seek table are as they
/// were written.
fn read_checksums(file: &mut File, all: &mut Vec<Frame>, table: &[u8]) -> io::Result<()> {
    let wrong = || damaged("wrong checksums");
    let own = all.pop().ok_or_else(wrong)?;
    if own.packed as usize != HEADER_BYTES as usize + (all.len() + 1) * CHECKSUM_BYTES {
        return Err(wrong());
    }
    let stored = read_at(file, own.at, own.packed as usize)?;
    let (covered, last) = stored.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(wrong)?;
    if u32::from_le_bytes(*last) != checksum_of(&[covered, table]) {
        return Err(wrong());
    }
    let (numbers, _) = covered.get(HEADER_BYTES as usize..).ok_or_else(wrong)?.as_chunks::<CHECKSUM_BYTES>();
    for (frame, number) in all.iter_mut().zip(numbers) {
        frame.checksum = Some(u32::from_le_bytes(*number));
    }
    Ok(())
}

/// Finds data frames from the beginning of a file on, by the lengths that they hold themselves.
fn find_frames(file: &mut File) -> io::Result<Vec<Frame>> {
    let (mut at, mut from, mut all, mut head) = (0, 0, Vec::new(), Vec::new());
    loop {
        file.seek(SeekFrom::Start(at))?;
        head.clear();
        (&*file).take(compress_bound(CHUNK_BYTES) as u64).read_to_end(&mut head)?;
        let (Ok(packed), Ok(Some(bytes))) =
            (find_frame_compressed_size(&head), get_frame_content_size(&head))
        else {
            return Ok(all);
        };
        let (Ok(packed), Ok(bytes)) = (u32::try_from(packed), u32::try_from(bytes)) else { return Ok(all) };
        // A skippable frame, and so the end of the data, has no content.
        if !(1..=CHUNK_BYTES).contains(&(bytes as usize)) {
            return Ok(all);
        }
        all.push(Frame { at, packed, from, bytes, checksum: None });
        at += u64::from(packed);
        from += u64::from(bytes);
    }
}

/// White space that replaces lost content. It begins and ends with a line end, so that the remains of cut lines are
/// lines of their own.
fn blank(length: usize) -> Vec<u8> {
    let mut bytes = vec![b' '; length];
    for end in [0, length.saturating_sub(1)] {
        if let Some(byte) = bytes.get_mut(end) {
            *byte = b'\n';
        }
    }
    bytes
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Whether an error means that content is damaged, not that it cannot be read.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A compressed file of bytes that differ everywhere.
    fn file(length: usize) -> (tempfile::TempDir, std::path::PathBuf, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl.zst");
        let content: Vec<u8> = (0..length).map(|at| (at * at % 251) as u8).collect();
        std::fs::write(&path, packed(&content)).unwrap();
        (folder, path, content)
    }

    fn packed(content: &[u8]) -> Vec<u8> {
        let mut writer = FrameWriter::new(Vec::new()).unwrap();
        // In pieces that end anywhere.
        content.chunks(99_991).for_each(|piece| writer.push(piece).unwrap());
        writer.finish().unwrap()
    }

    /// Lines that differ everywhere, as a transcript has them.
    fn lines(length: usize) -> Vec<u8> {
        let mut content = Vec::new();
        let mut number = 1u64;
        while content.len() < length {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let line =
                format!("{{\"uuid\":\"{number:016x}\",\"text\":\"said in line {}\"}}\n", content.len());
            content.extend(line.bytes());
        }
        content
    }

    /// Reads a whole file: the content, and the error after it.
    fn whole(path: &Path) -> (Vec<u8>, Option<String>) {
        let mut content = Vec::new();
        let end = Frames::open(path).unwrap().read(0, &mut |at, bytes| {
            assert_eq!(at, content.len() as u64);
            content.extend_from_slice(bytes);
        });
        (content, end.err().map(|error| error.to_string()))
    }

    /// Where a frame's content is white space, and not what was written.
    fn lost_frames(read: &[u8], written: &[u8]) -> Vec<usize> {
        assert_eq!(read.len(), written.len(), "what is behind keeps its offset");
        let pairs = read.chunks(CHUNK_BYTES).zip(written.chunks(CHUNK_BYTES)).enumerate();
        let lost = pairs.filter(|(_, (read, written))| read != written);
        lost.map(|(number, (read, _))| {
            assert!(read.trim_ascii().is_empty() && read.starts_with(b"\n") && read.ends_with(b"\n"));
            number
        })
        .collect()
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
    fn each_of_a_thousand_flipped_bits_is_noticed_and_costs_one_frame_at_most() {
        // Small, so that tables and frame headers get their share of the bits; and of several frames.
        for (length, flips) in [(3000, 500), (CHUNK_BYTES * 2 + 5000, 500)] {
            let (_folder, path, _) = file(0);
            let content = lines(length);
            let good = packed(&content);
            for flip in 0..flips {
                // Spread evenly, each time another bit of its byte; the end, where the tables are, has every bit.
                let bits = good.len() * 8;
                let bit = if flip % 2 == 0 { flip * bits / flips + flip % 7 } else { bits - 1 - flip };
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                std::fs::write(&path, &bad).unwrap();
                let (read, error) = whole(&path);
                let error = error.unwrap_or_else(|| panic!("bit {bit} of {bits} is not noticed"));
                let lost = lost_frames(&read, &content);
                assert!(lost.len() <= 1, "bit {bit}: {lost:?} are lost");
                for frame in lost {
                    let place = format!("lost bytes {} to ", frame * CHUNK_BYTES);
                    assert!(error.contains(&place), "bit {bit}, frame {frame}: {error}");
                }
            }
        }
    }

    #[test]
    fn every_bit_of_the_tables_and_of_the_frames_edges_is_covered() {
        let (_folder, path, _) = file(0);
        let content = lines(400);
        let good = packed(&content);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &bad).unwrap();
            assert!(whole(&path).1.is_some(), "bit {bit} of {}", good.len() * 8);
        }
    }

    #[test]
    fn spans_of_a_damaged_frame_are_errors_and_those_of_others_are_not() {
        let (_folder, path, _) = file(0);
        let content = lines(CHUNK_BYTES * 3);
        let mut bad = packed(&content);
        bad[100] ^= 4;
        std::fs::write(&path, &bad).unwrap();
        let mut frames = Frames::open(&path).unwrap();
        assert_eq!(frames.span(10, 20).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(frames.span(CHUNK_BYTES as u64 - 1, 2).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let at = CHUNK_BYTES + 5;
        assert_eq!(frames.span(at as u64, 300).unwrap(), content[at..at + 300]);
    }

    #[test]
    fn a_file_that_is_cut_off_gives_its_whole_frames() {
        let (_folder, path, _) = file(0);
        let content = lines(CHUNK_BYTES * 2 + 1000);
        let good = packed(&content);
        let all = {
            std::fs::write(&path, &good).unwrap();
            Frames::open(&path).unwrap().all
        };
        let lengths = (0..400).map(|step| step * good.len() / 400).chain(good.len() - 100..good.len());
        for length in lengths {
            std::fs::write(&path, &good[..length]).unwrap();
            let frames = all.iter().filter(|frame| frame.at + u64::from(frame.packed) <= length as u64);
            let expected = frames.map(Frame::end).max().unwrap_or(0) as usize;
            let (read, error) = whole(&path);
            assert_eq!(read, content[..expected], "cut at {length}");
            let found = format!("{expected} bytes found");
            assert!(error.is_some_and(|error| error.contains(&found)), "cut at {length}");
        }
    }

    #[test]
    fn what_is_no_archive_takes_no_memory_and_gives_nothing() {
        let (_folder, path, content) = file(1000);
        let good = std::fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0xFF;
            std::fs::write(&path, &bad).unwrap();
            let (read, error) = whole(&path);
            assert!(error.is_some() && (read.is_empty() || lost_frames(&read, &content).len() <= 1), "{at}");
        }
        for text in ["", "nothing of ours", "{\"a\":1}\n"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(whole(&path).0, b"");
        }
    }
}
