//! The full text: which words stand in which passage of which file, or row of the inbox. The passages themselves stay there.
//!
//! A database of its own with its own writer. Readers sort words into a [`Segment`] each, side by side; the writer puts its
//! blocks down as they are. Within a segment passages are numbered from the newest to the oldest, so that the newest hits
//! come first without sorting, and neighbours in time take one byte. A file that is read anew gets another number: what stood
//! there before is void from then on, and left out when segments are merged.
//!
//! SQLite's own full text (FTS5) does the same with a tokenizer, a table and a sort of its own behind one writer: it took
//! more than twice as long for a whole index, on two databases side by side, for one of twice the size.

mod batch;
mod block;
mod find;
mod inbox;
mod merge;

use std::path::{Path, PathBuf};

pub use batch::{Segment, TextBatch, TextFile};
pub use inbox::InboxPlace;
use rusqlite::{Connection, params};
use subscope_model::{Millis, SessionId, Text};

use self::block::Block;
use crate::{
    Identity, LedgerError, OpenError,
    sqlite::{Access, connect, wrong},
};

/// The file of the text index in a data folder.
const FILE: &str = "search.db";
/// The version of its tables; one of another version is made anew, since everything in it can be read again.
const VERSION: i64 = 1;

/// What belongs to a segment is numbered within it: the segment's number and 32 bits of its own, see [`number`]. Numbers of
/// files are never given twice, so that what is of an older reading is known by its file's number being gone.
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

/// What a passage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PassageKind {
    /// What was asked, of the root or of an agent.
    Prompt = 1,
    /// What an agent said.
    Message = 2,
    /// What an agent thought.
    Thought = 3,
    /// The arguments of a tool call.
    ToolInput = 4,
    /// The result of a tool call.
    ToolResult = 5,
}

impl PassageKind {
    const ALL: [Self; 5] = [Self::Prompt, Self::Message, Self::Thought, Self::ToolInput, Self::ToolResult];

    /// The word used on every face.
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

/// Where a passage's JSON text stands in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// What is asked of the full text.
#[derive(Clone, Debug)]
pub struct TextQuery {
    /// All of these words; one that ends in `*` stands for all that begin so.
    pub words: Vec<String>,
    /// Only of this session.
    pub session: Option<SessionId>,
    /// At most so many.
    pub limit: usize,
}

/// A passage that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The session.
    pub session: SessionId,
    /// Whose it is, as in [`TextBatch::add`].
    pub agent: Text,
    /// What it is.
    pub kind: PassageKind,
    /// When, to the second; 0 where no source tells.
    pub at_ms: Millis,
    /// The file.
    pub path: PathBuf,
    /// Where its JSON text stands there.
    pub span: Span,
}

/// The text index of a data folder.
pub struct Texts {
    db: Connection,
}

impl Texts {
    /// Opens the index; for writing it is made if there is none. Who writes must hold the store.
    pub fn open(folder: &Path, access: Access) -> Result<Self, OpenError> {
        let path = folder.join(FILE);
        let failed = |source| OpenError::Database { path: folder.to_owned(), source };
        if access == Access::Read && !path.exists() {
            return Err(OpenError::Missing(folder.to_owned()));
        }
        let mut db = connect(&path, access).map_err(failed)?;
        let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
        if version != VERSION {
            if access == Access::Read {
                return Err(OpenError::Missing(folder.to_owned()));
            }
            remake(&mut db).map_err(failed)?;
        }
        Ok(Self { db })
    }

    /// Returns the files whose words are in the index, as they stood then.
    pub fn files(&self) -> Result<Vec<(PathBuf, Identity)>, LedgerError> {
        use std::os::unix::ffi::OsStrExt;
        let read = || -> rusqlite::Result<Vec<_>> {
            let mut statement =
                self.db.prepare_cached("SELECT path, inode, bytes, modified_ns FROM files")?;
            let rows = statement.query_map([], |row| {
                let path: Vec<u8> = row.get(0)?;
                let identity = Identity {
                    inode: row.get::<_, i64>(1)?.cast_unsigned(),
                    bytes: row.get::<_, i64>(2)?.cast_unsigned(),
                    modified_ns: row.get(3)?,
                };
                Ok((Path::new(std::ffi::OsStr::from_bytes(&path)).to_owned(), identity))
            })?;
            rows.collect()
        };
        read().map_err(wrong)
    }

