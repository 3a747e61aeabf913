//! Construction of segments: several readers build one each concurrently, so that the writer only inserts their blocks.

use std::{cmp::Reverse, path::PathBuf};

use subscope_model::{Millis, SessionId, Text};

use super::{
    ByteSpan, PassageKind,
    block::{BlockWriter, PASSAGES_PER_BLOCK, PassageEntry, PostingsBlock, pack_passages},
};
use crate::{FileIdentity, word::Vocabulary};

/// Postings per segment. Fewer, bigger segments are faster to search and become searchable later. At four bytes each, twice while
/// the segment is sealed, a reader needs 32 MB.
const MAX_POSTINGS: usize = 4 << 20;
/// Distinct words per segment; more would not fit the processor's caches.
const MAX_DISTINCT: usize = 1 << 19;

/// A file to index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Session of the file.
    pub session: SessionId,
    /// State of the file when it was read.
    pub identity: FileIdentity,
}

/// A file, or the part of it that is in one segment.
#[derive(Debug)]
pub(super) struct FilePart {
    pub(super) file: TextFile,
    /// Whether the file begins here: its older passages become invalid.
    pub(super) is_first: bool,
    /// Whether the file ends here: it is indexed completely.
    pub(super) is_last: bool,
}

/// Builds a segment from passages.
#[derive(Debug, Default)]
pub struct SegmentBuilder {
    vocabulary: Vocabulary,
    files: Vec<FilePart>,
    sources: Vec<(u32, Text)>,
    /// Passages in order of addition, each with the start of its words in `words`.
    passages: Vec<(PassageEntry, usize)>,
    words: Vec<u32>,
}

/// A complete segment, ready for [`super::TextIndex::put`].
#[derive(Debug)]
pub struct Segment {
    pub(super) files: Vec<FilePart>,
    /// Index into `files` and agent of each passage source.
    pub(super) sources: Vec<(u32, Text)>,
    pub(super) passages: usize,
    pub(super) newest_s: u64,
    pub(super) passage_blocks: Vec<Vec<u8>>,
    pub(super) postings_blocks: Vec<PostingsBlock>,
}

impl Segment {
    /// Returns the size in bytes of all files that end in this segment.
    pub fn read_bytes(&self) -> u64 {
        self.files.iter().filter(|part| part.is_last).map(|part| part.file.identity.bytes).sum()
    }
}

impl SegmentBuilder {
    /// Begins a file; following passages belong to it.
    pub fn begin(&mut self, file: TextFile) {
        self.files.push(FilePart { file, is_first: true, is_last: false });
    }

    /// Adds a passage of the current file. `agent` is `root`, an agent id, or the spawning call's id where the source has no agent
    /// id; `at_ms` is 0 if unknown.
    pub fn add(&mut self, agent: &str, kind: PassageKind, at_ms: Millis, span: ByteSpan, text: &str) {
        let file = self.files.len().saturating_sub(1) as u32;
        // Nearly all passages of a file have the same agent, so comparing with the last one deduplicates nearly all.
        if self.sources.last().is_none_or(|(of, known)| *of != file || **known != *agent) {
            self.sources.push((file, agent.into()));
        }
        let source = self.sources.len().saturating_sub(1) as u32;
        let at_s = u64::try_from(at_ms / 1000).unwrap_or(0);
        self.passages.push((PassageEntry { at_s, source, kind, span }, self.words.len()));
        self.vocabulary.number(text, &mut self.words);
    }

    /// Marks the current file as read completely.
    pub fn end(&mut self) {
        if let Some(part) = self.files.last_mut() {
            part.is_last = true;
        }
    }

    /// Whether no file was begun.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether [`Self::seal`] should be called before more is added.
    pub fn is_full(&self) -> bool {
        self.words.len() >= MAX_POSTINGS || self.vocabulary.len() >= MAX_DISTINCT
    }

    /// Returns the segment and begins the next one. A file that has not ended continues there.
    pub fn seal(&mut self) -> Segment {
        let open = self.files.last().filter(|part| !part.is_last).map(|part| part.file.clone());
        let continued = open.map(|file| FilePart { file, is_first: false, is_last: false });
        let next = Self { files: continued.into_iter().collect(), ..Self::default() };
        let Self { vocabulary, files, sources, passages, words } = std::mem::replace(self, next);
        // Newest first, so that a search reads no more than it returns.
        let mut order: Vec<usize> = (0..passages.len()).collect();
        let key = |number: &usize| {
            (Reverse(passages.get(*number).map(|(passage, _)| passage.at_s)), Reverse(*number))
        };
        order.sort_unstable_by_key(key);
        let words_of = |number: usize| {
            let from = passages.get(number).map_or(0, |(_, from)| *from);
            let to = passages.get(number + 1).map_or(words.len(), |(_, to)| *to);
            words.get(from..to).unwrap_or_default()
        };
        // Counting sort of doc ids by word: count the words, then append each passage to each of its words.
        let mut ends = vec![0usize; vocabulary.len()];
        for word in &words {
            if let Some(count) = ends.get_mut(*word as usize) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += std::mem::replace(end, sum);
        }
        let mut doc_ids = vec![0u32; words.len()];
        for (doc_id, number) in order.iter().enumerate() {
            for word in words_of(*number) {
                let Some(end) = ends.get_mut(*word as usize) else { continue };
                if let Some(slot) = doc_ids.get_mut(*end) {
                    *slot = doc_id as u32;
                }
                *end += 1;
            }
        }
        let mut writer = BlockWriter::default();
        let letters = vocabulary.words();
        let mut by_letters: Vec<usize> = (0..letters.len()).collect();
        by_letters.sort_unstable_by_key(|word| letters.get(*word));
        for word in by_letters {
            let from = word.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
            let to = ends.get(word).copied().unwrap_or(from);
            let (Some(letters), Some(doc_ids)) = (letters.get(word), doc_ids.get(from..to)) else {
                continue;
            };
            writer.push(letters, doc_ids);
        }
        let sorted: Vec<PassageEntry> =
            order.iter().filter_map(|number| passages.get(*number).map(|(passage, _)| *passage)).collect();
        Segment {
            files,
            sources,
            passages: sorted.len(),
            newest_s: sorted.first().map_or(0, |passage| passage.at_s),
            passage_blocks: sorted.chunks(PASSAGES_PER_BLOCK).map(pack_passages).collect(),
            postings_blocks: writer.finish(),
        }
    }
}
