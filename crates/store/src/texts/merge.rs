//! Segments are merged when many of about one size stand side by side, so that a search has few to ask. What is void by then
//! (its file was read anew, or forgotten) is left out.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use rusqlite::{Connection, Transaction, params};
use subscope_model::Text;

use super::{
    block::{BlockWriter, Entries, PLACES, Place, pack_places, unpack, unpack_places},
    number, write_block,
};

/// How many segments of about one size stand side by side. Looking into one costs a search some ten microseconds; a first index
/// of some gigabytes ends with a merge at most.
const SEGMENTS: usize = 64;
/// How many passages are merged at once: some 50 bytes each are held meanwhile.
const MOST_PASSAGES: i64 = 1 << 20;

/// Merges what is due.
pub(super) fn merge_due(db: &mut Connection) -> rusqlite::Result<()> {
    loop {
        let mut tiers: [Vec<(i64, i64)>; 2 * u64::BITS as usize] = std::array::from_fn(|_| Vec::new());
        let mut statement = db.prepare_cached("SELECT no, passages FROM segments ORDER BY passages, no")?;
        let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
        for row in rows {
            let (segment, passages) = row?;
            let tier = passages.unsigned_abs().max(1).ilog(SEGMENTS as u64);
            if let Some(tier) = tiers.get_mut(tier as usize) {
                tier.push((segment, passages));
            }
        }
        drop(statement);
        let Some(due) = tiers.iter().find(|tier| tier.len() >= SEGMENTS) else { return Ok(()) };
        let mut sum = 0;
        let few = due.iter().take_while(|(_, passages)| {
            sum += passages;
            sum <= MOST_PASSAGES
        });
        let segments: Vec<i64> = few.map(|(segment, _)| *segment).collect();
        if segments.len() < 2 {
            return Ok(());
        }
        let transaction = db.transaction()?;
        merge(&transaction, &segments)?;
        transaction.commit()?;
    }
}

/// Makes one segment of several, without what is void; none where nothing is left.
pub(super) fn merge(db: &Transaction<'_>, segments: &[i64]) -> rusqlite::Result<()> {
    let mut owners = Vec::new();
    // What stays: its place with its new owner, and which segment's which number it was.
    let mut kept: Vec<(Place, u32, u32)> = Vec::new();
    let mut renumbered: Vec<Vec<u32>> = Vec::new();
    for (rank, segment) in segments.iter().enumerate() {
        let theirs = valid_owners(db, *segment, &mut owners)?;
        let mut count = 0u32;
        for block in 0u32.. {
            let body: Option<Vec<u8>> = body(db, "places", number(*segment, block))?;
            let Some(body) = body else { break };
            for place in unpack_places(&body) {
                if let Some(owner) = theirs.get(place.owner as usize).copied().flatten() {
                    kept.push((Place { owner, ..place }, rank as u32, count));
                }
                count += 1;
            }
        }
        renumbered.push(vec![u32::MAX; count as usize]);
    }
    // Segments that were written later come first among what is tied, as in a search.
    kept.sort_unstable_by_key(|(place, rank, number)| {
        (Reverse(place.at_s), Reverse(segments.get(*rank as usize)), *number)
    });
    for (new, (_, rank, old)) in kept.iter().enumerate() {
        if let Some(place) = renumbered.get_mut(*rank as usize).and_then(|of| of.get_mut(*old as usize)) {
            *place = new as u32;
        }
    }
    if !kept.is_empty() {
        let newest = kept.first().map_or(0, |(place, ..)| place.at_s);
        let segment = add_segment(db, kept.len(), newest)?;
        for (at, (file, agent)) in owners.iter().enumerate() {
            db.prepare_cached("INSERT INTO owners VALUES(?1, ?2, ?3)")?.execute(params![
                number(segment, at as u32),
                file,
                &**agent
            ])?;
        }
        for (at, block) in kept.chunks(PLACES).enumerate() {
            let places: Vec<Place> = block.iter().map(|(place, ..)| *place).collect();
            add_body(db, "places", number(segment, at as u32), &pack_places(&places))?;
        }
        drop(kept);
        merge_words(db, segments, &renumbered, segment)?;
    }
    for segment in segments {
        remove(db, *segment)?;
    }
    Ok(())
}

