//! Looking for passages: in each segment the numbers of all words are walked side by side, and the segments are asked in
//! the order of what is newest in them. Nothing older than what is shown is read.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OptionalExtension, params};
use subscope_model::{SessionId, Text};

use super::{
    Hit, TextQuery,
    block::{Entries, PLACES, Place, unpack, unpack_places},
    number,
};

/// A word that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    word: String,
    /// Whether all that begin so are meant.
    is_prefix: bool,
}

/// Returns the words of a query as the index knows them. What has no letters and digits is left out.
pub(super) fn asked(query: &TextQuery) -> Vec<Asked> {
    let of = |term: &String| {
        let words = crate::words(term);
        let last = words.len().saturating_sub(1);
        let is_prefix = move |at: usize| at == last && term.ends_with('*');
        words
            .into_iter()
            .enumerate()
            .map(|(at, word)| Asked { word, is_prefix: is_prefix(at) })
            .collect::<Vec<_>>()
    };
    query.words.iter().flat_map(of).collect()
}

/// Returns the newest passages that have all the words.
pub(super) fn find(db: &Connection, asked: &[Asked], query: &TextQuery) -> rusqlite::Result<Vec<Hit>> {
    let mut lanes = lanes(db)?;
    let only = query.session.as_ref().map(|session| owners_of(db, session)).transpose()?;
    if let Some(only) = &only {
        // Most segments have nothing of a session.
        lanes
            .retain(|lane| only.range(number(lane.segment, 0)..number(lane.segment + 1, 0)).next().is_some());
    }
    let mut hits = Vec::new();
    while hits.len() < query.limit {
        // What is tied is shown as it was read: the segment that was written last comes first.
        let Some(lane) = lanes.iter_mut().max_by_key(|lane| (lane.newest_s, lane.segment)) else { break };
        hits.extend(lane.hit.take());
        if !lane.step(db, asked, only.as_ref())? {
            let segment = lane.segment;
            lanes.retain(|lane| lane.segment != segment);
        }
    }
    Ok(hits)
}

/// A segment that is asked.
struct Lane {
    segment: i64,
    /// Nothing that is still to come of it is newer.
    newest_s: u64,
    walks: Option<Vec<Walk>>,
    /// The least number that is still to be looked at.
    next: u32,
    /// What was found last, and not shown yet.
    hit: Option<Hit>,
    places: (u32, Vec<Place>),
    owners: HashMap<u32, Option<Owner>>,
}

#[derive(Clone)]
struct Owner {
    agent: Text,
    path: PathBuf,
    session: SessionId,
}

/// The numbers of all owners of passages of a session.
fn owners_of(db: &Connection, session: &SessionId) -> rusqlite::Result<BTreeSet<i64>> {
    let mut statement =
        db.prepare_cached("SELECT o.no FROM files f JOIN owners o ON o.file_no = f.no WHERE f.session = ?1")?;
    let rows = statement.query_map([session.as_str()], |row| row.get(0))?;
    rows.collect()
}

fn lanes(db: &Connection) -> rusqlite::Result<Vec<Lane>> {
    let mut statement = db.prepare_cached("SELECT no, newest_s FROM segments")?;
    let rows = statement.query_map([], |row| {
        Ok(Lane {
            segment: row.get(0)?,
            newest_s: row.get::<_, i64>(1)?.unsigned_abs(),
            walks: None,
            next: 0,
            hit: None,
            places: (u32::MAX, Vec::new()),
            owners: HashMap::new(),
        })
    })?;
    rows.collect()
}

impl Lane {
    /// Goes to the next hit, of these owners where they are given. Returns whether there is one.
    fn step(
        &mut self,
        db: &Connection,
        asked: &[Asked],
        only: Option<&BTreeSet<i64>>,
    ) -> rusqlite::Result<bool> {
        let mut walks = match self.walks.take() {
            Some(walks) => walks,
            None => asked.iter().map(|word| Walk::new(db, self.segment, word)).collect::<Result<_, _>>()?,
        };
        let mut found = None;
        while let Some(passage) = common(db, &mut walks, self.next)? {
            self.next = passage.saturating_add(1);
            let Some(place) = self.place(db, passage)? else { continue };
            if only.is_some_and(|only| !only.contains(&number(self.segment, place.owner))) {
                continue;
            }
            if let Some(owner) = self.owner(db, place.owner)? {
                found = Some((place, owner));
                break;
            }
        }
        self.walks = Some(walks);
        let Some((place, owner)) = found else { return Ok(false) };
        self.newest_s = place.at_s;
        self.hit = Some(Hit {
            session: owner.session,
            agent: owner.agent,
            kind: place.kind,
            at_ms: i64::try_from(place.at_s).unwrap_or(0).saturating_mul(1000),
            path: owner.path,
            span: place.span,
        });
        Ok(true)
    }

    fn place(&mut self, db: &Connection, passage: u32) -> rusqlite::Result<Option<Place>> {
        let block = passage / PLACES as u32;
        if self.places.0 != block {
            let body: Option<Vec<u8>> = db
                .prepare_cached("SELECT body FROM places WHERE no = ?1")?
                .query_row([number(self.segment, block)], |row| row.get(0))
                .optional()?;
            self.places = (block, body.as_deref().map(unpack_places).unwrap_or_default());
        }
        Ok(self.places.1.get(passage as usize % PLACES).copied())
    }

