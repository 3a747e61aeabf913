//! Full-text index: an inverted index of passages in transcript files and inbox rows, without the text itself.
//!
//! It has a database and a writer of its own. Readers build a [`Segment`] each, concurrently; the writer inserts its blocks
//! unchanged. Doc ids within a segment ascend from the newest passage to the oldest, so that the newest hits come first without a
//! sort, and the delta of neighbours takes one byte. A file that is indexed again gets a new number: its older passages become
//! invalid and are dropped by the next merge.
//!
//! FTS5 of SQLite tokenizes and sorts behind one writer: it took more than twice as long for a whole index, with two databases in
//! parallel, and twice the space.

mod batch;
mod block;
mod find;
mod inbox;
mod merge;

use std::path::{Path, PathBuf};

pub use batch::{Segment, SegmentBuilder, TextFile};
pub use inbox::InboxPosition;
use rusqlite::{Connection, params};
use subscope_model::{Millis, SessionId, Text};

use self::block::PostingsBlock;
use crate::{
    FileIdentity, OpenError, StoreError,
    sqlite::{Access, connect, store_error},
};

/// Database file in the data folder.
const FILE: &str = "search.db";
/// Schema version; an index of another version is dropped and rebuilt from the sources.
const VERSION: i64 = 1;

/// * `blocks` (postings), `places` (passage blocks), `owners` (passage sources): the row number is the segment's number and 32 bits
///   within it, see [`row_no`].
/// * `heads`: first word and doc id of each postings block.
/// * `files`: numbers are never reused, so that a passage is invalid if its file's number is gone.
const TABLES: &str = "
CREATE TABLE files(
    no INTEGER PRIMARY KEY AUTOINCREMENT, path BLOB NOT NULL UNIQUE, session TEXT NOT NULL, inode INTEGER NOT NULL,
    bytes INTEGER NOT NULL, modified_ns INTEGER NOT NULL);
