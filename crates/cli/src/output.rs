//! Writes to stdout (data) and stderr (everything else).
//!
//! Rust's runtime ignores SIGPIPE, so a closed pipe is an error of the next write. It ends the command without a
//! message: see [`CliError::write`].

use std::{
    io::{self, BufWriter, Write},
    sync::mpsc,
    thread,
};

use serde::Serialize;
use subscope_program::CliError;
pub(crate) use subscope_program::complain;
use subscope_render::safe;

use crate::context::Context;

/// Write buffer size: the default capacity of a Linux pipe. Larger buffers did not print a tree sooner.
const BUFFER_BYTES: usize = 64 << 10;

/// Runs `work` on stdout, which is locked, buffered, and flushed at the end.
pub(crate) fn to_stdout(work: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), CliError> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    work(&mut out).and_then(|()| out.flush()).map_err(|error| CliError::write("stdout", error))
}

/// Bytes of a chunk of [`in_background`].
const CHUNK_BYTES: usize = 256 << 10;
/// Chunks that wait at most: enough that neither side waits for the other at each chunk.
const CHUNKS: usize = 2;

/// Runs `work` with a writer whose bytes `sink` gets in chunks, in order, on a thread of its own.
///
/// # Errors
/// That of the sink, else that of the work.
pub(crate) fn in_background(
    sink: impl FnOnce(mpsc::IntoIter<Vec<u8>>) -> io::Result<()> + Send,
    work: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    thread::scope(|scope| {
        let (sender, chunks) = mpsc::sync_channel(CHUNKS);
        let sunk = scope.spawn(move || sink(chunks.into_iter()));
        let mut out = BufWriter::with_capacity(CHUNK_BYTES, ChunkWriter(sender));
        let worked = work(&mut out).and_then(|()| out.flush());
        // What is left is of a failure.
        let (ChunkWriter(sender), _) = out.into_parts();
        drop(sender);
        // A panic of the sink is a bug of ours: resume it here.
        sunk.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).and(worked)
    })
}

/// Sends what is written, each write as a chunk.
struct ChunkWriter(mpsc::SyncSender<Vec<u8>>);

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a text to stdout and flushes it, holding the lock: texts of several threads do not interleave.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    to_stdout(|out| out.write_all(text.as_bytes()))
}

/// Writes a sanitized line to stdout.
pub(crate) fn print_line(line: &str, context: &Context) -> Result<(), CliError> {
    print(&format!("{}\n", safe::line(line, context.style(None).charset())))
}

/// Writes a value to stdout as one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    to_stdout(|out| {
        let mut out = HarmlessJson::new(out);
        serde_json::to_writer(&mut out, value)?;
        out.write_all(b"\n")
    })
}

/// Escapes JSON lines as [`HarmlessJson`] does.
pub(crate) fn harmless_lines(lines: &str) -> String {
    let mut out = HarmlessJson::new(Vec::new());
    // Writing to memory cannot fail, and the output is valid UTF-8.
    let _ = out.write_all(lines.as_bytes());
    String::from_utf8(out.inner).unwrap_or_default()
}

/// Writer that escapes invisible and terminal-controlling characters in JSON (as `\u202e`, which every JSON parser
/// reads as the same character). JSON itself already escapes controls below U+0020; newlines between documents are
/// kept.
pub(crate) struct HarmlessJson<W> {
    inner: W,
    /// Incomplete UTF-8 sequence at the end of the last write.
    cut: Vec<u8>,
}

impl<W: Write> HarmlessJson<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, cut: Vec::new() }
    }

    fn write_escaped(&mut self, text: &str) -> io::Result<()> {
        let is_escaped = |character: char| character != '\n' && safe::is_hidden(character);
        let (mut written, mut at) = (0, 0);
        while let Some(rest) = text.get(at..) {
            at += plain_bytes(rest.as_bytes());
            let Some(character) = text.get(at..).and_then(|rest| rest.chars().next()) else { break };
            let end = at + character.len_utf8();
            if is_escaped(character) {
                self.inner.write_all(text.get(written..at).unwrap_or_default().as_bytes())?;
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(self.inner, "\\u{unit:04x}")?;
                }
                written = end;
            }
            at = end;
        }
        self.inner.write_all(text.get(written..).unwrap_or_default().as_bytes())
    }
}

/// Returns how many bytes at the start are printable ASCII or newlines, of which none is hidden: nearly all of what is
/// written.
fn plain_bytes(bytes: &[u8]) -> usize {
    let is_plain = |byte: &u8| (b' '..=b'~').contains(byte) || *byte == b'\n';
    // Without a branch for each byte, so that the compiler makes it one instruction for many.
    let are_plain = |chunk: &&[u8]| chunk.iter().fold(true, |all, byte| all & is_plain(byte));
    let whole = bytes.chunks_exact(64).take_while(are_plain).count() * 64;
    whole + bytes.get(whole..).unwrap_or_default().iter().take_while(|byte| is_plain(byte)).count()
}

impl<W: Write> Write for HarmlessJson<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let whole;
        let all = if self.cut.is_empty() {
            bytes
        } else {
            self.cut.extend_from_slice(bytes);
            whole = std::mem::take(&mut self.cut);
            &whole
        };
        let wrong = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        match std::str::from_utf8(all) {
            Ok(text) => self.write_escaped(text)?,
            Err(error) if error.error_len().is_none() => {
                let (text, cut) = all.split_at(error.valid_up_to());
                self.write_escaped(std::str::from_utf8(text).map_err(wrong)?)?;
                self.cut = cut.to_vec();
            }
            Err(error) => return Err(wrong(error)),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn background_gets_all_bytes_in_order_and_its_error_counts() {
        let text: Vec<u8> = (0..3 * CHUNK_BYTES + 7).map(|at| (at % 251) as u8).collect();
        let mut all = Vec::new();
        let mut work = |out: &mut dyn Write| text.chunks(1_000).try_for_each(|piece| out.write_all(piece));
        let take = |chunks: mpsc::IntoIter<Vec<u8>>| {
            chunks.for_each(|chunk| all.extend(chunk));
            Ok(())
        };
        in_background(take, &mut work).unwrap();
        assert_eq!(all, text);
        let failed = in_background(|_| Err(io::ErrorKind::StorageFull.into()), &mut work);
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        let drop_all = |chunks: mpsc::IntoIter<Vec<u8>>| {
            chunks.for_each(drop);
            Ok(())
        };
        let failed = in_background(drop_all, &mut |_| Err(io::ErrorKind::Other.into()));
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::Other);
    }

    #[test]
    fn harmless_json_means_the_same_and_shows_everything() {
        let text = "a\u{202e}b\u{7f}c\u{9b}2J \u{e0041} \u{1b}[2J caf\u{e9} \u{65e5} \u{1f389}";
        let json = serde_json::to_string(text).unwrap();
        for size in 1..json.len() {
            let mut out = HarmlessJson::new(Vec::new());
            for piece in json.as_bytes().chunks(size) {
                out.write_all(piece).unwrap();
            }
            let written = String::from_utf8(out.inner).unwrap();
            assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
            assert!(!written.contains(safe::is_hidden), "{written:?}");
            assert!(written.contains("caf\u{e9} \u{65e5} \u{1f389}"), "{written}");
        }
    }
}
