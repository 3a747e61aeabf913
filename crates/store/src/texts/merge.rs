//! Merges of segments of similar size, so that a search has few to visit. Invalid passages (their file was indexed again, or
//! forgotten) are left out.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use rusqlite::{Connection, Transaction, params};
use subscope_model::Text;

use super::{
    block::{
        BlockWriter, Entries, PASSAGES_PER_BLOCK, PassageEntry, pack_passages, unpack_doc_ids,
        unpack_passages,
    },
    row_no, write_block,
};

/// Segments of similar size that start a merge. Each costs a search some ten microseconds; the first index of some gigabytes ends
/// with at most one merge.
const MERGE_FACTOR: usize = 64;
/// Maximum number of passages per merge, which needs some 50 bytes of memory each.
const MAX_PASSAGES: i64 = 1 << 20;

/// Merges until no size tier is full.
pub(super) fn merge_due(db: &mut Connection) -> rusqlite::Result<()> {
    loop {
        let mut tiers: [Vec<(i64, i64)>; 2 * u64::BITS as usize] = std::array::from_fn(|_| Vec::new());
        let mut statement = db.prepare_cached("SELECT no, passages FROM segments ORDER BY passages, no")?;
        let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
        for row in rows {
            let (segment, passages) = row?;
            let tier = passages.unsigned_abs().max(1).ilog(MERGE_FACTOR as u64);
            if let Some(tier) = tiers.get_mut(tier as usize) {
                tier.push((segment, passages));
            }
        }
        drop(statement);
        let Some(due) = tiers.iter().find(|tier| tier.len() >= MERGE_FACTOR) else { return Ok(()) };
        let mut sum = 0;
        let smallest = due.iter().take_while(|(_, passages)| {
            sum += passages;
            sum <= MAX_PASSAGES
        });
        let segments: Vec<i64> = smallest.map(|(segment, _)| *segment).collect();
        if segments.len() < 2 {
            return Ok(());
        }
        let transaction = db.transaction()?;
        merge(&transaction, &segments)?;
        transaction.commit()?;
    }
}

/// Replaces segments by one with their valid passages; by none if no passage is valid.
pub(super) fn merge(db: &Transaction<'_>, segments: &[i64]) -> rusqlite::Result<()> {
    let mut sources = Vec::new();
    // Surviving passages: with the new source number, origin segment, origin doc id.
    let mut kept: Vec<(PassageEntry, u32, u32)> = Vec::new();
    // New doc ids by origin segment and origin doc id.
    let mut new_ids: Vec<Vec<u32>> = Vec::new();
    for (rank, segment) in segments.iter().enumerate() {
        let new_sources = append_valid_sources(db, *segment, &mut sources)?;
        let mut count = 0u32;
        for block in 0u32.. {
            let Some(body) = body(db, "places", row_no(*segment, block))? else { break };
            for passage in unpack_passages(&body) {
                if let Some(source) = new_sources.get(passage.source as usize).copied().flatten() {
                    kept.push((PassageEntry { source, ..passage }, rank as u32, count));
                }
                count += 1;
            }
        }
        new_ids.push(vec![u32::MAX; count as usize]);
    }
    // Of equal times, later written segments come first, as in a search.
    kept.sort_unstable_by_key(|(passage, rank, doc_id)| {
        (Reverse(passage.at_s), Reverse(segments.get(*rank as usize)), *doc_id)
    });
    for (new, (_, rank, old)) in kept.iter().enumerate() {
        if let Some(slot) = new_ids.get_mut(*rank as usize).and_then(|ids| ids.get_mut(*old as usize)) {
            *slot = new as u32;
        }
    }
    if !kept.is_empty() {
        let newest = kept.first().map_or(0, |(passage, ..)| passage.at_s);
        let segment = add_segment(db, kept.len(), newest)?;
        for (at, (file, agent)) in sources.iter().enumerate() {
            db.prepare_cached("INSERT INTO owners VALUES(?1, ?2, ?3)")?.execute(params![
                row_no(segment, at as u32),
                file,
                &**agent
            ])?;
        }
        for (at, block) in kept.chunks(PASSAGES_PER_BLOCK).enumerate() {
            let passages: Vec<PassageEntry> = block.iter().map(|(passage, ..)| *passage).collect();
            add_body(db, "places", row_no(segment, at as u32), &pack_passages(&passages))?;
        }
        drop(kept);
        merge_postings(db, segments, &new_ids, segment)?;
    }
    for segment in segments {
        delete_segment(db, *segment)?;
    }
    Ok(())
}

