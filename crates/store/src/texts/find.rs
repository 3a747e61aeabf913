//! Search: a cursor per segment intersects the posting lists of all words; the segments are merged newest passage first. Passages
//! older than the last hit are not read.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OptionalExtension, params};
use subscope_model::{SessionId, Text};

use super::{
    Hit, TextQuery,
    block::{Entries, PASSAGES_PER_BLOCK, PassageEntry, unpack_doc_ids, unpack_passages},
    row_no,
};

/// A word of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueryTerm {
    word: String,
    /// Whether it matches all words that begin with it.
    is_prefix: bool,
}

/// Tokenizes a query; words without letters and digits are left out.
pub(super) fn tokenize(query: &TextQuery) -> Vec<QueryTerm> {
    let terms = |term: &String| {
        let words = crate::words(term);
        let last = words.len().saturating_sub(1);
        let is_prefix = move |at: usize| at == last && term.ends_with('*');
        words
            .into_iter()
            .enumerate()
            .map(|(at, word)| QueryTerm { word, is_prefix: is_prefix(at) })
            .collect::<Vec<_>>()
    };
    query.words.iter().flat_map(terms).collect()
}

/// Returns the newest passages that contain all terms.
pub(super) fn find(db: &Connection, terms: &[QueryTerm], query: &TextQuery) -> rusqlite::Result<Vec<Hit>> {
    let mut cursors = open_cursors(db)?;
    let only = query.session.as_ref().map(|session| sources_of(db, session)).transpose()?;
    if let Some(only) = &only {
        // Most segments have no passage of a given session.
        let has_any = |segment: i64| only.range(row_no(segment, 0)..row_no(segment + 1, 0)).next().is_some();
        cursors.retain(|cursor| has_any(cursor.segment));
    }
    let mut hits = Vec::new();
    while hits.len() < query.limit {
        // Of equal times the segment that was written last comes first.
        let Some(cursor) = cursors.iter_mut().max_by_key(|cursor| (cursor.newest_s, cursor.segment)) else {
            break;
        };
        hits.extend(cursor.hit.take());
        if !cursor.advance(db, terms, only.as_ref())? {
            let segment = cursor.segment;
            cursors.retain(|cursor| cursor.segment != segment);
        }
    }
    Ok(hits)
}

/// Position of a search in a segment.
struct SegmentCursor {
    segment: i64,
    /// Upper bound of the times of its remaining passages.
    newest_s: u64,
    /// A cursor per term; `None` before the first step.
    postings: Option<Vec<PostingsCursor>>,
    /// Lowest doc id that was not tested.
    next: u32,
    /// Found, not returned yet.
    hit: Option<Hit>,
    /// Number and content of the last passage block.
    passages: (u32, Vec<PassageEntry>),
    sources: HashMap<u32, Option<PassageSource>>,
}

/// File, session and agent of passages.
#[derive(Clone)]
struct PassageSource {
    agent: Text,
    path: PathBuf,
    session: SessionId,
}

/// Returns the row numbers of all passage sources of a session.
fn sources_of(db: &Connection, session: &SessionId) -> rusqlite::Result<BTreeSet<i64>> {
    let mut statement =
        db.prepare_cached("SELECT o.no FROM files f JOIN owners o ON o.file_no = f.no WHERE f.session = ?1")?;
    let rows = statement.query_map([session.as_str()], |row| row.get(0))?;
    rows.collect()
}

fn open_cursors(db: &Connection) -> rusqlite::Result<Vec<SegmentCursor>> {
    let mut statement = db.prepare_cached("SELECT no, newest_s FROM segments")?;
    let rows = statement.query_map([], |row| {
        Ok(SegmentCursor {
            segment: row.get(0)?,
            newest_s: row.get::<_, i64>(1)?.unsigned_abs(),
            postings: None,
            next: 0,
            hit: None,
            passages: (u32::MAX, Vec::new()),
            sources: HashMap::new(),
        })
    })?;
    rows.collect()
}

