//! Words of files on their way into the index. Readers fill batches side by side; each becomes a segment, and whoever writes
//! has only to put its blocks down.

use std::{cmp::Reverse, path::PathBuf};

use subscope_model::{Millis, SessionId, Text};

use super::{
    PassageKind, Span,
    block::{Block, BlockWriter, PLACES, Place, pack_places},
};
use crate::{Identity, word::Vocabulary};

/// How many words of passages a batch holds. Fewer, bigger segments are faster to search and take longer until they can be
/// searched; at four bytes each, twice while it is sealed, this is 32 MB a reader.
const MOST_WORDS: usize = 4 << 20;
/// How many different words: beyond that they no longer fit the processor's caches.
const MOST_DIFFERENT: usize = 1 << 19;

/// A file whose words are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFile {
    /// Where it stands.
    pub path: PathBuf,
    /// Its session.
    pub session: SessionId,
    /// How it stood when it was read.
    pub identity: Identity,
}

/// A file, or what of it stands in a segment.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) file: TextFile,
    /// Whether it begins here: what was known of the file is void then.
    pub(super) is_first: bool,
    /// Whether it ends here, so that it need not be read again.
    pub(super) is_last: bool,
}

/// Gathers words.
#[derive(Debug, Default)]
pub struct TextBatch {
    vocabulary: Vocabulary,
    files: Vec<Part>,
    owners: Vec<(u32, Text)>,
    /// Places in the order in which they came, each with where its words begin in `words`.
    places: Vec<(Place, usize)>,
    words: Vec<u32>,
}

/// A sealed batch.
#[derive(Debug)]
pub struct Segment {
    pub(super) files: Vec<Part>,
    /// Place in `files`, and whose.
    pub(super) owners: Vec<(u32, Text)>,
    pub(super) passages: usize,
    pub(super) newest_s: u64,
    pub(super) places: Vec<Vec<u8>>,
    pub(super) blocks: Vec<Block>,
}

impl Segment {
    /// Returns how many bytes of files are read with it to their end.
    pub fn read_bytes(&self) -> u64 {
        self.files.iter().filter(|part| part.is_last).map(|part| part.file.identity.bytes).sum()
    }
}

impl TextBatch {
    /// Begins a file: what is added from now on stands in it.
    pub fn begin(&mut self, file: TextFile) {
        self.files.push(Part { file, is_first: true, is_last: false });
    }

    /// Adds a passage of the file in hand. `agent` is `root`, an agent's id, or the spawn call that its wire has in place of
    /// one; `at_ms` is 0 where no source tells.
    pub fn add(&mut self, agent: &str, kind: PassageKind, at_ms: Millis, span: Span, text: &str) {
        let file = self.files.len().saturating_sub(1) as u32;
        // A file's passages are nearly all of one agent, so that looking back one step finds nearly all.
        if self.owners.last().is_none_or(|(of, known)| *of != file || **known != *agent) {
            self.owners.push((file, agent.into()));
        }
        let owner = self.owners.len().saturating_sub(1) as u32;
        let at_s = u64::try_from(at_ms / 1000).unwrap_or(0);
        self.places.push((Place { at_s, owner, kind, span }, self.words.len()));
        self.vocabulary.number(text, &mut self.words);
    }

    /// Says that the file in hand is read to its end.
    pub fn end(&mut self) {
        if let Some(part) = self.files.last_mut() {
            part.is_last = true;
        }
    }

    /// Whether nothing of any file is in it.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether it should be sealed before more is added.
    pub fn is_full(&self) -> bool {
        self.words.len() >= MOST_WORDS || self.vocabulary.len() >= MOST_DIFFERENT
    }

    /// Makes a segment of what was added, and begins anew. A file that has not ended goes on in what is added next.
    pub fn seal(&mut self) -> Segment {
        let open = self.files.last().filter(|part| !part.is_last).map(|part| part.file.clone());
        let goes_on = open.map(|file| Part { file, is_first: false, is_last: false });
        let next = Self { files: goes_on.into_iter().collect(), ..Self::default() };
        let Self { vocabulary, files, owners, places, words } = std::mem::replace(self, next);
        // The newest come first, so that a search reads what it shows and no more.
        let mut order: Vec<usize> = (0..places.len()).collect();
        let key =
            |number: &usize| (Reverse(places.get(*number).map(|(place, _)| place.at_s)), Reverse(*number));
        order.sort_unstable_by_key(key);
        let of_passage = |number: usize| {
            let from = places.get(number).map_or(0, |(_, from)| *from);
            let to = places.get(number + 1).map_or(words.len(), |(_, to)| *to);
            words.get(from..to).unwrap_or_default()
        };
        // Passages by word: words are counted, then each passage goes to the next place of each of its words.
        let mut ends = vec![0usize; vocabulary.len()];
        for word in &words {
            if let Some(count) = ends.get_mut(*word as usize) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for place in &mut ends {
            sum += std::mem::replace(place, sum);
        }
        let mut passages = vec![0u32; words.len()];
        for (rank, number) in order.iter().enumerate() {
            for word in of_passage(*number) {
                let Some(end) = ends.get_mut(*word as usize) else { continue };
                if let Some(passage) = passages.get_mut(*end) {
                    *passage = rank as u32;
                }
                *end += 1;
            }
        }
        let mut writer = BlockWriter::default();
        let letters = vocabulary.words();
        let mut sorted: Vec<usize> = (0..letters.len()).collect();
        sorted.sort_unstable_by_key(|word| letters.get(*word));
        for word in sorted {
            let from = word.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
            let to = ends.get(word).copied().unwrap_or(from);
            let (Some(letters), Some(passages)) = (letters.get(word), passages.get(from..to)) else {
                continue;
            };
            writer.push(letters, passages);
        }
        let ranked: Vec<Place> =
            order.iter().filter_map(|number| places.get(*number).map(|(place, _)| *place)).collect();
        Segment {
            files,
            owners,
            passages: ranked.len(),
            newest_s: ranked.first().map_or(0, |place| place.at_s),
            places: ranked.chunks(PLACES).map(pack_places).collect(),
            blocks: writer.finish(),
        }
    }
}