/// Appends the passage sources of a segment with a valid file; returns the new number of each source, `None` if invalid.
fn append_valid_sources(
    db: &Connection,
    segment: i64,
    sources: &mut Vec<(i64, Text)>,
) -> rusqlite::Result<Vec<Option<u32>>> {
    let mut statement = db.prepare_cached(
        "SELECT o.file_no, o.agent, f.no IS NOT NULL FROM owners o LEFT JOIN files f ON f.no = o.file_no
         WHERE o.no >= ?1 AND o.no < ?2 ORDER BY o.no",
    )?;
    let rows = statement.query_map([row_no(segment, 0), row_no(segment + 1, 0)], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, bool>(2)?))
    })?;
    let mut all = Vec::new();
    for row in rows {
        let (file, agent, is_valid) = row?;
        all.push(is_valid.then_some(sources.len() as u32));
        if is_valid {
            sources.push((file, agent.as_str().into()));
        }
    }
    Ok(all)
}

fn merge_postings(
    db: &Transaction<'_>,
    segments: &[i64],
    new_ids: &[Vec<u32>],
    into: i64,
) -> rusqlite::Result<()> {
    let mut readers: Vec<SegmentReader> =
        segments.iter().map(|segment| SegmentReader::new(*segment)).collect();
    let mut next = BinaryHeap::new();
    for (rank, reader) in readers.iter_mut().enumerate() {
        next.extend(reader.advance(db)?.map(|word| Reverse((word, rank))));
    }
    let (mut writer, mut written) = (BlockWriter::default(), 0);
    let mut doc_ids: Vec<u32> = Vec::new();
    while let Some(Reverse((word, rank))) = next.pop() {
        if let (Some(reader), Some(new)) = (readers.get_mut(rank), new_ids.get(rank)) {
            let moved = reader.doc_ids.iter().filter_map(|old| new.get(*old as usize).copied());
            doc_ids.extend(moved.filter(|new| *new != u32::MAX));
            next.extend(reader.advance(db)?.map(|word| Reverse((word, rank))));
        }
        let is_continued = next.peek().is_some_and(|Reverse((coming, _))| *coming == word);
        if !is_continued && !doc_ids.is_empty() {
            // A stable sort merges sorted runs, and each segment's doc ids are one.
            doc_ids.sort();
            writer.push(&String::from_utf8_lossy(&word), &doc_ids);
            doc_ids.clear();
            for block in writer.take_full() {
                write_block(db, into, &mut written, &block)?;
            }
        }
    }
    for block in writer.finish() {
        write_block(db, into, &mut written, &block)?;
    }
    Ok(())
}

/// Reader of a segment's posting lists, by ascending word.
struct SegmentReader {
    segment: i64,
    block: u32,
    entries: VecDeque<(Vec<u8>, Vec<u8>)>,
    /// Doc ids of the current entry.
    doc_ids: Vec<u32>,
}

impl SegmentReader {
    fn new(segment: i64) -> Self {
        Self { segment, block: 0, entries: VecDeque::new(), doc_ids: Vec::new() }
    }

    /// Advances to the next entry and returns its word.
    fn advance(&mut self, db: &Connection) -> rusqlite::Result<Option<Vec<u8>>> {
        self.doc_ids.clear();
        while self.entries.is_empty() {
            let Some(body) = body(db, "blocks", row_no(self.segment, self.block))? else { return Ok(None) };
            self.block += 1;
            let mut entries = Entries::new(&body);
            while let Some(packed) = entries.advance() {
                self.entries.push_back((entries.word().to_vec(), packed.to_vec()));
            }
        }
        let Some((word, packed)) = self.entries.pop_front() else { return Ok(None) };
        unpack_doc_ids(&packed, &mut self.doc_ids);
        Ok(Some(word))
    }
}

/// Inserts a segment and returns its number.
pub(super) fn add_segment(db: &Connection, passages: usize, newest_s: u64) -> rusqlite::Result<i64> {
    db.prepare_cached("INSERT INTO segments(passages, newest_s) VALUES(?1, ?2) RETURNING no")?
        .query_row(params![passages as i64, newest_s.cast_signed()], |row| row.get(0))
}

/// Inserts a block of postings or passages.
pub(super) fn add_body(db: &Connection, table: &str, no: i64, body: &[u8]) -> rusqlite::Result<()> {
    db.prepare_cached(&format!("INSERT INTO {table}(no, body) VALUES(?1, ?2)"))?
        .execute(params![no, body])?;
    Ok(())
}

fn body(db: &Connection, table: &str, no: i64) -> rusqlite::Result<Option<Vec<u8>>> {
    use rusqlite::OptionalExtension;
    db.prepare_cached(&format!("SELECT body FROM {table} WHERE no = ?1"))?
        .query_row([no], |row| row.get(0))
        .optional()
}

/// Deletes a segment.
fn delete_segment(db: &Connection, segment: i64) -> rusqlite::Result<()> {
    for table in ["blocks", "places", "owners"] {
        db.prepare_cached(&format!("DELETE FROM {table} WHERE no >= ?1 AND no < ?2"))?
            .execute([row_no(segment, 0), row_no(segment + 1, 0)])?;
    }
    db.prepare_cached("DELETE FROM heads WHERE segment = ?1")?.execute([segment])?;
    db.prepare_cached("DELETE FROM segments WHERE no = ?1")?.execute([segment])?;
    Ok(())
}
