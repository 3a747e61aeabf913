//! Full-text index of passages in transcript files and inbox rows, without the text itself: SQLite's FTS5, in a
//! database of its own.
//!
//! Readers cut text into words (`word.rs`) concurrently and fill a [`PassageBatch`] each; the one writer inserts them.
//! The row number of a passage is its time, so that the newest hits come first without a sort. FTS5 stores which
//! passages have a word, not where (`detail=none`): a phrase is looked for in the texts of all passages with its words.
//!
//! Cost of the text pass over 352 MB of transcripts (165,000 passages, 18 million postings), reading included, of a
//! prototype, medians of three interleaved rounds:
//!
//! | | processor time | size |
//! |---|---|---|
//! | as below | 5.2 s | 34 MB |
//! | `detail=column` | 6.0 s | 71 MB |
//! | `detail=full` | 6.0 s | 93 MB |
//! | 2²⁰ row numbers per second instead of 2⁴ | 5.2 s | 74 MB |
//! | FTS5's `hashsize`, `automerge` and `crisismerge` | 5.7 s | 35 MB |
//! | `columnsize=0` instead of `contentless_delete=1`, so that nothing can be deleted | 4.3 s | 31 MB |
//! | the inverted index of our own that this replaced, with twice the code | 2.6 s | 24 MB |
//!
//! A whole `index` of them takes 2.8 times as long as `ccusage` (1.5 times with that engine). The newest 50 hits in 2
//! million passages take less than 2 ms. Only a prefix of one or two letters is slow: FTS5 merges the posting lists of
//! all its words (`f*` in 1.7 million passages: 0.7 s).

mod batch;
mod former;
mod inbox;

use std::{
    cmp::Reverse,
    collections::HashMap,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use self::batch::{FilePart, NewPassage};
pub use self::batch::{Passage, PassageBatch, TextFile};
pub use self::inbox::InboxPosition;
use rusqlite::{Connection, ToSql, Transaction, params};
use subscope_model::{Millis, SessionId, Text};
use subscope_platform::path_bytes;

use crate::{
    FileIdentity, OpenError, StoreError, StoreResult,
    sqlite::{
        Access, clamp, connect, delete_database, find_damage, identity_at, path_at, select, size_bytes,
    },
};

/// Database file in the data folder.
const FILE: &str = "search.db";
/// Schema version; an index of another version is deleted and rebuilt from the sources.
const VERSION: i64 = 4;

/// A file has a row in `files` for each session that its lines belong to. `words` has the row numbers of `passages`, see [`BITS_PER_SECOND`]. It keeps a batch in memory until the commit
/// (`hashsize`), as each flush is a segment; a search visits some dozens of segments at most, and one merge of many
/// costs less than several of few.
const TABLES: &str = "
CREATE TABLE files(
    no INTEGER PRIMARY KEY, path BLOB NOT NULL, session TEXT NOT NULL, inode INTEGER NOT NULL,
    bytes INTEGER NOT NULL, modified_ns INTEGER NOT NULL, UNIQUE(path, session));
CREATE INDEX files_session ON files(session);
CREATE TABLE passages(
    no INTEGER PRIMARY KEY, file_no INTEGER NOT NULL, agent TEXT NOT NULL, kind INTEGER NOT NULL, at_s INTEGER NOT NULL,
    start INTEGER NOT NULL, bytes INTEGER NOT NULL, tool_no INTEGER NOT NULL, failed INTEGER NOT NULL);
CREATE TABLE tools(no INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
INSERT INTO tools VALUES(0, '');
CREATE INDEX passages_file ON passages(file_no);
CREATE VIRTUAL TABLE words USING fts5(body, content='', contentless_delete=1, detail='none', tokenize='ascii');
INSERT INTO words(words, rank) VALUES('hashsize', 67108864), ('automerge', 32), ('crisismerge', 64);
";

/// Passages that match an FTS5 expression and filters, of which NULL filters nothing; `?7` is a list of sessions, JSON.
/// No row number is smaller than that of its time ([`BITS_PER_SECOND`]), so that older rows need not be looked up.
const MATCHING: &str = "
FROM words w CROSS JOIN passages p ON p.no = w.rowid CROSS JOIN files f ON f.no = p.file_no
    CROSS JOIN tools t ON t.no = p.tool_no
WHERE w.words MATCH ?1 AND w.rowid >= (?3 << 4) AND p.at_s >= ?3 AND p.at_s < ?4 AND (?5 IS NULL OR p.kind = ?5) AND (?6 IS NULL OR t.name = ?6)
    AND (?7 IS NULL OR f.session IN (SELECT value FROM json_each(?7))) AND p.failed >= ?8
ORDER BY w.rowid DESC LIMIT ?2";
/// Columns of a [`Hit`].
const HIT: &str = "SELECT p.agent, p.kind, p.at_s, p.start, p.bytes, f.path, f.session, t.name, p.failed";
/// Most passages that are counted for a query: a search as one types answers in some milliseconds.
const MAX_COUNTED: u64 = 5_000;

/// Row numbers per second, as a power of two: fewer make smaller deltas. Where more passages have the same second, the
/// others take the next free numbers: after a flood of 16 N passages in a second, hits of the next N seconds come in
/// the order of their arrival.
const BITS_PER_SECOND: u32 = 4;

/// Kind of a passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PassageKind {
    /// Prompt of the user or of a spawning agent.
    Prompt = 1,
    /// Message of an agent.
    Message = 2,
    /// Thinking of an agent.
    Thought = 3,
    /// Arguments of a tool call.
    ToolInput = 4,
    /// Result of a tool call.
    ToolResult = 5,
}

impl PassageKind {
    const ALL: [Self; 5] = [Self::Prompt, Self::Message, Self::Thought, Self::ToolInput, Self::ToolResult];

    /// Returns the kind of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Name in all user interfaces.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Message => "message",
            Self::Thought => "thought",
            Self::ToolInput => "tool input",
            Self::ToolResult => "tool result",
        }
    }
}