/// Appends the owners of a segment whose files are still known, and returns the new numbers of all.
fn valid_owners(
    db: &Connection,
    segment: i64,
    owners: &mut Vec<(i64, Text)>,
) -> rusqlite::Result<Vec<Option<u32>>> {
    let mut statement = db.prepare_cached(
        "SELECT o.file_no, o.agent, f.no IS NOT NULL FROM owners o LEFT JOIN files f ON f.no = o.file_no
         WHERE o.no >= ?1 AND o.no < ?2 ORDER BY o.no",
    )?;
    let rows = statement.query_map([number(segment, 0), number(segment + 1, 0)], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, bool>(2)?))
    })?;
    let mut all = Vec::new();
    for row in rows {
        let (file, agent, is_valid) = row?;
        all.push(is_valid.then_some(owners.len() as u32));
        if is_valid {
            owners.push((file, agent.as_str().into()));
        }
    }
    Ok(all)
}

fn merge_words(
    db: &Transaction<'_>,
    segments: &[i64],
    renumbered: &[Vec<u32>],
    into: i64,
) -> rusqlite::Result<()> {
    let mut readers: Vec<Reader> = segments.iter().map(|segment| Reader::new(*segment)).collect();
    let mut next = BinaryHeap::new();
    for (rank, reader) in readers.iter_mut().enumerate() {
        next.extend(reader.step(db)?.map(|word| Reverse((word, rank))));
    }
    let (mut writer, mut written) = (BlockWriter::default(), 0);
    let mut numbers: Vec<u32> = Vec::new();
    while let Some(Reverse((word, rank))) = next.pop() {
        if let (Some(reader), Some(new)) = (readers.get_mut(rank), renumbered.get(rank)) {
            let moved = reader.numbers.iter().filter_map(|old| new.get(*old as usize).copied());
            numbers.extend(moved.filter(|new| *new != u32::MAX));
            next.extend(reader.step(db)?.map(|word| Reverse((word, rank))));
        }
        let goes_on = next.peek().is_some_and(|Reverse((coming, _))| *coming == word);
        if !goes_on && !numbers.is_empty() {
            // Each segment's are in order already: this sort merges such runs.
            numbers.sort();
            writer.push(&String::from_utf8_lossy(&word), &numbers);
            numbers.clear();
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

/// Reads the entries of a segment, in order.
struct Reader {
    segment: i64,
    block: u32,
    entries: VecDeque<(Vec<u8>, Vec<u8>)>,
    /// The numbers of the entry in hand.
    numbers: Vec<u32>,
}

impl Reader {
    fn new(segment: i64) -> Self {
        Self { segment, block: 0, entries: VecDeque::new(), numbers: Vec::new() }
    }

    /// Goes to the next entry and returns its word.
    fn step(&mut self, db: &Connection) -> rusqlite::Result<Option<Vec<u8>>> {
        self.numbers.clear();
        while self.entries.is_empty() {
            let Some(body) = body(db, "blocks", number(self.segment, self.block))? else { return Ok(None) };
            self.block += 1;
            let mut entries = Entries::new(&body);
            while let Some(packed) = entries.step() {
                self.entries.push_back((entries.word().to_vec(), packed.to_vec()));
            }
        }
        let Some((word, packed)) = self.entries.pop_front() else { return Ok(None) };
        unpack(&packed, &mut self.numbers);
        Ok(Some(word))
    }
}

/// Adds a segment and returns its number.
pub(super) fn add_segment(db: &Connection, passages: usize, newest_s: u64) -> rusqlite::Result<i64> {
    db.prepare_cached("INSERT INTO segments(passages, newest_s) VALUES(?1, ?2) RETURNING no")?
        .query_row(params![passages as i64, newest_s.cast_signed()], |row| row.get(0))
}

/// Adds a block of words or places.
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

/// Removes a segment.
fn remove(db: &Connection, segment: i64) -> rusqlite::Result<()> {
    for table in ["blocks", "places", "owners"] {
        db.prepare_cached(&format!("DELETE FROM {table} WHERE no >= ?1 AND no < ?2"))?
            .execute([number(segment, 0), number(segment + 1, 0)])?;
    }
    db.prepare_cached("DELETE FROM heads WHERE segment = ?1")?.execute([segment])?;
    db.prepare_cached("DELETE FROM segments WHERE no = ?1")?.execute([segment])?;
    Ok(())
}
