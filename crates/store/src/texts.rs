//! The full text: which words stand in which passage of which file. The passages themselves stay in their files.
//!
//! A database of its own with its own writer. An entry's number is its second and a small counter: the newest hits come
//! first without sorting, and neighbours in time have neighbouring numbers, which the index packs into few bytes. A word
//! index takes numbers in rising order only, so a batch is sorted before it is written.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, params};
use subscope_model::{Millis, SessionId, Text};

use crate::{
    Identity, LedgerError, OpenError,
    sqlite::{Access, connect, wrong},
    word::Vocabulary,
};

/// The files of the text index in a data folder. Writing a word index is work for one core: two halves are written by two,
/// and a search asks both. A file's passages are all in one of them.
const FILES: [&str; 2] = ["search-0.db", "search-1.db"];
/// The version of its tables; one of another version is made anew, since everything in it can be read again.
const VERSION: i64 = 1;
/// How many bits of an entry's number count within a second. What is more goes to the next free number: with them the
/// index is half as big as with numbers that have milliseconds.
const COUNTER_BITS: i64 = 6;
/// How many segments stand side by side before they are merged: looking into that many costs a search nothing that people
/// notice, and a first index ends without merging.
const SEGMENTS: i64 = 16;
/// How much text the index gathers before it writes a segment: fewer, bigger segments are merged less.
const GATHER_BYTES: i64 = 64 << 20;

/// The words are cut and lowered before they come here, so the simplest tokenizer does.
const TABLES: &str = "
CREATE TABLE files(
    no INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, session TEXT NOT NULL, inode INTEGER NOT NULL,
    bytes INTEGER NOT NULL, modified_ns INTEGER NOT NULL);
CREATE TABLE passages(
    no INTEGER PRIMARY KEY, file_no INTEGER NOT NULL, agent TEXT NOT NULL, kind INTEGER NOT NULL,
    start INTEGER NOT NULL, bytes INTEGER NOT NULL);
CREATE INDEX passages_file ON passages(file_no);
CREATE VIRTUAL TABLE words USING fts5(
    body, content = '', contentless_delete = 1, detail = none, tokenize = ascii);
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

/// A passage to be found by its words.
#[derive(Clone, Debug)]
pub struct Passage {
    /// Whose it is: `root`, an agent's id, or the spawn call that its wire has in place of one.
    pub agent: Text,
    /// What it is.
    pub kind: PassageKind,
    /// When; 0 where no source tells.
    pub at_ms: Millis,
    /// Where it stands.
    pub span: Span,
    /// Its different words, separated by spaces.
    words: String,
}

impl Passage {
    /// Makes a passage of a text.
    pub fn new(
        agent: Text,
        kind: PassageKind,
        at_ms: Millis,
        span: Span,
        text: &str,
        vocabulary: &mut Vocabulary,
    ) -> Self {
        Self { agent, kind, at_ms, span, words: vocabulary.condense(text) }
    }
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
    /// As in [`Passage::agent`].
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
    shards: Vec<Shard>,
}

impl Texts {
    /// Opens the index; for writing it is made if there is none. Who writes must hold the store.
    pub fn open(folder: &Path, access: Access) -> Result<Self, OpenError> {
        let shards = FILES.iter().map(|file| Shard::open(folder, file, access)).collect::<Result<_, _>>()?;
        Ok(Self { shards })
    }

    /// Returns the files whose words are in the index, as they stood then.
    pub fn files(&self) -> Result<Vec<(PathBuf, Identity)>, LedgerError> {
        let mut all = Vec::new();
        for shard in &self.shards {
            all.extend(shard.files().map_err(wrong)?);
        }
        Ok(all)
    }

    /// Replaces what is known of these files, in one transaction for each half of the index.
    pub fn put(&mut self, files: &[FilePassages]) -> Result<(), LedgerError> {
        let count = self.shards.len();
        let mut shares: Vec<Vec<&FilePassages>> = vec![Vec::new(); count];
        for file in files {
            if let Some(share) = shares.get_mut(shard_of(&file.path, count)) {
                share.push(file);
            }
        }
        let outcomes: Vec<rusqlite::Result<()>> = std::thread::scope(|scope| {
            let writers: Vec<_> = self
                .shards
                .iter_mut()
                .zip(&shares)
                .filter(|(_, share)| !share.is_empty())
                .map(|(shard, share)| scope.spawn(move || shard.put(share)))
                .collect();
            let joined = writers.into_iter().map(|writer| match writer.join() {
                Ok(outcome) => outcome,
                // A panic of a writer is a bug of ours: it goes on as if it had happened here.
                Err(panic) => std::panic::resume_unwind(panic),
            });
            joined.collect()
        });
        outcomes.into_iter().collect::<rusqlite::Result<()>>().map_err(wrong)
    }

