//! Transcripts that their harness has compressed: one zstd stream, read as what was compressed.
//!
//! Their offsets are those of the content. A harness may compress a file while it is followed: the same content then
//! appears under another path and adds no facts. A file that is still being written ends at the last decodable byte.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
    sync::{Mutex, PoisonError},
};

use subscope_platform::{DeviceInode, modified_ns, open_device_inode};
use zstd::{stream::read::Decoder, zstd_safe::get_frame_content_size};

use crate::{
    frames::{self, Frames},
    read::{CHUNK_BYTES, open_regular},
};

/// The longest header of a frame.
const HEADER_BYTES: u64 = 18;

/// A compressed transcript that is open.
pub(crate) struct Packed {
    decoder: Decoder<'static, io::BufReader<File>>,
    /// Length of the content, as far as it can be read.
    pub(crate) len: u64,
    /// Offset in the content of the decoder's next byte.
    decoded: u64,
    /// Offset in the content of the next read.
    at: u64,
}

/// Whether the file at a path is a compressed transcript of a harness, and none of the archive's.
pub(crate) fn is_packed(path: &Path) -> bool {
    frames::is_frames(path) && !Frames::is_archived(path)
}

impl Packed {
    /// Opens a compressed transcript.
    ///
    /// # Errors
    /// As [`open_regular`].
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut file = open_regular(path)?;
        let len = content_len(&mut file)?;
        Ok(Self { decoder: decoder(file)?, len, decoded: 0, at: 0 })
    }

    /// Goes to the next byte that is read: forward by decoding, backward from the beginning.
    fn reach(&mut self) -> io::Result<()> {
        if self.at < self.decoded {
            let mut file = self.decoder.get_ref().get_ref().try_clone()?;
            file.rewind()?;
            (self.decoder, self.decoded) = (decoder(file)?, 0);
        }
        let ahead = self.at - self.decoded;
        self.decoded += io::copy(&mut (&mut self.decoder).take(ahead), &mut io::sink())?;
        Ok(())
    }
}

/// A file as it was last written: which it is, its length, and the time in nanoseconds.
type FileState = (DeviceInode, u64, i64);

/// Lengths of contents that were found by decoding: a file that has not changed is decoded once for all looks at it.
static KNOWN: Mutex<BTreeMap<FileState, u64>> = Mutex::new(BTreeMap::new());
/// Most lengths that are remembered: 200 KiB.
const MOST_KNOWN: usize = 4096;

fn state(file: &File) -> io::Result<FileState> {
    let metadata = file.metadata()?;
    Ok((open_device_inode(file, &metadata)?, metadata.len(), modified_ns(&metadata)))
}

/// Returns the length of the content, as far as it can be read.
///
/// # Errors
/// Where the file cannot be read.
pub(crate) fn content_len(file: &mut File) -> io::Result<u64> {
    let state = state(file)?;
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(len) = known().get(&state) {
        return Ok(*len);
    }
    let len = decoded_len(file)?;
    let mut known = known();
    if known.len() >= MOST_KNOWN {
        known.clear();
    }
    known.insert(state, len);
    Ok(len)
}

/// Returns the length of the content without keeping it: by the only frame's header, else by decoding.
fn decoded_len(file: &mut File) -> io::Result<u64> {
    let packed = file.metadata()?.len();
    let mut head = Vec::new();
    (&*file).take(HEADER_BYTES).read_to_end(&mut head)?;
    file.rewind()?;
    let mut decoder = decoder(file.try_clone()?)?;
    let (mut chunk, mut len) = (vec![0; CHUNK_BYTES], 0);
    let named = get_frame_content_size(&head).ok().flatten();
    loop {
        match decoder.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => len += count as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // It is cut off, or damaged from here on.
            Err(_) => break,
        }
        // The whole file is one frame whose header has the length of its content.
        if named.is_some_and(|named| named == len) && file.stream_position()? >= packed {
            break;
        }
    }
    file.rewind()?;
    Ok(len)
}

