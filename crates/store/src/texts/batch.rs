//! Batches of passages: several readers tokenize concurrently, so that the writer only inserts.

use std::{ops::Range, path::PathBuf};

use subscope_model::{Millis, SessionId, Text};

use super::{ByteSpan, PassageKind};
use crate::{FileIdentity, word::DistinctWords};

/// Size of the words of a batch in bytes. The writer waits for the first batches, and needs some three times as much
/// memory to insert one; each batch is a segment of FTS5.
const MAX_BYTES: usize = 8 << 20;

/// A file to index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Session of its lines that name none.
    pub session: SessionId,
    /// State of the file when it was read.
    pub identity: FileIdentity,
}

/// A session's part of a file, or that of it that is in one batch.
#[derive(Debug)]
pub(super) struct FilePart {
    pub(super) file: TextFile,
    /// Whether the file begins here: its older passages, of all sessions, become those of a former file.
    pub(super) is_first: bool,
    /// Whether nothing that the file had before is kept.
    pub(super) is_anew: bool,
    /// Whether the file ends here: it is indexed completely.
    pub(super) is_last: bool,
}

/// A passage of a batch.
#[derive(Debug)]
pub(super) struct NewPassage {
    /// Index of its part of a file in the batch.
    pub(super) file: usize,
    pub(super) agent: Text,
    pub(super) kind: PassageKind,
    /// Its tool; empty if it belongs to no call.
    pub(super) tool: Text,
    pub(super) failed: bool,
    /// Seconds since 1970; 0 if unknown.
    pub(super) at_s: i64,
    pub(super) span: ByteSpan,
    words: Range<usize>,
}

/// A passage to add to a batch.
#[derive(Clone, Copy, Debug)]
pub struct Passage<'a> {
    /// The session that its line names; `None` for that of the file.
    pub session: Option<&'a str>,
    /// `root`, an agent id, or the spawning call's id where the source has no agent id.
    pub agent: &'a str,
    /// Kind of the passage.
    pub kind: PassageKind,
    /// The tool, for arguments and results; empty otherwise.
    pub tool: &'a str,
    /// Whether it is the result of a failed or denied call.
    pub failed: bool,
    /// Time; 0 if unknown.
    pub at_ms: Millis,
    /// Its JSON text in the file.
    pub span: ByteSpan,
}

/// Passages to index, with their files.
#[derive(Debug, Default)]
pub struct PassageBatch {
    pub(super) files: Vec<FilePart>,
    /// Index of the first part of the current file.
    current: usize,
    pub(super) passages: Vec<NewPassage>,
    /// The words of all passages, each followed by a space.
    words: String,
    distinct: DistinctWords,
}

impl PassageBatch {
    /// Begins a file; following passages belong to it.
    pub fn begin(&mut self, file: TextFile) {
        self.current = self.files.len();
        self.files.push(FilePart { file, is_first: true, is_anew: false, is_last: false });
    }

    /// Begins a file of which nothing that it had before is kept; following passages belong to it.
    pub fn begin_anew(&mut self, file: TextFile) {
        self.current = self.files.len();
        self.files.push(FilePart { file, is_first: true, is_anew: true, is_last: false });
    }

    /// Adds a passage of the current file; ignores one without words.
    pub fn add(&mut self, passage: &Passage<'_>, text: &str) {
        let Passage { session, agent, kind, tool, failed, at_ms, span } = *passage;
        let start = self.words.len();
        self.distinct.append(text, &mut self.words);
        if self.words.len() == start {
            return;
        }
        // Nearly all passages of a file have the same agent.
        let last = self.passages.last();
        let same = |known: Option<&Text>, text: &str| known.filter(|known| ***known == *text).cloned();
        let agent = same(last.map(|passage| &passage.agent), agent).unwrap_or_else(|| agent.into());
        let tool = same(last.map(|passage| &passage.tool), tool).unwrap_or_else(|| tool.into());
        let (file, at_s) = (self.part_of(session), (at_ms / 1000).max(0));
        self.passages.push(NewPassage {
            file,
            agent,
            kind,
            tool,
            failed,
            at_s,
            span,
            words: start..self.words.len(),
        });
    }

    /// Returns the index of a session's part of the current file, which is begun if it is missing.
    fn part_of(&mut self, session: Option<&str>) -> usize {
        let own = self.files.get(self.current..).unwrap_or_default();
        let is_of = |part: &FilePart| session.is_none_or(|session| part.file.session.as_str() == session);
        if let Some(at) = own.iter().position(is_of) {
            return self.current + at;
        }
        let new = own
            .first()
            .zip(session)
            .map(|(first, session)| TextFile { session: session.into(), ..first.file.clone() });
        self.files.extend(new.map(|file| FilePart { file, is_first: false, is_anew: false, is_last: false }));
        self.files.len().saturating_sub(1)
    }

    /// Marks the current file as read completely.
    pub fn end(&mut self) {
        self.files.iter_mut().skip(self.current).for_each(|part| part.is_last = true);
    }

    /// Gives up the current file: it is not indexed, and what was indexed of it before stays.
    pub fn abort(&mut self) {
        let Some(part) = self.files.pop() else { return };
        let file = self.files.len();
        let own =
            self.passages.iter().position(|passage| passage.file == file).unwrap_or(self.passages.len());
        if let Some(first) = self.passages.get(own) {
            self.words.truncate(first.words.start);
        }
        self.passages.truncate(own);
        if !part.is_first {
            // Parts of it are written: they are replaced when it is read again.
            self.files.push(part);
        }
    }

    /// Whether no file was begun.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether [`Self::take`] should be called before more is added.
    pub fn is_full(&self) -> bool {
        self.words.len() >= MAX_BYTES
    }

    /// Returns the batch and begins the next one. A file that has not ended continues there.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let open = self.files.iter().skip(self.current).filter(|part| !part.is_last);
        let continued = open.map(|part| FilePart {
            file: part.file.clone(),
            is_first: false,
            is_anew: false,
            is_last: false,
        });
        let next = Self { files: continued.collect(), ..Self::default() };
        std::mem::replace(self, next)
    }

    /// Returns the size in bytes of all files that end in this batch.
    pub fn read_bytes(&self) -> u64 {
        let ended = self.files.iter().enumerate().filter(|(_, part)| part.is_last);
        let is_new = |at: usize, part: &FilePart| {
            self.files.get(at.wrapping_sub(1)).is_none_or(|before| before.file.path != part.file.path)
        };
        ended.filter(|(at, part)| is_new(*at, part)).map(|(_, part)| part.file.identity.bytes).sum()
    }

    /// Returns the words of a passage, separated by spaces.
    pub(super) fn words(&self, passage: &NewPassage) -> &str {
        self.words.get(passage.words.clone()).unwrap_or_default()
    }
}