    /// Returns the number of the last row of the inbox whose words are in the index; 0 where there is none.
    pub fn last_inbox_row(&self) -> Result<u64, LedgerError> {
        self.files().map(|files| inbox::last_row(&files))
    }

    /// Takes a segment in. Files that begin in it are replaced whole; those that end in it are known from then on.
    pub fn put(&mut self, segment: &Segment) -> Result<(), LedgerError> {
        let mut write = || {
            let transaction = self.db.transaction()?;
            put(&transaction, segment)?;
            transaction.commit()?;
            merge::merge_due(&mut self.db)
        };
        write().map_err(wrong)
    }

    /// Forgets the words of these sessions, and writes over what stood of them. Their files are read again only once they
    /// change.
    pub fn forget(&mut self, sessions: &[SessionId]) -> Result<(), LedgerError> {
        let mut write = || {
            self.db.pragma_update(None, "secure_delete", "ON")?;
            let transaction = self.db.transaction()?;
            forget(&transaction, sessions)?;
            transaction.commit()?;
            self.db.pragma_update(None, "secure_delete", "OFF")?;
            // The log has the pages as they were.
            self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        };
        write().map_err(wrong)
    }

    /// Returns the newest passages that have all the words.
    pub fn find(&self, query: &TextQuery) -> Result<Vec<Hit>, LedgerError> {
        let asked = find::asked(query);
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        find::find(&self.db, &asked, query).map_err(wrong)
    }

    /// Returns how many bytes the index takes on disk.
    pub fn bytes(&self) -> Result<u64, LedgerError> {
        let bytes = self.db.query_row(
            "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
            [],
            |row| row.get::<_, i64>(0),
        );
        bytes.map(i64::unsigned_abs).map_err(wrong)
    }
}

/// The number of something within a segment.
fn number(segment: i64, within: u32) -> i64 {
    segment << 32 | i64::from(within)
}

fn remake(db: &mut Connection) -> rusqlite::Result<()> {
    let transaction = db.transaction()?;
    for table in ["files", "segments", "owners", "places", "blocks", "heads"] {
        transaction.execute_batch(&format!("DROP TABLE IF EXISTS {table}"))?;
    }
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}

fn put(db: &rusqlite::Transaction<'_>, segment: &Segment) -> rusqlite::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let mut numbers: Vec<i64> = Vec::new();
    for part in &segment.files {
        let path = part.file.path.as_os_str().as_bytes();
        if part.is_first {
            db.prepare_cached("DELETE FROM files WHERE path = ?1")?.execute([path])?;
        }
        // A file that goes on is not known as it stands: were this interrupted, it would be read again.
        let identity = if part.is_last { part.file.identity } else { Identity::default() };
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
        numbers.push(no);
    }
    if segment.passages == 0 {
        return Ok(());
    }
    let no = merge::add_segment(db, segment.passages, segment.newest_s)?;
    let mut add = db.prepare_cached("INSERT INTO owners VALUES(?1, ?2, ?3)")?;
    for (at, (file, agent)) in segment.owners.iter().enumerate() {
        add.execute(params![number(no, at as u32), numbers.get(*file as usize), &**agent])?;
    }
    for (at, places) in segment.places.iter().enumerate() {
        merge::add_body(db, "places", number(no, at as u32), places)?;
    }
    let mut written = 0;
    for block in &segment.blocks {
        write_block(db, no, &mut written, block)?;
    }
    Ok(())
}

/// Adds the next block of a segment.
fn write_block(
    db: &rusqlite::Transaction<'_>,
    segment: i64,
    written: &mut u32,
    block: &Block,
) -> rusqlite::Result<()> {
    let no = number(segment, *written);
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

/// Forgets sessions: their files get other numbers, and the segments that they stood in are written anew without them.
fn forget(db: &rusqlite::Transaction<'_>, sessions: &[SessionId]) -> rusqlite::Result<()> {
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