/// Byte range of a passage's JSON text in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSpan {
    /// Offset of the first byte.
    pub start: u64,
    /// Length.
    pub bytes: u64,
}

/// Full-text query.
#[derive(Clone, Debug, Default)]
pub struct TextQuery {
    /// Words that must all occur; one that ends in `*` is a prefix.
    pub words: Vec<String>,
    /// Only passages of this session.
    pub session: Option<SessionId>,
    /// Only passages of these sessions.
    pub sessions: Option<Vec<SessionId>>,
    /// Only passages of this kind.
    pub kind: Option<PassageKind>,
    /// Only arguments and results of this tool.
    pub tool: Option<Text>,
    /// Only passages from this time on, to the second.
    pub since: Option<Millis>,
    /// Only passages before this time, to the second.
    pub until: Option<Millis>,
    /// Only results of failed and denied calls.
    pub only_failed: bool,
    /// Maximum number of hits.
    pub limit: usize,
}

/// Number of passages that match a query, by what they can be filtered by. The limit of the query does not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextCounts {
    /// All of them.
    pub total: u64,
    /// Whether counting stopped: there are more.
    pub is_floor: bool,
    /// By kind.
    pub kinds: Vec<(PassageKind, u64)>,
    /// By tool; passages that belong to no call are left out.
    pub tools: Vec<(Text, u64)>,
    /// By session.
    pub sessions: Vec<(SessionId, u64)>,
    /// Results of failed and denied calls.
    pub failed: u64,
}

/// Counts passages one after the other; no more than some thousands.
#[derive(Debug, Default)]
pub struct TextCounter {
    counts: TextCounts,
    kinds: HashMap<PassageKind, u64>,
    tools: HashMap<Text, u64>,
    sessions: HashMap<SessionId, u64>,
}

impl TextCounter {
    /// Counts a passage; its tool is empty if it belongs to no call.
    pub fn add(&mut self, kind: PassageKind, tool: Text, session: SessionId, failed: bool) {
        if self.is_full() {
            self.counts.is_floor = true;
            return;
        }
        self.counts.total += 1;
        self.counts.failed += u64::from(failed);
        *self.kinds.entry(kind).or_default() += 1;
        *self.sessions.entry(session).or_default() += 1;
        if !tool.is_empty() {
            *self.tools.entry(tool).or_default() += 1;
        }
    }

    /// Whether it counts no more.
    pub fn is_full(&self) -> bool {
        self.counts.total >= MAX_COUNTED
    }