    /// Forgets the words of these sessions. Their files are read again only once they change.
    pub fn forget(&mut self, sessions: &[SessionId]) -> Result<(), LedgerError> {
        self.shards.iter_mut().try_for_each(|shard| shard.forget(sessions)).map_err(wrong)
    }

    /// Writes the index anew without what was forgotten of it: until then its words stay in it, though nothing finds them.
    pub fn compact(&mut self) -> Result<(), LedgerError> {
        self.shards.iter_mut().try_for_each(|shard| shard.compact()).map_err(wrong)
    }

    /// Returns the newest passages that have all the words.
    pub fn find(&self, query: &TextQuery) -> Result<Vec<Hit>, LedgerError> {
        let asked: Vec<String> = query.words.iter().filter_map(|word| quoted(word)).collect();
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let asked = asked.join(" AND ");
        let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
        let mut all: Vec<(i64, Hit)> = Vec::new();
        for shard in &self.shards {
            all.extend(shard.hits(&asked, query.session.as_ref(), limit).map_err(wrong)?);
        }
        all.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
        all.truncate(query.limit);
        Ok(all.into_iter().map(|(_, hit)| hit).collect())
    }

    /// Returns how many bytes the index takes on disk.
    pub fn bytes(&self) -> Result<u64, LedgerError> {
        let bytes = self.shards.iter().map(|shard| shard.bytes().map_err(wrong));
        bytes.sum()
    }
}

/// Which half of the index a file is of: the same for ever.
fn shard_of(path: &Path, count: usize) -> usize {
    use std::os::unix::ffi::OsStrExt;
    let bytes = path.as_os_str().as_bytes().iter();
    bytes.fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte))) % count
}

/// One half of the index.
struct Shard {
    db: Connection,
    counter: i64,
}

impl Shard {
    fn open(folder: &Path, file: &str, access: Access) -> Result<Self, OpenError> {
        let path = folder.join(file);
        let failed = |source| OpenError::Database { path: folder.to_owned(), source };
        if access == Access::Read && !path.exists() {
            return Err(OpenError::Missing(folder.to_owned()));
        }
        let db = connect(&path, access).map_err(failed)?;
        let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
        if version != VERSION {
            if access == Access::Read {
                return Err(OpenError::Missing(folder.to_owned()));
            }
            remake(&db).map_err(failed)?;
        }
        Ok(Self { db, counter: 0 })
    }

    fn files(&self) -> rusqlite::Result<Vec<(PathBuf, Identity)>> {
        use std::os::unix::ffi::OsStrExt;
        let mut statement = self.db.prepare_cached("SELECT path, inode, bytes, modified_ns FROM files")?;
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
    }

    fn put(&mut self, files: &[&FilePassages]) -> rusqlite::Result<()> {
        let Self { db, counter } = self;
        let transaction = db.transaction()?;
        let mut entries: Vec<(i64, &str)> = Vec::new();
        for file in files {
            put_file(&transaction, file, counter, &mut entries)?;
        }
        entries.sort_unstable();
        let mut words = transaction.prepare_cached("INSERT INTO words(rowid, body) VALUES(?1, ?2)")?;
        for (number, text) in entries {
            words.execute(params![number, text])?;
        }
        drop(words);
        transaction.commit()
    }