    /// Whose a passage is; `None` where its file was read anew since, or forgotten.
    fn owner(&mut self, db: &Connection, owner: u32) -> rusqlite::Result<Option<Owner>> {
        use std::os::unix::ffi::OsStrExt;
        if let Some(known) = self.owners.get(&owner) {
            return Ok(known.clone());
        }
        let found = db
            .prepare_cached(
                "SELECT agent, path, session FROM owners o JOIN files f ON f.no = o.file_no WHERE o.no = ?1",
            )?
            .query_row([number(self.segment, owner)], |row| {
                let (agent, path, session): (String, Vec<u8>, String) =
                    (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(Owner {
                    agent: agent.as_str().into(),
                    path: Path::new(std::ffi::OsStr::from_bytes(&path)).to_owned(),
                    session: SessionId(session.as_str().into()),
                })
            })
            .optional()?;
        self.owners.insert(owner, found.clone());
        Ok(found)
    }
}

/// Returns the least number from `least` on that all walks have.
fn common(db: &Connection, walks: &mut [Walk], least: u32) -> rusqlite::Result<Option<u32>> {
    let mut target = least;
    loop {
        let before = target;
        for walk in &mut *walks {
            let Some(number) = walk.seek(db, target)? else { return Ok(None) };
            target = number;
        }
        // A walk that went on may have left the ones before it behind.
        if target == before || walks.len() == 1 {
            return Ok(Some(target));
        }
    }
}

/// The numbers of a word in a segment, rising; read block by block.
struct Walk {
    segment: i64,
    word: String,
    /// Numbers at hand, and how many of them are behind.
    numbers: Vec<u32>,
    behind: usize,
    /// The block that they came from; `None` before the first and once there are no more.
    block: Option<i64>,
    is_at_end: bool,
}

impl Walk {
    fn new(db: &Connection, segment: i64, asked: &Asked) -> rusqlite::Result<Self> {
        let word = asked.word.clone();
        let mut walk = Self { segment, word, numbers: Vec::new(), behind: 0, block: None, is_at_end: false };
        if asked.is_prefix {
            walk.read_all_that_begin_so(db)?;
        }
        Ok(walk)
    }

    fn seek(&mut self, db: &Connection, target: u32) -> rusqlite::Result<Option<u32>> {
        loop {
            let ahead = self.numbers.get(self.behind..).unwrap_or_default();
            self.behind += ahead.partition_point(|number| *number < target);
            if let Some(number) = self.numbers.get(self.behind) {
                return Ok(Some(*number));
            }
            if self.is_at_end {
                return Ok(None);
            }
            self.read(db, target)?;
        }
    }

    /// Reads the entry that a number is in, if there is one: it stands in the last block that begins before it, or at the
    /// beginning of the next.
    fn read(&mut self, db: &Connection, target: u32) -> rusqlite::Result<()> {
        let (head, known) = (head(db, self.segment, &self.word, target)?, self.block);
        let first = match (head, known) {
            (Some(head), Some(known)) => head.max(known + 1),
            (Some(head), None) => head,
            (None, _) => number(self.segment, 0),
        };
        let is_new = known.is_none();
        self.numbers.clear();
        self.behind = 0;
        for block in [Some(first), is_new.then_some(first + 1)].into_iter().flatten() {
            let Some(body) = body(db, self.segment, block)? else { break };
            let mut entries = Entries::new(&body);
            while let Some(packed) = entries.step() {
                match entries.word().cmp(self.word.as_bytes()) {
                    std::cmp::Ordering::Less => {}
                    std::cmp::Ordering::Equal => unpack(packed, &mut self.numbers),
                    std::cmp::Ordering::Greater => break,
                }
            }
            if !self.numbers.is_empty() {
                self.block = Some(block);
                return Ok(());
            }
        }
        self.is_at_end = true;
        Ok(())
    }

    /// Reads the numbers of all words that begin with this one.
    fn read_all_that_begin_so(&mut self, db: &Connection) -> rusqlite::Result<()> {
        self.is_at_end = true;
        let mut block = head(db, self.segment, &self.word, 0)?.unwrap_or(number(self.segment, 0));
        'blocks: while let Some(body) = body(db, self.segment, block)? {
            let mut entries = Entries::new(&body);
            while let Some(packed) = entries.step() {
                if entries.word().starts_with(self.word.as_bytes()) {
                    unpack(packed, &mut self.numbers);
                } else if entries.word() > self.word.as_bytes() {
                    break 'blocks;
                }
            }
            block += 1;
        }
        self.numbers.sort_unstable();
        self.numbers.dedup();
        Ok(())
    }
}

/// The last block of a segment that begins with this word and number, or before.
fn head(db: &Connection, segment: i64, word: &str, number: u32) -> rusqlite::Result<Option<i64>> {
    db.prepare_cached(
        "SELECT block FROM heads WHERE segment = ?1 AND (word, first) <= (?2, ?3)
         ORDER BY word DESC, first DESC LIMIT 1",
    )?
    .query_row(params![segment, word, number], |row| row.get(0))
    .optional()
}

fn body(db: &Connection, segment: i64, block: i64) -> rusqlite::Result<Option<Vec<u8>>> {
    if block >> 32 != segment {
        return Ok(None);
    }
    db.prepare_cached("SELECT body FROM blocks WHERE no = ?1")?
        .query_row([block], |row| row.get(0))
        .optional()
}