    /// Says that there may be more than were counted.
    pub fn stop(&mut self) {
        self.counts.is_floor = true;
    }

    /// Returns the counts.
    pub fn finish(self) -> TextCounts {
        TextCounts {
            kinds: self.kinds.into_iter().collect(),
            tools: self.tools.into_iter().collect(),
            sessions: self.sessions.into_iter().collect(),
            ..self.counts
        }
    }
}

/// A passage that matches a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Session of the passage.
    pub session: SessionId,
    /// Agent, as in [`PassageBatch::add`].
    pub agent: Text,
    /// Kind of the passage.
    pub kind: PassageKind,
    /// Its tool; empty if it belongs to no call, or its source does not name it.
    pub tool: Text,
    /// Whether it is the result of a failed or denied call.
    pub failed: bool,
    /// Time, rounded down to the second; 0 if unknown.
    pub at_ms: Millis,
    /// File, or a pseudo path of the inbox ([`Hit::inbox_position`]).
    pub path: PathBuf,
    /// Its JSON text in the file.
    pub span: ByteSpan,
}

/// Full-text index of a data folder. Damage found by a query or a write deletes it, since it can be rebuilt:
/// [`StoreError::TextsDamaged`].
pub struct TextIndex {
    db: Connection,
    path: PathBuf,
}

impl TextIndex {
    /// Opens the index; a writer creates a missing one, replaces a damaged one, and must hold the store's writer lock.
    ///
    /// # Errors
    ///
    /// [`OpenError::Missing`] if there is none to read, or one of another version; otherwise [`OpenError::Database`].
    pub fn open(folder: &Path, access: Access) -> Result<Self, OpenError> {
        let path = folder.join(FILE);
        let database_error = |source| OpenError::of_database(folder, source);
        if access == Access::Read && !path.exists() {
            return Err(OpenError::Missing(folder.to_owned()));
        }
        let db = match open_current(&path, access).map_err(database_error)? {
            Some(db) => db,
            None if access == Access::Read => return Err(OpenError::Missing(folder.to_owned())),
            None => create(&path).map_err(database_error)?,
        };
        Ok(Self { db, path })
    }

    /// Whether there is an index in a data folder, damaged or not.
    pub fn exists(folder: &Path) -> bool {
        folder.join(FILE).exists()
    }

