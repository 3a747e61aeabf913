//! How words and places are packed.
//!
//! A segment's entries (a word, and the numbers of the passages that have it, rising) follow each other by word and are cut
//! into blocks that fit one page of the database. A word with more numbers than a block holds has an entry in each of
//! several. Passages' places are cut into blocks as well, each with the same count.

use crate::texts::{PassageKind, Span};

/// The size of a block: with what the database adds it is one page, so that a look-up reads one.
const BLOCK_BYTES: usize = 4_000;
/// The most that the front of an entry and its first number take, besides the word's own letters.
const FRONT_BYTES: usize = 16;
/// How many places are one block: about a page.
pub(super) const PLACES: usize = 256;

/// A block of entries on its way into the database.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The word of its first entry.
    pub(super) word: String,
    /// The first number of that entry.
    pub(super) first: u32,
    /// Its entries.
    pub(super) body: Vec<u8>,
}

/// Cuts entries into blocks.
#[derive(Default)]
pub(super) struct BlockWriter {
    word: String,
    first: u32,
    body: Vec<u8>,
    /// The word of the last entry in `body`.
    before: String,
    done: Vec<Block>,
}

impl BlockWriter {
    /// Adds a word that comes after all before it, with its numbers, rising.
    pub(super) fn push(&mut self, word: &str, mut numbers: &[u32]) {
        let mut packed = Vec::new();
        while let Some(first) = numbers.first() {
            if self.body.len() + word.len() + FRONT_BYTES > BLOCK_BYTES {
                self.cut();
            }
            if self.body.is_empty() {
                word.clone_into(&mut self.word);
                self.first = *first;
                self.before.clear();
            }
            let room = BLOCK_BYTES - self.body.len() - word.len() - FRONT_BYTES;
            packed.clear();
            let (mut last, mut taken) = (0, 0);
            for number in numbers {
                // A number takes five bytes at most; the first always has room.
                if taken > 0 && packed.len() + 5 > room {
                    break;
                }
                put(&mut packed, u64::from(number - last));
                last = *number;
                taken += 1;
            }
            numbers = numbers.get(taken..).unwrap_or_default();
            let shared =
                self.before.bytes().zip(word.bytes()).take_while(|(one, other)| one == other).count();
            let rest = word.as_bytes().get(shared..).unwrap_or_default();
            put(&mut self.body, shared as u64);
            put(&mut self.body, rest.len() as u64);
            self.body.extend_from_slice(rest);
            put(&mut self.body, packed.len() as u64);
            self.body.extend_from_slice(&packed);
            word.clone_into(&mut self.before);
        }
    }

    fn cut(&mut self) {
        if !self.body.is_empty() {
            let word = std::mem::take(&mut self.word);
            self.done.push(Block { word, first: self.first, body: std::mem::take(&mut self.body) });
        }
    }

    /// Returns the blocks that are full.
    pub(super) fn take_full(&mut self) -> Vec<Block> {
        std::mem::take(&mut self.done)
    }

    /// Returns the rest, the last block whatever it holds.
    pub(super) fn finish(mut self) -> Vec<Block> {
        self.cut();
        self.done
    }
}

/// Reads the entries of a block, in order. What is damaged ends it.
pub(super) struct Entries<'b> {
    rest: &'b [u8],
    word: Vec<u8>,
}

impl<'b> Entries<'b> {
    pub(super) fn new(body: &'b [u8]) -> Self {
        Self { rest: body, word: Vec::new() }
    }

    /// Steps to the next entry and returns its packed numbers; [`Entries::word`] is then its word.
    pub(super) fn step(&mut self) -> Option<&'b [u8]> {
        let shared = usize::try_from(take(&mut self.rest)?).ok()?;
        let own = cut(&mut self.rest)?;
        self.word.truncate(shared);
        self.word.extend_from_slice(own);
        cut(&mut self.rest)
    }

    pub(super) fn word(&self) -> &[u8] {
        &self.word
    }
}

/// Appends the numbers of an entry.
pub(super) fn unpack(mut packed: &[u8], numbers: &mut Vec<u32>) {
    let mut last = 0u32;
    while let Some(step) = take(&mut packed) {
        last = last.saturating_add(u32::try_from(step).unwrap_or(u32::MAX));
        numbers.push(last);
    }
}

/// Where a passage stands, within a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Seconds since 1970; 0 where no source tells.
    pub(super) at_s: u64,
    /// Whose it is and of which file: a number of the segment's own.
    pub(super) owner: u32,
    pub(super) kind: PassageKind,
    pub(super) span: Span,
}

/// Packs places, the newest first.
pub(super) fn pack_places(places: &[Place]) -> Vec<u8> {
    let mut body = Vec::with_capacity(places.len() * 12);
    let mut last = places.first().map_or(0, |place| place.at_s);
    put(&mut body, last);
    for place in places {
        put(&mut body, last.saturating_sub(place.at_s));
        last = place.at_s;
        put(&mut body, u64::from(place.owner));
        body.push(place.kind as u8);
        put(&mut body, place.span.start);
        put(&mut body, place.span.bytes);
    }
    body
}

/// Unpacks places. What is damaged ends them.
pub(super) fn unpack_places(mut body: &[u8]) -> Vec<Place> {
    let mut places = Vec::with_capacity(PLACES);
    let Some(mut at_s) = take(&mut body) else { return places };
    let mut one = || {
        at_s = at_s.saturating_sub(take(&mut body)?);
        let owner = u32::try_from(take(&mut body)?).ok()?;
        let (kind, rest) = body.split_first()?;
        body = rest;
        let kind = PassageKind::ALL.into_iter().find(|known| *known as u8 == *kind)?;
        Some(Place { at_s, owner, kind, span: Span { start: take(&mut body)?, bytes: take(&mut body)? } })
    };
    while let Some(place) = one() {
        places.push(place);
    }
    places
}

/// Appends a number, seven bits a byte, the lowest first.
fn put(body: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        body.push(value as u8 | 0x80);
        value >>= 7;
    }
    body.push(value as u8);
}

fn take(rest: &mut &[u8]) -> Option<u64> {
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
fn cut<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::try_from(take(rest)?).ok()?;
    let (own, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(blocks: &[Block]) -> Vec<(String, Vec<u32>)> {
        let mut all: Vec<(String, Vec<u32>)> = Vec::new();
        for block in blocks {
            let mut entries = Entries::new(&block.body);
            let mut is_first = true;
            while let Some(packed) = entries.step() {
                let word = String::from_utf8(entries.word().to_vec()).unwrap();
                let mut numbers = Vec::new();
                unpack(packed, &mut numbers);
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
    fn entries_come_back_from_blocks_that_fit_a_page() {
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
        assert!(blocks.len() > 5 && blocks.iter().all(|block| block.body.len() <= BLOCK_BYTES));
        assert_eq!(read(&blocks), entries);
    }

    #[test]
    fn places_come_back_and_damage_ends_them() {
        let place = |at_s: u64, start: u64| Place {
            at_s,
            owner: 3,
            kind: PassageKind::Thought,
            span: Span { start, bytes: 300 },
        };
        let places = [place(1_795_000_000, 1 << 40), place(1_794_999_000, 5), place(0, 0)];
        let body = pack_places(&places);
        assert_eq!(unpack_places(&body), places);
        for cut in 0..body.len() {
            assert!(unpack_places(&body[..cut]).len() < 3);
        }
        let mut entries = Entries::new(&[9, 200, 1, 2]);
        assert!(entries.step().is_none());
    }
}