impl SegmentCursor {
    /// Advances to the next hit, restricted to the sources in `only` if given. Returns whether there is one.
    fn advance(
        &mut self,
        db: &Connection,
        terms: &[QueryTerm],
        only: Option<&BTreeSet<i64>>,
    ) -> rusqlite::Result<bool> {
        let mut postings = match self.postings.take() {
            Some(postings) => postings,
            None => {
                let open = |term| PostingsCursor::new(db, self.segment, term);
                terms.iter().map(open).collect::<Result<_, _>>()?
            }
        };
        let mut found = None;
        while let Some(doc_id) = intersect(db, &mut postings, self.next)? {
            self.next = doc_id.saturating_add(1);
            let Some(passage) = self.passage(db, doc_id)? else { continue };
            if only.is_some_and(|only| !only.contains(&row_no(self.segment, passage.source))) {
                continue;
            }
            if let Some(source) = self.source(db, passage.source)? {
                found = Some((passage, source));
                break;
            }
        }
        self.postings = Some(postings);
        let Some((passage, source)) = found else { return Ok(false) };
        self.newest_s = passage.at_s;
        self.hit = Some(Hit {
            session: source.session,
            agent: source.agent,
            kind: passage.kind,
            at_ms: i64::try_from(passage.at_s).unwrap_or(0).saturating_mul(1000),
            path: source.path,
            span: passage.span,
        });
        Ok(true)
    }

    fn passage(&mut self, db: &Connection, doc_id: u32) -> rusqlite::Result<Option<PassageEntry>> {
        let block = doc_id / PASSAGES_PER_BLOCK as u32;
        if self.passages.0 != block {
            let body: Option<Vec<u8>> = db
                .prepare_cached("SELECT body FROM places WHERE no = ?1")?
                .query_row([row_no(self.segment, block)], |row| row.get(0))
                .optional()?;
            self.passages = (block, body.as_deref().map(unpack_passages).unwrap_or_default());
        }
        Ok(self.passages.1.get(doc_id as usize % PASSAGES_PER_BLOCK).copied())
    }

    /// Returns a passage source; `None` if its file was indexed again since, or forgotten.
    fn source(&mut self, db: &Connection, source: u32) -> rusqlite::Result<Option<PassageSource>> {
        use std::os::unix::ffi::OsStrExt;
        if let Some(known) = self.sources.get(&source) {
            return Ok(known.clone());
        }
        let found = db
            .prepare_cached(
                "SELECT agent, path, session FROM owners o JOIN files f ON f.no = o.file_no WHERE o.no = ?1",
            )?
            .query_row([row_no(self.segment, source)], |row| {
                let (agent, path, session): (String, Vec<u8>, String) =
                    (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(PassageSource {
                    agent: agent.as_str().into(),
                    path: Path::new(std::ffi::OsStr::from_bytes(&path)).to_owned(),
                    session: SessionId(session.as_str().into()),
                })
            })
            .optional()?;
        self.sources.insert(source, found.clone());
        Ok(found)
    }
}

/// Returns the lowest doc id, from `least` on, that all posting lists contain.
fn intersect(db: &Connection, postings: &mut [PostingsCursor], least: u32) -> rusqlite::Result<Option<u32>> {
    let mut target = least;
    loop {
        let before = target;
        for cursor in &mut *postings {
            let Some(doc_id) = cursor.seek(db, target)? else { return Ok(None) };
            target = doc_id;
        }
        // If a cursor advanced, the cursors before it must catch up.
        if target == before || postings.len() == 1 {
            return Ok(Some(target));
        }
    }
}

/// Position in a word's posting list in a segment, which is read block by block.
struct PostingsCursor {
    segment: i64,
    word: String,
    /// Ascending doc ids of the current block, and the position in them.
    doc_ids: Vec<u32>,
    position: usize,
    /// The current block; `None` before the first.
    block: Option<i64>,
    is_at_end: bool,
}

impl PostingsCursor {
    fn new(db: &Connection, segment: i64, term: &QueryTerm) -> rusqlite::Result<Self> {
        let word = term.word.clone();
        let mut cursor =
            Self { segment, word, doc_ids: Vec::new(), position: 0, block: None, is_at_end: false };
        if term.is_prefix {
            cursor.read_prefix(db)?;
        }
        Ok(cursor)
    }