    /// Looks for damage in the whole index. Returns what is wrong; `None` if it is intact or there is none.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn find_damage(folder: &Path) -> StoreResult<Option<String>> {
        let path = folder.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        match connect(&path, Access::Read).and_then(|db| find_damage(&db)) {
            Err(error) if crate::is_damage(&error) => Ok(Some(error.to_string())),
            found => Ok(found?),
        }
    }

    /// Deletes the index of a data folder, so that it is rebuilt. Processes that have it open are not disturbed.
    ///
    /// # Errors
    ///
    /// If a file cannot be deleted.
    pub fn delete(folder: &Path) -> StoreResult<()> {
        Ok(delete_database(&folder.join(FILE))?)
    }

    /// Deletes the index if this is an error of a damaged one. Processes that have it open are not disturbed.
    fn checked<T>(&self, outcome: StoreResult<T>) -> StoreResult<T> {
        match outcome {
            Err(StoreError::Damaged(_)) => {
                delete_database(&self.path)?;
                Err(StoreError::TextsDamaged)
            }
            outcome => outcome,
        }
    }

    /// Returns the indexed files with their state when they were indexed.
    pub fn files(&self) -> StoreResult<Vec<(PathBuf, FileIdentity)>> {
        let sql = "SELECT path, inode, bytes, modified_ns FROM files";
        self.checked(select(&self.db, sql, [], |row| Ok((path_at(row, 0)?, identity_at(row, 1)?))))
    }

    /// Adds a batch. A file that begins in it replaces its older version; a file that ends in it counts as indexed.
    pub fn put(&mut self, batch: &PassageBatch) -> StoreResult<()> {
        let outcome = self.db.transaction().and_then(|transaction| {
            insert_batch(&transaction, batch)?;
            transaction.commit()
        });
        self.checked(outcome.map_err(StoreError::from))
    }

    /// Deletes the passages of these sessions and overwrites them on disk. Their files are indexed again only once they
    /// change.
    pub fn forget(&mut self, sessions: &[SessionId]) -> StoreResult<()> {
        self.forget_with(|db| {
            for session in sessions {
                let sql = "SELECT no FROM files WHERE session = ?1";
                for file in select(db, sql, [session.as_str()], |row| row.get(0))? {
                    delete_passages(db, file)?;
                }
            }
            Ok(())
        })
    }

    /// Deletes these files with their passages and overwrites them on disk.
    pub fn forget_files(&mut self, paths: &[PathBuf]) -> StoreResult<()> {
        self.forget_with(|db| {
            for path in paths {
                for file in numbers_of(db, path)? {
                    delete_passages(db, file)?;
                }
                let path = path_bytes(path);
                db.prepare_cached("DELETE FROM files WHERE path = ?1")?.execute([path])?;
            }
            Ok(())
        })
    }

    /// Deletes something and overwrites it on disk.
    fn forget_with(&mut self, delete: impl FnOnce(&Transaction<'_>) -> StoreResult<()>) -> StoreResult<()> {
        match self.delete_securely(delete) {
            // What is deleted is forgotten, too.
            Err(StoreError::Damaged(_)) => Ok(delete_database(&self.path)?),
            outcome => outcome,
        }
    }

    fn delete_securely(
        &mut self,
        delete: impl FnOnce(&Transaction<'_>) -> StoreResult<()>,
    ) -> StoreResult<()> {
        self.db.pragma_update(None, "secure_delete", "ON")?;
        let transaction = self.db.transaction()?;
        delete(&transaction)?;
        // FTS5 only marks them as deleted, until it rewrites its segments.
        transaction.execute("INSERT INTO words(words) VALUES('optimize')", [])?;
        transaction.commit()?;
        // Pages that SQLite once divided may still have what was moved out of them.
        self.db.execute_batch("VACUUM")?;
        self.db.pragma_update(None, "secure_delete", "OFF")?;
        // The WAL still has the old pages.
        Ok(self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }

    /// Returns the newest passages that contain all words.
    pub fn find(&self, query: &TextQuery) -> StoreResult<Vec<Hit>> {
        let mut hits: Vec<Hit> = self.matching(HIT, query, query.limit, hit)?;
        // Where a second is full, row numbers are out of order by a few seconds.
        hits.sort_by_key(|hit| Reverse(hit.at_ms));
        Ok(hits)
    }

    /// Passes all passages that contain all words to `each`, whatever the limit of the query: newest first, but for those
    /// of one second. `Break` ends it.
    pub fn each_match(
        &self,
        query: &TextQuery,
        each: &mut dyn FnMut(Hit) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        let outcome = self.with_values(query, usize::MAX, |values| {
            let mut statement = self.db.prepare_cached(&format!("{HIT}{MATCHING}"))?;
            let mut rows = statement.query(values)?;
            while let Some(row) = rows.next()? {
                if each(hit(row)?).is_break() {
                    break;
                }
            }
            Ok(())
        });
        self.checked(outcome.map(|_| ()))
    }

    /// Counts the passages that match a query: the newest ones, if there are very many.
    pub fn count(&self, query: &TextQuery) -> StoreResult<TextCounts> {
        let columns = "SELECT p.kind, t.name, f.session, p.failed";
        let rows = self.matching(columns, query, MAX_COUNTED as usize + 1, |row| {
            let tool: Text = row.get(1)?;
            Ok((kind_at(row, 0)?, tool, SessionId(row.get(2)?), row.get::<_, bool>(3)?))
        })?;
        let mut counter = TextCounter::default();
        rows.into_iter().for_each(|(kind, tool, session, failed)| counter.add(kind, tool, session, failed));
        Ok(counter.finish())
    }

    /// Returns the newest passages that match a query.
    fn matching<T>(
        &self,
        columns: &str,
        query: &TextQuery,
        limit: usize,
        row: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> StoreResult<Vec<T>> {
        let outcome = self.with_values(query, limit, |values| {
            select(&self.db, &format!("{columns}{MATCHING}"), values, row)
        });
        Ok(self.checked(outcome)?.unwrap_or_default())
    }

    /// Passes the parameters of [`MATCHING`] on; `None` if the query has no word.
    fn with_values<T>(
        &self,
        query: &TextQuery,
        limit: usize,
        run: impl FnOnce(&[&dyn ToSql]) -> StoreResult<T>,
    ) -> StoreResult<Option<T>> {
        let Some(expression) = match_expression(query) else { return Ok(None) };
        let sessions = query.sessions.as_ref().map(serde_json::to_string).transpose()?;
        let values = params![
            expression,
            clamp(limit),
            query.since.map_or(0, |since| (since / 1000).max(0)),
            query.until.map_or(i64::MAX, |until| until / 1000),
            query.kind.map(|kind| kind as u8),
            query.tool.as_deref(),
            sessions,
            query.only_failed
        ];
        run(values).map(Some)
    }

    /// Returns the size of the index on disk in bytes.
    pub fn bytes(&self) -> StoreResult<u64> {
        size_bytes(&self.db)
    }
}

/// Opens an index; `None` if it is damaged or of another version.
fn open_current(path: &Path, access: Access) -> rusqlite::Result<Option<Connection>> {
    let open = || {
        let db = connect(path, access)?;
        let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        // Fails where a table is missing or FTS5 cannot read its own.
        let is_current = version == VERSION && db.prepare(&format!("{HIT}{MATCHING}")).is_ok();
        Ok(is_current.then_some(db))
    };
    open().or_else(|error| if crate::is_damage(&error) { Ok(None) } else { Err(error) })
}

/// Replaces an index by an empty one. Processes that read the old one are not disturbed.
fn create(path: &Path) -> rusqlite::Result<Connection> {
    delete_database(path).map_err(|_| rusqlite::Error::InvalidPath(path.to_owned()))?;
    let mut db = connect(path, Access::Write)?;
    let transaction = db.transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
    Ok(db)
}

fn insert_batch(db: &Transaction<'_>, batch: &PassageBatch) -> rusqlite::Result<()> {
    let (mut files, mut sessions): (Vec<i64>, Vec<String>) = (Vec::new(), Vec::new());
    for part in &batch.files {
        if part.is_anew {
            for no in numbers_of(db, &part.file.path)? {
                delete_passages(db, no)?;
            }
        } else if part.is_first {
            former::set_aside(db, &part.file.path)?;
        }
        let no = put_file(db, part)?;
        files.push(no);
        sessions.push(session_word(&part.file.session));
    }
    // FTS5 writes a segment whenever a row number is not greater than the last one.
    let mut order: Vec<&NewPassage> = batch.passages.iter().collect();
    order.sort_by_key(|passage| passage.at_s);
    let mut insert_passage = db.prepare_cached(
        "INSERT INTO passages VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING",
    )?;
    let mut insert_words = db.prepare_cached("INSERT INTO words(rowid, body) VALUES(?1, ?2)")?;
    let (mut no, mut words) = (0, String::new());
    let mut tools: HashMap<&str, i64> = HashMap::new();
    for passage in order {
        let tool = match tools.get(&*passage.tool) {
            Some(tool) => *tool,
            None => *tools.entry(&passage.tool).or_insert(tool_no(db, &passage.tool)?),
        };
        no = (no + 1).max(passage.at_s << BITS_PER_SECOND);
        let span = passage.span;
        let mut insert = |no: i64| {
            insert_passage.execute(params![
                no,
                files.get(passage.file),
                &*passage.agent,
                passage.kind as u8,
                passage.at_s,
                span.start.cast_signed(),
                span.bytes.cast_signed(),
                tool,
                passage.failed
            ])
        };
        if insert(no)? == 0 {
            no = first_free(db, no)?;
            insert(no)?;
        }
        words.clear();
        words.extend(sessions.get(passage.file).map(String::as_str));
        words.push(' ');
        words.push_str(batch.words(passage));
        insert_words.execute(params![no, words])?;
    }
    for part in batch.files.iter().filter(|part| part.is_last) {
        former::drop_repeated(db, &part.file.path)?;
    }
    Ok(())
}

/// Returns the number of a tool, a new one if it has none.
fn tool_no(db: &Connection, name: &str) -> rusqlite::Result<i64> {
    db.prepare_cached(
        "INSERT INTO tools(name) VALUES(?1) ON CONFLICT(name) DO UPDATE SET name = name RETURNING no",
    )?
    .query_row([name], |row| row.get(0))
}

/// Returns a free row number above a taken one: the next to a run of taken ones, found by doubled steps and bisection.
/// So runs stay whole, however many batches have passages of the same second.
fn first_free(db: &Connection, taken: i64) -> rusqlite::Result<i64> {
    let mut query = db.prepare_cached("SELECT 1 FROM passages WHERE no = ?1")?;
    let (mut taken, mut step) = (taken, 1);
    while query.exists([taken + step])? {
        taken += step;
        step *= 2;
    }
    let mut free = taken + step;
    while free - taken > 1 {
        let middle = taken + (free - taken) / 2;
        if query.exists([middle])? {
            taken = middle;
        } else {
            free = middle;
        }
    }
    Ok(free)
}

/// Inserts or updates a file and returns its number.
fn put_file(db: &Connection, part: &FilePart) -> rusqlite::Result<i64> {
    // An incomplete file has no valid state: after an interruption it is indexed again.
    let identity = if part.is_last { part.file.identity } else { FileIdentity::default() };
    db.prepare_cached(
        "INSERT INTO files(path, session, inode, bytes, modified_ns) VALUES(?1, ?2, ?3, ?4, ?5)
         ON CONFLICT(path, session) DO UPDATE SET inode = ?3, bytes = ?4, modified_ns = ?5 RETURNING no",
    )?
    .query_row(
        params![
            path_bytes(&part.file.path),
            part.file.session.as_str(),
            identity.inode.cast_signed(),
            identity.bytes.cast_signed(),
            identity.modified_ns
        ],
        |row| row.get(0),
    )
}

/// Returns the numbers that a file has, one for each session of its lines.
fn numbers_of(db: &Connection, path: &Path) -> rusqlite::Result<Vec<i64>> {
    let mut statement = db.prepare_cached("SELECT no FROM files WHERE path = ?1")?;
    statement.query_map([path_bytes(path)], |row| row.get(0))?.collect()
}

/// Deletes the passages that a file has of one session.
fn delete_passages(db: &Connection, file: i64) -> rusqlite::Result<()> {
    for statement in [
        "DELETE FROM words WHERE rowid IN (SELECT no FROM passages WHERE file_no = ?1)",
        "DELETE FROM passages WHERE file_no = ?1",
    ] {
        db.prepare_cached(statement)?.execute([file])?;
    }
    Ok(())
}

/// Returns a word that all passages of a session have, and no text has: `§` is not a letter.
fn session_word(session: &SessionId) -> String {
    let digits = session.as_str().bytes().map(|byte| format!("{byte:02x}"));
    std::iter::once("§".to_owned()).chain(digits).collect()
}

/// Returns the FTS5 expression of a query; `None` if it has no word.
fn match_expression(query: &TextQuery) -> Option<String> {
    let quoted = |term: &String| {
        let mut words: Vec<String> = crate::words(term).iter().map(|word| format!("\"{word}\"")).collect();
        if let Some(last) = words.last_mut().filter(|_| term.ends_with('*')) {
            last.push('*');
        }
        words
    };
    let mut words: Vec<String> = query.words.iter().flat_map(quoted).collect();
    if words.is_empty() {
        return None;
    }
    words.extend(query.session.as_ref().map(|session| format!("\"{}\"", session_word(session))));
    Some(words.join(" AND "))
}

fn kind_at(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<PassageKind> {
    let kind: u8 = row.get(at)?;
    let known = PassageKind::ALL.into_iter().find(|known| *known as u8 == kind);
    known.ok_or(rusqlite::Error::IntegralValueOutOfRange(at, kind.into()))
}

fn hit(row: &rusqlite::Row<'_>) -> rusqlite::Result<Hit> {
    Ok(Hit {
        session: SessionId(row.get(6)?),
        agent: row.get(0)?,
        kind: kind_at(row, 1)?,
        tool: row.get(7)?,
        failed: row.get(8)?,
        at_ms: row.get::<_, i64>(2)?.saturating_mul(1000),
        path: path_at(row, 5)?,
        span: ByteSpan {
            start: row.get::<_, i64>(3)?.cast_unsigned(),
            bytes: row.get::<_, i64>(4)?.cast_unsigned(),
        },
    })
}