fn decoder(file: File) -> io::Result<Decoder<'static, io::BufReader<File>>> {
    Decoder::new(file)
}

impl Read for Packed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reach()?;
        let count = self.decoder.read(buffer)?;
        self.decoded += count as u64;
        self.at = self.decoded;
        Ok(count)
    }
}

impl Seek for Packed {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _, path::PathBuf};

    use super::*;
    use crate::read::{read_file, read_span};

    const NAME: &str = "rollout-2026-11-21T20-33-53-01a1ffd0-c11c-7d71-9e82-986856b9c6d4.jsonl.zst";

    fn content() -> Vec<u8> {
        (0..700_000_u32)
            .flat_map(|number| format!("{}\n", number.wrapping_mul(2_654_435_761)).into_bytes())
            .collect()
    }

    /// A file as a harness writes it: without a length, with one, and in two frames.
    fn files(folder: &Path, content: &[u8]) -> Vec<PathBuf> {
        let streamed = |part: &[u8]| {
            let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
            part.chunks(1 << 20).for_each(|part| encoder.write_all(part).unwrap());
            encoder.finish().unwrap()
        };
        let half = content.len() / 2;
        let all = [
            streamed(content),
            zstd::bulk::compress(content, 3).unwrap(),
            [streamed(&content[..half]), streamed(&content[half..])].concat(),
        ];
        let write = |(number, bytes): (usize, Vec<u8>)| {
            let at = folder.join(number.to_string());
            fs::create_dir_all(&at).unwrap();
            fs::write(at.join(NAME), bytes).unwrap();
            at.join(NAME)
        };
        all.into_iter().enumerate().map(write).collect()
    }

    #[test]
    fn compressed_transcript_is_read_as_its_content() {
        let folder = tempfile::tempdir().unwrap();
        for content in [content(), b"{}\n".to_vec()] {
            for path in files(folder.path(), &content) {
                assert!(is_packed(&path), "{}", path.display());
                assert_eq!(crate::length(&path).unwrap(), Some(content.len() as u64));
                for from in [0, content.len() / 3, content.len()] {
                    let mut all: Vec<u8> = Vec::new();
                    let end =
                        read_file(&path, from as u64, &mut Vec::new(), &mut |_, bytes| all.extend(bytes));
                    assert_eq!((end.unwrap(), all.len()), (content.len() as u64, content.len() - from));
                    assert!(all == content[from..]);
                }
                let last = content.len() - 2;
                assert_eq!(read_span(&path, last as u64, 2).unwrap(), content[last..]);
                assert_eq!(read_span(&path, 0, 3).unwrap(), content[..3]);
                assert!(read_span(&path, last as u64, 3).is_err());
            }
        }
    }

    #[test]
    fn unchanged_file_is_decoded_once() {
        let folder = tempfile::tempdir().unwrap();
        let content = content();
        let path = &files(folder.path(), &content)[0];
        let written = fs::metadata(path).unwrap();
        assert_eq!(crate::length(path).unwrap(), Some(content.len() as u64));
        // It cannot be decoded any more; only the time of change shows that.
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        (&file).write_all(&vec![0; written.len() as usize]).unwrap();
        file.set_modified(written.modified().unwrap()).unwrap();
        assert_eq!(crate::length(path).unwrap(), Some(content.len() as u64));
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        assert_ne!(crate::length(path).unwrap(), Some(content.len() as u64));
    }

    #[test]
    fn compressed_transcript_that_is_cut_gives_what_can_be_read_and_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let content = content();
        for path in files(folder.path(), &content) {
            let bytes = fs::read(&path).unwrap();
            fs::write(&path, &bytes[..bytes.len() * 2 / 3]).unwrap();
            let mut all = Vec::new();
            let end = read_file(&path, 0, &mut Vec::new(), &mut |_, bytes| all.extend_from_slice(bytes));
            assert!(end.is_err());
            assert!(all.len() > content.len() / 3 && all == content[..all.len()], "{}", all.len());
            assert_eq!(crate::length(&path).unwrap(), Some(all.len() as u64));
        }
    }
}