    /// Advances to the first doc id that is at least `target`.
    fn seek(&mut self, db: &Connection, target: u32) -> rusqlite::Result<Option<u32>> {
        loop {
            let ahead = self.doc_ids.get(self.position..).unwrap_or_default();
            self.position += ahead.partition_point(|doc_id| *doc_id < target);
            if let Some(doc_id) = self.doc_ids.get(self.position) {
                return Ok(Some(*doc_id));
            }
            if self.is_at_end {
                return Ok(None);
            }
            self.read_block(db, target)?;
        }
    }

    /// Reads the entry that may contain a doc id: it is in the last block that begins before it, or the first of the next block.
    fn read_block(&mut self, db: &Connection, target: u32) -> rusqlite::Result<()> {
        let (found, current) = (find_block(db, self.segment, &self.word, target)?, self.block);
        let first = match (found, current) {
            (Some(found), Some(current)) => found.max(current + 1),
            (Some(found), None) => found,
            (None, _) => row_no(self.segment, 0),
        };
        let is_new = current.is_none();
        self.doc_ids.clear();
        self.position = 0;
        for block in [Some(first), is_new.then_some(first + 1)].into_iter().flatten() {
            let Some(body) = block_body(db, self.segment, block)? else { break };
            let mut entries = Entries::new(&body);
            while let Some(packed) = entries.advance() {
                match entries.word().cmp(self.word.as_bytes()) {
                    std::cmp::Ordering::Less => {}
                    std::cmp::Ordering::Equal => unpack_doc_ids(packed, &mut self.doc_ids),
                    std::cmp::Ordering::Greater => break,
                }
            }
            if !self.doc_ids.is_empty() {
                self.block = Some(block);
                return Ok(());
            }
        }
        self.is_at_end = true;
        Ok(())
    }

    /// Reads the doc ids of all words that begin with this one.
    fn read_prefix(&mut self, db: &Connection) -> rusqlite::Result<()> {
        self.is_at_end = true;
        let mut block = find_block(db, self.segment, &self.word, 0)?.unwrap_or(row_no(self.segment, 0));
        'blocks: while let Some(body) = block_body(db, self.segment, block)? {
            let mut entries = Entries::new(&body);
            while let Some(packed) = entries.advance() {
                if entries.word().starts_with(self.word.as_bytes()) {
                    unpack_doc_ids(packed, &mut self.doc_ids);
                } else if entries.word() > self.word.as_bytes() {
                    break 'blocks;
                }
            }
            block += 1;
        }
        self.doc_ids.sort_unstable();
        self.doc_ids.dedup();
        Ok(())
    }
}

/// Returns the last block of a segment that begins at or before this word and doc id.
fn find_block(db: &Connection, segment: i64, word: &str, doc_id: u32) -> rusqlite::Result<Option<i64>> {
    db.prepare_cached(
        "SELECT block FROM heads WHERE segment = ?1 AND (word, first) <= (?2, ?3)
         ORDER BY word DESC, first DESC LIMIT 1",
    )?
    .query_row(params![segment, word, doc_id], |row| row.get(0))
    .optional()
}

fn block_body(db: &Connection, segment: i64, block: i64) -> rusqlite::Result<Option<Vec<u8>>> {
    if block >> 32 != segment {
        return Ok(None);
    }
    db.prepare_cached("SELECT body FROM blocks WHERE no = ?1")?
        .query_row([block], |row| row.get(0))
        .optional()
}
