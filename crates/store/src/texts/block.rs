//! Encoding of postings and passages in blocks.
//!
//! A posting list entry is a word and the ascending doc ids of the passages that contain it, delta-encoded. A segment's entries are
//! sorted by word and cut into blocks that fit one database page; a longer list has an entry in each of several blocks. Passages
//! are cut into blocks of equal count.

use crate::texts::{ByteSpan, PassageKind};

/// Maximum size of a postings block: with SQLite's overhead one page, so that a look-up reads one.
const MAX_BLOCK_BYTES: usize = 4_000;
/// Maximum size of an entry's header and its first doc id, without the word.
const HEADER_BYTES: usize = 16;
/// Passages per block: about a page.
pub(super) const PASSAGES_PER_BLOCK: usize = 256;

/// A block of posting list entries.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PostingsBlock {
    /// Word of the first entry.
    pub(super) word: String,
    /// First doc id of that entry.
    pub(super) first: u32,
    /// The encoded entries.
    pub(super) body: Vec<u8>,
}

/// Encodes posting lists into blocks.
#[derive(Default)]
pub(super) struct BlockWriter {
    word: String,
    first: u32,
    body: Vec<u8>,
    /// Word of the last entry in `body`.
    last_word: String,
    full: Vec<PostingsBlock>,
}

impl BlockWriter {
    /// Adds a word with its ascending doc ids; words must be added in ascending order.
    pub(super) fn push(&mut self, word: &str, mut doc_ids: &[u32]) {
        let mut packed = Vec::new();
        while let Some(first) = doc_ids.first() {
            if self.body.len() + word.len() + HEADER_BYTES > MAX_BLOCK_BYTES {
                self.end_block();
            }
            if self.body.is_empty() {
                word.clone_into(&mut self.word);
                self.first = *first;
                self.last_word.clear();
            }
            let room = MAX_BLOCK_BYTES - self.body.len() - word.len() - HEADER_BYTES;
            packed.clear();
            let (mut last, mut taken) = (0, 0);
            for doc_id in doc_ids {
                // A doc id takes at most five bytes; the first always fits.
                if taken > 0 && packed.len() + 5 > room {
                    break;
                }
                put_varint(&mut packed, u64::from(doc_id - last));
                last = *doc_id;
                taken += 1;
            }
            doc_ids = doc_ids.get(taken..).unwrap_or_default();
            let shared =
                self.last_word.bytes().zip(word.bytes()).take_while(|(one, other)| one == other).count();
            let suffix = word.as_bytes().get(shared..).unwrap_or_default();
            put_varint(&mut self.body, shared as u64);
            put_varint(&mut self.body, suffix.len() as u64);
            self.body.extend_from_slice(suffix);
            put_varint(&mut self.body, packed.len() as u64);
            self.body.extend_from_slice(&packed);
            word.clone_into(&mut self.last_word);
        }
    }

    fn end_block(&mut self) {
        if !self.body.is_empty() {
            let word = std::mem::take(&mut self.word);
            self.full.push(PostingsBlock { word, first: self.first, body: std::mem::take(&mut self.body) });
        }
    }

    /// Returns the full blocks and removes them.
    pub(super) fn take_full(&mut self) -> Vec<PostingsBlock> {
        std::mem::take(&mut self.full)
    }

    /// Returns the remaining blocks; the last may be partly filled.
    pub(super) fn finish(mut self) -> Vec<PostingsBlock> {
        self.end_block();
        self.full
    }
}

/// Decoder of a block's entries, in order. It stops at damaged bytes.
pub(super) struct Entries<'b> {
    rest: &'b [u8],
    word: Vec<u8>,
}

impl<'b> Entries<'b> {
    pub(super) fn new(body: &'b [u8]) -> Self {
        Self { rest: body, word: Vec::new() }
    }

    /// Advances to the next entry and returns its encoded doc ids; [`Entries::word`] is then its word.
    pub(super) fn advance(&mut self) -> Option<&'b [u8]> {
        let shared = usize::try_from(take_varint(&mut self.rest)?).ok()?;
        let own = take_slice(&mut self.rest)?;
        self.word.truncate(shared);
        self.word.extend_from_slice(own);
        take_slice(&mut self.rest)
    }

    pub(super) fn word(&self) -> &[u8] {
        &self.word
    }
}

/// Decodes the doc ids of an entry and appends them.
pub(super) fn unpack_doc_ids(mut packed: &[u8], doc_ids: &mut Vec<u32>) {
    let mut last = 0u32;
    while let Some(delta) = take_varint(&mut packed) {
        last = last.saturating_add(u32::try_from(delta).unwrap_or(u32::MAX));
        doc_ids.push(last);
    }
}