CREATE INDEX files_session ON files(session);
CREATE TABLE segments(no INTEGER PRIMARY KEY, passages INTEGER NOT NULL, newest_s INTEGER NOT NULL);
CREATE TABLE owners(no INTEGER PRIMARY KEY, file_no INTEGER NOT NULL, agent TEXT NOT NULL);
CREATE INDEX owners_file ON owners(file_no);
CREATE TABLE places(no INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE blocks(no INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE heads(
    segment INTEGER NOT NULL, word TEXT NOT NULL, first INTEGER NOT NULL, block INTEGER NOT NULL,
    PRIMARY KEY(segment, word, first)) WITHOUT ROWID;
";

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
#[derive(Clone, Debug)]
pub struct TextQuery {
    /// Words that must all occur; one that ends in `*` is a prefix.
    pub words: Vec<String>,
    /// Only passages of this session.
    pub session: Option<SessionId>,
    /// Maximum number of hits.
    pub limit: usize,
}

/// A passage that matches a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Session of the passage.
    pub session: SessionId,
    /// Agent, as in [`SegmentBuilder::add`].
    pub agent: Text,
    /// Kind of the passage.
    pub kind: PassageKind,
    /// Time, rounded down to the second; 0 if unknown.
    pub at_ms: Millis,
    /// File, or a pseudo path of the inbox ([`Hit::inbox_position`]).
    pub path: PathBuf,
    /// Its JSON text in the file.
    pub span: ByteSpan,
}

/// Full-text index of a data folder.
pub struct TextIndex {
    db: Connection,
}

impl TextIndex {
    /// Opens the index; a writer creates a missing one and must hold the store's writer lock.
    ///
    /// # Errors
    ///
    /// [`OpenError::Missing`] if there is none to read, or one of another version; otherwise [`OpenError::Database`].
    pub fn open(folder: &Path, access: Access) -> Result<Self, OpenError> {
        let path = folder.join(FILE);
        let database_error = |source| OpenError::Database { path: folder.to_owned(), source };
        if access == Access::Read && !path.exists() {
            return Err(OpenError::Missing(folder.to_owned()));
        }
        let mut db = connect(&path, access).map_err(database_error)?;
        let version: i64 =
            db.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(database_error)?;
        if version != VERSION {
            if access == Access::Read {
                return Err(OpenError::Missing(folder.to_owned()));
            }
            recreate_tables(&mut db).map_err(database_error)?;
        }
        Ok(Self { db })
    }

    /// Returns the indexed files with their state when they were indexed.
    pub fn files(&self) -> Result<Vec<(PathBuf, FileIdentity)>, StoreError> {
        use std::os::unix::ffi::OsStrExt;
        let read = || -> rusqlite::Result<Vec<_>> {
            let mut statement =
                self.db.prepare_cached("SELECT path, inode, bytes, modified_ns FROM files")?;
            let rows = statement.query_map([], |row| {
                let path: Vec<u8> = row.get(0)?;
                let identity = FileIdentity {
                    inode: row.get::<_, i64>(1)?.cast_unsigned(),
                    bytes: row.get::<_, i64>(2)?.cast_unsigned(),
                    modified_ns: row.get(3)?,
                };
                Ok((Path::new(std::ffi::OsStr::from_bytes(&path)).to_owned(), identity))
            })?;
            rows.collect()
        };
        read().map_err(store_error)
    }

    /// Returns the number of the last indexed inbox row; 0 if there is none.
    pub fn last_inbox_row(&self) -> Result<u64, StoreError> {
        self.files().map(|files| inbox::last_row(&files))
    }

    /// Adds a segment. A file that begins in it replaces its older version; a file that ends in it counts as indexed.
    pub fn put(&mut self, segment: &Segment) -> Result<(), StoreError> {
        let mut write = || {
            let transaction = self.db.transaction()?;
            insert_segment(&transaction, segment)?;
            transaction.commit()?;
            merge::merge_due(&mut self.db)
        };
        write().map_err(store_error)
    }

    /// Deletes the passages of these sessions and overwrites them on disk. Their files are indexed again only once they change.
    pub fn forget(&mut self, sessions: &[SessionId]) -> Result<(), StoreError> {
        let mut write = || {
            self.db.pragma_update(None, "secure_delete", "ON")?;
            let transaction = self.db.transaction()?;
            delete_sessions(&transaction, sessions)?;
            transaction.commit()?;
            self.db.pragma_update(None, "secure_delete", "OFF")?;
            // The WAL still has the old pages.
            self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        };
        write().map_err(store_error)
    }

    /// Returns the newest passages that contain all words.
    pub fn find(&self, query: &TextQuery) -> Result<Vec<Hit>, StoreError> {
        let terms = find::tokenize(query);
        if terms.is_empty() {
            return Ok(Vec::new());
        }
        find::find(&self.db, &terms, query).map_err(store_error)
    }

    /// Returns the size of the index on disk in bytes.
    pub fn bytes(&self) -> Result<u64, StoreError> {
        let bytes = self.db.query_row(
            "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
            [],
            |row| row.get::<_, i64>(0),
        );
        bytes.map(i64::unsigned_abs).map_err(store_error)
    }
}

/// Returns the row number of an item of a segment.
fn row_no(segment: i64, within: u32) -> i64 {
    segment << 32 | i64::from(within)
}

fn recreate_tables(db: &mut Connection) -> rusqlite::Result<()> {
    let transaction = db.transaction()?;
    for table in ["files", "segments", "owners", "places", "blocks", "heads"] {
        transaction.execute_batch(&format!("DROP TABLE IF EXISTS {table}"))?;
    }
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}

fn insert_segment(db: &rusqlite::Transaction<'_>, segment: &Segment) -> rusqlite::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let mut file_nos: Vec<i64> = Vec::new();
    for part in &segment.files {
        let path = part.file.path.as_os_str().as_bytes();
        if part.is_first {
            db.prepare_cached("DELETE FROM files WHERE path = ?1")?.execute([path])?;
        }
        // An incomplete file has no valid state: after an interruption it is indexed again.
        let identity = if part.is_last { part.file.identity } else { FileIdentity::default() };
        let no = db
            .prepare_cached(
                "INSERT INTO files(path, session, inode, bytes, modified_ns) VALUES(?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT(path) DO UPDATE SET inode = ?3, bytes = ?4, modified_ns = ?5 RETURNING no",
            )?
            .query_row(
                params![
                    path,
                    part.file.session.as_str(),
                    identity.inode.cast_signed(),
                    identity.bytes.cast_signed(),
                    identity.modified_ns
                ],
                |row| row.get(0),
            )?;
        file_nos.push(no);
    }
    if segment.passages == 0 {
        return Ok(());
    }
    let no = merge::add_segment(db, segment.passages, segment.newest_s)?;
    let mut add = db.prepare_cached("INSERT INTO owners VALUES(?1, ?2, ?3)")?;
    for (at, (file, agent)) in segment.sources.iter().enumerate() {
        add.execute(params![row_no(no, at as u32), file_nos.get(*file as usize), &**agent])?;
    }
    for (at, passages) in segment.passage_blocks.iter().enumerate() {
        merge::add_body(db, "places", row_no(no, at as u32), passages)?;
    }
    let mut written = 0;
    for block in &segment.postings_blocks {
        write_block(db, no, &mut written, block)?;
    }
    Ok(())
}

/// Inserts the next postings block of a segment.
fn write_block(
    db: &rusqlite::Transaction<'_>,
    segment: i64,
    written: &mut u32,
    block: &PostingsBlock,
) -> rusqlite::Result<()> {
    let no = row_no(segment, *written);
    *written += 1;
    merge::add_body(db, "blocks", no, &block.body)?;
    db.prepare_cached("INSERT INTO heads VALUES(?1, ?2, ?3, ?4)")?.execute(params![
        segment,
        block.word,
        block.first,
        no
    ])?;
    Ok(())
}

/// Deletes sessions: their files get new numbers, and the segments that contain them are rewritten without them.
fn delete_sessions(db: &rusqlite::Transaction<'_>, sessions: &[SessionId]) -> rusqlite::Result<()> {
    let mut segments: Vec<i64> = Vec::new();
    for session in sessions {
        let mut of = db.prepare_cached(
            "SELECT DISTINCT o.no >> 32 FROM owners o JOIN files f ON f.no = o.file_no WHERE f.session = ?1",
        )?;
        for segment in of.query_map([session.as_str()], |row| row.get(0))? {
            segments.push(segment?);
        }
        drop(of);
        db.prepare_cached(
            "INSERT OR REPLACE INTO files(path, session, inode, bytes, modified_ns)
             SELECT path, session, inode, bytes, modified_ns FROM files WHERE session = ?1",
        )?
        .execute([session.as_str()])?;
    }
    segments.sort_unstable();
    segments.dedup();
    segments.iter().try_for_each(|segment| merge::merge(db, &[*segment]))
}