    fn forget(&mut self, sessions: &[SessionId]) -> rusqlite::Result<()> {
        let transaction = self.db.transaction()?;
        for session in sessions {
            let files: Vec<i64> = transaction
                .prepare_cached("SELECT no FROM files WHERE session = ?1")?
                .query_map([session.as_str()], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            for file in files {
                clear(&transaction, file)?;
            }
        }
        transaction.commit()
    }

    fn compact(&mut self) -> rusqlite::Result<()> {
        self.db.pragma_update(None, "secure_delete", "ON")?;
        self.db.execute("INSERT INTO words(words) VALUES('optimize')", [])?;
        self.db.pragma_update(None, "secure_delete", "OFF")?;
        self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    }

    fn hits(
        &self,
        asked: &str,
        session: Option<&SessionId>,
        limit: i64,
    ) -> rusqlite::Result<Vec<(i64, Hit)>> {
        use std::os::unix::ffi::OsStrExt;
        // Entries are walked backwards and looked up one by one, so that the newest come without the rest.
        let mut statement = self.db.prepare_cached(
            "SELECT f.session, p.agent, p.kind, p.no, f.path, p.start, p.bytes
             FROM words w CROSS JOIN passages p ON p.no = w.rowid CROSS JOIN files f ON f.no = p.file_no
             WHERE w.words MATCH ?1 AND (?2 IS NULL OR f.session = ?2) ORDER BY w.rowid DESC LIMIT ?3",
        )?;
        let rows = statement.query_map(params![asked, session.map(SessionId::as_str), limit], |row| {
            let (session, agent, path): (String, String, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(4)?);
            let kind: u8 = row.get(2)?;
            let number: i64 = row.get(3)?;
            let hit = Hit {
                session: SessionId(session.as_str().into()),
                agent: agent.as_str().into(),
                kind: PassageKind::ALL
                    .into_iter()
                    .find(|known| *known as u8 == kind)
                    .unwrap_or(PassageKind::Message),
                at_ms: (number >> COUNTER_BITS) * 1000,
                path: Path::new(std::ffi::OsStr::from_bytes(&path)).to_owned(),
                span: Span {
                    start: row.get::<_, i64>(5)?.cast_unsigned(),
                    bytes: row.get::<_, i64>(6)?.cast_unsigned(),
                },
            };
            Ok((number, hit))
        })?;
        rows.collect()
    }

    fn bytes(&self) -> rusqlite::Result<u64> {
        let bytes = self.db.query_row(
            "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
            [],
            |row| row.get::<_, i64>(0),
        );
        bytes.map(i64::unsigned_abs)
    }
}

/// A file with everything in it that can be found.
#[derive(Clone, Debug)]
pub struct FilePassages {
    /// Where it stands.
    pub path: PathBuf,
    /// Its session.
    pub session: SessionId,
    /// How it stood when it was read.
    pub identity: Identity,
    /// Its passages, in order.
    pub passages: Vec<Passage>,
}

/// A word as the index's own query language wants it; `None` for what has no letters and digits.
fn quoted(word: &str) -> Option<String> {
    let is_prefix = word.ends_with('*');
    let found = crate::words(word);
    let quoted: Vec<String> = found.iter().map(|word| format!("\"{word}\"")).collect();
    let star = if is_prefix { "*" } else { "" };
    (!quoted.is_empty()).then(|| format!("{}{star}", quoted.join(" AND ")))
}

fn remake(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(
        "DROP TABLE IF EXISTS words; DROP TABLE IF EXISTS passages; DROP TABLE IF EXISTS files;",
    )?;
    db.execute_batch(TABLES)?;
    db.execute("INSERT INTO words(words, rank) VALUES('hashsize', ?1)", [GATHER_BYTES])?;
    db.execute("INSERT INTO words(words, rank) VALUES('automerge', ?1)", [SEGMENTS])?;
    db.pragma_update(None, "user_version", VERSION)
}

fn clear(db: &rusqlite::Transaction<'_>, file: i64) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM words WHERE rowid IN (SELECT no FROM passages WHERE file_no = ?1)")?
        .execute([file])?;
    db.prepare_cached("DELETE FROM passages WHERE file_no = ?1")?.execute([file])?;
    Ok(())
}

fn put_file<'f>(
    db: &rusqlite::Transaction<'_>,
    file: &'f FilePassages,
    counter: &mut i64,
    entries: &mut Vec<(i64, &'f str)>,
) -> rusqlite::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let path = file.path.as_os_str().as_bytes();
    let known: Option<i64> = db
        .prepare_cached("SELECT no FROM files WHERE path = ?1")?
        .query_row([path], |row| row.get(0))
        .optional()?;
    if let Some(known) = known {
        clear(db, known)?;
    }
    let no: i64 = db
        .prepare_cached(
            "INSERT INTO files(path, session, inode, bytes, modified_ns) VALUES(?1, ?2, ?3, ?4, ?5)
             ON CONFLICT(path) DO UPDATE SET session = ?2, inode = ?3, bytes = ?4, modified_ns = ?5 RETURNING no",
        )?
        .query_row(
            params![
                path,
                file.session.as_str(),
                file.identity.inode.cast_signed(),
                file.identity.bytes.cast_signed(),
                file.identity.modified_ns
            ],
            |row| row.get(0),
        )?;
    let mut place = db.prepare_cached("INSERT OR IGNORE INTO passages VALUES(?1, ?2, ?3, ?4, ?5, ?6)")?;
    for passage in &file.passages {
        *counter += 1;
        let within = *counter & ((1 << COUNTER_BITS) - 1);
        let mut number = ((passage.at_ms.max(0) / 1000) << COUNTER_BITS) | within;
        let span = passage.span;
        loop {
            let row = params![
                number,
                no,
                &*passage.agent,
                passage.kind as u8,
                span.start.cast_signed(),
                span.bytes.cast_signed()
            ];
            if place.execute(row)? == 1 {
                break;
            }
            number += 1;
        }
        entries.push((number, &passage.words));
    }
    Ok(())
}