/// A passage of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PassageEntry {
    /// Seconds since 1970; 0 if unknown.
    pub(super) at_s: u64,
    /// File and agent, as a source number within the segment.
    pub(super) source: u32,
    pub(super) kind: PassageKind,
    pub(super) span: ByteSpan,
}

/// Encodes passages, which must be sorted newest first.
pub(super) fn pack_passages(passages: &[PassageEntry]) -> Vec<u8> {
    let mut body = Vec::with_capacity(passages.len() * 12);
    let mut last = passages.first().map_or(0, |passage| passage.at_s);
    put_varint(&mut body, last);
    for passage in passages {
        put_varint(&mut body, last.saturating_sub(passage.at_s));
        last = passage.at_s;
        put_varint(&mut body, u64::from(passage.source));
        body.push(passage.kind as u8);
        put_varint(&mut body, passage.span.start);
        put_varint(&mut body, passage.span.bytes);
    }
    body
}

/// Decodes passages; stops at damaged bytes.
pub(super) fn unpack_passages(mut body: &[u8]) -> Vec<PassageEntry> {
    let mut passages = Vec::with_capacity(PASSAGES_PER_BLOCK);
    let Some(mut at_s) = take_varint(&mut body) else { return passages };
    let mut next = || {
        at_s = at_s.saturating_sub(take_varint(&mut body)?);
        let source = u32::try_from(take_varint(&mut body)?).ok()?;
        let (kind, rest) = body.split_first()?;
        body = rest;
        let kind = PassageKind::ALL.into_iter().find(|known| *known as u8 == *kind)?;
        Some(PassageEntry {
            at_s,
            source,
            kind,
            span: ByteSpan { start: take_varint(&mut body)?, bytes: take_varint(&mut body)? },
        })
    };
    while let Some(passage) = next() {
        passages.push(passage);
    }
    passages
}

/// Appends a number as LEB128: seven bits per byte, lowest first.
fn put_varint(body: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        body.push(value as u8 | 0x80);
        value >>= 7;
    }
    body.push(value as u8);
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let (mut value, mut shift) = (0u64, 0);
    loop {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        shift += 7;
    }
}

/// Takes a length and as many bytes.
fn take_slice<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::try_from(take_varint(rest)?).ok()?;
    let (own, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(blocks: &[PostingsBlock]) -> Vec<(String, Vec<u32>)> {
        let mut all: Vec<(String, Vec<u32>)> = Vec::new();
        for block in blocks {
            let mut entries = Entries::new(&block.body);
            let mut is_first = true;
            while let Some(packed) = entries.advance() {
                let word = String::from_utf8(entries.word().to_vec()).unwrap();
                let mut numbers = Vec::new();
                unpack_doc_ids(packed, &mut numbers);
                if std::mem::take(&mut is_first) {
                    assert_eq!((&block.word, block.first), (&word, numbers[0]));
                }
                match all.last_mut() {
                    Some((last, all)) if *last == word => all.extend(numbers),
                    _ => all.push((word, numbers)),
                }
            }
        }
        all
    }

    #[test]
    fn entries_round_trip_in_blocks_that_fit_a_page() {
        let long: Vec<u32> = (0..20_000).map(|number| number * 3).collect();
        let longest = "y".repeat(256);
        let mut entries: Vec<(String, Vec<u32>)> =
            (0..500).map(|number| (format!("a{number:04}"), vec![number, number + 1_000_000])).collect();
        entries.push(("common".to_owned(), long));
        entries.push(("commons".to_owned(), vec![u32::MAX]));
        entries.push((longest, vec![7]));
        let mut writer = BlockWriter::default();
        entries.iter().for_each(|(word, numbers)| writer.push(word, numbers));
        let mut blocks = writer.take_full();
        blocks.extend(writer.finish());
        assert!(blocks.len() > 5 && blocks.iter().all(|block| block.body.len() <= MAX_BLOCK_BYTES));
        assert_eq!(read(&blocks), entries);
    }

    #[test]
    fn passages_round_trip_and_damage_ends_them() {
        let passage = |at_s: u64, start: u64| PassageEntry {
            at_s,
            source: 3,
            kind: PassageKind::Thought,
            span: ByteSpan { start, bytes: 300 },
        };
        let passages = [passage(1_795_000_000, 1 << 40), passage(1_794_999_000, 5), passage(0, 0)];
        let body = pack_passages(&passages);
        assert_eq!(unpack_passages(&body), passages);
        for cut in 0..body.len() {
            assert!(unpack_passages(&body[..cut]).len() < 3);
        }
        let mut entries = Entries::new(&[9, 200, 1, 2]);
        assert!(entries.advance().is_none());
    }
}
